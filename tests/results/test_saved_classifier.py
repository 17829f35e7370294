"""Saved classifiers: they predict as before, keep what may be kept, and damage is noticed."""

import json
import pickle
import warnings

import numpy as np
import pytest

import unbin
from tests.helpers.precincts import published, voters
from tests.helpers.saved import change
from unbin.exceptions import ModelFileError, ParameterError
from unbin.results.persistence import keeps_counts, read_model

PEOPLE = voters()
TABLE = published(PEOPLE)
NEW = PEOPLE[["race", "age"]].head(20)


def fitted(table=TABLE, features=("race", "age"), people=PEOPLE, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return unbin.AggregatedClassifier(**parameters).fit(
            people, {"precinct": table}, features=list(features)
        )


@pytest.fixture(scope="module")
def grouped():
    return fitted(published(PEOPLE, public=True), random=["race"], contextual=0.25)


def again(model, tmp_path, **how):
    unbin.save(model, tmp_path / "model.json", **how)
    return unbin.load(tmp_path / "model.json")


def same(loaded, model):
    """Compare everything public, and predictions of a frame."""
    for name, value in vars(model).items():
        if name.endswith("_") and name not in ("diagnostics_", "coding_"):
            np.testing.assert_array_equal(np.asarray(getattr(loaded, name)), value, name)
    assert loaded.get_params() == model.get_params()
    assert str(loaded.summary()) == str(model.summary())
    assert str(loaded.diagnostics_) == str(model.diagnostics_)
    np.testing.assert_array_equal(loaded.predict_proba(NEW), model.predict_proba(NEW))
    np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
    np.testing.assert_array_equal(loaded.standard_errors_, model.standard_errors_)


def test_a_loaded_classifier_is_the_same(tmp_path):
    model = fitted()
    same(again(model, tmp_path), model)


def test_cells_by_group_and_block(grouped, tmp_path):
    loaded = again(grouped, tmp_path)
    same(loaded, grouped)
    for name in ("group_table", "block_table"):
        assert getattr(loaded, name)("race").equals(getattr(grouped, name)("race"))
    where = PEOPLE["precinct"].head(20)
    np.testing.assert_array_equal(
        loaded.predict_proba(NEW, blocks=where), grouped.predict_proba(NEW, blocks=where)
    )


def test_two_categories_are_the_binomial_model(tmp_path):
    people = PEOPLE[PEOPLE["vote"] != "non"]
    model = fitted(published(people), people=people)
    assert model._binary is not None
    same(again(model, tmp_path), model)


@pytest.mark.parametrize("kind", [str, int, bool])
def test_observed_labels_of_any_kind(tmp_path, kind):
    codes = np.unique(PEOPLE["vote"], return_inverse=True)[1]
    labels = {str: PEOPLE["vote"].to_numpy(), int: codes, bool: codes > 0}[kind]
    X = PEOPLE[["age"]].to_numpy()
    model = unbin.AggregatedClassifier().fit(X, labels)
    loaded = again(model, tmp_path)
    assert loaded.classes_.tolist() == model.classes_.tolist()
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_a_formula_is_kept(tmp_path):
    model = unbin.glm("C(race) + age", PEOPLE, {"precinct": TABLE})
    unbin.save(model, tmp_path / "m.json", inputs={"a.csv": "00ff"})
    found = read_model(tmp_path / "m.json")
    assert found.inputs == {"a.csv": "00ff"}
    assert found.encoding == model.encoding_
    np.testing.assert_array_equal(found.model.predict_proba(NEW), model.predict_proba(NEW))


# -- what is personal ------------------------------------------------------------------------------


def test_cells_of_blocks_are_kept_of_public_tables_only(tmp_path):
    model = fitted(random=["race"])
    assert not keeps_counts(model)
    loaded = again(model, tmp_path)
    assert loaded._model.cells is None
    assert loaded.group_table("race").equals(model.group_table("race"))
    with pytest.raises(ParameterError, match=r"block_table: .* save it with public=True"):
        loaded.block_table("race")
    asked = again(model, tmp_path, public=True)
    assert asked.block_table("race").equals(model.block_table("race"))


def test_counts_without_small_ones_are_kept_but_no_cells(tmp_path):
    people = voters(n_precincts=30, size=400, seed=3)
    table = unbin.aggregate(people["vote"], people["precinct"])
    assert table.histogram.count.min() >= 11
    loaded = again(fitted(table, people=people, random=["race"]), tmp_path)
    assert loaded._model.counts is not None
    assert loaded._model.cells is None


def test_small_counts_are_not_written(tmp_path):
    people = voters(size=80)
    model = fitted(published(people), people=people)
    assert model._model.counts.count.min() < 11
    assert again(model, tmp_path)._model.counts is None
    counts = again(model, tmp_path, public=True)._model.counts
    np.testing.assert_array_equal(counts.count, model._model.counts.count)


def test_counts_less_known_people_are_never_written(tmp_path):
    people = PEOPLE.assign(known=PEOPLE["vote"].where(np.arange(len(PEOPLE)) % 50 == 0))
    model = unbin.AggregatedClassifier(random=["race"]).fit(
        people, {"precinct": TABLE}, features=["race"], observed="known"
    )
    assert model._model.counts.less_known
    for loaded in (again(model, tmp_path, public=True), pickle.loads(pickle.dumps(model))):
        assert loaded._model.counts is loaded._model.cells is None
        np.testing.assert_array_equal(loaded.coef_, model.coef_)


def test_no_list_is_as_long_as_the_people(grouped, tmp_path):
    unbin.save(grouped, tmp_path / "model.json")

    def longest(value):
        if isinstance(value, dict):
            return max(map(longest, value.values()), default=0)
        return max([len(value), *map(longest, value)]) if isinstance(value, list) else 0

    assert longest(json.loads((tmp_path / "model.json").read_text())) <= 40 < len(PEOPLE)


# -- damage ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(grouped, tmp_path_factory):
    path = tmp_path_factory.mktemp("classifier") / "model.json"
    unbin.save(grouped, path)
    return path.read_text()


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["extra"], 1, "classifier: must have the fields binary, classes, coding"),
        (["model"], None, "classifier: must have a model, or the binomial one"),
        (["parameters"], {}, "parameters: must be those of AggregatedClassifier, got others"),
        (["parameters", "contextual"], -1, "parameters: contextual: must be"),
        (["classes"], ["dem", "dem", "rep"], "classes: must be at least two, each once"),
        (["classes"], ["dem", 1, "rep"], "classes: must be texts or numbers"),
        (["classes"], [], "classes: must be texts or numbers"),
        (["classes"], ["dem", "rep"], "model.classes: must be 2, got 3"),
        (["coding", "levels"], [None, None], "coding: must give 3 columns, got others"),
        (["model", "coef"], [[1.0]], "coef: must be finite, of shape (3, 3), got shape (1, 1)"),
        (["model", "coef", 0, 0], "nan", "coef: must be finite"),
        (["model", "intercept"], [1.0], "intercept: must be finite, of shape (3,)"),
        (["model", "predicting"], [[[1.0]]], "predicting: must be slopes and intercepts"),
        (["model", "covariance"], [[1.0]], "covariance: must have shape (12, 12), got (1, 1)"),
        (["model", "covariance", 1, 1], -1.0, "variances in covariance: must not be negative"),
        (["model", "effect_sd"], [1.0], "effect_sd: must be finite, of shape (3,)"),
        (["model", "status"], "os.system", "model.status: must be a known status, got 'os."),
        (["model", "errors"], "os.system", "model.errors: must be a known status, got 'os."),
        (["model", "factors", 0, "columns"], [9, 1], "factors: 'race' must have columns among"),
        (["model", "factors", 0, "columns"], [1], "factors.columns: must have shape (2,)"),
        (["model", "factors", 0, "levels"], [], "factors.columns: must have shape"),
        (["model", "shift"], [[[1.0]]], "shift: must be finite, of shape (40, 3, 3)"),
        (["model", "blocks", 0], "z", "blocks: must be sorted"),
        (["model", "totals"], None, "totals: must go with features that effects follow"),
        (["model", "totals", "count"], [[[1.0]]], "totals.count: must be finite, of shape (1, 3"),
        (["model", "cells", "people", 0, 0], -1.0, "cells.people: must not be negative"),
        (["model", "sensitivity"], {"x": [[1.0]]}, "model.sensitivity: must be an object with"),
        (["model", "sensitivity"], [], "model.sensitivity: must be an object, got []"),
        (["model", "sensitivity"], {"0": [[1.0]]}, "sensitivity: must be finite, of shape (3, 3)"),
        (["model", "counts", "count"], [[1.0]], "published.count: must have shape (40, 3)"),
        (["model", "diagnostics", "verdicts"], ["x"], "diagnostics.verdicts: must be one of each"),
        (["model", "diagnostics", "precision"], [1.0], "diagnostics.precision: must have shape"),
        (["model", "n_people"], -1, "n_people: must not be negative"),
    ],
)
def test_damage_is_named(saved, tmp_path, place, value, message):
    (tmp_path / "model.json").write_text(change(saved, ["classifier", *place], value))
    with pytest.raises(ModelFileError) as caught:
        unbin.load(tmp_path / "model.json")
    assert message in str(caught.value)
    assert str(caught.value).startswith("model.json: ")


