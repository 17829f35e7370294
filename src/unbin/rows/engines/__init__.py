"""Where sums over rows are made: in this process, on a Dask cluster.

An engine holds parts (rows of some people each) and answers one question: what is the sum of this
function over all parts? It knows nothing of what a part is or what the function computes.
"""

from unbin.rows.engines.base import Parts, Recipe, itself
from unbin.rows.engines.local import LocalParts, available_threads, machine_memory, one_blas_thread

__all__ = [
    "LocalParts",
    "Parts",
    "Recipe",
    "available_threads",
    "itself",
    "machine_memory",
    "one_blas_thread",
]
