"""Geographic variation files of CMS: one row per area and year, hundreds of columns.

Counts of beneficiaries are 0/1 outcomes (``Count of Medicare beneficiaries with diabetes`` among
``Count of Beneficiaries``; ``BENES_IP_CNT`` among ``BENES_FFS_CNT``), averages are means. Which one
is meant must be said; stays, visits, rates and payments are none of them. ``*`` hides fewer than 11
beneficiaries, perhaps none.
"""

from __future__ import annotations

import re
from dataclasses import replace

from unbin.release.readers.build import build_histogram, build_statistics, check_ids, choose_rows
from unbin.release.readers.cells import Scheme, parse_cell
from unbin.release.readers.dimensions import is_number, mixture_error, refuse_mixtures
from unbin.release.readers.long import Columns, pick, read_labelled, share_bins
from unbin.release.readers.numbers import parse_number, parse_whole
from unbin.release.readers.options import Options
from unbin.release.readers.sheets import Sheet, Table, listed, shown
from unbin.release.release import Release
from unbin.release.words import plural

_PLACES = (
    "BENE_GEO_CD", "State and County FIPS Code", "County FIPS", "State FIPS", "HRR", "Locale",
    "County", "State",
)  # fmt: skip
_AREAS = ("BENE_GEO_LVL", *_PLACES)
"""Columns that tell the nation from its parts."""
_EVERYBODY = ("BENES_TOTAL_CNT", "Beneficiaries with Part A and Part B", "Count of Beneficiaries")
_ORIGINAL = ("BENES_FFS_CNT", "FFS Beneficiaries", "Count of Beneficiaries")
"""Beneficiaries of original Medicare, whom all other columns are about."""
_PLANS = ("BENES_FFS_CNT", "BENES_MA_CNT", "FFS Beneficiaries", "MA Beneficiaries")
"""Counts among everybody."""
_PEOPLE = re.compile(
    r"count of medicare beneficiaries .+|(?:# )?.+ users\b.*|benes_(?!total_)\w+_cnt|"
    r"(?:ffs|ma) beneficiaries",
    re.I,
)
_AVERAGES = re.compile(r"average (?!.*ratio).+|bene_avg_\w+", re.I)
_AGE_LEVELS = "BENE_AGE_LVL"
_NATION = re.compile(r"national.*|nation|us|u\.s\.|united states|usa", re.I)


def recognises(sheet: Sheet) -> bool:
    """Tell whether the columns are an area, a count of beneficiaries and statistics about them."""
    names = {name.casefold() for name in sheet.header}
    known = all(names & _folded(group) for group in (_AREAS, _ORIGINAL))
    return known and any(map(_is_outcome, sheet.header))


def _is_outcome(name: str) -> bool:
    return bool(_PEOPLE.fullmatch(name) or _AVERAGES.fullmatch(name))


def _folded(names: tuple[str, ...]) -> set[str]:
    return {name.casefold() for name in names}


def read(sheet: Sheet, options: Options) -> Release:
    """Read one outcome of a file of geographic variation."""
    table = _without_short_rows(sheet)
    table = choose_rows(table, options.where)
    if options.totals == "drop":
        table = _without_nation(table)
    _refuse_levels(table)
    block = pick(table, options.block, _PLACES, role="block")
    if options.label is not None and options.label.casefold() == _AGE_LEVELS.casefold():
        columns = Columns((block,), (_AGE_LEVELS,), _ORIGINAL)
        # the other columns are about these people, and split nobody
        table = _only(table, [*_groups(table), pick(table, options.count, _ORIGINAL, role="count")])
        chosen = replace(options, where=None)
        return read_labelled(table, chosen, columns, _scheme(options), dialect="cms")
    outcome = _find_outcome(table, options)
    ids = check_ids(table, block)
    measures = [name for name in table.header if name not in _groups(table)]
    refuse_mixtures(table, [block, *measures], ids)
    if _AVERAGES.fullmatch(outcome):
        return _means(table, block, outcome, options)
    return _shares(table, block, outcome, options)


def _without_short_rows(sheet: Sheet) -> Table:
    """Leave out rows that lack cells: it is not known which."""
    width = len([name for name in sheet.header if name])
    short = [k for k, record in enumerate(sheet.cells) if 2 < len(record) < width]
    if not short:
        return sheet.table()
    keep = [k for k in range(len(sheet.cells)) if k not in set(short)]
    cells, rows = [sheet.cells[k] for k in keep], [sheet.rows[k] for k in keep]
    table = replace(sheet, cells=cells, rows=rows).table()
    first = sheet.cells[short[0]]
    return replace(table, n_records=table.n_records + len(short)).choosing(
        f"{plural(len(short), 'row')} left out, shorter than the header by cells that may be any: "
        f"row {sheet.rows[short[0]]} ({listed(first[:2])}) has {len(first):,} cells of {width:,}; "
        "complete the file to read it"
    )


