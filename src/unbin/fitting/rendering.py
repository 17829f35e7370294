"""Tables of text as text, Markdown, HTML and LaTeX: every cell is escaped, no column collides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap

_BREAKS = dict.fromkeys("\n\r\t\v\f\x85\u2028\u2029", " ")
_PLAIN = str.maketrans(_BREAKS)
_LATEX = str.maketrans(
    {
        **_BREAKS,
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
        "[": "{[}",  # after a line's end it would be read as a length
        "]": "{]}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "−": "$-$",
        "†": r"\dag{}",
        "‡": r"\ddag{}",
        "²": "$^2$",
        "…": r"\dots{}",
    }
)
_MARKDOWN = str.maketrans(
    {mark: f"\\{mark}" for mark in "\\`*_{}[]<>#|~$"} | {"&": "&amp;"} | _BREAKS
)
_APART = 2
"""Spaces between columns, at least."""


@dataclass(frozen=True, slots=True)
class Table:
    """Cells of text under a header, names of rows first.

    Attributes
    ----------
    header : tuple of str
        One entry per column, that of the names included.
    rows : tuple of tuples of str
        As long as the header.
    rules : tuple of int
        Rows before which a line is drawn.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    rules: tuple[int, ...] = ()

    def text_lines(self, *, narrowest: int = 0, names: int = 0) -> tuple[list[str], int]:
        """Return the header and the rows for a terminal, and how wide they are.

        Columns are as wide as their widest cell asks for, at least ``narrowest``; that of the
        names at least ``names``.
        """
        lines = [[cell.translate(_PLAIN) for cell in line] for line in (self.header, *self.rows)]
        widest = [max(map(len, column)) for column in zip(*lines, strict=True)]
        widths = [max(names, widest[0]), *(max(narrowest, w + _APART) for w in widest[1:])]
        text = [
            (f"{line[0]:<{widths[0]}}" + "".join(map(str.rjust, line[1:], widths[1:]))).rstrip()
            for line in lines
        ]
        return text, sum(widths)

    def to_markdown(self) -> str:
        """Return a Markdown table."""
        lines = [self.header, *self.rows]
        cells = [[cell.translate(_MARKDOWN) for cell in line] for line in lines]
        bars = ["| " + " | ".join(line) + " |" for line in cells]
        under = "|:---" + "|---:" * (len(self.header) - 1) + "|"
        return "\n".join([bars[0], under, *bars[1:]])

    def to_html(self, caption: str = "") -> str:
        """Return an HTML table."""
        head = "".join(f'<th scope="col">{escape(label)}</th>' for label in self.header)
        body = "".join(
            "<tr>"
            + f'<th scope="row">{escape(line[0])}</th>'
            + "".join(f"<td>{escape(cell)}</td>" for cell in line[1:])
            + "</tr>"
            for line in self.rows
        )
        title = f"<caption>{escape(caption)}</caption>" if caption else ""
        return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def as_latex(self) -> str:
        """Return a LaTeX tabular."""
        lines = [" & ".join(map(to_latex, line)) + r" \\" for line in (self.header, *self.rows)]
        body = [
            part
            for k, line in enumerate(lines[1:])
            for part in ((r"\hline", line) if k in self.rules else (line,))
        ]
        columns = "l" + "r" * (len(self.header) - 1)
        top = [rf"\begin{{tabular}}{{{columns}}}", r"\hline", lines[0], r"\hline"]
        return "\n".join([*top, *body, r"\hline", r"\end{tabular}"])


def to_latex(text: str) -> str:
    """Return text as LaTeX prints it."""
    return text.translate(_LATEX)


def to_markdown(text: str) -> str:
    """Return text as Markdown prints it."""
    return text.translate(_MARKDOWN)


def wrapped(notes: Sequence[str], width: int) -> list[str]:
    """Return notes in lines of a width, all but the first of each indented."""
    return [line for note in notes for line in wrap(note, width, subsequent_indent="  ")]


def number(value: float, digits: int = 4) -> str:
    """Return a number with decimals, or with an exponent where these would not show it."""
    if value != 0 and (abs(value) >= 1e5 or abs(value) < 10.0 ** (1 - digits)):
        return f"{value:.2e}"
    return f"{value:.{digits}f}"
