"""Numbers as agencies print them."""

from __future__ import annotations

import math
import re

from unbin import _checks
from unbin.exceptions import ReleaseError
from unbin.release.readers.sheets import shown

LARGEST = 1e15
"""The largest count: beyond 2**53 floats skip whole numbers."""
_NUMBER = re.compile(
    r"[+-]?(?=\.?[0-9])(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,3}(?: [0-9]{3})+|[0-9]+)?(?:\.[0-9]*)?"
    r"(?:e[+-]?[0-9]{1,4})?"
)
_OPEN = {"": None, "inf": 1, "+inf": 1, "infinity": 1, "∞": 1, "-inf": -1, "-infinity": -1}


def plain(text: str) -> str:
    """Return a number without currency and with an ASCII minus."""
    return " ".join(re.sub(r"[$€£]", "", text.replace("−", "-").lower()).split())


def parse_number(text: str) -> float:
    """Return a finite number; commas or blanks may part thousands."""
    cleaned = plain(text)
    if not _NUMBER.fullmatch(cleaned):
        hint = "write decimals with a point" if "," in cleaned else "correct the cell"
        if cleaned.startswith(("=", "@")):
            hint = "save the table with values instead of formulas"
        raise ReleaseError(f"must be a number, got {shown(text)}; {hint}")
    value = float(re.sub("[, ]", "", cleaned))
    if not math.isfinite(value):
        raise ReleaseError(f"must be a finite number, got {shown(text)}; correct the cell")
    return value


def parse_whole(text: str) -> int:
    """Return a count of people."""
    value = parse_number(text)
    if value < 0:
        what = "must not be negative"
    elif value > LARGEST:
        what = "is too large"
    elif value != int(value):
        what = "must be a whole number"
    else:
        return int(value)
    raise ReleaseError(
        f"a count {what}, got {shown(text)}; correct it, or name the scheme of suppressed cells "
        "with suppression=..."
    )


def parse_edge(text: str, *, side: int) -> float:
    """Return an edge of a bin; empty or infinite means open on the given side, -1 or 1."""
    key = plain(text)
    if key not in _OPEN:
        value = parse_number(text)
        if abs(value) > _checks.LARGEST:
            raise ReleaseError(f"an edge is too large, got {shown(text)}; say inf for an open bin")
        return value
    sign = _OPEN[key]
    return math.inf * (side if sign is None else sign)
