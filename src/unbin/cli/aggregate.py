"""``unbin aggregate``: make a release from individual targets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unbin.cli import options, standing
from unbin.cli.console import reported, say, warn_escaped
from unbin.cli.records import check_output, write

if TYPE_CHECKING:
    from unbin._typing import FloatArray
    from unbin.people.reading import People
    from unbin.release import Release


@reported
def aggregate(
    people: options.PeopleArgument,
    target: Annotated[str, typer.Option(help="Column with the outcome.", show_default=False)],
    block: options.BlocksOption = None,
    weights: standing.WeightsOption = None,
    bins: Annotated[
        str,
        typer.Option(
            help="Number of bins, or their edges: '-inf,0,10,inf'. 'categories' counts every value "
            "by itself, as is always done for text."
        ),
    ] = "5",
    output: Annotated[
        Path | None,
        typer.Option(
            help="File to write. Default: the terminal. With several tables, a folder with a file "
            "for each, such as county.csv and age_group-sex.csv."
        ),
    ] = None,
    debug: options.DebugOption = False,  # noqa: ARG001 - read by reported()
) -> None:
    """Make the table: a histogram per block; several tables with several --block.

    All tables have the same bins. Blocks of a crossed table are written as "65-74 | f". Where rows
    stand for several people, counts are sums of --weights.

    Example: unbin aggregate people.csv --target cost --block county --bins 10 --output release.csv

    Example: unbin aggregate cells.csv --target cost --block county --weights people
    """
    from unbin._io import write_texts
    from unbin.people.reading import read_people

    blocks = list(block or [])
    names = options.block_columns(blocks)
    if len(blocks) > 1:
        files = _files(blocks, output)
    who = standing.Standing(weights).check({"--target": [target], "--block": names})
    rows = read_people(people, text=names, columns=[target, *names, *who.columns])
    counted = who.people(rows)
    everybody: list[str | None] = [None]
    tables = [_publish(rows, target, each, bins, counted) for each in blocks or everybody]
    texts = [_csv(table) for table in tables]
    if output is None:
        say(texts[0].removesuffix("\n"))
    elif len(tables) == 1:
        write_texts({output: texts[0]})
        say(f"{tables[0]}\nwritten: {output}")
    else:
        told = [f"{name}\n{table}" for name, table in zip(blocks, tables, strict=True)]
        written = write(output, dict(zip(files, texts, strict=True)))
        say("\n".join([*told, written]))


def _publish(
    rows: People, target: str, block: str | None, bins: str, people: FloatArray | None
) -> Release:
    from unbin.release.aggregation import aggregate as publish

    ids = None if block is None else options.block_ids(rows, block)
    release = publish(rows.column(target), ids, _bins(bins), weights=people)
    warn_escaped(release.blocks)
    return release


def _csv(release: Release) -> str:
    from unbin._io import csv_text
    from unbin.release.spelling import tidy_columns

    return csv_text(tidy_columns(release))


def _files(blocks: list[str], output: Path | None) -> list[str]:
    """Return a file for each of several tables, or raise before any work."""
    from unbin.exceptions import ParameterError

    if output is None:
        raise ParameterError(
            f"--output: {len(blocks)} tables need a folder to be written to, got none; add it"
        )
    check_output(output)
    files = [re.sub(r"[^\w.-]", "-", block) + ".csv" for block in blocks]
    twice = [block for block, file in zip(blocks, files, strict=True) if files.count(file) > 1]
    if twice:
        raise ParameterError(
            f"--block: every table must have a name of its own, got {' and '.join(twice)}; give "
            "each once, or write them one by one"
        )
    return files


def _bins(text: str) -> int | str | list[float]:
    from unbin.exceptions import ParameterError

    if text == "categories":
        return text
    try:
        return [float(part) for part in text.split(",")] if "," in text else int(text)
    except ValueError:
        raise ParameterError(
            f"--bins: must be a number of bins or edges between commas, got {text!r}; write for "
            "example 10, or -inf,0,10,inf"
        ) from None
