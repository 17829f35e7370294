"""Tables as agencies publish them: each dialect read, fitted and imputed."""

import gzip
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from tests.helpers.paths import FIXTURES
from unbin import AggregatedGLM, read_release
from unbin.exceptions import BinError, ParameterError, ReadError
from unbin.release.readers import DIALECTS

INF = float("inf")


def fixture(name, **options):
    return read_release(FIXTURES / name, **options)


def bins(release, block):
    table = release.histogram
    b = release.blocks.tolist().index(block)
    rows = slice(table.start[b], table.start[b + 1])
    return [a[rows].tolist() for a in (table.lower, table.upper, table.count)]


def intervals(release, block):
    table = release.histogram
    b = release.blocks.tolist().index(block)
    rows = slice(table.start[b], table.start[b + 1])
    low = table.count if table.count_low is None else table.count_low
    high = table.count if table.count_high is None else table.count_high
    return list(zip(low[rows].tolist(), high[rows].tolist(), strict=True))


def source(release):
    line = repr(release).partition("read as: ")[2].partition("\n")[0]
    return re.sub(r", (?:all|[\d,]+ of) [\d,]+ rows?(?=$|;)", "", line)


# -- tidy files ------------------------------------------------------------------------------------


def test_tidy_histogram():
    release = fixture("tidy_histogram.csv")
    assert release.blocks.tolist() == ["05001", "05003"]
    assert bins(release, "05001") == [[-INF, 10, 20], [10, 20, INF], [12, 30, 8]]
    assert release.histogram.closed == "right"
    assert source(release) == "tidy histogram, block 'block'"
    assert source(release.select(["05001"])) == source(release)
    assert (
        '<th scope="row">read as</th><td>tidy histogram, block &#x27;block&#x27;, all 5 rows</td>'
        in (release._repr_html_())
    )


def test_tidy_quantiles_values_means():
    order = fixture("tidy_quantiles.tsv")
    assert order.n.tolist() == [40, 60]
    assert order.order_statistics.value.tolist() == [1.5, 2, 3]
    values = fixture("tidy_values.csv", block="ward")
    assert source(values) == "tidy values, block 'ward'"
    assert values.order_statistics.value.tolist() == [0.5, 1.5, 3]
    means = fixture("tidy_means.csv")
    assert means.means.tolist() == [1.5, -0.25]
    assert means.n.tolist() == [40, 60]


def test_tidy_labels_and_percentages():
    release = fixture("tidy_labels.csv")
    assert bins(release, "05001") == [[0, 0, 4], [0, 4, INF], [20, 15, 3]]
    assert source(release) == "tidy labels, block 'county'"
    left = fixture("tidy_labels.csv", closed="left")
    assert bins(left, "05001") == [[0, 1, 5], [1, 5, INF], [20, 15, 3]]
    percent = fixture("tidy_percent.csv")
    assert bins(percent, "01") == [[-INF, 10], [10, INF], [20, 30]]


def test_rounded_percentages(write):
    text = "block,lower,upper,percent,n\na,,1,33.3%,1000\na,1,,66.7%,1000\n"
    release = read_release(write(text), rounding="nearest-0.1%")
    assert intervals(release, "a") == [(333, 333), (667, 667)]
    release = read_release(write(text.replace("1000", "9000")), rounding="nearest-0.1%")
    assert intervals(release, "a") == [(2993, 3001), (5999, 6007)]
    with pytest.raises(ParameterError, match="rounding: the table holds counts, got 'nearest-1%'"):
        fixture("tidy_histogram.csv", rounding="nearest-1%")


def test_everybody(write):
    release = read_release(write("lower,upper,count\n,5,2\n5,,3\n"))
    assert release.blocks.tolist() == ["all"]
    assert source(release) == "tidy histogram"
    labels = read_release(write("label,count\n0-4,2\n5+,3\n"))
    assert bins(labels, "all") == [[-1, 4], [4, INF], [2, 3]]


def test_ranks_and_totals(write):
    order = read_release(write("block,rank,value\na,1,0.5\na,2,0.75\n"))
    assert order.order_statistics.rank.tolist() == [1, 2]
    means = read_release(write("block,total,n\na,10,4\n"))
    assert means.means.tolist() == [2.5]


def test_options(write):
    path = write("place,year,band,people\na,2021,0-4,9\na,2022,0-4,7\na,2022,5+,1\n")
    release = read_release(
        path, block="place", label="band", count="people", where={"year": "2022"}
    )
    assert bins(release, "a") == [[-1, 4], [4, INF], [7, 1]]
    both = {"year": ["2021", 2022], "band": ["5+"]}
    again = read_release(path, block="place", label="band", count="people", where=both)
    assert again.n.tolist() == [1]


