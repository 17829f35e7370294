"""Tax returns by ZIP code and county: classes in dollars, totals of states, combined classes."""

import csv
import math
import shutil

import pytest

from tests.helpers.paths import FIXTURES, published
from unbin import read_release
from unbin.exceptions import ReadError

INF = math.inf
ZIP, COUNTY = FIXTURES / "irs_13zpallagi.csv", FIXTURES / "irs_16incyallagi.csv"


def lines_of(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def ends(release, block):
    table = release.histogram
    b = release.blocks.tolist().index(block)
    rows = slice(table.start[b], table.start[b + 1])
    low, high = (end[rows].tolist() for end in table.interval())
    return list(zip(table.lower[rows], table.upper[rows], low, high, strict=True))


@pytest.fixture
def changed(tmp_path):
    """Write a fixture with some text in place of another, under the name of its year."""

    def write(old="", new="", *, source=ZIP, name="13zpallagi.csv"):
        text = source.read_text(encoding="utf-8")
        assert old in text
        path = tmp_path / name
        path.write_text(text.replace(old, new) if old else text, encoding="utf-8")
        return path

    return write


def classes(lines, place, count):
    """Return counts by place and class, as printed."""
    result = {}
    for line in lines:
        result.setdefault(line[place], []).append(int(float(line[count])))
    return result


@pytest.mark.parametrize("count", ["N1", "MARS1"])
def test_published_returns(count):
    path = published("irs_soi_13zpallagi.csv")
    release = read_release(path, count=count)
    known = classes(lines_of(path), "zipcode", count)
    del known["00000"]
    assert release.blocks.tolist() == sorted(known)
    edges = [1, 25_000, 50_000, 75_000, 100_000, 200_000, INF]
    for block, numbers in known.items():
        moved = 19 * numbers.count(0)
        expected = [
            (low, high, *((0, 19) if n == 0 else (max(n - 5 - moved, 0), n + 5)))
            for low, high, n in zip(edges, edges[1:], numbers, strict=False)
        ]
        assert ends(release, block) == expected
    assert release.histogram.closed == "left"
    assert "6 rows left out: totals of states (zipcode 00000)" in release.notes
    assert "tax year 2013" in release.source


def test_zip_codes_of_two_states():
    release = read_release(ZIP)
    known = classes(lines_of(ZIP), "zipcode", "N1")
    assert release.blocks.tolist() == sorted(
        ["AR 99999", "ME 99999", *(z for z in known if z not in ("00000", "99999"))]
    )
    assert "04001" in release.blocks
    assert any(note.startswith("blocks such as 'AR 99999' are the small") for note in release.notes)
    kept = read_release(ZIP, totals="keep")
    assert {"AR 00000", "ME 00000"} <= set(kept.blocks)


def test_counties():
    release = read_release(COUNTY)
    assert release.blocks.tolist() == ["05001", "05003"]
    found = ends(release, "05001")
    assert [edge[:2] for edge in found][:3] == [(-INF, 1), (1, 10_000), (10_000, 25_000)]
    assert found[-1][:2] == (200_000, INF)
    numbers = classes(lines_of(COUNTY), "COUNTYFIPS", "N1")["1"]
    assert [edge[2:] for edge in found] == [(n - 5, n + 5) for n in numbers]
    assert "8 rows left out: totals of states (COUNTYFIPS 000)" in release.notes


def test_zeros_that_hide_nothing():
    release = read_release(ZIP, suppression="none")
    numbers = classes(lines_of(ZIP), "zipcode", "N1")["71601"]
    assert [edge[2:] for edge in ends(release, "71601")] == [
        (max(n - 5, 0), n + 5) for n in numbers
    ]
    exact = read_release(ZIP, suppression="none", rounding="none")
    assert exact.histogram.count_low is None
    assert exact.n[exact.blocks == "71601"] == sum(numbers)


def test_a_class_without_a_row_is_one_that_was_combined(changed):
    numbers = classes(lines_of(ZIP), "zipcode", "N1")["71601"]
    line = next(line for line in ZIP.read_text(encoding="utf-8").splitlines() if "71601,2," in line)
    release = read_release(changed(line + "\n", ""))
    found = [edge[2:] for edge in ends(release, "71601")]
    assert found[1] == (0, 19)
    moved = 19 * (1 + numbers.count(0))
    assert found[0] == (numbers[0] - 5 - moved, numbers[0] + 5)
    assert "1 row missing, their classes taken for 0" in release.notes


def test_zeros_in_front_come_back(changed):
    release = read_release(changed(",04001,", ",4001,"))
    assert release.blocks.tolist() == read_release(ZIP).blocks.tolist()


def test_rounded_counts_that_are_not(changed):
    line = ZIP.read_text(encoding="utf-8").splitlines()[7]
    bad = line.replace(line.split(",")[4], "301.0000", 1)
    with pytest.raises(ReadError, match=r"counts are rounded \(nearest-10\) here, got '301.0000'"):
        read_release(changed(line, bad))


def test_columns_that_were_mixed_up(changed):
    with pytest.raises(ReadError, match="all returns must be as many as those of single people"):
        read_release(changed("N1,MARS1", "MARS1,N1"))


def test_amounts_are_no_counts():
    with pytest.raises(ReadError, match=r"got an amount in thousands of dollars; say count='N1'"):
        read_release(ZIP, count="A00100")


# -- classes that are not known --------------------------------------------------------------------


def test_the_year_comes_from_the_name_of_the_file(tmp_path, changed):
    for name in ("irs.csv", "returns2013.csv"):
        shutil.copy(ZIP, tmp_path / name)
        with pytest.raises(ReadError, match="classes of income depend on the tax year, got a file"):
            read_release(tmp_path / name)
    text = ZIP.read_text(encoding="utf-8").splitlines()
    years = [text[0] + ",year", *(line + ",2013" for line in text[1:])]
    (tmp_path / "irs.csv").write_text("\n".join(years), encoding="utf-8")
    assert "tax year 2013" in read_release(tmp_path / "irs.csv").source
    (tmp_path / "irs.csv").write_text("\n".join([*years, text[1] + ",2014"]), encoding="utf-8")
    with pytest.raises(ReadError, match="one value must be chosen") as caught:
        read_release(tmp_path / "irs.csv")
    assert caught.value.offers == {"where": {"year": "2014"}}


@pytest.mark.parametrize(
    ("source", "name", "got"),
    [
        (ZIP, "08zpallagi.csv", "known by zipcode since 2009, codes 1 to 6, got year 2008"),
        (COUNTY, "11incyallagi.csv", "known by COUNTYFIPS since 2012, codes 1 to 8, got year 2011"),
    ],
)
def test_classes_of_other_years(source, name, got, changed):
    with pytest.raises(ReadError, match=got):
        read_release(changed(source=source, name=name))


def test_other_codes(changed):
    with pytest.raises(ReadError, match="codes 1 to 6, got year 2013 and codes '1', '2', '3', '4'"):
        read_release(changed(",6,", ",7,"))
    everything = changed()
    text = everything.read_text(encoding="utf-8").splitlines()
    none = [",".join([*line.split(",")[:3], "0", *line.split(",")[4:]]) for line in text[1:]]
    everything.write_text("\n".join([text[0], *none]), encoding="utf-8")
    with pytest.raises(ReadError, match=r"must hold classes of income, got all of them together"):
        read_release(everything)


def test_states_and_codes_that_are_none(changed):
    path = changed("zipcode", "area")
    with pytest.raises(ReadError, match="returns must be by ZIP code or county, got no column"):
        read_release(path)
    with pytest.raises(ReadError, match="column 'zipcode': a code must have 5 digits, got 'Total'"):
        read_release(changed(",04001,", ",Total,"))
