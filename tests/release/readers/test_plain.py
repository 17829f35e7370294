"""Tables of no agency: columns are told by what is in them, or the table is refused."""

import csv

import pytest

from tests.helpers.paths import FIXTURES
from unbin import read_release
from unbin.exceptions import BinError, ReadError, ReadWarning
from unbin.release.readers.dialects.headings import probabilities
from unbin.release.readers.wide import as_labels

INF = float("inf")
COMMUNES = FIXTURES / "plain_communes.csv"
WIDE = FIXTURES / "plain_wide.csv"
QUANTILES = FIXTURES / "plain_quantiles.csv"


def bins(release, block):
    table = release.histogram
    b = release.blocks.tolist().index(block)
    rows = slice(table.start[b], table.start[b + 1])
    return [a[rows].tolist() for a in (table.lower, table.upper, table.count)]


def rows_of(path, delimiter=","):
    with open(path, encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.reader(stream, delimiter=delimiter) if len(row) > 1]
    return rows[0], rows[1:]


# -- one row per block and bin ---------------------------------------------------------------------


def test_any_names():
    release = read_release(COMMUNES)
    _, rows = rows_of(COMMUNES)
    assert release.blocks.tolist() == sorted({row[0] for row in rows})
    for block in release.blocks:
        counts = [int(row[3]) for row in rows if row[0] == block]
        assert bins(release, block) == [[-INF, 500, 1000, 2000], [500, 1000, 2000, INF], counts]
    assert not release.public
    notes = "\n".join(release.notes)
    assert "1 line above the header left out ('Household budgets by commune')" in notes
    assert "1 line below the table left out" in notes
    assert "columns not read: 'Commune'" in notes


def test_bin_and_freq(write):
    release = read_release(write("bin,freq\n0-4,12\n5-9,3\n10+,1\n"))
    assert bins(release, "all") == [[-1, 4, 9], [4, 9, INF], [12, 3, 1]]


LONG = "Gemeinde,Klasse,Anzahl,Jahr\n" + "".join(
    f"{place},{label},{k + 3 * (year - 2020) + 1},{year}\n"
    for year in (2020, 2021)
    for k, (place, label) in enumerate([("x", "0-4"), ("x", "5+"), ("y", "0-4"), ("y", "5+")])
)


def test_years_are_not_blocks(write):
    with pytest.raises(ReadError, match="blocks and bins must tell all rows apart") as caught:
        read_release(write(LONG))
    assert caught.value.offers == {"block": "Gemeinde", "where": {"Jahr": "2020"}}
    release = read_release(write(LONG), **caught.value.offers)
    assert [bins(release, block)[2] for block in release.blocks] == [[1, 2], [3, 4]]
    one = "\n".join(line for line in LONG.splitlines() if not line.startswith("y"))
    with pytest.raises(ReadError, match="blocks and bins") as caught:
        read_release(write(one))
    assert caught.value.offers == {"where": {"Jahr": "2020"}}


def test_all_columns_can_be_named(write):
    text = LONG.replace("Klasse", "Groesse, Klasse").replace("Groesse, Klasse", '"Groesse, Klasse"')
    release = read_release(
        write("Titel\n\n" + text),
        block="Gemeinde",
        label="Groesse, Klasse",
        count="Anzahl",
        where={"Jahr": "2021"},
    )
    assert [bins(release, block)[2] for block in release.blocks] == [[4, 5], [6, 7]]


def test_numbers_are_bins_where_that_is_said(write):
    text = "ward,visits,people\nw1,0,3\nw1,1,4\nw2,0,5\nw2,1,9\n"
    with pytest.raises(ReadError, match="the layout is not known"):
        read_release(write(text))
    release = read_release(write(text), label="visits", count="people")
    assert bins(release, "w2") == [[0, 1], [0, 1], [5, 9]]


