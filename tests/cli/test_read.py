"""``unbin read``: how a table is understood, its plain form, and options ready to paste."""

import zipfile

import pytest

from tests.helpers.cli import run
from tests.helpers.paths import FIXTURES
from tests.helpers.releases import assert_equal
from unbin import read_release
from unbin.cli.reading import Reading, advice
from unbin.exceptions import ParameterError, ReadError

ODD = """Households by expenditure

Commune code,Year,Household expenditure,Households
0101,2015,0 to 9,4
0101,2015,10 or more,6
0101,2016,0 to 9,5
0101,2016,10 or more,7
0102,2015,0 to 9,1
0102,2015,10 or more,2
0102,2016,0 to 9,3
0102,2016,10 or more,4
"""
NAMED = (
    "--label", "Household expenditure", "--count", "Households", "--dialect", "tidy", "--skip", 2,
    "--block", "Commune code",
)  # fmt: skip


@pytest.fixture
def odd(tmp_path):
    path = tmp_path / "communes.csv"
    path.write_text(ODD)
    return path


def test_a_table_is_described():
    result = run("read", FIXTURES / "tidy_histogram.csv")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "Release: 2 blocks, 90 people\n"
        "  histogram: 2 blocks, 2 to 3 bins, open below and above\n"
        "  read as: tidy histogram, block 'block', all 5 rows\n"
    )


def test_options_are_those_of_read_release(odd, tmp_path):
    out = tmp_path / "tidy.csv"
    result = run("read", odd, *NAMED, "--where", "Year=2016", "--output", out)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "Release: 2 blocks, 19 people"
    assert "  note: 4 rows left out: 'Year' is not '2016'" in lines
    assert lines[-1] == f"written: {out}"
    assert out.read_text() == (
        "block,lower,upper,count,closed\n0101,0,10,5,left\n0101,10,,7,left\n0102,0,10,3,left\n"
        "0102,10,,4,left\n"
    )
    both = run("read", odd, *NAMED, "--where", "Year=2016", "--where", "Year=2015")
    assert both.exit_code == 1
    assert "one value must be chosen, got .2015., .2016." in both.stderr.replace("'", ".")


def test_what_is_offered_can_be_pasted(odd):
    result = run("read", odd, *NAMED)
    assert (result.exit_code, result.stdout) == (1, "")
    error, offer = result.stderr.splitlines()
    assert error.startswith("Error: communes.csv, column 'Year': one value must be chosen, got")
    assert not error.endswith("say")
    assert offer == "Try: --where Year=2015"
    assert run("read", odd, *NAMED, *offer.split()[1:]).exit_code == 0


def test_offers_are_quoted_for_a_shell():
    offers = {
        "block": ["Commune code", "sex"], "label": "it's", "moe": True,
        "where": {"Year": 2016, "Age group": ["0 to 4", "5+"]},
    }  # fmt: skip
    error = ReadError("t.csv: must be chosen, got two; say", offers)
    assert str(error) == (
        "t.csv: must be chosen, got two; say block=['Commune code', 'sex'], label=\"it's\", "
        "moe=True, where={'Year': 2016, 'Age group': ['0 to 4', '5+']}"
    )
    assert advice(error) == (
        "t.csv: must be chosen, got two\nTry: --release-block 'Commune code,sex' --label "
        "'it'\"'\"'s' --moe --where Year=2016 --where 'Age group=0 to 4' --where 'Age group=5+'"
    )
    assert advice(ReadError("t.csv: empty; say no more")) == "t.csv: empty; say no more"


@pytest.mark.parametrize(
    "name",
    ["acs_b19001.csv", "wonder_ages.txt", "cms_counties.csv", "nhs_contacts.csv",
     "tidy_quantiles.tsv", "tidy_means.csv", "tidy_suppressed.csv", "tidy_categories.csv",
     "elections_medsl.csv"],
)  # fmt: skip
def test_the_plain_table_says_the_same(name, tmp_path):
    out = tmp_path / "tidy.csv"
    result = run("read", FIXTURES / name, "--output", out)
    assert result.exit_code == 0, result.output
    assert_equal(read_release(out), read_release(FIXTURES / name))


def test_categories_of_an_office(tmp_path):
    votes = FIXTURES / "elections_precincts.csv"
    refused = run("read", votes)
    assert refused.stderr.splitlines()[-1] == "Try: --where office=President"
    offices = ("--where", "office=President", "--where", "office=Registered Voters")
    result = run("read", votes, *offices, "--category", "candidate", "--rest", "none")
    assert result.exit_code == 0, result.output
    assert "6 blocks, 5 categories: Ada Quill, Bo Marsh, Cy Root, Write-ins, none" in result.stdout
    out = tmp_path / "tidy.csv"
    house = ("--where", "office=U.S. House")
    assert run("read", votes, *house, "--output", out).exit_code == 0
    assert_equal(read_release(out), read_release(votes, where={"office": "U.S. House"}))
    everywhere = run("read", votes, *house, "--absent", "zero")
    assert "fewer in" not in everywhere.stdout


