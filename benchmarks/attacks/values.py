"""What no function should take, and the study that malformed calls are made with."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

import unbin

NAN, INF = float("nan"), float("inf")
ODD = [
    "x",
    None,
    NAN,
    INF,
    -1,
    1.5,
    [],
    {},
    (1, 2),
    object(),
    b"1",
    1j,
    np.array([1, 2]),
    np.ma.masked,
]
"""What is no whole number of at least 1, no number, no choice, no flag."""


@dataclass(frozen=True)
class Call:
    """A call that is to be refused.

    Attributes
    ----------
    right : callable, optional
        For a call that may be accepted: tells whether what came back is right.
    also : tuple of exceptions
        What it may raise besides, as Python documents.
    wanted : bool
        Whether it is a call as it should be, which nothing may refuse.
    """

    group: str
    name: str
    make: Callable[[], Any]
    right: Callable[[Any], bool] | None = None
    also: tuple[type[Exception], ...] = ()
    wanted: bool = False


def each(
    group: str,
    label: str,
    values: Mapping[str, Any] | Iterable[Any],
    use: Callable[[Any], Any],
    right: Callable[[Any], bool] | None = None,
) -> Iterator[Call]:
    """Return a call of ``use`` for every value."""
    named = values.items() if isinstance(values, Mapping) else ((words(v), v) for v in values)
    for name, value in named:
        yield Call(group, f"{label} {name}", partial(use, value), right)


def accepted(group: str, make: Callable[[], Any]) -> Call:
    """Return the call as it should be: without it, refusals would say nothing."""
    return Call(group, "as it should be", make, lambda _: True, wanted=True)


def without(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the values that are bad here too."""
    return {name: value for name, value in values.items() if name not in names}


@cache
def study() -> SimpleNamespace:
    """Return 30 blocks of 20 people, and fits of every kind."""
    rng = np.random.default_rng(0)
    blocks = np.repeat([f"{b:02d}" for b in range(30)], 20)
    X = rng.normal(size=(600, 2)) + rng.normal(size=(30, 2)).repeat(20, axis=0)
    y = X @ [1.0, -0.5] + rng.normal(size=600)
    release = unbin.aggregate(y, blocks, 5)
    target = release.align(blocks)
    context = unbin.AggregatedGLM(contextual=True).fit(X, target)
    sex = np.where(rng.random(600) < 0.5, "f", "m")
    people = pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "county": blocks, "sex": sex})
    columns = {name: unbin.aggregate(y, people[name], 5) for name in ("county", "sex")}
    return SimpleNamespace(
        X=X,
        y=y,
        blocks=blocks,
        sex=sex,
        people=people,
        columns=columns,
        joined=unbin.join(*(table.align(people[name]) for name, table in columns.items())),
        release=release,
        target=target,
        context=context,
        model=unbin.AggregatedGLM().fit(X, target),
        ordinal=unbin.AggregatedGLM("ordinal").fit(X, target),
        matching=unbin.AggregatedGLM(method="matching", random_state=0).fit(X, target),
        observed=unbin.AggregatedGLM().fit(X, y),
        shifted=unbin.AggregatedGLM().fit(X, target, offset=np.ones(600)),
        several=unbin.AggregatedGLM().fit(X, [target, target]),
    )


def words(value: Any) -> str:
    """Return a value in few words."""
    if isinstance(value, np.ma.MaskedArray):
        return f"masked array {value.shape}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} array {value.shape}"
    if type(value) is object:
        return "an object"
    return " ".join(f"{value!r}".split())[:40]


def bad_matrices(X: np.ndarray) -> dict[str, Any]:
    """Return what is no matrix of numbers with the rows of X."""
    holed, far = X.copy(), X.copy()
    holed[3, 0], far[5, 1] = NAN, INF
    return {
        "None": None,
        "text": "people",
        "a number": 3.0,
        "empty": np.empty((0, 2)),
        "no columns": X[:, :0],
        "one column short of a matrix": X[:, 0],
        "three axes": X[None],
        "NaN": holed,
        "inf": far,
        "masked": np.ma.masked_array(X, mask=X > 1),
        "complex": X + 1j,
        "words": X.astype(str) + "x",
        "objects": np.full(X.shape, object()),
        "too few rows": X[:-1],
        "too many rows": np.vstack([X, X[:1]]),
        "a dict": {"a": 1},
        "a set": {1, 2},
        "a generator": (row for row in X),
        "ragged": [[1.0], [1.0, 2.0]],
        "beyond a float": np.full(X.shape, 10**400, dtype=object),
        "nested": [[[1.0]]],
    }


def bad_vectors(y: np.ndarray) -> dict[str, Any]:
    """Return what is no vector of numbers as long as y."""
    holed, far = y.copy(), y.copy()
    holed[3], far[5] = NAN, INF
    return {
        "text": "people",
        "a number": 3.0,
        "empty": [],
        "a matrix": np.column_stack([y, y]),
        "NaN": holed,
        "inf": far,
        "masked": np.ma.masked_array(y, mask=y > 1),
        "complex": y + 1j,
        "words": ["a"] * len(y),
        "objects": [object()] * len(y),
        "too short": y[:-1],
        "too long": np.append(y, 0.0),
        "a dict": {"a": 1},
        "dates": np.full(len(y), np.datetime64("2020-01-01")),
        "None inside": [None, *y[1:]],
        "beyond a float": [10**400, *y[1:]],
        "ragged": [[1.0], [1.0, 2.0]],
    }


def bad_ids(blocks: np.ndarray) -> dict[str, Any]:
    """Return what is no vector of block ids as long as blocks."""
    return {
        "a number": 3,
        "text": "block",
        "empty": [],
        "a matrix": np.column_stack([blocks, blocks]),
        "None inside": [None, *blocks[1:]],
        "blank inside": ["", *blocks[1:]],
        "mixed": [1, *blocks[1:]],
        "fractions": np.linspace(0, 1, len(blocks)),
        "NaN": np.append(np.arange(len(blocks) - 1.0), NAN),
        "masked": np.ma.masked_array(blocks, mask=blocks == blocks[0]),
        "too short": blocks[:-1],
        "too long": np.append(blocks, blocks[0]),
        "objects": [object()] * len(blocks),
        "lists": [[1]] * len(blocks),
        "complex": np.ones(len(blocks)) * 1j,
        "a dict": {"a": 1},
    }


def keywords(choices: Mapping[str, Iterable[Any]]) -> dict[str, dict[str, Any]]:
    """Return one bad setting at a time, by its name and value."""
    return {
        f"{name}={words(value)}": {name: value}
        for name, values in choices.items()
        for value in values
    }


def warned(call: Callable[[], Any]) -> bool:
    """Tell whether a call warned."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        call()
    return bool(told)
