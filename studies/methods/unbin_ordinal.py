"""Our likelihood of a cumulative logit of the bins: no shape of the outcome is assumed."""

from studies.registry import Fitted, Method, NotAvailable, Task
from studies.unbin_fits import fit


def ordinal(task: Task) -> Fitted:
    """Fit the cumulative logit."""
    if task.family == "binomial":
        raise NotAvailable("an outcome of 0 and 1 has one threshold: the default")
    return fit(task, family="ordinal")


METHOD = Method("unbin, ordinal", __doc__, 2, fit=ordinal)
