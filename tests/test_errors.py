"""Every complaint: its type, its words, and that nothing changed because of it.

Messages read "where: what, got what; what to do".
"""

# ruff: noqa: E501

import copy
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold, cross_val_score

from unbin import (
    AggregatedGLM,
    AggregatedTarget,
    BlockKFold,
    Release,
    aggregate,
    cross_validate,
    join,
    permutation_test,
)
from unbin.exceptions import (
    AggregatedTargetError,
    AlignmentError,
    BinError,
    BlockError,
    CountError,
    DomainError,
    OrderStatisticError,
    ParameterError,
    ReleaseError,
    SplitBlockError,
    UnbinError,
)

NAN, INF = float("nan"), float("inf")


def glm(family="gaussian", method="matching", **settings):
    return AggregatedGLM(family, method, **settings)


def histogram(*, closed="right", **changed):
    """Two blocks of 3 and 4 people; a changed column makes it bad."""
    table = {
        "block": ["a", "a", "b", "b"],
        "lower": [None, 0.0, None, 0.0],
        "upper": [0.0, None, 0.0, None],
        "count": [1, 2, 3, 1],
    }
    keywords = {"percent": "percent"} if "percent" in changed else {}
    keywords |= {"n": "n"} if "n" in changed else {}
    return Release.from_histogram(table | changed, closed=closed, **keywords)


def quantiles(**changed):
    table = {"block": ["a", "a"], "quantile": [0.25, 0.5], "value": [1.0, 2.0]}
    keywords = {"rank": "rank"} if "rank" in changed else {}
    keywords |= {"n": "n"} if "n" in changed else {}
    return Release.from_quantiles(table | changed, **keywords)


def one_quantile(value, quantile=0.5, block="a"):
    return quantiles(block=[block], quantile=[quantile], value=[value])


def ranks(rank, value, n=None):
    columns = {"block": ["a"] * len(rank), "rank": rank, "value": value}
    return quantiles(**columns) if n is None else quantiles(**columns, n=[n] * len(rank))


def cumulative(**changed):
    table = {"block": ["a", "a"], "value": [0.0, INF], "count": [1, 3]}
    closed = changed.pop("closed", "right")
    return Release.from_cumulative(table | changed, closed=closed)


