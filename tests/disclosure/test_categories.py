"""Audits of tables of categories: what they disclose about who is in which."""

import json

import numpy as np
import pandas as pd
import pytest

import unbin
from unbin.disclosure import assessment
from unbin.disclosure.attacks import attack
from unbin.disclosure.baselines import averages, block_guess, block_means, public_guess, shrunk
from unbin.disclosure.gains import measure_gains
from unbin.disclosure.guesses import Knowledge
from unbin.disclosure.measures import Hits, Scale, as_probabilities, most_exposed, nearness
from unbin.disclosure.protections import Protection
from unbin.disclosure.together import histograms_together
from unbin.exceptions import CategoryError, DomainError, ParameterError

QUICK = {"n_permutations": 39, "random_state": 0, "rule": 2}
PARTIES = np.array(["left", "none", "right"])


def voters(slope, *, seed=0, n_blocks=40, size=40, noise=1.0):
    """Return two features, parties and precincts; the first feature tells the party."""
    rng = np.random.default_rng(seed)
    precinct = np.repeat(np.arange(n_blocks) + 100, size)
    X = rng.normal(size=(len(precinct), 2)) + rng.normal(size=(n_blocks, 2))[precinct - 100]
    eta = slope * X[:, :1] * [-1, 0, 1] + [0, 0.5, 0]
    return X, PARTIES[(eta + noise * rng.gumbel(size=eta.shape)).argmax(axis=1)], precinct


def indicators(y):
    return (y[:, None] == PARTIES).astype(float)


def knowledge(X, y, blocks, others=0, protection=None):
    """Return what is known of a table of y; the last people are held out."""
    n = len(y) - others
    release = unbin.aggregate(y[:n], blocks[:n], categories=PARTIES)
    if protection is not None:
        release = protection.apply(release, np.random.default_rng(0))
    other = np.searchsorted(release.blocks, blocks[n:].astype(str))
    target = release.align(blocks[:n])
    return Knowledge(X[:n], X[n:], target, other, np.empty(0), np.eye(3))


def shuffled(*columns, seed=1):
    order = np.random.default_rng(seed).permutation(len(columns[0]))
    return [column[order] for column in columns]


# -- measures --------------------------------------------------------------------------------------


def test_hits_by_hand():
    y = np.eye(3)[[0, 1, 2, 1]]
    guess = np.array([[0.96, 0.04, 0], [0.2, 0.5, 0.3], [0.6, 0.1, 0.3], [1.0, 0, 0]])
    found = nearness(y, guess, Scale(np.empty(0), np.array([0.25, 0.5, 0.25]), log=False))
    brier = (0.04**2 + 0.04**2) + (0.04 + 0.25 + 0.09) + (0.36 + 0.01 + 0.49) + 2
    without = 2 * (0.75**2 + 0.5**2 + 0.25**2) + 2 * (0.25**2 + 0.5**2 + 0.25**2)
    assert found == Hits(n=4, r2=pytest.approx(1 - brier / without), right=0.5, sure=0.25)


def test_guesses_become_probabilities():
    found = as_probabilities(np.array([[0.5, 0.7, -0.2], [0.2, 0.3, 0.5]]))
    np.testing.assert_allclose(found, [[0.5 / 1.2, 0.7 / 1.2, 0], [0.2, 0.3, 0.5]])


def test_the_most_exposed_are_told_by_all_probabilities():
    without = np.tile([0.5, 0.5, 0.0], (200, 1))
    guess = without.copy()
    guess[3], guess[7] = [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]
    guess[9] = [0.4, 0.4, 0.2]
    assert np.flatnonzero(most_exposed(guess, without)).tolist() == [3, 7]


def test_two_categories_have_the_gain_of_zeros_and_ones():
    rng = np.random.default_rng(0)
    y, guesses, codes = rng.integers(0, 2, 300), rng.random((2, 300)), np.repeat(range(30), 10)
    without = np.full(300, 0.4)
    how = {"n_permutations": 19, "level": 0.95}
    wanted = measure_gains(1.0 * y, guesses, without, codes, np.random.default_rng(1), **how)
    both = [np.stack([1 - v, v], axis=-1) for v in (1.0 * y, guesses, without)]
    found = measure_gains(*both, codes, np.random.default_rng(1), **how)
    np.testing.assert_allclose(found.chance, wanted.chance)
    assert found.best.low == pytest.approx(wanted.best.low)
    assert [each.value for each in found.attacks] == pytest.approx(
        [each.value for each in wanted.attacks]
    )
    assert found.p_value == wanted.p_value


