"""Covariances and Wald tests of linear hypotheses."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

import unbin
from tests.helpers.cases import make_case, names_of
from unbin.exceptions import ParameterError
from unbin.fitting.contrasts import ContrastTest, Hypotheses, read_hypotheses, wald_test

ODD = ["age", "C(sex)[T.m]", "age:C(sex)[T.m]", "log(x) + $1, `ö`", "2"]


@pytest.fixture(scope="module")
def fitted():
    """Return a fit to a table, of columns with odd names."""
    case = make_case(3, d=5)
    frame = pd.DataFrame(case.X, columns=ODD)
    return unbin.AggregatedGLM().fit(frame, case.release.align(names_of(case)))


@pytest.fixture(scope="module")
def observed():
    """Return an ordinary Poisson regression here and in statsmodels."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(800, 3)), columns=["a", "b", "c"])
    y = rng.poisson(np.exp(0.3 + X.to_numpy() @ [0.5, 0.4, 0.0]))
    model = unbin.AggregatedGLM("poisson").fit(X, y.astype(float))
    return model, sm.GLM(y, sm.add_constant(X), family=sm.families.Poisson()).fit()


def test_the_covariance_is_what_standard_errors_are_of(fitted):
    tidy = fitted.tidy()
    np.testing.assert_allclose(np.sqrt(np.diag(fitted.cov_params())), tidy["std_error"])
    assert fitted.cov_params().shape == (6, 6)