READING = [
    # -- counts
    ("count-nan", lambda: histogram(count=[1, NAN, 3, 1]), CountError, "block 'a': the count is missing, got nan in row 1 of column 'count'; correct it"),
    ("count-null", lambda: histogram(count=[1, 2, None, 1]), CountError, "block 'b': the count is missing, got nan in row 2"),
    ("count-inf", lambda: histogram(count=[1, INF, 3, 1]), CountError, "block 'a': the count is too large, got inf"),
    ("count-huge", lambda: histogram(count=[1, 2, 1e16, 1]), CountError, r"block 'b': the count is too large, got 1e\+16 in row 2"),
    ("count-negative", lambda: histogram(count=[1, -2, 3, 1]), CountError, "block 'a': the count is negative, got -2 in row 1"),
    ("count-minus-inf", lambda: histogram(count=[1, -INF, 3, 1]), CountError, "block 'a': the count is negative, got -inf"),
    ("count-fractional", lambda: histogram(count=[1, 2, 3, 0.5]), CountError, "block 'b': the count is not a whole number, got 0.5 in row 3"),
    ("count-text", lambda: histogram(count=["1", "2", "3", "x"]), ReleaseError, r"column 'count': must hold numbers, got <U1; convert them"),
    ("count-short", lambda: histogram(count=[1, 2]), ReleaseError, "column 'count': must be as long as the block ids, got 2 values for 4 rows; pass"),
    # -- percentages and totals
    ("percent-sum", lambda: histogram(percent=[0.4, 0.6, 0.5, 0.5], n=[5] * 4), CountError, "block 'a': percentages must add up to 100, got 1; multiply shares of 1 by 100"),
    ("percent-sum-over", lambda: histogram(percent=[60, 40, 60, 50], n=[5] * 4), CountError, "block 'b': percentages must add up to 100, got 110"),
    ("percent-all-zero", lambda: Release.from_histogram({"lower": np.arange(300.0), "upper": np.arange(1.0, 301), "percent": np.zeros(300), "n": np.full(300, 9)}, block=None, percent="percent", n="n"), CountError, "block 'all': percentages must add up to 100, got 0"),
    ("percent-outside", lambda: histogram(percent=[50, 50, 120, -20], n=[5] * 4), CountError, "block 'b': percentages lie between 0 and 100, got 120; correct it"),
    ("percent-negative", lambda: histogram(percent=[-1, 101, 50, 50], n=[5] * 4), CountError, "block 'a': percentages lie between 0 and 100, got -1;"),
    ("percent-nan", lambda: histogram(percent=[NAN, 100, 50, 50], n=[5] * 4), CountError, "block 'a': percentages lie between 0 and 100, got nan;"),
    ("percent-without-n", lambda: histogram(percent=[50] * 4), CountError, r"column 'percent': percentages need the number of people, got none; pass n=\.\.\."),
    ("n-inconsistent", lambda: histogram(n=[3, 4, 4, 4]), CountError, "block 'a': column 'n' must hold one number of people, at least 1, got 3 and 4; correct it"),
    ("n-zero", lambda: histogram(n=[3, 3, 0, 0]), CountError, "block 'b': column 'n' must hold one number of people, at least 1, got 0;"),
    ("n-nan", lambda: histogram(n=[3, 3, NAN, 4]), CountError, "block 'b': the count is missing, got nan in row 2 of column 'n'"),
    ("n-disagrees", lambda: histogram(n=[3, 3, 7, 7]), CountError, "block 'b': the bins must count the people of column 'n', got 4 in the bins and 7 in the column; correct one"),
    # -- bins
    ("edges-backwards", lambda: histogram(lower=[None, 5, None, 0], upper=[0, 1, 0, None]), BinError, "block 'a': edges must increase, got lower 5 and upper 1; swap"),
    ("edges-lower-inf", lambda: histogram(lower=[None, INF, None, 0]), BinError, "block 'a': edges must increase, got lower inf and upper inf"),
    ("edges-upper-minus-inf", lambda: histogram(upper=[-INF, None, 0, None]), BinError, "block 'a': edges must increase, got lower -inf and upper -inf"),
    ("bins-overlap", lambda: histogram(upper=[2, None, 0, None]), BinError, r"block 'a': bins must not overlap, got \(-inf, 2\] and \(0, inf\]; correct the edges"),
    ("bins-overlap-left", lambda: histogram(upper=[0, None, 2, None], closed="left"), BinError, r"block 'b': bins must not overlap, got \[-inf, 2\) and \[0, inf\)"),
    ("bins-overlap-both", lambda: histogram(lower=[0, 5, 0, 5], upper=[5, 9, 4, 9], closed="both"), BinError, r"block 'a': bins must not overlap, got \(-1, 5\] and \(4, 9\]"),
    ("bins-twice", lambda: histogram(lower=[None, None, None, 0], upper=[0, 0, 0, None]), BinError, r"block 'a': every bin must be listed once, got \(-inf, 0\] twice; add the counts"),
    ("edges-text", lambda: histogram(lower=["low", "high", "low", "high"]), ReleaseError, "column 'lower': must hold numbers, got <U4"),
    ("closed-unknown", lambda: histogram(closed="neither"), ParameterError, "closed: unknown, got 'neither'; use one of 'right', 'left', 'both'"),
    ("closed-none", lambda: histogram(closed=None), ParameterError, "closed: unknown, got None; use one of"),
    ("closed-both-fractional", lambda: histogram(upper=[0.5, None, 0, None], closed="both"), BinError, "closed='both': edges must be whole numbers, got 0.5; say closed='right'"),
    # -- order statistics
    ("quantile-percentile", lambda: quantiles(quantile=[25, 50]), OrderStatisticError, "block 'a': quantiles lie between 0 and 1, got 25; divide percentiles by 100"),
    ("quantile-negative", lambda: quantiles(quantile=[-0.1, 0.5]), OrderStatisticError, "block 'a': quantiles lie between 0 and 1, got -0.1"),
    ("quantile-nan", lambda: quantiles(quantile=[NAN, 0.5]), OrderStatisticError, "block 'a': quantiles lie between 0 and 1, got nan"),
    ("rank-zero", lambda: ranks([0, 1], [1.0, 2.0]), OrderStatisticError, r"block 'a': ranks are whole numbers from 1 \(the smallest value\), got 0; count from 1"),
    ("rank-negative", lambda: ranks([-3], [1.0]), OrderStatisticError, "block 'a': ranks are whole numbers from 1 .*, got -3"),
    ("rank-fractional", lambda: ranks([1.5], [1.0]), OrderStatisticError, "block 'a': ranks are whole numbers from 1 .*, got 1.5"),
    ("rank-nan", lambda: ranks([NAN], [1.0]), OrderStatisticError, "block 'a': ranks are whole numbers from 1 .*, got nan"),
    ("rank-huge", lambda: ranks([1e300], [1.0]), OrderStatisticError, r"block 'a': ranks are whole numbers from 1 .*, got 1e\+300"),
    ("rank-above-n", lambda: ranks([2, 9], [1.0, 2.0], n=8), OrderStatisticError, "block 'a': ranks go up to the number of people, got rank 9 of 8 people; correct"),
    ("rank-above-rows", lambda: ranks([9], [1.0]).align(["a"] * 8), OrderStatisticError, "block 'a': ranks go up to the number of people, got rank 9 of 8 people"),
    ("quantiles-decrease", lambda: quantiles(value=[2.0, 1.0]), OrderStatisticError, "block 'a': order statistics must not decrease .*, got 2 at quantile 0.25 and 1 at quantile 0.5; check which"),
    ("ranks-decrease", lambda: ranks([1, 2, 3], [0.0, 5.0, 4.0]), OrderStatisticError, "block 'a': .*, got 5 at rank 2 and 4 at rank 3; check"),
    ("rank-two-values", lambda: ranks([2, 2], [1.0, 3.0]), OrderStatisticError, "block 'a': order statistics .* have one value, got 3 at rank 2 and 1 at rank 2"),
    ("quantile-two-values", lambda: quantiles(quantile=[0.5, 0.5]), OrderStatisticError, "block 'a': .*, got 2 at quantile 0.5 and 1 at quantile 0.5"),
    ("quantiles-one-rank", lambda: quantiles(quantile=[0.5, 0.51]).align(["a"] * 3), OrderStatisticError, "block 'a': .*, got 2 at rank 2 and 1 at rank 2"),
    ("quantiles-one-rank-table", lambda: quantiles(quantile=[0.5, 0.51], n=[3, 3]).to_histogram(), OrderStatisticError, "block 'a': .*, got 2 at rank 2 and 1 at rank 2"),
    ("value-inf", lambda: quantiles(value=[1.0, INF]), OrderStatisticError, "block 'a': column 'value' must hold finite values, got inf in row 1; leave out"),
    ("value-nan", lambda: quantiles(value=[NAN, 1.0]), OrderStatisticError, "block 'a': column 'value' must hold finite values, got nan in row 0"),
    ("values-nan", lambda: Release.from_values({"block": ["a", "b"], "value": [1.0, None]}), OrderStatisticError, "block 'b': column 'value' must hold finite values, got nan in row 1"),
    # -- cumulative distributions
    ("cumulative-falls", lambda: cumulative(count=[3, 1]), CountError, "block 'a': cumulative counts must not decrease with the value, got a step of -2; check which"),
    ("cumulative-nan-edge", lambda: cumulative(value=[0.0, NAN]), BinError, "block 'a': column 'value' must hold edges, got a missing one; say inf"),
    ("cumulative-nan-count", lambda: cumulative(count=[1, NAN]), CountError, "block 'a': the count is missing, got nan in row 1"),
    ("cumulative-only-zero", lambda: cumulative(block=["a", "b"], count=[1, 0]), CountError, "block 'b': the last cumulative count is the number of people, got a single point with count 0; add"),
    ("cumulative-closed", lambda: cumulative(closed="both"), ParameterError, "closed: unknown, got 'both'; use one of 'right', 'left'"),
    ("cumulative-twice", lambda: cumulative(value=[5.0, 5.0]), BinError, r"block 'a': every value has one cumulative count, got 5 twice; keep one, or pass bins with equal edges to from_histogram\(\)"),
    # -- intervals of counts
    ("count-above-its-interval", lambda: Release.from_histogram({"block": ["a", "a"], "lower": [None, 1], "upper": [1, None], "count": [30, None], "count_low": [1, 1], "count_high": [10, 10]}, count_low="count_low", count_high="count_high"), CountError, "block 'a': a count lies in its interval, got 30 outside 1 to 10 in row 0; correct one of them, or leave the count out"),
    ("count-below-its-interval", lambda: Release.from_histogram({"block": ["a"], "lower": [None], "upper": [None], "count": [0], "count_low": [1], "count_high": [10]}, count_low="count_low", count_high="count_high"), CountError, "block 'a': a count lies in its interval, got 0 outside 1 to 10 in row 0"),
    # -- frames
    ("empty-dict-of-lists", lambda: histogram(block=[], lower=[], upper=[], count=[]), ReleaseError, "release: nothing was published, got a table with 0 rows; pass one row"),
    ("empty-pandas", lambda: Release.from_values(pd.DataFrame({"block": [], "value": []})), ReleaseError, "release: nothing was published, got a table with 0 rows"),
    ("empty-dict", lambda: Release.from_values({}, block=None), ReleaseError, "column 'value': not in the frame, got no columns; say value="),
    ("column-missing", lambda: Release.from_histogram(pd.DataFrame({"county": ["a"], "lo": [0]})), ReleaseError, r"column 'block': not in the frame, got 'county', 'lo'; say block=\.\.\."),
    ("column-missing-polars", lambda: Release.from_values(pl.DataFrame({"block": ["a"], "x": [0]})), ReleaseError, r"column 'value': not in the frame, got 'block', 'x'; say value=\.\.\."),
    ("column-missing-no-block", lambda: Release.from_values({"x": [0]}, block=None), ReleaseError, "column 'value': not in the frame, got 'x'; say value="),
    ("not-a-frame", lambda: Release.from_histogram([1, 2]), ReleaseError, "frame: cannot be read, got list; pass a pandas or polars frame"),
    ("not-a-frame-no-block", lambda: Release.from_histogram([1, 2], block=None), ReleaseError, "frame: cannot be read, got list; pass"),
    ("lazy-frame", lambda: Release.from_histogram(pl.LazyFrame({"block": ["a"]})), ReleaseError, "frame: cannot be read, got LazyFrame; pass"),
    ("column-twice", lambda: Release.from_values(pd.DataFrame([["a", "b", 1.0]], columns=["block", "block", "value"])), ReleaseError, "frame: every column must have a name of its own, got 'block' twice; rename one"),
    ("column-ragged", lambda: histogram(count=[[1], 2, 3, 1]), ReleaseError, "column 'count': must hold one value per row, got rows of different length; correct them"),
    ("column-of-ragged-lists", lambda: Release.from_values(pd.DataFrame({"block": ["a", "b"], "value": [[1.0], [1.0, 2.0]]})), ReleaseError, "column 'value': must hold one value per row, got rows of different length"),
    ("column-of-lists", lambda: Release.from_values(pd.DataFrame({"block": ["a", "b"], "value": [[1.0, 2.0], [1.0, 2.0]]})), ReleaseError, r"column 'value': must be one-dimensional, got shape \(2, 2\); pass"),
    ("column-2d", lambda: histogram(count=[[1], [2], [3], [1]]), ReleaseError, r"column 'count': must be one-dimensional, got shape \(4, 1\); pass"),
    # -- block ids
    ("ids-mixed-pandas", lambda: Release.from_values(pd.DataFrame({"block": pd.Series(["05001", 5001], dtype=object), "value": [1, 2]})), BlockError, 'column \'block\': block ids mix types, got int, str; read the whole column as text .*"05001"'),
    ("ids-mixed-list", lambda: Release.from_values({"block": ["05001", 5001], "value": [1, 2]}), BlockError, "column 'block': block ids mix types, got int, str; read"),
    ("ids-float", lambda: histogram(block=[1.5, 1.5, 2, 2]), BlockError, "column 'block': block ids must be text or whole numbers, got 1.5; read the column as text"),
    ("ids-inf", lambda: histogram(block=[1, 1, INF, INF]), BlockError, "column 'block': block ids must be text or whole numbers, got inf"),
    ("ids-float-huge", lambda: histogram(block=[1e17, 1e17, 2, 2]), BlockError, r"block ids must be text or whole numbers, got 1e\+17; read the column as text"),
    ("ids-objects", lambda: histogram(block=[1j, 1j, 2j, 2j]), BlockError, "column 'block': block ids must be text or whole numbers, got complex"),
    ("ids-ragged", lambda: Release.from_values({"block": [["a"], "b"], "value": [1, 2]}), ReleaseError, "column 'block': must hold one value per row, got rows of different length"),
    ("ids-arrays", lambda: Release.from_values(pd.DataFrame({"block": [np.zeros(2), np.ones(3)], "value": [1, 2]})), BlockError, "column 'block': block ids must be text or whole numbers, got ndarray"),
    ("ids-none", lambda: histogram(block=["a", None, "b", None]), BlockError, "column 'block': every row needs a block id, got 2 missing, the first in row 1; fill or drop"),
    ("ids-nan", lambda: histogram(block=[1.0, 1.0, NAN, 2.0]), BlockError, "column 'block': every row needs a block id, got 1 missing, the first in row 2"),
    ("ids-nan-in-text", lambda: histogram(block=["a", "a", "b", NAN]), BlockError, "column 'block': every row needs a block id, got 1 missing, the first in row 3"),
    ("ids-pandas-na", lambda: Release.from_values(pd.DataFrame({"block": pd.array([1, pd.NA], dtype="Int64"), "value": [1, 2]})), BlockError, "column 'block': every row needs a block id, got 1 missing, the first in row 1"),
    ("ids-pandas-na-object", lambda: Release.from_values(pd.DataFrame({"block": pd.Series(["a", pd.NA], dtype=object), "value": [1, 2]})), BlockError, "column 'block': every row needs a block id, got 1 missing, the first in row 1"),
    ("ids-polars-null", lambda: Release.from_values(pl.DataFrame({"block": ["a", None], "value": [1, 2]})), BlockError, "column 'block': every row needs a block id, got 1 missing, the first in row 1"),
    ("ids-nat", lambda: Release.from_values({"block": np.array(["2020-01-01", "NaT"], "M8[D]"), "value": [1, 2]}), BlockError, "column 'block': every row needs a block id, got 1 missing, the first in row 1"),
    ("ids-empty-text", lambda: histogram(block=["a", "a", "", "b"]), BlockError, "column 'block': every row needs a block id, got 1 missing, the first in row 2"),
    ("ids-2d", lambda: histogram().align([["a"], ["b"]]), BlockError, r"blocks: block ids must be one-dimensional, got shape \(2, 1\); pass one id per row"),
    # -- combine and other spellings
    ("combine-two-histograms", lambda: histogram().combine(histogram()), ReleaseError, "block 'a': may have one histogram, got one in both releases; keep one"),
    ("combine-n", lambda: histogram().combine(quantiles(n=[5, 5])), CountError, "block 'a': both releases must count the same people, got 3 and 5; correct one"),
    ("combine-n-zero", lambda: histogram(count=[0, 0, 3, 1]).combine(quantiles(n=[5, 5])), CountError, "block 'a': both releases must count the same people, got 0 and 5"),
    ("combine-closed", lambda: histogram().combine(histogram(block=["c", "c", "d", "d"], closed="left")), ReleaseError, "combine: histograms must be closed on one side, got closed='right' and 'left'; read both"),
    ("combine-values", lambda: one_quantile(1.0).combine(one_quantile(2.0)), OrderStatisticError, "block 'a': .*, got 2 at quantile 0.5 and 1 at quantile 0.5"),
    ("combine-decrease", lambda: one_quantile(5.0, 0.1).combine(one_quantile(2.0, 0.9)), OrderStatisticError, "block 'a': order statistics must not decrease .*, got 5 at quantile 0.1 and 2 at quantile 0.9"),
    ("combine-rank-above-n", lambda: ranks([9], [1.0]).combine(histogram()), OrderStatisticError, "block 'a': ranks go up to the number of people, got rank 9 of 3 people"),
    ("combine-rank-and-quantile", lambda: ranks([1], [5.0]).combine(one_quantile(2.0, 0.9)).align(["a"] * 4), OrderStatisticError, "block 'a': .*, got 5 at rank 1 and 2 at rank 4"),
    ("histogram-without-n", lambda: quantiles().to_histogram(), ReleaseError, "block 'a': the number of people must be known, got order statistics without it; read them with n="),
    ("cumulative-without-n", lambda: quantiles().to_cumulative(), ReleaseError, "block 'a': the number of people must be known"),
    ("order-with-empty-bin", lambda: histogram(count=[0, 3, 3, 1]).to_order_statistics(), BinError, "to_order_statistics: every bin needs an order statistic, got a bin without people.*; merge it"),
    ("order-with-empty-last-bin", lambda: histogram(count=[1, 2, 4, 0]).to_order_statistics(), BinError, "to_order_statistics: every bin needs an order statistic"),
    ("order-with-gap", lambda: histogram(lower=[None, 1, None, 0]).to_order_statistics(), BinError, "to_order_statistics: .* a gap"),
    ("order-of-order", lambda: quantiles(n=[4, 4]).to_order_statistics(), ReleaseError, r"to_order_statistics: the release must hold histograms only, got order statistics too; spell"),
    ("histogram-of-both", lambda: histogram().combine(quantiles()).to_histogram(), ReleaseError, r"to_histogram: the release must hold order statistics only, got a histogram too; spell"),
    ("cumulative-of-both", lambda: histogram().combine(quantiles()).to_cumulative(), ReleaseError, "to_histogram: the release must hold order statistics only"),
    ("select-unknown", lambda: histogram().select(["z"]), AlignmentError, "block 'z': must be in the release, got 1 block in X that is not; the release has 'a', 'b'; check the ids"),
    ("select-nothing", lambda: histogram().select([]), ReleaseError, "blocks: must name blocks to keep, got none; pass"),
    # -- aggregate
    ("aggregate-nan", lambda: aggregate([1.0, NAN]), ReleaseError, "y: must be finite to be counted, got NaN or inf; drop those rows"),
    ("aggregate-empty", lambda: aggregate([]), ReleaseError, "y: must hold targets to count, got 0 values; pass"),
    ("aggregate-ragged", lambda: aggregate([[1.0], [1.0, 2.0]]), ReleaseError, "y: must hold one value per row, got rows of different length; correct them"),
    ("aggregate-text", lambda: aggregate(["1", "2"]), ReleaseError, "y: must hold numbers, got <U1; convert them"),
    ("aggregate-outside", lambda: aggregate([0.0, 1.0, 7.0], bins=[-1, 2, 3]), BinError, "bins: every value of y must lie between the edges, got 1 outside, for example 7; open"),
    ("aggregate-lowest-edge", lambda: aggregate([0.0, 1.0], bins=[0, 1]), BinError, "bins: .* got 1 outside, for example 0;"),
    ("aggregate-bins-zero", lambda: aggregate([1.0], bins=0), BinError, "bins: must be a whole number of at least 1, or edges, got 0; pass"),
    ("aggregate-bins-half", lambda: aggregate([1.0], bins=2.5), BinError, "bins: must be a whole number of at least 1, or edges, got 2.5"),
    ("aggregate-bins-inf", lambda: aggregate([1.0], bins=INF), BinError, "bins: must be a whole number of at least 1, or edges, got inf"),
    ("aggregate-bins-bool", lambda: aggregate([1.0], bins=True), BinError, "bins: must be a whole number of at least 1, or edges, got True"),
    ("aggregate-bins-none", lambda: aggregate([1.0], bins=None), BinError, "bins: must be a whole number of at least 1, or edges, got None"),
    ("aggregate-bins-text", lambda: aggregate([1.0], bins="auto"), BinError, "bins: must be a whole number of at least 1, or edges, got 'auto'"),
    ("aggregate-bins-decrease", lambda: aggregate([1.0], bins=[3, 2]), BinError, r"bins: edges must increase and be at least 2, got \[3.0, 2.0\]; sort"),
    ("aggregate-bins-one-edge", lambda: aggregate([1.0], bins=[3]), BinError, r"bins: edges must increase and be at least 2, got \[3.0\]"),
    ("aggregate-blocks-length", lambda: aggregate([1.0, 2.0], ["a"]), AlignmentError, "blocks: must be as long as y, got 1 ids for 2 values; pass the block"),
    # -- align
    ("align-totals", lambda: histogram().align(["a"] * 3 + ["b"] * 5), AlignmentError, r"block 'b': the release counts 4 people, X has 5 rows \(1 of 2 blocks differ\); the release counts fewer"),
    ("align-totals-zero", lambda: histogram(count=[0, 0, 3, 1]).align(["a"] * 2 + ["b"] * 4), AlignmentError, "block 'a': the release counts 0 people, X has 2 rows"),
    ("align-unknown", lambda: histogram().align(["a"] * 3 + ["c"] * 4), AlignmentError, "block 'c': must be in the release, got 1 block in X that is not; the release has 'a', 'b'; check the ids"),
    ("align-unknown-many", lambda: aggregate(np.arange(5.0), list("abcde")).align(["x", "y"]), AlignmentError, "block 'x': must be in the release, got 2 blocks in X that are not; the release has 'a', 'b', 'c', …; check"),
    ("align-no-rows-of-block", lambda: histogram().align(["a"] * 3), AlignmentError, r"block 'b': released, but no row of X is in it, got 1 such block; select\(\) the blocks of X"),
    ("align-zero-lost-in-x", lambda: one_quantile(1.0, block="05001").align([5001] * 3), AlignmentError, r"block '5001': .*; the release has '05001': a leading zero was lost; .*zfill\(5\)"),
    ("align-zero-lost-in-release", lambda: one_quantile(1.0, block=5001).align(["05001"] * 3), AlignmentError, r"block '05001': .*; the release has '5001': a leading zero was lost; .*zfill\(5\)"),
    ("align-nothing-several", lambda: histogram().align(), AlignmentError, "blocks: the release has 2 blocks, got no block ids; pass the block of each row of X"),
    ("align-nothing-unknown-size", lambda: one_quantile(1.0).align(), AlignmentError, "blocks: .*, got no block ids; pass the block of each row of X"),
    ("align-empty", lambda: histogram().align([]), AlignmentError, "blocks: must name the block of each row, got 0 ids; pass"),
    ("align-ragged", lambda: histogram().align([["a"], "b"]), BlockError, "blocks: must hold one value per row, got rows of different length; correct"),
    ("align-missing-id", lambda: histogram().align(["a", None]), BlockError, "blocks: every row needs a block id, got 1 missing, the first in row 1; fill"),
    # -- combined, or spelt otherwise
    ("combine-table", lambda: histogram().combine({"block": ["a"]}), ParameterError, "combine: must be of class Release, got dict; pass a release, before it is aligned"),
    ("combine-target", lambda: histogram().combine(target()), ParameterError, "combine: must be of class Release, got AggregatedTarget; pass"),
    ("means-to-order", lambda: means().to_order_statistics(), ReleaseError, r"to_order_statistics: needs counts or order statistics, got means alone; use to_columns\(\)"),
    ("means-to-cumulative", lambda: means().to_cumulative(), ReleaseError, "to_cumulative: needs counts or order statistics, got means alone"),
    ("means-to-histogram", lambda: means().to_histogram(), ReleaseError, "to_histogram: needs counts or order statistics, got means alone"),
]  # fmt: skip


