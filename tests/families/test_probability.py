"""Families as probability models; every test runs over the whole registry."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import expit, log_ndtr, logsumexp
from scipy.stats import nbinom

from unbin.exceptions import ParameterError
from unbin.families import (
    FAMILIES,
    BetaBinomial,
    Binomial,
    BregmanFamily,
    Family,
    Gamma,
    Gaussian,
    NegativeBinomial,
    Ordinal,
    Poisson,
    counts,
    gamma,
    get_family,
)
from unbin.families.counts import long_bins
from unbin.families.elementary import exp_below_one
from unbin.families.normal import normal_bins
from unbin.families.ordinal import logistic_bins

INF = np.inf
SIGMA, DISPERSION, OVERDISPERSION, TRIALS = 0.7, 0.6, 0.15, 12


@dataclass(frozen=True)
class Case:
    """A family, a partition of its domain, parameters, and scipy's law for a linear predictor."""

    family: Family
    lower: np.ndarray
    upper: np.ndarray
    nuisance: np.ndarray
    eta: np.ndarray

    def law(self, eta):
        family, mean = self.family, self.family.inverse_link(np.asarray(eta, float))
        share, w = expit(eta), OVERDISPERSION
        return {
            "gaussian": lambda: stats.norm(eta, SIGMA),
            "poisson": lambda: stats.poisson(mean),
            "binomial": lambda: stats.binom(TRIALS, share),
            "gamma": lambda: stats.gamma(1 / DISPERSION, scale=mean * DISPERSION),
            "negative-binomial": lambda: stats.nbinom(1 / DISPERSION, 1 / (1 + DISPERSION * mean)),
            "beta-binomial": lambda: stats.betabinom(TRIALS, share / w, (1 - share) / w),
            "ordinal": lambda: stats.logistic(eta),
        }[family.name]()

    @property
    def below(self):
        """Where the distribution function is to be read for the lower ends of bins."""
        return self.lower - 1 if self.family.domain.integer else self.lower

    def bins(self, eta=None, nuisance=None):
        eta = self.eta if eta is None else eta
        nuisance = self.nuisance if nuisance is None else nuisance
        return self.family.bins(eta, self.lower, self.upper, nuisance)


def make_case(family: Family) -> Case:
    eta = np.linspace(-2.5, 2.5, 23)
    nuisance = {
        "log_sigma": np.log(SIGMA),
        "log_dispersion": np.log(DISPERSION),
        "log_overdispersion": np.log(OVERDISPERSION),
    }
    values = np.array([nuisance[name] for name in family.nuisance_names])
    if family.domain.integer:
        lower = np.array([0.0, 1, 2, 5, 9])
        upper = np.append(lower[1:] - 1, family.domain.high)
    else:
        inner = np.array([-2.0, -0.5, 0.1, 0.1001, 1.0, 3.0])
        inner = np.exp(inner) if family.domain.low == 0 else inner
        edges = np.concatenate([[family.domain.low], inner, [INF]])
        lower, upper = edges[:-1], edges[1:]
    if family.free_shape:
        values = lower[1:]
    return Case(family, lower, upper, values, eta)


ALL = [get_family(name, n_trials=TRIALS) for name in FAMILIES]


@pytest.fixture(params=ALL, ids=lambda family: family.name)
def case(request):
    return make_case(request.param)


