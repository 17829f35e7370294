"""How tables are read: options that every command with a RELEASE has, and what they come to."""

from __future__ import annotations

import inspect
import re
import shlex
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from unbin.exceptions import ReadError
    from unbin.release import Release

_AND = re.compile("&(?=[^&]*=)")
"""Between conditions on the rows of one of several tables."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was said about the tables; of several, once for all of them or once for each."""

    dialect: Annotated[
        list[str] | None, typer.Option(help="Layout of the table, see docs/howto/reading.md.")
    ] = None
    release_block: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of the table with the blocks; several, as in age_group,sex, for a table "
            "of their cells."
        ),
    ] = None
    label: Annotated[
        list[str] | None, typer.Option(help="Column of the table with bins in words.")
    ] = None
    count: Annotated[
        list[str] | None, typer.Option(help="Column of the table with the counts.")
    ] = None
    category: Annotated[
        list[str] | None, typer.Option(help="Column of the table with categories.")
    ] = None
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=VALUE",
            help="Rows of the table to read; repeat for a further column or value. With several "
            "tables: once for all, or once for each, as in Year=2016&Sex=Total.",
        ),
    ] = None
    closed: Annotated[
        list[str] | None, typer.Option(help="Edges that belong to a bin: right, left or both.")
    ] = None
    suppression: Annotated[
        list[str] | None,
        typer.Option(help="What hidden counts look like: cms, cdc-wonder, nhs, hhs, acs or none."),
    ] = None
    rounding: Annotated[
        list[str] | None, typer.Option(help="How counts were rounded, for example nearest-5.")
    ] = None
    totals: Annotated[
        list[str] | None,
        typer.Option(help="Blocks that are totals of others: drop (the default) or keep."),
    ] = None
    absent: Annotated[
        list[str] | None,
        typer.Option(
            help="What a category without a row in a block means: zero (the default), nobody chose "
            "it, or structural, it was not on offer."
        ),
    ] = None
    rest: Annotated[
        list[str] | None,
        typer.Option(help="Name of a category for people who are in none of those of the table."),
    ] = None
    sheet: Annotated[
        list[str] | None,
        typer.Option(help="Sheet of a workbook, or file of a folder or a zip archive."),
    ] = None
    skip: Annotated[
        list[int] | None,
        typer.Option(help="Rows above the header. Default: title rows are found."),
    ] = None
    encoding: Annotated[
        list[str] | None,
        typer.Option(help="Encoding of text that is not UTF-8: latin-1, cp1252, utf-16, …"),
    ] = None

    def settings(self, n_tables: int) -> list[dict[str, Any]]:
        """Return the options of ``read_release`` for each table."""
        by_name = {
            each.name: self._each(each.name, n_tables)
            for each in fields(self)
            if getattr(self, each.name) and each.name != "where"
        }
        found: list[dict[str, Any]] = [
            {name: values[k] for name, values in by_name.items() if values[k] != ""}
            for k in range(n_tables)
        ]
        for each, rows in zip(found, self._rows(n_tables), strict=True):
            column = each.pop("release_block", None)
            if column is not None:
                each["block"] = column.split(",") if "," in column else column
            if rows:
                each["where"] = rows
        return found

    def _each(self, name: str, n_tables: int) -> list[Any]:
        """Return the values of an option for each table; an empty one says nothing."""
        from unbin.exceptions import ParameterError

        values = list(getattr(self, name))
        if len(values) not in (1, n_tables):
            raise ParameterError(
                f"--{name.replace('_', '-')}: must be given once, or once for each of the "
                f"{n_tables} tables, got {len(values)}; add or remove some"
            )
        return values * n_tables if len(values) == 1 else values

    def _rows(self, n_tables: int) -> list[dict[str, Any]]:
        """Return which rows of each table to read; of a single one all conditions hold."""
        if not self.where:
            return [{}] * n_tables
        if n_tables == 1:
            return [_conditions(self.where)]
        each = self._each("where", n_tables)
        return [_conditions(_AND.split(text) if text else []) for text in each]


NOTHING = Reading()


def with_reading(
    block: tuple[str, ...] = ("--release-block",),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of :class:`Reading`, in the place of its parameter ``reading``.

    ``block`` is how the option for the column of blocks is spelled.
    """

    def give(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(Reading, include_extras=True)
        own = get_type_hints(command, include_extras=True)
        parameters: list[inspect.Parameter] = []
        for given in inspect.signature(command).parameters.values():
            if given.name != "reading":
                parameters.append(given.replace(annotation=own[given.name]))
                continue
            for name, kind in hints.items():
                parameters.append(
                    inspect.Parameter(
                        name,
                        given.KEYWORD_ONLY,
                        default=None,
                        annotation=_spelled(name, kind, block),
                    )
                )

        @wraps(command)
        def run(**given: Any) -> None:
            said = Reading(**{name: given.pop(name) for name in hints})
            command(**given, reading=said)

        everything = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
        run.__signature__ = inspect.Signature(everything)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in everything}
        return run

    return give


def _spelled(name: str, kind: Any, block: tuple[str, ...]) -> Any:
    """Return the annotation of an option, that for the blocks under its names."""
    if name != "release_block":
        return kind
    base, option = kind.__origin__, kind.__metadata__[0]
    return Annotated[base, typer.Option(*block, help=option.help)]


def open_releases(paths: list[str], reading: Reading, **more: Any) -> list[Release]:
    """Read the published tables; commands print what was chosen, so nothing warns of it."""
    from unbin.exceptions import ReadWarning
    from unbin.release.readers import read_release

    settings = reading.settings(len(paths))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadWarning)
        return [
            read_release(path, **each, **more) for path, each in zip(paths, settings, strict=True)
        ]


def describe(tables: list[Release], paths: list[str]) -> list[str]:
    """Say how files were understood: what was left out or chosen."""
    named = zip(tables, paths, strict=True)
    return [f"{path}: {note}" for table, path in named for note in table.notes]


def advice(error: ReadError) -> str:
    """Return an error with the options that would help, as they are said on the command line."""
    if not error.offers:
        return error.text
    text = re.sub(r"(?:[;,]? or|[;,]) (?:say|choose(?: rows)? with)$", "", error.text)
    words = [word for name, value in error.offers.items() for word in _words(name, value)]
    return f"{text}\nTry: {shlex.join(words)}"


def _words(name: str, value: Any) -> list[str]:
    """Return an option of ``read_release`` as words of the command line."""
    if name == "where":
        pairs = [
            (column, each)
            for column, wanted in value.items()
            for each in ([wanted] if isinstance(wanted, str | int) else wanted)
        ]
        return [word for column, each in pairs for word in ("--where", f"{column}={each}")]
    if isinstance(value, bool):
        return [f"--{name}"] if value else []
    option = "--release-block" if name == "block" else f"--{name}"
    return [option, ",".join(value) if isinstance(value, list | tuple) else str(value)]


def _conditions(texts: list[str]) -> dict[str, Any]:
    """Return "Year=2016" and the like as a mapping; values of the same column are alternatives."""
    from unbin.exceptions import ParameterError

    found: dict[str, list[str]] = {}
    for text in texts:
        column, sign, value = text.partition("=")
        if not sign or not column:
            raise ParameterError(
                f"--where: must name a column and the value to keep, got {text!r}; write for "
                "example Year=2016"
            )
        found.setdefault(column, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}
