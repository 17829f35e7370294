"""Pages of documentation: their examples, and their links."""

import io
import itertools
import re
import shlex
from contextlib import redirect_stdout
from dataclasses import dataclass
from html import unescape

from tests.helpers.cli import run
from tests.helpers.paths import ROOT

DOCS = ROOT / "docs"
_FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<kind>\S*)[^\n]*\n(?P<body>.*?)^ *(?P=fence) *$",
    re.M | re.S,
)
_NOT_RUN = re.compile(r"<!-- not run: .+? -->\s*\Z", re.S)
_SHOWN = re.compile(r"^\$ unbin ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.M)
_NAMED = re.compile(r"^unbin ((?:.*\\\n)*.*)", re.M)
_LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)")
_INCLUDE = re.compile(r"^```\{include\} (\S+)$", re.M)


@dataclass(frozen=True)
class Example:
    """A fenced block that is run, and the output shown right below it, if there is one."""

    kind: str
    code: str
    expected: str | None
    line: int


def pages():
    """Return the README and every page of the site, but for those that are generated."""
    generated = {DOCS / "_build", DOCS / "api" / "generated", DOCS / "auto_gallery"}
    found = (path for path in sorted(DOCS.rglob("*.md")) if not generated & set(path.parents))
    return [ROOT / "README.md", *found]


def read_examples(text, kinds=("python", "console", "sh")):
    """Return the examples of a page in their order.

    A line ``<!-- not run: why -->`` above a block leaves it out.
    """
    fences = list(_FENCE.finditer(text))
    examples = []
    for fence, after in itertools.zip_longest(fences, fences[1:]):
        if fence["kind"] not in kinds:
            continue
        if _NOT_RUN.search(text[: fence.start()]):
            continue
        shown = after and after["kind"] == "text" and not text[fence.end() : after.start()].strip()
        examples.append(
            Example(
                fence["kind"],
                _unindent(fence),
                _unindent(after) if shown else None,
                text.count("\n", 0, fence.start()) + 2,
            )
        )
    return examples


def _unindent(fence):
    return re.sub(rf"^{fence['indent']}", "", fence["body"], flags=re.M)


def run_example(example, names, page):
    """Run an example in a namespace, and compare what it prints with what is shown.

    Commands in ``console`` blocks are run; of those in ``sh`` blocks it is seen that they have
    these options.
    """
    if example.kind == "python":
        out = io.StringIO()
        code = "\n" * (example.line - 1) + example.code  # so that an error tells the line
        with redirect_stdout(out):
            exec(compile(code, str(page), "exec"), names)
        if example.expected is not None:
            assert out.getvalue() == example.expected
    elif example.kind == "console":
        for command, shown in _SHOWN.findall(example.code):
            result = run(*_words(command))
            printed = result.stdout or result.stderr
            assert printed == shown if shown.strip() else result.exit_code == 0, printed
    else:
        for command in _NAMED.findall(example.code):
            result = run(*_words(command), "--help")
            assert result.exit_code == 0, result.stderr


def _words(command):
    return shlex.split(command.replace("\\\n", " "), comments=True)


def read_links(text):
    """Return the targets of the Markdown links of a page, code left out."""
    inline = re.sub(r"`[^`\n]*`", "", prose(text))
    return [target for target in _LINK.findall(inline) if not re.match(r"[a-z]+:", target)]


def prose(text):
    """Return a page without its fenced blocks."""
    return _FENCE.sub("", text)


def read_anchors(path):
    """Return what a link may point to within a page, as GitHub and the site name its headings."""
    text = included(path)
    headings = re.findall(r"^#{1,6} (.+?)\s*$", _FENCE.sub("", text), re.M)
    return {slug(heading) for heading in headings} | set(re.findall(r"^\((\S+)\)=$", text, re.M))


def included(path):
    """Return the text of a page with the files that it includes."""
    text = path.read_text(encoding="utf-8")
    return _INCLUDE.sub("", text) + "".join(
        (path.parent / name).read_text(encoding="utf-8") for name in _INCLUDE.findall(text)
    )


def slug(heading):
    """Return the anchor of a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", unescape(heading)).replace("`", "")
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def read_contents(text):
    """Return the pages that the tables of contents of a page list."""
    return [
        line.strip()
        for fence in _FENCE.finditer(text)
        if fence["kind"] == "{toctree}"
        for line in fence["body"].splitlines()
        if line.strip() and not line.startswith(":")
    ]
