"""A description of every page for search engines and previews: its first paragraph."""

from html import escape
from textwrap import shorten

from docutils import nodes


def describe(_app, _name, _template, context, doctree):
    """Add the first sentences of a page to its head."""
    first = doctree and next(doctree.findall(nodes.paragraph), None)
    if first:
        text = escape(shorten(first.astext(), 160, placeholder="…"))
        context["metatags"] += f'\n<meta name="description" content="{text}">'


def setup(app):
    """Register it."""
    app.connect("html-page-context", describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
