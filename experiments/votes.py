"""Votes by group from precincts' margins: who is in the wrong cell, and intervals that hold.

    python experiments/votes.py

``votes.csv``: registrations of 212 precincts of North Carolina (``UNBIN_DATA``), party by race with
every inner cell known and hidden from the fit: people in a wrong cell, over all precincts together
("overall") and precinct by precinct, in per cent, at three scales z of contextual slopes; one
category against the rest is the binomial family three times. The figures of other programs are in
the data's README.

``votes_coverage.csv``: the same precincts and races, parties drawn with effects of sd 0.4 per
precinct, race and party, related to the precinct's composition ("related", slopes of sd 0.5 on the
shares of the races) or not; the share of 95 % intervals that hold the cells of everybody, and those
of a precinct. A second table is of the party by race in four regions; "z_used" is the mean scale of
contextual slopes, estimated where z is "auto".

``votes_sparse.csv``: 40 polling stations, 5 groups, 8 parties, most cells near 0; columns of votes
that are a few people short of the rows; a party that stands in one station of five only. "pooled"
gives every group the shares of its station.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
import pandas as pd

import common
import unbin
from unbin.exceptions import AlignmentWarning, SpecificationWarning

RACES, PARTIES = ("white", "black", "natam"), ("dem", "rep", "non")
PREFIXES = ("wh", "bl", "natam")
SENC = "senc_nc_registration.csv"
SCALES = (0.0, 0.25, 0.5)


def senc(folder: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return names of precincts, and people by precinct, race and party."""
    with open(f"{folder}/{SENC}", encoding="utf-8") as file:
        header, *lines = [line.strip().replace('"', "").split(",") for line in file]
    place = {name: k for k, name in enumerate(header)}
    names = np.array([f"{line[0]} {line[1]}" for line in lines])
    cells = [[[float(line[place[a + b]]) for b in PARTIES] for a in PREFIXES] for line in lines]
    return names, np.array(cells), np.array(RACES)


def tables(names: np.ndarray, people: np.ndarray, counts: np.ndarray, groups, categories):
    """Return people as rows with weights, and the release of their categories."""
    kept = people.ravel() > 0
    rows = {
        "block": np.repeat(names, people.shape[1])[kept],
        "group": np.tile(np.array(groups), len(names))[kept],
        "n": people.ravel()[kept],
    }
    votes = {
        "block": np.repeat(names, counts.shape[1]),
        "category": np.tile(np.array(categories), len(names)),
        "count": counts.ravel(),
    }
    return rows, votes


def fit(rows: dict, release: unbin.Release, scale: float | str, others: dict | None = None):
    """Fit the table of the blocks, and perhaps ``others`` by the column of theirs."""
    tables = {"block": release} | (others or {})
    model = unbin.AggregatedClassifier(random=["group"], contextual=scale)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpecificationWarning)
        return model.fit(pd.DataFrame(rows), tables, features=["group"], weights="n")


def estimated(model, names, groups, categories, what="count") -> np.ndarray:
    """Return a column of the cells of all blocks, (B, G, K)."""
    table = model.block_table("group")
    place = [{str(name): k for k, name in enumerate(each)} for each in (names, groups, categories)]
    found = np.zeros((len(names), len(groups), len(categories)))
    columns = "block", "group", "category"
    at = [[p[str(v)] for v in table[c]] for p, c in zip(place, columns, strict=True)]
    found[tuple(at)] = table[what]
    return found


def wrong(found: np.ndarray, cells: np.ndarray) -> tuple[float, float]:
    """Return the per cent of people in a wrong cell, overall and block by block."""
    total = cells.sum()
    overall = np.abs(found.sum(axis=0) - cells.sum(axis=0)).sum()
    return 50 * float(overall) / total, 50 * float(np.abs(found - cells).sum()) / total


def real(folder: str) -> list[dict]:
    """Return the errors on the registrations."""
    names, cells, groups = senc(folder)
    rows, votes = tables(names, cells.sum(axis=2), cells.sum(axis=1), groups, PARTIES)
    release = unbin.Release.from_categories(votes)
    found = []
    for scale in SCALES:
        began = time.perf_counter()
        model = fit(rows, release, scale)
        seconds = time.perf_counter() - began
        overall, each = wrong(estimated(model, names, groups, PARTIES), cells)
        found.append(
            {
                "method": f"z = {scale:g}",
                "overall": overall,
                "precinct": each,
                "rows": len(rows["n"]),
            }
        )
        print(f"z = {scale:g}: {seconds:.2f} s, with the two other scales")
    found.append({"method": "one against the rest", **_one_against_rest(names, cells)})
    return found


