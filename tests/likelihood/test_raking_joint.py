"""Imputation from several tables: an oracle, every margin, what cannot be met, and the draws."""

import warnings
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

import unbin
from tests.helpers.releases import quantile_release, suppressed
from unbin.exceptions import RakingWarning
from unbin.families import get_family
from unbin.likelihood.data.layout import arrange
from unbin.likelihood.data.tables import published_counts
from unbin.likelihood.impute.joint import JointRaking
from unbin.likelihood.impute.raking import Raking
from unbin.release.join import Tables
from unbin.rows.cells import Cells, cross
from unbin.rows.design import lay_out

AGE_EDGES = [-np.inf, -0.6, 0.2, 0.9, np.inf]
CONTRADICTION = (
    r"impute: tables must agree with each other and with the people to be met together, got .*"
    r"'sex' \(block '00[01]': a count is off by [\d.e+]+\); correct those, or leave one out"
)
WHOLE_EDGES = [-np.inf, 0, 2, np.inf]


def people(n=3600, n_counties=60, seed=0):
    """People of counties, age groups and sexes, in no order, with a linear predictor."""
    rng = np.random.default_rng(seed)
    county = rng.permutation(np.arange(n) % n_counties)
    age, sex = rng.integers(0, 12, n), rng.integers(0, 2, n)
    eta = 0.8 * (age / 6 - 1) + 0.4 * sex + 0.3 * rng.normal(size=n)
    ids = [np.char.zfill(codes.astype(str), 3) for codes in (county, age, sex)]
    return eta, ids, rng


def targets(family, eta, rng):
    """Targets of a model whose nuisance parameters are returned with them."""
    if family == "gaussian":
        return eta + 0.7 * rng.normal(size=len(eta)), np.array([np.log(0.7)])
    if family == "gamma":
        return rng.gamma(4.0, np.exp(eta) / 4), np.array([np.log(0.25)])
    if family == "binomial":
        return rng.binomial(8, 1 / (1 + np.exp(-eta))).astype(float), np.zeros(0)
    return rng.poisson(np.exp(eta)).astype(float), np.zeros(0)


def raking_of(eta, tables, ids, family, nuisance, weights=None):
    """Return the joint raking for a known linear predictor."""
    aligned = [
        table.align(blocks, weights=weights) for table, blocks in zip(tables, ids, strict=True)
    ]
    return raking_of_targets(eta, aligned, family, nuisance, weights, smallest=1)


def raking_of_targets(eta, aligned, family, nuisance, weights=None, **how):
    """Return the same for aligned tables, rows laid out by crossed cell."""
    family = get_family(family, n_trials=8)
    released = tuple(target.release for target in aligned)
    place, crossed = cross([target.codes for target in aligned])
    cells = Cells.arranged(crossed, arrange(released, crossed).group)
    design = lay_out(
        eta[:, None],
        cells.rank[place],
        len(cells.rank),
        fit_intercept=False,
        weights=weights,
        group=cells.group,
    )
    names = Tables(("county", "age", "sex", "other")[: len(aligned)], released)
    counts = [published_counts(r, family.domain, **how) for r in released]
    fitted = design.scale, np.asarray(nuisance)
    return JointRaking(design, cells.codes, names, counts, family, *fitted)


def three_tables(family="gaussian", seed=0, n=3600, n_counties=60):
    eta, ids, rng = people(n, n_counties, seed)
    if family == "ordinal":
        y = eta + rng.logistic(size=len(eta))
        bins = [4, [-np.inf, -1.5, 0.1, np.inf], [-np.inf, -0.5, 0.1, 1.5, np.inf]]
        nuisance = None
    else:
        y, nuisance = targets(family, eta, rng)
        whole = [[-np.inf, 0, 1, 3, np.inf], WHOLE_EDGES, [-np.inf, 1, 2, 4, np.inf]]
        real = [5, np.exp(AGE_EDGES) if family == "gamma" else AGE_EDGES, 3]
        bins = real if family in ("gaussian", "gamma") else whole
    tables = [unbin.aggregate(y, block, edges) for block, edges in zip(ids, bins, strict=True)]
    if nuisance is None:  # the thresholds of the latent variable are the edges themselves
        nuisance = inner_edges(tables)
    return eta, y, ids, tables, nuisance


