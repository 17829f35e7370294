"""The folder that a command leaves its record in."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

_QUERY = re.compile(r"^(duckdb:).*", re.DOTALL)
_LOGIN = re.compile(r"(://)[^/@\s]*@")


def check_output(folder: Path | None) -> None:
    """See that a folder can be written to, before the work whose results it is to hold."""
    from unbin._io import check_folder

    if folder is not None:
        check_folder(folder)


def check_report(folder: Path | None) -> None:
    """See that a folder can be written to, and that the report in it can be drawn."""
    from unbin._checks import check_package

    check_output(folder)
    if folder is not None:
        check_package("--output: report.html", "matplotlib", "plots")


def write(folder: Path, texts: dict[str, str]) -> str:
    """Write files into a folder, all or none, and return what was written."""
    from unbin._io import make_folder, write_texts

    make_folder(folder)
    write_texts({folder / name: text for name, text in texts.items()})
    return "written: " + ", ".join(str(folder / name) for name in texts)


def command_line() -> str:
    """Return what was called, without queries and logins: they may hold secrets."""
    words = (_LOGIN.sub(r"\1…@", _QUERY.sub(r"\1…", word)) for word in sys.argv[1:])
    return shlex.join(["unbin", *words])
