"""People in blocks, simulated with a known truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from unbin._checks import check_generator
from unbin._typing import FloatArray, TextArray
from unbin.exceptions import ParameterError


@dataclass(frozen=True, slots=True)
class Simulation:
    """Simulated people.

    Attributes
    ----------
    X : (n, d)
    y : (n,)
        Individual targets, which a release would hide.
    blocks : (n,) text
    coef : (d,)
        The truth.
    intercept : float

    Examples
    --------
    >>> import unbin
    >>> people = unbin.datasets.simulate(2000, 2, 40, coef=[0.5, -0.3])
    >>> unbin.aggregate(people.y, people.blocks, bins=5)
    Release: 40 blocks, 2,000 people
      histogram: 40 blocks, 5 bins, open below and above
    """

    X: FloatArray
    y: FloatArray
    blocks: TextArray
    coef: FloatArray
    intercept: float


def simulate(
    n: int = 5000,
    d: int = 3,
    n_blocks: int = 50,
    *,
    family: str = "gaussian",
    between: float = 0.1,
    noise: float = 1.0,
    n_trials: int = 1,
    coef: FloatArray | None = None,
    intercept: float = 0.0,
    random_state: int = 0,
) -> Simulation:
    """Simulate people with normal features in blocks of random size.

    Parameters
    ----------
    n, d, n_blocks : int
        People, features, blocks; every block has at least one person.
    family : {"gaussian", "poisson", "binomial"}
    between : float
        Share of the features' variance that lies between blocks.
    noise : float
        Standard deviation of a gaussian target around its mean.
    n_trials : int
        Trials of a binomial target.
    coef : (d,), optional
        Slopes; a random direction of length 1 when left out.
    intercept : float
    random_state : int

    Examples
    --------
    >>> import unbin
    >>> people = unbin.datasets.simulate(2000, 2, 40, family="poisson", coef=[0.5, -0.3])
    >>> people.X.shape, people.blocks[:3].tolist()
    ((2000, 2), ['30', '14', '38'])
    """
    if family not in _DRAW:
        raise ParameterError(f"family: must be one of {', '.join(_DRAW)}, got {family!r}")
    if n < n_blocks:
        raise ParameterError(f"n: {n} people do not fill {n_blocks} blocks; raise n")
    rng = check_generator(random_state)
    codes = np.concatenate([np.arange(n_blocks), rng.integers(0, n_blocks, n - n_blocks)])
    codes = rng.permutation(codes)
    shift = rng.standard_normal((n_blocks, d))
    X = np.sqrt(1 - between) * rng.standard_normal((n, d)) + np.sqrt(between) * shift[codes]
    if coef is None:
        coef = rng.standard_normal(d)
        coef = coef / np.linalg.norm(coef)
    eta = X @ np.asarray(coef) + intercept
    width = len(str(n_blocks - 1))
    names = np.char.zfill(np.arange(n_blocks).astype(np.str_), width)
    y = _DRAW[family](rng, eta, noise, n_trials)
    return Simulation(X, y, names[codes], np.asarray(coef, dtype=np.float64), float(intercept))


def _gaussian(
    rng: np.random.Generator, eta: FloatArray, noise: float, _n_trials: int
) -> FloatArray:
    return eta + noise * rng.standard_normal(len(eta))


def _poisson(
    rng: np.random.Generator, eta: FloatArray, _noise: float, _n_trials: int
) -> FloatArray:
    return rng.poisson(np.exp(eta)).astype(np.float64)


def _binomial(
    rng: np.random.Generator, eta: FloatArray, _noise: float, n_trials: int
) -> FloatArray:
    return rng.binomial(n_trials, expit(eta)).astype(np.float64)


_DRAW = {"gaussian": _gaussian, "poisson": _poisson, "binomial": _binomial}
