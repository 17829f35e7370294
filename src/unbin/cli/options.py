"""Arguments and options that several commands have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from unbin.cli.standing import Standing
    from unbin.people.reading import People
    from unbin.release import AggregatedTarget, Release
    from unbin.release.join import JoinedTarget

PeopleArgument = Annotated[
    str,
    typer.Argument(
        metavar="PEOPLE",
        help="One person per row: CSV, TSV or Parquet (text may be gzipped), or 'duckdb:SELECT …'.",
        show_default=False,
    ),
]
ReleasesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="RELEASE",
        help="The published table: tidy (block, lower, upper, count) or an agency's own layout. "
        "Several tables of the same people need a --block each.",
        show_default=False,
    ),
]
_BLOCK = "Column of PEOPLE with the block (county, hospital, …) of each person"
BlockOption = Annotated[
    str | None,
    typer.Option(help=f"{_BLOCK}; with several tables, in the one of the contextual effects."),
]
BlocksOption = Annotated[
    list[str] | None,
    typer.Option(
        help=f"{_BLOCK}; two columns, as in age_group,sex, for a table of their cells; repeat for "
        "each further table, in the order of the tables."
    ),
]
ClusterOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Column of PEOPLE with larger blocks that blocks lie in, as states above counties: "
        "standard errors are by cluster. Repeat for nested levels."
    ),
]
OnMissingOption = Annotated[
    str, typer.Option(help="Blocks without people or without a table: error, or drop.")
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


def block_columns(blocks: list[str]) -> list[str]:
    """Return all columns of people that the tables are split by, each once."""
    return list(dict.fromkeys(name for block in blocks for name in block.split(",")))


def check_blocks(blocks: list[str] | None, n_tables: int) -> list[str]:
    """Return what each table is split by, or raise unless there is one ``--block`` for each."""
    from unbin.exceptions import ParameterError

    found = list(blocks or [])
    if not found and n_tables == 1:
        raise ParameterError("--block: must name the column of blocks, got none; add it")
    if len(found) != n_tables:
        raise ParameterError(
            f"--block: must be given once for each table, in their order, got {len(found)} for "
            f"{n_tables} tables; write for example --block county --block age_group,sex"
        )
    return found


def block_ids(rows: People, block: str) -> Any:
    """Return the block of each person: a column, or the columns of a crossed table."""
    names = block.split(",")
    return rows.column(block) if len(names) == 1 else {name: rows.column(name) for name in names}


def align_tables(
    tables: list[Release],
    rows: People,
    blocks: list[str],
    standing: Standing,
    *,
    scale: bool = False,
    on_missing: str = "error",
) -> list[AggregatedTarget]:
    """Tie each table to its column of people; everybody is in a table without one."""
    how = standing.tie(rows) | {"scale": scale, "on_missing": on_missing}
    if not blocks:
        (table,) = tables
        everybody = [str(table.blocks[0])] * len(rows) if len(table) == 1 else None
        return [table.align(everybody, **how)]
    # a mapping has names, by which several tables, and people beside one, are told apart
    named = len(tables) > 1 or standing.observed is not None

    def ids(block: str) -> Any:
        found = block_ids(rows, block)
        return {block: found} if named and not isinstance(found, dict) else found

    return [table.align(ids(block), **how) for table, block in zip(tables, blocks, strict=True)]


def join_tables(
    tables: list[Release],
    rows: People,
    blocks: list[str],
    standing: Standing,
    *,
    scale: bool = False,
    on_missing: str = "error",
) -> AggregatedTarget | JoinedTarget:
    """Return the target of one table, or of several, and of outcomes that are known, joined."""
    from unbin.release.join import join

    aligned = align_tables(tables, rows, blocks, standing, scale=scale, on_missing=on_missing)
    known = standing.known(rows, categories=any(table.categories for table in tables))
    if known is None:
        return aligned[0] if len(aligned) == 1 else join(*aligned, scale=scale)
    return join(*aligned, known, scale=scale and len(aligned) > 1)
