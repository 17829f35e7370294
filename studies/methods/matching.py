"""The paper's estimator (Bhowmik, Ghosh and Koyejo 2015): match targets and means by rank."""

from studies.registry import Fitted, Method, Task
from studies.unbin_fits import fit


def matching(task: Task) -> Fitted:
    """Fit by matching; it has no verdict of its own."""
    return Fitted(fit(task, method="matching").predict)


METHOD = Method("matching (the paper)", __doc__, 4, fit=matching)