def means():
    return Release.from_means({"block": ["a", "b"], "mean": [1.0, 2.0], "n": [3, 4]}, n="n")


def target():
    return histogram().align(list("aaabbbb"))


TARGET = [
    ("split-block", lambda: target()[:2], SplitBlockError, "block 'a': its statistics are about all of its 3 rows, got 2 of them; split whole blocks with unbin.BlockKFold"),
    ("split-mask", lambda: target()[np.array([1, 1, 1, 1, 0, 0, 0], bool)], SplitBlockError, "block 'b': .* 4 rows, got 1 of them"),
    ("row-twice", lambda: target()[[0, 0, 1, 2]], SplitBlockError, "rows: an aggregated target has each row once, got 1 repeated; select"),
    ("one-index", lambda: target()[0], SplitBlockError, "rows: an aggregated target has no value of a single row, got one index; select"),
    ("no-rows-slice", lambda: target()[:0], SplitBlockError, "rows: an aggregated target needs at least one block, got 0 rows; select"),
    ("no-rows-list", lambda: target()[[]], SplitBlockError, "rows: an aggregated target needs at least one block, got 0 rows"),
    ("asarray", lambda: np.asarray(target()), AggregatedTargetError, r"aggregated target: it has no value per row, .*; score with model\.score \(scoring=None\), or call model\.impute"),
    ("asarray-float", lambda: np.asarray(target(), dtype=float), AggregatedTargetError, "aggregated target: it has no value per row"),
    ("iterate", lambda: list(target()), AggregatedTargetError, "aggregated target: it has no value per row"),
    ("mean", lambda: np.mean(target()), AggregatedTargetError, "aggregated target: it has no value per row"),
    ("target-of-text", lambda: AggregatedTarget("x", np.zeros(1, int)), ParameterError, r"release: must be a release, got str; use release\.align\(blocks\)"),
    ("target-without-codes", lambda: AggregatedTarget(histogram(), None), ParameterError, r"codes: must be a one-dimensional array of whole numbers, got NoneType; use release\.align"),
    ("target-half-codes", lambda: AggregatedTarget(histogram(), np.full(7, 0.5)), ParameterError, "codes: must be a one-dimensional array of whole numbers, got float64; use"),
    ("target-of-names", lambda: AggregatedTarget(histogram(), np.array(ONE_BLOCK)), ParameterError, "codes: must be a one-dimensional array of whole numbers, got <U1; use"),
    ("target-codes-beyond", lambda: AggregatedTarget(histogram(), np.full(7, 99)), ParameterError, r"codes: must be positions in release\.blocks, 0 to 1, got 0 to 99; use"),
    ("target-codes-negative", lambda: AggregatedTarget(histogram(), np.full(7, -1)), ParameterError, r"codes: must be positions in release\.blocks, 0 to 1, got -1 to 0; use"),
    ("target-other-rows", lambda: AggregatedTarget(histogram(), np.zeros(7, int)), AlignmentError, "block 'a': the release counts 3 people, got 7 codes; use release"),
    ("folds-one", lambda: BlockKFold(1), ParameterError, "n_splits: must be a whole number, got 1; pass 2 or more"),
    ("folds-fractional", lambda: BlockKFold(2.5), ParameterError, "n_splits: must be a whole number, got 2.5"),
    ("folds-shuffle", lambda: BlockKFold(2, shuffle="yes"), ParameterError, "shuffle: must be a bool, got 'yes'; pass True or False"),
    ("folds-too-many", lambda: list(BlockKFold(3).split(None, target())), ParameterError, "n_splits: 3 folds need as many blocks, got 2; lower n_splits"),
    ("folds-joined", lambda: list(BlockKFold(2).split(None, JOINED)), AggregatedTargetError, r"y: the rows of 2 tables of the same people cannot be split, every row counts in all of them; use unbin\.cross_validate"),
    ("folds-plain-y", lambda: list(BlockKFold(2).split(None, np.zeros(7))), AggregatedTargetError, r"y: BlockKFold splits an aggregated target, got ndarray; pass release\.align"),
]  # fmt: skip


