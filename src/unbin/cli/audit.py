"""``unbin audit``: what a planned table would disclose, before it is published."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unbin.cli import options, standing
from unbin.cli.console import FAILED, progress, reported, say
from unbin.cli.records import check_report, command_line, write

if TYPE_CHECKING:
    from unbin.people.reading import People

_MOST_CATEGORIES = 50
"""Columns of text with more are taken for names and numbers of people, and left out."""
_MOST_BLOCKS = 12
"""Blocks up to which those of one of several tables are features, too."""


@reported
def audit(
    people: options.PeopleArgument,
    target: Annotated[
        str,
        typer.Option(help="Column with the outcome: numbers, or categories.", show_default=False),
    ],
    block: Annotated[
        list[str] | None,
        typer.Option(
            help="Column with the block of each person, several between commas for a crossed "
            "table; repeat for further tables."
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            help="Column of PEOPLE that says how many people have the features, outcome and blocks "
            "of each row: whole numbers."
        ),
    ] = None,
    together: Annotated[
        bool,
        typer.Option(
            "--together/--alternatives",
            help="Whether all tables will be published together, or only one of them.",
        ),
    ] = True,
    everybody: Annotated[
        bool, typer.Option("--everybody", help="Also plan one table of everybody.")
    ] = False,
    bins: Annotated[
        str | None,
        typer.Option(
            help="Numbers of bins to plan for, 2,5,10,25 by default. Categories have none; say "
            "'categories' where numbers are their names."
        ),
    ] = None,
    edges: Annotated[
        list[str] | None,
        typer.Option(help="Edges to plan for: '-inf,0,10,inf'; repeat for further tables."),
    ] = None,
    formula: Annotated[
        str | None,
        typer.Option(help="What an attacker knows, as in 'unbin fit'. Default: all other columns."),
    ] = None,
    target_transform: Annotated[
        str | None, typer.Option(help="log: measure errors of the log, for amounts.")
    ] = None,
    family: Annotated[
        str, typer.Option(help="Families that attackers try, between commas, or auto.")
    ] = "auto",
    attacks: Annotated[
        str, typer.Option(help="Attacks, between commas: ridge is the slowest.")
    ] = "matching,likelihood,ridge",
    rule: Annotated[
        str, typer.Option(help="Smallest count to publish: cms (11), wonder (10), nhs (8) or k.")
    ] = "cms",
    suppress: Annotated[
        int | None, typer.Option(help="Show what hiding counts under this changes.")
    ] = None,
    complementary: Annotated[
        bool,
        typer.Option("--complementary", help="Also hide counts that give hidden ones away."),
    ] = False,
    base: Annotated[
        int | None, typer.Option("--round", help="Show what rounding to this base changes.")
    ] = None,
    noise: Annotated[
        str | None, typer.Option(help="Show what noise changes: laplace:EPSILON.")
    ] = None,
    min_utility: Annotated[
        float, typer.Option(help="Utility that a recommended table must reach, 0 to 1.")
    ] = 0.8,
    fail_above: Annotated[
        float | None,
        typer.Option(help="Exit with 1 if a table has a larger gain, and recommend no such table."),
    ] = None,
    held_out: Annotated[
        float, typer.Option(help="Share of people left out of the audited tables.")
    ] = 0.2,
    level: Annotated[float, typer.Option(help="Coverage of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    output: Annotated[
        Path | None, typer.Option(help="Folder for audit.json and report.html.")
    ] = None,
    debug: options.DebugOption = False,  # noqa: ARG001 - read by reported()
) -> None:
    """Measure what planned tables would disclose.

    For those who hold the outcomes: attacks every table, and all of them together, and reports what
    that discloses about people. Exits with 1 where none may be published.

    Example: unbin audit people.csv --target income --block county --block age_group,sex --bins 2,5
    --suppress 11 --fail-above 0.3 --output audit

    Example: unbin audit cells.csv --target income --block county --weights people

    Example: unbin audit voters.csv --target party --block precinct --suppress 11
    """
    from unbin.disclosure import audit as measure
    from unbin.disclosure.inputs import EVERYBODY
    from unbin.disclosure.text import too_much, why_none
    from unbin.people.encoding import Encoding
    from unbin.people.formulas import check_formulas

    plans = _plans(bins, edges or [])
    check_formulas("audit")
    check_report(output)
    with progress("reading"):
        levels = _levels(people, target, block or [])
        columns = list(dict.fromkeys(chain.from_iterable(levels.values())))
        several = together and len(levels) > 1
        who = standing.Standing(weights).check({"--target": [target], "--block": columns})
        rows, terms = _read(people, target, columns, formula, who.columns, several=several)
        encoding, X = Encoding.build(terms, rows.columns)
    blocks: dict[str, Any] = {name: _ids(rows, parts) for name, parts in levels.items()}
    if everybody or not levels:
        blocks = {EVERYBODY: None} | blocks
    with progress("auditing") as show:
        found = measure(
            encoding.frame(X),
            rows.column(target),
            blocks,
            bins=plans,
            weights=who.people(rows),
            together=together,
            target_transform=target_transform,
            families="auto" if family == "auto" else family.split(","),
            attacks=attacks.split(","),
            held_out=held_out,
            rule=int(rule) if rule.isdecimal() else rule,
            suppress=suppress,
            complementary=complementary,
            round=base,
            noise=noise,
            min_utility=min_utility,
            max_gain=fail_above,
            level=level,
            random_state=seed,
            progress=show,
        )
    say(str(found))
    if output is not None:
        say("\n" + write(output, _record(found, rows, target)))
    sentence = None if fail_above is None else too_much(found, fail_above)
    if sentence is not None:
        say(f"Too much: {sentence}", err=True)
    if found.recommended is None:
        say(f"No table to recommend: {why_none(found)}", err=True)
    if sentence is not None or found.recommended is None:
        raise typer.Exit(FAILED)


def _levels(people: str, target: str, blocks: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the columns of each table by its name; a column with commas in its name is one."""
    from unbin.people.reading import read_people

    if not any("," in block for block in blocks):
        return {block: (block,) for block in blocks}
    known = read_people(people, text=(), columns=[target]).names
    found = {}
    for block in blocks:
        parts = [part.strip() for part in block.split(",") if part.strip()]
        whole = block in known or not parts
        found[block if whole else ", ".join(parts)] = (block,) if whole else tuple(parts)
    return found