def test_bins_of_a_total(write):
    text = "block,label,count\na,0-4,9\na,5+,1\na,Unknown,2\na,Total,12\n"
    release = read_release(write(text))
    assert release.n.tolist() == [10]
    assert source(release) == "tidy labels, block 'block', 1 row of unknown value left out"


def test_a_total_less_a_hidden_count_is_unknown(write):
    text = "block,label,count\na,0-4,9\na,5+,<5\na,Unknown,<5\na,Total,12\n"
    release = read_release(write(text))
    assert intervals(release, "a") == [(9, 9), (0, 4)]
    assert release.n.tolist() == [0]


def test_tidy_intervals(write):
    release = fixture("tidy_suppressed.csv")
    assert intervals(release, "05001") == [(12, 12), (30, 30), (8, 8)]  # the total says it
    assert intervals(release, "05003") == [(1, 10), (30, 39)]
    assert (
        source(release)
        == "tidy histogram, block 'block', people 'n', 3 suppressed cells (1–10, 30–39)"
    )
    release = read_release(write("block,lower,upper,count\na,,0,*\na,0,,14\n"), suppression="cms")
    assert intervals(release, "a") == [(1, 10), (14, 14)]
    release = read_release(
        write("block,lower,upper,count\na,,0,5\na,0,,15\n"), rounding="nearest-5"
    )
    assert intervals(release, "a") == [(3, 7), (13, 17)]
    assert source(release) == "tidy histogram, block 'block', rounded (nearest-5)"


def test_sources_of_combined_releases():
    both = fixture("tidy_means.csv").combine(
        fixture("tidy_quantiles.tsv")
        .select(["01"])
        .combine(fixture("tidy_histogram.csv"))
        .select(["05001"])
    )
    assert source(both) == (
        "tidy means, block 'block', people 'n'; tidy quantiles, block 'block', people 'n'; tidy "
        "histogram, block 'block'"
    )


# -- containers ------------------------------------------------------------------------------------

TIDY = (FIXTURES / "tidy_histogram.csv").read_bytes()
FORMS = {
    "plain.csv": TIDY,
    "no-extension": TIDY,
    "packed.csv.gz": gzip.compress(TIDY),
    "packed-without-saying-so.csv": gzip.compress(TIDY),
    "two-members.gz": gzip.compress(TIDY[:30]) + gzip.compress(TIDY[30:]),
    "mark.csv": b"\xef\xbb\xbf" + TIDY,
    "utf16.csv": TIDY.decode().encode("utf-16"),
    "utf16be.csv": b"\xfe\xff" + TIDY.decode().encode("utf-16-be"),
    "dos.csv": TIDY.replace(b"\n", b"\r\n"),
    "old-mac.csv": TIDY.replace(b"\n", b"\r"),
    "tabs.tsv": TIDY.replace(b",", b"\t"),
    "semicolons.csv": TIDY.replace(b",", b";"),
    "blank-lines.csv": b"\n\n" + TIDY.replace(b"\n", b"\n\n") + b"\n , \n",
    "quoted.csv": TIDY.replace(b"05001", b'"05001"').replace(b"count", b'" count "'),
    "capitals.csv": TIDY.replace(b"block,lower", b"Block,LOWER"),
    "trailing-commas.csv": TIDY.replace(b"\n", b",\n"),
    "index.csv": b",".join([b"", TIDY.split(b"\n")[0]])
    + b"".join(b"\n%d," % k + line for k, line in enumerate(TIDY.split(b"\n")[1:-1])),
}


