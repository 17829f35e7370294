"""A release in words, for its ``repr``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from unbin._typing import IntArray
from unbin.release.tables import Histogram

if TYPE_CHECKING:
    from unbin.release.release import Release

_SHOWN = 8
"""Categories that are listed."""


def plural(count: int, word: str) -> str:
    """Return "1 block", "2 blocks"."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def people_text(n: int) -> str:
    """Return "1 person", "2 people"."""
    return "1 person" if n == 1 else f"{n:,} people"


def first_few(texts: Sequence[str], most: int = 5) -> str:
    """Return the first texts of a list, and whether there are more."""
    return ", ".join(texts[:most]) + (", …" if len(texts) > most else "")


def describe(release: Release) -> Iterator[tuple[str, str]]:
    """Yield each kind of statistic a release holds, its spread over the blocks, and its source."""
    histogram, order = release.histogram, release.order_statistics
    if len(histogram.count):
        noise = f", noise of sd {release.noise_sd:g} added" if release.noise_sd > 0 else ""
        if release.categories:
            yield "categories", _describe_categories(release) + noise
        else:
            yield "histogram", _describe_histogram(histogram) + noise
    size = np.diff(order.start)
    full = (size > 0) & (size == release.n)
    if full.any():
        yield "values", f"{plural(int(full.sum()), 'block')}, known up to permutation"
    some = (size > 0) & ~full
    if some.any():
        span = _span(size[some])
        yield "order statistics", f"{plural(int(some.sum()), 'block')}, {span} per block"
    if release.means is not None:
        yield "means", plural(int(np.isfinite(release.means).sum()), "block")
    if release.source:
        yield "read as", release.source
    for note in release.notes:
        yield "note", note


def _describe_histogram(table: Histogram) -> str:
    size = np.diff(table.start)
    size = size[size > 0]
    below = bool(np.isinf(table.lower).any())
    above = bool(np.isinf(table.upper).any())
    ends = {
        (True, True): "open below and above",
        (True, False): "open below",
        (False, True): "open above",
        (False, False): "closed ends",
    }[below, above]
    bins = f"{_span(size)} bin{'' if size.max() == 1 else 's'}"
    return f"{plural(len(size), 'block')}, {bins}, {ends}{_hidden(table)}"


def _describe_categories(release: Release) -> str:
    """Return "212 blocks, 3 categories: dem, non, rep"."""
    size, names = np.diff(release.histogram.start), release.categories
    some, full = int((size > 0).sum()), int((size == len(names)).sum())
    count = "1 category" if len(names) == 1 else f"{len(names):,} categories"
    told = first_few(names, _SHOWN)
    fewer = f", fewer in {plural(some - full, 'block')}" if full < some else ""
    return f"{plural(some, 'block')}, {count}: {told}{fewer}{_hidden(release.histogram)}"


def _hidden(table: Histogram) -> str:
    hidden = int(table.hidden().sum())
    return f", {plural(hidden, 'count')} known only as intervals" if hidden else ""


def _span(size: IntArray) -> str:
    low, high = int(size.min()), int(size.max())
    return f"{low}" if low == high else f"{low} to {high}"