SEVERAL = [
    ("join-nothing", lambda: join(), ParameterError, r"join: needs aligned tables, got none; pass release\.align"),
    ("join-release", lambda: join(AGGREGATED, AGGREGATED.release), ParameterError, "join: table 2 must be an aligned release, got Release; pass"),
    ("join-text", lambda: join("county"), ParameterError, "join: table 1 must be an aligned release, got str; pass"),
    ("join-twice", lambda: join(AGGREGATED, JOINED), ParameterError, "join: tables must be different, got the same one as table 1 and table 2; pass it once"),
    ("join-other-people", lambda: join(AGGREGATED, target()), AlignmentError, "join: the tables must be of the same people, got 72 rows in the first and 7 in table 2; align"),
    ("join-scale", lambda: join(AGGREGATED, scale="yes"), ParameterError, "scale: must be a bool, got 'yes'; pass True or False"),
    ("joined-rows", lambda: JOINED[:6], SplitBlockError, r"rows: tables of the same people cannot be split by rows, every row counts in all of the 2 tables; leave out blocks of a table with unbin\.cross_validate"),
    ("joined-values", lambda: np.asarray(JOINED), AggregatedTargetError, "aggregated target: it has no value per row"),
    ("joined-table", lambda: JOINED.table("state"), ParameterError, "table: unknown, got 'state'; use one of 'county', 'half'"),
    ("validate-model", lambda: cross_validate("glm", X, JOINED), ParameterError, "model: must be of class AggregatedGLM, got str; pass a model with its settings"),
    ("validate-matching", lambda: cross_validate(glm(), X, JOINED), ParameterError, "method: unknown, got 'matching'; use one of 'likelihood'"),
    ("validate-numbers", lambda: cross_validate(LIKELIHOOD, X, Y), AggregatedTargetError, r"target: must be an aggregated target, got ndarray; pass release\.align\(blocks\) or unbin\.join"),
    ("validate-mapping", lambda: cross_validate(LIKELIHOOD, X, {"county": AGGREGATED.release}), AggregatedTargetError, "target: must be an aggregated target, got dict; pass"),
    ("validate-one-fold", lambda: cross_validate(LIKELIHOOD, X, JOINED, 1), ParameterError, "n_splits: must be a whole number, got 1; pass 2 or more"),
    ("validate-many-folds", lambda: cross_validate(LIKELIHOOD, X, JOINED, 8), ParameterError, "n_splits: 8 folds need 16 blocks with published counts, got 14; lower n_splits, or name another table"),
    ("validate-few-blocks", lambda: cross_validate(LIKELIHOOD, X, JOINED, table="half"), ParameterError, "n_splits: 5 folds need 10 blocks with published counts, got 2; lower"),
    ("validate-table", lambda: cross_validate(LIKELIHOOD, X, JOINED, table="state"), ParameterError, "table: unknown, got 'state'; use one of 'county', 'half'"),
    ("validate-seed", lambda: cross_validate(LIKELIHOOD, X, JOINED, random_state="x"), ParameterError, "random_state: must be a seed, got 'x'; pass"),
    ("permute-without-table", lambda: permutation_test(LIKELIHOOD, X, JOINED), ParameterError, "table: must name the table whose blocks are dealt out, got none of 'county', 'half'; pass table="),
    ("permute-values", lambda: permutation_test(LIKELIHOOD, X, JOINED, y=Y, table="county"), ParameterError, "y, kind: targets permuted within the blocks of one table would change the others, got 2 tables; test one table alone"),
    ("score-means", lambda: AggregatedGLM().fit(X, Y).score(X, MEANS), ReleaseError, "score: the log score is one of counts, got tables without any; publish a histogram"),
]  # fmt: skip


