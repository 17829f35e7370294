"""The first minute with the package: seconds until a result, kernels compiled, size on disk.

    python benchmarks/first_minute.py               two minutes
    python benchmarks/first_minute.py --repeats 1   one

Every figure is of a fresh process, from its start to its end; the best of some. "Nothing kept": no
kernel was compiled on this machine before. "By the processor" is the time the program had it, which
other programs on the machine change less.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

import unbin
from unbin.datasets import simulate

ROOT = Path(__file__).parents[1]
LIMIT, IMPORT_LIMIT = 5.0, 0.1
COUNTED = """
import atexit
from numba.core import event
class Counter(event.Listener):
    kernels = 0
    def on_start(self, found):
        Counter.kernels += found.data["dispatcher"].py_func.__module__.startswith("unbin.")
    def on_end(self, found):
        pass
event.register("numba:compile", Counter())
atexit.register(lambda: print(Counter.kernels))
"""


def first_example() -> str:
    """Return the README's first example."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```", text, re.S)
    assert found is not None
    return found[1]


def run(command: list[str], cache: Path) -> tuple[float, float, str]:
    """Return seconds by the clock and by the processor, and what was printed."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # pip leaves the bytecode, too
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, spent, done.stdout


def best(command: list[str], repeats: int, *, kept: bool) -> tuple[float, float]:
    """Return the best of some runs, with kernels that were compiled before or with none."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        if kept:
            run(command, Path(folder))
        for k in range(repeats):
            found.append(run(command, Path(folder) / ("" if kept else str(k)))[:2])
    return min(wall for wall, _ in found), min(spent for _, spent in found)


def write_people(folder: Path) -> list[str]:
    """Write people and the table of their outcome; return the command that fits it."""
    sim = simulate(5_000, 2, 100, random_state=0)
    people = "\n".join(f"{b},{x:.6f},{z:.6f}" for b, (x, z) in zip(sim.blocks, sim.X, strict=True))
    (folder / "people.csv").write_text(f"county,age,income\n{people}\n")
    release = unbin.aggregate(sim.y, sim.blocks, bins=6)
    release.to_frame(backend="pandas").to_csv(folder / "release.csv", index=False)
    files = [str(folder / "people.csv"), str(folder / "release.csv"), "--block", "county"]
    further = ["--family", "gaussian", "--output", str(folder / "fit")]
    return ["-m", "unbin", "fit", *files, "--formula", "age + income", *further]


def required(extra: str = "") -> list[str]:
    """Return what pyproject.toml asks for, of the package itself or of an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["optional-dependencies"][extra] if extra else project["dependencies"]


def needed(requirements: list[str]) -> Iterator[Distribution]:
    """Yield the distributions that some requirements bring; of extras only unbin's own."""
    waiting, seen = [Requirement(text) for text in requirements], set()
    while waiting:
        asked = waiting.pop()
        if asked.name == "unbin":
            waiting += [Requirement(text) for extra in asked.extras for text in required(extra)]
            continue
        here = asked.marker is None or asked.marker.evaluate({"extra": ""})
        if not here or asked.name.lower() in seen:
            continue
        seen.add(asked.name.lower())
        try:
            found = distribution(asked.name)
        except PackageNotFoundError:  # of another system
            continue
        yield found
        waiting += [Requirement(text) for text in found.requires or []]


def megabytes(found: Distribution) -> float:
    places = [Path(str(file.locate())) for file in found.files or []]
    return sum(place.stat().st_size for place in places if place.is_file()) / 1e6


def print_sizes() -> None:
    kinds = {"a plain install": [], "with formulas": ["formulas"], "with plots": ["plots"]}
    kinds |= {"with both": ["formulas", "plots"], "with all": ["all"]}
    print()
    for what, extras in kinds.items():
        asked = required() + [text for extra in extras for text in required(extra)]
        found = [megabytes(each) for each in needed(asked)]
        print(f"{what:>20} {sum(found):6.0f} MB in {len(found)} packages")
    print("\nof a plain install")
    sizes = {each.name: megabytes(each) for each in needed(required())}
    for name, size in sorted(sizes.items(), key=lambda each: -each[1])[:10]:
        print(f"{name:>20} {size:6.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    python = sys.executable
    empty = best([python, "-c", ""], 5, kept=True)[0]
    print("                                       seconds   by the processor   limit")
    for what in ("import unbin", "from unbin import AggregatedGLM"):
        wall, spent = best([python, "-c", what], 5, kept=True)
        limit = f"{IMPORT_LIMIT:7.1f}" if what == "import unbin" else ""
        print(f"{what:<36} {wall - empty:9.2f} {spent - empty:18.2f} {limit}")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "example.py"
        script.write_text(first_example(), encoding="utf-8")
        counting = Path(folder) / "counting.py"
        counting.write_text(COUNTED + first_example(), encoding="utf-8")
        commands = {
            "the README's first example": [python, str(script)],
            "unbin fit, with its report": [python, *write_people(Path(folder))],
        }
        for what, command in commands.items():
            for kept in (False, True):
                wall, spent = best(command, repeats, kept=kept)
                which = f"{what}, {'kept' if kept else 'nothing kept'}"
                limit = f"{LIMIT:7.1f}" if what.startswith("the") and not kept else ""
                print(f"{which:<40} {wall:5.2f} {spent:18.2f} {limit}")
        kernels = run([python, str(counting)], Path(folder) / "cache")[2].splitlines()[-1]
    print(f"functions of unbin compiled for the first example: {kernels}")
    print_sizes()


if __name__ == "__main__":
    main()
