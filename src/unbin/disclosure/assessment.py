"""One planned table, or several together: made, attacked, measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from unbin._typing import FloatArray, IntArray, TextArray
from unbin.disclosure.attacks import attack, attackers_choice, families_for
from unbin.disclosure.baselines import block_guess, pooled_guess, public_guess
from unbin.disclosure.gains import LEAST_BLOCKS, Gains, measure_gains
from unbin.disclosure.guesses import Guess, Knowledge, bin_values
from unbin.disclosure.inputs import Records
from unbin.disclosure.measures import (
    Scale,
    as_probabilities,
    most_exposed,
    nearness,
    squared_error,
)
from unbin.disclosure.protections import Protection
from unbin.disclosure.results import (
    CATEGORIES,
    HELD_OUT,
    IN_TABLE,
    AttackResult,
    Disclosure,
    PlannedTable,
    bins_in_words,
)
from unbin.disclosure.rules import Derivable, check_cells, check_together, derivable
from unbin.disclosure.together import (
    attack_together,
    best_histogram,
    histograms_together,
)
from unbin.disclosure.utility import measure_utility
from unbin.exceptions import ParameterError
from unbin.release import Release
from unbin.release.crossings import Crossings

_CHANCE = 0.95
"""The level of the point that the gain is compared with."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What all tables are audited with."""

    attacks: tuple[str, ...]
    families: object
    smallest: int
    n_permutations: int
    level: float
    seed: int


@dataclass(frozen=True, slots=True)
class Task:
    """One table to audit: the bins of a level's blocks, as they are or protected.

    ``bins`` is None of categories. ``place`` is that of the level among all: tables published
    together have noise of their own.
    """

    records: Records
    level: str
    place: int
    ids: TextArray
    bins: int | FloatArray | None
    protection: Protection | None
    settings: Settings

    @property
    def bins_text(self) -> str:
        """The bins as asked for."""
        if self.bins is None:
            return CATEGORIES
        return str(self.bins) if np.ndim(self.bins) == 0 else f"{np.size(self.bins) - 1} given"

    def name(self, *levels: str) -> str:
        """Return what the table, or those of several levels, are called."""
        return f"{' + '.join(levels or (self.level,))}, {bins_in_words(self.bins_text)}"


@dataclass(frozen=True, slots=True)
class _Guesses:
    """All guesses about the people of a table; ``chosen`` is what an attacker would take."""

    attacks: tuple[Guess, ...]
    pooled: Guess
    block: Guess
    public: Guess
    chosen: Guess | None

    def every(self) -> tuple[Guess, ...]:
        """Return attacks first, then baselines."""
        return (*self.attacks, self.pooled, self.block, self.public)


@dataclass(frozen=True, slots=True)
class _Side:
    """People who are in the table, or who are not: their values, blocks and guesses (G, n, …)."""

    people: str
    y: FloatArray
    codes: IntArray
    resampled: IntArray
    told: FloatArray
    block: FloatArray


@dataclass(frozen=True, slots=True)
class Audited:
    """A table that was audited, with what an audit of several tables together goes on with."""

    table: PlannedTable
    task: Task
    known: Knowledge
    guesses: _Guesses
    everybody: Release
    told: Derivable


def audit_table(task: Task, tell: Callable[[str], None]) -> Audited:
    """Make a planned table, attack it and measure what the attacks find out."""
    records, rng = task.records, np.random.default_rng(task.settings.seed)
    name = task.name()
    inside = ~records.held_out
    y, y_other = records.y[inside], records.y[~inside]
    plain = records.table(task.ids, task.bins, inside)
    known = _knowledge(task, plain, rng)
    guesses = _guess(task, known, plain, y, y_other, lambda each: tell(f"{name}: {each}"))
    tell(f"{name}: measuring")
    people = _People(known.target.codes, known.codes_other)
    results, disclosures = _measure(task, known, guesses, people, rng)
    everybody = records.table(task.ids, task.bins, np.full(len(inside), True))
    told = derivable(everybody, task.settings.smallest, task.protection)
    table = PlannedTable(
        levels=(task.level,),
        bins=task.bins_text,
        protection="" if task.protection is None else str(task.protection),
        n_blocks=len(plain),
        n_bins=len(known.values),
        in_table=disclosures[0],
        held_out=disclosures[1],
        attacks=results,
        utility=measure_utility(known, y, guesses.attacks),
        cells=check_cells(records.y, everybody, task.settings.smallest, task.protection, told),
    )
    return Audited(table, task, known, guesses, everybody, told)


