"""Tables of the American Community Survey: layouts, margins of error, places, metadata."""

import csv
import json
import math
import zipfile

import numpy as np
import pytest

from tests.helpers.paths import FIXTURES, published
from unbin import read_release, read_releases
from unbin.exceptions import ParameterError, ReadError, ReadWarning

INF = math.inf
HOUSEHOLDS = {
    "05001480100": [387, 175, 77, 250, 215, 20, 342, 39, 391, 285],
    "05001480200": [142, 70, 220, 281, 142, 361, 212, 183, 349, 194],
    "05001480300": [51, 186, 314, 13, 36, 106, 314, 192, 76, 324],
}
"""What the percentages of the fixture were made of."""


def records(path):
    with path.open(encoding="utf-8-sig", newline="") as stream:
        return list(csv.reader(stream))


def rows_of(release, block):
    table = release.histogram
    b = release.blocks.tolist().index(block)
    return slice(table.start[b], table.start[b + 1])


def counts(release, block):
    return release.histogram.count[rows_of(release, block)].tolist()


def ends(release, block):
    low, high = release.histogram.interval()
    rows = rows_of(release, block)
    return list(zip(low[rows].tolist(), high[rows].tolist(), strict=True))


# -- as published ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "first"), [("acs_B19001_2024_excerpt.csv", 2), ("acs_aff_B19001_2014_with_ann.csv", 3)]
)
def test_published_incomes(name, first):
    """Every second column from the second line on is a bin, the one behind it its margin."""
    path = published(name)
    release = read_release(path, moe=True)
    lines = records(path)[2:]
    assert len(lines) == len(release)
    for line in lines:
        block = line[0].rpartition("US")[2]
        assert counts(release, block) == [int(cell) for cell in line[first + 2 :: 2] if cell]
        margins = [int(cell) for cell in line[first + 3 :: 2] if cell]
        found = release.histogram.count_se[rows_of(release, block)]
        np.testing.assert_allclose(found, np.array(margins) / 1.645)
        assert release.n[release.blocks == block] == int(line[first])
    rows = rows_of(release, release.blocks[0])
    assert release.histogram.lower[rows][:3].tolist() == [-INF, 10_000, 15_000]
    assert release.histogram.upper[rows][-2:].tolist() == [200_000, INF]


def test_published_ages_of_men_and_women_are_added():
    path = published("acs_B01001_2022_bg.csv")
    release = read_release(path, moe=True)
    header, _, *lines = records(path)
    for line in lines:
        cells = dict(zip(header, line, strict=True))
        block = cells["GEO_ID"].rpartition("US")[2]
        men = [f"B01001_{k:03d}" for k in range(3, 26)]
        women = [f"B01001_{k:03d}" for k in range(27, 50)]
        pairs = list(zip(men, women, strict=True))
        assert counts(release, block) == [
            int(cells[m + "E"]) + int(cells[w + "E"]) for m, w in pairs
        ]
        errors = [math.hypot(int(cells[m + "M"]), int(cells[w + "M"])) / 1.645 for m, w in pairs]
        np.testing.assert_allclose(release.histogram.count_se[rows_of(release, block)], errors)
    assert "counts of 'Male', 'Female' are added up" in release.notes


def test_published_rents_that_were_not_computed_are_left_out():
    path = published("acs_B25070_2022.csv")
    release = read_release(path)
    header, _, *lines = records(path)
    for line in lines:
        cells = dict(zip(header, line, strict=True))
        block = cells["GEO_ID"].rpartition("US")[2]
        assert counts(release, block) == [int(cells[f"B25070_{k:03d}E"]) for k in range(2, 11)]
        n = int(cells["B25070_001E"]) - int(cells["B25070_011E"])
        assert release.n[release.blocks == block] == n
    assert "people without a value left out: 'Not computed'" in release.notes
    assert release.histogram.upper[:3].tolist() == [10, 15, 20]


@pytest.mark.parametrize("column", ["C01", "C02", "C03", "C04"])
def test_published_percentages_are_intervals(column):
    path = published("acs_S1901_2022.csv")
    release = read_release(path, label=column)
    header, _, *lines = records(path)
    left_out = 0
    for line in lines:
        cells = dict(zip(header, line, strict=True))
        block, n = cells["GEO_ID"].rpartition("US")[2], int(cells[f"S1901_{column}_001E"])
        if n == 0:
            left_out += 1
            assert block not in release.blocks
            continue
        assert release.n[release.blocks == block] == n
        total = 0
        for k, (low, high) in enumerate(ends(release, block), 2):
            text = cells[f"S1901_{column}_{k:03d}E"]
            total += low
            if text != "-":
                # all that may be rounded to it, or fewer: the others leave no room
                assert n * (float(text) - 0.05) / 100 - 1e-6 <= low
                assert high <= n * (float(text) + 0.05) / 100 + 1e-6
        assert total <= n
    assert len(release) == len(lines) - left_out


