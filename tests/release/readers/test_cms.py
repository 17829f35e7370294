"""CMS: bands in columns, areas and labels, geographic variation compared with its text."""

import csv

import pytest

from tests.helpers.paths import FIXTURES, published
from unbin import read_release
from unbin.exceptions import ReadError, ReadWarning

INF = float("inf")
OLD, NEW = FIXTURES / "cms_variation.csv", FIXTURES / "cms_variation_2021.csv"
ASTHMA = "Count of Medicare beneficiaries with asthma"
DIABETES = "Count of Medicare beneficiaries with diabetes"
USERS = "# IP Users (with a covered stay)"
ALL_COUNTIES = {"BENE_GEO_LVL": "County", "BENE_AGE_LVL": "All"}


def rows_of(path):
    """Return complete records by the name of their columns."""
    with path.open(encoding="utf-8", newline="") as stream:
        header, *lines = list(csv.reader(stream))
    names = [name.strip() for name in header]
    return [dict(zip(names, line, strict=True)) for line in lines if len(line) == len(names)]


def whole(text):
    return int(text.replace(",", ""))


def cells(release, block):
    """Return (lower, least, most) of every bin of a block."""
    table = release.histogram
    b = release.blocks.tolist().index(block)
    rows = slice(table.start[b], table.start[b + 1])
    low = table.count if table.count_low is None else table.count_low
    high = table.count if table.count_high is None else table.count_high
    return list(zip(*(a[rows].tolist() for a in (table.lower, low, high)), strict=True))


# -- geographic variation --------------------------------------------------------------------------


def test_an_outcome_must_be_chosen():
    with pytest.raises(ReadError, match=r"one outcome must be chosen, got 'Count of Medicare") as e:
        read_release(OLD)
    assert e.value.offers == {"count": ASTHMA, "where": {"Year": "2009"}}
    assert len(read_release(OLD, **e.value.offers)) == 5
    with pytest.raises(ReadError, match="column 'Year': one value must be chosen") as caught:
        read_release(OLD, count=ASTHMA)
    assert caught.value.offers == {"where": {"Year": "2009"}}


def test_beneficiaries_with_a_condition():
    release = read_release(OLD, count=ASTHMA, where={"Year": "2010"})
    for row in rows_of(OLD):
        if row["Year"] == "2010" and row["Locale"] != "National":
            n, ill = whole(row["Count of Beneficiaries"]), whole(row[ASTHMA])
            assert cells(release, row["Locale"]) == [(0, n - ill, n - ill), (1, ill, ill)]
    assert release.blocks.tolist() == ["AK", "DE", "ID", "VT", "WY"]
    assert release.notes == (
        "6 rows left out: 'Year' is not '2010'",
        "1 row left out: total of others, 'Locale' national",
    )
    kept = read_release(OLD, count=ASTHMA, where={"Year": "2010"}, totals="keep")
    assert "National" in kept.blocks
    crossed = read_release(OLD, count=ASTHMA, block=["Locale", "Year"])
    assert len(crossed) == 10
    assert cells(crossed, "AK | 2010") == cells(release, "AK")


def test_hidden_users():
    release = read_release(OLD, count=USERS, where={"Year": "2009"})
    n = next(whole(r["Count of Beneficiaries"]) for r in rows_of(OLD) if r["Locale"] == "WY")
    assert cells(release, "WY") == [(0, n - 10, n), (1, 0, 10)]
    release = read_release(OLD, count=USERS, where={"Year": "2009"}, suppression="cms")
    assert cells(release, "WY") == [(0, n - 10, n - 1), (1, 1, 10)]


@pytest.mark.parametrize("option", ["count", "label"])
def test_averages(option):
    release = read_release(OLD, where={"Year": "2009"}, **{option: "Average Age"})
    rows = [r for r in rows_of(OLD) if r["Year"] == "2009" and r["Locale"] != "National"]
    assert release.means.tolist() == [float(r["Average Age"]) for r in rows]
    assert release.n.tolist() == [whole(r["Count of Beneficiaries"]) for r in rows]
    assert "Average Age is rounded to 0.1" in release.notes
    score = read_release(OLD, where={"Year": "2009"}, count="Average HCC Score")
    assert "Average HCC Score is rounded to 0.01" in score.notes


@pytest.mark.parametrize(
    "name", ["Emergency Department Visits", "Percent Female", "Count of Beneficiaries"]
)
def test_visits_and_rates_are_no_people(name):
    with pytest.raises(ReadError, match=f"must count beneficiaries or be an average .*'{name}'"):
        read_release(OLD, count=name, where={"Year": "2009"})


