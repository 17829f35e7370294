"""What the classifier refuses, and what it says: "where: what, got what; what to do"."""
# ruff: noqa: E501

import copy
import re

import numpy as np
import pandas as pd
import pytest

import unbin
from tests.helpers.votes import draw_votes
from unbin.exceptions import (
    AggregatedTargetError,
    AlignmentError,
    CategoryError,
    DomainError,
    EncodingError,
    EngineError,
    ParameterError,
    UnbinError,
)

PEOPLE = draw_votes(n_blocks=8, size=20)
X, IDS, LABELS = PEOPLE.X, PEOPLE.blocks, PEOPLE.labels
RELEASE = unbin.aggregate(LABELS, IDS)
TARGET = RELEASE.align(IDS)
NUMBERS = unbin.aggregate(X[:, 0], IDS, 4)
FRAME = pd.DataFrame({"age": X[:, 0], "race": np.where(X[:, 1] > 0, "y", "x"), "precinct": IDS,
                      "n": 2.0})  # fmt: skip
TABLES = {"precinct": RELEASE}


def fit(y=TARGET, people=X, settings=None, **how):
    return unbin.AggregatedClassifier(**settings or {}).fit(people, y, **how)


def grouped(**settings):
    return {"settings": {"random": ["x1"], **settings}}


FITS = [
    ({"y": NUMBERS.align(IDS)}, CategoryError, "y: must be tables of categories, got numbers; fit them with unbin.AggregatedGLM"),
    ({"y": {"precinct": NUMBERS}, "people": FRAME, "features": ["age"]}, CategoryError, "y: must be tables of categories, got numbers"),
    ({"y": [TARGET, TARGET]}, ParameterError, "y: a classifier has one target, got a list; fit one model for each"),
    ({"y": unbin.aggregate(np.full(160, "a"), IDS).align(IDS)}, CategoryError, "y: a classifier needs at least two classes, got one class: 'a'; add people of another"),
    ({"y": np.full(160, "a")}, CategoryError, "y: a classifier needs at least two classes, got one class: 'a'; add people of another"),
    ({"y": np.where(LABELS == "a", None, LABELS)}, CategoryError, "y: every row needs a label, got"),
    ({"y": np.array([*LABELS[:-1].astype(object), 3], dtype=object)}, CategoryError, "y: labels must be of one kind, got"),
    ({"y": RELEASE}, AggregatedTargetError, "y: a release does not know the rows of X; pass release.align(blocks)"),
    ({"y": {}, "people": FRAME}, AggregatedTargetError, "y: must map columns of X to tables, got none; pass {column: release}"),
    ({"people": X[:-1]}, AlignmentError, "y: 160 rows were aligned with the release, X has 159; pass the block of each row of X to align()"),
    ({"y": unbin.observed(LABELS), "people": X[:-1]}, AlignmentError, "y: 160 labels were observed, X has 159 rows; say None where nobody knows"),
    ({"people": X * 1e60}, DomainError, "X: numbers must be at most 1e+50 in size"),
    ({"y": LABELS, "people": X * 1e60}, DomainError, "X: numbers must be at most 1e+50 in size"),
    ({"block": IDS}, ParameterError, "block, features: name columns"),
    ({"y": LABELS, "block": IDS}, ParameterError, "block, features: name columns beside tables, got observed labels; pass the features alone as X"),
    ({"y": LABELS, "people": FRAME, "features": ["age"]}, ParameterError, "block, features: name columns beside tables, got observed labels; pass the features alone as X"),
    ({"y": LABELS, "weights": np.ones(160)}, ParameterError, "weights: name a column of files and frames, got arrays"),
    ({"y": LABELS, "sample_weight": -np.ones(160)}, DomainError, "sample_weight: must be finite, at least 0"),
    ({"sample_weight": np.ones(160)}, ParameterError, "sample_weight: is for observed targets, got aggregated ones"),
    ({"y": TABLES, "people": FRAME, "features": ["age"], "sample_weight": np.ones(160)}, ParameterError, "sample_weight: is for observed targets, got aggregated ones"),
    ({"y": TABLES, "people": FRAME, "features": ["age"], "weighting": "often"}, ParameterError, "weighting: unknown, got 'often'"),
    ({"y": TABLES, "people": FRAME, "features": ["age"], "weights": "n", "weighting": "survey"}, EngineError, "weighting: 'survey' is for outcomes that are numbers or two categories, got 3 categories; use weighting='frequency'"),
    ({"y": TABLES, "people": FRAME}, ParameterError, "features: must list the columns that are features, got None; pass features=[...]"),
    ({"y": TABLES, "people": FRAME, "features": ["sex"]}, ParameterError, "features: must name columns of X, got 'sex'"),
    ({"y": {"county": RELEASE}, "people": FRAME, "features": ["age"]}, ParameterError, "y: must name columns of X, got 'county'"),
    ({"y": TABLES, "people": FRAME.assign(race=[None, *FRAME["race"][1:]]), "features": ["race"]}, EncodingError, "column 'race', row 1: must have a value"),
    ({"settings": {"alpha": "often"}}, ParameterError, "alpha: must be a number, None or 'auto', got 'often'; write for example 0.01"),
    ({"settings": {"alpha": -1}}, ParameterError, "alpha: must be a finite number, got -1; pass a number at least 0"),
    ({"settings": {"contextual": -1}}, ParameterError, "contextual: must be a finite number, got -1; pass a number at least 0"),
    ({"settings": {"tol": 0}}, ParameterError, "tol: must be a finite number, got 0; pass a number above 0"),
    ({"settings": {"max_iter": 0}}, ParameterError, "max_iter: must be a whole number, got 0; pass 1 or more"),
    ({"settings": {"fit_intercept": "no"}}, ParameterError, "fit_intercept: must be a bool, got 'no'; pass True or False"),
    ({"settings": {"n_jobs": 0}}, ParameterError, "n_jobs: must be a whole number, got 0; pass 1 or more"),
    ({"settings": {"engine": "torch"}}, ParameterError, "engine: unknown, got 'torch'; use one of 'local', 'dask'"),
    ({"y": LABELS, "settings": {"engine": "dask"}}, EngineError, "engine 'dask': fits tables, got observed labels; use engine='local'"),
    (grouped(random=["sex"]), ParameterError, "random: 'sex' must be a feature, got 'x0', 'x1'; name a column of text, or a mapping"),
    (grouped(random="race"), ParameterError, "random: must list features, got 'race'; pass for example ['race']"),
    (grouped(random=3), ParameterError, "random: must list features, got 3; pass for example ['race']"),
    (grouped(random=["x0"]), ParameterError, "random: 'x0' must be levels, text or columns of zeros and ones, got other numbers; cut them into levels"),
    (grouped(random={"a": ["x1"], "b": ["x1"]}), ParameterError, "random: each column must be of one feature, got 'x1' twice; list it once"),
    (grouped(random={"a": []}), ParameterError, "random: 'a' must be a feature, got 'x0', 'x1'"),
    (grouped(random=None, impossible={"c": {"x1": "x1"}}), ParameterError, "impossible: names levels of features in random, got random=None; pass random=[...]"),
    (grouped(impossible="c"), ParameterError, "impossible: must map categories to levels of features, got 'c'; pass for example {'childbirth': {'sex': 'm'}}"),
    (grouped(impossible={"c": ["x1"]}), ParameterError, "impossible: must map categories to levels of features, got {'c': ['x1']}"),
    (grouped(impossible={"z": {"x1": "x1"}}), CategoryError, "impossible: must name categories, 'a', 'b', 'c', got 'z'; correct it"),
    (grouped(impossible={"c": {"sex": "m"}}), ParameterError, "impossible: must name features in random, got 'sex'; add it there"),
    (grouped(impossible={"c": {"x1": 1}}), ParameterError, "impossible: 'x1' has the levels 'not x1', 'x1', got 1; correct it"),
    (grouped(impossible={k: {"x1": "x1"} for k in "abc"}), ParameterError, "impossible: everybody must be able to be in some category, got a group without one; leave one"),
    (grouped(impossible={"c": {"x1": ["x1", "not x1"]}}), CategoryError, "nobody can be in category 'c', got"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), FITS, ids=[case[2][:60] for case in FITS])
