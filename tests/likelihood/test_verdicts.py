"""Verdicts: each rule decides when it should, and nothing else does."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import unbin
from tests.helpers.cases import make_case, names_of
from unbin._watching import Status
from unbin.datasets import simulate
from unbin.exceptions import SpecificationWarning
from unbin.families import get_family
from unbin.likelihood import fit_likelihood
from unbin.likelihood.infer import specification
from unbin.likelihood.infer.diagnostics import diagnose, efficiency
from unbin.likelihood.infer.estimate import goodness
from unbin.likelihood.infer.specification import Extension
from unbin.likelihood.infer.verdicts import judge, outcome_sd, worst_extension
from unbin.release.aggregation import aggregate
from unbin.rows.design import lay_out

GAUSSIAN = get_family("gaussian")
NOTHING = specification.Test(1.0, 4.0, 50.0, 0.5)


@pytest.fixture(scope="module")
def case():
    return make_case(15, n_blocks=60)


@pytest.fixture(scope="module")
def fit(case):
    """A fit that nothing speaks against."""
    found = fit_likelihood(case.design, [case.release], GAUSSIAN)
    return replace(found, specification=replace(found.specification, shape=NOTHING, extensions=()))


def judged(case, fit, d=4):
    return judge(case.design, GAUSSIAN, fit, d)


# -- coefficients ----------------------------------------------------------------------------------


def test_all_is_well(case, fit):
    found = judged(case, fit)
    assert found.coefficients == ("estimated",) * 4
    assert not found.why
    assert not found.reasons
    said = diagnose(case.design, (), (case.release,), GAUSSIAN, fit, 4)
    assert said.identified
    assert said.trusted
    assert said.reason == (
        "estimated: all 4 coefficients; 60 blocks, no specification test speaks against the fit"
    )


@pytest.mark.parametrize(("share", "verdict"), [(0.199, "estimated"), (0.201, "imprecise")])
def test_imprecise_is_an_error_above_a_fifth_of_the_outcomes_spread(case, fit, share, verdict):
    spread = outcome_sd(case.design, GAUSSIAN, fit)
    assert spread == pytest.approx(case.y.std(), rel=0.05)
    covariance = fit.covariance.copy()
    covariance[2, 2] = (share * spread) ** 2
    found = judged(case, replace(fit, covariance=covariance))
    assert found.coefficients == ("estimated", verdict, "estimated", "estimated")
    assert found.precision[1] == pytest.approx(share)
    assert not found.reasons  # imprecise is not wrong


def test_an_odds_ratio_has_to_be_known_to_a_factor_of_2():
    """The error of a rare feature's slope is small beside sd(outcome)/sd(feature)."""
    rng = np.random.default_rng(0)
    block = np.repeat([f"{b:02d}" for b in range(60)], 100)
    share = rng.random((3, 60)).repeat(100, axis=1)
    rare, usual = rng.random((2, 6000)) < [0.06 * share[0], share[1]]
    X = np.column_stack([rare, usual, rng.normal(size=6000) + 2 * share[2]])
    y = (rng.random(6000) < 1 / (1 + np.exp(-X @ [0.5, -0.5, 0.5]))).astype(float)
    table = unbin.aggregate(y, block, [-1, 0, 1]).align(block)
    model = unbin.AggregatedGLM("binomial").fit(X, table)
    said, error = model.diagnostics_, model.standard_errors_
    assert said.verdicts == ("imprecise", "estimated", "estimated")
    assert said.precision[0] < 0.2
    factor = np.exp(1.96 * error[0])
    assert factor > 2
    assert (
        f"imprecise: 1 of 3 coefficients, x0 (effect known to a factor of {factor:.1f}); 60 bl"
        in (said.reason)
    )
    assert np.exp(1.96 * error[1]) < 2  # from 0 to 1
    assert np.exp(1.96 * error[2] * 2 * X[:, 2].std()) < 2  # over two standard deviations


def test_the_size_of_a_coefficient_has_no_part_in_it(case, fit):
    for factor in (0.0, 1e4):
        theta = np.append(fit.theta[:1], factor * fit.theta[1:])
        found = judged(case, replace(fit, theta=theta))
        assert found.coefficients == ("estimated",) * 4


def test_a_precise_null_is_estimated():
    flat = make_case(17, slope=np.zeros(4))
    fit = fit_likelihood(flat.design, [flat.release], GAUSSIAN)
    assert judged(flat, fit).coefficients == ("estimated",) * 4