def test_rows_without_a_number(write):
    text = OLD.read_text(encoding="utf-8").replace('2010,AK,"46,805"', "2010,AK,.")
    release = read_release(write(text), count=ASTHMA, where={"Year": "2010"})
    assert release.blocks.tolist() == ["DE", "ID", "VT", "WY"]
    assert "1 row left out: no Count of Beneficiaries" in release.notes


def test_states_of_cms():
    path = published("cms_gv_states_2007_2010.csv")
    with pytest.raises(ReadError, match="one outcome must be chosen"):
        read_release(path)
    short = r"1 row left out, shorter .* row 41 \('2007', 'PR'\) has 141 cells of 165; complete"
    with pytest.warns(ReadWarning, match=short):
        release = read_release(path, count=DIABETES, where={"Year": "2007"})
    rows = [row for row in rows_of(path) if row["Year"] == "2007"]
    assert release.blocks.tolist() == sorted(row["Locale"] for row in rows)
    for row in rows:
        n, ill = whole(row["Count of Beneficiaries"]), whole(row[DIABETES])
        assert cells(release, row["Locale"]) == [(0, n - ill, n - ill), (1, ill, ill)]
    assert release.source.endswith("51 of 59 rows")
    with pytest.warns(ReadWarning, match=short):
        ages = read_release(path, label="Average Age", where={"Year": "2007"})
    assert ages.means.tolist() == [float(r["Average Age"]) for r in rows]


# -- newer names -----------------------------------------------------------------------------------


def test_levels_must_be_chosen():
    with pytest.raises(ReadError, match="'BENE_GEO_LVL': one value must be chosen, got 'State', '"):
        read_release(NEW, count="BENES_IP_CNT")
    with pytest.raises(ReadError, match="'BENE_AGE_LVL': one value must be chosen") as caught:
        read_release(NEW, count="BENES_IP_CNT", where={"BENE_GEO_LVL": "County"})
    assert caught.value.offers == {"where": {"BENE_AGE_LVL": "All"}}


@pytest.mark.parametrize(
    ("count", "people"),
    [("BENES_IP_CNT", "BENES_FFS_CNT"), ("BENES_MA_CNT", "BENES_TOTAL_CNT")],
)
def test_counts_among_those_they_are_about(count, people):
    release = read_release(NEW, count=count, where=ALL_COUNTIES)
    rows = [r for r in rows_of(NEW) if all(r[k] == v for k, v in ALL_COUNTIES.items())]
    assert release.blocks.tolist() == [r["BENE_GEO_CD"] for r in rows]
    assert release.n.tolist() == [int(r[people]) for r in rows]
    assert release.histogram.count[1::2].tolist() == [int(r[count]) for r in rows]


def test_ages_of_beneficiaries():
    release = read_release(NEW, label="BENE_AGE_LVL", where={"BENE_GEO_LVL": "State"})
    found = {(r["BENE_GEO_CD"], r["BENE_AGE_LVL"]): int(r["BENES_FFS_CNT"]) for r in rows_of(NEW)}
    for block in ("10", "50"):
        young, old = found[block, "<65"], found[block, "65+"]
        assert cells(release, block) == [(-INF, young, young), (65, old, old)]


def test_an_average_of_newer_names():
    release = read_release(NEW, count="BENE_AVG_AGE", where=ALL_COUNTIES)
    assert release.means.tolist() == [72, 72, 72]


# -- bands in columns, labels in rows --------------------------------------------------------------


def test_bands():
    release = read_release(FIXTURES / "cms_providers.csv")
    assert [lower for lower, _, _ in cells(release, "1003000000")] == [-INF, 65, 75, 85]
    assert release.histogram.closed == "left"


def test_labels():
    long = read_release(FIXTURES / "cms_counties.csv")
    assert [lower for lower, _, _ in cells(long, "01001")] == [-INF, 65, 75, 85]
    hidden = {(a, b) for block in long.blocks for _, a, b in cells(long, block) if a != b}
    assert hidden == {(1, 10)}


def test_exact_bands(write):
    text = "Bene_Geo_Cd,Tot_Benes,Bene_Age_LT_65_Cnt,Bene_Age_65_74_Cnt,Bene_Age_GT_74_Cnt\n"
    release = read_release(write(text + "01001,60,11,20,29\n"))
    assert cells(release, "01001") == [(-INF, 11, 11), (65, 20, 20), (75, 29, 29)]
    assert release.source.startswith("cms, block 'Bene_Geo_Cd'")


def test_one_of_two_outcomes(write):
    text = "Bene_Geo_Cd,Bene_Age_LT_65_Cnt,Bene_Age_GE_65_Cnt,Bene_Chr_LT_2_Cnt,Bene_Chr_GE_2_Cnt\n"
    release = read_release(write(text + "01001,20,30,40,10\n"), label="bene_chr")
    assert cells(release, "01001") == [(-INF, 40, 40), (2, 10, 10)]
