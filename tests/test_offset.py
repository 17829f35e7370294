"""A model that was fitted with an offset asks for it again; other things that a refit changes."""

import json

import numpy as np
import pandas as pd
import pytest

import unbin
from tests.helpers.cli import run
from unbin import AggregatedGLM, Release
from unbin.exceptions import (
    AlignmentError,
    BinError,
    BlockError,
    ModelFileError,
    ParameterError,
    ReadError,
)

N, B = 3000, 60
RNG = np.random.default_rng(1)
CODES = np.arange(N) % B
X = pd.DataFrame(RNG.normal(size=(N, 2)) + RNG.normal(size=(B, 2))[CODES], columns=["a", "b"])
EXPOSURE = RNG.uniform(0.5, 2.0, N)
Y = RNG.poisson(np.exp(X.to_numpy() @ [0.5, -0.3]) * EXPOSURE).astype(float)
COUNTS = unbin.aggregate(Y, CODES, bins=4).align(CODES)
Z = X.to_numpy() @ [1.0, -0.5] + 0.5 * RNG.normal(size=N)
TARGET = unbin.aggregate(Z, CODES, bins=4).align(CODES)
NEEDED = r"offset: the model was fitted with one, got none; pass offset=\.\.\. \(--offset on the"


@pytest.fixture(scope="module")
def fitted():
    return AggregatedGLM("poisson").fit(X, COUNTS, offset=np.log(EXPOSURE))


def test_predict_and_score_need_the_offset_of_the_fit(fitted):
    for call in (lambda: fitted.predict(X), lambda: fitted.score(X, COUNTS)):
        with pytest.raises(ParameterError, match=NEEDED):
            call()
    none = fitted.predict(X, offset=0)
    np.testing.assert_array_equal(none, fitted.predict(X, offset=np.zeros(N)))
    np.testing.assert_allclose(fitted.predict(X, offset=np.log(EXPOSURE)), none * EXPOSURE)
    assert np.isfinite(fitted.score(X, COUNTS, offset=np.log(EXPOSURE)))


def test_observed_and_matching_fits_need_theirs_too():
    for model, y in ((AggregatedGLM("poisson"), Y), (AggregatedGLM("poisson", "matching"), COUNTS)):
        model.fit(X, y, offset=np.log(EXPOSURE))
        with pytest.raises(ParameterError, match=NEEDED):
            model.predict(X)


def test_ordinal_probabilities_need_it():
    model = AggregatedGLM("ordinal").fit(X, TARGET, offset=np.log(EXPOSURE))
    with pytest.raises(ParameterError, match=NEEDED):
        model.predict_proba(X)


def test_a_fit_without_an_offset_asks_for_none_and_a_refit_forgets_it():
    model = AggregatedGLM("poisson").fit(X, COUNTS, offset=np.log(EXPOSURE)).fit(X, COUNTS)
    assert model.predict(X).shape == (N,)


def test_files_and_arrays_remember_the_offset_alike(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"a": X["a"], "b": X["b"], "block": CODES.astype(str), "e": np.log(EXPOSURE)}
    pq.write_table(
        pa.table({name: np.asarray(v) for name, v in columns.items()}), tmp_path / "p.parquet"
    )
    settings = {"block": "block", "features": ["a", "b"], "offset": "e"}
    model = AggregatedGLM("poisson").fit(tmp_path / "p.parquet", COUNTS.release, **settings)
    with pytest.raises(ParameterError, match=NEEDED):
        model.predict(X)


def test_a_saved_model_remembers_its_offset(fitted, tmp_path):
    unbin.save(fitted, tmp_path / "model.json")
    again = unbin.load(tmp_path / "model.json")
    with pytest.raises(ParameterError, match=NEEDED):
        again.predict(X)
    np.testing.assert_array_equal(again.predict(X, offset=0), fitted.predict(X, offset=0))
    damaged = json.loads((tmp_path / "model.json").read_text()) | {"has_offset": 1}
    (tmp_path / "model.json").write_text(json.dumps(damaged))
    with pytest.raises(ModelFileError, match="has_offset: must be true or false, got 1"):
        unbin.load(tmp_path / "model.json")


def test_the_command_line_takes_the_offset_from_a_column(fitted, tmp_path):
    unbin.save(fitted, tmp_path / "model.json")
    X.assign(e=np.log(EXPOSURE)).to_csv(tmp_path / "people.csv", index=False)
    command = ["predict", str(tmp_path / "model.json"), str(tmp_path / "people.csv")]
    told = run(*command)
    assert told.exit_code == 2
    assert "pass offset=... (--offset on the command line)" in told.stderr
    for option, offset in (("e", np.log(EXPOSURE)), ("0", 0)):
        told = run(*command, "--offset", option)
        assert told.exit_code == 0, told.stderr
        predicted = np.array(told.stdout.split()[1:], dtype=float)
        np.testing.assert_allclose(predicted, fitted.predict(X, offset=offset), rtol=1e-5)
    told = run(*command, "--offset", "nowhere")
    assert "must have the column 'nowhere'" in told.stderr