# -- subject tables --------------------------------------------------------------------------------


def test_percentages_hold_the_counts_they_were_made_of():
    with pytest.warns(ReadWarning, match="'Households' read, other populations left out; say"):
        release = read_release(FIXTURES / "acs_s1901.csv")
    for block, truth in HOUSEHOLDS.items():
        assert release.n[release.blocks == block] == sum(truth)
        for count, (low, high) in zip(truth, ends(release, block), strict=True):
            assert low <= count <= high
            assert high - low <= sum(truth) / 1000
    assert "percentages of 'Households', rounded (nearest-0.1%)" in release.source
    assert release.notes[1].startswith("4 lines left out, no bins: 'Median income (dollars)'")


def test_another_population():
    for label in ("C02", "families"):
        release = read_release(FIXTURES / "acs_s1901.csv", label=label)
        assert release.blocks.tolist() == ["05001480100", "05001480200"]
        assert any("no families, or their number is not shown" in note for note in release.notes)
    with pytest.raises(ReadError, match=r"population 'C09' not found.*; say label='C01'") as caught:
        read_release(FIXTURES / "acs_s1901.csv", label="C09")
    assert caught.value.offers == {"label": "C01"}


def test_margins_of_percentages_become_those_of_counts():
    """SE(share) = sqrt(SE(count)² − share² SE(n)²) / n, the Census Bureau's formula, backwards."""
    release = read_release(FIXTURES / "acs_s1901.csv", label="C01", moe=True)
    header, _, line, *_ = records(FIXTURES / "acs_s1901.csv")
    cells = dict(zip(header, line, strict=True))
    n, n_error = int(cells["S1901_C01_001E"]), int(cells["S1901_C01_001M"]) / 1.645
    errors = release.histogram.count_se[rows_of(release, "05001480100")]
    for k, error in enumerate(errors, 2):
        share, margin = (float(cells[f"S1901_C01_{k:03d}{kind}"]) / 100 for kind in "EM")
        again = math.sqrt(error**2 - share**2 * n_error**2) / n
        assert math.isclose(again, margin / 1.645, rel_tol=1e-9)


def subject(write, old, new):
    text = (FIXTURES / "acs_s1901.csv").read_text(encoding="utf-8")
    assert old in text
    return write(text.replace(old, new))


def test_percentages_that_are_none(write):
    bad = subject(write, '"17.7"', '"17.74"')
    with pytest.raises(
        ReadError, match=r"must be a percentage, rounded as the others, got '17.74'"
    ):
        read_release(bad, label="C01")
    with pytest.raises(
        ReadError, match=r"must be a percentage, rounded as the others, got '117.7'"
    ):
        read_release(subject(write, '"17.7"', '"117.7"'), label="C01")
    with pytest.raises(ReadError, match="the bins must count the people of column"):
        read_release(subject(write, '"17.7"', '"27.7"'), label="C01")
    with pytest.raises(ParameterError, match="rounding: the table holds percentages, got 'none'"):
        read_release(FIXTURES / "acs_s1901.csv", rounding="none")


def test_a_percentage_that_is_not_shown_is_bounded_by_the_total(write):
    hidden = read_release(subject(write, '"17.7"', '"N"'), label="C01")
    low, high = ends(hidden, "05001480100")[0]
    assert low <= HOUSEHOLDS["05001480100"][0] <= high


def test_other_subject_tables_are_refused(write):
    path = subject(write, "!!Total!!", "!!Total population!!AGE!!")
    with pytest.raises(ReadError, match="a subject table must hold a total and percentages of it"):
        read_release(path, label="C01")


# -- places ----------------------------------------------------------------------------------------


def test_the_state_is_left_out_beside_its_counties():
    release = read_release(FIXTURES / "acs_b25042.csv")
    assert release.blocks.tolist() == ["05001", "05003"]
    assert "1 row left out: they contain other places of the table, '0400000US05'" in release.notes
    assert release.histogram.upper[:3].tolist() == [0, 1, 2]
    kept = read_release(FIXTURES / "acs_b25042.csv", totals="keep")
    assert kept.blocks.tolist() == ["0400000US05", "0500000US05001", "0500000US05003"]


