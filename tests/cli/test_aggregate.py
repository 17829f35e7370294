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


def test_aggregate_writes_a_file_for_each_table(small):
    (small / "people.csv").write_text("county,sex,y\n01,f,1\n01,m,2\n03,f,3\n03,m,4\n")
    args = ("aggregate", small / "people.csv", "--target", "y", "--bins", 2)
    blocks = ("--block", "county", "--block", "county,sex")
    result = run(*args, *blocks, "--output", small / "tables")
    folder = small / "tables"
    assert result.stdout == (
        "county\n"
        "Release: 2 blocks, 4 people\n"
        "  histogram: 2 blocks, 2 bins, open below and above\n"
        "county,sex\n"
        "Release: 4 blocks, 4 people\n"
        "  histogram: 4 blocks, 2 bins, open below and above\n"
        f"written: {folder / 'county.csv'}, {folder / 'county-sex.csv'}\n"
    )
    assert sorted(path.name for path in folder.iterdir()) == ["county-sex.csv", "county.csv"]
    assert (folder / "county.csv").read_text() == (
        "block,lower,upper,count\n01,,2,2\n01,2,,0\n03,,2,0\n03,2,,2\n"
    )
    crossed = unbin.read_release(folder / "county-sex.csv")
    assert crossed.blocks.tolist() == ["01 | f", "01 | m", "03 | f", "03 | m"]
    assert result.exit_code == 0


def test_aggregate_prints_a_crossed_table(small):
    (small / "people.csv").write_text("county,sex,y\n01,f,1\n01,m,2\n")
    args = ("aggregate", small / "people.csv", "--target", "y", "--bins", 1)
    assert run(*args, "--block", "county,sex").stdout == (
        "block,lower,upper,count\n01 | f,,,1\n01 | m,,,1\n"
    )


def test_several_tables_need_a_folder_and_names_of_their_own(small):
    args = ("aggregate", small / "people.csv", "--target", "y")
    result = run(*args, "--block", "county", "--block", "x")
    assert result.stderr == (
        "Error: --output: 2 tables need a folder to be written to, got none; add it\n"
    )
    assert result.exit_code == 2
    result = run(*args, "--block", "county", "--block", "county", "--output", small / "tables")
    assert result.stderr == (
        "Error: --block: every table must have a name of its own, got county and county; give "
        "each once, or write them one by one\n"
    )
    assert not (small / "tables").exists()


def test_block_ids_that_a_spreadsheet_would_run_are_escaped(tmp_path):
    (tmp_path / "p.csv").write_text("b,y\n=1+1,1\n-5,2\n@x,3\n")
    result = run("aggregate", tmp_path / "p.csv", "--target", "y", "--block", "b", "--bins", 1)
    assert result.stdout == "block,lower,upper,count\n-5,,,1\n'=1+1,,,1\n'@x,,,1\n"
    assert result.stderr == (
        "Warning: 2 block ids look like spreadsheet formulas and were written with an apostrophe "
        "in front, for example '=1+1'\n"
    )


def test_aggregate_counts_categories(small):
    (small / "people.csv").write_text("county,party,y\n01,dem,1\n01,rep,2\n03,dem,2\n")
    args = ("aggregate", small / "people.csv", "--block", "county")
    result = run(*args, "--target", "party")
    assert result.stdout == "block,category,count\n01,dem,1\n01,rep,1\n03,dem,1\n03,rep,0\n"
    goal = small / "made.csv"
    run(*args, "--target", "y", "--bins", "categories", "--output", goal)
    assert goal.read_text() == (
        "block,category,count,category_code\n01,1,1,0\n01,2,1,1\n03,1,0,0\n03,2,1,1\n"
    )
    assert unbin.read_release(goal).categories == ("1", "2")
