"""Weights that add up to the people of tables."""

import numpy as np
import pytest

from unbin.likelihood.data.counts import PublishedCounts
from unbin.likelihood.impute.calibration import calibrate, for_people


def table(n, known=None):
    n = np.asarray(n)
    count = np.column_stack([n // 2, n - n // 2]).astype(float)
    known = np.ones(len(n), bool) if known is None else np.asarray(known)
    return PublishedCounts(n, np.array([-np.inf, 0]), np.array([0, np.inf]), count, known)


def test_weights_of_one_table_are_multiplied():
    codes, weights = np.array([0, 0, 1]), np.array([1.0, 3.0, 5.0])
    found = calibrate(weights, [codes], [table([8, 20])])
    np.testing.assert_allclose(found, [2, 6, 20])


def test_weights_of_two_tables_are_raked_to_both():
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 4, 200), rng.integers(0, 3, 200)]
    truth = rng.uniform(1, 9, 200)
    sizes = [np.bincount(code, truth) for code in codes]
    sizes = [np.rint(size).astype(int) for size in sizes]
    sizes[1][0] += sizes[0].sum() - sizes[1].sum()
    weights = truth * rng.uniform(0.5, 1.5, 200)
    found = calibrate(weights, codes, [table(size) for size in sizes])
    for code, size in zip(codes, sizes, strict=True):
        np.testing.assert_allclose(np.bincount(code, found), size, rtol=1e-11)
    # iterative proportional fitting: log weights change by a term per block
    change = np.log(found / weights)
    columns = np.column_stack([np.eye(4)[codes[0]], np.eye(3)[codes[1]]])
    fitted = columns @ np.linalg.lstsq(columns, change, rcond=None)[0]
    np.testing.assert_allclose(change, fitted, atol=1e-9)


def test_weights_that_are_right_stay_as_they_are():
    weights = np.array([2.0, 1.0, 4.0])
    assert calibrate(weights, [np.array([0, 0, 1])], [table([3, 4])]) is weights


def test_blocks_without_counts_or_rows_ask_for_nothing():
    weights = np.array([2.0, 2.0])
    found = calibrate(weights, [np.array([0, 1])], [table([9, 8, 1], [False, True, True])])
    np.testing.assert_allclose(found, [2, 8])
    counts = for_people(found, np.array([0, 1]), table([9, 8, 1], [False, True, False]))
    np.testing.assert_allclose(counts.n, [2, 8, 0])
    np.testing.assert_allclose(counts.count.sum(axis=1), [2, 8, 0])


@pytest.mark.parametrize("n", [[3, 4], [4, 4]])
def test_tables_that_count_other_people_are_brought_to_the_rows(n):
    codes, weights = [np.array([0, 0, 1]), np.array([0, 1, 1])], np.array([1.0, 2.0, 4.0])
    tables = [table([3, 4]), table(n)]
    found = calibrate(weights, codes, tables)
    brought = [for_people(found, *each) for each in zip(codes, tables, strict=True)]
    for code, counts in zip(codes, brought, strict=True):
        np.testing.assert_allclose(np.bincount(code, found), counts.n, rtol=1e-9)
