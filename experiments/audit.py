"""How much tables disclose, and that the audit says nothing where there is nothing to say.

    python experiments/audit.py                        simulated people
    UNBIN_DATA=folder python experiments/audit.py      and Medicare amounts, hospital charges and
                                                       registered voters, who are printed only

Claims: where the features are unrelated to the target within blocks, the gain exceeds its 95 %
point of chance in 5 % of the audits, whether blocks differ or not, and 0 lies in its interval;
without noise the gain rises to nearly 1 with the bins; on real people it is what the tables show.
Stores results/audit_chance.csv, audit_simulated.csv, audit_protections.csv, audit_synpuf.csv and
audit_sparcs.csv.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

import common
import sparcs
import synpuf
import unbin
import votes
from unbin.datasets import simulate

BINS = (2, 5, 10, 25)
EFFECTS = {"blocks alike": 0.0, "blocks differ": 0.7}
SIMULATED = {
    "no noise": (None, 0.0),
    "noise of R² .5": (None, 1.0),
    "unrelated": ([0.0] * 3, 1.0),
}
"""Coefficients and noise."""
PROTECTIONS = (
    {"suppress": 11},
    {"suppress": 11, "complementary": True},
    {"round": 5},
    {"round": 10},
    {"noise": "laplace:1"},
    {"noise": "laplace:0.1"},
    {"noise": "laplace:0.02"},
)


def unrelated(seed: int, effect: float, **settings) -> unbin.disclosure.Audit:
    """Audit a table with unrelated features: 2,000 people in 100 blocks, three features.

    The features differ between blocks, and the target by a block effect that none of them knows.
    """
    sim = simulate(2000, 3, 100, between=0.2, coef=[0.0] * 3, random_state=seed)
    shift = np.random.default_rng(seed).normal(0, effect, 100)
    y = sim.y + shift[sim.blocks.astype(int)]
    return unbin.audit(sim.X, y, sim.blocks, bins=[5], random_state=seed, **settings)


def calibration(audits: list[unbin.disclosure.Audit]) -> dict:
    """Return how often the gain exceeds chance, and its interval misses 0."""
    tables = [audit.tables[0] for audit in audits]
    row = {"audits": len(audits)}
    for name in ("in_table", "held_out"):
        found = [getattr(table, name) for table in tables]
        row |= {
            f"{name}_exceeds_chance": float(np.mean([d.measured > d.chance for d in found])),
            f"{name}_interval_misses_0": float(np.mean([d.gain.low > 0 for d in found])),
            f"{name}_largest_gain": float(max(d.gain.value for d in found)),
        }
    return row


def table_rows(audit: unbin.disclosure.Audit) -> list[dict]:
    """Return a row for each table and set of people."""
    rows = []
    for table in audit.tables:
        for found in (table.in_table, table.held_out):
            told = {each.attack: each for each in table.attacks if each.people == found.people}
            best = told[found.attack]
            rows.append(
                {
                    "level": table.level,
                    "blocks": table.n_blocks,
                    "bins": table.bins,
                    "published_bins": table.n_bins,
                    "people": found.people,
                    "attack": found.attack,
                    "gain": found.gain.value,
                    "low": found.gain.low,
                    "high": found.gain.high,
                    "measured": found.measured,
                    "chance": found.chance,
                    "p": found.p_value,
                    "r2": best.all.r2,
                    "r2_block": told["block histogram"].all.r2,
                    "r2_public": told["public model"].all.r2,
                    "within_10": best.all.within_10,
                    "within_10_block": told["block histogram"].all.within_10,
                    "exposed_gain": best.exposed_gain,
                    "beyond_public": found.beyond_public,
                    "utility": table.utility.value,
                    "analyst": table.utility.family,
                    "efficiency": table.utility.efficiency,
                    "cells_under_11": table.cells.cells_under,
                    "derived": table.cells.derived,
                }
            )
    return rows


def simulated() -> list[dict]:
    """Audit people without noise, and people whose features are unrelated to the target."""
    return [
        {"who": name} | row
        for name in SIMULATED
        for row in table_rows(simulated_audit(name, bins=BINS))
    ]


def simulated_audit(name: str, **settings) -> unbin.disclosure.Audit:
    """Audit one kind of simulated people."""
    coef, noise = SIMULATED[name]
    sim = simulate(5000, 3, 100, between=0.2, coef=coef, noise=noise, random_state=0)
    return unbin.audit(sim.X, sim.y, sim.blocks, random_state=0, **settings)


def protections() -> list[dict]:
    """Audit a table of 10 bins by block as it is, and protected in several ways."""
    rows = []
    for protection in PROTECTIONS:
        found = protected_audit(protection)
        for table in found.tables[1 if rows else 0 :]:
            rows.append(
                {
                    "protection": table.protection or "none",
                    "r2": table.best("in the table").all.r2,
                    "r2_block": _r2(table, "block histogram"),
                    "attack": table.in_table.attack,
                    "gain": table.in_table.gain.value,
                    "low": table.in_table.gain.low,
                    "high": table.in_table.gain.high,
                    "held_out_gain": table.held_out.gain.value,
                    "utility": table.utility.value,
                    "efficiency": table.utility.efficiency,
                    "hidden_cells": table.cells.hidden,
                    "derived": table.cells.derived,
                    "narrowed": table.cells.narrowed,
                }
            )
    return rows


def protected_audit(protection: Mapping, **settings) -> unbin.disclosure.Audit:
    """Audit a table of 10 bins by block as it is, and protected in one way."""
    sim = simulate(5000, 3, 100, between=0.2, random_state=0)
    return unbin.audit(
        sim.X, sim.y, sim.blocks, bins=[10], random_state=0, **protection, **settings
    )


def _r2(table: unbin.disclosure.results.PlannedTable, name: str) -> float:
    return next(each.all.r2 for each in table.attacks if each.attack == name)


def medicare(folder: str, step: int = 1, **settings) -> unbin.disclosure.Audit:
    """Audit tables of carrier reimbursements, for everybody, by state and by county."""
    people = synpuf.load(folder)
    state = np.array([block.split("-", 1)[0] for block in people.blocks])
    levels = {"everybody": None, "state": state, "county": people.blocks}
    return _audit(people.X, people.target("MEDREIMB_CAR"), levels, step, settings)


def charges(folder: str, step: int = 1, **settings) -> unbin.disclosure.Audit:
    """Audit tables of hospital charges, for everybody, by county and by hospital."""
    X, y, county = sparcs.load(folder)
    levels = {"everybody": None, "county": county, "hospital": hospitals(folder)}
    return _audit(X, np.exp(y), levels, step, settings)


def voters(folder: str, **settings) -> unbin.disclosure.Audit:
    """Audit the table of parties by precinct; attackers know everybody's race."""
    names, cells, races = votes.senc(folder)
    place = np.nonzero(cells)
    known = zip((names, races, votes.PARTIES), place, strict=True)
    precinct, race, party = (np.array(what)[k] for what, k in known)
    X = pd.DataFrame({name: 1.0 * (race == name) for name in races[1:]})
    settings = {"weights": cells[place], "random_state": 0} | settings
    return unbin.audit(X, party, {"precinct": precinct}, **settings)


