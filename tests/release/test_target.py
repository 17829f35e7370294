"""Aggregated targets: rows of whole blocks can be selected, values cannot be read."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import _num_samples

from unbin import AggregatedTarget, Release, aggregate

SIZE = {"a": 3, "b": 1, "c": 4, "d": 2}
IDS = np.random.default_rng(0).permutation([name for name, n in SIZE.items() for _ in range(n)])
Y = np.arange(10.0)
RELEASE = aggregate(Y, IDS, bins=3).combine(
    Release.from_quantiles({"block": ["a", "c"], "quantile": [0.5, 1.0], "value": [4.0, 9.0]})
)
TARGET = RELEASE.align(IDS)


def rows_of(*names):
    return np.flatnonzero(np.isin(IDS, names))


def assert_part(part, rows):
    """Check a selection against what the release says about its blocks."""
    assert isinstance(part, AggregatedTarget)
    assert part.blocks.tolist() == IDS[rows].tolist()
    expected = TARGET.release.select(IDS[rows])
    assert part.release.blocks.tolist() == expected.blocks.tolist()
    assert part.release.n.tolist() == [SIZE[name] for name in expected.blocks]
    assert part.release.histogram.count.tolist() == expected.histogram.count.tolist()
    order = part.release.order_statistics
    assert order.rank.tolist() == expected.order_statistics.rank.tolist()
    assert order.value.tolist() == expected.order_statistics.value.tolist()


def test_shape():
    assert TARGET.shape == (10,)
    assert TARGET.ndim == 1
    assert len(TARGET) == 10
    assert TARGET.blocks.tolist() == IDS.tolist()
    assert _num_samples(TARGET) == 10


@settings(max_examples=60, deadline=None)
@given(st.sets(st.sampled_from("abcd"), min_size=1), st.randoms(use_true_random=False))
def test_whole_blocks_in_any_order(names, random):
    rows = rows_of(*names).tolist()
    random.shuffle(rows)
    assert_part(TARGET[rows], rows)
    assert_part(TARGET[np.array(rows)], rows)
    assert_part(TARGET[np.array(rows), ...], rows)
    assert_part(_safe_indexing(TARGET, np.array(rows)), rows)


def test_masks_and_slices():
    rows = rows_of("a", "d")
    mask = np.isin(IDS, ["a", "d"])
    assert_part(TARGET[mask], rows)
    assert_part(TARGET[mask.tolist()], rows)
    assert_part(TARGET[:], np.arange(10))
    assert_part(TARGET[::-1], np.arange(10)[::-1])
    assert_part(TARGET[rows - 10], rows)


def test_slice_of_sorted_blocks():
    ids = np.sort(IDS)
    target = aggregate(Y, ids, bins=2).align(ids)
    assert target[3:8].blocks.tolist() == ["b"] + ["c"] * 4


def test_selecting_twice():
    part = TARGET[rows_of("a", "c", "d")]
    again = part[np.flatnonzero(part.blocks == "c")]
    assert again.blocks.tolist() == ["c"] * 4
    assert again.release.order_statistics.rank.tolist() == [4]


def test_selecting_does_not_change_the_target():
    before = repr(TARGET), TARGET.codes.copy()
    TARGET[rows_of("b")]
    assert repr(TARGET) == before[0]
    np.testing.assert_array_equal(TARGET.codes, before[1])


@pytest.mark.parametrize("key", [99, [99], np.ones(3, bool), "a", 1.5])
def test_impossible_index(key):
    with pytest.raises(IndexError):
        TARGET[key]


def test_indexable():
    _, target = indexable(np.zeros((10, 1)), TARGET)
    assert target is TARGET


def test_repr():
    assert repr(TARGET) == (
        "AggregatedTarget: 10 rows\n"
        "  Release: 4 blocks, 10 people\n"
        "  histogram: 4 blocks, 3 bins, open below and above\n"
        "  order statistics: 2 blocks, 1 per block"
    )