def test_two_categories_need_the_binomial_model(tmp_path):
    people = PEOPLE[PEOPLE["vote"] != "non"]
    unbin.save(fitted(published(people), people=people), tmp_path / "m.json")
    text = (tmp_path / "m.json").read_text()
    for place, value, message in (
        (["classes"], ["a", "b", "c"], "classes: must be 2, got 3"),
        (["binary"], 3, "binary: must be a model of numbers"),
        (["binary", "several"], True, "binary: must be of one target, got several"),
        (["binary", "fits"], [], "fits: must be a list with a fit"),
    ):
        (tmp_path / "m.json").write_text(change(text, ["classifier", *place], value))
        with pytest.raises(ModelFileError, match=message):
            unbin.load(tmp_path / "m.json")


def test_random_damage_is_refused_or_harmless(saved, tmp_path):
    """Whatever is put in the place of a part, nothing but the library's own error comes out."""
    rng = np.random.default_rng(0)
    odd = [None, True, -1, 1e300, "x", [], {}, [[]], "nan"]
    model = json.loads(saved)["classifier"]["model"]
    for _ in range(150):
        place, inner = ["model"], model
        while isinstance(inner, dict | list) and inner and rng.random() < 0.7:
            keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
            place.append(keys[rng.integers(len(keys))])
            inner = inner[place[-1]]
        text = change(saved, ["classifier", *place], odd[rng.integers(len(odd))])
        (tmp_path / "m.json").write_text(text)
        try:
            loaded = unbin.load(tmp_path / "m.json")
            loaded.predict(NEW)
            loaded.group_table()
            str(loaded.summary())
        except (ModelFileError, ParameterError):
            continue