def hospitals(folder: str) -> np.ndarray:
    """Return the hospital of each patient."""
    return pd.read_csv(Path(folder) / sparcs.FILE)["Permanent.Facility.Id"].to_numpy()


def _audit(
    X: np.ndarray, y: np.ndarray, levels: Mapping, step: int, settings: Mapping
) -> unbin.disclosure.Audit:
    """Audit every ``step``-th person."""
    chosen = {name: None if level is None else level[::step] for name, level in levels.items()}
    common_settings = {"bins": BINS, "target_transform": "log", "random_state": 0}
    common_settings |= {"together": False}  # the levels are alternatives
    return unbin.audit(
        X[::step],
        y[::step],
        chosen,
        progress=lambda text: print(text, flush=True),
        **common_settings | dict(settings),
    )


def main() -> None:
    runs = common.runs_from_command_line(__doc__, 200)
    full = runs >= 200
    rows = [
        {"null": name} | calibration([unrelated(seed, effect) for seed in range(runs)])
        for name, effect in EFFECTS.items()
    ]
    common.report("audit_chance", rows, store=full)
    common.report("audit_simulated", simulated(), store=full)
    common.report("audit_protections", protections(), store=full)
    folder = common.data_folder()
    if folder is None:
        return
    print(voters(folder))
    for name, study in (("audit_sparcs", charges), ("audit_synpuf", medicare)):
        found = study(folder)
        print(found)
        common.report(name, table_rows(found), store=full)


if __name__ == "__main__":
    main()
