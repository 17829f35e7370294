"""The paper's z-step: sort the means, clip each to the bounds of its rank, unsort.

Lemma 3 of the paper (its equation 5), with the extensions to histograms, which are several order
statistics (Section 2.2), and to blocks (Section 2.3). For every identically
separable Bregman divergence the best targets z that satisfy the release are isotonic with the mean
(Lemmas 1 and 2), and given that order the problem separates into one convex problem per person,
solved by clipping:

    z_(j) = min(upper_j, max(lower_j, mean_(j))),   j the rank of the mean within its block.

The divergence does not appear, so neither does the family.
"""

from __future__ import annotations

import numpy as np

from unbin._compiling import njit
from unbin._typing import FloatArray, KeyArray
from unbin.matching.bounds import RankBounds
from unbin.matching.select import assign_runs


def impute(
    mean: FloatArray,
    bounds: RankBounds,
    *,
    eta: FloatArray | None = None,
    key: KeyArray | None = None,
) -> FloatArray:
    """Return the targets nearest to ``mean`` that satisfy the release.

    Parameters
    ----------
    mean : (n,)
        Means, rows block by block as in ``bounds.start``.
    bounds : RankBounds
        What was published.
    eta : (n,), optional
        An increasing function of the mean to rank by; it keeps apart what saturates in ``mean``.
    key : (n,) uint64, optional
        Ranks rows of equal mean. The objective does not depend on it; by default rows of equal
        mean keep their order.

    Returns
    -------
    z : (n,)
        argmin over z satisfying the release of D_phi(z || mean), for every such D_phi.
    """
    if key is None:
        key = np.arange(len(mean), dtype=np.uint64)
    run = np.empty(len(mean), dtype=np.int32)
    assign_runs(mean if eta is None else eta, key, bounds.start, bounds.run_start, bounds.cut, run)
    z = np.empty(len(mean))
    _clip(mean, run, bounds.lower, bounds.upper, z)
    return z


@njit(cache=True, nogil=True)
def _clip(mean, run, lower, upper, z):  # type: ignore[no-untyped-def]
    for i in range(len(mean)):
        z[i] = min(max(mean[i], lower[run[i]]), upper[run[i]])