def test_one_block_estimates_nothing():
    one = make_case(15, n_blocks=1, size=2_000)
    fit = fit_likelihood(one.design, [one.release], GAUSSIAN)
    said = diagnose(one.design, (), (one.release,), GAUSSIAN, fit, 4)
    assert said.verdicts == ("not estimable",) * 4
    assert said.reason.startswith("not estimable: a single block does not tell the coefficients")
    assert not said.identified
    assert not said.trusted
    assert said.reasons[0] == said.reason


@pytest.mark.parametrize("kind", ["gaussian", "gamma", "negative-binomial", "beta-binomial"])
def test_two_shared_bins_leave_every_dispersion_free(kind):
    case = make_case(16)
    y = np.round(np.exp(0.5 * case.y)) if "binomial" in kind else np.exp(case.y)
    family = get_family(kind, n_trials=40)
    release = aggregate(np.minimum(y, 40), names_of(case), bins=[-1, 2, np.inf])
    release = release.align(names_of(case)).release
    fit = fit_likelihood(case.design, [release], family)
    assert "only in units of the noise" in judge(case.design, family, fit, 4).why


def test_a_slope_that_only_the_intercept_holds_is_not_estimable(case, fit):
    """All people with a rare feature are beyond the last edge: they can go further, and nothing
    changes as long as the intercept makes up for the mean of the feature."""
    flat = np.zeros(len(fit.information))
    flat[:2] = [1.0, 5.0]
    flat /= np.linalg.norm(flat)
    project = np.eye(len(flat)) - np.outer(flat, flat)
    information = project @ fit.information @ project
    found = judged(case, replace(fit, information=information))
    assert "does not change what was published" in found.why
    assert found.coefficients == ("not estimable", *["estimated"] * 3)


# -- the fit ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_blocks", "trusted"), [(17, False), (18, True)])
def test_three_blocks_per_coefficient_are_needed(case, fit, n_blocks, trusted):
    """Four slopes, an intercept and a scale: 18 blocks."""
    found = judged(case, replace(fit, n_blocks=n_blocks))
    assert (not found.reasons) is trusted
    assert trusted or "17 blocks are too few for 4 slopes, at least 18" in found.reasons[0]
    assert found.coefficients == ("estimated",) * 4


def test_a_fit_has_to_converge(case, fit):
    (reason,) = judged(case, replace(fit, status=Status.MAX_ITER)).reasons
    assert "did not converge" in reason


@pytest.mark.parametrize(("p_value", "trusted"), [(0.051, True), (0.049, False), (np.nan, True)])
def test_the_shape_test_decides_at_5_percent(case, fit, p_value, trusted):
    tests = replace(fit.specification, shape=replace(NOTHING, p_value=p_value))
    reasons = judged(case, replace(fit, specification=tests)).reasons
    assert (not reasons) is trusted
    if not trusted:
        assert "blocks probably differ for reasons related to the features" in reasons[0]
        assert "try contextual=True or more tables" in reasons[0]
        wrong = replace(tests, extensions=(Extension(0, "scale", 1e-3, np.zeros(4)),))
        reasons = judged(case, replace(fit, specification=wrong)).reasons
        assert "the family is wrong, or blocks differ for reasons related to the feat" in reasons[0]
        assert "try family='ordinal', robust=True, curved effects or more tables" in reasons[0]
    assert (not judged(case, replace(fit, specification=tests, levels="why")).reasons) is trusted


@pytest.mark.parametrize(
    ("p_value", "shift", "told"),
    [(0.0049, 1.01, True), (0.0051, 1.01, False), (0.0049, 0.99, False)],
)
def test_an_extension_decides_at_1_percent_over_all_if_it_moves_a_slope(
    case, fit, p_value, shift, told
):
    extensions = (
        Extension(2, "curvature", p_value, np.array([0.0, -shift, 0.0, 0.0])),
        Extension(0, "scale", 0.5, np.full(4, 3.0)),
    )
    assert (worst_extension(extensions) is not None) is told
    tests = replace(fit.specification, extensions=extensions)
    reasons = judged(case, replace(fit, specification=tests)).reasons
    assert len(reasons) == told
    if told:
        assert "feature 2 is curved (p = 0.0049), which would move a slope by 1.0" in reasons[0]


