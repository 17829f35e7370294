"""``unbin aggregate``: make a release from individual targets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from unbin.cli import options
from unbin.cli.console import reported, say


@reported
def aggregate(
    people: options.PeopleArgument,
    target: Annotated[str, typer.Option(help="Column with the outcome.", show_default=False)],
    block: options.BlockOption = None,
    bins: Annotated[
        str, typer.Option(help="Number of bins, or their edges: '-inf,0,10,inf'.")
    ] = "5",
    output: Annotated[
        Path | None, typer.Option(help="File to write. Default: the terminal.")
    ] = None,
    debug: options.DebugOption = False,  # noqa: ARG001 - read by reported()
) -> None:
    """Make the table: a histogram per block.

    Example: unbin aggregate people.csv --target cost --block county --bins 10 --output release.csv
    """
    from unbin._io import csv_text, write_texts
    from unbin.people.reading import read_people
    from unbin.release.aggregation import aggregate as publish

    ids = [] if block is None else [block]
    rows = read_people(people, text=ids, columns=[target, *ids])
    release = publish(
        rows.column(target), None if block is None else rows.column(block), _bins(bins)
    )
    text = csv_text(_open_ends(release.to_columns()["histogram"]))
    _warn_escaped(release.blocks)
    if output is None:
        say(text.removesuffix("\n"))
    else:
        write_texts({output: text})
        say(f"{release}\nwritten: {output}")


def _bins(text: str) -> int | list[float]:
    from unbin.exceptions import ParameterError

    try:
        return [float(part) for part in text.split(",")] if "," in text else int(text)
    except ValueError:
        raise ParameterError(
            f"--bins: must be a number of bins or edges between commas, got {text!r}; write for "
            "example 10, or -inf,0,10,inf"
        ) from None


def _open_ends(columns: dict[str, Any]) -> dict[str, Any]:
    """Return a tidy table whose open ends are empty cells."""
    import numpy as np

    ends = {k: np.where(np.isinf(columns[k]), np.nan, columns[k]) for k in ("lower", "upper")}
    return columns | ends


def _warn_escaped(blocks: Any) -> None:
    from unbin._io import safe_cell

    changed = [str(block) for block in blocks if safe_cell(str(block)) != str(block)]
    if changed:
        say(
            f"Warning: {len(changed)} block ids look like spreadsheet formulas and were written "
            f"with an apostrophe in front, for example {changed[0]!r}",
            err=True,
        )
