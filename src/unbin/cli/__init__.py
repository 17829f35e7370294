"""The ``unbin`` command: parse, call, print."""

from __future__ import annotations

import typer

app = typer.Typer(
    help="Fit generalised linear models when the outcome was only published as a table.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def root() -> None:
    """Fit generalised linear models when the outcome was only published as a table."""


@app.command()
def demo(seed: int = typer.Option(0, help="Another seed simulates other people.")) -> None:
    """Simulate people in counties, publish histograms, fit from the published table alone.

    Example: unbin demo --seed 3
    """
    from unbin.cli.demo import run

    run(seed)


def main() -> None:
    """Run the command."""
    app()
