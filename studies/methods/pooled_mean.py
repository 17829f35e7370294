"""Everybody's mean for everybody: what a method has to beat. It is told the mean."""

import numpy as np

from studies.registry import Fitted, Method, Task, VotesTask


def constant(task: Task) -> Fitted:
    """Predict the mean of the outcomes."""
    mean = float(np.mean(task.y))
    return Fitted(lambda X: np.full(len(X), mean))


def shares(task: VotesTask) -> tuple[np.ndarray, str]:
    """Give everybody the shares of all votes."""
    found = task.counts.sum(axis=0) / task.counts.sum()
    return task.people[:, :, None] * found, ""


METHOD = Method("pooled mean", __doc__, 9, fit=constant, cells=shares, sees_outcomes=True)
