"""Columns that split the people: one value must be chosen, unless blocks or bins explain them."""

import pytest

from unbin import read_release
from unbin.exceptions import ReadError

HEAD = "block,lower,upper,count"


@pytest.fixture
def read(tmp_path):
    def read_rows(head, *rows, **options):
        path = tmp_path / "t.csv"
        path.write_text("\n".join([head, *rows]) + "\n")
        return read_release(path, **options)

    return read_rows


def test_a_column_that_splits_people_is_refused(read):
    rows = ["a,0,1,3,F", "a,1,2,4,F", "a,0,1,2,M", "a,1,2,1,M"]
    with pytest.raises(ReadError, match="column 'sex': one value must be chosen, got 'F'") as error:
        read(f"{HEAD},sex", *rows)
    assert error.value.offers == {"where": {"sex": "F"}}
    chosen = read(f"{HEAD},sex", *rows, **error.value.offers)
    assert chosen.histogram.count.tolist() == [3, 4]
    assert "2 rows left out: 'sex' is not 'F'" in chosen.notes


def test_both_sexes_are_offered_first(read):
    rows = ["a,0,1,3,F", "a,0,1,2,M", "a,0,1,5,Total"]
    with pytest.raises(ReadError) as error:
        read(f"{HEAD},sex", *rows)
    assert error.value.offers == {"where": {"sex": "Total"}}


def test_years_split_though_they_are_numbers(read):
    rows = ["a,0,1,3,2015", "b,0,1,2,2016"]
    with pytest.raises(ReadError, match="column 'Year': one value must be chosen"):
        read(f"{HEAD},Year", *(f"{r}" for r in [*rows, "b,1,2,2,2015"]))
    # every block has one year: a table of places and years, whose name is explained by the block
    assert len(read(f"{HEAD},Year", *rows)) == 2


@pytest.mark.parametrize(
    ("head", "rows"),
    [
        ("name", ["Alpha", "Alpha", "Beta", "Beta"]),  # of the block
        ("band", ["low", "high", "low", "high"]),  # of the bin
        ("rate", ["1.5", "2.5", "3", "4"]),  # a number
        ("flag", ["", "x", "", "y"]),  # a remark on some rows
        ("unit", ["people"] * 4),
    ],
)
def test_what_does_not_split(read, head, rows):
    cells = ["a,0,1,3", "a,1,2,4", "b,0,1,2", "b,1,2,1"]
    release = read(f"{HEAD},{head}", *(f"{c},{r}" for c, r in zip(cells, rows, strict=True)))
    assert release.histogram.count.tolist() == [3, 4, 2, 1]
    assert release.notes == (f"columns not read: '{head}'",)


def test_doubled_bins_offer_the_column_that_tells_them_apart(read):
    rows = ["a,0,1,3,7,x", "a,0,1,2,7,y", "b,0,1,2,8,"]
    with pytest.raises(ReadError, match="every bin must be listed once, got 0 to 1 in row 2 too"):
        read(f"{HEAD},code,remark", *rows)
