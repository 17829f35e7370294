"""What the features let an attacker read out of a table, beyond what everybody can read in it.

The gain of an attack is 1 - MSE(attack) / MSE(block histogram alone), on the same people: the share
of what the table leaves open about a person that the attack finds out. Of categories the squared
error is the Brier score of the probabilities. An attacker can always fall back on the block
histogram, so the gain of a table is that of its best attack, and at least 0.

**Interval.** A bootstrap over blocks (or, with few blocks, over random groups of people) of the
paired squared errors: it is about other people of the same kind, the attack as it is. That of the
best attack is simultaneous over all attacks.

**Chance.** Were the features unrelated to the value within blocks, every assignment of a block's
guesses to its people would be as likely as the observed one. A fit sees of a block its table and
its features in no order, so it is the same for all of them: guesses are permuted within blocks,
without a refit, and the best of all attacks is taken each time, as for the data. So the p value is
exact, whatever blocks differ by. Of several tables, guesses are permuted among people who are in
the same block of every table: all fits, and all histograms, stay as they are then. Chance then
includes what is gained by combining the tables without features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unbin._typing import FloatArray, IntArray
from unbin.disclosure.measures import squared_error

N_BOOT = 999
LEAST_BLOCKS = 20
"""Blocks from which on they are resampled; below, random groups of people are."""
_GROUPS = 200
_TIE = 1e-9
"""Gains that differ by less are equal: sums of the same numbers in another order."""


@dataclass(frozen=True, slots=True)
class Gain:
    """A gain with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Gains:
    """Gains of A attacks on the same people.

    Attributes
    ----------
    attacks : tuple of Gain
        As measured: negative where an attack did worse than the block histogram.
    best : Gain
        Of the best attack, the block histogram itself among them, so at least 0.
    measured : float
        Of the best attack with features.
    chance : (n_permutations,)
        The same if the features were unrelated to the value within blocks.
    p_value : float
        Share of permutations, the data among them, whose best attack does as well.
    """

    attacks: tuple[Gain, ...]
    best: Gain
    measured: float
    chance: FloatArray
    p_value: float

    def chance_point(self, level: float) -> float:
        """Return the point that chance stays at or under in a share ``level`` of all audits.

        ``measured`` exceeds it exactly where its p value is at most 1 - level; infinite where there
        are too few permutations for that.
        """
        n = len(self.chance) + 1
        place = int(np.ceil(level * n - 1e-9)) - 1
        return float(np.sort(self.chance)[place]) if place < n - 1 else float("inf")


def measure_gains(
    y: FloatArray,
    guesses: FloatArray,
    without: FloatArray,
    codes: IntArray,
    rng: np.random.Generator,
    *,
    n_permutations: int,
    level: float,
    resampled: IntArray | None = None,
) -> Gains:
    """Return the gains of attacks.

    Parameters
    ----------
    y : (n,), or (n, K) of categories
    guesses : (A, n), or (A, n, K)
        Of each attack.
    without : (n,), or (n, K)
        Guesses from the block histogram alone.
    codes : (n,)
        Blocks, from 0; of several tables, the crossings of their blocks.
    rng : Generator
    n_permutations : int
    level : float
        Coverage of the intervals.
    resampled : (n,), optional
        The blocks that are bootstrapped, if not those.
    """
    base, errors = squared_error(y, without), squared_error(y, guesses)
    seen = _gain(errors.sum(axis=1), base.sum())
    drawn = _drawn(errors, base, codes if resampled is None else resampled, rng)
    ends = [0.5 - level / 2, 0.5 + level / 2]
    attacks = tuple(
        Gain(float(value), *map(float, np.quantile(other, ends)))
        for value, other in zip(seen, drawn, strict=True)
    )
    measured = float(seen.max())
    low, high = _simultaneous(seen, drawn, level)
    best = Gain(_at_least_0(measured), _at_least_0(low), _at_least_0(high))
    chance = _chance(y, guesses, base, codes, rng, n_permutations)
    as_good = chance >= measured - _TIE
    p_value = (1 + int(as_good.sum())) / (1 + n_permutations)
    return Gains(attacks, best, measured, chance, p_value)


def _simultaneous(seen: FloatArray, drawn: FloatArray, level: float) -> tuple[float, float]:
    """Return an interval of the largest of some gains.

    The best of several attacks is best by luck, too: its interval comes from simultaneous intervals
    of all attacks.
    """
    error = drawn.std(axis=1)
    reach = np.abs(drawn - seen[:, None]) / np.where(error > 0, error, 1.0)[:, None]
    wide = float(np.quantile(reach.max(axis=0), level)) * error
    # the error of an attack that diverged is no reason to expect more of it than was ever drawn
    high = np.minimum(seen + wide, np.maximum(seen, drawn.max(axis=1)))
    return float((seen - wide).max()), float(high.max())


def _at_least_0(gain: float) -> float:
    return gain if gain > _TIE else 0.0


def _gain(errors: FloatArray, base: FloatArray | float) -> FloatArray:
    """Return 1 - errors / base; nothing can be gained where nothing is left open."""
    left = np.asarray(base, dtype=np.float64)
    return np.asarray(np.where(left > 0, 1 - errors / np.where(left > 0, left, 1.0), 0.0))


def _drawn(
    errors: FloatArray, base: FloatArray, codes: IntArray, rng: np.random.Generator
) -> FloatArray:
    """Return the gain of each attack with blocks resampled, shape (A, N_BOOT)."""
    group = np.unique(codes, return_inverse=True)[1]
    if group.max() + 1 < LEAST_BLOCKS:
        group = rng.permutation(len(codes)) % min(_GROUPS, len(codes))
    n = int(group.max()) + 1
    sums = np.stack([np.bincount(group, weights=each, minlength=n) for each in (*errors, base)])
    weight = rng.multinomial(n, np.full(n, 1 / n), size=N_BOOT)
    total = sums.astype(np.float64) @ weight.T
    return _gain(total[:-1], total[-1])


def _chance(
    y: FloatArray,
    guesses: FloatArray,
    base: FloatArray,
    codes: IntArray,
    rng: np.random.Generator,
    n_permutations: int,
) -> FloatArray:
    """Return the gain of the best attack under each permutation within blocks."""
    layout = np.argsort(codes, kind="stable")
    y, codes = y[layout], codes[layout]
    # only the product of values and guesses depends on the order
    centre = y.mean(axis=0)
    told = (guesses[:, layout] - centre).reshape(len(guesses), y.size)
    y = y - centre
    fixed = (y**2).sum() + (told**2).sum(axis=1)
    result = np.empty(n_permutations)
    for k in range(n_permutations):
        shuffled = y[np.argsort(codes + rng.random(len(y)))]
        result[k] = _gain(fixed - 2 * told @ shuffled.ravel(), base.sum()).max(initial=-np.inf)
    return result
