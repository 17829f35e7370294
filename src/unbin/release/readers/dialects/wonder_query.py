"""The query below a CDC WONDER export: what was asked for, and which rows are not listed.

``Show Suppressed: False`` leaves out rows of 0 to 9, ``Show Zero Values: False`` rows of 0. Which
rows those are is known where the groups are: those of the query, or the usual ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unbin.release.readers.cells import Cell, Scheme
from unbin.release.readers.labels import is_unknown

AGES = re.compile(
    r"(?:infant )?age groups?|(?:ten|five)-year age groups?|single-year ages?|age of .+", re.I
)
"""Columns and parameters that are about ages; an average age or an age-adjusted rate is not."""
_PARAMETER = re.compile(r"([A-Z][^:;]{0,60}):\s*(.*)")
_HIDDEN = re.compile(r"rows with suppressed [^.]{0,60} are hidden", re.I)
_YEAR = re.compile(r"(?:19|20)[0-9]{2}")
_SPAN = re.compile(r"\b((?:19|20)[0-9]{2}) ?- ?((?:19|20)[0-9]{2})\b")


def _bands(first: int, width: int, last: int) -> list[str]:
    return [f"{low}-{low + width - 1} years" for low in range(first, last, width)]


GROUPS: dict[str, tuple[str, ...]] = {
    "ten-year age groups": ("< 1 year", "1-4 years", *_bands(5, 10, 85), "85+ years"),
    "five-year age groups": ("< 1 year", "1-4 years", *_bands(5, 5, 100), "100+ years"),
    "single-year ages": (
        "< 1 year", "1 year", *(f"{age} years" for age in range(2, 100)), "100+ years"
    ),
    "age of mother 9": ("Under 15 years", *_bands(15, 5, 50), "50 years and over"),
    "age of father": ("Under 15 years", *_bands(15, 5, 55), "55 years and older"),
}  # fmt: skip
"""All groups of a column, where they are known."""
_ALWAYS_KNOWN = ("age of mother 9",)
"""Columns without unknown values: the age of a mother is imputed."""


@dataclass(frozen=True, slots=True)
class Query:
    """What the lines below the table say.

    Attributes
    ----------
    parameters : mapping of a name to its text
        "show totals" to "True", "ten-year age groups" to "< 1 year; 1-4 years".
    tells_hidden : bool
        Whether a message says that suppressed rows are hidden.
    """

    parameters: Mapping[str, str]
    tells_hidden: bool = False

    @property
    def has_footer(self) -> bool:
        """Whether the export still has its query."""
        return bool(self.parameters)

    def groups(self, column: str) -> list[str] | None:
        """Return the groups of a column that the query held, in words; None if not known."""
        asked = self.parameters.get(column.casefold())
        if asked is not None and asked.casefold() != "all":
            return [text.strip() for text in asked.split(";") if text.strip()]
        others = (name for name in self.parameters if AGES.fullmatch(name))
        if any(self.parameters[name].casefold() != "all" for name in others):
            return None
        known = GROUPS.get(column.casefold())
        return None if known is None else list(known)

    def holds_unknown(self, column: str) -> bool:
        """Tell whether people whose group is unknown may be among those counted."""
        asked = self.parameters.get(column.casefold(), "all")
        if asked.casefold() == "all":
            return column.casefold() not in _ALWAYS_KNOWN
        return any(is_unknown(text) for text in asked.split(";"))

    def years(self) -> list[str]:
        """Return the years the query held: those asked for, or all of the data."""
        asked = " ".join(self.parameters.get(name, "") for name in ("year", "year/month"))
        found = sorted(set(_YEAR.findall(asked)))
        if found:
            return found
        span = _SPAN.search(self.parameters.get("dataset", ""))
        return [str(year) for year in range(int(span[1]), int(span[2]) + 1)] if span else []

    def unlisted(self, cells: Sequence[Cell], scheme: Scheme) -> Cell | None:
        """Return what a row that is not listed counts; None if all rows are listed.

        Without the query, rows are hidden as WONDER does unless told otherwise. Where counts of 1
        to 9 are shown, none is suppressed.
        """
        least, most = scheme.symbols.get("suppressed", (0, 0))
        small = any(0 < cell.low < 10 and cell.exact for cell in cells)
        any_hidden = any(cell.hidden for cell in cells)
        suppressed = self._hides("show suppressed", any_hidden) and (self.tells_hidden or not small)
        zeros = self._hides("show zero values", any(cell.high == 0 for cell in cells))
        if not suppressed:
            return Cell(0, 0) if zeros else None
        return Cell(0 if zeros else least, most, hidden=True)

    def _hides(self, option: str, listed: bool) -> bool:
        """Tell whether rows are left out: as the query says, else whether there are none."""
        said = self.parameters.get(option, "").casefold()
        return said != "true" if said else not listed


def read_query(records: Sequence[Sequence[str]]) -> Query:
    """Read the lines below the table; long ones are continued on the next."""
    lines = [" ".join(cell for cell in record if cell) for record in records]
    parameters: dict[str, str] = {}
    last = ""
    ends = (k for k, line in enumerate(lines) if k and line == "---")
    for line in lines[1 : next(ends, None)]:
        found = _PARAMETER.match(line)
        if found:
            last = found[1].casefold()
            parameters[last] = found[2]
        elif last:
            parameters[last] += f" {line}"
    return Query(parameters, _HIDDEN.search(" ".join(lines)) is not None)
