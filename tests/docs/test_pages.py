"""Every page of the documentation prints what it says it prints, and links to what is there."""

import re
import sys

import pytest

import unbin
from tests.helpers import documents
from tests.helpers.documents import DOCS, pages, read_anchors, read_examples, read_links
from tests.helpers.given import GIVEN
from tests.helpers.paths import ROOT

PAGES = {path.relative_to(ROOT).as_posix(): path for path in pages()}
EXAMPLES = {name: read_examples(path.read_text(encoding="utf-8")) for name, path in PAGES.items()}
LINKED = [*PAGES.values(), *(ROOT / f for f in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"))]
LINKED += [ROOT / "experiments" / "README.md"]


@pytest.mark.parametrize("name", [name for name, examples in EXAMPLES.items() if examples])
def test_examples_print_what_is_shown(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = GIVEN[name](tmp_path) if name in GIVEN else {}
    for example in EXAMPLES[name]:
        documents.run_example(example, names, PAGES[name])
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def test_the_readme_is_short():
    text = PAGES["README.md"].read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150, "move what is not needed at first sight to docs/"


def test_what_is_given_is_given_to_a_page():
    assert GIVEN.keys() <= EXAMPLES.keys()


def leads_somewhere(target, path):
    """Return whether a page has what a link of another one points to."""
    place, _, anchor = target.partition("#")
    page = path.parent / place if place else path
    if anchor and page.suffix == ".md" and page.exists():
        return anchor in read_anchors(page)
    return page.exists()


@pytest.mark.parametrize("path", LINKED, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path):
    targets = read_links(path.read_text(encoding="utf-8"))
    wrong = [target for target in targets if not leads_somewhere(target, path)]
    assert wrong == []


@pytest.mark.parametrize("name", PAGES)
def test_no_line_begins_with_a_percent_sign(name):
    """It would be a comment, and not shown."""
    lines = documents.prose(PAGES[name].read_text(encoding="utf-8")).splitlines()
    assert [line for line in lines if line.lstrip().startswith("%")] == []


def test_every_page_is_in_a_table_of_contents():
    """Sphinx says so too, but not in a second."""
    listed = set()
    for path in PAGES.values():
        for entry in documents.read_contents(path.read_text(encoding="utf-8")):
            listed.add((path.parent / f"{entry}.md").resolve())
    pages_of_site = {path for path in PAGES.values() if DOCS in path.parents}
    assert pages_of_site - listed == {DOCS / "index.md"}


def test_a_citation_names_this_version():
    cff = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (\S+)$", cff, re.M)[1] == unbin.__version__
    cite = (DOCS / "cite.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\d+\.\d+\.\d+", cite)) == {unbin.__version__}


SAMPLE = """\
Text.

```python
x = 1
print(x)
```

```text
1
```

<!-- not run: needs a cluster -->
```python
raise SystemExit
```

1. A list.

   ```python
   print(x + 1)
   ```

```sh
unbin fit people.csv --no-such-option
```
"""


def test_examples_are_read_in_their_order():
    first, second, third = read_examples(SAMPLE)
    assert (first.code, first.expected, first.line) == ("x = 1\nprint(x)\n", "1\n", 4)
    assert (second.code, second.expected) == ("print(x + 1)\n", None)
    assert third.kind == "sh"


@pytest.mark.parametrize(
    "text",
    [
        SAMPLE.replace("\n1\n```", "\n2\n```"),
        "```python\n1 / 0\n```\n",
        "```sh\nunbin fit people.csv --no-such-option\n```\n",
        "```console\n$ unbin read nowhere.csv\n```\n",
        "```console\n$ unbin --version\nunbin 99\n```\n",
    ],
    ids=["output", "error", "option", "status", "printed"],
)
def test_a_wrong_example_is_told(text):
    example = read_examples(text)[0]
    with pytest.raises((AssertionError, ZeroDivisionError)):
        documents.run_example(example, {}, ROOT / "README.md")


@pytest.mark.parametrize(
    ("target", "leads"),
    [
        ("nowhere.md", False),
        ("glossary.md", True),
        ("#no-such-heading", False),
        ("methods/performance.md#the-first-minute", True),
        ("methods/experiments.md#several-tables-of-the-same-people", True),  # of what it includes
        ("methods/performance.md#the-last-minute", False),
    ],
)
def test_a_wrong_link_is_told(target, leads):
    assert leads_somewhere(target, DOCS / "index.md") == leads


def test_links_in_code_are_none():
    text = "[a](b.md#c), `[x](y.md)` and [d](https://e.org)\n\n```text\n[f](g)\n```\n"
    assert read_links(text) == ["b.md#c"]
    assert documents.slug("The `fit` of [a](b.md): 2 & 3") == "the-fit-of-a-2--3"
