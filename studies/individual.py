"""The usual GLM, of people or of the means of blocks, by scikit-learn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def glm(
    family: str, X: np.ndarray, y: np.ndarray, people: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the mean outcome of new people; no penalty.

    Parameters
    ----------
    family : {"gaussian", "poisson", "binomial"}
    X : (n, d)
    y : (n,) outcomes, or means of them
    people : (n,) that a row stands for
    """
    if family == "gaussian":
        return LinearRegression().fit(X, y, sample_weight=people).predict
    if family == "poisson":
        model = make_pipeline(StandardScaler(), PoissonRegressor(alpha=0.0, max_iter=1000))
        y = np.maximum(y, 0.0)
        return model.fit(X, y, poissonregressor__sample_weight=people).predict
    model = make_pipeline(StandardScaler(), LogisticRegression(C=np.inf, max_iter=1000))
    both, outcome = np.concatenate([X, X]), np.repeat([1, 0], len(y))
    weight = np.concatenate([people * y, people * (1 - y)])
    model.fit(both, outcome, logisticregression__sample_weight=weight)
    return lambda new: model.predict_proba(new)[:, 1]
