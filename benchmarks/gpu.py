"""Time whole fits on a GPU: a hundred million people, and ten million beside the local engine.

    python benchmarks/gpu.py                       # both tables, on the GPU
    python benchmarks/gpu.py --profile             # and what each pass consists of
    python benchmarks/gpu.py --device cpu --n 200000 --local-n 200000 --blocks 50,2000

People, their blocks and their targets are drawn on the device; only the table of counts leaves it.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
import warnings
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import unbin
import unbin.families
import unbin.fitting.methods
import unbin.likelihood.fit
import unbin.likelihood.infer.estimate
import unbin.likelihood.solve.root
import unbin.likelihood.solve.scoring
import unbin.matching.fit
from unbin.release import Release, tables
from unbin.release.tables import Histogram
from unbin.release.target import AggregatedTarget
from unbin.rows.engines import Layout, Options
from unbin.rows.engines.torch import engine, layout, ranks, scoring
from unbin.rows.engines.torch import machine as machines
from unbin.rows.engines.torch.bins import Bins
from unbin.rows.engines.torch.tiles import TorchRows

LIMITS, LIMIT_TIMES = {1_000: 0.4, 100_000: 0.8}, 20.0
"""Seconds of a likelihood fit by blocks, and how many times the local engine's they are."""
KERNELS = ("gram_sums", "row_sums", "extremes", "eta_sums", "moment_sums", "score_rows")
KERNELS += ("count_sums", "bin_value_sums", "matching_sums", "check_rows", "power_sums")
CASES = (("gaussian", "likelihood"), ("ordinal", "likelihood"), ("gaussian", "matching"))


@dataclass
class People:
    """Features and blocks on the device, and what was published."""

    X: Any
    block: Any
    release: Release


