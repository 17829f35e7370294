"""Election results, one row per place and candidate: OpenElections and the MIT Election Lab.

- ``county, precinct, office, district, party, candidate, votes`` (OpenElections);
- ``precinct, office, party_detailed, party_simplified, mode, votes, county_name, county_fips, …``
  (MEDSL, precincts) and ``county_fips, office, candidate, party, candidatevotes, …`` (counties).

Blocks are precincts of counties, categories parties, or candidates where they are all of one party.
A party that nobody of a district lists was not on the ballot there; a place that does not list one
of its district's counts 0. Votes by mode are added up. Over- and undervotes are nobody's: they are
left out, and so are totals; with ``rest=`` they are among the registered voters who are left.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from unbin._frames import CROSSED
from unbin.release.readers.build import build_histogram, check_ids, choose_rows
from unbin.release.readers.cells import Cell, add_cells, parse_cell
from unbin.release.readers.dimensions import explained, mixture_error
from unbin.release.readers.files import MAX_CELLS
from unbin.release.readers.long import pick
from unbin.release.readers.nominal import check_names, named_bins
from unbin.release.readers.options import Options
from unbin.release.readers.sheets import Sheet, Table, listed, shown
from unbin.release.readers.totals import named_total
from unbin.release.release import Release
from unbin.release.words import plural

_VOTES = ("votes", "candidatevotes")
_COUNTIES = ("county_fips", "county", "county_name")
_PARTIES = ("party_simplified", "party", "party_detailed")
_ONE_OF = ("year", "date", "stage", "special", "state", "state_po", "office")
"""Columns of which one value is read."""
_REGISTERED = re.compile(r"registered voters(?: - total)?|voter registration", re.I)
_NO_OFFICE = re.compile(
    r"ballots cast.*|total ballots.*|turnout.*|straight party.*|cards cast", re.I
)
_NO_VOTE = re.compile(
    r"(?:total )?(?:over|under|blank|residual)[ -]?votes?|blanks?|exhausted.*", re.I
)
_ALL_VOTES = re.compile(r"(?:grand )?totals?|totals? votes(?: cast)?|(?:total )?votes cast", re.I)
_WRITE_IN = re.compile(r"(?:total )?write[ -]?ins?(?: .*)?|scattering", re.I)
NO_PARTY, WRITE_IN = "no party", "write-in"


@dataclass(frozen=True, slots=True)
class _Roles:
    """Columns by what they hold; empty where there is none."""

    block: str
    category: str
    votes: str
    candidate: str
    district: str
    mode: str


def recognises(sheet: Sheet) -> bool:
    """Tell whether the header has an office, who stood for it, votes and a place."""
    names = {name.casefold() for name in sheet.header}
    places = names & {"precinct", *_COUNTIES}
    return "office" in names and "candidate" in names and bool(names & set(_VOTES) and places)


def read(sheet: Sheet, options: Options) -> Release:
    """Read the votes for one office."""
    table = choose_rows(sheet.table(), options.where)
    office = pick(table, None, ("office",), role="office")
    votes = pick(table, options.count, _VOTES, role="count")
    table, block = _with_block(table, options)
    table, registered = _without_pseudo_offices(table, office)
    _refuse_mixtures(table)
    candidate = pick(table, None, ("candidate",), role="category")
    table = _without_rows(
        table, candidate, _ALL_VOTES.fullmatch, lambda n: f"{plural(n, 'row')} of totals left out"
    )
    table = _without_nobody(table, candidate, votes)
    table, category = _with_category(table, options, candidate)
    roles = _Roles(
        block, category, votes, candidate, table.find("district") or "", table.find("mode") or ""
    )
    table = _without_total_places(table, roles, options)
    table = _without_parts(table, roles)
    return _release(table, registered, roles, options)


# -- columns ---------------------------------------------------------------------------------------


def _with_block(table: Table, options: Options) -> tuple[Table, str]:
    """Return the column of blocks: the one asked for, or county and precinct side by side."""
    if options.block is not None:
        return table, table.require(options.block, role="block")
    precinct, county = table.find("precinct"), table.find(*_COUNTIES)
    town = table.find("jurisdiction_name", "jurisdiction")
    names = [name for name in (county, precinct) if name]
    if town and precinct and county:
        cells = list(zip(table.column(county), table.column(precinct), strict=True))
        names = names if explained(cells, table.column(town)) else [county, town, precinct]
    if len(names) == 1:
        return table, names[0]
    texts = [
        CROSSED.join(parts) if all(parts) else ""
        for parts in zip(*map(table.column, names), strict=True)
    ]
    block = ", ".join(names)
    return table.with_column(block, texts), block


def _with_category(table: Table, options: Options, candidate: str) -> tuple[Table, str]:
    """Return the column of categories: parties if there are several, else candidates.

    People without a party are those of none, or written in.
    """
    if options.category is not None:
        category = table.require(options.category, role="category")
    else:
        found = table.find(*_PARTIES)
        several = found is not None and len(set(table.column(found)) - {""}) > 1
        category = str(found) if several else candidate
    if category.casefold() not in _PARTIES:
        return table, category
    texts = [
        party or (WRITE_IN if _WRITE_IN.fullmatch(name) else NO_PARTY)
        for party, name in zip(table.column(category), table.column(candidate), strict=True)
    ]
    return table.with_column(category, texts), category


def _refuse_mixtures(table: Table) -> None:
    """Raise unless the rows are of one election and one office."""
    for name in _ONE_OF:
        column = table.find(name)
        if column is None:
            continue
        values = list(dict.fromkeys(table.column(column)))
        if len(values) > 1:
            raise mixture_error(table, column, values)


# -- rows that are no votes ------------------------------------------------------------------------


def _without_rows(
    table: Table, column: str, gone: Callable[[str], object], note: Callable[[int], str]
) -> Table:
    """Leave out rows with some texts; refuse a table of nothing else."""
    keep = [not gone(text) for text in table.column(column)]
    if all(keep):
        return table
    if not any(keep):
        raise table.error(
            f"must hold votes, got {listed(list(dict.fromkeys(table.column(column))))} only; "
            "choose other rows with where=...",
            column=column,
        )
    return table.take(keep).noting(note(keep.count(False)))


def _without_pseudo_offices(table: Table, office: str) -> tuple[Table, Table]:
    """Return rows of votes, and those of registered voters."""
    registered = table.take([bool(_REGISTERED.fullmatch(text)) for text in table.column(office)])
    table = _without_rows(
        table,
        office,
        lambda text: _REGISTERED.fullmatch(text) or _NO_OFFICE.fullmatch(text),
        lambda n: f"{plural(n, 'row')} of no office left out (registered voters, ballots cast)",
    )
    return table, registered


def _without_nobody(table: Table, candidate: str, votes: str) -> Table:
    """Leave out over- and undervotes, and say how many there are."""
    lost = [text for text in table.column(candidate) if _NO_VOTE.fullmatch(text)]
    names = listed(list(dict.fromkeys(lost)))
    return _without_rows(
        table,
        candidate,
        _NO_VOTE.fullmatch,
        lambda n: f"{plural(n, 'row')} left out, {shown(votes)} for nobody: {names}",
    )


def _without_total_places(table: Table, roles: _Roles, options: Options) -> Table:
    """Leave out precincts that are totals of their county, by name."""
    if options.totals == "keep":
        return table
    return _without_rows(
        table,
        roles.block,
        lambda text: named_total(text.rpartition(CROSSED)[2]),
        lambda n: f"{plural(n, 'row')} left out, places that are totals of others",
    )


def _without_parts(table: Table, roles: _Roles) -> Table:
    """Leave out votes by mode of places that say their total too."""
    if not roles.mode:
        return table
    ids, modes = table.column(roles.block), table.column(roles.mode)
    whole = {block for block, mode in zip(ids, modes, strict=True) if named_total(mode)}
    keep = [block not in whole or named_total(mode) for block, mode in zip(ids, modes, strict=True)]
    return table.take(keep, "votes by mode, beside their total")


# -- votes -----------------------------------------------------------------------------------------


def _release(table: Table, registered: Table, roles: _Roles, options: Options) -> Release:
    """Add votes up by place and category, and fill in what a place does not list."""
    scheme = options.scheme("none")
    ids, texts = check_ids(table, roles.block), check_names(table, roles.category)
    _refuse_doubles(table, roles, ids)
    table = _note_modes(table, roles, ids)
    sums: dict[tuple[str, str], list[Cell]] = {}
    rows: dict[tuple[str, str], list[int]] = {}
    cells = table.parse(roles.votes, lambda text: parse_cell(text, scheme))
    for row, key, cell in zip(table.rows, zip(ids, texts, strict=True), cells, strict=True):
        sums.setdefault(key, []).append(cell)
        rows.setdefault(key, []).append(row)
    districts = table.column(roles.district) if roles.district else [""] * len(table)
    missing = _missing(table, ids, texts, districts)
    if missing:
        named = listed(list(dict.fromkeys(block for block, _ in missing)))
        table = table.noting(
            f"{plural(len(missing), 'cell')} of places not listed, taken to count nobody: {named}"
        )
    first = dict(zip(reversed(ids), reversed(table.rows), strict=True))
    keys = [*sums, *missing]
    body = _summed(table, [rows.get(key, [first[key[0]]]) for key in keys])
    counts = [add_cells(sums[key]) if key in sums else Cell(0, 0) for key in keys]
    n = _people(registered, roles, set(ids)) if options.rest is not None else {}
    bins = named_bins(
        body, options, [b for b, _ in keys], [c for _, c in keys], counts,
        n=n, absent="structural",
    )  # fmt: skip
    source = f"elections, block {shown(roles.block)}, {shown(roles.votes)} by "
    source += shown(roles.category)
    return build_histogram(body, bins, source=source, totals=options.totals)


def _note_modes(table: Table, roles: _Roles, ids: list[str]) -> Table:
    """Say where a place lacks votes by a mode for some candidates but not for others."""
    if not roles.mode:
        return table
    parties = (name for name in map(table.find, _PARTIES) if name)
    names = list(dict.fromkeys([roles.candidate, roles.category, *parties]))
    who = list(zip(ids, *map(table.column, names), strict=True))
    n_modes, n_who, n_rows = (
        Counter(block for block, *_ in found)
        for found in (set(zip(ids, table.column(roles.mode), strict=True)), set(who), who)
    )
    short = [block for block in n_rows if n_rows[block] < n_modes[block] * n_who[block]]
    if not short:
        return table
    return table.noting(
        f"{plural(len(short), 'block')} without votes by some {shown(roles.mode)} for some "
        f"candidates, taken to count nobody: {listed(short)}"
    )


def _summed(table: Table, rows: list[list[int]]) -> Table:
    """Return a table of one record for every sum, which stands for all of its rows."""
    place = {row: k for k, row in enumerate(table.rows)}
    stands: dict[int, int] = {}
    for each in rows:
        stands[each[0]] = max(stands.get(each[0], 0), len(each))
    return Table(
        table.file,
        table.header,
        [table.cells[place[each[0]]] for each in rows],
        [each[0] for each in rows],
        table.n_records,
        table.notes,
        table.choices,
        stands,
    )


def _refuse_doubles(table: Table, roles: _Roles, ids: list[str]) -> None:
    """Raise if votes for one candidate are listed twice for the same place, district and mode."""
    names = [n for n in (roles.candidate, roles.category, roles.district, roles.mode) if n]
    names += [n for n in map(table.find, (*_PARTIES, "writein")) if n and n not in names]
    seen: dict[tuple[str, ...], int] = {}
    for row, block, *key in zip(table.rows, ids, *map(table.column, names), strict=True):
        first = seen.setdefault((block, *key), row)
        if first != row:
            raise table.error(
                f"block {shown(block)}: votes must be listed once, got {shown(key[0])} in row "
                f"{first} too; remove one, or name the columns that tell places apart with "
                "block=[...]",
                row=row,
            )


def _missing(
    table: Table, ids: list[str], texts: list[str], districts: list[str]
) -> list[tuple[str, str]]:
    """Return places and categories of their district that no row lists: nobody chose them."""
    offered: dict[str, dict[str, None]] = {}
    for district, text in zip(districts, texts, strict=True):
        offered.setdefault(district, {})[text] = None
    places = dict.fromkeys(zip(ids, districts, strict=True))
    if sum(len(offered[district]) for _, district in places) > MAX_CELLS:
        raise table.error(
            f"must have fewer cells, got {len(places):,} places of up to "
            f"{max(map(len, offered.values())):,} categories; choose rows with where=..."
        )
    listed_ones = set(zip(ids, texts, strict=True))
    wanted = dict.fromkeys((block, name) for block, d in places for name in offered[d])
    return [key for key in wanted if key not in listed_ones]


def _people(registered: Table, roles: _Roles, blocks: set[str]) -> dict[str, int]:
    """Return the registered voters of each place."""
    if not len(registered):
        return {}
    cells = registered.parse(roles.votes, lambda text: parse_cell(text, Options().scheme("none")))
    pairs = zip(registered.column(roles.block), cells, strict=True)
    return {block: cell.low for block, cell in pairs if block in blocks and cell.exact}
