"""Run the leaderboard: what is not in results.csv yet, cell by cell, each within a time limit.

    UNBIN_DATA=folder python -m studies.run
    python -m studies.run --study exam --method midpoints         one study, one method
    python -m studies.run --again --method midpoints              once more, in place of the old row

A fifth of the people is held out, with seed 0; tables are of the others. The error is that of the
people held out over the oracle's: root mean squared error, or log loss of an outcome of 0 and 1; of
votes it is the per cent of people in a wrong cell, precinct by precinct. Seconds are CPU time of
the fit.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import votes
from studies import registry
from studies.registry import Method, NotAvailable, People, Study, Task, Votes
from studies.releases import KINDS

RESULTS = Path(__file__).parent / "results.csv"
LIMIT = 40.0
"""CPU seconds that a fit may take."""
MOST = 5_000
"""People of a study; of more, so many are drawn with seed 0."""
HELD_OUT = 0.2


@dataclass(frozen=True)
class Row:
    """A cell of the leaderboard; error and seconds are NaN where ``status`` says why.

    Attributes
    ----------
    study, release, method : names in the registry
    people, features, blocks, tables : of what was fitted
    error : over the oracle's, or per cent of people in a wrong cell
    se : standard error of it, from the people held out; NaN for votes
    seconds : of CPU time
    verdict : of the method on itself
    status : "" or why there is no answer
    """

    study: str
    release: str
    method: str
    people: int
    features: int
    blocks: int
    tables: int
    error: float = np.nan
    se: float = np.nan
    seconds: float = np.nan
    verdict: str = ""
    status: str = ""


# -- people and errors -----------------------------------------------------------------------------


def sampled(people: People, most: int = MOST) -> People:
    """Return so many people at most, in their order."""
    n = len(people.y)
    if n <= most:
        return people
    return _rows(people, np.sort(np.random.default_rng(0).choice(n, most, replace=False)))


def split(people: People) -> tuple[People, People]:
    """Return people whose tables are published, and those held out."""
    held = np.random.default_rng(0).random(len(people.y)) < HELD_OUT
    return _rows(people, ~held), _rows(people, held)


def _rows(people: People, which: np.ndarray) -> People:
    tables = {name: ids[which] for name, ids in people.tables.items()}
    return People(people.X[which], people.y[which], tables)


def losses(family: str, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return the loss of each person: squared error, or log loss of 0 and 1."""
    if family == "binomial":
        chance = np.clip(mean, 1e-6, 1 - 1e-6)
        return -np.where(y == 1, np.log(chance), np.log1p(-chance))
    return np.minimum((y - mean) ** 2, 1e300)  # a mean of 1e200 is wrong, not an overflow


def ratio(family: str, ours: np.ndarray, oracle: np.ndarray) -> tuple[float, float]:
    """Return the error over the oracle's and its standard error, from the losses of each person."""
    found = float(np.mean(ours) / np.mean(oracle))
    apart = ours / np.mean(ours) - oracle / np.mean(oracle)
    se = float(np.std(apart) / np.sqrt(len(ours)))
    if family == "binomial":
        return found, found * se
    return found**0.5, found**0.5 * se / 2


# -- a cell ----------------------------------------------------------------------------------------


def people_cell(study: Study, people: People, kind: str, method: Method) -> dict:
    """Return error, seconds and verdict of a method on people."""
    train, test = split(people)
    told = train.y if method.sees_outcomes else None
    task = Task(train.X, KINDS[kind].publish(train), study.family, told)
    begin = time.process_time()
    fitted = method.fit(task)
    seconds = time.process_time() - begin
    oracle = registry.methods()["oracle"].fit(Task(train.X, (), study.family, train.y))
    pair = [
        losses(study.family, test.y, np.asarray(each.predict(test.X))) for each in (fitted, oracle)
    ]
    error, se = ratio(study.family, *pair)
    return {"error": error, "se": se, "seconds": seconds, "verdict": fitted.verdict}


def votes_cell(found: Votes, kind: str, method: Method) -> dict:
    """Return the per cent of people in a wrong cell, seconds and verdict."""
    task = KINDS[kind].votes(found)
    begin = time.process_time()
    cells, verdict = method.cells(task)
    seconds = time.process_time() - begin
    return {"error": votes.wrong(cells, found.cells)[1], "seconds": seconds, "verdict": verdict}


