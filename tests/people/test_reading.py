"""Tables of people in every format, and queries: read alike, or refused."""

import gzip
from importlib.util import find_spec

import numpy as np
import pandas as pd
import polars as pl
import pytest

from unbin.exceptions import ReadError
from unbin.people.reading import read_people

LIBRARIES = {"polars": ["polars", "pandas"], "pandas": ["pandas"], "csv": []}


@pytest.fixture(params=LIBRARIES)
def _library(request, monkeypatch):
    """Leave some libraries that read CSV."""
    left = LIBRARIES[request.param]
    monkeypatch.setattr(
        "unbin.people.reading.find_spec",
        lambda name: None if name in {"polars", "pandas"}.difference(left) else find_spec(name),
    )


@pytest.mark.usefixtures("_library")
def test_every_format_gives_the_same_people(tmp_path):
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


@pytest.mark.usefixtures("_library")
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
def test_damaged_people_are_refused(data, message, tmp_path):
    (tmp_path / "people.csv").write_bytes(data)
    with pytest.raises(ReadError) as caught:
        read_people(str(tmp_path / "people.csv"), text=[], columns=["a", "b"])
    assert message in str(caught.value)


@pytest.mark.usefixtures("_library")
def test_quotes_and_short_rows_are_read_alike(tmp_path):
    (tmp_path / "x.csv").write_text('a,b,c\n"x\ny"," ""q"" ",2\n3\n 4 ,5\n')
    found = read_people(str(tmp_path / "x.csv"), text=["a", "b"], columns=["a", "b", "c"])
    assert found.columns["a"].tolist() == ["x\ny", "3", "4"]
    assert found.columns["b"].tolist() == ['"q"', None, "5"]
    np.testing.assert_array_equal(found.columns["c"], [2, np.nan, np.nan])


def test_people_that_are_not_there(tmp_path, monkeypatch):
    with pytest.raises(ReadError, match=r"x\.csv: must be a file, got no such file"):
        read_people(str(tmp_path / "x.csv"), text=[], columns=["a"])
    monkeypatch.setattr("unbin.people.reading.find_spec", {}.get)
    with pytest.raises(ReadError, match=r"queries need duckdb, got none; pip install 'unbin\[sql"):
        read_people("duckdb:SELECT 1", text=[], columns=["a"])


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


def test_a_query_reads_files_and_is_locked(tmp_path, monkeypatch):
    pytest.importorskip("duckdb")
    (tmp_path / "people.csv").write_text("x,y\n2,1\n3,5\n1,6\n")
    monkeypatch.chdir(tmp_path)

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


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_people_of_a_folder_and_of_a_pattern(kind, tmp_path):
    whole = pd.DataFrame({"id": ["007", "008", "009"], "age": [1.0, 2.0, 3.5]})
    for k, part in enumerate((whole[:2], whole[2:])):
        path = tmp_path / f"part{k}.{kind}"
        part.to_csv(path, index=False) if kind == "csv" else part.to_parquet(path)
    for source in (str(tmp_path), str(tmp_path / f"part*.{kind}")):
        people = read_people(source, text=["id"], columns=["id", "age"])
        assert people.column("id").tolist() == ["007", "008", "009"]
        assert people.column("age").tolist() == [1.0, 2.0, 3.5]
        assert len(people.sha256) == 64
    with pytest.raises(ReadError, match="must hold tables of people, got no file; name CSV"):
        read_people(str(tmp_path / "x*"), text=[], columns=["age"])


def test_files_of_a_folder_have_the_same_columns(tmp_path):
    (tmp_path / "a.csv").write_text("age,sex\n1,f\n")
    (tmp_path / "b.csv").write_text("age\n1\n")
    with pytest.raises(ReadError, match="same columns, got 'sex' in one of"):
        read_people(str(tmp_path), text=["sex"], columns=["age", "sex"])
