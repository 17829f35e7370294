"""Rows that stand for several people, and outcomes that are known, wherever the people are."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import unbin
from attacks.worlds import draw_outcome
from tests.helpers.releases import quantile_release
from unbin import AggregatedGLM
from unbin._frames import OUTSIDE, as_text
from unbin.exceptions import (
    AlignmentError,
    AlignmentWarning,
    CategoryError,
    DomainError,
    ParameterError,
    ReadError,
    UnbinError,
)
from unbin.rows import sources
from unbin.rows.parts import LocalParts
from unbin.rows.survey import Coded, Part, Surveyed

array = pytest.importorskip("dask.array", reason="needs unbin[dask]")
dataframe = pytest.importorskip("dask.dataframe", reason="needs unbin[dask]")
pytestmark = pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")

N, N_COUNTIES = 900, 30
FEATURES = ["age", "male", "income"]
SEVERAL = ("county", ("group", "sex"), "payer")
BINS = {"gaussian": 5, "ordinal": 5, "poisson": [-np.inf, 0, 1, 3, np.inf]}


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(sources, "_PART_BYTES", 1)
    monkeypatch.setattr(sources, "_FEWEST_ROWS", 200)


def draw(seed=3):
    """Rows that stand for one to four people, in random order; a fifth has no payer."""
    rng = np.random.default_rng(seed)
    county = np.concatenate([np.arange(N_COUNTIES), rng.integers(0, N_COUNTIES, N - N_COUNTIES)])
    rng.shuffle(county)
    sex, payer = rng.integers(0, 2, N), rng.choice(["a", "b", "c"], N).astype(object)
    payer[rng.random(N) < 0.2] = None
    frame = pd.DataFrame(
        {
            "age": rng.normal(size=N),
            "male": sex.astype(float),
            "income": rng.normal(size=N) + 0.7 * rng.normal(size=N_COUNTIES)[county],
            "exposure": 0.2 * rng.normal(size=N),
            "county": [f"{c:02d}" for c in county],
            "payer": payer,
            "sex": np.where(sex == 1, "m", "f"),
            "w": rng.integers(1, 5, N),
        }
    )
    frame["group"] = np.digitize(frame["age"], np.arange(-1.0, 1.5, 0.5))
    return frame, rng


def repeated(frame):
    """Everybody, a row each."""
    return frame.loc[frame.index.repeat(frame["w"])].reset_index(drop=True)


def draw_outcomes(rng, people, family="gaussian"):
    eta = people[FEATURES].to_numpy() @ [0.4, 0.6, -0.3] + people["exposure"].to_numpy()
    return draw_outcome(rng, family, eta, spread=1.0, n_trials=1)


def published(people, y, keys, bins=5):
    """Histograms of the people who have an id."""
    found = {}
    for key in keys:
        columns = people[key] if isinstance(key, str) else people[list(key)]
        ids = as_text(columns, where="", outside=True)
        inside = ids != OUTSIDE
        found[key] = unbin.aggregate(y[inside], ids[inside], bins)
    return found


def write(frame, folder, *, by_block):
    """Files whose blocks lie all over them, or each in one part."""
    folder.mkdir(exist_ok=True)
    if not by_block:
        for k, rows in enumerate(np.array_split(np.arange(len(frame)), 3)):
            frame.iloc[rows].to_parquet(folder / f"{k}.parquet", row_group_size=150)
        return folder
    few = frame["county"].astype(int) // 4
    for k, rows in frame.groupby(few):
        rows.sort_values("county").to_parquet(folder / f"{k:02d}.parquet")
    return folder


PATHS = ("pandas", "polars", "files", "files by block", "Dask frame", "Dask files", "Dask arrays")


def fit(path, frame, tables, folder, client, model=None, **how):
    """Fit people in one of the ways to hold them."""
    settings = {"tol": 1e-6, **(model or {})}
    if path.startswith("Dask"):
        settings |= {"engine": "dask", "client": client}
    how = {"features": FEATURES, "offset": "exposure", **how}
    X = {
        "pandas": lambda: frame,
        "polars": lambda: pl.from_pandas(frame),
        "files": lambda: write(frame, folder, by_block=False),
        "files by block": lambda: write(frame, folder, by_block=True),
        "Dask frame": lambda: dataframe.from_pandas(frame, npartitions=3, sort=False),
        "Dask files": lambda: write(frame, folder, by_block=False),
        "Dask arrays": lambda: array.from_array(frame[FEATURES].to_numpy(), (250, 2)),
    }[path]()
    if path == "Dask arrays":
        ((block, tables),) = tables.items()
        names = {"block": block, **{k: how.pop(k, None) for k in ("offset", "weights", "observed")}}
        how |= {
            what: array.from_array(frame[name].to_numpy(), 400)
            for what, name in names.items()
            if name is not None
        }
    return AggregatedGLM(**settings).fit(X, tables, **how)


def same(one, other, rtol=1e-10, atol=1e-10):
    assert one.status_.converged
    assert other.status_.converged
    names = ["coef_", "intercept_", "standard_errors_", "dispersion_", "block_sd_"]
    if other.contextual_coef_ is not None:
        names.append("contextual_coef_")
    for name in names:
        pair = getattr(one, name), getattr(other, name)
        np.testing.assert_allclose(*pair, rtol=rtol, atol=atol, err_msg=name)
    fits = [
        [m.diagnostics_.goodness_of_fit, *(t.goodness_of_fit for t in m.tables_)]
        for m in (one, other)
    ]
    for mine, theirs in zip(*fits, strict=True):
        assert mine.misfit == pytest.approx(theirs.misfit, rel=1e-8)
        assert mine.df == pytest.approx(theirs.df, rel=1e-8)


# -- weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [SEVERAL[:1], SEVERAL], ids=["one table", "several"])
@pytest.mark.parametrize("path", PATHS)
def test_weights_equal_repeated_rows(tmp_path, client, path, keys):
    if path == "Dask arrays" and len(keys) > 1:
        pytest.skip("arrays have one partition")
    frame, rng = draw()
    people = repeated(frame)
    y = draw_outcomes(rng, people)
    tables = published(people, y, keys)
    for model in ({}, {"contextual": True}):
        expanded = fit("pandas", people, tables, None, None, model)
        weighed = fit(path, frame, tables, tmp_path, client, model, weights="w")
        same(weighed, expanded)
        assert weighed.diagnostics_.identified == expanded.diagnostics_.identified


@pytest.mark.parametrize("family", ["ordinal", "poisson"])
@pytest.mark.parametrize("path", ["pandas", "files", "Dask frame"])
def test_weights_of_other_families(tmp_path, client, path, family):
    frame, rng = draw()
    people = repeated(frame)
    tables = published(people, draw_outcomes(rng, people, family), SEVERAL[:2], BINS[family])
    expanded = fit("pandas", people, tables, None, None, {"family": family})
    same(fit(path, frame, tables, tmp_path, client, {"family": family}, weights="w"), expanded)


def test_order_statistics_of_weighted_rows_in_files(tmp_path):
    frame, rng = draw()
    people = repeated(frame)
    y = draw_outcomes(rng, people)
    tables = {"county": quantile_release(y, people["county"].to_numpy().astype(str))}
    expanded = fit("pandas", people, tables, None, None)
    same(fit("files by block", frame, tables, tmp_path, None, weights="w"), expanded)


@pytest.mark.parametrize("keys", [SEVERAL[:1], SEVERAL], ids=["one table", "several"])
@pytest.mark.parametrize("path", [p for p in PATHS if p != "Dask arrays"])
def test_survey_weights_are_the_same_everywhere(tmp_path, client, path, keys):
    frame, rng = draw()
    people = repeated(frame)
    tables = published(people, draw_outcomes(rng, people), keys)
    counted = fit("pandas", frame, tables, None, None, weights="w")
    frame["w"] = frame["w"] * 1.1  # of a design: brought to the people of each block
    targets = [align(frame, key, table, "survey") for key, table in tables.items()]
    offset, model = frame["exposure"].to_numpy(), AggregatedGLM(tol=1e-6)
    by_hand = model.fit(frame[FEATURES], unbin.join(*targets), offset=offset)
    how = {"weights": "w", "weighting": "survey"}
    same(fit(path, frame, tables, tmp_path, client, **how), by_hand)
    assert (by_hand.standard_errors_ > counted.standard_errors_).all()


def align(frame, key, table, weighting):
    """A table aligned by hand, those without an id outside of it."""
    blocks = frame[key] if isinstance(key, str) else frame[list(key)]
    return table.align(blocks, on_missing="drop", weights=frame["w"], weighting=weighting)


def test_a_list_of_releases_has_the_same_weights(tmp_path):
    frame, rng = draw()
    people = repeated(frame)
    tables = [published(people, draw_outcomes(rng, people), SEVERAL[:1]) for _ in range(2)]
    X = write(frame, tmp_path, by_block=False)
    how = {"block": "county", "features": FEATURES, "weights": "w"}
    both = AggregatedGLM(tol=1e-6).fit(X, [each["county"] for each in tables], **how)
    for k, each in enumerate(tables):
        one = AggregatedGLM(tol=1e-6).fit(people, each, features=FEATURES)
        np.testing.assert_allclose(both.coef_[k], one.coef_, rtol=1e-10)


# -- people whose outcome is known ---------------------------------------------------------------


def asked(frame, rng, share=0.15):
    """One outcome per row, a share of them known, and everybody's outcomes row by row."""
    people = repeated(frame)
    row = np.repeat(np.arange(len(frame)), frame["w"])
    y = draw_outcomes(rng, people)
    known = rng.random(len(frame)) < share
    own = y[np.cumsum(frame["w"]) - frame["w"]]
    y = np.where(known[row], own[row], y)  # alike in all that a row stands for
    return people, y, np.where(known, own, np.nan)


