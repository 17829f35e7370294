"""Labels of bins in words: "less than 5", "10 to 14", "75+", "$10,000 to $14,999", "[5, 10)".

Words are first spelled as signs ("or more" becomes +, "under" becomes <, "to" becomes -), and what
is left is one number or two, each with the sign before or behind it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from unbin._checks import LARGEST
from unbin.exceptions import BinError
from unbin.release.readers.sheets import shown

MAX_LABEL = 200
"""Characters of a label."""
TOTALS = frozenset({"total", "all", "all ages", "all persons", "all people", "overall"})
UNKNOWNS = frozenset(
    {
        "unknown", "not stated", "not known", "not specified", "not recorded", "not reported",
        "not available", "not applicable", "not computed", "missing", "age not stated",
        "unknown or not stated", "unknown or not reported", "not reported or unknown",
        "no cash rent",
    }
)  # fmt: skip
"""People whose value was not recorded, or who have none."""


@dataclass(frozen=True, slots=True)
class Label:
    """What a label says about the values of its bin.

    Attributes
    ----------
    lower, upper : float
        Ends as printed; infinite where the label names none.
    lower_in, upper_in : bool
        Whether the printed end is itself in the bin.
    step : float
        The size of one in the last printed digit: 1 for 14,999, 0.1 for 9.9.
    continuous : bool
        Whether values between the steps exist: money, time, age, shares, printed decimals.
    """

    lower: float
    upper: float
    lower_in: bool = True
    upper_in: bool = True
    step: float = 1.0
    continuous: bool = False


_CURRENCY = re.compile(r"[$€£¥]|\b(?:usd|eur|gbp|dollars?|euros?|pounds?)\b")
_MEASURED = re.compile(
    r"(?:-|\b)(?:years?|yrs?|months?|weeks?|days?|hours?|minutes?|mins?|aged?|percent|"
    r"grams?)\b|%"
)
_UNITS = re.compile(
    r"(?:-|\b)(?:old|of|persons?|people|households?|units?|(?:occupants? per )?rooms?|bedrooms?|"
    r"vehicles?|available|visits?|children|workers?|times|between|built|moved in)\b|[:.]$"
)
_NONE = re.compile(r"\bno (?=(?:bedrooms?|rooms?|vehicles?|children|workers?|visits?|persons?)\b)")
_JOINED = re.compile(r"(?<=[0-9])_(?=[0-9])")
_SIGNS = tuple(
    (re.compile(pattern), sign)
    for pattern, sign in (
        (r"[‐‑‒–—−]", "-"),
        (r"≤|⩽|=<", "<="),
        (r"≥|⩾|=>", ">="),
        (r"\b(?:less|fewer|lower) than or equal to\b|\bup to and including\b|\bup to\b", "<="),
        (r"\bat most\b|\b(?:no|not) more than\b", "<="),
        (r"\b(?:greater|more) than or equal to\b|\bat least\b|\b(?:no|not) less than\b", ">="),
        (r"\b(?:less|fewer|lower|younger) than\b", "<"),
        (r"\b(?:greater|more|higher|older) than\b", ">"),
        (r"[ -]?\b(?:or|and)[ -](?:more|over|above|older|greater|up|higher|longer|later)\b", "+"),
        (r"[ -]?\b(?:or|and)[ -](?:less|fewer|younger|lower|shorter|earlier)\b", "~"),
        (r"[ -]?\bor[ -](?:under|below)\b|[ -]?\band[ -](?:under|below)$", "~"),
        (r"(?<=[0-9]) ?\bplus\b", "+"),
        (r"\b(?:under|below)\b", "<"),
        (r"\b(?:over|above)\b", ">"),
        (r"^from\b", ">="),
        (r"\b(?:to|through|thru|until|and|but)\b", ":"),
    )
)
_TOKEN = re.compile(
    r" *(?:(?P<number>(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+)"
    r" ?(?P<scale>(?:k|m|thousand|million)\b)?(?![\w.])|(?P<sign><=|>=|[<>+~:-]))"
)
_NUMBER = r"-?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?"
_INTERVAL = re.compile(rf"([\[(]) ?(-inf|{_NUMBER}) ?[,;] ?(\+?inf|{_NUMBER}) ?([\])])")
_SCALE = {"": 1.0, "k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6}


@dataclass(slots=True)
class _End:
    """A number of a label, with the sign before it and the sign behind it."""

    value: float
    step: float
    before: str = ""
    behind: str = ""


def is_total(text: str) -> bool:
    """Tell whether a label stands for all bins together."""
    return text.strip(" :").casefold() in TOTALS


def is_unknown(text: str) -> bool:
    """Tell whether a label stands for people whose value is not known, or who have none."""
    return text.strip(" :").casefold() in UNKNOWNS


def parse_label(text: str) -> Label:
    """Return what a label in words says.

    Examples
    --------
    >>> parse_label("$10,000 to $14,999")
    Label(lower=10000.0, upper=14999.0, lower_in=True, upper_in=True, step=1.0, continuous=True)
    """
    label = None
    if len(text) <= MAX_LABEL:
        words = _NONE.sub("0 ", _JOINED.sub("-", text.lower()))
        continuous = bool(_CURRENCY.search(words) or _MEASURED.search(words))
        words = _UNITS.sub(" ", _MEASURED.sub(" ", _CURRENCY.sub("", words)))
        words = " ".join(words.split())
        label = _interval(words) or _from_ends(_ends(words))
    if label is None:
        raise BinError(
            f"a label must name its values, got {shown(text)}; write it like '5-9', 'less than 5' "
            "or '75+', or give columns lower and upper"
        )
    if label.lower > label.upper:
        raise BinError(f"a label must run from low to high, got {shown(text)}; correct it")
    if any(LARGEST < abs(end) < math.inf for end in (label.lower, label.upper)):
        raise BinError(f"the number of a label is too large, got {shown(text)}; correct it")
    return replace(label, continuous=continuous or label.step < 1)


def _interval(words: str) -> Label | None:
    """Read [5, 10)."""
    found = _INTERVAL.fullmatch(words)
    if found is None:
        return None
    left, low, high, right = found.groups()
    lower, step = (-math.inf, 1.0) if "inf" in low else _number(low)
    upper, other = (math.inf, 1.0) if "inf" in high else _number(high)
    return Label(lower, upper, left == "[", right == "]", min(step, other))


def _number(digits: str, scale: str = "") -> tuple[float, float]:
    """Return a printed number and the size of one in its last digit."""
    decimals = len(digits.partition(".")[2])
    return float(digits.replace(",", "")) * _SCALE[scale], 10.0**-decimals * _SCALE[scale]


def _ends(words: str) -> list[_End]:
    """Return the numbers of a label with their signs; none when something is left over."""
    for pattern, sign in _SIGNS:
        words = pattern.sub(f" {sign} ", words)
    words = " ".join(words.split())
    ends: list[_End] = []
    pending, position = "", 0
    while position < len(words):
        found = _TOKEN.match(words, position)
        if found is None:
            return []
        position = found.end()
        if found["sign"]:
            # a sign behind a number belongs to it; any other waits for its number
            if found["sign"] in "+~" and ends and not pending:
                ends[-1].behind += found["sign"]
            else:
                pending += found["sign"]
            continue
        value, step = _number(found["number"], found["scale"] or "")
        if (not ends and pending.endswith("-")) or pending.endswith(("--", ":-", "<-", "=-")):
            value, pending = -value, pending[:-1]
        ends.append(_End(value, step, before=pending))
        pending = ""
    return [] if pending else ends


def _from_ends(ends: list[_End]) -> Label | None:
    if len(ends) == 1:
        return _one_end(ends[0])
    if len(ends) != 2 or ends[0].behind or ends[1].behind:
        return None
    first, last = ends
    between = last.before.lstrip(":-")
    if first.before not in ("", ">", ">=") or between not in ("", "<", "<="):
        return None
    if not last.before or len(last.before) - len(between) > 2:
        return None
    step = min(first.step, last.step)
    return Label(first.value, last.value, first.before != ">", between != "<", step)


def _one_end(end: _End) -> Label | None:
    value, step = end.value, end.step
    match end.before, end.behind:
        case "", "":
            return Label(value, value, True, True, step)
        case (("<" | "<="), ""):
            return Label(-math.inf, value, True, end.before == "<=", step)
        case "", "~":
            return Label(-math.inf, value, True, True, step)
        case ((">" | ">="), ""):
            return Label(value, math.inf, end.before == ">=", True, step)
        case "", "+":
            return Label(value, math.inf, True, True, step)
    return None
