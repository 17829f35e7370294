"""What tables say of the means of their blocks, read as somebody without a model would."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import several_tables
from studies.registry import Table, Task


def one_way(blocks: np.ndarray, X: np.ndarray) -> dict[str, np.ndarray]:
    """Return the blocks, and a partition by the values or quarters of each feature that varies."""
    found = {f"feature {j}": several_tables.groups(column) for j, column in enumerate(X.T)}
    return {"block": blocks} | {name: ids for name, ids in found.items() if len(np.unique(ids)) > 1}


@dataclass(frozen=True)
class BlockMeans:
    """Blocks of a table: which each person is in, people, mean outcome, mean features.

    Attributes
    ----------
    place : (n,) block of each person
    people : (B,)
    outcome : (B,)
    features : (B, d)
    """

    place: np.ndarray
    people: np.ndarray
    outcome: np.ndarray
    features: np.ndarray


def block_means(X: np.ndarray, table: Table) -> BlockMeans:
    """Return the means of the blocks of a table; of outcomes, by midpoints or medians."""
    names, place, people = np.unique(table.ids, return_inverse=True, return_counts=True)
    sums = np.zeros((len(names), X.shape[1]))
    np.add.at(sums, place, X)
    columns = table.release.to_columns()
    if "histogram" in columns:
        shares, values = proportions(table)
        outcome = shares @ values
    else:
        given = columns["order_statistics"]
        outcome = np.asarray(given["value"], float)[np.searchsorted(given["block"], names)]
    return BlockMeans(place, people, outcome, sums / people[:, None])


def proportions(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of each bin in each block, (B, K), and the midpoint of each bin, (K,).

    A suppressed count is taken for the middle of what it may be. A bin that is open has the width
    of its neighbour; the last bin of a 0/1 outcome stands for 1.
    """
    columns = table.release.to_columns()["histogram"]
    names, place = np.unique(columns["block"], return_inverse=True)
    ends = np.column_stack([columns["lower"], columns["upper"]])
    bins, code = np.unique(ends, axis=0, return_inverse=True)
    count = np.zeros((len(names), len(bins)))
    np.add.at(count, (place, code.ravel()), np.asarray(columns["count"], float))
    return count / count.sum(axis=1, keepdims=True), midpoints(*bins.T)


def midpoints(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return the middle of each bin, in their order."""
    if np.array_equal(np.column_stack([lower, upper]), [[-1, 0], [0, 1]]):
        return np.array([0.0, 1.0])
    width = upper - lower
    closed = width[np.isfinite(width)]
    first, last = (closed[0], closed[-1]) if len(closed) else (0.0, 0.0)
    low = np.where(np.isfinite(lower), lower, upper - first)
    high = np.where(np.isfinite(upper), upper, lower + last)
    return (low + high) / 2


def all_block_means(task: Task) -> list[BlockMeans]:
    """Return the means of the blocks of every table."""
    return [block_means(task.X, table) for table in task.tables]
