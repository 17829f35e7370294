"""Tests lie in the rooms of what they test, and share helpers, not each other."""

import ast
from pathlib import Path

import unbin
from tests.helpers.paths import ROOT, TESTS

MODULES = {path.stem for path in TESTS.rglob("test_*.py")}


def imported(path):
    """Return every name in the import statements of a file, dotted ones taken apart."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names |= set((node.module or "").split("."))
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {part for alias in node.names for part in alias.name.split(".")}
    return names


def test_no_test_module_is_imported():
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for folder in ("tests", "benchmarks", "experiments")
        for path in (ROOT / folder).rglob("*.py")
        for name in imported(path) & MODULES
    }
    assert wrong == set()


def test_every_room_has_a_folder_of_tests():
    rooms = {path.parent.name for path in Path(unbin.__file__).parent.glob("*/__init__.py")}
    folders = {path.parent.name for path in TESTS.glob("*/test_*.py")}
    folders |= {path.parent.parent.name for path in TESTS.glob("*/*/test_*.py")}
    assert folders - {"docs"} == rooms
