"""An audit as columns."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unbin.disclosure.results import AttackResult, Audit, Disclosure, PlannedTable


def attack_columns(audit: Audit) -> dict[str, list[Any]]:
    """Return a row for each table, set of people and way of guessing."""
    return _columns(
        [_head(table) | _attack(found) for table in audit.tables for found in table.attacks]
    )


def table_columns(audit: Audit) -> dict[str, list[Any]]:
    """Return a row for each table and set of people."""
    return _columns(
        [
            _head(table) | _disclosure(found) | _rest(table)
            for table in audit.tables
            for found in (table.in_table, table.held_out)
        ]
    )


def _columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def _head(table: PlannedTable) -> dict[str, Any]:
    return {
        "level": table.level,
        "together": table.together,
        "bins": table.bins,
        "protection": table.protection,
        "n_blocks": table.n_blocks,
        "n_bins": table.n_bins,
    }


def _disclosure(found: Disclosure) -> dict[str, Any]:
    return {
        "people": found.people,
        "attack": found.attack,
        "identified": found.identified,
        "gain": found.gain.value,
        "gain_low": found.gain.low,
        "gain_high": found.gain.high,
        "measured": found.measured,
        "chance": found.chance,
        "chance_median": found.chance_median,
        "p_value": found.p_value,
        "beyond_public": found.beyond_public,
    }


def _rest(table: PlannedTable) -> dict[str, Any]:
    return {
        "utility": table.utility.value,
        "coefficient_error": table.utility.coefficient_error,
        "efficiency": table.utility.efficiency,
        "analyst_family": table.utility.family,
        "cells_under": table.cells.cells_under,
        "derived": table.cells.derived,
        "only_together": table.cells.only_together,
        "differences": table.cells.differences,
    }


def _attack(found: AttackResult) -> dict[str, Any]:
    near = asdict(found.all)
    far = {f"exposed_{name}": value for name, value in asdict(found.exposed).items()}
    return {
        "people": found.people,
        "attack": found.attack,
        "uses_features": found.uses_features,
        "chosen": found.chosen,
        "identified": found.identified,
        **near,
        "gain": found.gain.value,
        "gain_low": found.gain.low,
        "gain_high": found.gain.high,
        **far,
        "exposed_gain": found.exposed_gain,
    }
