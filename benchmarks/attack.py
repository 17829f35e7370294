"""Attack unbin: malformed calls, invariances and random problems; count what comes of them.

    python benchmarks/attack.py --seed 0
    python benchmarks/attack.py --seed 0 --only problems --case 17

Every case ends in one of five ways. *typed*: an error of unbin's own tree, or one that scikit-learn
or Python's signatures are documented to raise. *right*: accepted, and what came back is right.
*wrong*: accepted, and it is not. *untyped*: any other exception, or a dead process. *hung*: no
answer within ``--limit`` seconds. The last three are to be 0; each such case is listed with the
command that runs it again, alone and with its traceback.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import time
import traceback
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from threadpoolctl import threadpool_limits

from attacks import calls, invariances, problems
from attacks.verdicts import VERDICTS, Outcome, verdict_of

KINDS: dict[str, Any] = {
    "calls": calls,
    "invariances": invariances,
    "problems": problems,
}
"""Modules with ``cases(seed)``, the group and the name of each case, and ``run(seed, k)``."""
BAD = ("wrong", "untyped", "hung")
_MEMORY = 12 << 30
"""Bytes a process may address: a case that wants more is told so, and not the machine."""
_START = 120.0
"""Seconds in which a process must be ready."""

Task = tuple[str, int]


def run_case(seed: int, task: Task, *, show: bool = False) -> Outcome:
    """Return how a case ended; an exception is an end too."""
    kind, k = task
    try:
        return KINDS[kind].run(seed, k)
    except Exception as error:
        if show:
            traceback.print_exc()
        return verdict_of(error)


def serve(pipe: Connection, seed: int) -> None:
    """Answer cases until told to stop, without a word on the screen."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    threadpool_limits(limits=1)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        problems.warm_up()
        pipe.send(Outcome("right"))
        while (task := pipe.recv()) is not None:
            pipe.send(run_case(seed, task))


@dataclass(eq=False)
class Worker:
    """A process, and the case it is at; the first answer is that it is ready."""

    seed: int
    limit: float
    task: Task | None = None
    lost: bool = False
    pipe: Connection = field(init=False)
    process: SpawnProcess = field(init=False)
    until: float = field(init=False)

    def __post_init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, self.seed), daemon=True)
        self.process.start()
        other.close()
        self.until = time.monotonic() + _START

    def give(self, task: Task) -> None:
        self.task, self.until = task, time.monotonic() + self.limit
        self.pipe.send(task)

    def answer(self, *, ready: bool) -> Outcome:
        """Return what came, or why nothing will."""
        if not ready:
            self.lost = True
            return Outcome("hung", f"over {self.limit:g} s")
        try:
            return self.pipe.recv()
        except (EOFError, ConnectionError):
            self.lost = True
            return Outcome("untyped", "the process died")

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def run_all(tasks: Iterable[Task], seed: int, *, jobs: int, limit: float) -> dict[Task, Outcome]:
    """Return the outcome of every case, at most ``limit`` seconds each."""
    waiting, found = deque(tasks), {}
    workers = [Worker(seed, limit) for _ in range(min(jobs, len(waiting)))]
    while workers:
        soonest = min(worker.until for worker in workers)
        ready = wait([worker.pipe for worker in workers], max(soonest - time.monotonic(), 0.0))
        for worker in list(workers):
            late = time.monotonic() > worker.until
            if worker.pipe not in ready and not late:
                continue
            outcome = worker.answer(ready=worker.pipe in ready)
            if worker.task is not None:
                found[worker.task] = outcome
            elif worker.lost:
                raise SystemExit("a process could not be started")
            if waiting and not worker.lost:
                worker.give(waiting.popleft())
                continue
            worker.end()
            workers.remove(worker)
            if waiting:
                workers.append(Worker(seed, limit))
    return found


def print_table(found: dict[Task, Outcome], seed: int) -> None:
    groups = {kind: KINDS[kind].cases(seed) for kind in {kind for kind, _ in found}}
    counts: dict[tuple[str, str], Counter[str]] = {}
    for (kind, k), outcome in found.items():
        for group in (groups[kind][k][0], "all"):
            counts.setdefault((kind, group), Counter())[outcome.verdict] += 1
    line = "{:<12} {:<34}" + " {:>7}" * (len(VERDICTS) + 1)
    print(line.format("kind", "", "tried", *VERDICTS))
    for kind in (kind for kind in KINDS if kind in groups):
        for group in [*sorted({group for group, _ in groups[kind]}), "all"]:
            count = counts.get((kind, group))
            if count:
                print(line.format(kind, group, count.total(), *(count[v] for v in VERDICTS)))
        print()


def print_failures(found: dict[Task, Outcome], seed: int) -> None:
    for (kind, k), outcome in sorted(found.items()):
        if outcome.verdict in BAD:
            group, name = KINDS[kind].cases(seed)[k]
            print(f"{outcome.verdict}: {group}, {name}: {outcome.note}")
            print(f"    python benchmarks/attack.py --seed {seed} --only {kind} --case {k}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds per case")
    parser.add_argument("--only", choices=list(KINDS))
    parser.add_argument("--case", type=int, help="run this one here, with --only")
    given = parser.parse_args()
    if given.case is not None:
        if given.only is None:
            parser.error("--case needs --only")
        print(*KINDS[given.only].cases(given.seed)[given.case], sep=", ")
        print(run_case(given.seed, (given.only, given.case), show=True))
        return
    kinds = [given.only] if given.only else list(KINDS)
    tasks = [(kind, k) for kind in kinds for k in range(len(KINDS[kind].cases(given.seed)))]
    began = time.monotonic()
    found = run_all(tasks, given.seed, jobs=given.jobs, limit=given.limit)
    print_table(found, given.seed)
    print_failures(found, given.seed)
    print(f"{len(found):,} cases with seed {given.seed} in {time.monotonic() - began:.0f} s")
    raise SystemExit(any(outcome.verdict in BAD for outcome in found.values()))


if __name__ == "__main__":
    main()
