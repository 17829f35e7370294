"""Folds of whole blocks."""

import numpy as np
import pytest

from unbin import BlockKFold, aggregate


def make_target(sizes, seed=0):
    rng = np.random.default_rng(seed)
    ids = rng.permutation(np.repeat([f"b{k:03d}" for k in range(len(sizes))], sizes))
    return aggregate(rng.normal(size=len(ids)), ids, bins=3).align(ids)


SIZES = {
    "equal": np.full(12, 5),
    "distinct": np.arange(1, 24),
    "one-large": np.array([100, 1, 1, 1, 1, 1]),
    "random": np.random.default_rng(1).integers(1, 60, size=40),
}


def folds(target, **settings):
    X = np.zeros((len(target), 1))
    return list(BlockKFold(**settings).split(X, target))


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("n_splits", [2, 3, 5, 6])
@pytest.mark.parametrize("shuffle", [False, True])
def test_folds_are_a_partition_of_whole_blocks(sizes, n_splits, shuffle):
    target = make_target(sizes)
    parts = folds(target, n_splits=n_splits, shuffle=shuffle, random_state=4)
    assert len(parts) == n_splits
    held_out = np.concatenate([test for _, test in parts])
    assert sorted(held_out) == list(range(len(target)))
    for train, test in parts:
        assert sorted(np.concatenate([train, test])) == list(range(len(target)))
        assert not set(target.blocks[train]) & set(target.blocks[test])
        assert len(target[test]) == len(test)  # raises if a block were split
        assert len(target[train]) == len(train)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("name", ["equal", "distinct", "random"])
def test_folds_are_balanced(name, shuffle):
    target = make_target(SIZES[name])
    parts = folds(target, n_splits=4, shuffle=shuffle, random_state=0)
    n_blocks = [len(set(target.blocks[test])) for _, test in parts]
    assert max(n_blocks) - min(n_blocks) <= 1
    people = np.array([len(test) for _, test in parts])
    # in each lap folds get neighbours of the sorted sizes, so laps differ by at most the largest
    assert people.max() - people.min() <= SIZES[name].max()


def test_equal_blocks_give_equal_folds():
    parts = folds(make_target(SIZES["equal"]), n_splits=4)
    assert [len(test) for _, test in parts] == [15] * 4


def test_forth_and_back():
    target = make_target([6, 5, 4, 3, 2, 1])
    parts = folds(target, n_splits=3)
    named = [sorted(set(target.blocks[test])) for _, test in parts]
    assert named == [["b000", "b005"], ["b001", "b004"], ["b002", "b003"]]


def same(a, b):
    return all(np.array_equal(x[1], y[1]) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", ["equal", "distinct"])
def test_deterministic_unless_shuffled(name):
    target = make_target(SIZES[name])
    plain = folds(target, n_splits=4)
    assert same(plain, folds(target, n_splits=4))
    assert same(plain, folds(target, n_splits=4, random_state=5))
    shuffled = folds(target, n_splits=4, shuffle=True, random_state=5)
    assert same(shuffled, folds(target, n_splits=4, shuffle=True, random_state=5))
    assert not same(shuffled, plain)
    assert not same(shuffled, folds(target, n_splits=4, shuffle=True, random_state=6))


def test_the_order_of_rows_does_not_matter():
    sizes = SIZES["distinct"]
    a, b = make_target(sizes, seed=0), make_target(sizes, seed=1)
    for (_, x), (_, y) in zip(folds(a, n_splits=3), folds(b, n_splits=3), strict=True):
        assert set(a.blocks[x]) == set(b.blocks[y])


def test_n_splits():
    assert BlockKFold().get_n_splits() == 5
    assert BlockKFold(3).get_n_splits(None, None, None) == 3
