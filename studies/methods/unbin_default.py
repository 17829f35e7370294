"""Our likelihood with default settings, and the family an analyst would take."""

from studies.registry import Method
from studies.unbin_fits import cells, fit

METHOD = Method(
    "unbin, default", __doc__, 1, fit=fit, cells=lambda task: cells(task, contextual=0.0)
)
