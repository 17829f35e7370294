"""Blocks scored on the device: ``likelihood.scoring`` with all blocks at a time.

Only what is needed of each block comes back: with many blocks their moments are most of what would
travel, and whitening them most of what the host would do.
"""

from __future__ import annotations

import numpy as np

from unbin.device.backend import Tensor, to_host, torch
from unbin.device.rows import TorchRows
from unbin.device.sums import moment_tensors
from unbin.likelihood.moments import Problem
from unbin.likelihood.scoring import JITTER, PartSums
from unbin.typing import BoolArray, FloatArray, IntArray

_ROWS = 512
"""Rows of long matrices that are multiplied at a time."""


def score(
    rows: TorchRows, problem: Problem, free: FloatArray, reference: IntArray, used: BoolArray
) -> PartSums:
    """See ``scoring.score_rows``; counts are known and rows stand for themselves."""
    blocks, n_bins = rows.span, problem.counts.n_bins
    mean, slopes, cross = moment_tensors(rows, problem.law, free, True)
    p, variance = len(free), problem.block_variance
    people = rows.machine.send(problem.counts.n[blocks].astype(float), torch.float64)
    spread = _finish_covariance(mean, cross, people, n_bins)
    _add_noise(problem, cross, people)
    residual = _published(problem, rows) - mean
    right = torch.cat(
        [_to_free(problem, free, slopes), slopes[:, :, :1], residual[:, :, None]], dim=2
    )
    used = used[blocks] & (np.arange(used.shape[1]) != reference[blocks, None])
    df = whiten(cross, right, torch.as_tensor(used, device=cross.device))
    white, white_residual = right[:, :, :-1], right[:, :, -1]
    both = (white_residual[:, None] @ white)[:, 0]
    along = (white[:, :, -1][:, None] @ white)[:, 0]
    scores, pull, along, hold = both[:, :-1], both[:, -1], along[:, :-1], along[:, -1]
    flat = white[:, :, :-1].reshape(-1, p)
    information = products(flat, flat)
    if variance > 0:
        share = variance / (1 + variance * hold)
        scores = scores - (share * pull)[:, None] * along
        information = information - products(along, along * share[:, None])
    misfit = (white_residual**2).sum(dim=1)
    found = to_host([information, spread, scores, along, misfit, df, pull, hold, mean])
    return PartSums(
        blocks=blocks,
        information=found[0],
        lost=np.zeros((p, p)),
        spread=found[1],
        scores=found[2],
        along=found[3],
        misfit=found[4],
        df=found[5],
        pull=found[6],
        hold=found[7],
        hidden=np.zeros(len(mean)),
        mean=found[8],
    )


def products(a: Tensor, b: Tensor) -> Tensor:
    """Return aᵀ b of two long matrices, some rows at a time: that keeps a device busy."""
    whole = len(a) // _ROWS * _ROWS
    pieces = (matrix[:whole].reshape(-1, _ROWS, matrix.shape[1]) for matrix in (a, b))
    left, right = pieces
    return torch.bmm(left.transpose(1, 2), right).sum(dim=0) + a[whole:].T @ b[whole:]


def whiten(covariance: Tensor, right: Tensor, used: Tensor) -> Tensor:
    """Multiply ``right`` by the inverse Cholesky factor of each block, in place; return df.

    Both are changed. Statistics that are not ``used`` become zeros.
    """
    size = covariance.shape[1]
    covariance *= used[:, :, None] & used[:, None, :]
    right *= used[:, :, None]
    covariance.diagonal(dim1=1, dim2=2).add_(JITTER)
    df = torch.zeros_like(right[:, 0, 0])
    for k in range(size):
        pivot = covariance[:, k, k].clamp(min=JITTER)
        df += 1.0 - JITTER / pivot
        inverse = torch.rsqrt(pivot)[:, None]
        right[:, k] *= inverse
        if k + 1 < size:
            below = covariance[:, k + 1 :, k] * inverse
            right[:, k + 1 :].addcmul_(below[:, :, None], right[:, k : k + 1], value=-1)
            covariance[:, k + 1 :, k + 1 :].addcmul_(below[:, :, None], below[:, None], value=-1)
    return df


def _finish_covariance(mean: Tensor, cross: Tensor, people: Tensor, n_bins: int) -> Tensor:
    """Turn sums of cross-products into covariances, in place; return what ``spread`` is made of."""
    cross[:, :n_bins, n_bins:] = cross[:, n_bins:, :n_bins].transpose(1, 2)
    diagonal, m = cross.diagonal(dim1=1, dim2=2)[:, :n_bins], mean[:, :n_bins]
    diagonal += m
    return torch.stack([diagonal.sum(), (m * (1 - m / people[:, None])).sum()])


def _add_noise(problem: Problem, cross: Tensor, people: Tensor) -> None:
    diagonal = cross.diagonal(dim1=1, dim2=2)
    diagonal[:, : problem.counts.n_bins] += problem.noise_sd**2
    if problem.means is not None and problem.means.noise_sd > 0:
        diagonal[:, -1] += (people * (problem.means.noise_sd / problem.means.unit)) ** 2


def _published(problem: Problem, rows: TorchRows) -> Tensor:
    """Return what was published of the blocks, 0 where nothing was."""
    blocks, counts = rows.span, problem.counts
    target = counts.count[blocks]
    if problem.means is not None:
        total = problem.means.mean[blocks] * counts.n[blocks] / problem.means.unit
        target = np.column_stack([target, np.nan_to_num(total)])
    return rows.machine.send(target, torch.float64)


def _to_free(problem: Problem, free: FloatArray, slopes: Tensor) -> Tensor:
    """Turn derivatives in (intercept, slopes, nuisance) into those in the free coordinates."""
    intercept, coordinates = problem.design.fit_intercept, problem.coordinates
    if not problem.family.has_thresholds:
        return slopes if intercept else slopes[:, :, 1:]
    # q_k = F_k - F_(k-1) with F_k a function of threshold_k - eta
    cumulative = torch.cumsum(slopes[:, : problem.counts.n_bins, 0], dim=1)[:, :-1]
    m = cumulative.shape[1]
    by_threshold = slopes.new_zeros((len(slopes), slopes.shape[1], m))
    by_threshold[:, :m].diagonal(dim1=1, dim2=2).copy_(-cumulative)
    by_threshold[:, 1 : m + 1].diagonal(dim1=1, dim2=2).copy_(cumulative)
    jacobian = torch.as_tensor(coordinates.nuisance_jacobian(free), device=slopes.device)
    first = 1 if coordinates.fixed_intercept or not intercept else 0
    return torch.cat([slopes[:, :, first:], by_threshold @ jacobian], dim=2)
