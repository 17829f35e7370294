"""Damage files that unbin reads; nothing but its own errors may come out.

    python benchmarks/fuzz.py --runs 1000000 --seed 0 --jobs 2
    python benchmarks/fuzz.py --only models --runs 20000

Three kinds of files, with an equal share of the runs each: *readers*, the fixtures of published
tables, with options drawn at random; *models*, saved ones, which must predict if they load;
*checkpoints*, which must give back the coefficients that were written, or be refused. Bytes are
flipped, cut, repeated and moved; cells and values of JSON are swapped for hostile ones; files are
joined, gzipped and damaged again. Some checkpoints get a checksum that is right once more, as no
accident would make it, and a fit that goes on from them.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import random
import re
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import unbin
from mutations import OF_JSON, OF_TABLES, Mutation
from unbin._watching import Step, watching
from unbin.exceptions import UnbinError
from unbin.fitting import checkpoint
from unbin.people.encoding import Encoding
from unbin.release.readers import DIALECTS
from unbin.release.spelling import tidy_columns
from unbin.results.persistence import model_text, read_model
from workbooks import ods, xlsx, zipped

FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures"
CHUNK = 5_000
"""Runs with a seed of their own, so that findings do not depend on the number of processes."""
RESEALED = 0.005
"""Share of the checkpoints that get a new checksum."""
SHARED_MEMORY = Path("/dev/shm")
OPTIONS: dict[str, list[Any]] = {
    "dialect": [None, None, None, *DIALECTS],
    "closed": [None, None, "left", "right", "both"],
    "suppression": [None, None, "none", "cms", "nhs", "hhs", "acs", {"*": (1, 10), "x": (0, None)}],
    "rounding": [None, None, None, "none", "nearest-5", "down-10", "nearest-0.1%"],
    "encoding": [None, None, None, "latin-1", "utf-16", "cp1252"],
    "block": [None, None, None, "block", "county", "NAME", "GEO_ID"],
    "label": [None, None, None, "label", "NAME", "C02", "H"],
    "count": [None, None, None, "count", "n", "Population", "MARS1"],
    "category": [None, None, None, None, "category", "party", "candidate", "ICD Chapter", "labels"],
    "absent": [None, None, None, "zero", "structural"],
    "rest": [None, None, None, None, "none"],
    "where": [
        None,
        None,
        {"currency": "EUR"},
        {"office": "President"},
        {"block": ["05001"]},
        {"O_GROUP": "detailed"},
    ],
    "totals": ["drop", "keep"],
    "moe": [False, True],
    "sheet": [None, None, "Data", "a.csv", "nowhere"],
    "skip": [None, None, 0, 1, 3],
}
Attempt = Callable[[Path, bytes, random.Random], str]


@dataclass(frozen=True)
class Target:
    """Files, how they are damaged, and what is done with them."""

    seeds: Callable[[], list[bytes]]
    mutations: list[Mutation]
    names: tuple[str, ...]
    attempt: Attempt


# -- tables --------------------------------------------------------------------------------------


@cache
def tables() -> list[bytes]:
    """Return the fixtures, shortened, and some of them as Parquet, JSON, archives and workbooks."""
    found = [path.read_bytes()[:6000] for path in sorted(FIXTURES.iterdir())]
    found += [b"\n".join(data.split(b"\n")[:5]) + b"\n" for data in found]
    stream = io.BytesIO()
    pd.DataFrame({"block": ["a", "a"], "value": [1.0, 2.0]}).to_parquet(stream)
    rows = [["a title"], ["block", "lower", "upper", "count"], ["a", 0, 10, 3], ["a", 10, None, 4]]
    other = [*found, stream.getvalue()]
    other.append(json.dumps([rows[1], ["a", "0", "10", "3"], ["a", "10", None, 4]]).encode())
    other += [make({"Data": rows, "About": [["a"], ["b c"]]}) for make in (xlsx, ods)]
    some = {f"{k}.csv": data for k, data in zip("abc", found, strict=False)}
    return [*other, zipped(some), zipped({"a.csv": found[-1], "readme.txt": b"see the web"})]


def read_table(path: Path, data: bytes, rng: random.Random) -> str:
    path.write_bytes(data)
    options = {name: rng.choice(values) for name, values in OPTIONS.items() if rng.random() < 0.25}
    release = unbin.read_release(path, **options, max_bytes=10**7)
    repr(release)
    tidy_columns(release)
    return "read"


# -- models --------------------------------------------------------------------------------------


@cache
def people() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, outcomes and blocks of 200 people."""
    rng = np.random.default_rng(0)
    blocks = np.repeat([f"{b:02d}" for b in range(20)], 10)
    X = rng.normal(size=(200, 2)) + rng.normal(size=(20, 2)).repeat(10, axis=0)
    return X, X @ [1.0, -0.5] + rng.normal(size=200), blocks


