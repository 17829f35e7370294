"""Random problems: families, releases, sizes, features and effects drawn at random.

A fit of the right family is *right* if its slopes lie within five standard errors of the truth, or
if the software said that it cannot be trusted: not identified, a warning, a sentence among its
diagnostics, a typed error. It is *wrong* if it said nothing and is further off; if an identified
fit has standard errors that are 0 or not finite; or if it predicts the table it was fitted to
worse than the pooled histogram (or mean) does, whatever it said, unless that table was hidden,
rounded or noisy. Matching has no standard errors and is biased by design: what it imputes must
satisfy the release, and its objective must not be above that of a fit without slopes.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

import unbin
from attacks.verdicts import Outcome
from attacks.worlds import BREGMAN, COUNTED, FAMILIES, RELEASES, World, draw_outcome, methods_of
from attacks.worlds import publish as publish_tables

N_CASES = 1_000
FAR = 5.0
"""Standard errors that a slope may be off."""
_INEXACT = ("suppressed", "rounded", "noisy")
"""Releases that a fit may follow away from the true table, if it says so."""
_FROM_BINS = 1.25
"""Error of the pooled mean as bins tell it, over that of the true one, at most."""
_SLACK = 3.0
"""Nats per bin by which a pooled histogram, fitted to the very counts, may be ahead."""


@dataclass(frozen=True)
class Problem:
    """A world, the truth, and how it is to be fitted."""

    world: World
    coef: np.ndarray
    method: str
    auto: bool


@cache
def _plan(seed: int) -> list[tuple[str, str, str]]:
    """Return family, release and method of every case: all that fit together, again and again."""
    all_of = [
        (family, release, method)
        for family in FAMILIES
        for release in RELEASES
        for method in methods_of(family, release)
    ]
    all_of += [(family, "none", "observed") for family in FAMILIES if family != "ordinal"]
    rng = np.random.default_rng([seed, 1])
    laps = [rng.permutation(len(all_of)) for _ in range(-(-N_CASES // len(all_of)))]
    return [all_of[k] for k in np.concatenate(laps)[:N_CASES]]


def cases(seed: int) -> list[tuple[str, str]]:
    return [
        (f"{method}, {release}" if release != "none" else method, family)
        for family, release, method in _plan(seed)
    ]


def run(seed: int, k: int) -> Outcome:
    problem = draw(seed, k)
    world = problem.world
    y = world.y if problem.method == "observed" else world.target()
    model = world.model(**{} if problem.method == "observed" else {"method": problem.method})
    if problem.auto:
        model.set_params(family="auto")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(world.X, y)
    stray = [w for w in told if issubclass(w.category, RuntimeWarning)]
    if stray:
        return Outcome("untyped", f"RuntimeWarning: {stray[0].message}")
    if problem.method == "matching":
        return _judge_matching(problem, model, warned=bool(told))
    if problem.auto and model.family_ != world.family:
        return _judge_finite(model)
    warned = bool(told) or bool(model.diagnostics_.warnings)
    return _judge_likelihood(problem, model, warned=warned)


def _judge_likelihood(problem: Problem, model: Any, *, warned: bool) -> Outcome:
    world, varies = problem.world, np.ptp(problem.world.X, axis=0) > 0
    said = warned or not model.diagnostics_.identified
    worse = "" if said and world.release in _INEXACT else _worse_than_pooled(world, model)
    if worse:
        return Outcome("wrong", worse + (", and said so" if said else ""))
    if said:
        return Outcome("right", "said so")
    error = model.standard_errors_[varies]
    if not varies.any():
        return Outcome("wrong", "identified, and no feature varies")
    if not (np.isfinite(error).all() and (error > 0).all()):
        return Outcome("wrong", f"identified with standard errors {error}")
    estimate = model.conf_int().mean(axis=1)
    off = np.abs(estimate - problem.coef)[varies] / error
    if not off.max() <= FAR:
        return Outcome("wrong", f"identified, and off by {off.max():.1f} standard errors")
    return Outcome("right", f"off by {off.max():.1f} standard errors")


def _judge_finite(model: Any) -> Outcome:
    good = np.isfinite(model.coef_).all() and np.isfinite(model.intercept_)
    return Outcome("right" if good else "wrong", f"coefficients {model.coef_}")


def _judge_matching(problem: Problem, model: Any, *, warned: bool) -> Outcome:
    world = problem.world
    if not np.isfinite(model.coef_).all():
        return Outcome("wrong", f"coefficients {model.coef_}")
    off = _violations(world, model.impute())
    if off:
        return Outcome("wrong", f"imputed targets do not satisfy the release: {off}")
    if warned:
        return Outcome("right", "said so")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        null = world.model("matching").fit(np.zeros((len(world.y), 1)), world.target())
    if model.objective_ > null.objective_ * (1 + 1e-6) + 1e-9:
        return Outcome("wrong", f"objective {model.objective_} above {null.objective_} of a mean")
    return Outcome("right", "satisfies the release")


def _violations(world: World, z: np.ndarray) -> str:
    """Say what is not as published; values at an edge may lie on either side of it."""
    for name, columns in world.tables.items():
        if name == "values":
            if not np.allclose(np.sort(z), np.sort(columns["value"])):
                return "another list of values"
            continue
        if name == "order":
            again = publish_tables(np.random.default_rng(0), z, world.blocks, world.release, None)
            if not np.allclose(again["order"]["value"], columns["value"], atol=1e-6):
                return "other quantiles"
            continue
        low, high = _interval(columns, world.release)
        slack = 1e-9 * (1 + np.abs(z))
        for block in np.unique(world.blocks):
            mine, rows = z[world.blocks == block], columns["block"] == block
            room = slack[world.blocks == block]
            lower, upper = columns["lower"][rows], columns["upper"][rows]
            inner = (mine[:, None] > lower + room[:, None]) & (
                mine[:, None] < upper - room[:, None]
            )
            outer = (mine[:, None] >= lower - room[:, None]) & (
                mine[:, None] <= upper + room[:, None]
            )
            if (inner.sum(axis=0) > high[rows]).any() or (outer.sum(axis=0) < low[rows]).any():
                return f"other counts in block {block}"
    return ""


def _interval(columns: dict[str, np.ndarray], release: str) -> tuple[np.ndarray, np.ndarray]:
    count = columns["count"]
    if release == "suppressed":
        hidden = np.isnan(count)
        return np.where(hidden, columns["low"], count), np.where(hidden, columns["high"], count)
    if release == "rounded":
        return np.maximum(count - 2, 0), count + 2
    return count, count


def _worse_than_pooled(world: World, model: Any) -> str:
    """Compare with the pooled histogram, both on the true table; or with the pooled mean.

    Slopes that a ridge shrinks, or that are from levels alone, do not fit the shape of a table.
    """
    said = str(model.diagnostics_)
    if "coef_ and predictions:" in said or "levels of blocks alone" in said:
        error, null = (
            np.sqrt(np.mean((world.y - guess) ** 2))
            for guess in (model.predict(world.X), world.y.mean())
        )
        far = "bins" in world.tables and error > _FROM_BINS * null + 1e-9
        return f"error {error:.3g} above {null:.3g} of the pooled mean" if far else ""
    if "bins" in world.tables or "values" in world.tables:
        truth = unbin.aggregate(world.y, world.blocks, _bins_of(world, model))
        count = truth.histogram.count.reshape(len(truth), -1).sum(axis=0)
        pooled = float(count @ np.log(_pooled_shares(world, count))) / len(world.y)
        score = model.score(world.X, truth.align(world.blocks))
        if not score >= pooled - _SLACK * len(count) / len(world.y):
            return f"log score {score:.3f} below {pooled:.3f} of the pooled histogram"
    elif "means" in world.tables:
        codes = np.unique(world.blocks, return_inverse=True)[1]
        n = np.bincount(codes)
        mean = np.bincount(codes, world.y) / n
        guess = np.bincount(codes, model.predict(world.X)) / n
        error, null = n @ (mean - guess) ** 2, n @ (mean - world.y.mean()) ** 2
        if not error <= null * (1 + 1e-6) + 1e-9:
            return f"squared error {error:.3g} of block means above {null:.3g} of the pooled mean"
    return ""


def _pooled_shares(world: World, count: np.ndarray) -> np.ndarray:
    """Return the share of each bin in all blocks together, as far as it was published."""
    if "bins" in world.tables:
        low, high = _interval(world.tables["bins"], world.release)
        count = ((low + high) / 2).reshape(-1, len(count)).sum(axis=0)
    count = np.maximum(count, 0.5)
    return count / count.sum()


def _bins_of(world: World, model: Any) -> Any:
    """Return the bins that were published; of a list, those it is counted in."""
    if "bins" in world.tables:
        return np.unique([*world.tables["bins"]["lower"], *world.tables["bins"]["upper"]])
    return (
        model.bin_edges_ if world.family == "ordinal" else int(np.clip(len(world.y) // 10, 2, 50))
    )


# -- drawing -------------------------------------------------------------------------------------


def draw(seed: int, k: int) -> Problem:
    """Return case ``k``."""
    family, release, method = _plan(seed)[k]
    rng = np.random.default_rng([seed, 2, k])
    telling = rng.random() < 0.5  # as many blocks, people and effects as a fit needs
    n_blocks = int(rng.choice([60, 120, 250] if telling else [1, 2, 5, 12, 30, 60, 120]))
    blocks = _draw_blocks(rng, n_blocks, int(rng.choice([15, 40] if telling else [1, 2, 5, 15])))
    d = int(rng.choice([1, 2, 3] if telling else [1, 2, 3, 5]))
    X = _draw_features(rng, blocks, d, between=rng.choice([0.3, 0.6] if telling else [0, 0.1, 0.3]))
    strength = rng.choice([0.7, 1.5] if telling else [0.0, 0.3, 0.7, 1.5])
    strength *= 0.6 if family in (*COUNTED, "gamma") else 1.0
    direction = rng.standard_normal(X.shape[1])
    scale = X.std(axis=0)
    coef = strength * direction / np.linalg.norm(direction) / np.where(scale > 0, scale, 1.0)
    coef[scale == 0] = 0.0
    eta = (X - X.mean(axis=0)) @ coef
    spread = float(rng.choice([0.3, 1.0]) if family == "gaussian" else rng.choice([0.2, 0.5, 1.0]))
    most = 6 * spread if family == "gaussian" else 4.0  # what runs away is no problem anybody has
    reach = max(float(np.abs(eta).max()), most)
    coef, eta = coef * most / reach, eta * most / reach
    n_trials = int(rng.choice([1, 5, 20])) if family == "binomial" else int(rng.choice([5, 20]))
    n_trials = n_trials if family.endswith("binomial") and family != "negative-binomial" else 1
    level = rng.uniform(0.0, 1.5) if family in (*COUNTED, "gamma") else rng.normal(scale=2)
    if family in ("binomial", "beta-binomial"):
        level = rng.normal(scale=0.5)
    y = draw_outcome(rng, family, level + eta, spread=spread, n_trials=n_trials)
    unit = 10.0 ** rng.choice([0, 0, 0, -3, 3, 5]) if family in ("gaussian", "gamma") else 1.0
    y, coef = y * unit, coef * (unit if family == "gaussian" else 1.0)
    bins = _draw_bins(rng, y, family)
    tables = {} if release == "none" else publish_tables(rng, y, blocks, release, bins)
    world = World(family, release, X, y, blocks, tables, n_trials)
    auto = method == "likelihood" and n_blocks >= 10 and rng.random() < 0.08
    return Problem(world, coef, method, auto)


def _draw_blocks(rng: np.random.Generator, n_blocks: int, size: float) -> np.ndarray:
    """Return the block of everybody, at least two people, blocks alike or of skewed sizes."""
    sizes = np.full(n_blocks, size)
    if rng.random() < 0.5:
        sizes = np.minimum(np.ceil(size * rng.lognormal(-0.5, 1.0, n_blocks)), 20 * size)
    sizes = np.maximum(sizes.astype(int), 1)
    sizes[0] += max(20 - int(sizes.sum()), 0)
    names = rng.permutation([f"{b:05d}" for b in range(n_blocks)])
    return rng.permutation(np.repeat(names, sizes))


def _draw_features(
    rng: np.random.Generator, blocks: np.ndarray, d: int, *, between: float
) -> np.ndarray:
    """Return columns of several kinds: skewed, heavy-tailed, rare, huge, constant, double."""
    names, codes = np.unique(blocks, return_inverse=True)
    latent = np.sqrt(1 - between) * rng.standard_normal((len(blocks), d))
    latent += np.sqrt(between) * rng.standard_normal((len(names), d))[codes]
    kinds = {
        "normal": lambda x: x,
        "skewed": np.exp,
        "heavy": lambda x: np.sign(x) * np.abs(x) ** 1.7,
        "binary": lambda x: (x > 0.5).astype(float),
        "rare": lambda x: (x > 1.9).astype(float),
        "dollars": lambda x: 50_000 + 2e4 * x,
        "tiny": lambda x: 1e-6 * x,
        "constant": lambda x: np.full_like(x, 3.0),
    }
    weight = np.array([6, 3, 1, 2, 1, 2, 1, 0.5])
    chosen = rng.choice(list(kinds), size=d, p=weight / weight.sum())
    X = np.column_stack([kinds[kind](latent[:, j]) for j, kind in enumerate(chosen)])
    if d > 1 and rng.random() < 0.04:
        X[:, -1] = X[:, 0]  # nobody can tell the two apart
    return X


def _draw_bins(rng: np.random.Generator, y: np.ndarray, family: str) -> Any:
    n_bins = int(rng.choice([2, 3, 5, 8, 15]))
    if family not in COUNTED:
        return n_bins
    inner = np.unique(np.floor(np.quantile(y, np.arange(1, n_bins) / n_bins)))
    inner = inner[inner < max(y.max(), 1)]
    return np.unique([-1.0, *inner, np.inf]) if len(inner) else np.array([-1.0, 0.0, np.inf])


def warm_up() -> None:
    """Load what is compiled, so that no case pays for it."""
    rng = np.random.default_rng(0)
    blocks = np.repeat([f"{b:02d}" for b in range(30)], 10)
    X = rng.standard_normal((300, 2)) + rng.standard_normal((30, 2)).repeat(10, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for family in FAMILIES:
            y = draw_outcome(rng, family, 0.5 * X[:, 0], spread=0.5, n_trials=5)
            n_trials = 5 if family in ("binomial", "beta-binomial") else 1
            bins = np.unique([-1.0, *np.unique(np.floor(np.quantile(y, [0.3, 0.6]))), np.inf])
            bins = bins if family in COUNTED else 4
            for release in ("histogram", "suppressed"):
                tables = publish_tables(rng, y, blocks, release, bins)
                world = World(family, release, X, y, blocks, tables, n_trials)
                world.model(max_iter=3).fit(X, world.target())
            if family in BREGMAN:
                world = replace(world, release="quartiles")
                world = replace(world, tables=publish_tables(rng, y, blocks, "quartiles", bins))
                world.model(max_iter=3).fit(X, world.target())
                world.model("matching", max_iter=3).fit(X, world.target())
