"""Multiple imputation is proper: Rubin's rules over regressions of imputed outcomes cover.

    python experiments/imputation.py
    python experiments/imputation.py --runs 20      a part; stores nothing

60 blocks of 50 people, two features (half a standard deviation between blocks), five bins, with and
without normal effects of blocks of standard deviation .5 (half of all that on the log scale of
counts), of which the fit is not told. Ten draws
of ``impute("draw")``, each regressed on the features by whoever has them: "pooled" over everybody
(ordinary least squares, standard errors clustered by block where blocks have effects; a Poisson GLM
for counts), and "within", with a dummy for each block. Rubin's rules, with the degrees of freedom
of Barnard and Rubin (1999), combine them. A row is the share of 95 % intervals of both slopes that
hold the truth.

"fixed": draws at the estimated parameters, without effects, as they were made before; "complete":
the same regression of the outcomes themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import stats

import common

FULL = 200
N_BLOCKS, SIZE, BINS, DRAWS = 60, 50, 5, 10
SLOPES = np.array([1.0, -0.5])
BETWEEN, EFFECT_SD = 0.5, 0.5
_STEPS = 12
"""Newton steps of a Poisson regression."""


@dataclass(frozen=True)
class Scene:
    """A family, and whether blocks have effects."""

    family: str = "gaussian"
    effects: bool = False


@dataclass(frozen=True)
class Estimate:
    """Slopes of a regression, their variances, and degrees of freedom."""

    coef: np.ndarray
    variance: np.ndarray
    df: float


SCENES = tuple(
    Scene(family, effects)
    for family in ("gaussian", "ordinal", "poisson")
    for effects in (False, True)
)
ANALYSES = ("pooled", "within")
KINDS = ("proper", "fixed", "complete")


def people(scene: Scene, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw features, outcomes and blocks."""
    rng = np.random.default_rng((SCENES.index(scene), seed, 17))
    codes = np.repeat(np.arange(N_BLOCKS), SIZE)
    n = len(codes)
    X = rng.normal(size=(n, 2)) + BETWEEN * rng.normal(size=(N_BLOCKS, 2))[codes]
    eta = X @ SLOPES + EFFECT_SD * scene.effects * rng.normal(size=N_BLOCKS)[codes]
    if scene.family == "poisson":
        return X, rng.poisson(np.exp(1 + 0.5 * eta)).astype(float), codes
    noise = rng.logistic(size=n) if scene.family == "ordinal" else rng.normal(size=n)
    return X, eta + noise, codes


def regress(X: np.ndarray, y: np.ndarray, codes: np.ndarray, scene: Scene, how: str) -> Estimate:
    """Regress outcomes on features as the analyst does who was given them."""
    dummies = np.eye(N_BLOCKS)[codes][:, 1:] if how == "within" else np.empty((len(y), 0))
    Z, counts = np.column_stack([np.ones(len(y)), X, dummies]), scene.family == "poisson"
    beta = np.zeros(Z.shape[1])
    beta[0] = np.log(y.mean()) if counts else 0.0
    for _ in range(_STEPS if counts else 1):
        mean = np.exp(Z @ beta) if counts else Z @ beta
        bread = np.linalg.inv(Z.T @ ((mean if counts else np.ones(len(y)))[:, None] * Z))
        beta = beta + bread @ (Z.T @ (y - mean))
    residual = y - (np.exp(Z @ beta) if counts else Z @ beta)
    df = float(len(y) - Z.shape[1])
    if how == "pooled" and scene.effects:
        score = np.stack([np.bincount(codes, column * residual) for column in Z.T], axis=1)
        covariance = bread @ (score.T @ score) @ bread * N_BLOCKS / (N_BLOCKS - 1)
        df = N_BLOCKS - 1.0
    else:
        covariance = bread * (1.0 if counts else residual @ residual / df)
    return Estimate(beta[1:3], np.diag(covariance)[1:3], df)


def combine(found: list[Estimate]) -> Estimate:
    """Combine the estimates of several draws by Rubin's rules."""
    m, df = len(found), found[0].df
    coef = np.array([each.coef for each in found])
    within = np.mean([each.variance for each in found], axis=0)
    between = (1 + 1 / m) * coef.var(axis=0, ddof=1)
    share = between / (within + between)
    large, small = (m - 1) / share**2, (df + 1) / (df + 3) * df * (1 - share)
    return Estimate(coef.mean(axis=0), within + between, large * small / (large + small))


def one_run(scene: Scene, seed: int) -> dict[str, np.ndarray]:
    """Return, by kind and analysis, whether the intervals of both slopes hold the truth."""
    X, y, codes = people(scene, seed)
    blocks = common.block_names(codes)
    model = common.fit_release(X, y, blocks, BINS, scene.family)
    truth = SLOPES * (0.5 if scene.family == "poisson" else 1.0)
    raking = model._fits[0].imputed
    fixed, rng = replace(raking, posterior=None), np.random.default_rng(seed)
    outcomes = {
        "proper": list(model.impute("draw", size=DRAWS, random_state=seed)),
        "fixed": [fixed.draw(rng) for _ in range(DRAWS)],
        "complete": [y],
    }
    found = {}
    for how in ANALYSES:
        for kind, draws in outcomes.items():
            each = [regress(X, draw, codes, scene, how) for draw in draws]
            whole = combine(each) if len(each) > 1 else each[0]
            half = stats.t.ppf(0.975, whole.df) * np.sqrt(whole.variance)
            found[f"{kind} {how}"] = np.abs(whole.coef - truth) < half
    return found


def main() -> None:
    runs = common.runs_from_command_line(__doc__, FULL)
    rows = []
    for scene in SCENES:
        found = common.over_seeds(partial(one_run, scene), runs)
        for how in ANALYSES:
            row = {"family": scene.family, "effects": scene.effects, "analysis": how, "runs": runs}
            for kind in KINDS:
                row[kind] = float(np.mean([each[f"{kind} {how}"] for each in found]))
            rows.append(row)
    common.report("imputation", rows, store=runs >= FULL)


if __name__ == "__main__":
    main()
