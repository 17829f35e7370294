"""Pictures for the gallery: those that a script gives a name, in a window of pyplot or in none."""

from html import escape
from pathlib import Path
from textwrap import indent
from weakref import WeakSet

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

plt.switch_backend("agg")
SAVED = WeakSet()


def describe(figure):
    """Return what is drawn against what, for readers who do not see the picture."""
    panels = []
    for ax in figure.axes:
        axes = " against ".join(filter(None, (ax.get_ylabel(), ax.get_xlabel())))
        panels.append(": ".join(filter(None, (ax.get_title(), axes))))
    return "; ".join(dict.fromkeys(filter(None, panels)))


def scrape(_block, block_vars, gallery_conf):
    """Save the figures that a block of a script gave a name, or whose axes it did."""
    shown = ""
    title = Path(block_vars["src_file"]).read_text(encoding="utf-8").splitlines()[1]
    for thing in list(block_vars["example_globals"].values()):
        figure = thing.figure if isinstance(thing, Axes) else thing
        if not isinstance(figure, Figure) or figure in SAVED:
            continue
        SAVED.add(figure)
        path = next(block_vars["image_path_iterator"])
        figure.savefig(path, dpi=144, bbox_inches="tight")
        plt.close(figure)
        text = escape(f"{title}. {describe(figure)}".strip(". "))
        width, height = figure.get_size_inches()
        shown += f".. container:: {'wide' if width > 2 * height else 'picture'}\n"
        shown += indent(figure_rst([path], gallery_conf["src_dir"], text), "   ") + "\n"
    return shown


def _get_sg_image_scraper():
    return scrape
