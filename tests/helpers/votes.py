"""People, their categories, and problems made of what is published of these."""

from dataclasses import dataclass

import numpy as np

import unbin
from unbin.categories.problem import KnownCategories, make_problem
from unbin.categories.softmax import Groups
from unbin.fitting.methods import inside
from unbin.rows.design import alone, lay_out

NAMES = np.array(["a", "b", "c", "d", "e", "f", "g", "h"])
SLOPES = np.array([[0.8, 0.0, -0.8], [0.0, 0.6, -0.6]])
"""Of two features, for three categories."""


@dataclass(frozen=True)
class People:
    """Features (the second is 0 or 1), blocks, labels, and effects of blocks on the logits."""

    X: np.ndarray
    blocks: np.ndarray
    labels: np.ndarray


def draw_votes(
    seed=0, n_blocks=30, size=60, slopes=SLOPES, effect_sd=0.0, by_group=False, spread=0.7
):
    """Draw people of blocks of one size, the second feature a group."""
    rng = np.random.default_rng(seed)
    n, k = n_blocks * size, slopes.shape[1]
    code = np.repeat(np.arange(n_blocks), size)
    first = rng.normal(size=n) + spread * rng.normal(size=n_blocks)[code]
    share = rng.uniform(0.1, 0.9, n_blocks)
    group = (rng.random(n) < share[code]).astype(int)
    X = np.column_stack([first, group.astype(float)])
    effects = effect_sd * rng.normal(size=(n_blocks, 2, k))
    eta = X @ slopes + effects[code, group if by_group else 0] + rng.gumbel(size=(n, k))
    return People(X, code.astype(str), NAMES[eta.argmax(axis=1)])


def problem_of(people, *, partitions=None, grouped=False, known=None, release=None, **how):
    """Return the problem of tables by partitions, of groups, and of the labels of some rows."""
    X, labels = people.X, people.labels
    partitions = [people.blocks] if partitions is None else partitions
    if release is None:
        tables = [unbin.aggregate(labels, ids).align(ids) for ids in partitions]
    else:
        tables = [release.align(people.blocks)]
    if known is None:
        target = tables[0] if len(tables) == 1 else unbin.join(*tables)
    else:
        told = np.full(len(labels), "", dtype=object)
        told[known] = labels[known]
        target = unbin.join(*tables, unbin.observed(told))
    first, *others = getattr(target, "tables", (target,))
    design = lay_out(
        X,
        first.codes,
        len(first.release),
        others=tuple(table.codes for table in others),
        weights=None if first.weights is None else first.weights.values,
        everybody=np.ones(len(X)),
    )
    groups = Groups()
    if grouped:
        groups = Groups((np.array([1]),), (0.5 - design.center) / design.scale)
    if known is not None:
        places = np.searchsorted(np.unique(labels), labels[known])
        rows = alone(design, list(X[known].T), None, np.ones(len(known)))
        block = inside(first.release, target.codes[0][known])
        known = KnownCategories(rows, places, block)
    releases = [first.release, *(table.release for table in others)]
    return make_problem(design, releases, groups, known=known, **how)
