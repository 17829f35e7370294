"""Pictures for the gallery: those that a script gives a name, in a window of pyplot or in none."""

from weakref import WeakSet

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

plt.switch_backend("agg")
SAVED = WeakSet()


def scrape(_block, block_vars, gallery_conf):
    """Save the figures that a block of a script gave a name, or whose axes it did."""
    paths = []
    for thing in list(block_vars["example_globals"].values()):
        figure = thing.figure if isinstance(thing, Axes) else thing
        if not isinstance(figure, Figure) or figure in SAVED:
            continue
        SAVED.add(figure)
        path = next(block_vars["image_path_iterator"])
        figure.savefig(path, dpi=144, bbox_inches="tight")
        paths.append(path)
        plt.close(figure)
    return figure_rst(paths, gallery_conf["src_dir"])


def _get_sg_image_scraper():
    return scrape