def _people():
    rng = np.random.default_rng(3)
    blocks = np.repeat([f"{k:02d}" for k in range(12)], 6)
    X = rng.normal(size=(72, 2)) + rng.normal(size=(12, 2)).repeat(6, axis=0)
    return X, np.rint(np.exp(0.3 * X[:, 0])), blocks


X, Y, BLOCKS = _people()
AGGREGATED = aggregate(Y, BLOCKS, bins=[-1, 0, 1, 2, INF]).align(BLOCKS)
BY_COUNTY, BY_HALF = (
    aggregate(Y, ids, bins=[-1, 0, 1, 2, INF]).align(ids)
    for ids in (pd.Series(BLOCKS, name="county"), pd.Series(np.arange(72) % 2, name="half"))
)
JOINED = join(BY_COUNTY, BY_HALF)
MEANS = Release.from_means({"block": np.unique(BLOCKS), "mean": np.ones(12)}).align(BLOCKS)
LIKELIHOOD = AggregatedGLM()
PEOPLE = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "county": BLOCKS})
ONE_BLOCK = list("aaabbbb")
CONTRADICTION = (
    histogram()
    .combine(quantiles(block=["a", "b"], quantile=[0.5, 0.5], value=[-1.0, -1.0]))
    .align(ONE_BLOCK)
)


