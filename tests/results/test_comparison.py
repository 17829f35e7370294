"""Models side by side."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import unbin
from tests.helpers.cases import make_case, names_of
from unbin.exceptions import AggregatedTargetError, ParameterError

HOSTILE = "<b>|x_1|</b> & $"


@pytest.fixture(scope="module")
def people():
    """Return features by name, and the target of 60 blocks."""
    case = make_case(5, d=3, n_blocks=60, size=60)
    X = pd.DataFrame(case.X, columns=["age", HOSTILE, "dose"])
    return X, case.release.align(names_of(case))


@pytest.fixture(scope="module")
def models(people):
    """Return a model, one with more columns, and one of another family."""
    X, target = people
    return [
        unbin.AggregatedGLM().fit(X[["age"]], target),
        unbin.AggregatedGLM().fit(X, target),
        unbin.AggregatedGLM("ordinal").fit(X, target),
    ]


def test_terms_stand_side_by_side(models):
    found = unbin.compare(models)
    assert found.names == ("(1)", "(2)", "(3)")
    assert found.terms == ("intercept", "age", HOSTILE, "dose")
    for m, model in enumerate(models):
        tidy = model.tidy().set_index("term")
        for t, term in enumerate(found.terms):
            if term in tidy.index:
                assert found.estimate[t, m] == tidy["estimate"][term]
                assert found.standard_error[t, m] == tidy["std_error"][term]
                assert found.verdict[t][m] == tidy["verdict"][term]
            else:
                assert np.isnan(found.estimate[t, m])
    facts = dict(found.facts)
    assert facts["Family"] == ("gaussian", "gaussian", "ordinal")
    assert facts["People"] == ("3,600",) * 3
    assert facts["Log score"][0] == f"{-models[0].objective_:.4f}"
    assert "Covariance" not in facts
    assert found.covariance == "sandwich by block (CR3), Student's t"


def test_a_nested_model_is_tested_and_others_are_not(models):
    (nested,) = unbin.compare(models).tests
    assert (nested.larger, nested.smaller) == ("(2)", "(1)")
    assert nested.test == models[1].wald_test([HOSTILE, "dose"])
    assert str(nested).startswith(f"(2) against (1): {HOSTILE} = 0, dose = 0: F(2, ")
    assert unbin.compare(models[:1] + models[2:]).tests == ()


def test_the_largest_nested_model_is_the_one_to_test_against(people, models):
    X, target = people
    middle = unbin.AggregatedGLM().fit(X[["age", "dose"]], target)
    tests = unbin.compare({"a": models[0], "b": models[1], "c": middle}).tests
    assert [(t.larger, t.smaller) for t in tests] == [("b", "c"), ("c", "a")]


def test_columns_without_names_are_not_taken_for_each_other(people):
    X, target = people
    arrays = X.to_numpy()
    small = unbin.AggregatedGLM().fit(arrays[:, [2]], target)  # x0 there is not x0 here
    large = unbin.AggregatedGLM().fit(arrays, target)
    assert unbin.compare([small, large]).tests == ()


def test_other_people_and_a_ridge_are_no_nesting(people, models):
    X, target = people
    keep = np.isin(np.asarray(target.codes), np.arange(50))
    fewer = unbin.AggregatedGLM().fit(X[["age"]][keep], target[keep])
    ridge = unbin.AggregatedGLM(alpha=0.1).fit(X, target)
    assert unbin.compare([fewer, models[1]]).tests == ()
    assert unbin.compare([models[0], ridge]).tests == ()


def test_many_terms_are_not_all_named():
    case = make_case(5, d=8, n_blocks=60, size=40)
    X = pd.DataFrame(case.X, columns=list("abcdefgh"))
    target = case.release.align(names_of(case))
    fits = [unbin.AggregatedGLM().fit(X[cols], target) for cols in (["a"], list("abcdefgh"))]
    assert "b, c, d, e, f and 2 more = 0: F(7, " in str(unbin.compare(fits))


def test_held_out_scores(people, models):
    X, target = people
    found = unbin.compare(models[:2], X, target, cv=3)
    for model, columns, score in zip(models, (["age"], list(X)), found.scores, strict=False):
        alone = unbin.cross_validate(model, X[columns], target, 3)
        np.testing.assert_array_equal(score.score, alone.score)
    gap = found.scores[1].mean - found.scores[0].mean
    assert gap > 0
    assert "Blocks left out are predicted best by (2)" in found.notes[-1]
    assert f"the log score per person is lower by {gap:.4f} (" in found.notes[-1]
    assert dict(found.facts)["Held-out score"][0].startswith(f"{found.scores[0].mean:.4f} (")
    listed = unbin.compare(models[:2], [X[["age"]], X], target, cv=3)
    np.testing.assert_array_equal(listed.scores[0].score, found.scores[0].score)


def test_exports_are_escaped(models):
    found = unbin.compare({"<i>": models[0], "b": models[1]})
    html = found.to_html()
    assert found._repr_html_() == html
    assert "<b>" not in html
    assert "<i>" not in html
    assert "&lt;b&gt;|x_1|&lt;/b&gt; &amp; $" in html
    assert r"\<b\>\|x\_1\|\</b\> &amp; \$" in found.to_markdown()
    assert r"\textless{}b\textgreater{}\textbar{}x\_1\textbar{}" in found.as_latex()
    assert str(found) == repr(found)
    lines = str(found).splitlines()
    assert {line for line in lines if set(line) == {"="}} == {"=" * len(lines[0])}


@pytest.mark.parametrize(("backend", "cls"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_frames(models, backend, cls):
    frame = unbin.compare(models[:2]).to_frame(backend)
    assert isinstance(frame, cls)
    assert list(frame.columns) == [
        "term", "estimate (1)", "std_error (1)", "verdict (1)",
        "estimate (2)", "std_error (2)", "verdict (2)",
    ]  # fmt: skip


def test_what_is_no_good_is_marked(people):
    X, target = people
    X = X.assign(same=1.0)
    with pytest.warns(UserWarning, match="the same for everybody"):
        model = unbin.AggregatedGLM().fit(X, target)
    found = unbin.compare([model])
    assert "–‡" in str(found)
    assert "‡ not estimable." in found.notes[0]
    assert "†" not in str(found)


def test_observed_and_aggregated_models_stand_together(people, models):
    X, _ = people
    oracle = unbin.AggregatedGLM().fit(X[["age"]], X["age"] + np.sin(np.arange(len(X))))
    facts = dict(unbin.compare([oracle, models[0]]).facts)
    assert facts["Blocks"] == ("", "60")
    assert facts["Covariance"] == ("model-based, normal", "sandwich by block (CR3), Student's t")


def test_what_cannot_be_compared_is_refused(people, models):
    X, target = people
    cases = [
        ((models[0],), "models: must be a list of fitted models, got AggregatedGLM"),
        (([],), "models: must be one or more"),
        ((["a"],), r"models, \(1\): must be of class AggregatedGLM, got str"),
        ((models, X, None), None),
        ((models, [X], target), r"X: must be one, or one for each of 3 models, got 1"),
        ((models, X[["dose"]], target), "X: must have the columns the models were fitted to"),
    ]
    for args, message in cases:
        message = message or "cv: needs the people and what was published of them"
        with pytest.raises(ParameterError, match=f"^{message}"):
            unbin.compare(*args, cv=3)
    with pytest.raises(AggregatedTargetError, match=r"^target: must be an aggregated target"):
        unbin.compare(models, X, X["age"], cv=3)
    with pytest.raises(ParameterError, match=r"^cv: must be a whole number"):
        unbin.compare(models, X, target, cv=1)