@cache
def models() -> list[bytes]:
    """Return saved models: families, methods, contextual effects, several targets, a formula.

    And classifiers: of groups with cells of blocks, without groups, and of two categories.
    """
    X, y, blocks = people()
    target = unbin.aggregate(y, blocks, 4).align(blocks)
    counts = unbin.aggregate(np.rint(np.abs(y)), blocks, [-1, 0, 1, np.inf]).align(blocks)
    glm = unbin.AggregatedGLM
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [
            glm().fit(X, target),
            glm("ordinal").fit(X, target),
            glm("poisson").fit(X, counts),
            glm(method="matching", random_state=0).fit(X, target),
            glm(contextual=True).fit(X, target),
            glm(alpha="held-out").fit(X, target),
            glm().fit(X, y),
            glm().fit(X, [target, target]),
        ]
        frame = pd.DataFrame({"age": X[:, 0], "sex": np.where(X[:, 1] > 0, "f", "m")})
        encoding, columns = Encoding.build("age + C(sex)", frame)
        coded = glm().fit(columns, target)
        classifiers = _classifiers(frame, y, blocks)
    texts = [model_text(fit) for fit in fits] + [model_text(coded, encoding=encoding)]
    texts += [model_text(fit, public=True) for fit in classifiers]
    return [re.sub('"created": "[^"]*"', '"created": ""', text).encode() for text in texts]


def _classifiers(frame: pd.DataFrame, y: np.ndarray, blocks: np.ndarray) -> list[Any]:
    vote = np.array(["a", "b", "c"])[np.digitize(y, [-0.5, 0.5])]
    three = unbin.aggregate(vote, blocks).align(blocks)
    two = unbin.aggregate(np.where(y > 0, "a", "b"), blocks).align(blocks)
    fitted = unbin.AggregatedClassifier
    return [
        fitted(random=["sex"], contextual=0.25).fit(frame, three),
        fitted().fit(frame[["age"]], three),
        fitted().fit(frame, two),
    ]


def load_model(path: Path, data: bytes, rng: random.Random) -> str:  # noqa: ARG001
    path.write_bytes(data)
    model = read_model(path).model
    json.loads(data, object_pairs_hook=_once)
    for fit in getattr(model, "_fits", []):
        _check_fit(fit)
    str(model.diagnostics_)
    d = model.n_features_in_
    if isinstance(model, unbin.AggregatedClassifier):
        str(model.summary())
    if d <= 10:
        X = pd.DataFrame(np.ones((2, d)), columns=getattr(model, "feature_names_in_", None))
        model.predict(X if hasattr(model, "feature_names_in_") else X.to_numpy())
    return "loaded"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raise where a key stands twice: which of the two holds is anybody's guess."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise AssertionError("loaded, though a key stands twice")
    return found


def _check_fit(fit: Any) -> None:
    """Raise for what no fit can have found."""
    if fit.dispersion < 0 or fit.block_sd < 0:
        raise AssertionError(f"loaded, dispersion {fit.dispersion}, block sd {fit.block_sd}")
    if fit.covariance is not None and (np.diag(fit.covariance) < 0).any():
        raise AssertionError("loaded, a variance below 0")


# -- checkpoints ---------------------------------------------------------------------------------

FIT = "0" * 64


@cache
def checkpoints() -> list[bytes]:
    """Return checkpoints of one fit, and of another."""
    rng = np.random.default_rng(0)
    steps = [Step(k, 1.0, 0.5, 1e-4, rng.normal(size=k)) for k in (1, 4, 12)]
    return [checkpoint._written(step, FIT).encode() for step in steps] + [
        checkpoint._written(steps[0], "other").encode()
    ]