# -- refits ----------------------------------------------------------------------------------------


def test_a_refit_leaves_nothing_of_an_ordinal_fit():
    model = AggregatedGLM("ordinal").fit(X, TARGET)
    assert len(model.bin_edges_) == len(model.thresholds_) + 2 == len(model.bin_values_) + 1
    model.set_params(family="gaussian").fit(X, TARGET)
    for name in ("thresholds_", "bin_edges_", "bin_values_"):
        assert not hasattr(model, name)


def test_a_random_state_draws_one_seed_for_files_as_for_arrays(tmp_path, monkeypatch):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    from unbin import estimator

    seeds = []

    def note(people, release, family, settings):
        seeds.append(settings.layout.seed)
        raise KeyError("enough")

    monkeypatch.setitem(estimator.METHODS, "likelihood", note)
    columns = {"a": X["a"].to_numpy(), "b": X["b"].to_numpy(), "block": CODES.astype(str)}
    pq.write_table(pa.table(columns), tmp_path / "p.parquet")
    for call in (
        lambda model: model.fit(X, TARGET),
        lambda model: model.fit(
            tmp_path / "p.parquet", TARGET.release, block="block", features=["a", "b"]
        ),
    ):
        with pytest.raises(KeyError):
            call(AggregatedGLM(random_state=np.random.RandomState(5)))
    assert seeds[0] == seeds[1]


# -- block means -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def contextual():
    return AggregatedGLM(contextual=True).fit(X, TARGET)


def test_block_means_are_found_by_numbers_as_by_text(contextual):
    new = [900] * N
    named = contextual.predict(X, blocks=new, block_means={"900": [1.0, 2.0]})
    for means in ({900: [1.0, 2.0]}, {np.int64(900): [1.0, 2.0]}):
        np.testing.assert_array_equal(contextual.predict(X, blocks=new, block_means=means), named)
    assert not np.allclose(named, contextual.predict(X, blocks=new))


def test_block_means_that_cannot_be_read(contextual):
    with pytest.raises(BlockError, match="block_means: block ids mix types"):
        contextual.predict(X, blocks=[900] * N, block_means={900: [0, 0], "900": [1, 1]})
    with pytest.raises(AlignmentError, match="block_means: must come with the block of each row"):
        contextual.predict(X, block_means={900: [0, 0]})
    with pytest.raises(AlignmentError, match=r"block_means: must be a mapping .*, got list"):
        contextual.predict(X, blocks=[900] * N, block_means=[[0, 0]])


# -- bins of whole numbers written with both ends --------------------------------------------------


def bins(lower, upper, block=None, **options):
    ids = ["a"] * len(lower) if block is None else block
    columns = {"block": ids, "lower": lower, "upper": upper, "count": [3] * len(lower)}
    return Release.from_histogram(columns, **options)


GAPS = r"block 'a': with closed='right' the bins \(0, 9\] and \(10, 19\] leave out 10, got no bins"


def test_gaps_of_one_between_whole_numbers_are_pointed_out():
    with pytest.raises(BinError, match=GAPS + r" that touch; say closed='both' if"):
        bins([0, 10, 20], [9, 19, 29])
    with pytest.raises(BinError, match=r"closed='left' .* \[0, 9\) and \[10, 19\) leave out 9,"):
        bins([0, 10, 20], [9, 19, 29], closed="left")
    with pytest.raises(BinError, match=GAPS):  # a row of 0 was left out of another block
        bins([0, 10, 0, 20], [9, 19, 9, None], block=["a", "a", "b", "b"])
    with pytest.raises(BinError, match=r"\[0, 0\] and \(1, 4\] leave out 1,"):
        bins([0, 1, 5], [0, 4, None])
    assert bins([0, 10, 20], [9, 19, 29], closed="both").histogram.lower.tolist() == [-1, 9, 19]


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ([0, 1, 2], [0, 1, 2]),  # single values
        ([0, 5], [4, 5]),  # (0, 4] and the value 5
        ([0, 10, 21], [10, 20, 30]),  # others touch: the gap is meant
        ([0.5, 10.5], [9.5, 20]),  # no whole numbers
        ([0, 20], [9, 29]),  # a wide gap
        ([0], [9]),
    ],
)
def test_other_gaps_are_taken_as_they_are(lower, upper):
    assert bins(lower, upper).n[0] == 3 * len(lower)


def test_a_file_with_such_gaps_is_refused_with_its_name(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("block,lower,upper,count\na,0,9,3\na,10,19,4\n")
    with pytest.raises(ReadError, match=r"table.csv, row 2: .* leave out 10, .* say closed='both'"):
        unbin.read_release(path)
    assert unbin.read_release(path, closed="both").n[0] == 7