def test_fit_reads_the_plain_table(small):
    out = small / "tidy.csv"
    assert run("read", small / "release.csv", "--output", out).exit_code == 0
    for table in ("release.csv", "tidy.csv"):
        assert run("check", small / "people.csv", small / table, "--block", "county").exit_code == 0


def test_a_download_is_listed(tmp_path):
    path = tmp_path / "download.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("tidy_histogram.csv", "tidy_means.csv"):
            archive.write(FIXTURES / name, name)
    result = run("read", path)
    assert result.exit_code == 0, result.output
    heads = [part.splitlines()[0] for part in result.stdout.split("\n\n")]
    assert heads == [
        "2 tables; choose one with --sheet to write or draw it", "tidy_histogram", "tidy_means",
    ]  # fmt: skip
    refused = run("read", path, "--output", tmp_path / "t.csv")
    assert refused.exit_code == 1
    assert refused.stderr.splitlines()[-1] == "Try: --sheet tidy_histogram.csv"
    one = run("read", path, "--sheet", "tidy_means.csv")
    assert "means: 2 blocks" in one.stdout


@pytest.mark.parametrize(("name", "start"), [("p.svg", b"<?xml"), ("p.PNG", b"\x89PNG")])
def test_a_picture_is_written(tmp_path, name, start):
    result = run("read", FIXTURES / "wonder_ages.txt", "--plot", tmp_path / name)
    assert result.exit_code == 0, result.output
    assert (tmp_path / name).read_bytes().startswith(start)
    refused = run("read", FIXTURES / "wonder_ages.txt", "--plot", tmp_path / "p.gif")
    assert refused.stderr == "Error: --plot: must end in .svg, .png, .pdf, got 'p.gif'; rename it\n"
    assert refused.exit_code == 2


def test_ids_that_look_like_formulas(tmp_path):
    (tmp_path / "t.csv").write_text("block,mean\n-x,1\nb,2\n")
    result = run("read", tmp_path / "t.csv", "--output", tmp_path / "tidy.csv")
    assert "1 block ids look like spreadsheet formulas" in result.stderr
    assert (tmp_path / "tidy.csv").read_text() == "block,mean\n'-x,1\nb,2\n"


# -- the same options of other commands ------------------------------------------------------------


def test_fit_says_what_was_left_out(small):
    (small / "odd.csv").write_text(
        "area,sex,band,people\n05001,T,to 3,3\n05001,T,4+,1\n05001,F,to 3,1\n05001,F,4+,1\n"
        "05003,T,to 3,1\n05003,T,4+,2\n05003,F,to 3,1\n05003,F,4+,1\n"
    )
    text = (small / "odd.csv").read_text().replace("to 3", "0 to 3")
    (small / "odd.csv").write_text(text)
    named = ["--release-block", "area", "--label", "band", "--count", "people", "--block", "county"]
    files = [small / "people.csv", small / "odd.csv"]
    refused = run("check", *files, *named, "--dialect", "tidy")
    assert refused.stderr.splitlines()[-1] == "Try: --where sex=T"
    chosen = run("check", *files, *named, "--dialect", "tidy", "--where", "sex=T")
    assert chosen.exit_code == 0, chosen.output
    fitted = run(
        "fit", *files, *named, "--dialect", "tidy", "--where", "sex=T", "--formula", "x",
        "--family", "poisson",
    )  # fmt: skip
    assert f"{files[1]}: 4 rows left out: 'sex' is not 'T'" in fitted.stderr.splitlines()


def test_options_of_several_tables():
    said = Reading(
        where=["Year=2016&Sex=A & B", ""], label=["band", ""], rounding=["none"], skip=[1, 2],
        release_block=["county", "age,sex"],
    )  # fmt: skip
    first, second = said.settings(2)
    assert first == {
        "where": {"Year": "2016", "Sex": "A & B"}, "label": "band", "rounding": "none", "skip": 1,
        "block": "county",
    }  # fmt: skip
    assert second == {"rounding": "none", "skip": 2, "block": ["age", "sex"]}
    (one,) = Reading(where=["Year=2015", "Year=2016", "Sex=A&B=C"]).settings(1)
    assert one == {"where": {"Year": ["2015", "2016"], "Sex": "A&B=C"}}
    with pytest.raises(ParameterError, match=r"--skip: must be given once, or once for each of"):
        Reading(skip=[1, 2]).settings(3)
    with pytest.raises(ParameterError, match="--where: must name a column and the value to keep"):
        Reading(where=["Year"]).settings(1)


def test_help_is_quick_and_names_the_options():
    result = run("read", "--help")
    for option in ("--block", "--release-block", "--where", "--totals", "--sheet", "--encoding"):
        assert option in result.stdout
    assert "--where" in run("fit", "--help").stdout