def test_fits_that_are_refused(call, error, message):
    model = unbin.AggregatedClassifier(**call.get("settings", {}))
    before = copy.deepcopy(model.__dict__)
    how = {name: value for name, value in call.items() if name not in ("y", "people", "settings")}
    with pytest.raises(error, match=re.escape(message)) as caught:
        model.fit(call.get("people", X), call.get("y", TARGET), **how)
    assert isinstance(caught.value, UnbinError)
    assert repr(model.__dict__) == repr(before)  # a failed fit changes nothing


MODEL = fit()
CALLS = [
    (lambda: MODEL.score(X, NUMBERS.align(IDS)), CategoryError, "score: the table must have the categories of the fit, 'a', 'b', 'c', got numbers"),
    (lambda: MODEL.score(X, unbin.aggregate(np.char.add(LABELS, "x"), IDS).align(IDS)), CategoryError, "score: the table must have the categories of the fit, 'a', 'b', 'c', got 'ax'"),
    (lambda: MODEL.score(X, [TARGET, TARGET]), ParameterError, "score: takes one target, got several; score them one by one"),
    (lambda: MODEL.score(X[:-1], TARGET), AlignmentError, "y: 160 rows were aligned with the release, X has 159"),
    (lambda: MODEL.conf_int(2), ParameterError, "level: must lie between 0 and 1, got 2; pass for example 0.95"),
    (lambda: MODEL.tidy("yes"), ParameterError, "exponentiate: must be a bool, got 'yes'; pass True or False"),
    (lambda: MODEL.tidy(backend="arrow"), ParameterError, "backend: needs 'pandas' or 'polars' installed, got 'arrow'"),
    (lambda: MODEL.group_table(), ParameterError, "group_table: cells are estimated where effects follow groups, got a fit without them; fit tables with random=[...]"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), CALLS, ids=[case[2][:60] for case in CALLS])
def test_results_that_are_refused(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_a_block_of_people_who_cannot_be_counted_there():
    race = np.where(IDS == "5", "y", FRAME["race"])
    labels = np.where(race == "y", np.where(LABELS == "c", "a", LABELS), LABELS)
    labels[np.flatnonzero(IDS == "5")[0]] = "c"
    target = unbin.aggregate(labels, IDS).align(IDS)
    model = unbin.AggregatedClassifier(random=["race"], impossible={"c": {"race": "y"}})
    with pytest.raises(CategoryError, match="block '5': nobody can be in category 'c', got 1 "):
        model.fit(pd.DataFrame({"race": race}), target)
