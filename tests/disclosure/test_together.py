"""Several tables published together: raked histograms, joined attacks, cells worked out."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import unbin
from unbin.disclosure.baselines import block_guess
from unbin.disclosure.guesses import Guess, Knowledge, bin_values
from unbin.disclosure.protections import Protection
from unbin.disclosure.raking import rake
from unbin.disclosure.rules import check_cells, check_together, derivable
from unbin.disclosure.text import together_rows, too_much
from unbin.disclosure.together import (
    attack_together,
    best_histogram,
    histograms_together,
)
from unbin.exceptions import ParameterError
from unbin.results.report import render_audit

QUICK = {"attacks": ("likelihood",), "families": ("gaussian",), "n_permutations": 19}


def knowledge(y, blocks, edges, *, protection=None, others=0):
    """Return what is known of a table of y; the last people are held out."""
    n = len(y) - others
    release = unbin.aggregate(y[:n], blocks[:n], edges)
    if protection is not None:
        release = protection.apply(release, np.random.default_rng(0))
    other = np.searchsorted(release.blocks, blocks[n:].astype(str))
    X = np.zeros((len(y), 1))
    values = bin_values(y[:n], np.asarray(edges, float))
    return Knowledge(X[:n], X[n:], release.align(blocks[:n]), other, np.asarray(edges), values)


@pytest.fixture(scope="module")
def simple():
    """Return values of people in ten counties, by sex, which differ by county and by sex."""
    rng = np.random.default_rng(0)
    county, sex = np.repeat(np.arange(10, 20), 60), rng.integers(0, 2, 600)
    y = rng.normal(0, 0.5, 20)[county] + 1.5 * sex + rng.normal(size=600)
    edges = np.array([-np.inf, -0.5, 0.5, 1.5, np.inf])
    return y, county, sex, edges


# -- guesses without features ----------------------------------------------------------------------


@pytest.mark.parametrize("protection", [None, Protection(epsilon=0.5)])
def test_one_table_is_its_block_histogram(simple, protection):
    y, county, _, edges = simple
    order = np.random.default_rng(1).permutation(600)
    known = knowledge(y[order], county[order], edges, protection=protection, others=100)
    wanted, found = block_guess(known), histograms_together([known])
    np.testing.assert_allclose(found.table, wanted.table, atol=1e-6)
    np.testing.assert_allclose(found.other, wanted.other, atol=1e-6)


def test_raked_shares_meet_every_table_and_have_no_interaction(simple):
    y, county, sex, edges = simple
    known = [knowledge(y, blocks, edges) for blocks in (county, sex)]
    codes = [each.target.codes for each in known]
    share = rake(np.full((600, 4), 0.25), codes, known, np.ones(600))
    for each, place in zip(known, codes, strict=True):
        count = np.stack([np.bincount(place, share[:, k]) for k in range(4)], axis=1)
        wanted = each.release.histogram.count.reshape(-1, 4)
        np.testing.assert_allclose(count, wanted, atol=2e-3)
    np.testing.assert_allclose(share.sum(axis=1), 1)
    # log-linear: the difference between sexes is the same in every county
    cell = np.zeros((10, 2, 4))
    cell[codes[0], codes[1]] = np.log(share)
    gap = cell[:, 1] - cell[:, 0]
    gap -= gap[:, :1]
    np.testing.assert_allclose(gap, np.broadcast_to(gap[:1], gap.shape), atol=1e-9)


def test_hidden_counts_are_raked_within_their_intervals(simple):
    y, county, sex, edges = simple
    hidden = Protection(suppress=11, complementary=True)
    known = [knowledge(y, blocks, edges, protection=hidden) for blocks in (county, sex)]
    assert known[0].release.histogram.hidden().any()
    codes = [each.target.codes for each in known]
    share = rake(np.full((600, 4), 0.25), codes, known, np.ones(600))
    for each, place in zip(known, codes, strict=True):
        count = np.stack([np.bincount(place, share[:, k]) for k in range(4)], axis=1).ravel()
        low, high = each.release.histogram.interval()
        assert (count >= low - 2e-3).all()
        assert (count <= high + 2e-3).all()


def test_two_tables_tell_more_than_one(simple):
    y, county, sex, edges = simple
    order = np.random.default_rng(1).permutation(600)
    y, county, sex = y[order], county[order], sex[order]
    hidden = Protection(suppress=11, complementary=True)
    for protection in (None, Protection(epsilon=1.0), hidden):
        known = [
            knowledge(y, blocks, edges, protection=protection, others=150)
            for blocks in (county, sex)
        ]
        found = histograms_together(known)
        alone = [block_guess(each) for each in known]
        for guess, best, true in (
            (found.table, min(((each.table - y[:450]) ** 2).sum() for each in alone), y[:450]),
            (found.other, min(((each.other - y[450:]) ** 2).sum() for each in alone), y[450:]),
        ):
            assert ((guess - true) ** 2).sum() < best


def test_the_best_histogram_is_taken_for_each_set_of_people():
    y, other = np.arange(4.0), np.arange(3.0)
    one, two = Guess("a", y, other + 1), Guess("b", y + 1, other)
    found = best_histogram([one, two], y, other)
    np.testing.assert_array_equal(found.table, y)
    np.testing.assert_array_equal(found.other, other)
    assert not found.uses_features


# -- cells -----------------------------------------------------------------------------------------


def checked(y, partitions, edges, smallest=11, **protection):
    """Return the checks of each table, and of all together."""
    used = Protection(**protection) if protection else None
    releases = [unbin.aggregate(y, blocks, edges) for blocks in partitions]
    told = [derivable(release, smallest, used) for release in releases]
    alone = [
        check_cells(y, release, smallest, used, each)
        for release, each in zip(releases, told, strict=True)
    ]
    pairs = zip(releases, partitions, strict=True)
    codes = [np.searchsorted(release.blocks, blocks.astype(str)) for release, blocks in pairs]
    return alone, check_together(alone, releases, told, codes, used)


def test_towns_hidden_in_one_table_are_given_away_by_counties():
    # town 0 of county 0 has 4 people in the first bin, town 2 of county 1 has 6
    count = np.array([[4, 30, 40], [20, 25, 30], [6, 40, 30], [35, 30, 20]])
    town = np.repeat(np.arange(4), count.sum(axis=1))
    y = np.concatenate([np.repeat(np.arange(3.0), row) for row in count])
    edges = [-0.5, 0.5, 1.5, 2.5]
    alone, both = checked(y, [town, town // 2], edges, suppress=11, complementary=True)
    assert (alone[0].derived, alone[0].narrowed, alone[0].within_rule) == (0, 0, True)
    assert both.only_together == both.derived + both.narrowed > 0
    assert not both.within_rule
    assert both.hidden == alone[0].hidden + alone[1].hidden
    assert both.n_cells == 18
    apart = np.random.default_rng(0).integers(0, 2, len(y))  # a partition of other people
    _, other = checked(y, [town, apart], edges, suppress=11, complementary=True)
    assert (other.only_together, other.within_rule) == (0, True)


def test_a_designed_difference_is_found():
    """A district and a service area that differ by two people: no count is small in any table."""
    rng = np.random.default_rng(0)
    district = np.repeat([0, 1], [102, 100])
    service = np.repeat([0, 1], [100, 102])
    y = rng.integers(0, 2, 202).astype(float)
    edges = [-0.5, 0.5, 1.5]
    alone, both = checked(y, [district, service], edges)
    assert all(each.cells_under == 0 and each.within_rule for each in alone)
    assert (both.cells_under, both.differences, both.within_rule) == (0, 1, False)
    _, same = checked(y, [district, np.repeat([0, 1], [80, 122])], edges)
    assert (same.differences, same.within_rule) == (0, True)  # a difference of 22 people
    _, blurred = checked(y, [district, service], edges, round=20)
    assert blurred.differences == 0  # the difference of rounded counts can be 0 to 2
    _, noisy = checked(y, [district, service], edges, epsilon=0.5)
    assert noisy.differences == 0


def test_without_other_tables_nothing_is_only_together():
    y = np.repeat([0.0, 1.0], [15, 20])
    found = check_cells(y, unbin.aggregate(y, None, [-0.5, 0.5, 1.5]), 11)
    assert (found.only_together, found.differences) == (0, 0)


# -- audits ----------------------------------------------------------------------------------------


def people(seed, effect=1.5):
    """Return people whose value depends on sex and age, counties that differ little."""
    rng = np.random.default_rng(seed)
    county, sex = np.repeat(np.arange(30).astype(str), 40), rng.integers(0, 2, 1200)
    age = rng.normal(size=1200)
    y = effect * (sex + age) + rng.normal(size=1200)
    group = np.digitize(age, [-0.8, 0.0, 0.8]).astype(str)
    frame = pd.DataFrame({"age": age, "sex": sex})
    return frame, y, {"county": county, "sex": sex, "age group": group}


@pytest.fixture(scope="module")
def audit():
    X, y, blocks = people(0)
    return unbin.audit(X, y, blocks, bins=[3], random_state=0, suppress=11, **QUICK)


def test_together_is_at_least_as_much_as_alone(audit):
    assert [table.level for table in audit.tables] == [
        level for name in ("county", "sex", "age group", "county + sex + age group")
        for level in (name, name)
    ]  # fmt: skip
    *alone, both, _ = audit.tables
    assert both.together
    assert not alone[0].together
    assert both.r2 >= max(table.r2 for table in alone if not table.protection)
    assert both.r2 > both.r2_without > max(table.r2_without for table in alone) + 0.1
    # sex and age alone tell one thing about a person; together, both
    by_sex, by_age = alone[2], alone[4]
    assert both.gain > max(by_sex.gain, by_age.gain)
    assert both.n_blocks == 30 + 2 + 4
    names = {row.attack for row in both.attacks}
    assert {"likelihood, gaussian", "likelihood, gaussian (county alone)"} <= names
    assert "block histograms raked" in names
    assert both.utility.value >= max(table.utility.value for table in alone if not table.protection)


def test_the_joined_attack_satisfies_the_tables():
    """Guesses of people in the tables are raked to all of them: their means by block are right."""
    X, y, blocks = people(1)
    y = np.clip(np.round(y), -2, 3)  # a bin says all there is about a value
    edges = np.array([-np.inf, -1.5, -0.5, 0.5, 1.5, 2.5, np.inf])
    features = X.to_numpy(float)
    known = [
        replace(knowledge(y, ids, edges, others=1), X=features[:-1], X_other=features[-1:])
        for ids in blocks.values()
    ]
    told = []
    (found,) = attack_together(known, ("matching", "likelihood"), ("ordinal",), 0, told.append)
    assert told == ["likelihood, ordinal"]  # matching takes one table
    y = y[:-1]
    for ids in blocks.values():
        frame = pd.DataFrame({"y": y, "told": found.table}).groupby(ids[:-1]).mean()
        np.testing.assert_allclose(frame["told"], frame["y"], atol=1e-3)
    raked = histograms_together(known).table
    assert ((found.table - y) ** 2).sum() < 0.95 * ((raked - y) ** 2).sum()


def test_text_report_and_json_say_it(audit):
    text = str(audit)
    assert "county, 3 bins, alone" in text
    assert "county + sex + age group, 3 bins, together" in text
    assert "county + sex + age group, 3 bins: together the best attack explains" in text
    rows = dict(together_rows(audit))
    assert len(rows) == 8
    page = render_audit(audit, title="x")
    assert "<h2>Alone and together</h2>" in page
    for name in rows:
        assert name in page
    found = json.loads(audit.to_json())
    assert [each["together"] for each in found["tables"]] == 6 * [False] + 2 * [True]
    assert found["tables"][-1]["levels"] == ["county", "sex", "age group"]
    assert {"only_together", "differences"} <= set(found["tables"][-1]["cells"])
    frame = audit.to_frame()
    assert frame["together"].sum() == 4
    assert {"only_together", "differences"} <= set(frame.columns)


def test_limits_are_held_against_tables_together(audit):
    found = replace(audit, tables=audit.tables[2:])  # by sex and by age group alone, and together
    below = max(table.gain for table in found.final if not table.together)
    assert too_much(found, below).startswith("county + sex + age group, 3 bins, suppress 11: the ")
    alone = replace(audit, tables=audit.tables[2:-2])
    assert too_much(alone, below) is None


def test_cells_only_worked_out_together_are_told():
    count = np.array([[4, 40, 40], [30, 25, 30], [6, 40, 30], [35, 30, 20]] * 2) + 10
    count[0, 0], count[2, 0] = 4, 6
    town = np.repeat(np.arange(8), count.sum(axis=1))
    y = np.concatenate([np.repeat(np.arange(3.0), row) for row in count])
    X = np.random.default_rng(0).normal(size=(len(y), 1))
    found = unbin.audit(
        X, y, {"town": town, "county": town // 2}, [[-0.5, 0.5, 1.5, 2.5]], random_state=0,
        suppress=11, complementary=True, **QUICK,
    )  # fmt: skip
    cells = found.tables[-1].cells
    assert cells.only_together > 0
    words = f"{cells.only_together} hidden cells can be worked out only when all tables are"
    assert words in str(found)


@pytest.mark.parametrize("effect", [0.0, 2.0])
def test_chance_is_kept_when_features_tell_nothing_beyond_the_blocks(effect):
    """Ten audits; what sex tells is in the table by sex already."""
    exceeded = []
    for seed in range(10):
        X, _, blocks = people(seed)
        y = effect * blocks["sex"] + np.random.default_rng(1000 + seed).normal(size=1200)
        del blocks["age group"]
        settings = QUICK | {"n_permutations": 39}
        both = unbin.audit(X, y, blocks, [4], random_state=seed, **settings).tables[-1]
        assert both.together
        for side in (both.in_table, both.held_out):
            exceeded.append(side.measured > side.chance)
    assert np.mean(exceeded) <= 0.25  # 5 % expected


def test_everybody_and_the_same_partition_are_not_further_tables():
    X, y, blocks = people(2)
    levels = {"everybody": None, "county": blocks["county"]}
    assert len(unbin.audit(X, y, levels, [3], random_state=0, **QUICK).tables) == 2
    levels |= {"parish": np.char.add("p", blocks["county"])}
    assert not any(
        table.together for table in unbin.audit(X, y, levels, [3], random_state=0, **QUICK).tables
    )


def test_alternatives_are_not_audited_together():
    X, y, blocks = people(2)
    found = unbin.audit(X, y, blocks, [3], together=False, random_state=0, **QUICK)
    assert not any(table.together for table in found.tables)
    assert "together" not in str(found)
    with pytest.raises(ParameterError, match="together: "):
        unbin.audit(X, y, blocks, [3], together="no", **QUICK)


def test_crossed_tables():
    X, y, blocks = people(2)
    crossed = pd.DataFrame({"age group": blocks["age group"], "sex": blocks["sex"]})
    levels = {"county": blocks["county"], ("age group", "sex"): crossed}
    found = unbin.audit(X, y, levels, [3], random_state=0, **QUICK)
    assert [table.level for table in found.tables] == [
        "county",
        "age group, sex",
        "county + age group, sex",
    ]
    assert found.tables[1].n_blocks == 8


@pytest.mark.parametrize("protection", [{"noise": "laplace:1"}, {"round": 5}])
def test_protected_tables_are_attacked_together(protection):
    X, y, blocks = people(3)
    found = unbin.audit(X, y, blocks, [3], random_state=0, **QUICK, **protection)
    plain, protected = found.tables[-2:]
    assert protected.together
    assert 0 < protected.gain < plain.gain + 0.1
    assert protected.r2 > 0.3


@pytest.mark.parametrize("family", ["poisson", "ordinal", "binomial"])
def test_families_are_raked_too(family):
    rng = np.random.default_rng(0)
    county, sex = np.repeat(np.arange(20).astype(str), 50), rng.integers(0, 2, 1000)
    age = rng.normal(size=1000)
    eta = 0.8 * sex + 0.5 * age
    y = (
        rng.poisson(np.exp(eta))
        if family != "binomial"
        else rng.random(1000) < 1 / (1 + np.exp(-3 * eta))
    )
    edges = [-1, 0, 1] if family == "binomial" else [-1, 0, 1, 3, np.inf]
    X = np.column_stack([age, sex])
    settings = QUICK | {"families": (family,)}
    found = unbin.audit(X, y.astype(float), {"county": county, "sex": sex}, [edges],
                        random_state=0, **settings)  # fmt: skip
    *alone, both = found.tables
    joined = next(row for row in both.attacks if row.attack == f"likelihood, {family}")
    assert joined.all.r2 > max(table.r2_without for table in alone) + 0.03


def test_tables_have_noise_of_their_own(monkeypatch):
    """The same noise in two tables could be taken out by comparing them."""
    drawn = []
    apply = Protection.apply

    def spy(self, release, rng):
        found = apply(self, release, rng)
        if self.epsilon is not None:
            drawn.append(found.histogram.count - release.histogram.count)
        return found

    monkeypatch.setattr(Protection, "apply", spy)
    X, y, blocks = people(0)
    del blocks["county"]
    unbin.audit(X, y, blocks, [3], noise="laplace:1", random_state=0, **QUICK)
    by_sex, by_age = drawn
    assert not np.isclose(by_sex[:6], by_age[:6]).any()
