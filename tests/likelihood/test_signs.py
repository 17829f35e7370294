"""Effects within blocks whose sign is not that between them."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import unbin
from unbin.likelihood import fit
from unbin.likelihood.solve import signs
from unbin.likelihood.solve.signs import Search

pytestmark = pytest.mark.filterwarnings("ignore::unbin.exceptions.SpecificationWarning")
SLOPES = np.array([1.0, 0.4])
TOLD = "does not tell the sign"


def people(seed=0, *, skewed=False, family="gaussian", n_blocks=60, size=50):
    """Draw people whose block turns the effect of the first feature: 1 within, -1 between."""
    rng = np.random.default_rng(seed)
    block = np.repeat([f"{b:03d}" for b in range(n_blocks)], size)
    level = 0.5 * rng.normal(size=(n_blocks, 2)).repeat(size, axis=0)
    own = rng.gamma(2, size=level.shape) - 2 if skewed else rng.normal(size=level.shape)
    eta = (own + level) @ SLOPES - 2 * level[:, 0]
    if family == "binomial":
        return own + level, rng.binomial(20, 1 / (1 + np.exp(-eta))), block
    return own + level, eta + rng.normal(size=len(eta)), block


def fitted(X, *tables, family="gaussian", **settings):
    trials = {"n_trials": 20} if family == "binomial" else {}
    model = unbin.AggregatedGLM(family, contextual=True, **trials, **settings)
    return model.fit(X, unbin.join(*tables) if len(tables) > 1 else tables[0])


def by(y, labels):
    return unbin.aggregate(y, labels, bins=6).align(labels)


def unclear(model):
    return any(TOLD in reason for reason in model.diagnostics_.reasons)


@pytest.mark.parametrize("drawn", [{"family": "binomial"}, {"skewed": True}])
def test_the_likelier_sign_is_the_estimate(drawn, monkeypatch):
    family = drawn.get("family", "gaussian")
    X, y, block = people(1, **drawn)
    model = fitted(X, by(y, block), family=family)
    assert not unclear(model)
    assert np.abs(model.coef_ - SLOPES).max() < 3 * model.standard_errors_.max()
    monkeypatch.setattr(fit, "has_mirrors", lambda *_: False)
    wrong = fitted(X, by(y, block), family=family)
    assert wrong.coef_[0] < -0.3  # that between blocks
    assert wrong.objective_ > model.objective_


def test_a_sign_that_the_table_does_not_tell_is_not_trusted(monkeypatch):
    X, y, block = people(seed=3)
    model = fitted(X, by(y, block))
    assert unclear(model)
    assert not model.diagnostics_.trusted
    assert "x0" in " ".join(model.diagnostics_.reasons)
    monkeypatch.setattr(signs, "_LEAST", 0.0)
    assert not unclear(fitted(X, by(y, block)))


def test_a_root_within_the_interval_contradicts_nothing(monkeypatch):
    X, y, block = people(seed=3)
    monkeypatch.setattr(signs, "_FAR", 1e6)
    assert not unclear(fitted(X, by(y, block)))


def test_a_second_table_of_another_feature_leaves_the_sign_to_shapes(monkeypatch):
    X, y, block = people(1, family="binomial")
    sex = (X[:, 1] > 0).astype(int)
    tables = by(y, block), by(y, sex)
    model = fitted(X, *tables, family="binomial")
    np.testing.assert_allclose(model.coef_, SLOPES, atol=0.1)
    monkeypatch.setattr(fit, "has_mirrors", lambda *_: False)
    assert fitted(X, *tables, family="binomial").coef_[0] < -0.5


def test_a_table_by_the_feature_tells_the_sign_and_nothing_is_tried(monkeypatch):
    X, y, block = people(seed=3)
    groups = [np.digitize(x, [-1, 0, 1]) for x in X.T]
    tried = []
    images = signs._images
    monkeypatch.setattr(
        signs, "_images", lambda *args: [tried.append(each) or each for each in images(*args)]
    )
    model = fitted(X, by(y, block), by(y, groups[0]), by(y, groups[1]))
    assert tried == []
    np.testing.assert_allclose(model.coef_, SLOPES, atol=0.15)
    monkeypatch.setattr(signs, "_TOLD", np.inf)
    fitted(X, by(y, block), by(y, groups[0]), by(y, groups[1]))
    assert len(tried) >= 3


def search_of(monkeypatch, means, n):
    """Search with the levels of these blocks, of two features and two contextual columns."""
    blocks = SimpleNamespace(n=n, means=np.column_stack([means, np.zeros(len(means))]))
    monkeypatch.setattr(signs, "Blocks", SimpleNamespace(of=lambda _: blocks))
    problem = SimpleNamespace(slopes=slice(1, 5), design=SimpleNamespace(n_rows=int(n.sum())))
    return Search.of(problem, np.zeros(5), 2)


def test_images_turn_slopes_and_leave_levels(monkeypatch):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(30, 2))
    means, free = np.column_stack([features, 2 * features]), np.array([0.3, 1.0, -0.5, 0.2, 0.7])
    found = list(signs._images(free, search_of(monkeypatch, means, np.full(30, 9))))
    turned = [np.sign(image[1:3] * free[1:3]).tolist() for image in found]
    assert turned == [[-1, -1], [-1, 1], [1, -1]]
    for image in found:
        np.testing.assert_allclose(np.abs(image[:3]), np.abs(free[:3]))
        np.testing.assert_allclose(means @ image[1:], means @ free[1:], atol=1e-12)


def test_many_rows_are_turned_once(monkeypatch):
    X, y, block = people(1, family="binomial")
    solved = []
    solve = signs.solve_score
    monkeypatch.setattr(
        signs, "solve_score", lambda *args, **more: solved.append(1) or solve(*args, **more)
    )
    fitted(X, by(y, block), family="binomial")
    thorough = len(solved)
    monkeypatch.setattr(signs, "_MANY_ROWS", len(X) - 1)
    model = fitted(X, by(y, block), family="binomial")
    assert len(solved) - thorough < thorough / 2
    np.testing.assert_allclose(model.coef_, SLOPES, atol=0.1)


def test_files_are_searched_too(tmp_path):
    X, y, block = people(1, family="binomial")
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(block=block)
    frame.to_parquet(tmp_path / "people.parquet")
    model = unbin.AggregatedGLM("binomial", contextual=True, n_trials=20)
    table = {"block": unbin.aggregate(y, block, bins=6)}
    model.fit(str(tmp_path / "people.parquet"), table, features=["a", "b"])
    np.testing.assert_allclose(model.coef_, SLOPES, atol=0.1)


def test_slopes_that_another_table_tells_are_not_turned(monkeypatch):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(30, 2))
    other = np.array([[1.0, 0.0, 0.0, 0.0], [-1.0, 0.0, 0.0, 0.0]])  # two groups of feature 0
    means = np.vstack([np.column_stack([features, features]), other])
    size = np.append(np.full(30, 10), [150, 150])
    free = np.array([0.3, 1.0, -0.5, 0.2, 0.7])
    (image,) = signs._images(free, search_of(monkeypatch, means, size))
    np.testing.assert_allclose(image[1:3], [1.0, 0.5])


def test_a_single_feature_leads_where_mirror_images_do_not(monkeypatch):
    X, y, block = people(13, family="binomial", skewed=True)
    assert fitted(X, by(y, block), family="binomial").coef_[0] > 0.8
    monkeypatch.setattr(signs, "_axes", lambda *_: [])
    assert fitted(X, by(y, block), family="binomial").coef_[0] < 0


def test_a_root_is_found_where_scoring_found_none(monkeypatch):
    X, y, block = people(0, family="binomial")
    assert fitted(X, by(y, block), family="binomial").status_.converged
    monkeypatch.setattr(fit, "has_mirrors", lambda *_: False)
    with pytest.warns(ConvergenceWarning):
        fitted(X, by(y, block), family="binomial")


def test_blocks_may_be_large():
    X, y, block = people(1, family="binomial", n_blocks=50, size=1000)
    np.testing.assert_allclose(fitted(X, by(y, block), family="binomial").coef_, SLOPES, atol=0.1)


def test_signs_between_blocks_stay_where_others_are_hardly_likelier(monkeypatch):
    X, y, block = people(seed=3)
    assert fitted(X, by(y, block)).coef_[0] < 0
    monkeypatch.setattr(signs, "_LEAST", 0.0)
    assert fitted(X, by(y, block)).coef_[0] > 0  # the likelier one, by little


def test_starts_that_promise_most_are_followed(monkeypatch):
    X, y, block = people(0, family="binomial")
    assert fitted(X, by(y, block), family="binomial").status_.converged
    monkeypatch.setattr(signs, "_PROMISING", 0)
    monkeypatch.setattr(signs, "_SCREENED", 2)
    with pytest.warns(ConvergenceWarning):
        fitted(X, by(y, block), family="binomial")
