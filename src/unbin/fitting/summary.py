"""Results as a table: text, HTML, LaTeX and frames, in the layout of statsmodels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from unbin._typing import FloatArray
from unbin.fitting.rendering import Table, number, to_markdown, wrapped

_LARGEST_Z = 1e5
"""Above this statistics are shown with an exponent."""
_NARROWEST = 11
"""Characters of a column of numbers, at least."""


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Estimates with their uncertainty, one entry per term.

    Attributes
    ----------
    names : tuple of str
    estimate, standard_error : (k,)
    level : float
        Coverage of the intervals.
    df : float
        Degrees of freedom of Student's t; infinite for the normal.
    exponentiate : bool
        Whether ``columns`` hold exp of estimates and intervals: ratios.
    """

    names: tuple[str, ...]
    estimate: FloatArray
    standard_error: FloatArray
    level: float = 0.95
    df: float = float("inf")
    exponentiate: bool = False

    @property
    def z(self) -> FloatArray:
        """Estimates in units of their standard error."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return np.asarray(self.estimate / self.standard_error)

    @property
    def p(self) -> FloatArray:
        """Two-sided p values of "this coefficient is 0"."""
        below = ndtr if np.isinf(self.df) else partial(stdtr, self.df)
        return np.asarray(2 * below(-np.abs(self.z)))

    def interval(self) -> FloatArray:
        """Return the lower and upper ends, shape (k, 2)."""
        share = 0.5 + self.level / 2
        reach = (ndtri(share) if np.isinf(self.df) else stdtrit(self.df, share)) * (
            self.standard_error
        )
        return np.column_stack([self.estimate - reach, self.estimate + reach])

    def columns(self) -> dict[str, Any]:
        """Return the table as columns, named as in broom."""
        estimate, low, high = self.estimate, *self.interval().T
        if self.exponentiate:
            with np.errstate(over="ignore"):
                estimate, low, high = np.exp(estimate), np.exp(low), np.exp(high)
        return {
            "term": list(self.names),
            "estimate": estimate,
            "std_error": self.standard_error,
            "statistic": self.z,
            "df": np.full(len(self.names), self.df),
            "p_value": self.p,
            "conf_low": low,
            "conf_high": high,
        }


@dataclass(frozen=True, slots=True)
class Summary:
    """A printable summary of a fit.

    Attributes
    ----------
    title : str
    facts : tuple of (label, text)
        Shown in two columns above the coefficients.
    coefficients : Coefficients
    notes : tuple of str
        Sentences below the table.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    coefficients: Coefficients
    notes: tuple[str, ...]

    def as_text(self) -> str:
        """Return the summary for a terminal."""
        lines, width = self._table().text_lines(narrowest=_NARROWEST, names=10)
        return "\n".join(
            [
                self.title.center(width).rstrip(),
                "=" * width,
                *self._fact_lines(width),
                "=" * width,
                lines[0],
                "-" * width,
                *lines[1:],
                "=" * width,
                *wrapped(self.notes, width),
            ]
        )

    def to_markdown(self) -> str:
        """Return the summary in Markdown; every label is escaped."""
        facts = "; ".join(f"{label} {text}" for label, text in self.facts)
        parts = [f"**{to_markdown(self.title)}**", to_markdown(facts), self._table().to_markdown()]
        return "\n\n".join([*parts, *map(to_markdown, self.notes)])

    def to_html(self) -> str:
        """Return the summary as HTML tables; every label is escaped."""
        facts = "".join(
            f'<tr><th scope="row">{escape(label)}</th><td>{escape(text)}</td></tr>'
            for label, text in self.facts
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        title = escape(self.title)
        return f"<table><caption>{title}</caption>{facts}</table>{self._table().to_html()}{notes}"

    def as_latex(self) -> str:
        """Return the coefficients as a LaTeX tabular; every label is escaped."""
        return self._table().as_latex()

    def __str__(self) -> str:
        return self.as_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.to_html()

    def _header(self) -> tuple[str, ...]:
        tail = (1 - self.coefficients.level) / 2
        t = "z" if np.isinf(self.coefficients.df) else "t"
        return "coef", "std err", t, f"P>|{t}|", f"[{tail:.3g}", f"{1 - tail:.3g}]"

    def _table(self) -> Table:
        c = self.coefficients
        values = zip(c.names, c.estimate, c.standard_error, c.z, c.p, c.interval(), strict=True)
        rows = (
            (
                name,
                number(b),
                number(se),
                f"{z:.3f}" if abs(z) < _LARGEST_Z else f"{z:.2e}",
                f"{p:.3f}",
                number(low),
                number(high),
            )
            for name, b, se, z, p, (low, high) in values
        )
        return Table(("", *self._header()), tuple(rows))

    def _fact_lines(self, width: int) -> list[str]:
        """Return the facts in two columns, one to a line that is too long for half of it."""
        half, lines, left = width // 2 - 2, [], ""
        for label, text in self.facts:
            if len(label) + len(text) >= half:
                lines += [left] if left else []
                lines.append(_spread(label, text, width))
                left = ""
            elif left:
                lines.append(f"{left}    {_spread(label, text, half)}")
                left = ""
            else:
                left = _spread(label, text, half)
        return [*lines, left] if left else lines


def _spread(label: str, text: str, width: int) -> str:
    return label + text.rjust(max(width - len(label), len(text) + 1))
