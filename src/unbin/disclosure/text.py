"""An audit as text and as JSON: nobody's value, no block's name, small numbers masked."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from unbin._html import grid, sentences
from unbin.disclosure.guesses import BLOCK_HISTOGRAM
from unbin.disclosure.measures import Hits
from unbin.release.alignment import SMALL
from unbin.release.words import plural

if TYPE_CHECKING:
    from unbin.disclosure.results import Audit, Disclosure, PlannedTable

_NONE = "–"
RIGHT = (
    "right, without: share of people whose category is guessed, by it and by the block histogram"
)
WHOLE = "in one category: blocks whose people all have it; whoever knows the block knows it"
UNSURE = "*: the fit itself says that it cannot be relied on; an attacker may try all the same"


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
    """Return the audit as two tables, of gains and of cell rules, and the recommendation."""
    held = f"{audit.n_held_out:,} of {audit.n_people:,} people held out of the tables"
    return "\n".join(
        [
            f"Disclosure audit: {plural(len(audit.tables), 'table')}, {held}",
            *_grid(_gain_table(audit), left=3),
            f"gain: share of the {error_text(audit)} of the block histogram alone that the best "
            "attack removes",
            *([RIGHT] if audit.categories else []),
            "chance: what features that tell nothing within blocks would exceed in 5 % of audits",
            *([UNSURE] if any(_unsure(table) for table in audit.tables) else []),
            "",
            *_grid(_cell_table(audit), left=1),
            *([WHOLE] if audit.categories else []),
            "worked out: hidden cells that totals pin to one count, + narrow to fewer than the "
            "rule's",
            *_together(audit),
            recommendation(audit),
        ]
    )


def error_text(audit: Audit) -> str:
    """Return what gains are measured with."""
    if audit.categories:
        return "Brier score"
    return "squared error of the log" if audit.log else "squared error"


def as_html(audit: Audit) -> str:
    """Return the same for a notebook; every text is escaped."""
    others = [] if not any(_unsure(table) for table in audit.tables) else [UNSURE]
    others += [text for table in audit.tables for text in together_sentences(audit, table)]
    return "".join(
        [
            sentences(recommendation(audit), others),
            grid(_gain_table(audit), "Gains"),
            grid(_cell_table(audit), "Cell rules"),
        ]
    )


def _together(audit: Audit) -> list[str]:
    """Return what tables disclose alone and together, where several were audited together."""
    rows = together_rows(audit)
    if not rows:
        return []
    head = ["tables", *TOGETHER]
    of = {"Brier score": " of the indicators", "squared error of the log": " of the log"}
    return [
        "",
        *_grid([head, *([name, *cells] for name, cells in rows)], left=1),
        f"R²{of.get(error_text(audit), '')}: of people in the tables; compare it across rows, "
        "gains are against what each reads in its own tables",
        "together: gain against the best single table's histogram; chance is what combining the "
        "blocks gains without features",
        "differences: small groups that blocks of one table less blocks of another give away",
        *(sentence for table in audit.tables for sentence in together_sentences(audit, table)),
        "",
    ]


TOGETHER = ("R² without features", "R² best attack", "gain", "p", "worked out", "only together",
            "differences")  # fmt: skip
"""What tables alone and together are compared by."""


def alone_of(audit: Audit, both: PlannedTable) -> list[PlannedTable]:
    """Return the tables that were audited together, each alone."""
    wanted = both.bins, both.protection
    return [
        table
        for level in both.levels
        for table in audit.tables
        if table.levels == (level,) and (table.bins, table.protection) == wanted
    ]


def together_rows(audit: Audit) -> list[tuple[str, list[str]]]:
    """Return a row for each table alone, and one for all together, of every plan."""
    rows = []
    for both in audit.tables:
        if not both.together:
            continue
        for table in alone_of(audit, both):
            rows.append((f"{table.name}, alone", [*_compared(table), _NONE, _NONE]))
        cells = both.cells
        more = _NONE
        if cells.hidden and not both.noisy:
            more = f"{least_text(both)}{cells.only_together:,}"
        rows.append((f"{both.name}, together", [*_compared(both), more, f"{cells.differences:,}"]))
    return rows


def _compared(table: PlannedTable) -> list[str]:
    found = table.in_table
    return [
        number(table.r2_without),
        number(table.r2),
        number(found.gain.value),
        p_text(found.p_value),
        derived_text(table),
    ]


def together_sentences(audit: Audit, both: PlannedTable) -> list[str]:
    """Return what tables disclose only when all of them are published; nothing of a single one."""
    if not both.together:
        return []
    nearest = max(alone_of(audit, both), key=lambda table: table.r2)
    told = [
        f"{both.name}: together the best attack explains {number(both.r2)} of the variance, "
        f"{number(nearest.r2)} from {nearest.level} alone"
    ]
    cells = both.cells
    if cells.only_together:
        least = "" if cells.exact else "at least "
        told.append(
            f"{both.name}: {least}{plural(cells.only_together, 'hidden cell')} can be worked out "
            "only when all tables are published"
        )
    if cells.hidden and not cells.exact:
        told.append(
            f"{both.name}: too many hidden cells to be solved for; more may be worked out from "
            "all tables"
        )
    if cells.differences:
        told.append(
            f"{both.name}: blocks of one table less blocks of another give away "
            f"{plural(cells.differences, 'group')} of fewer than {cells.smallest} people"
        )
    return told


def attack_text(found: Disclosure) -> str:
    """Return the best attack, with a star where its own fit says that it is not identified."""
    return found.attack + (" *" if found.identified is False else "")


def _unsure(table: PlannedTable) -> bool:
    return table.in_table.identified is False or table.held_out.identified is False


def _grid(rows: list[list[str]], *, left: int) -> list[str]:
    """Return lines of aligned columns, the first ones to the left, under a ruled head."""
    width = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width[k]) if k < left else cell.rjust(width[k]) for k, cell in enumerate(row)
        ).rstrip()
        for row in rows
    ]
    rule = "-" * max(map(len, lines))
    return [rule, lines[0], rule, *lines[1:], rule]


def _gain_table(audit: Audit) -> list[list[str]]:
    more = ["right", "without"] if audit.categories else []
    rows = [["table", "people", "best attack", "gain", "interval", "chance", "p", *more, "utility"]]
    for table in audit.tables:
        for first, found in ((True, table.in_table), (False, table.held_out)):
            rows.append(
                [
                    table.name if first else "",
                    found.people,
                    attack_text(found),
                    number(found.gain.value),
                    f"{number(found.gain.low)}–{number(found.gain.high)}",
                    number(max(found.chance, 0.0)),
                    p_text(found.p_value),
                    *right_texts(table, found),
                    number(table.utility.value, 2) if first else "",
                ]
            )
    return rows


def right_texts(table: PlannedTable, found: Disclosure) -> list[str]:
    """Return how many are guessed right by the best attack, and without features.

    Nothing of numbers; dashes of fewer than ``SMALL`` people.
    """
    of = {each.attack: each.all for each in table.attacks if each.people == found.people}
    pair = [of[found.attack], of[BLOCK_HISTOGRAM]]
    return [
        _NONE if each.n < SMALL else percent(each.right) for each in pair if isinstance(each, Hits)
    ]


def _cell_table(audit: Audit) -> list[list[str]]:
    least = _rule(audit)
    whole = ["in one category"] if audit.categories else ["in one bin", "rare edges"]
    rows = [["table", "smallest cell", f"cells <{least}", f"blocks <{least}", *whole, "worked out"]]
    for table in audit.tables:
        cells = table.cells
        rows.append(
            [
                table.name,
                people_text(cells.smallest_cell),
                f"{cells.cells_under:,} of {cells.n_cells:,}",
                f"{cells.blocks_under:,}",
                f"{cells.whole_blocks:,}",
                *([] if audit.categories else [f"{cells.edges_at_rare_values:,}"]),
                derived_text(table),
            ]
        )
    return rows


def people_text(n: int) -> str:
    """Return a number of people as text, masked if small."""
    found = masked(n)
    return found if isinstance(found, str) else f"{found:,}"


def derived_text(table: PlannedTable) -> str:
    """Return how many hidden cells can be worked out; a dash where none is hidden."""
    cells = table.cells
    if not cells.hidden or table.noisy:
        return _NONE
    return f"{least_text(table)}{cells.derived:,} + {cells.narrowed:,} of {cells.hidden:,}"


def least_text(table: PlannedTable) -> str:
    """Return the sign of a number of cells that may be larger."""
    return "" if table.cells.exact else "≥ "


def recommendation(audit: Audit) -> str:
    """Return which table to publish, in a sentence."""
    found = audit.recommended
    if found is None:
        return f"Recommended: none, {why_none(audit)}"
    return (
        f"Recommended: {found.name}, the coarsest that keeps a utility of {audit.min_utility:g} "
        f"and the rule of {_rule(audit)} (gain {number(found.gain)})"
    )


def why_none(audit: Audit) -> str:
    """Return why no table is recommended: its small cells, its gain or its utility."""
    rule = f"the rule of {_rule(audit)}"
    if not audit.within_rule:
        return (
            f"every planned table shows counts that break {rule}, or may give hidden ones away; "
            "plan coarser tables, or protect them"
        )
    if not audit.allowed:
        least = min(audit.within_rule, key=lambda table: table.gain)
        return (
            f"no planned table within {rule} has a gain of {audit.max_gain:g} or less; the least "
            f"disclosing is {least.name} ({number(least.gain)})"
        )
    best = max(audit.allowed, key=lambda table: table.utility.value)
    if best.utility.value == 0:
        return f"no planned table within {rule} tells the coefficients at all"
    return (
        f"no planned table within {rule} keeps a utility of {audit.min_utility:g}; the most "
        f"useful is {best.name} ({number(best.utility.value, 2)})"
    )


def _rule(audit: Audit) -> int:
    return audit.tables[0].cells.smallest


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
        each |= {"level": table.level, "together": table.together, "gain": _plain(table.gain)}
        each["cells"]["within_rule"] = table.cells.within_rule
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
