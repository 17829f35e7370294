"""What whole fits give now, beside what is stored of them.

    python -m tests.golden                      what moved; fails where a test would
    python -m tests.golden poisson --shuffle 1  cases of that name, their rows in another order
    python -m tests.golden --store              after a change that was meant

For each case: the largest move of a coefficient in stored standard errors, the largest change of a
standard error as a share of it, and below what else is different.
"""

from __future__ import annotations

import argparse
import sys
from time import perf_counter

from tests.golden.cases import AS, ONE, SEVERAL, UNSETTLED
from tests.golden.figures import Moves, figures_of, moves, read, write

KINDS = {"one": ONE, "several": SEVERAL}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.golden",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="case", help="part of a name; all without it")
    parser.add_argument("--store", action="store_true", help="rewrite the file")
    parser.add_argument("--shuffle", type=int, metavar="seed", help="another order of the rows")
    args = parser.parse_args()
    if args.store and args.shuffle is not None:
        parser.error("--shuffle: what is stored has its rows as drawn")
    stored, failed, began = read(), [], perf_counter()
    for kind, cases in KINDS.items():
        known = stored.setdefault(kind, {})
        print(f"{f'tables: {kind}':34}{'coef':>9}{'errors':>9}")
        for name, case in cases.items():
            if args.parts and not any(part in name for part in args.parts):
                continue
            found, like = figures_of(case(args.shuffle)), AS.get(name, name)
            if like in known:
                moved = moves(known[like], found)
                print(described(name, moved), flush=True)
            else:
                print(f"{name:34}{'new':>9}")
            if like not in known or moved.any:
                failed.append(name)
            if args.store and name == like:
                known[name] = found
        if args.store:
            stored[kind] = {name: known[name] for name in known if name in cases}
    if args.store:
        write(stored)
    print(f"{len(failed)} would fail a test; {perf_counter() - began:.0f} s")
    return int(bool(failed) and not args.store)


def described(name: str, moved: Moves) -> str:
    """Return the lines about a case."""
    text = f"{name:34}{moved.coef:9.0e}{moved.error:9.0e}"
    if moved.any:
        little = max(moved.coef, moved.error) <= UNSETTLED.get(name, 0.0)
        text += "  moved" + (", no farther than block effects may" if little else "")
    changes = moved.judged | moved.rest
    lines = [f"    {key}: {shown(old)} -> {shown(new)}" for key, (old, new) in changes.items()]
    return "\n".join([text, *lines])


def shown(value: object) -> str:
    """Return a figure, or a list of them, in a few characters."""
    if isinstance(value, list):
        return "[" + ", ".join(map(shown, value)) + "]"
    return f"{value:.7g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
