"""How often the tests of a fit reject models that are right, at 5 %.

    python experiments/sizes.py
    python experiments/sizes.py --runs 50      a quick look; stores nothing

The right models of trust.py, 50, 100 and 300 blocks of 100 people, without effects and with block
effects of standard deviation .3: the shape test, the contextual score test, the extension tests
(the first feature's curvature, a scale that changes with it, the shape of the family) and the
goodness of fit, which is tested without effects only. The paper's permutation test and the chance
levels of the audit are in permutation.py and audit.py.
"""

from __future__ import annotations

import warnings

import numpy as np

import common
import trust
import unbin
from trust import Cell

FULL = 200
FAMILIES = ("gaussian", "poisson", "ordinal", "binomial")
CELLS = [
    Cell("right", family, blocks, effects=sd)
    for family in FAMILIES
    for blocks in (50, 100, 300)
    for sd in (0.0, 0.3)
]
KINDS = ("curvature", "scale", "shape")


def p_values(cell: Cell, seed: int) -> dict[str, float]:
    """Return the p value of every test, NaN where there is none."""
    people = trust.draw(cell, seed, CELLS.index(cell) + 1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = unbin.AggregatedGLM(cell.family).fit(people.X, trust.publish(cell, people))
    found = model.diagnostics_
    tests = {"shape_test": found.shape, "context": found.context}
    values = {name: np.nan if test is None else test.p_value for name, test in tests.items()}
    for kind in KINDS:
        own = [each.p_value for each in found.extensions if each.kind == kind]
        values[kind] = own[0] if own else np.nan
    alone = cell.effects == 0
    return values | {"fit": found.goodness_of_fit.p_value if alone else np.nan}


def main() -> None:
    runs = common.runs_from_command_line(__doc__, FULL)
    rows = []
    each_cell = common.over_cells(p_values, CELLS, runs)
    for cell, found in zip(CELLS, each_cell, strict=True):
        row = {"family": cell.family, "blocks": cell.blocks, "effects": cell.effects, "runs": runs}
        for name in found[0]:
            values = np.array([each[name] for each in found])
            values = values[np.isfinite(values)]
            row[name] = float((values < 0.05).mean()) if len(values) else np.nan
        rows.append(row)
    common.report("sizes", rows, store=runs >= FULL)


if __name__ == "__main__":
    main()
