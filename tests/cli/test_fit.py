"""``unbin fit``: what it prints, writes and masks."""

import csv
import json

import numpy as np
import pandas as pd
import pytest

import unbin
from tests.helpers.cli import FORMULA, run
from tests.helpers.people import simulate_patients
from tests.helpers.states import states
from unbin._frames import to_frame
from unbin.cli.records import command_line
from unbin.exceptions import AlignmentWarning

SUMMARY = """\
                                Aggregated GLM
=============================================================================
Family:                     gaussian    People:                        2,000
Method:                   likelihood    Blocks:                           40
Alpha:                             0    Dispersion:                    1.244
Block effects sd:                  0    Objective:                    1.6932
Covariance:                              sandwich by block (CR3), Student's t
=============================================================================
                  coef    std err          t      P>|t|     [0.025     0.975]
-----------------------------------------------------------------------------
intercept      -0.0837     0.2499     -0.335      0.740    -0.5905     0.4232
age             0.1009     0.0042     24.279      0.000     0.0924     0.1093
C(sex)[T.m]    -0.9528     0.1683     -5.661      0.000    -1.2942    -0.6114
log(los)        2.0350     0.0953     21.343      0.000     1.8416     2.2283
=============================================================================
Status: The fit converged.
estimated: all 3 coefficients; 40 blocks, no specification test speaks
  against the fit
goodness of fit: Q/df = 1.02 (p = 0.402)
The release holds 11 % of what individual data would say about C(sex)[T.m],
  and 28 % about log(los).
Information from the shape within blocks: 9.5 % on age; 18 % on C(sex)[T.m];
  4.8 % on log(los).
Chosen on held-out blocks: gaussian, alpha 0; its log score per person is
  0.00078 below that of gamma (standard error 0.0013), so the two do equally
  well, and it is simpler. 3 candidates tried. For gaussian, a coefficient is
  a difference in the mean outcome per unit.
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
        "term", "estimate", "std_error", "statistic", "df", "p_value", "conf_low", "conf_high",
        "efficiency", "information_shape", "verdict",
    ]  # fmt: skip
    assert rows[0]["efficiency"] == ""
    assert float(rows[1]["estimate"]) == pytest.approx(0.1, abs=0.01)
    assert 0 < float(rows[1]["efficiency"]) < 1
    assert 0 < float(rows[1]["information_shape"]) < 1
    assert [row["verdict"] for row in rows] == ["", *["estimated"] * 3]


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
        "age + log(los)", "--alpha", "held-out", "--contextual", "yes", "--output", tmp_path,
        "--family", "gaussian",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert "block mean of age" in result.stdout
    told = " ".join(result.stdout.split())
    assert "Chosen on held-out blocks: gaussian, alpha " in told
    assert ", contextual effects; its log score per person is " in told
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
    args = ("fit", small / "people.csv", small / "one.csv", "--formula", "x")
    few = run(*args)
    assert few.exit_code == 2
    assert "choosing needs at least 10 blocks with published counts" in few.stderr
    result = run(*args, "--family", "gaussian")
    first, second = result.stderr.splitlines()
    assert first.startswith("fitted in ")
    assert second.startswith("Warning: not estimable: ")
    assert "\x1b" not in result.output


def test_scale_and_drop_reach_the_release(small):
    (small / "release.csv").write_text(
        "block,lower,upper,count\n05001,,3,6\n05001,3,,2\n05003,,3,1\n05003,3,,2\n05009,,3,2\n"
    )
    args = ("fit", small / "people.csv", small / "release.csv", "--block", "county",
            "--formula", "x", "--family", "gaussian")  # fmt: skip
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
    assert "fewer than 11 people" in (tmp_path / "out" / "report.html").read_text()
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
    more = ("--formula", "x", "--family", "gaussian", "--output", "out")
    fitted = run(*words[1:3], "release.csv", *words[4:], *more)
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


# -- several tables --------------------------------------------------------------------------------

BOTH = ("--block", "county", "--block", "age_group,sex")


def fit_tables(folder, *args, formula=FORMULA):
    files = [folder / name for name in ("people.csv", "county.csv", "age_group-sex.csv")]
    return run("fit", *files, *BOTH, "--formula", formula, *args)


def joined(folder):
    """Return the people of a folder and their tables as the library joins them."""
    people = pd.read_csv(folder / "people.csv", dtype={"county": str})
    county, cells = (
        unbin.read_release(folder / name) for name in ("county.csv", "age_group-sex.csv")
    )
    target = unbin.join(county.align(people["county"]), cells.align(people[["age_group", "sex"]]))
    X = np.column_stack([people["age"], people["sex"] == "m", np.log(people["los"])])
    return people, X, target


def test_a_fit_to_two_tables_is_the_library_s(tables):
    _, X, target = joined(tables)
    model = unbin.AggregatedGLM(random_state=0).fit(X, target)
    saved = unbin.load(tables / "out" / "model.json")
    np.testing.assert_allclose(saved.coef_, model.coef_, rtol=1e-10)
    np.testing.assert_allclose(saved.standard_errors_, model.standard_errors_, rtol=1e-8)
    assert [table.name for table in saved.tables_] == ["county", "age_group, sex"]


def test_a_fit_to_two_tables_prints_a_line_for_each(tables):
    shown = (tables / "fit.txt").read_text()
    assert "Tables:                            2" in shown
    assert "\nTable county: 2,000 people in 40 blocks, Q/df = " in shown
    assert "\nTable age_group, sex: 2,000 people in 18 blocks, Q/df = " in shown
    assert "\nMost information: on age from age_group, sex (" in shown
    said = (tables / "fit.err").read_text()
    assert said.endswith("; if the tables are public, say --public.\n")


def test_the_record_of_two_tables(tables):
    data = json.loads((tables / "out" / "model.json").read_text())
    assert list(data["inputs"]) == ["people.csv", "county.csv", "age_group-sex.csv"]
    assert len(set(data["inputs"].values())) == 3
    frame = pd.read_csv(tables / "out" / "coefficients.csv")
    assert list(frame.columns)[-3:] == [
        "verdict", "information_county", "information_age_group, sex"
    ]  # fmt: skip
    shares = frame[["information_county", "information_age_group, sex"]].to_numpy()
    assert np.isnan(shares[0]).all()  # of the intercept
    np.testing.assert_allclose(shares[1:].sum(axis=1), 1)
    html = (tables / "out" / "report.html").read_text()
    assert "Fit of people.csv, county.csv, age_group-sex.csv" in html


def test_imputed_values_stand_beside_the_blocks_of_all_tables(tables):
    people, X, target = joined(tables)
    imputed = pd.read_csv(tables / "out" / "imputed.csv", dtype={"county": str})
    assert list(imputed.columns) == ["county", "age_group, sex", "imputed"]
    assert (imputed["county"] == people["county"]).all()
    cells = people["age_group"].astype(str) + " | " + people["sex"]
    assert (imputed["age_group, sex"] == cells).all()
    model = unbin.AggregatedGLM(random_state=0).fit(X, target)
    np.testing.assert_allclose(imputed["imputed"], model.impute(), rtol=1e-6)


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
@pytest.mark.parametrize("name", ["county", "age_group,sex"])
def test_contextual_effects_are_of_the_table_named(tables, tmp_path, name):
    result = fit_tables(
        tables, "--contextual", name, "--output", tmp_path, formula="age + log(los)"
    )
    assert result.exit_code == 0, result.stderr
    _, X, target = joined(tables)
    kept = name.replace(",", ", ")
    oracle = unbin.AggregatedGLM(contextual=kept).fit(X[:, [0, 2]], target)
    saved = unbin.load(tmp_path / "model.json")
    np.testing.assert_allclose(saved.contextual_coef_, oracle.contextual_coef_, rtol=1e-8)
    blocks = target.table(kept).blocks[:5]
    pd.read_csv(tables / "people.csv", dtype=str)[:5].to_csv(tmp_path / "few.csv", index=False)
    shown = run("predict", tmp_path / "model.json", tmp_path / "few.csv", "--block", name)
    found = [float(line) for line in shown.stdout.split()[1:]]
    np.testing.assert_allclose(found, oracle.predict(X[:5, [0, 2]], blocks=blocks), rtol=1e-5)


def test_a_contextual_table_must_be_there(tables):
    result = fit_tables(tables, "--contextual", "sex")
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: --contextual: unknown, got 'sex'; use one of 'no', 'yes', 'auto', 'county', "
        "'age_group,sex'\n",
    )


def test_every_table_needs_a_block(tables):
    files = [tables / name for name in ("people.csv", "county.csv", "age_group-sex.csv")]
    result = run("fit", *files, "--block", "county", "--formula", "age")
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: --block: must be given once for each table, in their order, got 1 for 2 tables; "
        "write for example --block county --block age_group,sex\n",
    )


def test_matching_takes_one_table(tables):
    result = fit_tables(tables, "--method", "matching")
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: method: matching, the paper's, takes one table, got 2 of the same people; use "
        "method='likelihood'\n",
    )


def test_a_number_may_be_a_feature_and_the_blocks_of_a_table(tables, tmp_path):
    """Ids are text, features numbers: in a fit as in a prediction."""
    result = fit_tables(tables, "--output", tmp_path, formula="age_group + log(los)")
    assert result.exit_code == 0, result.stderr
    people, X, target = joined(tables)
    oracle = unbin.AggregatedGLM().fit(np.column_stack([people["age_group"], X[:, 2]]), target)
    saved = unbin.load(tmp_path / "model.json")
    np.testing.assert_allclose(saved.coef_, oracle.coef_, rtol=1e-8)
    args = ("predict", tmp_path / "model.json", tables / "people.csv")
    with_block = run(*args, "--block", "age_group,sex")
    assert with_block.exit_code == 0, with_block.stderr
    assert with_block.stdout == run(*args).stdout


def test_people_outside_a_table_are_rows_without_a_block(tables, tmp_path):
    people = pd.read_csv(tables / "people.csv", dtype={"county": str})
    inside = people["age_group"] >= 5
    people["cell"] = np.where(inside, people["sex"], None)
    people.to_csv(tmp_path / "people.csv", index=False)
    people[inside].to_csv(tmp_path / "inside.csv", index=False)
    made = run("aggregate", tmp_path / "inside.csv", "--target", "cost", "--block", "sex", "--bins",
               4, "--output", tmp_path / "cell.csv")  # fmt: skip
    assert made.exit_code == 0, made.output
    args = ("fit", tmp_path / "people.csv", tables / "county.csv", tmp_path / "cell.csv", "--block",
            "county", "--block", "cell", "--formula", FORMULA)  # fmt: skip
    failed = run(*args)
    assert failed.exit_code == 1
    assert "missing" in failed.stderr
    found = run(*args, "--on-missing", "drop", "--write-imputed", "--output", tmp_path / "out")
    assert found.exit_code == 0, found.stderr
    assert f"Table cell: {inside.sum():,} people in 2 blocks" in found.stdout
    imputed = pd.read_csv(tmp_path / "out" / "imputed.csv")
    assert (imputed["cell"][~inside] == "(outside the table)").all()


def test_scale_rakes_the_tables_to_each_other(tables, tmp_path):
    """Tables of other totals, with other shares in their bins: the first one holds."""
    frame = pd.read_csv(tables / "age_group-sex.csv")
    frame["count"] = frame["count"] * np.where(frame["lower"].isna(), 3, 1)
    frame.to_csv(tmp_path / "cells.csv", index=False)
    args = ("fit", tables / "people.csv", tables / "county.csv", tmp_path / "cells.csv", *BOTH,
            "--formula", FORMULA)  # fmt: skip
    assert run(*args).exit_code == 1
    found = run(*args, "--scale")
    assert found.exit_code == 0, found.stderr
    people = pd.read_csv(tables / "people.csv", dtype={"county": str})
    X = np.column_stack([people["age"], people["sex"] == "m", np.log(people["los"])])
    county = unbin.read_release(tables / "county.csv").align(people["county"])
    release = unbin.read_release(tmp_path / "cells.csv")
    with pytest.warns(AlignmentWarning, match="to meet the rows of X"):
        cells = release.align(people[["age_group", "sex"]], scale=True)
    with pytest.warns(AlignmentWarning):
        target = unbin.join(county, cells, scale=True)
    model = unbin.AggregatedGLM(random_state=0).fit(X, target)
    assert all(f" {slope:.4f} " in found.stdout for slope in model.coef_)


def test_files_of_one_name_are_all_in_the_record(tables, tmp_path):
    (tmp_path / "county.csv").write_text((tables / "age_group-sex.csv").read_text())
    result = run(
        "fit", tables / "people.csv", tables / "county.csv", tmp_path / "county.csv", *BOTH,
        "--formula", "age", "--output", tmp_path / "out",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    data = json.loads((tmp_path / "out" / "model.json").read_text())
    assert list(data["inputs"]) == ["people.csv", "county.csv", "county.csv (3)"]
    assert len(set(data["inputs"].values())) == 3


def test_counts_worked_out_from_another_table_are_masked(tables, tmp_path):
    """The county hides small counts; those of everybody narrow them, whoever has both tables."""
    args = ("fit", tables / "people.csv", tables / "county.csv", tmp_path / "cells.csv", *BOTH,
            "--formula", "age", "--public", "--output", tmp_path / "out")  # fmt: skip
    frame = pd.read_csv(tables / "age_group-sex.csv")
    hidden = frame["count"].between(1, 10)
    assert hidden.any()
    frame["count"] = frame["count"].astype(str).where(~hidden, "*")
    frame.to_csv(tmp_path / "cells.csv", index=False)
    result = run(*args, "--suppression", "cms")
    assert result.exit_code == 0, result.stderr
    assert result.stderr.endswith(
        "Small counts are masked in report.html, and model.json holds no counts: hidden counts of "
        "a table were narrowed by the others.\n"
    )
    assert "fewer than 11 people" in (tmp_path / "out" / "report.html").read_text()


def test_robust_fits_levels_alone_and_an_untrusted_fit_is_said_on_the_command_line(tmp_path):
    """Lognormal features and exponential noise: a gaussian fit reads slopes off the shape."""
    rng = np.random.default_rng(1)
    block = np.repeat([f"c{b:03d}" for b in range(80)], 60)
    x = np.exp(0.7 * rng.normal(size=4800) + 0.5 * rng.normal(size=80).repeat(60))
    y = 0.5 * x + 1.5 * rng.exponential(size=4800)
    pd.DataFrame({"county": block, "x": x}).to_csv(tmp_path / "people.csv", index=False)
    columns = unbin.aggregate(y, block, 6).to_columns()["histogram"]
    pd.DataFrame(columns).to_csv(tmp_path / "release.csv", index=False)
    args = ["fit", tmp_path / "people.csv", tmp_path / "release.csv", "--block", "county"]
    plain = run(*map(str, args), "--formula", "x")
    assert "not to be trusted" in plain.stdout
    assert "Warning: not to be trusted" in plain.stderr
    robust = run(*map(str, args), "--formula", "x", "--robust")
    assert "slopes are estimated from the levels of blocks alone" in " ".join(robust.stdout.split())
    assert "levels and shapes" not in robust.stderr


def test_people_who_lack_a_value(folder, tmp_path):
    people = pd.read_csv(folder / "people.csv", dtype={"county": str})
    people.loc[::25, "age"] = np.nan
    people.to_csv(tmp_path / "people.csv", index=False)
    args = ("fit", tmp_path / "people.csv", folder / "release.csv", "--block", "county",
            "--formula", "age + C(sex)", "--family", "gaussian")  # fmt: skip
    refused = run(*args)
    assert refused.exit_code == 1
    assert "column 'age', row 1: must have a value, got 80 of 2,000 missing; say" in refused.stderr
    dropped = run(*args, "--missing", "drop", "--output", tmp_path / "drop")
    assert (
        "Warning: missing: 80 of 2,000 people were dropped, who lack 'age' (80)" in dropped.stderr
    )
    saved = unbin.load(tmp_path / "drop" / "model.json")
    assert saved.n_people_ == 1920
    with pytest.warns(unbin.exceptions.AlignmentWarning, match="missing: 80 of 2,000"):
        model = unbin.glm(
            "age + C(sex)", people, {"county": folder / "release.csv"}, family="gaussian",
            missing="drop", random_state=0,
        )  # fmt: skip
    np.testing.assert_allclose(saved.coef_, model.coef_)
    marked = run(*args, "--missing", "mean")
    assert "age[missing]" in marked.stdout


def test_an_offset_is_a_column(folder, tmp_path):
    people = pd.read_csv(folder / "people.csv", dtype={"county": str})
    people["shift"] = 0.5 * people["age"]
    people.to_csv(tmp_path / "people.csv", index=False)
    args = ("fit", tmp_path / "people.csv", folder / "release.csv", "--block", "county",
            "--formula", "age", "--family", "gaussian", "--alpha", 0)  # fmt: skip
    run(*args, "--output", tmp_path / "plain")
    run(*args, "--offset", "shift", "--output", tmp_path / "shifted")
    plain, shifted = (unbin.load(tmp_path / each / "model.json") for each in ("plain", "shifted"))
    np.testing.assert_allclose(shifted.coef_, plain.coef_ - 0.5, rtol=1e-4)


def test_without_a_formula_the_columns_are_offered(folder):
    result = run("fit", folder / "people.csv", folder / "release.csv", "--block", "county")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: --formula: must name the features, got none; the colu")
    assert "write for example --formula '" in result.stderr


def test_errors_by_cluster(tmp_path):
    people = states(0, n=12, people=20, sd=0.4)
    frame = pd.DataFrame({"a": people.X[:, 0], "county": people.county, "state": people.state})
    frame.to_csv(tmp_path / "people.csv", index=False)
    release = unbin.aggregate(people.y, people.county, 7)
    to_frame(release.to_columns()["histogram"], "pandas").to_csv(tmp_path / "t.csv", index=False)
    asked = ["fit", tmp_path / "people.csv", tmp_path / "t.csv", "--block", "county"]
    asked += ["--formula", "a", "--family", "gaussian", "--cluster"]
    told = run(*asked, "state")
    assert "12 clusters (state, CR3)" in told.stdout
    wrong = run(*asked, "stat")
    assert wrong.exit_code == 1
    assert "'stat'" in wrong.stderr
