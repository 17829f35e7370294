"""``unbin fit``: what it prints, writes and masks."""

import csv
import json

import numpy as np
import pandas as pd
import pytest

import unbin
from tests.helpers.cli import FORMULA, run
from tests.helpers.people import simulate_patients
from unbin.cli.records import command_line

SUMMARY = """\
                                Aggregated GLM
=============================================================================
Family:                     gaussian    People:                        2,000
Method:                   likelihood    Blocks:                           40
Alpha:                             0    Dispersion:                    1.244
Block effects sd:                  0    Objective:                    1.6932
=============================================================================
                  coef    std err          z      P>|z|     [0.025     0.975]
-----------------------------------------------------------------------------
intercept      -0.0837     0.2368     -0.353      0.724    -0.5478     0.3805
age             0.1009     0.0039     25.768      0.000     0.0932     0.1085
C(sex)[T.m]    -0.9528     0.1536     -6.202      0.000    -1.2539    -0.6517
log(los)        2.0350     0.0975     20.875      0.000     1.8439     2.2260
=============================================================================
Status: The quasi-score of the published statistics was solved.
identified: 40 blocks, standard errors 6 % of the coefficients
goodness of fit: Q/df = 1.02 (p = 0.402)
The release holds 11 % of what individual data would say about C(sex)[T.m],
  and 28 % about log(los).
"""


def test_fit_prints_a_summary(folder):
    files = ["model.json", "coefficients.csv", "report.html"]
    written = ", ".join(str(folder / "out" / name) for name in files)
    assert (folder / "fit.txt").read_text() == SUMMARY + f"\nwritten: {written}\n"


