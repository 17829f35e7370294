"""Published cells as intervals of counts: suppressed, rounded or exact."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from unbin.exceptions import CountError, ParameterError, ReleaseError
from unbin.release.intervals import Rounding
from unbin.release.readers.numbers import LARGEST, parse_whole, plain
from unbin.release.readers.sheets import shown

Bounds = tuple[int, int | None]
"""The least and the most people; None when only the block's total bounds them."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The counts a cell may stand for, from ``low`` to ``high``.

    ``high`` is None when only the total of the block bounds it; ``hidden`` marks a cell that was
    suppressed, not merely rounded.
    """

    low: int
    high: int | None
    hidden: bool = False

    @property
    def exact(self) -> bool:
        """Whether the count is known."""
        return self.low == self.high


@dataclass(frozen=True, slots=True)
class Scheme:
    """How an agency writes counts that it does not show.

    Attributes
    ----------
    symbols : mapping of a cell's text to (least, most) people
    rounding : str
        How counts are rounded, as in :meth:`unbin.Release.from_histogram`; empty if they are not.
    shown_from : int
        The smallest count other than 0 that is shown; above 1, a 0 is a true 0.
    open_ends : bool
        Whether "2,500-" and "250,000+" stand for at most and at least.
    """

    symbols: Mapping[str, Bounds] = field(default_factory=dict)
    rounding: str = ""
    shown_from: int = 1
    open_ends: bool = False


_ACS = ("-", "n", "(x)", "**", "***", "*****", "null", "")
_ACS_SENTINELS = (-666666666, -999999999, -888888888, -222222222, -333333333, -555555555)
SCHEMES: dict[str, Scheme] = {
    "none": Scheme(),
    "acs": Scheme(dict.fromkeys((*_ACS, *map(str, _ACS_SENTINELS)), (0, None)), open_ends=True),
    # a cell hidden only to protect another one may be large: its total bounds it
    "cms": Scheme({"*": (1, 10), "#": (1, None), "": (0, None)}),
    "cdc-wonder": Scheme({"suppressed": (0, 9), "missing": (0, None)}),
    "nhs": Scheme({"*": (1, 7)}, rounding="nearest-5", shown_from=8),
    "hhs": Scheme(dict.fromkeys(("-999999", "-999,999", "-999999.0"), (1, 3))),
}
"""Schemes by the name to say in ``suppression=``."""
_AT_MOST = re.compile(r"(<=?|≤)\s*([0-9][0-9,]*)")
_OPEN = re.compile(r"([0-9][0-9,]*)([+-])")


def find_scheme(suppression: Any, rounding: str | None, usual: str) -> Scheme:
    """Return the scheme a user named, or the dialect's usual one."""
    if isinstance(suppression, Mapping):
        scheme = Scheme({str(k).strip().lower(): _bounds(k, v) for k, v in suppression.items()})
    elif suppression is None or (isinstance(suppression, str) and suppression in SCHEMES):
        scheme = SCHEMES[usual if suppression is None else suppression]
    else:
        raise ParameterError(
            f"suppression: unknown, got {suppression!r}; use one of "
            f"{', '.join(map(repr, SCHEMES))}, or a mapping such as {{'*': (1, 10)}}"
        )
    if rounding is None:
        return scheme
    if rounding.endswith("%"):
        raise ParameterError(
            f"rounding: the table holds counts, got {rounding!r} for percentages; say for example "
            "'nearest-5'"
        )
    return replace(scheme, rounding="" if rounding == "none" else rounding)


def _bounds(symbol: Any, value: Any) -> Bounds:
    try:
        low, high = value
        good = isinstance(low, int) and (high is None or isinstance(high, int))
        if good and low >= 0 and (high is None or low <= high <= LARGEST):
            return low, high
    except (TypeError, ValueError):
        pass
    raise ParameterError(
        f"suppression: {symbol!r} must stand for (least, most) people, got {value!r}; say for "
        "example (1, 10)"
    )


def parse_cell(text: str, scheme: Scheme) -> Cell:
    """Return the counts a published cell may stand for.

    Examples
    --------
    >>> parse_cell("1,204", SCHEMES["none"])
    Cell(low=1204, high=1204, hidden=False)
    >>> parse_cell("*", SCHEMES["nhs"])
    Cell(low=1, high=7, hidden=True)
    """
    key = plain(text)
    if key in scheme.symbols:
        return Cell(*scheme.symbols[key], hidden=True)
    at_most = _AT_MOST.fullmatch(key)
    if at_most:
        most = parse_whole(at_most[2]) - (at_most[1] == "<")
        return Cell(0, max(most, 0), hidden=True)
    is_open = _OPEN.fullmatch(key)
    if is_open and scheme.open_ends:
        edge = parse_whole(is_open[1])
        return Cell(edge, None, hidden=True) if is_open[2] == "+" else Cell(0, edge, hidden=True)
    try:
        count = parse_whole(text)
    except ReleaseError as error:
        raise _unknown_symbol(text, key) or error from None
    return _rounded(count, scheme, text)


def _rounded(count: int, scheme: Scheme, text: str) -> Cell:
    if not scheme.rounding or (count == 0 and scheme.shown_from > 1):
        return Cell(count, count)
    rounding = Rounding.parse(scheme.rounding)
    if count % int(scheme.rounding.rpartition("-")[2]):
        raise CountError(
            f"counts are rounded ({scheme.rounding}) here, got {shown(text)}; say rounding='none' "
            "if they are not"
        )
    least = scheme.shown_from if count >= scheme.shown_from > 1 else 0
    return Cell(max(count - int(rounding.below), least), count + int(rounding.above))


def _unknown_symbol(text: str, key: str) -> CountError | None:
    """Name the schemes that know a symbol."""
    knowing = [name for name, scheme in SCHEMES.items() if key in scheme.symbols]
    if not key or not knowing:
        return None
    return CountError(
        f"must be a count, got {shown(text)}; if it hides one, say suppression="
        f"{' or '.join(map(repr, knowing))}, or a mapping such as {{{text!r}: (1, 10)}}"
    )


def add_cells(cells: list[Cell]) -> Cell:
    """Return the cell of several bins together."""
    highs = [cell.high for cell in cells]
    known = [high for high in highs if high is not None]
    high = sum(known) if len(known) == len(highs) else None
    return Cell(sum(cell.low for cell in cells), high, any(cell.hidden for cell in cells))
