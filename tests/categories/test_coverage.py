"""Coefficients and cells over simulated tables: near the truth, and as near as they say."""

import numpy as np
import pandas as pd
import pytest

import unbin
from tests.helpers.votes import SLOPES, draw_votes

TRUTH = SLOPES.T - SLOPES.T.mean(axis=0)
RUNS = 25


def tables_of(people, *more):
    cuts = [people.blocks, *more]
    tables = [unbin.aggregate(people.labels, ids).align(ids) for ids in cuts]
    return tables[0] if len(tables) == 1 else unbin.join(*tables)


def one_way(people):
    """Return classes of the first feature, and the second."""
    first = np.digitize(people.X[:, 0], [-1.5, -0.8, -0.2, 0.4, 1.0, 1.6]).astype(str)
    return first, people.X[:, 1].astype(int).astype(str)


@pytest.mark.parametrize("effect_sd", [0.0, 0.5])
def test_intervals_cover(effect_sd):
    covered, away = [], []
    for seed in range(RUNS):
        people = draw_votes(seed=seed, n_blocks=60, size=50, effect_sd=effect_sd, spread=1.0)
        model = unbin.AggregatedClassifier().fit(people.X, tables_of(people))
        low, high = np.moveaxis(model.conf_int(), -1, 0)
        covered.append((low <= TRUTH) & (high >= TRUTH))
        away.append(model.coef_ - TRUTH)
    assert 0.9 <= np.mean(covered) <= 0.99
    assert np.abs(np.mean(away, axis=0)).max() < 0.15


def test_several_tables_come_near_those_who_see_everybody():
    errors = {"blocks": [], "tables": [], "labels": []}
    covered = []
    for seed in range(8):
        people = draw_votes(seed=seed, n_blocks=60, size=50, spread=0.3)
        fits = {
            "blocks": tables_of(people),
            "tables": tables_of(people, *one_way(people)),
            "labels": people.labels,
        }
        for name, y in fits.items():
            model = unbin.AggregatedClassifier().fit(people.X, y)
            errors[name].append((model.coef_ - TRUTH) ** 2)
            if name == "tables":
                low, high = np.moveaxis(model.conf_int(), -1, 0)
                covered.append((low <= TRUTH) & (high >= TRUTH))
    blocks, tables, labels = (np.sqrt(np.mean(errors[name])) for name in errors)
    assert labels < tables < 1.3 * labels
    assert blocks > 2 * tables
    assert np.mean(covered) > 0.85


def test_known_people_tell_what_blocks_do_not():
    errors = {"blocks": [], "both": [], "labels": []}
    covered = []
    for seed in range(8):
        people = draw_votes(seed=seed, n_blocks=60, size=50, spread=0.3)
        known = np.random.default_rng(seed).choice(len(people.X), 300, replace=False)
        told = np.full(len(people.X), None, dtype=object)
        told[known] = people.labels[known]
        fits = {
            "blocks": tables_of(people),
            "both": unbin.join(tables_of(people), unbin.observed(told)),
            "labels": unbin.observed(told),
        }
        for name, y in fits.items():
            model = unbin.AggregatedClassifier().fit(people.X, y)
            errors[name].append((model.coef_ - TRUTH) ** 2)
            if name == "both":
                low, high = np.moveaxis(model.conf_int(), -1, 0)
                covered.append((low <= TRUTH) & (high >= TRUTH))
    blocks, both, labels = (np.sqrt(np.mean(errors[name])) for name in errors)
    assert both < labels
    assert both < blocks
    assert np.mean(covered) > 0.85


def test_a_second_table_tells_what_margins_do_not():
    # people of a group choose otherwise where the group is large: margins alone mislead
    away = {"margins": [], "tables": []}
    for seed in range(5):
        people = draw_votes(seed=seed, n_blocks=60, size=100)
        rng, code = np.random.default_rng(seed), people.blocks.astype(int)
        share = np.bincount(code, people.X[:, 1]) / 100
        eta = people.X[:, 1:] @ SLOPES[1:] + 1.5 * (share[code] - 0.5)[:, None] * [-1, 0, 1]
        labels = np.array(["a", "b", "c"])[(eta + rng.gumbel(size=eta.shape)).argmax(axis=1)]
        frame = pd.DataFrame({"member": people.X[:, 1], "precinct": people.blocks})
        group = frame["member"].map({0.0: "no", 1.0: "yes"}).rename("group")
        truth = pd.crosstab(group, labels).to_numpy()
        votes = unbin.aggregate(labels, people.blocks).align(people.blocks)
        second = unbin.aggregate(labels, group).align(group)
        for name, y, z in (("margins", votes, 0.0), ("tables", unbin.join(votes, second), 1.0)):
            model = unbin.AggregatedClassifier(random=["member"], contextual=z)
            table = model.fit(frame[["member"]], y).group_table()
            found = table["count"].to_numpy().reshape(2, 3)
            away[name].append(np.abs(found - truth).sum() / 2 / len(frame))
    assert np.mean(away["tables"]) < 0.4 * np.mean(away["margins"])


def test_intervals_of_cells_cover():
    covered, blocks = [], []
    for seed in range(12):
        people = draw_votes(seed=seed, n_blocks=60, size=100, effect_sd=0.3, by_group=True)
        X = people.X[:, 1:]
        rng, code = np.random.default_rng(seed), people.blocks.astype(int)
        effects = 0.3 * rng.normal(size=(60, 2, 3))
        eta = X @ SLOPES[1:] + effects[code, X[:, 0].astype(int)]
        labels = np.array(["a", "b", "c"])[(eta + rng.gumbel(size=eta.shape)).argmax(axis=1)]
        target = unbin.aggregate(labels, people.blocks).align(people.blocks)
        model = unbin.AggregatedClassifier(random=["x0"]).fit(X, target)
        table = model.group_table()
        truth = pd.crosstab(X[:, 0], labels, normalize="index").to_numpy().ravel()
        covered.append((table["conf_low"] <= truth) & (truth <= table["conf_high"]))
        each = model.block_table()
        place = np.unique(people.blocks, return_inverse=True)[1]
        cells = np.zeros((60, 2, 3))
        np.add.at(cells, (place, X[:, 0].astype(int), np.searchsorted(["a", "b", "c"], labels)), 1)
        share = cells.ravel() / np.maximum(each["people"], 1)
        blocks.append((each["conf_low"] - 1e-9 <= share) & (share <= each["conf_high"] + 1e-9))
    assert 0.88 <= np.mean(covered) <= 1
    assert 0.9 <= np.mean(blocks) <= 1
