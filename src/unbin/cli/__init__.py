"""The ``unbin`` command: parse, call, print. A command is one file, and imports when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unbin import __version__
from unbin.cli import options
from unbin.cli.aggregate import aggregate
from unbin.cli.audit import audit
from unbin.cli.check import check
from unbin.cli.console import reported, say
from unbin.cli.fit import fit
from unbin.cli.predict import predict
from unbin.cli.read import read

app = typer.Typer(
    name="unbin",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(value: bool) -> None:
    if value:
        say(f"unbin {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Fit generalised linear models when the outcome was only published as a table.

    Example: unbin fit people.csv release.csv --block county --formula "age + C(sex)"
    """


for _command in (read, check, fit, predict, aggregate, audit):
    app.command()(_command)


@app.command()
@reported
def demo(
    seed: Annotated[int, typer.Option(help="Another seed simulates other people.")] = 0,
    output: Annotated[
        Path | None, typer.Option(help="Folder for the report. Default: a temporary one.")
    ] = None,
    debug: options.DebugOption = False,  # noqa: ARG001 - read by reported()
) -> None:
    """Show it on simulated people in counties.

    Publishes histograms per county, and per age group and sex, fits from them alone, and compares
    with the truth.

    Example: unbin demo --seed 3
    """
    from unbin.cli.demo import run

    run(seed, output)


def main() -> None:
    """Run the command."""
    app()
