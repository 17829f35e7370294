"""The law of order statistics given each person's distribution, and its derivatives.

Both laws take the probabilities (n, J) of rows that lie block by block, ``first`` being where each
block's rows begin, and ``people`` (n,) how many people each row stands for. They return weights:
the derivative of the log density with respect to each row's probability.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from unbin._typing import BoolArray, FloatArray, IntArray

_SMALLEST = 1e-300
_JITTER = 1e-6
_LOG_ROOT_TWO_PI = 0.5 * np.log(2 * np.pi)


@dataclass(frozen=True, slots=True)
class Weights:
    """A log density and its derivatives.

    Attributes
    ----------
    value : float
        Summed over blocks.
    first, second : (n, J)
        Derivatives in the two probabilities (or densities) of each row.
    misfit : (B,)
        Squared standardised residuals of each block; 0 for integers.
    """

    value: float
    first: FloatArray
    second: FloatArray
    misfit: FloatArray


def real_law(
    below: FloatArray,
    density: FloatArray,
    rank: FloatArray,
    valid: BoolArray,
    n: IntArray,
    first: IntArray,
    people: FloatArray,
) -> Weights:
    """Return the normal form for real targets.

    Parameters
    ----------
    below, density : (n, J)
        F_i(s_j) and f_i(s_j) at the values of the row's block.
    rank, valid : (B, J)
    n, first : (B,)
    people : (n,)
    """
    code, people = _codes(first, len(below)), people[:, None]
    total = np.add.reduceat(people * below, first, axis=0)
    residual = np.where(valid, total - rank * (n / (n + 1))[:, None], 0.0)
    covariance = _covariance(below, people, total, valid, first)
    inverse = np.linalg.inv(covariance)
    pulled = (inverse @ residual[:, :, None])[:, :, 0]
    misfit = (residual * pulled).sum(axis=1)
    heights = np.maximum(np.add.reduceat(people * density, first, axis=0), _SMALLEST)
    value = -0.5 * misfit.sum() - 0.5 * np.linalg.slogdet(covariance)[1].sum()
    value += np.log(heights[valid]).sum()
    # d value / dS, and S depends on F through the totals and through products
    bend = 0.5 * (pulled[:, :, None] * pulled[:, None, :] - inverse)
    bend *= valid[:, :, None] & valid[:, None, :]
    upper = np.triu(bend, 1).sum(axis=2)
    by_total = np.diagonal(bend, axis1=1, axis2=2) + 2 * upper - pulled
    products = (bend[code] @ below[:, :, None])[:, :, 0]
    by_below = np.where(valid[code], by_total[code] - 2 * products, 0.0)
    by_density = np.where(valid, 1.0 / heights, 0.0)[code]
    return Weights(float(value), people * by_below, people * by_density, misfit)


def _codes(first: IntArray, n: int) -> IntArray:
    """Return the block of each of n rows."""
    return np.repeat(np.arange(len(first)), np.diff(np.append(first, n)))


def _covariance(
    below: FloatArray, people: FloatArray, total: FloatArray, valid: BoolArray, first: IntArray
) -> FloatArray:
    """Return the covariance of the numbers of people below; 1 on the diagonal of padding."""
    size = total.shape[1]
    place = np.minimum.outer(np.arange(size), np.arange(size))
    products = np.stack(
        [np.add.reduceat(people * below * below[:, [k]], first, axis=0) for k in range(size)],
        axis=2,
    )
    covariance = (total[:, place] - products) * (valid[:, :, None] & valid[:, None, :])
    k = np.arange(size)
    covariance[:, k, k] += np.where(valid, _JITTER, 1.0)
    return np.asarray(covariance)


def integer_law(
    at_most: FloatArray,
    less: FloatArray,
    rank: FloatArray,
    valid: BoolArray,
    first: IntArray,
    people: FloatArray,
) -> Weights:
    """Return Σ_j log P(y_(tau_j) = s_j) for integer targets.

    Parameters
    ----------
    at_most, less : (n, J)
        P(y_i ≤ s_j) and P(y_i < s_j) at the values of the row's block.
    rank, valid : (B, J)
    first : (B,)
    people : (n,)
    """
    code, people = _codes(first, len(at_most)), people[:, None]
    high, high_sd = _standardise(at_most, people, rank, first)
    low, low_sd = _standardise(less, people, rank, first)
    # look from the side on which both are small
    flip = low > 0
    a, b = np.where(flip, -low, high), np.where(flip, -high, low)
    log_a, log_b = log_ndtr(a), log_ndtr(b)
    log_p = log_a + np.log1p(-np.exp(np.minimum(log_b - log_a, -1e-12)))
    value = float(np.where(valid, log_p, 0.0).sum())
    by_high = _slope(high, log_p, valid)
    by_low = -_slope(low, log_p, valid)
    return Weights(
        value,
        people * _by_probability(by_high, high, high_sd, at_most, code),
        people * _by_probability(by_low, low, low_sd, less, code),
        np.zeros(len(first)),
    )


def _standardise(
    below: FloatArray, people: FloatArray, rank: FloatArray, first: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return (Σ F - tau + ½)/sd and sd, the standard deviation of the number of people below."""
    total = np.add.reduceat(people * below, first, axis=0)
    variance = np.add.reduceat(people * below * (1 - below), first, axis=0)
    sd = np.sqrt(variance + _JITTER)
    return (total - rank + 0.5) / sd, sd


def _slope(u: FloatArray, log_p: FloatArray, valid: BoolArray) -> FloatArray:
    """Return the normal density at u over p."""
    log_slope = -0.5 * u * u - _LOG_ROOT_TWO_PI - log_p
    return np.where(valid, np.exp(np.minimum(log_slope, 50.0)), 0.0)


def _by_probability(
    slope: FloatArray, u: FloatArray, sd: FloatArray, below: FloatArray, code: IntArray
) -> FloatArray:
    """Chain a derivative in u = (Σ F - …)/sd on to each row's F."""
    shift, stretch = slope / sd, np.where(slope > 0, 0.5, -0.5) * np.abs(slope) * u / sd**2
    return np.asarray(shift[code] - stretch[code] * (1 - 2 * below))
