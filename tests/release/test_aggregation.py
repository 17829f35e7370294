"""Publishing values that stand for several people."""

import numpy as np
import pytest

import unbin
from unbin.exceptions import AlignmentError, BinError, DomainError


def _rows(seed, n=60):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 12, n) / 2
    return y, rng.choice(["a", "b", "c"], n), rng.integers(1, 9, n)


@pytest.mark.parametrize("bins", [1, 3, 5, 12, 25, [-np.inf, 1, 2.5, np.inf]])
@pytest.mark.parametrize("seed", range(5))
def test_whole_weights_are_repeated_rows(bins, seed):
    y, blocks, w = _rows(seed)
    weighted = unbin.aggregate(y, blocks, bins, weights=w)
    repeated = unbin.aggregate(np.repeat(y, w), np.repeat(blocks, w), bins)
    assert (weighted.n == repeated.n).all()
    for name in ("start", "lower", "upper", "count"):
        one, other = getattr(weighted.histogram, name), getattr(repeated.histogram, name)
        assert np.array_equal(one, other)


def test_as_many_quantiles_as_people_and_not_as_rows():
    y, w = np.array([0.0, 1.0, 2.0]), np.array([1, 8, 1])
    # the deciles of ten people, of whom all but the first and the last have the value 1
    assert unbin.aggregate(y, bins=10, weights=w).histogram.upper.tolist() == [0, 1, np.inf]


@pytest.mark.parametrize("seed", range(20))
def test_fractional_sums_are_rounded_to_the_people_of_each_block(seed):
    rng = np.random.default_rng(seed)
    y, blocks, _ = _rows(seed)
    w = rng.uniform(0.05, 3, len(y))
    edges = [-np.inf, 1, 2, 3, 4, np.inf]
    release = unbin.aggregate(y, blocks, edges, weights=w)
    count = release.histogram.count.reshape(len(release), -1)
    place = np.searchsorted(edges, y) - 1
    sums = np.array([
        [w[(blocks == block) & (place == k)].sum() for k in range(5)] for block in release.blocks
    ])  # fmt: skip
    assert (count.sum(axis=1) == np.rint(sums.sum(axis=1))).all()
    assert (np.abs(count - sums) < 1).all()
    for own, sought in zip(count, sums, strict=True):  # no swap of two counts comes nearer
        gap = np.abs(own - sought).sum()
        for i in range(5):
            for j in range(5):
                moved = own + (np.arange(5) == i) - (np.arange(5) == j)
                assert np.abs(moved - sought).sum() >= gap - 1e-9
    assert release.align(blocks, weights=w).release.n.tolist() == release.n.tolist()


def test_a_block_of_a_part_of_a_person_counts_one():
    release = unbin.aggregate([1.0, 5.0, 1.0], ["a", "a", "b"], [0, 2, 9], weights=[2, 1, 0.3])
    assert release.histogram.count.tolist() == [2, 1, 1, 0]
    assert release.align(["a", "a", "b"], weights=[2, 1, 0.3]).release.n.tolist() == [3, 1]


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ([1, 0, 2], DomainError, "weights: a row must stand for a finite number of people above 0, "
         "got 0 in row 1; leave out rows that stand for nobody"),
        ([1, -2, np.nan], DomainError, "weights: a row must stand for a finite number of people "
         "above 0, got -2 in row 1 and 1 more; leave out rows that stand for nobody"),
        ([1, 2], AlignmentError, "weights: must have one value per row of X, got 2 for 3 rows; "
         "check it"),
        (["a", "b", "c"], DomainError, "weights: must hold numbers, got <U1; convert them to "
         "numbers first"),
    ],
)  # fmt: skip
def test_weights_that_are_none(weights, error, message):
    with pytest.raises(error) as caught:
        unbin.aggregate([1.0, 2.0, 3.0], weights=weights)
    assert str(caught.value) == message


def test_no_more_quantiles_than_cells_of_a_table():
    with pytest.raises(BinError, match="at most 20,000,000 cells, got 3,000,000,000,000 bins of 1"):
        unbin.aggregate([1.0, 2.0], bins=10**13, weights=[1e12, 2e12])
