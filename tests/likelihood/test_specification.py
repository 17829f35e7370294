"""Specification tests against what they are made of, worked out block by block."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import chdtrc, fdtrc

import unbin
from unbin.families import get_family
from unbin.likelihood.data.counts import representative_values
from unbin.likelihood.data.problem import Effects, make_problem
from unbin.likelihood.infer import specification
from unbin.likelihood.infer.levels import locate, location_score
from unbin.likelihood.infer.specification import Extends, power_sums, specify
from unbin.likelihood.model.moments import Moments, groups_of, map_cells
from unbin.likelihood.model.score import Evidence, score_sums
from unbin.likelihood.solve.scoring import solve_score
from unbin.rows.design import lay_out

N_BLOCKS, SIZE = 25, 30
BINS = {"poisson": [-1, 0, 1, 2, 4, np.inf], "gaussian": 5}


def people(kind="poisson", seed=0):
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(N_BLOCKS), SIZE)
    X = rng.normal(size=(len(codes), 2)) + rng.normal(size=(N_BLOCKS, 2))[codes]
    X[:, 1] = X[:, 1] > 0.2  # its square is itself
    eta = 0.3 + 0.4 * X[:, 0] - 0.3 * X[:, 1]
    y = rng.poisson(np.exp(eta)) if kind == "poisson" else eta + rng.normal(size=len(eta))
    return X, codes, y.astype(float)


def problem_of(X, codes, y, kind="poisson"):
    names = np.char.zfill(codes.astype(str), 2)
    release = unbin.aggregate(y, names, BINS[kind]).align(names).release
    return make_problem(lay_out(X, codes, N_BLOCKS), [release], get_family(kind))


def solved(problem):
    free = np.zeros(problem.coordinates.n_free)
    found = solve_score(problem, free, 0 * free, cap=1.0, tol=1e-14, max_iter=50)
    return found.free, found.sums


@pytest.fixture(scope="module", params=["poisson", "gaussian"])
def fitted(request):
    X, codes, y = people(request.param)
    problem = problem_of(X, codes, y, request.param)
    return problem, *solved(problem)


def by_block(problem, free):
    """Residuals, derivatives and covariances of all bins, (B, K), (B, K, p) and (B, K, K)."""
    parts = list(map_cells(problem, free, lambda sums: groups_of(problem, free, sums)))
    mean, derivative, covariance = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("mean", "derivative", "covariance")
    )
    return problem.first.counts.count - mean, derivative, covariance


def levels(problem, free):
    """Scores of levels alone and their derivatives, of slopes and intercept, by block."""
    residual, derivative, covariance = by_block(problem, free)
    value = representative_values(problem.first.counts)
    n = problem.coordinates.n_slopes
    scores, slope = [], []
    for r, d, cov, s in zip(residual, derivative, covariance, value, strict=True):
        weight = np.outer(s, s @ d[:, :n]) / (s @ cov @ s)
        scores.append(weight.T @ r)
        slope.append(weight.T @ d)
    return np.array(scores), np.sum(slope, axis=0)


def test_the_location_score_is_that_of_the_values_of_the_bins(fitted):
    """Σ (sᵀD)ᵀ sᵀr / sᵀSs, whatever the zero of the values."""
    problem, free, _ = fitted
    found = location_score(problem, free, np.zeros(len(free)))
    scores, _ = levels(problem, free)
    np.testing.assert_allclose(found.scores[:, : scores.shape[1]], scores, atol=1e-9)


def test_its_root_is_one(fitted):
    problem, free, _ = fitted
    moved, found, converged = locate(problem, free, np.zeros(len(free)))
    assert converged
    scores, _ = levels(problem, moved)
    errors = np.sqrt(np.diag(found.model))[: scores.shape[1]]
    assert (np.abs(scores.sum(axis=0)) * errors < 1e-3).all()
    assert np.abs(moved - free).max() > 1e-3


def test_scores_with_leverage(fitted):
    """Dᵀ S⁻¹ (I - H)⁻¹ r with H = D J⁻¹ Dᵀ S⁻¹, all bins but the last."""
    problem, free, sums = fitted
    found = specify(problem, free, sums.information, np.zeros(len(free)))
    residual, derivative, covariance = by_block(problem, free)
    bread, expected = np.linalg.inv(sums.information), []
    for r, d, cov in zip(
        residual[:, :-1], derivative[:, :-1], covariance[:, :-1, :-1], strict=True
    ):
        inverse = np.linalg.inv(cov)
        hat = d @ bread @ d.T @ inverse
        expected.append(d.T @ inverse @ np.linalg.solve(np.eye(len(r)) - hat, r))
    np.testing.assert_allclose(found.scores, expected, rtol=1e-4, atol=1e-4)  # a jitter in S


def test_the_shape_test_is_hausmans_by_blocks():
    X, codes, y = people()
    problem = problem_of(X, codes, y)
    free, sums = solved(problem)
    found = specify(problem, free, sums.information, np.zeros(3)).shape
    scores, slope = levels(problem, free)
    influence = scores @ np.linalg.inv(slope).T - sums.block_scores @ np.linalg.inv(
        sums.information
    )
    shift, influence = influence.sum(axis=0)[1:], influence[:, 1:]
    centred = influence - influence.mean(axis=0)
    variance = centred.T @ centred * N_BLOCKS / (N_BLOCKS - 3)
    square = shift @ np.linalg.solve(variance, shift)
    f = square * (N_BLOCKS - 4) / ((N_BLOCKS - 3) * 2)
    assert found.statistic == pytest.approx(f, rel=1e-6)
    assert (found.df, found.df_residual) == (2, N_BLOCKS - 4)
    assert found.p_value == pytest.approx(fdtrc(2, N_BLOCKS - 4, f), rel=1e-6)


def test_curvature_is_the_score_of_a_square_added():
    X, codes, y = people()
    problem = problem_of(X, codes, y)
    free, sums = solved(problem)
    found = specify(problem, free, sums.information, np.zeros(3)).extensions
    (curved,) = [each for each in found if each.kind == "curvature"]
    assert curved.feature == 0  # the other one has two values
    square = (X[:, :1] - X[:, 0].mean()) ** 2
    longer = problem_of(np.column_stack([X, square]), codes, y)
    both = score_sums(longer, np.append(free, 0.0), np.zeros(4))
    along = np.linalg.solve(both.information[:3, :3], both.information[:3, 3])
    score = both.block_scores[:, 3] - both.block_scores[:, :3] @ along
    spread = ((score - score.mean()) ** 2).sum() * N_BLOCKS / (N_BLOCKS - 3)
    f = score.sum() ** 2 / spread
    assert curved.p_value == pytest.approx(fdtrc(1, N_BLOCKS - 3, f), rel=1e-5)
    step = np.linalg.solve(both.information, both.score)
    errors = np.sqrt(np.diag(np.linalg.inv(both.information[:3, :3])))
    np.testing.assert_allclose(curved.shift, (step[:3] / errors)[1:], rtol=1e-4)


def test_a_scale_that_changes_is_the_score_of_log_sigma_along_a_feature():
    """Against numeric derivatives of the expected counts, person by person."""
    X, codes, y = people("gaussian")
    problem = problem_of(X, codes, y, "gaussian")
    free, sums = solved(problem)
    found = specify(problem, free, sums.information, np.zeros(4)).extensions
    scale = next(each for each in found if each.kind == "scale" and each.feature == 0)
    design, counts, step = problem.design, problem.first.counts, 1e-5
    x = (X[:, 0] - design.center[0]) / design.scale[0]
    eta, sigma = design.eta(free[:3]), free[3]

    def expected(by):
        ends = np.array([
            problem.family.bins(eta[i : i + 1], counts.lower, counts.upper, np.array([at]))
            .probability[0] for i, at in enumerate(sigma + by * x)
        ])  # fmt: skip
        return np.add.reduceat(ends, np.arange(N_BLOCKS) * SIZE)

    added = (expected(step) - expected(-step)) / (2 * step)
    residual, derivative, covariance = by_block(problem, free)
    whole = np.concatenate([derivative, added[:, :, None]], axis=2)[:, :-1]
    told = np.linalg.solve(covariance[:, :-1, :-1], whole)
    scores = (told * residual[:, :-1, None]).sum(axis=1)
    both = np.einsum("bkp,bkq->pq", told, whole)
    along = np.linalg.solve(both[:4, :4], both[:4, 4])
    score = scores[:, 4] - scores[:, :4] @ along
    spread = ((score - score.mean()) ** 2).sum() * N_BLOCKS / (N_BLOCKS - 4)
    f = score.sum() ** 2 / spread
    assert scale.p_value == pytest.approx(fdtrc(1, N_BLOCKS - 4, f), rel=1e-4)


def test_context_is_the_score_of_block_means_added():
    X, codes, y = people()
    problem = problem_of(X, codes, y)
    free, sums = solved(problem)
    found = specify(problem, free, sums.information, np.zeros(3)).context
    means = np.array([X[codes == b].mean(axis=0) for b in range(N_BLOCKS)])[codes]
    longer = problem_of(np.column_stack([X, means]), codes, y)
    both = score_sums(longer, np.append(free, [0.0, 0.0]), np.zeros(5))
    old, new = slice(0, 3), slice(3, 5)
    crossed = both.information[new, old]
    left = both.information[new, new] - crossed @ np.linalg.solve(
        both.information[old, old], crossed.T
    )
    score = both.score[new]
    statistic = score @ np.linalg.solve(left, score)
    assert found.statistic == pytest.approx(statistic, rel=1e-5)
    assert (found.df, found.df_residual) == (2, np.inf)
    assert found.p_value == pytest.approx(chdtrc(2, statistic), rel=1e-5)


def test_too_few_blocks_test_nothing():
    X, codes, y = people()
    few = codes < 4
    names = codes[few].astype(str)
    release = unbin.aggregate(y[few], names, BINS["poisson"]).align(names).release
    problem = make_problem(lay_out(X[few], codes[few], 4), [release], get_family("poisson"))
    free, sums = solved(problem)
    found = specify(problem, free, sums.information, np.zeros(3))
    assert np.isnan(found.shape.p_value)
    assert not [each for each in found.extensions if each.kind == "shape"]


def test_edges_that_blocks_are_too_few_to_test_are_not_looked_at(monkeypatch):
    """They would be tested against more directions than there are blocks: nothing is lost."""
    X, codes, y = people("gaussian")
    few, edges = codes < 12, np.quantile(y[codes < 12], np.linspace(0.04, 0.96, 27))
    names = np.char.zfill(codes[few].astype(str), 2)
    release = unbin.aggregate(y[few], names, [-np.inf, *edges, np.inf]).align(names).release
    problem = make_problem(lay_out(X[few], codes[few], 12), [release], get_family("gaussian"))
    free, sums = solved(problem)
    found = specify(problem, free, sums.information, np.zeros(4))
    assert Extends.of(problem, None).edges == 0
    monkeypatch.setattr(specification, "_PER_BLOCK", 1000)
    assert Extends.of(problem, None).edges == 27
    whole = specify(problem, free, sums.information, np.zeros(4))
    assert len(found.extensions) > 0
    for a, b in zip(found.extensions, whole.extensions, strict=True):
        assert (a.kind, a.feature) == (b.kind, b.feature)
        assert a.p_value == pytest.approx(b.p_value, rel=1e-8)


@pytest.mark.parametrize(("name", "value"), [("PANEL", 2), ("LARGE", 0)])
@pytest.mark.parametrize("effects", [False, True])
def test_many_statistics_and_many_blocks_are_checked_another_way(
    fitted, effects, name, value, monkeypatch
):
    problem, free, sums = fitted
    if effects:
        rng = np.random.default_rng(0)
        moves, sd = 0.1 * rng.normal(size=N_BLOCKS), np.full(N_BLOCKS, 0.2)
        known = Effects(moves, sd, rng.normal(size=(N_BLOCKS, len(free))))
        problem = replace(problem, block_variance=0.04, effects=known)
    expected = specify(problem, free, sums.information, np.zeros(len(free)))
    monkeypatch.setattr(specification, name, value)
    found = specify(problem, free, sums.information, np.zeros(len(free)))
    for each in ("scores", "support", "location_shift"):
        wanted = getattr(expected, each)
        np.testing.assert_allclose(getattr(found, each), wanted, rtol=1e-9, atol=1e-10)
    for a, b in zip(found.extensions, expected.extensions, strict=True):
        assert a.p_value == pytest.approx(b.p_value, rel=1e-8)
    np.testing.assert_allclose(found.location_covariance, expected.location_covariance, rtol=1e-9)
    assert found.context.p_value == pytest.approx(expected.context.p_value, rel=1e-9)


def test_a_block_that_determines_a_direction_almost_alone(monkeypatch):
    """Its leverage is worked out by pivots in a compiled loop too."""
    rng = np.random.default_rng(0)
    problem = problem_of(*people("gaussian"), "gaussian")
    n_blocks, size, p, k = N_BLOCKS, problem.first.counts.n_bins, 4, 3
    derivative, added = rng.normal(size=(n_blocks, size, p)), rng.normal(size=(n_blocks, size, k))
    derivative[1:, :, 0] = 0.0
    shift, residual = rng.normal(size=(2, n_blocks, size))
    variance = np.broadcast_to(np.diag(np.arange(1.0, size + 1)), (n_blocks, size, size)).copy()
    nothing, mean = np.zeros((n_blocks, size, 0)), np.zeros((n_blocks, size))
    said = Evidence(variance, derivative, shift, nothing, residual, np.zeros(2))
    moments = Moments(slice(0, n_blocks), mean, derivative, shift, variance)

    def check(bread):
        return specification._check(problem, moments, said, added, bread, p)

    bread = np.linalg.inv(check(np.zeros((p, p))).squares[:p, :p]) * (1 - 1e-8)
    expected = check(bread)
    monkeypatch.setattr(specification, "LARGE", 0)
    found = check(bread)
    assert found.scores.shape == (n_blocks, p + k)
    for name in ("scores", "pulled", "held", "along", "told"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-11)
    np.testing.assert_allclose(found.leveraged, expected.leveraged, rtol=1e-6)
    np.testing.assert_allclose(found.squares[:, :p], expected.squares[:, :p], atol=1e-11)
    np.testing.assert_allclose(found.squares, expected.squares, atol=1e-10)


def test_means_alone_have_no_shape():
    X, codes, y = people("gaussian")
    names = np.char.zfill(codes.astype(str), 2)
    means = {
        "block": np.unique(names),
        "mean": [y[codes == b].mean() for b in range(N_BLOCKS)],
        "n": np.full(N_BLOCKS, SIZE),
    }
    model = unbin.AggregatedGLM().fit(X, unbin.Release.from_means(means, n="n").align(names))
    said = model.diagnostics_
    assert np.isnan(said.shape.p_value)
    np.testing.assert_allclose(said.shape_share, 0.0, atol=1e-6)
    np.testing.assert_allclose(said.location_coef, model.coef_, rtol=1e-5)


def test_a_block_whose_counts_are_all_hidden_says_nothing():
    X, codes, y = people()
    names = np.char.zfill(codes.astype(str), 2)
    release = unbin.aggregate(y, names, BINS["poisson"])
    table = release.to_columns()["histogram"]
    n = np.full(len(table["count"]), SIZE)
    hidden = np.isin(table["block"], ["03", "11"])
    blank = table | {
        "count": np.where(hidden, np.nan, table["count"]),
        "low": np.where(hidden, 0, table["count"]),
        "high": np.where(hidden, n, table["count"]),
        "n": n,
    }
    told = unbin.Release.from_histogram(blank, n="n", count_low="low", count_high="high")
    model = unbin.AggregatedGLM("poisson").fit(X, told.align(names))
    rest = ~np.isin(names, ["03", "11"])
    other = unbin.AggregatedGLM("poisson").fit(
        X[rest], unbin.aggregate(y[rest], names[rest], BINS["poisson"]).align(names[rest])
    )
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-4)
    np.testing.assert_allclose(model.standard_errors_, other.standard_errors_, rtol=1e-3)


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("large", [0, 1 << 62])
def test_powers_are_those_of_all_rows(large, weighed, monkeypatch):
    """By NumPy, or compiled; features may repeat with any period."""
    monkeypatch.setattr("unbin.likelihood.infer.specification.LARGE", large)
    rng, n = np.random.default_rng(0), 5_000
    X = np.column_stack([rng.normal(size=n), np.arange(n) % 4 == 3, np.arange(n) % 7])
    weights = rng.integers(1, 4, n).astype(float) if weighed else None
    design = lay_out(X, np.arange(n) // 500, 10, weights=weights)
    people = np.ones(n) if weights is None else weights
    expected = [people @ design.rows.matrix**k for k in range(5)]
    np.testing.assert_allclose(design.total(power_sums), expected, rtol=1e-9, atol=1e-8)
