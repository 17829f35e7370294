"""What a notebook shows: tables and lists, whatever a name holds is text."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import unbin
from tests.conftest import HOSTILE
from tests.helpers.pages import Page
from tests.helpers.precincts import published, voters

KNOWN = {"table", "caption", "thead", "tbody", "tr", "th", "td", "p", "ul", "li", "strong"}


@pytest.fixture(scope="module")
def shown(study, joint, audited):
    """Return everything that a notebook shows, by kind."""
    target = study.release.align({HOSTILE[0]: study.blocks})
    y = np.where(np.arange(len(study.y)) < 50, study.y, np.nan)
    return {
        "release": study.release,
        "target": target,
        "joined": unbin.join(target, unbin.aggregate(study.y).align(["all"] * len(study.y))),
        "observed": unbin.observed(y),
        "diagnostics": joint.diagnostics_,
        "audit": audited,
        "summary": study.model.summary(),
    }


KINDS = ["release", "target", "joined", "observed", "diagnostics", "audit", "summary"]


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_clean(shown, kind):
    html = shown[kind]._repr_html_()
    page = Page(html)  # well nested
    assert page.tags <= KNOWN
    assert not [name for name, _ in page.attributes if name != "scope"]


@pytest.mark.parametrize("kind", ["release", "target", "joined", "observed"])
def test_it_says_what_the_text_says(shown, kind):
    words = " ".join(Page(shown[kind]._repr_html_()).text)
    for line in repr(shown[kind]).splitlines():
        assert all(part.strip() in words for part in line.strip().split(": ", 1))


def test_diagnostics_are_sentences_the_verdict_first(shown):
    found = shown["diagnostics"]
    assert [text for text in Page(found._repr_html_()).text if text] == list(found.sentences())


def test_an_audit_has_its_gains_and_rules(shown):
    audit = shown["audit"]
    words = Page(audit._repr_html_()).text
    assert words[0].startswith("Recommended: ")
    for table in audit.tables:
        assert table.name in words
        assert f"{table.in_table.gain.value:.3f}" in words
    assert {"Gains", "Cell rules"} <= set(words)


def test_a_fitted_model_is_its_summary(study):
    html = study.model.summary()._repr_html_()
    assert study.model._repr_html_() == html
    assert study.model._repr_mimebundle_()["text/html"] == html
    assert study.model._repr_mimebundle_()["text/plain"] == repr(study.model)
    with config_context(display="text"):
        assert not hasattr(study.model, "_repr_html_")
        assert "text/html" not in study.model._repr_mimebundle_()


def test_other_models_are_as_scikit_learn_shows_them(study):
    target = study.release.align(study.blocks)
    several = unbin.AggregatedGLM().fit(study.X, [target, target])
    for model in (unbin.AggregatedGLM(), study.matching, several):
        assert "sk-container" in model._repr_html_()
        assert "sk-container" in model._repr_mimebundle_()["text/html"]
    steps = make_pipeline(StandardScaler(), study.model)
    assert "AggregatedGLM" in steps._repr_html_()


def test_attributes_of_every_fit_can_be_listed(study):
    """scikit-learn asks for each of them when it lists or shows a model."""
    for model in (study.model, study.matching, study.oracle, unbin.AggregatedGLM()):
        assert "fit" in dir(model)
    assert not hasattr(study.matching, "standard_errors_")
    assert "standard_errors_" in dir(study.model)


def test_a_fitted_classifier_is_its_summary():
    people = voters(n_precincts=20).replace({"race": {"white": HOSTILE[0]}})
    model = unbin.AggregatedClassifier()
    assert "<style>" in model._repr_html_()  # scikit-learn's
    model.fit(people, {"precinct": published(people)}, features=["race"])
    html = model._repr_html_()
    assert html == model.summary()._repr_html_() == model._repr_mimebundle_()["text/html"]
    assert Page(html).tags <= KNOWN
