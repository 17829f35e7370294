"""What our entries share: fits without warnings, and what they say of themselves."""

from __future__ import annotations

import warnings

import numpy as np

import common
import unbin
import votes
from studies.registry import Fitted, NotAvailable, Task, VotesTask
from unbin.exceptions import UnbinError


def fit(task: Task, **settings) -> Fitted:
    """Fit the GLM to the tables of people."""
    settings = {"family": task.family, "n_jobs": 1, "random_state": 0} | settings
    try:
        model = common.fit_quietly(task.X, task.target(), **settings)
    except UnbinError as error:
        raise NotAvailable(str(error).split(";")[0]) from error
    return Fitted(model.predict, verdict(model))


def verdict(model: unbin.AggregatedGLM | unbin.AggregatedClassifier) -> str:
    """Return whether the fit trusts itself, or the first reason why not."""
    found = model.diagnostics_
    if found.trusted:
        return "trusted"
    return f"not trusted: {found.reasons[0]}" if found.reasons else "not trusted"


def cells(task: VotesTask, contextual: float | str) -> tuple[np.ndarray, str]:
    """Fit the classifier to margins, with random effects by group; return its cells."""
    rows, counts = votes.tables(task.blocks, task.people, task.counts, task.groups, task.categories)
    others = None
    if task.by_region is not None:
        names = np.unique(task.regions)
        region = dict(zip(task.blocks, task.regions, strict=True))
        pairs = zip(rows["block"], rows["group"], strict=True)
        rows["region"] = [f"{region[block]} {group}" for block, group in pairs]
        keys = [f"{region} {group}" for region in names for group in task.groups]
        table = {
            "block": np.repeat(keys, len(task.categories)),
            "category": np.tile(task.categories, len(keys)),
            "count": task.by_region.ravel(),
        }
        others = {"region": unbin.Release.from_categories(table)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = votes.fit(rows, unbin.Release.from_categories(counts), contextual, others)
    found = votes.estimated(model, task.blocks, task.groups, task.categories)
    return found, verdict(model)
