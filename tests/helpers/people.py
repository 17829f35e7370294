"""Simulated people, in memory and in files."""

import numpy as np
import pandas as pd


def draw_people(rng, codes, noise=0.5):
    """Draw two features that differ between blocks, and targets with slopes 1 and -0.5."""
    X = rng.normal(size=(len(codes), 2)) + rng.normal(size=(codes.max() + 1, 2))[codes]
    return X, X @ [1.0, -0.5] + noise * rng.normal(size=len(codes))


def simulate_patients():
    """Return 2,000 patients of 40 counties, and what their stay cost."""
    rng = np.random.default_rng(0)
    county = np.repeat([f"{5001 + 2 * c:05d}" for c in range(40)], 50)
    age = rng.normal(50, 10, 2000) + rng.normal(0, 6, 40).repeat(50)
    sex = np.where(rng.random(2000) < rng.uniform(0.2, 0.8, 40).repeat(50), "f", "m")
    los = np.exp(rng.normal(1, 0.4, 2000) + rng.normal(0, 0.3, 40).repeat(50))
    cost = 0.1 * age - (sex == "m") + 2 * np.log(los) + rng.normal(size=2000)
    return pd.DataFrame({"county": county, "age": age, "sex": sex, "los": los, "cost": cost})


def write_people(folder, sim, *, n_files=4, row_group_size=400, seed=1, offset=None):
    """Write people to Parquet files in random order, the blocks all over the files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    order = np.random.default_rng(seed).permutation(len(sim.y))
    X, y, county = sim.X[order], sim.y[order], np.asarray(sim.blocks)[order].astype(str)
    names = [f"x{j}" for j in range(X.shape[1])]
    for k, rows in enumerate(np.array_split(np.arange(len(y)), n_files)):
        columns = {name: X[rows, j] for j, name in enumerate(names)} | {"county": county[rows]}
        if offset is not None:
            columns["exposure"] = offset[order][rows]
        pq.write_table(pa.table(columns), folder / f"p{k}.parquet", row_group_size=row_group_size)
    return X, y, county, names
