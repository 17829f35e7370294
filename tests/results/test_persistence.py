"""Saved models: they predict as before, hold no personal values, and damage is noticed."""

import json
import warnings

import numpy as np
import pytest

import unbin
from tests.helpers.saved import change
from unbin._frames import to_frame
from unbin._io import csv_text, write_texts
from unbin.exceptions import AggregatedTargetError, ModelFileError, OutputError, ParameterError
from unbin.families import FAMILIES
from unbin.people.encoding import Encoding
from unbin.results.persistence import keeps_counts, read_model

RNG = np.random.default_rng(0)
BLOCKS = np.repeat([f"{c:02d}" for c in range(24)], 40)
X = RNG.normal(size=(960, 2)) + RNG.normal(size=(24, 2)).repeat(40, axis=0)
ETA = 0.5 * X[:, 0] - 0.3 * X[:, 1]
TARGETS = {
    "gaussian": ETA + 0.5 * RNG.normal(size=960),
    "poisson": RNG.poisson(np.exp(ETA)).astype(float),
    "binomial": RNG.binomial(3, 1 / (1 + np.exp(-ETA))).astype(float),
    "gamma": RNG.gamma(3.0, np.exp(ETA) / 3.0),
    "negative-binomial": RNG.poisson(np.exp(ETA) * RNG.gamma(2.0, 0.5, 960)).astype(float),
    "beta-binomial": RNG.binomial(3, RNG.beta(2, 2, 960)).astype(float),
    "ordinal": ETA + RNG.logistic(size=960),
}


def fitted(family="gaussian", **parameters):
    y = TARGETS[family]
    whole = family in ("poisson", "negative-binomial", "binomial", "beta-binomial")
    edges = [-0.5, 0.5, 1.5, 2.5, 3.5 if "binomial" in family and family[0] == "b" else np.inf]
    release = unbin.aggregate(y, BLOCKS, bins=edges if whole else 4)
    n_trials = 3 if family in ("binomial", "beta-binomial") else 1
    model = unbin.AggregatedGLM(family, n_trials=n_trials, random_state=0, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, release.align(BLOCKS))


def test_every_family_is_tried():
    assert set(TARGETS) == set(FAMILIES)


