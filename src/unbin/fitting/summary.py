"""Results as a table: text, HTML, LaTeX and frames, in the layout of statsmodels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from html import escape
from textwrap import wrap
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from unbin._typing import FloatArray

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
    }
)


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
    """

    names: tuple[str, ...]
    estimate: FloatArray
    standard_error: FloatArray
    level: float = 0.95
    df: float = float("inf")

    @property
    def z(self) -> FloatArray:
        """Estimates in units of their standard error."""
        with np.errstate(divide="ignore", invalid="ignore"):
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
        low, high = self.interval().T
        return {
            "term": list(self.names),
            "estimate": self.estimate,
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
        name_width = max(10, *(len(name) for name in self.coefficients.names))
        head = "".join(f"{label:>11}" for label in self._header())
        width = name_width + len(head)
        rows = [f"{name:<{name_width}}" + "".join(f"{c:>11}" for c in cells) for name, cells in
                self._rows()]  # fmt: skip
        notes = [line for note in self.notes for line in wrap(note, width, subsequent_indent="  ")]
        return "\n".join(
            [
                self.title.center(width).rstrip(),
                "=" * width,
                *self._fact_lines(width),
                "=" * width,
                " " * name_width + head,
                "-" * width,
                *rows,
                "=" * width,
                *notes,
            ]
        )

    def as_html(self) -> str:
        """Return the summary as HTML tables; every label is escaped."""
        facts = "".join(
            f"<tr><th>{escape(label)}</th><td>{escape(text)}</td></tr>"
            for label, text in self.facts
        )
        head = "".join(f"<th>{escape(label)}</th>" for label in ("", *self._header()))
        body = "".join(
            "<tr>"
            + f"<th>{escape(name)}</th>"
            + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
            + "</tr>"
            for name, cells in self._rows()
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return (
            f"<table><caption>{escape(self.title)}</caption>{facts}</table>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"
        )

    def as_latex(self) -> str:
        """Return the coefficients as a LaTeX tabular; every label is escaped."""
        head = " & ".join(["", *(label.translate(_LATEX) for label in self._header())])
        body = [
            " & ".join([name.translate(_LATEX), *(cell.translate(_LATEX) for cell in cells)])
            + r" \\"
            for name, cells in self._rows()
        ]
        return "\n".join(
            [
                r"\begin{tabular}{l" + "r" * len(self._header()) + "}",
                r"\hline",
                head + r" \\",
                r"\hline",
                *body,
                r"\hline",
                r"\end{tabular}",
            ]
        )

    def __str__(self) -> str:
        return self.as_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.as_html()

    def _header(self) -> tuple[str, ...]:
        tail = (1 - self.coefficients.level) / 2
        t = "z" if np.isinf(self.coefficients.df) else "t"
        return "coef", "std err", t, f"P>|{t}|", f"[{tail:.3g}", f"{1 - tail:.3g}]"

    def _rows(self) -> list[tuple[str, tuple[str, ...]]]:
        c = self.coefficients
        values = zip(c.names, c.estimate, c.standard_error, c.z, c.p, c.interval(), strict=True)
        return [
            (
                name,
                (
                    _number(estimate),
                    _number(se),
                    f"{z:.3f}",
                    f"{p:.3f}",
                    _number(low),
                    _number(high),
                ),
            )
            for name, estimate, se, z, p, (low, high) in values
        ]

    def _fact_lines(self, width: int) -> list[str]:
        half = width // 2
        cells = [_spread(label, text, half - 2) for label, text in self.facts]
        if len(cells) % 2:
            cells.append("")
        return [f"{a}    {b}".rstrip() for a, b in zip(cells[::2], cells[1::2], strict=True)]


def _number(value: float) -> str:
    if value != 0 and (abs(value) >= 1e5 or abs(value) < 1e-3):
        return f"{value:.2e}"
    return f"{value:.4f}"


def _spread(label: str, text: str, width: int) -> str:
    return label + text.rjust(max(width - len(label), len(text) + 1))