def test_a_nation_contains_all_and_another_state_nothing(write):
    text = (FIXTURES / "acs_b25042.csv").read_text(encoding="utf-8")
    nation = read_release(write(text.replace("0400000US05", "0100000US")))
    assert nation.blocks.tolist() == ["05001", "05003"]
    apart = read_release(write(text.replace("0400000US05", "0400000US13")))
    assert apart.blocks.tolist() == ["0400000US13", "0500000US05001", "0500000US05003"]


def test_places_that_overlap_are_refused(write):
    text = (FIXTURES / "acs_b25042.csv").read_text(encoding="utf-8")
    path = write(text.replace("0400000US05", "1600000US0523290"))
    with pytest.raises(ReadError, match="places must not overlap, got several kinds") as caught:
        read_release(path)
    assert caught.value.offers == {"where": {"GEO_ID": ["0500000US05001", "0500000US05003"]}}
    assert len(read_release(path, **caught.value.offers)) == 2


def test_names_are_no_codes(write):
    text = (FIXTURES / "acs_b25042.csv").read_text(encoding="utf-8")
    path = write(text.replace('"GEO_ID","NAME"', '"NAME","GEO_ID"', 1))
    with pytest.raises(ReadError, match="row 3, column 'GEO_ID': must be the code of a place, got"):
        read_release(path)
    assert "Arkansas" in read_release(path, block="GEO_ID").blocks


def test_a_row_of_totals_does_not_change_the_other_ids(write):
    header, labels, *lines = records(FIXTURES / "acs_aff_b19001.csv")
    total = [str(sum(int(line[k]) for line in lines)) for k in range(3, len(header))]
    text = "\n".join(",".join(f'"{cell}"' for cell in line) for line in [header, labels, *lines])
    path = write(text + "\nTotal,Total,Total," + ",".join(total) + "\n")
    release, plain = read_release(path), read_release(FIXTURES / "acs_aff_b19001.csv")
    assert release.blocks.tolist() == plain.blocks.tolist()
    assert release.histogram.count.tolist() == plain.histogram.count.tolist()
    assert "1 block left out, totals of others: 'Total'" in release.notes


# -- margins of error ------------------------------------------------------------------------------


def test_margins_of_error_are_added_over_headings():
    release = read_release(FIXTURES / "acs_b25042.csv", moe=True)
    header, _, _, line, last = records(FIXTURES / "acs_b25042.csv")
    cells = dict(zip(header, line, strict=True))
    for k, error in enumerate(release.histogram.count_se[rows_of(release, "05001")]):
        own, rented = (int(cells[f"B25042_{line + k:03d}M"]) for line in (3, 10))
        assert math.isclose(error, math.hypot(own, rented) / 1.645)
    assert last[header.index("B25042_015M")] == "**"
    assert math.isnan(release.histogram.count_se[rows_of(release, "05003")][-1])
    assert read_release(FIXTURES / "acs_b25042.csv").histogram.count_se is None


MARGINS = [("164.5", 100.0), ("*****", 0.0), ("-555555555", 0.0), ("**", None), ("", None)]
MARGINS += [("-222222222", None), ("(X)", None), ("+/-329", 200.0), ("±329", 200.0), ("NA", None)]


@pytest.mark.parametrize(("text", "error"), MARGINS)
def test_what_a_margin_stands_for(text, error, write):
    path = write(f"GEOID,NAME,variable,estimate,moe\n05,a,under 5,3,{text}\n05,a,5 and over,4,1\n")
    (found, _) = read_release(path, moe=True).histogram.count_se
    assert math.isnan(found) if error is None else math.isclose(found, error)


def test_annotations_of_margins_override_them(write):
    head = "GEO_ID,NAME,B19001_001E,B19001_001M,B19001_002E,B19001_002M,B19001_002MA\n"
    head += 'a,b,Estimate!!Total:,x,"Estimate!!Total:!!Less than $10,000",x,x\n'
    margins = [("7", "*****"), ("1645", "null"), ("1645", ""), ("7", "**")]
    rows = [f"0500000US0500{k},x,3,1,3,{m},{ma}\n" for k, (m, ma) in enumerate(margins)]
    release = read_release(write(head + "".join(rows)), moe=True)
    np.testing.assert_array_equal(release.histogram.count_se, [0.0, 1000.0, 1000.0, np.nan])


