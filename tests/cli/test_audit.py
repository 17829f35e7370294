"""``unbin audit`` as a steward calls it."""

import json

import pandas as pd
import pytest

from tests.helpers.cli import run
from tests.helpers.people import simulate_patients

QUICK = ("--family", "gaussian", "--attacks", "matching,likelihood", "--seed", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("audit")
    people = simulate_patients().round(3)
    people["name"] = [f"person {k}" for k in range(len(people))]
    people["region"] = people["county"].str[-1]
    people.to_csv(place / "people.csv", index=False)
    return place


def audit(folder, *args):
    return run("audit", folder / "people.csv", "--target", "cost", *args, *QUICK)


@pytest.fixture(scope="module")
def done(folder):
    return audit(
        folder, "--block", "region", "--block", "county", "--bins", "3,6", "--suppress", 11,
        "--alternatives", "--output", folder / "out", "--fail-above", 0.99,
    )  # fmt: skip


def test_a_table_is_printed_and_files_are_written(done, folder):
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "Disclosure audit: 8 tables, 400 of 2,000 people held out of the tables"
    assert lines[2].split() == ["table", "people", "best", "attack", "gain", "interval", "chance",
                                "p", "utility"]  # fmt: skip
    assert lines[-1] == f"written: {folder / 'out/audit.json'}, {folder / 'out/report.html'}"
    assert lines[-3].startswith("Recommended: region, 3 bins, suppress 11, the coarsest that keeps")
    assert done.stderr.startswith("features: age, sex, los (left out: name)\n")
    found = json.loads((folder / "out/audit.json").read_text())
    assert found["kind"] == "unbin audit"
    assert [t["level"] for t in found["tables"]] == 4 * ["region"] + 4 * ["county"]
    assert 0.3 < found["gain"] < 0.99
    page = (folder / "out/report.html").read_text()
    assert "Disclosure audit of cost in people.csv" in page
    assert "person " not in page.replace("person, ", "")
    assert "05001" not in page + done.stdout + (folder / "out/audit.json").read_text()


def test_too_much_is_an_error_in_one_sentence(folder):
    result = audit(folder, "--block", "county", "--bins", 4, "--formula", "age + log(los)",
                   "--fail-above", 0.1)  # fmt: skip
    assert result.exit_code == 1
    assert result.stderr.startswith("Too much: county, 4 bins: the gain about people ")
    first, second = result.stderr.splitlines()
    assert first.endswith("above 0.1; publish a coarser table, or protect it")
    assert second.startswith("No table to recommend: every planned table shows counts that break")


def test_what_may_be_published_is_recommended(folder):
    args = ("--block", "county", "--bins", 4, "--formula", "age + C(sex) + log(los)", "--rule", 2,
            "--min-utility", 0.5)  # fmt: skip
    result = audit(folder, *args)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "Recommended: county, 4 bins, the coarsest that keeps" in result.stdout
    result = audit(folder, *args, "--fail-above", 0.1)
    assert result.exit_code == 1
    assert (
        "No table to recommend: no planned table within the rule of 2 has a gain" in result.stderr
    )


def test_everybody_edges_and_logs(folder):
    result = audit(
        folder, "--edges", "0,7,9,inf", "--bins", "", "--formula", "age",
        "--target-transform", "log",
    )  # fmt: skip
    assert result.exit_code == 1
    no_use = "no planned table within the rule of 11 tells the coefficients at all\n"
    assert result.stderr == f"No table to recommend: {no_use}"
    assert result.stdout.endswith(f"Recommended: none, {no_use}")
    assert "of the log" in result.stdout
    result = audit(folder, "--edges", "-inf,7,9,inf", "--bins", "", "--formula", "age",
                   "--rule", 5, "--block", "county", "--everybody")  # fmt: skip
    assert "everybody, 3 given bins" in result.stdout
    assert "cells <5" in result.stdout


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["--bins", "2,x"], 2, "--bins: must be numbers between commas, got '2,x'"),
        (["--edges", "0;1"], 2, "--edges: must be numbers between commas, got '0;1'"),
        (["--noise", "gauss:1"], 2, "noise: must be laplace:EPSILON, got 'gauss:1'"),
        (["--complementary"], 2, "complementary: needs suppress="),
        (["--rule", "ons"], 2, "rule: unknown, got 'ons'"),
        (["--block", "parish"], 1, "people.csv: must have the column 'parish'"),
        (["--bins", ""], 2, "bins: must be a list of planned tables, got []"),
    ],
)
def test_errors_take_one_line(folder, args, code, message):
    result = audit(folder, "--formula", "age", *args)
    assert result.exit_code == code
    assert result.stderr.startswith(f"Error: {message}")
    assert result.stderr.count("\n") == 1