@pytest.mark.parametrize("name", FORMS)
def test_one_table_in_many_forms(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(FORMS[name])
    release = read_release(path)
    assert release.blocks.tolist() == ["05001", "05003"]
    assert release.histogram.count.tolist() == [12, 30, 8, 21, 19]
    assert read_release(str(path)).n.tolist() == [50, 40]


def test_latin_1_on_request(tmp_path):
    path = tmp_path / "old.csv"
    path.write_bytes("block,value\nKärnten,1\n".encode("latin-1"))
    assert read_release(path, encoding="latin-1").blocks.tolist() == ["Kärnten"]
    assert read_release(path, encoding="cp1252").blocks.tolist() == ["Kärnten"]
    path.write_bytes(b"\xef\xbb\xbfblock,value\na,1\n")
    assert read_release(path, encoding="utf-8").blocks.tolist() == ["a"]
    path.write_bytes("block,value\na,1\n".encode("utf-16-le"))
    assert read_release(path, encoding="utf-16").blocks.tolist() == ["a"]


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {
            "block": ["05001", "05001", "05003"],
            "lower": [np.nan, 10.0, -INF],
            "upper": [10, 20, INF],
            "count": [12, 30, 8],
        }
    )
    frame.to_parquet(tmp_path / "table.parquet")
    release = read_release(tmp_path / "table.parquet")
    assert release.blocks.tolist() == ["05001", "05003"]
    assert bins(release, "05001") == [[-INF, 10], [10, 20], [12, 30]]
    frame["block"] = pd.Categorical(["a", "a", "b"])
    frame.to_parquet(tmp_path / "categories.parquet")
    assert read_release(tmp_path / "categories.parquet").blocks.tolist() == ["a", "b"]
    frame["block"] = [1.0, 1.0, 2.0]
    frame.to_parquet(tmp_path / "numbers.parquet")
    assert read_release(tmp_path / "numbers.parquet").blocks.tolist() == ["1", "2"]


# -- dialects --------------------------------------------------------------------------------------


def test_acs():
    release = fixture("acs_b19001.csv")
    assert release.blocks.tolist() == [f"05{k:03d}" for k in range(1, 20, 2)]
    lower, upper, _ = bins(release, "05001")
    assert lower[:3] == [-INF, 10_000, 15_000]
    assert upper[-3:] == [150_000, 200_000, INF]
    assert release.histogram.closed == "left"
    assert source(release) == "acs, block 'GEO_ID'"
    long = fixture("acs_tidycensus.csv")
    for block in long.blocks:
        assert bins(long, block) == bins(release, block)


def test_acs_annotations():
    release, exact = fixture("acs_b19001_annotated.csv"), fixture("acs_b19001.csv")
    counts = bins(exact, "05019")[2]
    rest = sum(counts[-2:])
    assert intervals(release, "05019")[-2:] == [(0, rest), (0, rest)]
    assert intervals(release, "05019")[:-2] == [(c, c) for c in counts[:-2]]
    assert source(release) == "acs, block 'GEO_ID', 2 suppressed cells (0 or more)"


def test_acs_by_sex(write):
    head = "GEO_ID,NAME," + ",".join(f"B01001_{k:03d}E" for k in range(1, 8))
    labels = ["Total:", "Total:!!Male:", "Total:!!Male:!!Under 5 years", "Total:!!Male:!!5 years"]
    labels += ["Total:!!Female:", "Total:!!Female:!!Under 5 years", "Total:!!Female:!!5 years"]
    row2 = "Geography,Name," + ",".join("Estimate!!" + label for label in labels)
    release = read_release(write(f"{head}\n{row2}\n0400000US05,Arkansas,10,6,4,2,4,1,3\n"))
    assert release.blocks.tolist() == ["05"]
    assert bins(release, "05") == [[-INF, 5], [5, 6], [5, 5]]


def test_acs_long_labels(write):
    text = "GEOID,NAME,variable,estimate,moe,label\n"
    text += '05001,A,B25_001,7,1,"Estimate!!Total:"\n'
    text += '05001,A,B25_002,3,1,"Estimate!!Total:!!Less than $10,000"\n'
    text += '05001,A,B25_003,4,1,"Estimate!!Total:!!$10,000 or more"\n'
    assert bins(read_release(write(text)), "05001")[2] == [3, 4]
    named = "GEOID,NAME,variable,estimate,moe\n05001,A,under 5,3,1\n05001,A,5 and over,4,1\n"
    assert bins(read_release(write(named)), "05001")[2] == [3, 4]


def test_acs_without_people(write):
    head = "GEO_ID,NAME,B19001_001E,B19001_002E\n"
    head += 'a,b,Estimate!!Total:,"Estimate!!Total:!!Less than $10,000"\n'
    release = read_release(write(head + "1400000US01,x,0,0\n1400000US02,x,3,3\n"))
    assert release.blocks.tolist() == ["02"]


def test_nhs():
    release = fixture("nhs_contacts.csv")
    assert release.blocks.tolist()[0] == "R00A"
    assert bins(release, "R00A")[:2] == [[0, 0, 2, 4, 9], [0, 2, 4, 9, INF]]
    assert source(release).startswith("nhs, block 'PRIMARY_LEVEL', rounded (nearest-5)")
    wide = [b - a for block in release.blocks for a, b in intervals(release, block)]
    assert set(wide) <= {0, 4, 6}