def inner_edges(tables):
    edges = np.unique(np.concatenate([table.histogram.upper for table in tables]))
    return edges[np.isfinite(edges)]


def sums_of(share, upper, table, ids):
    """Add up shares of bins that end at ``upper`` to the cells of a table, (B, K)."""
    width = table.histogram.start[1]
    edges = table.histogram.upper[:width]
    cell = np.searchsorted(edges[:-1], upper)
    by_block = np.stack([share[ids == block].sum(axis=0) for block in table.blocks])
    return np.stack([by_block[:, cell == j].sum(axis=1) for j in range(width)], axis=1)


def assert_met(raking, tables, ids, atol=1e-6):
    share = raking.shares()
    np.testing.assert_allclose(share.sum(axis=1), 1, atol=1e-12)
    upper = np.append(inner_edges(tables), np.inf)
    for table, blocks in zip(tables, ids, strict=True):
        count = table.histogram.count.reshape(len(table), -1)
        np.testing.assert_allclose(sums_of(share, upper, table, blocks), count, atol=atol)
    assert raking.unmet == ()


# -- the shares ------------------------------------------------------------------------------------


def test_shares_are_those_of_iterative_proportional_fitting():
    eta, _, ids, tables, nuisance = three_tables(n=120, n_counties=5)
    raking = raking_of(eta, tables, ids, "gaussian", nuisance)
    edges = np.concatenate([[-np.inf], inner_edges(tables), [np.inf]])
    expected = np.diff(norm.cdf(edges, eta[:, None], 0.7), axis=1)
    for _ in range(4000):
        for table, blocks in zip(tables, ids, strict=True):
            count = table.histogram.count.reshape(len(table), -1)
            sums = sums_of(expected, edges[1:], table, blocks)
            factor = np.divide(count, sums, out=np.zeros_like(sums), where=sums > 0)
            block = np.searchsorted(table.blocks, blocks)
            cell = np.searchsorted(table.histogram.upper[: count.shape[1] - 1], edges[1:])
            expected *= factor[block][:, cell]
            expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(raking.shares(), expected, atol=1e-7)


@pytest.mark.parametrize("family", ["gaussian", "gamma", "poisson", "binomial", "ordinal"])
def test_every_table_is_met(family):
    eta, _, ids, tables, nuisance = three_tables(family)
    assert_met(raking_of(eta, tables, ids, family, nuisance), tables, ids)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "ordinal"])
def test_one_table_is_raked_as_ever(family):
    eta, _, ids, tables, nuisance = three_tables(family)
    tables, ids = tables[:1], ids[:1]
    if family == "ordinal":
        nuisance = inner_edges(tables)
    joint = raking_of(eta, tables, ids, family, nuisance)
    rows = joint.counted
    alone = Raking(joint.eta, rows.start, rows.order, rows.counts[0], joint.family, nuisance)
    np.testing.assert_allclose(joint.shares(), alone.shares(), atol=1e-8)
    np.testing.assert_allclose(joint.mean(), alone.mean(), rtol=1e-7, atol=1e-7)


def test_nested_and_crossed_tables_in_small_blocks_are_met():
    """Counts of a few people force shares to 0 or 1, where plain sweeps never arrive."""
    eta, (county, age, sex), rng = people(600, 40)
    y = eta + 0.2 * rng.normal(size=len(eta))
    state = np.array([name[:2] for name in county])
    ids = [np.char.add(county, sex), state, np.char.add(age, sex), county]
    bins = [AGE_EDGES, 6, [-np.inf, 0.0, 0.2, np.inf], [-np.inf, 0.5, np.inf]]
    tables = [unbin.aggregate(y, block, edges) for block, edges in zip(ids, bins, strict=True)]
    assert_met(raking_of(eta, tables, ids, "gaussian", [np.log(0.2)]), tables, ids)


def test_people_where_the_model_expects_nobody_are_met_too():
    eta, ids, rng = people(400, 8)
    y = eta + 0.01 * rng.normal(size=len(eta))
    y[:7] = 50.0
    bins = [[-np.inf, 0, 20, np.inf], [-np.inf, 0, 40, np.inf], [-np.inf, 30, np.inf]]
    tables = [unbin.aggregate(y, block, edges) for block, edges in zip(ids, bins, strict=True)]
    assert_met(raking_of(eta, tables, ids, "gaussian", [np.log(0.01)]), tables, ids)


