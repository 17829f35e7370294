"""The commands as a user calls them: what they print, write and return."""

import csv
import gzip
import json
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

import unbin
from unbin.cli import app
from unbin.cli.records import command_line
from unbin.exceptions import ReadError
from unbin.people.reading import read_people

COMMANDS = ("check", "fit", "predict", "aggregate", "audit", "demo")
FORMULA = "age + C(sex) + log(los)"

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


def run(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def simulate():
    rng = np.random.default_rng(0)
    county = np.repeat([f"{5001 + 2 * c:05d}" for c in range(40)], 50)
    age = rng.normal(50, 10, 2000) + rng.normal(0, 6, 40).repeat(50)
    sex = np.where(rng.random(2000) < rng.uniform(0.2, 0.8, 40).repeat(50), "f", "m")
    los = np.exp(rng.normal(1, 0.4, 2000) + rng.normal(0, 0.3, 40).repeat(50))
    cost = 0.1 * age - (sex == "m") + 2 * np.log(los) + rng.normal(size=2000)
    return pd.DataFrame({"county": county, "age": age, "sex": sex, "los": los, "cost": cost})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with people, their release, and a fit."""
    place = tmp_path_factory.mktemp("cli")
    simulate().round(3).to_csv(place / "people.csv", index=False)
    made = run(
        "aggregate", place / "people.csv", "--target", "cost", "--block", "county",
        "--bins", 6, "--output", place / "release.csv",
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    fit = run(
        "fit", place / "people.csv", place / "release.csv", "--block", "county",
        "--formula", FORMULA, "--output", place / "out",
    )  # fmt: skip
    assert fit.exit_code == 0, fit.output
    (place / "fit.txt").write_text(fit.stdout)
    return place


@pytest.fixture
def small(tmp_path):
    """Return a folder with seven people in two counties."""
    (tmp_path / "people.csv").write_text(
        "county,y,x\n05001,1,1\n05001,2,2\n05001,3,3\n05001,4,4\n05003,1,2\n05003,5,3\n05003,6,1\n"
    )
    (tmp_path / "release.csv").write_text(
        "block,lower,upper,count\n05001,,3,3\n05001,3,,1\n05003,,3,1\n05003,3,,2\n"
    )
    return tmp_path


# -- check -----------------------------------------------------------------------------------------


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


# -- aggregate -------------------------------------------------------------------------------------


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


# -- fit -------------------------------------------------------------------------------------------


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


def test_matching_prints_what_it_has(small):
    result = run(
        "fit", small / "people.csv", small / "release.csv", "--block", "county", "--formula", "x",
        "--method", "matching", "--output", small / "out",
    )  # fmt: skip
    lines = result.stdout.splitlines()
    assert lines[0] == "                  coef"
    assert lines[1].startswith("intercept ")
    assert lines[4] == (
        "Matching takes noise for signal and has no standard errors; see --method likelihood."
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


# -- predict ---------------------------------------------------------------------------------------


def test_predict_prints_and_writes_csv(folder, tmp_path):
    (tmp_path / "new.csv").write_text("who,age,sex,los\n=cmd(),50,f,2\n007,60,m,3\n")
    model = unbin.load(folder / "out" / "model.json")
    frame = pd.DataFrame(
        {"age": [50.0, 60.0], "C(sex)[T.m]": [0.0, 1.0], "log(los)": np.log([2.0, 3.0])}
    )
    first, second = model.predict(frame).tolist()
    args = ("predict", folder / "out" / "model.json", tmp_path / "new.csv")
    result = run(*args)
    assert result.stdout == f"prediction\n{first!r}\n{second!r}\n"
    result = run(*args, "--id", "who", "--output", tmp_path / "p.csv")
    assert result.stdout == f"2 predictions written: {tmp_path / 'p.csv'}\n"
    assert (tmp_path / "p.csv").read_text() == (
        f"who,prediction\n'=cmd(),{first!r}\n007,{second!r}\n"
    )


def test_predict_names_what_is_wrong(folder, tmp_path):
    model = folder / "out" / "model.json"
    for text, message in [
        ("age,sex,los\n50,x,2\n", "Error: column 'sex', row 0 (counted from 0): category 'x' was "
         "not in the fit, which knows 'f', 'm'; 1 such, leave those people out or fit again\n"),
        ("age,sex,los\n50,f,\n60,f,2\n", "Error: column 'los', row 0 (counted from 0): must have a "
         "value, got 1 missing; fill them, or leave those people out of the release too\n"),
        ("age,sex,los\n50,f,NA\n60,f,2\n", "Error: column 'los', row 0 (counted from 0): must have "
         "a value, got 1 missing; fill them, or leave those people out of the release too\n"),
        ("age,sex,los\n50,f,0\n", "Error: log(los), row 0 (counted from 0): must be finite, got "
         "-inf; is a log or root of 0 or of a negative number taken?\n"),
        ("age,sex\n50,f\n", "Error: new.csv: must have the column 'los', got 'age', 'sex'; check "
         "its name\n"),
    ]:  # fmt: skip
        (tmp_path / "new.csv").write_text(text)
        result = run("predict", model, tmp_path / "new.csv")
        assert (result.exit_code, result.stdout, result.stderr) == (1, "", message)


def test_predict_with_a_model_saved_in_python(small):
    frame = pd.read_csv(small / "people.csv")
    unbin.save(unbin.AggregatedGLM().fit(frame[["x"]], frame["y"]), small / "m.json")
    result = run("predict", small / "m.json", small / "people.csv")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 8)
    unbin.save(unbin.AggregatedGLM().fit(frame[["x"]].to_numpy(), frame["y"]), small / "m.json")
    result = run("predict", small / "m.json", small / "people.csv")
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: model: must know the names of its features, got none; save it with encoding=..., "
        "or fit it to a frame\n",
    )
    (small / "m.json").write_text("{}")
    result = run("predict", small / "m.json", small / "people.csv")
    assert result.stderr.startswith("Error: m.json: must be a model that unbin saved, got other")


# -- people ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_every_format_gives_the_same_people(library, tmp_path, monkeypatch):
    if library == "pandas":
        monkeypatch.setattr(
            "unbin.people.reading.find_spec",
            lambda name: None if name == "polars" else find_spec(name),
        )
    frame = pl.DataFrame(
        {"id": ["05001", "00", "é[bold]"], "x": [1.5, None, 3.0], "c": ["a", "b,;", None]}
    )
    text = frame.write_csv()
    tabs = frame.write_csv(separator="\t")
    files = {
        "a.csv": text.encode(),
        "bom.csv": b"\xef\xbb\xbf" + text.encode(),
        "crlf.csv": text.replace("\n", "\r\n").encode(),
        "a.tsv": tabs.encode(),
        "semicolon.csv": frame.write_csv(separator=";").encode(),
        "a.csv.gz": gzip.compress(text.encode()),
        "no-suffix": gzip.compress(text.encode()),
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    frame.write_parquet(tmp_path / "a.parquet")
    frame.with_columns(pl.col("c").cast(pl.Categorical)).write_parquet(tmp_path / "c.parquet")
    for name in [*files, "a.parquet", "c.parquet"]:
        people = read_people(str(tmp_path / name), text=["id", "c"], columns=["id", "x", "c"])
        assert [str(value) for value in people.columns["id"]] == ["05001", "00", "é[bold]"], name
        np.testing.assert_array_equal(people.columns["x"], [1.5, np.nan, 3.0])
        c = [None if value is None or value != value else value for value in people.columns["c"]]
        assert c == ["a", "b,;", None], name
        assert len(people.sha256) == 64


@pytest.mark.parametrize("library", ["polars", "pandas"])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "people.csv: must begin with the names of columns, got none; add them"),
        (b"a,a\n1,2\n", "people.csv: columns must have different names, got 'a' twice"),
        (b"a,b\n", "people.csv: must hold people, got none"),
        (b"b,c\n1,2\n", "people.csv: must have the column 'a', got 'b', 'c'; check its name"),
        (b"a,b\n1,2\n1,2,3\n", "people.csv: must be a whole table in UTF-8 or Parquet, got"),
        (b"a,b\n1,\xff\n" * 3, "people.csv: must be a whole table in UTF-8 or Parquet, got"),
        (b"PAR1....", "people.csv: must be a whole table in UTF-8 or Parquet, got"),
        (b"\x1f\x8b\x08", "people.csv: must be a whole table in UTF-8 or Parquet, got"),
    ],
)
def test_damaged_people_are_refused(library, data, message, tmp_path, monkeypatch):
    if library == "pandas":
        monkeypatch.setattr(
            "unbin.people.reading.find_spec",
            lambda name: None if name == "polars" else find_spec(name),
        )
    (tmp_path / "people.csv").write_bytes(data)
    with pytest.raises(ReadError) as caught:
        read_people(str(tmp_path / "people.csv"), text=[], columns=["a", "b"])
    assert message in str(caught.value)


def test_people_that_are_not_there(tmp_path, monkeypatch):
    with pytest.raises(ReadError, match=r"x\.csv: must be a file, got no such file"):
        read_people(str(tmp_path / "x.csv"), text=[], columns=["a"])
    (tmp_path / "x.csv").write_text("a\n1\n")
    monkeypatch.setattr("unbin.people.reading.find_spec", {}.get)
    with pytest.raises(ReadError, match="reading people needs polars or pandas, got neither"):
        read_people(str(tmp_path / "x.csv"), text=[], columns=["a"])
    with pytest.raises(ReadError, match=r"queries need duckdb, got none; pip install 'unbin\[sql"):
        read_people("duckdb:SELECT 1", text=[], columns=["a"])


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


@pytest.mark.parametrize(
    ("query", "got"),
    [
        ("COPY (SELECT 1 AS a) TO 'out.csv'", "COPY"),
        ("SELECT 1 AS a; COPY (SELECT 1 AS a) TO 'out.csv'", "SELECT, COPY"),
        ("ATTACH 'other.db'", "ATTACH"),
        ("INSTALL httpfs", "LOAD"),
        ("LOAD httpfs", "LOAD"),
        ("SET lock_configuration = false", "SET"),
        ("CREATE TABLE t AS SELECT 1 AS a", "CREATE"),
        ("EXPORT DATABASE 'out'", "EXPORT"),
        (" ; ", "no statement"),
        ("", "no statement"),
    ],
)
def test_a_query_is_one_select(query, got, tmp_path, monkeypatch):
    pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ReadError, match=f"^duckdb: must be one SELECT, got {got}; write the query"):
        read_people(f"duckdb:{query}", text=[], columns=["a"])
    assert list(tmp_path.iterdir()) == []


def test_a_query_reads_files_and_is_locked(small, monkeypatch):
    pytest.importorskip("duckdb")
    monkeypatch.chdir(small)

    def ask(query, *columns):
        return read_people(f"duckdb:{query}", text=[], columns=columns).columns

    people = ask("WITH p AS (FROM 'people.csv') SELECT x, y FROM p WHERE y > 4;", "x", "y")
    assert people["x"].tolist() == [3, 1]
    on = ("lock_configuration", "enable_external_access")
    off = ("autoinstall_known_extensions", "autoload_known_extensions", "allow_persistent_secrets",
           "allow_community_extensions", "python_enable_replacements")  # fmt: skip
    for names, wanted in ((on, True), (off, False)):
        for name in names:
            found = ask(f"SELECT lower(current_setting('{name}')::VARCHAR) = 'true' AS a", "a")
            assert found["a"].tolist() == [wanted], name
    with pytest.raises(ReadError, match="duckdb: the query cannot be run, got"):
        ask("SELECT x FROM 'https://127.0.0.1:1/people.csv'", "x")
    with pytest.raises(ReadError, match="Table with name columns does not exist"):
        ask("SELECT a FROM columns", "a")  # a variable of the program


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


# -- what is masked --------------------------------------------------------------------------------


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


def test_a_folder_is_tried_before_the_work(small, monkeypatch):
    def fail(*args, **kwargs):
        raise AssertionError("the work has begun")

    (small / "file").write_text("")
    monkeypatch.setattr("unbin.people.reading.read_people", fail)
    monkeypatch.setattr(import_module("unbin.cli.demo"), "simulate", fail)
    for command in (
        ("fit", small / "people.csv", small / "release.csv", "--block", "county", "--formula", "x"),
        ("audit", small / "people.csv", "--target", "y"),
        ("demo",),
    ):
        for place in ("file", "file/deeper"):
            result = run(*command, "--output", small / place)
            assert result.exit_code == 1
            start = f"Error: {small / place}: must be a folder to write to, got Not a directory"
            assert result.stderr.startswith(start)


# -- hostile names ---------------------------------------------------------------------------------


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


def test_block_ids_that_a_spreadsheet_would_run_are_escaped(tmp_path):
    (tmp_path / "p.csv").write_text("b,y\n=1+1,1\n-5,2\n@x,3\n")
    result = run("aggregate", tmp_path / "p.csv", "--target", "y", "--block", "b", "--bins", 1)
    assert result.stdout == "block,lower,upper,count\n-5,,,1\n'=1+1,,,1\n'@x,,,1\n"
    assert result.stderr == (
        "Warning: 2 block ids look like spreadsheet formulas and were written with an apostrophe "
        "in front, for example '=1+1'\n"
    )


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


# -- errors and help -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["check", "P", "R"], 2, "--block: must name the column of blocks, got none; add it"),
        (["check", "none.csv", "R", "--block", "county"], 1,
         "none.csv: must be a file, got no such file; check the path"),
        (["check", "P", "none.csv", "--block", "county"], 1,
         "none.csv: must be a file, got no such file; check the path"),
        (["check", "P", "R", "--block", "town"], 1,
         "people.csv: must have the column 'town', got 'county', 'y', 'x'; check its name"),
        (["fit", "P", "R", "--block", "county", "--formula", "x", "--alpha", "much"], 2,
         "--alpha: must be a number or auto, got 'much'; write for example 0.01"),
        (["fit", "P", "R", "--block", "county", "--formula", "x", "--contextual", "on"], 2,
         "--contextual: unknown, got 'on'; use one of 'no', 'yes', 'auto'"),
        (["fit", "P", "R", "--block", "county", "--formula", "x", "--level", "2"], 2,
         "--level: must lie between 0 and 1, got 2.0; pass for example 0.95"),
        (["fit", "P", "R", "--block", "county", "--formula", "z"], 1,
         "people.csv: must have the column 'z', got 'county', 'y', 'x'; check its name"),
        (["fit", "P", "R", "--formula", "x"], 1,
         "blocks: the release has 2 blocks, got no block ids; pass the block of each row of X"),
        (["aggregate", "P", "--target", "y", "--bins", "many"], 2,
         "--bins: must be a number of bins or edges between commas, got 'many'; write for example "
         "10, or -inf,0,10,inf"),
        (["aggregate", "P", "--target", "y", "--output", "none/r.csv"], 1, "cannot be written"),
    ],
)  # fmt: skip
def test_errors_are_one_line(small, args, code, message, monkeypatch):
    monkeypatch.chdir(small)
    names = {"P": "people.csv", "R": "release.csv"}
    args = [names.get(arg, arg) for arg in args]
    result = run(*args)
    assert result.exit_code == code
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("Error: ")
    assert message in result.stderr
    debug = run(*args, "--debug")
    assert isinstance(debug.exception, Exception)
    assert not isinstance(debug.exception, SystemExit)


def test_an_unexpected_error_is_one_line_too(small, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("boom")

    monkeypatch.setattr("unbin.people.reading.read_people", fail)
    result = run("check", small / "people.csv", small / "release.csv", "--block", "county")
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: unexpected RuntimeError: boom; run again with --debug and report what it shows\n",
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"Example: unbin {command}" in result.output


def test_a_wrong_option_is_refused():
    assert run("demo", "--speed", "1").exit_code == 2
    assert run("fit").exit_code == 2
    assert run("paint").exit_code == 2


def test_help_imports_no_numerics():
    code = (
        "import sys; from typer.testing import CliRunner; from unbin.cli import app; "
        "result = CliRunner().invoke(app, ['--help']); assert 'aggregate' in result.output; "
        "result = CliRunner().invoke(app, ['fit', '--help']); assert 'alpha' in result.output; "
        "heavy = ('numpy', 'numba', 'sklearn', 'scipy', 'pandas', 'polars', 'formulaic'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


# -- demo ------------------------------------------------------------------------------------------


def test_demo_prints_estimates_beside_the_truth(tmp_path):
    result = run("demo", "--seed", "1", "--output", tmp_path)
    assert result.exit_code == 0
    for wanted in ("truth", "oracle", "likelihood ± standard error", "matching", "age", "-0.500"):
        assert wanted in result.output
    assert "identified: 150 blocks" in result.output
    assert run("demo", "--seed", "1", "--output", tmp_path).output == result.output
    assert result.stdout.splitlines()[-1] == f"Report: {tmp_path / 'report.html'}"
    assert (tmp_path / "report.html").exists()


def test_the_log_of_an_outcome_is_modelled_on_request(tmp_path):
    """Coefficients are those of the log, predictions are of the outcome itself."""
    people = simulate()
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
