"""Other units of the target or of a feature change coefficients as they should, and no more."""

import numpy as np
import pytest

import unbin
from tests.helpers.releases import suppressed
from unbin.datasets import simulate
from unbin.families import FAMILIES, Units, get_family
from unbin.release import units
from unbin.release.units import in_units, out_of_units, units_of
from unbin.rows.design import lay_out

N_BLOCKS, SIZE = 60, 40
FACTORS = [1e-9, 1e-3, 1e5, 1e9]
KINDS = ["histogram", "values", "medians", "quartiles", "means", "both", "hidden", "noisy"]
SCALED = ["gaussian", "gamma", "ordinal"]


def people(family):
    """Features, blocks and targets that the family suits."""
    rng = np.random.default_rng(3)
    block = np.repeat([f"{b:02d}" for b in range(N_BLOCKS)], SIZE)
    X = rng.normal(size=(len(block), 2)) + 0.6 * rng.normal(size=(N_BLOCKS, 2)).repeat(SIZE, axis=0)
    eta = X @ [0.6, -0.3]
    if family == "gamma":
        return X, block, rng.gamma(2.0, np.exp(eta) / 2)
    if family in ("poisson", "negative-binomial"):
        return X, block, rng.poisson(np.exp(0.5 + eta)).astype(float)
    if family in ("binomial", "beta-binomial"):
        return X, block, rng.binomial(8, 1 / (1 + np.exp(-eta))).astype(float)
    return X, block, eta + rng.normal(size=len(block))


def publish(kind, y, block, edges):
    """Publish targets; ``edges`` are of the bins."""
    names = np.unique(block)
    by_block = np.sort(y.reshape(N_BLOCKS, SIZE), axis=1)
    if kind == "histogram":
        return unbin.aggregate(y, block, edges)
    if kind == "values":
        return unbin.Release.from_values({"block": block, "value": y})
    if kind in ("medians", "quartiles"):
        ranks = [20] if kind == "medians" else [10, 20, 30]
        table = {
            "block": np.repeat(names, len(ranks)),
            "rank": np.tile(ranks, N_BLOCKS),
            "value": by_block[:, np.array(ranks) - 1].ravel(),
            "n": np.full(N_BLOCKS * len(ranks), SIZE),
        }
        return unbin.Release.from_quantiles(table, rank="rank", n="n")
    means = {"block": names, "mean": by_block.mean(axis=1), "n": np.full(N_BLOCKS, SIZE)}
    if kind == "means":
        return unbin.Release.from_means(means, n="n")
    table = unbin.aggregate(y, block, edges).to_columns()["histogram"]
    if kind == "both":
        return unbin.aggregate(y, block, edges).combine(unbin.Release.from_means(means, n="n"))
    if kind == "hidden":
        return suppressed(unbin.aggregate(y, block, edges), 1, 4)
    noise = np.random.default_rng(0).normal(0, 1.5, len(table["count"]))
    noisy = {**table, "count": table["count"] + noise}
    return unbin.Release.from_histogram(noisy, noise_sd=1.5)


def fitted(family, method, kind, y, X, block, edges, **settings):
    model = unbin.AggregatedGLM(family, method, random_state=0, n_trials=8, **settings)
    return model.fit(X, publish(kind, y, block, edges).align(block))


def possible(family, method, kind):
    """Leave out what a family or method does not take."""
    if method == "matching":
        return family == "gaussian" and kind not in ("means", "both", "noisy")
    return not (family == "ordinal" and kind in ("medians", "quartiles", "means", "both"))


def edges_of(family, y):
    if family in ("gaussian", "gamma", "ordinal"):
        return np.concatenate([[-np.inf], np.quantile(y, [0.15, 0.4, 0.6, 0.85]), [np.inf]])
    return np.array([-1.0, 0, 1, 2, 4, 6, np.inf])


def same_verdict(found, other, slope):
    """Hold what two fits say about themselves against each other."""
    assert (found.identified, found.trusted) == (other.identified, other.trusted)
    assert found.verdicts == other.verdicts
    assert len(found.reasons) == len(other.reasons)
    for name in ("precision", "efficiency", "shape_share"):
        if getattr(other, name) is not None:
            np.testing.assert_allclose(
                getattr(found, name), getattr(other, name), rtol=1e-3, atol=1e-4, err_msg=name
            )
    for name in ("shape", "context"):
        ours, theirs = getattr(found, name), getattr(other, name)
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            np.testing.assert_allclose(ours.statistic, theirs.statistic, rtol=1e-3, err_msg=name)
            np.testing.assert_allclose(ours.p_value, theirs.p_value, rtol=1e-2, atol=1e-4)
            assert ours.df == theirs.df
    for name in ("location_coef", "location_standard_errors"):
        if getattr(other, name) is not None:
            np.testing.assert_allclose(
                getattr(found, name) / slope, getattr(other, name), rtol=1e-3, atol=1e-4
            )