# -- means and draws -------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gaussian", "poisson", "ordinal"])
def test_means_tell_people_apart_by_all_tables(family):
    eta, y, ids, tables, nuisance = three_tables(family)
    nothing = 0 * eta  # a model that knows no features
    errors = [
        np.mean((raking_of(nothing, tables[:k], ids[:k], family, some).mean() - y) ** 2)
        for k, some in (
            (1, inner_edges(tables[:1]) if family == "ordinal" else nuisance),
            (3, nuisance),
        )
    ]
    assert errors[1] < 0.95 * errors[0]


def test_means_are_averages_of_means_within_bins():
    eta, _, ids, tables, nuisance = three_tables()
    raking = raking_of(eta, tables, ids, "gaussian", nuisance)
    edges = np.concatenate([[-np.inf], inner_edges(tables), [np.inf]])
    within = get_family("gaussian").bin_means(eta, edges[:-1], edges[1:], nuisance)
    np.testing.assert_allclose(raking.mean(), (raking.shares() * within).sum(axis=1), rtol=1e-9)


def test_log_targets_are_imputed_in_their_own_units():
    eta, y, ids, tables, nuisance = three_tables()
    raking = raking_of(eta, tables, ids, "gaussian", nuisance)
    z = raking.mean(log=True)
    assert (z > np.exp(raking.mean())).all()  # Jensen
    assert z.mean() == pytest.approx(np.exp(y).mean(), rel=0.05)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "ordinal"])
def test_draws_meet_the_first_table_exactly_and_the_others_on_average(family):
    eta, _, ids, tables, nuisance = three_tables(family)
    raking = raking_of(eta, tables, ids, family, nuisance)
    rng = np.random.default_rng(0)
    seen = [[], [], []]
    for _ in range(40):
        y = raking.draw(rng)
        for table, blocks, found in zip(tables, ids, seen, strict=True):
            width = table.histogram.start[1]
            edges = np.append(-np.inf, table.histogram.upper[:width])
            found.append(unbin.aggregate(y, blocks, edges).histogram.count)
    for again in seen[0]:
        np.testing.assert_array_equal(again, tables[0].histogram.count)
    for table, found in zip(tables[1:], seen[1:], strict=True):
        count, drawn = table.histogram.count, np.array(found)
        assert drawn.std(axis=0).max() > 0
        error = drawn.std(axis=0) / np.sqrt(len(drawn)) + 0.1
        assert (np.abs(drawn.mean(axis=0) - count) < 5 * error).all()
    if family == "poisson":
        assert (y == np.rint(y)).all()


def test_draws_are_within_each_persons_refined_bins():
    """A draw in the first table's bin lies in a refined one with its share."""
    eta, _, ids, tables, nuisance = three_tables(n=600, n_counties=10)
    raking = raking_of(eta, tables, ids, "gaussian", nuisance)
    edges, share = inner_edges(tables), raking.shares()
    rng, n_draws = np.random.default_rng(1), 200
    seen = np.zeros_like(share)
    for _ in range(n_draws):
        seen[np.arange(len(eta)), np.searchsorted(edges, raking.draw(rng))] += 1
    np.testing.assert_allclose(seen.mean(axis=0) / n_draws, share.mean(axis=0), atol=3e-3)
    assert np.corrcoef(seen.ravel(), share.ravel())[0, 1] > 0.98


# -- what is not met -------------------------------------------------------------------------------


def test_a_table_that_contradicts_the_others_is_named():
    eta, y, ids, tables, nuisance = three_tables()
    wrong = y.copy()
    wrong[(ids[2] == "001") & (y > 0)] -= 5  # as if of another year
    tables[2] = unbin.aggregate(wrong, ids[2], [-np.inf, -0.5, 0.5, np.inf])
    tables[1] = unbin.aggregate(y, ids[1], [-np.inf, -0.5, 0.5, np.inf])
    raking = raking_of(eta, tables, ids, "gaussian", nuisance)
    with pytest.warns(RakingWarning, match=CONTRADICTION) as caught:
        share = raking.shares()
    assert len(caught) == 1
    assert [unmet.table for unmet in raking.unmet] == ["sex"]
    upper = np.append(inner_edges(tables), np.inf)
    for table, blocks in zip(tables[:2], ids[:2], strict=True):
        met = sums_of(share, upper, table, blocks).ravel()
        np.testing.assert_allclose(met, table.histogram.count, atol=1e-6)
    sex = sums_of(share, upper, tables[2], ids[2])
    assert np.abs(sex.ravel() - tables[2].histogram.count).max() == pytest.approx(
        raking.unmet[0].gap
    )
    with warnings.catch_warnings():  # once is enough
        warnings.simplefilter("error")
        again = raking.draw(np.random.default_rng(0))
    edges = np.append(-np.inf, tables[0].histogram.upper[:5])
    np.testing.assert_array_equal(
        unbin.aggregate(again, ids[0], edges).histogram.count, tables[0].histogram.count
    )


