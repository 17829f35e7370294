"""No change to a file is taken in silence: the same release, an error, or a sentence about it.

Every fixture is changed as files in the wild are: a header word moves, columns are swapped, dropped
or renamed, totals are added, rows are doubled or lost, titles and footers stand around the table.
What comes out is the same release, or an error, or a release that says something else than that of
the whole file: another source, note or warning. How many rows were read ("all 31 rows") counts as
said only where a whole block is gone, whose absence a table by itself cannot show; a lost cell of a
block must be in the notes. In a list of values every row is a person, and the number of rows is
all that tells. Names of two columns that change places while the data stay (mean and n) are another
table, which no reader can know; columns that move with their names are the same one.
"""

import csv
import io
import re
import warnings

import numpy as np
import pandas as pd
import pytest

from tests.helpers.paths import FIXTURES
from tests.helpers.releases import same_release
from unbin import read_release
from unbin.exceptions import ReadWarning, UnbinError

OPTIONS = {
    "bls_oews_states.csv": {"where": {"O_GROUP": "major"}},
    "cms_variation.csv": {
        "count": "Count of Medicare beneficiaries with asthma", "where": {"Year": "2009"},
    },
    "cms_variation_2021.csv": {
        "count": "BENES_FFS_CNT", "where": {"BENE_GEO_LVL": "State", "BENE_AGE_LVL": "All"},
    },
    "elections_precincts.csv": {"where": {"office": "U.S. House"}},
    "eurostat_ilc_di01.tsv": {"where": {"currency": "EUR"}},
    "eurostat_ilc_di03.csv": {"where": {"statinfo": "MEAN_EI", "sex": "T", "unit": "EUR"}},
    "tidy_values.csv": {"dialect": "tidy", "block": "ward"},
    "wonder_births.txt": {"where": {"Year": "2018"}},
    "wonder_causes.txt": {"category": "ICD Chapter"},
    "wonder_months.txt": {"label": "Month Code", "where": {"Year": "2018"}},
    "wonder_parents.txt": {"label": "Age of Father"},
}  # fmt: skip
"""What must be said of a fixture, for it to be read at all."""
FILES = sorted(path.name for path in FIXTURES.iterdir() if path.suffix in (".csv", ".tsv", ".txt"))
TOTALS = ("Total", "ALL", "England", "X", "Wessex")
MOST = 8
"""Places in one file at which a change is tried."""


class File:
    """A fixture as records, with what separates and ends them."""

    def __init__(self, name):
        self.name = name
        self.text = (FIXTURES / name).read_text(encoding="utf-8-sig")
        first = self.text.split("\n", 1)[0]
        self.mark = max("\t,;", key=first.count)
        if "\t" in first:
            self.mark = "\t"
        self.records = [r for r in csv.reader(io.StringIO(self.text), delimiter=self.mark) if r]
        self.n_header = 2 if self._two_headers() else 1
        width = len(self.records[0])
        ends = (k for k, r in enumerate(self.records) if len(r) < width or r[0] == "---")
        self.end = next(ends, len(self.records))

    def _two_headers(self):
        second = self.records[1]
        return not any(re.fullmatch(r"[\d.,*]+", cell) for cell in second) and any(
            "!!" in cell for cell in second
        )

    def write(self, path, records):
        stream = io.StringIO()
        csv.writer(stream, delimiter=self.mark, lineterminator="\n").writerows(records)
        path.write_text(stream.getvalue(), encoding="utf-8")
        return path

    def body(self):
        return range(self.n_header, self.end)


