"""Rows that stand for several people, and people whose outcome is known, on the command line."""

import json

import numpy as np
import pandas as pd
import pytest

import unbin
from tests.helpers.cli import run
from tests.helpers.people import simulate_patients

FORMULA = "decade + C(sex)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with people, the same people as cells, a table, and some known outcomes."""
    place = tmp_path_factory.mktemp("standing")
    people = simulate_patients().round(3)
    people["decade"] = (people["age"] // 10).astype(int)
    people["asked"] = people["cost"].where(people.index % 50 == 0)
    people.to_csv(place / "people.csv", index=False)
    keys = ["county", "decade", "sex"]
    cells = people.groupby(keys).size().rename("people").reset_index()
    cells.to_csv(place / "cells.csv", index=False)
    cells.to_parquet(place / "cells.parquet")
    for block, file in (("county", "county.csv"), ("decade,sex", "decade-sex.csv")):
        made = run("aggregate", place / "people.csv", "--target", "cost", "--block", block,
                   "--bins", 6, "--output", place / file)  # fmt: skip
        assert made.exit_code == 0, made.output
    return place


def fit(folder, people, *more, formula=FORMULA, tables=("county",)):
    files = [folder / f"{name.replace(',', '-')}.csv" for name in tables]
    blocks = [word for name in tables for word in ("--block", name)]
    return run("fit", folder / people, *files, *blocks, "--formula", formula, *more)


def coefficients(folder, people, *more, **keywords):
    out = folder / "out"
    result = fit(folder, people, *more, "--output", out, **keywords)
    assert result.exit_code == 0, result.output
    return pd.read_csv(out / "coefficients.csv"), result


# -- weights ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("tables", [("county",), ("county", "decade,sex")])
@pytest.mark.parametrize("cells", ["cells.csv", "cells.parquet"])
def test_cells_with_weights_fit_as_their_people(folder, tables, cells):
    weighted, result = coefficients(folder, cells, "--weights", "people", tables=tables)
    people, _ = coefficients(folder, "people.csv", tables=tables)
    for name in ("estimate", "std_error"):
        np.testing.assert_allclose(weighted[name], people[name], rtol=1e-6)
    n_rows = len(pd.read_csv(folder / "cells.csv"))
    assert result.stderr.splitlines()[0] == f"2,000 people in {n_rows:,} rows"


def test_a_sample_is_said(folder):
    sample = pd.read_csv(folder / "people.csv", dtype={"county": str}).iloc[::2].assign(w=2.0)
    sample.to_csv(folder / "sample.csv", index=False)
    result = fit(folder, "sample.csv", "--weights", "w", "--weighting", "survey")
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines()[0] == (
        "1,000 rows, a sample of 2,000 people: standard errors allow for the sample"
    )


def test_a_table_of_cells_is_the_table_of_their_people(folder, tmp_path):
    rng = np.random.default_rng(0)
    cells = pd.read_csv(folder / "cells.csv", dtype={"county": str})
    cells["cost"] = rng.normal(size=len(cells)).round(2)
    cells.to_csv(tmp_path / "cells.csv", index=False)
    cells.loc[cells.index.repeat(cells["people"])].to_csv(tmp_path / "people.csv", index=False)
    table = ("--target", "cost", "--block", "county", "--bins", 4)
    weighted = run("aggregate", tmp_path / "cells.csv", *table, "--weights", "people")
    assert weighted.stdout == run("aggregate", tmp_path / "people.csv", *table).stdout
    assert weighted.stdout != run("aggregate", tmp_path / "cells.csv", *table).stdout


def test_check_speaks_of_people_and_rows(folder):
    check = ("check", folder / "cells.csv", folder / "county.csv", "--block", "county")
    n = len(pd.read_csv(folder / "cells.csv"))
    found = run(*check, "--weights", "people")
    assert (found.exit_code, found.stdout.splitlines()[-1]) == (0, "ready to fit")
    assert f"40 blocks joined, {n} rows of X that stand for 2,000 people" in found.stdout
    assert run(*check).exit_code == 1
    survey = run(*check, "--weights", "people", "--weighting", "survey")
    assert f"{n} rows of X, a sample that stands for 2,000 people" in survey.stdout


def test_an_audit_of_cells_is_that_of_their_people(folder, tmp_path):
    cells = pd.read_csv(folder / "cells.csv", dtype={"county": str})
    cells["cost"] = np.random.default_rng(5).normal(cells["decade"], 1).round(2)
    cells.to_csv(tmp_path / "cells.csv", index=False)
    rows = cells.loc[cells.index.repeat(cells["people"])].drop(columns="people")
    rows.to_csv(tmp_path / "people.csv", index=False)
    audit = ("--target", "cost", "--block", "county", "--bins", 3, "--attacks", "likelihood",
             "--family", "gaussian")  # fmt: skip
    weighted = run("audit", tmp_path / "cells.csv", *audit, "--weights", "people")
    repeated = run("audit", tmp_path / "people.csv", *audit)
    # weights say nothing of people: they are no feature
    assert "features: decade, sex\n" in weighted.stderr
    assert weighted.stdout == repeated.stdout
    assert "of 2,000 people held out" in weighted.stdout
    said = run("audit", tmp_path / "cells.csv", *audit, "--weights", "people", "--formula",
               "decade + C(sex)")  # fmt: skip
    assert said.stdout == weighted.stdout


# -- people whose outcome is known -----------------------------------------------------------------


@pytest.mark.parametrize("tables", [("county",), ("county", "decade,sex")])
@pytest.mark.parametrize("disjoint", [False, True])
def test_observed_people_beside_tables(folder, tables, disjoint):
    more = ("--disjoint",) if disjoint else ()
    found, result = coefficients(
        folder, "people.csv", "--observed", "asked", *more, tables=tables, formula="age + C(sex)"
    )
    frame = pd.read_csv(folder / "people.csv", dtype={"county": str})
    X = np.column_stack([frame["age"], frame["sex"] == "m"])
    ids = [{"county": frame["county"]}, {"decade": frame["decade"], "sex": frame["sex"]}]
    files = [folder / "county.csv", folder / "decade-sex.csv"]
    aligned = [
        unbin.read_release(file).align(each)
        for file, each, _ in zip(files, ids, tables, strict=False)
    ]
    target = unbin.join(*aligned, unbin.observed(frame["asked"], disjoint=disjoint))
    model = unbin.AggregatedGLM(random_state=0).fit(X, target)
    np.testing.assert_allclose(found["estimate"][1:], model.coef_, rtol=1e-8)
    np.testing.assert_allclose(
        found["information_observed"][1:], model.diagnostics_.information[-1]
    )
    assert result.stderr.splitlines()[0] == (
        "40 people whose outcome is known" + (", in no table" if disjoint else "")
    )
    assert "Observed:                  40 people" in result.stdout
    hidden = "report.html and model.json hold no counts" in result.stderr
    assert hidden is not disjoint
    saved = json.loads((folder / "out" / "model.json").read_text())
    assert saved["fits"][0]["n_observed"] == 40


def test_check_looks_for_known_outcomes_in_the_table(folder, tmp_path):
    check = ("--block", "county", "--observed", "asked")
    found = run("check", folder / "people.csv", folder / "county.csv", *check)
    assert found.exit_code == 0, found.output
    assert found.stdout.splitlines()[-4:] == [
        "the table and observed people together",
        "county counts all 2,000 people",
        "the outcome of 40 people is known; they are taken out",
        "nothing contradicts the table",
    ]
    people = pd.read_csv(folder / "people.csv", dtype={"county": str})
    people["asked"] = people["cost"].where(people["county"] == "05001").clip(lower=50)
    people.to_csv(tmp_path / "people.csv", index=False)
    found = run("check", tmp_path / "people.csv", folder / "county.csv", *check)
    assert found.exit_code == 1
    assert found.stderr.startswith("Error: county, block '05001': its bin ")
    assert run("check", tmp_path / "people.csv", folder / "county.csv", *check,
               "--disjoint").exit_code == 0  # fmt: skip


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["--weights", "nope"], 1, "people.csv: must have the column 'nope', got 'county', 'age', "
         "'sex', 'los', 'cost', 'decade', 'asked'; check its name"),
        (["--weights", "sex"], 2, "--weights: must be a column of its own, got 'sex', which "
         "--formula has; name another"),
        (["--weights", "county"], 2, "--weights: must be a column of its own, got 'county', which "
         "--block has; name another"),
        (["--weights", "asked"], 1, "--weights asked: a row must stand for a finite number of "
         "people above 0, got nan in row 2 and 1,959 more; leave out rows that stand for nobody"),
        (["--weights", "asked", "--observed", "asked"], 2, "--observed: must be a column of its "
         "own, got 'asked', which --weights has; name another"),
        (["--weighting", "survey"], 2, "--weighting: survey needs the weights of the rows, got "
         "none; add --weights"),
        (["--weights", "cost", "--weighting", "design"], 2, "--weighting: unknown, got "
         "'design'; use one of "
         "'frequency', 'survey'"),
        (["--disjoint"], 2, "--disjoint: is about outcomes that are known, got none; add "
         "--observed"),
        (["--observed", "decade"], 2, "--observed: must be a column of its own, got 'decade', "
         "which --formula has; name another"),
    ],
)  # fmt: skip
def test_columns_that_cannot_be(folder, more, code, message):
    result = fit(folder, "people.csv", *more)
    assert (result.exit_code, result.stderr) == (code, f"Error: {message}\n")


