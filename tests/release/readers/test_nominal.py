"""Files of categories: tidy ones, and tables whose column of categories is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unbin
from unbin import Release
from unbin.exceptions import ParameterError, ReadError

TIDY = "block,category,count\nA,dem,7\nA,rep,5\nB,dem,9\n"
VOTES = "precinct,party,votes\nA,dem,7\nA,rep,5\nB,dem,9\n"

SMALL = {"block": list("AAB"), "category": list("xyx"), "count": [1, 2, 3]}


def read(tmp_path: Path, text: str, **settings: Any) -> Release:
    path = tmp_path / "votes.csv"
    path.write_text(text)
    return unbin.read_release(path, **settings)


def cells(release: Release) -> dict[tuple[str, str], int]:
    columns = release.to_columns()["categories"]
    pairs = zip(columns["block"], columns["category"], strict=True)
    return dict(zip(((str(b), str(c)) for b, c in pairs), columns["count"].tolist(), strict=True))


def same(one: Release, other: Release) -> bool:
    return (
        one.categories == other.categories
        and np.array_equal(one.blocks, other.blocks)
        and np.array_equal(one.n, other.n)
        and np.array_equal(one.histogram.start, other.histogram.start)
        and np.array_equal(one.histogram.lower, other.histogram.lower)
        and all(map(np.array_equal, one.histogram.interval(), other.histogram.interval()))
    )


def test_tidy(tmp_path: Path) -> None:
    release = read(tmp_path, TIDY)
    assert release.categories == ("dem", "rep")
    assert cells(release) == {("A", "dem"): 7, ("A", "rep"): 5, ("B", "dem"): 9, ("B", "rep"): 0}
    assert "tidy categories, block 'block', categories 'category', all 3 rows" in release.source
    assert "1 block without some of the 2 categories, taken to count nobody there: 'B'" in (
        release.notes
    )


def test_absent_says_what_a_missing_row_means(tmp_path: Path) -> None:
    release = read(tmp_path, TIDY, absent="structural")
    assert ("B", "rep") not in cells(release)
    assert any("taken not to offer them: 'B'" in note for note in release.notes)


def test_the_only_other_column_is_the_block(tmp_path: Path) -> None:
    release = read(tmp_path, TIDY.replace("block,", "ward,"))
    assert cells(release) == cells(read(tmp_path, TIDY))


def test_people_and_the_rest(tmp_path: Path) -> None:
    text = "block,category,count,n\nA,dem,7,20\nA,rep,5,20\nB,dem,9,9\n"
    release = read(tmp_path, text, rest="none")
    assert release.categories == ("dem", "rep", "none")
    assert cells(release)["A", "none"] == 8
    with pytest.raises(ReadError, match=r"row 2: block 'A': the categories must count .* say rest"):
        read(tmp_path, text)
    with pytest.raises(ReadError, match="rest: the people of every block must be known, got none"):
        read(tmp_path, TIDY, rest="none")


def test_a_row_of_all_categories_is_the_people(tmp_path: Path) -> None:
    release = read(tmp_path, TIDY + "A,Total,20\nB,Total,9\n", rest="none")
    assert release.categories == ("dem", "rep", "none")
    assert list(release.n) == [20, 9]


def test_percentages(tmp_path: Path) -> None:
    text = "block,category,percent,n\nA,dem,60%,20\nA,rep,30%,20\n"
    assert cells(read(tmp_path, text, rest="x")) == {
        ("A", "dem"): 12, ("A", "rep"): 6, ("A", "x"): 2,
    }  # fmt: skip


def test_hidden_counts(tmp_path: Path) -> None:
    release = read(tmp_path, TIDY.replace("5", "*"), suppression={"*": (1, 4)})
    low, high = release.histogram.interval()
    assert (low[1], high[1]) == (1, 4)


@pytest.mark.parametrize(
    "release",
    [
        Release.from_categories(SMALL),
        Release.from_categories(SMALL, absent="structural"),
        Release.from_categories(
            SMALL,
            categories=["y", "x"],
        ),
        Release.from_categories(
            SMALL,
            rounding="nearest-5",
        ),
        Release.from_categories(
            {"block": list("AAA"), "category": ["0-17", "18-64", "65+"], "count": [1, 2, 3]}
        ),
        unbin.aggregate([3, 1, 20, 1], list("abab"), bins="categories"),
    ],
    ids=["plain", "structural", "order", "hidden", "bins in words", "numbers"],
)
def test_what_is_written_is_read_back(tmp_path: Path, release: Release) -> None:
    path = tmp_path / "written.csv"
    release.to_frame().to_csv(path, index=False)
    assert same(unbin.read_release(path), release)


def test_bins_in_words_are_bins(tmp_path: Path) -> None:
    text = "block,category,count\nA,0-9,7\nA,10-19,5\nB,0-9,9\nB,10-19,1\n"
    assert not read(tmp_path, text).categories
    assert read(tmp_path, text, category="category").categories == ("0-9", "10-19")


def test_a_column_of_categories_by_name(tmp_path: Path) -> None:
    release = read(tmp_path, VOTES, category="party")
    assert cells(release) == cells(read(tmp_path, TIDY))
    assert "plain table, counts 'votes', block 'precinct', categories 'party'" in release.source
    registered = "precinct,party,votes,total\nA,dem,7,20\nA,rep,5,20\nB,dem,9,9\n"
    assert cells(read(tmp_path, registered, category="party", rest="-"))["A", "-"] == 8


def test_columns_of_a_crossed_table(tmp_path: Path) -> None:
    text = "county,ward,party,votes\nX,1,dem,7\nX,2,dem,5\nY,1,rep,9\n"
    settings = {"block": ["county", "ward"], "category": "party", "count": "votes"}
    release = read(tmp_path, text, **settings)
    assert list(release.blocks) == ["X | 1", "X | 2", "Y | 1"]


def test_frames_are_read_alike() -> None:
    frame = {"precinct": ["A", "A"], "party": ["dem", "rep"], "votes": [7, 5]}
    release = unbin.release.readers.read_frame(frame, category="party")
    assert cells(release) == {("A", "dem"): 7, ("A", "rep"): 5}


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        (TIDY + "A,dem,1\n", {}, "row 5: block 'A': every bin must be listed once, got 'dem' in r"),
        (TIDY + "A,,1\n", {}, "row 5, column 'category': every row needs a category, got an empty"),
        (TIDY + f"A,{'x' * 300},1\n", {}, "row 5, column 'category': categories must have shorter"),
        ("block,category,count\nA,Total,1\nB,Total,2\n", {}, "column 'category': must hold catego"),
        (TIDY, {"category": "party"}, "column 'party' not found, got 'block', 'category', 'count'"),
        ("block,category,count,absent\nA,x,1,no\n", {}, "column 'absent': must be 'zero' or 'str"),
        ("block,category,count,category_code\nA,x,1,0\nA,y,1,0\n", {},
         "column 'category_code': every category must have one code, got 1 codes of 2 categories"),
        ("block,category,count,sex\nA,x,1,f\nA,x,2,m\n", {"dialect": "tidy"},
         "column 'sex': one value must be chosen, got 'f', 'm'; say where={'sex': 'f'}"),
        ("block,lower,upper,count\nA,0,1,2\n", {"rest": "x"},
         "rest: is about categories, got a table of numbers read as 'tidy'; leave it out, or say"),
    ],
)  # fmt: skip
def test_bad_files(tmp_path: Path, text: str, settings: Any, message: str) -> None:
    with pytest.raises(ReadError, match=message):
        read(tmp_path, text, **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"category": 3}, "category: must be the name of a column, got 3; pass text"),
        ({"category": "a", "label": "b"}, "label, category: a table holds bins or categories"),
        ({"absent": "never"}, "absent: "),
        ({"rest": ""}, "rest: must be the name of a category, got ''; pass text"),
    ],
)
def test_bad_options(tmp_path: Path, settings: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        read(tmp_path, TIDY, **settings)
