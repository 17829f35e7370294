"""When a fit says that it may be trusted, and whether that is right.

    python experiments/trust.py
    python experiments/trust.py --runs 20 --only skewed      a mechanism; stores nothing

Two features, slopes .5 and -.3, known for everybody; the outcome is published by block. "right":
the model is that of the data; that blocks have effects the fit is not told. Other mechanisms are
not in the model:

skewed          lognormal features and exponential noise, fitted as gaussian
heavy-tailed    Student's t with 3 degrees of freedom, fitted as gaussian
heteroscedastic noise whose spread grows with the first feature
curved          a square of the first feature
overdispersed   negative binomial counts, fitted as Poisson
separated       a rare feature that decides the outcome, logit
confounded      block effects of sd .3, correlated .5 with the block mean of the first feature
floor           outcomes cut off at a floor inside the lowest, open, bin

Of every cell: how often the fit is not trusted; how often a slope is more than 3 standard errors
off, and how many of these fits were not trusted; coverage of the two 95 % intervals; and how often
the shape test, an extension and the contextual test speak.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

import common
import unbin

FULL = 150
SLOPES = np.array([0.5, -0.3])
CONFOUNDED = 0.5
"""Correlation of a confounded block effect with the block mean of the first feature."""


@dataclass(frozen=True)
class Cell:
    """What is drawn, published and fitted."""

    mechanism: str
    family: str = "gaussian"
    blocks: int = 100
    size: int = 100
    release: str = "6 bins"
    features: str = "normal"
    effects: float = 0.0

    @property
    def name(self) -> str:
        """What is particular about it."""
        parts = [self.family]
        if self.features != "normal":
            parts.append(f"{self.features} features")
        parts.append(self.release)
        if self.effects:
            parts.append(f"effects {self.effects:g}")
        return ", ".join(parts)


BLOCKS = (15, 30, 100, 300)
RELEASES = ("3 bins", "12 bins", "suppressed", "noise", "means beside", "means", "deciles")
CELLS = (
    *(Cell("right", blocks=b, effects=sd) for b in BLOCKS for sd in (0.0, 0.3, 1.0)),
    *(Cell("right", blocks=b, features="skewed") for b in BLOCKS),
    *(Cell("right", blocks=b, features="binary", effects=sd) for b in (30, 100) for sd in (0, 0.3)),
    *(Cell("right", "poisson", b, effects=sd) for b in BLOCKS for sd in (0.0, 0.3)),
    *(Cell("right", "binomial", b, effects=sd) for b in BLOCKS for sd in (0.0, 0.3)),
    *(Cell("right", "ordinal", b, effects=sd) for b in BLOCKS[1:] for sd in (0.0, 0.3)),
    *(Cell("right", "gamma", b) for b in BLOCKS[1:]),
    *(Cell("right", "negative_binomial", b) for b in BLOCKS[1:]),
    *(Cell("right", release=release) for release in RELEASES),
    *(Cell("right", release=release, effects=0.3) for release in RELEASES),
    *(Cell("right", release="three tables", effects=sd) for sd in (0.0, 0.3)),
    Cell("right", size=20),
    Cell("right", blocks=30, size=1000),
    Cell("right", "binomial", size=20),
    Cell("right", "poisson", size=20),
    *(Cell("skewed", blocks=b, features="skewed") for b in BLOCKS[1:]),
    Cell("skewed", release="3 bins", features="skewed"),
    Cell("skewed", release="three tables", features="skewed"),
    *(Cell("overdispersed", "poisson", b) for b in BLOCKS[1:]),
    *(Cell("heavy-tailed", blocks=b) for b in BLOCKS[1:]),
    *(Cell("heteroscedastic", blocks=b) for b in BLOCKS[1:]),
    *(Cell("curved", blocks=b) for b in BLOCKS[1:]),
    *(Cell("curved", "poisson", b) for b in BLOCKS[1:]),
    *(Cell("separated", "binomial", b) for b in BLOCKS[1:]),
    *(Cell("confounded", blocks=b) for b in BLOCKS[1:]),
    *(Cell("floor", blocks=b) for b in BLOCKS[1:]),
)


@dataclass(frozen=True)
class People:
    """One data set: features, outcomes, blocks, and the slopes that should be found."""

    X: np.ndarray
    y: np.ndarray
    block: np.ndarray
    slopes: np.ndarray


def draw(cell: Cell, seed: int, number: int | None = None) -> People:
    """Draw the people of a cell, which has this number among all."""
    rng = np.random.default_rng((CELLS.index(cell) if number is None else number, seed, 17))
    block = np.repeat(np.arange(cell.blocks), cell.size)
    n, place = len(block), 0.5 * rng.normal(size=(cell.blocks, 2))[block]
    X, slopes = rng.normal(size=(n, 2)) + place, SLOPES
    if cell.features == "skewed":
        X = np.exp(0.7 * rng.normal(size=(n, 2)) + place)
    elif cell.features == "binary":
        X[:, 1] = rng.random(n) < rng.uniform(0.2, 0.8, cell.blocks)[block]
    eta = X @ SLOPES + cell.effects * rng.normal(size=cell.blocks)[block]
    if cell.mechanism == "curved":
        eta = eta + 0.15 * X[:, 0] ** 2
    elif cell.mechanism == "confounded":
        mean = np.bincount(block, X[:, 0]) / cell.size
        mean = (mean - mean.mean()) / mean.std()
        own = CONFOUNDED * mean + np.sqrt(1 - CONFOUNDED**2) * rng.normal(size=cell.blocks)
        eta = eta + 0.3 * own[block]
    elif cell.mechanism == "separated":
        X = np.column_stack([X, rng.random(n) < 0.01])
        eta, slopes = eta + 30 * X[:, 2], SLOPES
    return People(X, outcomes(cell, eta, X, rng), block, slopes)


def outcomes(cell: Cell, eta: np.ndarray, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw everybody's outcome."""
    n = len(eta)
    if cell.mechanism == "overdispersed":
        return rng.negative_binomial(1.5, 1.5 / (1.5 + np.exp(0.5 + eta))).astype(float)
    if cell.family == "poisson":
        return rng.poisson(np.exp(0.3 + eta)).astype(float)
    if cell.family == "negative_binomial":
        return rng.negative_binomial(2, 2 / (2 + np.exp(1 + eta))).astype(float)
    if cell.family == "binomial":
        return (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
    if cell.family == "gamma":
        return rng.gamma(2.0, np.exp(eta) / 2)
    noise = {
        "skewed": lambda: 1.5 * rng.exponential(size=n),
        "heavy-tailed": lambda: rng.standard_t(3, size=n),
        "heteroscedastic": lambda: np.exp(0.3 * X[:, 0]) * rng.normal(size=n),
    }.get(cell.mechanism, lambda: rng.normal(size=n))
    y = eta + (rng.logistic(size=n) if cell.family == "ordinal" else noise())
    if cell.mechanism == "floor":
        y = np.maximum(y, np.quantile(y, 0.1))
    return y


def publish(cell: Cell, people: People) -> object:
    """Return what is published of the outcome, aligned with the people."""
    block, y = common.block_names(people.block), people.y
    if cell.family == "binomial":
        return unbin.aggregate(y, block, bins=[-0.5, 0.5, 1.5]).align(block)
    bins = {"3 bins": 3, "12 bins": 12}.get(cell.release, 6)
    if cell.release == "three tables":
        first, second = people.X.T
        tens = np.searchsorted(np.quantile(first, np.arange(0.1, 1, 0.1)), first)
        thirds = np.searchsorted(np.quantile(second, [0.3, 0.7]), second)
        ids = [block, common.block_names(tens), common.block_names(thirds)]
        edges = [-np.inf, *np.unique(np.quantile(y, np.arange(1, bins) / bins)), np.inf]
        return unbin.join(*(unbin.aggregate(y, each, edges).align(each) for each in ids))
    whole = unbin.aggregate(y, block, bins)
    names, codes, n = np.unique(block, return_inverse=True, return_counts=True)
    means = unbin.Release.from_means({"block": names, "mean": np.bincount(codes, y) / n})
    if cell.release == "means":
        return means.align(block)
    if cell.release == "means beside":
        return whole.combine(means).align(block)
    if cell.release == "deciles":
        return common.quantile_release(y, block, np.arange(1, 10) / 10).align(block)
    if cell.release in ("suppressed", "noise"):
        return _protected(cell, whole).align(block)
    return whole.align(block)


def _protected(cell: Cell, whole: unbin.Release) -> unbin.Release:
    """Hide counts of 1 to 9, or add noise of standard deviation 3 to all."""
    table = whole.histogram
    block = np.repeat(np.arange(len(whole.n)), np.diff(table.start))
    count, rng = table.count.astype(float), np.random.default_rng(len(table.count))
    columns = {
        "block": whole.blocks[block],
        "lower": table.lower,
        "upper": table.upper,
        "n": whole.n[block],
    }
    if cell.release == "noise":
        noisy = np.rint(count + 3 * rng.normal(size=len(count)))
        return unbin.Release.from_histogram(columns | {"count": noisy}, n="n", noise_sd=3.0)
    hidden = (count > 0) & (count < 10)
    low, high = np.where(hidden, 1.0, np.nan), np.where(hidden, 9.0, np.nan)
    columns |= {"count": np.where(hidden, np.nan, count), "low": low, "high": high}
    return unbin.Release.from_histogram(columns, n="n", count_low="low", count_high="high")


# -- what is found ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """What one data set gave."""

    trusted: bool
    off: np.ndarray
    covers: np.ndarray
    shape: float
    extension: bool
    context: float
    imprecise: float
    block_sd: float


def one_run(cell: Cell, seed: int) -> Run:
    """Draw people, publish, fit, and compare."""
    people = draw(cell, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = unbin.AggregatedGLM(cell.family.replace("_", "-"))
        model.fit(people.X, publish(cell, people))
    found, d = model.diagnostics_, len(people.slopes)
    low, high = model.conf_int()[:d].T
    error = common.estimates(model)[:d] - people.slopes
    return Run(
        trusted=found.trusted and found.identified,
        off=np.abs(error) / model.standard_errors_[:d],
        covers=(low < people.slopes) & (high > people.slopes),
        shape=np.nan if found.shape is None else found.shape.p_value,
        extension=any("would move" in why for why in found.reasons),
        context=np.nan if found.context is None else found.context.p_value,
        imprecise=float(np.mean([verdict == "imprecise" for verdict in found.verdicts])),
        block_sd=float(model.block_sd_),
    )


def row_of(cell: Cell, found: list[Run]) -> dict:
    """Return the row of a cell."""
    trusted = np.array([run.trusted for run in found])
    bad = np.array([(run.off > 3).any() or np.isnan(run.off).any() for run in found])
    covers = np.array([run.covers for run in found]).mean(axis=0)
    return {
        "mechanism": cell.mechanism,
        "cell": cell.name,
        "blocks": cell.blocks,
        "people": cell.size,
        "runs": len(found),
        "not_trusted": float(1 - trusted.mean()),
        "off": float(bad.mean()),
        "caught": float((bad & ~trusted).sum() / bad.sum()) if bad.any() else np.nan,
        "covered_1": float(covers[0]),
        "covered_2": float(covers[1]),
        "shape": _rejected([run.shape for run in found]),
        "extension": float(np.mean([run.extension for run in found])),
        "context": _rejected([run.context for run in found]),
        "imprecise": float(np.mean([run.imprecise for run in found])),
        "effects": float(np.mean([run.block_sd for run in found])),
    }


def _rejected(p_values: list[float]) -> float:
    """Return the share of tests that reject at 5 %, NaN where nothing was tested."""
    tested = np.array(p_values)
    tested = tested[np.isfinite(tested)]
    return float((tested < 0.05).mean()) if len(tested) else np.nan


def main() -> None:
    threadpool_limits(limits=1)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=FULL, help=f"full number: {FULL}")
    parser.add_argument("--only", help="a mechanism; stores nothing")
    args = parser.parse_args()
    cells = [cell for cell in CELLS if args.only in (None, cell.mechanism)]
    found = common.over_cells(one_run, cells, args.runs)
    rows = [row_of(cell, each) for cell, each in zip(cells, found, strict=True)]
    common.report("trust", rows, store=args.runs >= FULL and args.only is None)


if __name__ == "__main__":
    main()