def read(path, options):
    """Return the release, or None where it is refused, and what was said about it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            release = read_release(path, **options)
        except UnbinError as error:
            return None, str(error)
    said = [str(each.message) for each in caught if issubclass(each.category, ReadWarning)]
    return release, "\n".join([release.source, *release.notes, *said])


def without_size(said):
    """Return what was said of a file, but not how many rows were read."""
    return re.sub(r", (?:all|[\d,]+ of) [\d,]+ rows?", "", said)


def some(places, seed=0):
    """Return some places, the same in every run."""
    places = list(places)
    if len(places) <= MOST:
        return places
    return sorted(np.random.default_rng(seed).choice(places, MOST, replace=False).tolist())


def columns_of(records):
    return range(len(records[0]))


def moved(record, a, b):
    record = list(record)
    if max(a, b) < len(record):
        record[a], record[b] = record[b], record[a]
    return record


# -- the changes -----------------------------------------------------------------------------------


def renamed_header(file):
    for k in some(columns_of(file.records)):
        for name in ("renamed", ""):
            head = [name if j == k else cell for j, cell in enumerate(file.records[0])]
            yield f"column {k} renamed {name!r}", [head, *file.records[1:]]


def moved_word(file):
    """A word goes to the next column: 'Age Group', 'Rate' become 'Group', 'Age Rate'."""
    head = file.records[0]
    for k in some(columns_of(file.records)):
        word, _, rest = re.sub(r"[_ ]", " ", head[k]).partition(" ")
        other = (k + 1) % len(head)
        changed = list(head)
        changed[k], changed[other] = rest or "x", f"{word} {head[other]}"
        yield f"{word!r} moved from column {k} to {other}", [changed, *file.records[1:]]


def swapped_columns(file):
    n = len(file.records[0])
    for k in some(range(n - 1)):
        yield (
            f"columns {k} and {k + 1} swapped",
            [
                *(moved(r, k, k + 1) for r in file.records[: file.end]),
                *file.records[file.end :],
            ],
        )


def dropped_column(file):
    for k in some(columns_of(file.records)):
        head = [[c for j, c in enumerate(r) if j != k] for r in file.records[: file.end]]
        yield f"column {k} dropped", [*head, *file.records[file.end :]]


def doubled_row(file):
    for k in some(file.body()):
        yield f"row {k} doubled", [*file.records[: k + 1], *file.records[k:]]


def dropped_row(file):
    for k in some(file.body()):
        yield f"row {k} dropped", [*file.records[:k], *file.records[k + 1 :]]


def title_row(file):
    for title in (["A title of the table"], ["Title", "of several", "cells"], ["Source:", "us"]):
        yield f"title {title}", [title, *file.records]
    yield "two title rows", [["A title"], ["and more of it"], *file.records]


def footer(file):
    for text in (["Source: own numbers."], ["* suppressed"], ["Note", "see the web"]):
        yield f"footer {text}", [*file.records, text]
        yield f"footer {text} after a blank line", [*file.records, [""], text]


# the header of Eurostat's TSV holds the names of all dimensions, with and without "renamed"
CHANGES = (
    renamed_header, moved_word, swapped_columns, dropped_column, doubled_row,
    dropped_row, title_row, footer,
)  # fmt: skip
ABOUT_SIZE = (dropped_row, doubled_row)
"""Changes after which a block may be gone, so that the number of rows says it."""


def silent(file, release, said, changed, change):
    """Tell whether another release came out and nothing was said of it."""
    found, what = changed
    if found is None or same_release(found, release):
        return False
    gone = set(found.blocks) != set(release.blocks)
    if change in ABOUT_SIZE and (gone or release.source.startswith("tidy values")):
        return what == said
    return without_size(what) == without_size(said)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("name", FILES)
def test_changes_are_not_taken_in_silence(name, change, tmp_path):
    file, options = File(name), OPTIONS.get(name, {})
    release, said = read(FIXTURES / name, options)
    assert release is not None, f"{name} needs OPTIONS: {said}"
    path = tmp_path / name
    for what, records in change(file):
        changed = read(file.write(path, records), options)
        assert not silent(file, release, said, changed, change), (
            f"{name}, {what}: read as another release in silence\n{release}\n{changed[0]}"
        )


# -- totals ----------------------------------------------------------------------------------------


def with_total(release, name):
    """Return the columns of a tidy table in which one block counts what all others do."""
    table = release.to_frame("categories" if release.categories else "histogram")
    keys = [c for c in ("lower", "upper", "category", "category_code") if c in table]
    counts = [c for c in ("count", "count_low", "count_high") if c in table]
    total = table.groupby(keys, dropna=False, as_index=False)[counts].sum(min_count=1)
    total["block"] = name
    return table, total


def added_total(file, release, name, place):
    """Return the records of a file with a total of all blocks: as many rows as a block has."""
    head, body = file.records[: file.n_header], file.records[file.n_header : file.end]
    columns = list(zip(*(r[: len(head[0])] for r in body), strict=True))
    known = set(release.blocks)
    block = max(columns, key=lambda c: sum(cell.strip().split("US")[-1] in known for cell in c))
    place_of_block = columns.index(block)
    first = {cell: i for i, cell in reversed(list(enumerate(block)))}
    # what is the same in all rows of a block is about the block: its name, its people
    about_block = [
        all(c[first[cell]] == value for cell, value in zip(block, c, strict=True)) for c in columns
    ]
    counts = [k for k, c in enumerate(columns) if k != place_of_block and _are_counts(c)]
    most = len(body) // len(first)  # bins of a block; rates have more values
    key = [
        k
        for k, about in enumerate(about_block)
        if not about and k not in counts and len(set(columns[k])) <= most
    ]
    people = {k: sum(_number(columns[k][i]) for i in first.values()) for k in counts}
    rows, sums = {}, {}
    for record in body:
        cell = tuple(record[k] for k in key)
        rows.setdefault(cell, record)
        for k in counts:
            sums[cell, k] = sums.get((cell, k), 0) + _number(record[k])
    totals = []
    for cell, record in rows.items():
        row = list(record)
        for k in counts:
            row[k] = str(people[k] if about_block[k] else sums[cell, k])
        for k, about in enumerate(about_block):
            if about and k not in counts and len(set(columns[k])) == len(first):
                row[k] = f"{row[k].split('US')[0]}US{name}" if "0US" in row[k] else name
        totals.append(row)
    body = [*totals, *body] if place == "above" else [*body, *totals]
    return [*head, *body, *file.records[file.end :]]


def _number(cell):
    """Return a count; one that is hidden may be 5."""
    return int(cell) if str(cell).isdigit() else 5


def _are_counts(cells):
    return sum(cell.isdigit() for cell in cells) > len(cells) / 2


def same_bins():
    """Yield fixtures of counts of several blocks in the same bins."""
    for name in FILES:
        release, _ = read(FIXTURES / name, OPTIONS.get(name, {}))
        if release is not None and len(release) > 1:
            sizes = set(np.diff(release.histogram.start))
            if len(sizes) == 1 and sizes != {0}:
                yield name


def is_total(kept, release, name):
    """Tell whether the new block may count what all others count together."""
    if kept is None or len(kept) != len(release) + 1 or name not in kept.blocks:
        return False
    rest = kept.select(kept.blocks[kept.blocks != name])
    one = kept.select([name])
    size = len(one.histogram.count)
    if len(rest.histogram.count) != size * len(rest):
        return False
    low, high = (ends.reshape(len(rest), size).sum(axis=0) for ends in rest.histogram.interval())
    least, most = one.histogram.interval()
    return bool(((least <= high) & (most >= low)).all())


@pytest.mark.parametrize("place", ["above", "below"])
@pytest.mark.parametrize("name", TOTALS)
@pytest.mark.parametrize("file", list(same_bins()))
def test_totals_are_not_taken_for_blocks(file, name, place, tmp_path):
    options = OPTIONS.get(file, {})
    release, said = read(FIXTURES / file, options)
    source = File(file)
    path = source.write(tmp_path / file, added_total(source, release, name, place))
    kept, _ = read(path, options | {"totals": "keep"})
    if kept is None:  # an error takes no total for a block
        return
    if not is_total(kept, release, name):
        pytest.skip(f"{file} holds totals of its own, or rows that are not asked for")
    changed = read(path, options)
    assert not silent(source, release, said, changed, None), f"{release}\n{changed[0]}"
    if changed[0] is not None and name in ("Total", "ALL"):
        assert name not in changed[0].blocks


def tidy_tables():
    """Yield fixtures of counts, as tidy tables."""
    for name in FILES:
        release, _ = read(FIXTURES / name, OPTIONS.get(name, {}))
        if release is not None and len(release.histogram.count) and len(release) > 2:
            yield name


@pytest.mark.parametrize("name", TOTALS)
@pytest.mark.parametrize("file", list(tidy_tables()))
def test_totals_in_tidy_tables(file, name, tmp_path):
    release, _ = read(FIXTURES / file, OPTIONS.get(file, {}))
    path = tmp_path / "tidy.csv"
    table, total = with_total(release, name)
    table.to_csv(path, index=False)
    plain, said = read(path, {})
    assert same_release(plain, release)
    both = pd.concat([total, table])
    if "n" in both:
        both["n"] = both["n"].fillna(release.n.sum()).astype(int)
    for column in {"closed", "absent"} & set(both):
        both[column] = both[column].bfill()
    both.to_csv(path, index=False)
    changed = read(path, {})
    assert not silent(None, plain, said, changed, None), f"{plain}\n{changed[0]}"
    if changed[0] is not None and name in ("Total", "ALL"):
        assert same_release(changed[0], plain)
