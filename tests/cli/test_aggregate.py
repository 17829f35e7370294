"""``unbin aggregate``: a tidy release, printed or written."""

import unbin
from tests.helpers.cli import run


def test_aggregate_prints_a_tidy_release(small):
    result = run(
        "aggregate", small / "people.csv", "--target", "y", "--block", "county", "--bins", 2
    )
    assert result.stdout == (
        "block,lower,upper,count\n05001,,3,3\n05001,3,,1\n05003,,3,1\n05003,3,,2\n"
    )
    assert result.exit_code == 0


def test_aggregate_takes_edges_and_everybody(small):
    result = run("aggregate", small / "people.csv", "--target", "y", "--bins", "0,2.5,inf")
    assert result.stdout == "block,lower,upper,count\nall,0,2.5,3\nall,2.5,,4\n"


def test_aggregate_writes_a_file(small):
    goal = small / "made.csv"
    result = run(
        "aggregate", small / "people.csv", "--target", "y", "--block", "county", "--bins", 2,
        "--output", goal,
    )  # fmt: skip
    assert result.stdout == (
        "Release: 2 blocks, 7 people\n"
        "  histogram: 2 blocks, 2 bins, open below and above\n"
        f"written: {goal}\n"
    )
    assert unbin.read_release(goal).n.tolist() == [4, 3]


def test_block_ids_that_a_spreadsheet_would_run_are_escaped(tmp_path):
    (tmp_path / "p.csv").write_text("b,y\n=1+1,1\n-5,2\n@x,3\n")
    result = run("aggregate", tmp_path / "p.csv", "--target", "y", "--block", "b", "--bins", 1)
    assert result.stdout == "block,lower,upper,count\n-5,,,1\n'=1+1,,,1\n'@x,,,1\n"
    assert result.stderr == (
        "Warning: 2 block ids look like spreadsheet formulas and were written with an apostrophe "
        "in front, for example '=1+1'\n"
    )
