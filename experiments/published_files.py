"""Print what becomes of files as agencies published them: a table of file and outcome.

    python experiments/published_files.py ../shared/published

Options that a file needs are those which its error offers; they are shown beside it. The table in
docs/howto/reading.md is what this prints.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

import unbin
from unbin.exceptions import ReadError, UnbinError
from unbin.release.words import people_text, plural

FOLDER = Path(os.environ.get("UNBIN_PUBLISHED", "../shared/published"))
_MOST = 5
"""Offers that are followed before a file counts as refused."""


def outcome(path: Path) -> tuple[str, str, str]:
    """Return the options that were followed, what was read, and what was left out or chosen."""
    options: dict[str, Any] = {}
    for _ in range(_MOST):
        try:
            release = unbin.read_release(path, **options)
        except ReadError as error:
            if not error.offers or all(options.get(k) == v for k, v in error.offers.items()):
                return _spelled(options), "refused", error.text
            where = options.get("where", {}) | error.offers.get("where", {})
            options |= error.offers | ({"where": where} if where else {})
        except UnbinError as error:
            return _spelled(options), "refused", str(error)
        else:
            n = int(release.n.sum())
            size = f"{plural(len(release), 'block')}, {people_text(n) if n else 'unknown size'}"
            return _spelled(options), f"{release.source}: {size}", "; ".join(release.notes)
    return _spelled(options), "refused", "asks for more and more options"


def _spelled(options: dict[str, Any]) -> str:
    return ", ".join(f"`{name}={value!r}`" for name, value in options.items())


def markdown(folder: Path) -> str:
    """Return the table."""
    lines = ["| file | options | outcome | notes |", "|---|---|---|---|"]
    for path in sorted(folder.iterdir()):
        if path.suffix in (".csv", ".tsv", ".txt", ".zip", ".xlsx", ".ods", ".json"):
            cells = (f"`{path.name}`", *outcome(path))
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    warnings.simplefilter("ignore")
    print(markdown(parser.parse_args().folder))


if __name__ == "__main__":
    main()
