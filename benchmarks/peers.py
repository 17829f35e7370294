"""unbin beside what people use today, on the same published tables.

    python benchmarks/peers.py                   the whole table (under a minute)
    python benchmarks/peers.py --runs 3          fewer data sets

Simulated people: 100 blocks of about 50, three normal features with 30 % of their variance between
blocks. Printed for each rival, as means over data sets:

- slopes: length of the error of the slopes over the length of the slopes
- new people: mean squared error of predictions of new people over that of the oracle, the GLM
  fitted to the individual targets
- own target: root mean squared error of each person's own target, guessed from features and table

"Block means" regresses the mean of each block, from the midpoints of the bins, on block means of
the features. "Midpoints" gives everybody that mean and fits the GLM to people. Sorted least squares
(full list of values only) alternates between least squares and sorting the list into the order of
the predictions, from the slopes of block means. llp-learn (binary targets) and shuffled_stats (full
list) are skipped with a message where they are not installed; see docs/users_of/peers.md.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor

import timing  # noqa: F401  it keeps to one thread
import unbin
from unbin.datasets import simulate
from unbin.families import get_family
from unbin.matching.bounds import rank_bounds
from unbin.matching.start import block_target_means

N_PEOPLE, N_BLOCKS, BETWEEN = 5000, 100, 0.3
STARTS = 4
"""Random starts of shuffled_stats; its default is 2 d²."""


@dataclass(frozen=True)
class Case:
    """A simulated population, published and new."""

    name: str
    family: str
    coef: tuple[float, ...]
    intercept: float
    bins: int | None  # None: the list of all values


CASES = (
    Case("gaussian, 8 bins", "gaussian", (0.8, -0.5, 0.3), 0.0, 8),
    Case("gaussian, full list", "gaussian", (0.8, -0.5, 0.3), 0.0, None),
    Case("poisson, 6 bins", "poisson", (0.4, -0.3, 0.2), 1.0, 6),
    Case("binary", "binomial", (0.8, -0.5, 0.3), 0.0, 2),
)


@dataclass(frozen=True)
class Data:
    """What a rival gets, and what it is judged by."""

    case: Case
    X: np.ndarray
    codes: np.ndarray
    target: unbin.AggregatedTarget
    means: np.ndarray  # of each block, from midpoints
    y: np.ndarray
    new_rows: np.ndarray
    new_y: np.ndarray

    def block_features(self) -> np.ndarray:
        sums = np.zeros((len(self.means), self.X.shape[1]))
        np.add.at(sums, self.codes, self.X)
        return sums / np.bincount(self.codes)[:, None]


@dataclass(frozen=True)
class Answer:
    """Slopes, predictions of new people, and a guess of each person's own target."""

    coef: np.ndarray
    new: np.ndarray
    own: np.ndarray


def draw(case: Case, seed: int) -> Data:
    """Publish half of a simulated population; the other half is new."""
    sim = simulate(
        2 * N_PEOPLE, 3, 2 * N_BLOCKS, family=case.family, between=BETWEEN, coef=case.coef,
        intercept=case.intercept, random_state=seed,
    )  # fmt: skip
    old = sim.blocks < f"{N_BLOCKS:03d}"
    X, y, blocks = sim.X[old], sim.y[old], sim.blocks[old]
    if case.bins is None:
        release = unbin.Release.from_values({"block": blocks, "value": y})
    else:
        edges = [-1.0, 0.0, 1.0] if case.family == "binomial" else case.bins
        release = unbin.aggregate(y, blocks, edges)
    target = release.align(blocks)
    bounds = rank_bounds(target.release, get_family(case.family, 1).domain)
    means = block_target_means(bounds)
    return Data(case, X, target.codes, target, means, y, sim.X[~old], sim.y[~old])


def plain_glm(family: str, X, y, weight=None) -> tuple[np.ndarray, Callable]:
    """Fit a GLM with scikit-learn; targets between 0 and 1 are shares."""
    if family == "binomial":
        weight = np.ones(len(y)) if weight is None else weight
        label = np.repeat([1, 0], len(X))
        both = np.concatenate([weight * y, weight * (1 - y)])
        model = LogisticRegression(C=np.inf, max_iter=1000)
        model.fit(np.concatenate([X, X]), label, sample_weight=both)
        return model.coef_[0], lambda new: model.predict_proba(new)[:, 1]
    regressor = LinearRegression() if family == "gaussian" else PoissonRegressor(alpha=0)
    regressor.fit(X, y, sample_weight=weight)
    return regressor.coef_, regressor.predict


def oracle(data: Data) -> Answer:
    coef, predict = plain_glm(data.case.family, data.X, data.y)
    return Answer(coef, predict(data.new_rows), predict(data.X))