def test_the_worst_extension_is_named():
    moves = np.array([2.0])
    first, second = Extension(0, "scale", 1e-4, moves), Extension(1, "scale", 1e-6, moves)
    assert worst_extension((first, second)) is second


@pytest.mark.parametrize(("shift", "trusted"), [(0.9, True), (1.1, False)])
def test_of_several_tables_levels_have_to_move_a_slope(case, fit, shift, trusted):
    tests = replace(fit.specification, shape=replace(NOTHING, p_value=1e-6))
    moved = fit.theta.copy()
    moved[3] += shift * np.sqrt(fit.covariance[3, 3])
    joint = replace(
        fit,
        tables=(fit.first, fit.first),
        specification=tests,
        location=replace(fit.location, theta=moved),
    )
    assert (not judged(case, joint).reasons) is trusted


def worse(fit):
    """Return a fit whose blocks differ fifty times as much from it."""
    table = replace(fit.first, block_misfit=50 * fit.first.block_misfit)
    found = goodness(table.block_misfit, table.block_df, fit.goodness.df)
    return replace(fit, tables=(table,), goodness=found)


def test_misfit_does_not_decide(case, fit):
    said = diagnose(case.design, (), (case.release,), GAUSSIAN, worse(fit), 4)
    assert said.goodness_of_fit.p_value < 1e-6
    assert said.trusted


def test_a_slope_that_diverged():
    """It makes standard errors look small beside the coefficients."""
    sim = simulate(3000, 2, 60, family="poisson", between=0.3, coef=[0.5, -0.3], random_state=0)
    target = unbin.aggregate(sim.y, sim.blocks, [-1.0, 0, 1, 2, 4, np.inf]).align(sim.blocks)
    design, family = lay_out(sim.X, target.codes, len(target.release)), get_family("poisson")
    fit = fit_likelihood(design, [target.release], family)
    assert not judge(design, family, fit, 2).why
    found = judge(design, family, replace(fit, theta=fit.theta + np.array([0.0, 0.0, -18.0])), 2)
    assert "a slope diverged" in found.why
    assert found.coefficients == ("estimated", "not estimable")
    assert any("some features separate the outcomes" in reason for reason in found.reasons)


# -- what is wrong is seen -------------------------------------------------------------------------