def audit_together(alone: Sequence[Audited], tell: Callable[[str], None]) -> PlannedTable:
    """Attack several tables at once, and measure what the attacks find out.

    An attacker who has all tables can still do without some of them: the guesses from each table
    alone are among those from all.
    """
    task, first = alone[0].task, alone[0].table
    records, rng = task.records, np.random.default_rng(task.settings.seed)
    levels = tuple(each.task.level for each in alone)
    name = task.name(*levels)
    guesses, joined = _guess_together(alone, lambda each: tell(f"{name}: {each}"))
    tell(f"{name}: measuring")
    known = [each.known for each in alone]
    results, disclosures = _measure(task, known[0], guesses, _cross(known), rng)
    utility = [measure_utility(known[0], records.y[~records.held_out], joined)]
    return PlannedTable(
        levels=levels,
        bins=task.bins_text,
        protection=first.protection,
        n_blocks=sum(each.table.n_blocks for each in alone),
        n_bins=first.n_bins,
        in_table=disclosures[0],
        held_out=disclosures[1],
        attacks=results,
        utility=max(utility + [each.table.utility for each in alone], key=lambda u: u.value),
        cells=check_together(
            [each.table.cells for each in alone],
            [each.everybody for each in alone],
            [each.told for each in alone],
            [np.searchsorted(each.everybody.blocks, each.task.ids) for each in alone],
            task.protection,
        ),
    )


def _guess_together(
    alone: Sequence[Audited], tell: Callable[[str], None]
) -> tuple[_Guesses, tuple[Guess, ...]]:
    """Return all guesses, and those among them that take all tables at once."""
    task, known = alone[0].task, [each.known for each in alone]
    settings, records = task.settings, task.records
    families = families_for(alone[0].everybody, settings.families)
    joined = tuple(attack_together(known, settings.attacks, families, settings.seed, tell))
    single = tuple(
        replace(guess, name=f"{guess.name} ({each.task.level} alone)")
        for each in alone
        for guess in each.guesses.attacks
    )
    y, y_other = records.y[~records.held_out], records.y[records.held_out]
    first = alone[0].guesses
    return _Guesses(
        (*joined, *single, histograms_together(known)),
        first.pooled,
        best_histogram([each.guesses.block for each in alone], y, y_other),
        first.public,
        attackers_choice(joined, len(known[0].values)),
    ), joined


@dataclass(frozen=True, slots=True)
class _People:
    """Blocks within which people in the table, and others, are alike to whoever has no features.

    ``resampled`` are the blocks that are bootstrapped, in the table and outside, if not those.
    """

    table: IntArray
    other: IntArray
    resampled: tuple[IntArray, IntArray] | None = None


def _cross(known: Sequence[Knowledge]) -> _People:
    """Cross the blocks of several tables; resample those of the coarsest table with enough."""
    pairs = [(each.target.codes, each.codes_other) for each in known]
    size = [len(each.release) for each in known]
    enough = [k for k, blocks in enumerate(size) if blocks >= LEAST_BLOCKS]
    wanted = min(enough, key=size.__getitem__) if enough else int(np.argmin(size))
    table, other = zip(*pairs, strict=True)
    return _People(Crossings.of(table).codes, Crossings.of(other).codes, pairs[wanted])


def _measure(
    task: Task, known: Knowledge, guesses: _Guesses, people: _People, rng: np.random.Generator
) -> tuple[tuple[AttackResult, ...], tuple[Disclosure, Disclosure]]:
    """Measure all guesses of the people in the table, and of those held out."""
    records = task.records
    scale = Scale(known.edges, records.y.mean(axis=0), records.log)
    resampled = people.resampled or (people.table, people.other)
    read = as_probabilities if records.categories else np.asarray
    sides = (
        (IN_TABLE, ~records.held_out, people.table, resampled[0], "table"),
        (HELD_OUT, records.held_out, people.other, resampled[1], "other"),
    )
    results: list[AttackResult] = []
    disclosures = []
    for who, chosen, codes, blocks, side in sides:
        told = read(np.stack([getattr(guess, side) for guess in guesses.every()]))
        block = read(getattr(guesses.block, side))
        these = _Side(who, records.y[chosen], codes, blocks, told, block)
        found, disclosure = _judge(task.settings, these, guesses, scale, rng)
        results += found
        disclosures.append(disclosure)
    return tuple(results), (disclosures[0], disclosures[1])