@pytest.mark.parametrize("command", ["fit", "check", "aggregate", "audit"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("many", "--weights w: must hold numbers, got 'many' in row 3; correct it"),
        ("0", "--weights w: a row must stand for a finite number of people above 0, got 0 in row "
         "3; leave out rows that stand for nobody"),
        ("-1", "--weights w: a row must stand for a finite number of people above 0, got -1 in "
         "row 3; leave out rows that stand for nobody"),
        ("", "--weights w: a row must stand for a finite number of people above 0, got nan in row "
         "3; leave out rows that stand for nobody"),
    ],
)  # fmt: skip
def test_weights_that_are_no_people(small, command, value, message):
    lines = (small / "people.csv").read_text().splitlines()
    weights = ["w", "1", "1", value, "1", "1", "1", "1"]
    rows = (f"{line},{w}" for line, w in zip(lines, weights, strict=True))
    (small / "people.csv").write_text("\n".join(rows) + "\n")
    more = {
        "fit": [small / "release.csv", "--formula", "x"],
        "check": [small / "release.csv"],
        "aggregate": ["--target", "y"],
        "audit": ["--target", "y"],
    }
    result = run(command, small / "people.csv", *more[command], "--block", "county", "--weights",
                 "w")  # fmt: skip
    assert result.exit_code == 1
    assert f"Error: {message}\n" in result.stderr


def test_help_has_an_example_of_each():
    for command, words in {
        "fit": ("--weights w --weighting survey", "--observed", "--disjoint"),
        "check": ("--weights people", "--observed"),
        "aggregate": ("--weights people",),
        "audit": ("--weights people",),
    }.items():
        text = " ".join(run(command, "--help").stdout.split())
        assert all(word in text for word in words), command