def test_nhs_as_exact_counts(write):
    text = "ORG_CODE,AGE_BAND,VALUE\nRXX,0-4,13\nRXX,5+,8\n"
    release = read_release(write(text), rounding="none")
    assert bins(release, "RXX") == [[0, 5], [5, INF], [13, 8]]


def test_a_new_dialect_need_not_know_about_files(write, monkeypatch):
    def refuse(sheet, options):
        raise BinError("a complaint, got nothing; do it")

    mine = SimpleNamespace(recognises=lambda sheet: sheet.header == ["mine"], read=refuse)
    monkeypatch.setitem(DIALECTS, "mine", mine)
    with pytest.raises(ReadError, match=r"^table\.csv: a complaint, got nothing; do it$"):
        read_release(write("mine\n1\n"))


def test_a_dialect_can_be_named(write):
    agencies = {"acs", "abs", "bls", "cdc-wonder", "cms", "elections", "eurostat", "irs", "nhs"}
    assert set(DIALECTS) == agencies | {"plain", "tidy"}
    text = "FIPS,Age_Group,Count\n01001,Under 65,11\n01001,65+,12\n"
    assert source(read_release(write(text), dialect="cms")) == "cms, block 'FIPS'"


# -- fit and impute --------------------------------------------------------------------------------


def people_in_bins(release, rng):
    """Return blocks and targets that fit the release, bin by bin."""
    table = release.histogram
    width = np.median((table.upper - table.lower)[np.isfinite(table.upper - table.lower)])
    low = np.where(np.isfinite(table.lower), table.lower, table.upper - max(width, 1))
    high = np.where(np.isfinite(table.upper), table.upper, table.lower + max(width, 1))
    blocks = np.repeat(np.repeat(release.blocks, np.diff(table.start)), table.count)
    spread = np.repeat(high - low, table.count) * rng.uniform(0.01, 0.99, table.count.sum())
    return blocks, np.repeat(low, table.count) + spread


def people_at_quantiles(release, rng, n=60):
    order = release.order_statistics
    blocks, y = [], []
    for b, name in enumerate(release.blocks):
        rows = slice(order.start[b], order.start[b + 1])
        q, v = order.quantile[rows], order.value[rows]
        values = np.interp(np.arange(1, n + 1) / n, q, v)
        values[np.ceil(q * n - 1e-9).astype(int) - 1] = v
        blocks += [name] * n
        y += values.tolist()
    return np.array(blocks), np.array(y)


NURSES = {"where": {"OCC_TITLE": "Registered Nurses"}}
EURO = {"where": {"currency": "EUR", "TIME_PERIOD": "2023"}}


def check_fits(z, blocks, release):
    """Imputed targets give back what was published: as many below each edge, the same quantiles."""
    table, order = release.histogram, release.order_statistics
    low = table.count if table.count_low is None else table.count_low
    high = table.count if table.count_high is None else table.count_high
    for b, name in enumerate(release.blocks):
        mine = np.sort(z[blocks == name])
        rows = slice(table.start[b], table.start[b + 1])
        least, most = np.cumsum(low[rows]), np.cumsum(high[rows])
        slack = 1e-6 * np.abs(mine).max()
        for edge, a, c in zip(table.upper[rows], least, most, strict=True):
            assert (mine < edge - slack).sum() <= c
            assert (mine <= edge + slack).sum() >= a
        rows = slice(order.start[b], order.start[b + 1])
        ranks = np.ceil(order.quantile[rows] * len(mine) - 1e-9).astype(int)
        np.testing.assert_allclose(mine[ranks - 1], order.value[rows])


RTT = {"where": {"RTT Part Type": "Part_2"}}
CASES = [
    pytest.param("tidy_labels.csv", "poisson", {}, id="tidy"),
    pytest.param("acs_b19001.csv", "gaussian", {}, id="acs"),
    pytest.param("acs_b19001_annotated.csv", "gaussian", {}, id="acs-notes"),
    pytest.param("acs_aff_b19001.csv", "gaussian", {}, id="acs-factfinder"),
    pytest.param("bls_oews_states.csv", "gaussian", NURSES, id="bls"),
    pytest.param("wonder_ages.txt", "gaussian", {}, id="wonder"),
    pytest.param("wonder_deaths.txt", "binomial", {}, id="wonder-events"),
    pytest.param("cms_providers.csv", "gaussian", {}, id="cms"),
    pytest.param("nhs_contacts.csv", "poisson", {}, id="nhs"),
    pytest.param("nhs_rtt.csv", "gaussian", RTT, id="nhs-waiting"),
    pytest.param("nhs_registrations.csv", "gaussian", {"where": {"SEX": "MALE"}}, id="nhs-sex"),
    pytest.param("plain_communes.csv", "gaussian", {}, id="plain"),
    pytest.param("plain_wide.csv", "poisson", {}, id="plain-wide"),
    pytest.param("eurostat_ilc_di01.tsv", "gaussian", EURO, id="eurostat"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "family", "options"), CASES)
