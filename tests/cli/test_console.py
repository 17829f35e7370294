"""Every command: errors on one line, help, and nothing done before its folder is tried."""

import os
import subprocess
import sys
from importlib import import_module

import pytest

import unbin
from tests.helpers.cli import run
from tests.helpers.processes import run_python
from unbin import cli

COMMANDS = ("check", "fit", "predict", "aggregate", "audit", "demo")


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["check", "P", "R"], 2, "--block: must name the column of blocks, got none; add it"),
        (["check", "none.csv", "R", "--block", "county"], 1,
         "none.csv: must be a file, got no such file; check the path"),
        (["check", "P", "none.csv", "--block", "county"], 1,
         "none.csv: must be a file, got no such file; check the path"),
        (["check", "P", "R", "--block", "town"], 1,
         "people.csv: must have the column 'town', got 'county', 'y', 'x'; check its name"),
        (["fit", "P", "R", "--block", "county", "--formula", "x", "--alpha", "much"], 2,
         "--alpha: must be a number, auto, needed or held-out, got 'much'; write for example 0.01"),
        (["fit", "P", "R", "--block", "county", "--formula", "x", "--contextual", "on"], 2,
         "--contextual: unknown, got 'on'; use one of 'no', 'yes', 'auto'"),
        (["fit", "P", "R", "--block", "county", "--formula", "x", "--level", "2"], 2,
         "--level: must lie between 0 and 1, got 2.0; pass for example 0.95"),
        (["fit", "P", "R", "--block", "county", "--formula", "z"], 1,
         "people.csv: must have the column 'z', got 'county', 'y', 'x'; check its name"),
        (["fit", "P", "R", "--formula", "x"], 1,
         "blocks: the release has 2 blocks, got no block ids; pass the block of each row of X"),
        (["aggregate", "P", "--target", "y", "--bins", "many"], 2,
         "--bins: must be a number of bins or edges between commas, got 'many'; write for example "
         "10, or -inf,0,10,inf"),
        (["aggregate", "P", "--target", "y", "--output", "none/r.csv"], 1, "cannot be written"),
    ],
)  # fmt: skip
def test_errors_are_one_line(small, args, code, message, monkeypatch):
    monkeypatch.chdir(small)
    names = {"P": "people.csv", "R": "release.csv"}
    args = [names.get(arg, arg) for arg in args]
    result = run(*args)
    assert result.exit_code == code
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("Error: ")
    assert message in result.stderr
    debug = run(*args, "--debug")
    assert isinstance(debug.exception, Exception)
    assert not isinstance(debug.exception, SystemExit)


def test_an_unexpected_error_is_one_line_too(small, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("boom")

    monkeypatch.setattr("unbin.people.reading.read_people", fail)
    result = run("check", small / "people.csv", small / "release.csv", "--block", "county")
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: unexpected RuntimeError: boom; run again with --debug and report what it shows\n",
    )


def test_a_folder_is_tried_before_the_work(small, monkeypatch):
    def fail(*args, **kwargs):
        raise AssertionError("the work has begun")

    (small / "file").write_text("")
    monkeypatch.setattr("unbin.people.reading.read_people", fail)
    monkeypatch.setattr(import_module("unbin.cli.demo"), "simulate", fail)
    for command in (
        ("fit", small / "people.csv", small / "release.csv", "--block", "county", "--formula", "x"),
        ("audit", small / "people.csv", "--target", "y"),
        ("demo",),
    ):
        for place in ("file", "file/deeper"):
            result = run(*command, "--output", small / place)
            assert result.exit_code == 1
            start = f"Error: {small / place}: must be a folder to write to, got Not a directory"
            assert result.stderr.startswith(start)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"Example: unbin {command}" in result.output


def test_a_wrong_option_is_refused():
    assert run("demo", "--speed", "1").exit_code == 2
    assert run("fit").exit_code == 2
    assert run("paint").exit_code == 2


def test_help_imports_no_numerics():
    code = (
        "import sys; from typer.testing import CliRunner; from unbin.cli import app; "
        "result = CliRunner().invoke(app, ['--help']); assert 'aggregate' in result.output; "
        "result = CliRunner().invoke(app, ['fit', '--help']); assert 'alpha' in result.output; "
        "heavy = ('numpy', 'numba', 'sklearn', 'scipy', 'pandas', 'polars', 'formulaic'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    assert run_python(code) == "[]"


def test_the_version_is_told():
    assert "unbin --version prints the version" in run("--help").stdout
    done = subprocess.run(
        [sys.executable, "-m", "unbin", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"unbin {unbin.__version__}\n"


def test_the_shell_can_complete_commands():
    done = subprocess.run(
        [sys.executable, "-m", "unbin", "--show-completion", "bash"],
        env=os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "_UNBIN_COMPLETE" in done.stdout


@pytest.mark.parametrize("command", ["fit", "read"])
def test_help_is_that_of_typer(command, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["unbin", command, "--help"])
    cli.main()
    shown, typers = capsys.readouterr().out, run(command, "--help").stdout.replace("root", "unbin")
    assert "".join(shown.split()) == "".join(typers.split())  # but for the width of lines


def test_help_of_no_command_is_an_error(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["unbin", "fitt", "--help"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "No such command" in capsys.readouterr().err