def test_the_covariance_is_that_of_statsmodels(observed):
    model, peer = observed
    np.testing.assert_allclose(model.cov_params(), peer.cov_params(), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(
    "hypotheses", ["a = b", "a = 0", "2*a + b - c/4 = 1", ["a", "b", "c"], "a - b = 0, c = 0.1"]
)
def test_tests_are_those_of_statsmodels(observed, hypotheses):
    model, peer = observed
    ours = model.wald_test(hypotheses)
    text = hypotheses if isinstance(hypotheses, str) else ", ".join(f"{h} = 0" for h in hypotheses)
    theirs = peer.wald_test(text, use_f=False, scalar=True)
    assert ours.statistic == pytest.approx(float(theirs.statistic), rel=1e-4)
    assert ours.p_value == pytest.approx(float(theirs.pvalue), rel=1e-3)
    assert ours.df == theirs.df_denom
    assert ours.df_denominator == np.inf


def test_one_hypothesis_is_the_square_of_students_t(fitted):
    tidy = fitted.tidy().set_index("term").loc["age"]
    test = fitted.wald_test("age = 0")
    assert test.statistic == pytest.approx(tidy["statistic"] ** 2)
    assert test.p_value == pytest.approx(tidy["p_value"])
    assert (test.df, test.df_denominator) == (1, tidy["df"])


def test_several_hypotheses_are_hotellings(fitted):
    V, b, df = fitted.cov_params()[1:4, 1:4], fitted.coef_[:3], fitted.tidy()["df"][0]
    squared = b @ np.linalg.solve(V, b)
    test = fitted.wald_test(ODD[:3])
    assert test.statistic == pytest.approx(squared * (df - 2) / (3 * df))
    assert (test.df, test.df_denominator) == (3, df - 2)
    assert test.p_value == pytest.approx(stats.f.sf(test.statistic, 3, df - 2))
    np.testing.assert_allclose(fitted.wald_test(np.eye(6)[1:4]).p_value, test.p_value)


def test_hotellings_law_holds():
    # W of a covariance from ν + 1 independent scores: the reference is exact
    rng, q, df = np.random.default_rng(0), 4, 12
    p = []
    for _ in range(2000):
        z, scores = rng.normal(size=q), rng.normal(size=(df, q))
        asked = Hypotheses(np.eye(q), np.zeros(q), "")
        p.append(wald_test(asked, z, scores.T @ scores / df, list("abcd"), df).p_value)
    assert stats.kstest(p, "uniform").pvalue > 0.01
    assert 0.04 < np.mean(np.array(p) < 0.05) < 0.06


def test_names_may_hold_anything():
    cases = {
        "C(sex)[T.m] = age": [[-1, 1, 0, 0, 0]],
        "age:C(sex)[T.m] + 2*age": [[2, 0, 1, 0, 0]],
        "log(x) + $1, `ö` = 0": [[0, 0, 0, 1, 0]],
        "2 * `2` + 2*age": [[2, 0, 0, 0, 2]],
        "(age - C(sex)[T.m])/1e1": [[0.1, -0.1, 0, 0, 0]],
    }
    for text, matrix in cases.items():
        np.testing.assert_allclose(read_hypotheses(text, ODD).matrix, matrix, err_msg=text)
    read = read_hypotheses("age = -0.5, -age - 1e-1 = -(2*C(sex)[T.m] - 3)", ODD)
    np.testing.assert_allclose(read.matrix, [[1, 0, 0, 0, 0], [-1, 2, 0, 0, 0]])
    np.testing.assert_allclose(read.values, [-0.5, 3.1])
    read = read_hypotheses(["age = 3", "C(sex)[T.m] - 2.5"], ODD)
    np.testing.assert_allclose(read.values, [3, 2.5])
    assert read.text == "age = 3, C(sex)[T.m] - 2.5 = 0"


def test_hypotheses_that_repeat_each_other_count_once(fitted):
    once, twice = fitted.wald_test("age = 1"), fitted.wald_test(["age = 1", "2*age = 2"])
    assert twice.df == 1
    assert twice.p_value == pytest.approx(once.p_value)


@pytest.mark.parametrize(
    ("hypotheses", "message"),
    [
        ("agee = 0", "must name terms of tidy.., got 'agee' in 'agee = 0'; check the spelling"),
        ("__import__('os').system('ls')", "must name terms of tidy.., got '__import__'"),
        ("age*age", "must be linear in the terms, got 'age.age'; write for"),
        ("{age}", "must be linear in the terms"),
        ("{1 + 1} = age", "must be linear in the terms"),
        ("age = = 1", "must be linear in the terms"),
        ("age**2 = 1", "must be linear in the terms"),
        ("age = 0 = 1", "must be linear in the terms"),
        ("age = 0,", "must be linear in the terms"),
        ("0 = 0", "every hypothesis must be about a term, got '0 = 0'; name one"),
        ("", "must be linear in the terms"),
        (["age = 0", "age = 1"], "hypotheses must not contradict each other, got 'age = 0, age"),
        (["age", 1], "must be texts alone or numbers alone"),
        (None, "one number for each of the 6 terms"),
        (np.ones(5), "one number for each of the 6 terms of tidy.., got shape .1, 5.; pass"),
        (np.full(6, np.nan), "contrasts must be finite"),
        (object(), "must be text, names of terms or a matrix of numbers, got object"),
        ("age +" * 5000, "must have at most 10,000 characters"),
    ],
)
def test_what_is_no_hypothesis_is_refused(fitted, hypotheses, message):
    with pytest.raises(ParameterError, match=f"^wald_test: .*{message}"):
        fitted.wald_test(hypotheses)


def test_a_term_that_is_not_estimable_is_refused():
    case = make_case(3, d=2)
    X = pd.DataFrame(np.column_stack([case.X, np.ones(len(case.y))]), columns=["a", "b", "one"])
    with pytest.warns(UserWarning, match="the same for everybody"):
        model = unbin.AggregatedGLM().fit(X, case.release.align(names_of(case)))
    with pytest.raises(ParameterError, match="needs terms that are estimable, got 'one'"):
        model.wald_test(["a", "one"])
    assert model.wald_test(["a", "b"]).df == 2


def test_a_test_is_one_line_of_text_and_escaped_html():
    test = ContrastTest(3.4567, 2, 40.0, 0.0412, "a<b = 0")
    assert repr(test) == str(test) == "a<b = 0: F(2, 40) = 3.457, p = 0.0412"
    assert test._repr_html_() == "<p>a&lt;b = 0: F(2, 40) = 3.457, p = 0.0412</p>"
    assert repr(ContrastTest(3.0, 1, np.inf, 0.5)) == "chi2(1) = 3, p = 0.5"


def test_a_loaded_model_tests_alike(fitted, tmp_path):
    unbin.save(fitted, tmp_path / "model.json", public=True)
    loaded = unbin.load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.cov_params(), fitted.cov_params())
    assert loaded.wald_test(ODD[:2]) == fitted.wald_test(ODD[:2])


def test_matching_has_none():
    case = make_case(3, d=2)
    model = unbin.AggregatedGLM(method="matching").fit(case.X, case.release.align(names_of(case)))
    for ask in (model.cov_params, lambda: model.wald_test("x0")):
        with pytest.raises(ParameterError, match="use method='likelihood'"):
            ask()
