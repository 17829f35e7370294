"""Numbers out of range, outcomes that say nothing, texts that cannot be written: typed, each."""

# ruff: noqa: E501

import json

import numpy as np
import pandas as pd
import pytest

import unbin
from tests.helpers.people import draw_people
from tests.helpers.releases import quantile_release
from unbin import AggregatedGLM, Release
from unbin._io import write_texts
from unbin.exceptions import (
    BinError,
    BlockError,
    DomainError,
    FitError,
    OutputError,
    ParameterError,
    ReadError,
    ReleaseError,
    UnbinError,
)
from unbin.families import FAMILIES

N, B = 600, 30
CODES = np.arange(N) % B
X, Y = draw_people(np.random.default_rng(0), CODES, noise=1.0)
TARGET = unbin.aggregate(Y, CODES, bins=4).align(CODES)
QUIET = pytest.mark.filterwarnings("ignore")


# -- out of range ----------------------------------------------------------------------------------


def edges(high):
    columns = {"block": ["a", "a"], "lower": [0.0, 1.0], "upper": [1.0, high], "count": [1, 1]}
    return Release.from_histogram(columns)


HUGE = [
    (lambda: AggregatedGLM(alpha=1e308).fit(X, TARGET), ParameterError, "alpha: must be at most 1e"),
    (lambda: AggregatedGLM().fit(X * 1e300, TARGET), DomainError, r"X: numbers must be at most 1e\+50 in size, got -?\d.*e\+300; use another unit"),
    (lambda: AggregatedGLM().fit(X * 1e300, Y), DomainError, "X: numbers must be at most"),
    (lambda: AggregatedGLM().fit(X, Y * 1e300), DomainError, "y: numbers must be at most"),
    (lambda: AggregatedGLM().fit(X, TARGET, offset=np.full(N, -1e300)), DomainError, r"offset: numbers must be at most 1e\+50 in size, got -1e\+300"),
    (lambda: AggregatedGLM("poisson").fit(X, np.rint(Y**2), offset=np.full(N, 1e5)), DomainError, r"offset: must be at most 700 in size beside the log or logit of family 'poisson', got 100000; is it the exposure itself\? pass its log"),
    (lambda: unbin.aggregate(Y * 1e300, CODES), ReleaseError, "y: numbers must be at most"),
    (lambda: unbin.aggregate(Y, CODES, bins=[-1e300, 1e300]), BinError, r"bins \(say inf for an open end\): numbers must be at most"),
    (lambda: edges(1e300), BinError, r"column 'upper' \(say inf for an open end\): numbers must be at"),
    (lambda: Release.from_means({"block": ["a", "b"], "mean": [1.0, 1e300]}), ReleaseError, "column 'mean': numbers must be at most"),
    (lambda: Release.from_values({"block": ["a", "b"], "value": [1.0, -1e300]}), ReleaseError, "column 'value': numbers must be at most"),
    (lambda: Release.from_cumulative({"block": ["a", "a"], "value": [1.0, 1e300], "count": [1, 2]}), BinError, "column 'value': numbers must be at most"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), HUGE)
def test_numbers_whose_squares_overflow_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_huge_features_in_files_are_refused(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"x": X[:, 0] * 1e300, "county": CODES.astype(str)})
    frame.to_parquet(tmp_path / "p.parquet")
    with pytest.raises(DomainError, match=r"p\.parquet, column 'x': numbers must be at most"):
        AggregatedGLM().fit(tmp_path, TARGET.release, block="county", features=["x"])


def test_huge_labels_in_files_are_refused_where_they_are(tmp_path):
    (tmp_path / "t.csv").write_text(f"block,label,count\na,{'9' * 60},1\n")
    message = r"t\.csv, row 2, column 'label': the number of a label is too large, got '9999"
    with pytest.raises(ReadError, match=message):
        unbin.read_release(tmp_path / "t.csv")


def test_large_numbers_below_the_limit_are_computed_with():
    plain, large = AggregatedGLM().fit(X, TARGET), AggregatedGLM().fit(X * 1e45, TARGET)
    np.testing.assert_allclose(large.coef_, plain.coef_ * 1e-45, rtol=1e-9)


def test_a_fit_that_runs_out_of_range_says_so(monkeypatch):
    from unbin import estimator

    def fail(*args):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    monkeypatch.setitem(estimator.METHODS, "observed", fail)
    monkeypatch.setitem(estimator.METHODS, "likelihood", fail)
    message = r"fit: its numbers ran out of range, got Eigenvalues did not converge; look for outl"
    for y in (Y, TARGET):
        with pytest.raises(FitError, match=message):
            AggregatedGLM().fit(X, y)