# -- guesses ---------------------------------------------------------------------------------------


def test_shares_of_blocks_are_read_off_the_table():
    X, y, blocks = voters(1.0)
    known, of = knowledge(X, y, blocks), indicators(y)
    found = block_means(known)
    parts = [of[blocks == b] for b in np.unique(blocks)]
    np.testing.assert_allclose(found.mean, [part.mean(axis=0) for part in parts])
    np.testing.assert_allclose(found.pooled, of.mean(axis=0))
    assert found.total == pytest.approx(of.var(axis=0).sum())
    within = np.mean([part.var(axis=0, ddof=1).sum() for part in parts])
    assert found.within == pytest.approx(within)
    np.testing.assert_allclose(block_guess(known).table, found.mean[known.target.codes])
    np.testing.assert_allclose(averages(of, known.target.codes, 40), found.mean)


def test_noise_is_allowed_for_in_the_shares():
    X, y, blocks = voters(1.0, n_blocks=300, size=25)
    exact = block_means(knowledge(X, y, blocks))
    found = block_means(knowledge(X, y, blocks, protection=Protection(epsilon=0.3)))
    error = ((found.mean - exact.mean) ** 2).sum(axis=1)
    assert error.mean() == pytest.approx(found.noise.mean(), rel=0.2)
    assert found.within == pytest.approx(exact.within, rel=0.1)
    np.testing.assert_allclose(found.mean.sum(axis=1), 1)


def test_shares_are_shrunk_as_far_as_chance_explains_them():
    rng = np.random.default_rng(0)
    n = rng.integers(5, 40, 3000)
    effect = rng.normal(0, 0.5, (3000, 3))
    seen = effect + rng.normal(size=(3000, 3)) / np.sqrt(n)[:, None]
    best = (0.25 / (0.25 + 1 / n))[:, None] * seen  # the truth known
    found = shrunk(seen, 3.0 / n, np.zeros(3))
    error, oracle, raw = (((v - effect) ** 2).mean() for v in (found, best, seen))
    assert error == pytest.approx(oracle, rel=0.01)
    assert oracle < 0.9 * raw


@pytest.mark.parametrize(
    "protection", [None, Protection(suppress=6), Protection(round=5), Protection(epsilon=1.0)]
)
def test_guesses_meet_the_table(protection):
    X, y, blocks = shuffled(*voters(1.5, n_blocks=20))
    known = knowledge(X, y, blocks, others=200, protection=protection)
    found = list(attack(known, ("matching", "likelihood", "ridge"), ("logit",), 0, lambda _: None))
    assert [guess.name for guess in found] == ["likelihood, logit", "ridge, logit"]
    low, high = (end.reshape(-1, 3) for end in known.release.histogram.interval())
    for guess in found:
        assert guess.table.shape == (600, 3)
        assert guess.other.shape == (200, 3)
        np.testing.assert_allclose(guess.table.sum(axis=1), 1)
        np.testing.assert_allclose(guess.other.sum(axis=1), 1)
        right = (guess.other.argmax(axis=1) == indicators(y[600:]).argmax(axis=1)).mean()
        assert right > 0.6
        if protection is None or protection.epsilon is None:  # noisy counts are not met
            count = averages(guess.table, known.target.codes, 20) * known.release.n[:, None]
            assert (count > low - 2e-3).all()
            assert (count < high + 2e-3).all()


def test_one_table_of_categories_is_its_block_histogram():
    X, y, blocks = shuffled(*voters(1.0))
    known = knowledge(X, y, blocks, others=300)
    wanted, found = block_guess(known), histograms_together([known])
    np.testing.assert_allclose(found.table, wanted.table, atol=1e-6)
    np.testing.assert_allclose(found.other, wanted.other, atol=1e-6)


