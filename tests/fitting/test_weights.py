"""Rows that stand for several people: every answer is that for the same rows repeated."""

import numpy as np
import pytest
from sklearn.base import clone

import unbin
from tests.helpers.releases import mean_release, quantile_release, suppressed

FAMILIES = [
    "gaussian",
    "poisson",
    "binomial",
    "gamma",
    "negative-binomial",
    "beta-binomial",
    "ordinal",
]
TABLES = ["histogram", "hidden", "noisy", "quantiles", "means", "several"]
SINGLE = [kind for kind in TABLES if kind != "several"]


def draw(family, eta, rng):
    if family == "poisson":
        return rng.poisson(np.exp(eta))
    if family == "negative-binomial":
        return rng.poisson(np.exp(eta) * rng.gamma(3.0, 1 / 3, len(eta)))
    if family == "binomial":
        return rng.binomial(8, 1 / (1 + np.exp(-eta)))
    if family == "beta-binomial":
        p = 1 / (1 + np.exp(-eta))
        return rng.binomial(8, rng.beta(4 * p, 4 * (1 - p)))
    if family == "gamma":
        return rng.gamma(3.0, np.exp(eta) / 3)
    return eta + rng.logistic(size=len(eta)) / (1.8 if family == "gaussian" else 1)


class Weighed:
    """Rows with weights, and the people they stand for: no two rows are alike."""

    def __init__(self, family, seed=0, n=500, n_blocks=30):
        rng = np.random.default_rng(seed)
        self.family, self.rng = family, rng
        codes = rng.permutation(np.arange(n) % n_blocks)
        self.X = rng.normal(size=(n, 2)) + rng.normal(size=(n_blocks, 2))[codes]
        self.X[:, 1] = np.round(self.X[:, 1])
        self.county = np.char.zfill(codes.astype(str), 3)
        self.age = rng.integers(0, 5, n).astype(str)
        self.offset = 0.2 * rng.normal(size=n)
        self.weights = rng.integers(1, 5, n)
        self.row = np.repeat(np.arange(n), self.weights)
        eta = 0.3 + self.X[self.row] @ [0.5, -0.3]
        self.y = draw(family, eta, rng).astype(float)

    def release(self, kind, blocks=None):
        blocks = self.county[self.row] if blocks is None else blocks
        if kind == "quantiles":
            return quantile_release(self.y, blocks, (0.25, 0.5, 0.75))
        if kind == "means":
            return mean_release(self.y, blocks)
        whole = self.family in ("poisson", "negative-binomial", "binomial", "beta-binomial")
        release = unbin.aggregate(self.y, blocks, [-1, 0, 1, 3, 5, np.inf] if whole else 5)
        if kind == "hidden":
            return suppressed(release)
        if kind == "noisy":
            table = release.to_columns()["histogram"]
            noise = np.rint(2 * self.rng.normal(size=len(table["count"])))
            table["count"] = np.maximum(table["count"] + noise, 0)
            return unbin.Release.from_histogram(table, noise_sd=2.0)
        return release

    def targets(self, kind):
        """Return the target of weighted rows, and that of repeated ones."""
        releases = [self.release("histogram" if kind == "several" else kind)]
        ids = [self.county]
        if kind == "several":
            ids.append(self.age)
            releases.append(self.release("histogram", self.age[self.row]))
        pairs = list(zip(releases, ids, strict=True))
        ours = [release.align(blocks, weights=self.weights) for release, blocks in pairs]
        theirs = [release.align(blocks[self.row]) for release, blocks in pairs]
        if kind == "several":
            return unbin.join(*ours), unbin.join(*theirs)
        return ours[0], theirs[0]


def possible(family, kind):
    """Tell whether a family takes a kind of table."""
    return family != "ordinal" or kind not in ("quantiles", "means")


def assert_same_fit(ours, theirs, tol=1e-10):
    for name in ("coef_", "intercept_", "dispersion_", "block_sd_", "objective_"):
        a, b = getattr(ours, name), getattr(theirs, name)
        np.testing.assert_allclose(a, b, rtol=tol, atol=tol, err_msg=name)
    np.testing.assert_allclose(ours.standard_errors_, theirs.standard_errors_, rtol=10 * tol)
    a, b = ours.diagnostics_, theirs.diagnostics_
    assert (a.identified, a.reason, a.worst_blocks) == (b.identified, b.reason, b.worst_blocks)
    for name in ("efficiency", "relative_error", "ecological_coef", "ecological_p_value"):
        if getattr(b, name) is not None:
            np.testing.assert_allclose(
                getattr(a, name), getattr(b, name), rtol=1e-6, atol=1e-9, err_msg=name
            )
    assert (ours.n_people_, ours.n_blocks_) == (theirs.n_people_, theirs.n_blocks_)
    assert (ours.published_ is None) == (theirs.published_ is None)
    if ours.published_ is not None:
        np.testing.assert_array_equal(ours.published_.n, theirs.published_.n)
        np.testing.assert_allclose(
            ours.published_.expected, theirs.published_.expected, rtol=1e-7, atol=1e-7
        )


CASES = [(family, kind) for family in FAMILIES for kind in TABLES if possible(family, kind)]


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("family", "kind"), CASES)
def test_a_fit_is_that_to_repeated_rows(family, kind):
    people = Weighed(family)
    model = unbin.AggregatedGLM(family, n_trials=8, alpha=1e-4)
    (ours, target), (theirs, repeated) = (
        (clone(model).fit(X, y), y)
        for X, y in zip((people.X, people.X[people.row]), people.targets(kind), strict=True)
    )
    assert_same_fit(ours, theirs)
    assert ours.summary().facts[1] == ("People:", f"{len(people.row):,} in 500 rows")
    mean = np.bincount(people.row, theirs.impute()) / people.weights
    np.testing.assert_allclose(ours.impute(), mean, rtol=1e-8, atol=1e-8)
    if kind not in ("quantiles", "means"):
        score = theirs.score(people.X[people.row], repeated)
        assert ours.score(people.X, target) == pytest.approx(score, rel=1e-10)
