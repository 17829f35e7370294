"""Individual targets that agree with the published counts.

Given the model, person i is in bin k with probability q_ik. The published counts of the block are
met by raking (the limit of iterative proportional fitting), Q_ik ∝ q_ik r_k with rows that sum to 1
and columns that sum to the counts (Σ_i w_i Q_ik, where row i stands for w_i people), and the best
guess of a target is Σ_k Q_ik E[y | x_i, bin k]. As the noise goes to 0 this becomes the paper's
sort-and-clip.

Draws come from the exact distribution of the bins given the counts, P(bins) ∝ Π q_{i, bin of i}
over all assignments with those counts: ranks of a draw from the model start it, random swaps of two
people's bins (Metropolis) finish it. Before that the parameters and the effects of blocks are drawn
(:mod:`unbin.likelihood.impute.posterior`), so that multiple imputation is proper.

References
----------
Deming, W. E. and Stephan, F. F. (1940). On a least squares adjustment of a sampled frequency table
when the expected marginal totals are known. *Annals of Mathematical Statistics*, 11, 427-444.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from unbin._blocks import Span, spans_of
from unbin._compiling import inner, njit
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.exceptions import ParameterError
from unbin.families import Family
from unbin.families.latent import latent_scale
from unbin.likelihood.data.counts import PublishedCounts, representative_values
from unbin.likelihood.data.hidden import expected_within, multinomial_covariance, whole_counts
from unbin.likelihood.data.tables import published_counts
from unbin.likelihood.impute.posterior import Posterior, draw_effects
from unbin.likelihood.infer.estimate import LikelihoodFit
from unbin.likelihood.infer.heldout import expected_counts
from unbin.release import Release
from unbin.release.orders import orders_as_bins
from unbin.rows.design import Design
from unbin.rows.rows import Predictor

_TOL = 1e-9
_ROUNDING = 1e-13
"""What rounding may add to that, times the people of a block."""
_MAX_STEPS = 200
MIX = 1e-10
"""Share of the block's own histogram mixed into q, so that every count can be met."""
_SWEEPS = 20
_BISECTIONS = 60


