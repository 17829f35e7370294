"""Means and divergences of the paper's families, row by row, for compiled loops.

A family gives a law, a small tuple: numba compiles a loop for its type, and keeps what it compiled
for the next process (which it does not for functions that are passed as arguments). The formulas
call nothing, so that loops work on several rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from numba.extending import overload

from unbin._compiling import njit
from unbin.families.elementary import SMALLEST_EXPONENT, exp_below_one, log_of_one_and


class SquareLaw(NamedTuple):
    """mean = eta, D(z || mean) = (z - mean)²/2."""


class LogLaw(NamedTuple):
    """mean = exp(eta) for eta up to ``largest``, D(z || mean) = phi(z) - z eta + mean."""

    largest: float


class LogitLaw(NamedTuple):
    """mean = m / (1 + exp(-eta)), D(z || mean) = phi(z) - z eta + m log(1 + exp(eta))."""

    n_trials: float


CompiledLaw = SquareLaw | LogLaw | LogitLaw


def mean_at(law: Any, eta: float) -> float:
    """Return the mean of a row; see ``BregmanFamily.inverse_link``."""
    raise NotImplementedError


def divergence_of(law: Any, phi: float, z: float, eta: float, mean: float) -> float:
    """Return D(z || mean) of a row, phi being that of z; see ``BregmanFamily.divergence_at``."""
    raise NotImplementedError


def _same(law, eta):  # type: ignore[no-untyped-def]
    return eta


def _exp(law, eta):  # type: ignore[no-untyped-def]
    smallest = -law.largest if eta > 0 else SMALLEST_EXPONENT
    small = exp_below_one(max(-abs(eta), smallest))
    return 1.0 / small if eta > 0 else small


def _share(law, eta):  # type: ignore[no-untyped-def]
    odds = exp_below_one(max(-abs(eta), SMALLEST_EXPONENT))
    return law.n_trials * (1.0 if eta > 0 else odds) / (1.0 + odds)


def _half_square(law, phi, z, eta, mean):  # type: ignore[no-untyped-def]
    return 0.5 * (z - mean) * (z - mean)


def _less_exp(law, phi, z, eta, mean):  # type: ignore[no-untyped-def]
    return phi - z * eta + mean


def _less_log(law, phi, z, eta, mean):  # type: ignore[no-untyped-def]
    other = law.n_trials - mean
    odds = min(mean, other) / max(mean, other)
    return phi - z * eta + law.n_trials * (max(eta, 0.0) + log_of_one_and(odds))


_MEANS: dict[type, Callable[..., Any]] = {SquareLaw: _same, LogLaw: _exp, LogitLaw: _share}
_DIVERGENCES: dict[type, Callable[..., Any]] = {
    SquareLaw: _half_square,
    LogLaw: _less_exp,
    LogitLaw: _less_log,
}


@overload(mean_at)
def _mean_at(law, eta):  # type: ignore[no-untyped-def]
    return _MEANS[law.instance_class]


@overload(divergence_of)
def _divergence_of(law, phi, z, eta, mean):  # type: ignore[no-untyped-def]
    return _DIVERGENCES[law.instance_class]


@njit(cache=True, nogil=True, error_model="numpy")
def total_of(law, phi, z, eta, mean):  # type: ignore[no-untyped-def]
    """Add up D(z || mean) over the rows where z is not the mean."""
    total = 0.0
    for i in range(len(z)):
        if z[i] != mean[i]:
            total += divergence_of(law, phi[i], z[i], eta[i], mean[i])
    return total
