"""CMS tables: no count of 1 to 10 is shown.

``*`` hides 1 to 10, ``#`` a larger count that would give a hidden one away, and an empty cell may
be either. Wide files have one row per provider or area and columns such as ``Bene_Age_LT_65_Cnt``,
``Bene_Age_65_74_Cnt``, ``Bene_Age_GT_84_Cnt`` with the total ``Tot_Benes``; long files have one row
per area and label. Files of geographic variation have one row per area and year and a column for
each count of beneficiaries.
"""

from __future__ import annotations

import re

from unbin.exceptions import ReleaseError
from unbin.release.readers.build import Bins, build_histogram, check_ids, choose_rows
from unbin.release.readers.cells import Cell, parse_cell
from unbin.release.readers.dialects import cms_variation
from unbin.release.readers.labels import Label, parse_label
from unbin.release.readers.long import Columns, edges_of, pick, read_labelled
from unbin.release.readers.options import Options
from unbin.release.readers.sheets import Sheet, Table, listed, shown
from unbin.release.release import Release

COLUMNS = Columns(
    block=("Rndrng_NPI", "Prscrbr_NPI", "Bene_Geo_Cd", "Prvdr_Geo_Cd", "BENE_FIPS_CD", "FIPS",
           "County_Code", "Provider_ID"),
    label=("Age_Group", "Bene_Age_Lvl", "BENE_AGE_LVL", "Category", "Label"),
    count=("Beneficiaries", "Tot_Benes", "Bene_Cnt", "Count"),
)  # fmt: skip
_WIDE = re.compile(
    r"(?P<what>\w+?)_(?:(?P<sign>LT|LE|GT|GE)_)?(?P<low>\d+)(?:_(?P<high>\d+))?_Cnt", re.I
)
_SIGNS = {"LT": "<", "LE": "<=", "GT": ">", "GE": ">="}


def recognises(sheet: Sheet) -> bool:
    """Tell whether the columns are those of a file of CMS."""
    if cms_variation.recognises(sheet):
        return True
    names = {name.casefold() for name in sheet.header}
    if sum(_WIDE.fullmatch(name) is not None for name in sheet.header) >= 2:
        return True
    ours = any(name.startswith(("bene_", "benef", "tot_bene")) for name in names)
    return ours and bool(names & {name.casefold() for name in COLUMNS.label})


def read(sheet: Sheet, options: Options) -> Release:
    """Read a file of CMS: wide, long or of geographic variation."""
    if cms_variation.recognises(sheet):
        return cms_variation.read(sheet, options)
    table = sheet.table()
    wide = _bands(table, options)
    if not wide:
        return read_labelled(table, options, COLUMNS, options.scheme("cms"), dialect="cms")
    table = choose_rows(table, options.where)
    block = pick(table, options.block, COLUMNS.block, role="block")
    ids = check_ids(table, block)
    scheme = options.scheme("cms")
    total = table.find(options.count or "Tot_Benes")
    n: dict[str, int] = {}
    if total:
        totals = table.parse(total, lambda text: parse_cell(text, scheme))
        n = {b: cell.low for b, cell in zip(ids, totals, strict=True) if cell.exact}
    edges = edges_of(table, list(wide.values()), "", options.closed)
    rows: list[int] = []
    blocks: list[str] = []
    lower: list[float] = []
    upper: list[float] = []
    cells: list[Cell] = []
    for name, label in wide.items():
        rows += table.rows
        blocks += ids
        lower += [edges.edges[label][0]] * len(ids)
        upper += [edges.edges[label][1]] * len(ids)
        cells += table.parse(name, lambda text: parse_cell(text, scheme))
    bins = Bins(rows, blocks, lower, upper, cells, edges.closed, n)
    return build_histogram(table, bins, source=f"cms, block {shown(block)}", totals=options.totals)


def _bands(table: Table, options: Options) -> dict[str, Label]:
    """Return the columns that count a band, with what the band holds."""
    found = {name: match for name in table.header if (match := _WIDE.fullmatch(name))}
    kinds = list(dict.fromkeys(match["what"] for match in found.values()))
    if options.label is not None:
        kinds = [kind for kind in kinds if kind.casefold() == options.label.casefold()]
    if len(kinds) > 1:
        raise table.error(
            f"one outcome must be chosen, got bands of {listed(kinds)}; say label=... with one"
        )
    words = {
        name: f"{_SIGNS.get((match['sign'] or '').upper(), '')}{match['low']}"
        + (f"-{match['high']}" if match["high"] else "")
        for name, match in found.items()
        if match["what"] in kinds
    }
    unit = " years" if kinds and "age" in kinds[0].casefold() else ""
    labels = {}
    for name, text in words.items():
        try:
            labels[name] = parse_label(text + unit)
        except ReleaseError as error:
            raise table.error(str(error), row=1, column=name) from None
    return labels
