"""Figures as inline SVG: no script, no style sheet, no reference outside, the same bytes each time.

matplotlib's SVG is parsed and only known elements are written back, so that whatever a name holds
stays text. Ids are made unique, because many pictures share one page.
"""

from __future__ import annotations

import io
import re
import warnings
from contextlib import AbstractContextManager
from xml.etree import ElementTree

from markupsafe import Markup
from matplotlib import style
from matplotlib.axes import Axes

from unbin.results import plots

_KEPT = frozenset(
    ["svg", "g", "path", "use", "defs", "clipPath", "rect", "text", "tspan", "pattern", "circle"]
)
_LOCAL = re.compile(r"url\(#([^)]+)\)")
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_NAMED = {
    "#000000": "currentColor",
    "#ffffff": "var(--paper)",
    plots.BLUE: "var(--blue)",
    plots.ORANGE: "var(--orange)",
    plots.GREY: "var(--grey)",
    plots.PALE: "var(--pale)",
}
"""Colours that the page names, so that they change with its background."""
_SETTINGS = {
    "svg.fonttype": "none",  # text stays text: it can be read aloud, copied and searched
    "svg.hashsalt": "unbin",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "font.size": 10.0,
}
"""What figures are drawn and written with, over matplotlib's defaults."""


def settings() -> AbstractContextManager[None]:
    """Return the settings that figures of a page are drawn and written under."""
    return style.context(["default", _SETTINGS])


def inline_svg(ax: Axes, *, name: str, title: str) -> Markup:
    """Return the figure of ``ax``, drawn under :func:`settings`, as an element to place in a page.

    Parameters
    ----------
    ax : Axes
    name : str
        Letters that no other picture of the page has; they start its ids.
    title : str
        What the picture shows, for those who do not see it.
    """
    out = io.BytesIO()
    figure = ax.get_figure(root=True)
    assert figure is not None
    with warnings.catch_warnings():
        # the browser has the letters that matplotlib's own font has not
        warnings.filterwarnings("ignore", message=r"Glyph .* missing", category=UserWarning)
        empty = dict.fromkeys(["Creator", "Date", "Format", "Type"])
        figure.savefig(out, format="svg", metadata=empty, transparent=True)
    root = _clean(ElementTree.fromstring(out.getvalue()), name)
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    width, height = (float(part) for part in root.attrib["viewBox"].split()[2:])
    root.attrib.update({"role": "img", "aria-label": title, "style": f"max-width: {width:.0f}pt"})
    root.attrib["viewBox"] = f"0 0 {width:g} {height:g}"
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _clean(element: ElementTree.Element, name: str) -> ElementTree.Element:
    """Return a copy with known elements only, names without namespace, ids with a prefix."""
    copy = ElementTree.Element(_bare(element.tag))
    copy.text, copy.tail = element.text, element.tail
    for key, value in element.attrib.items():
        if key != "id" or copy.tag != "g":  # nothing refers to a layer
            copy.set(_bare(key), _attribute(_bare(key), value, name))
    copy.extend(_clean(child, name) for child in element if _bare(child.tag) in _KEPT)
    return copy


def _attribute(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == "href":
        return f"#{name}-{value.removeprefix('#')}"
    if key in ("style", "fill", "stroke"):
        value = _COLOUR.sub(lambda found: _NAMED.get(found[0], found[0]), value)
    return _LOCAL.sub(rf"url(#{name}-\1)", value)


def _bare(tag: str) -> str:
    return tag.rpartition("}")[2]
