"""A zip code of 3,000 levels: through tabmat, written out, and as a scipy sparse matrix.

    python benchmarks/wide.py
    python benchmarks/wide.py --n 50000 --levels 1000

Whole fits through tabmat beside fits to the columns written out (of the likelihood with a sixth of
the levels), and the three products that fits are made of beside scipy's, all on one thread.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import pandas as pd
import tabmat
from scipy import sparse

import unbin
from timing import best_of  # it keeps to one thread


def make_people(n: int, levels: int, n_blocks: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    county = rng.integers(0, n_blocks, n)
    zip_code = (county * levels // n_blocks + rng.integers(0, 40, n)) % levels
    frame = pd.DataFrame({f"x{j}": rng.normal(size=n) for j in range(10)})
    y = frame.to_numpy() @ rng.normal(size=10) + rng.normal(size=levels)[zip_code]
    frame["zip"] = pd.Categorical(np.char.add("z", zip_code.astype(str)))
    return frame, y + rng.normal(size=n), county


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=50_000)
    parser.add_argument("--levels", type=int, default=3000)
    parser.add_argument("--blocks", type=int, default=2000)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    frame, y, county = make_people(args.n, args.levels, args.blocks)
    wide = tabmat.from_pandas(frame, drop_first=True)
    written = np.asfortranarray(wide.toarray())
    csr = sparse.csr_array(written)
    csc = sparse.csc_array(written)
    n, d = wide.shape
    print(
        f"n = {n:,}, {d:,} columns of which {args.levels:,} are zip codes, {args.blocks:,} blocks"
    )
    rng = np.random.default_rng(1)
    v, r, w = rng.normal(size=d), rng.normal(size=n), rng.random(n)
    products = {
        "X v": (lambda: wide.matvec(v), lambda: written @ v, lambda: csr @ v),
        "Xᵀ r": (lambda: wide.transpose_matvec(r), lambda: written.T @ r, lambda: csc.T @ r),
        "Xᵀ W X": (
            lambda: wide.sandwich(w),
            lambda: written.T @ (written * w[:, None]),
            lambda: (csc.T @ sparse.diags_array(w) @ csr).toarray(),
        ),
    }
    print(f"{'product':>8} {'tabmat ms':>10} {'dense ×':>8} {'sparse ×':>8}")
    for name, runs in products.items():
        seconds = [best_of(run)[0] for run in runs]
        ratios = [t / seconds[0] for t in seconds[1:]]
        print(
            f"{name:>8} {1e3 * seconds[0]:>10.2f} {ratios[0]:>8.1f} {ratios[1]:>8.1f}", flush=True
        )
    print(f"{'fit':>10} {'levels':>6} {'tabmat s':>10} {'dense s':>8} {'times':>6}  apart")
    for method, levels in (("matching", args.levels), ("likelihood", args.levels // 6)):
        frame, y, county = make_people(args.n, levels, args.blocks)
        target = unbin.aggregate(y, county, 10).align(county)
        wide = tabmat.from_pandas(frame, drop_first=True)
        found, seconds = [], []
        for X in (wide, np.asfortranarray(wide.toarray())):
            model = unbin.AggregatedGLM(method=method, alpha=1e-3, random_state=0, n_jobs=1)
            began = time.perf_counter()
            model.fit(X, target)
            seconds.append(time.perf_counter() - began)
            found.append(model.coef_)
        apart = np.abs(found[0] - found[1]).max()
        times = seconds[1] / seconds[0]
        print(f"{method:>10} {levels:>6,} {seconds[0]:>10.1f} {seconds[1]:>8.1f} {times:>6.1f}"
              f"  {apart:.1e}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