REFUSED = {
    "two-counts": (
        "area,age,Households,Persons\na,0-4,1,2\na,5+,3,5\nb,0-4,4,4\nb,5+,4,9\n",
        "one column must hold the counts, got 'Households', 'Persons'",
        {"count": "Households"},
    ),
    "two-labels": (
        "area,age,size,people\na,0-4,1-2,2\na,5+,3+,5\nb,0-4,3+,4\nb,5+,1-2,9\n",
        "one column must hold the bins, got 'age', 'size'",
        {"label": "size"},
    ),
    "two-ids": (
        "ward,stop,age,people\na,u,0-4,2\na,u,5+,5\nb,u,0-4,4\nb,v,5+,9\nc,v,0-4,1\nc,w,5+,8\n",
        "column 'stop': one value must be chosen, got 'u', 'v', 'w'",
        {"where": {"stop": "u"}},
    ),
    "sexes": (
        "area,sex,age,people\na,f,0-4,1\na,f,5+,3\na,m,0-4,1\na,m,5+,3\nb,f,0-4,2\nc,f,0-4,2\n",
        "one column must hold the block ids, got 'area', 'sex'; if the blocks are their cells, say",
        {"block": ["area", "sex"]},
    ),
    "sexes-and-years": (
        "area,sex,year,age,people\na,f,2021,0-4,1\na,f,2021,5+,3\na,m,2021,0-4,1\na,m,2021,5+,3\n"
        "a,f,2022,0-4,1\na,f,2022,5+,3\na,m,2022,0-4,1\na,m,2022,5+,3\nb,f,2021,0-4,1\n",
        "blocks and bins must tell all rows apart, got columns .*; choose with",
        {"block": "area", "where": {"sex": "f"}},
    ),
    "no-labels": (
        "Gemeinde,Klasse,Anzahl\na,klein,4\na,gross,5\n",
        "row 1: the layout is not known, .*say which hold the blocks, the bins in words",
        {"block": "Gemeinde", "label": "Klasse", "count": "Anzahl"},
    ),
    "number-ids": (
        "ward,street,0-4,5+\n1,11,3,4\n2,12,5,6\n",
        "one column must hold the block ids, got 'ward', 'street'",
        {"block": "ward"},
    ),
    "years-in-columns": ("area,2019,2020,2021\na,1,2,3\nb,4,5,6\n", "layout is not known", None),
    "periods-in-columns": ("area,2011-2015,2016-2020\na,1,2\nb,4,5\n", "layout is not known", None),
    "quarters": ("area,Q1,Q2,Q3,Q4\na,1,2,3,4\nb,4,5,6,7\n", "layout is not known", None),
    "decimal-commas": (
        "area;age;people\na;0-4;1,5\na;5+;2,5\n",
        "row 2, column 'people': must be a number, got '1,5'; write decimals with a point",
        None,
    ),
    "decimal-commas-of-means": (
        "area;mean income;n\na;1,5;10\nb;2,25;20\n",
        "row 2, column 'mean income': must be a number, got '1,5'; write decimals with a point",
        None,
    ),
    "percentages-alone": (
        "area,age,share\na,0-4,40%\na,5+,60%\n",
        "column 'share': percentages need the people of each block in one more column, got none",
        None,
    ),
    "percentages-in-columns": (
        "area,0-4,5+\na,40.5,59.5\nb,30,70\n",
        "columns named after bins must hold counts, got other cells in '0-4', '5\\+'",
        None,
    ),
    "a-bin-that-is-not-understood": (
        "ward,0-4,5-9,10 and beyond\na,1,2,3\nb,4,5,6\n",
        "column '10 and beyond': a label must name its values",
        None,
    ),
    "wrong-total": (
        "ward,0-4,5+,total\na,1,2,3\nb,4,5,8\n",
        "row 3, column 'total': block 'b': must be the sum of the bins, 9, got 8",
        None,
    ),
    "wrong-n": (
        "ward,age,people,n\na,0-4,1,3\na,5+,2,3\nb,0-4,4,8\nb,5+,5,8\n",
        "column 'n': block 'b': must be the sum of the bins, 9, got 8",
        None,
    ),
    "no-id-of-rows": ("0-4,5+\n1,2\n3,4\n", "one column must hold the block ids", {"block": "0-4"}),
    "two-means": (
        "area,mean age,mean income\na,1,2\nb,3,4\n",
        "one column must hold the means, got 'mean age', 'mean income'",
        {"label": "mean age"},
    ),
    "two-sizes": (
        "area,mean age,persons,households\na,1,20,10\nb,3,40,15\n",
        "one column must hold the people of each block, got 'persons', 'households'",
        {"count": "persons"},
    ),
    "suppressed": (
        "area,age,people\na,0-4,*\na,5+,33\nb,0-4,15\nb,5+,*\n",
        r"row 2, column 'people': must be a count, got '\*'; if it hides one, say suppression=",
        None,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_unclear_is_refused(write, name):
    text, message, offers = REFUSED[name]
    with pytest.raises(ReadError, match=message) as caught:
        read_release(write(text))
    if offers is not None:
        assert caught.value.offers == offers
        words = ", ".join(f"{key}={value!r}" for key, value in offers.items())
        assert str(caught.value).endswith(words)


@pytest.mark.parametrize("name", ["two-counts", "sexes", "number-ids", "two-means", "two-sizes"])
def test_what_is_offered_helps(write, name):
    text, _, offers = REFUSED[name]
    assert len(read_release(write(text), **offers).blocks) >= 1


def test_suppressed_counts(write):
    text = REFUSED["suppressed"][0]
    release = read_release(write(text), suppression="cms")
    assert release.histogram.count_low.tolist() == [1, 33, 15, 1]


def test_percentages_and_people(write):
    text = "area,age,percent,Persons\na,0-4,40%,10\na,5+,60%,10\nb,0-4,25%,8\nb,5+,75%,8\n"
    release = read_release(write(text))
    assert bins(release, "a")[2] == [4, 6]
    assert bins(release, "b")[2] == [2, 6]


def test_codes_are_preferred_to_names(write):
    text = "name,code,age,people\nA,7,0-4,1\nA,7,5+,2\nB,9,0-4,3\nB,9,5+,4\n"
    assert read_release(write(text)).blocks.tolist() == ["7", "9"]
    assert read_release(write(text), block="name").blocks.tolist() == ["A", "B"]


# -- one column per bin ----------------------------------------------------------------------------


def test_one_column_per_bin(write):
    release = read_release(WIDE)
    _, rows = rows_of(WIDE, ";")
    for row in rows:
        assert bins(release, row[0]) == [[0, 0, 4, 9], [0, 4, 9, INF], [int(c) for c in row[1:5]]]
    assert "the bins add up to column 'total'" in release.notes
    codes = read_release(write("ward;0-4;5-9;10+;Total\n1;1;2;3;6\n2;4;5;6;15\n"))
    assert codes.blocks.tolist() == ["1", "2"]


def test_people_of_unknown_value(write):
    text = "ward,0-4,5+,not stated,total\na,1,2,1,4\nb,4,5,0,9\n"
    release = read_release(write(text))
    assert release.n.tolist() == [3, 9]
    assert "1 person left out: 'not stated'" in release.notes


def test_a_total_bounds_what_is_hidden(write):
    release = read_release(write("ward,0-4,5+,total\na,<5,2,4\nb,4,5,9\n"))
    assert release.histogram.count.tolist() == [2, 2, 4, 5]


def test_a_bin_that_is_missing_is_said(write):
    release = read_release(write("ward,0-4,10+\na,1,2\nb,4,5\n"))
    assert "no column counts values between 4 and 10" in release.notes


def test_bins_out_of_order_are_said(write):
    release = read_release(write("ward,5-9,0-4,10+\na,1,2,3\nb,4,5,6\n"))
    assert bins(release, "a")[2] == [2, 1, 3]
    assert any("not in the order of their values" in note for note in release.notes)


def test_overlapping_bins(write):
    with pytest.raises((ReadError, BinError), match=r"overlap|share the value"):
        read_release(write("ward,0-4,3-9\na,1,2\nb,4,5\n"))


# -- one column per statistic ----------------------------------------------------------------------


def test_quantiles_beside_a_mean():
    with pytest.warns(ReadWarning, match="no mean; say label='mean income' to read that"):
        release = read_release(QUANTILES)
    _, rows = rows_of(QUANTILES)
    order = release.order_statistics
    rows = {row[0]: row for row in rows}
    for b, block in enumerate(release.blocks):
        part = slice(order.start[b], order.start[b + 1])
        assert order.quantile[part].tolist() == [0.25, 0.5, 0.75]
        assert order.value[part].tolist() == [float(cell) for cell in rows[block][4:]]
        assert release.n[b] == int(rows[block][1])
    means = read_release(QUANTILES, label="mean income")
    assert means.means.tolist() == [float(rows[block][2]) for block in means.blocks]
    assert "columns not read: 'sd', 'q25', 'median', 'q75'" in means.notes


def test_summaries_of_pandas(write):
    text = "area,count,mean,std,min,25%,50%,75%,max\na,10,2.5,1,0,1,2,3,9\nb,20,3.5,1,0,1,2,4,9\n"
    with pytest.warns(ReadWarning):
        release = read_release(write(text))
    assert release.n.tolist() == [10, 20]
    assert release.order_statistics.value.tolist() == [1, 2, 3, 1, 2, 4]


def test_totals_of_quantiles_are_left_out(write):
    release = read_release(write("area,p10,p90\na,1,2\nb,2,3\nTotal,1,3\n"))
    assert release.blocks.tolist() == ["a", "b"]
    assert "1 row left out: totals of others" in release.notes
    assert len(read_release(write("area,p10,p90\na,1,2\nTotal,1,3\n"), totals="keep")) == 2


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (["p10", "P90", "pct50"], [0.1, 0.9, 0.5]),
        (["q25", "q0.75", "q.5"], [0.25, 0.75, 0.5]),
        (["25th percentile", "income 90th percentile"], [0.25, 0.9]),
        (["Q1", "median", "Q3"], [0.25, 0.5, 0.75]),
        (["lower quartile", "upper quartile"], [0.25, 0.75]),
        (["25%", "50%"], []),
        (["Q1", "Q3"], []),
        (["p1", "p2", "p3"], []),
        (["p0", "p100", "population", "p"], []),
    ],
)
def test_names_of_quantiles(header, expected):
    assert list(probabilities(header).values()) == expected


@pytest.mark.parametrize(
    ("texts", "n"),
    [
        (["a", "0-4", "5+"], 2),
        (["0", "1", "2+"], 3),
        (["0", "1", "2"], 0),
        (["2019", "2020 or later"], 0),
        (["0-4"], 0),
        (["1990-1999", "2000-2009"], 0),
    ],
)
def test_texts_that_are_labels(texts, n):
    assert len(as_labels(texts)) == n
