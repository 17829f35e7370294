"""The audit: each measure against its definition, and what an audit says of known truths."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

import unbin
from unbin.datasets import simulate
from unbin.disclosure.attacks import attack, families_for
from unbin.disclosure.baselines import between_variance, block_guess, block_means, shrunk
from unbin.disclosure.gains import measure_gains
from unbin.disclosure.guesses import Knowledge, bin_values
from unbin.disclosure.inputs import hold_out, read_bins
from unbin.disclosure.measures import Scale, most_exposed, nearness
from unbin.disclosure.protections import Protection
from unbin.disclosure.text import recommendation, too_much
from unbin.disclosure.utility import linear_effects
from unbin.exceptions import AlignmentError, DomainError, ParameterError

QUICK = {"attacks": ("matching", "likelihood"), "families": ("gaussian",), "n_permutations": 19}


# -- measures --------------------------------------------------------------------------------------


def test_nearness_by_hand():
    y, guess = np.array([100.0, 100, 200, -50]), np.array([105.0, 111, 200, -54])
    found = nearness(y, guess, Scale(np.array([-np.inf, 0, 108, 150, np.inf]), 87.5, log=False))
    assert found.n == 4
    assert found.mae == pytest.approx((5 + 11 + 0 + 4) / 4)
    assert found.within_5 == 0.5  # the first, just, and the third
    assert found.within_10 == 0.75
    assert found.within_bin == 1.0
    assert found.r2 == pytest.approx(1 - (25 + 121 + 16) / ((y - 87.5) ** 2).sum())


def test_nearness_of_logs_is_told_in_units_of_the_value():
    y = np.log([100.0, 100.0])
    guess = np.log([104.0, 120.0])
    found = nearness(y, guess, Scale(np.log([1.0, 50, 110, 115, 500]), 4.0, log=True))
    assert found.mae == pytest.approx(12)
    assert (found.within_5, found.within_10) == (0.5, 0.5)
    assert found.within_bin == 0.5  # 120 is two bins up
    assert found.r2 == pytest.approx(1 - np.log(1.04) ** 2 / (2 * (y[0] - 4) ** 2)
                                     - np.log(1.2) ** 2 / (2 * (y[0] - 4) ** 2))  # fmt: skip


def test_the_most_exposed_are_those_whom_the_features_move_most():
    without = np.zeros(300)
    guess = np.linspace(-1, 2, 300)
    assert np.flatnonzero(most_exposed(guess, without)).tolist() == [297, 298, 299]
    assert most_exposed(guess[:10], without[:10]).sum() == 1


def test_values_of_bins():
    edges = np.array([-np.inf, 1.0, 2.0, 3.0, np.inf])
    found = bin_values(np.array([0.0, 1.0, 1.5, 5.0]), edges)
    np.testing.assert_allclose(found, [0.5, 1.5, 2.5, 5.0])
    # an empty open bin has its only end
    np.testing.assert_allclose(bin_values(np.array([0.5]), np.array([0.0, 1.0, np.inf])), [0.5, 1])


def test_block_means_are_shrunk_as_far_as_chance_explains_them():
    rng = np.random.default_rng(0)
    n = rng.integers(2, 40, 3000)
    effect = rng.normal(0, 0.5, 3000)
    seen = effect + rng.normal(size=3000) / np.sqrt(n)
    best = 0.25 / (0.25 + 1 / n) * seen  # the truth known
    found = shrunk(seen, 1.0 / n, 0.0)
    error, oracle, raw = (((v - effect) ** 2).mean() for v in (found, best, seen))
    assert error == pytest.approx(oracle, rel=0.01)
    assert oracle < 0.8 * raw
    assert between_variance(seen, 1.0 / n) == pytest.approx(0.25, rel=0.1)
    alike = rng.normal(size=300) / np.sqrt(n[:300])
    assert (shrunk(alike, 2.0 / n[:300], 0.5) == 0.5).all()  # less than chance: nothing is left
    assert shrunk(np.array([3.0]), np.array([1.0]), 2.0) == 2.0  # a single block does not tell
    half = shrunk(np.array([-9.0, 9.0]), np.ones(2), 0.0, most=1.0)
    np.testing.assert_allclose(half, [-4.5, 4.5])
    np.testing.assert_array_equal(shrunk(seen, np.zeros(3000), 0.5), seen)  # known without error


def knowledge(y, blocks, n_bins, noise=None):
    """Return what is known of a table of y, people without features."""
    release = unbin.aggregate(y, blocks, n_bins)
    edges = np.concatenate([release.histogram.lower[:n_bins], [np.inf]])
    if noise is not None:
        release = Protection(epsilon=noise).apply(release, np.random.default_rng(0))
    nobody = np.empty((0, 1)), np.empty(0, int)
    X = np.zeros((len(y), 1))
    return Knowledge(X, nobody[0], release.align(blocks), nobody[1], edges, bin_values(y, edges))


def test_block_means_are_read_off_the_table():
    rng = np.random.default_rng(0)
    blocks = np.repeat(np.arange(30), 20)
    y = rng.normal(0, 0.5, 30)[blocks] + rng.normal(size=600)
    known = knowledge(y, blocks + 10, 4)  # ids of as many digits sort as the numbers do
    binned = known.values[np.searchsorted(known.edges, y) - 1]
    found = block_means(known)
    np.testing.assert_allclose(found.mean, [binned[blocks == b].mean() for b in range(30)])
    assert found.pooled == pytest.approx(y.mean())
    assert found.within == pytest.approx(
        np.mean([binned[blocks == b].var(ddof=1) for b in range(30)])
    )
    assert (found.noise == 0).all()
    np.testing.assert_allclose(block_guess(known).table, found.mean[blocks])


def test_noise_is_allowed_for_in_the_block_histogram():
    rng = np.random.default_rng(1)
    blocks = np.repeat(np.arange(400), 25)
    y = rng.normal(0, 0.6, 400)[blocks] + rng.normal(size=10_000)
    exact, noisy = block_means(knowledge(y, blocks, 6)), knowledge(y, blocks, 6, noise=0.2)
    found = block_means(noisy)
    error = found.mean - exact.mean
    assert abs(error.mean()) < 3 * error.std() / 20  # no bias
    assert error.var() == pytest.approx(found.noise.mean(), rel=0.2)
    assert found.within == pytest.approx(exact.within, rel=0.1)
    guess = block_guess(noisy).table
    raw = ((found.mean[blocks] - y) ** 2).mean()
    assert ((guess - y) ** 2).mean() < min(raw, y.var())


def test_linear_effects_are_standardised_regression():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(3, 2, 500), rng.normal(size=500), np.ones(500)])
    y = X @ [2.0, -1.0, 0.0] + 5
    found = linear_effects(X, y[:, None])[:, 0]
    np.testing.assert_allclose(found, [2 * X[:, 0].std(), -X[:, 1].std(), 0], atol=1e-10)


def test_people_are_held_out_of_every_block_but_never_all():
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(60), np.arange(1, 61))
    marks = np.array([hold_out(codes, 0.3, rng) for _ in range(200)])
    size = np.bincount(codes)
    for mark in marks[:5]:
        out = np.bincount(codes[mark], minlength=60)
        assert (out < size).all()
        assert (np.abs(out - 0.3 * size) <= 1).all()
    np.testing.assert_allclose(marks[:, codes > 5].mean(axis=0), 0.3, atol=0.15)
    with pytest.raises(ParameterError, match="held_out: must leave somebody out"):
        hold_out(np.arange(5), 0.2, rng)


# -- gains -----------------------------------------------------------------------------------------


def gains(y, guesses, without, codes, seed=0, n_permutations=19):
    rng = np.random.default_rng(seed)
    return measure_gains(y, guesses, without, codes, rng, n_permutations=n_permutations, level=0.95)


def test_gain_by_its_definition():
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(50), 20)
    y = rng.normal(size=1000)
    half, noise = 0.5 * y, rng.normal(size=1000)
    found = gains(y, np.stack([half, y, noise]), np.zeros(1000), codes)
    assert found.attacks[0].value == pytest.approx(0.75)
    assert found.attacks[1].value == 1
    assert found.attacks[2].value == pytest.approx(1 - ((y - noise) ** 2).mean() / (y**2).mean())
    assert found.attacks[2].high < 0  # as measured
    assert (found.best.value, found.best.low, found.best.high) == (1, 1, 1)
    assert found.measured == 1
    assert found.p_value == 1 / 20
    assert found.measured > found.chance_point(0.95)


def test_the_block_histogram_is_the_worst_an_attacker_can_do():
    rng = np.random.default_rng(1)
    y = rng.normal(size=400)
    found = gains(y, rng.normal(size=(2, 400)), np.zeros(400), np.repeat(np.arange(40), 10))
    assert found.measured < 0
    assert (found.best.value, found.best.low) == (0, 0)
    none = gains(np.zeros(40), np.ones((1, 40)), np.zeros(40), np.zeros(40, int))
    assert none.best.value == 0  # nothing was left open


def test_an_attack_that_ran_away_does_not_widen_the_interval():
    rng = np.random.default_rng(2)
    codes = np.repeat(np.arange(50), 10)
    y = rng.normal(size=500)
    far = np.where(rng.random(500) < 0.01, 1e6, 0.0)
    alone = gains(y, (0.3 * y)[None], np.zeros(500), codes)
    found = gains(y, np.stack([0.3 * y, far]), np.zeros(500), codes)
    assert found.best.value == alone.best.value
    assert found.best.high < 1.1 * alone.best.high


def test_chance_is_exceeded_in_one_audit_of_twenty():
    # guesses that go with the block, as those of a fit do, and with nothing else
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(20), 8)
    exceeded, missed = [], []
    for seed in range(600):
        block = rng.normal(size=20)[codes]
        y = block + rng.normal(size=160)
        guesses = block + 0.1 * rng.normal(size=(3, 160))
        found = gains(y, guesses, block, codes, seed)
        exceeded.append(found.measured > found.chance_point(0.95))
        assert exceeded[-1] == (found.p_value <= 0.05)
        missed.append(found.best.low > 0)
    assert 0.03 < np.mean(exceeded) < 0.07
    assert np.mean(missed) < 0.05


def test_too_few_permutations_cannot_exceed():
    y = np.arange(40.0)
    found = gains(y, y[None], np.zeros(40), np.zeros(40, int), n_permutations=9)
    assert found.chance_point(0.95) == np.inf
    assert found.p_value == 0.1


def test_the_interval_covers_the_gain_of_other_people():
    rng = np.random.default_rng(3)
    codes = np.repeat(np.arange(60), 5)
    covered = []
    for seed in range(200):
        signal = rng.normal(size=300)
        y = signal + rng.normal(size=300)
        found = gains(y, signal[None], np.zeros(300), codes, seed, n_permutations=1)
        covered.append(found.attacks[0].low <= 0.5 <= found.attacks[0].high)
    assert 0.89 < np.mean(covered) < 0.99


# -- audits of known truths ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def people():
    return simulate(2000, 2, 40, between=0.3, noise=0.7, random_state=0)


@pytest.fixture(scope="module")
def audit(people):
    levels = {"everybody": None, "county": people.blocks}
    frame = pd.DataFrame(people.X, columns=["age", "income"])
    return unbin.audit(frame, people.y, levels, bins=[3, 10], random_state=0, suppress=11, **QUICK)


def test_without_noise_the_gain_is_nearly_1():
    sim = simulate(2000, 2, 40, between=0.3, noise=0.0, random_state=0)
    found = unbin.audit(sim.X, sim.y, sim.blocks, bins=[3, 25], random_state=0, **QUICK)
    coarse, fine = found.tables
    assert fine.in_table.gain.value > 0.999
    assert fine.held_out.gain.value > 0.999
    assert coarse.gain <= fine.gain
    assert fine.in_table.p_value == 0.05
    told = [row for row in fine.attacks if row.attack == fine.in_table.attack]
    assert all(row.all.within_10 > 0.9 and row.all.within_bin == 1 for row in told)
    assert fine.utility.coefficient_error < 0.01


def test_unrelated_features_gain_nothing():
    sim = simulate(2000, 3, 50, between=0.2, coef=[0.0] * 3, random_state=4)
    found = unbin.audit(sim.X, sim.y, sim.blocks, bins=[5], random_state=0)
    for side in (found.tables[0].in_table, found.tables[0].held_out):
        assert side.gain.low == 0
        assert side.gain.value < 0.02
        assert side.p_value > 0.05
    assert found.recommended is None
    assert "Recommended: none" in str(found)


def test_people_with_known_truth(audit, people):
    plain = {(t.level, t.bins): t for t in audit.tables if not t.protection}
    assert len(plain) == 4
    fine = plain["county", "10"]
    # y has a variance of 0.49 that no feature explains; blocks share some of the rest
    told = {(r.people, r.attack): r for r in fine.attacks}
    block, best = (
        told["in the table", "block histogram"],
        told["in the table", fine.in_table.attack],
    )
    assert block.gain.value == 0
    assert block.all.r2 < best.all.r2 < 1 - 0.49 / people.y.var() + 0.05
    wanted = 1 - (1 - best.all.r2) / (1 - block.all.r2)
    assert fine.in_table.gain.value == pytest.approx(wanted)
    assert fine.in_table.gain.low < wanted < fine.in_table.gain.high
    public = told["held out", "public model"]
    assert fine.held_out.beyond_public == pytest.approx(
        1 - (1 - told["held out", fine.held_out.attack].all.r2) / (1 - public.all.r2)
    )
    assert told["in the table", "likelihood, gaussian"].chosen
    assert told["in the table", "likelihood, gaussian"].identified
    assert told["in the table", "pooled histogram"].all.r2 == pytest.approx(0, abs=0.01)
    assert audit.n_held_out == pytest.approx(400, abs=5)
    assert audit.feature_names == ("age", "income")


@pytest.fixture(scope="module")
def large():
    sim = simulate(9000, 2, 30, between=0.05, noise=0.7, random_state=0)
    settings = QUICK | {"attacks": ("likelihood",)}
    return unbin.audit(sim.X, sim.y, sim.blocks, bins=[2, 5, 10], random_state=0, **settings)


def test_the_coarsest_useful_table_within_the_rule_is_recommended(large):
    two, five, ten = large.tables
    assert (two.utility.value < 0.8, five.utility.value > 0.8) == (True, True)
    assert (five.cells.exposed, ten.cells.exposed) == (0, ten.cells.cells_under)
    assert large.recommended is five
    assert str(large).splitlines()[-1] == (
        "Recommended: block, 5 bins, the coarsest that keeps a utility of 0.8 and the rule of 11 "
        f"(gain {five.gain:.3f})"
    )
    assert json.loads(large.to_json())["recommended"] == 1
    assert json.loads(large.to_json())["tables"][1]["cells"]["within_rule"] is True


@pytest.mark.parametrize(
    ("change", "which", "words"),
    [
        ({"max_gain": 0.9}, 1, "Recommended: block, 5 bins"),
        ({"max_gain": 0.5}, None, "none, no planned table within the rule of 11 keeps a utility of "
         "0.8; the most useful is block, 2 bins ("),
        ({"max_gain": 0.1}, None, "none, no planned table within the rule of 11 has a gain of 0.1 "
         "or less; the least disclosing is block, 2 bins ("),
        ({"min_utility": 0.99}, None, "none, no planned table within the rule of 11 keeps a "
         "utility of 0.99; the most useful is block, 5 bins ("),
        ({"min_utility": 0.1}, 0, "Recommended: block, 2 bins, the coarsest that keeps"),
    ],
)  # fmt: skip
def test_a_recommendation_keeps_the_gain_and_the_utility(large, change, which, words):
    found = replace(large, **change)
    assert found.recommended is (None if which is None else large.tables[which])
    assert words in recommendation(found)


def test_what_no_office_may_publish_is_not_recommended():
    """60 counties of 100 people: a finer table is useful, but has small counts."""
    sim = simulate(6000, 2, 60, between=0.1, noise=0.7, random_state=0)
    settings = QUICK | {"attacks": ("likelihood",)}
    found = unbin.audit(sim.X, sim.y, sim.blocks, bins=[5, 10], random_state=0, **settings)
    assert all(table.utility.value > 0.8 for table in found.tables)
    assert all(table.cells.cells_under > 0 for table in found.tables)
    assert found.recommended is None
    assert recommendation(found) == (
        "Recommended: none, every planned table shows counts that break the rule of 11, or may "
        "give hidden ones away; plan coarser tables, or protect them"
    )


def test_a_protection_brings_a_table_within_the_rule():
    sim = simulate(9000, 2, 30, between=0.05, noise=0.7, random_state=0)
    settings = QUICK | {"attacks": ("likelihood",)}
    found = unbin.audit(sim.X, sim.y, sim.blocks, bins=[10], random_state=0, suppress=11,
                        complementary=True, **settings)  # fmt: skip
    plain, hidden = found.tables
    assert (plain.cells.within_rule, hidden.cells.within_rule) == (False, True)
    assert found.recommended is hidden


def test_gains_are_those_of_tables_as_published(audit):
    assert audit.recommended is None  # a single hidden count in a block is what its total leaves
    assert audit.gain == max(t.gain for t in audit.final)
    assert too_much(audit, 1.0) is None
    assert too_much(audit, 0.1).startswith(f"{audit.worst.name}: the gain about people ")


def test_suppression_changes_what_is_published_not_who_is_counted(audit):
    pairs = zip(audit.tables[::2], audit.tables[1::2], strict=True)
    for plain, hidden in pairs:
        assert (plain.protection, hidden.protection) == ("", "suppress 11")
        assert plain.cells.cells_under == hidden.cells.cells_under
    fine = audit.tables[-1]
    assert fine.cells.hidden > 300
    assert 0 < fine.gain < 1


def test_frames_and_text_and_json(audit):
    frame = audit.to_frame()
    assert len(frame) == 16
    assert isinstance(audit.to_frame(backend="polars"), pl.DataFrame)
    attacks = audit.to_frame(attacks=True)
    assert len(attacks) == 8 * 2 * 5
    assert {"within_5", "exposed_gain", "identified"} <= set(attacks.columns)
    found = json.loads(audit.to_json())
    assert found["recommended"] is None
    assert len(found["tables"]) == 8
    assert found["tables"][0]["in_table"]["gain"]["low"] >= 0
    # four held-out people are the most exposed: nothing is said about so few
    exposed = {row["people"]: row["exposed"] for row in found["tables"][0]["attacks"]}
    assert exposed["held out"] is None
    assert exposed["in the table"]["n"] == 16
    assert found["tables"][-1]["cells"]["smallest_cell"] == "<11"
    text = str(audit)
    assert text.startswith("Disclosure audit: 8 tables, ")
    assert "county, 10 bins, suppress 11" in text
    assert "<11" in text
    assert text.splitlines()[-1].startswith("Recommended: none, ")


def test_neither_text_nor_json_has_a_persons_value(audit, people):
    said = str(audit) + audit.to_json()
    assert not [value for value in people.y if f"{value:.9g}" in said]


def test_the_same_seed_gives_the_same_audit(people):
    found = [
        unbin.audit(people.X, people.y, people.blocks, [4], random_state=7, **QUICK).to_json()
        for _ in range(2)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("protection", [{"round": 5}, {"noise": "laplace:1"},
                                        {"suppress": 11, "complementary": True}])  # fmt: skip
def test_protections_are_attacked_too(people, protection):
    found = unbin.audit(
        people.X, people.y, people.blocks, [5], random_state=0, **QUICK, **protection
    )
    plain, protected = found.tables
    assert 0.3 < protected.gain < plain.gain + 0.1
    assert {row.attack for row in protected.attacks} == {row.attack for row in plain.attacks}
    assert found.final == (protected,)


def test_strong_noise_hides_what_the_table_told(people):
    found = unbin.audit(
        people.X, people.y, people.blocks, [5], random_state=0, noise="laplace:0.02", **QUICK
    )
    assert found.tables[1].gain < found.tables[0].gain - 0.1


def test_amounts_on_the_log_scale(people):
    amount = np.exp(people.y)
    found = unbin.audit(
        people.X, amount, people.blocks, [5], target_transform="log", random_state=0, **QUICK
    )
    same = unbin.audit(people.X, people.y, people.blocks, [5], random_state=0, **QUICK)
    assert found.tables[0].in_table.gain.value == pytest.approx(same.tables[0].in_table.gain.value)
    assert found.tables[0].attacks[0].all.mae != same.tables[0].attacks[0].all.mae
    assert "of the log" in str(found)


@pytest.mark.parametrize(
    ("edges", "wanted"),
    [
        ([0, 1, 10, np.inf], [-np.inf, 0, np.log(10), np.inf]),
        ([-np.inf, 0, 1, 10], [-np.inf, 0, np.log(10)]),
        ([0.5, 1], [np.log(0.5), 0]),
    ],
)
def test_given_edges_are_logged_too(edges, wanted):
    (found,) = read_bins([edges], log=True)
    np.testing.assert_allclose(found, wanted)


def test_counts_and_given_edges():
    sim = simulate(1500, 2, 30, family="poisson", between=0.3, coef=[0.6, -0.4], intercept=1.0,
                   random_state=0)  # fmt: skip
    edges = [-1.0, 0, 1, 3, 6, np.inf]
    found = unbin.audit(
        sim.X, sim.y, sim.blocks, [edges], random_state=0, attacks=("matching", "likelihood"),
        n_permutations=19,
    )  # fmt: skip
    table = found.tables[0]
    assert table.name == "block, 5 given bins"
    told = {row.attack for row in table.attacks}
    assert {"matching, poisson", "likelihood, negative-binomial", "likelihood, ordinal"} <= told
    assert table.in_table.gain.value > 0.2
    assert table.cells.edges_at_values == 4


def test_gamma_is_left_out_unless_asked_for():
    y = np.exp(np.random.default_rng(0).normal(size=100))
    release = unbin.aggregate(y, np.arange(100) // 10, bins=3)
    assert families_for(release, "auto") == ("gaussian", "ordinal")
    assert families_for(release, "gamma") == ("gamma",)
    with pytest.raises(ParameterError, match="families: must be 'auto' or names of families"):
        families_for(release, ["normal"])


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
def test_starts_that_end_elsewhere_are_averaged():
    sim = simulate(600, 3, 2, between=0.3, random_state=1)
    target = unbin.aggregate(sim.y, None, 4).align(np.full(600, "all"))
    edges = np.concatenate([target.release.histogram.lower, [np.inf]])
    known = Knowledge(sim.X, sim.X[:5], target, np.zeros(5, int), edges, bin_values(sim.y, edges))
    (found,) = attack(known, ("matching",), ("gaussian",), 3, lambda _: None)
    alone = [
        unbin.AggregatedGLM(method="matching", random_state=3 + k).fit(sim.X, target).impute()
        for k in range(8)
    ]
    np.testing.assert_allclose(found.table, np.mean(alone, axis=0))
    assert np.std(found.table) < 0.8 * np.std(alone[0])


def test_features_may_come_as_a_polars_frame(people):
    frame = pl.DataFrame({"age": people.X[:, 0], "income": people.X[:, 1]})
    found = unbin.audit(frame, pl.Series(people.y), pl.Series(people.blocks), [3],
                        random_state=0, **QUICK)  # fmt: skip
    assert found.feature_names == ("age", "income")


def test_progress_is_told(people, capsys):
    told = []
    unbin.audit(people.X, people.y, people.blocks, [3], progress=told.append, random_state=0,
                **QUICK)  # fmt: skip
    assert told == [
        "block, 3 bins: matching, gaussian",
        "block, 3 bins: likelihood, gaussian",
        "block, 3 bins: measuring",
    ]
    unbin.audit(people.X, people.y, people.blocks, [3], progress=True, random_state=0, **QUICK)
    assert capsys.readouterr().out == ""


# -- what cannot be audited ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"y": np.arange(5.0)}, AlignmentError, "y: must hold a value for each of the 40 rows"),
        ({"y": np.full(40, np.nan)}, DomainError, "y: must be finite"),
        ({"y": np.ones(40)}, DomainError, "y: must differ between people, got one value"),
        ({"blocks": ["a"]}, AlignmentError, r"blocks\['block'\]: must hold the block of each"),
        (
            {"blocks": {}},
            ParameterError,
            "blocks: must name a level of blocks, got an empty mapping",
        ),
        ({"bins": 5}, ParameterError, "bins: must be a list of planned tables, got 5"),
        ({"bins": [None]}, ParameterError, "bins: must be a list of planned tables, got"),
        ({"bins": []}, ParameterError, "bins: must be a list of planned tables"),
        ({"bins": "25"}, ParameterError, "bins: must be a list of planned tables, got '25'"),
        ({"target_transform": "sqrt"}, ParameterError, "target_transform: must be None or 'log'"),
        ({"target_transform": "log"}, DomainError, "y: the log needs positive values, got 0"),
        ({"held_out": 1.0}, ParameterError, "held_out: must be a share below 1"),
        ({"max_gain": -1}, ParameterError, "max_gain: must be a finite number, got -1"),
        ({"level": 1.0}, ParameterError, "level: must lie between 0 and 1"),
        ({"attacks": ["guessing"]}, ParameterError, "attacks: unknown, got 'guessing'"),
        ({"attacks": []}, ParameterError, "attacks: none"),
        (
            {"attacks": ["matching"], "families": "ordinal"},
            ParameterError,
            "attacks: none of matching can be made with ordinal on block, 2 bins; name others",
        ),
    ],
)
def test_errors_say_what_to_do(change, error, message):
    given = {
        "X": np.random.default_rng(0).normal(size=(40, 1)),
        "y": np.arange(40.0),
        "blocks": np.repeat(list("abcd"), 10),
        "bins": [2],
    }
    with pytest.raises(error, match=message):
        unbin.audit(**(given | change))