class Clock:
    """Seconds spent in named phases, the device waited for at both ends."""

    def __init__(self, where: str) -> None:
        self.where, self.spent, self.calls = where, defaultdict(list), []

    def wait(self) -> None:
        if self.where.startswith("cuda"):
            torch.cuda.synchronize()

    @contextmanager
    def phase(self, name: str) -> Any:
        self.wait()
        start = time.perf_counter()
        try:
            yield
        finally:
            self.wait()
            self.spent[name].append(time.perf_counter() - start)

    def timed(self, name: str, function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            with self.phase(name):
                return function(*args, **kwargs)

        return call

    def table(self, total: float) -> str:
        lines = []
        for name, times in self.spent.items():
            each = " ".join(f"{t * 1e3:.0f}" for t in times[:12]) + (" …" if times[12:] else "")
            lines.append(f"    {name:<34}{sum(times):8.3f} s  {len(times):3d} × ms: {each}")
        lines.append(f"    {'whole fit':<34}{total:8.3f} s")
        return "\n".join(lines)


def draw(n: int, d: int, n_blocks: int, n_bins: int, where: str, seed: int = 0) -> People:
    """Draw people whose blocks differ, and publish the table of their targets."""
    generator = torch.Generator(device=where).manual_seed(seed)
    kw = {"generator": generator, "device": where, "dtype": torch.float64}
    block = torch.randint(n_blocks, (n,), generator=generator, device=where)
    block[:n_blocks] = torch.arange(n_blocks, device=where)  # nobody is left out
    shift = 0.5 * torch.randn((n_blocks, d), **kw)
    beta = torch.linspace(-0.3, 0.3, d, device=where, dtype=torch.float64)
    X = torch.empty((n, d), device=where, dtype=torch.float64)
    y = torch.empty(n, device=where, dtype=torch.float64)
    for low in range(0, n, 1 << 22):
        part = slice(low, min(low + (1 << 22), n))
        X[part] = torch.randn((part.stop - low, d), **kw) + shift[block[part]]
        y[part] = X[part] @ beta + 0.5 * torch.randn(part.stop - low, **kw)
    edges = np.quantile(y[: 1 << 20].cpu().numpy(), np.arange(1, n_bins) / n_bins)
    place = torch.bucketize(y, torch.as_tensor(edges, device=where))
    count = torch.bincount(block * n_bins + place, minlength=n_blocks * n_bins)
    count = count.view(n_blocks, n_bins).cpu().numpy()
    names = np.arange(n_blocks).astype(str)
    order = np.argsort(names)
    ends = np.concatenate([[-np.inf], edges, [np.inf]])
    table = Histogram(
        np.arange(n_blocks + 1) * n_bins,
        np.tile(ends[:-1], n_blocks),
        np.tile(ends[1:], n_blocks),
        count[order].ravel(),
    )
    release = Release(names[order], count[order].sum(axis=1), table, tables.no_order(n_blocks))
    return People(X, block, release)


@contextmanager
def watched(clock: Clock) -> Any:
    """Time what a fit consists of, by replacing functions for a while."""
    places = [
        (unbin.fitting.methods, "diagnose", "diagnostics (kernels included)"),
        (unbin.fitting.methods, "published_of", "published counts"),
        (unbin.likelihood.fit, "make_problem", "published counts laid out"),
        (unbin.likelihood.fit, "starting_point", "start (kernels included)"),
        (unbin.likelihood.solve.root, "score_sums", "pass (kernel and host)"),
        (unbin.likelihood.fit, "infer", "inference (kernels included)"),
        (unbin.likelihood.infer.estimate, "specify", "  of it specification"),
        (unbin.likelihood.solve.scoring, "score_sums", "pass (kernel and host)"),
        (unbin.matching.fit, "matching_bounds", "rank bounds"),
        (unbin.matching.fit, "block_means_start", "start (kernels included)"),
        (layout.OnDevice, "_survey", "layout: mean and spread"),
        (layout.OnDevice, "_key", "layout: keys"),
        (layout.OnDevice, "_lay_out", "layout: sort, gather, keys"),
        (engine, "block_codes", "block codes"),
        (engine, "check_tensor", "check X"),
        (scoring, "moment_tensors", "  of it moments"),
        (scoring, "whiten", "  of it whitening"),
        (scoring, "to_host", "  of it copying to the host"),
        (ranks, "_place", "bounds of ranks placed"),
        (ranks, "_match", "  of it sort and clip"),
    ]
    places += [(TorchRows, name, f"kernel {name}") for name in KERNELS]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    for owner, name, label in places:
        setattr(owner, name, clock.timed(label, getattr(owner, name)))
    try:
        yield
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


def fit_on_device(people: People, family: str, method: str, where: str, dtype: str) -> Any:
    model = unbin.AggregatedGLM(
        family, method, engine="torch", device=where, dtype=dtype, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(people.X, people.release, block=people.block)


def best_of(repeats: int, clock: Clock, call: Any) -> tuple[float, Any]:
    times, found = [], None
    for _ in range(repeats):
        clock.wait()
        start = time.perf_counter()
        found = call()
        clock.wait()
        times.append(time.perf_counter() - start)
    return min(times), found


def large(args: argparse.Namespace) -> None:
    print(f"\nwhole fits, n = {args.n:,}, d = {args.d}, {args.bins} bins, {args.dtype}")
    print("   family      method   blocks       s  limit  passes  peak GiB  status")
    details = []
    for n_blocks in args.blocks:
        people = draw(args.n, args.d, n_blocks, args.bins, args.device)
        for family, method in cases(args):
            clock = Clock(args.device)
            if clock.where.startswith("cuda"):
                torch.cuda.reset_peak_memory_stats()
            seconds, model = best_of(
                args.repeats,
                clock,
                lambda f=family, m=method, p=people: fit_on_device(
                    p, f, m, args.device, args.dtype
                ),
            )
            on_gpu = clock.where.startswith("cuda")
            peak = torch.cuda.max_memory_allocated() / 2**30 if on_gpu else float("nan")
            print(
                f"{family:>9}{method:>12}{n_blocks:9,}{seconds:8.3f}{limit_of(method, n_blocks):>7}"
                f"{model.n_iter_:8d}{peak:10.1f}  {model.status_.name}",
                flush=True,
            )
            with watched(clock):
                total, again = best_of(
                    1,
                    clock,
                    lambda f=family, m=method, p=people: fit_on_device(
                        p, f, m, args.device, args.dtype
                    ),
                )
            bits = "the same bits" if (again.coef_ == model.coef_).all() else "OTHER BITS"
            head = f"  {family} {method}, {n_blocks:,} blocks; fitted again: {bits}"
            details.append(f"{head}\n{clock.table(total)}")
            if args.profile:
                details.append(operations(people, family, method, args))
        del people
    print("\nwhere the time goes (phases are waited for, so a little slower than above)")
    print("\n".join(details), flush=True)


def limit_of(method: str, n_blocks: int) -> str:
    return str(LIMITS.get(n_blocks, "-")) if method == "likelihood" else "-"


def operations(people: People, family: str, method: str, args: argparse.Namespace) -> str:
    """Return the operations of a fit that take longest, as torch's profiler has them."""
    from torch.profiler import ProfilerActivity, profile

    kinds = [ProfilerActivity.CPU]
    if args.device.startswith("cuda"):
        kinds.append(ProfilerActivity.CUDA)
    with profile(activities=kinds) as found:
        fit_on_device(people, family, method, args.device, args.dtype)
    averages = found.key_averages()
    for key in ("self_device_time_total", "self_cuda_time_total", "self_cpu_time_total"):
        try:
            return str(averages.table(sort_by=key, row_limit=18, max_name_column_width=60))
        except (KeyError, AttributeError, AssertionError):
            continue
    return str(averages.table(row_limit=18))


def tiles(args: argparse.Namespace) -> None:
    """Time what passes are made of, some tiles at a time, scaled up to all people."""
    people = draw(1 << 22, args.d, max(1, (1 << 22) * args.blocks[0] // args.n), 10, args.device)
    opened = engine.TorchEngine(Options(n_threads=1, device=args.device, dtype=args.dtype))
    blocks, _ = opened.blocks(people.block, len(people.X))
    design = opened.rows(people.X, blocks, None).design(Layout(fit_intercept=True))
    rows, machine = design.parts[0], opened.machine
    tiles = rows.batches(args.bins + 1)[0]
    part, theta = rows.matrix[tiles], rows.theta(np.linspace(-0.3, 0.3, args.d + 1))
    flat, w = part.view(-1, part.shape[2]), part.shape[2]
    eta, blocks = rows.eta(theta, tiles), rows.tile_block[tiles]
    edges = np.linspace(-1, 1, args.bins - 1)
    lower, upper = np.r_[-np.inf, edges], np.r_[edges, np.inf]
    laws = {
        name: Bins(unbin.families.get_family(name), lower, upper, nuisance, machine)
        for name, nuisance in (("gaussian", np.zeros(1)), ("ordinal", edges))
    }
    stack = laws["gaussian"].at(eta, blocks).stack
    q, many = stack[0], stack.flatten(0, 1).transpose(0, 1)
    values = many @ part
    square = flat[:, 1].reshape(-1, 1024)[: len(flat) // 1024].contiguous()
    long = flat[: len(flat) // 8 * 8, 1].reshape(8, -1).contiguous()
    index = torch.argsort(torch.rand(len(flat), device=flat.device))
    out, column = torch.empty_like(flat[:, 0]), flat[:, 1].contiguous()
    work = {
        "eta: matrix @ vector": lambda: flat @ theta,
        "eta: matrix @ column": lambda: flat @ theta[:, None],
        "eta: (matrix * vector).sum": lambda: (flat * theta).sum(dim=1),
        "eta: bmm": lambda: torch.bmm(part, theta[:, None].expand(len(part), w, 1)),
        "bins: gaussian": lambda: laws["gaussian"].at(eta, blocks),
        "bins: ordinal": lambda: laws["ordinal"].at(eta, blocks),
        "one elementwise operation (exp)": lambda: q.exp(),
        "products with x (bmm)": lambda: many @ part,
        "products with x, q and dq apart": lambda: (
            stack[0].transpose(0, 1) @ part, stack[1].transpose(0, 1) @ part
        ),
        "products of q (mask and bmm)": lambda: (
            (q * part[..., 0]).transpose(0, 1) @ q.permute(1, 2, 0)
        ),
        "tiles of a block added up": lambda: rows.add_up(
            values.flatten(1), tiles, *rows.block_range(tiles)
        ),
        "xᵀ residual (bmm)": lambda: torch.bmm(eta[:, None], part).sum(dim=(0, 1)),
        "xᵀ residual (one product)": lambda: eta.view(-1) @ flat,
        "sort, 1,024 a row": lambda: torch.sort(square, dim=1, stable=True),
        "sort, 8 rows": lambda: torch.sort(long, dim=1, stable=True),
        "gather at random": lambda: column[index],
        "scatter at random": lambda: out.index_put_((index,), column),
    }  # fmt: skip
    times = args.n / len(flat)
    print(f"\npieces of a pass, timed on {len(flat):,} rows, ms for {args.n:,}")
    for name, call in work.items():
        call()
        seconds, _ = best_of(5, Clock(args.device), call)
        print(f"  {name:<36}{seconds * times * 1e3:9.1f}", flush=True)


def beside_local(args: argparse.Namespace) -> None:
    threads = len(os.sched_getaffinity(0))
    print(f"\nbeside the local engine with {threads} threads, n = {args.local_n:,}, d = {args.d}")
    head = "   family      method   blocks   torch s  local s  times  limit"
    print(f"{head}  coef apart  objective apart")
    small = draw(20_000, args.d, 100, args.bins, args.device, seed=1)
    for n_blocks in args.blocks:
        people = draw(args.local_n, args.d, n_blocks, args.bins, args.device, seed=2)
        X, codes = people.X.cpu().numpy(), people.block.cpu().numpy()
        target = tied(people.release, codes)
        for family, method in cases(args):
            local = unbin.AggregatedGLM(family, method, random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                warm = tied(small.release, small.block.cpu().numpy())
                local.fit(small.X.cpu().numpy(), warm)  # numba compiles
                there, _ = best_of(1, Clock(""), lambda m=local, x=X, t=target: m.fit(x, t))
            fit_on_device(small, family, method, args.device, args.dtype)
            here, model = best_of(
                3,
                Clock(args.device),
                lambda f=family, m=method, p=people: fit_on_device(
                    p, f, m, args.device, args.dtype
                ),
            )
            gap = float(np.abs(model.coef_ - local.coef_).max())
            apart = abs(model.objective_ / local.objective_ - 1)
            print(
                f"{family:>9}{method:>12}{n_blocks:9,}{here:10.3f}{there:9.2f}{there / here:7.0f}"
                f"{LIMIT_TIMES:7.0f}{gap:12.1e}{apart:17.1e}",
                flush=True,
            )


def tied(release: Release, block: Any) -> AggregatedTarget:
    """Tie a release to rows whose blocks are numbers; turning ten million into text takes long."""
    place = np.empty(len(release), dtype=np.int64)
    place[release.blocks.astype(int)] = np.arange(len(release))
    return AggregatedTarget(release.align_to(release.blocks, release.n), place[block])


def cases(args: argparse.Namespace) -> list[tuple[str, str]]:
    return [(f, m) for f, m in CASES if f in args.families and m in args.methods]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names, numbers = (
        (lambda text: text.split(",")),
        (lambda text: [int(t) for t in text.split(",")]),
    )
    parser.add_argument("--n", type=int, default=100_000_000, help="people")
    parser.add_argument("--local-n", type=int, default=10_000_000, help="0 leaves it out")
    parser.add_argument("--d", type=int, default=20)
    parser.add_argument("--bins", type=int, default=10)
    parser.add_argument("--blocks", type=numbers, default=[1_000, 100_000])
    parser.add_argument("--families", type=names, default=["gaussian", "ordinal"])
    parser.add_argument("--methods", type=names, default=["likelihood", "matching"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--repeats", type=int, default=2, help="0 leaves the large fits out")
    parser.add_argument("--cells", type=int, help="numbers in an array worked on at a time")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--tiles", action="store_true", help="time what passes are made of")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    if args.cells:
        machines._CELLS.update(cpu=args.cells, other=args.cells)
    machine = platform.processor() or platform.machine()
    if args.device.startswith("cuda"):
        machine = torch.cuda.get_device_name()
    print(
        f"{machine}, torch {torch.__version__}, numpy {np.__version__}, unbin {unbin.__version__}"
    )
    start = time.perf_counter()
    warm = draw(50_000, args.d, 200, args.bins, args.device)
    for family, method in cases(args):  # libraries load, numba compiles
        fit_on_device(warm, family, method, args.device, args.dtype)
    print(f"warm-up {time.perf_counter() - start:.1f} s", flush=True)
    if args.tiles:
        tiles(args)
    if args.repeats:
        large(args)
    if args.local_n:
        beside_local(args)
    print(f"\nall in {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