def test_tables_published_together(folder):
    result = audit(folder, "--block", "county", "--block", "sex, region", "--bins", 4,
                   "--fail-above", 0.1, "--output", folder / "both")  # fmt: skip
    assert result.exit_code == 1
    assert "county + sex, region, 4 bins, together" in result.stdout
    assert "county + sex, region, 4 bins: together the best attack explains" in result.stdout
    assert result.stderr.startswith("features: age, sex, los, region (left out: name)\n")
    found = json.loads((folder / "both/audit.json").read_text())
    assert [t["together"] for t in found["tables"]] == [False, False, True]
    assert found["tables"][2]["levels"] == ["county", "sex, region"]
    assert "<h2>Alone and together</h2>" in (folder / "both/report.html").read_text()


def test_too_much_is_told_of_tables_together(folder):
    """Each table alone is under the limit, all of them are not."""
    args = ("--block", "sex", "--block", "los_group", "--block", "age_group", "--bins", 2)
    people = pd.read_csv(folder / "people.csv", dtype={"county": str})
    people["los_group"] = pd.qcut(people["los"], 6, labels=list("abcdef"))
    people["age_group"] = pd.qcut(people["age"], 6, labels=list("abcdef"))
    people[["cost", "sex", "los_group", "age_group"]].to_csv(folder / "groups.csv", index=False)

    def limited(*more):
        return run("audit", folder / "groups.csv", "--target", "cost", *args, "--fail-above", 0.2,
                   "--rule", 2, *more, *QUICK)  # fmt: skip

    assert "Too much: sex + los_group + age_group, 2 bins: the gain" in limited().stderr
    assert "Too much" not in limited("--alternatives").stderr


def test_a_column_with_a_comma_in_its_name_is_one(folder):
    people = pd.read_csv(folder / "people.csv", dtype={"county": str})
    people.rename(columns={"county": "county, state"}).to_csv(folder / "comma.csv", index=False)
    result = run("audit", folder / "comma.csv", "--target", "cost", "--block", "county, state",
                 "--formula", "age", "--bins", 3, *QUICK)  # fmt: skip
    assert "county, state, 3 bins" in result.stdout


def test_a_column_of_categories(folder):
    people = pd.read_csv(folder / "people.csv", dtype={"county": str})
    groups = pd.qcut(people["cost"], [0, 0.5, 0.9, 1], labels=["low", "middle", "high"])
    people.assign(group=groups, code=groups.cat.codes).to_csv(folder / "groups.csv", index=False)

    def grouped(target, *args):
        return run("audit", folder / "groups.csv", "--target", target, "--block", "county",
                   "--formula", "age + sex + log(los)", "--seed", 1, *args)  # fmt: skip

    out = folder / "categories"
    result = grouped("group", "--suppress", 11, "--fail-above", 0.01, "--output", out)
    assert result.exit_code == 1
    assert result.stderr.startswith("Too much: county, categories, suppress 11: the gain")
    assert "share of the Brier score of the block histogram alone" in result.stdout
    found = json.loads((out / "audit.json").read_text())
    assert found["categories"] == ["high", "low", "middle"]
    assert [t["bins"] for t in found["tables"]] == ["categories", "categories"]
    assert 0.1 < found["gain"] < 0.99
    page = (out / "report.html").read_text()
    assert "Disclosure audit of group in groups.csv" in page
    assert "05001" not in page + result.stdout
    result = grouped("code", "--bins", "categories", "--attacks", "ridge")
    assert "county, categories  in the table  ridge, logit" in result.stdout
    for args, message in (
        (["--bins", "4"], "Error: bins: categories have no edges, got y of '"),
        (["--family", "gaussian"], "Error: families: are of numbers, got ['gaussian'] and"),
        (["--attacks", "matching"], "Error: attacks: none of matching can be made with logit"),
    ):
        result = grouped("group", *args)
        assert result.exit_code != 0
        assert result.stderr.startswith(message)
        assert result.stderr.count("\n") == 1