def test_margins_that_are_not_there(write):
    with pytest.raises(ReadError, match=r"column 'moe' not found.*say moe="):
        read_release(write("GEOID,variable,estimate\n05,under 5,3\n"), moe=True)
    head = 'GEO_ID,B19001_001E\na,Estimate!!Total:!!"$5 or more"\n05,3\n'
    with pytest.raises(ReadError, match="moe: margins of error must be in the table, got no col"):
        read_release(write(head.replace('"', "")), moe=True)
    with pytest.raises(ReadError, match="moe: margins of error are read of tables of the ACS, got"):
        read_release(FIXTURES / "tidy_histogram.csv", moe=True)
    with pytest.raises(ReadError, match="a margin of error must not be negative, got '-3'"):
        read_release(write("GEOID,variable,estimate,moe\n05,under 5,3,-3\n"), moe=True)


# -- the Census API, tables without labels ---------------------------------------------------------


def test_the_census_api():
    path = FIXTURES / "acs_api_b19001.json"
    release = read_release(path, moe=True)
    header, *lines = json.loads(path.read_text(encoding="utf-8"))
    for line in lines:
        cells = dict(zip(header, line, strict=True))
        block = cells["state"] + cells["county"]
        assert counts(release, block) == [int(cells[f"B19001_{k:03d}E"]) for k in range(2, 18)]
    assert release.source.startswith("acs, block 'state' + 'county'")
    assert release.histogram.upper[:2].tolist() == [10_000, 15_000]


def api(write, change):
    rows = json.loads((FIXTURES / "acs_api_b19001.json").read_text(encoding="utf-8"))
    return write(
        json.dumps([change(k, dict(zip(rows[0], r, strict=True))) for k, r in enumerate(rows)])
    )


def test_tables_of_the_api_without_all_their_lines(write):
    path = api(write, lambda _, row: [v for name, v in row.items() if name != "B19001_004E"])
    with pytest.raises(ReadError, match="must hold all 16 bins of B19001, got 1 fewer: line 4 is"):
        read_release(path)
    bare = api(write, lambda _, row: [v for k, v in row.items() if k not in ("state", "county")])
    with pytest.raises(ReadError, match=r"no column of places found.*; say block="):
        read_release(bare)
    assert read_release(bare, block="NAME").blocks[0] == "Arkansas County, Arkansas"
    lost = api(write, lambda k, row: [*list(row.values())[:-1], "1" if k else "county"])
    with pytest.raises(ReadError, match=r"row 2, column 'county': a code must have 3 digits, got"):
        read_release(lost)


def test_one_table_is_chosen_of_several(write):
    both = api(write, lambda k, row: [*row.values(), "7" if k else "B25070_001E"])
    with pytest.raises(
        ReadError, match="one table must be chosen, got 'B19001', 'B25070'"
    ) as caught:
        read_release(both)
    release = read_release(both, **caught.value.offers)
    plain = read_release(FIXTURES / "acs_api_b19001.json")
    assert release.histogram.count.tolist() == plain.histogram.count.tolist()
    with pytest.raises(ReadError, match="label: table 'B01001' not found, got 'B19001'"):
        read_release(both, label="B01001")


def test_lines_without_a_total_must_follow_each_other(write):
    text = "GEO_ID,B25_002E,B25041_002E,B25041_004E\n"
    text += "x,y,Estimate!!Total:!!No bedroom,Estimate!!Total:!!2 bedrooms\n0500000US05,,1,2\n"
    with pytest.raises(ReadError, match="must have all its lines, got none with number 003"):
        read_release(write(text))


# -- downloads with metadata -----------------------------------------------------------------------

NOTES = 'Notes: the "quoted, and odd" text\n\n1, 2 and 3 commas, "\n'


def archive(tmp_path, files, name="download.zip"):
    path = tmp_path / name
    with zipfile.ZipFile(path, "w") as stream:
        for inner, text in files.items():
            stream.writestr(inner, text)
    return path


def without_labels(name):
    """Return a table of two header rows without the second, and the second as metadata."""
    header, labels, *lines = records(FIXTURES / name)
    text = "\n".join(",".join(f'"{cell}"' for cell in line) for line in [header, *lines])
    pairs = [f'"{a}","{b}"' for a, b in zip(header, labels, strict=True) if a]
    return text + "\n", "\n".join(pairs) + "\n"


