"""``unbin check``: whether a fit can start."""

from __future__ import annotations

import typer

from unbin.cli import options
from unbin.cli.console import FAILED, reported, say


@reported
def check(
    people: options.PeopleArgument,
    release: options.ReleaseArgument,
    block: options.BlockOption = None,
    dialect: options.DialectOption = None,
    release_block: options.ReleaseBlockOption = None,
    suppression: options.SuppressionOption = None,
    rounding: options.RoundingOption = None,
    closed: options.ClosedOption = None,
    debug: options.DebugOption = False,  # noqa: ARG001 - read by reported()
) -> None:
    """Check whether people and a table fit together.

    Compares blocks, totals, hidden counts and leading zeros. The exit code is 0 when a fit can
    start, 1 when it cannot.

    Example: unbin check people.csv release.csv --block county
    """
    from unbin.exceptions import ParameterError
    from unbin.people.reading import read_people

    if block is None:
        raise ParameterError("--block: must name the column of blocks, got none; add it")
    rows = read_people(people, text=[block], columns=[block])
    table = options.open_release(
        release,
        dialect=dialect,
        release_block=release_block,
        suppression=suppression,
        rounding=rounding,
        closed=closed,
    )
    found = table.check(rows.column(block))
    say(f"{table}\n\n{found}")
    if not found.ready:
        raise typer.Exit(FAILED)
