"""Summaries: exact text, escaped HTML and LaTeX, frames."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest

import unbin
from tests.helpers.cases import make_case, names_of
from unbin._frames import to_frame
from unbin.datasets import simulate
from unbin.exceptions import IdentificationWarning, ParameterError
from unbin.families import get_family
from unbin.fitting.summary import Coefficients, Summary
from unbin.fitting.tabulate import _percent

TABLE = Coefficients(("intercept", "<b>$a_1$</b>"), np.array([1.0, -2e-5]), np.array([0.1, 4e-6]))
SUMMARY = Summary(
    "Aggregated GLM", (("Family:", "gaussian"), ("People:", "12")), TABLE, ("A note.",)
)


def test_text_is_exact():
    assert str(SUMMARY).splitlines() == [
        "                                Aggregated GLM",
        "=" * 78,
        "Family:                      gaussian    People:                            12",
        "=" * 78,
        "                   coef    std err          z      P>|z|     [0.025     0.975]",
        "-" * 78,
        "intercept        1.0000     0.1000     10.000      0.000     0.8040     1.1960",
        "<b>$a_1$</b>  -2.00e-05   4.00e-06     -5.000      0.000  -2.78e-05  -1.22e-05",
        "=" * 78,
        "A note.",
    ]


def test_hostile_names_are_text_everywhere():
    html = SUMMARY.to_html()
    assert "<b>" not in html
    assert "&lt;b&gt;$a_1$&lt;/b&gt;" in html
    assert r"\textless{}b\textgreater{}\$a\_1\$" in SUMMARY.as_latex()
    assert r"\<b\>\$a\_1\$\</b\>" in SUMMARY.to_markdown()
    assert SUMMARY._repr_html_() == html


def test_intervals_and_p_values():
    table = Coefficients(("a",), np.array([1.96]), np.array([1.0]), 0.9)
    assert table.p[0] == pytest.approx(0.05, abs=1e-4)
    np.testing.assert_allclose(table.interval(), [[1.96 - 1.6449, 1.96 + 1.6449]], atol=1e-4)


@pytest.mark.parametrize(("backend", "cls"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_frames(backend, cls):
    frame = to_frame(TABLE.columns(), backend)
    assert isinstance(frame, cls)
    assert list(frame.columns)[:3] == ["term", "estimate", "std_error"]
    with pytest.raises(ParameterError, match="backend"):
        to_frame(TABLE.columns(), "excel")


@pytest.mark.parametrize(
    ("share", "text"), [(0.0066, "0.66 %"), (0.13, "13 %"), (0.994, "99 %"), (0.998, "100 %")]
)
def test_shares_are_written_as_percentages(share, text):
    """A share of nearly all is 100 %, not 1e+02 %."""
    assert _percent(share) == text


def test_model_summaries():
    people = simulate(2000, 2, 60, between=0.3, random_state=0)
    frame = pd.DataFrame(people.X, columns=["age", "dose"])
    target = unbin.aggregate(people.y, people.blocks, 5).align(people.blocks)
    model = unbin.AggregatedGLM().fit(frame, target)
    text = str(model.summary())
    for wanted in ("intercept", "age", "dose", "Blocks:", "all 2 coefficients; 60 blocks", "Q/df"):
        assert wanted in text
    share = model.diagnostics_.shape_share
    assert (
        f"Information from the shape within blocks: {100 * share[0]:.2g} % on age; "
        f"{100 * share[1]:.2g} % on dose."
    ) in text
    tidy = model.tidy(level=0.9)
    assert list(tidy["term"]) == ["intercept", "age", "dose"]
    np.testing.assert_allclose(tidy["estimate"][1:], model.coef_)
    np.testing.assert_allclose(tidy["std_error"][1:], model.standard_errors_)
    np.testing.assert_allclose(
        np.column_stack([tidy["conf_low"], tidy["conf_high"]])[1:], model.conf_int(0.9)
    )
    assert list(tidy["df"]) == [57] * 3
    assert list(tidy["verdict"]) == ["", "estimated", "estimated"]
    np.testing.assert_allclose(tidy["information_shape"], [np.nan, *share])
    np.testing.assert_allclose(tidy["efficiency"], [np.nan, *model.diagnostics_.efficiency])
    glance = model.glance()
    assert bool(glance["identified"][0])
    assert bool(glance["trusted"][0])
    assert glance["n_blocks"][0] == 60


def test_coefficients_that_are_no_good_are_named():
    people = simulate(2000, 3, 60, between=0.3, random_state=0)
    people.X[:, 1] = 1.0
    people.X[:, 2] *= np.random.default_rng(0).random(2000) < 0.002  # hardly anybody has it
    target = unbin.aggregate(people.y, people.blocks, 5).align(people.blocks)
    with pytest.warns(IdentificationWarning, match="1 of 3 features are the same for everybody"):
        model = unbin.AggregatedGLM().fit(people.X, target)
    assert model.diagnostics_.verdicts == ("estimated", "not estimable", "imprecise")
    text = str(model.summary())
    assert "\nImprecise: x2.\nNot estimable: x1.\n" in text
    assert model.tidy()["verdict"].tolist() == ["", "estimated", "not estimable", "imprecise"]


def test_tails_are_those_of_student():
    table = Coefficients(("a",), np.array([2.0]), np.array([1.0]), 0.95, 10.0)
    np.testing.assert_allclose(table.interval(), [[2 - 2.228139, 2 + 2.228139]], atol=1e-6)
    assert table.p[0] == pytest.approx(0.07338803, abs=1e-7)


@pytest.mark.parametrize("level", [2, 1, 0, -0.5, float("nan"), "0.9", True])
def test_coverage_lies_between_0_and_1(level):
    people = simulate(600, 1, 20, between=0.3, random_state=0)
    target = unbin.aggregate(people.y, people.blocks, 5).align(people.blocks)
    model = unbin.AggregatedGLM().fit(people.X, target)
    draw = partial(unbin.plots.coefficients, model)
    asks = (model.summary, model.conf_int, lambda level: model.tidy(level=level))
    for ask in (*asks, lambda level: draw(level=level)):
        with pytest.raises(ParameterError, match=r"^level: must "):
            ask(level)
    with pytest.raises(ParameterError, match="level: must lie between 0 and 1, got 2; pass for"):
        model.summary(2)


def test_matching_has_no_standard_errors_and_says_so():
    people = simulate(2000, 2, 60, between=0.3, random_state=0)
    target = unbin.aggregate(people.y, people.blocks, 5).align(people.blocks)
    model = unbin.AggregatedGLM(method="matching").fit(people.X, target)
    for ask in (model.conf_int, model.summary, lambda: model.standard_errors_):
        with pytest.raises(ParameterError, match="use method='likelihood'"):
            ask()


@pytest.mark.parametrize(
    ("family", "ratio"),
    [
        ("poisson", "rates"),
        ("binomial", "odds"),
        ("gamma", "means"),
        ("ordinal", "cumulative odds"),
    ],
)
def test_ratios(family, ratio):
    case = make_case(2, kind=family, d=2)
    model = unbin.AggregatedGLM(family, n_trials=20)
    model.fit(case.X, case.release.align(names_of(case)))
    plain, ratios = model.tidy(level=0.9), model.tidy(exponentiate=True, level=0.9)
    for name in ("estimate", "conf_low", "conf_high"):
        np.testing.assert_allclose(ratios[name], np.exp(plain[name]))
    for name in ("std_error", "statistic", "p_value"):
        np.testing.assert_array_equal(ratios[name], plain[name])
    assert get_family(family).ratio == ratio


def test_a_cumulative_odds_ratio_is_that_of_higher_bins():
    case = make_case(2, kind="ordinal", d=2)
    model = unbin.AggregatedGLM("ordinal").fit(case.X, case.release.align(names_of(case)))
    at = model.predict_proba(np.array([[0.0, 0.0], [1.0, 0.0]]))
    above = at[:, ::-1].cumsum(axis=1)[:, 1]
    odds = above / (1 - above)
    assert model.tidy(True)["estimate"][0] == pytest.approx(odds[1] / odds[0], rel=1e-6)


def test_slopes_that_are_differences_have_no_ratios():
    case = make_case(2, d=2)
    model = unbin.AggregatedGLM().fit(case.X, case.release.align(names_of(case)))
    with pytest.raises(ParameterError, match="needs a log or logit link, got family 'gaussian'"):
        model.tidy(exponentiate=True)
    with pytest.raises(ParameterError, match=r"exponentiate: must be a bool, got 0\.9"):
        model.tidy(0.9)
    logged = unbin.AggregatedGLM(target_transform="log").fit(case.X, np.exp(case.y))
    np.testing.assert_allclose(logged.tidy(True)["estimate"], np.exp(logged.tidy()["estimate"]))


def test_summaries_say_what_the_covariance_is():
    case = make_case(2, d=2, n_blocks=30, size=20)
    target = case.release.align(names_of(case))
    assert "sandwich by block (CR3), Student's t" in str(unbin.AggregatedGLM().fit(case.X, target)
                                                         .summary())  # fmt: skip
    observed = unbin.AggregatedGLM().fit(case.X, case.y).summary()
    assert dict(observed.facts)["Covariance:"] == "model-based, normal"
    few = make_case(2, d=2, n_blocks=5, size=60)
    model = unbin.AggregatedGLM(alpha=0.0).fit(few.X, few.release.align(names_of(few)))
    assert dict(model.summary().facts)["Covariance:"].startswith("model-based")