def test_a_public_model_may_not_know_every_category():
    X, y, blocks = shuffled(*voters(1.5))
    y[1000:] = np.where(y[1000:] == "none", "left", y[1000:])
    known, of = knowledge(X, y, blocks, others=600), indicators(y)
    found = public_guess(known, of[:1000], of[1000:], "logit")
    assert (found.table[:, 1] == 0).all()
    np.testing.assert_allclose(found.table.sum(axis=1), 1)
    assert (found.other[:, 1] > 0).all()
    same = np.tile(of[:1], (600, 1))
    found = public_guess(known, of[:1000], same, "logit")
    np.testing.assert_array_equal(found.table, np.tile(of[:1], (1000, 1)))


# -- audits ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found():
    X, y, blocks = voters(1.5)
    first = blocks == blocks[0]
    return unbin.audit(X, np.where(first, "left", y), blocks, suppress=11, **QUICK | {"rule": 11})


def test_features_that_tell_the_category_gain_nearly_everything():
    X, y, blocks = voters(1.0, n_blocks=80, noise=0.0)
    table = unbin.audit(X, y, blocks, attacks="ridge", **QUICK).tables[0]
    assert min(table.in_table.gain.value, table.held_out.gain.value) > 0.9
    best = table.best("in the table").all
    assert best.right > 0.97
    assert best.sure > 0.8


def test_unrelated_features_seldom_exceed_chance():
    p_values = []
    for seed in range(12):
        _, y, blocks = voters(1.0, seed=seed, n_blocks=30, size=15)
        X = np.random.default_rng(seed + 100).normal(size=(len(y), 2))
        table = unbin.audit(X, y, blocks, **QUICK | {"random_state": seed}).tables[0]
        assert table.gain < 0.05
        p_values += [table.in_table.p_value, table.held_out.p_value]
    assert (np.array(p_values) <= 0.05).sum() <= 4  # of 24; 1.2 are expected
    assert 0.2 < np.mean(p_values) < 0.85


def test_two_categories_are_told_as_well_as_zeros_and_ones():
    X, y, blocks = voters(1.5)
    left = y == "left"
    names = unbin.audit(X, np.where(left, "yes", "no"), blocks, attacks="likelihood", **QUICK)
    numbers = unbin.audit(
        X, 1.0 * left, blocks, [2], attacks="likelihood", families="binomial", **QUICK
    )
    for people in ("in_table", "held_out"):
        one, two = (getattr(each.tables[0], people) for each in (names, numbers))
        assert one.gain.value == pytest.approx(two.gain.value, abs=0.01)
    assert names.tables[0].utility.value == pytest.approx(numbers.tables[0].utility.value, abs=0.01)


def test_whole_numbers_may_be_names():
    X, y, blocks = voters(1.5)
    how = {"attacks": "ridge"} | QUICK
    coded = unbin.audit(X, np.searchsorted(PARTIES, y), blocks, "categories", **how)
    assert coded.categories == ("0", "1", "2")
    assert coded.gain == unbin.audit(X, pd.Series(y, dtype="category"), blocks, **how).gain


def test_what_was_found(found):
    assert found.categories == tuple(PARTIES)
    plain, hidden = found.tables
    assert (plain.bins, plain.n_bins, plain.name) == ("categories", 3, "block, categories")
    assert hidden.name == "block, categories, suppress 11"
    assert plain.in_table.p_value == 1 / 40
    best = plain.best("in the table").all
    without = next(a for a in plain.attacks if a.attack == "block histogram").all
    assert best.right > without.right + 0.1
    assert without.sure >= 1 / 40  # the block in which all are left
    assert 0.2 < plain.gain < 0.6
    assert plain.utility.value > 0.8
    assert plain.utility.family == "logit"
    assert {a.attack for a in plain.attacks if a.chosen} == {"ridge, logit"}


def test_a_block_of_one_category_is_told(found):
    cells = found.tables[0].cells
    _, y, blocks = voters(1.5)
    y = np.where(blocks == blocks[0], "left", y)
    count = pd.crosstab(blocks, y).to_numpy()
    assert cells.whole_blocks == (count.max(axis=1) == 40).sum() >= 1
    assert cells.cells_under == ((count > 0) & (count < 11)).sum()
    assert cells.n_cells == 120
    assert (cells.edges_at_values, cells.edges_at_rare_values) == (0, 0)
    assert not cells.publishes_minimum
    assert not cells.publishes_maximum
    assert "in one category: blocks whose people all have it" in str(found)