def with_unbin(data: Data, method: str) -> Answer:
    model = unbin.AggregatedGLM(data.case.family, method, random_state=0)
    model.fit(data.X, data.target)
    return Answer(model.coef_, model.predict(data.new_rows), model.impute())


def block_means(data: Data) -> Answer:
    size = np.bincount(data.codes).astype(float)
    coef, predict = plain_glm(data.case.family, data.block_features(), data.means, size)
    return Answer(coef, predict(data.new_rows), predict(data.X))


def midpoints(data: Data) -> Answer:
    own = data.means[data.codes]
    coef, predict = plain_glm(data.case.family, data.X, own)
    return Answer(coef, predict(data.new_rows), own)


def sorted_least_squares(data: Data) -> Answer:
    """Alternate between least squares and sorting the list; the list is one block's values."""
    rows = [np.flatnonzero(data.codes == b) for b in range(len(data.means))]
    lists = [np.sort(data.y[inside]) for inside in rows]  # all that was published
    _, predict = plain_glm("gaussian", data.block_features(), data.means)
    mean, z = predict(data.X), np.empty(len(data.X))
    for _ in range(500):
        before = z.copy()
        for inside, values in zip(rows, lists, strict=True):
            z[inside[np.argsort(mean[inside])]] = values
        if np.array_equal(before, z):
            break
        model = LinearRegression().fit(data.X, z)
        mean = model.predict(data.X)
    return Answer(model.coef_, model.predict(data.new_rows), z)


def shuffled_stats_ls(data: Data) -> Answer:
    """Sorted least squares by shuffled_stats, which minimises from random starts."""
    np.random.seed(0)  # noqa: NPY002  it draws from the global generator
    shuffled = np.random.default_rng(0).permutation(len(data.y))
    order = shuffled[np.argsort(data.codes[shuffled], kind="stable")]
    rows = np.argsort(data.codes, kind="stable")
    X = np.column_stack([np.ones(len(rows)), data.X[rows]])
    found = import_module("shuffled_stats").linregress(
        X, data.y[order], estimator="LS", groups=data.codes[rows], n_starts=STARTS
    )
    return Answer(found[1:], found[0] + data.new_rows @ found[1:], found[0] + data.X @ found[1:])


def llp_em(data: Data, init: str) -> Answer:
    """EM of llp-learn around a logistic regression with next to no penalty."""
    share = np.bincount(data.codes, data.y) / np.bincount(data.codes)  # as published
    inner = LogisticRegression(C=1e6, max_iter=1000)
    model = import_module("llp_learn.em").EM(inner, init_y=init, random_state=0)
    model.fit(data.X, data.codes, share)
    new = inner.predict_proba(data.new_rows)[:, 1]
    return Answer(inner.coef_[0], new, (model.predict(data.X, data.codes) + 1) / 2)


def rivals(case: Case) -> Iterator[tuple[str, Callable[[Data], Answer]]]:
    yield "oracle", oracle
    yield "unbin likelihood", lambda data: with_unbin(data, "likelihood")
    yield "unbin matching", lambda data: with_unbin(data, "matching")
    yield "block means", block_means
    yield "midpoints", midpoints
    if case.bins is None:
        yield "sorted least squares", sorted_least_squares
        yield "shuffled_stats LS", shuffled_stats_ls
    if case.family == "binomial":
        yield "llp-learn EM, random", lambda data: llp_em(data, "random")
        yield "llp-learn EM, majority", lambda data: llp_em(data, "majority")


def figures(answer: Answer, data: Data) -> tuple[float, float, float]:
    truth = np.array(data.case.coef)
    return (
        float(np.linalg.norm(answer.coef - truth) / np.linalg.norm(truth)),
        float(np.mean((answer.new - data.new_y) ** 2)),
        float(np.sqrt(np.mean((answer.own - data.y) ** 2))),
    )


def compare(case: Case, runs: int) -> None:
    print(f"\n{case.name}")
    print(f"{'':>24} {'slopes':>8} {'new people':>10} {'own target':>10} {'seconds':>8}")
    sets = [draw(case, seed) for seed in range(runs)]
    floor = 1.0
    for name, rival in rivals(case):
        begin = time.perf_counter()
        try:
            found = np.mean([figures(rival(data), data) for data in sets], axis=0)
        except ModuleNotFoundError as error:
            print(f"{name:>24} skipped: {error.name} is not installed")
            continue
        seconds = (time.perf_counter() - begin) / runs
        floor = found[1] if name == "oracle" else floor
        print(
            f"{name:>24} {found[0]:>8.3f} {found[1] / floor:>10.3f} {found[2]:>10.3f}"
            f" {seconds:>8.2f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20, help="data sets of each case")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # matching says that binary targets are separated
    for case in CASES:
        compare(case, args.runs)


if __name__ == "__main__":
    main()
