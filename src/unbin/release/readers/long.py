"""Tables with one row per block and label, as most agencies export them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from unbin.exceptions import ReleaseError
from unbin.release.readers.bins import Edges, close_gaps
from unbin.release.readers.build import Bins, build_histogram, check_ids, choose_rows
from unbin.release.readers.cells import Cell, Scheme, parse_cell
from unbin.release.readers.dimensions import refuse_mixtures
from unbin.release.readers.labels import Label, is_total, is_unknown, parse_label
from unbin.release.readers.options import Options
from unbin.release.readers.sheets import Table, listed, shown
from unbin.release.release import Release
from unbin.release.words import plural

_MEASURED = re.compile(
    r"(?:^|[\W_])(?:ages?|incomes?|earnings|wages?|salar(?:y|ies)|expenditures?|spending|rent|costs?|"
    r"duration|time)(?:$|[\W_])",
    re.I,
)
"""Names of columns whose labels are about values between whole numbers."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Names under which a dialect knows the columns of a long table, the likeliest first."""

    block: tuple[str, ...]
    label: tuple[str, ...]
    count: tuple[str, ...]

    def in_header(self, header: list[str]) -> bool:
        """Tell whether a header has all three."""
        known = {name.casefold() for name in header}
        return all(
            known & {name.casefold() for name in names}
            for names in (self.block, self.label, self.count)
        )


def pick(table: Table, chosen: str | None, names: tuple[str, ...], *, role: str) -> str:
    """Return the column the user chose, or the first one with a known name."""
    if chosen is not None:
        return table.require(chosen, role=role)
    found = table.find(*names)
    if found is None:
        raise table.error(
            f"no column for {role} found, got {listed(table.header)}; say {role}=... with its name"
        )
    return found


def edges_of(table: Table, labels: list[Label], column: str, closed: str | None) -> Edges:
    """Close the gaps between labels; a complaint names the column."""
    try:
        return close_gaps(labels, closed, continuous=_MEASURED.search(column) is not None)
    except ReleaseError as error:
        raise table.error(str(error), column=column) from None


def read_labelled(
    table: Table,
    options: Options,
    columns: Columns,
    scheme: Scheme,
    *,
    dialect: str,
    cells: list[Cell] | None = None,
) -> Release:
    """Read a long table with labels in words, suppressed cells and totals.

    ``cells`` are the counts of all rows asked for, where a dialect does not read all alike.
    """
    table = choose_rows(table, options.where)
    block = pick(table, options.block, columns.block, role="block")
    label = pick(table, options.label, columns.label, role="label")
    count = pick(table, options.count, columns.count, role="count")
    texts = table.column(label)
    if cells is None:
        cells = table.parse(count, lambda text: parse_cell(text, scheme))
    ids = table.column(block)
    lost = [is_unknown(text) for text in texts]
    n = _totals(ids, texts, cells, lost) if not scheme.rounding else {}
    keep = [not (gone or is_total(text)) for text, gone in zip(texts, lost, strict=True)]
    if not any(keep):
        raise table.error(
            f"must hold bins, got {listed(list(dict.fromkeys(texts)))}; say label=... with the "
            "column of bins",
            column=label,
        )
    body = table.take(keep)
    refuse_mixtures(body, (block, label, count), body.column(block), body.column(label))
    labels = body.parse(label, parse_label)
    edges = edges_of(table, labels, label, options.closed)
    bins = Bins(
        body.rows,
        check_ids(body, block),
        [edges.edges[item][0] for item in labels],
        [edges.edges[item][1] for item in labels],
        [cell for cell, k in zip(cells, keep, strict=True) if k],
        edges.closed,
        n,
    )
    words = [dialect, f"block {shown(block)}"]
    if scheme.rounding:
        words.append(f"rounded ({scheme.rounding})")
    if any(lost):
        words.append(f"{plural(sum(lost), 'row')} of unknown value left out")
    return build_histogram(table, bins, source=", ".join(words), totals=options.totals)


def share_bins(
    table: Table, ids: list[str], cells: list[Cell], population: list[int], count: str
) -> Bins:
    """Return the bins of 0/1 targets: 1 for those counted and 0 for the rest of a population.

    ``cells`` and ``population`` have one entry per row of the table; ``count`` is the column of the
    cells, for messages.
    """
    rest = []
    for row, cell, n in zip(table.rows, cells, population, strict=True):
        if cell.low > n:
            raise table.error(
                f"counts must not exceed the population, got {cell.low:,} of {n:,}; check which "
                "column counts what",
                row=row,
                column=count,
            )
        high = n if cell.high is None else cell.high
        rest.append(Cell(max(n - high, 0), n - cell.low))
    edges = [0.0] * len(ids) + [1.0] * len(ids)
    n_people = dict(zip(ids, population, strict=True))
    return Bins(table.rows * 2, ids * 2, edges, edges, rest + cells, "right", n_people)


def _totals(
    ids: list[str], texts: list[str], cells: list[Cell], lost: list[bool]
) -> dict[str, int]:
    """Return the published totals of blocks, less the people whose value is unknown."""
    n = {
        block: cell.low
        for block, text, cell in zip(ids, texts, cells, strict=True)
        if is_total(text) and cell.exact
    }
    for block, cell, gone in zip(ids, cells, lost, strict=True):
        if gone and block in n:
            if cell.exact and cell.low <= n[block]:
                n[block] -= cell.low
            else:
                del n[block]
    return n
