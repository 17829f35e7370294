"""What every command shares: plain text out, errors in one line or two, a sign of life."""

from __future__ import annotations

import contextlib
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec

import typer

P = ParamSpec("P")
FAILED, MISUSED, INTERRUPTED = 1, 2, 130
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def say(text: str, *, err: bool = False) -> None:
    """Print text as it is; control characters, which could drive a terminal, are spelled out."""
    typer.echo(_CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text), err=err)


def warn_escaped(blocks: Any) -> None:
    """Say which block ids were written with an apostrophe in front."""
    from unbin._io import safe_cell

    changed = [str(block) for block in blocks if safe_cell(str(block)) != str(block)]
    if changed:
        say(
            f"Warning: {len(changed)} block ids look like spreadsheet formulas and were written "
            f"with an apostrophe in front, for example {changed[0]!r}",
            err=True,
        )


def reported(command: Callable[P, None]) -> Callable[P, None]:
    """Turn errors into one line and an exit code, unless the command was given --debug.

    1: the data do not allow it; 2: the command was not understood; 130: interrupted.
    """

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with _warnings_as_lines():
                command(*args, **kwargs)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            say("Interrupted: no file was left half-written.", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if kwargs.get("debug"):
                raise
            say(f"Error: {_explain(error)}", err=True)
            raise typer.Exit(_exit_code(error)) from None

    return run


@contextlib.contextmanager
def progress(what: str) -> Iterator[Callable[[str], None]]:
    """Show that something is going on, and for how long, on a terminal's stderr.

    Yields a function that changes what is shown.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda text: bar.update(task, description=text)


@contextlib.contextmanager
def _warnings_as_lines() -> Iterator[None]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        finally:
            for text in dict.fromkeys(str(warning.message) for warning in caught):
                say(f"Warning: {text}", err=True)


def _explain(error: Exception) -> str:
    from unbin.cli.reading import advice
    from unbin.exceptions import ReadError, UnbinError

    if isinstance(error, ReadError):
        return advice(error)
    if isinstance(error, UnbinError):
        return str(error)
    return (
        f"unexpected {type(error).__name__}: {error}; run again with --debug and report what it "
        "shows"
    )


def _exit_code(error: Exception) -> int:
    from unbin.exceptions import FitInterruptedError, FormulaError, ParameterError

    if isinstance(error, FitInterruptedError):
        return INTERRUPTED
    return MISUSED if isinstance(error, ParameterError | FormulaError) else FAILED