def changed(value):
    other = X.copy()
    other[3, 1] = value
    return other


def bins(lower, upper, n=72):
    return Release.from_histogram(
        {"lower": [lower], "upper": [upper], "count": [n]}, block=None
    ).align()


def value(number, n=72):
    table = {"quantile": [0.5], "value": [number], "n": [n]}
    return Release.from_quantiles(table, block=None, n="n").align()


# id, parameters, arguments of fit, class, message
FIT = [
    ("family", {"family": "cauchy"}, {}, ParameterError, "family: unknown, got 'cauchy'; use one of .*'gaussian', 'poisson', 'binomial'"),
    ("family-none", {"family": None}, {}, ParameterError, "family: unknown, got None; use one of"),
    ("method", {"method": "magic"}, {}, ParameterError, "method: unknown, got 'magic'; use one of .*'matching'"),
    ("solver", {"solver": "newton"}, {}, ParameterError, "solver: unknown, got 'newton'; use one of .*'lbfgs', 'alternating'"),
    ("alpha-negative", {"alpha": -1}, {}, ParameterError, "alpha: must be a finite number, got -1; pass a number at least 0"),
    ("alpha-nan", {"alpha": NAN}, {}, ParameterError, "alpha: must be a finite number, got nan"),
    ("alpha-inf", {"alpha": INF}, {}, ParameterError, "alpha: must be a finite number, got inf"),
    ("alpha-text", {"alpha": "1"}, {}, ParameterError, "alpha: must be a number, None, 'auto' or 'held-out', got '1'"),
    ("alpha-bool", {"alpha": True}, {}, ParameterError, "alpha: must be a finite number, got True"),
    ("n-trials-zero", {"n_trials": 0}, {}, ParameterError, "n_trials: must be a whole number.*, got 0"),
    ("n-trials-fractional", {"n_trials": 1.5}, {}, ParameterError, "n_trials: must be a whole number.*, got 1.5"),
    ("n-trials-bool", {"n_trials": True}, {}, ParameterError, "n_trials: must be a whole number.*, got True"),
    ("init-unknown", {"init": "zeros"}, {}, ParameterError, "init: unknown, got 'zeros'; use one of .*'block-means', 'random'"),
    ("init-length", {"init": [0.0, 1.0]}, {}, ParameterError, r"init: must hold 3 finite numbers \(the intercept, then the slopes\), got \[0.0, 1.0\]"),
    ("init-length-no-intercept", {"init": [0.0], "fit_intercept": False}, {}, ParameterError, r"init: must hold 2 finite numbers \(the slopes\), got \[0.0\]"),
    ("init-nan", {"init": [0.0, NAN, 1.0]}, {}, ParameterError, "init: must hold 3 finite numbers"),
    ("n-init-zero", {"n_init": 0}, {}, ParameterError, "n_init: must be a whole number, got 0; pass 1 or more"),
    ("n-init-text", {"n_init": "many"}, {}, ParameterError, "n_init: must be a whole number, got 'many'"),
    ("tol-zero", {"tol": 0}, {}, ParameterError, "tol: must be a finite number, got 0; pass a number above 0"),
    ("tol-negative", {"tol": -1e-3}, {}, ParameterError, "tol: must be a finite number, got -0.001"),
    ("max-iter-zero", {"max_iter": 0}, {}, ParameterError, "max_iter: must be a whole number, got 0; pass 1 or more"),
    ("max-iter-bool", {"max_iter": True}, {}, ParameterError, "max_iter: must be a whole number, got True"),
    ("fit-intercept", {"fit_intercept": "yes"}, {}, ParameterError, "fit_intercept: must be a bool, got 'yes'; pass True or False"),
    ("x-nan", {}, {"X": changed(NAN)}, ValueError, "Input X contains NaN"),
    ("x-inf", {}, {"X": changed(INF)}, ValueError, "Input X contains infinity"),
    ("x-rows", {}, {"X": X[:-1]}, AlignmentError, r"y: .*72.*71"),
    ("x-1d", {}, {"X": X[:, 0]}, ValueError, "Expected 2D array, got 1D array instead"),
    ("offset-length", {}, {"offset": np.zeros(71)}, AlignmentError, "offset: .*71.*72"),
    ("offset-nan", {}, {"offset": np.full(72, NAN)}, DomainError, "offset: must be finite, got NaN or inf"),
    ("offset-inf", {}, {"offset": np.full(72, -INF)}, DomainError, "offset: must be finite, got NaN or inf"),
    ("poisson-negative-bin", {"family": "poisson"}, {"y": bins(-5, -2)}, DomainError, r"block 'all': the bin \(-5, -2\] holds no value of the domain \[0, inf\) of family 'poisson', got 72 counts in it; choose"),
    ("poisson-negative-value", {"family": "poisson"}, {"y": value(-1.0)}, DomainError, r"block 'all': values must lie in the domain \[0, inf\) of family 'poisson', got -1; choose"),
    ("poisson-bin-without-integer", {"family": "poisson"}, {"y": bins(0, 0.5)}, DomainError, r"the bin \(0, 0.5\] holds no value of the domain"),
    ("binomial-bin-above", {"family": "binomial", "n_trials": 3}, {"y": bins(3, 9)}, DomainError, r"block 'all': the bin \(3, 9\] holds no value of the domain \[0, 3\] of family 'binomial'"),
    ("binomial-value-above", {"family": "binomial", "n_trials": 3}, {"y": value(4.0)}, DomainError, r"values must lie in the domain \[0, 3\] of family 'binomial', got 4;"),
    ("poisson-observed", {"family": "poisson"}, {"y": -Y - 1}, DomainError, r"y: .* -\d+ .*domain \[0, inf\) of family 'poisson'; choose"),
    ("binomial-observed", {"family": "binomial"}, {"y": Y + 2}, DomainError, r"y: .*domain \[0, 1\] of family 'binomial'; choose"),
    ("observed-nan", {}, {"y": np.where(np.arange(72) == 5, NAN, Y)}, ValueError, "Input y contains NaN"),
    ("observed-words", {}, {"y": ["a"] * 72}, DomainError, "y: must hold numbers, got <U1; convert them to numbers first"),
    ("observed-dates", {}, {"y": np.full(72, np.datetime64("2020-01-01"))}, DomainError, r"y: must hold numbers, got datetime64\[D\]; convert"),
    ("offset-ragged", {}, {"offset": [[1.0], [1.0, 2.0]]}, DomainError, "offset: must hold one value per row, got rows of different length; correct"),
    ("transform-list", {"target_transform": []}, {}, ParameterError, r"target_transform: must be None or 'log', got \[\]"),
    ("checkpoint-number", {"checkpoint": 3}, {}, ParameterError, "checkpoint: must be the path of a file, got int; pass text or a Path"),
    ("observed-length", {}, {"y": Y[:-1]}, ValueError, "inconsistent numbers of samples"),
    ("release-not-aligned", {}, {"y": AGGREGATED.release}, AggregatedTargetError, r"y: a release does not know the rows of X.*; pass release\.align\(blocks\)"),
    ("list-of-both", {}, {"y": [AGGREGATED, Y]}, AggregatedTargetError, "y: a list of targets must hold aggregated targets only, got"),
    ("list-second-too-short", {}, {"y": [AGGREGATED, AGGREGATED[:6]]}, AlignmentError, "y: .*6 .*72"),
    ("joined-matching", {}, {"y": JOINED}, ParameterError, "method: matching, the paper's, takes one table, got 2 of the same people; use method='likelihood'"),
    ("joined-rows-of-x", {"method": "likelihood"}, {"X": X[:-1], "y": JOINED}, AlignmentError, "y: 72 rows were aligned with the release, X has 71; pass"),
    ("joined-domain", {"method": "likelihood", "family": "binomial"}, {"y": JOINED}, DomainError, r"the bin \(1, 2\] holds no value of the domain \[0, 1\] of family 'binomial'"),
    ("joined-and-numbers", {"method": "likelihood"}, {"y": [JOINED, Y]}, AggregatedTargetError, "y: a list of targets must hold aggregated targets only, got"),
    ("contextual-unknown", {"method": "likelihood", "contextual": "state"}, {"y": JOINED}, ParameterError, "contextual: unknown, got 'state'; use one of 'county', 'half'"),
    ("contextual-of-one", {"method": "likelihood", "contextual": "state"}, {}, ParameterError, "contextual: must be True, False, 'auto' or the name of a table, got 'state'; the target has one table"),
    ("contextual-matching", {"contextual": "county"}, {"y": JOINED}, ParameterError, "contextual: needs method='likelihood', got 'matching'"),
    ("contextual-column", {"method": "likelihood", "contextual": "state"}, {"X": PEOPLE, "y": {"county": AGGREGATED.release}, "features": ["a", "b"]}, ParameterError, "contextual: must be True, False, 'auto' or the name of a table, got 'state'; the target has one table"),
    ("mapping-empty", {}, {"X": PEOPLE, "y": {}}, AggregatedTargetError, r"y: must map columns of X to tables, got none; pass \{column: release\}"),
    ("mapping-of-array", {}, {"y": {"county": AGGREGATED.release}}, ParameterError, "y: tables by columns of X need files or a frame, got ndarray; pass"),
    ("mapping-aligned", {}, {"X": PEOPLE, "y": {"county": AGGREGATED}}, AggregatedTargetError, r"y\['county'\]: must be a release, got AggregatedTarget; pass"),
    ("mapping-column", {}, {"X": PEOPLE, "y": {"state": AGGREGATED.release}}, ParameterError, "y: must name columns of X, got 'state', X has 'a', 'b', 'county'; check its name"),
    ("mapping-features", {}, {"X": PEOPLE, "y": {"county": AGGREGATED.release}, "features": 3}, ParameterError, r"features: must list the columns that are features, got 3; pass features=\[\.\.\.\]"),
    ("contradiction", {}, {"X": X[:7], "y": CONTRADICTION}, ReleaseError, "block 'a': its statistics contradict each other, .*; check that the histogram and the order statistics are about the same people"),
]  # fmt: skip