def cell(study: Study, loaded: People | Votes, kind: str, method: Method) -> dict:
    """Return what is measured of a cell, or its status."""
    try:
        for module in method.needs:
            importlib.import_module(module)
    except ImportError:
        return {"status": f"{module} is not installed"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if isinstance(loaded, Votes):
                return votes_cell(loaded, kind, method)
            return people_cell(study, loaded, kind, method)
        except NotAvailable as why:
            return {"status": str(why)}


def limited(work: Callable[[], dict], seconds: float) -> dict:
    """Return what ``work`` returns in a process of its own, or that it took too long."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)

    def child() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
        there.send(work())

    process = context.Process(target=child)
    process.start()
    there.close()
    try:
        found = here.recv() if here.poll(20 * seconds) else {"status": "stuck"}
    except EOFError:  # the kernel ends a process at its limit
        process.join()
        over = process.exitcode is not None and process.exitcode < 0
        found = {"status": f"over {seconds:.0f} s" if over else "failed"}
    process.kill()
    process.join()
    return found


def warm_up(methods: dict[str, Method], families: set[str]) -> None:
    """Fit a few simulated people, so that times hold no loading of compiled code."""
    rng = np.random.default_rng(0)
    block, X = np.repeat(np.arange(12), 25).astype(str), rng.normal(size=(300, 2))
    X += rng.normal(size=(12, 2)).repeat(25, axis=0)
    tables = {"block": block, "sign": (X[:, 0] > 0).astype(str)}
    outcomes = {
        "gaussian": X[:, 0] + rng.normal(size=300),
        "poisson": rng.poisson(np.exp(0.3 * X[:, 0] + 1)).astype(float),
        "binomial": (X[:, 0] + rng.logistic(size=300) > 0).astype(float),
    }
    for family in families & set(outcomes):
        people = People(X, outcomes[family], tables)
        study = Study("simulated", "", family, lambda people=people: people)
        for method in methods.values():
            if method.fit is not None and not method.needs:
                for kind in (each for each in KINDS if KINDS[each].of(family)):
                    cell(study, people, kind, method)


# -- all cells -------------------------------------------------------------------------------------


def answers(study: Study, kind: str, method: Method) -> bool:
    """Return whether there is such a cell: votes have releases and methods of their own."""
    made_for = method.cells if study.family == "votes" else method.fit
    return KINDS[kind].of(study.family) and made_for is not None


def shape(loaded: People | Votes, kind: str) -> dict:
    """Return the sizes of a cell."""
    several = kind.startswith("several")
    if isinstance(loaded, Votes):
        size = {"people": int(loaded.cells.sum()), "features": len(loaded.groups)}
        return size | {"blocks": len(loaded.blocks), "tables": 1 + several}
    blocks = next(iter(loaded.tables.values()))
    return {
        "people": len(loaded.y),
        "features": loaded.X.shape[1],
        "blocks": len(np.unique(blocks)),
        "tables": len(loaded.tables) if several else 1,
    }


def read(path: Path = RESULTS) -> list[Row]:
    """Return the stored rows."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Row(**{each.name: _typed(each.type, line[each.name]) for each in fields(Row)})
            for line in csv.DictReader(file)
        ]


def _typed(kind: object, text: str) -> object:
    if kind == "str":
        return text
    return int(text) if kind == "int" else float(text or "nan")


def write(rows: list[Row], path: Path = RESULTS) -> None:
    """Store rows, sorted by study, release and method."""
    places = [list(registry.studies()), list(KINDS), list(registry.methods())]
    names = [field.name for field in fields(Row)]
    key = [(row.study, row.release, row.method) for row in rows]
    order = sorted(range(len(rows)), key=lambda k: [places[j].index(key[k][j]) for j in range(3)])
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: _text(v) for k, v in asdict(rows[i]).items()} for i in order)


def _text(value: object) -> object:
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.4g}"
    return value


def run(
    studies: dict[str, Study],
    methods: dict[str, Method],
    kinds: tuple[str, ...] = tuple(KINDS),
    *,
    path: Path = RESULTS,
    again: bool = False,
    limit: float | None = LIMIT,
    most: int = MOST,
) -> list[Row]:
    """Run the cells that are not stored, or all again; store each as soon as it is there.

    ``limit`` is the CPU time of a fit; None fits in this process, without one.
    """
    rows = {(row.study, row.release, row.method): row for row in read(path)}
    for study_name, study in studies.items():
        loaded = None
        for kind in kinds:
            for method_name, method in methods.items():
                key = study_name, kind, method_name
                if not answers(study, kind, method) or (key in rows and not again):
                    continue
                if study.missing():
                    print(f"{study_name}: skipped, {study.missing()}")
                    break
                if loaded is None:
                    loaded = study.load()
                    loaded = loaded if isinstance(loaded, Votes) else sampled(loaded, most)

                def work(study=study, loaded=loaded, kind=kind, method=method) -> dict:
                    return cell(study, loaded, kind, method)

                found = work() if limit is None else limited(work, method.seconds or limit)
                rows[key] = Row(*key, **shape(loaded, kind), **found)
                write(list(rows.values()), path)
                said = found.get("status") or f"{found['error']:.3f}, {found['seconds']:.1f} s"
                print(*key, said, flush=True)
    return list(rows.values())


def main() -> None:
    """Read the command line."""
    threadpool_limits(limits=1)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    studies, methods = registry.studies(), registry.methods()
    parser.add_argument("--study", choices=list(studies), action="append")
    parser.add_argument("--method", choices=list(methods), action="append")
    parser.add_argument("--release", choices=list(KINDS), action="append")
    parser.add_argument("--again", action="store_true", help="also what is stored")
    parser.add_argument("--store", type=Path, default=RESULTS, help="file of the results")
    args = parser.parse_args()
    studies = {name: each for name, each in studies.items() if name in (args.study or studies)}
    methods = {name: each for name, each in methods.items() if name in (args.method or methods)}
    warm_up(methods, {each.family for each in studies.values()})
    run(
        studies,
        methods,
        tuple(name for name in KINDS if name in (args.release or KINDS)),
        path=args.store,
        again=args.again,
    )


if __name__ == "__main__":
    main()