def _ids(rows: People, columns: tuple[str, ...]) -> Any:
    """Return the block of each person, or the columns of a crossed one."""
    found = {name: rows.column(name) for name in columns}
    return found if len(found) > 1 else found[columns[0]]


def _read(
    people: str,
    target: str,
    levels: list[str],
    formula: str | None,
    others: list[str],
    *,
    several: bool,
) -> tuple[People, str]:
    """Return the columns of people that are needed, and the formula of what attackers know.

    ``others`` are columns that say nothing of people: their weights.

    Blocks of one of several tables (sex, age group) are features of people as well; those of a
    large table are too many to be.
    """
    from unbin.people.formulas import parse_formula, quote
    from unbin.people.reading import read_people

    if formula is not None:
        parsed = parse_formula(formula)
        texts = [*levels, *parsed.categorical_columns]
        needed = [target, *levels, *parsed.columns, *others]
        return read_people(people, text=texts, columns=needed), formula
    names = read_people(people, text=levels, columns=[target, *levels, *others]).names
    rows = read_people(people, text=levels, columns=names)
    large = [name for name in levels if not several or _n_texts(rows.column(name)) > _MOST_BLOCKS]
    features = [name for name in names if name not in (target, *large, *others)]
    kept = [name for name in features if not _names_people(rows.column(name))]
    left_out = [name for name in features if name not in kept]
    said = f"features: {', '.join(kept) or 'none'}"
    say(said + (f" (left out: {', '.join(left_out)})" if left_out else ""), err=True)
    return rows, " + ".join(map(quote, kept))


def _names_people(values: Any) -> bool:
    """Tell whether a column of text has too many categories to be a feature."""
    return values.dtype.kind in "OU" and _n_texts(values) > _MOST_CATEGORIES


def _n_texts(values: Any) -> int:
    return len(set(values.tolist()))


def _plans(bins: str | None, edges: list[str]) -> list[Any] | str | None:
    """Return the bins to plan for as :func:`unbin.audit` takes them."""
    from unbin.disclosure.inputs import BINS
    from unbin.disclosure.results import CATEGORIES

    if not edges and bins in (None, CATEGORIES):
        return bins
    numbers = BINS if bins is None else _numbers("--bins", bins, int)
    return [*numbers, *map(_edges, edges)]


def _numbers(name: str, text: str, kind: Any) -> list[Any]:
    from unbin.exceptions import ParameterError

    try:
        return [kind(part) for part in text.split(",") if part.strip()]
    except ValueError:
        example = "2,5,10" if kind is int else "-inf,0,10,inf"
        raise ParameterError(
            f"{name}: must be numbers between commas, got {text!r}; write for example {example}"
        ) from None


def _edges(text: str) -> list[float]:
    return _numbers("--edges", text, float)


def _record(found: Any, rows: People, target: str) -> dict[str, str]:
    """Return the files of an audit by name."""
    from unbin.results.report import render_audit

    return {
        "audit.json": found.to_json(),
        "report.html": render_audit(
            found,
            title=f"Disclosure audit of {target} in {rows.name}",
            command=command_line(),
            inputs={rows.name: rows.sha256},
        ),
    }