def parametrised(table):
    return [pytest.param(*row[1:], id=row[0]) for row in table]


def raised(error, call):
    """Return the message; the class must be the one expected, not a child of it."""
    with pytest.raises(error) as info:
        call()
    if issubclass(error, UnbinError):
        assert info.type is error
    return str(info.value)


@pytest.mark.parametrize(("call", "error", "message"), parametrised(READING + TARGET + SEVERAL))
def test_bad_input(call, error, message):
    text = raised(error, call)
    assert re.match(message, text) or re.search(f"^[^:]+: .*{message}", text), text
    assert re.match(r"[^:]+: .+; \S", text, re.DOTALL), f"not 'where: what; do this': {text}"


def failing_fit(parameters, arguments):
    model = glm(**parameters)
    return lambda: model.fit(**({"X": X, "y": AGGREGATED} | arguments))


@pytest.mark.parametrize(("parameters", "arguments", "error", "message"), parametrised(FIT))
def test_bad_fit(parameters, arguments, error, message):
    assert re.search(message, raised(error, failing_fit(parameters, arguments)))


def test_names_are_unique_and_many():
    names = [row[0] for row in READING + TARGET + SEVERAL + FIT]
    assert len(set(names)) == len(names) >= 70


def same(a, b):
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else a is b or a == b


