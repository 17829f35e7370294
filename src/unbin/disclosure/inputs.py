"""Who is in the audited table, who is held out of it, and what is planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_array

from unbin._blocks import segment_start
from unbin._checks import check_number
from unbin._frames import as_floats, as_text, refuse_masked
from unbin._typing import ArrayLike, BoolArray, FloatArray, IntArray, TextArray
from unbin.exceptions import AlignmentError, CategoryError, DomainError, ParameterError
from unbin.release import Release
from unbin.release.aggregation import aggregate, labels_of
from unbin.release.categories import codes_of, listed, order_of
from unbin.release.crossings import Crossings
from unbin.release.weights import check_weights

BINS = (2, 5, 10, 25)
"""Numbers of bins that are planned unless others are asked for."""
EVERYBODY = "everybody"
"""The level that publishes one table of all people."""
_MOST_PEOPLE = 50_000_000
"""People that rows are repeated for."""


@dataclass(frozen=True, slots=True)
class Records:
    """What a steward holds.

    Attributes
    ----------
    X : (n, d)
    feature_names : tuple of str
    y : (n,), or (n, K) of categories
        Values, or their logs, or indicators of categories.
    categories : tuple of str
        Their names; empty of numbers.
    levels : dict of (n,) text
        The block of everybody, by level.
    held_out : (n,) bool
        People who are not in the table.
    log : bool
        Whether ``y`` holds logs.
    """

    X: FloatArray
    feature_names: tuple[str, ...]
    y: FloatArray
    categories: tuple[str, ...]
    levels: dict[str, TextArray]
    held_out: BoolArray
    log: bool

    def table(self, ids: TextArray, bins: int | FloatArray | None, who: BoolArray) -> Release:
        """Return the table of some people (n,); categories have no bins."""
        y = self.y[who]
        if bins is not None:
            return aggregate(y, ids[who], bins)
        names = np.array(self.categories)
        return aggregate(names[y.argmax(axis=1)], ids[who], categories=self.categories)

    @property
    def published_together(self) -> tuple[str, ...]:
        """Levels whose tables tell something beside one another; none where there are not two.

        Totals of everybody are taken to be published with every table, and a partition counts once.
        """
        found: dict[bytes, str] = {}
        for name, ids in self.levels.items():
            codes = np.unique(ids, return_inverse=True)[1]
            if codes.any():
                found.setdefault(_first_seen(codes).tobytes(), name)
        return tuple(found.values()) if len(found) > 1 else ()


def read_records(
    X: ArrayLike,
    y: ArrayLike,
    blocks: Any,
    *,
    bins: Any = None,
    weights: ArrayLike | None = None,
    target_transform: str | None,
    held_out: float,
    rng: np.random.Generator,
) -> Records:
    """Check what a steward holds, and hold some people out of the table.

    Rows that stand for several people are repeated: an attack is made on a person. ``bins`` says
    whether whole numbers are names of categories, as for ``aggregate``.
    """
    features = check_array(refuse_masked(X, where="X"), dtype=np.float64)
    values, categories = _outcome(y, bins)
    if len(values) != len(features):
        raise AlignmentError(
            f"y: must hold a value for each of the {len(features)} rows of X, got {len(values)}; "
            "pass one per person"
        )
    if not np.isfinite(values).all():
        raise DomainError("y: must be finite, got NaN or inf; drop those people")
    if values.min() == values.max():
        raise DomainError("y: must differ between people, got one value; nothing can be learnt")
    levels = _levels(blocks, len(values))
    people = _whole_weights(weights, len(values))
    if people is not None:
        features, values = np.repeat(features, people, axis=0), np.repeat(values, people)
        levels = {name: np.repeat(ids, people) for name, ids in levels.items()}
    if target_transform not in (None, "log"):
        raise ParameterError(f"target_transform: must be None or 'log', got {target_transform!r}")
    if target_transform == "log" and categories:
        raise CategoryError(
            f"target_transform: categories have no log, got y of {listed(categories)}; leave it out"
        )
    if target_transform == "log" and values.min() <= 0:
        raise DomainError(
            f"y: the log needs positive values, got {values.min():g}; drop those people, or leave "
            "target_transform out"
        )
    share = check_number("held_out", held_out, low=0.0, open_low=True)
    if share >= 1:
        raise ParameterError(f"held_out: must be a share below 1, got {held_out!r}; pass 0.2")
    names = [str(name) for name in getattr(X, "columns", range(features.shape[1]))]
    if categories:
        values = np.eye(len(categories))[values.astype(np.int64)]
    return Records(
        X=features,
        feature_names=tuple(names),
        y=np.log(values) if target_transform == "log" else values,
        categories=categories,
        levels=levels,
        held_out=hold_out(_crossing(levels), share, rng),
        log=target_transform == "log",
    )


def _outcome(y: ArrayLike, bins: Any) -> tuple[FloatArray, tuple[str, ...]]:
    """Return values, or the codes of categories and their names."""
    labels = labels_of(y, bins)
    if labels is None:
        return as_floats(y, where="y"), ()
    names = order_of(labels, None, where="y")
    return codes_of(labels, names).astype(np.float64), names


def _whole_weights(weights: ArrayLike | None, n: int) -> IntArray | None:
    """Return how many people each row stands for, None where it is one."""
    given = check_weights(weights, "frequency", n)
    if given is None:
        return None
    if not given.whole:
        k = int(np.argmax(given.values != np.rint(given.values)))
        raise DomainError(
            "weights: must be whole numbers of people, each of whom is attacked, got "
            f"{given.values[k]:g} in row {k}; round them, or audit the people themselves"
        )
    total = float(given.values.sum())
    if total > _MOST_PEOPLE:
        raise DomainError(
            f"weights: must stand for at most {_MOST_PEOPLE:,} people, got {total:,.0f}; audit "
            "some of the blocks"
        )
    return given.values.astype(np.int64)


def _levels(blocks: Any, n: int) -> dict[str, TextArray]:
    given = blocks if isinstance(blocks, Mapping) else {"block": blocks}
    if blocks is None:
        given = {EVERYBODY: None}
    if not given:
        raise ParameterError(
            "blocks: must name a level of blocks, got an empty mapping; pass None for one table of "
            "everybody"
        )
    found = {}
    for name, ids in given.items():
        text = np.full(n, EVERYBODY) if ids is None else as_text(ids, where=f"blocks[{name!r}]")
        if len(text) != n:
            raise AlignmentError(
                f"blocks[{name!r}]: must hold the block of each of the {n} people, got {len(text)}"
            )
        found[_name(name)] = text
    return found


def _name(level: Any) -> str:
    return ", ".join(map(str, level)) if isinstance(level, tuple) else str(level)


def _crossing(levels: dict[str, TextArray]) -> IntArray:
    """Return a code per combination of blocks, shape (n,)."""
    return Crossings.of([np.unique(ids, return_inverse=True)[1] for ids in levels.values()]).codes


def _first_seen(codes: IntArray) -> IntArray:
    """Return blocks numbered as they come: equal partitions have equal numbers."""
    _, first, place = np.unique(codes, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[place])


def hold_out(codes: Any, share: float, rng: np.random.Generator) -> BoolArray:
    """Mark a share of the people of each block at random, never all of them, shape (n,)."""
    order = np.lexsort((rng.random(len(codes)), codes))
    start = segment_start(codes, int(codes.max()) + 1)
    size = np.diff(start)
    wanted = np.minimum(np.floor(share * size + rng.random(len(size))), size - 1)
    rank = np.arange(len(codes)) - np.repeat(start[:-1], size)
    result = np.zeros(len(codes), dtype=bool)
    result[order] = rank < np.repeat(wanted, size)
    if not result.any():
        raise ParameterError(
            f"held_out: must leave somebody out of the table, got nobody of {len(codes)} people; "
            "pass more people or a larger share"
        )
    return result


def plans_of(bins: Any, records: Records) -> Sequence[int | FloatArray | None]:
    """Return the planned tables: numbers of bins, or edges; None of categories, which have none."""
    if not records.categories:
        return read_bins(BINS if bins is None else bins, log=records.log)
    if bins is not None and not (isinstance(bins, str) and bins == "categories"):
        raise CategoryError(
            f"bins: categories have none, got {bins!r} and y of {listed(records.categories)}; "
            "leave bins out"
        )
    return [None]


def read_bins(bins: Any, *, log: bool) -> list[int | FloatArray]:
    """Return the planned bins: numbers of them, or edges; with ``log``, of the log."""
    if (
        isinstance(bins, str | bytes)
        or not isinstance(bins, Sequence | np.ndarray)
        or not len(bins)
        or any(each is None for each in bins)
    ):
        raise ParameterError(
            f"bins: must be a list of planned tables, got {bins!r}; pass for example [2, 5, 10]"
        )
    return [_edges(each, log=log) if np.ndim(each) else each for each in bins]


def _edges(edges: ArrayLike, *, log: bool) -> FloatArray:
    given = as_floats(edges, where="bins")
    if not log:
        return given
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(given, 0))  # nobody is below 0: an edge there is an open end
    return np.asarray(logs[np.append(logs[1:] > -np.inf, True)])
