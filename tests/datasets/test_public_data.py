"""Public data: where it is looked for, what is read, and what is said when it is not there."""

import hashlib
import io
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from unbin.datasets import download, load_synpuf, load_texas, synpuf
from unbin.exceptions import DownloadError, OutputError, ParameterError, ReadError

FILES = Path(__file__).parent / "files"
SYNPUF = FILES / "synpuf_2008.csv"
DIGEST = "[0-9a-f]{64}"
TEXAS = FILES / "texas_4q2006.txt"


def zipped(name, content):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return stream.getvalue()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        answers = self.server.answers
        if self.path not in answers:
            self.send_error(404)
            return
        body, length = answers[self.path]
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    """Serve the file as CMS does, and in all the ways it may go wrong."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    content = SYNPUF.read_bytes()
    whole = zipped(synpuf.NAME, content)
    other = zipped("readme.txt", b"nothing")
    answers = {
        "/good.zip": (whole, len(whole)),
        "/truncated.zip": (whole[:-200], len(whole)),
        "/half.zip": (whole[:-200], len(whole) - 200),
        "/changed.zip": (changed := zipped(synpuf.NAME, content + b"x"), len(changed)),
        "/other.zip": (other, len(other)),
        "/page.zip": (b"<html>", 6),
    }
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.answers = answers
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_address[1]}"
    httpd.shutdown()
    thread.join()
    httpd.server_close()


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No data folder, an empty cache, and the digest of the small file."""
    monkeypatch.delenv("UNBIN_DATA", raising=False)
    monkeypatch.setenv("UNBIN_CACHE", str(tmp_path / "cache"))
    digest = hashlib.sha256(SYNPUF.read_bytes()).hexdigest()
    monkeypatch.setattr(synpuf, "SHA256", (digest,))
    monkeypatch.setattr(synpuf, "URL", "http://127.0.0.1:9/nobody-listens.zip")
    return tmp_path


def test_features_targets_and_counties_of_the_living():
    data = load_synpuf(SYNPUF)
    assert len(data) == 3
    assert data.n_dropped == 1
    assert data.X.shape == (3, 22)
    assert len(data.feature_names) == 22
    column = dict(zip(data.feature_names, data.X.T, strict=True))
    np.testing.assert_allclose(column["age"], [65.0, 72.33, 38.55], atol=0.01)
    np.testing.assert_array_equal(column["under 65"], [0, 0, 1])
    np.testing.assert_array_equal(column["female"], [0, 1, 1])
    np.testing.assert_array_equal(column["black"], [0, 1, 0])
    np.testing.assert_array_equal(column["hispanic"], [0, 0, 1])
    np.testing.assert_array_equal(column["ESRD"], [0, 1, 0])
    np.testing.assert_array_equal(column["CNCR"], [0, 0, 1])
    np.testing.assert_array_equal(column["PLAN_CVRG_MOS_NUM"], [0, 12, 7])
    assert data.blocks.tolist() == ["05-200", "05-010", "33-590"]
    np.testing.assert_array_equal(synpuf.states(data), [5, 5, 33])
    np.testing.assert_array_equal(data.target("MEDREIMB_CAR"), [700, 2680, 0])
    np.testing.assert_array_equal(data.target("PPPYMT_OP"), [0, 900, 0])
    assert len(data.targets) == 9


def test_some_of_the_people():
    data = load_synpuf(SYNPUF)
    some = data.take(data.target("MEDREIMB_CAR") > 0)
    assert some.X.shape == (2, 22)
    assert some.blocks.tolist() == ["05-200", "05-010"]
    np.testing.assert_array_equal(some.target("BENRES_CAR"), [240, 760])
    with pytest.raises(ParameterError, match=r"^target: must be one of MEDREIMB_IP.*got 'COST'$"):
        data.target("COST")


def test_parquet_and_csv_say_the_same(tmp_path):
    text = ["DESYNPUF_ID", "BENE_BIRTH_DT", "BENE_DEATH_DT", "BENE_ESRD_IND", "BENE_COUNTY_CD"]
    frame = pl.read_csv(SYNPUF, schema_overrides=dict.fromkeys(text, pl.String))
    frame.write_parquet(tmp_path / synpuf.FILES[0])
    ours, theirs = load_synpuf(tmp_path), load_synpuf(SYNPUF)
    np.testing.assert_array_equal(ours.X, theirs.X)
    np.testing.assert_array_equal(ours.blocks, theirs.blocks)
    for name, values in theirs.targets.items():
        np.testing.assert_array_equal(ours.targets[name], values)