def _one_against_rest(names, cells) -> dict:
    """Return the errors of three binomial fits, shares of a group scaled to 1."""
    indicator = np.eye(3)[:, 1:]
    people = cells.sum(axis=2)
    X = np.tile(indicator, (len(names), 1))
    weights, block = people.ravel(), np.repeat(names, 3)
    kept, shares = weights > 0, []
    for k in range(3):
        counts = cells.sum(axis=1)
        table = {
            "block": np.tile(names, 2),
            "lower": np.repeat([0, 1], len(names)),
            "upper": np.repeat([0, 1], len(names)),
            "count": np.concatenate([counts.sum(axis=1) - counts[:, k], counts[:, k]]),
        }
        release = unbin.Release.from_histogram(table, closed="both")
        model = common.fit_quietly(
            X[kept], release.align(block[kept], weights=weights[kept]), "binomial"
        )
        shares.append(model.predict(indicator))
    share = np.array(shares).T / np.sum(shares, axis=0)[:, None]
    overall, each = wrong(people[:, :, None] * share, cells)
    return {"overall": overall, "precinct": each, "rows": int(kept.sum())}


# -- coverage --------------------------------------------------------------------------------------


def drawn(cell: tuple, seed: int) -> dict:
    """Return whether intervals hold cells of drawn registrations."""
    people, related, scale, second = cell
    rng = np.random.default_rng(seed)
    n_blocks, n_groups = people.shape
    share = people / people.sum(axis=1, keepdims=True) - people.sum(axis=0) / people.sum()
    level = np.log([[0.46, 0.38, 0.16], [0.9, 0.04, 0.06], [0.9, 0.05, 0.05]])
    slopes = related * rng.normal(size=(n_groups, n_groups, 3))
    eta = level + 0.4 * rng.normal(size=(n_blocks, n_groups, 3))
    eta += np.einsum("bq,gqk->bgk", share, slopes)
    chance = np.exp(eta) / np.exp(eta).sum(axis=2, keepdims=True)
    cells = rng.multinomial(people.astype(int), chance).astype(float)
    names = common.block_names(np.arange(n_blocks))
    rows, votes = tables(names, people, cells.sum(axis=1), RACES, PARTIES)
    others = None
    if second:
        region = {name: str(k % 4) for k, name in enumerate(names)}
        rows["region"] = [f"{region[b]} {g}" for b, g in zip(rows["block"], rows["group"],
                          strict=True)]  # fmt: skip
        sums = np.stack([cells[k::4].sum(axis=0) for k in range(4)])
        by_region = {
            "block": np.repeat([f"{k} {race}" for k in range(4) for race in RACES], 3),
            "category": np.tile(PARTIES, 12),
            "count": sums.ravel(),
        }
        others = {"region": unbin.Release.from_categories(by_region)}
    model = fit(rows, unbin.Release.from_categories(votes), scale, others)
    table = model.group_table("group")
    truth = cells.sum(axis=0) / people.sum(axis=0)[:, None]
    place = [RACES.index(a) for a in table["group"]], [PARTIES.index(b) for b in table["category"]]
    true = truth[place]
    ends = [estimated(model, names, RACES, PARTIES, each) for each in ("conf_low", "conf_high")]
    low, high = (np.nan_to_num(each) * people[:, :, None] for each in ends)
    someone = np.broadcast_to(people[:, :, None] > 0, cells.shape)
    held = (low - 1e-6 <= cells) & (cells <= high + 1e-6)
    return {
        "held": np.mean((table["conf_low"] <= true) & (true <= table["conf_high"])),
        "held_block": held[someone].mean(),
        "error": wrong(estimated(model, names, RACES, PARTIES), cells),
        "scale": model.context_sd_,
        "converged": model.status_.converged,
    }


