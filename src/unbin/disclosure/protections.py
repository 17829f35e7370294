"""What an agency may do to a table before it publishes it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unbin._checks import check_flag, check_number, check_whole
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.exceptions import ParameterError
from unbin.release import Release
from unbin.release.intervals import Rounding, with_intervals

LAPLACE = "laplace"


@dataclass(frozen=True, slots=True)
class Protection:
    """How counts are protected; a block's people stay known, since its rows of X are.

    Attributes
    ----------
    suppress : int or None
        Counts from 1 to ``suppress - 1`` are hidden.
    complementary : bool
        Hide further counts, so that no row or column of the table has a single hidden one.
    round : int or None
        Counts are rounded to the nearest multiple.
    epsilon : float or None
        Laplace noise of scale 1/epsilon is added to every count. One person more or fewer changes
        one count by 1: epsilon-differential privacy of being counted. Where the people of a block
        are known, as here, another value of one of them changes two counts: 2 epsilon.
    """

    suppress: int | None = None
    complementary: bool = False
    round: int | None = None
    epsilon: float | None = None

    @classmethod
    def parse(
        cls, suppress: int | None, complementary: bool, base: int | None, noise: str | None
    ) -> Protection | None:
        """Check the settings of an audit; None when nothing is to be done."""
        if suppress is not None:
            check_whole("suppress", suppress, low=2)
        if base is not None:
            check_whole("round", base, low=2)
        if check_flag("complementary", complementary) and suppress is None:
            raise ParameterError("complementary: needs suppress=, got none; say suppress=11")
        epsilon = None if noise is None else _epsilon(noise)
        if epsilon is not None and (suppress is not None or base is not None):
            raise ParameterError(
                "noise: noisy counts are not suppressed or rounded too, got both; audit them one "
                "by one"
            )
        if suppress is None and base is None and epsilon is None:
            return None
        return cls(suppress, bool(complementary), base, epsilon)

    def apply(self, release: Release, rng: np.random.Generator) -> Release:
        """Return the table as it would be published; all blocks must have the same bins."""
        table = release.histogram
        if self.epsilon is not None:
            noisy = table.count + rng.laplace(0.0, 1 / self.epsilon, len(table.count))
            histogram = replace(table, count=noisy)  # type: ignore[arg-type]
            return replace(release, histogram=histogram, noise_sd=np.sqrt(2) / self.epsilon)
        low, high = table.count, table.count
        if self.round is not None:
            low, high = rounded(table.count, self.round)
        if self.suppress is not None:
            mask = self.hidden(release).ravel()
            # with complementary ones the reader does not learn which were hidden for their own sake
            people = np.repeat(release.n, np.diff(table.start))
            top = people if self.complementary else self.suppress - 1
            low, high = np.where(mask, 1, low), np.where(mask, top, high)
        return replace(release, histogram=with_intervals(table, low, high))

    def hidden(self, release: Release) -> BoolArray:
        """Mark the counts that are not published as they are, shape (B, K)."""
        count = release.histogram.count.reshape(len(release), -1)
        if self.suppress is None:
            return np.ones(count.shape, dtype=bool)
        hidden = (count >= 1) & (count < self.suppress)
        return complete(count, hidden) if self.complementary else hidden

    def __str__(self) -> str:
        words = []
        if self.suppress is not None:
            more = ", complementary" if self.complementary else ""
            words.append(f"suppress {self.suppress}{more}")
        if self.round is not None:
            words.append(f"round {self.round}")
        if self.epsilon is not None:
            words.append(f"{LAPLACE}:{self.epsilon:g}")
        return " + ".join(words)


def complete(count: IntArray, hidden: BoolArray) -> BoolArray:
    """Hide further counts until no row and no column has a single hidden one.

    The smallest positive count of the row or column is taken each time, which need not hide the
    fewest people. Shape (B, K) each; where a row or column has no other positive count, it stays
    alone.
    """
    while True:
        more = hidden | _second(count, hidden)
        more = more | _second(count.T, more.T).T
        if (more == hidden).all():
            return hidden
        hidden = more


def _second(count: IntArray, hidden: BoolArray) -> BoolArray:
    """Mark the smallest positive count beside a row's only hidden one."""
    free = np.where(hidden | (count == 0), np.iinfo(np.int64).max, count)
    place = np.argmin(free, axis=1)
    row = np.arange(len(count))
    alone = (hidden.sum(axis=1) == 1) & (free[row, place] < np.iinfo(np.int64).max)
    mark = np.zeros_like(hidden)
    mark[row[alone], place[alone]] = True
    return mark


def rounded(count: IntArray, base: int) -> tuple[IntArray, IntArray]:
    """Return the ends of what counts can be once they are published rounded to a base."""
    near = (base * np.rint(count / base)).astype(np.int64)
    return Rounding.parse(f"nearest-{base}").of_counts(near)


def believable_counts(release: Release) -> FloatArray:
    """Return counts (B, K) that add up to the people of each block.

    Those of noisy counts are set to 0 where they are negative, and scaled.
    """
    count = release.histogram.count.reshape(len(release), -1).astype(np.float64)
    if release.noise_sd == 0:
        return count
    positive = np.maximum(count, 0) + 1e-9
    return np.asarray(positive * (release.n / positive.sum(axis=1))[:, None])


def without_noise(release: Release) -> Release:
    """Return noisy counts as whole ones that add up to the people of each block."""
    if release.noise_sd == 0:
        return release
    cumulative = np.rint(np.cumsum(believable_counts(release), axis=1)).astype(np.int64)
    cumulative[:, -1] = release.n
    count = np.diff(cumulative, axis=1, prepend=0).ravel()
    return replace(release, histogram=replace(release.histogram, count=count), noise_sd=0.0)


def _epsilon(noise: str) -> float:
    kind, _, text = str(noise).partition(":")
    try:
        epsilon = float(text) if kind == LAPLACE else None
    except ValueError:
        epsilon = None
    if epsilon is None:
        raise ParameterError(
            f"noise: must be laplace:EPSILON, got {noise!r}; write for example laplace:1"
        )
    return check_number("noise", epsilon, low=0.0, open_low=True)
