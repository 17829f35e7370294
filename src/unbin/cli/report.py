"""The report, where that part is installed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unbin.estimator import AggregatedGLM


def render(
    model: AggregatedGLM,
    *,
    title: str,
    command: str,
    oracle: AggregatedGLM | None = None,
    inputs: dict[str, str] | None = None,
) -> str | None:
    """Return the report of a fit as HTML, None where there is no report module."""
    if find_spec("unbin.report") is None:
        return None
    return str(
        import_module("unbin.report").render_report(
            model, title=title, oracle=oracle, command=command, inputs=inputs or {}
        )
    )
