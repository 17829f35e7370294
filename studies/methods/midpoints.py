"""Everybody gets the mean of their block, from midpoints of bins; then the usual GLM of people."""

import numpy as np

from studies.individual import glm
from studies.registry import Fitted, Method, Task, VotesTask
from studies.tables import all_block_means


def regression(task: Task) -> Fitted:
    """Fit the family's GLM to people; with several tables they get the mean of their blocks'."""
    y = np.mean([each.outcome[each.place] for each in all_block_means(task)], axis=0)
    return Fitted(glm(task.family, task.X, y, np.ones(len(y))))


def alike(task: VotesTask) -> tuple[np.ndarray, str]:
    """Give every group the shares of its block, or its own of the region where these are known."""
    if task.by_region is not None:
        place = np.unique(task.regions, return_inverse=True)[1]
        shares = task.by_region / task.by_region.sum(axis=2, keepdims=True)
        return task.people[:, :, None] * shares[place], ""
    shares = task.counts / task.counts.sum(axis=1, keepdims=True)
    return task.people[:, :, None] * shares[:, None, :], ""


METHOD = Method("midpoints", __doc__, 6, fit=regression, cells=alike)