def agree(model, other, slope, tolerance=1e-6):
    """Hold slopes, standard errors and verdicts of two fits against each other."""
    size = np.abs(model.coef_).max()
    np.testing.assert_allclose(other.coef_ / slope / size, model.coef_ / size, atol=tolerance)
    assert other.status_ is model.status_
    same_verdict(other.diagnostics_, model.diagnostics_, slope)
    if model.method_ == "likelihood":
        np.testing.assert_allclose(
            other.standard_errors_ / slope, model.standard_errors_, rtol=tolerance
        )
        assert other.block_sd_ / np.max(slope) == pytest.approx(model.block_sd_, rel=1e-5, abs=1e-9)


pytestmark = pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("family", "method"), [(f, "likelihood") for f in SCALED] + [("gaussian", "matching")]
)
def test_outcomes_times_a_constant(family, method, kind):
    if not possible(family, method, kind):
        return
    X, block, y = people(family)
    edges = edges_of(family, y)
    model = fitted(family, method, kind, y, X, block, edges)
    for c in FACTORS:
        other = fitted(family, method, kind, c * y, X, block, c * edges)
        slope = c if family == "gaussian" else 1.0
        agree(model, other, slope)
        np.testing.assert_allclose(
            other.predict(X[:50]) / c, model.predict(X[:50]), rtol=1e-5, atol=1e-6
        )
        if family == "gaussian":
            assert other.dispersion_ / c**2 == pytest.approx(model.dispersion_, rel=1e-5)
        np.testing.assert_allclose(other.impute() / c, model.impute(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("family", "method"),
    [("gaussian", "likelihood"), ("ordinal", "likelihood"), ("gaussian", "matching")],
)
def test_outcomes_plus_a_constant(family, method, kind):
    if not possible(family, method, kind):
        return
    X, block, y = people(family)
    edges = edges_of(family, y)
    model = fitted(family, method, kind, y, X, block, edges)
    for shift, c in [(1e6, 1.0), (50_000.0, 1e-3), (-50_000.0, 1e5)]:
        other = fitted(family, method, kind, shift + c * y, X, block, shift + c * edges)
        agree(model, other, c if family == "gaussian" else 1.0, tolerance=1e-5)


@pytest.mark.parametrize("method", ["likelihood", "matching"])
@pytest.mark.parametrize("family", list(FAMILIES))
def test_features_scaled_and_shifted(family, method):
    if method == "matching" and family not in ("gaussian", "poisson"):
        return
    X, block, y = people(family)
    edges = edges_of(family, y)
    model = fitted(family, method, "histogram", y, X, block, edges)
    for scale, shift in [([1e-9, 1e9], [0.0, 0.0]), ([1.0, 1e3], [1e4, -1e6])]:
        other = fitted(family, method, "histogram", y, X * scale + shift, block, edges)
        slope = 1 / np.array(scale)
        np.testing.assert_allclose(other.coef_ / slope, model.coef_, rtol=1e-5, atol=1e-6)
        if method == "likelihood":
            np.testing.assert_allclose(
                other.standard_errors_ / slope, model.standard_errors_, rtol=1e-5
            )
        same_verdict(other.diagnostics_, model.diagnostics_, slope)


@pytest.mark.parametrize("family", ["gaussian", "gamma"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_an_offset_is_in_the_units_of_the_predictor(family, fit_intercept):
    X, block, y = people(family)
    offset = np.random.default_rng(1).normal(size=len(y))
    y = y + offset if family == "gaussian" else y * np.exp(offset)
    settings = {"fit_intercept": fit_intercept, "random_state": 0}
    c = 1e6
    own, other = offset, (c * offset if family == "gaussian" else offset)
    shift = 0.0 if family == "gaussian" or fit_intercept else np.log(c)
    model, scaled = (
        unbin.AggregatedGLM(family, **settings).fit(
            X, unbin.aggregate(k * y, block, 6).align(block), offset=at
        )
        for k, at in ((1.0, own), (c, other + shift))
    )
    agree(model, scaled, c if family == "gaussian" else 1.0)


@pytest.mark.parametrize("family", ["gaussian", "gamma"])
def test_observed_targets_in_other_units(family):
    X, _, y = people(family)
    model = unbin.AggregatedGLM(family).fit(X, y)
    for c in FACTORS:
        other = unbin.AggregatedGLM(family).fit(X, c * y)
        slope = c if family == "gaussian" else 1.0
        np.testing.assert_allclose(other.coef_ / slope, model.coef_, rtol=1e-6)
        np.testing.assert_allclose(
            other.standard_errors_ / slope, model.standard_errors_, rtol=1e-6
        )
        same = model.objective_ * c**2 if family == "gaussian" else model.objective_ + np.log(c)
        assert other.objective_ == pytest.approx(same, rel=1e-6)


def test_a_chosen_ridge_goes_with_the_units():
    sim = simulate(1500, 12, 30, between=0.05, noise=2.0, random_state=3)
    models = [
        unbin.AggregatedGLM(alpha="held-out").fit(
            sim.X, unbin.aggregate(c * sim.y, sim.blocks, 5).align(sim.blocks)
        )
        for c in (1.0, 1e5)
    ]
    assert models[1].alpha_ * 1e10 == pytest.approx(models[0].alpha_)
    np.testing.assert_allclose(models[1].coef_ / 1e5, models[0].coef_, rtol=1e-5, atol=1e-7)
    scores = np.array([model.selection_.score for model in models])
    gap = np.abs(scores[1] - scores[0])
    # a candidate that does not converge in the few steps of a choice ends where rounding leaves it,
    # which depends on the processor: by less than its score is uncertain
    assert (gap <= 1e-6 + 0.5 * models[0].selection_.error).all()
    assert (gap <= 1e-5).sum() >= len(gap) - 1
    assert gap[models[0].selection_.chosen] <= 1e-6


def test_a_ridge_is_in_the_units_of_the_target():
    """alpha/2 ||coef||² beside nats (likelihood) or squares of the target (matching, observed)."""
    X, block, y = people("gaussian")
    c = 100.0
    for method, factor in (("likelihood", c**-2), ("matching", 1.0)):
        one, two = (
            unbin.AggregatedGLM(method=method, alpha=alpha, random_state=0).fit(
                X, unbin.aggregate(k * y, block, 6).align(block)
            )
            for k, alpha in ((1.0, 0.2), (c, 0.2 * factor))
        )
        np.testing.assert_allclose(two.coef_ / c, one.coef_, rtol=1e-5)


def test_published_edges_come_back_as_they_were():
    X, block, y = people("gaussian")
    edges = np.array([-np.inf, 0.1, 0.2, 0.7, 1.3, np.inf]) * 1e5 / 3
    model = unbin.AggregatedGLM().fit(X, unbin.aggregate(1e5 * y / 3, block, edges).align(block))
    assert set(model.published_.upper[:-1]) <= set(edges)
    release = unbin.aggregate(y, block, 7).align(block).release
    units = units_of(release, get_family("gaussian"))
    there = in_units(release, units).histogram.upper
    np.testing.assert_array_equal(out_of_units(there, units, release), release.histogram.upper)


def test_units_are_robust_to_a_few_far_values():
    values = np.concatenate([np.random.default_rng(0).normal(size=1000), [1e12]])
    release = unbin.Release.from_values({"block": ["A"] * 1001, "value": values})
    units = units_of(release, get_family("gaussian"))
    assert 0.8 < units.scale < 1.2
    assert abs(units.center) < 0.2


@pytest.mark.parametrize(("value", "expected"), [(0.0, (0.0, 1.0)), (-5.0, (-5.0, 1.0))])
def test_units_of_a_constant(value, expected):
    release = unbin.Release.from_values({"block": ["A"] * 3, "value": [value] * 3})
    units = units_of(release, get_family("gaussian"))
    assert (units.center, units.scale) == expected


def test_families_without_a_scale_keep_their_units():
    for name in ("poisson", "binomial", "negative-binomial", "beta-binomial", "ordinal"):
        assert get_family(name).units(3.0, 2.0) == Units()


def test_a_design_in_the_units_of_its_target_is_the_same_design():
    X = np.random.default_rng(0).normal(size=(6, 2))
    design = lay_out(X, np.zeros(6, dtype=np.int64), 1)
    assert design.in_units(Units(3.0, 2.0, 3.0, 2.0)) is design
    bare = lay_out(X, np.zeros(6, dtype=np.int64), 1, fit_intercept=False, offset=np.ones(6))
    changed = bare.in_units(Units(3.0, 2.0, 3.0, 2.0))
    theta = np.array([0.4, -0.2])
    np.testing.assert_allclose(changed.eta(theta / 2), (bare.eta(theta) - 3.0) / 2.0)


@pytest.mark.parametrize("seed", range(5))
def test_pooled_blocks_have_the_units_of_all_of_them(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    y, block = rng.normal(size=400) ** 3, np.repeat(np.arange(40).astype(str), 10)
    release = unbin.aggregate(y, block, 5)
    pooled = units_of(release, get_family("gaussian"))
    monkeypatch.setattr(units, "_FEW_BLOCKS", 10**9)
    alone = units_of(release, get_family("gaussian"))
    assert (pooled.center, pooled.scale) == pytest.approx((alone.center, alone.scale), rel=1e-14)