def resume(path: Path, data: bytes, rng: random.Random) -> str:
    if rng.random() < RESEALED:
        return _resume_resealed(path, data)
    path.write_bytes(data)
    with checkpoint.checkpointed(path, FIT) as found:
        written = [
            [float.fromhex(value) for value in json.loads(seed)["parameters"]]
            for seed in checkpoints()[:3]
        ]
        if found is None or found.tolist() not in written:
            raise AssertionError(f"coefficients that were never written: {found}")
    return "resumed"


@cache
def _begun(folder: Path) -> tuple[Any, bytes]:
    """Return a fit that was stopped, and the checkpoint it left."""
    X, y, blocks = people()
    path = folder / "begun.json"
    target = unbin.aggregate(y, blocks, 4).align(blocks)
    model = unbin.AggregatedGLM(checkpoint=path, n_jobs=1, random_state=0)
    with watching(lambda _: True):
        model.fit(X, target)
    return partial(model.fit, X, target), path.read_bytes()


def _resume_resealed(path: Path, data: bytes) -> str:
    """Put damaged contents under a checksum that is right, and go on with a fit from there."""
    fit, left = _begun(path.parent)
    try:
        content = json.loads(data)
        content.pop("checksum", None)
        content["fit"] = json.loads(left)["fit"]
        sealed = {**content, "checksum": checkpoint._checksum(content)}
    except (ValueError, TypeError, AttributeError):
        sealed = {}
    (path.parent / "begun.json").write_text(json.dumps(sealed))
    fit()
    return "resumed"


TARGETS = {
    "readers": Target(
        tables,
        OF_TABLES,
        (
            "t.csv",
            "t.tsv",
            "t.txt",
            "t.csv.gz",
            "t.parquet",
            "t.xlsx",
            "t.zip",
            "t.json",
            "13zpallagi.csv",
            "16incyallagi.csv",
        ),
        read_table,
    ),
    "models": Target(models, OF_JSON, ("model.json",), load_model),
    "checkpoints": Target(checkpoints, OF_JSON, ("fit.json",), resume),
}


# -- running -------------------------------------------------------------------------------------


def run(name: str, runs: int, *, seed: int, chunk: int = 0) -> Counter[str]:
    """Read damaged files; return how many were read, and how many gave which error."""
    target, rng = TARGETS[name], random.Random(f"{seed} {name} {chunk}")
    pool, counts = target.seeds(), Counter()
    place = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=place) as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=UserWarning)
        for k in range(runs):
            data = rng.choice(pool)
            for _ in range(rng.randint(0, 3)):
                data = rng.choice(target.mutations)(data or b"0", rng, pool)
            try:
                counts[target.attempt(Path(folder) / rng.choice(target.names), data, rng)] += 1
            except UnbinError as error:
                counts[type(error).__name__] += 1
            except Exception:
                counts["OTHER"] += 1
                print(f"{name}, seed {seed}, chunk {chunk}, run {k}: {data[:300]!r}")
                traceback.print_exc()
    return counts


def _run_chunk(task: tuple[str, int, int, int]) -> tuple[str, Counter[str]]:
    name, runs, seed, chunk = task
    return name, run(name, runs, seed=seed, chunk=chunk)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=60_000, help="of all kinds together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", choices=list(TARGETS))
    given = parser.parse_args()
    names = [given.only] if given.only else list(TARGETS)
    share = -(-given.runs // len(names))
    tasks = [
        (name, min(CHUNK, share - start), given.seed, start // CHUNK)
        for start in range(0, share, CHUNK)
        for name in names
    ]
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    began, done = time.monotonic(), 0
    with multiprocessing.get_context("spawn").Pool(given.jobs) as workers:
        for name, found in workers.imap_unordered(_run_chunk, tasks):
            counts[name] += found
            done += found.total()
            if done % (20 * CHUNK) < CHUNK:
                print(f"{done:,} runs, {time.monotonic() - began:.0f} s", flush=True)
    for name, found in counts.items():
        print(f"{name}: {found.total():,} runs with seed {given.seed}: {dict(found)}")
    print(f"{done / (time.monotonic() - began):,.0f} runs a second")
    raise SystemExit(any(found["OTHER"] for found in counts.values()))


if __name__ == "__main__":
    main()
