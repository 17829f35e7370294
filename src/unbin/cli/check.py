"""``unbin check``: whether a fit can start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from unbin.cli import options, standing
from unbin.cli.console import FAILED, reported, say
from unbin.cli.reading import NOTHING, Reading, open_releases, with_reading

if TYPE_CHECKING:
    from unbin.people.reading import People
    from unbin.release import Release


@reported
@with_reading()
def check(
    people: options.PeopleArgument,
    release: options.ReleasesArgument,
    block: options.BlocksOption = None,
    weights: standing.WeightsOption = None,
    weighting: standing.WeightingOption = "frequency",
    observed: standing.ObservedOption = None,
    disjoint: standing.DisjointOption = False,
    on_missing: options.OnMissingOption = "error",
    reading: Reading = NOTHING,
    debug: options.DebugOption = False,  # noqa: ARG001 - read by reported()
) -> None:
    """Check whether people and a table, or several tables, fit together.

    Compares blocks, totals, hidden counts and leading zeros; with several tables also their counts
    of the same people. The exit code is 0 when a fit can start, 1 when it cannot.

    With --on-missing drop, people without a block are outside that table. An option about RELEASE
    (--rounding, …) given once applies to all tables; otherwise give it once for each, in their
    order.

    Rows that stand for several people need --weights. Known outcomes (--observed) are looked for in
    the tables.

    Example: unbin check people.csv county.csv sex.csv --block county --block sex

    Example: unbin check cells.csv county.csv --block county --weights people
    """
    from unbin.people.reading import read_people

    blocks = options.check_blocks(block, len(release))
    names = options.block_columns(blocks)
    who = standing.Standing(weights, weighting, observed, disjoint).check({"--block": names})
    rows = read_people(people, text=names, columns=[*names, *who.columns])
    tables = open_releases(release, reading)
    how = who.tie(rows) | {"on_missing": on_missing}
    found = [
        table.check(options.block_ids(rows, each), **how)
        for table, each in zip(tables, blocks, strict=True)
    ]
    sections = [f"{table}\n\n{each}" for table, each in zip(tables, found, strict=True)]
    ready = all(each.ready for each in found)
    if len(tables) > 1:
        heads = (f"{name} ({path})" for name, path in zip(blocks, release, strict=True))
        sections = [f"{head}\n{text}" for head, text in zip(heads, sections, strict=True)]
    if len(tables) > 1 or observed is not None:
        together, ready = _together(tables, rows, blocks, who, ready=ready, on_missing=on_missing)
        both = "the tables" if len(tables) > 1 else "the table and observed people"
        sections.append(f"{both} together\n{together}")
    say("\n\n".join(sections))
    if not ready:
        raise typer.Exit(FAILED)


def _together(
    tables: list[Release],
    rows: People,
    blocks: list[str],
    who: standing.Standing,
    *,
    ready: bool,
    on_missing: str,
) -> tuple[str, bool]:
    """Return what tables and people say about the same outcomes, and whether they agree."""
    from unbin.release.join import join

    if not ready:
        return "not compared, before each of them is ready to fit", False
    found = join(options.join_tables(tables, rows, blocks, who, on_missing=on_missing)).check()
    return str(found), found.ready
