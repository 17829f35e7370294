# ruff: noqa: ARG001, E501
"""Mutate the fixtures of the readers; nothing but unbin's own errors may come out.

    python benchmarks/fuzz_readers.py --runs 100000 --seed 0

Bytes are flipped, cut, repeated and moved; cells are swapped for hostile ones; files are joined,
gzipped and damaged again; options are drawn at random.
"""

from __future__ import annotations

import argparse
import gzip
import random
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unbin import read_release
from unbin.exceptions import UnbinError
from unbin.readers import DIALECTS

FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures"
CELLS = [
    b"", b" ", b"*", b"#", b"-", b"N", b"(X)", b":", b": c", b"Suppressed", b"-999999", b"nan",
    b"inf", b"-inf", b"1e400", b"1e15", b"1e308", b"-1", b"0", b"0.5", b"=cmd()", b"@x", b"\"", b"\"\"",
    b"'", b"<5", b"2,500-", b"250,000+", b"\"1,000\"", b"1,0", b"9" * 400, b"x" * 250, b"\x00", b"\xff",
    "٣".encode(), "≤ 4".encode(), "∞".encode(), b"Total", b"Not Stated", b"5-9", b"10+", b"[5, 10)",
    b"less than 5", b"$200,000 or more", b"D10", b"QU9", b"P0", b"block", b"count", b"value", b"n",
    b"quantile", b"lower", b"upper", b"label", b"mean", b"total", b"percent", b"count_low", b"---",
    b"B19001_001E", b"Estimate!!Total:", b"geo\\TIME_PERIOD", b"Bene_Age_LT_65_Cnt", b"Notes",
]  # fmt: skip
SEPARATORS = [b",", b"\t", b";", b"\n", b"\r", b"\r\n", b'"']
OPTIONS: dict[str, list[Any]] = {
    "dialect": [None, None, None, *DIALECTS],
    "closed": [None, None, "left", "right", "both"],
    "suppression": [None, None, "none", "cms", "nhs", "hhs", "acs", {"*": (1, 10), "x": (0, None)}],
    "rounding": [None, None, None, "none", "nearest-5", "down-10", "nearest-0.1%"],
    "encoding": [None, None, None, "latin-1", "utf-16", "cp1252"],
    "block": [None, None, None, "block", "county", "NAME", "GEO_ID"],
    "label": [None, None, None, "label", "NAME"],
    "count": [None, None, None, "count", "n", "Population"],
    "where": [None, None, {"currency": "EUR"}, {"block": ["05001"]}],
}
Mutation = Callable[[bytes, random.Random, list[bytes]], bytes]


def flip(data: bytes, rng: random.Random, pool: list[bytes]) -> bytes:
    result = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        result[rng.randrange(len(result))] = rng.randrange(256)
    return bytes(result)


def cut(data: bytes, rng: random.Random, pool: list[bytes]) -> bytes:
    return data[: rng.randrange(len(data))]


def remove(data: bytes, rng: random.Random, pool: list[bytes]) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randint(1, 60) :]


def repeat(data: bytes, rng: random.Random, pool: list[bytes]) -> bytes:
    start = rng.randrange(len(data))
    return (
        data[:start] + data[start : start + rng.randint(1, 200)] * rng.randint(2, 5) + data[start:]
    )


def insert(data: bytes, rng: random.Random, pool: list[bytes]) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + rng.choice(SEPARATORS + CELLS) + data[start:]


def cell(data: bytes, rng: random.Random, pool: list[bytes]) -> bytes:
    """Swap one to three cells for hostile ones."""
    separator = b"\t" if b"\t" in data else b";" if b";" in data.partition(b"\n")[0] else b","
    lines = data.split(b"\n")
    for _ in range(rng.randint(1, 3)):
        k = rng.randrange(len(lines))
        cells = lines[k].split(separator)
        cells[rng.randrange(len(cells))] = rng.choice(CELLS)
        lines[k] = separator.join(cells)
    return b"\n".join(lines)


def lines(data: bytes, rng: random.Random, pool: list[bytes]) -> bytes:
    """Swap, repeat or drop whole lines."""
    rows = data.split(b"\n")
    a, b = rng.randrange(len(rows)), rng.randrange(len(rows))
    how = rng.randrange(3)
    if how == 0:
        rows[a], rows[b] = rows[b], rows[a]
    elif how == 1:
        rows.insert(a, rows[b])
    elif len(rows) > 1:
        del rows[a]
    return b"\n".join(rows)


def join(data: bytes, rng: random.Random, pool: list[bytes]) -> bytes:
    other = rng.choice(pool)
    return data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]


def pack(data: bytes, rng: random.Random, pool: list[bytes]) -> bytes:
    packed = gzip.compress(data, compresslevel=1)
    return packed if rng.random() < 0.5 else flip(packed, rng, pool)


def recode(data: bytes, rng: random.Random, pool: list[bytes]) -> bytes:
    text = data.decode("latin-1")
    return text.encode(rng.choice(["utf-16", "utf-16-le", "utf-8-sig", "utf-32"]))


MUTATIONS: list[Mutation] = [
    flip, cut, remove, repeat, insert, insert, cell, cell, cell, cell, lines, lines, join, pack, recode,
]  # fmt: skip


def seeds() -> list[bytes]:
    """Return the fixtures, shortened, and one as Parquet."""
    found = [path.read_bytes()[:6000] for path in sorted(FIXTURES.iterdir())]
    found += [b"\n".join(data.split(b"\n")[:5]) + b"\n" for data in found]
    try:
        import io

        import pandas as pd

        stream = io.BytesIO()
        pd.DataFrame({"block": ["a", "a"], "value": [1.0, 2.0]}).to_parquet(stream)
        found.append(stream.getvalue())
    except ImportError:
        pass
    return found


def run(runs: int, *, seed: int, verbose: bool = False) -> Counter[str]:
    """Read mutated files; return how many were read, and how many gave which error."""
    rng = random.Random(seed)
    pool = seeds()
    counts: Counter[str] = Counter()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in range(runs):
            data = rng.choice(pool)
            for _ in range(rng.randint(0, 3)):
                data = rng.choice(MUTATIONS)(data or b"0", rng, pool)
            path = Path(folder) / rng.choice(["t.csv", "t.tsv", "t.txt", "t.csv.gz", "t.parquet"])
            path.write_bytes(data)
            options = {
                name: rng.choice(values) for name, values in OPTIONS.items() if rng.random() < 0.25
            }
            try:
                repr(read_release(path, **options, max_bytes=10**7))
                counts["read"] += 1
            except UnbinError as error:
                counts[type(error).__name__] += 1
            except Exception:
                counts["OTHER"] += 1
                print(f"run {k}, options {options}, file {data[:300]!r}")
                traceback.print_exc()
            if verbose and (k + 1) % 20_000 == 0:
                print(f"{k + 1:,} runs, {time.perf_counter() - began:.0f} s: {dict(counts)}")
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    counts = run(arguments.runs, seed=arguments.seed, verbose=True)
    print(f"{sum(counts.values()):,} runs with seed {arguments.seed}: {dict(counts)}")
    raise SystemExit("OTHER" in counts)


if __name__ == "__main__":
    main()