def test_a_failed_fit_changes_nothing():
    model = glm(random_state=0).fit(X, AGGREGATED)
    attributes = {key: copy.copy(value) for key, value in vars(model).items()}
    imputed, features, codes = model.impute(), X.copy(), AGGREGATED.codes.copy()
    shown = repr(AGGREGATED)
    for name, parameters, arguments, error, _ in FIT:
        before = model.get_params()
        model.set_params(**parameters)
        asked = model.get_params()
        with pytest.raises(error):
            model.fit(**({"X": X, "y": AGGREGATED} | arguments))
        after = model.get_params()
        assert all(after[key] is asked[key] for key in asked), name
        model.set_params(**before)
        kept = vars(model)
        assert kept.keys() == attributes.keys(), name
        assert all(same(kept[key], old) for key, old in attributes.items() if key != "_fits"), name
        assert kept["_fits"][0] is attributes["_fits"][0], name
        np.testing.assert_array_equal(model.impute(), imputed, err_msg=name)
    np.testing.assert_array_equal(X, features)
    np.testing.assert_array_equal(AGGREGATED.codes, codes)
    assert repr(AGGREGATED) == shown


def test_a_failed_fit_keeps_the_number_of_features():
    model = glm(random_state=0).fit(X, AGGREGATED)
    wider = np.column_stack([X, X[:, 0]])
    with pytest.raises(AlignmentError):
        model.fit(wider, AGGREGATED[:6])
    assert model.n_features_in_ == 2
    assert model.predict(X).shape == (72,)


def test_a_failed_reading_does_not_change_the_frame():
    frame = pd.DataFrame({"block": ["a", "a"], "lower": [0.0, np.nan], "upper": [1.0, 0.0]})
    frame["count"] = [1.0, -1.0]
    before = frame.copy(deep=True)
    with pytest.raises(CountError):
        Release.from_histogram(frame)
    pd.testing.assert_frame_equal(frame, before)


def test_reading_does_not_change_the_frame():
    frame = pd.DataFrame({"block": ["b", "a"], "lower": [2, np.nan], "upper": [np.nan, 0.0]})
    frame["count"] = [3, 1]
    before = frame.copy(deep=True)
    Release.from_histogram(frame, closed="both")
    pd.testing.assert_frame_equal(frame, before)


# -- fitted models -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    return glm(random_state=0).fit(X, AGGREGATED)


@pytest.mark.parametrize(
    "call",
    [
        lambda model: model.predict(X),
        lambda model: model.impute(),
        lambda model: model.score(X, AGGREGATED),
    ],
    ids=["predict", "impute", "score"],
)
def test_not_fitted(call):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        call(glm())


def test_predict_other_features(fitted):
    with pytest.raises(ValueError, match="X has 1 features, but AggregatedGLM is expecting 2"):
        fitted.predict(X[:, :1])


def test_predict_offset_length(fitted):
    with pytest.raises(AlignmentError, match=r"offset: .*3.*72"):
        fitted.predict(X, offset=np.zeros(3))


def test_score_other_rows(fitted):
    with pytest.raises(AlignmentError, match=r"y: .*72.*10"):
        fitted.score(X[:10], AGGREGATED)


def test_score_observed_outside_domain():
    model = glm("poisson", alpha=0.1, random_state=0).fit(X, Y)
    with pytest.raises(DomainError, match=r"y: .*outside the domain \[0, inf\)"):
        model.score(X, -Y - 1)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))]
)
def test_copies_hold_no_personal_values(fitted, copied):
    other = copied(fitted)
    np.testing.assert_array_equal(other.coef_, fitted.coef_)
    with pytest.raises(AggregatedTargetError, match=r"impute: this model holds no imputed .*; fit"):
        other.impute()


def test_impute_after_observed():
    model = glm().fit(X, AGGREGATED).fit(X, Y)
    with pytest.raises(AggregatedTargetError, match="impute: this model holds no imputed targets"):
        model.impute()


# -- scikit-learn's own tools --------------------------------------------------------------------


def test_scoring_by_individual_values_says_what_to_do():
    with pytest.raises(TypeError, match=r"no value per row.*model\.score \(scoring=None\)"):
        cross_val_score(
            glm(random_state=0),
            X,
            AGGREGATED,
            cv=BlockKFold(3),
            scoring="r2",
            error_score="raise",
        )


@pytest.mark.parametrize("cv", [KFold(5), KFold(5, shuffle=True, random_state=0), 5, None])
def test_plain_folds_name_block_folds(cv):
    with pytest.raises(SplitBlockError, match=r"split whole blocks with unbin\.BlockKFold"):
        cross_val_score(glm(), X, AGGREGATED, cv=cv, error_score="raise")


def test_block_folds_give_finite_scores():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = cross_val_score(
            glm(random_state=0), X, AGGREGATED, cv=BlockKFold(3), error_score="raise"
        )
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()
