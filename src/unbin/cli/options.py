"""Arguments and options that several commands have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from unbin.release import Release

PeopleArgument = Annotated[
    str,
    typer.Argument(
        metavar="PEOPLE",
        help="One person per row: CSV, TSV or Parquet (text may be gzipped), or 'duckdb:SELECT …'.",
        show_default=False,
    ),
]
ReleaseArgument = Annotated[
    str,
    typer.Argument(
        metavar="RELEASE",
        help="The published table: tidy (block, lower, upper, count) or an agency's own layout.",
        show_default=False,
    ),
]
BlockOption = Annotated[
    str | None,
    typer.Option(help="Column of PEOPLE with the block (county, hospital, …) of each person."),
]
DialectOption = Annotated[
    str | None,
    typer.Option(
        help="Layout of RELEASE: tidy, acs, cdc-wonder, cms, nhs or eurostat. Default: guessed."
    ),
]
ReleaseBlockOption = Annotated[
    str | None, typer.Option(help="Column of RELEASE with the blocks. Default: guessed.")
]
SuppressionOption = Annotated[
    str | None,
    typer.Option(help="What hidden counts look like: cms, cdc-wonder, nhs, hhs, acs or none."),
]
RoundingOption = Annotated[
    str | None, typer.Option(help="How counts were rounded, for example nearest-5.")
]
ClosedOption = Annotated[
    str | None, typer.Option(help="Edges that belong to a bin: right, left or both.")
]
PublicOption = Annotated[
    bool | None,
    typer.Option(
        "--public/--not-public",
        help="Whether everybody has RELEASE already; if not, small counts are masked in files. "
        "Default: public in an agency's own layout.",
    ),
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]


def open_release(
    path: str,
    *,
    dialect: str | None,
    release_block: str | None,
    suppression: str | None,
    rounding: str | None,
    closed: str | None,
    public: bool | None = None,
) -> Release:
    """Read the published table."""
    from unbin.release.readers import read_release

    return read_release(
        path,
        dialect=dialect,
        block=release_block,
        suppression=suppression,
        rounding=rounding,
        closed=closed,
        public=public,
    )