def skewed(seed=0, n_blocks=200):
    """Lognormal features and exponential noise: a Gaussian reads slopes off the histograms."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_blocks), 50)
    X = rng.lognormal(size=(len(codes), 1)) + 0.3 * rng.normal(size=(n_blocks, 1))[codes]
    y = 0.5 * X[:, 0] + 2 * rng.exponential(size=len(codes))
    names = np.char.zfill(codes.astype(str), 3)
    return X, unbin.aggregate(y, names, 8).align(names)


def test_slopes_read_off_a_wrong_shape_are_not_shown_and_levels_are_right():
    X, target = skewed()
    with pytest.warns(SpecificationWarning, match="levels and shapes of the blocks' histograms"):
        full = unbin.AggregatedGLM(robust=False).fit(X, target)
    said = full.diagnostics_
    assert said.identified
    assert not said.trusted
    assert said.shape.p_value < 1e-3
    assert abs(full.coef_[0] - 0.5) > 3 * full.standard_errors_[0]
    assert abs(said.location_coef[0] - 0.5) < 3 * said.location_standard_errors[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpecificationWarning)
        model, asked = (unbin.AggregatedGLM(robust=r).fit(X, target) for r in ("auto", True))
    np.testing.assert_array_equal(model.coef_, asked.coef_)
    assert abs(model.coef_[0] - 0.5) < 3 * model.standard_errors_[0]
    assert "shape test" not in " ".join(model.diagnostics_.reasons)
    assert (
        "because the family is wrong, and shapes tell other slopes (shape test, p = "
        in " ".join(str(model.summary()).split())
    )
    np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_)


def test_right_models_are_trusted():
    trusted = 0
    for seed in range(30):
        sim = simulate(2000, 2, 40, between=0.3, random_state=seed)
        target = unbin.aggregate(sim.y, sim.blocks, 6).align(sim.blocks)
        model = unbin.AggregatedGLM().fit(sim.X, target)
        trusted += model.diagnostics_.trusted
    assert trusted >= 26


def test_efficiency_grows_with_bins():
    values = []
    for bins in (3, 20):
        case = make_case(14, bins=bins, n_blocks=80)
        fit = fit_likelihood(case.design, [case.release], GAUSSIAN)
        values.append(efficiency(case.design, GAUSSIAN, fit))
    assert values[0].mean() < values[1].mean()
    assert (values[1] > 0.1).all()
    assert (values[1] < 1).all()


# -- the outcome's spread --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["histogram", "means", "medians", "several means"])
def test_the_spread_of_the_outcome_whatever_was_published(kind):
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(40), 50)
    X = rng.normal(size=(2000, 1)) + rng.normal(size=(40, 1))[codes]
    y = 3 * (X[:, 0] + rng.normal(size=2000))
    names, other = np.char.zfill(codes.astype(str), 2), np.digitize(X[:, 0], [-1, 0, 1]).astype(str)

    def means(ids):
        found, inverse = np.unique(ids, return_inverse=True)
        n = np.bincount(inverse)
        table = {"block": found, "mean": np.bincount(inverse, y) / n, "n": n}
        return unbin.Release.from_means(table, n="n").align(ids)

    target = {
        "histogram": lambda: unbin.aggregate(y, names, 8).align(names),
        "means": lambda: means(names),
        "several means": lambda: unbin.join(means(names), means(other)),
        "medians": lambda: unbin.Release.from_quantiles(
            {
                "block": np.unique(names),
                "rank": np.full(40, 25),
                "value": np.sort(y.reshape(40, 50), axis=1)[:, 24],
                "n": np.full(40, 50),
            },
            rank="rank",
            n="n",
        ).align(names),
    }[kind]()
    model = unbin.AggregatedGLM().fit(X, target)
    spread = model.standard_errors_[0] * X.std() / model.diagnostics_.precision[0]
    # of means alone the spread is that of the noise, or between blocks if that is larger
    assert (0.6 if "means" in kind else 0.9) * y.std() < spread < 1.1 * y.std()


@pytest.mark.filterwarnings("ignore::unbin.exceptions.SpecificationWarning")
@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
def test_a_ridge_makes_no_fit_one_to_be_trusted():
    X, target = skewed()
    said = [unbin.AggregatedGLM(alpha=a).fit(X, target).diagnostics_ for a in (0.0, 0.01, 1.0)]
    shape, reasons = ([getattr(each, name) for each in said] for name in ("shape", "reasons"))
    np.testing.assert_allclose([each.p_value for each in shape[1:]], shape[0].p_value, rtol=0.05)
    assert all(each and len(each) == len(reasons[0]) for each in reasons)


def test_that_nothing_was_tested_is_said():
    rng = np.random.default_rng(0)
    block = np.repeat([f"{b:02d}" for b in range(40)], 30)
    X = rng.normal(size=(1200, 1)) + rng.normal(size=40).repeat(30)[:, None]
    y = X[:, 0] + rng.normal(size=1200)
    table, half = unbin.aggregate(y, block, bins=6), np.arange(1200) % 2 == 0
    surveyed = table.align(block[half], weights=np.full(600, 2.0), weighting="survey")
    found = unbin.AggregatedGLM("gaussian").fit(X[half], surveyed).diagnostics_
    assert found.reason == "estimated: the coefficient; 40 blocks, the specification was not tested"
    found = unbin.AggregatedGLM("gaussian").fit(X, table.align(block)).diagnostics_
    assert found.reason.endswith("no specification test speaks against the fit")


def test_medians_show_no_shape_and_are_tested_for_the_rest():
    rng = np.random.default_rng(0)
    block = np.repeat([f"{b:02d}" for b in range(40)], 30)
    X = rng.normal(size=(1200, 1)) + rng.normal(size=40).repeat(30)[:, None]
    y = X[:, 0] + rng.normal(size=1200)
    medians = {"block": np.unique(block), "n": np.full(40, 30), "quantile": np.full(40, 0.5)}
    medians["value"] = np.median(y.reshape(40, 30), axis=1)
    medians = unbin.Release.from_quantiles(medians).align(block)
    found = unbin.AggregatedGLM("gaussian").fit(X, medians).diagnostics_
    assert np.isnan(found.shape.p_value)
    assert [each.kind for each in found.extensions] == ["curvature", "scale"]
    assert "no specification test speaks against the fit" in found.reason
    assert found.reason.endswith("does not tell the shape of the outcome, which was not tested")