def test_tables_that_leave_a_person_no_bin_are_named():
    eta = np.array([0.0, 0.1, 0.2, 0.3])
    ids = [np.array(["a", "a", "b", "b"]), np.array(["c", "d", "d", "d"])]
    edges = [-np.inf, 0, np.inf]
    tables = [
        unbin.aggregate(np.array([-1.0, -1, 1, 1]), ids[0], edges),
        unbin.aggregate(np.array([1.0, -1, -1, 1]), ids[1], edges),
    ]
    raking = raking_of(eta, tables, ids, "gaussian", [0.0])
    with pytest.warns(RakingWarning, match=r"'age' \(block '[cd]': a count is off by 1\)"):
        share = raking.shares()
    assert np.isfinite(share).all()
    np.testing.assert_allclose(share[:2, 0], 1, atol=1e-6)


def test_noisy_tables_and_unpublished_blocks_are_not_met():
    eta, y, ids, tables, nuisance = three_tables()
    inside = ids[1] != "003"
    tables[1] = unbin.aggregate(y[inside], ids[1][inside], AGE_EDGES)
    histogram = tables[2].to_columns()["histogram"]
    noisy = unbin.Release.from_histogram(
        histogram | {"count": histogram["count"] + [7, -3, 5, -8, 2, 4]}, noise_sd=5.0
    )
    ages = tables[1].align(np.where(inside, ids[1], None), on_missing="drop")
    aligned = [tables[0].align(ids[0]), ages, noisy.align(ids[2])]
    raking = raking_of_targets(eta, aligned, "gaussian", nuisance)
    share = raking.shares()
    assert raking.unmet == ()
    upper = np.append(inner_edges(tables), np.inf)
    for table, blocks in zip(tables[:2], ids[:2], strict=True):
        found = sums_of(share, upper, table, blocks).ravel()
        np.testing.assert_allclose(found, table.histogram.count, atol=1e-6)
    assert np.abs(sums_of(share, upper, noisy, ids[2]).ravel() - noisy.histogram.count).max() > 1


@pytest.mark.parametrize("which", [0, 2])
def test_suppressed_counts_stay_within_their_intervals_and_let_the_others_be_met(which):
    eta, y, ids, tables, nuisance = three_tables()
    ids[2] = np.char.add(ids[2], ids[0])  # small blocks
    tables[2] = unbin.aggregate(y, ids[2], 3)
    whole = list(tables)
    tables[which] = suppressed(tables[which])
    raking = raking_of(eta, tables, ids, "gaussian", nuisance)
    share = raking.shares()
    assert raking.unmet == ()
    upper = np.append(inner_edges(whole), np.inf)
    for table, blocks in zip(whole, ids, strict=True):
        found, count = sums_of(share, upper, table, blocks).ravel(), table.histogram.count
        if table is not whole[which]:
            np.testing.assert_allclose(found, count, atol=1e-6)
            continue
        hidden = (count >= 1) & (count <= 10)
        assert 0.2 < hidden.mean() < 0.9
        np.testing.assert_allclose(found[~hidden], count[~hidden], atol=1e-6)
        assert found[hidden].min() >= 1 - 1e-5
        assert found[hidden].max() <= 10 + 1e-5
    y_drawn = raking.draw(np.random.default_rng(0))
    edges = np.append(-np.inf, whole[0].histogram.upper[:5])
    drawn, count = unbin.aggregate(y_drawn, ids[0], edges).histogram.count, whole[0].histogram.count
    hidden = (count >= 1) & (count <= 10) & (which == 0)
    np.testing.assert_array_equal(drawn[~hidden], count[~hidden])
    assert (drawn[hidden] >= 1).all()
    assert (drawn[hidden] <= 10).all()


