"""``unbin check``: whether a fit can start, and what is in the way."""

import pytest

from tests.helpers.cli import run
from unbin.exceptions import ReadError
from unbin.people.reading import read_people


def test_check_says_that_a_fit_can_start(small):
    result = run("check", small / "people.csv", small / "release.csv", "--block", "county")
    assert result.stdout == (
        "Release: 2 blocks, 7 people\n"
        "  histogram: 2 blocks, 2 bins, open below and above\n"
        "  read as: tidy histogram, block 'block'\n"
        "\n"
        "2 blocks joined, 7 rows of X\n"
        "bins are open below and above\n"
        "2 blocks of fewer than 11 people: '05001', '05003'\n"
        "ready to fit\n"
    )
    assert (result.exit_code, result.stderr) == (0, "")


def test_check_says_what_is_in_the_way(small):
    (small / "people.csv").write_text("county\n5001\n05003\n05003\n")
    result = run("check", small / "people.csv", small / "release.csv", "--block", "county")
    assert result.stdout.splitlines()[4:] == [
        "1 block joined, 3 rows of X",
        "leading zeros were lost in 1 block id: X has '5001', the release '05001'; "
        "read ids as text",
        "1 block of X without a release: '5001'",
        "1 block released but not in X: '05001'",
        "1 block with other totals than X",
        "block '05003': the release counts 3 people, X has 2 rows",
        "bins are open below and above",
        "2 blocks of fewer than 11 people: '05003', '5001'",
        "not ready to fit",
    ]
    assert result.exit_code == 1


def test_people_from_a_query(small):
    pytest.importorskip("duckdb")
    table = f"read_csv('{small / 'people.csv'}', types={{'county': 'VARCHAR'}})"
    result = run("check", f"duckdb:SELECT * FROM {table}", small / "release.csv", "--block",
                 "county")  # fmt: skip
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "ready to fit")
    people = read_people("duckdb:SELECT NULL AS a, 2 AS b, 'x' AS c", text=[], columns=["b", "c"])
    assert (people.columns["b"].tolist(), people.columns["c"].tolist()) == ([2], ["x"])
    with pytest.raises(ReadError, match="duckdb: the query cannot be run, got"):
        read_people("duckdb:SELEKT", text=[], columns=["a"])
    with pytest.raises(ReadError, match="duckdb: must hold people, got none; check the table"):
        read_people("duckdb:SELECT 1 AS a WHERE false", text=[], columns=["a"])