def coverage(folder: str, runs: int) -> list[dict]:
    """Return how often intervals hold."""
    people = senc(folder)[1].sum(axis=2)
    ways = [(0.0, False), (0.25, False), (0.5, False), (0.0, True), ("auto", True)]
    cells = [(people, related, *way) for related in (0.0, 0.5) for way in ways]
    found = common.over_cells(drawn, cells, runs)
    return [
        {
            "related": related,
            "tables": 1 + second,
            "z": scale,
            "z_used": float(np.mean([run["scale"] for run in fits])),
            "runs": runs,
            "cover": float(np.mean([run["held"] for run in fits])),
            "cover_block": float(np.mean([run["held_block"] for run in fits])),
            "overall": float(np.mean([run["error"][0] for run in fits])),
            "precinct": float(np.mean([run["error"][1] for run in fits])),
            "converged": float(np.mean([run["converged"] for run in fits])),
        }
        for (_, related, scale, second), fits in zip(cells, found, strict=True)
    ]


# -- sparse tables ---------------------------------------------------------------------------------

GROUPS, STATIONS = tuple("abcde"), 40


def sparse(cell: str, seed: int) -> dict:
    """Return errors on a sparse table: 5 groups, 8 parties, 40 stations."""
    rng = np.random.default_rng(seed)
    parties = tuple(f"p{k}" for k in range(8))
    people = rng.multinomial(rng.integers(300, 900, STATIONS), rng.dirichlet([5, 3, 1, 0.5, 0.3],
                             STATIONS)).astype(int)  # fmt: skip
    chance = rng.dirichlet(np.array([6, 4, 2, 1, 0.3, 0.2, 0.1, 0.05]), len(GROUPS))
    eta = np.log(np.maximum(chance, 1e-4)) + 0.2 * rng.normal(size=(STATIONS, len(GROUPS), 8))
    chance = np.exp(eta)
    if cell == "absent":
        chance[rng.random(STATIONS) > 0.2, :, 3] = 0.0
    chance /= chance.sum(axis=2, keepdims=True)
    cells = rng.multinomial(people, chance).astype(float)
    counts, names = cells.sum(axis=1), common.block_names(np.arange(STATIONS))
    if cell == "margins":
        counts = np.maximum(counts - rng.integers(0, 3, counts.shape), 0)
    rows, votes = tables(names, people, counts, GROUPS, parties)
    offered = (cells.sum(axis=1) > 0).ravel() | (votes["category"] != "p3") | (cell != "absent")
    votes = {name: values[offered] for name, values in votes.items()}
    release = unbin.Release.from_categories(
        votes, categories=parties, absent="structural" if cell == "absent" else "zero"
    )
    frame = pd.DataFrame(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AlignmentWarning)
        warnings.simplefilter("ignore", SpecificationWarning)
        target = release.align(frame["block"], weights=frame["n"], scale=True)
        began = time.perf_counter()
        model = unbin.AggregatedClassifier(random=["group"]).fit(frame[["group"]], target)
    found = estimated(model, names, GROUPS, parties)
    pooled = people[:, :, None] * (counts / counts.sum(axis=1, keepdims=True))[:, None, :]
    return {
        "error": wrong(found, cells),
        "pooled": wrong(pooled, cells),
        "finite": bool(np.isfinite(found).all() and np.isfinite(model.coef_).all()),
        "converged": model.status_.converged,
        "seconds": time.perf_counter() - began,
    }


def sparse_tables(runs: int) -> list[dict]:
    """Return errors on sparse tables."""
    cells = ("sparse", "margins", "absent")
    found = common.over_cells(sparse, cells, runs)
    return [
        {
            "tables": cell,
            "runs": runs,
            "overall": float(np.mean([run["error"][0] for run in fits])),
            "station": float(np.mean([run["error"][1] for run in fits])),
            "pooled_overall": float(np.mean([run["pooled"][0] for run in fits])),
            "pooled_station": float(np.mean([run["pooled"][1] for run in fits])),
            "finite": float(np.mean([run["finite"] for run in fits])),
            "converged": float(np.mean([run["converged"] for run in fits])),
        }
        for cell, fits in zip(cells, found, strict=True)
    ]


def main() -> None:
    runs = common.runs_from_command_line(__doc__, 200)
    common.report("votes_sparse", sparse_tables(runs), store=runs >= 200)
    folder = common.data_folder()
    if folder is not None:
        common.report("votes", real(folder), store=True)
        common.report("votes_coverage", coverage(folder, runs), store=runs >= 200)


if __name__ == "__main__":
    main()
