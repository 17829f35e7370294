"""Counties lie in states: intervals by county and by state, in one table and in several.

    python experiments/clusters.py

Ten counties of 40 people in each of 12, 20 or 48 states, three features of which a third of the
variance lies between states, slopes (0.5, -0.3, 0.2), and a normal effect of every state on the
linear predictor, with standard deviation "effects". Tables: by county; by county, county × a
feature and county × another one; by county, by sex and by age group. Of fits by block and with
``cluster=state``: "cover" is the share of 95 % intervals that hold the truth, "off" that of fits
with a slope more than three standard errors off, "reported" that of fits by block which say
that states are missing, "fewer_df" the coverage with as many degrees of freedom as states less
four, "wider" the median width over that by block, "found" the share in which states have an effect,
"shape" and "context" the shares of tests that reject at 5 %.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit
from scipy.stats import t as student

import common
import unbin

SLOPES = np.array([0.5, -0.3, 0.2])
COUNTIES, PEOPLE = 10, 40
BINS = {
    "gaussian": 7,
    "poisson": [-0.5, 0.5, 1.5, 2.5, 4.5, 8.5, 1e9],
    "binomial": [-0.5, 0.5, 1.5],
    "ordinal": [-0.5, 0.5, 1.5, 2.5, 3.5, 4.5],
}
CELLS = [
    (family, tables, states, effects)
    for family, tables in (
        *(("gaussian", tables) for tables in ("county", "nested", "crossed")),
        *((family, "county") for family in ("poisson", "binomial", "ordinal")),
    )
    for states in (12, 20, 48)
    for effects in (0.0, 0.2, 0.5)
]


def people(rng, n_states: int, counties: int, size: int, slopes: np.ndarray, effects: float):
    """Return features, linear predictors and counties of people, state after state."""
    code = np.repeat(np.arange(n_states * counties), size)
    states, d = code // counties, len(slopes)
    X = rng.normal(size=(len(code), d)) + 0.7 * rng.normal(size=(n_states, d))[states]
    X += 0.4 * rng.normal(size=(n_states * counties, d))[code]
    return X, X @ slopes + effects * rng.normal(size=n_states)[states], code


def draw(family: str, eta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return outcomes with this linear predictor."""
    if family == "poisson":
        return rng.poisson(np.exp(eta)).astype(float)
    if family == "binomial":
        return (rng.random(len(eta)) < expit(eta)).astype(float)
    if family == "ordinal":
        latent = eta + rng.logistic(size=len(eta))
        return np.digitize(latent, [-1.5, -0.5, 0.5, 1.5]).astype(float)
    return eta + rng.normal(size=len(eta))


def join(tables: str, y: np.ndarray, X: np.ndarray, county: np.ndarray, bins, rng):
    """Publish the tables of a cell."""
    splits = [county]
    if tables == "nested":
        halves = np.where(X[:, 0] > np.median(X[:, 0]), "h", "l")
        thirds = np.digitize(X[:, 1], [-0.7, 0.7]).astype(str)
        splits += [np.char.add(np.char.add(county, " | "), each) for each in (halves, thirds)]
    elif tables == "crossed":
        splits += [rng.choice(["f", "m"], len(y)), rng.integers(0, 4, len(y)).astype(str)]
    aligned = [unbin.aggregate(y, split, bins).align(split) for split in splits]
    return unbin.join(*aligned) if len(aligned) > 1 else aligned[0]


def one_run(cell: tuple, seed: int) -> dict:
    """Fit by county and by state, and return what counts."""
    family, tables, n_states, effects = cell
    rng = np.random.default_rng([seed, n_states])
    X, eta, code = people(rng, n_states, COUNTIES, PEOPLE, SLOPES, effects)
    states = code // COUNTIES
    y = draw(family, eta, rng)
    target = join(tables, y, X, common.block_names(code), BINS[family], rng)
    found = {}
    for how, cluster in (("_block", None), ("", common.block_names(states))):
        model = common.fit(X, target, family, cluster, random_state=0, n_jobs=1)
        low, high = model.conf_int().T
        away, tests = 0.5 * (low + high) - SLOPES, model.diagnostics_
        z = np.abs(away) / model.standard_errors_
        found |= {
            f"cover{how}": (low < SLOPES) & (high > SLOPES),
            f"fewer{how}": z < student.ppf(0.975, n_states - 1 - len(SLOPES)),
            f"off{how}": (z > 3).any(),
            f"square{how}": away**2,
            f"width{how}": high - low,
            f"trusted{how}": tests.trusted,
            f"reported{how}": any("belong together" in reason for reason in tests.reasons),
            f"found{how}": any(each.sd > 0 for each in model.clusters_),
            f"shape{how}": tests.shape.p_value < 0.05,
            f"context{how}": tests.context.p_value < 0.05,
        }
    return found


def table(runs: int) -> list[dict]:
    """Return a row for each cell."""
    rows = []
    for cell, found in zip(CELLS, common.over_cells(one_run, CELLS, runs), strict=True):

        def mean(name: str, found: list[dict] = found) -> float:
            return float(np.mean([each[name] for each in found]))

        family, tables, states, effects = cell
        wider = [each["width"] / each["width_block"] for each in found]
        rows.append(
            {
                "family": family,
                "tables": tables,
                "states": states,
                "effects": effects,
                "runs": len(found),
                "cover_block": mean("cover_block"),
                "off_block": mean("off_block"),
                "trusted_block": mean("trusted_block"),
                "reported": mean("reported_block"),
                "cover": mean("cover"),
                "fewer_df": mean("fewer"),
                "off": mean("off"),
                "trusted": mean("trusted"),
                "wider": float(np.median(wider)),
                "rmse_block": mean("square_block") ** 0.5,
                "rmse": mean("square") ** 0.5,
                "found": mean("found"),
                "shape_block": mean("shape_block"),
                "shape": mean("shape"),
                "context": mean("context"),
            }
        )
    return rows


if __name__ == "__main__":
    runs = common.runs_from_command_line(__doc__, 200)
    common.report("clusters", table(runs), store=runs >= 200)
