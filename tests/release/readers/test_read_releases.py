"""All tables of a download: folders and archives, their names, and what is left out."""

import zipfile

import pytest

from tests.helpers.paths import FIXTURES
from unbin import read_release, read_releases
from unbin.exceptions import ParameterError, ReadError, ReadWarning

INCOME = (FIXTURES / "acs_b19001.csv").read_text(encoding="utf-8")
BEDROOMS = (FIXTURES / "acs_b25042.csv").read_text(encoding="utf-8")
TIDY = (FIXTURES / "tidy_histogram.csv").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path):
    def write(files):
        place = tmp_path / "download"
        place.mkdir()
        for name, text in files.items():
            (place / name).write_text(text, encoding="utf-8")
        return place

    return write


def test_a_folder_of_tables(folder):
    place = folder(
        {"income-Data.csv": INCOME, "rooms-Data.csv": BEDROOMS, "README.txt": '"Never closed'}
    )
    tables = read_releases(place)
    assert list(tables) == ["B19001", "B25042"]
    plain = read_release(FIXTURES / "acs_b19001.csv")
    assert tables["B19001"].histogram.count.tolist() == plain.histogram.count.tolist()
    for release in tables.values():
        assert "1 other sheet left out, no known layout: 'README.txt'" in release.notes
        assert release.public
    assert not read_releases(place, public=False)["B19001"].public
    with pytest.raises(ReadError, match=r"one table must be chosen, got 'income-Data\.csv'"):
        read_release(place)


def test_an_archive_of_tables(tmp_path):
    path = tmp_path / "download.zip"
    with zipfile.ZipFile(path, "w") as stream:
        stream.writestr("2022/income.csv", INCOME)
        stream.writestr("2022/own.csv", TIDY)
    tables = read_releases(path)
    assert list(tables) == ["B19001", "own"]
    assert [release.public for release in tables.values()] == [True, False]


def test_the_same_table_of_two_years(folder):
    place = folder({"2021.B19001-Data.csv": INCOME, "2022.B19001-Data.csv": INCOME})
    assert list(read_releases(place)) == ["2021.B19001-Data", "2022.B19001-Data"]


def test_files_of_one_name(tmp_path):
    path = tmp_path / "download.zip"
    with zipfile.ZipFile(path, "w") as stream:
        for year in ("2021", "2022"):
            stream.writestr(f"{year}/own.csv", TIDY)
    with pytest.raises(ReadError, match="files must have different names, got 'own', 'own'"):
        read_releases(path)


def test_files_that_hold_no_table_are_said(folder):
    place = folder({"own.csv": TIDY, "people.csv": "name;mood\na;b\n", "notes.txt": "Mind."})
    with pytest.warns(ReadWarning, match="1 other sheet left out, no known layout: 'people.csv'"):
        tables = read_releases(place)
    assert list(tables) == ["own"]
    note = "2 other sheets left out, no known layout: 'notes.txt', 'people.csv'"
    assert note in tables["own"].notes


def test_metadata_are_not_taken_for_a_table(folder):
    place = folder({"own.csv": TIDY, "own_metadata.csv": "block,label,count\na,0-4,3\n"})
    assert list(read_releases(place)) == ["own"]
    assert read_release(place).n.tolist() == read_releases(place)["own"].n.tolist()


def test_a_download_without_tables(folder):
    with pytest.raises(ReadError, match="the layout is not known, got columns 'mood', 'taste'"):
        read_releases(folder({"a.csv": "mood,taste\na,b\n"}))


def test_options_are_those_of_one_table(folder):
    place = folder({"own.csv": TIDY})
    assert read_releases(place, closed="left")["own"].histogram.closed == "left"
    with pytest.raises(ParameterError, match="colour: unknown, got it as an option; use those of"):
        read_releases(place, colour="red")
    with pytest.raises(ParameterError, match="closed: unknown, got 'up'"):
        read_releases(place, closed="up")
    text = "age,sex,lower,upper,count\n65-74,f,,2,3\n65-74,m,,2,4\n"
    (place / "own.csv").write_text(text, encoding="utf-8")
    crossed = read_releases(place, block=["age", "sex"])["own"]
    assert crossed.blocks.tolist() == ["65-74 | f", "65-74 | m"]


def test_one_file_is_a_download_of_one_table():
    assert list(read_releases(FIXTURES / "tidy_histogram.csv")) == ["tidy_histogram"]
    assert list(read_releases(FIXTURES / "acs_api_b19001.json")) == ["B19001"]
