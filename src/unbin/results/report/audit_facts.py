"""The tables of an audit, as text: small numbers of people masked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unbin.disclosure.measures import Hits, Nearness
from unbin.disclosure.results import Audit, Disclosure, PlannedTable
from unbin.disclosure.text import (
    attack_text,
    derived_text,
    error_text,
    least_text,
    people_text,
    percent,
    right_texts,
)
from unbin.release.alignment import SMALL
from unbin.results.numbers import NONE, column, decimals_for, number, p_value

_GAIN, _USE = 3, 2
"""Decimals of gains and of utilities."""


@dataclass(frozen=True, slots=True)
class GainRow:
    """What one table discloses about one set of people."""

    table: str
    people: str
    attack: str
    gain: str
    interval: str
    chance: str
    p_value: str
    right: list[str]
    public: str
    utility: str
    recommended: bool


@dataclass(frozen=True, slots=True)
class AttackRow:
    """How near one way of guessing comes."""

    people: str
    attack: str
    gain: str
    r2: str
    mae: str | None
    within: str
    exposed: str
    note: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class CellRow:
    """How one table stands to the rules."""

    table: str
    smallest_block: str
    smallest_cell: str
    under: str
    blocks_under: str
    whole: str
    edges: str
    ends: str
    derived: str


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """What a protection changes of a table."""

    table: str
    r2: str
    gain: str
    utility: str
    cells: str


def gain_rows(audit: Audit) -> list[GainRow]:
    """Return a row for each table and set of people."""
    return [
        _gain_row(table, found, recommended=table is audit.recommended)
        for table in audit.tables
        for found in (table.in_table, table.held_out)
    ]


def _gain_row(table: PlannedTable, found: Disclosure, *, recommended: bool) -> GainRow:
    gain = found.gain
    return GainRow(
        table.name,
        found.people,
        attack_text(found),
        number(gain.value, _GAIN),
        f"{number(gain.low, _GAIN)} to {number(gain.high, _GAIN)}",
        number(max(found.chance, 0.0), _GAIN),
        p_value(found.p_value),
        right_texts(table, found),
        number(found.beyond_public, _GAIN),
        number(table.utility.value, _USE),
        recommended,
    )


def attack_rows(table: PlannedTable) -> list[AttackRow]:
    """Return a row for each way of guessing; of fewer than ``SMALL`` people, dashes."""
    rows = []
    for found, mae in zip(table.attacks, _errors(table), strict=True):
        few = found.all.n < SMALL
        hidden = found.exposed.n < SMALL
        rows.append(
            AttackRow(
                found.people,
                found.attack,
                NONE if few else number(found.gain.value, _GAIN),
                NONE if few else number(found.all.r2, _GAIN),
                NONE if few and mae is not None else mae,
                NONE if few else _shares(found.all),
                NONE
                if hidden
                else f"{number(found.exposed_gain, _GAIN)}; {_shares(found.exposed)}",
                "" if found.identified in (None, True) else "not estimable",
                found.chosen,
            )
        )
    return rows


def _errors(table: PlannedTable) -> list[str | None]:
    """Return mean absolute errors; None of categories."""
    near = [found.all for found in table.attacks]
    error = np.array([each.mae for each in near if isinstance(each, Nearness)])
    return [*column(error, decimals_for(error))] if len(error) else [None] * len(near)


def _shares(near: Nearness | Hits) -> str:
    if isinstance(near, Hits):
        shares: tuple[float, ...] = (near.right, near.sure)
    else:
        shares = (near.within_5, near.within_10, near.within_bin)
    return " / ".join(percent(share) for share in shares)


def cell_rows(audit: Audit) -> list[CellRow]:
    """Return a row for each table."""
    rows = []
    for table in audit.tables:
        cells = table.cells
        ends = [word for word in ("minimum", "maximum") if getattr(cells, f"publishes_{word}")]
        rows.append(
            CellRow(
                table.name,
                people_text(cells.smallest_block),
                people_text(cells.smallest_cell),
                f"{cells.cells_under:,} of {cells.n_cells:,}",
                f"{cells.blocks_under:,}",
                f"{cells.whole_blocks:,}",
                f"{cells.edges_at_values:,} ({cells.edges_at_rare_values:,})",
                " and ".join(ends) or "no",
                derived_text(table),
            )
        )
    return rows


def change_rows(audit: Audit) -> list[ChangeRow]:
    """Return what the protection changes, a row for each planned table."""
    plain = {(t.level, t.bins): t for t in audit.tables if not t.protection}
    rows = []
    for table in audit.tables:
        if not table.protection:
            continue
        before = plain[table.level, table.bins]
        rows.append(
            ChangeRow(
                table.plan,
                f"{number(before.r2, _GAIN)} → {number(table.r2, _GAIN)}",
                f"{number(before.gain, _GAIN)} → {number(table.gain, _GAIN)}",
                f"{number(before.utility.value, _USE)} → {number(table.utility.value, _USE)}",
                f"{before.cells.cells_under:,} → {_still_seen(table)}",
            )
        )
    return rows


def _still_seen(table: PlannedTable) -> str:
    """Return how many hidden cells can be worked out from the protected table."""
    if table.noisy:
        return "0"
    return f"{least_text(table)}{table.cells.derived:,}"


def facts(audit: Audit) -> list[tuple[str, str]]:
    """Return what was audited."""
    categories = [("Categories", f"{len(audit.categories):,}")] if audit.categories else []
    return [
        ("People", people_text(audit.n_people)),
        ("Held out of the tables", people_text(audit.n_held_out)),
        ("Features", f"{len(audit.feature_names):,}"),
        *categories,
        ("Planned tables", f"{len(audit.tables):,}"),
        ("Largest gain", number(audit.gain, _GAIN)),
        ("Measured by", error_text(audit)),
    ]
