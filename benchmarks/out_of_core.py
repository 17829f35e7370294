"""People in Parquet files, fitted without ever being in memory as a whole.

    python benchmarks/out_of_core.py                          n = 10,000,000 (a few minutes)
    python benchmarks/out_of_core.py --stream --engine local  parts read again at each pass
    python benchmarks/out_of_core.py --engine dask --workers 1 --memory 512MB

Prints the time of a fit and the peak memory of all its processes together, as the sum of their
resident sets sampled every 50 ms. The people of a block are spread over all files.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import unbin
from unbin.rows import parts as local

FILE_ROWS = 500_000


def write_people(folder: Path, n: int, d: int, n_blocks: int, n_bins: int) -> tuple[Path, float]:
    """Write people to Parquet and their histograms to CSV; return its path and the size of X."""
    rng = np.random.default_rng(0)
    coef = rng.normal(size=d) / np.sqrt(d)
    shift = 0.3 * rng.normal(size=(n_blocks, d))
    edges = np.quantile(rng.normal(size=100_000) * 1.2, np.arange(1, n_bins) / n_bins)
    count = np.zeros((n_blocks, n_bins), dtype=np.int64)
    for k, low in enumerate(range(0, n, FILE_ROWS)):
        size = min(FILE_ROWS, n - low)
        code = rng.integers(0, n_blocks, size)
        X = rng.normal(size=(size, d)) + shift[code]
        y = X @ coef + 0.7 * rng.normal(size=size)
        place = np.searchsorted(edges, y)
        count += np.bincount(code * n_bins + place, minlength=n_blocks * n_bins).reshape(
            count.shape
        )
        columns = {f"x{j}": X[:, j] for j in range(d)}
        table = pa.table(columns | {"county": code.astype(np.str_)})
        pq.write_table(
            table,
            folder / f"people{k:03d}.parquet",
            row_group_size=50_000,
            write_page_checksum=True,
        )
    lower, upper = np.concatenate([[-np.inf], edges]), np.concatenate([edges, [np.inf]])
    release = {
        "block": np.repeat(np.arange(n_blocks).astype(str), n_bins),
        "lower": np.tile(lower, n_blocks),
        "upper": np.tile(upper, n_blocks),
        "count": count.ravel(),
    }
    path = folder / "release.json"
    path.write_text(json.dumps({k: v.tolist() for k, v in release.items()}))
    (folder / "coef.json").write_text(json.dumps(coef.tolist()))
    return path, 8.0 * n * d


def fit(folder: Path, method: str, engine: str, d: int, workers: int, memory: str | None) -> None:
    """Fit in this process, and print what came out."""
    warnings.simplefilter("ignore")
    table = json.loads((folder / "release.json").read_text())
    release = unbin.Release.from_histogram(table)
    names = [f"x{j}" for j in range(d)]
    client = None
    if engine == "dask":
        import dask
        import distributed

        from unbin.rows.engines.dask import MEMORY

        dask.config.set(MEMORY)
        cluster = distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=memory or "auto",
            dashboard_address=None,
        )
        client = distributed.Client(cluster)
    model = unbin.AggregatedGLM(method=method, engine=engine, client=client, random_state=0)
    began = time.perf_counter()
    model.fit(f"{folder}/*.parquet", release, block="county", features=names)
    seconds = time.perf_counter() - began
    coef = json.loads((folder / "coef.json").read_text())
    found = {
        "seconds": seconds,
        "iterations": int(model.n_iter_),
        "status": model.status_.name,
        "error": float(np.abs(model.coef_ - coef).max()),
        "sum": float(model.coef_.sum()),
    }
    print(json.dumps(found), flush=True)
    if client is not None:
        client.shutdown()


def watched(command: list[str]) -> tuple[dict[str, object], float]:
    """Run a command; return what it printed last and the peak memory of its processes."""
    run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    process, peak = psutil.Process(run.pid), 0.0

    def watch() -> None:
        nonlocal peak
        while run.poll() is None:
            try:
                everybody = [process, *process.children(recursive=True)]
                peak = max(peak, sum(one.memory_info().rss for one in everybody))
            except psutil.NoSuchProcess:
                pass  # ended in the meantime
            time.sleep(0.05)

    thread = threading.Thread(target=watch)
    thread.start()
    out = run.communicate()[0]
    thread.join()
    return json.loads(out.strip().splitlines()[-1]), peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=10_000_000)
    parser.add_argument("--d", type=int, default=20)
    parser.add_argument("--blocks", type=int, default=1000)
    parser.add_argument("--bins", type=int, default=10)
    parser.add_argument("--engine", nargs="*", default=["local", "dask"])
    parser.add_argument("--method", nargs="*", default=["likelihood", "matching"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", help="limit of each Dask worker, such as 512MB")
    parser.add_argument("--stream", action="store_true", help="local: keep no part in memory")
    parser.add_argument("--folder", type=Path, help="of people written before")
    args = parser.parse_args()
    if args.stream:
        local._SHARE = 0.0
    if args.folder and len(args.engine) == len(args.method) == 1 and os.environ.get("UNBIN_FIT"):
        fit(args.folder, args.method[0], args.engine[0], args.d, args.workers, args.memory)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        _, size = write_people(folder, args.n, args.d, args.blocks, args.bins)
        print(f"n = {args.n:,}, d = {args.d}, {args.blocks:,} blocks, {args.bins} bins; X would be "
              f"{size / 2**30:.2f} GiB")  # fmt: skip
        print(f"{'method':>10} {'engine':>6} {'seconds':>8} {'peak GiB':>8} iterations  error")
        os.environ["UNBIN_FIT"] = "1"
        for method in args.method:
            for engine in args.engine:
                command = [sys.executable, __file__, "--folder", str(folder), "--d", str(args.d)]
                command += ["--engine", engine, "--method", method]
                command += ["--workers", str(args.workers)] + ["--stream"] * args.stream
                command += ["--memory", args.memory] if args.memory else []
                found, peak = watched(command)
                print(f"{method:>10} {engine:>6} {found['seconds']:>8.1f} {peak / 2**30:>8.2f}"
                      f" {found['iterations']:>10}  {found['error']:.4f} {found['status']}",
                      flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
