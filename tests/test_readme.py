"""The README's examples print what it says they print."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_examples_print_what_the_readme_says(monkeypatch):
    monkeypatch.chdir(README.parent)
    text = README.read_text(encoding="utf-8")
    pairs = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", text, re.S)
    assert len(pairs) >= 2
    names = {}
    for code, expected in pairs:
        out = io.StringIO()
        with redirect_stdout(out):
            exec(compile(code, "README.md", "exec"), names)
        assert out.getvalue() == expected