@dataclass(frozen=True, slots=True)
class Raking:
    """What is needed to impute the targets of the rows a model was fitted to.

    Attributes
    ----------
    eta : (n,), or Predictor
        Block by block.
    start : (B + 1,)
    order : (n,)
        The row of X at each place.
    counts : PublishedCounts
    family : Family
    nuisance : (m,)
    people : (n,) or None
        Those that each row stands for, as many in a block as were published; None where it is one.
    posterior : Posterior or None
        What draws take parameters and effects of blocks from; None to take the estimates.
    """

    eta: FloatArray | Predictor
    start: IntArray
    order: IntArray
    counts: PublishedCounts
    family: Family
    nuisance: FloatArray
    people: FloatArray | None = None
    posterior: Posterior | None = None

    @classmethod
    def of(cls, design: Design, release: Release, family: Family, fit: LikelihoodFit) -> Raking:
        """Return the raking of a fit, to all that was published.

        Counts that have noise added are not met, because they are known to be wrong; suppressed
        and rounded ones are set to what the fit expects of them, rounded within their intervals.
        """
        assert design.order is not None
        eta, counts = design.predictor(fit.theta), counts_to_meet(release, family, fit.counts)
        people = design.in_memory().weights
        if counts.low is not None:
            mean = expected_counts(counts, family, eta[:], design.start, fit.nuisance, people)
            counts = fill_hidden(counts, mean)
        if people is not None:
            ratio = counts.n / np.where(design.people > 0, design.people, np.inf)
            people = people * np.repeat(ratio, design.size)
        return cls(
            eta=eta,
            start=design.start,
            order=design.order,
            counts=counts,
            family=family,
            nuisance=fit.nuisance,
            people=people,
            posterior=Posterior(design, family, fit),
        )

    def mean(self, *, log: bool = False) -> FloatArray:
        """Return the best guess of every target, in the order of X; of several people, their mean.

        With ``log`` the model is a gaussian for the log of the target, and the guesses are of the
        target itself.
        """
        z = np.empty(len(self.eta))
        for span, code, share in self._shares():
            z[span.rows] = (share * self._bin_means(span, code, log=log)).sum(axis=1)
        return in_order_of(self.order, z)

    def shares(self) -> FloatArray:
        """Return Q, the raked probability of each bin for every person, in the order of X."""
        result = np.empty((len(self.eta), self.counts.n_bins))
        for span, _, share in self._shares():
            result[span.rows] = share
        return in_order_of(self.order, result)

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Return one draw of every target, in the order of X, with the published counts."""
        check_persons(self.people)
        own, y = self._redrawn(rng), np.empty(len(self.eta))
        for span in spans_of(self.start):
            code, q = own._probabilities(span)
            bins = own._draw_bins(span, q, rng)
            y[span.rows] = own._draw_values(span, code, bins, rng)
        return in_order_of(self.order, y)

    def _redrawn(self, rng: np.random.Generator) -> Raking:
        """Return the raking at drawn parameters and effects of blocks."""
        if self.posterior is None:
            return self
        eta, nuisance = self.posterior.draw(rng)
        (sd,), counts = self.posterior.block_sd, self.counts
        effect = draw_effects(self.family, eta, self.start, counts, nuisance, sd, rng)
        eta = eta + np.repeat(effect, np.diff(self.start))
        if counts.low is not None:
            mean = expected_counts(counts, self.family, eta, self.start, nuisance)
            counts = fill_hidden(counts, mean)
        return replace(self, eta=eta, nuisance=nuisance, counts=counts, posterior=None)

    def _shares(self) -> Iterator[tuple[Span, IntArray, FloatArray]]:
        for span in spans_of(self.start):
            code, q = self._probabilities(span)
            blocks = slice(span.first, span.last)
            people = np.ones(len(q)) if self.people is None else self.people[span.rows]
            told = self.counts.count[blocks], self.counts.known[blocks]
            _rake(q, people, self._local_start(span), *told)
            yield span, code, q

    def _probabilities(self, span: Span) -> tuple[IntArray, FloatArray]:
        """Return the block of every row of a span, and q."""
        size = np.diff(self.start[span.first : span.last + 1])
        code = np.repeat(np.arange(span.first, span.last), size)
        lower, upper = self.counts.edges(code)
        q = self.family.bins(self.eta[span.rows], lower, upper, self.nuisance).probability
        return code, np.ascontiguousarray(q)

    def _local_start(self, span: Span) -> IntArray:
        return np.asarray(self.start[span.first : span.last + 1] - self.start[span.first])

    def _bin_means(self, span: Span, code: IntArray, *, log: bool) -> FloatArray:
        eta, (lower, upper) = self.eta[span.rows], self.counts.edges(code)
        if self.family.free_shape:
            return free_bin_means(eta, self.nuisance, self.counts)
        return means_in_bins(self.family, eta, lower, upper, self.nuisance, log=log)

    def _draw_bins(self, span: Span, q: FloatArray, rng: np.random.Generator) -> IntArray:
        blocks = slice(span.first, span.last)
        count, known = self.counts.count[blocks], self.counts.known[blocks]
        return draw_bins(q, self._local_start(span), count, known, rng)

    def _draw_values(
        self, span: Span, code: IntArray, bins: IntArray, rng: np.random.Generator
    ) -> FloatArray:
        low, high = (in_bins(edge, bins) for edge in self.counts.edges(code))
        u, eta = rng.random(len(code)), self.eta[span.rows]
        if self.family.free_shape:
            return draw_free(eta, self.nuisance, self.counts, bins, u)
        return draw_in_bins(self.family, eta, self.nuisance, low, high, u)


def counts_to_meet(release: Release, family: Family, fitted: PublishedCounts) -> PublishedCounts:
    """Return what imputed targets are to agree with: all that was published, nothing merged.

    Counts with noise added are not met, so that nothing is known there. A family of free shape has
    the bins it was fitted to, and no others.
    """
    if release.noise_sd > 0:
        return replace(fitted, known=np.zeros_like(fitted.known))
    if family.free_shape:
        return fitted
    return published_counts(orders_as_bins(release), family.domain, smallest=0)


def fill_hidden(counts: PublishedCounts, mean: FloatArray) -> PublishedCounts:
    """Set suppressed and rounded counts to whole ones that are expected within their intervals.

    ``mean`` (B, K) are the expected counts of the model. Counts that are not whole, because rows do
    not stand for whole numbers of people, are not rounded.
    """
    count, _ = expected_within(counts, mean, multinomial_covariance(mean), slice(None))
    whole = bool((counts.count == np.rint(counts.count)).all())
    return replace(counts, count=whole_counts(count) if whole else count)


def check_persons(people: FloatArray | None) -> None:
    """Raise unless every row is one person, whose target can be drawn."""
    if people is None or (people == 1).all():
        return
    raise ParameterError(
        f"kind: 'draw' draws the target of a person, got a row that stands for "
        f"{people[people != 1][0]:g} people; repeat rows that stand for several, or use kind='mean'"
    )


def in_order_of(order: IntArray, values: FloatArray) -> FloatArray:
    """Put values of laid-out rows back into the order of X; ``order`` is the row at each place."""
    result = np.empty_like(values)
    result[order] = values
    return result


def in_bins(edge: FloatArray, bins: IntArray) -> FloatArray:
    """Return the edge of each row's bin; edges are (K,) or (n, K)."""
    return np.asarray(edge[bins] if edge.ndim == 1 else edge[np.arange(len(bins)), bins])


