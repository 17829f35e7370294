"""The embedded demonstration: what can still be estimated from a published table."""

from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from rich.console import Console
from rich.table import Table

from unbin._io import make_folder
from unbin._typing import FloatArray
from unbin.cli.records import check_output
from unbin.datasets import Simulation, simulate
from unbin.estimator import AggregatedGLM
from unbin.fitting.summary import to_frame
from unbin.release.aggregation import aggregate
from unbin.results.report import render_report, write_report

FEATURES = ("age", "income", "distance")
_COEF = np.array([0.8, -0.5, 0.3])


def run(seed: int, output: Path | None = None) -> None:
    """Simulate, publish, fit and print; leave a report in ``output`` or a temporary folder."""
    check_output(output)
    console = Console(highlight=False, width=100)
    people = simulate(
        12_000, 3, 150, between=0.2, noise=0.7, coef=_COEF, intercept=2.0, random_state=seed
    )
    release = aggregate(people.y, people.blocks, bins=6)
    console.print(
        f"{len(people.y):,} simulated people in 150 counties; their features are known, their "
        f"outcome is not.\nPublished instead: a histogram of it per county.\n\n{release}\n",
        markup=False,
    )
    target = release.align(people.blocks)
    X = to_frame(dict(zip(FEATURES, people.X.T, strict=True)), "pandas")
    oracle = AggregatedGLM().fit(X, people.y)
    likelihood = AggregatedGLM(random_state=seed).fit(X, target)
    matching = AggregatedGLM(method="matching", random_state=seed).fit(X, target)
    console.print(_coefficients(people, oracle, likelihood, matching))
    console.print(_words(people, oracle, likelihood, matching), markup=False)
    path = _report(likelihood, oracle, seed, output)
    console.print(f"\nReport: {path}", markup=False, soft_wrap=True)


def _report(model: AggregatedGLM, oracle: AggregatedGLM, seed: int, output: Path | None) -> Path:
    """Write the report of the fit and return where it is."""
    html = render_report(
        model, title="unbin demo", oracle=oracle, command=f"unbin demo --seed {seed}"
    )
    if output is None:
        output = Path(mkdtemp(prefix="unbin-demo-"))
    make_folder(output)
    write_report(output / "report.html", html)
    return output / "report.html"


def _coefficients(
    people: Simulation, oracle: AggregatedGLM, likelihood: AggregatedGLM, matching: AggregatedGLM
) -> Table:
    table = Table(title="Coefficients", title_justify="left")
    table.add_column("")
    for name in (
        "truth",
        "oracle\n(saw every outcome)",
        "likelihood ± standard error\n(saw the table)",
        "matching, the paper's\n(saw the table)",
    ):
        table.add_column(name, justify="right")
    rows = zip(
        FEATURES,
        people.coef,
        oracle.coef_,
        likelihood.coef_,
        likelihood.standard_errors_,
        matching.coef_,
        strict=True,
    )
    for name, truth, seen, estimate, error, match in rows:
        table.add_row(
            name, f"{truth:.3f}", f"{seen:.3f}", f"{estimate:.3f} ± {error:.3f}", f"{match:.3f}"
        )
    return table


def _words(
    people: Simulation, oracle: AggregatedGLM, likelihood: AggregatedGLM, matching: AggregatedGLM
) -> str:
    def error(values: FloatArray) -> str:
        return f"{np.sqrt(np.mean((values - people.y) ** 2)):.3f}"

    X = to_frame(dict(zip(FEATURES, people.X.T, strict=True)), "pandas")
    diagnostics = likelihood.diagnostics_
    goodness = diagnostics.goodness_of_fit
    held = "; ".join(
        f"{name} {100 * share:.0f} %"
        for name, share in zip(FEATURES, diagnostics.efficiency, strict=True)
    )
    size = float(np.linalg.norm(matching.coef_) / np.linalg.norm(oracle.coef_))
    everybody = np.full_like(people.y, people.y.mean())
    return "\n".join(
        [
            "",
            "What the table identifies",
            f"  {diagnostics.reason}",
            f"  the model fits the histograms: Q/df = {goodness.ratio:.2f}, "
            f"p = {goodness.p_value:.2f}",
            f"  error of a predicted outcome: {error(likelihood.predict(X))}; of the "
            f"oracle {error(oracle.predict(X))}, of the mean {error(everybody)}",
            "  error of the imputed outcomes, which agree with the histograms: "
            f"{error(likelihood.impute())}",
            "What it does not",
            f"  it holds this much of what individual data would say: {held}",
            f"  matching mistakes noise for signal: its slopes are {100 * (size - 1):.0f} % too "
            "large and it has no standard errors",
        ]
    )
