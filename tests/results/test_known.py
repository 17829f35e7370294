"""Fits with people whose outcome is known: what is said of them, and what is never written."""

import copy
import json
import re

import numpy as np
import pandas as pd
import pytest

import unbin
from unbin.exceptions import ModelFileError
from unbin.fitting import methods
from unbin.likelihood import fit_likelihood
from unbin.likelihood.infer.diagnostics import told_by
from unbin.results.persistence import keeps_counts

RNG = np.random.default_rng(3)
N_KNOWN = 60
COUNTY = pd.Series(np.repeat([f"{c:02d}" for c in range(20)], 60), name="county")
SEX = pd.Series(RNG.choice(["f", "m"], 1200), name="sex")
X = RNG.normal(size=(1200, 2)) + RNG.normal(size=(20, 2)).repeat(60, axis=0)
Y = X @ [1.0, -0.5] + RNG.normal(size=1200)
KNOWN = np.full(1200, np.nan)
KNOWN[::20] = Y[::20]
TABLES = [unbin.aggregate(Y, ids, 4).align(ids) for ids in (COUNTY, SEX)]


def fitted(*tables, y=KNOWN, disjoint=False):
    return unbin.AggregatedGLM().fit(X, unbin.join(*tables, unbin.observed(y, disjoint=disjoint)))


@pytest.fixture(scope="module")
def model():
    return fitted(*TABLES)


def page(model, **keywords):
    """Return the words of a report."""
    html = unbin.report.render_report(model, title="Known", **keywords)
    bare = re.sub(r"<svg.*?</svg>|<style.*?</style>|<[^>]+>", " ", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", bare)


# -- what they told --------------------------------------------------------------------------------


def test_the_share_of_observed_people_stands_beside_the_tables(model):
    found = model.diagnostics_
    assert found.tables == ("county", "sex", "observed")
    np.testing.assert_allclose(found.information.sum(axis=0), 1, rtol=1e-10)
    table = model.tidy()
    np.testing.assert_allclose(table["information_observed"][1:], found.information[2])
    assert list(table.columns[-3:]) == [
        "information_county", "information_sex", "information_observed"
    ]  # fmt: skip


def test_the_share_is_that_of_the_information_of_the_ordinary_model(monkeypatch):
    found = []

    def fitting(*args, **settings):
        found.append(fit_likelihood(*args, **settings))
        return found[-1]

    monkeypatch.setattr(methods, "fit_likelihood", fitting)
    joint = fitted(TABLES[0])
    columns = np.column_stack([np.ones(N_KNOWN), ((X - X.mean(axis=0)) / X.std(axis=0))[::20]])
    own, covariance = columns.T @ columns / joint.dispersion_, found[-1].model_covariance[:3, :3]
    share = np.diag(covariance @ own @ covariance) / np.diag(covariance)
    np.testing.assert_allclose(joint.diagnostics_.information[1], share[1:], rtol=0.1)


def test_no_share_where_nobody_is_known():
    plain = unbin.AggregatedGLM().fit(X, unbin.join(*TABLES))
    assert plain.diagnostics_.tables == ("county", "sex")
    assert "information_observed" not in plain.tidy()
    assert plain.n_observed_ == 0
    assert "Observed:" not in str(plain.summary())


def test_a_table_may_be_called_observed():
    assert told_by(("observed", "sex"), observed=True) == ("observed", "sex", "observed (3)")


def test_summary_glance_and_picture(model):
    text = str(model.summary())
    assert re.search(rf"Tables: +2    Observed: +{N_KNOWN} people\n", text)
    assert "Tables and observed people hold " in text
    assert model.glance()["n_observed"][0] == model.n_observed_ == N_KNOWN
    legend = unbin.plots.information(model).get_legend()
    assert len(legend.get_texts()) == 3


def test_weights_of_observed_rows_are_people():
    w = np.where(np.isnan(KNOWN), 1, 3)
    release = unbin.aggregate(Y, COUNTY, 4, weights=w)
    assert fitted(release.align(COUNTY, weights=w)).n_observed_ == 3 * N_KNOWN


# -- what is never written -------------------------------------------------------------------------


def test_counts_less_the_people_who_are_known_are_not_saved(model, tmp_path):
    """Beside the table that everybody has they would tell how many known people each bin has."""
    whole = TABLES[0].release.histogram.count.reshape(20, -1)
    kept = model.tables_[0].published
    taken = (whole.sum(axis=1) - kept.count.sum(axis=1)).sum()
    assert taken == N_KNOWN  # this is what must not be written
    path = tmp_path / "model.json"
    for public in (None, True):
        unbin.save(model, path, public=public)
        assert not keeps_counts(model, public)
        loaded = unbin.load(path)
        assert loaded.published_ is None
        assert all(table.published is None for table in loaded.tables_)
        assert loaded.n_observed_ == N_KNOWN
        assert np.array_equal(loaded.predict(X), model.predict(X))
        text = path.read_text()
        assert not any(repr(float(value)) in text for value in KNOWN[::20])


def test_copies_hold_no_counts_less_known_people(model):
    assert model.published_ is not None
    assert copy.deepcopy(model).published_ is None


def test_counts_that_nobody_was_taken_out_of_are_saved(tmp_path):
    model = fitted(*TABLES, disjoint=True)
    unbin.save(model, tmp_path / "model.json", public=True)
    assert unbin.load(tmp_path / "model.json").published_ is not None
    assert copy.deepcopy(model).published_ is not None


@pytest.mark.parametrize("public", [None, True])
def test_a_report_draws_no_counts_less_known_people(model, public):
    words = page(model, public=public)
    assert "whose outcome was published as tables, and known of 60 people" in words
    assert "This fit used the features of each person, the outcome of 60 people, and the" in words
    assert "Outcome known 60" in words
    assert words.count("without the people whose outcome is known they would tell these") == 2
    assert "The tables are those of the people whose outcome is not known" in words
    assert "the worst fit first" not in words
    assert "observed" in words
    assert "the worst fit first" in page(fitted(*TABLES, disjoint=True), public=True)


def test_few_known_people_are_masked():
    few = np.where(np.arange(1200) < 101, KNOWN, np.nan)
    words = page(fitted(*TABLES, y=few))
    assert "known of &lt;11 people" in words
    assert "Outcome known &lt;11" in words


def test_a_saved_model_whose_parts_do_not_go_together(model, tmp_path):
    path = tmp_path / "model.json"
    unbin.save(model, path)
    data = json.loads(path.read_text())
    data["fits"][0]["n_observed"] = 0
    path.write_text(json.dumps(data))
    with pytest.raises(
        ModelFileError, match=r"diagnostics\.tables: must be those of the fit, got 3"
    ):
        unbin.load(path)
    data["fits"][0]["n_observed"] = -1
    path.write_text(json.dumps(data))
    with pytest.raises(ModelFileError, match="n_observed: must not be negative, got -1"):
        unbin.load(path)
