"""Malformed releases: how they are read, tied to people, combined and made."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import unbin
from attacks.values import INF, NAN, Call, accepted, each, study, warned, without
from attacks.values import bad_ids as ids_like
from attacks.values import bad_vectors as vectors_like

HISTOGRAM: dict[str, list[Any]] = {
    "block": ["a", "a", "b", "b"],
    "lower": [NAN, 0.0, NAN, 0.0],
    "upper": [0.0, NAN, 0.0, NAN],
    "count": [3, 4, 2, 5],
}
QUANTILES: dict[str, list[Any]] = {
    "block": ["a", "a", "b"],
    "quantile": [0.25, 0.5, 0.5],
    "value": [1.0, 2.0, 3.0],
    "n": [9, 9, 8],
}
VALUES: dict[str, list[Any]] = {"block": ["a", "a", "b"], "value": [1.0, 2.0, 3.0]}
MEANS: dict[str, list[Any]] = {"block": ["a", "b"], "mean": [1.0, 2.0], "n": [9, 8]}
CUMULATIVE: dict[str, list[Any]] = {**VALUES, "count": [1, 4, 5]}
CATEGORIES: dict[str, list[Any]] = {
    "block": ["a", "a", "b"],
    "category": ["dem", "rep", "dem"],
    "count": [3, 4, 2],
}
READERS: dict[str, tuple[Any, dict[str, list[Any]], dict[str, Any]]] = {
    "from_histogram": (unbin.Release.from_histogram, HISTOGRAM, {}),
    "from_quantiles": (unbin.Release.from_quantiles, QUANTILES, {"n": "n"}),
    "from_values": (unbin.Release.from_values, VALUES, {}),
    "from_means": (unbin.Release.from_means, MEANS, {"n": "n"}),
    "from_cumulative": (unbin.Release.from_cumulative, CUMULATIVE, {}),
    "from_categories": (unbin.Release.from_categories, CATEGORIES, {}),
}
NAMES = ("block", "category")
"""Columns of text."""
Changes = dict[str, tuple[dict[str, Any], dict[str, Any]]]
"""Columns and settings that are not as they should be."""


def columns() -> Iterator[Call]:
    """Return every column of every table, spoilt."""
    cells: list[Any] = ["x", object(), 1j, [1], 10**400]
    for kind, (read, table, settings) in READERS.items():
        use = partial(read, **settings)
        empty = {name: [] for name in table}
        frames = [None, 3, "x", [], {}, object(), pd.DataFrame(), empty, pd.DataFrame(empty)]
        yield accepted(kind, partial(use, table))
        yield from each(kind, "frame", frames, use)
        for name, column in table.items():
            spoilt = cells[1:] if name in NAMES else cells
            put = lambda v, use=use, table=table, name=name: use({**table, name: v})  # noqa: E731
            first = lambda v, put=put, column=column: put([v, *column[1:]])  # noqa: E731
            yield from each(kind, f"{name} with", spoilt, first)
            yield from each(kind, f"{name} is", [3, "x", None, {"a": 1}, column[:-1]], put)
            masked = np.ma.masked_array(column, mask=np.arange(len(column)) == 0)
            # a masked edge is missing, and a missing edge is open, as this one was
            open_ = partial(_same, use, table) if name == "lower" else None
            yield Call(kind, f"{name} masked", partial(put, masked), open_)
            yield Call(kind, f"no {name}", partial(use, without(table, name)))
        named = lambda v, use=use, table=table: use(table, block=v)  # noqa: E731
        yield from each(kind, "block=", [3, [], {}, NAN, "nowhere"], named)


def _same(read: Any, table: dict[str, list[Any]], found: unbin.Release) -> bool:
    return str(found.to_columns()) == str(read(table).to_columns())


def _changed(kind: str, changes: Changes) -> Iterator[Call]:
    read, table, settings = READERS[kind]
    for name, (change, more) in changes.items():
        yield Call(kind, name, partial(read, {**table, **change}, **{**settings, **more}))


def histograms() -> Iterator[Call]:
    interval = {"count_low": "low", "count_high": "high"}
    percent = {"percent": "percent", "n": "n"}
    ten, none = [10] * 4, [NAN] * 4
    changes: Changes = {
        "a negative count": ({"count": [-1, 4, 2, 5]}, {}),
        "half a person": ({"count": [0.5, 4, 2, 5]}, {}),
        "a missing count": ({"count": [NAN, 4, 2, 5]}, {}),
        "an infinite count": ({"count": [INF, 4, 2, 5]}, {}),
        "a huge count": ({"count": [1e300, 4, 2, 5]}, {}),
        "bins that overlap": ({"upper": [1.0, NAN, 0.0, NAN]}, {}),
        "bins that run backwards": ({"lower": [5.0, 0, NAN, 0]}, {}),
        "the same bin twice": ({"lower": [NAN, NAN, NAN, 0], "upper": [0.0, 0, 0, NAN]}, {}),
        "closed in the middle": ({}, {"closed": "middle"}),
        "closed None": ({}, {"closed": None}),
        "half edges, closed at both": (
            {"lower": [0.5, 1.5, 0.5, 1.5], "upper": [1.2, 2.5, 1.2, 2.5]},
            {"closed": "both"},
        ),
        "negative noise": ({}, {"noise_sd": -1.0}),
        "noise NaN": ({}, {"noise_sd": NAN}),
        "noise in words": ({}, {"noise_sd": "1"}),
        "infinite noise": ({}, {"noise_sd": INF}),
        "unknown rounding": ({}, {"rounding": "about"}),
        "rounding 5": ({}, {"rounding": 5}),
        "rounding to 0": ({}, {"rounding": "nearest-0"}),
        "rounding to -5": ({}, {"rounding": "nearest--5"}),
        "rounding of percentages": ({}, {"rounding": "nearest-1%"}),
        "percentages without n": ({"percent": [50, 50, 40, 60]}, {"percent": "percent"}),
        "percentages over 100": ({"percent": [90, 50, 40, 60], "n": ten}, percent),
        "negative percentages": ({"percent": [-10, 110, 40, 60], "n": ten}, percent),
        "n that differs within a block": ({"n": [7, 8, 7, 7]}, {"n": "n"}),
        "n that is not the sum": ({"n": [9, 9, 7, 7]}, {"n": "n"}),
        "negative n": ({"n": [-7, -7, 7, 7]}, {"n": "n"}),
        "one end of an interval": ({"low": [1, 1, 1, 1]}, {"count_low": "low"}),
        "an interval backwards": (
            {"count": [NAN, 4, 2, 5], "low": [5, *none[1:]], "high": [1, *none[1:]]},
            interval,
        ),
        "a count outside its interval": (
            {"low": [5, *none[1:]], "high": [9, *none[1:]]},
            interval,
        ),
        "a negative interval": (
            {"count": [NAN, 4, 2, 5], "low": [-5, *none[1:]], "high": [9, *none[1:]]},
            interval,
        ),
        "a missing interval": ({"count": [NAN, 4, 2, 5], "low": none, "high": none}, interval),
        "a column that is not there": ({}, {"count": "nowhere"}),
        "a column by number": ({}, {"lower": 3}),
        "an option that does not exist": ({}, {"cont": "count"}),
    }
    yield from _changed("from_histogram", changes)
    read = unbin.Release.from_histogram
    gaps = {"block": ["a"] * 3, "lower": [0, 10, 20], "upper": [9, 19, 29], "count": [1, 2, 3]}
    yield Call("from_histogram", "whole bins with gaps", lambda: warned(lambda: read(gaps)), bool)
    twice = pd.DataFrame([["a", "a", 0, 1, 3]], columns=["block", *HISTOGRAM])
    yield Call("from_histogram", "two columns of blocks", partial(read, twice))


def orders() -> Iterator[Call]:
    quantiles: Changes = {
        "quantile above 1": ({"quantile": [0.25, 1.5, 0.5]}, {}),
        "quantile below 0": ({"quantile": [-0.1, 0.5, 0.5]}, {}),
        "quantile NaN": ({"quantile": [NAN, 0.5, 0.5]}, {}),
        "the same quantile twice": ({"quantile": [0.5, 0.5, 0.5]}, {}),
        "values that fall": ({"value": [2.0, 1.0, 3.0]}, {}),
        "value inf": ({"value": [1.0, INF, 3.0]}, {}),
        "value NaN": ({"value": [NAN, 2.0, 3.0]}, {}),
        "n of 0": ({"n": [0, 0, 8]}, {}),
        "half a person": ({"n": [9.5, 9.5, 8]}, {}),
        "n that differs": ({"n": [9, 8, 8]}, {}),
        "a huge n": ({"n": [1e300, 1e300, 8]}, {}),
    }
    for rank in (0, 10, 1.5, -1, NAN, "x", 1e300):
        quantiles[f"rank {rank}"] = ({"rank": [rank, 2, 1]}, {"rank": "rank"})
    yield from _changed("from_quantiles", quantiles)
    values: Changes = {f"value {v}": ({"value": [v, 1.0, 2.0]}, {}) for v in (NAN, INF, None)}
    yield from _changed("from_values", values)
    means: Changes = {
        "mean NaN": ({"mean": [NAN, 1.0]}, {}),
        "mean inf": ({"mean": [INF, 1.0]}, {}),
        "a block twice": ({"block": ["a", "a"]}, {}),
        "n of 0": ({"n": [0, 8]}, {}),
        "negative n": ({"n": [-9, 8]}, {}),
        "a total without n": ({"total": [9.0, 8.0]}, {"total": "total", "n": None}),
        "the total of nobody": ({"total": [9.0, 8.0], "n": [0, 8]}, {"total": "total"}),
    }
    yield from _changed("from_means", means)
    cumulative: Changes = {
        "counts that fall": ({"count": [4, 1, 5]}, {}),
        "count NaN": ({"count": [NAN, 4, 5]}, {}),
        "a negative count": ({"count": [-1, 4, 5]}, {}),
        "half a person": ({"count": [0.5, 4, 5]}, {}),
        "nobody": ({"count": [0, 0, 0]}, {}),
        "the same value twice": ({"value": [1.0, 1.0, 3.0]}, {}),
        "value NaN": ({"value": [NAN, 2.0, 3.0]}, {}),
        "closed at both": ({}, {"closed": "both"}),
    }
    yield from _changed("from_cumulative", cumulative)


def categories() -> Iterator[Call]:
    n = {"n": [9, 9, 3]}
    changes: Changes = {
        "a category twice": ({"category": ["dem", "dem", "dem"]}, {}),
        "a category of half a name": ({"category": [0.5, 1.5, 2.5]}, {}),
        "an empty category": ({"category": ["", "rep", "dem"]}, {}),
        "a negative count": ({"count": [-1, 4, 2]}, {}),
        "fewer categories": ({}, {"categories": ["dem"]}),
        "categories twice": ({}, {"categories": ["dem", "rep", "dem"]}),
        "categories in one text": ({}, {"categories": "dem"}),
        "no categories": ({}, {"categories": []}),
        "categories 3": ({}, {"categories": 3}),
        "absent 3": ({}, {"absent": 3}),
        "a rest without n": ({}, {"rest": "none"}),
        "a rest that is there": (n, {"n": "n", "rest": "dem"}),
        "a rest of noise": (n, {"n": "n", "rest": "none", "noise_sd": 1.0}),
        "a rest that is too small": ({"n": [5, 5, 3]}, {"n": "n", "rest": "none"}),
        "n that is not the sum": (n, {"n": "n"}),
    }
    yield from _changed("from_categories", changes)


def tied() -> Iterator[Call]:
    """Return releases tied to people who are not theirs."""
    s = study()
    others = {
        "None": None,
        "others": np.char.add(s.blocks, "x"),
        "one person moved": np.where(np.arange(600) == 0, "29", s.blocks),
    }
    ids = ids_like(s.blocks)
    for name in ("align", "check", "select"):
        yield accepted(f"Release.{name}", partial(getattr(s.release, name), s.blocks))
    yield from each("Release.align", "blocks", ids | others, s.release.align)
    yield from each(
        "Release.check", "blocks", without(ids, "too short", "too long"), s.release.check
    )
    some = without(ids, "too short", "too long", "a matrix") | {"others": others["others"]}
    yield from each("Release.select", "blocks", some, s.release.select)
    options = [{"scale": "x"}, {"scale": 2}, {"on_missing": "ignore"}, {"on_missing": None}]
    options += [{"sacle": True}]
    yield from each("Release.align", "", options, lambda v: s.release.align(s.blocks, **v))
    keys = [0, 3, -1, [0], [0, 0], slice(0, 5), None, [], *"x", 1.5, [10**6], (0, 1), {}, [NAN]]
    for key in [*keys, np.array([True])]:
        make = partial(s.target.__getitem__, key)
        yield Call("AggregatedTarget[…]", f"{key!r}", make, also=(IndexError,))
    uses = {"array": np.asarray, "list": list, "sum": np.sum, "float": float, "max": max}
    yield from each("AggregatedTarget", "as", uses, lambda use: use(s.target))
    wrong = {
        "nothing": (None, None),
        "no codes": (s.release, None),
        "half codes": (s.release, [0.5]),
        "codes too large": (s.release, [99] * 600),
        "negative codes": (s.release, [-1] * 600),
        "names": (s.release, s.blocks),
        "text": ("x", [0]),
    }
    yield from each("AggregatedTarget", "of", wrong, lambda v: unbin.AggregatedTarget(*v))


def spelt() -> Iterator[Call]:
    """Return releases combined, or spelt otherwise, that cannot be."""
    s, plain = study(), unbin.Release.from_histogram(HISTOGRAM)
    noisy = unbin.Release.from_histogram(HISTOGRAM, noise_sd=1.0)
    order, mean = unbin.Release.from_quantiles(QUANTILES), unbin.Release.from_means(MEANS)
    table = {"count": [NAN, NAN, 2, 5], "low": [1, 1, NAN, NAN], "high": [4, 4, NAN, NAN]}
    hidden = unbin.Release.from_histogram(
        {**HISTOGRAM, **table}, count_low="low", count_high="high"
    )
    others = [None, 3, "x", [], {}, HISTOGRAM, s.target, plain, noisy]
    others += [unbin.Release.from_means(MEANS, n="n")]
    yield from each("Release.combine", "with", others, plain.combine)
    votes = unbin.Release.from_categories(CATEGORIES)
    kinds = {"order statistics": order, "hidden counts": hidden, "means": mean, "votes": votes}
    yield from each("to_order_statistics", "of", kinds, lambda r: r.to_order_statistics())
    yield from each("to_cumulative", "of", kinds, lambda r: r.to_cumulative())
    yield from each("to_histogram", "of", kinds, lambda r: r.to_histogram())


def publishing() -> Iterator[Call]:
    s = study()
    y = without(vectors_like(s.y), "words") | {"None": None}  # words are categories
    yield from each("aggregate", "y", y, lambda v: unbin.aggregate(v, s.blocks))
    yield from each("aggregate", "blocks", ids_like(s.blocks), lambda v: unbin.aggregate(s.y, v))
    bins: list[Any] = [0, -1, 1.5, "x", None, NAN, [], [1.0], [2.0, 1.0], [0.0, 0.0], [NAN, 1.0]]
    bins += [[0.0, 1.0], True, {}, [["a"]], np.ones((2, 2)), 1j, [0, 1j], b"5"]
    bins += [np.ma.masked_array([-INF, 0.0, INF], mask=[0, 1, 0])]
    use = partial(unbin.aggregate, s.y, s.blocks)
    yield accepted("aggregate", partial(use, 5))
    yield from each("aggregate", "bins", bins, use)
    few = lambda release: len(release.histogram.count) <= 600 * 30  # noqa: E731
    yield from each("aggregate", "bins", {"10**9": 10**9, "10**30": 10**30}, use, few)


GROUPS = (columns, histograms, orders, categories, tied, spelt, publishing)
