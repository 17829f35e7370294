"""How far one fit walks: the files and functions of unbin that a likelihood fit goes through.

Functions are listed in the order in which they are first called; a switch is one that lies in
another file than the one before it. Most switches go to accessors, so that those among functions of
more than four lines are printed too. ``--list`` prints the walk itself.
"""

from __future__ import annotations

import argparse
import sys
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import unbin

SOURCE = Path(unbin.__file__).parent


_SHORT = 4
"""Lines of an accessor, at most."""


def trace(call: Any) -> dict[tuple[str, str], int]:
    """Return the (file, function) pairs of unbin that a call enters, in order, and their lines."""
    seen: dict[tuple[str, str], int] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)):
            file = Path(code.co_filename).relative_to(SOURCE).as_posix()
            seen.setdefault((file, code.co_qualname), lines(code))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    # comprehensions are no functions
    return {key: length for key, length in seen.items() if not key[1].endswith(">")}


def lines(code: CodeType) -> int:
    """Return how many lines of a function do something."""
    return len({line for _, _, line in code.co_lines() if line}) - 1


def report(what: str, found: list[tuple[str, str]]) -> None:
    """Print files, functions and switches."""
    files = {file for file, _ in found}
    switches = sum(a[0] != b[0] for a, b in pairwise(found))
    print(f"{what}: {len(files)} files, {len(found)} functions, {switches} switches of file")


def walk(further: int) -> dict[tuple[str, str], int]:
    """Trace a fit of 1,000 people in 40 blocks to histograms, with tables by their features too."""
    rng = np.random.default_rng(0)
    county = np.repeat([f"{c:02d}" for c in range(40)], 25)
    X = rng.normal(size=(1000, 2)) + rng.normal(size=(40, 2)).repeat(25, axis=0)
    y = X @ [1.0, -0.5] + rng.normal(size=1000)
    ids = [county, *(np.digitize(x, [-1.0, 0.0, 1.0]) for x in X.T[:further])]
    tables = [unbin.aggregate(y, each, bins=5).align(each) for each in ids]
    target = unbin.join(*tables) if further else tables[0]
    model = unbin.AggregatedGLM()
    return trace(lambda: model.fit(X, target))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print every function")
    args = parser.parse_args()
    for further in (0, 2):
        walk(further)  # modules are imported, and loops compiled, by the first fit
        found = walk(further)
        print(f"\n{1 + further} tables" if further else "one table")
        if args.list:
            for file, function in found:
                print(f"{file:32} {function}")
        report("all functions", list(found))
        report(f"of more than {_SHORT} lines", [key for key, n in found.items() if n > _SHORT])


if __name__ == "__main__":
    main()
