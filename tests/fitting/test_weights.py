"""Rows that stand for several people: every answer is that for the same rows repeated."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import unbin
from tests.helpers.releases import mean_release, quantile_release, suppressed
from unbin.exceptions import AggregatedTargetError, DomainError, ParameterError

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
        ids = [pd.Series(self.county, name="county")]
        if kind == "several":
            ids.append(pd.Series(self.age, name="age"))
            releases.append(self.release("histogram", self.age[self.row]))
        pairs = list(zip(releases, ids, strict=True))
        ours = [release.align(blocks, weights=self.weights) for release, blocks in pairs]
        theirs = [release.align(blocks.iloc[self.row]) for release, blocks in pairs]
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
    assert (a.trusted, a.reasons, a.verdicts) == (b.trusted, b.reasons, b.verdicts)
    for name in ("efficiency", "precision", "shape_share", "location_coef"):
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


# -- options ---------------------------------------------------------------------------------------

OPTIONS = {
    "contextual": {"contextual": True},
    "perhaps contextual": {"contextual": "auto"},
    "ridge": {"alpha": "held-out"},
    "no intercept": {"fit_intercept": False},
}


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
@pytest.mark.parametrize(
    ("option", "kind"),
    [*product(OPTIONS, ["histogram", "several"]), ("context of a table", "several")],
)
def test_options_mean_the_same(option, kind):
    people = Weighed("gaussian", n_blocks=40)
    model = unbin.AggregatedGLM(**OPTIONS.get(option, {"contextual": "age"}))
    target, repeated = people.targets(kind)
    ours = clone(model).fit(people.X, target)
    theirs = clone(model).fit(people.X[people.row], repeated)
    assert_same_fit(ours, theirs)
    assert ours.alpha_ == pytest.approx(theirs.alpha_, rel=1e-12)
    assert (ours.contextual_coef_ is None) == (theirs.contextual_coef_ is None)
    if ours.contextual_coef_ is not None:
        np.testing.assert_allclose(ours.contextual_coef_, theirs.contextual_coef_, rtol=1e-9)
        test, other = (each.diagnostics_.context for each in (ours, theirs))
        assert test.statistic == pytest.approx(other.statistic, rel=1e-8)
        score = theirs.score(people.X[people.row], repeated)
        assert ours.score(people.X, target) == pytest.approx(score, rel=1e-10)


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
@pytest.mark.parametrize("method", ["likelihood", "matching"])
@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_offsets_are_of_rows(family, method):
    people = Weighed(family)
    target, repeated = people.targets("histogram")
    model = unbin.AggregatedGLM(family, method=method, random_state=0)
    offset = people.offset
    ours = clone(model).fit(people.X, target, offset=offset)
    theirs = clone(model).fit(people.X[people.row], repeated, offset=offset[people.row])
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-10)
    score = theirs.score(people.X[people.row], repeated, offset=offset[people.row])
    assert ours.score(people.X, target, offset=offset) == pytest.approx(score, rel=1e-10)


def test_logs_of_weighted_targets():
    people = Weighed("gamma")
    target, repeated = people.targets("histogram")
    model = unbin.AggregatedGLM(target_transform="log")
    ours, theirs = (
        clone(model).fit(people.X, target),
        clone(model).fit(people.X[people.row], repeated),
    )
    assert_same_fit(ours, theirs)
    mean = np.bincount(people.row, theirs.impute()) / people.weights
    np.testing.assert_allclose(ours.impute(), mean, rtol=1e-8)


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
@pytest.mark.parametrize("kind", ["histogram", "several"])
def test_the_same_family_is_chosen(kind):
    people = Weighed("poisson")
    target, repeated = people.targets(kind)
    model = unbin.AggregatedGLM("auto", alpha=0.0)
    ours = clone(model).fit(people.X, target)
    theirs = clone(model).fit(people.X[people.row], repeated)
    assert ours.family_ == theirs.family_
    np.testing.assert_allclose(ours.selection_.score, theirs.selection_.score, rtol=1e-8)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-10)


# -- weights that are not whole --------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::unbin.exceptions.AlignmentWarning")
@pytest.mark.parametrize("weighting", ["frequency", "survey"])
@pytest.mark.parametrize("kind", ["histogram", "hidden"])
def test_imputed_targets_meet_counts_times_the_people_of_the_rows(kind, weighting):
    people = Weighed("gaussian")
    release = people.release(kind)
    factor = 1.01 + 0.01 * people.rng.random(len(people.X))
    target = release.align(
        people.county, weights=factor * people.weights, weighting=weighting, scale=True
    )
    model = unbin.AggregatedGLM().fit(people.X, target)
    if (weighting, kind) == ("survey", "histogram"):  # the table says how many there are
        assert model.n_people_ == len(people.row)
    raking = model._fits[0].imputed
    share, codes, n = raking.shares(), target.codes, target.release.n
    weights = target.weights.values
    sums = np.stack([np.bincount(codes, weights * q, len(n)) for q in share.T], axis=1)
    sums *= (n / np.bincount(codes, weights, len(n)))[:, None]
    np.testing.assert_allclose(sums, raking.counts.count, atol=1e-7)


@pytest.mark.parametrize("kind", ["histogram", "several"])
def test_rows_of_several_people_have_no_draw(kind):
    people = Weighed("gaussian")
    target, _ = people.targets(kind)
    model = unbin.AggregatedGLM().fit(people.X, target)
    with pytest.raises(ParameterError, match=r"got a row that stands for [234] people; repeat"):
        model.impute("draw")


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
def test_rows_of_one_person_each_may_be_drawn():
    people = Weighed("gaussian")
    y, ones = people.y[: len(people.X)], np.ones(len(people.X))
    release = unbin.aggregate(y, people.county, 4)
    model = unbin.AggregatedGLM()
    draws = [
        model.fit(people.X, target).impute("draw", random_state=0)
        for target in (release.align(people.county), release.align(people.county, weights=ones))
    ]
    np.testing.assert_allclose(*draws, rtol=1e-8)


# -- observed targets ------------------------------------------------------------------------------

OBSERVED = [family for family in FAMILIES if family != "ordinal"]


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
@pytest.mark.parametrize("alpha", [0.0, 0.1])
@pytest.mark.parametrize("family", OBSERVED)
def test_sample_weights_count_rows_several_times(family, alpha):
    people = Weighed(family)
    X, w = people.X, people.weights
    y = draw(family, X @ [0.5, -0.3], people.rng).astype(float)
    model = unbin.AggregatedGLM(family, n_trials=8, alpha=alpha)
    ours = clone(model).fit(X, y, sample_weight=w, offset=people.offset)
    row = people.row
    theirs = clone(model).fit(X[row], y[row], offset=people.offset[row])
    for name in ("coef_", "intercept_", "dispersion_", "standard_errors_", "objective_"):
        a, b = getattr(ours, name), getattr(theirs, name)
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10, err_msg=name)
    assert ours.n_people_ == len(row)
    score = theirs.score(X[row], y[row], offset=people.offset[row])
    weighed = ours.score(X, y, offset=people.offset, sample_weight=w)
    assert weighed == pytest.approx(score, rel=1e-8)
    left_out = np.where(np.arange(len(w)) < 50, 0, w)
    fewer = clone(model).fit(X[50:], y[50:], sample_weight=w[50:])
    np.testing.assert_allclose(
        clone(model).fit(X, y, sample_weight=left_out).coef_, fewer.coef_, rtol=1e-10
    )
    assert ours.score(X, y, offset=0, sample_weight=left_out) == pytest.approx(
        ours.score(X[50:], y[50:], offset=0, sample_weight=w[50:])
    )


@pytest.mark.parametrize("family", ["Gaussian", "Poisson", "Binomial"])
def test_sample_weights_are_the_frequencies_of_statsmodels(family):
    import statsmodels.api as sm

    name = family.lower()
    people = Weighed(name)
    X, w = people.X, people.weights
    y = draw(name, X @ [0.5, -0.3], people.rng).astype(float)
    ours = unbin.AggregatedGLM(name, n_trials=8).fit(X, y, sample_weight=w)
    outcome = np.column_stack([y, 8 - y]) if name == "binomial" else y
    law = getattr(sm.families, family)()
    theirs = sm.GLM(outcome, sm.add_constant(X), family=law, freq_weights=w).fit()
    np.testing.assert_allclose([ours.intercept_, *ours.coef_], theirs.params, rtol=1e-6)
    np.testing.assert_allclose(ours.standard_errors_, theirs.bse[1:], rtol=1e-5)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1.0, -1.0, 1.0], "got -1 in row 1"),
        ([0.0, 0.0, 0.0], "got 0 in every row"),
        ([1.0, np.nan, 1.0], "got nan in row 1"),
    ],
)
def test_odd_sample_weights_are_named(weights, words):
    model = unbin.AggregatedGLM().fit(np.eye(3)[:, :1], np.arange(3.0))
    for call in (model.fit, model.score):
        with pytest.raises(DomainError, match=words):
            call(np.eye(3)[:, :1], np.arange(3.0), sample_weight=weights)


def test_sample_weights_beside_a_table_are_refused():
    people = Weighed("gaussian")
    target, _ = people.targets("histogram")
    model = unbin.AggregatedGLM().fit(people.X, target)
    for call in (model.fit, model.score):
        with pytest.raises(ParameterError, match=r"sample_weight: .*release.align"):
            call(people.X, target, sample_weight=people.weights)


def test_outcomes_of_some_are_scored_where_they_are_known():
    people = Weighed("gaussian")
    y = people.X @ [0.5, -0.3] + people.rng.normal(size=len(people.X))
    model = unbin.AggregatedGLM().fit(people.X, y)
    known = np.arange(len(y)) % 3 == 0
    some = unbin.observed(np.where(known, y, np.nan))
    expected = model.score(people.X[known], y[known], sample_weight=people.weights[known])
    assert model.score(people.X, some, sample_weight=people.weights) == pytest.approx(expected)


# -- leaving blocks out, permuting them ------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
@pytest.mark.parametrize("kind", ["histogram", "several"])
def test_folds_are_dealt_by_people(kind):
    people = Weighed("gaussian")
    target, repeated = people.targets(kind)
    ours = unbin.cross_validate(unbin.AggregatedGLM(), people.X, target, 3)
    theirs = unbin.cross_validate(unbin.AggregatedGLM(), people.X[people.row], repeated, 3)
    np.testing.assert_array_equal(ours.people, theirs.people)
    np.testing.assert_allclose(ours.score, theirs.score, rtol=1e-10)


def test_rows_of_folds_are_those_of_their_blocks():
    people = Weighed("gaussian")
    target, repeated = people.targets("histogram")
    folds = unbin.BlockKFold(4)
    for ours, theirs in zip(folds.split(None, target), folds.split(None, repeated), strict=True):
        held = np.unique(target.blocks[ours[1]])
        np.testing.assert_array_equal(held, np.unique(repeated.blocks[theirs[1]]))
        assert target[ours[1]].release.n.sum() == len(theirs[1])


def test_known_outcomes_stay_when_blocks_are_left_out():
    """Their rows stand for as many people in every training fit as in the fit to all blocks."""
    people = Weighed("gaussian")
    X, y = people.X, people.X @ [0.5, -0.3] + people.rng.normal(size=len(people.X))
    person = people.row
    table = unbin.aggregate(y[person], people.county[person], 5)
    known = people.rng.random(len(y)) < 0.3
    target = unbin.join(
        table.align(people.county, weights=people.weights),
        unbin.observed(np.where(known, y, np.nan)),
    )
    nothing = np.zeros(len(target.tables[0].release), bool)
    some = nothing.copy()
    some[:10] = True
    left = target.without([some])
    for name in ("values", "people"):
        a, b = (getattr(each.published.known, name) for each in (left, target))
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(left.published.known.people, people.weights[known])
    found = unbin.cross_validate(unbin.AggregatedGLM(), X, target, 3)
    others = people.weights[~known].sum()
    assert found.people.sum() == others
    # known outcomes alone tell the slopes: training fits without the table are as good
    assert found.mean > unbin.cross_validate(unbin.AggregatedGLM(alpha=1e6), X, target, 3).mean
    with pytest.raises(AggregatedTargetError, match="rows of tables and outcomes that are known"):
        list(unbin.BlockKFold(3).split(X, target))


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
@pytest.mark.parametrize(("kind", "n"), [("block-means", 99), ("refit", 5)])
def test_permutations_deal_out_the_same_tables(kind, n):
    people = Weighed("gaussian")
    model, (target, repeated) = unbin.AggregatedGLM(), people.targets("histogram")
    how = {"n_permutations": n, "kind": kind, "random_state": 0}
    ours = unbin.permutation_test(model, people.X, target, **how)
    theirs = unbin.permutation_test(model, people.X[people.row], repeated, **how)
    assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-10)
    np.testing.assert_allclose(ours.null, theirs.null, rtol=1e-8)


def test_targets_of_rows_are_not_permuted_where_these_stand_for_several():
    people = Weighed("gaussian")
    target, _ = people.targets("histogram")
    with pytest.raises(ParameterError, match=r"y: kind='error' permutes .*; repeat the rows"):
        unbin.permutation_test(unbin.AggregatedGLM(), people.X, target, y=np.zeros(500))


def test_tables_beside_known_outcomes_are_not_dealt_out():
    people = Weighed("gaussian")
    target, _ = people.targets("histogram")
    y = np.full(len(people.X), np.nan)
    y[:3] = [people.y[people.row == i][0] for i in range(3)]
    joined = unbin.join(target, unbin.observed(y), disjoint=True)
    with pytest.raises(ParameterError, match=r"got 3 outcomes .* unbin.join\(\*target.given\)"):
        unbin.permutation_test(unbin.AggregatedGLM(), people.X, joined)
