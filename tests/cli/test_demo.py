"""``unbin demo``: estimates beside the truth."""

from tests.helpers.cli import run


def test_demo_prints_estimates_beside_the_truth(tmp_path):
    result = run("demo", "--seed", "1", "--output", tmp_path)
    assert result.exit_code == 0
    for wanted in ("truth", "oracle", "likelihood ± standard error", "matching", "age", "-0.500"):
        assert wanted in result.output
    assert "identified: 150 blocks" in result.output
    assert run("demo", "--seed", "1", "--output", tmp_path).output == result.output
    assert result.stdout.splitlines()[-1] == f"Report: {tmp_path / 'report.html'}"
    assert (tmp_path / "report.html").exists()
