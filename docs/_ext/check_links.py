"""The built site once more: links lead somewhere, nothing is fetched, pictures have a text."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.util import logging


class Page(HTMLParser):
    """The ids of a page, what it links to, and what a browser would load with it."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.loaded, self.silent = {""}, set(), set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        """Note one tag."""
        given = dict(attrs)
        self.ids.add(given.get("id") or "")
        if target := given.get("href") or given.get("src"):
            (self.links if tag == "a" else self.loaded).add(target)
        if tag == "img" and "alt" not in given:
            self.silent.add(given.get("src"))


def find_faults(folder):
    """Yield what is wrong with the pages of a folder."""
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        for target in sorted(page.links | page.loaded):
            parts = urlsplit(target)
            if parts.netloc and target in page.loaded:
                yield path, f"is fetched from outside: {target}"
            if parts.scheme or parts.netloc:
                continue
            to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            ids = pages[to].ids if to in pages else {""}
            if not to.exists() or (to in pages and unquote(parts.fragment) not in ids):
                yield path, f"leads nowhere: {target}"
        for picture in sorted(page.silent):
            yield path, f"has no text in place of it: {picture}"
    for path in sorted(folder.rglob("*.css")):
        for address in re.findall(r"url\(['\"]?(?:https?:)?//[^)]*\)", path.read_text("utf-8")):
            yield path, f"is fetched from outside: {address}"


def check(app, exception):
    """Warn of each fault, which fails the build."""
    if exception is None and app.builder.name == "html":
        for path, fault in find_faults(Path(app.outdir).resolve()):
            logging.getLogger(__name__).warning("%s: %s", path.relative_to(app.outdir), fault)


def setup(app):
    """Register it."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