def means_in_bins(
    family: Family,
    eta: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    nuisance: FloatArray,
    *,
    log: bool,
) -> FloatArray:
    """Return E[y | bin k], or E[exp(y) | bin k] with ``log`` and a gaussian family, (n, K)."""
    if not log:
        return family.bin_means(eta, lower, upper, nuisance)
    # E[exp(y) | bin] = exp(eta + s/2) q(eta + s) / q(eta), s the variance
    s = np.exp(2 * nuisance[0])
    shifted = family.bins(eta + s, lower, upper, nuisance).probability
    q = family.bins(eta, lower, upper, nuisance).probability
    means = np.exp(eta + s / 2)[:, None] * shifted / np.maximum(q, 1e-300)
    return np.asarray(np.clip(means, np.exp(lower), np.exp(upper)))


def draw_bins(
    q: FloatArray,
    start: IntArray,
    count: FloatArray,
    known: BoolArray,
    rng: np.random.Generator,
) -> IntArray:
    """Draw the bins of rows that lie block by block, given the counts of the blocks.

    Parameters
    ----------
    q : (n, K)
        Probabilities of the bins.
    start : (B + 1,)
    count : (B, K)
        Whole numbers.
    known : (B,)
        Blocks whose counts are to be met; the others are drawn from q.
    """
    cumulative = np.cumsum(q, axis=1)
    bins: IntArray = (rng.random((len(q), 1)) > cumulative[:, :-1]).sum(axis=1)
    _swap(q, start, count.astype(np.int64), known, rng.random(len(q)), bins, rng)
    return bins


def free_bin_means(eta: FloatArray, thresholds: FloatArray, counts: PublishedCounts) -> FloatArray:
    """Return E[y | bin k] where the shape of the target is free, (n, K)."""
    scale = latent_scale(thresholds, counts.lower, counts.upper, whole=counts.whole)
    if scale is not None:
        return scale.bin_means(eta)
    values = representative_values(counts)[0]
    return np.broadcast_to(values, (len(eta), len(values)))


def draw_free(
    eta: FloatArray,
    thresholds: FloatArray,
    counts: PublishedCounts,
    bins: IntArray,
    u: FloatArray,
) -> FloatArray:
    """Draw within one bin per row where the shape of the target is free.

    Where bins have values and no scale (see ``latent_scale``): uniformly within closed ones, from
    exponential tails in open ones.
    """
    scale = latent_scale(thresholds, counts.lower, counts.upper, whole=counts.whole)
    if scale is not None:
        return scale.draw(eta, bins, u)
    lower, upper = counts.halfway() if counts.whole else (counts.lower, counts.upper)
    low, high, value = lower[bins], upper[bins], representative_values(counts)[0][bins]
    tail = -np.log(np.maximum(u, 1e-300))
    with np.errstate(invalid="ignore"):
        inner = low + u * (high - low)
        above, below = low + (value - low) * tail, high - (high - value) * tail
    drawn = np.where(np.isinf(high), above, np.where(np.isinf(low), below, inner))
    return np.clip(np.rint(drawn), low + 0.5, high - 0.5) if counts.whole else drawn


def draw_in_bins(
    family: Family,
    eta: FloatArray,
    nuisance: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    u: FloatArray,
) -> FloatArray:
    """Invert the distribution within each row's bin at ``u``, by bisection.

    ``lower`` and ``upper`` are the ends of one bin per row, shape (n,); integers for an integer
    family.
    """
    integer = family.domain.integer
    mean, sd = family.inverse_link(eta), np.sqrt(family.variance(eta, nuisance))
    low = np.where(np.isfinite(lower), lower, np.minimum(mean, upper) - 12 * sd)
    high = np.where(np.isfinite(upper), upper, np.maximum(mean, lower) + 40 * sd + 40)
    wanted = u * _mass(family, eta, nuisance, lower, upper)
    a, b = low - integer, high
    for _ in range(_BISECTIONS):
        middle = np.floor((a + b) / 2) if integer else (a + b) / 2
        below = _mass(family, eta, nuisance, lower, middle) < wanted
        a, b = np.where(below, middle, a), np.where(below, b, middle)
    return np.clip(b, lower, upper)


def _mass(
    family: Family, eta: FloatArray, nuisance: FloatArray, lower: FloatArray, upper: FloatArray
) -> FloatArray:
    return family.bins(eta, lower[:, None], upper[:, None], nuisance).probability[:, 0]


