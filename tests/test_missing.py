"""A masked value is a missing value, wherever arrays are taken; numpy alone would forget it."""

# ruff: noqa: E501

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

import unbin
from tests.helpers.people import draw_people
from unbin import AggregatedGLM, AggregatedRegressor, Release
from unbin.exceptions import (
    BlockError,
    CountError,
    DomainError,
    EncodingError,
    OrderStatisticError,
    ParameterError,
    ReleaseError,
)
from unbin.people.encoding import Encoding

N, B = 3000, 60
CODES = np.arange(N) % B
X, Y = draw_people(np.random.default_rng(0), CODES)
IDS = CODES.astype(str)
RELEASE = unbin.aggregate(Y, IDS, bins=4)
TARGET = RELEASE.align(IDS)
MODEL = AggregatedGLM().fit(X, TARGET)
CONTEXTUAL = AggregatedGLM(contextual=True).fit(X, TARGET)


def masked(values, row=3):
    mask = np.zeros(np.shape(values), dtype=bool)
    mask[row] = True
    return np.ma.array(values, mask=mask)


def table(**columns):
    plain = {"block": ["a", "b"], "lower": [0.0, 0.0], "upper": [1.0, 1.0], "count": [3, 4]}
    return plain | columns


X_ERROR = "X: must have no missing values, got 2 masked, the first in row 3; fill them in or drop"
Y_ERROR = "y: must have no missing values, got 1 masked, the first in row 3; fill them in or drop"
ID_ERROR = "every row needs a block id, got 1 missing, the first in row 3"
CASES = [
    ("fit-X", lambda: AggregatedGLM().fit(masked(X), TARGET), DomainError, X_ERROR),
    ("fit-X-rows", lambda: AggregatedGLM().fit(list(masked(X)), TARGET), DomainError, X_ERROR),
    ("observed-X", lambda: AggregatedGLM().fit(masked(X), Y), DomainError, X_ERROR),
    ("fit-y", lambda: AggregatedGLM().fit(X, masked(Y)), DomainError, Y_ERROR),
    ("fit-offset", lambda: AggregatedGLM().fit(X, TARGET, offset=masked(Y)), DomainError, "offset: must have no missing values, got 1 masked"),
    ("fit-init", lambda: AggregatedGLM(method="matching", init=masked(np.ones(3), 1)).fit(X, TARGET), ParameterError, "init: must be .* finite numbers, got masked_array"),
    ("predict-X", lambda: MODEL.predict(masked(X)), DomainError, X_ERROR),
    ("predict-offset", lambda: MODEL.predict(X, offset=masked(Y)), DomainError, "offset: must have no missing"),
    ("predict-blocks", lambda: CONTEXTUAL.predict(X, blocks=masked(CODES)), BlockError, "blocks: " + ID_ERROR),
    ("predict-means", lambda: CONTEXTUAL.predict(X[:1], blocks=["new"], block_means={"new": masked(np.zeros(2), 1)}), ReleaseError, r"block_means\['new'\]: must have no missing values, got 1 masked, the first in row 1"),
    ("score-X", lambda: MODEL.score(masked(X), TARGET), DomainError, X_ERROR),
    ("score-y", lambda: MODEL.score(X, masked(Y)), ReleaseError, Y_ERROR),
    ("aggregate-y", lambda: unbin.aggregate(masked(Y), IDS), ReleaseError, Y_ERROR),
    ("aggregate-blocks", lambda: unbin.aggregate(Y, masked(IDS)), BlockError, "blocks: " + ID_ERROR),
    ("aggregate-bins", lambda: unbin.aggregate(Y, IDS, bins=masked(np.arange(5.0))), ReleaseError, "bins: must have no missing values"),
    ("align-text", lambda: RELEASE.align(masked(IDS)), BlockError, "blocks: " + ID_ERROR),
    ("align-numbers", lambda: RELEASE.align(masked(CODES)), BlockError, "blocks: " + ID_ERROR),
    ("check", lambda: RELEASE.check(masked(CODES)), BlockError, "blocks: " + ID_ERROR),
    ("count", lambda: Release.from_histogram(table(count=masked([3, 4], 1))), CountError, "block 'b': the count is missing, got nan in row 1 of column 'count'"),
    ("table-block", lambda: Release.from_histogram(table(block=masked(["a", "b"], 1))), BlockError, "column 'block': every row needs a block id, got 1 missing, the first in row 1"),
    ("values", lambda: Release.from_values({"block": ["a", "a"], "value": masked([1.0, 2.0], 1)}), OrderStatisticError, "column 'value' must hold finite values, got nan in row 1"),
    ("means", lambda: Release.from_means({"block": ["a", "b"], "mean": masked([1.0, 2.0], 1)}), OrderStatisticError, "column 'mean' must hold finite values, got nan"),
    ("encoding", lambda: Encoding.build("x", {"x": masked(Y)}), EncodingError, r"column 'x', row 4: must have a value, got 1 of 3,000 missing"),
    ("encoding-text", lambda: Encoding.build("C(x)", {"x": masked(IDS)}), EncodingError, r"column 'x', row 4: must have a value, got 1 of 3,000 missing"),
    ("audit-X", lambda: unbin.audit(masked(X), Y, IDS), DomainError, X_ERROR),
    ("audit-y", lambda: unbin.audit(X, masked(Y), IDS), ReleaseError, Y_ERROR),
    ("audit-blocks", lambda: unbin.audit(X, Y, {"county": masked(IDS)}), BlockError, ID_ERROR),
    ("permutation-X", lambda: unbin.permutation_test(AggregatedGLM(), masked(X), TARGET), DomainError, X_ERROR),
    ("permutation-y", lambda: unbin.permutation_test(AggregatedGLM(), X, TARGET, y=masked(Y)), DomainError, Y_ERROR),
    ("learner-X", lambda: AggregatedRegressor(LinearRegression()).fit(masked(X), TARGET), DomainError, X_ERROR),
    ("learner-y", lambda: AggregatedRegressor(LinearRegression()).fit(X, masked(Y)), DomainError, Y_ERROR),
    ("learner-init", lambda: AggregatedRegressor(LinearRegression(), init=masked(Y)).fit(X, TARGET), ParameterError, "init: must be .* predictions, got masked_array"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "message"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_masked_values_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_nothing_masked_is_a_plain_array():
    clean = AggregatedGLM(random_state=0).fit(np.ma.array(X), RELEASE.align(np.ma.array(IDS)))
    np.testing.assert_array_equal(clean.coef_, MODEL.coef_)
    np.testing.assert_array_equal(MODEL.predict(np.ma.array(X)), MODEL.predict(X))


def test_a_masked_edge_is_an_open_end_as_every_missing_one():
    read = Release.from_histogram(table(upper=masked([1.0, 1.0], 1)))
    np.testing.assert_array_equal(read.histogram.upper, [1.0, np.inf])


def test_learners_that_take_missing_values_get_masked_ones_as_missing():
    learner = HistGradientBoostingRegressor(max_iter=5, random_state=0)
    hole = np.where(masked(X).mask, np.nan, X)
    fits = [
        AggregatedRegressor(learner, max_iter=2, random_state=0).fit(features, Y)
        for features in (masked(X), hole)
    ]
    np.testing.assert_array_equal(fits[0].predict(masked(X)), fits[1].predict(hole))


def test_a_column_called_mask_is_no_mask():
    frame = pd.DataFrame({"_mask": X[:, 0], "mask": X[:, 1]})
    coef = AggregatedGLM().fit(frame, TARGET).coef_  # columns add up in another order
    np.testing.assert_allclose(coef, MODEL.coef_, rtol=1e-13)
