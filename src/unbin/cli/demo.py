"""The embedded demonstration: what a published table can still tell about people."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table

from unbin.aggregation import aggregate
from unbin.datasets import Simulation, simulate
from unbin.estimator import AggregatedGLM

FEATURES = ("age", "income", "distance")
_COEF = np.array([0.8, -0.5, 0.3])


def run(seed: int) -> None:
    """Simulate, publish, fit and print."""
    console = Console(highlight=False, width=100)
    people = simulate(
        12_000, 3, 150, between=0.2, noise=0.5, coef=_COEF, intercept=2.0, random_state=seed
    )
    release = aggregate(people.y, people.blocks, bins=6)
    console.print(
        f"{len(people.y):,} simulated people in 150 counties; features known, outcome hidden.\n"
        f"Published instead: a histogram per county.\n\n{release}\n"
    )
    target = release.align(people.blocks)
    oracle = AggregatedGLM().fit(people.X, people.y)
    model = AggregatedGLM(method="matching", random_state=seed).fit(people.X, target)
    console.print(_coefficients(people, oracle, model))
    console.print(f"matching: {model.status_.value}.")
    console.print(_words(people, oracle, model))


def _coefficients(people: Simulation, oracle: AggregatedGLM, model: AggregatedGLM) -> Table:
    table = Table(title="Coefficients", title_justify="left")
    for name in ("", "truth", "oracle (saw every outcome)", "matching (saw the table)"):
        table.add_column(name, justify="right" if name else "left")
    rows = [
        ("intercept", people.intercept, oracle.intercept_, model.intercept_),
        *zip(FEATURES, people.coef, oracle.coef_, model.coef_, strict=True),
    ]
    for name, *values in rows:
        table.add_row(str(name), *(f"{value:.3f}" for value in values))
    return table


def _words(people: Simulation, oracle: AggregatedGLM, model: AggregatedGLM) -> str:
    def error(values: np.ndarray) -> float:
        return float(np.sqrt(np.mean((values - people.y) ** 2)))

    size = float(np.linalg.norm(model.coef_) / np.linalg.norm(oracle.coef_))
    everybody = np.full_like(people.y, people.y.mean())
    return (
        f"What the table could tell: which features matter and which way. Typical error of a "
        f"person's\n  prediction {error(model.predict(people.X)):.2f}, where the oracle has "
        f"{error(oracle.predict(people.X)):.2f} and the mean of everybody {error(everybody):.2f}.\n"
        f"What it could not: the size of the noise. Matching takes noise for signal; its slopes are"
        f"\n  {100 * (size - 1):.0f} % too large here, and it has no standard errors."
    )
