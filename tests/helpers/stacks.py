"""Problems of several tables, rows laid out by crossed cell."""

from dataclasses import replace

import numpy as np

from unbin.families import get_family
from unbin.likelihood.data.layout import arrange
from unbin.likelihood.data.problem import KnownPeople, make_problem
from unbin.likelihood.model.moments import groups_of, map_cells, units_of
from unbin.rows.cells import Cells, cross
from unbin.rows.design import alone, lay_out


def problem_of(X, targets, family, *, beside=(), weights=None, sampled=False, known=None, y=None):
    """Return the problem of aligned tables.

    Parameters
    ----------
    X : (n, d)
    targets : list of AggregatedTarget
    family : str
    beside : tuple of int
        Tables that are to stand beside the others, whatever would be decided about them.
    weights, sampled
        See ``lay_out``.
    known : (m,), optional
        Rows whose outcome ``y`` is known; tables that count them too are told by ``weights``.
    """
    releases = [target.release for target in targets]
    place, crossed = cross([target.codes for target in targets])
    core = [t for t in range(len(targets)) if t not in beside]
    plan = arrange([releases[t] for t in core], crossed[core], sampled=sampled)
    named = [tuple(core[t] for t in each) for each in (plan.core, plan.border, plan.beside)]
    named[2] = tuple(sorted((*named[2], *beside)))
    cells = Cells.arranged(crossed, plan.group)
    plan = replace(plan, core=named[0], border=named[1], beside=named[2], group=np.sort(plan.group))
    design = lay_out(
        X,
        cells.rank[place],
        len(cells.rank),
        weights=weights,
        sampled=sampled,
        everybody=None if known is None else np.ones(len(X)),
        group=cells.group,
    )
    people = None
    if known is not None:
        people = KnownPeople(
            alone(design, list(X[known].T), None, np.ones(len(known))),
            y[known],
            tuple(target.codes[known] for target in targets),
        )
    return make_problem(
        design, releases, get_family(family), codes=cells.codes, plan=plan, people=people
    )


def moments_of(problem, free):
    """Return the sums of all cells of a small problem, and the moments of each stack's units."""
    (sums,) = map_cells(problem, free, lambda sums: sums)
    found = [groups_of(problem, free, sums)]
    for j, stack in enumerate(problem.layout.stacks[1:], 1):
        found.append(units_of(problem, sums, j).moments(problem, free, stack, 0))
    return sums, found
