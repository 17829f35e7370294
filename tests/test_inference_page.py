"""The examples of docs/inference.md print what it says they print."""

import io
import re
from contextlib import redirect_stdout

from tests.helpers.paths import ROOT

PAGE = ROOT / "docs" / "inference.md"


def run_page():
    """Return each example of the page, what it prints, and what the page says it prints."""
    pairs = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    names = {}
    for code, expected in pairs:
        out = io.StringIO()
        with redirect_stdout(out):
            exec(compile(code, PAGE.name, "exec"), names)
        yield code, out.getvalue(), expected


def test_examples_print_what_the_page_says():
    found = list(run_page())
    assert len(found) == 4
    for _, printed, expected in found:
        assert printed == expected