def _without_nation(table: Table) -> Table:
    """Leave out rows about the whole nation, which are totals of the others."""
    for name in filter(None, (table.find(area) for area in _AREAS)):
        texts = table.column(name)
        whole = [_NATION.fullmatch(text) is not None for text in texts]
        if any(whole) and not all(whole):
            table = table.take([not w for w in whole], f"total of others, {shown(name)} national")
    return table


def _refuse_levels(table: Table) -> None:
    """Raise if states are listed beside their counties."""
    level = table.find("BENE_GEO_LVL")
    levels = list(dict.fromkeys(table.column(level))) if level else []
    if level and len(levels) > 1:
        raise mixture_error(table, level, levels)


def _groups(table: Table) -> list[str]:
    """Return the columns before the first count: years, areas and levels."""
    known = _folded((*_EVERYBODY, *_ORIGINAL))
    start = (k for k, n in enumerate(table.header) if n.casefold() in known or _is_outcome(n))
    return table.header[: next(start, len(table.header))]


def _only(table: Table, names: list[str]) -> Table:
    kept = [table.header.index(name) for name in dict.fromkeys(names)]
    cells = [[record[k] for k in kept] for record in table.cells]
    return replace(table, header=[table.header[k] for k in kept], cells=cells)


def _find_outcome(table: Table, options: Options) -> str:
    """Return the column to read; there is no usual one."""
    outcomes = [name for name in table.header if _PEOPLE.fullmatch(name)]
    outcomes += [name for name in table.header if _AVERAGES.fullmatch(name)]
    asked = options.count or options.label
    if asked is None:
        offers: dict[str, object] = {"count": outcomes[0]}
        year = table.find("Year")
        years = list(dict.fromkeys(table.column(year))) if year else []
        if year and len(years) > 1:
            offers["where"] = {**(options.where or {}), year: years[0]}
        raise table.error(
            f"one outcome must be chosen, got {listed(outcomes, 4)}; say", offers=offers
        )
    found = table.require(asked, role="count")
    if found not in outcomes:
        raise table.error(
            f"must count beneficiaries or be an average of theirs, got {shown(found)}; say another "
            "column, for example",
            offers={"count": outcomes[0]},
        )
    return found


def _population(table: Table, outcome: str) -> str:
    among = _EVERYBODY if outcome.casefold() in _folded(_PLANS) else _ORIGINAL
    found = table.find(*among)
    if found is None or found == outcome:
        raise table.error(
            f"must have a column of all beneficiaries ({' or '.join(among)}), got "
            f"{listed(table.header)}; say another count"
        )
    return found


def _shares(table: Table, block: str, outcome: str, options: Options) -> Release:
    """Read how many beneficiaries were counted."""
    scheme, people = _scheme(options), _population(table, outcome)
    table = _with_numbers(table, people, Scheme())
    table = _with_numbers(table, outcome, scheme)
    cells = table.parse(outcome, lambda text: parse_cell(text, scheme))
    population = table.parse(people, parse_whole)
    bins = share_bins(table, table.column(block), cells, population, outcome)
    source = f"cms, block {shown(block)}, 1 for {outcome} and 0 for the rest of {people}"
    return build_histogram(table, bins, source=source, totals=options.totals)


def _scheme(options: Options) -> Scheme:
    """Return how counts are hidden: no file shows a 0, so that * may be one."""
    scheme = options.scheme("cms")
    if options.suppression is not None:
        return scheme
    return replace(scheme, symbols={**scheme.symbols, "*": (0, 10)})


def _means(table: Table, block: str, outcome: str, options: Options) -> Release:
    """Read an average over all beneficiaries."""
    people = _population(table, outcome)
    for name in (people, outcome):
        table = _with_numbers(table, name, Scheme())
    texts = table.column(outcome)
    digits = max(len(text.partition(".")[2]) for text in texts)
    table = table.noting(f"{outcome} is rounded to {10.0**-digits:g}")
    columns = {
        "block": table.column(block),
        "mean": table.parse(outcome, parse_number),
        "n": table.parse(people, parse_whole),
    }
    source = f"cms, block {shown(block)}, {outcome} of {people}"
    totals = options.totals
    return build_statistics(table, "from_means", columns, source=source, totals=totals, n="n")


def _with_numbers(table: Table, name: str, scheme: Scheme) -> Table:
    """Leave out rows without a number or a sign that hides one: empty or a point."""
    texts = table.column(name)
    signs = {sign for sign in scheme.symbols if sign}
    there = [is_number(text) or text.casefold() in signs for text in texts]
    if not any(there):
        raise table.error("must hold numbers, got none; say another column", column=name)
    missing = {text for text, t in zip(texts, there, strict=True) if not t}
    odd = sorted(missing - {"", ".", "*", "NA", "N/A"})
    if odd:
        raise table.error(
            f"must be a number, got {shown(odd[0])}; correct the cell",
            row=table.rows[texts.index(odd[0])],
            column=name,
        )
    return table.take(there, f"no {name}")