def _knowledge(task: Task, plain: Release, rng: np.random.Generator) -> Knowledge:
    """Return what an attacker has once the table is published."""
    records, inside = task.records, ~task.records.held_out
    noise = np.random.default_rng((task.settings.seed, task.place)) if task.place else rng
    release = plain if task.protection is None else task.protection.apply(plain, noise)
    n_bins = len(plain.histogram.count) // len(plain)
    table = plain.histogram
    if records.categories:
        edges, values = np.empty(0), np.eye(n_bins)
    else:
        edges = np.concatenate([table.lower[:n_bins], table.upper[n_bins - 1 : n_bins]])
        values = bin_values(records.y[inside], edges)
    return Knowledge(
        X=records.X[inside],
        X_other=records.X[~inside],
        target=release.align(task.ids[inside]),
        codes_other=np.searchsorted(plain.blocks, task.ids[~inside]),
        edges=edges,
        values=values,
    )


def _guess(
    task: Task,
    known: Knowledge,
    plain: Release,
    y: FloatArray,
    y_other: FloatArray,
    tell: Callable[[str], None],
) -> _Guesses:
    settings = task.settings
    families = families_for(plain, settings.families)
    attacks = tuple(attack(known, settings.attacks, families, settings.seed, tell))
    if not attacks:
        raise ParameterError(
            f"attacks: none of {', '.join(settings.attacks)} can be made with {', '.join(families)}"
            f" on {task.name()}; name others"
        )
    observed = next((name for name in families if name != "ordinal"), "gaussian")
    return _Guesses(
        attacks,
        pooled_guess(known),
        block_guess(known),
        public_guess(known, y, y_other, observed),
        attackers_choice(attacks, len(known.values)),
    )


def _judge(
    settings: Settings, side: _Side, guesses: _Guesses, scale: Scale, rng: np.random.Generator
) -> tuple[list[AttackResult], Disclosure]:
    """Measure every guess, and what the best of the attacks discloses."""
    n_attacks = len(guesses.attacks)
    gains = _gains(settings, side, side.told[:n_attacks], rng, settings.n_permutations)
    baselines = _gains(settings, side, side.told[n_attacks:], rng, 0)
    results = []
    for guess, told, gain in zip(
        guesses.every(), side.told, (*gains.attacks, *baselines.attacks), strict=True
    ):
        mark = most_exposed(told, side.block)
        results.append(
            AttackResult(
                attack=guess.name,
                people=side.people,
                uses_features=guess.uses_features,
                chosen=guess is guesses.chosen,
                identified=_identified(guess),
                all=nearness(side.y, told, scale),
                exposed=nearness(side.y[mark], told[mark], scale),
                gain=gain,
                exposed_gain=_share_removed(side.y[mark], told[mark], side.block[mark]),
            )
        )
    place = int(np.argmax([gain.value for gain in gains.attacks]))
    learns = gains.best.value > 0
    best = guesses.attacks[place] if learns else guesses.block
    told = side.told[place] if learns else side.block
    return results, Disclosure(
        people=side.people,
        attack=best.name,
        identified=_identified(best),
        gain=gains.best,
        measured=gains.measured,
        chance=gains.chance_point(_CHANCE),
        chance_median=float(np.median(gains.chance)),
        p_value=gains.p_value,
        beyond_public=_share_removed(side.y, told, side.told[-1]),
    )


def _gains(
    settings: Settings,
    side: _Side,
    told: FloatArray,
    rng: np.random.Generator,
    n_permutations: int,
) -> Gains:
    return measure_gains(
        side.y,
        told,
        side.block,
        side.codes,
        rng,
        n_permutations=n_permutations,
        level=settings.level,
        resampled=side.resampled,
    )


def _share_removed(y: FloatArray, told: FloatArray, without: FloatArray) -> float:
    """Return 1 - MSE / MSE of other guesses; NaN where those are right."""
    left, total = float(squared_error(y, without).sum()), float((y**2).sum())
    return 1 - float(squared_error(y, told).sum()) / left if left > 1e-12 * total else float("nan")


def _identified(guess: Guess) -> bool | None:
    return None if guess.model is None else bool(guess.model.diagnostics_.identified)