@pytest.mark.parametrize("first", [True, False])
def test_bins_may_differ_between_blocks(first):
    """Quartiles of the counties and medians of age groups beside a histogram by sex."""
    eta, y, ids, tables, nuisance = three_tables()
    tables[0] = quantile_release(y, ids[0], (0.25, 0.5, 0.75))
    tables[1] = quantile_release(y, ids[1], (0.5,))
    names = [0, 1, 2] if first else [2, 0, 1]
    ids = [ids[k] for k in names]
    raking = raking_of(eta, [tables[k] for k in names], ids, "gaussian", nuisance)
    rng = np.random.default_rng(0)
    draws = np.stack([raking.draw(rng) for _ in range(30)])
    assert raking.unmet == ()
    for k, blocks in zip(names[:2], ids[:2], strict=True):
        for b, name in enumerate(tables[k].blocks):
            rows = blocks == name
            if k == 2:
                edges, count = (
                    v.reshape(2, -1)[b]
                    for v in (tables[2].histogram.upper, tables[2].histogram.count)
                )
                wanted = np.cumsum(count)[:-1]
                below = (draws[:, rows, None] <= edges[:-1]).sum(axis=1)
            else:
                order = tables[k].order_statistics
                mine = slice(order.start[b], order.start[b + 1])
                wanted = np.ceil(order.quantile[mine] * rows.sum())
                below = (draws[:, rows, None] <= order.value[mine]).sum(axis=1)
            if k == names[0]:
                assert (below == wanted).all()
            else:
                assert np.abs(below.mean(axis=0) - wanted).max() < 6


# -- rows that stand for several people, and people whose outcome is known -------------------------


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        *product(["gaussian", "poisson", "ordinal"], ["histogram", "hidden"]),
        ("gaussian", "quantiles"),
    ],
)
def test_weighted_rows_are_raked_as_repeated_rows(family, kind):
    eta, y, ids, tables, nuisance = three_tables(family, n=900, n_counties=15)
    if kind == "hidden":
        tables = [suppressed(table) for table in tables]
    if kind == "quantiles":
        tables[0] = quantile_release(y, ids[0], (0.25, 0.5, 0.75))
    # of each three people who follow each other in a cell of all tables, one row
    cell = np.unique(np.stack(ids), axis=1, return_inverse=True)[1].ravel()
    order = np.argsort(cell, kind="stable")
    new = np.diff(cell[order], prepend=-1) > 0
    new |= np.arange(len(order)) % 3 == 0
    first, row = order[new], np.empty(len(order), int)
    row[order] = np.cumsum(new) - 1
    weights = np.bincount(row).astype(float)
    alike = eta[first][row]  # the people of a row have its linear predictor
    ours = raking_of(eta[first], tables, [i[first] for i in ids], family, nuisance, weights)
    theirs = raking_of(alike, tables, ids, family, nuisance)
    np.testing.assert_allclose(ours.shares()[row], theirs.shares(), atol=1e-6)
    np.testing.assert_allclose(ours.mean()[row], theirs.mean(), rtol=1e-6, atol=1e-6)
    assert ours.unmet == theirs.unmet == ()


def known_people(log=False, n=600):
    rng = np.random.default_rng(0)
    county = rng.permutation(np.arange(n) % 30)
    age = rng.integers(0, 5, n).astype(str)
    X = rng.normal(size=(n, 2)) + rng.normal(size=(30, 2))[county]
    y = 0.3 + X @ [0.5, -0.3] + 0.5 * rng.normal(size=n)
    known = (rng.random(n) < 0.2) | (county == 7)  # of county 7 everybody
    return X, np.exp(y) if log else y, (county.astype(str), age), known


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("n_tables", [1, 2])
def test_known_outcomes_are_imputed_as_they_are(n_tables, log, disjoint):
    X, y, ids, known = known_people(log)
    tables = [unbin.aggregate(y, blocks, 5) for blocks in ids[:n_tables]]
    aligned = [table.align(blocks) for table, blocks in zip(tables, ids, strict=False)]
    told = unbin.observed(np.where(known, y, np.nan), disjoint=disjoint)
    target = unbin.join(*aligned, told)
    model = unbin.AggregatedGLM(target_transform="log" if log else None).fit(X, target)
    mean, draws = model.impute(), model.impute("draw", size=2, random_state=0)
    np.testing.assert_allclose(mean[known], y[known], rtol=1e-12)
    np.testing.assert_allclose(draws[:, known], np.stack([y[known]] * 2), rtol=1e-12)
    assert np.corrcoef(mean[~known], y[~known])[0, 1] > 0.75
    assert model.n_people_ == len(y)
    if not disjoint:  # those known and those drawn together give the first table back
        edges = np.append(-np.inf, tables[0].histogram.upper[:5])
        for drawn in draws:
            again = unbin.aggregate(drawn, ids[0], edges).histogram.count
            np.testing.assert_array_equal(again, tables[0].histogram.count)


