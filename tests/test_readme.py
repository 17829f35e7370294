"""The README's examples print what it says they print."""

import io
import re
import shlex
from contextlib import redirect_stdout

from tests.helpers.cli import run, write_release
from tests.helpers.paths import ROOT
from tests.helpers.people import simulate_patients

README = ROOT / "README.md"


def test_examples_print_what_the_readme_says(tmp_path, monkeypatch):
    (tmp_path / "tests").symlink_to(ROOT / "tests")  # read from here, write to there
    monkeypatch.chdir(tmp_path)
    text = README.read_text(encoding="utf-8")
    pairs = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", text, re.S)
    assert len(pairs) >= 2
    names = {}
    for code, expected in pairs:
        out = io.StringIO()
        with redirect_stdout(out):
            exec(compile(code, "README.md", "exec"), names)
        assert out.getvalue() == expected
    assert {"coefficients.svg", "report.html"} <= {path.name for path in tmp_path.iterdir()}


def test_commands_print_what_the_readme_says(tmp_path, monkeypatch):
    people = simulate_patients().round(3)
    people.to_csv(tmp_path / "people.csv", index=False)
    write_release(people, tmp_path / "release.csv")
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```console\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    commands = re.findall(r"^\$ unbin (.*)\n((?:(?!\$ ).*\n)*)", block, re.M)
    assert len(commands) == block.count("$ unbin ") >= 2
    for command, expected in commands:
        assert run(*shlex.split(command)).stdout == expected
