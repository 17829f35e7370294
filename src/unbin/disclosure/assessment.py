"""One planned table: made, attacked, measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unbin._typing import FloatArray, IntArray, TextArray
from unbin.disclosure.attacks import attack, attackers_choice, families_for
from unbin.disclosure.baselines import block_guess, pooled_guess, public_guess
from unbin.disclosure.gains import Gains, measure_gains
from unbin.disclosure.guesses import Guess, Knowledge, bin_values
from unbin.disclosure.inputs import Records
from unbin.disclosure.measures import Scale, most_exposed, nearness
from unbin.disclosure.protections import Protection
from unbin.disclosure.results import (
    HELD_OUT,
    IN_TABLE,
    AttackResult,
    Disclosure,
    PlannedTable,
)
from unbin.disclosure.rules import check_cells
from unbin.disclosure.utility import measure_utility
from unbin.exceptions import ParameterError
from unbin.release import Release
from unbin.release.aggregation import aggregate

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
    """One table to audit: the bins of a level's blocks, as they are or protected."""

    records: Records
    level: str
    ids: TextArray
    bins: int | FloatArray
    protection: Protection | None
    settings: Settings

    @property
    def bins_text(self) -> str:
        """The bins as asked for."""
        return str(self.bins) if np.ndim(self.bins) == 0 else f"{np.size(self.bins) - 1} given"


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
    """People who are in the table, or who are not: their values, blocks and guesses (G, n)."""

    people: str
    y: FloatArray
    codes: IntArray
    told: FloatArray
    block: FloatArray


def audit_table(task: Task, tell: Callable[[str], None]) -> PlannedTable:
    """Make a planned table, attack it and measure what the attacks find out."""
    records, rng = task.records, np.random.default_rng(task.settings.seed)
    name = f"{task.level}, {task.bins_text} bins"
    inside = ~records.held_out
    y, y_other = records.y[inside], records.y[~inside]
    plain = aggregate(y, task.ids[inside], task.bins)
    known = _knowledge(task, plain, rng)
    guesses = _guess(task, known, plain, y, y_other, lambda each: tell(f"{name}: {each}"))
    tell(f"{name}: measuring")
    scale = Scale(known.edges, float(records.y.mean()), records.log)
    results: list[AttackResult] = []
    disclosures = []
    for people, values, codes, side in (
        (IN_TABLE, y, known.target.codes, "table"),
        (HELD_OUT, y_other, known.codes_other, "other"),
    ):
        told = np.stack([getattr(guess, side) for guess in guesses.every()])
        these = _Side(people, values, codes, told, getattr(guesses.block, side))
        found, disclosure = _judge(task.settings, these, guesses, scale, rng)
        results += found
        disclosures.append(disclosure)
    everybody = aggregate(records.y, task.ids, task.bins)
    return PlannedTable(
        level=task.level,
        bins=task.bins_text,
        protection="" if task.protection is None else str(task.protection),
        n_blocks=len(plain),
        n_bins=len(known.values),
        in_table=disclosures[0],
        held_out=disclosures[1],
        attacks=tuple(results),
        utility=measure_utility(known, y, guesses.attacks),
        cells=check_cells(records.y, everybody, task.settings.smallest, task.protection),
    )


def _knowledge(task: Task, plain: Release, rng: np.random.Generator) -> Knowledge:
    """Return what an attacker has once the table is published."""
    records, inside = task.records, ~task.records.held_out
    release = plain if task.protection is None else task.protection.apply(plain, rng)
    n_bins = len(plain.histogram.count) // len(plain)
    table = plain.histogram
    edges = np.concatenate([table.lower[:n_bins], table.upper[n_bins - 1 : n_bins]])
    return Knowledge(
        X=records.X[inside],
        X_other=records.X[~inside],
        target=release.align(task.ids[inside]),
        codes_other=np.searchsorted(plain.blocks, task.ids[~inside]),
        edges=edges,
        values=bin_values(records.y[inside], edges),
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
            f" on {task.level}, {task.bins_text} bins; name others"
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
                uses_features=guess is not guesses.pooled and guess is not guesses.block,
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
    )


def _share_removed(y: FloatArray, told: FloatArray, without: FloatArray) -> float:
    """Return 1 - MSE / MSE of other guesses; NaN where those are right."""
    left, total = float(((y - without) ** 2).sum()), float((y**2).sum())
    return 1 - float(((y - told) ** 2).sum()) / left if left > 1e-12 * total else float("nan")


def _identified(guess: Guess) -> bool | None:
    return None if guess.model is None else bool(guess.model.diagnostics_.identified)
