"""What an audit found."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from unbin._frames import to_frame
from unbin.disclosure.export import attack_columns, table_columns
from unbin.disclosure.gains import Gain
from unbin.disclosure.measures import Hits, Nearness
from unbin.disclosure.protections import LAPLACE
from unbin.disclosure.rules import CellCheck
from unbin.disclosure.text import as_html, as_json, as_text
from unbin.disclosure.utility import Utility

IN_TABLE, HELD_OUT = "in the table", "held out"
CATEGORIES = "categories"
"""In place of the bins of a table of categories."""


def bins_in_words(bins: str) -> str:
    """Return the bins of a table for a sentence."""
    return bins if bins == CATEGORIES else f"{bins} bins"


@dataclass(frozen=True, slots=True)
class AttackResult:
    """One way of guessing, on one set of people.

    Attributes
    ----------
    attack : str
    people : {"in the table", "held out"}
    uses_features : bool
        False for the histograms alone.
    chosen : bool
        Whether an attacker without the truth would take this likelihood, by held-out blocks.
    identified : bool or None
        Whether the fit says that it can be relied on; None where nothing was fitted.
    all, exposed : Nearness, or Hits of categories
        Of everybody, and of the 1 % about whom the features reveal most.
    gain : Gain
        As measured; negative where the block histogram alone was nearer.
    exposed_gain : float
        The same of the most exposed.
    """

    attack: str
    people: str
    uses_features: bool
    chosen: bool
    identified: bool | None
    all: Nearness | Hits
    exposed: Nearness | Hits
    gain: Gain
    exposed_gain: float


@dataclass(frozen=True, slots=True)
class Disclosure:
    """What a table discloses about one set of people.

    Attributes
    ----------
    people : {"in the table", "held out"}
    attack : str
        The best; "block histogram" where no attack with features does better.
    identified : bool or None
        Whether its fit says that it can be relied on; None for the block histogram.
    gain : Gain
        Of the best attack, at least 0.
    measured : float
        Gain of the best attack with features, which may be negative; of several tables, with
        features or all blocks at once.
    chance : float
        What ``measured`` exceeds in one audit of twenty when the features are unrelated to the
        value within blocks; negative where attacks that guess in vain do worse than the block
        histogram.
    chance_median : float
        The median of what it would be.
    p_value : float
        Of "the features are unrelated to the value within blocks".
    beyond_public : float
        1 - MSE(best attack) / MSE(a public model of other people): what the release adds to it.
    """

    people: str
    attack: str
    identified: bool | None
    gain: Gain
    measured: float
    chance: float
    chance_median: float
    p_value: float
    beyond_public: float


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """One planned table, or several to be published together, and what was found about it.

    Attributes
    ----------
    levels : tuple of str
        Of blocks: one, or those of all tables together.
    bins : str
        As asked for; "categories" of categories.
    protection : str
        Empty for the table as it is.
    n_blocks, n_bins : int
        Blocks of all tables, and bins, or categories, of each.
    in_table, held_out : Disclosure
    attacks : tuple of AttackResult
    utility : Utility
    cells : CellCheck
    """

    levels: tuple[str, ...]
    bins: str
    protection: str
    n_blocks: int
    n_bins: int
    in_table: Disclosure
    held_out: Disclosure
    attacks: tuple[AttackResult, ...]
    utility: Utility
    cells: CellCheck

    @property
    def level(self) -> str:
        """Of blocks; those of several tables with a plus between them."""
        return " + ".join(self.levels)

    @property
    def together(self) -> bool:
        """Whether these are several tables."""
        return len(self.levels) > 1

    @property
    def n_cells(self) -> int:
        """Counts that would be published."""
        return self.n_blocks * self.n_bins

    @property
    def gain(self) -> float:
        """The larger of the two gains."""
        return max(self.in_table.gain.value, self.held_out.gain.value)

    def best(self, people: str) -> AttackResult:
        """Return the best way of guessing some people."""
        wanted = (self.in_table if people == IN_TABLE else self.held_out).attack
        return next(a for a in self.attacks if (a.people, a.attack) == (people, wanted))

    @property
    def r2(self) -> float:
        """Share of the variance of people in the table that the best attack explains."""
        return self.best(IN_TABLE).all.r2

    @property
    def r2_without(self) -> float:
        """The same of the best guess without features."""
        found = [a for a in self.attacks if a.people == IN_TABLE and not a.uses_features]
        return max(a.all.r2 for a in found)

    @property
    def noisy(self) -> bool:
        """Whether no count is published as it is, but with noise added."""
        return LAPLACE in self.protection

    @property
    def name(self) -> str:
        """Level, bins and protection in words."""
        protection = f", {self.protection}" if self.protection else ""
        return f"{self.plan}{protection}"

    @property
    def plan(self) -> str:
        """Level and bins in words."""
        return f"{self.level}, {bins_in_words(self.bins)}"


@dataclass(frozen=True, slots=True)
class Audit:
    """How much planned tables would disclose, and what they would be good for.

    Attributes
    ----------
    tables : tuple of PlannedTable
    n_people, n_held_out : int
        All people, and those held out of the audited tables.
    feature_names : tuple of str
    log : bool
        Whether errors were squared on the log scale.
    categories : tuple of str
        Of the outcome; empty of numbers.
    min_utility : float
    max_gain : float or None
        The largest gain of a table that is recommended; None for any.
    level : float
        Coverage of the intervals.
    n_permutations : int
    """

    tables: tuple[PlannedTable, ...]
    n_people: int
    n_held_out: int
    feature_names: tuple[str, ...]
    log: bool
    categories: tuple[str, ...]
    min_utility: float
    max_gain: float | None
    level: float
    n_permutations: int

    @property
    def recommended(self) -> PlannedTable | None:
        """The coarsest table that may be published and is worth it; None when no table is.

        That is one within the rule for small cells (:attr:`CellCheck.within_rule`), of a gain up
        to ``max_gain``, and that keeps ``min_utility``. Coarsest is fewest counts; of as many, the
        smaller gain. Where a protection was asked for, only protected tables are recommended.
        """
        kept = [table for table in self.allowed if table.utility.value >= self.min_utility]
        return min(kept, key=lambda table: (table.n_cells, table.gain), default=None)

    @property
    def final(self) -> tuple[PlannedTable, ...]:
        """The tables as they would be published: protected, where a protection was asked for."""
        protected = tuple(table for table in self.tables if table.protection)
        return protected or self.tables

    @property
    def within_rule(self) -> tuple[PlannedTable, ...]:
        """The tables that, as they would be published, expose no small cell."""
        return tuple(table for table in self.final if table.cells.within_rule)

    @property
    def allowed(self) -> tuple[PlannedTable, ...]:
        """Those of them that disclose no more than ``max_gain``."""
        limit = math.inf if self.max_gain is None else self.max_gain
        return tuple(table for table in self.within_rule if table.gain <= limit)

    @property
    def worst(self) -> PlannedTable:
        """The table that discloses most, as it would be published."""
        return max(self.final, key=lambda table: table.gain)

    @property
    def gain(self) -> float:
        """The largest gain of any table, as it would be published."""
        return self.worst.gain

    def to_frame(self, *, attacks: bool = False, backend: str | None = None) -> Any:
        """Return a pandas or polars frame: a row for each table and set of people.

        Parameters
        ----------
        attacks : bool
            A row for every way of guessing instead.
        backend : {"pandas", "polars"}, optional
        """
        return to_frame(attack_columns(self) if attacks else table_columns(self), backend)

    def to_json(self) -> str:
        """Return all that was found as JSON; small numbers of people are masked as in the report.

        Nobody's value, true or recovered, is in it, and no block's name.
        """
        return json.dumps(as_json(self), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def __str__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)
