"""People of blocks by group and category: margins, bounds, and whom nobody can be."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import unbin
from tests.helpers.votes import draw_votes, problem_of
from unbin.categories import cells
from unbin.categories.cells import cells_of, interval, rake
from unbin.categories.fit import fit_categories
from unbin.exceptions import AlignmentWarning, ParameterError

HOW = {"alpha": None, "tol": 1e-6, "max_iter": 200}


def fitted(problem, **how):
    fit = fit_categories(problem, **HOW | how)
    return fit, cells_of(problem, fit.root, fit.precision.covariance)


def voters(seed=3, n_blocks=40, size=80, effect_sd=0.3):
    people = draw_votes(seed=seed, n_blocks=n_blocks, size=size, effect_sd=effect_sd, by_group=True)
    frame = pd.DataFrame({
        "age": people.X[:, 0],
        "race": np.where(people.X[:, 1] > 0, "y", "x"),
        "precinct": people.blocks,
        "vote": people.labels,
    })  # fmt: skip
    return frame, unbin.aggregate(people.labels, people.blocks)


def fit_votes(frame, release, features=("race",), **settings):
    model = unbin.AggregatedClassifier(random=["race"], **settings)
    return model.fit(frame, {"precinct": release}, features=list(features))


# -- margins ---------------------------------------------------------------------------------------


def test_cells_meet_both_margins():
    people = draw_votes(seed=3, effect_sd=0.3, by_group=True)
    problem = problem_of(people, grouped=True)
    _, found = fitted(problem)
    codes = np.unique(people.blocks, return_inverse=True)[1]
    member = people.X[:, 1]
    by_group = np.stack([np.bincount(codes, 1 - member), np.bincount(codes, member)], axis=1)
    np.testing.assert_allclose(found.people, by_group)
    np.testing.assert_allclose(found.count.sum(axis=2), by_group, atol=1e-6)
    np.testing.assert_allclose(found.count.sum(axis=1), problem.counts.count, atol=1e-6)
    assert (found.least <= found.count + 1e-6).all()
    assert (found.count <= found.most + 1e-6).all()


def test_cells_of_one_group_are_the_counts():
    people = draw_votes(seed=3, effect_sd=0.3)
    problem = problem_of(people)
    _, found = fitted(problem)
    np.testing.assert_allclose(found.count[:, 0], problem.counts.count, atol=1e-9)
    np.testing.assert_allclose(found.least, found.most)  # nothing is left open


def test_covariance_of_cells_is_that_of_their_residuals():
    people = draw_votes(seed=3, effect_sd=0.3, by_group=True)
    problem = problem_of(people, grouped=True)
    _, found = fitted(problem)
    truth = np.zeros_like(found.count)
    codes = np.unique(people.blocks, return_inverse=True)[1]
    names = np.unique(people.labels)
    np.add.at(truth, (codes, people.X[:, 1].astype(int), np.searchsorted(names, people.labels)), 1)
    away = (found.count - truth) / np.sqrt(found.variance)
    assert 0.8 < np.sqrt(np.mean(away**2)) < 1.2
    total = (found.count - truth).sum(axis=0) / np.sqrt(found.total_variance)
    assert np.abs(total).max() < 3
    # a block's two groups are off by the same people
    np.testing.assert_allclose(found.variance[:, 0], found.variance[:, 1], rtol=0.3, atol=1)


def brute_rake(table, rows, columns):
    for _ in range(5000):
        table = table * (rows / table.sum(axis=1))[:, None]
        table = table * columns / table.sum(axis=0)
    return table


def test_raking_is_iterative_proportional_fitting():
    rng = np.random.default_rng(0)
    start = rng.uniform(0.5, 5, (6, 3, 4))
    truth = rng.integers(1, 30, (6, 3, 4)).astype(float)
    rows, columns = truth.sum(axis=2), truth.sum(axis=1)
    found = rake(start, rows, columns)
    for b in range(6):
        np.testing.assert_allclose(found[b], brute_rake(start[b], rows[b], columns[b]), rtol=1e-6)
    odds = found[:, 0, 0] * found[:, 1, 1] / found[:, 0, 1] / found[:, 1, 0]
    held = start[:, 0, 0] * start[:, 1, 1] / start[:, 0, 1] / start[:, 1, 0]
    np.testing.assert_allclose(odds, held, rtol=1e-6)


def test_raking_keeps_zeros_and_scales_columns():
    start = np.ones((1, 2, 3))
    start[0, 0, 2] = 0
    found = rake(start, np.array([[6.0, 4.0]]), np.array([[2.0, 2.0, 1.0]]))
    assert found[0, 0, 2] == 0
    np.testing.assert_allclose(found.sum(axis=1), [[4, 4, 2]], atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=2), [[6, 4]], atol=1e-6)
    nobody = rake(np.ones((1, 2, 2)), np.array([[0.0, 3.0]]), np.array([[3.0, 0.0]]))
    np.testing.assert_allclose(nobody, [[[0, 0], [3, 0]]], atol=1e-9)


def test_intervals_lie_between_what_margins_leave():
    count = np.array([0.0, 5.0, 10.0, 3.0])
    people = np.full(4, 10.0)
    least, most = np.array([0.0, 4.0, 0.0, 0.0]), np.array([10.0, 6.0, 10.0, 3.0])
    low, high = interval(count, np.full(4, 4.0), people, least, most, 0.95)
    assert (low >= least).all()
    assert (high <= most).all()
    assert (low <= count + 1e-9).all()
    assert (high >= count - 1e-9).all()
    narrow = interval(count, np.full(4, 4.0), people, np.zeros(4), people, 0.5)
    wide = interval(count, np.full(4, 4.0), people, np.zeros(4), people, 0.99)
    assert (narrow[0] >= wide[0]).all()
    assert (narrow[1] <= wide[1]).all()
    assert narrow[0][1] > wide[0][1]


def test_duncan_davis_bounds_are_what_margins_leave():
    people = draw_votes(seed=3, n_blocks=5, size=6)
    problem = problem_of(people, grouped=True)
    _, found = fitted(problem)
    for b in range(5):
        n, counts = found.people[b], problem.counts.count[b]
        for k, c in enumerate(counts):
            # every way in which c people of category k can be of the first group
            ways = [x for x in range(int(c) + 1) if x <= n[0] and c - x <= n[1]]
            assert found.least[b, 0, k] == ways[0]
            assert found.most[b, 0, k] == ways[-1]


# -- what the classifier shows ---------------------------------------------------------------------


def test_tables_of_blocks_and_of_everybody():
    frame, release = voters()
    model = fit_votes(frame, release, ["age", "race"])
    table, total = model.block_table("race"), model.group_table()
    assert len(table) == 40 * 2 * 3
    margin = table.groupby(["block", "category"])["count"].sum()
    truth = frame.groupby(["precinct", "vote"]).size()
    truth.index.names = margin.index.names
    np.testing.assert_allclose(margin, truth.reindex(margin.index, fill_value=0), atol=1e-5)
    people = table.groupby(["block", "race"])["count"].sum().to_numpy()
    np.testing.assert_allclose(people, frame.groupby(["precinct", "race"]).size(), atol=1e-5)
    added = table.groupby(["race", "category"])["count"].sum().to_numpy()
    np.testing.assert_allclose(added, total["count"], rtol=1e-9)
    np.testing.assert_allclose(total["share"], total["count"] / total["people"])
    assert (total["conf_low"] < total["share"]).all()
    assert (total["share"] < total["conf_high"]).all()
    for z in ("0", "0.25", "0.5"):
        np.testing.assert_allclose(total.groupby("race")[f"share_z_{z}"].sum(), 1, atol=1e-6)
    np.testing.assert_allclose(total["share_z_0"], total["share"], rtol=1e-9)
    wrong = np.abs(
        total["count"].to_numpy() - frame.groupby(["race", "vote"]).size().to_numpy()
    ).sum() / (2 * len(frame))
    assert wrong < 0.04
    narrow = model.group_table(level=0.5)
    assert (narrow["conf_low"] > total["conf_low"]).all()


def test_two_features_are_summed_over_the_other():
    frame, release = voters()
    frame["sex"] = np.where(np.random.default_rng(0).random(len(frame)) < 0.5, "f", "m")
    model = unbin.AggregatedClassifier(random=["race", "sex"])
    model.fit(frame, {"precinct": release}, features=["race", "sex"])
    both, one = model.group_table(), model.group_table("sex")
    assert len(both) == 2 * 2 * 3
    assert list(one.columns[:2]) == ["sex", "category"]
    np.testing.assert_allclose(both.groupby(["sex", "category"])["count"].sum(), one["count"])
    turned = model.group_table(["sex", "race"])
    assert list(turned.columns[:3]) == ["sex", "race", "category"]
    assert model.effect_sd_.shape == (4,)


@pytest.mark.parametrize("by", ["age", ["race", "age"], []])
def test_tables_are_by_features_that_effects_follow(by):
    frame, release = voters()
    model = fit_votes(frame, release, ["age", "race"])
    for table in (model.group_table, model.block_table):
        with pytest.raises(ParameterError, match="by: must be features that effects follow"):
            table(by)


def test_no_cells_without_groups():
    frame, release = voters()
    model = unbin.AggregatedClassifier().fit(frame, {"precinct": release}, features=["age"])
    with pytest.raises(ParameterError, match=r"block_table: cells .* random=\[...\]"):
        model.block_table()
    labels = unbin.AggregatedClassifier().fit(frame[["age"]], frame["vote"])
    with pytest.raises(ParameterError, match="group_table: cells"):
        labels.group_table()


def test_cells_have_a_least_share_of_what_is_expected(monkeypatch):
    # without it a cell below zero becomes a zero that raking cannot leave
    problem = problem_of(draw_votes(effect_sd=1.5, by_group=True), grouped=True)
    fit, found = fitted(problem)
    assert (found.count[found.most > 0] > 1e-6).all()
    monkeypatch.setattr(cells, "_LEAST", 0.0)
    without = cells_of(problem, fit.root, fit.precision.covariance)
    assert (without.count[without.most > 0] < 1e-6).any()


# -- structural zeros, absence, turnout ------------------------------------------------------------


def test_nobody_is_where_nobody_can_be():
    frame, _ = voters()
    frame.loc[(frame["race"] == "y") & (frame["vote"] == "c"), "vote"] = "a"
    release = unbin.aggregate(frame["vote"], frame["precinct"])
    model = fit_votes(frame, release, impossible={"c": {"race": "y"}})
    table = model.block_table().set_index(["race", "category"])
    assert (table.loc[("y", "c"), ["count", "conf_low", "conf_high"]] == 0).to_numpy().all()
    total = model.group_table().set_index(["race", "category"])["count"]
    truth = frame.groupby(["race", "vote"]).size()
    assert total["x", "c"] == pytest.approx(truth["x", "c"], abs=1e-4)
    free = fit_votes(frame, release).group_table().set_index(["race", "category"])["count"]
    assert free["y", "c"] > 1


def test_a_category_that_a_block_does_not_offer_has_nobody_there():
    frame, _ = voters()
    away = frame["precinct"].isin(["0", "1", "2"]) & (frame["vote"] == "c")
    frame.loc[away, "vote"] = "b"
    counts = frame.groupby(["precinct", "vote"]).size().rename("count").reset_index()
    release = unbin.Release.from_categories(
        counts, block="precinct", category="vote", count="count", absent="structural"
    )
    model = fit_votes(frame, release)
    table = model.block_table().set_index(["block", "category"])
    for block in ("0", "1", "2"):
        assert (table.loc[(block, "c"), ["count", "conf_high"]] == 0).to_numpy().all()
    counts = model._model.counts
    expected = counts.expected[np.isin(counts.blocks, ["0", "1", "2"])]
    np.testing.assert_array_equal(expected[:, 2], 0)
    # zeros that somebody counted are far from what other blocks say
    zero = fit_votes(frame, unbin.aggregate(frame["vote"], frame["precinct"]))
    assert zero.effect_sd_.max() > model.effect_sd_.max()


def test_turnout_is_a_category_of_the_rest():
    frame, _ = voters()
    voted = frame[frame["vote"] != "c"]
    counts = voted.groupby(["precinct", "vote"]).size().rename("count").reset_index()
    counts["n"] = counts["precinct"].map(frame["precinct"].value_counts())
    release = unbin.Release.from_categories(
        counts, block="precinct", category="vote", count="count", n="n", rest="nobody"
    )
    model = fit_votes(frame, release)
    whole = fit_votes(frame, unbin.aggregate(frame["vote"], frame["precinct"]))
    assert list(model.classes_) == ["a", "b", "nobody"]
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-6)
    np.testing.assert_allclose(
        model.block_table()["count"], whole.block_table()["count"], atol=1e-4
    )


# -- counts that are not exact ---------------------------------------------------------------------


def changed(frame, **columns):
    counts = frame.groupby(["precinct", "vote"]).size().rename("count").reset_index()
    return counts.assign(**{name: make(counts["count"]) for name, make in columns.items()})


def test_suppressed_counts_widen_errors():
    frame, release = voters(size=40)
    table = changed(
        frame,
        low=lambda c: c.where(c > 15, 1).astype(float),
        high=lambda c: c.where(c > 15, 15).astype(float),
        count=lambda c: c.where(c > 15).astype(float),
    )
    hidden = unbin.Release.from_categories(
        table.assign(n=40), block="precinct", category="vote", count="count", count_low="low",
        count_high="high", n="n",
    )  # fmt: skip
    how = {"features": ["age"]}
    exact = unbin.AggregatedClassifier(0.0).fit(frame, {"precinct": release}, **how)
    model = unbin.AggregatedClassifier(0.0).fit(frame, {"precinct": hidden}, **how)
    np.testing.assert_allclose(model.coef_, exact.coef_, atol=3 * exact.standard_errors_.max())
    information = [each._model.covariance for each in (exact, model)]
    assert np.trace(information[1]) > 0.9 * np.trace(information[0])
    grouped = fit_votes(frame, hidden).block_table()
    assert np.isfinite(grouped["count"]).all()
    assert (grouped["conf_low"] <= grouped["share"] + 1e-9).all()


def test_noise_widens_errors():
    frame, release = voters()
    rng = np.random.default_rng(0)
    table = changed(frame, count=lambda c: c + rng.normal(0, 12, len(c)), n=lambda _: 80)
    noisy = unbin.Release.from_categories(
        table, block="precinct", category="vote", count="count", n="n", noise_sd=12.0
    )
    model, exact = fit_votes(frame, noisy), fit_votes(frame, release)
    told = fit_votes(frame, replace(noisy, noise_sd=1e-6))
    assert (model.standard_errors_ > 1.2 * exact.standard_errors_).all()
    assert (told.effect_sd_ > 1.2 * model.effect_sd_).all()  # noise that is not told is effects
    np.testing.assert_allclose(model.coef_, exact.coef_, atol=3 * model.standard_errors_.max())
    cells_noisy = model.block_table()
    assert (cells_noisy["count"] >= 0).all()
    np.testing.assert_allclose(
        cells_noisy.groupby(["block", "race"])["count"].sum(),
        frame.groupby(["precinct", "race"]).size(),
        atol=1e-5,
    )


def test_counts_that_differ_from_the_people_by_a_few_are_scaled():
    frame, release = voters()
    table = changed(frame, count=lambda c: c + (np.arange(len(c)) % 4 == 0))
    more = unbin.Release.from_categories(table, block="precinct", category="vote", count="count")
    with pytest.warns(AlignmentWarning, match="were multiplied by"):
        target = more.align(frame["precinct"], scale=True)
    people = frame[["race"]]
    model = unbin.AggregatedClassifier(random=["race"]).fit(people, target)
    exact = unbin.AggregatedClassifier(random=["race"]).fit(
        people, release.align(frame["precinct"])
    )
    np.testing.assert_allclose(model.coef_, exact.coef_, atol=0.1)
    cells_scaled = model.block_table()
    assert cells_scaled["count"].sum() == pytest.approx(len(frame), rel=1e-6)
