"""The likelihood predicts within 0.6 % of the oracle; matching is 8-15 % off.

    python experiments/accuracy.py

20,000 people in 500 blocks of unequal size; eight features, four binary and four normal, of whose
variance 5 % lies between blocks; the features explain half of the target's variance; five bins at
the pooled quantiles. Test error is the mean squared error on new people of the same distribution,
over that of the ordinary GLM fitted to the individual targets (the oracle). A poisson target comes
with four typical means: the smaller, the longer the tail of means that explains half of the
variance.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

import common
import unbin

N, N_TEST, N_BLOCKS, BETWEEN, R2, N_TRIALS = 20_000, 100_000, 500, 0.05, 0.5, 20
SHARES = np.array([0.5, 0.5, 0.3, 0.2])
CASES = (  # family, eta of the average person
    ("gaussian", 0.0),
    ("poisson", 0.0),
    ("poisson", 1.0),
    ("poisson", 2.0),
    ("poisson", 3.0),
    ("binomial", -0.5),
)


class Law:
    """The distribution of people: blocks, features and slopes drawn once per data set."""

    def __init__(self, family: str, level: float, rng: np.random.Generator) -> None:
        self.family, self.level, self.rng = family, level, rng
        self.weight = rng.gamma(2.0, size=N_BLOCKS)
        self.weight /= self.weight.sum()
        spread = 1 / BETWEEN - 1  # a beta share has variance m (1 - m) / (spread + 1)
        self.share = rng.beta(spread * SHARES, spread * (1 - SHARES), (N_BLOCKS, 4))
        self.shift = np.sqrt(BETWEEN) * rng.normal(size=(N_BLOCKS, 4))
        sd = np.r_[np.sqrt(SHARES * (1 - SHARES)), np.ones(4)]
        self.slopes = rng.normal(size=8) / sd
        self.slopes *= self._size()

    def features(self, codes: np.ndarray) -> np.ndarray:
        binary = self.rng.random((len(codes), 4)) < self.share[codes]
        within = np.sqrt(1 - BETWEEN) * self.rng.normal(size=(len(codes), 4))
        return np.column_stack([binary, within + self.shift[codes]])

    def people(self, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        codes = self.rng.choice(N_BLOCKS, n, p=self.weight)
        X = self.features(codes)
        return X, self._draw(self._mean(self._eta(X, self.slopes))), codes

    def _eta(self, X: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        return self.level + (X - np.r_[SHARES, np.zeros(4)]) @ slopes

    def _mean(self, eta: np.ndarray) -> np.ndarray:
        if self.family == "gaussian":
            return eta
        return np.exp(eta) if self.family == "poisson" else N_TRIALS * expit(eta)

    def _draw(self, mean: np.ndarray) -> np.ndarray:
        if self.family == "gaussian":
            return mean + self.rng.normal(size=len(mean))
        if self.family == "poisson":
            return self.rng.poisson(mean).astype(float)
        return self.rng.binomial(N_TRIALS, mean / N_TRIALS).astype(float)

    def _noise(self, mean: np.ndarray) -> float:
        if self.family == "gaussian":
            return 1.0
        return float(np.mean(mean if self.family == "poisson" else mean * (1 - mean / N_TRIALS)))

    def _size(self) -> float:
        """Return the factor of the slopes at which features explain R2 of the variance."""
        X = self.features(self.rng.choice(N_BLOCKS, N, p=self.weight))

        def explained(log_factor: float) -> float:
            mean = self._mean(self._eta(X, np.exp(log_factor) * self.slopes))
            return mean.var() / (mean.var() + self._noise(mean)) - R2

        return float(np.exp(brentq(explained, -6.0, 1.0)))


def one_run(family: str, level: float, seed: int) -> tuple[float, float]:
    """Return the test errors of likelihood and matching over that of the oracle."""
    law = Law(family, level, np.random.default_rng(seed))
    X, y, codes = law.people(N)
    blocks = common.block_names(codes)
    X_test, y_test, _ = law.people(N_TEST)
    oracle = unbin.AggregatedGLM(family, n_trials=N_TRIALS).fit(X, y)
    best = common.mse(oracle, X_test, y_test)
    errors = []
    for method in ("likelihood", "matching"):
        model = common.fit_release(X, y, blocks, 5, family, method=method, n_trials=N_TRIALS)
        errors.append(common.mse(model, X_test, y_test) / best)
    return errors[0], errors[1]


def main() -> None:
    runs = common.runs_from_command_line(__doc__, 50)
    rows = []
    for family, level in CASES:
        excess = 100 * (np.array([one_run(family, level, seed) for seed in range(runs)]) - 1)
        mean, error = excess.mean(axis=0), excess.std(axis=0) / np.sqrt(runs)
        rows.append(
            {
                "family": family,
                "level": level,
                "runs": runs,
                "likelihood_excess_percent": mean[0],
                "its_error": error[0],
                "matching_excess_percent": mean[1],
            }
        )
    common.report("accuracy", rows, store=runs >= 50)


if __name__ == "__main__":
    main()