def test_the_data_folder_comes_before_the_cache(nowhere, monkeypatch):
    monkeypatch.setenv("UNBIN_DATA", str(nowhere))
    cache = nowhere / "cache"
    cache.mkdir()
    lines = SYNPUF.read_text().splitlines(keepends=True)
    (cache / synpuf.NAME).write_text("".join(lines[:3]))
    assert len(load_synpuf()) == 2  # UNBIN_DATA holds no such file
    (nowhere / synpuf.NAME).write_text("".join(lines))
    assert len(load_synpuf()) == 3
    (nowhere / "mine.csv").write_text("".join(lines[:2]))
    assert len(load_synpuf(nowhere / "mine.csv")) == 1


def test_a_download_is_kept(nowhere, server, monkeypatch):
    monkeypatch.setattr(synpuf, "URL", f"{server}/good.zip")
    assert len(load_synpuf()) == 3
    assert [path.name for path in (nowhere / "cache").iterdir()] == [synpuf.NAME]
    monkeypatch.setattr(synpuf, "URL", f"{server}/gone.zip")
    assert len(load_synpuf()) == 3


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("gone.zip", r"cannot be fetched, got 404 Not Found; download it yourself"),
        ("truncated.zip", r"cannot be fetched, got [\d,]+ of [\d,]+ bytes; try again"),
        ("half.zip", r"cannot be fetched, got no whole zip archive \(.*\); try again"),
        ("page.zip", r"cannot be fetched, got no whole zip archive"),
        ("other.zip", rf"cannot be fetched, got an archive without {synpuf.NAME}; check"),
        (
            "changed.zip",
            rf"{synpuf.NAME} must have the sha256 {DIGEST}, got {DIGEST}; ",
        ),
    ],
)
def test_what_is_not_the_published_file_is_not_kept(nowhere, server, monkeypatch, file, message):
    url = f"{server}/{file}"
    monkeypatch.setattr(synpuf, "URL", url)
    with pytest.raises(DownloadError, match=f"^{url}: {message}"):
        load_synpuf()
    assert list((nowhere / "cache").iterdir()) == []


def test_nobody_listens(nowhere):
    with pytest.raises(DownloadError, match=r"cannot be fetched, got .*; check the connection$"):
        load_synpuf()


def test_a_download_has_a_limit(nowhere, server):
    digests = synpuf.SHA256
    for most, what in ((100, "more than 100 bytes"), (900, "a file of more than 900 bytes")):
        with pytest.raises(DownloadError, match=what):
            download.fetch_zipped(
                f"{server}/good.zip", synpuf.NAME, digests, nowhere, max_bytes=most
            )


def test_a_failed_download_leaves_the_old_file(nowhere, server):
    old = nowhere / synpuf.NAME
    old.write_text("old")
    with pytest.raises(DownloadError):
        download.fetch_zipped(f"{server}/changed.zip", synpuf.NAME, synpuf.SHA256, nowhere)
    assert old.read_text() == "old"


def test_a_cache_that_is_a_file(nowhere, monkeypatch):
    (nowhere / "cache").write_text("")
    with pytest.raises(OutputError, match="must be a folder"):
        load_synpuf()


def test_the_cache_is_among_the_users(monkeypatch, tmp_path):
    monkeypatch.delenv("UNBIN_CACHE", raising=False)
    for platform, variable, wanted in (
        ("linux", "XDG_CACHE_HOME", tmp_path / "unbin"),
        ("win32", "LOCALAPPDATA", tmp_path / "unbin"),
    ):
        monkeypatch.setattr("sys.platform", platform)
        monkeypatch.setenv(variable, str(tmp_path))
        assert download.cache_folder() == wanted
    monkeypatch.setattr("sys.platform", "darwin")
    assert download.cache_folder() == Path.home() / "Library" / "Caches" / "unbin"


