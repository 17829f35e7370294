"""The call path of one fit: the files and functions of unbin that a likelihood fit goes through.

Functions are listed in the order in which they are first called; a switch is one that lies in
another file than the one before it. ``--list`` prints the path itself.
"""

from __future__ import annotations

import argparse
import sys
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import unbin

SOURCE = Path(unbin.__file__).parent


def trace(call: Any) -> list[tuple[str, str]]:
    """Return the (file, function) pairs of unbin that a call enters, each once, in order."""
    seen: dict[tuple[str, str], None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)):
            file = Path(code.co_filename).relative_to(SOURCE).as_posix()
            seen.setdefault((file, code.co_qualname))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return [key for key in seen if not key[1].endswith(">")]  # comprehensions are no functions


def walk() -> list[tuple[str, str]]:
    """Trace a fit of 1,000 people in 40 blocks to histograms."""
    rng = np.random.default_rng(0)
    county = np.repeat([f"{c:02d}" for c in range(40)], 25)
    X = rng.normal(size=(1000, 2)) + rng.normal(size=(40, 2)).repeat(25, axis=0)
    y = X @ [1.0, -0.5] + rng.normal(size=1000)
    target = unbin.aggregate(y, county, bins=5).align(county)
    model = unbin.AggregatedGLM()
    return trace(lambda: model.fit(X, target))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print every function")
    args = parser.parse_args()
    walk()  # modules are imported, and loops compiled, by the first fit
    found = walk()
    switches = sum(a[0] != b[0] for a, b in pairwise(found))
    if args.list:
        for file, function in found:
            print(f"{file:32} {function}")
    files = {file for file, _ in found}
    print(f"{len(files)} files, {len(found)} functions, {switches} switches of file")


if __name__ == "__main__":
    main()
