"""``unbin read``: how a published table is understood, and the same table in plain form."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unbin.cli import options
from unbin.cli.console import reported, say, warn_escaped
from unbin.cli.reading import NOTHING, Reading, open_releases, with_reading

if TYPE_CHECKING:
    from unbin.release import Release

_PICTURES = (".svg", ".png", ".pdf")


@reported
@with_reading(block=("--block", "--release-block"))
def read(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="CSV, TSV, Parquet, JSON, a workbook, a zip archive or a folder.",
            show_default=False,
        ),
    ],
    reading: Reading = NOTHING,
    moe: Annotated[
        bool, typer.Option("--moe", help="Read margins of error too, where there are any.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(help="File for the same table in plain columns, which 'unbin fit' reads."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="File for a picture of it: .svg, .png or .pdf.")
    ] = None,
    debug: options.DebugOption = False,  # noqa: ARG001 - read by reported()
) -> None:
    """Read a published table, and say how it was understood.

    Shows what was read, what was left out and why, and what was chosen. A download with several
    tables is listed.

    Example: unbin read ACSDT5Y2022.B19001-Data.csv --output income.csv

    Example: unbin read communes.xlsx --block "Commune code" --label "Household expenditure"
    --count Households --where Year=2016
    """
    from unbin._checks import check_package
    from unbin._io import write_texts
    from unbin.exceptions import ParameterError, ReadError

    if plot is not None and plot.suffix.lower() not in _PICTURES:
        raise ParameterError(
            f"--plot: must end in {', '.join(_PICTURES)}, got {plot.name!r}; rename it"
        )
    if plot is not None:
        check_package("--plot", "matplotlib", "plots")
    try:
        (release,) = open_releases([table], reading, **({"moe": True} if moe else {}))
    except ReadError as error:
        if "sheet" not in error.offers or output is not None or plot is not None:
            raise
        say(_listed(table, reading, moe=moe))
        return
    files: dict[Path, str | bytes] = {}
    if output is not None:
        files[output] = _tidy(release)
    if plot is not None:
        files[plot] = _picture(release, plot)
    write_texts(files)
    if output is not None:
        warn_escaped(release.blocks)
    say("\n".join([str(release), *(f"written: {path}" for path in files)]))


def _listed(table: str, reading: Reading, *, moe: bool) -> str:
    """Return what each table of a download holds."""
    from unbin.release import readers

    (settings,) = reading.settings(1)
    found = readers.read_releases(table, **settings, moe=moe)
    head = f"{len(found)} tables; choose one with --sheet to write or draw it"
    return "\n\n".join([head, *(f"{name}\n{release}" for name, release in found.items())])


def _tidy(release: Release) -> str:
    from unbin._io import csv_text
    from unbin.release.spelling import tidy_columns

    return csv_text(tidy_columns(release))


def _picture(release: Release, path: Path) -> bytes:
    """Return a picture of a release, in the format that the name of the file asks for."""
    import io

    stream = io.BytesIO()
    figure: Any = release.plot().figure
    figure.savefig(stream, format=path.suffix[1:].lower(), dpi=150)
    return stream.getvalue()
