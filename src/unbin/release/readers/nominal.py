"""Tables with one row per block and category."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unbin.release.readers.build import Bins, Names, build_histogram, check_ids
from unbin.release.readers.cells import Cell
from unbin.release.readers.dimensions import refuse_mixtures
from unbin.release.readers.labels import is_total
from unbin.release.readers.options import Options
from unbin.release.readers.sheets import Table, listed, shown
from unbin.release.release import Release

MAX_NAME = 200
"""Characters of the name of a category."""


def check_names(table: Table, column: str) -> list[str]:
    """Return the categories of all rows; none is empty or very long."""
    texts = table.column(column)
    for text in dict.fromkeys(texts):
        if not text:
            what = "every row needs a category, got an empty cell; fill it, or remove the row"
        elif len(text) > MAX_NAME:
            what = f"categories must have shorter names, got {len(text):,} characters; use codes"
        else:
            continue
        raise table.error(what, row=table.rows[texts.index(text)], column=column)
    return texts


def named_bins(
    table: Table,
    options: Options,
    ids: list[str],
    texts: list[str],
    cells: list[Cell],
    *,
    n: Mapping[str, int],
    names: Sequence[str] | None = None,
    absent: str = "zero",
) -> Bins:
    """Return the bins of categories, one entry per row of the table.

    Parameters
    ----------
    table, options
    ids, texts, cells : list
        Block, category and count of every row.
    n : mapping of block to people
    names : sequence of text, optional
        The order of the categories; that of text when left out.
    absent : {"zero", "structural"}
        What a missing row says, where the options do not.
    """
    order = tuple(sorted(set(texts))) if names is None else tuple(names)
    place = {name: float(k) for k, name in enumerate(order)}
    codes = [place[text] for text in texts]
    found = Names(order, options.absent or absent, options.rest)
    return Bins(table.rows, ids, codes, codes, cells, "right", n, categories=found)


def read_named(
    table: Table,
    options: Options,
    block: str,
    category: str,
    cells: list[Cell],
    *,
    source: str,
    n: Mapping[str, int],
    taken: Sequence[str | None],
    names: Sequence[str] | None = None,
    absent: str = "zero",
) -> Release:
    """Read a long table of categories; a row of all of them is the people of its block.

    ``cells`` are the counts of all rows, ``taken`` the columns that have a role; the rest as for
    ``named_bins``.
    """
    texts = check_names(table, category)
    whole = [is_total(text) for text in texts]
    if all(whole):
        raise table.error(
            f"must hold categories, got {listed(list(dict.fromkeys(texts)))}; say category=... "
            "with their column",
            column=category,
        )
    people = {
        block: cell.low
        for block, cell, total in zip(table.column(block), cells, whole, strict=True)
        if total and cell.exact
    }
    body = table.take([not total for total in whole])
    ids, texts = check_ids(body, block), body.column(category)
    refuse_mixtures(body, (block, category, *taken), ids, texts)
    counts = [cell for cell, total in zip(cells, whole, strict=True) if not total]
    order = None if names is None else [name for name in names if not is_total(name)]
    bins = named_bins(
        body, options, ids, texts, counts, n={**people, **n}, names=order, absent=absent
    )
    source = f"{source}, categories {shown(category)}"
    return build_histogram(body, bins, source=source, totals=options.totals)
