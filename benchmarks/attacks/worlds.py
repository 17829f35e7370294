"""People with an outcome, and the tables that are published of it, as columns that can be moved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit

import unbin

FAMILIES = (
    "gaussian", "gamma", "poisson", "negative-binomial", "binomial", "beta-binomial", "ordinal",
)  # fmt: skip
COUNTED = ("poisson", "negative-binomial", "binomial", "beta-binomial")
BREGMAN = ("gaussian", "poisson", "binomial")
BINNED = ("histogram", "suppressed", "rounded", "noisy")
RELEASES = (*BINNED, "values", "medians", "quartiles", "means", "means + histogram")
HIDDEN_BELOW = 5
NOISE_SD = 2.0

Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class World:
    """People, and what was published of them.

    Attributes
    ----------
    tables : dict of columns
        Tidy, by the statistic they hold: "bins", "order", "values", "means".
    n_trials : int
        Of binomial families, else 1.
    closed : str
        Which edge belongs to a bin.
    """

    family: str
    release: str
    X: np.ndarray
    y: np.ndarray
    blocks: np.ndarray
    tables: dict[str, Columns]
    n_trials: int = 1
    closed: str = "right"
    settings: dict[str, Any] = field(default_factory=dict)

    def target(self) -> unbin.AggregatedTarget:
        """Return the release, read from its columns and tied to the people."""
        return build(self.tables, self.release, self.closed).align(self.blocks)

    def model(self, method: str = "likelihood", **settings: Any) -> unbin.AggregatedGLM:
        return unbin.AggregatedGLM(
            self.family,
            method,
            n_trials=self.n_trials,
            random_state=0,
            **{"n_jobs": 1, **self.settings, **settings},
        )


def methods_of(family: str, release: str) -> tuple[str, ...]:
    """Return the methods that can fit a family to a release."""
    if family == "ordinal":
        return ("likelihood",) if release in (*BINNED, "values") else ()
    told = release not in ("noisy", "means", "means + histogram")
    return ("likelihood", "matching") if family in BREGMAN and told else ("likelihood",)


def draw_outcome(
    rng: np.random.Generator, family: str, eta: np.ndarray, *, spread: float, n_trials: int
) -> np.ndarray:
    """Draw from a family; ``spread`` is the standard deviation, or the dispersion."""
    size = len(eta)
    if family == "gaussian":
        return eta + spread * rng.standard_normal(size)
    if family == "ordinal":
        return eta + rng.logistic(size=size)
    if family == "gamma":
        return rng.gamma(1 / spread, spread * np.exp(eta))
    if family == "poisson":
        return rng.poisson(np.exp(eta)).astype(float)
    if family == "negative-binomial":
        return rng.poisson(np.exp(eta) * rng.gamma(1 / spread, spread, size)).astype(float)
    share = expit(eta)
    if family == "beta-binomial":
        share = rng.beta(share / spread, (1 - share) / spread)
    return rng.binomial(n_trials, share).astype(float)


def publish(
    rng: np.random.Generator, y: np.ndarray, blocks: np.ndarray, release: str, bins: Any
) -> dict[str, Columns]:
    """Return the columns that an agency would publish."""
    if release == "values":
        order = rng.permutation(len(y))
        return {"values": {"block": blocks[order], "value": y[order]}}
    if release in ("medians", "quartiles"):
        return {
            "order": _quantiles(y, blocks, (0.5,) if release == "medians" else (0.25, 0.5, 0.75))
        }
    tables = {}
    if release.startswith("means"):
        names, codes = np.unique(blocks, return_inverse=True)
        n = np.bincount(codes)
        tables["means"] = {"block": names, "mean": np.bincount(codes, y) / n, "n": n}
    if release != "means":
        table = unbin.aggregate(y, blocks, bins).to_columns()["histogram"]
        tables["bins"] = _protected(rng, table, release)
    return tables


def _quantiles(y: np.ndarray, blocks: np.ndarray, quantiles: tuple[float, ...]) -> Columns:
    rows = []
    for block in np.unique(blocks):
        values = np.sort(y[blocks == block])
        for q in quantiles:
            rows.append((block, q, values[max(int(np.ceil(q * len(values) - 1e-9)), 1) - 1]))
    block, quantile, value = (np.array(column) for column in zip(*rows, strict=True))
    return {"block": block, "quantile": quantile, "value": value}


def _protected(rng: np.random.Generator, table: Columns, release: str) -> Columns:
    count = table["count"].astype(float)
    if release == "suppressed":
        hidden = (count >= 1) & (count < HIDDEN_BELOW)
        low, high = np.where(hidden, 1, np.nan), np.where(hidden, HIDDEN_BELOW - 1, np.nan)
        return table | {"count": np.where(hidden, np.nan, count), "low": low, "high": high}
    if release == "rounded":
        return table | {"count": 5 * np.rint(count / 5)}
    if release == "noisy":
        return table | {"count": count + NOISE_SD * rng.standard_normal(len(count))}
    return table


def build(tables: dict[str, Columns], release: str, closed: str = "right") -> unbin.Release:
    """Read columns as the user would."""
    found = []
    if "bins" in tables:
        how: dict[str, Any] = {
            "suppressed": {"count_low": "low", "count_high": "high"},
            "rounded": {"rounding": "nearest-5"},
            "noisy": {"noise_sd": NOISE_SD},
        }.get(release, {})
        found.append(unbin.Release.from_histogram(tables["bins"], closed=closed, **how))
    if "values" in tables:
        found.append(unbin.Release.from_values(tables["values"]))
    if "order" in tables:
        found.append(unbin.Release.from_quantiles(tables["order"]))
    if "means" in tables:
        found.append(unbin.Release.from_means(tables["means"], n="n"))
    first, *more = found
    for other in more:
        first = first.combine(other)
    return first
