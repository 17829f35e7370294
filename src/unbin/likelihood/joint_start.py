"""Where a fit to several tables starts: block means of all tables, regressed on block means.

One-way tables of the features make it good: their blocks differ by just these features.
"""

from __future__ import annotations

import numpy as np

from unbin._typing import FloatArray, IntArray
from unbin.families.base import unweighted
from unbin.likelihood.counts import BlockTargets, block_targets
from unbin.likelihood.joint import JointProblem, add_to, partitions_of
from unbin.likelihood.start import pooled_variance, regress_means
from unbin.rows.design import BlockSums
from unbin.rows.rows import Rows, kernel


class Start:
    """Means of the target and of the features in the blocks of all tables, one after the other."""

    def __init__(
        self, problem: JointProblem, targets: BlockTargets, people: IntArray, means: FloatArray
    ) -> None:
        self.problem = problem
        self.targets = targets
        self.people = people
        self.means = means

    @classmethod
    def of(cls, problem: JointProblem) -> Start:
        """Read them off the tables."""
        sums = problem.first.design.total(column_sums)
        size = [table.counts.n for table in problem.tables]
        weight = problem.first.design.weight or size
        people = [np.where(each > 0, each, 1.0)[:, None] for each in weight]
        means = [own.arrays[0] / n for own, n in zip(sums, people, strict=True)]
        each = [
            block_targets(table.counts, None if table.means is None else table.means.mean)
            for table in problem.tables
        ]
        targets = BlockTargets(
            np.concatenate([targets.mean for targets in each]),
            np.concatenate([targets.variance for targets in each]),
        )
        if problem.known is not None and problem.known.means is not None:
            known, values = problem.known, problem.known.means.mean
            targets = BlockTargets(
                np.append(targets.mean, values),
                np.append(targets.variance, np.full(len(values), np.nan)),
            )
            size, means = [*size, known.counts.n], [*means, known.design.block_means]
        return cls(problem, targets, np.concatenate(size), np.concatenate(means))

    def point(self) -> FloatArray:
        """Return free parameters from the regression of block means on block means."""
        table, family = self.problem.first, self.problem.first.family
        if family.free_shape:
            return self.null()
        known = self.targets.known
        people = self.people[known].astype(float)
        pooled = float(people @ self.targets.mean[known] / people.sum())
        total = pooled_variance(self.targets, people, pooled)
        nuisance = family.start_nuisance(pooled, total)
        shift = int(table.design.fit_intercept)
        found = regress_means(self.means, self.people, self.targets.mean, family, nuisance, shift)
        if np.isfinite(self.targets.variance).any():
            eta = family.link(family.interior(np.array([pooled])))
            slopes = found.theta[shift:]
            gram = table.design.gram(np.zeros(len(found.theta)), unweighted)
            spread = float(slopes @ gram[shift:, shift:] @ slopes) / table.design.n_people
            explained = float(family.mean_derivative(eta)[0]) ** 2 * spread
            nuisance = family.start_nuisance(pooled, max(total - explained, 0.2 * total))
        else:
            nuisance = family.start_nuisance(pooled, found.residual_variance)
        return table.coordinates.join(found.theta, nuisance)

    def null(self) -> FloatArray:
        """Return free parameters with slopes of 0: level and scale of the pooled targets."""
        table, family = self.problem.first, self.problem.first.family
        theta = np.zeros(table.coordinates.n_theta)
        if family.free_shape:
            share = self._shares_below()
            return table.coordinates.join(theta, family.start_thresholds(share))
        known = self.targets.known
        people = self.people[known].astype(float)
        pooled = float(people @ self.targets.mean[known] / people.sum())
        if table.design.fit_intercept:
            theta[0] = float(family.link(family.interior(np.array([pooled])))[0])
        nuisance = family.start_nuisance(pooled, pooled_variance(self.targets, people, pooled))
        return table.coordinates.join(theta, nuisance)

    def _shares_below(self) -> FloatArray:
        """Return the share of people at or below each refined cut, of all tables that have it.

        People whose outcome is known included.
        """
        below, people = (np.zeros(len(self.problem.upper) - 1) for _ in range(2))
        for table in self.problem.tables:
            pooled = table.counts.count[table.counts.known].sum(axis=0)
            below[table.cuts] += np.cumsum(pooled)[:-1]
            people[table.cuts] += pooled.sum()
        if self.problem.known is not None:
            pooled = self.problem.known.counts.count.sum(axis=0)
            below += np.cumsum(pooled)[:-1]
            people += pooled.sum()
        return np.asarray(np.maximum.accumulate(below / np.maximum(people, 1)))


@kernel
def column_sums(rows: Rows) -> tuple[BlockSums, ...]:
    """Return the sums of the columns, and last of the offset, by block of each table."""
    partitions = partitions_of(rows)
    width = rows.matrix.shape[1] + 1
    totals = [np.zeros((len(blocks), width)) for blocks, _ in partitions]
    for tile in rows.tiles():
        values = rows.weighed(np.column_stack([rows.matrix[tile], rows.offset[tile]]), tile)
        for total, (_, place) in zip(totals, partitions, strict=True):
            add_to(place[tile], values, total)
    each = zip(partitions, totals, strict=True)
    return tuple(BlockSums(blocks, (total,)) for (blocks, _), total in each)