CASES = [
    *({"family": family} for family in TARGETS),
    {"family": "gaussian", "contextual": True},
    {"family": "ordinal", "contextual": True},
    {"family": "gaussian", "method": "matching"},
    {"family": "poisson", "method": "matching", "init": np.zeros(3)},
    {"family": "gaussian", "alpha": "held-out", "contextual": "auto"},
    {"family": "gamma", "fit_intercept": False},
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_a_loaded_model_predicts_identically(case, tmp_path):
    model = fitted(**case)
    unbin.save(model, tmp_path / "model.json")
    again = unbin.load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(
        again.predict(X[:90], blocks=BLOCKS[:90]), model.predict(X[:90], blocks=BLOCKS[:90])
    )
    for name, value in vars(model).items():
        if name in ("_fits", "_holds_imputed", "diagnostics_", "selection_", "init"):
            continue
        np.testing.assert_array_equal(np.asarray(getattr(again, name)), np.asarray(value), name)
    assert str(again.diagnostics_) == str(model.diagnostics_)
    if case.get("method") != "matching":
        assert str(again.summary()) == str(model.summary())
    if model.selection_ is not None:
        assert str(again.selection_.columns()) == str(model.selection_.columns())
    if model.family_ == "ordinal":
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_several_targets_and_the_oracle(tmp_path):
    release = unbin.aggregate(TARGETS["gaussian"], BLOCKS, bins=4)
    both = [release.align(BLOCKS), release.align(BLOCKS)]
    for y in (both, TARGETS["gaussian"]):
        model = unbin.AggregatedGLM().fit(X, y)
        unbin.save(model, tmp_path / "model.json")
        np.testing.assert_array_equal(
            unbin.load(tmp_path / "model.json").predict(X), model.predict(X)
        )


def test_names_encoding_and_inputs_are_kept(tmp_path):
    people = {"age": X[:, 0], "odd [bold]": X[:, 1]}
    encoding, features = Encoding.build("age + `odd [bold]`", people)
    frame = to_frame(dict(zip(encoding.names, features.T, strict=True)))
    target = unbin.aggregate(TARGETS["gaussian"], BLOCKS, bins=4).align(BLOCKS)
    model = unbin.AggregatedGLM(random_state=np.random.RandomState(0)).fit(frame, target)
    unbin.save(model, tmp_path / "m.json", encoding=encoding, inputs={"a.csv": "00ff"})
    found = read_model(tmp_path / "m.json")
    assert found.encoding == encoding
    assert found.inputs == {"a.csv": "00ff"}
    assert found.versions["unbin"] == unbin.__version__
    assert "T" in found.created
    assert found.model.random_state is None
    assert list(found.model.feature_names_in_) == ["age", "`odd [bold]`"]
    np.testing.assert_array_equal(found.encoding.encode(people), features)


def test_no_personal_value_is_written(tmp_path):
    model = fitted("gaussian")
    unbin.save(model, tmp_path / "model.json")
    text = (tmp_path / "model.json").read_text()
    assert "imputed" not in text

    def longest(value):
        if isinstance(value, dict):
            return max(map(longest, value.values()), default=0)
        return max([len(value), *map(longest, value)]) if isinstance(value, list) else 0

    assert longest(json.loads(text)) <= 24 < len(X)  # blocks, never people
    with pytest.raises(AggregatedTargetError, match="holds no imputed targets"):
        unbin.load(tmp_path / "model.json").impute()


def test_counts_are_written_only_where_a_report_shows_them_all(tmp_path):
    """A table with small counts is not in the file, unless it is public."""
    model, path = fitted("gaussian"), tmp_path / "model.json"
    count = model.published_.count
    assert (count < 11).any()
    unbin.save(model, path)
    assert json.loads(path.read_text())["fits"][0]["published"] is None
    assert not keeps_counts(model)
    again = unbin.load(path)
    assert again.published_ is None
    with pytest.raises(ParameterError, match="save it with public=True, where a saved model has"):
        unbin.plots.histograms(again)
    unbin.save(model, path, public=True)
    np.testing.assert_array_equal(unbin.load(path).published_.count, count)
    large = unbin.aggregate(TARGETS["gaussian"], np.repeat(["a", "b"], 480), bins=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = unbin.AggregatedGLM().fit(X, large.align(np.repeat(["a", "b"], 480)))
    assert model.published_.count.min() >= 11
    assert keeps_counts(model)
    unbin.save(model, path)
    assert unbin.load(path).published_ is not None


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.json"
    unbin.save(fitted("ordinal", contextual=True), path, public=True)
    return path.read_text()


@pytest.fixture(scope="module")
def chosen(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.json"
    unbin.save(fitted("gaussian", alpha="held-out"), path)
    return path.read_text()


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["format"], "other", "model.json: must be a model that unbin saved, got other JSON"),
        (["format_version"], 4, "must have format version 7, got 4; load it with the version"),
        (["extra"], 1, "fields: must be those of a model, got a difference in extra"),
        (["fits"], [], "fits: must be a list with a fit, got none"),
        (["fits", 0, "coef"], [1.0], "coef: must be finite, of shape (2,), got shape (1,)"),
        (["fits", 0, "coef"], [1.0, "nan"], "coef: must be finite"),
        (["fits", 0, "coef"], [1.0, "x"], "fits[0].coef: must be a finite number, got 'x'"),
        (["fits", 0, "coef"], [1.0, [2.0]], "fits[0].coef: must be rows of the same length"),
        (["fits", 0, "coef"], 3, "fits[0].coef: must be a list, got 3"),
        (["fits", 0, "coef"], [10**400, 1.0], "fits[0].coef: must be a finite number, got 1000"),
        (["fits", 0, "intercept"], True, "fits[0].intercept: must be a finite number, got True"),
        (["fits", 0, "status"], "os.system", "fits[0].status: must be a known status, got 'os."),
        (["fits", 0, "family"], 3, "fits[0].family: must be a name and n_trials, got 3"),
        (["fits", 0, "family", "name"], "os", "fits[0].family.name: must be a known family"),
        (["fits", 0, "family", "name"], "poisson", "bins: must go with an ordinal family"),
        (["fits", 0, "family", "n_trials"], 0, "n_trials: must be a number of trials, got 0"),
        (["fits", 0, "n_iter"], 1.5, "fits[0].n_iter: must be a whole number, got 1.5"),
        (["fits", 0, "diagnostics", "identified"], 1, "identified: must be true or false, got 1"),
        (["fits", 0, "diagnostics", "reason"], 1, "diagnostics.reason: must be text, got 1"),
        (["fits", 0, "diagnostics"], {}, "fits[0].diagnostics: must be the fields block_sd,"),
        (["fits", 0, "covariance"], [[1.0]], "covariance: must have shape (5, 5), got (1, 1)"),
        (["fits", 0, "context"], None, "context: must go with contextual coefficients"),
        (["fits", 0, "context", "used"], [True], "context: must have sorted blocks and one flag"),
        (["fits", 0, "contextual_coef"], [1.0, "nan"], "contextual_coef: must be finite where"),
        (["fits", 0, "bins", "lower"], [1.0], "bins: must have as many ends as values"),
        (["fits", 0, "dispersion"], -1.0, "dispersion: must not be negative, got -1"),
        (["fits", 0, "block_sd"], -0.1, "block_sd: must not be negative, got -0.1"),
        (
            ["fits", 0, "dispersion"],
            1e200,
            "dispersion: must be at most 1e+100 in size, got 1e+200",
        ),
        (["fits", 0, "block_sd"], 1e200, "block_sd: must be at most 1e+100 in size, got 1e+200"),
        (["fits", 0, "coef", 0], -1e200, "coef: must be at most 1e+100 in size, got 1e+200; save"),
        (["fits", 0, "n_people"], -1, "n_people: must not be negative, got -1"),
        (
            ["fits", 0, "covariance", 2, 2],
            -0.5,
            "variances in covariance: must not be negative, got -0.5",
        ),
        (["fits", 0, "path"], [[1.0]], "path: must have shape (1,), got (1, 1)"),
        (
            ["fits", 0, "diagnostics", "block_sd"],
            -1.0,
            "diagnostics.block_sd: must not be negative",
        ),
        (
            ["fits", 0, "diagnostics", "efficiency"],
            [1.0],
            "diagnostics.efficiency: must have shape",
        ),
        (["fits", 0, "published", "n"], [1], "published.n: must have shape (24,), got (1,)"),
        (["fits", 0, "published", "n", 0], -1, "published.n: must not be negative, got -1"),
        (["fits", 0, "published", "count"], [[1.0]], "published.count: must have shape (24, 4)"),
        (["fits", 0, "published", "upper"], [1.0], "published.upper: must have shape (4,)"),
        (["fits", 0, "published", "misfit"], [], "published.misfit: must have shape (24,)"),
        (["several"], "no", "several: must be true or false, got 'no'"),
        (["features"], ["a"], "features: must be 2 names, got 1"),
        (["parameters"], {}, "parameters: must be those of AggregatedGLM, got others"),
        (["parameters", "method"], "magic", "parameters: method: unknown, got 'magic'"),
        (["parameters", "random_state"], -1, "parameters: Seed must be between 0 and"),
        (["inputs"], {"a": 1}, "inputs: must be texts by name"),
        (["encoding"], {}, "encoding: must have formula, categories, state, names and means"),
        (
            ["encoding"],
            {"formula": "a", "categories": [None], "state": {}, "names": ["a"], "means": {}},
            "encoding: must give 2 columns, got 1",
        ),
        (
            ["encoding"],
            {"formula": "{open('x')}", "categories": [], "state": {}, "names": [], "means": {}},
            "formula, position 1: got '{'",
        ),
    ],
)
def test_damage_is_named(saved, tmp_path, place, value, message):
    (tmp_path / "model.json").write_text(change(saved, place, value))
    with pytest.raises(ModelFileError) as caught:
        unbin.load(tmp_path / "model.json")
    assert message in str(caught.value)
    assert str(caught.value).startswith("model.json: ")


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["alpha"], [1.0], "selection.alpha: must have shape (11,), got (1,)"),
        (["contextual"], [True], "selection.contextual: must have shape (11,), got (1,)"),
        (["score"], [], "selection.score: must have shape (11,), got (0,)"),
        (["chosen"], 11, "selection.chosen: must be one of 11 candidates, got 11"),
        (["chosen"], -1, "selection.chosen: must be one of 11 candidates, got -1"),
    ],
)
def test_damaged_scores_are_named(chosen, tmp_path, place, value, message):
    (tmp_path / "m.json").write_text(change(chosen, ["fits", 0, "selection", *place], value))
    with pytest.raises(ModelFileError) as caught:
        unbin.load(tmp_path / "m.json")
    assert message in str(caught.value)