def test_an_attack_that_runs_out_of_range_is_no_attack(monkeypatch):
    from unbin import estimator

    def fail(*args):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    monkeypatch.setitem(estimator.METHODS, "likelihood", fail)
    found = unbin.audit(
        X, Y, CODES, bins=[4], families="gaussian", n_permutations=5, random_state=0
    )
    assert "matching" in str(found)


# -- outcomes that say nothing ---------------------------------------------------------------------

NOTHING = (
    "release: must distinguish people, got one bin, one value or no count for everybody; publis"
)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_one_value_for_everybody_tells_nothing(family):
    same = Release.from_values({"block": CODES, "value": np.ones(N)}).align(CODES)
    one = Release.from_values({"block": ["a"], "value": [1.0]}).align(["a"])
    bins = unbin.aggregate(np.ones(N), CODES).align(CODES)
    for features, target in ((X, same), (X[:1], one), (X, bins)):
        with pytest.raises(ReleaseError, match=NOTHING):
            AggregatedGLM(family).fit(features, target)


def test_a_list_in_which_most_have_the_largest_value_is_cut_below_it():
    y = (np.arange(N) >= 8).astype(float)
    listed = Release.from_values({"block": CODES, "value": y}).align(CODES)
    counted = unbin.aggregate(y, CODES, bins=[-np.inf, 0.5, np.inf]).align(CODES)
    fits = [AggregatedGLM("binomial").fit(X, target) for target in (listed, counted)]
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, rtol=1e-6)


@QUIET
@pytest.mark.parametrize("family", ["gaussian", "poisson", "binomial", "gamma"])
@pytest.mark.parametrize("seed", range(20, 30))
def test_medians_of_blocks_of_one_or_two(seed, family):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 14)), int(rng.integers(1, 4))
    blocks = np.arange(n) // (1 + seed % 2)
    y = {
        "gaussian": rng.normal(size=n),
        "binomial": (rng.random(n) > 0.5).astype(float),
        "poisson": rng.poisson(3, n).astype(float),
        "gamma": rng.random(n) + 0.1,
    }[family]
    target = quantile_release(y, blocks).align(blocks)
    try:
        model = AggregatedGLM(family).fit(rng.normal(size=(n, d)), target)
    except UnbinError:
        return
    assert np.isfinite(model.coef_).all()


@QUIET
@pytest.mark.parametrize("family", ["gaussian", "gamma"])
def test_medians_that_fit_exactly(family):
    rng = np.random.default_rng(3)
    features, y = rng.normal(size=(5, 1)), np.exp(rng.normal(size=5))
    blocks = np.array([0, 0, 1, 1, 2])
    target = quantile_release(y, blocks).align(blocks)
    try:
        model = AggregatedGLM(family).fit(features, target)
    except UnbinError:  # the scale may go to 0
        return
    assert np.isfinite(model.coef_).all()


# -- texts that cannot be written ------------------------------------------------------------------


@pytest.mark.parametrize(
    "ids", [np.array(["a", "b\ud800"]), ["a", "b\udfff"], pd.Series(["a", "\udc80"], dtype=object)]
)
def test_ids_with_lone_surrogates_are_refused(ids):
    with pytest.raises(
        BlockError, match=r"blocks: block ids must be text that UTF-8 can hold, got .* in row 1"
    ):
        unbin.aggregate([1.0, 2.0], ids)


def test_ids_in_bytes_that_are_no_text():
    with pytest.raises(BlockError, match="blocks: block ids must be text, got bytes that are not"):
        unbin.aggregate([1.0, 2.0], np.array([b"a", b"\xff"]))


@QUIET
def test_other_names_with_lone_surrogates_are_saved_as_escapes(tmp_path):
    path = tmp_path / "model.json"
    model = AggregatedGLM().fit(
        pd.DataFrame(X, columns=pd.Index(["\ud800", "é"], dtype=object)), TARGET
    )
    unbin.save(model, path, inputs={"\udc80.csv": "0"})
    assert list(unbin.load(path).feature_names_in_) == ["\ud800", "é"]
    assert list(json.loads(path.read_text(encoding="utf-8"))["inputs"]) == ["\udc80.csv"]
    assert "é" in path.read_text(encoding="utf-8")


def test_a_text_that_cannot_be_written_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("old")
    with pytest.raises(OutputError, match=r"a\.csv: must be text that UTF-8 can hold, got '\\ud8"):
        write_texts({path: "x\ud800"})
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]
    assert path.read_text() == "old"