@njit(cache=True, nogil=True, error_model="numpy")
def _rake(q, people, start, count, known):  # type: ignore[no-untyped-def]
    """Rake the rows of ``q``, block by block and in place; True where the counts were met.

    Newton's method on the convex dual Σ_i w_i log Σ_k q_ik exp(λ_k) - Σ_k c_k λ_k, started by two
    sweeps of iterative proportional fitting; w_i are the people that row i stands for.
    """
    n_bins = q.shape[1]
    met = np.ones(len(start) - 1, dtype=np.bool_)
    for b in range(len(start) - 1):
        rows, weights = q[start[b] : start[b + 1]], people[start[b] : start[b + 1]]
        n = count[b].sum()
        for i in range(len(rows)):
            total = 0.0
            for k in range(n_bins):
                if known[b]:
                    rows[i, k] = (rows[i, k] + MIX * count[b, k] / n) * (count[b, k] > 0)
                total += rows[i, k]
            for k in range(n_bins):
                rows[i, k] /= total
        if known[b]:
            met[b] = _rake_block(rows, weights, count[b])
    return met


@inner(nogil=True, error_model="numpy")
def _column_sums(rows, people, scale, out):  # type: ignore[no-untyped-def]
    """Return Σ_i w_i log Σ_k rows_ik scale_k, and write sums of the scaled, normalised columns."""
    n, n_bins = rows.shape
    out[:] = 0.0
    value = 0.0
    for i in range(n):
        total = 0.0
        for k in range(n_bins):
            total += rows[i, k] * scale[k]
        value += people[i] * np.log(total)
        for k in range(n_bins):
            out[k] += people[i] * rows[i, k] * scale[k] / total
    return value


@inner(nogil=True, error_model="numpy")
def _newton_step(rows, people, scale, gap):  # type: ignore[no-untyped-def]
    """Return the Newton step in λ = log scale for columns that miss their counts by ``gap``."""
    n, n_bins = rows.shape
    # λ is known up to a constant: 1/K in every entry ties its average down
    hessian = np.full((n_bins, n_bins), 1.0 / n_bins)
    share = np.empty(n_bins)
    for i in range(n):
        total = 0.0
        for k in range(n_bins):
            share[k] = rows[i, k] * scale[k]
            total += share[k]
        for k in range(n_bins):
            hessian[k, k] += people[i] * share[k] / total
            for j in range(n_bins):
                hessian[k, j] -= people[i] * share[k] * share[j] / total**2
    for k in range(n_bins):
        hessian[k, k] += 1e-12 * people.sum()
    return np.linalg.solve(hessian, gap)


@inner(nogil=True, error_model="numpy")
def _rake_block(rows, people, count):  # type: ignore[no-untyped-def]
    """Scale the columns of one block until they meet ``count``; True if they do."""
    n_bins, tol = rows.shape[1], max(_TOL, _ROUNDING * count.sum())
    scale, sums, new_sums = np.ones(n_bins), np.empty(n_bins), np.empty(n_bins)
    value = _column_sums(rows, people, scale, sums)
    for iteration in range(_MAX_STEPS):
        if np.abs(sums - count).max() <= tol:
            break
        if iteration < 2:
            step = np.log(np.maximum(count, 1e-300) / np.maximum(sums, 1e-300)) * (count > 0)
        else:
            step = _newton_step(rows, people, scale, count - sums)
        dual = value - (count * np.log(scale)).sum()
        for _ in range(40):  # halve until the dual falls
            new_scale = scale * np.exp(np.minimum(np.maximum(step, -30.0), 30.0))
            value = _column_sums(rows, people, new_scale, new_sums)
            if value - (count * np.log(new_scale)).sum() <= dual + 1e-12 * abs(dual):
                break
            step = step / 2
        scale = new_scale
        sums[:] = new_sums
    for i in range(len(rows)):
        total = 0.0
        for k in range(n_bins):
            total += rows[i, k] * scale[k]
        for k in range(n_bins):
            rows[i, k] *= scale[k] / total
    return np.abs(sums - count).max() <= 10 * tol


@njit(cache=True, nogil=True)
def _swap(q, start, count, known, tie, bins, rng):  # type: ignore[no-untyped-def]
    """Turn unconstrained bins into a draw with the published counts, block by block."""
    for b in range(len(start) - 1):
        s, n = start[b], start[b + 1] - start[b]
        if not known[b]:
            continue
        order = np.argsort(bins[s : s + n] + tie[s : s + n])
        k, filled = 0, 0
        for i in order:  # the ranks of the draw keep their order, the counts are met
            while filled == count[b, k]:
                k, filled = k + 1, 0
            bins[s + i] = k
            filled += 1
        for _ in range(_SWEEPS * n):
            i, j = s + int(n * rng.random()), s + int(n * rng.random())
            a, c = bins[i], bins[j]
            if a != c and rng.random() * q[i, a] * q[j, c] < q[i, c] * q[j, a]:
                bins[i], bins[j] = c, a