def test_a_name_that_is_there_twice_is_refused(saved, tmp_path):
    doubled = saved.replace('"dispersion":', '"dispersion": 2.0, "dispersion":', 1)
    (tmp_path / "m.json").write_text(doubled)
    with pytest.raises(
        ModelFileError, match=r"m\.json: every name .* once, got 'dispersion' twice"
    ):
        unbin.load(tmp_path / "m.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must be whole JSON"),
        (b"\xff\xfe\x00", "must be JSON, got no text"),
        (b"\x80\x04\x95", "must be JSON, got no text"),
        (b'{"a": NaN}', "numbers must be finite, got NaN"),
        (b'{"a": -Infinity}', "numbers must be finite, got -Infinity"),
        (b"[" * 100_000, "must be whole JSON, got too deep a nesting"),
        (b"[" + b"9" * 10_000 + b"]", "must be whole JSON, got Exceeds the limit"),
        (b"[1, 2]", "must be a model that unbin saved, got other JSON"),
        (b"null", "must be a model that unbin saved, got other JSON"),
    ],
)
def test_other_files_are_refused(tmp_path, content, message):
    (tmp_path / "m.json").write_bytes(content)
    with pytest.raises(ModelFileError) as caught:
        unbin.load(tmp_path / "m.json")
    assert message in str(caught.value)


