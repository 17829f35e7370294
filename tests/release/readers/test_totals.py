"""Blocks that are totals of others: by arithmetic, against all subsets; chance is not mistaken."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbin import read_release
from unbin.exceptions import ReadWarning
from unbin.release.readers import totals
from unbin.release.readers.totals import Counts, find_totals, named_total

RNG = np.random.default_rng(0)


def exact(counts):
    counts = np.asarray(counts, dtype=float)
    return Counts(counts, counts)


def brute_force(counts):
    """Mark blocks that are the sum of two or more blocks just before or after, or of all others."""
    counts = np.asarray(counts)
    found = np.zeros(len(counts), dtype=bool)
    filled = counts.sum(axis=1) > 0
    for b in np.flatnonzero(filled):
        others = np.delete(np.arange(len(counts)), b)
        runs = [others]
        runs += [np.arange(b + 1, stop) for stop in range(b + 2, len(counts) + 1)]
        runs += [np.arange(start, b) for start in range(b)]
        found[b] = any(
            filled[run].sum() >= 2 and (counts[run].sum(axis=0) == counts[b]).all() for run in runs
        )
    return found


@st.composite
def tables(draw):
    """Return counts so large that no sum is met by chance, some of them totals of runs."""
    seed, n = draw(st.integers(0, 2**32)), draw(st.integers(2, 7))
    rng = np.random.default_rng(seed)
    rows = list(rng.integers(1_000, 1_000_000, size=(n, 3)))
    for _ in range(draw(st.integers(0, 2))):
        size = draw(st.integers(2, len(rows)))
        start = draw(st.integers(0, len(rows) - size))
        total = np.sum(rows[start : start + size], axis=0)
        rows.insert(start if draw(st.booleans()) else start + size, total)
    return np.array(rows)


@settings(deadline=None, max_examples=200)
@given(tables())
def test_totals_are_those_of_brute_force(counts):
    sure, unsure = find_totals(exact(counts))
    # level by level, as the totals of one level hide those of the next
    left, wanted = np.arange(len(counts)), np.zeros(len(counts), dtype=bool)
    while len(left) > 2:
        rest = np.array([np.array_equal(counts[left].sum(axis=0), 2 * row) for row in counts[left]])
        some = rest if rest.any() else brute_force(counts[left])
        if not some.any():
            break
        wanted[left[some]] = True
        left = left[~some]
    assert sure.tolist() == wanted.tolist()
    assert not unsure.any()


def test_two_levels():
    counties = RNG.integers(100, 1000, size=(6, 4))
    states = [counties[:2].sum(axis=0), counties[2:5].sum(axis=0)]
    country = counties[:5].sum(axis=0)
    rows = [country, states[0], *counties[:2], states[1], *counties[2:5]]
    sure, _ = find_totals(exact(rows))
    assert sure.tolist() == [True, True, False, False, True, False, False, False]
    below = [*counties[:2], states[0], *counties[2:5], states[1], country]
    assert find_totals(exact(below))[0].tolist() == [
        False, False, True, False, False, False, True, True,
    ]  # fmt: skip


def test_small_counts_agree_by_chance(monkeypatch):
    # 3 = 1 + 2 and 1 = 1 + 0 in two bins: no evidence
    rows = [[3, 1], [1, 1], [2, 0], [4, 7], [9, 2]]
    assert not find_totals(exact(rows))[0].any()
    monkeypatch.setattr(totals, "CHANCE", 1e9)
    assert find_totals(exact(rows))[0].tolist() == [True, False, False, False, False]


def test_a_doubtful_total_is_said(write):
    rows = ["a,0,1,1", "a,1,2,1", "b,0,1,2", "b,1,2,0", "c,0,1,3", "c,1,2,1"]
    path = write("block,lower,upper,count\n" + "\n".join(rows) + "\n")
    with pytest.warns(ReadWarning, match="block 'c' counts what all others count together"):
        release = read_release(path)
    assert release.blocks.tolist() == ["a", "b", "c"]


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32))
def test_random_tables_have_no_totals(seed):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(rng.choice([3, 20, 400]), size=(rng.integers(2, 60), rng.integers(2, 9)))
    sure, _ = find_totals(exact(counts))
    assert not sure.any()


def test_suppressed_parts():
    low = np.array([[1000, 0, 4000], [3000, 0, 7000], [4020, 9, 11000]], dtype=float)
    high = np.array([[1000, 9, 4000], [3020, 9, 7000], [4020, 9, 11000]], dtype=float)
    assert find_totals(Counts(low, high))[0].tolist() == [False, False, True]
    low[2, 0] = high[2, 0] = 4030  # more than the parts can have
    assert not find_totals(Counts(low, high))[0].any()
    low[2, 0] = high[2, 0] = 4020
    high[0] = np.inf
    assert not find_totals(Counts(low, high))[0].any()  # what nothing bounds proves nothing


def test_nobody_and_nothing():
    assert not find_totals(exact(np.zeros((4, 2))))[0].any()
    assert not find_totals(exact([[500, 300]]))[0].any()
    twins = [[500, 300], [500, 300]]
    assert not find_totals(exact(twins))[0].any()
    beside = [[500, 300], [0, 0], [500, 300]]
    assert not find_totals(exact(beside))[0].any()


@pytest.mark.parametrize("order", list(itertools.permutations(range(3)))[:3])
def test_a_total_of_all_is_found_wherever_it_is(order):
    parts = RNG.integers(50, 500, size=(2, 5))
    rows = np.vstack([parts, parts.sum(axis=0)])[list(order)]
    assert find_totals(exact(rows))[0].tolist() == [k == 2 for k in order]


def test_many_blocks_in_seconds():
    counts = RNG.poisson(30, size=(100_000, 16))
    for k in range(0, 100_000, 1000):
        counts[k] = counts[k + 1 : k + 1000].sum(axis=0)
    began = time.process_time()
    sure, _ = find_totals(exact(counts))
    assert np.flatnonzero(sure).tolist() == list(range(0, 100_000, 1000))
    assert time.process_time() - began < 20


def test_names():
    yes = ["Total", "TOTAL:", "All", "all areas", "Grand total", "Alabama total", "Overall"]
    no = ["Total Care Clinic", "Allen County", "", "England", "X"]
    assert [named_total(name) for name in yes + no] == [True] * len(yes) + [False] * len(no)


def test_what_is_left_out_is_said_and_may_be_kept(write):
    rows = [(b, *RNG.integers(200, 900, size=3)) for b in ("England", "x", "y", "z")]
    rows[0] = ("England", *np.sum([row[1:] for row in rows[1:]], axis=0))
    text = "block,lower,upper,count\n" + "".join(
        f"{b},{k},{k + 1},{count}\n" for b, *counts in rows for k, count in enumerate(counts)
    )
    with pytest.warns(ReadWarning, match="left out, counting what others .*: 'England'"):
        release = read_release(write(text))
    assert release.blocks.tolist() == ["x", "y", "z"]
    (note,) = release.notes
    assert note.endswith("together: 'England'; say totals='keep' to keep")
    kept = read_release(write(text), totals="keep")
    assert (kept.blocks.tolist(), kept.notes) == (["England", "x", "y", "z"], ())
    named = read_release(write(text.replace("England", "Total")))
    assert named.notes == ("1 block left out, totals of others: 'Total'",)
