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
        "  read as: tidy histogram, block 'block', all 4 rows\n"
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


# -- several tables --------------------------------------------------------------------------------


@pytest.fixture
def several(tmp_path):
    """Return a folder with eight people, and tables by county, by sex, and by age group and sex."""
    (tmp_path / "people.csv").write_text(
        "county,age,sex,y\n01,old,f,1\n01,old,m,2\n01,young,f,3\n01,young,m,4\n"
        "03,old,f,5\n03,old,m,1\n03,young,f,2\n03,young,m,6\n"
    )
    made = run(
        "aggregate", tmp_path / "people.csv", "--target", "y", "--block", "county",
        "--block", "sex", "--block", "age,sex", "--bins", "-inf,2,4,inf", "--output", tmp_path,
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    return tmp_path


def test_check_of_several_tables(several):
    result = run(
        "check", several / "people.csv", several / "county.csv", several / "age-sex.csv",
        "--block", "county", "--block", "age,sex",
    )  # fmt: skip
    assert result.stdout == (
        f"county ({several / 'county.csv'})\n"
        "Release: 2 blocks, 8 people\n"
        "  histogram: 2 blocks, 3 bins, open below and above\n"
        "  read as: tidy histogram, block 'block', all 6 rows\n"
        "\n"
        "2 blocks joined, 8 rows of X\n"
        "bins are open below and above\n"
        "2 blocks of fewer than 11 people: '01', '03'\n"
        "ready to fit\n"
        "\n"
        f"age,sex ({several / 'age-sex.csv'})\n"
        "Release: 4 blocks, 8 people\n"
        "  histogram: 4 blocks, 3 bins, open below and above\n"
        "  read as: tidy histogram, block 'block', all 12 rows\n"
        "\n"
        "4 blocks joined, 8 rows of X\n"
        "bins are open below and above\n"
        "4 blocks of fewer than 11 people: 'old | f', 'old | m', 'young | f', 'young | m'\n"
        "ready to fit\n"
        "\n"
        "the tables together\n"
        "county counts all 8 people\n"
        "age, sex counts all 8 people\n"
        "the tables agree\n"
    )
    assert (result.exit_code, result.stderr) == (0, "")


def test_check_names_tables_that_contradict_each_other(several):
    (several / "sex.csv").write_text(
        "block,lower,upper,count\nf,,2,3\nf,2,4,0\nf,4,,1\nm,,2,2\nm,2,4,1\nm,4,,1\n"
    )
    result = run(
        "check", several / "people.csv", several / "county.csv", several / "sex.csv",
        "--block", "county", "--block", "sex",
    )  # fmt: skip
    assert result.stdout.splitlines()[-6:] == [
        "the tables together",
        "county counts all 8 people",
        "sex counts all 8 people",
        "1 disagreement between the tables",
        "county counts 4 people up to 2, sex counts 5",
        "the tables contradict each other",
    ]
    assert result.exit_code == 1


def test_tables_are_compared_when_each_is_ready(several):
    (several / "sex.csv").write_text("block,lower,upper,count\nf,,2,2\nf,2,,2\n")
    result = run(
        "check", several / "people.csv", several / "county.csv", several / "sex.csv",
        "--block", "county", "--block", "sex",
    )  # fmt: skip
    assert result.stdout.splitlines()[-2:] == [
        "the tables together",
        "not compared, before each of them is ready to fit",
    ]
    assert result.exit_code == 1


def test_people_without_a_block_are_outside_that_table(several):
    text = (several / "people.csv").read_text().replace("01,old,f", "01,old,")
    (several / "people.csv").write_text(text)
    (several / "sex.csv").write_text("block,lower,upper,count\nf,,2,1\nf,2,,2\nm,,2,2\nm,2,,2\n")
    args = (
        "check", several / "people.csv", several / "county.csv", several / "sex.csv",
        "--block", "county", "--block", "sex",
    )  # fmt: skip
    assert run(*args).exit_code == 1
    result = run(*args, "--on-missing", "drop")
    lines = result.stdout.splitlines()
    assert "1 row of X without a block id: outside the table" in lines
    assert lines[-3:] == [
        "county counts all 8 people",
        "sex counts 7 of 8 people",
        "the tables agree",
    ]
    assert result.exit_code == 0


def test_crossed_columns_of_a_table_are_read(several):
    (several / "crossed.csv").write_text(
        "age,sex,lower,upper,count\nold,f,,2,1\nold,f,2,,1\nold,m,,2,2\nold,m,2,,0\n"
        "young,f,,2,1\nyoung,f,2,,1\nyoung,m,,2,0\nyoung,m,2,,2\n"
    )
    args = ("check", several / "people.csv", several / "crossed.csv", "--block", "age,sex")
    result = run(*args, "--release-block", "age,sex")
    assert result.stdout.splitlines()[2:4] == [
        "  read as: tidy histogram, block 'age, sex', all 8 rows",
        "",
    ]
    assert result.exit_code == 0
    assert run(*args, "--release-block", "age,gender").stderr == (
        "Error: crossed.csv: column 'gender' not found, got 'age', 'sex', 'lower', 'upper', "
        "'count'; say block=... with the columns to read\n"
    )
    both = run(
        "check", several / "people.csv", several / "county.csv", several / "crossed.csv",
        "--block", "county", "--block", "age,sex",
        "--release-block", "block", "--release-block", "age,sex",
    )  # fmt: skip
    assert both.exit_code == 0, both.output


def test_blocks_and_options_go_with_the_tables(several):
    args = ("check", several / "people.csv", several / "county.csv", several / "sex.csv")
    result = run(*args, "--block", "county")
    assert result.stderr == (
        "Error: --block: must be given once for each table, in their order, got 1 for 2 tables; "
        "write for example --block county --block age_group,sex\n"
    )
    assert result.exit_code == 2
    result = run(*args[:3])
    assert result.stderr == "Error: --block: must name the column of blocks, got none; add it\n"
    closed = ("--closed", "right", "--closed", "left", "--closed", "right")
    result = run(*args, "--block", "county", "--block", "sex", *closed)
    assert result.stderr == (
        "Error: --closed: must be given once, or once for each of the 2 tables, got 3; add or "
        "remove some\n"
    )
    result = run(*args, "--block", "county", "--block", "sex", *closed[:4])
    assert result.exit_code == 0, result.output