def edited(tmp_path, source, old, new):
    path = tmp_path / f"edited{source.suffix}"
    text = source.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("MEDREIMB_CAR", "AMOUNT", r"must have the column 'MEDREIMB_CAR', got "),
        ("19360901", "1936", r"row 3, column 'BENE_BIRTH_DT': must be a date .*, got '1936'"),
        ("19360901", "19361301", r"row 3, column 'BENE_BIRTH_DT': must be a date"),
        (",33,590,", ",33,,", r"row 5, column 'BENE_COUNTY_CD': must be a county code, got ''"),
        ("2680.00", "", r"row 3, column 'MEDREIMB_CAR': must be a number, got 'nan'"),
        ("2680.00", "much", r"row 3, column 'MEDREIMB_CAR': must be a number, got 'much'"),
    ],
)
def test_another_file_is_refused(tmp_path, old, new, message):
    with pytest.raises(ReadError, match=message):
        load_synpuf(edited(tmp_path, SYNPUF, old, new))


def test_nobody_alive(tmp_path):
    lines = SYNPUF.read_text().splitlines(keepends=True)
    path = tmp_path / "dead.csv"
    path.write_text(lines[0] + lines[3])
    with pytest.raises(ReadError, match="must hold people alive at the end of 2008, got none"):
        load_synpuf(path)


def test_no_such_file(tmp_path):
    with pytest.raises(ReadError, match=r"must be a file, or a folder with synpuf_2008.*neither"):
        load_synpuf(tmp_path / "missing")
    with pytest.raises(ReadError, match=r"^missing\.txt: must be a file, got no such file"):
        load_texas(tmp_path / "missing.txt")


def test_parquet_that_is_none(tmp_path):
    (tmp_path / synpuf.FILES[0]).write_bytes(b"PAR1 and nothing else")
    with pytest.raises(ReadError, match="must be a whole table"):
        load_synpuf(tmp_path)


def test_parquet_without_a_library(tmp_path, monkeypatch):
    (tmp_path / synpuf.FILES[0]).write_bytes(b"PAR1")
    monkeypatch.setattr("unbin.people.reading.find_spec", lambda _: None)
    with pytest.raises(ReadError, match=r"Parquet needs pyarrow, got none; pip install 'unbin"):
        load_synpuf(tmp_path)


def test_texas_inpatients():
    data = load_texas(TEXAS)
    assert len(data) == 7
    assert data.n_dropped == 4  # sex, race or county not told, or no charges
    assert data.blocks.tolist() == ["201", "201", "113", "113", "215", "215", "439"]
    column = dict(zip(data.feature_names, data.X.T, strict=True))
    np.testing.assert_allclose(column["log length of stay"], np.log([3, 1, 12, 2, 5, 1, 9]))
    np.testing.assert_array_equal(column["age"], [52.5, 32.5, 77.5, 0, 93, 81, 62.5])
    np.testing.assert_array_equal(column["female"], [1, 0, 1, 0, 1, 0, 0])
    np.testing.assert_array_equal(column["black"], [0, 1, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(column["other"], [0, 0, 0, 1, 0, 0, 0])
    np.testing.assert_array_equal(column["hispanic"], [0, 0, 1, 1, 0, 0, 0])
    np.testing.assert_array_equal(data.target("length_of_stay"), [3, 1, 12, 2, 5, 0, 9])
    assert data.target("charges")[2] == 73444.10


def test_texas_of_other_years_calls_the_county_otherwise(tmp_path):
    data = load_texas(edited(tmp_path, TEXAS, "PAT_COUNTY", "COUNTY"))
    np.testing.assert_array_equal(data.blocks, load_texas(TEXAS).blocks)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("PAT_COUNTY", "FIPS", r"must have the column 'PAT_COUNTY' or 'COUNTY', got neither"),
        ("TOTAL_CHARGES", "CHARGES", r"must have the column 'TOTAL_CHARGES', got "),
        ("\t0012\t18\t", "\t0012\t99\t", r"row 4, column 'PAT_AGE': must be an age group .*'99'"),
        ("0012", "-0012", r"row 4, column 'LENGTH_OF_STAY': must be a number of days, got '-12.0'"),
        ("73444.10", "dear", r"row 4, column 'TOTAL_CHARGES': must be a number, got 'dear'"),
        ("\t4\t", "\t\t", None),
    ],
)
def test_another_texas_file_is_refused(tmp_path, old, new, message):
    path = edited(tmp_path, TEXAS, old, new)
    if message is None:
        assert load_texas(path).n_dropped > 4
        return
    with pytest.raises(ReadError, match=message):
        load_texas(path)


def test_nobody_is_told(tmp_path):
    path = tmp_path / "texas.txt"
    lines = TEXAS.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + lines[7])
    with pytest.raises(ReadError, match=r"must hold patients whose sex.*got none"):
        load_texas(path)
