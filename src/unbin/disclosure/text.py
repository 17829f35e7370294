"""An audit as text and as JSON: nobody's value, no block's name, small numbers masked."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from unbin.alignment import SMALL
from unbin.words import plural

if TYPE_CHECKING:
    from unbin.disclosure.cells import CellCheck
    from unbin.disclosure.results import Audit, Disclosure, PlannedTable

_NONE = "–"


def masked(n: int) -> int | str:
    """Return a number of people, masked if small."""
    return f"<{SMALL}" if 0 < n < SMALL else n


def number(value: float, digits: int = 3) -> str:
    """Return a number with a fixed number of digits, a dash where there is none."""
    text = f"{value:.{digits}f}" if math.isfinite(value) else _NONE
    return text[1:] if text.startswith("-") and float(text) == 0 else text


def percent(value: float) -> str:
    """Return a share in per cent."""
    return f"{100 * value:.1f} %" if math.isfinite(value) else _NONE


def p_text(p_value: float) -> str:
    """Return a p value."""
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def as_text(audit: Audit) -> str:
    """Return the audit as a table, the cell rules and the recommendation."""
    head = ["table", "people", "best attack", "gain", "interval", "chance", "p", "utility"]
    rows = [head]
    for table in audit.tables:
        for k, found in enumerate((table.in_table, table.held_out)):
            first = table.name if k == 0 else ""
            utility = number(table.utility.value, 2) if k == 0 else ""
            rows.append([first, found.people, found.attack, *_gain_cells(found), utility])
    width = [max(len(row[k]) for row in rows) for k in range(len(head))]
    left = {0, 1, 2}
    lines = [
        "  ".join(
            cell.ljust(width[k]) if k in left else cell.rjust(width[k])
            for k, cell in enumerate(row)
        ).rstrip()
        for row in rows
    ]
    rule = "-" * max(len(line) for line in lines)
    held = f"{audit.n_held_out:,} of {audit.n_people:,} people held out of the tables"
    where = " of the log" if audit.log else ""
    return "\n".join(
        [
            f"Disclosure audit: {plural(len(audit.tables), 'table')}, {held}",
            rule,
            lines[0],
            rule,
            *lines[1:],
            rule,
            f"gain: share of the squared error{where} of the block histogram alone that the best "
            "attack removes;",
            "chance: what features that tell nothing within blocks would exceed in 5 % of audits",
            *cell_lines(audit),
            recommendation(audit),
        ]
    )


def _gain_cells(found: Disclosure) -> list[str]:
    gain = found.gain
    interval = f"{number(gain.low)}–{number(gain.high)}"
    chance = number(max(found.chance, 0.0))
    return [number(gain.value), interval, chance, p_text(found.p_value)]


def cell_lines(audit: Audit) -> list[str]:
    """Return what the rules say of each table, a line each."""
    return [f"{table.name}: {'; '.join(cell_words(table.cells, table))}" for table in audit.tables]


def cell_words(cells: CellCheck, table: PlannedTable) -> list[str]:
    """Return what the rules say of a table."""
    found = [f"smallest cell {masked(cells.smallest_cell)}, block {masked(cells.smallest_block)}"]
    if cells.cells_under:
        found.append(f"{cells.cells_under:,} of {cells.n_cells:,} cells under {cells.smallest}")
    if cells.blocks_under:
        found.append(f"{plural(cells.blocks_under, 'block')} under {cells.smallest}")
    if cells.whole_blocks:
        found.append(f"{plural(cells.whole_blocks, 'block')} in one bin")
    if cells.edges_at_rare_values:
        found.append(
            f"{plural(cells.edges_at_rare_values, 'edge')} at a value of fewer than "
            f"{cells.smallest} people"
        )
    ends = [word for word in ("minimum", "maximum") if getattr(cells, f"publishes_{word}")]
    if ends:
        found.append(f"publishes the {' and the '.join(ends)}")
    if cells.hidden and "laplace" not in table.protection:
        found.append(_derived_words(cells, table))
    return found


def _derived_words(cells: CellCheck, table: PlannedTable) -> str:
    least = "" if cells.exact else "at least "
    hidden = f"of {plural(cells.hidden, 'hidden cell')}" if table.protection else (
        f"of {plural(cells.hidden, 'cell')} to be hidden"
    )  # fmt: skip
    if not cells.derived and not cells.narrowed:
        return f"none {hidden} can be worked out from totals" + ("" if cells.exact else " so far")
    return (
        f"{least}{cells.derived:,} {hidden} can be worked out from totals, {cells.narrowed:,} more "
        "narrowed"
    )


def recommendation(audit: Audit) -> str:
    """Return which table to publish, in a sentence."""
    found = audit.recommended
    if found is None:
        best = max(audit.final, key=lambda table: table.utility.value)
        if best.utility.value == 0:
            return "Recommended: none, no planned table tells the coefficients at all"
        return (
            f"Recommended: none, no planned table keeps a utility of {audit.min_utility:g}; the "
            f"most useful is {best.name} ({number(best.utility.value, 2)})"
        )
    return (
        f"Recommended: {found.name}, the coarsest that keeps a utility of {audit.min_utility:g} "
        f"(gain {number(found.gain)})"
    )


def too_much(audit: Audit, limit: float) -> str | None:
    """Return a sentence if a table, as it would be published, discloses more than ``limit``."""
    worst = audit.worst
    if worst.gain <= limit:
        return None
    found = max((worst.in_table, worst.held_out), key=lambda found: found.gain.value)
    return (
        f"{worst.name}: the gain about people {found.people} is {number(found.gain.value)}, above "
        f"{limit:g}; publish a coarser table, or protect it"
    )


def as_json(audit: Audit) -> dict[str, Any]:
    """Return the audit as JSON can hold it."""
    tables = []
    for table in audit.tables:
        each = _plain(table)
        each["gain"] = _plain(table.gain)
        each["cells"]["smallest_cell"] = masked(table.cells.smallest_cell)
        each["cells"]["smallest_block"] = masked(table.cells.smallest_block)
        each["attacks"] = [_mask_few(found) for found in each["attacks"]]
        tables.append(each)
    rest = {
        name: _plain(getattr(audit, name))
        for name in (field.name for field in dataclasses.fields(audit))
        if name != "tables"
    }
    best = audit.recommended
    return {
        "kind": "unbin audit",
        **rest,
        "gain": _plain(audit.gain),
        "recommended": None if best is None else audit.tables.index(best),
        "tables": tables,
    }


def _mask_few(found: dict[str, Any]) -> dict[str, Any]:
    """Drop measures of fewer than ``SMALL`` people."""
    result = dict(found)
    if found["exposed"]["n"] < SMALL:
        result["exposed"], result["exposed_gain"] = None, None
    if found["all"]["n"] < SMALL:
        result["all"], result["gain"] = None, None
    return result


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
