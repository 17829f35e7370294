"""All published statistics written out as one vector, person by person, with one dense covariance.

Every count is a difference of numbers of people at or below two cuts, and a published value is one
more cut. The covariance of two such numbers is a sum over the people who are in both blocks; all
derivatives are numeric. Nothing of how the statistics are stacked is used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.optimize import brentq

from unbin.likelihood.data.hidden import as_noisy, expected_within
from unbin.likelihood.data.problem import Problem

_STEP = 1e-5
_NODES = np.polynomial.hermite_e.hermegauss(5)
_CUTOFF = 1e-9
"""Eigenvalues of a covariance in units of variances below which they are 0."""


def inverse(matrix, cutoff=_CUTOFF):
    """Return the pseudoinverse of a covariance."""
    size = np.sqrt(np.maximum(np.diag(matrix), 1e-12))
    scale = np.outer(size, size)
    return np.linalg.pinv(matrix / scale, cutoff, hermitian=True) / scale


@dataclass(frozen=True)
class Cut:
    """People of a block at or below a value, each moved on the scale of eta; or their total."""

    table: int
    block: int
    value: float
    order: int = 0
    move: float | None = None
    total: bool = False


@dataclass(frozen=True)
class Dense:
    """Statistics of all tables of a problem, N in all, at some parameters; C cells, p parameters.

    Attributes
    ----------
    table, block, place : (N,)
        Which statistic of which block.
    """

    problem: Problem
    free: np.ndarray

    # -- people ------------------------------------------------------------------------------------

    @cached_property
    def rows(self):
        return self.problem.design.in_memory()

    @cached_property
    def cell(self):
        return np.repeat(self.rows.blocks, np.diff(self.rows.start))

    @cached_property
    def people(self):
        weights = self.rows.weights
        return np.ones(len(self.rows)) if weights is None else weights

    def eta(self, free, shift):
        theta, _ = self.problem.coordinates.split(free)
        return self.rows.eta(theta) + shift

    def averaged(self, eta, function):
        """Return the mean of a function of eta over random intercepts."""
        problem = self.problem
        sd = np.sqrt(problem.block_variance + sum(problem.further)) * np.ones(len(eta))
        if problem.effects is not None:
            group = problem.plan.group[self.cell]
            eta = eta + problem.effects.move[group]
            sd = np.sqrt(problem.effects.sd[group] ** 2 + sum(problem.further))
        nodes, weights = _NODES
        parts = [w * function(eta + sd * at) for at, w in zip(nodes, weights, strict=True)]
        return sum(parts) / weights.sum()

    def below(self, cut, eta, nuisance):
        """Return the probability of being at or below a cut at these eta."""
        family = self.problem.family
        if family.free_shape:
            upper = self.problem.grid.upper
            q = family.bins(eta, self.problem.grid.lower, upper, nuisance).probability
            return q[:, : np.searchsorted(upper, cut.value) + 1].sum(axis=1)
        ends = np.array([family.domain.low]), np.array([cut.value])
        return family.bins(eta + (cut.move or 0.0), *ends, nuisance).probability[:, 0]

    def expected(self, cut, free, shift=0.0):
        """Return the expectation of each person's part in a number of people, or total."""
        _, nuisance = self.problem.coordinates.split(free)
        if cut.total:
            return self.averaged(self.eta(free, shift), self.mean) / self.problem.unit
        if cut.move is not None:  # a published value is where it is, whatever the intercepts
            return self.below(cut, self.eta(free, shift), nuisance)
        return self.averaged(self.eta(free, shift), lambda eta: self.below(cut, eta, nuisance))

    def mean(self, eta):
        return self.problem.family.inverse_link(eta)

    # -- cuts --------------------------------------------------------------------------------------

    @cached_property
    def cuts(self):
        """All cuts, and the statistics as combinations of them: those added, those taken."""
        found, made = [], []

        def add(cut):
            found.append(cut)
            return len(found) - 1

        for t, table in enumerate(self.problem.tables):
            counts = table.counts
            valid = counts.valid()
            for b in range(len(counts.n)):
                ends = counts.upper if counts.shared else counts.upper[b]
                before = None
                bins = np.flatnonzero(valid[b])
                for k in bins:
                    at = None if k == bins[-1] else add(Cut(t, b, ends[k], order=t))
                    made.append((t, b, int(k), at, before))
                    before = at
                if table.means is not None and np.isfinite(table.means[b]):
                    at = add(Cut(t, b, np.inf, total=True))
                    made.append((t, b, counts.n_bins, at, None))
                if table.order is not None:
                    for j in np.flatnonzero(table.order.valid[b]):
                        cut = Cut(t, b, table.order.value[b, j], order=t)
                        cut = replace(cut, move=self.move_of(cut, table.order, b, j))
                        made.append((t, b, table.n_counted + int(j), add(cut), None))
        return found, made

    def move_of(self, cut, order, b, j):
        """Return the move of eta at which a published value is the expected one."""
        here = self.problem.codes[cut.table][self.cell] == b
        eta = self.eta(self.free, 0.0)
        _, nuisance = self.problem.coordinates.split(self.free)
        wanted = (order.rank[b, j] - 1 / 3) / (order.n[b] + 1 / 3)

        def gap(move):
            share = self.below(replace(cut, move=move), eta, nuisance)
            return np.average(share[here], weights=self.people[here]) - wanted

        return brentq(gap, -30, 30, xtol=1e-13)

    @cached_property
    def combination(self):
        """What makes statistics of cuts, (N, E), and the people of the block in the last bin."""
        cuts, made = self.cuts
        matrix, constant = np.zeros((len(made), len(cuts))), np.zeros(len(made))
        for i, (t, b, k, plus, minus) in enumerate(made):
            if plus is not None:
                matrix[i, plus] = 1.0
            elif k < self.problem.tables[t].counts.n_bins:
                constant[i] = self.problem.tables[t].counts.n[b]
            if minus is not None:
                matrix[i, minus] = -1.0
        return matrix, constant

    @cached_property
    def table(self):
        return np.array([each[0] for each in self.cuts[1]])

    @cached_property
    def block(self):
        return np.array([each[1] for each in self.cuts[1]])

    @cached_property
    def place(self):
        return np.array([each[2] for each in self.cuts[1]])

    @cached_property
    def group(self):
        """The group of each statistic of the core; -1 of others."""
        problem, found = self.problem, np.full(len(self.table), -1)
        for t in problem.plan.core:
            own = self.table == t
            group = np.zeros(len(problem.tables[t].counts.n), int)
            group[problem.codes[t]] = problem.plan.group
            found[own] = group[self.block[own]]
        return found

    @cached_property
    def inside(self):
        """Who is counted in each cut, times what brings rows to people, (E, n)."""
        found = []
        for cut in self.cuts[0]:
            table = self.problem.tables[cut.table]
            factor = 1.0 if table.factor is None else table.factor[cut.block]
            found.append(factor * (self.problem.codes[cut.table][self.cell] == cut.block))
        return np.array(found)

    # -- moments -----------------------------------------------------------------------------------

    def sums(self, free, shift=0.0):
        each = np.array([self.expected(cut, free, shift) for cut in self.cuts[0]])
        matrix, constant = self.combination
        return constant + matrix @ (self.inside * self.people * each).sum(axis=1)

    @cached_property
    def expectation(self):
        """m, (N,)."""
        return self.sums(self.free)

    @cached_property
    def derivative(self):
        """D, (N, p)."""
        steps = _STEP * np.eye(len(self.free))
        columns = [
            (self.sums(self.free + s) - self.sums(self.free - s)) / (2 * _STEP) for s in steps
        ]
        found = np.array(columns).T
        if not self.problem.tells_spread and any(t.order is not None for t in self.problem.tables):
            # one value of a block shows where it lies: the scale is set by the misfit
            found[:, self.problem.coordinates.n_slopes :] = 0.0
        return found

    @cached_property
    def by_person(self):
        """Derivative of every cut in the eta of each person, (E, n)."""
        up, down = (
            np.array([self.expected(cut, self.free, s) for cut in self.cuts[0]])
            for s in (_STEP, -_STEP)
        )
        return self.inside * self.people * (up - down) / (2 * _STEP)

    def along(self, values):
        """Return derivatives of statistics when eta moves by these values of people (n, k)."""
        return self.combination[0] @ self.by_person @ values

    def shifts(self, codes):
        """Return derivatives in a shift of each block of a partition of cells, (N, B)."""
        own = codes[self.cell]
        return self.along((own[:, None] == np.arange(codes.max() + 1)).astype(float))

    @cached_property
    def features(self):
        """Columns as they are fitted, (n, d)."""
        return self.rows.matrix

    def scaled(self, values):
        """Return derivatives when the first nuisance parameter moves by values of people."""
        n, step = self.problem.coordinates.n_slopes, np.zeros(len(self.free))
        step[n] = _STEP
        up, down = (
            np.array([self.expected(cut, self.free + s * step) for cut in self.cuts[0]])
            for s in (1, -1)
        )
        each = self.inside * self.people * (up - down) / (2 * _STEP)
        return self.combination[0] @ each @ values

    @cached_property
    def covariance(self):
        """Σ_i Cov(t_i), (N, N)."""
        cuts = self.cuts[0]
        share = np.array([self.expected(cut, self.free) for cut in cuts])
        both = np.zeros((len(cuts), len(cuts)))
        for a, first in enumerate(cuts):
            for b, second in enumerate(cuts[: a + 1]):
                here = np.sqrt(self.inside[a] * self.inside[b])
                if not here.any():
                    continue
                joint = self.together(first, second, share[a], share[b])
                both[a, b] = both[b, a] = (here * self.people * (joint - share[a] * share[b])).sum()
        matrix = self.combination[0]
        return matrix @ both @ matrix.T

    def together(self, one, other, share, share_of_other):
        """Return the expectation of the product of a person's parts in two cuts."""
        family, unit = self.problem.family, self.problem.unit
        if one.total or other.total:
            _, nuisance = self.problem.coordinates.split(self.free)
            cut = other if one.total else one

            def product(eta):
                mean = self.mean(eta)
                if cut.total:
                    return (family.variance(eta, nuisance) + mean**2) / unit**2
                # all that is said of a published value is said at its move
                moved = eta + (cut.move or 0.0)
                ends = np.array([family.domain.low]), np.array([cut.value])
                within = family.bin_means(moved, *ends, nuisance)[:, 0]
                return self.below(cut, eta, nuisance) * (within - self.mean(moved) + mean) / unit

            return self.averaged(self.eta(self.free, 0.0), product)
        first = (one.value, one.order) <= (other.value, other.order)
        return share if first else share_of_other

    # -- what was published ------------------------------------------------------------------------

    @cached_property
    def effects(self):
        """τ² e eᵀ of groups, (N, N)."""
        e = self.shifts(self.problem.plan.group)
        return self.problem.block_variance * e @ e.T

    @cached_property
    def evidence(self):
        """What the published numbers are apart of those expected, (N,), and their noise, (N, N)."""
        problem = self.problem
        residual, noise = np.zeros(len(self.table)), np.zeros((len(self.table),) * 2)
        moved = np.zeros(len(self.table))
        if problem.effects is not None:
            moved = self.shifts(problem.plan.group) @ problem.effects.move
        e = self.shifts(np.zeros_like(problem.plan.group))[:, 0]
        for t, table in enumerate(problem.tables):
            target = table.target(problem.unit)
            for b in np.unique(self.block[self.table == t]):
                own = np.flatnonzero((self.table == t) & (self.block == b))
                k = self.place[own]
                residual[own] = target[b, k] - self.expectation[own] + moved[own]
                counted, order = k < table.counts.n_bins, k >= table.n_counted
                residual[own[order]] = 0.0 + self._order(own[order], e)
                bins = own[counted]
                if table.counts.noise is not None:
                    variance = table.counts.noise[b, k[counted]]
                    added = np.diag(variance)
                    if table.counts.adds_up:
                        added -= np.outer(variance, variance) / variance.sum()
                    noise[np.ix_(bins, bins)] += added
                if table.counts.low is not None:
                    self._hide(t, b, bins, moved[bins], residual, noise)
        return residual, noise

    def _order(self, own, e):
        """Return e z of published values, which lie where they do and not where they should."""
        moves = np.array([self.cuts[0][self.cuts[1][i][3]].move for i in own])
        return e[own] * moves

    def _hide(self, t, b, bins, moved, residual, noise):
        table = self.problem.tables[t]
        own = (self.covariance + self.effects)[np.ix_(bins, bins)]
        if t in self.problem.plan.beside and self.problem.further:
            e = self.shifts(np.zeros_like(self.problem.plan.group))[bins, 0]
            own = self.covariance[np.ix_(bins, bins)]
            own = own + self.problem.further[t] * np.outer(e, e)
        mean = self.expectation[bins]
        before = np.maximum(mean - moved, 0.05 * mean)
        count, root = expected_within(table.counts, before[None], own[None], slice(b, b + 1))
        inside = count - mean + moved
        used = table.used()[b : b + 1, : len(bins)]
        found, left = as_noisy(own[None], used, inside, root)
        residual[bins] = found[0]
        noise[np.ix_(bins, bins)] += left[0] @ left[0].T

    @cached_property
    def used(self):
        """Statistics that are stacked, without one count of each block that adds up, (N,)."""
        marks = [table.used() for table in self.problem.tables]
        inside = {
            t for each in ("core", "border", "beside") for t in getattr(self.problem.plan, each)
        }
        return np.array([
            bool(marks[t][b, k]) and t in inside
            for t, b, k in zip(self.table, self.block, self.place, strict=True)
        ])  # fmt: skip

    @property
    def residual(self):
        return self.evidence[0]

    @cached_property
    def weighed(self):
        """Σ with the random intercepts that weigh, (N, N)."""
        problem = self.problem
        total = self.covariance + self.evidence[1] + self.effects
        for t, variance in enumerate(problem.further):
            if variance > 0 and problem.above_groups[t]:
                e = self.shifts(problem.codes[t])
                total = total + variance * e @ e.T
        return total

    def weights(self, columns, own=None):
        """Return Σ⁻¹ times some columns, with the statistics that are used alone, or ``own``."""
        own = self.used if own is None else self.used & own
        found = np.zeros(columns.shape)
        found[own] = inverse(self.weighed[np.ix_(own, own)]) @ columns[own]
        return found
