"""The command as a user calls it."""

import subprocess
import sys

from typer.testing import CliRunner

from unbin.cli import app


def run(*args):
    return CliRunner().invoke(app, list(args))


def test_demo_prints_estimates_beside_the_truth():
    result = run("demo", "--seed", "1")
    assert result.exit_code == 0
    for wanted in ("truth", "oracle", "likelihood ± standard error", "matching", "age", "-0.500"):
        assert wanted in result.output
    assert "identified: 150 blocks" in result.output
    assert run("demo", "--seed", "1").output == result.output


def test_help_has_an_example():
    result = run("demo", "--help")
    assert result.exit_code == 0
    assert "Example: unbin demo --seed 3" in result.output


def test_a_wrong_option_is_refused():
    assert run("demo", "--speed", "1").exit_code == 2


def test_help_imports_no_numerics():
    code = (
        "import sys; from typer.testing import CliRunner; from unbin.cli import app; "
        "CliRunner().invoke(app, ['--help']); "
        "print([name for name in ('numba', 'sklearn', 'scipy') if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
