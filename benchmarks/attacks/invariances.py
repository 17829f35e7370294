"""Invariances: what must happen to a fit when outcome, features, rows or names are changed.

Outcome and edges are multiplied (gaussian, gamma, ordinal) and moved (gaussian, ordinal), features
scaled, moved and turned around, rows, columns, blocks and lines of the table put in another order,
columns without information added, and threads counted otherwise. Slopes and standard errors must
follow to ``CLOSE`` of the larger of the two, predictions to ``CLOSE`` of their spread, and the
verdict on identification must stay. Solvers run to a tolerance far below. Matching minimises a
function with kinks, whose minimum is flat: a relative error e of the objective is one of about √e
of the slopes, so its slopes must follow to ``CLOSE_MATCHING``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from attacks.verdicts import Outcome
from attacks.worlds import COUNTED, FAMILIES, RELEASES, World, draw_outcome, methods_of, publish

CLOSE = 5e-6
"""Relative; block effects beside hidden counts are settled to about that."""
CLOSE_MATCHING = 1e-4
_TOL = {"likelihood": 1e-8, "matching": 1e-8, "observed": 1e-8}
_OTHER, _OF_OUTCOME = 6, 5
"""Changes tried per family, release and method: of people and tables, of the outcome."""
_FACTORS = (1e-9, 1e-6, 1e-3, 1e2, 1e5, 1e9)
_SHIFTS = (-3.0, 50_000.0, 1e6)

VALUES = ("lower", "upper", "value", "mean")
"""Columns of tables that are in the units of the outcome."""


@dataclass(frozen=True)
class Found:
    """What a fit says, in the units of the world before it was changed; None is not compared."""

    coef: np.ndarray
    error: np.ndarray | None
    predicted: np.ndarray
    identified: bool | None

    def far_from(self, other: Found, close: float) -> str:
        """Say where two fits differ."""
        size = (
            np.abs(self.coef) if self.error is None else np.maximum(np.abs(self.coef), self.error)
        )
        apart = np.abs(other.coef - self.coef) / size
        if not apart.max() <= close:
            return f"slopes {other.coef} instead of {self.coef} ({apart.max():.1e})"
        if self.error is not None and other.error is not None:
            apart = np.abs(other.error / self.error - 1)
            if not apart.max() <= close:
                return f"errors {other.error} instead of {self.error} ({apart.max():.1e})"
        gap = np.abs(other.predicted - self.predicted).max() / np.ptp(self.predicted)
        if not gap <= close:
            return f"predictions apart by {gap:.1e} of their spread"
        if other.identified is not None and self.identified != other.identified:
            return f"identified: {other.identified} instead of {self.identified}"
        return ""


@dataclass(frozen=True)
class Change:
    """A world changed, and how what is found there reads in the first one."""

    world: World
    back: Callable[[Found], Found] = lambda found: found


def multiplied(world: World, factor: float) -> Change:
    """Multiply the outcome; a log link or thresholds take that up, slopes stay."""
    unit = factor if world.family == "gaussian" else 1.0

    def back(found: Found) -> Found:
        error = None if found.error is None else found.error / unit
        return replace(
            found, coef=found.coef / unit, error=error, predicted=found.predicted / factor
        )

    return Change(_moved(world, factor, 0.0), back)


def shifted(world: World, shift: float) -> Change:
    back = lambda found: replace(found, predicted=found.predicted - shift)  # noqa: E731
    return Change(_moved(world, 1.0, shift), back)


def negated(world: World) -> Change:
    """Turn the outcome around: bins are closed on the other side."""
    top = float(world.n_trials) if world.family.endswith("binomial") else 0.0
    changed = _moved(world, -1.0, top)
    tables = dict(changed.tables)
    if "bins" in tables:
        bins = tables["bins"]
        tables["bins"] = bins | {"lower": bins["upper"], "upper": bins["lower"]}
    if "order" in tables:  # the k-th smallest is now the k-th largest
        tables["order"] = _quantiles_from_above(tables["order"], world.blocks)

    def back(found: Found) -> Found:
        return replace(found, coef=-found.coef, predicted=top - found.predicted)

    return Change(replace(changed, tables=tables, closed="left"), back)


def feature_scaled(world: World, factor: float) -> Change:
    scale = np.ones(world.X.shape[1])
    scale[0] = factor

    def back(found: Found) -> Found:
        error = None if found.error is None else found.error * np.abs(scale)
        return replace(found, coef=found.coef * scale, error=error)

    return Change(replace(world, X=world.X * scale), back)


def feature_shifted(world: World, shift: float) -> Change:
    X = world.X.copy()
    X[:, -1] += shift
    return Change(replace(world, X=X))


def columns_permuted(world: World, rng: np.random.Generator) -> Change:
    order = rng.permutation(world.X.shape[1])
    return Change(
        replace(world, X=world.X[:, order]), lambda found: _taken(found, np.argsort(order))
    )


def constants_added(world: World) -> Change:
    """Add columns whose own slopes are not estimable; the others must not move."""
    n, d = world.X.shape
    X = np.column_stack([np.full(n, 7.0), world.X, np.zeros(n)])
    columns = np.arange(1, d + 1)
    return Change(
        replace(world, X=X), lambda found: replace(_taken(found, columns), identified=None)
    )


def rows_permuted(world: World, rng: np.random.Generator) -> Change:
    order = rng.permutation(len(world.y))
    changed = replace(world, X=world.X[order], y=world.y[order], blocks=world.blocks[order])
    back = np.argsort(order)
    return Change(changed, lambda found: replace(found, predicted=found.predicted[back]))


def blocks_renamed(world: World, rng: np.random.Generator) -> Change:
    """Give blocks other names, which sort in another order."""
    names = np.unique(world.blocks)
    other = dict(zip(names, rng.permutation([f"é {k} $" for k in range(len(names))]), strict=True))
    rename = np.vectorize(other.__getitem__, otypes=["U16"])
    tables = {
        name: columns | {"block": rename(columns["block"])}
        for name, columns in world.tables.items()
    }
    return Change(replace(world, blocks=rename(world.blocks), tables=tables))


def lines_permuted(world: World, rng: np.random.Generator) -> Change:
    """Put the lines of every table in another order."""
    tables = {}
    for name, columns in world.tables.items():
        order = rng.permutation(len(columns["block"]))
        tables[name] = {key: values[order] for key, values in columns.items()}
    return Change(replace(world, tables=tables))


def threaded(world: World) -> Change:
    return Change(replace(world, settings={"n_jobs": 2}))


def _moved(world: World, factor: float, shift: float) -> World:
    tables = {
        name: {
            key: factor * column + shift if key in VALUES else column
            for key, column in columns.items()
        }
        for name, columns in world.tables.items()
    }
    return replace(world, tables=tables, y=factor * world.y + shift)


def _taken(found: Found, columns: np.ndarray) -> Found:
    error = None if found.error is None else found.error[columns]
    return replace(found, coef=found.coef[columns], error=error)


def _quantiles_from_above(columns: dict[str, np.ndarray], blocks: np.ndarray) -> Any:
    names, size = np.unique(blocks, return_counts=True)
    n = size[np.searchsorted(names, columns["block"])]
    rank = n + 1 - np.maximum(np.ceil(columns["quantile"] * n - 1e-9), 1)
    return columns | {"quantile": rank / n}


# -- cases ---------------------------------------------------------------------------------------

CHANGES: dict[str, Callable[[World, np.random.Generator], Change]] = {
    "rows permuted": rows_permuted,
    "columns permuted": columns_permuted,
    "blocks renamed": blocks_renamed,
    "lines of the table permuted": lines_permuted,
    "constant columns added": lambda world, _: constants_added(world),
    "two threads": lambda world, _: threaded(world),
    "feature turned around": lambda world, _: feature_scaled(world, -1.0),
    "feature × 1e-6": lambda world, _: feature_scaled(world, 1e-6),
    "feature × 1e6": lambda world, _: feature_scaled(world, 1e6),
    "feature + 1,000": lambda world, _: feature_shifted(world, 1000.0),
}
OUTCOME: dict[str, Callable[[World, np.random.Generator], Change]] = {
    **{f"outcome × {c:g}": (lambda world, _, c=c: multiplied(world, c)) for c in _FACTORS},
    **{f"outcome + {a:g}": (lambda world, _, a=a: shifted(world, a)) for a in _SHIFTS},
    "outcome turned around": lambda world, _: negated(world),
}


def _outcome_changes(family: str, release: str, method: str) -> list[str]:
    """Return what may be done to an outcome.

    Lists are counted in bins that are closed above, the values of an ordinal fit's bins are those
    of whole counts within their intervals, ties going to the first, and matching takes the first of
    the splits of hidden counts that are as good: none of them can be turned.
    """
    split = family == "ordinal" or method == "matching"
    whole = split and release in ("suppressed", "rounded")
    turned = [] if release == "values" or whole else ["outcome turned around"]
    if family in ("gaussian", "ordinal"):
        return [name for name in OUTCOME if "turned" not in name] + turned
    if family == "gamma":
        return [name for name in OUTCOME if "×" in name]
    return turned if family in ("binomial", "beta-binomial") else []


@cache
def _plan(seed: int) -> list[tuple[str, str, str, str]]:
    """Return family, release, method and change of every case."""
    rng = np.random.default_rng([seed, 3])
    combinations = [
        (family, release, method)
        for family in FAMILIES
        for release in RELEASES
        for method in methods_of(family, release)
    ]
    combinations += [(family, "none", "observed") for family in FAMILIES if family != "ordinal"]
    found = []
    for family, release, method in combinations:
        other = [name for name in CHANGES if release != "none" or "block" not in name]
        outcome = _outcome_changes(family, release, method)
        chosen = [*_some(rng, other, _OTHER), *_some(rng, outcome, _OF_OUTCOME)]
        found += [(family, release, method, change) for change in chosen]
    return found


def _some(rng: np.random.Generator, names: list[str], most: int) -> list[str]:
    return [names[k] for k in rng.permutation(len(names))[:most]]


def cases(seed: int) -> list[tuple[str, str]]:
    return [
        (change, f"{family}, {method}, {release}")
        for family, release, method, change in _plan(seed)
    ]


def run(seed: int, k: int) -> Outcome:
    family, release, method, name = _plan(seed)[k]
    rng = np.random.default_rng([seed, 4, k])
    world = _draw(seed, family, release)
    change = (CHANGES | OUTCOME)[name](world, rng)
    before, after = _fit(world, method), change.back(_fit(change.world, method))
    gap = before.far_from(after, CLOSE_MATCHING if method == "matching" else CLOSE)
    return Outcome("wrong", gap) if gap else Outcome("right")


def _fit(world: World, method: str) -> Found:
    settings: dict[str, Any] = {"tol": _TOL[method]}
    if method != "observed":
        settings |= {"method": method, "max_iter": 3000}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = world.y if method == "observed" else world.target()
        model = world.model(**settings).fit(world.X, y)
    error = None if method == "matching" else model.standard_errors_
    return Found(model.coef_, error, model.predict(world.X), bool(model.diagnostics_.identified))


def _draw(seed: int, family: str, release: str) -> World:
    """Return 40 blocks of about 30 people with two features."""
    rng = np.random.default_rng([seed, 5, FAMILIES.index(family)])
    blocks = np.repeat([f"{b:02d}" for b in range(40)], rng.integers(20, 40, 40))
    codes = np.unique(blocks, return_inverse=True)[1]
    X = rng.standard_normal((len(blocks), 2)) + 0.7 * rng.standard_normal((40, 2))[codes]
    n_trials = 10 if family in ("binomial", "beta-binomial") else 1
    size = 0.5 if family in (*COUNTED, "gamma") else 1.0
    eta = size * X @ [1.0, -0.6] + 0.3
    y = draw_outcome(rng, family, eta, spread=0.5, n_trials=n_trials)
    bins: Any = 6
    if family in COUNTED:
        bins = np.unique([-1.0, *np.floor(np.quantile(y, [0.2, 0.4, 0.6, 0.8])), np.inf])
    tables = {} if release == "none" else publish(rng, y, blocks, release, bins)
    return World(family, release, X, y, blocks, tables, n_trials)