def test_labels_in_the_metadata_beside(tmp_path):
    data, labels = without_labels("acs_b25042.csv")
    files = {
        "ACSDT5Y2022.B25042-Data.csv": data,
        "ACSDT5Y2022.B25042-Column-Metadata.csv": '"Column Name","Label"\n' + labels,
        "ACSDT5Y2022.B25042-Table-Notes.txt": NOTES,
    }
    plain = read_release(FIXTURES / "acs_b25042.csv")
    path = archive(tmp_path, files)
    for release in (
        read_release(path),
        read_release(path, sheet="ACSDT5Y2022.B25042-Data.csv"),
        read_releases(path)["B25042"],
    ):
        assert release.to_columns()["histogram"].keys() == plain.to_columns()["histogram"].keys()
        assert release.histogram.count.tolist() == plain.histogram.count.tolist()
        assert release.histogram.lower.tolist() == plain.histogram.lower.tolist()
    alone = archive(tmp_path, {"B25042.csv": data}, "alone.zip")
    with pytest.raises(ReadError, match=r"must hold labels such as .* or with its metadata in one"):
        read_release(alone)


def test_downloads_of_american_factfinder(tmp_path):
    data, labels = without_labels("acs_aff_b19001.csv")
    files = {
        "ACS_14_5YR_B19001.csv": data,
        "ACS_14_5YR_B19001_metadata.csv": labels,
        "aff_download_readme.txt": NOTES,
    }
    tables = read_releases(archive(tmp_path, files))
    plain = read_release(FIXTURES / "acs_aff_b19001.csv")
    assert list(tables) == ["B19001"]
    assert tables["B19001"].histogram.count.tolist() == plain.histogram.count.tolist()
    assert tables["B19001"].notes == (
        "2 other sheets left out, no known layout: 'ACS_14_5YR_B19001_metadata.csv', "
        "'aff_download_readme.txt'",
    )


# -- categories ------------------------------------------------------------------------------------


def by_name(release):
    """Return the count of every block and category."""
    table = release.to_columns()["categories"]
    keys = zip(table["block"].tolist(), table["category"].tolist(), strict=True)
    return dict(zip(keys, table["count"].tolist(), strict=True))


def test_headings_are_categories():
    path = published("acs_B01001_2022_bg.csv")
    got = by_name(read_release(path, category="headings"))
    header, _, *lines = records(path)
    for line in lines:
        record = dict(zip(header, line, strict=True))
        block = record["GEO_ID"].split("US")[1]
        if int(record["B01001_001E"]):
            assert got[block, "Male"] == int(record["B01001_002E"])
            assert got[block, "Female"] == int(record["B01001_026E"])


def test_labels_are_categories():
    release = read_release(FIXTURES / "acs_b25042.csv", category="labels")
    bins = read_release(FIXTURES / "acs_b25042.csv")
    assert release.categories == (
        "1 bedroom", "2 bedrooms", "3 bedrooms", "4 bedrooms", "5 or more bedrooms", "No bedroom",
    )  # fmt: skip
    # bins are in the order of values, categories in that of text
    order = [1, 2, 3, 4, 5, 0]
    counts = bins.histogram.count.reshape(-1, 6)[:, order]
    assert release.histogram.count.reshape(-1, 6).tolist() == counts.tolist()
    assert any("are added up" in note for note in release.notes)


def test_margins_of_categories():
    release = read_release(FIXTURES / "acs_b25042.csv", category="headings", moe=True)
    header, _, _, line, _ = records(FIXTURES / "acs_b25042.csv")
    record = dict(zip(header, line, strict=True))
    rows = slice(*release.histogram.start[:2])
    assert release.categories == ("Owner occupied", "Renter occupied")
    margins = [record["B25042_002M"], record["B25042_009M"]]
    wanted = [0.0 if text == "*****" else float(text) / 1.645 for text in margins]
    assert release.histogram.count_se[rows].tolist() == pytest.approx(wanted)


def test_long_categories(write):
    text = "GEOID,NAME,variable,estimate,moe\n"
    text += "05001,A,total,12,1\n05001,A,Male,7,1\n05001,A,Female,5,1\n"
    release = read_release(write(text), category="labels")
    assert by_name(release) == {("05001", "Female"): 5, ("05001", "Male"): 7}


def test_categories_that_cannot_be_read():
    with pytest.raises(ReadError, match="category: says which lines are categories, 'headings' or"):
        read_release(FIXTURES / "acs_b25042.csv", category="tenure")
    with pytest.raises(ReadError, match="category: is read of detailed tables, got the subject ta"):
        read_release(FIXTURES / "acs_s1901.csv", category="labels")
