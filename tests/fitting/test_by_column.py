"""Tables given by the columns of their blocks: what is taken, and what is refused."""

import numpy as np
import pandas as pd
import pytest

import unbin
from unbin import AggregatedGLM
from unbin._frames import as_text
from unbin.exceptions import AggregatedTargetError, AlignmentError, ParameterError, ReadError
from unbin.fitting.by_column import as_by_column, tables_of

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "x": RNG.normal(size=80),
        "county": np.repeat(["a", "b", "c", "d"], 20),
        "sex": np.tile(["f", "m"], 40),
        "age": np.tile([40, 40, 50, 50], 20),
    }
)
Y = RNG.normal(size=80)


def table(*columns):
    """Return a release of the cells of some columns."""
    ids = FRAME[list(columns)] if len(columns) > 1 else FRAME[columns[0]]
    return unbin.aggregate(Y, as_text(ids, where=""), bins=3)


def fit(y, X=FRAME, **changes):
    return AggregatedGLM().fit(X, y, **({"features": ["x"]} | changes))


COUNTY, SEX = table("county"), table("sex")

BAD = [
    (
        "empty",
        lambda: fit({}),
        AggregatedTargetError,
        r"y: must map columns of X to tables, got none; pass \{column: release\}",
    ),
    (
        "not a release",
        lambda: fit({"county": COUNTY, "sex": Y}),
        AggregatedTargetError,
        r"y\['sex'\]: must be a release, got ndarray; pass",
    ),
    (
        "aligned",
        lambda: fit({"sex": SEX.align(FRAME["sex"])}),
        AggregatedTargetError,
        r"y\['sex'\]: must be a release, got AggregatedTarget",
    ),
    (
        "block too",
        lambda: fit({"county": COUNTY}, block="county"),
        ParameterError,
        "block: must be left out where y maps columns to tables, got both",
    ),
    (
        "unknown column",
        lambda: fit({"county": COUNTY, ("age", "sexe"): SEX}),
        ParameterError,
        "y: must name columns of X, got 'sexe', X has 'x', 'county', 'sex', 'age'; check",
    ),
    (
        "key is a number",
        lambda: fit({0: COUNTY}),
        ParameterError,
        "y: its keys must be names of columns, or tuples of them, got 0; correct it",
    ),
    (
        "key has no names",
        lambda: fit({(): COUNTY}),
        ParameterError,
        r"y: its keys must be names of columns, or tuples of them, got \(\)",
    ),
    (
        "column crossed with itself",
        lambda: fit({("sex", "sex"): SEX}),
        ParameterError,
        r"y: the columns of a table must differ, got \('sex', 'sex'\); name each once",
    ),
    (
        "columns twice",
        lambda: fit({"sex": SEX, ("sex",): COUNTY}),
        ParameterError,
        r"columns of its own, got 'sex' and \('sex',\); leave one out, or combine",
    ),
    (
        "columns in another order",
        lambda: fit({("age", "sex"): table("age", "sex"), ("sex", "age"): table("sex", "age")}),
        ParameterError,
        "y: every table must have columns of its own",
    ),
    (
        "table twice",
        lambda: fit({"county": COUNTY, "sex": COUNTY}),
        ParameterError,
        "y: 'county' and 'sex' are the same table, got it twice; pass it once",
    ),
    (
        "features not listed",
        lambda: fit({"county": COUNTY}, features=None),
        ParameterError,
        "features: must list the columns that are features, got None",
    ),
    (
        "features unknown",
        lambda: fit({"county": COUNTY}, features=["x", "z"]),
        ParameterError,
        "features: must name columns of X, got 'z', X has",
    ),
    (
        "feature twice",
        lambda: fit({"county": COUNTY}, features=["x", "x"]),
        ParameterError,
        "features: must differ, got 'x' twice; list it once",
    ),
    (
        "offset unknown",
        lambda: fit({"county": COUNTY}, offset="exposure"),
        ParameterError,
        "offset: must name columns of X, got 'exposure', X has",
    ),
    (
        "array",
        lambda: fit({"county": COUNTY}, FRAME[["x"]].to_numpy()),
        ParameterError,
        "y: tables by columns of X need files or a frame, got ndarray; pass one of these",
    ),
    (
        "other people",
        lambda: fit({"county": COUNTY}, FRAME[5:]),
        AlignmentError,
        "block 'a': the release counts 20 people, X has 15 rows",
    ),
    (
        "wrong table",
        lambda: fit({"county": COUNTY, "age": SEX}),
        AlignmentError,
        "block '40': must be in the release, got 2 blocks in X that are not",
    ),
]


@pytest.mark.parametrize(("make", "error", "words"), [c[1:] for c in BAD], ids=[c[0] for c in BAD])
def test_bad_tables_are_named(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_a_file_without_the_column_of_a_table(tmp_path):
    FRAME.to_parquet(tmp_path / "people.parquet")
    with pytest.raises(ReadError, match=r"people\.parquet: must have the column 'payer', got 'x'"):
        fit({"county": COUNTY, ("age", "payer"): SEX}, tmp_path / "people.parquet")


def test_keys_name_the_tables():
    found = as_by_column(FRAME, {"county": COUNTY, ("age", "sex"): SEX}, None)
    assert found.columns == (("county",), ("age", "sex"))
    assert found.names == ("county", "age, sex")


def test_releases_beside_block_are_a_table_each():
    found = tables_of("people.parquet", [COUNTY, SEX], "county")
    assert [each.releases for each in found] == [(COUNTY,), (SEX,)]
    assert not any(each.several for each in found)
