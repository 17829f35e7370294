"""The picture of the leaderboard: a panel for each study, a line for each release."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from studies import registry
from studies.releases import KINDS, label
from studies.run import Row

COLUMNS = 3
LOOKS = {  # marker, colour: this library's entries are blue
    "unbin_default": ("o", "#0b4f9e"),
    "unbin_ordinal": ("s", "#3f8fe0"),
    "unbin_tuned": ("D", "#8cc1f5"),
    "matching": ("v", "#c8473a"),
    "block_means": ("^", "#d98a00"),
    "midpoints": ("P", "#7a7a7a"),
    "pyei": ("X", "#8a4fa8"),
    "dllp": ("*", "#2e8b57"),
}
OTHERS = ("<", "#000000")
"""Of a method that has no look yet."""
NAMES = -0.69
"""Where the names of the releases begin, in widths of a panel."""
BEYOND = 0.35
"""Panels end so many times the pooled mean's distance to the oracle beyond both."""


def draw(rows: list[Row]) -> Figure:
    """Return the picture: a panel for each study, which says what it is about."""
    studies, methods = registry.studies(), registry.methods()
    names = [name for name in studies if any(row.study == name for row in rows)]
    height = -(-len(names) // COLUMNS)
    figure = Figure(figsize=(10.5, 2.3 * height), layout="constrained")
    panels = figure.subplots(height, COLUMNS, squeeze=False).ravel()
    for ax in panels[len(names) :]:
        ax.set_axis_off()
    for ax, name in zip(panels, names, strict=False):
        _panel(ax, studies[name], [row for row in rows if row.study == name])
    shown = [name for name in methods if name not in ("oracle", "pooled_mean")]
    shown = [name for name in shown if any(row.method == name for row in rows)]
    handles = [_handle(LOOKS.get(name, OTHERS), methods[name].label) for name in shown]
    handles += [
        Line2D([], [], color="black", lw=1, label="oracle"),
        Line2D([], [], color="black", lw=1, ls=":", label="pooled mean"),
        _handle((">", "white"), "beyond the edge", edge="black"),
        _handle(("o", "white"), "hollow: not trusted\nby the fit itself", edge="#0b4f9e"),
    ]
    place = "lower right" if len(names) < len(panels) else "outside right upper"  # a free panel
    figure.legend(handles=handles, loc=place, frameon=False, fontsize=8)
    return figure


def _handle(look: tuple[str, str], text: str, edge: str | None = None) -> Line2D:
    return Line2D([], [], ls="", marker=look[0], ms=7, mfc=look[1], mec=edge or look[1], label=text)


def _panel(ax, study: registry.Study, rows: list[Row]) -> None:
    kinds = [kind for kind in KINDS if any(row.release == kind for row in rows)]
    floor = 0.0 if study.family == "votes" else 1.0
    errors = [row.error for row in rows if not np.isnan(row.error)]
    pooled = [row.error for row in rows if row.method == "pooled_mean"] or [max(errors)]
    top = max(floor, pooled[0]) + BEYOND * abs(pooled[0] - floor)
    low = min(floor, *errors)
    ax.axvline(floor, color="black", lw=1, zorder=1)
    ax.axvline(pooled[0], color="black", lw=1, ls=":", zorder=1)
    shown = [row for row in rows if row.method not in ("oracle", "pooled_mean")]
    own = sorted({row.method for row in shown}, key=list(registry.methods()).index)
    for row in shown:
        if np.isnan(row.error):
            continue
        spread = 0.6 * (own.index(row.method) / max(len(own) - 1, 1) - 0.5)
        marker, color = LOOKS.get(row.method, OTHERS)
        beyond = row.error > top
        ax.plot(
            top if beyond else row.error,
            kinds.index(row.release) + spread,
            marker=">" if beyond else marker,
            ms=6,
            mec=color,
            mfc="white" if row.verdict.startswith("not") else color,
            clip_on=False,
            zorder=3,
        )
    for k in range(0, len(kinds), 2):  # which marks belong to which release
        ax.axhspan(k - 0.5, k + 0.5, color="#f1f3f5", lw=0, zorder=0)
    ax.set_xlim(low - 0.06 * (top - low), top)
    ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    ax.set_yticks(range(len(kinds)), [_short(kind, study.family) for kind in kinds], fontsize=8)
    ax.set_ylim(len(kinds) - 0.5, -0.5)
    ax.tick_params(axis="x", labelsize=8)
    unit = {"votes": "people in a wrong cell, %", "binomial": "log loss over the oracle's"}
    ax.set_xlabel(unit.get(study.family, "error over the oracle's"), fontsize=8)
    ax.set_title(study.label, fontsize=10, loc="left", x=NAMES, weight="bold", pad=18)
    about = study.about.partition("(")[0].strip().rstrip(".")
    # above the names too, which leaves it room
    ax.text(NAMES, 1.03, about, transform=ax.transAxes, fontsize=8).set_in_layout(False)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _short(kind: str, family: str) -> str:
    text = label(kind, family)
    return text.replace("one table, 10 bins, 1", "1").replace("one table, 1", "1")
