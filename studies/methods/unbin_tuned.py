"""Our likelihood; blocks left out choose family and ridge. For votes, with contextual slopes."""

import numpy as np

from studies.registry import Fitted, Method, Task, VotesTask
from studies.unbin_fits import cells, fit


def tuned(task: Task) -> Fitted:
    """Fit with what predicts blocks left out best."""
    family = task.family if task.family == "binomial" else "auto"
    return fit(task, family=family, alpha="held-out")


def tuned_cells(task: VotesTask) -> tuple[np.ndarray, str]:
    """Fit with contextual slopes: a second table tells their scale, margins alone do not."""
    return cells(task, contextual=0.25 if task.by_region is None else "auto")


METHOD = Method("unbin, tuned", __doc__, 3, fit=tuned, cells=tuned_cells)