def test_protections_lower_what_is_told(found):
    plain, hidden = found.tables
    assert hidden.r2 < plain.r2
    assert hidden.r2_without < plain.r2_without
    X, y, blocks = voters(1.5)
    noisy = unbin.audit(X, y, blocks, noise="laplace:0.02", attacks="ridge", **QUICK)
    assert noisy.tables[1].r2 < noisy.tables[0].r2 - 0.1
    assert "laplace:0.02" in noisy.tables[1].name


def test_whatever_is_measured_is_a_probability(monkeypatch):
    """Noisy shares of a block, and shares moved by what a table says, may be below 0."""
    seen = []

    def measure(y, guesses, without, *args, **kwargs):
        seen.extend([guesses, without])
        return measure_gains(y, guesses, without, *args, **kwargs)

    monkeypatch.setattr(assessment, "measure_gains", measure)
    X, y, blocks = voters(1.5)
    unbin.audit(X, y, blocks, noise="laplace:0.2", attacks="likelihood", **QUICK)
    assert min(guess.min() for guess in seen) == 0
    for guess in seen:
        np.testing.assert_allclose(guess.sum(axis=-1), 1)


def test_tables_together_tell_at_least_as_much():
    X, y, blocks = voters(1.5, n_blocks=30, size=30)
    age = np.where(X[:, 0] > 0, "old", "young")
    levels = {"precinct": blocks, "age": age, "everybody": None}
    found = unbin.audit(X, y, levels, attacks="ridge", **QUICK)
    precinct, ages, _, both = found.tables
    assert both.levels == ("precinct", "age")
    assert both.r2 >= max(precinct.r2, ages.r2)
    assert both.r2_without > max(precinct.r2_without, ages.r2_without)
    assert "R² of the indicators" in str(found)


def test_a_category_of_one_person():
    X, y, blocks = voters(1.5, n_blocks=20)
    y = np.where(np.arange(len(y)) == 5, "other", y)
    table = unbin.audit(X, y, blocks, attacks="ridge", **QUICK).tables[0]
    assert table.n_bins == 4
    assert table.cells.smallest_cell == 1
    assert np.isfinite(table.gain)


def test_frames_text_and_json(found):
    frame = found.to_frame(attacks=True)
    assert {"right", "sure", "exposed_right"} <= set(frame.columns)
    assert not {"mae", "within_5"} & set(frame.columns)
    assert set(found.to_frame()["bins"]) == {"categories"}
    text = str(found)
    assert text.splitlines()[2].split()[-3:] == ["right", "without", "utility"]
    assert "share of the Brier score" in text
    assert "rare edges" not in text
    assert "rare edges" not in found._repr_html_()
    held = json.loads(found.to_json())
    assert held["categories"] == list(PARTIES)
    assert set(held["tables"][0]["attacks"][0]["all"]) == {"n", "r2", "right", "sure"}
    # the most exposed of 320 people held out are three: too few to be told
    assert held["tables"][0]["attacks"][-1]["exposed"] is None


# -- what cannot be audited ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"bins": [5]}, CategoryError, "bins: categories have no edges, got y of 'a' and others"),
        ({"bins": 5}, CategoryError, "bins: categories have none, got 5 and y of 'a', 'b'; leave"),
        (
            {"target_transform": "log"},
            CategoryError,
            "target_transform: categories have no log, got y of 'a', 'b'; leave it out",
        ),
        ({"families": "binomial"}, ParameterError, "families: are of numbers, got 'binomial' and"),
        (
            {"attacks": "matching"},
            ParameterError,
            "attacks: none of matching can be made with logit on block, categories; name others",
        ),
        ({"y": np.full(40, "a")}, DomainError, "y: must differ between people, got one value"),
        ({"y": ["a", None] * 20}, CategoryError, "y: every row needs a category, got 20 missing"),
    ],
)
def test_errors_say_what_to_do(change, error, message):
    given = {
        "X": np.random.default_rng(0).normal(size=(40, 1)),
        "y": np.tile(["a", "b"], 20),
        "blocks": np.repeat(list("abcd"), 10),
    }
    with pytest.raises(error, match=message):
        unbin.audit(**(given | change))
