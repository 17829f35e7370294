"""Tables of categories on the command line: fitted, recorded, predicted."""

import json

import numpy as np
import pandas as pd
import pytest

import unbin
from tests.helpers.cli import run
from tests.helpers.precincts import PARTIES, voters


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with voters, their votes by precinct, and a fit."""
    place = tmp_path_factory.mktemp("votes")
    people = voters().replace({"race": {"white": "@white"}})
    people["known"] = people["vote"].where(np.arange(len(people)) % 20 == 0)
    people.to_csv(place / "voters.csv", index=False)
    made = run(
        "aggregate", place / "voters.csv", "--target", "vote", "--block", "precinct",
        "--output", place / "votes.csv",
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    found = fit(
        place, "--random", "race", "--contextual", 0.25, "--output", place / "out",
        "--block-table", place / "cells.csv",
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    (place / "fit.txt").write_text(found.stdout)
    (place / "fit.err").write_text(found.stderr)
    return place


def fit(place, *more, formula="race + age"):
    return run(
        "fit", place / "voters.csv", place / "votes.csv", "--block", "precinct",
        "--formula", formula, *more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def model(folder):
    people = pd.read_csv(folder / "voters.csv")
    return unbin.glm(
        "race + age", people, {"precinct": folder / "votes.csv"}, random=["race"],
        contextual=0.25, alpha=None,
    )  # fmt: skip


def test_the_summary_is_printed_and_a_record_left(folder, model):
    shown = (folder / "fit.txt").read_text()
    assert shown.startswith(str(model.summary()))
    assert "z = 0.25" in shown
    assert "cells of 40 blocks written" in shown
    assert {path.name for path in (folder / "out").iterdir()} == {
        "model.json", "coefficients.csv", "report.html", "groups.csv",
    }  # fmt: skip
    told = (folder / "fit.err").read_text()
    assert "fitted in " in told
    assert "no cells of single blocks; if the table is public, say --public" in told


def test_tables_are_those_of_the_model(folder, model):
    for path, table in (
        (folder / "out" / "coefficients.csv", model.tidy()),
        (folder / "out" / "groups.csv", model.group_table()),
        (folder / "cells.csv", model.block_table()),
    ):
        read = pd.read_csv(path, keep_default_na=True)
        assert list(read.columns) == list(table.columns)
        numbers = table.select_dtypes("number").columns
        np.testing.assert_allclose(read[numbers], table[numbers], rtol=1e-9)
    assert "p00,'@white,dem" in (folder / "cells.csv").read_text()  # no spreadsheet runs it


def test_predictions_have_a_probability_for_each_category(folder, model):
    result = run(
        "predict", folder / "out" / "model.json", folder / "voters.csv", "--id", "precinct",
        "--block", "precinct", "--output", folder / "predicted.csv",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    found = pd.read_csv(folder / "predicted.csv")
    assert list(found.columns) == ["precinct", "prediction", *(f"p_{name}" for name in PARTIES)]
    people = pd.read_csv(folder / "voters.csv")
    expected = model.predict_proba(people[["race", "age"]], blocks=people["precinct"])
    np.testing.assert_allclose(found[[f"p_{name}" for name in PARTIES]], expected, atol=1e-5)
    assert (found["prediction"] == model.classes_[expected.argmax(axis=1)]).mean() > 0.999


def test_without_block_the_context_is_left_out(folder):
    result = run("predict", folder / "out" / "model.json", folder / "voters.csv")
    assert "without --block everybody gets the average context" in result.stderr
    result = run("predict", folder / "out" / "model.json", folder / "voters.csv", "--offset", "0")
    assert result.exit_code == 2
    assert "Error: --offset: is for outcomes that are numbers; leave it out" in result.stderr


def test_a_model_fitted_to_a_frame_of_text_predicts(folder, tmp_path):
    people = pd.read_csv(folder / "voters.csv")
    votes = unbin.read_release(folder / "votes.csv")
    model = unbin.AggregatedClassifier().fit(people, {"precinct": votes}, features=["race", "age"])
    unbin.save(model, tmp_path / "m.json")
    result = run("predict", tmp_path / "m.json", folder / "voters.csv")
    assert result.exit_code == 0, result.output
    first = result.stdout.splitlines()[1].split(",")
    np.testing.assert_allclose(
        np.array(first[1:], float), model.predict_proba(people[["race", "age"]].head(1))[0], 1e-4
    )


def test_known_categories_and_public_tables(folder):
    result = fit(folder, "--observed", "known", "--public", "--output", folder / "public")
    assert result.exit_code == 0, result.output
    assert "400 people whose outcome is known" in result.stderr
    assert json.loads((folder / "public" / "model.json").read_text())["classifier"]["model"][
        "counts"
    ] is None  # fmt: skip
    result = fit(folder, "--public", "--random", "race", "--output", folder / "public")
    assert result.exit_code == 0, result.output
    saved = json.loads((folder / "public" / "model.json").read_text())
    assert saved["classifier"]["model"]["cells"] is not None
    assert "if the table is public" not in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--offset", "age"], "--offset: is for outcomes that are numbers, got a table of"),
        (["--robust"], "--robust: is for outcomes that are numbers"),
        (["--method", "matching"], "--method: is for outcomes that are numbers"),
        (["--target-transform", "log"], "--target-transform: is for outcomes that are numbers"),
        (["--family", "poisson"], "--family: unknown, got 'poisson'"),
        (["--alpha", "held-out"], "--alpha: held-out is for outcomes that are numbers"),
        (["--alpha", "much"], "--alpha: must be a number, auto, needed or held-out, got 'much'"),
        (["--contextual", "yes"], "--contextual: of categories must be the scale of contextual"),
        (["--contextual", "-1"], "contextual: must be"),
        (["--contextual", "auto"], "contextual: one table alone cannot tell"),
        (["--block-table", "x.csv"], "--block-table: cells are of groups, got none; name them"),
        (["--random", "county"], "random: 'county' must be a feature"),
    ],
)
def test_options_that_do_not_go_with_categories(folder, options, message):
    result = fit(folder, *options)
    assert result.exit_code == 2, result.output
    assert message in result.stderr


def test_options_that_do_not_go_with_numbers(folder, tmp_path):
    people = pd.read_csv(folder / "voters.csv")
    table = unbin.aggregate(people["age"], people["precinct"], bins=3)
    table.to_frame().to_csv(tmp_path / "ages.csv", index=False)
    for option, value in (("--random", "race"), ("--block-table", tmp_path / "x.csv")):
        result = run(
            "fit", folder / "voters.csv", tmp_path / "ages.csv", "--block", "precinct",
            "--formula", "race", option, value,
        )  # fmt: skip
        assert result.exit_code == 2
        assert f"Error: {option}: is for tables of categories, got numbers" in result.stderr
