"""Results in a notebook: plain tables and lists, every text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def described(text: str) -> str:
    """Return a description of several lines as a table: the first line, then what each says.

    A line ``kind: what`` is a row of two cells.
    """
    head, *body = text.splitlines()
    rows = (line.strip().partition(": ") for line in body)
    cells = "".join(
        f'<tr><th scope="row">{escape(a)}</th><td>{escape(b)}</td></tr>' for a, _, b in rows
    )
    return f"<table><caption>{escape(head)}</caption><tbody>{cells}</tbody></table>"


def grid(rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """Return rows of cells as a table, the first its head."""
    head, *body = rows
    above = f"<caption>{escape(caption)}</caption>" if caption else ""
    names = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    lines = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for first, *cells in body
    )
    return f"<table>{above}<thead><tr>{names}</tr></thead><tbody>{lines}</tbody></table>"


def sentences(first: str, others: Iterable[str]) -> str:
    """Return a sentence that matters most, and a list of others."""
    items = "".join(f"<li>{escape(text)}</li>" for text in others)
    below = f"<ul>{items}</ul>" if items else ""
    return f"<p><strong>{escape(first)}</strong></p>{below}"


class ShowsSummary:
    """What notebooks show of a fitted estimator: its summary; mixed in before scikit-learn's."""

    def _summary_html(self) -> str | None:
        """Return the summary; None where scikit-learn's own display is shown."""
        raise NotImplementedError

    def _repr_html_inner(self) -> str:
        shown = self._summary_html()
        return str(super()._repr_html_inner()) if shown is None else shown  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        shown = self._summary_html()
        return (
            bundle if shown is None or "text/html" not in bundle else bundle | {"text/html": shown}
        )
