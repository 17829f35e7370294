"""Regression of block means on block means; for votes, Goodman's regression of shares."""

import numpy as np

from studies.individual import glm
from studies.registry import Fitted, Method, Task, VotesTask
from studies.tables import all_block_means


def regression(task: Task) -> Fitted:
    """Fit the family's GLM to the blocks of all tables, weighted by their people."""
    found = all_block_means(task)
    X = np.concatenate([each.features for each in found])
    y = np.concatenate([each.outcome for each in found])
    people = np.concatenate([each.people for each in found])
    return Fitted(glm(task.family, X, y, people))


def goodman(task: VotesTask) -> tuple[np.ndarray, str]:
    """Regress shares of the categories on shares of the groups; cut at 0, scaled to 1."""
    task.margins_only()
    total = task.people.sum(axis=1, keepdims=True)
    root = np.sqrt(total)
    shares, votes = task.people / total * root, task.counts / total * root
    found = np.maximum(np.linalg.lstsq(shares, votes, rcond=None)[0], 0.0)
    found /= found.sum(axis=1, keepdims=True)
    return task.people[:, :, None] * found, ""


METHOD = Method("block means", __doc__, 5, fit=regression, cells=goodman)
