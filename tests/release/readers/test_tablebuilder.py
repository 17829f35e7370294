"""Tables of the Australian Bureau of Statistics, with two header rows."""

import csv

import pytest

from tests.helpers.paths import FIXTURES, published
from unbin import read_release
from unbin.exceptions import ReadError, ReadWarning

INF = float("inf")
TABLE = FIXTURES / "abs_tablebuilder.csv"
TEXT = TABLE.read_text(encoding="utf-8")
AGE, INCOME = "AGEP - Age", "INCP Total Personal Income (weekly)"
READ_BY_AGE = {"where": {AGE: "25-44 years"}}


def parsed(path):
    """Return {area: {(first variable, second variable): count}}, by the csv module alone."""
    with open(path, encoding="utf-8-sig", newline="") as stream:
        rows = [row for row in csv.reader(stream) if any(row)]
    top = next(k for k, row in enumerate(rows) if len(row) > 9)
    outer, inner = rows[top], rows[top + 1]
    result, group = {}, ""
    for column in range(1, len(inner)):
        group = outer[column] or group
        if not inner[column]:
            continue
        for row in rows[top + 3 :]:
            if len(row) > 9:
                result.setdefault(row[0], {})[group, inner[column]] = int(row[column])
    return result


def bins(release, block):
    table = release.histogram
    b = release.blocks.tolist().index(block)
    rows = slice(table.start[b], table.start[b + 1])
    return [a[rows].tolist() for a in (table.lower, table.upper, table.count)]


EDGES = [-INF, 0, 1, 150, 300, INF]
LABELS = [
    "Negative income",
    "Nil income",
    "$1-$149 ($1-$7,799)",
    "$150-$299 ($7,800-$15,599)",
    "$300 or more ($15,600 or more)",
]


def test_money_is_the_outcome_and_everybody_is_read():
    with pytest.warns(ReadWarning, match=r"those under 'Total'; say where=\{'AGEP - Age': '15-24"):
        release = read_release(TABLE)
    people = parsed(TABLE)
    areas = [area for area in people if area != "Total"]
    assert release.blocks.tolist() == areas
    for area in areas:
        counts = [people[area]["Total", label] for label in LABELS]
        assert bins(release, area) == [EDGES[:-1], EDGES[1:], counts]
    assert release.histogram.closed == "left"
    assert release.public
    notes = "\n".join(release.notes)
    assert "adjusted at random" in notes
    assert "people left out, value not known: 'Not stated', 'Not applicable'" in notes
    assert "1 block left out, totals of others: 'Total'" in notes
    assert "2 lines above the header left out" in notes
    assert "2 lines below the table left out" in notes


def test_groups_can_be_chosen():
    people = parsed(TABLE)
    one = read_release(TABLE, **READ_BY_AGE)
    two = read_release(TABLE, where={AGE: ["15-24 years", "25-44 years"]})
    for area in one.blocks:
        young, older = (
            [people[area][age, label] for label in LABELS] for age in ("15-24 years", "25-44 years")
        )
        assert bins(one, area)[2] == older
        assert bins(two, area)[2] == [a + b for a, b in zip(young, older, strict=True)]
    assert any("columns left out: 'AGEP - Age' is '15-24 years'" in note for note in one.notes)
    with pytest.raises(ReadError, match="where: no column has 'old', got '15-24 years'"):
        read_release(TABLE, where={AGE: "old"})
    chosen = read_release(TABLE, where={AGE: "Total", "SA2 (UR)": "Bondi, NSW"})
    assert chosen.blocks.tolist() == ["Bondi, NSW"]


def test_the_other_variable_as_the_outcome():
    with pytest.warns(ReadWarning, match="all 7 groups added up"):
        release = read_release(TABLE, label=AGE)
    people = parsed(TABLE)
    ages = ["15-24 years", "25-44 years", "45 years and over"]
    for area in release.blocks:
        counts = [sum(n for (a, _), n in people[area].items() if a == age) for age in ages]
        assert bins(release, area) == [[15, 25, 45], [25, 45, INF], counts]
    with pytest.raises(ReadError, match="label: must be one of 'AGEP - Age', 'INCP Total"):
        read_release(TABLE, label="RELP")


def test_an_outcome_must_be_clear(write):
    text = TEXT.replace("$", "")
    with pytest.raises(ReadError, match="one variable must be the outcome") as caught:
        read_release(write(text))
    assert caught.value.offers == {"label": AGE}
    words = TEXT.replace("$150-$299 ($7,800-$15,599)", "Some income")
    with pytest.raises(ReadError, match="a label must name its values, got 'Some income'"):
        read_release(write(words), label=INCOME, **READ_BY_AGE)


def test_one_variable_in_the_columns(write):
    lines = ['"INCP Total Personal Income (weekly)","Nil income","$1-$149","$150 or more","Total",']
    lines += ['"POA (UR)",', '"2000, NSW",3,4,9,17,', '"2006, NSW",5,8,13,25,']
    release = read_release(write("\n".join(lines) + "\n"))
    assert release.blocks.tolist() == ["2000, NSW", "2006, NSW"]
    assert bins(release, "2000, NSW") == [[0, 1, 150], [1, 150, INF], [3, 4, 9]]
    assert any("total of all labels was not used" in note for note in release.notes)


def test_a_header_of_another_kind(write):
    path = write("area,0-4,5+\na,1,2\n")
    with pytest.raises(ReadError, match="must have the header of TableBuilder"):
        read_release(path, dialect="abs")
    moved = TEXT.replace('"Nil income","$1-$149', '"Nil","$1-$149', 1)
    with pytest.raises(ReadError):  # the labels of the groups differ
        read_release(write(moved))


def test_a_damaged_first_row_is_not_a_title(write):
    with pytest.raises(ReadError):
        read_release(write(TEXT.replace('"25-44 years",,', '"25-44 years",x,')))
    with pytest.raises(ReadError):
        read_release(write(TEXT.replace(',"45 years and over"', "")))


def test_as_published():
    path = published("abs_tablebuilder_age_income.csv")
    age = "AGE5P - Age in Five Year Groups"
    people = parsed(path)
    labels = list(dict.fromkeys(label for _, label in people["2000, NSW"]))[:15]
    edges = [-INF, 0, 1, 150, 300, 400, 500, 650, 800, 1000, 1250, 1500, 1750, 2000, 3000, INF]
    with pytest.warns(ReadWarning, match="those under 'Total'"):
        everybody = read_release(path)
    young = read_release(path, where={age: "20-24 years"})
    assert everybody.blocks.tolist() == young.blocks.tolist() == list(people)
    for area in people:
        total = [people[area]["Total", label] for label in labels]
        assert bins(everybody, area) == [edges[:-1], edges[1:], total]
        assert bins(young, area)[2] == [people[area]["20-24 years", label] for label in labels]
