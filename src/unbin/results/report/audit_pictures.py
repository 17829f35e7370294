"""The pictures of an audit: what finer bins reveal to attackers, and what they are good for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unbin.disclosure.results import Audit, PlannedTable
from unbin.results import plots
from unbin.results.report.svg import inline_svg

_COLOURS = (plots.BLUE, plots.ORANGE, "#1b7837", "#762a83", "#543005", "#01665e")
_MARKERS = "oDs^vP"
_NEAR = 0.1
"""Share of the axes within which numbers would cover each other."""


@dataclass(frozen=True, slots=True)
class AuditPictures:
    """Gains by bins, and utility against them."""

    gains: Markup
    trade: Markup


def draw_audit(audit: Audit) -> AuditPictures:
    """Draw both; call it under the settings of :mod:`unbin.results.report.svg`."""
    gains, by = (_gains_by_table, "") if audit.categories else (_gains, ", by bins")
    return AuditPictures(
        inline_svg(gains(audit), name="gains", title=f"Gain about people in the table{by}"),
        inline_svg(_trade(audit), name="trade", title="Utility against gain"),
    )


def _lines(audit: Audit) -> list[tuple[str, list[PlannedTable], str, str, str]]:
    """Return a line for each level and protection: name, tables, colour, marker, style."""
    keys = list(dict.fromkeys((table.level, table.protection) for table in audit.tables))
    levels = list(dict.fromkeys(level for level, _ in keys))
    found = []
    for level, protection in keys:
        tables = [t for t in audit.tables if (t.level, t.protection) == (level, protection)]
        tables.sort(key=lambda table: table.n_bins)
        k = levels.index(level)
        name = plots.shorten(level) + (f", {protection}" if protection else "")
        style = "--" if protection else "-"
        found.append((name, tables, _COLOURS[k % 6], _MARKERS[k % 6], style))
    return found


def _gains(audit: Audit) -> Axes:
    lines = _lines(audit)
    ax = _axes(3.4 + 0.2 * len(lines))
    for name, tables, colour, marker, style in lines:
        x = np.array([table.n_bins for table in tables], dtype=np.float64)
        gain = [table.in_table.gain for table in tables]
        value = np.array([each.value for each in gain])
        reach = np.array([[each.value - each.low, each.high - each.value] for each in gain]).T
        ax.errorbar(x, value, yerr=np.maximum(reach, 0), color=colour, marker=marker,
                    linestyle=style, markersize=5, linewidth=1.4, label=name)  # fmt: skip
    ax.set_xscale("log")
    ticks = sorted({table.n_bins for table in audit.tables})
    ax.set_xticks(ticks, [str(k) for k in ticks])
    ax.minorticks_off()
    ax.set_xlabel("bins published")
    ax.set_ylabel("gain, people in the table")
    ax.set_ylim(0, 1.02)
    _legend(ax)
    return ax


def _gains_by_table(audit: Audit) -> Axes:
    lines = _lines(audit)
    ax = _axes(1.2 + 0.5 * len(lines))
    for k, (_, (table,), colour, marker, _) in enumerate(lines):
        gain = table.in_table.gain
        reach = [[max(gain.value - gain.low, 0)], [max(gain.high - gain.value, 0)]]
        ax.errorbar([gain.value], [k], xerr=reach, color=colour, marker=marker, markersize=5,
                    linewidth=1.4)  # fmt: skip
    ax.set_yticks(range(len(lines)), [name for name, *_ in lines], parse_math=False)
    ax.set_ylim(len(lines) - 0.5, -0.5)
    ax.set_xlabel("gain, people in the table")
    ax.set_xlim(0, 1.02)
    return ax


def _trade(audit: Audit) -> Axes:
    ax = _axes(3.4)
    for name, tables, colour, marker, style in _lines(audit):
        gain = [table.gain for table in tables]
        utility = [table.utility.value for table in tables]
        ax.plot(gain, utility, color=colour, marker=marker, linestyle=style, markersize=5,
                linewidth=1.2, label=name)  # fmt: skip
    for (gain_at, utility_at), bins in _places(audit).items() if not audit.categories else ():
        ax.annotate(", ".join(map(str, bins)), (gain_at, utility_at), fontsize=8,
                    textcoords="offset points", xytext=(6, 4))  # fmt: skip
    ax.axhline(audit.min_utility, color=plots.GREY, linewidth=0.8, linestyle=":")
    best = audit.recommended
    if best is not None:
        ax.plot([best.gain], [best.utility.value], "o", markersize=13, markerfacecolor="none",
                markeredgecolor=plots.GREY)  # fmt: skip
    ax.set_xlabel("gain of the best attack")
    ax.set_ylabel("utility of an honest analyst")
    ax.set_xlim(-0.03, 1.03)
    ax.set_ylim(-0.03, 1.03)
    return ax


def _places(audit: Audit) -> dict[tuple[float, float], list[int]]:
    """Return the numbers of bins to be written at each place; tables close by share one."""
    found: dict[tuple[float, float], list[int]] = {}
    for table in audit.tables:
        x, y = table.gain, table.utility.value
        at = next((p for p in found if abs(p[0] - x) < _NEAR and abs(p[1] - y) < _NEAR), (x, y))
        found[at] = sorted({*found.get(at, []), table.n_bins})
    return found


def _axes(height: float) -> Axes:
    ax = Figure(figsize=(5.4, height), layout="constrained").add_subplot()
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def _legend(ax: Axes) -> None:
    legend = ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), frameon=False, fontsize=9)
    for text in legend.get_texts():
        text.set_parse_math(False)
