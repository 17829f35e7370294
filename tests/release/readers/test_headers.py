"""Where a table begins and ends: titles above the header, sentences below it."""

import pytest

from tests.helpers.paths import FIXTURES
from tests.helpers.releases import assert_equal
from unbin import read_release
from unbin.exceptions import ParameterError, ReadError

TEXT = (FIXTURES / "tidy_histogram.csv").read_text()


@pytest.fixture
def read(tmp_path):
    def read_text(text, **options):
        path = tmp_path / "t.csv"
        path.write_text(text)
        return read_release(path, **options)

    return read_text


@pytest.mark.parametrize(
    ("title", "lines"),
    [
        ("People by income\n", 1),
        ("People by income\nin 2016, by county\n\n", 2),
        ('"People, by income"\n', 1),
        ("Table,1\n\n", 1),
        ("Table,1\nYear,2016\nRegion,South\n", 3),
    ],
)
def test_titles_are_found(read, title, lines):
    release = read(title + TEXT)
    assert_equal(release, read_release(FIXTURES / "tidy_histogram.csv"))
    (note,) = release.notes
    assert note.startswith(f"{lines} line{'s' if lines > 1 else ''} above the header left out (")


def test_rows_may_be_skipped(read):
    text = "a,b,c,d,e\nf,g,h,i,j\n" + TEXT  # a title as wide as a table
    with pytest.raises(ReadError):
        read(text)
    release = read(text, skip=2)
    assert release.notes == ("2 lines above the header left out ('a')",)
    assert read(TEXT, skip=0).notes == ()
    with pytest.raises(ReadError, match="below the rows to skip, got 99 of 6 rows; skip fewer"):
        read(TEXT, skip=99)
    with pytest.raises(ParameterError, match="skip"):
        read(TEXT, skip=-1)


def test_skipped_rows_are_rows_of_the_file(read):
    """Blank lines count, as in a spreadsheet."""
    assert read("a title\n\n" + TEXT, skip=2).notes == (
        "1 line above the header left out ('a title')",
    )
    with pytest.raises(ReadError):  # the header is skipped too
        read("a title\n\n" + TEXT, skip=3)


@pytest.mark.parametrize(
    ("footer", "lines"),
    [
        ("Source: own numbers.\n", 1),
        ("\nNotes\n", 1),
        ("\nNotes\n1. Counts of fewer than 5 people are hidden.\n", 2),
        ('"Source: own numbers, 2016",,,\n', 1),
    ],
)
def test_footers_are_found(read, footer, lines):
    release = read(TEXT + footer)
    assert_equal(release, read_release(FIXTURES / "tidy_histogram.csv"))
    (note,) = release.notes
    assert note.startswith(f"{lines} line{'s' if lines > 1 else ''} below the table left out (")


def test_a_last_row_that_is_cut_off_is_no_footer(read):
    with pytest.raises(ReadError, match="row 7: must have 4 cells like the header, got 1"):
        read(TEXT + "05007\n")
    with pytest.raises(ReadError, match="row 7: must have 4 cells like the header, got 2"):
        read(TEXT + "05007,1\n")


def test_errors_name_rows_of_the_file(read):
    with pytest.raises(
        ReadError, match=r"t\.csv, row 4, column 'count': must be a number, got 'x'"
    ):
        read("A title\n\n" + TEXT.replace("05001,,10,12", "05001,,10,x"))
