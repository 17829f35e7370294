"""Workbooks, archives and folders: read whole, or refused."""

import csv
import gzip
import zipfile

import pytest

from tests.helpers.paths import FIXTURES
from tests.helpers.releases import assert_equal
from unbin import read_release
from unbin.exceptions import ReadError
from unbin.release.readers import downloads, read_releases
from workbooks import ods, xlsx, zipped

TEXT = (FIXTURES / "tidy_histogram.csv").read_bytes()
ROWS = [
    [int(cell) if cell.isdigit() and not cell.startswith("0") else cell or None for cell in record]
    for record in csv.reader(TEXT.decode().splitlines())
]
TITLED = [["Table 1: people by income"], ["Source: own numbers"], [], *ROWS]
MEANS = [["block", "mean"], ["a", 1.5], ["b", 2]]
COVER = [["About"], ["This workbook has one table."]]


@pytest.fixture
def put(tmp_path):
    def write(name, data):
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    return write


@pytest.mark.parametrize("make", [xlsx, ods])
def test_workbooks(make, put):
    pytest.importorskip("python_calamine")
    plain = read_release(FIXTURES / "tidy_histogram.csv")
    name = f"t.{make.__name__}"
    assert_equal(read_release(put(name, make({"Data": ROWS}))), plain)
    titled = read_release(put(name, make({"About": COVER, "Data": TITLED})))
    assert_equal(titled, plain)
    assert set(titled.notes) == {
        "1 other sheet left out, no known layout: 'About'",
        "2 lines above the header left out ('Table 1: people by income')",
    }
    assert_equal(read_release(put("t.csv", make({"Data": ROWS}))), plain)  # a wrong ending


@pytest.mark.parametrize("make", [xlsx, ods])
def test_several_sheets_must_be_chosen_from(make, put):
    pytest.importorskip("python_calamine")
    path = put(f"t.{make.__name__}", make({"Counts": ROWS, "Means": MEANS, "About": COVER}))
    with pytest.raises(ReadError, match="one table must be chosen, got 'Counts', 'Means'") as error:
        read_release(path)
    assert error.value.offers == {"sheet": "Counts"}
    assert str(error.value).endswith("say sheet='Counts'")
    chosen = read_release(path, sheet="means")
    assert chosen.means.tolist() == [1.5, 2]
    assert "2 other sheets not read" in chosen.notes
    with pytest.raises(ReadError, match="sheet 'x' not found, got 'Counts', 'Means', 'About'"):
        read_release(path, sheet="x")


def test_rows_of_a_sheet_are_numbered_as_it_shows_them(put):
    pytest.importorskip("python_calamine")
    bad = [*TITLED[:-1], ["05003", 15, None, "many"]]
    with pytest.raises(ReadError, match=r"t\.xlsx, sheet 'Data', row 9, column 'count': must be"):
        read_release(put("t.xlsx", xlsx({"Data": bad})))


def test_archives_and_folders(put, tmp_path):
    plain = read_release(FIXTURES / "tidy_histogram.csv")
    files = {"data/t.csv": TEXT, "logo.png": b"\x89PNG", "__MACOSX/._t.csv": b"\0\0"}
    assert_equal(read_release(put("t.zip", zipped(files))), plain)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "t.csv").write_bytes(TEXT)
    (folder / "logo.png").write_bytes(b"\x89PNG")
    assert_equal(read_release(folder), plain)
    (folder / "m.csv").write_text("block,mean\na,1.5\nb,2\n")
    with pytest.raises(ReadError, match=r"one table must be chosen, got 'm\.csv'") as error:
        read_release(folder)
    assert error.value.offers == {"sheet": "m.csv"}
    assert_equal(read_release(folder, sheet="t.csv"), plain)
    both = read_releases(folder)
    assert list(both) == ["m", "t"]
    assert_equal(both["t"], plain)


def test_packed_files_in_a_folder_or_an_archive(put, tmp_path):
    plain = read_release(FIXTURES / "tidy_histogram.csv")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "t.csv.gz").write_bytes(gzip.compress(TEXT))
    assert_equal(read_release(folder), plain)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (zipped({"t.csv": TEXT})[:-30], "must be a whole archive, got damaged data"),
        (zipped({"t.csv": TEXT})[:40], "must be a whole archive, got damaged data"),
        (zipped({"readme.pdf": b"x"}), "must hold a table, got no file with one"),
        (zipped({}), "."),
        (zipped({"t.csv": zipped({"t.csv": TEXT})}), "must hold files, got an archive in it"),
        (xlsx({"Data": ROWS})[:-40], "must be a whole archive, got damaged data"),
        (zipped({"xl/workbook.xml": b"<workbook"}), "must be a whole workbook, got damaged data"),
        (zipped({"mimetype": b"", "content.xml": b"<a"}), "must be a whole workbook"),
        (b"\xd0\xcf\x11\xe0" + b"\0" * 600, "must be a whole workbook, got damaged data"),
    ],
    # archives hold the time: as names of tests they would differ between processes
    ids=[
        "no-directory", "head-only", "no-table", "nothing", "nested", "cut-workbook",
        "broken-workbook", "broken-ods", "old-workbook",
    ],
)  # fmt: skip
def test_damaged_downloads(put, data, message):
    with pytest.raises(ReadError, match=message):
        read_release(put("t.zip", data))


def test_flipped_bytes_are_noticed(put):
    data = bytearray(zipped({"t.csv": TEXT * 50}))
    data[60] ^= 0xFF
    with pytest.raises(ReadError, match="got damaged data"):
        read_release(put("t.zip", bytes(data)))


def test_bombs_are_not_unpacked(put, monkeypatch):
    bomb = zipped({"t.csv": b"a,b\n" * 5_000_000})
    assert len(bomb) < 100_000
    with pytest.raises(ReadError, match=r"at most 1,000 files of 1,000,000 bytes, got 1 of 20,000"):
        read_release(put("t.zip", bomb), max_bytes=1_000_000)
    monkeypatch.setattr(downloads, "MAX_FILES", 3)
    many = zipped({f"{k}.csv": b"a" for k in range(4)})
    with pytest.raises(ReadError, match="must hold at most 3 files"):
        read_release(put("t.zip", many))


def test_sizes_that_lie(put):
    """The size in the directory of an archive is made smaller than what is in it."""
    data = bytearray(zipped({"t.csv": b"x" * 100_000}))
    with zipfile.ZipFile(put("whole.zip", bytes(data))) as archive:
        size = archive.infolist()[0].file_size
    lie = data.replace(size.to_bytes(4, "little"), (10).to_bytes(4, "little"))
    with pytest.raises(ReadError, match="got damaged data"):
        read_release(put("t.zip", bytes(lie)))
