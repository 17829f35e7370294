"""Several tables of the same people beside one of them, in one run and on one thread.

    python benchmarks/several.py               n = 1,000,000 (a few minutes)
    python benchmarks/several.py --quick       n = 100,000

Prints the time of a fit to a table by county and tables by four of the features, each cut into five
groups, as a multiple of the fit to the table by county alone; what the further tables do to the
standard errors of those features; and the peak memory of a fit. The four features hardly differ
between counties, which is why they are published, unless the line says so.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

import unbin
from attacks.worlds import draw_outcome
from timing import N_TRIALS, arguments, best_of, peak_memory, size_of  # it keeps to one thread

LIMIT, MEMORY_LIMIT = 3, 3.5
N_COUNTIES, BINS, FURTHER = 250, 5, 4
CUTS = (-1.0, -0.3, 0.3, 1.0)

warnings.simplefilter("ignore")


@dataclass(frozen=True)
class Case:
    """An outcome, the standard deviation of county effects, and of the four features' means."""

    family: str
    effects: float = 0.0
    between: float = 0.0


CASES = (
    Case("gaussian"),
    Case("gaussian", effects=0.2),
    Case("gaussian", between=0.5),
    Case("poisson"),
    Case("binomial"),
    Case("ordinal"),
)


def draw(case: Case, n: int, d: int) -> tuple[np.ndarray, unbin.JoinedTarget]:
    """Return features, and what is published by county and by each of the first ones."""
    rng = np.random.default_rng(0)
    county = rng.integers(0, N_COUNTIES, n)
    spread = np.where(np.arange(d) < FURTHER, case.between, 0.5)
    X = rng.normal(size=(n, d)) + (spread * rng.normal(size=(N_COUNTIES, d)))[county]
    eta = X @ (np.linspace(-1, 1, d) / np.sqrt(d))
    eta += case.effects * rng.normal(size=N_COUNTIES)[county]
    y = draw_outcome(rng, case.family, eta, spread=1.0, n_trials=N_TRIALS)
    groups = (np.digitize(x, CUTS) for x in X.T[:FURTHER])
    tables = (unbin.aggregate(y, ids, BINS).align(ids) for ids in (county, *groups))
    return X, unbin.join(*tables)


def ratios(n: int, d: int) -> None:
    print(f"\n{1 + FURTHER} tables / one of them, n = {n:,}, d = {d}, {N_COUNTIES} counties "
          f"(limit {LIMIT} at d = 10)")  # fmt: skip
    print(f"{'':>9} {'one s':>6} {'all s':>6} {'ratio':>5} {'passes':>6}  standard errors")
    for case in CASES:
        X, target = draw(case, n, d)
        one, several = (
            unbin.AggregatedGLM(case.family, n_trials=N_TRIALS, n_jobs=1) for _ in range(2)
        )
        seconds = [
            best_of(lambda: one.fit(X, target.tables[0]))[0],  # noqa: B023
            best_of(lambda: several.fit(X, target))[0],  # noqa: B023
        ]
        told = (several.standard_errors_ / one.standard_errors_)[:FURTHER].mean()
        what = ", county effects" * (case.effects > 0)
        what += ", features differ by county" * (case.between > 0)
        print(
            f"{case.family:>9} {seconds[0]:>6.2f} {seconds[1]:>6.2f} "
            f"{seconds[1] / seconds[0]:>5.2f} {f'{one.n_iter_}, {several.n_iter_}':>6}  "
            f"× {told:.3f}{what}",
            flush=True,
        )


def main() -> None:
    n = size_of(arguments(__doc__).parse_args())
    ratios(n, 10)
    ratios(n, 50)
    print(f"\npeak memory of a gaussian fit, X and tables included, as a multiple of X (limit "
          f"{MEMORY_LIMIT})")  # fmt: skip
    for d in (10, 50):
        found = [float(peak_memory("likelihood", n, d, BINS, more)) for more in (0, FURTHER)]
        print(f"d = {d}: {found[0]:.2f} with one table, {found[1]:.2f} with {1 + FURTHER}")


if __name__ == "__main__":
    main()
