"""What an ordinal fit predicts and imputes between and beyond the edges."""

import numpy as np
import pytest

import unbin
from unbin.exceptions import DomainError, ParameterError
from unbin.results.persistence import load, save

INF = np.inf
CODES = np.repeat(np.arange(60), 50)
BLOCKS = np.array([f"{c:02d}" for c in range(60)])[CODES]
RNG = np.random.default_rng(3)
X = RNG.normal(size=(3000, 2)) + 1.5 * RNG.normal(size=(60, 2))[CODES]
LATENT = X @ [1.5, -1.0] + RNG.logistic(size=3000)
COST = np.where(LATENT > 0, 100 * LATENT, 0.0)


def fitted(y, bins, **settings):
    return unbin.AggregatedGLM("ordinal", **settings).fit(X, table(y, bins))


def table(y, bins):
    return unbin.aggregate(y, BLOCKS, bins).align(BLOCKS)


def error(prediction, y):
    return np.mean((prediction - y) ** 2)


@pytest.mark.parametrize("bins", [4, 8])
def test_predictions_do_not_level_off(bins):
    model = fitted(LATENT, bins)
    oracle = error(unbin.AggregatedGLM().fit(X, LATENT).predict(X), LATENT)
    assert error(model.predict(X), LATENT) < 1.05 * oracle
    values = model.predict_proba(X) @ model.bin_values_
    assert error(values, LATENT) > 1.05 * error(model.predict(X), LATENT)
    assert model.predict(X).max() > model.bin_values_[-1]
    assert model.score(X, LATENT) == pytest.approx(
        1 - error(model.predict(X), LATENT) / LATENT.var()
    )


def test_a_cost_is_not_below_0():
    edges = [-INF, 0, 50, 150, 300, INF]
    free, known = fitted(COST, edges, lower=-INF), fitted(COST, edges)
    assert free.predict(X).min() < 0
    assert known.predict(X).min() >= 0
    assert error(known.predict(X), COST) < error(free.predict(X), COST)
    assert known.bin_edges_[0] == 0
    np.testing.assert_array_equal(known.predict(X), fitted(COST, edges, lower=0).predict(X))
    assert known.impute().min() >= 0
    draws = known.impute("draw", random_state=0)
    np.testing.assert_array_equal((draws == 0).sum(), (COST == 0).sum())
    np.testing.assert_array_equal(free.coef_, known.coef_)


def test_closed_bins_say_as_much():
    closed, told = (
        fitted(COST, [-1, 50, 150, 300, 5000]),
        fitted(COST, [-INF, 50, 150, 300, INF], lower=-1, upper=5000),
    )
    np.testing.assert_array_equal(closed.bin_edges_, [-1, 50, 150, 300, 5000])
    np.testing.assert_allclose(closed.predict(X), told.predict(X))
    far = closed.predict(100 * X)
    assert far.min() >= -1
    assert far.max() <= 5000


def test_effects_of_blocks_are_averaged_over():
    y = LATENT + np.random.default_rng(0).normal(size=60)[CODES]
    model = fitted(y, 6)
    assert model.block_sd_ > 0.5
    sd, eta = model.block_sd_, X @ model.coef_
    scale = model._fits[0].bins.scale()
    rng = np.random.default_rng(0)
    latent = eta[:5, None] + sd * rng.choice([-1, 1], 40_000) + rng.logistic(size=40_000)
    np.testing.assert_allclose(model.predict(X[:5]), scale.target(latent).mean(axis=1), atol=0.05)


def test_few_whole_numbers_keep_their_values():
    counts = np.random.default_rng(0).poisson(np.exp(0.3 * X[:, 0] + 0.5))
    model = fitted(counts, [-1, 0, 1, 2, 4, INF])
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba @ model.bin_values_, model.predict(X))
    draws = model.impute("draw", random_state=0)
    np.testing.assert_array_equal(draws, np.rint(draws))
    assert abs(draws.mean() - counts.mean()) < 0.1
    known = fitted(counts, [-INF, 0, 1, 2, 4, INF], lower=0, upper=30)  # 0 is one of them
    np.testing.assert_allclose(known.bin_values_[:4], [0, 1, 2, 3.5])
    assert known.bin_edges_[-1] == 30


def test_points_of_a_score_are_interpolated():
    score = np.clip(np.rint(40 + 5 * LATENT), 0, 80)
    model = fitted(score, 4)
    oracle = error(unbin.AggregatedGLM().fit(X, score).predict(X), score)
    assert error(model.predict(X), score) < 1.1 * oracle
    draws = model.impute("draw", random_state=0)
    np.testing.assert_array_equal(draws, np.rint(draws))
    assert draws.min() >= 0


def test_imputed_means_lie_in_their_bins_and_follow_the_features():
    y, edges = LATENT, [-INF, -3, 0, 3, INF]
    model = fitted(y, edges)
    z = model.impute()
    assert error(z, y) < error(model.predict(X), y)
    top = X @ model.coef_ > 6  # surely in the open bin, and further the higher eta is
    assert np.corrcoef(z[top], (X @ model.coef_)[top])[0, 1] > 0.9
    shares, means = model._fits[0].imputed, []
    for draw in model.impute("draw", size=30, random_state=0):
        means.append(draw.mean())
        again = unbin.aggregate(draw, BLOCKS, edges).histogram.count
        np.testing.assert_array_equal(again, table(y, edges).release.histogram.count)
    assert abs(np.mean(means) - shares.mean().mean()) < 0.05


def test_several_tables_predict_alike():
    group = np.where(X[:, 0] > 0, "high", "low")
    edges = [-1, 50, 150, 300, 5000]
    other = unbin.aggregate(COST, group, [-INF, 50, 300, INF]).align(group)
    model = unbin.AggregatedGLM("ordinal").fit(X, unbin.join(table(COST, edges), other))
    np.testing.assert_array_equal(model.bin_edges_, edges)
    z = model.impute()
    assert z.min() >= -1
    assert error(z, COST) < error(model.predict(X), COST) < error(COST.mean(), COST) / 2


def test_a_saved_model_predicts_the_same(tmp_path):
    model = fitted(COST, [-INF, 0, 50, 150, 300, INF], lower=0, upper=1e4)
    save(model, tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert (again.lower, again.upper) == (0, 1e4)


def test_predictions_do_not_depend_on_who_else_is_asked_for():
    model = fitted(LATENT, 6)
    np.testing.assert_array_equal(model.predict(X)[:4], model.predict(X[:4]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lower": "0"}, "lower: must be a finite number, got '0'"),
        ({"upper": np.nan}, "upper: must be a finite number, got nan"),
        ({"lower": 2, "upper": 1}, "lower: must be below upper, got 2 and 1; swap them"),
        ({"family": "gaussian", "lower": 0}, "lower: goes with family='ordinal' or 'auto', got"),
    ],
)
def test_ends_that_make_no_sense_are_refused(settings, message):
    model = unbin.AggregatedGLM(**{"family": "ordinal", **settings})
    with pytest.raises(ParameterError, match=message):
        model.fit(X, table(LATENT, 4))


def test_people_beyond_the_ends_are_refused():
    with pytest.raises(DomainError, match=r"lower, upper: everybody must lie in .* got people in"):
        fitted(LATENT, 8, lower=0)
    target = unbin.join(table(COST, 5), unbin.observed(np.where(CODES == 0, COST - 1, np.nan)))
    with pytest.raises(DomainError, match="got -1; correct lower or upper, or the value"):
        unbin.AggregatedGLM("ordinal", lower=0).fit(X, target)
