"""Pages of HTML, read."""

import re
from html.parser import HTMLParser

VOID = {"meta", "link", "path", "use", "rect"}


class Page(HTMLParser):
    """The elements and the text of a page, which must be well nested."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.ids, self.text, self.open = set(), [], [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def text_of(html):
    return " ".join(" ".join(Page(html).text).split())


def table(html, name):
    """Return the cells of the table in a box of a name."""
    part = html[html.index(f'aria-label="{name}"') :]
    rows = re.findall(r"<tr.*?</tr>", part[: part.index("</table>")], re.S)
    return [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row, re.S) for row in rows]


def value_of(cell):
    """Return a number as a page writes it, and half a unit of its last digit."""
    text = cell.replace("\N{MINUS SIGN}", "-").replace(",", "")
    decimals = len(text.partition(".")[2])
    return float(text), 0.5 * 10.0**-decimals


def shows(cell, value):
    """Tell whether a cell is a number rounded to the decimals it has."""
    shown, reach = value_of(cell)
    return abs(shown - value) <= reach * (1 + 1e-6) + 1e-12 * abs(value)


def columns(html, name):
    """Return the cells of the table in a box of a name, by the head of their column."""
    head, *rows = table(html, name)
    return {label: [row[k] for row in rows] for k, label in enumerate(head)}
