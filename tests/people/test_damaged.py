"""Files of people that were damaged on the way, never end, or are too wide."""

import os

import numpy as np
import pytest

import unbin
from unbin.exceptions import CheckpointError, ModelFileError, ReadError
from unbin.people import reading as people
from unbin.people.reading import read_people

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N = 2000
X = np.random.default_rng(0).normal(size=N)


def write(path, columns, **options):
    options = {
        "write_page_checksum": True,
        "use_dictionary": False,
        "compression": "none",
    } | options
    pq.write_table(pa.table(columns), path, **options)


def flip(path, value):
    """Change one bit of a stored number, so that the file still reads well."""
    data = bytearray(path.read_bytes())
    place = data.index(np.float64(value).tobytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_a_flipped_bit_among_people_in_parts(tmp_path):
    path = tmp_path / "p.parquet"
    county = np.arange(N) % 20
    write(path, {"x": X, "county": county.astype(str)})
    release = unbin.aggregate(X, county)
    flip(path, X[1000])
    with pytest.raises(
        ReadError, match=r"^p\.parquet: must be a whole .* got damaged data \(.*CRC"
    ):
        unbin.AggregatedGLM().fit(path, release, block="county", features=["x"])


def test_a_flipped_bit_among_people_of_the_command_line(tmp_path):
    path = tmp_path / "p.parquet"
    write(path, {"x": X})
    read = read_people(str(path), text=[], columns=["x"]).columns["x"]
    np.testing.assert_array_equal(read, X)
    flip(path, X[1000])
    with pytest.raises(ReadError, match=r"^p\.parquet: must be a whole table .*CRC checksum"):
        read_people(str(path), text=[], columns=["x"])


def test_a_flipped_bit_in_a_release(tmp_path):
    path = tmp_path / "t.parquet"
    write(path, {"block": ["a"] * N, "value": X})
    assert unbin.read_release(path).n[0] == N
    flip(path, X[1000])
    with pytest.raises(
        ReadError, match=r"^t\.parquet.*: must be a whole Parquet file, got damaged"
    ):
        unbin.read_release(path)


def test_columns_of_parquet_come_as_those_of_text(tmp_path):
    columns = {
        "whole": pa.array([1, None, 3]),
        "flag": pa.array([True, False, True]),
        "text": pa.array(["a", None, "c"]),
        "category": pa.array(["a", None, "c"]).dictionary_encode(),
        "money": pa.array([1, None, 3], pa.decimal128(5, 2)),
    }
    write(tmp_path / "p.parquet", columns)
    read = read_people(str(tmp_path / "p.parquet"), text=[], columns=list(columns)).columns
    for name in ("whole", "money"):
        np.testing.assert_array_equal(read[name], [1.0, np.nan, 3.0])
    for name in ("text", "category"):
        assert list(read[name]) == ["a", None, "c"]
    assert list(read["flag"]) == [True, False, True]


# -- what never ends -------------------------------------------------------------------------------


@pytest.fixture(params=["pipe", "device"])
def endless(request, tmp_path):
    if request.param == "device":
        if not os.path.exists("/dev/zero"):
            pytest.skip("needs /dev/zero")
        return "/dev/zero"
    if not hasattr(os, "mkfifo"):
        pytest.skip("needs named pipes")
    os.mkfifo(tmp_path / "pipe.parquet")
    return str(tmp_path / "pipe.parquet")


def test_devices_and_pipes_are_refused_before_they_are_read(endless):
    release = unbin.aggregate(X, np.arange(N) % 20)
    with pytest.raises(ReadError, match=r"must be a file, got a device; check the path"):
        read_people(endless, text=[], columns=["x"])
    with pytest.raises(ReadError, match=r"must be a file, got a device; check the path"):
        unbin.read_release(endless)
    with pytest.raises(ReadError, match=r"must be a Parquet file, got a device; check the path"):
        unbin.AggregatedGLM().fit(endless, release, block="county", features=["x"])
    with pytest.raises(ModelFileError, match=r"must be a file, got a device; check the path"):
        unbin.load(endless)
    target = release.align(np.arange(N) % 20)
    with pytest.raises(CheckpointError, match=r"must be a file, got a device; name another"):
        unbin.AggregatedGLM(checkpoint=endless).fit(X[:, None], target)


def test_a_checkpoint_of_deep_nesting_is_refused(tmp_path):
    path = tmp_path / "c.json"
    path.write_text("[" * 100_000)
    target = unbin.aggregate(X, np.arange(N) % 20).align(np.arange(N) % 20)
    with pytest.raises(CheckpointError, match=r"must be a file that a fit wrote, got RecursionErr"):
        unbin.AggregatedGLM(checkpoint=path).fit(X[:, None], target)


@pytest.mark.parametrize("query", ["", " ;", "-- nothing"])
def test_a_query_that_asks_nothing(query):
    pytest.importorskip("duckdb")
    with pytest.raises(ReadError, match="duckdb: must be one SELECT, got no statement; write"):
        read_people(f"duckdb:{query}", text=[], columns=["x"])


# -- many columns ----------------------------------------------------------------------------------


def test_many_columns_are_read(tmp_path):
    names = [f"c{k}" for k in range(150_000)]  # names alone are over a megabyte
    (tmp_path / "p.csv").write_text(f"{','.join(names)}\n{','.join('1' * len(names))}\n")
    read = read_people(str(tmp_path / "p.csv"), text=[], columns=[names[5], names[-1]])
    assert (len(read.names), list(read.columns)) == (len(names), [names[5], names[-1]])


def test_a_header_that_never_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(people, "_LONGEST_HEADER", 100)
    (tmp_path / "p.csv").write_text(",".join(f"c{k}" for k in range(99)) + "\n")
    with pytest.raises(
        ReadError, match=r"p\.csv: the names of columns must take at most 100 bytes"
    ):
        read_people(str(tmp_path / "p.csv"), text=[], columns=["c1"])
