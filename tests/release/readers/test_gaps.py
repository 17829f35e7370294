"""Bins and quantiles that some blocks lack are said."""

import numpy as np
import pytest

from tests.helpers.paths import FIXTURES
from unbin import read_release

HEAD = "block,lower,upper,count"
FULL = ["a,0,1,3", "a,1,2,4", "a,2,,5", "b,0,1,2", "b,1,2,1", "b,2,,1"]


@pytest.fixture
def notes(tmp_path):
    def read_rows(head, rows, **options):
        path = tmp_path / "t.csv"
        path.write_text("\n".join([head, *rows]) + "\n")
        return read_release(path, **options).notes

    return read_rows


@pytest.mark.parametrize("k", range(6))
def test_a_lost_bin_is_said(notes, k):
    assert notes(HEAD, FULL) == ()
    (note,) = notes(HEAD, FULL[:k] + FULL[k + 1 :])
    assert note == (f"1 block without some of the 3 bins, taken to be empty there: {FULL[k][0]!r}")


def test_blocks_with_bins_of_their_own(notes):
    own = ["a,,1,3", "a,1,2,4", "a,2,,5", "b,,1.5,2", "b,1.5,,9"]
    assert notes(HEAD, own) == ()
    gap = "1 block with a gap between bins, where nobody is taken to be: 'a'"
    assert notes(HEAD, [own[0], *own[2:]]) == (gap,)
    assert notes(HEAD, own[1:]) == ("1 block not open below, as others are: 'a'",)
    assert notes(HEAD, own[:4]) == ("1 block not open above, as others are: 'b'",)
    assert notes(HEAD, ["a,0,1,3", "a,2,3,4", "a,3,4,4"]) == (gap,)


def test_whole_numbers_that_follow_each_other_leave_no_gap(notes):
    assert notes(HEAD, ["a,0,0,3", "a,1,1,4"]) == ()
    assert notes(HEAD, ["a,0,0,3", "a,0,4,4", "a,5,5,1", "a,5,,2"]) == ()
    assert notes(HEAD, ["a,0,4,3", "a,5,9,4", "a,10,,4"], closed="both") == ()
    assert len(notes(HEAD, ["a,0,4,3", "a,6,9,4"], closed="both")) == 1
    assert len(notes(HEAD, ["a,0,0,3", "a,2,2,4"])) == 1


def test_lost_quantiles_are_said(notes):
    rows = [f"{b},{q},{q * 10}" for b in "ab" for q in (0.25, 0.5, 0.75)]
    assert notes("block,quantile,value", rows) == ()
    assert notes("block,quantile,value", rows[:-1]) == (
        "1 block without some of the 3 quantiles: 'b'",
    )


@pytest.mark.parametrize("name", ["wonder_deaths.txt", "acs_b19001.csv", "cms_providers.csv"])
def test_whole_tables_have_no_such_note(name):
    release = read_release(FIXTURES / name)
    assert len(set(np.diff(release.histogram.start))) == 1
    assert not [note for note in release.notes if "gap" in note or "without some" in note]