def test_probabilities_of_a_partition_sum_to_one(case):
    model = case.bins()
    np.testing.assert_allclose(model.probability.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(model.d_eta.sum(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(model.d_nuisance.sum(axis=2), 0, atol=1e-12)
    assert model.d_nuisance.shape == (len(case.family.nuisance_names), 23, len(case.lower))


def test_probabilities_agree_with_scipy(case):
    law = case.law(case.eta[:, None])
    expected = law.cdf(case.upper) - law.cdf(case.below)
    np.testing.assert_allclose(case.bins().probability, expected, rtol=1e-9, atol=1e-12)


def central(function, at, step=1e-4):
    """Differentiate to fourth order."""
    near = function(at + step) - function(at - step)
    far = function(at + 2 * step) - function(at - 2 * step)
    return (8 * near - far) / (12 * step)


def test_derivatives_of_bins(case):
    model = case.bins()
    numeric = central(lambda eta: case.bins(eta).probability, case.eta)
    np.testing.assert_allclose(model.d_eta, numeric, rtol=1e-7, atol=1e-10)
    for j in range(len(case.family.nuisance_names)):
        unit = np.eye(len(case.nuisance))[j]
        numeric = central(
            lambda t, unit=unit: case.bins(nuisance=case.nuisance + t * unit).probability, 0.0
        )
        np.testing.assert_allclose(model.d_nuisance[j], numeric, rtol=1e-7, atol=1e-10)


def test_derivatives_stay_right_in_relative_terms_in_the_tails(case):
    eta = np.array([-9.0, 9.0]) if case.family.name != "gaussian" else np.array([-14.0, 14.0])
    model = case.bins(eta)
    seen = (model.probability > 1e-280) & (model.probability < 0.9)
    with np.errstate(divide="ignore", invalid="ignore"):
        numeric = central(lambda t: np.log(case.bins(t).probability), eta)
    got = model.d_eta[seen] / model.probability[seen]
    np.testing.assert_allclose(got, numeric[seen], rtol=1e-6, atol=1e-8)
    for j in range(len(case.family.nuisance_names)):
        with np.errstate(divide="ignore", invalid="ignore"):
            numeric = central(lambda t: np.log(case.bins(eta, case.nuisance + t).probability), 0.0)
        got = model.d_nuisance[j][seen] / model.probability[seen]
        np.testing.assert_allclose(got, numeric[seen], rtol=1e-6, atol=1e-8)


def test_far_tails_of_real_numbers_agree_with_logarithms_of_scipy(case):
    if case.family.domain.integer:
        pytest.skip("see the next test")
    edge, eta = {
        "gaussian": (0.0, 25 * SIGMA * np.array([-1.0, 1])),
        "gamma": (1.0, np.array([-5.0, 30])),
        "ordinal": (0.0, np.array([-30.0, 30])),
    }[case.family.name]
    nuisance = np.array([edge]) if case.family.free_shape else case.nuisance
    lower, upper = np.array([-INF, edge]), np.array([edge, INF])
    q = case.family.bins(eta, lower, upper, nuisance).probability
    law = case.law(eta)
    np.testing.assert_allclose(np.log(q[:, 0]), law.logcdf(edge), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(np.log(q[:, 1]), law.logsf(edge), rtol=1e-11, atol=1e-12)


def test_far_tails_of_integers_agree_with_logarithms_of_scipy(case):
    if not case.family.domain.integer:
        pytest.skip("see the test before")
    # scipy takes the probability of a success, which loses digits near 1
    bounded = np.isfinite(case.family.domain.high)
    eta = np.array([-30.0, 2.0] if bounded else [-9.0, 6.0])
    q = case.family.bins(eta, np.array([4.0]), np.array([6.0]), case.nuisance).probability
    expected = [logsumexp(case.law(value).logpmf(np.arange(4, 7))) for value in eta]
    np.testing.assert_allclose(np.log(q[:, 0]), expected, rtol=1e-11)
    if bounded:
        mirror = np.array([TRIALS - 6.0]), np.array([TRIALS - 4.0])
        mirrored = case.family.bins(-eta, *mirror, case.nuisance).probability
        np.testing.assert_allclose(mirrored, q, rtol=1e-12)


def test_narrow_bins_are_density_times_width(case):
    if case.family.domain.integer:
        pytest.skip("integers have no narrow bins")
    eta, width, centre = np.array([-6.0, 0.2, 6.0]), 1e-9, 1.3
    edges = np.array([-INF, centre - width / 2, centre + width / 2, INF])
    nuisance = edges[1:-1] if case.family.free_shape else case.nuisance
    model = case.family.bins(eta, edges[:-1], edges[1:], nuisance)
    width = edges[2] - edges[1]
    density = case.family.density(np.array([centre]), eta, nuisance)
    np.testing.assert_allclose(model.probability[:, 1], density.density[:, 0] * width, rtol=1e-8)
    np.testing.assert_allclose(model.d_eta[:, 1], density.d_eta[:, 0] * width, rtol=1e-7)
    np.testing.assert_allclose(
        model.d_nuisance[:, :, 1], density.d_nuisance[:, :, 0] * width, rtol=1e-7
    )


def test_means_within_bins(case):
    eta = case.eta[::4]
    got = case.family.bin_means(eta, case.lower, case.upper, case.nuisance)
    assert ((got >= case.lower) & (got <= case.upper)).all()
    for i, value in enumerate(eta):
        law = case.law(value)
        for k in range(len(case.lower)):
            low, high = case.lower[k], case.upper[k]
            if case.family.domain.integer:
                j = np.arange(low, min(high, 3000) + 1)
                expected = (law.pmf(j) * j).sum() / law.pmf(j).sum()
            else:
                mean, far = law.mean(), 40 * law.std()
                low, high = max(low, min(high, mean) - far), min(high, max(low, mean) + far)
                mass, moment = (
                    integrate.quad(f, low, high, epsabs=0, limit=200)[0]
                    for f in (law.pdf, lambda y, law=law: y * law.pdf(y))
                )
                expected = moment / mass
            assert got[i, k] == pytest.approx(expected, rel=1e-6, abs=1e-7)


def test_means_within_bins_are_finite_where_nothing_is_left(case):
    eta = np.array([-600.0, -200, 200, 600])
    got = case.family.bin_means(eta, case.lower, case.upper, case.nuisance)
    assert np.isfinite(got).all()
    assert ((got >= case.lower) & (got <= case.upper)).all()


def test_extreme_predictors_give_finite_numbers(case):
    model = case.bins(np.array([-1e4, -700.0, 700.0, 1e4]))
    for values in (model.probability, model.d_eta, model.d_nuisance):
        assert np.isfinite(values).all()
    np.testing.assert_allclose(model.probability.sum(axis=1), 1, atol=1e-12)


def test_edges_row_by_row_equal_shared_edges(case):
    rows = [np.tile(edges, (len(case.eta), 1)) for edges in (case.lower, case.upper)]
    shared, own = case.bins(), case.family.bins(case.eta, *rows, case.nuisance)
    np.testing.assert_array_equal(own.probability, shared.probability)
    np.testing.assert_array_equal(own.d_eta, shared.d_eta)
    np.testing.assert_array_equal(own.d_nuisance, shared.d_nuisance)


def test_empty_bins_have_probability_zero(case):
    if case.family.free_shape:
        pytest.skip("the bins of all blocks are the same, there is no padding")
    lower, upper = np.append(case.lower, [1.0, INF]), np.append(case.upper, [0.0, -INF])
    padded = case.family.bins(case.eta, lower, upper, case.nuisance)
    model = case.bins()
    np.testing.assert_array_equal(padded.probability[:, :-2], model.probability)
    np.testing.assert_array_equal(padded.d_eta[:, :-2], model.d_eta)
    assert not padded.probability[:, -2:].any()
    assert not padded.d_eta[:, -2:].any()
    assert not padded.d_nuisance[:, :, -2:].any()
    assert np.isfinite(case.family.bin_means(case.eta, lower, upper, case.nuisance)).all()


def test_bins_need_not_touch(case):
    if case.family.free_shape:
        pytest.skip("thresholds cut the whole line")
    model = case.bins()
    some = case.family.bins(case.eta, case.lower[1::2], case.upper[1::2], case.nuisance)
    np.testing.assert_allclose(some.probability, model.probability[:, 1::2], rtol=1e-13)
    last = case.family.bins(case.eta, case.lower[-1:], case.upper[-1:], case.nuisance)
    np.testing.assert_allclose(last.probability, model.probability[:, -1:], rtol=1e-12)
    np.testing.assert_allclose(last.d_nuisance, model.d_nuisance[:, :, -1:], rtol=1e-9, atol=1e-15)


def test_mean_and_variance_agree_with_scipy(case):
    law, family = case.law(case.eta), case.family
    np.testing.assert_allclose(family.inverse_link(case.eta), law.mean(), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(family.variance(case.eta, case.nuisance), law.var(), rtol=1e-10)
    np.testing.assert_allclose(
        family.mean_derivative(case.eta), central(family.inverse_link, case.eta), rtol=1e-8
    )
    np.testing.assert_allclose(family.link(family.inverse_link(case.eta)), case.eta, atol=1e-12)
    ends = np.clip([family.domain.low, family.domain.high], -9, 9)
    assert np.isfinite(family.link(family.interior(ends))).all()


def test_density_agrees_with_scipy_and_its_derivatives(case):
    y = np.array([0.0, 1.0, 2.0, 7.0])
    law, family = case.law(case.eta[:, None]), case.family
    expected = law.pmf(y) if family.domain.integer else law.pdf(y)
    model = family.density(y, case.eta, case.nuisance)
    np.testing.assert_allclose(model.density, expected, rtol=1e-9, atol=1e-300)
    numeric = central(lambda eta: family.density(y, eta, case.nuisance).density, case.eta)
    np.testing.assert_allclose(model.d_eta, numeric, rtol=1e-7, atol=1e-10)
    for j in range(len(family.nuisance_names)):
        numeric = central(lambda t: family.density(y, case.eta, case.nuisance + t).density, 0.0)
        np.testing.assert_allclose(model.d_nuisance[j], numeric, rtol=1e-7, atol=1e-10)


def test_start_matches_mean_and_variance(case):
    family, eta = case.family, np.array([0.7])
    mean, variance = family.inverse_link(eta)[0], family.variance(eta, case.nuisance)[0]
    start = family.start_nuisance(mean, variance)
    assert start.shape == (len(family.nuisance_names),)
    if family.nuisance_names:
        np.testing.assert_allclose(family.variance(eta, start), variance, rtol=1e-9)
    for odd in ((mean, 0.0), (0.0, 1.0), (mean, 1e12)):
        assert np.isfinite(family.start_nuisance(*odd)).all()


def test_families_pickle(case):
    assert pickle.loads(pickle.dumps(case.family)) == case.family


def test_only_exponential_families_have_a_divergence():
    matching = {name for name, family in FAMILIES.items() if issubclass(family, BregmanFamily)}
    assert matching == {"gaussian", "poisson", "binomial"}
    assert not hasattr(Gamma, "divergence")


def test_dispersion_to_zero_is_the_simpler_family():
    eta, none = np.linspace(-2, 3, 9), np.zeros(0)
    lower, upper = np.array([0.0, 1, 4, 9]), np.array([0.0, 3, 8, INF])
    counts = NegativeBinomial().bins(eta, lower, upper, np.array([-30.0]))
    expected = Poisson().bins(eta, lower, upper, none)
    np.testing.assert_allclose(counts.probability, expected.probability, rtol=1e-8)
    trials = BetaBinomial(TRIALS).bins(eta, lower, upper, np.array([-30.0]))
    expected = Binomial(TRIALS).bins(eta, lower, upper, none)
    np.testing.assert_allclose(trials.probability, expected.probability, rtol=1e-8)


@pytest.mark.parametrize("dispersion", [1e-4, 0.01, 1.0, 30.0])
def test_gamma_over_dispersions(dispersion):
    eta, shape = np.array([-1.0, 0.0, 0.5]), 1 / dispersion
    law = stats.gamma(shape, scale=np.exp(eta)[:, None] / shape)
    edges = law.ppf([1e-9, 0.01, 0.3, 0.6, 0.99])
    edges = np.hstack([np.zeros((3, 1)), edges, np.full((3, 1), INF)])
    lower, upper, at = edges[:, :-1], edges[:, 1:], np.log(dispersion)
    model = Gamma().bins(eta, lower, upper, np.array([at]))
    expected = [1e-9, 0.01 - 1e-9, 0.29, 0.3, 0.39, 0.01]
    np.testing.assert_allclose(model.probability, np.tile(expected, (3, 1)), rtol=1e-7)
    numeric = central(
        lambda t: Gamma().bins(eta, lower, upper, np.array([t])).probability, at, step=1e-3
    )
    np.testing.assert_allclose(model.d_nuisance[0], numeric, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("shape", [1e-8, 0.02, 0.7, 1.0, 4.0, 60.0, 1e3, 1e5])
def test_the_table_of_gamma_tails_is_what_sums_and_fractions_say(shape):
    law = gamma.law_of(shape)
    panels = np.linspace(-law.below, len(law.powers) - law.below, 4001) / law.per_unit
    near = [np.nextafter(law.turn, INF), law.turn, np.nextafter(law.turn, -INF)]
    at = np.concatenate([law.turn + 1.1 * panels, near, [-INF, INF]])
    front, tail, by_shape = np.empty((3, len(at)))
    gamma._fronts(at, law.shape, law.scale, front)
    gamma._tails(at, front, law, tail, by_shape)
    for k in np.flatnonzero(front > 0):
        upper, told = at[k] > law.turn, (shape, law.log_shape_excess, law.steps)
        factor, slope = gamma._multiples(at[k], upper, *told)
        assert tail[k] == pytest.approx(front[k] * factor, rel=5e-13)
        lost = 1e-15 * (1 / shape + shape)  # digits that the sums themselves do not have
        assert by_shape[k] == pytest.approx(
            front[k] * slope, rel=1e-12, abs=front[k] * (1e-13 + lost) * (1 + abs(at[k]))
        )
    assert not tail[front == 0].any()
    assert not by_shape[front == 0].any()


def test_a_gamma_law_with_next_to_no_shape_is_finite():
    edges = np.array([0.0, 0.5, 2.0, INF])
    model = Gamma().bins(np.zeros(1), edges[:-1], edges[1:], np.array([30.0]))
    assert np.isfinite(model.probability).all()
    assert np.isfinite(model.d_nuisance).all()
    assert model.probability[0, 0] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("overdispersion", [1e-40, 1e-3, 0.5, 1e10])
def test_beta_binomial_of_many_trials_and_means_near_their_ends(overdispersion):
    """Terms run over hundreds of powers of ten: they are made smaller together on the way."""
    m, eta = 900, np.array([-250.0, -3.0, 0.0, 3.0, 250.0])
    lower, upper = np.array([0.0, 1, 450, 900]), np.array([0.0, 449, 899, 900])
    family, log_w = BetaBinomial(m), np.log([overdispersion])
    q = family.bins(eta, lower, upper, log_w).probability
    np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(q[[0, -1]], np.eye(4)[[0, 3]], atol=1e-15)
    share = expit(eta[1:-1])[:, None]
    if overdispersion < 1e-30:
        law = stats.binom(m, share)
    else:
        law = stats.betabinom(m, share / overdispersion, (1 - share) / overdispersion)
    values = np.arange(m + 1)
    terms = law.pmf(values)
    terms /= terms.sum(axis=1, keepdims=True)  # scipy's lose digits where shapes are tiny
    inside = (values >= lower[:, None]) & (values <= upper[:, None])
    np.testing.assert_allclose(q[1:-1], terms @ inside.T, rtol=1e-8, atol=1e-12)


def test_an_open_bin_out_of_reach_ends():
    for log_mean in (-2.0, 0.0, 1.0, 3.0):
        q = NegativeBinomial().bins(
            np.array([log_mean]), np.array([0.0, 2000]), np.array([1999.0, INF]), np.zeros(1)
        )
        law = stats.nbinom(1.0, 1 / (1 + np.exp(log_mean)))
        np.testing.assert_allclose(q.probability[0, 1], law.sf(1999), rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("dispersion", [1.0, 30.0, 1e3, 1e5])
def test_long_tails_of_counts_are_beta_functions(dispersion, monkeypatch):
    """Millions of terms count: summing them took minutes, and no interrupt was looked at."""
    family, used = get_family("negative-binomial"), []
    monkeypatch.setattr(
        counts, "long_bins", lambda *args: used.append(len(args[1])) or long_bins(*args)
    )
    eta = np.linspace(-6, 9, 40)
    lower = np.array([0.0, 1, 3, 100, 5_000])
    upper = np.array([0.0, 2, 99, 4_999, np.inf])
    found = family.bins(eta, lower, upper, np.log([dispersion]))
    law = nbinom(1 / dispersion, 1 / (1 + dispersion * np.exp(eta[:, None])))
    above = law.sf(lower - 1) - np.where(np.isinf(upper), 0.0, law.sf(upper))
    below = np.where(np.isinf(upper), 1.0, law.cdf(upper)) - law.cdf(lower - 1)
    expected = np.where(law.sf(lower - 1) < 0.5, above, below)
    np.testing.assert_allclose(found.probability, expected, rtol=1e-9, atol=1e-300)
    step = 1e-4
    up, down = (
        family.bins(eta, lower, upper, np.log([dispersion]) + s).probability for s in (step, -step)
    )
    np.testing.assert_allclose(found.d_nuisance[0], (up - down) / (2 * step), atol=1e-7)
    assert sum(used) > 0


@pytest.mark.parametrize("name", ["gaussian", "gamma", "negative-binomial", "beta-binomial"])
@pytest.mark.parametrize("nuisance", [-1e3, 1e3])
def test_any_nuisance_parameter_may_be_tried(name, nuisance):
    """A line search does; what overflows would be an error here."""
    family = get_family(name, n_trials=5)
    eta, at = np.array([-400.0, 0.0, 400.0]), np.array([nuisance])
    lower, upper = np.array([0.0, 1, 3]), np.array([0.0 if "bin" in name else 1, 2, 5])
    found = family.bins(eta, lower, upper, at)
    density = family.density(np.array([1.0, 2.0]), eta, at)
    for values in (*vars_of(found), *vars_of(density), family.variance(eta, at)):
        assert np.isfinite(values).all()
    assert np.isfinite(family.bin_means(eta, lower, upper, at)).all()


def vars_of(model):
    return [getattr(model, field) for field in model.__slots__]


def test_dispersions_end_where_the_law_no_longer_changes():
    family, edges = get_family("negative-binomial"), (np.array([0.0, 1]), np.array([0.0, np.inf]))
    far, further = (family.bins(np.zeros(3), *edges, np.array([a])) for a in (50.0, 700.0))
    np.testing.assert_array_equal(far.probability, further.probability)
    np.testing.assert_array_equal(further.d_nuisance, 0.0)
    assert np.isfinite(family.variance(np.zeros(3), np.array([700.0]))).all()


@pytest.mark.parametrize("mean", [0.01, 3.0, 80.0, 900.0, 5000.0])
def test_large_counts(mean):
    edges = np.array([0.0, 2, 50, 100, 700, 1000, 4000, 6000])
    lower, upper = edges, np.append(edges[1:] - 1, INF)
    poisson = Poisson().bins(np.log([mean]), lower, upper, np.zeros(0)).probability[0]
    law = stats.poisson(mean)
    below = lower > mean
    expected = np.where(
        below, law.sf(lower - 1) - law.sf(upper), law.cdf(upper) - law.cdf(lower - 1)
    )
    np.testing.assert_allclose(poisson, expected, rtol=1e-9, atol=1e-300)
    negative = NegativeBinomial().bins(np.log([mean]), lower, upper, np.array([0.3]))
    law = stats.nbinom(np.exp(-0.3), 1 / (1 + np.exp(0.3) * mean))
    expected = np.where(
        below, law.sf(lower - 1) - law.sf(upper), law.cdf(upper) - law.cdf(lower - 1)
    )
    np.testing.assert_allclose(negative.probability[0], expected, rtol=1e-9, atol=1e-250)
    assert negative.d_nuisance.sum() == pytest.approx(0, abs=1e-10)


def test_gaussian_keeps_digits_down_to_the_smallest_numbers():
    a = np.array([5.0, 20.0, 37.0])
    q = Gaussian().bins(-a, np.array([0.0, 1.0]), np.array([1.0, INF]), np.zeros(1)).probability
    np.testing.assert_allclose(q[:, 0] + q[:, 1], stats.norm.sf(a), rtol=1e-12)
    np.testing.assert_allclose(q[:, 1], stats.norm.sf(a + 1), rtol=1e-12, atol=1e-307)


def test_exponentials_below_one_agree_with_numpy_to_the_last_digits():
    x = np.append(-np.geomspace(1e-300, 800, 100_003), [0.0, -745.0, -745.2, -800.0])
    got, expected = np.array([exp_below_one(value) for value in x[::7]]), np.exp(x[::7])
    np.testing.assert_allclose(got, expected, rtol=4e-16, atol=5e-324)
    assert exp_below_one(0.0) == 1
    assert exp_below_one(-800.0) == 0


def test_gaussian_agrees_with_logarithms_of_the_distribution_function_on_many_rows():
    rng = np.random.default_rng(0)
    eta, a = 30 * rng.normal(size=1003), np.array([-80.0, -20, -3, 0, 0.5, 25])
    lower, upper = np.append(-INF, a), np.append(a, INF)
    q = Gaussian().bins(eta, lower, upper, np.zeros(1)).probability
    # the difference of the tails on the side of the bin, in logarithms
    low, high = lower - eta[:, None], upper - eta[:, None]
    swap = low > -high
    near, far = np.where(swap, -low, high), np.where(swap, -high, low)
    with np.errstate(divide="ignore"):
        expected = log_ndtr(near) + np.log1p(-np.exp(log_ndtr(far) - log_ndtr(near)))
    seen = expected > -700
    np.testing.assert_allclose(np.log(q[seen]), expected[seen], rtol=2e-14, atol=2e-13)
    assert (q[~seen] < 1e-300).all()
    assert (q == 0).any()


def test_gaussian_and_logistic_mix_empty_narrow_and_wide_bins_row_by_row():
    rng = np.random.default_rng(1)
    n = 700
    eta, kind = rng.normal(size=n), rng.integers(0, 3, (n, 4))
    lower = rng.normal(size=(n, 4))
    upper = lower + np.choose(kind, [-1.0, 1e-11, 1.3])
    inside = kind == 1
    width = (upper - lower)[inside]
    for bins, law in (
        (partial(normal_bins, sigma=1.0), stats.norm(eta[:, None])),
        (logistic_bins, stats.logistic(eta[:, None])),
    ):
        q, d_eta, *_ = bins(eta, lower, upper)
        assert not q[kind == 0].any()
        assert not d_eta[kind == 0].any()
        density = law.pdf(0.5 * (lower + upper))[inside]
        np.testing.assert_allclose(q[inside], density * width, rtol=1e-12)
        wide = kind == 2
        np.testing.assert_allclose(q[wide], (law.cdf(upper) - law.cdf(lower))[wide], rtol=1e-11)


def test_ordinal_says_what_is_wrong():
    with pytest.raises(ParameterError, match="3 bins need 2 thresholds, got 1"):
        Ordinal().bins(np.zeros(2), np.zeros(3), np.ones(3), np.zeros(1))


@pytest.mark.parametrize("log_sigma", [-900.0, 900.0])
def test_gaussian_takes_any_log_sigma_a_line_search_tries(log_sigma):
    edges = np.array([-INF, 0.5, 1.0, INF])
    model = Gaussian().bins(np.array([0.0, 0.7]), edges[:-1], edges[1:], np.array([log_sigma]))
    np.testing.assert_allclose(model.probability.sum(axis=1), 1)
    assert np.isfinite(model.d_eta).all()
    assert np.isfinite(model.d_nuisance).all()


@pytest.mark.parametrize("own", [False, True])
def test_few_normal_bins_are_those_of_many(own, monkeypatch):
    """By NumPy, or compiled: narrow, empty, far and open bins, shared and row by row."""
    rng = np.random.default_rng(0)
    eta = np.concatenate([rng.normal(size=50), [-45.0, -8.0, 8.0, 45.0, 1e9]])
    lower = np.array([-np.inf, -1.0, -1e-5, 1e-5, 2.0, 7.0, 9.0])
    upper = np.array([-1.0, -1e-5, 1e-5, 2.0, 7.0, 6.0, np.inf])
    if own:
        lower, upper = (np.tile(edge, (len(eta), 1)) for edge in (lower, upper))
    few = normal_bins(eta, lower, upper, 0.7)
    monkeypatch.setattr("unbin.families.normal._FEW", 0)
    for found, expected in zip(few, normal_bins(eta, lower, upper, 0.7), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-300)