def test_every_truncation_is_refused(saved, tmp_path):
    for size in range(0, len(saved.rstrip()), 97):
        (tmp_path / "m.json").write_text(saved[:size])
        with pytest.raises(ModelFileError):
            unbin.load(tmp_path / "m.json")


def test_a_file_that_is_not_there_or_too_large(tmp_path, monkeypatch, saved):
    with pytest.raises(ModelFileError, match=r"m\.json: must be a file, got no such file"):
        unbin.load(tmp_path / "m.json")
    (tmp_path / "m.json").write_text(saved)
    monkeypatch.setattr("unbin.results.persistence.MAX_BYTES", 100)
    with pytest.raises(ModelFileError, match="must have at most 100 bytes, got more"):
        unbin.load(tmp_path / "m.json")


def test_files_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    old, new = tmp_path / "a", tmp_path / "b"
    old.write_text("old")

    class Interrupted(dict):
        def items(self):
            yield old, "new"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_texts(Interrupted())
    assert old.read_text() == "old"
    with pytest.raises(OutputError, match="cannot be written, got No such file"):
        write_texts({old: "new", tmp_path / "none" / "c": "x"})
    assert old.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    write_texts({old: "new", new: "é\n"})
    assert (old.read_text(), new.read_bytes()) == ("new", "é\n".encode())


def test_csv_is_not_run_by_spreadsheets():
    columns = {
        "=name": ["=cmd()", "+1+1", "-a", "@x", "\tx", "-1", "plain", "a,b", None],
        "value": np.array([-1.5, np.nan, 2.0, np.inf, 0.1, 1e300, -3.0, 0.0, 1.0]),
    }
    assert csv_text(columns) == (
        "'=name,value\n'=cmd(),-1.5\n'+1+1,\n'-a,2\n'@x,inf\n'\tx,0.1\n-1,1e+300\nplain,-3\n"
        '"a,b",0\n,1\n'
    )
