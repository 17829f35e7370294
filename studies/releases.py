"""What is published of the people of a study: tables by block, by more than that, medians, less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import common
import unbin
from studies.registry import People, Table, Votes, VotesTask

LEAST = 10
"""Counts of 1 to one less than this are suppressed."""


@dataclass(frozen=True)
class Kind:
    """A kind of release.

    Attributes
    ----------
    label : as the page calls it
    publish : tables of people
    votes : margins of votes, where the kind has any
    binary : whether an outcome of 0 and 1 is published so
    """

    label: str
    publish: Callable[[People], tuple[Table, ...]] | None
    votes: Callable[[Votes], VotesTask] | None = None
    binary: bool = False

    def of(self, family: str) -> bool:
        """Return whether studies of a family are published so."""
        if family == "votes":
            return self.votes is not None
        return self.publish is not None and (family != "binomial" or self.binary)


def edges(y: np.ndarray, bins: int) -> np.ndarray:
    """Return edges at the quantiles of everybody, ends open; one of 0 and 1 alone for these."""
    if np.isin(y, (0, 1)).all():
        return np.array([-1.0, 0.0, 1.0])
    cuts = np.unique(np.quantile(y, np.arange(1, bins) / bins, method="inverted_cdf"))
    return np.concatenate([[-np.inf], cuts[cuts < y.max()], [np.inf]])


def histograms(people: People, bins: int, *, several: bool) -> tuple[Table, ...]:
    """Return the table of the blocks, or all tables, in the same bins."""
    cuts = edges(people.y, bins)
    parts = list(people.tables.values())
    return tuple(
        Table(unbin.aggregate(people.y, ids, cuts), ids)
        for ids in (parts if several else parts[:1])
    )


def medians(people: People) -> tuple[Table, ...]:
    """Return the median of each block."""
    ids = next(iter(people.tables.values()))
    return (Table(common.quantile_release(people.y, ids, [0.5]), ids),)


def suppressed(people: People, bins: int) -> tuple[Table, ...]:
    """Return the table of the blocks with small counts known as "1 to 9" alone."""
    (table,) = histograms(people, bins, several=False)
    columns = {k: np.asarray(v) for k, v in table.release.to_columns()["histogram"].items()}
    count = columns["count"]
    hidden = (count >= 1) & (count < LEAST)
    columns |= {
        "count": np.where(hidden, np.nan, count),
        "low": np.where(hidden, 1, np.nan),
        "high": np.where(hidden, LEAST - 1, np.nan),
    }
    release = unbin.Release.from_histogram(columns, count_low="low", count_high="high")
    return (Table(release, table.ids),)


def margins(votes: Votes, *, several: bool) -> VotesTask:
    """Return the margins of the blocks, and perhaps category by group of the regions."""
    second = None
    if several:
        names, place = np.unique(votes.regions, return_inverse=True)
        second = np.zeros((len(names), *votes.cells.shape[1:]))
        np.add.at(second, place, votes.cells)
    return VotesTask(
        blocks=votes.blocks,
        regions=votes.regions,
        groups=votes.groups,
        categories=votes.categories,
        people=votes.cells.sum(axis=2),
        counts=votes.cells.sum(axis=1),
        by_region=second,
    )


KINDS: dict[str, Kind] = {
    "one-4": Kind("one table, 4 bins", lambda p: histograms(p, 4, several=False)),
    "one-10": Kind(
        "one table, 10 bins",
        lambda p: histograms(p, 10, several=False),
        votes=lambda v: margins(v, several=False),
        binary=True,
    ),
    "several-10": Kind(
        "several tables, 10 bins",
        lambda p: histograms(p, 10, several=True),
        votes=lambda v: margins(v, several=True),
        binary=True,
    ),
    "suppressed-10": Kind(
        "one table, 10 bins, 1 to 9 hidden", lambda p: suppressed(p, 10), binary=True
    ),
    "medians": Kind("medians", medians),
}


def label(kind: str, family: str) -> str:
    """Return what the page calls a release; categories have no bins."""
    text = KINDS[kind].label
    return text.replace(", 10 bins", "") if family in ("binomial", "votes") else text