@pytest.mark.parametrize("keys", [SEVERAL[:1], SEVERAL], ids=["one table", "several"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("disjoint", [False, True], ids=["counted", "disjoint"])
def test_known_outcomes_equal_those_of_arrays(tmp_path, client, path, keys, disjoint):
    if path == "Dask arrays" and len(keys) > 1:
        pytest.skip("arrays have one partition")
    frame, rng = draw()
    people, y, frame["asked"] = asked(frame, rng)
    tables = published(people, y, keys)
    targets = [align(frame, key, table, "frequency") for key, table in tables.items()]
    target = unbin.join(*targets, unbin.observed(frame["asked"], disjoint=disjoint))
    how = {"weights": "w", "observed": "asked", "disjoint": disjoint}
    for model in ({}, {"contextual": True}):
        by_hand = AggregatedGLM(tol=1e-6, **model).fit(
            frame[FEATURES], target, offset=frame["exposure"].to_numpy()
        )
        same(fit(path, frame, tables, tmp_path, client, model, **how), by_hand)


@pytest.mark.parametrize("path", PATHS)
def test_known_outcomes_of_rows_that_are_people(tmp_path, client, path):
    frame, rng = draw()
    frame["w"] = 1
    people, y, frame["asked"] = asked(frame, rng)
    tables = published(people, y, SEVERAL[:1])
    target = unbin.join(
        tables["county"].align(frame["county"]), unbin.observed(frame["asked"].to_numpy())
    )
    by_hand = AggregatedGLM(tol=1e-6).fit(
        frame[FEATURES], target, offset=frame["exposure"].to_numpy()
    )
    same(fit(path, frame, tables, tmp_path, client, observed="asked"), by_hand)


@pytest.mark.parametrize("path", ["pandas", "files", "Dask frame"])
def test_known_outcomes_beside_a_sample(tmp_path, client, path):
    frame, rng = draw()
    people, y, frame["asked"] = asked(frame, rng)
    tables = published(people, y, SEVERAL[:2])
    targets = [align(frame, key, table, "survey") for key, table in tables.items()]
    target = unbin.join(*targets, unbin.observed(frame["asked"]))
    by_hand = AggregatedGLM(tol=1e-6).fit(
        frame[FEATURES], target, offset=frame["exposure"].to_numpy()
    )
    how = {"weights": "w", "weighting": "survey", "observed": "asked"}
    same(fit(path, frame, tables, tmp_path, client, **how), by_hand)


@pytest.mark.parametrize("path", PATHS)
def test_people_without_an_id_are_outside_a_table_beside_known_outcomes(tmp_path, client, path):
    frame, rng = draw()
    people, y, frame["asked"] = asked(frame, rng)
    tables = published(people, y, ["payer"])
    target = unbin.join(
        align(frame, "payer", tables["payer"], "frequency"), unbin.observed(frame["asked"])
    )
    by_hand = AggregatedGLM(tol=1e-6).fit(
        frame[FEATURES], target, offset=frame["exposure"].to_numpy()
    )
    same(fit(path, frame, tables, tmp_path, client, weights="w", observed="asked"), by_hand)


def test_a_block_all_of_whose_people_are_known(tmp_path, client):
    frame, rng = draw()
    people, y, frame["asked"] = asked(frame, rng)
    first = frame["county"] == "00"
    own = y[np.cumsum(frame["w"]) - frame["w"]]
    row = np.repeat(np.arange(N), frame["w"])
    y = np.where(first.to_numpy()[row], own[row], y)
    frame["asked"] = np.where(first, own, frame["asked"])
    tables = published(people, y, SEVERAL)
    how = {"weights": "w", "observed": "asked"}
    here = fit("pandas", frame, tables, None, None, **how)
    for path in ("files", "files by block", "Dask frame"):
        folder = tmp_path / path
        same(fit(path, frame, tables, folder, client, **how), here)


def test_parts_in_which_everybody_is_known(tmp_path):
    frame, rng = draw()
    frame["w"] = 1
    people, y, frame["asked"] = asked(frame, rng)
    frame["asked"] = np.where(np.arange(N) < 300, y, frame["asked"])  # the first file
    tables = published(people, y, SEVERAL[:1])
    here = fit("pandas", frame, tables, None, None, observed="asked")
    same(fit("files", frame, tables, tmp_path, None, observed="asked"), here)


@pytest.mark.parametrize("path", ["pandas", "polars", "files", "Dask frame"])
def test_an_outcome_that_nobody_knows_changes_nothing(tmp_path, client, path):
    frame, rng = draw()
    people = repeated(frame)
    tables = published(people, draw_outcomes(rng, people), SEVERAL[:1])
    frame["asked"] = np.nan
    alone = fit("pandas", frame, tables, None, None, weights="w")
    with pytest.warns(AlignmentWarning, match="no outcome is known"):
        found = fit(path, frame, tables, tmp_path, client, weights="w", observed="asked")
    same(found, alone)


def test_surveys_count_people_by_weight():
    rng = np.random.default_rng(5)
    parts = []
    for n in (60, 40):
        codes, w = rng.integers(0, 3, n), rng.uniform(0.5, 3, n)
        outcome = np.where(rng.random(n) < 0.3, 1.0, np.nan)
        if n == 40:
            outcome[:] = 1.0  # nobody is left to count here
        columns, coded = tuple(rng.normal(3, 2, size=(2, n))), Coded(np.array([*"abc"]), codes)
        counted = np.where(np.isnan(outcome), w, 0.0)
        parts.append(Part(columns, coded, None, (), w, counted, False, outcome))
    found = Surveyed.of(LocalParts(parts))
    X = np.concatenate([np.column_stack(part.columns) for part in parts])
    codes = np.concatenate([part.coded.codes for part in parts])
    everybody = np.concatenate([part.weights for part in parts])
    left = np.concatenate([part.counted for part in parts])
    for survey, w in ((found.whole, everybody), (found.counted, left)):
        mean = np.average(X, axis=0, weights=w)
        np.testing.assert_allclose(survey.mean, mean, rtol=1e-12)
        np.testing.assert_allclose(survey.square, w @ (X - mean) ** 2, rtol=1e-12)
        np.testing.assert_allclose(survey.people, np.bincount(codes, w), rtol=1e-12)
        np.testing.assert_array_equal(survey.rows, np.bincount(codes))
    means = [np.average(X[codes == b], axis=0, weights=everybody[codes == b]) for b in range(3)]
    np.testing.assert_allclose(found.whole.context().means, means, rtol=1e-12)
    assert len(found.known) == (left == 0).sum()


# -- bad input -----------------------------------------------------------------------------------

NOT_NUMBERS = DomainError, ReadError, CategoryError

BAD = {
    "unknown weights": ({"weights": "nope"}, None, (ParameterError, ReadError), "'nope'"),
    "unknown observed": ({"observed": "nope"}, None, (ParameterError, ReadError), "'nope'"),
    "zero": ({"weights": "w"}, 0.0, DomainError, "column 'w'.*above 0, got 0 in row 7"),
    "negative": ({"weights": "w"}, -2.0, DomainError, "column 'w'.*above 0, got -2 in row 7"),
    "missing": ({"weights": "w"}, np.nan, DomainError, "column 'w'.*above 0, got nan in row 7"),
    "infinite": ({"weights": "w"}, np.inf, DomainError, "column 'w'.*above 0, got inf in row 7"),
    "text": ({"weights": "payer"}, None, (DomainError, ReadError), "column 'payer'.*numbers"),
    "inf outcome": ({"observed": "w"}, np.inf, DomainError, "column 'w'.*finite.*inf in row 7"),
    "text outcome": ({"observed": "sex"}, None, NOT_NUMBERS, "'sex'.*numbers"),
    "feature": ({"observed": "age"}, None, ParameterError, "observed.*'age'.*among the features"),
    "no weights": ({"weighting": "survey"}, None, ParameterError, "needs the weights"),
    "nobody known": ({"disjoint": True}, None, ParameterError, "outcomes that are known"),
    "sample_weight": ({"sample_weight": np.ones(N)}, None, ParameterError, "aggregated ones"),
    "counts": ({"weights": "one"}, None, AlignmentError, "rows of X stand for"),
}


@pytest.mark.parametrize("path", ["pandas", "polars", "files", "Dask frame"])
@pytest.mark.parametrize(("how", "value", "error", "match"), BAD.values(), ids=BAD)
def test_bad_weights_and_outcomes(tmp_path, client, path, how, value, error, match):
    frame, rng = draw()
    people = repeated(frame)
    tables = published(people, draw_outcomes(rng, people), SEVERAL[:1])
    frame["one"] = 1
    frame = frame.astype({"w": float})
    if value is not None:
        frame.loc[7, "w"] = value
    with pytest.raises(error, match=match):
        fit(path, frame, tables, tmp_path, client, **how)


def test_errors_in_files_name_the_row_of_the_file(tmp_path):
    frame, rng = draw()
    people = repeated(frame)
    tables = published(people, draw_outcomes(rng, people), SEVERAL[:1])
    frame["w"] = frame["w"].astype(float)
    frame.loc[600 + 170, "w"] = 0.0  # the third file, its second part
    with pytest.raises(DomainError, match=r"2\.parquet, column 'w'.*got 0 in row 170"):
        fit("files", frame, tables, tmp_path, None, weights="w")


def test_a_known_row_must_stand_for_whole_people(tmp_path):
    frame, rng = draw()
    people, y, frame["asked"] = asked(frame, rng)
    tables = published(people, y, SEVERAL[:1])
    first = int(np.flatnonzero(frame["asked"].notna())[0])
    frame["w"] = frame["w"].astype(float)
    frame.loc[first, "w"] += 0.25
    for path in ("pandas", "files"):
        with pytest.raises(ParameterError, match=r"whole number of people, got \d\.25"):
            fit(path, frame, tables, tmp_path, None, weights="w", observed="asked")


def test_somebody_must_be_left_in_a_table(tmp_path):
    frame, rng = draw()
    frame["w"] = 1
    _, frame["asked"], _ = asked(frame, rng)
    tables = published(frame, frame["asked"].to_numpy(), ["payer"])
    with pytest.raises(AlignmentError, match=r"payer: the outcomes of all people .* are known"):
        fit("files", frame, tables, tmp_path, None, observed="asked")
    alone = fit("pandas", frame, tables, tmp_path, None, observed="asked")
    assert alone.method_ == "observed"


def test_names_are_for_columns(tmp_path):
    frame, rng = draw()
    people = repeated(frame)
    tables = published(people, draw_outcomes(rng, people), SEVERAL[:1])
    X = write(frame, tmp_path, by_block=False)
    for what in ("weights", "observed", "offset"):
        how = {"features": FEATURES, what: np.ones(N)}
        with pytest.raises(ParameterError, match=f"{what}: must name a column of X, got ndarray"):
            AggregatedGLM().fit(X, tables, **how)
    how = {"block": "county", "features": FEATURES, "weights": "w", "observed": "w"}
    with pytest.raises(ParameterError, match="outcome of one target, got a list"):
        AggregatedGLM().fit(X, [tables["county"]], **how)


def test_arrays_beside_a_dask_array_are_dask_arrays(client):
    frame, rng = draw()
    people = repeated(frame)
    table = published(people, draw_outcomes(rng, people), SEVERAL[:1])["county"]
    X = array.from_array(frame[FEATURES].to_numpy(), (300, 3))
    block = array.from_array(frame["county"].to_numpy(), 300)
    model = AggregatedGLM(engine="dask", client=client)
    with pytest.raises(UnbinError, match="must be Dask arrays beside a Dask array"):
        model.fit(X, table, block=block, weights=frame["w"].to_numpy())
