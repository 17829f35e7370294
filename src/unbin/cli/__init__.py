"""The ``unbin`` command: parse, call, print. A command is one file, and imports when it runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

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

_COMPLETION = ("--install-completion", "--show-completion")


def root() -> None:
    """Fit generalised linear models when the outcome was only published as a table.

    Example: unbin fit people.csv release.csv --block county --formula "age + C(sex)"

    unbin --version prints the version, unbin --install-completion makes the shell complete
    commands.
    """


@reported
def demo(
    seed: Annotated[int, typer.Option(help="Another seed simulates other people.")] = 0,
    output: Annotated[
        Path | None, typer.Option(help="Folder for the report. Default: a temporary one.")
    ] = None,
    debug: options.DebugOption = False,  # noqa: ARG001 - read by reported()
) -> None:
    """Show a whole analysis on simulated people in counties.

    Publishes histograms per county, and per age group and sex, fits from them alone, and compares
    with the truth.

    Example: unbin demo --seed 3
    """
    from unbin.cli.demo import run

    run(seed, output)


def make_app(*, completion: bool = False) -> typer.Typer:
    """Return the command; options of the root, for the shell, are slow to load."""
    made = typer.Typer(
        name="unbin",
        no_args_is_help=True,
        add_completion=completion,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    made.callback()(root)
    for command in (read, check, fit, predict, aggregate, audit, demo):
        made.command()(command)
    return made


app = make_app()


def main() -> None:
    """Run the command."""
    words = sys.argv[1:]
    if words == ["--version"]:
        say(f"unbin {__version__}")
    elif (words[:1] and words[0].startswith(_COMPLETION)) or "_UNBIN_COMPLETE" in os.environ:
        make_app(completion=True)(prog_name="unbin")
    elif not _shows_help(words):
        app(prog_name="unbin")


def _shows_help(words: list[str]) -> bool:
    """Print the help that is asked for; what typer validates values with need not be loaded."""
    *names, last = words or [""]
    if last != "--help" or len(names) > 1:
        return False
    command: Any = typer.main.get_command(app)
    context = typer.Context(command, info_name="unbin")
    if names:
        command = command.get_command(context, names[0])
        if command is None:
            return False
        context = typer.Context(command, info_name=names[0], parent=context)
    say(command.get_help(context))
    return True
