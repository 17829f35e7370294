"""Shares of bins, or of categories, that meet the counts of every table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from unbin._typing import FloatArray, IntArray
from unbin.disclosure.guesses import Knowledge
from unbin.disclosure.protections import believable_counts

_MIX = 1e-10
"""Share of everybody's histogram mixed into what a fit says, so that every count can be met."""
_SWEEPS = 200
_MET = 1e-3
"""People by which a raked count may be off."""
_BISECTIONS = 60


def pooled_share(known: Knowledge) -> FloatArray:
    """Return the share of everybody in each bin, (K,)."""
    count = believable_counts(known.release).sum(axis=0) + 1e-9
    return np.asarray(count / count.sum())


def raked(share: FloatArray, known: Sequence[Knowledge]) -> FloatArray:
    """Return what a fit says of the people in all tables, (n, K), such that these are met."""
    codes = [each.target.codes for each in known]
    return rake(share + _MIX * pooled_share(known[0]), codes, known, np.ones(len(share)))


def rake(
    share: FloatArray,
    codes: Sequence[IntArray],
    known: Sequence[Knowledge],
    weight: FloatArray,
) -> FloatArray:
    """Return shares (n, K) that meet all tables, as near as can be to those given.

    Iterative proportional fitting; a hidden count may be anything within its interval, as long as
    its block has its people.

    Parameters
    ----------
    share : (n, K)
        Rows in proportion to the probabilities of bins.
    codes : sequence of (n,)
        The blocks of the rows in each table.
    known : sequence of Knowledge
        Of each table.
    weight : (n,)
        People of each row.
    """
    share = share / share.sum(axis=1, keepdims=True)
    tables = [_Margin(each, place, weight) for each, place in zip(known, codes, strict=True)]
    for _ in range(_SWEEPS):
        gap = 0.0
        for table in tables:
            share, off = table.fit(share)
            gap = max(gap, off)
        if gap <= _MET:
            break
    return share


class _Margin:
    """One table that shares are raked to."""

    def __init__(self, known: Knowledge, codes: IntArray, weight: FloatArray) -> None:
        release = known.release
        shape = len(release), -1
        low, high = (end.reshape(shape).astype(np.float64) for end in release.histogram.interval())
        self.low, self.high, self.codes = low, high, codes
        self.n = release.n[:, None].astype(np.float64)
        self.hidden = (low < high).any(axis=1)
        place = np.arange(len(codes))
        self.add = csr_array((weight, (codes, place)), shape=(len(release), len(codes)))

    def fit(self, share: FloatArray) -> tuple[FloatArray, float]:
        """Scale the shares to the counts; return them, and by how much the counts were off."""
        count = np.asarray(self.add @ share)
        wanted = self.low.copy()
        wanted[self.hidden] = _within(
            count[self.hidden], self.low[self.hidden], self.high[self.hidden], self.n[self.hidden]
        )
        factor = np.divide(wanted, count, out=np.zeros_like(count), where=count > 0)
        scaled = share * factor[self.codes]
        total = scaled.sum(axis=1, keepdims=True)
        scaled = np.where(total > 0, scaled / np.where(total > 0, total, 1.0), share)
        return scaled, float(np.abs(count - wanted).max())


def _within(count: FloatArray, low: FloatArray, high: FloatArray, n: FloatArray) -> FloatArray:
    """Scale the counts of each block by a factor, cut off at their ends, so that they add up to n.

    The factor is found by bisection, all blocks at once.
    """
    least, most = np.full((len(count), 1), -50.0), np.full((len(count), 1), 50.0)
    count = np.maximum(count, 1e-12)
    for _ in range(_BISECTIONS):
        middle = (least + most) / 2
        more = np.clip(np.exp(middle) * count, low, high).sum(axis=1, keepdims=True) < n
        least, most = np.where(more, middle, least), np.where(more, most, middle)
    return np.asarray(np.clip(np.exp(most) * count, low, high))
