"""The first run of every experiment, so that a test can tell when stored figures are stale.

    python experiments/first_runs.py            compare with results/first_runs.csv
    python experiments/first_runs.py --store    after the experiments themselves were run again

Each entry of ``FIRST`` names a stored file and makes a cheap part of what goes into it: its first
seed, its first row, its first audit. ``tests/test_stored.py`` holds these figures against the
stored ones. Where they differ the code no longer gives what is in results/: run the script of that
file again, then store the first runs.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

import accuracy
import audit
import bags
import clusters
import common
import default_predictions
import ecological_bias
import exact_binary
import figure1
import figure4
import figure5
import figure6
import figures2_3
import identification
import imputation
import intervals
import missing_values
import nested_tables
import nonlinear
import observed
import one_root
import order_statistics
import ordinal_predictions
import permutation
import prediction_intervals
import randhie
import real
import several_tables
import several_tables_coverage
import signs
import sizes
import slopes
import sparcs
import suppression
import survey_weights
import synpuf
import trust
import trust_real
import unbin
import votes
import wald_size

STORED = Path(__file__).parent / "results" / "first_runs.csv"
CLOSE = 1e-4
"""Relative difference that other processors and libraries may make."""
QUICK = {"n_permutations": 19, "attacks": ("likelihood",)}
CALIFORNIA = 5
"""The code of that state in SynPUF."""


def _accuracy() -> list[float]:
    return [x for family in ("gaussian", "poisson") for x in accuracy.one_run(family, 0.0, 0)]


def _slopes() -> list[float]:
    found = [*slopes.from_histograms("gaussian", 0.0, 8, 0), *slopes.from_quantiles([0.5], 0)]
    return [float(x) for x in found]


def _intervals() -> list[float]:
    return [float(np.mean([intervals.covers("gaussian", 0.2, s) for s in range(10)]))]


def _suppression() -> list[float]:
    share, errors, _ = suppression.one_run("gaussian", 100, 0)
    return [share, *np.concatenate([errors["suppressed"], errors["rounded to 5"]])]


def _one_root() -> list[float]:
    found = one_root.run("overdispersed", "histograms", 60, 0)
    return [each[name] for each in found for name in ("square", "error")]


def _missing_values() -> list[float]:
    return missing_values.one_run((0.3, 0.5, 50), 0)[:, 0].tolist()


def _signs() -> list[float]:
    return signs.fitted(("binomial", "skewed", True), 0)[0].coef_.tolist()


def _clusters() -> list[float]:
    return clusters.one_run(("gaussian", "county", 12, 0.5), 0)["square"].tolist()


def _ecological_bias() -> list[float]:
    return ecological_bias.one_run("gaussian", 60, 50, 1.0, 0).ravel().tolist()


def _identification() -> list[float]:
    X, y, blocks = identification.people(0)
    return common.fit_release(X, y, blocks, 5).coef_.tolist()


def _nonlinear() -> list[float]:
    found = nonlinear.one_run("squared", 0, ("GLM likelihood", "GLM matching"))
    return [found[name] for name in sorted(found)]


def _permutation() -> list[float]:
    return [permutation.share_rejected("block-means", "gaussian", 0.15, 10)]


def _imputation() -> list[float]:
    found = [imputation.one_run(imputation.Scene(effects=True), seed) for seed in range(5)]
    return [float(np.mean([run[name] for run in found])) for name in sorted(found[0])]


def _ordinal_predictions() -> list[float]:
    return list(ordinal_predictions.errors(ordinal_predictions.language(), 4, 1).values())


def _several_tables_coverage() -> list[float]:
    scenes = ("three tables", "suppressed 1 to 10", "ordinal")
    found = [several_tables_coverage.one_run(scene, True, 0) for scene in scenes]
    return [float(x) for run in found for x in (*run.error, *run.se)]


def _survey_weights() -> list[float]:
    scenes = (
        survey_weights.Scene(),
        survey_weights.Scene("poisson", unequal=True),
        survey_weights.Scene("gaussian", several=True, unequal=True, effects=True),
    )
    found = [survey_weights.one_run(scene, "survey", 0) for scene in scenes]
    return [float(x) for run in found for x in (*run.error, *run.se)]


def _nested_tables() -> list[float]:
    scenes = ("nested", "crossing", "medians", "deciles")
    found = [nested_tables.one_run(nested_tables.cells_of(scene)[-1], 0) for scene in scenes]
    tested = nested_tables.one_run(nested_tables.cells_of("context")[1], 0)
    figures = [float(x) for run in found if run is not None for x in (*run.error, *run.se)]
    return [*figures, float("nan") if tested is None else tested.context]


def _observed() -> list[float]:
    scenes = (observed.Scene(effects=True), observed.Scene("ordinal"))
    found = [run for scene in scenes for run in observed.one_run(scene, 0, (0, 200)).values()]
    return [float(x) for run in found for x in (*run.error, *run.se)]


def _several_tables() -> list[float]:
    return [several_tables.errors("Hsb82", several_tables.hsb82(), 1)["together"]]


def _several_tables_coefficients() -> list[float]:
    rows, _ = several_tables.coefficients("Hsb82", several_tables.hsb82())
    return [row[key] for row in rows for key in ("coef", "se", "oracle")]


def _several_tables_binary() -> list[float]:
    row = several_tables.binary(1, ("one-way, noise",))[0]
    return [row["log_loss"], row["rms_from_oracle"]]


def _randhie() -> list[float]:
    X, y = randhie.load()
    blocks = randhie.blocks_of("file order", len(y))
    return [randhie.compare(X, y, blocks, "negative-binomial", 1)[0]]


def _randhie_selection() -> list[float]:
    X, y = (values[::10] for values in randhie.load())
    blocks = randhie.blocks_of("file order", len(y))
    return common.fit_release(X, y, blocks, randhie.BINS, "auto").selection_.score.tolist()


def _figure1() -> list[float]:
    test = figure1.test("gaussian", 5, True, blocks=True, kind="error", n=400, runs=19)
    return [test.statistic, float(np.median(test.null))]


def _figures2_3() -> list[float]:
    found = figures2_3.data_set("gaussian", True, 400, (5,), 0)
    return [float(np.sum(value)) for _, value in sorted(found.items(), key=str)]


def _audit_chance() -> list[float]:
    return _gains(audit.unrelated(0, 0.7, **QUICK))


def _audit_simulated() -> list[float]:
    return _gains(audit.simulated_audit("noise of R² .5", bins=[5], **QUICK))


def _audit_protections() -> list[float]:
    return _gains(audit.protected_audit({"round": 5}, **QUICK))


def _gains(found: unbin.disclosure.Audit) -> list[float]:
    sides = [side for table in found.tables for side in (table.in_table, table.held_out)]
    return [side.measured for side in sides] + [table.utility.value for table in found.tables]


# -- of real people, where UNBIN_DATA names their folder -------------------------------------------


def _synpuf(folder: str) -> list[float]:
    people = synpuf.only(synpuf.load(folder), CALIFORNIA)
    return [synpuf.compare(people, 10, 1, family="ordinal")["over_oracle"]]


def _sparcs(folder: str) -> list[float]:
    X, y, county = sparcs.load(folder)
    return common.fit_release(X, y, county, sparcs.BINS, "ordinal").coef_[:3].tolist()


def _figure4(folder: str) -> list[float]:
    return _errors(figure4.studies(folder, True)[:1])


def _figure5(folder: str) -> list[float]:
    return _errors(figure5.studies(folder, True)[:1])


def _errors(studies: list[real.Study]) -> list[float]:
    return [row["test"] for study in studies for row in real.errors(study, 1)]


def _figure6(folder: str) -> list[float]:
    _, X, y, blocks = next(iter(figure6.data(folder, True)))
    found = figure6.recover(X, y, blocks, "gaussian", "likelihood")
    return [float(np.mean((z - y) ** 2) / np.var(y)) for _, z in sorted(found.items())]


def _audit_synpuf(folder: str) -> list[float]:
    return _gains(audit.medicare(folder, step=40, bins=[5], **QUICK))


def _audit_sparcs(folder: str) -> list[float]:
    return _gains(audit.charges(folder, step=20, bins=[5], **QUICK))


def _default_predictions() -> list[float]:
    found = default_predictions.compare(
        default_predictions.schools()[0], "ordinal", 4, one_block=False
    )
    return [found["over_pooled_mean"], found["plain"]]


def _trust() -> list[float]:
    right = {(c.family, c.release, c.effects): c for c in trust.CELLS if c.blocks == 100}
    cells = [right["gaussian", "6 bins", 0.3], right["poisson", "6 bins", 0.0]]
    found = [trust.one_run(cell, 0) for cell in cells]
    return [float(x) for run in found for x in (*run.off, run.shape, run.context)]


def _sizes() -> list[float]:
    found = [sizes.p_values(cell, 0) for cell in sizes.CELLS[:2]]
    return [each[name] for each in found for name in ("shape_test", "context", "curvature")]


def _wald_size() -> list[float]:
    cells = [cell for cell in wald_size.CELLS if cell.family in ("gaussian", "ordinal")]
    return [p for cell in cells[1:3] for p in wald_size.p_values(cell, 0).values()]


def _prediction_intervals() -> list[float]:
    cells = prediction_intervals.CELLS
    return [x for cell in cells[1:6:4] for x in prediction_intervals.measure(cell, 0).values()]


def _trust_real() -> list[float]:
    rows = trust_real.compare("Exam", several_tables.exam(), 4)
    return [row["worst_of_all"] for row in rows]


def _order_statistics() -> list[float]:
    found = order_statistics.fit_once(("poisson", "quartiles", 30, 100, 0.3), 0)
    return [*found["coef"].tolist(), float(found["effects"])]


def _exact_binary() -> list[float]:
    return exact_binary.one_run(exact_binary.CELLS[2], 0).tolist()


def _bags() -> list[float]:
    return [bags.ours((3, 20, 0.3), 0)]


def _votes(folder: str) -> list[float]:
    return [x for row in votes.real(folder) for x in (row["overall"], row["precinct"])]


def _votes_coverage(folder: str) -> list[float]:
    people = votes.senc(folder)[1].sum(axis=2)
    found = [votes.drawn((people, 0.5, *way), 0) for way in ((0.25, False), ("auto", True))]
    return [float(x) for run in found for x in (run["held_block"], *run["error"], run["scale"])]


def _votes_sparse() -> list[float]:
    found = [votes.sparse(cell, 0) for cell in ("sparse", "margins", "absent")]
    return [x for run in found for x in run["error"]]


FIRST: dict[str, Callable[[], list[float]]] = {
    "accuracy": _accuracy,
    "audit_chance": _audit_chance,
    "audit_protections": _audit_protections,
    "audit_simulated": _audit_simulated,
    "bags": _bags,
    "clusters": _clusters,
    "default_predictions": _default_predictions,
    "ecological_bias": _ecological_bias,
    "exact_binary": _exact_binary,
    "figure1": _figure1,
    "figures2_3": _figures2_3,
    "identification": _identification,
    "imputation": _imputation,
    "intervals": _intervals,
    "missing_values": _missing_values,
    "nested_tables": _nested_tables,
    "nonlinear": _nonlinear,
    "observed": _observed,
    "one_root": _one_root,
    "order_statistics": _order_statistics,
    "ordinal_predictions": _ordinal_predictions,
    "permutation": _permutation,
    "prediction_intervals": _prediction_intervals,
    "randhie": _randhie,
    "randhie_selection": _randhie_selection,
    "several_tables": _several_tables,
    "several_tables_binary": _several_tables_binary,
    "several_tables_coefficients": _several_tables_coefficients,
    "several_tables_coverage": _several_tables_coverage,
    "signs": _signs,
    "sizes": _sizes,
    "slopes": _slopes,
    "suppression": _suppression,
    "survey_weights": _survey_weights,
    "trust": _trust,
    "trust_real": _trust_real,
    "votes_sparse": _votes_sparse,
    "wald_size": _wald_size,
}
"""By the name of the stored file."""
FIRST_OF_REAL: dict[str, Callable[[str], list[float]]] = {
    "audit_sparcs": _audit_sparcs,
    "audit_synpuf": _audit_synpuf,
    "figure4": _figure4,
    "figure5": _figure5,
    "figure6": _figure6,
    "sparcs": _sparcs,
    "synpuf": _synpuf,
    "votes": _votes,
    "votes_coverage": _votes_coverage,
}


def first_run(name: str, folder: str | None = None) -> list[float]:
    """Return the figures of a stored file's first run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FIRST[name]() if name in FIRST else FIRST_OF_REAL[name](str(folder))


def stored() -> dict[str, list[float]]:
    """Return the figures that were stored."""
    with STORED.open(newline="") as file:
        return {name: [float(x) for x in values] for name, *values in csv.reader(file)}


def main() -> None:
    """Compare, or store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", action="store_true")
    args = parser.parse_args()
    folder = common.data_folder()
    known = stored() if STORED.exists() else {}
    for name in [*FIRST, *(FIRST_OF_REAL if folder else ())]:
        found = first_run(name, folder)
        same = name in known and np.allclose(found, known[name], rtol=CLOSE, atol=CLOSE)
        print(f"{name}: {'as stored' if same else 'differs'}", flush=True)
        if args.store:
            known[name] = found
    if args.store:
        with STORED.open("w", newline="") as file:
            rows = ([name, *(f"{x:.8g}" for x in known[name])] for name in sorted(known))
            csv.writer(file).writerows(rows)


if __name__ == "__main__":
    main()