def test_fit_writes_a_record_without_people(folder):
    names = {path.name for path in (folder / "out").iterdir()}
    assert {"model.json", "coefficients.csv"} <= names <= {
        "model.json", "coefficients.csv", "report.html"
    }  # fmt: skip
    data = json.loads((folder / "out" / "model.json").read_text())
    assert set(data["inputs"]) == {"people.csv", "release.csv"}
    assert all(len(value) == 64 for value in data["inputs"].values())
    assert data["encoding"]["formula"] == FORMULA
    with (folder / "out" / "coefficients.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["term"] for row in rows] == ["intercept", "age", "C(sex)[T.m]", "log(los)"]
    assert list(rows[0]) == [
        "term", "estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high",
        "efficiency",
    ]  # fmt: skip
    assert rows[0]["efficiency"] == ""
    assert float(rows[1]["estimate"]) == pytest.approx(0.1, abs=0.01)
    assert 0 < float(rows[1]["efficiency"]) < 1


def test_fit_writes_a_report(folder):
    html = (folder / "out" / "report.html").read_text()
    assert "C(sex)[T.m]" in html
    assert "people.csv" in html


def test_fit_is_the_library_s(folder):
    people = pd.read_csv(folder / "people.csv", dtype={"county": str})
    X = np.column_stack([people["age"], people["sex"] == "m", np.log(people["los"])])
    target = unbin.read_release(folder / "release.csv").align(people["county"])
    model = unbin.AggregatedGLM(random_state=0).fit(X, target)
    saved = unbin.load(folder / "out" / "model.json")
    np.testing.assert_allclose(saved.coef_, model.coef_, rtol=1e-10)
    np.testing.assert_allclose(saved.standard_errors_, model.standard_errors_, rtol=1e-8)


def test_imputed_values_are_written_on_request_only(folder, tmp_path):
    args = ("fit", folder / "people.csv", folder / "release.csv", "--block", "county",
            "--formula", "age")  # fmt: skip
    result = run(*args, "--write-imputed")
    assert result.exit_code == 2
    assert result.stderr == (
        "Error: --write-imputed: needs a folder to write to, got none; add --output\n"
    )
    assert run(*args, "--write-imputed", "--output", tmp_path).exit_code == 0
    imputed = pd.read_csv(tmp_path / "imputed.csv", dtype={"block": str})
    assert list(imputed.columns) == ["block", "imputed"]
    release = unbin.read_release(folder / "release.csv")
    assert (imputed["block"].unique() == release.blocks).all()


def test_fit_chooses_and_takes_context(folder, tmp_path):
    result = run(
        "fit", folder / "people.csv", folder / "release.csv", "--block", "county", "--formula",
        "age + log(los)", "--alpha", "auto", "--contextual", "yes", "--output", tmp_path,
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert "block mean of age" in result.stdout
    assert "\nChosen on held-out blocks: gaussian, alpha " in result.stdout
    assert ", contextual effects; tried 11 candidates (gaussian).\n" in result.stdout
    model = unbin.load(tmp_path / "model.json")
    assert model.selection_ is not None
    people = pd.read_csv(folder / "people.csv", dtype={"county": str})[:5]
    people.to_csv(tmp_path / "few.csv", index=False)
    with_block = run("predict", tmp_path / "model.json", tmp_path / "few.csv", "--block", "county")
    without = run("predict", tmp_path / "model.json", tmp_path / "few.csv")
    assert with_block.stdout != without.stdout
    assert with_block.stderr == ""
    assert without.stderr == (
        "Warning: the model has contextual effects, and without --block everybody gets the average "
        "context\n"
    )


def test_the_log_of_an_outcome_is_modelled_on_request(tmp_path):
    """Coefficients are those of the log, predictions are of the outcome itself."""
    people = simulate_patients()
    people["cost"] = np.exp(0.1 * people["cost"])
    people.to_csv(tmp_path / "people.csv", index=False)
    made = ("--block", "county", "--bins", 8, "--output", tmp_path / "release.csv")
    assert run("aggregate", tmp_path / "people.csv", "--target", "cost", *made).exit_code == 0
    command = ("fit", tmp_path / "people.csv", tmp_path / "release.csv", "--block", "county")
    result = run(
        *command, "--formula", FORMULA, "--target-transform", "log", "--output", tmp_path / "out"
    )
    assert result.exit_code == 0, result.output
    model = unbin.load(tmp_path / "out" / "model.json")
    np.testing.assert_allclose(model.coef_, [0.01, -0.1, 0.2], atol=0.03)
    predicted = run("predict", tmp_path / "out" / "model.json", tmp_path / "people.csv")
    values = [float(line) for line in predicted.stdout.split()[1:]]
    assert np.mean(values) == pytest.approx(people["cost"].mean(), rel=0.05)
    wrong = run(*command, "--formula", FORMULA, "--target-transform", "root")
    assert wrong.exit_code == 2
    assert "target_transform: must be None or 'log', got 'root'" in wrong.stderr


def test_matching_prints_what_it_has(small):
    result = run(
        "fit", small / "people.csv", small / "release.csv", "--block", "county", "--formula", "x",
        "--method", "matching", "--output", small / "out",
    )  # fmt: skip
    lines = result.stdout.splitlines()
    assert lines[0] == "                  coef"
    assert lines[1].startswith("intercept ")
    assert lines[4] == (
        "Matching mistakes noise for signal and has no standard errors; see --method likelihood."
    )
    header = (small / "out" / "coefficients.csv").read_text().splitlines()[0]
    assert (result.exit_code, header) == (0, "term,estimate")


def test_fit_says_on_stderr_how_it_went(small):
    (small / "one.csv").write_text("lower,upper,count\n,3,4\n3,,3\n")
    result = run("fit", small / "people.csv", small / "one.csv", "--formula", "x")
    first, second = result.stderr.splitlines()
    assert first.startswith("fitted in ")
    assert second.startswith("Warning: not identified: ")
    assert "\x1b" not in result.output


def test_scale_and_drop_reach_the_release(small):
    (small / "release.csv").write_text(
        "block,lower,upper,count\n05001,,3,6\n05001,3,,2\n05003,,3,1\n05003,3,,2\n05009,,3,2\n"
    )
    args = ("fit", small / "people.csv", small / "release.csv", "--block", "county",
            "--formula", "x")  # fmt: skip
    failed = run(*args)
    assert failed.exit_code == 1
    assert failed.stderr.startswith("Error: block '05009': released, but no row of X is in it")
    failed = run(*args, "--on-missing", "drop")
    assert failed.stderr.splitlines()[-1].startswith("Error: block '05001': the release counts 8")
    assert run(*args, "--on-missing", "drop", "--scale").exit_code == 0


def test_an_interruption_leaves_nothing(small, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("unbin.estimator.AggregatedGLM.fit", interrupt)
    result = run(
        "fit", small / "people.csv", small / "release.csv", "--block", "county", "--formula", "x",
        "--output", small / "out",
    )  # fmt: skip
    assert result.exit_code == 130
    assert result.stderr == "Interrupted: no file was left half-written.\n"
    assert not (small / "out").exists()


def test_a_model_beside_a_masked_report_holds_no_counts(folder, tmp_path):
    args = ("fit", folder / "people.csv", folder / "release.csv", "--block", "county",
            "--formula", "age", "--output", tmp_path / "out")  # fmt: skip
    masked = run(*args)
    said = (
        "Small counts are masked in report.html, and model.json holds no counts; if the table is "
        "public, say --public.\n"
    )
    assert masked.stderr.endswith(said)
    assert unbin.load(tmp_path / "out" / "model.json").published_ is None
    assert "(&lt;11)" in (tmp_path / "out" / "report.html").read_text()
    public = run(*args, "--public")
    assert said not in public.stderr
    assert public.stdout == masked.stdout
    found = unbin.load(tmp_path / "out" / "model.json").published_
    release = unbin.read_release(folder / "release.csv")
    np.testing.assert_array_equal(found.count.ravel(), release.histogram.count)
    assert "nothing is masked" in (tmp_path / "out" / "report.html").read_text()
    assert run(*args, "--not-public").stderr.endswith(said)


def test_records_quote_no_query_and_no_login(small, monkeypatch):
    pytest.importorskip("duckdb")
    monkeypatch.chdir(small)
    query = "duckdb:SELECT county, x, y, 'hunter2' AS password FROM 'people.csv'"
    words = ["unbin", "fit", query, "s3://me:hunter2@host/release.csv", "--block", "county"]
    monkeypatch.setattr("sys.argv", words)
    shown = "unbin fit duckdb:… s3://…@host/release.csv --block county"
    assert command_line().replace("'", "") == shown
    fitted = run(*words[1:3], "release.csv", *words[4:], "--formula", "x", "--output", "out")
    assert fitted.exit_code == 0, fitted.output
    written = "".join((small / "out" / name).read_text() for name in ("model.json", "report.html"))
    assert "hunter2" not in written
    assert "duckdb:…" in written


def test_hostile_names_show_as_text(folder, tmp_path):
    people = pd.read_csv(folder / "people.csv", dtype={"county": str})
    labels = np.array(["<script>alert(1)</script>", "$x$", "[bold]b[/bold]", "=cmd()"])
    kind = labels[np.arange(len(people)) % 4]
    hostile = pd.DataFrame(
        {
            "[red]county": "[b]<b>$" + people["county"],
            "=cmd()": people["age"],
            "\x1b[31m": kind,
            "cost": people["cost"],
        }
    )
    hostile.to_csv(tmp_path / "p.csv", index=False)
    made = run("aggregate", tmp_path / "p.csv", "--target", "cost", "--block", "[red]county")
    assert made.stdout.splitlines()[1].startswith("[b]<b>$05001,,")
    (tmp_path / "r.csv").write_text(made.stdout)
    result = run(
        "fit", tmp_path / "p.csv", tmp_path / "r.csv", "--block", "[red]county", "--formula",
        "`=cmd()` + C(`\x1b[31m`)", "--output", tmp_path / "[bold]out",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    for text in ("`=cmd()`", "C(`\\x1b[31m`)[T.<script>alert(1)</script>]", "[T.[bold]b[/bold]]",
                 "[bold]out/model.json"):  # fmt: skip
        assert text in result.stdout
    assert "\x1b" not in result.output
    with (tmp_path / "[bold]out" / "coefficients.csv").open() as stream:
        terms = [row["term"] for row in csv.DictReader(stream)]
    assert not any(term.startswith(("=", "+", "-", "@")) for term in terms)
    html = (tmp_path / "[bold]out" / "report.html").read_text()
    assert "<script>alert" not in html


@pytest.mark.parametrize(
    "formula", ["{open('ran','w')}", "__import__('os').system('touch ran')", "age.__class__"]
)
def test_formulas_from_the_command_line_are_not_run(folder, formula, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(
        "fit", folder / "people.csv", folder / "release.csv", "--block", "county", "--formula",
        formula,
    )  # fmt: skip
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: formula, position ")
    assert not list(tmp_path.iterdir())