def test_raked_shares_leave_out_those_known():
    X, y, ids, known = known_people()
    aligned = [unbin.aggregate(y, blocks, 5).align(blocks) for blocks in ids]
    target = unbin.join(*aligned, unbin.observed(np.where(known, y, np.nan)))
    raking = unbin.AggregatedGLM().fit(X, target)._fits[0].imputed
    share = raking.shares()
    assert np.isnan(share[known]).all()
    upper = np.append(inner_edges([table.release for table in target.tables]), np.inf)
    for table, blocks in zip(target.tables, ids, strict=True):
        some = table.release.select([b for b in table.release.blocks if b != "7"])
        sums = sums_of(share[~known], upper, some, blocks[~known])
        np.testing.assert_allclose(sums, some.histogram.count.reshape(sums.shape), atol=1e-6)


def test_everybody_known_is_the_ordinary_fit():
    X, y, ids, _ = known_people()
    target = unbin.join(unbin.aggregate(y, ids[0], 5).align(ids[0]), unbin.observed(y))
    np.testing.assert_array_equal(
        unbin.AggregatedGLM().fit(X, target).coef_, unbin.AggregatedGLM().fit(X, y).coef_
    )
    weights = np.repeat([1.0, 2.0], len(y) // 2)
    people = np.repeat(np.arange(len(y)), weights.astype(int))
    table = unbin.aggregate(y[people], ids[0][people], 5).align(ids[0], weights=weights)
    np.testing.assert_allclose(
        unbin.AggregatedGLM().fit(X, unbin.join(table, unbin.observed(y))).coef_,
        unbin.AggregatedGLM().fit(X, y, sample_weight=weights).coef_,
    )


def test_known_rows_of_several_people_beside_single_ones_may_be_drawn():
    X, y, ids, known = known_people()
    weights = np.where(known, 3.0, 1.0)
    people = np.repeat(np.arange(len(y)), weights.astype(int))
    table = unbin.aggregate(y[people], ids[0][people], 5).align(ids[0], weights=weights)
    target = unbin.join(table, unbin.observed(np.where(known, y, np.nan)))
    model = unbin.AggregatedGLM().fit(X, target)
    assert model.n_people_ == len(people)
    np.testing.assert_array_equal(model.impute("draw", random_state=0)[known], y[known])


@pytest.mark.parametrize("hidden", [False, True])
def test_a_sample_is_raked_to_tables_of_everybody(hidden):
    """Its weights are calibrated first: else tables that agree would contradict each other."""
    eta, _, ids, tables, nuisance = three_tables(n=3600, n_counties=12)
    asked = np.random.default_rng(0).random(len(eta)) < 0.2
    told = [suppressed(table) for table in tables] if hidden else tables
    weights = 5 * np.random.default_rng(1).uniform(0.8, 1.2, asked.sum())
    some = [blocks[asked] for blocks in ids]
    aligned = [
        table.align(blocks, weights=weights, weighting="survey")
        for table, blocks in zip(told, some, strict=True)
    ]
    raking = raking_of_targets(eta[asked], aligned, "gaussian", nuisance, weights, smallest=1)
    assert raking.unmet == ()
    share, people = raking.shares(), np.empty(len(weights))
    people[raking.counted.order] = raking.counted.people
    assert np.abs(np.log(people / weights)).max() < 1.5
    upper = np.append(inner_edges(tables), np.inf)
    for table, blocks in zip(told, some, strict=True):
        low, high = table.histogram.interval()
        sums = sums_of(people[:, None] * share, upper, table, blocks).ravel()
        slack = 0.02 if hidden else 0.0  # where counts are hidden, the weights tell the people
        assert (sums > (1 - slack) * low - 1e-6).all()
        assert (sums < (1 + slack) * high + 1e-6).all()
