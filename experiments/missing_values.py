"""Features that some people lack: the slope of one, and what its intervals cover.

    python experiments/missing_values.py

100 blocks, a gaussian outcome in six bins, slopes 1 of a number and 0.5 of a category; the number
is missing at random for a tenth or three tenths of the people. "complete": nobody lacks it; "drop"
and "mean" as in ``unbin.glm(missing=…)``; "survey": those who have it, as a sample of their blocks
(``weighting="survey"``). "between" is the standard deviation of block means, that within being 1.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

import common
import unbin

BLOCKS = 100
CELLS = [
    (share, between, size)
    for share in (0.1, 0.3)
    for between, size in ((0.5, 10), (0.5, 50), (0.2, 200))
]
WAYS = ("complete", "drop", "mean", "survey")


def people(between: float, size: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Return people, and an outcome that is never seen."""
    place = np.repeat(np.arange(BLOCKS), size)
    age = rng.normal(size=len(place)) + between * rng.normal(size=BLOCKS)[place]
    female = rng.random(len(place)) < rng.uniform(0.2, 0.8, BLOCKS)[place]
    frame = pd.DataFrame({"block": common.block_names(place), "age": age})
    frame["sex"] = np.where(female, "f", "m")
    return frame, age + 0.5 * ~female + rng.normal(size=len(place))


def fitted(way: str, frame: pd.DataFrame, gaps: pd.DataFrame, table: unbin.Release):
    """Return the model of one way to go on."""
    settings = {"family": "gaussian"}
    rows = frame if way == "complete" else gaps
    if way == "survey":
        rows = gaps.dropna(subset="age")
        sizes = rows.groupby("block").size()
        rows = rows.assign(w=rows["block"].map(gaps.groupby("block").size() / sizes))
        settings |= {"weights": "w", "weighting": "survey"}
    elif way != "complete":
        settings["missing"] = way
    return unbin.glm("age + sex", rows, {"block": table}, **settings)


def one_run(cell: tuple[float, float, int], seed: int) -> np.ndarray:
    """Return the slope, and whether its interval covers the truth, of each way to go on."""
    share, between, size = cell
    rng = np.random.default_rng(seed)
    frame, y = people(between, size, rng)
    gaps = frame.assign(age=frame["age"].mask(rng.random(len(frame)) < share))
    table = unbin.aggregate(y, frame["block"], bins=6)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for way in WAYS:
            model = fitted(way, frame, gaps, table)
            low, high = model.conf_int()[0]
            found.append([common.estimates(model)[0], low <= 1 <= high])
    return np.array(found, dtype=float)


def main() -> None:
    runs = common.runs_from_command_line(__doc__, 100)
    rows = []
    for (share, between, size), found in zip(
        CELLS, common.over_cells(one_run, CELLS, runs), strict=True
    ):
        for k, way in enumerate(WAYS):
            slope, cover = np.mean(found, axis=0)[k]
            rows.append(
                {"missing": share, "between": between, "people": size, "way": way}
                | {"slope": float(slope), "cover": float(cover)}
            )
    common.report("missing_values", rows, store=runs >= 100)


if __name__ == "__main__":
    main()
