"""The embedded demonstration: what can still be estimated from published tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from rich.console import Console
from rich.table import Table

from unbin._checks import check_package
from unbin._frames import to_frame
from unbin._io import make_folder
from unbin._typing import FloatArray, TextArray
from unbin.cli.records import check_output
from unbin.datasets import simulate
from unbin.estimator import AggregatedGLM
from unbin.release.aggregation import aggregate
from unbin.release.join import join
from unbin.results.report import render_report, write_report

FEATURES = ("age", "sex", "income")
_COEF = np.array([0.5, -0.5, 0.3])
_DECADES = (3.5, 5.0, 6.5)
_GROUPS = np.array(["under 35", "35 to 49", "50 to 64", "65 and over"])


@dataclass(frozen=True, slots=True)
class _People:
    """Simulated people: age in decades, sex (1 for women), income; and their outcome."""

    X: FloatArray
    y: FloatArray
    county: TextArray

    @property
    def cells(self) -> dict[str, TextArray]:
        """The age group and sex of each person."""
        sex = np.where(self.X[:, 1] == 1, "women", "men")
        return {"age group": _GROUPS[np.digitize(self.X[:, 0], _DECADES)], "sex": sex}

    @property
    def frame(self) -> object:
        """The features under their names."""
        return to_frame(dict(zip(FEATURES, self.X.T, strict=True)), "pandas")


@dataclass(frozen=True, slots=True)
class _Fits:
    """The same model fitted to outcomes, one table and both; and the paper's to one."""

    oracle: AggregatedGLM
    one: AggregatedGLM
    both: AggregatedGLM
    matching: AggregatedGLM


def run(seed: int, output: Path | None = None) -> None:
    """Simulate, publish, fit and print; leave a report in ``output`` or a temporary folder."""
    check_output(output)
    for package in ("pandas", "matplotlib"):
        check_package("demo", package, "formulas,plots")
    console = Console(highlight=False, width=100)
    people = _simulate(seed)
    county = aggregate(people.y, people.county, bins=6).align({"county": people.county})
    cells = aggregate(people.y, people.cells, bins=6).align(people.cells)
    both = join(county, cells)
    console.print(
        f"{len(people.y):,} simulated people in 150 counties; their features are known, their "
        "outcome is not.\nPublished instead: a histogram of it for each county, and one for each "
        f"age group and sex.\n\n{both}\n",
        markup=False,
    )
    fits = _Fits(
        oracle=AggregatedGLM().fit(people.frame, people.y),
        one=AggregatedGLM(random_state=seed).fit(people.frame, county),
        both=AggregatedGLM(random_state=seed).fit(people.frame, both),
        matching=AggregatedGLM(method="matching", random_state=seed).fit(people.frame, county),
    )
    console.print(_coefficients(fits))
    console.print(_words(people, fits), markup=False)
    path = _report(fits, seed, output)
    console.print(f"\nReport: {path}", markup=False, soft_wrap=True)


def _simulate(seed: int) -> _People:
    """Draw people whose features differ between counties."""
    drawn = simulate(12_000, 3, 150, between=0.2, random_state=seed)
    age, sex, income = drawn.X.T
    X = np.column_stack([5 + 1.5 * age, sex > 0, income])
    noise = np.random.default_rng(seed).normal(0, 0.7, len(X))
    return _People(X, 2 + X @ _COEF + noise, drawn.blocks)


def _report(fits: _Fits, seed: int, output: Path | None) -> Path:
    """Write the report of the fit to both tables and return where it is."""
    html = render_report(
        fits.both,
        title="unbin demo",
        oracle=fits.oracle,
        command=f"unbin demo --seed {seed}",
        public=True,  # nobody's
    )
    if output is None:
        output = Path(mkdtemp(prefix="unbin-demo-"))
    make_folder(output)
    write_report(output / "report.html", html)
    return output / "report.html"


def _coefficients(fits: _Fits) -> Table:
    table = Table(title="Coefficients ± standard errors", title_justify="left")
    table.add_column("")
    for name in (
        "truth",
        "oracle\n(saw every outcome)",
        "likelihood\n(county alone)",
        "likelihood\n(both tables)",
        "matching, the paper's\n(county alone)",
    ):
        table.add_column(name, justify="right")
    for j, name in enumerate(FEATURES):
        cells = [
            f"{fit.coef_[j]:.3f} ± {fit.standard_errors_[j]:.3f}"
            for fit in (fits.oracle, fits.one, fits.both)
        ]
        table.add_row(name, f"{_COEF[j]:.3f}", *cells, f"{fits.matching.coef_[j]:.3f}")
    return table


def _words(people: _People, fits: _Fits) -> str:
    def error(values: FloatArray) -> str:
        return f"{np.sqrt(np.mean((values - people.y) ** 2)):.3f}"

    def listed(shares: FloatArray) -> str:
        pairs = zip(FEATURES, shares, strict=True)
        return "; ".join(f"{name} {100 * share:.0f} %" for name, share in pairs)

    diagnostics = fits.both.diagnostics_
    goodness = diagnostics.goodness_of_fit
    shrunk = fits.both.standard_errors_ / fits.one.standard_errors_
    size = float(np.linalg.norm(fits.matching.coef_) / np.linalg.norm(fits.oracle.coef_))
    everybody = np.full_like(people.y, people.y.mean())
    return "\n".join(
        [
            "",
            "What the second table adds",
            f"  standard errors become this much of the county table's: {listed(shrunk)}",
            f"  its share in what both tell: {listed(diagnostics.information[1])}",
            "  income gains little, because no table is split by it",
            "What the tables tell",
            f"  {diagnostics.reason}",
            f"  the model fits the histograms: Q/df = {goodness.ratio:.2f}, "
            f"p = {goodness.p_value:.2f}",
            f"  error of a predicted outcome: {error(fits.both.predict(people.frame))}; of the "
            f"oracle {error(fits.oracle.predict(people.frame))}, of the mean {error(everybody)}",
            "  error of the imputed outcomes, which agree with all histograms: "
            f"{error(fits.both.impute())}",
            "What they do not tell",
            "  they hold this much of what individual data would say: "
            f"{listed(diagnostics.efficiency)}",
            f"  matching mistakes noise for signal: its slopes are {100 * (size - 1):.0f} % too "
            "large and it has no standard errors",
        ]
    )