def test_what_an_agency_published_is_public(name, family, options):
    assert fixture(name, **options).public == (not name.startswith(("tidy", "plain")))
    assert fixture(name, public=True, **options).public
    assert not fixture(name, public=False, **options).public
    with pytest.raises(ParameterError, match="public: must be a bool, got 1"):
        fixture(name, public=1, **options)


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
@pytest.mark.parametrize("method", ["likelihood", "matching"])
@pytest.mark.parametrize(("name", "family", "options"), CASES)
def test_read_fit_impute(name, family, options, method):
    rng = np.random.default_rng(3)
    release = fixture(name, **options)
    people = people_in_bins if len(release.histogram.count) else people_at_quantiles
    blocks, y = people(release, rng)
    if family != "gaussian":
        y = np.ceil(y)
    scale = y.std()
    noise = 1.5 if family == "binomial" else 0.5  # features must not tell 0 from 1 for certain
    X = ((y - y.mean()) / scale + noise * rng.normal(size=len(y)))[:, None]
    model = AggregatedGLM(family, method, alpha=0.0).fit(X, release.align(blocks))
    assert model.coef_[0] > 0
    z = model.impute()
    assert z.shape == y.shape
    assert np.isfinite(z).all()
    assert np.corrcoef(z, y)[0, 1] > 0.4
    if method == "matching":
        check_fits(z, blocks, release)


# -- settings --------------------------------------------------------------------------------------

SETTINGS = [
    (
        {"dialect": "csv"},
        "dialect: unknown, got 'csv'; use one of 'acs', 'irs', 'bls', 'cdc-wonder'",
    ),
    ({"encoding": "zlib"}, "encoding: unknown, got 'zlib'; use one of 'utf-8', 'utf-16'"),
    ({"closed": "neither"}, "closed: unknown, got 'neither'; use one of 'right', 'left', 'both'"),
    ({"suppression": "x"}, "suppression: unknown, got 'x'; use one of 'none', 'acs'"),
    ({"rounding": "5"}, "rounding: unknown, got '5'; say for example 'nearest-5'"),
    ({"rounding": 5}, "rounding: unknown, got 5; say for"),
    ({"max_bytes": 0}, "max_bytes: must be a whole number, got 0; pass 1 or more"),
    ({"block": 3}, "block: must be the name of a column, got 3; pass text"),
    ({"where": ["a"]}, r"where: must map columns to the values to keep, got \['a'\]; pass for"),
    ({"where": {"block": 1.5}}, r"where: 'block' must be text or a list of texts, got 1.5; pass"),
]


@pytest.mark.parametrize(("options", "message"), SETTINGS)
def test_settings(options, message):
    with pytest.raises(ParameterError, match=message):
        fixture("tidy_histogram.csv", **options)


def test_path_of_another_type():
    with pytest.raises(ParameterError, match="path: must be the path of a file, got int; pass"):
        read_release(3)


def test_several_columns_of_blocks_are_crossed(tmp_path):
    path = tmp_path / "crossed.csv"
    path.write_text("Age,sex,lower,upper,count\n65-74,f,,2,3\n65-74,m,,2,4\n75+,f,,2,5\n")
    release = read_release(path, block=["age", "sex"])
    assert release.blocks.tolist() == ["65-74 | f", "65-74 | m", "75+ | f"]
    assert release.n.tolist() == [3, 4, 5]
    path.write_text("age,sex,label,count\n65-74,f,0 to 4,3\n65-74,m,0 to 4,4\n")
    labelled = read_release(path, block=("age", "sex"))
    assert labelled.blocks.tolist() == ["65-74 | f", "65-74 | m"]
    path.write_text("age,sex,lower,upper,count\n65-74,,,2,3\n")
    with pytest.raises(ReadError, match="row 2, column 'age, sex': every row needs a block id"):
        read_release(path, block=["age", "sex"])
    for bad in ([], ["age", 3]):
        with pytest.raises(ParameterError, match="block: must be the name of a column"):
            read_release(path, block=bad)
