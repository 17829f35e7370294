"""Models of several tables of the same people: all that an estimator does with them."""

import pickle
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, ndtr
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score

import unbin
from attacks.worlds import COUNTED, FAMILIES, draw_outcome
from tests.helpers.releases import mean_release, suppressed
from unbin import AggregatedGLM, BlockKFold, cross_validate, join, permutation_test
from unbin._blocks import deal_blocks, deal_tables
from unbin.exceptions import (
    AggregatedTargetError,
    AlignmentWarning,
    ParameterError,
    ReleaseError,
    SplitBlockError,
)
from unbin.families import get_family
from unbin.likelihood.infer.choice import Candidate, _deal, _simplest_near_best

pytestmark = pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
COEF = np.array([0.5, 0.8, -0.4])
INF = np.inf


def draw(seed=0, blocks=40, size=50, effects=0.0):
    """People of many counties: features, linear predictors, and the blocks of three tables."""
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(blocks), size)
    sex = rng.integers(0, 2, len(code))
    age = rng.normal(size=len(code))
    income = rng.normal(size=len(code)) + 0.7 * rng.normal(size=blocks)[code]
    X = pd.DataFrame({"age": age, "male": sex.astype(float), "income": income})
    ids = pd.DataFrame(
        {
            "county": np.char.zfill(code.astype(str), 3),
            "age_group": np.digitize(age, np.arange(-2.0, 2.5, 0.5)).astype(str),
            "sex": np.where(sex == 1, "m", "f"),
        }
    )
    return X, X.to_numpy() @ COEF + effects * rng.normal(size=blocks)[code], ids, rng


def joined(y, ids, bins=5, names=("county", "age_group", "sex")):
    return join(*(unbin.aggregate(y, ids[name], bins).align(ids[name]) for name in names))


X, ETA, IDS, RNG = draw()
Y = ETA + RNG.normal(size=len(X))
EDGES = np.array([-INF, *np.quantile(Y, [0.2, 0.4, 0.6, 0.8]), INF])
TARGET = joined(Y, IDS, EDGES)
MODEL = AggregatedGLM().fit(X, TARGET)


NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def cell_scores(model, table, eta, blocks=None):
    """Σ c log(m / n) over some blocks of a table, and their people; bin by bin, from scratch."""
    sd, total, people = np.sqrt(model.dispersion_), 0.0, 0
    for name in np.unique(table.blocks) if blocks is None else blocks:
        inside = table.blocks == name
        people += inside.sum()
        for low, high in pairwise(EDGES):
            ends = [(end - eta[inside]) / sd for end in (high, low)]
            shift = NODES[:, None] * model.block_sd_ / sd
            expected = (WEIGHTS @ (ndtr(ends[0] + shift) - ndtr(ends[1] + shift))).sum()
            count = ((Y[inside] > low) & (Y[inside] <= high)).sum()
            total += count * np.log(expected / inside.sum())
    return total, people


# -- scores and leaving out ------------------------------------------------------------------------


@pytest.mark.parametrize("effects", [0.0, 0.6])
def test_the_score_is_over_the_cells_of_all_tables(effects):
    model, target = MODEL, TARGET
    if effects:
        table = joined(draw(effects=effects)[1] + Y - ETA, IDS, EDGES)
        model = AggregatedGLM(alpha=0.0).fit(X, table)
        assert model.block_sd_ > 0.3
    eta = X.to_numpy() @ model.coef_ + model.intercept_
    found = [cell_scores(model, table, eta) for table in target.tables]
    total, people = np.sum(found, axis=0)
    assert people == 3 * len(X)
    assert model.score(X, target) == pytest.approx(total / people, rel=1e-9)


def test_the_score_of_the_fit_is_its_objective():
    assert MODEL.score(X, TARGET) == pytest.approx(-MODEL.objective_, rel=1e-6)


def folds_of(names, n_splits):
    """The fold of each block of some tables, dealt by their people."""
    return {n: deal_blocks(TARGET.table(n).release.n, n_splits) for n in names}


def by_hand(model, folds, k):
    """Fit without the blocks of a fold, and score them, from selected releases."""
    kept = []
    for name, table in zip(TARGET.names, TARGET.tables, strict=True):
        release = table.release
        if name in folds:
            release = release.select(release.blocks[folds[name] != k])
        with pytest.warns(AlignmentWarning) if name in folds else np.errstate():
            kept.append(release.align(IDS[name], on_missing="drop"))
    fitted = clone(model).fit(X, join(*kept))
    eta = X.to_numpy() @ fitted.coef_ + fitted.intercept_
    held = [
        cell_scores(fitted, TARGET.table(n), eta, TARGET.table(n).release.blocks[fold == k])
        for n, fold in folds.items()
    ]
    return np.sum(held, axis=0)


@pytest.mark.parametrize("table", [None, "age_group"])
def test_blocks_left_out_are_predicted_by_fits_that_never_saw_them(table):
    found = cross_validate(AggregatedGLM(), X, TARGET, table=table)
    names = ("county", "age_group") if table is None else (table,)
    assert found.tables == names  # sex has too few blocks
    folds = folds_of(names, 5)
    for k in range(5):
        total, people = by_hand(AggregatedGLM(), folds, k)
        assert found.people[k] == people
        assert found.score[k] == pytest.approx(total / people, rel=1e-7)
    assert found.mean == pytest.approx(found.people @ found.score / found.people.sum())
    assert str(found).startswith(f"cross-validation: log score {found.mean:.4f} per person (stand")
    assert str(found).endswith(f"5 folds of the blocks of {', '.join(names)}")


def test_one_table_is_left_out_as_several_are():
    table = TARGET.table("county")
    found = cross_validate(AggregatedGLM(alpha=0.0), X, table, 4)
    fold = deal_blocks(table.release.n, 4)
    for k in range(4):
        train, test = (np.flatnonzero((fold == k)[table.codes] == held) for held in (False, True))
        alone = AggregatedGLM(alpha=0.0).fit(X.iloc[train], table[train])
        assert found.score[k] == pytest.approx(alone.score(X.iloc[test], table[test]), abs=2e-5)


def test_folds_at_random_depend_on_the_seed():
    one, same, other = (
        cross_validate(AggregatedGLM(), X, TARGET, random_state=seed).score for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)


def test_small_tables_are_left_out_together():
    target = joined(Y, IDS, EDGES, ("age_group", "sex"))
    assert cross_validate(AggregatedGLM(), X, target, 5).tables == ("age_group",)
    assert cross_validate(AggregatedGLM(), X, target, 6).tables == ("age_group", "sex")
    with pytest.raises(
        ParameterError, match="7 folds need 14 blocks with published counts, got 12"
    ):
        cross_validate(AggregatedGLM(), X, target, 7)


def test_means_have_no_log_score():
    means = mean_release(Y, IDS["county"].to_numpy()).align(IDS["county"])
    both = join(means, TARGET.table("age_group"))
    assert cross_validate(AggregatedGLM(), X, both).tables == ("age_group",)
    model = AggregatedGLM().fit(X, both)
    assert model.score(X, both) == pytest.approx(model.score(X, TARGET.table("age_group")))
    with pytest.raises(ReleaseError, match="score: the log score is one of counts, got tables wit"):
        model.score(X, means)
    with pytest.raises(ParameterError, match="need 10 blocks with published counts, got 0; lower"):
        cross_validate(AggregatedGLM(), X, both, table="county")


def test_held_out_blocks_of_an_ordinal_model():
    """Close to the gaussian's: that is what the people were drawn from."""
    gaussian, ordinal = (cross_validate(AggregatedGLM(f), X, TARGET) for f in FAMILIES[::6])
    assert ordinal.mean == pytest.approx(gaussian.mean, abs=0.01)


def test_an_offset_is_left_out_with_its_people():
    known = X.to_numpy() @ COEF
    blind = cross_validate(AggregatedGLM(alpha=1e6), X, TARGET)
    told = cross_validate(AggregatedGLM(alpha=1e6), X, TARGET, offset=known)
    assert told.mean > blind.mean + 0.02


@pytest.mark.parametrize("contextual", [True, "county"])
def test_the_context_of_people_left_out_is_that_of_the_fit(contextual):
    names = ("county", "age_group") if contextual is True else ("age_group", "county")
    target = joined(Y, IDS, EDGES, names)
    found = cross_validate(AggregatedGLM(contextual=contextual), X, target, table="age_group")
    fold = deal_blocks(target.table("age_group").release.n, 5)
    hidden = [name == "age_group" for name in names]
    kept = target.without([fold == 0 if hide else np.zeros(40, bool) for hide in hidden])
    model = AggregatedGLM(contextual=contextual).fit(X, kept)
    means = X.groupby(IDS["county"]).transform("mean").to_numpy()
    eta = X.to_numpy() @ model.coef_ + model.intercept_ + means @ model.contextual_coef_
    held = target.table("age_group").release.blocks[fold == 0]
    total, people = cell_scores(model, target.table("age_group"), eta, held)
    assert found.score[0] == pytest.approx(total / people, rel=1e-7)
    whole = AggregatedGLM(contextual=contextual).fit(X, target)
    assert whole.score(X, target) == pytest.approx(-whole.objective_, rel=1e-6)


def test_rows_cannot_be_split():
    with pytest.raises(AggregatedTargetError, match=r"cannot be split, .*; use unbin\.cross_valid"):
        list(BlockKFold(5).split(X, TARGET))
    with pytest.raises(SplitBlockError, match=r"unbin\.cross_validate\(model, X, target\)"):
        cross_val_score(AggregatedGLM(), X, TARGET, cv=5, error_score="raise")


# -- permutation tests -----------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "n"), [("block-means", 199), ("refit", 19)])
def test_blocks_of_a_named_table_are_dealt_out(kind, n):
    test = permutation_test(
        AggregatedGLM(), X, TARGET, n, table="county", kind=kind, random_state=0
    )
    assert test.p_value == 1 / (1 + n)
    empty = joined(RNG.normal(size=len(X)), IDS, EDGES)
    test = permutation_test(AggregatedGLM(), X, empty, n, table="county", kind=kind, random_state=0)
    assert test.p_value > 0.05


def test_block_means_are_those_of_the_table_alone():
    arguments = {"n_permutations": 50, "random_state": 3}
    named = permutation_test(AggregatedGLM(), X, TARGET, table="county", **arguments)
    alone = permutation_test(AggregatedGLM(), X, TARGET.table("county"), **arguments)
    np.testing.assert_array_equal(named.null, alone.null)
    once = permutation_test(AggregatedGLM(), X, join(TARGET.table("county")), **arguments)
    np.testing.assert_array_equal(once.null, alone.null)


def test_refits_keep_the_other_tables(monkeypatch):
    seen = []
    fit = AggregatedGLM.fit
    monkeypatch.setattr(AggregatedGLM, "fit", lambda self, X, y: seen.append(y) or fit(self, X, y))
    permutation_test(AggregatedGLM(), X, TARGET, 2, table="county", kind="refit", random_state=0)
    assert len(seen) == 3
    for dealt in seen[1:]:
        county, *others = dealt.tables
        assert (
            county.release.histogram.count.tolist()
            != TARGET.tables[0].release.histogram.count.tolist()
        )
        assert sorted(county.release.histogram.count) == sorted(
            TARGET.tables[0].release.histogram.count
        )
        assert [t.release for t in others] == [t.release for t in TARGET.tables[1:]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "table: must name the table whose blocks are dealt out, got none of 'county', 'age_g"),
        (
            {"table": "state"},
            "table: unknown, got 'state'; use one of 'county', 'age_group', 'sex'",
        ),
        ({"table": "county", "y": Y}, "permuted within the blocks of one table would change the o"),
        ({"table": "county", "kind": "error"}, "got 3 tables; test one table alone, or use kind="),
        ({"table": "sex"}, "needs more blocks than features, got 2 blocks and 3 features; use kin"),
        ({"table": "sex", "target": TARGET.tables[0]}, "table: unknown, got 'sex'; use one of 'co"),
    ],
)
def test_permutations_that_are_no_test_are_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        permutation_test(
            AggregatedGLM(), X, **({"target": TARGET, "n_permutations": 9} | arguments)
        )


# -- choice ----------------------------------------------------------------------------------------


def test_families_are_compared_on_blocks_that_fits_never_saw():
    model = AggregatedGLM("auto").fit(X, TARGET)
    assert model.family_ == "gaussian"
    assert model.selection_.family == ("gaussian", "ordinal")
    for family, score in zip(model.selection_.family, model.selection_.score, strict=True):
        left_out = cross_validate(AggregatedGLM(family), X, TARGET)
        assert score == pytest.approx(left_out.mean, abs=2e-4)


def test_folds_take_tables_with_two_blocks_each():
    people = [np.full(40, 50), np.full(2, 1000), np.full(10, 200)]
    dealt = deal_tables(people, [40, 2, 10], 5)
    assert [None if fold is None else np.bincount(fold).tolist() for fold in dealt] == [
        [8] * 5,
        None,
        [2] * 5,
    ]
    # none has enough: all together, the largest blocks in different folds
    sex, age = deal_tables([people[1], people[2][:9]], [2, 9], 5)
    assert sorted(np.bincount(np.concatenate([sex, age]))) == [2, 2, 2, 2, 3]
    assert sex[0] != sex[1]
    # blocks without counts do not count
    assert deal_tables(people, [9, 2, 10], 5)[0] is None


def test_the_choice_deals_the_tables_with_enough_blocks():
    folds = _deal(TARGET.published.releases, 5)
    assert [fold is None for fold in folds] == [False, False, True]
    few = joined(Y, IDS, EDGES, ("sex",)).published.releases
    with pytest.raises(ParameterError, match="choosing needs at least 10 blocks with published co"):
        _deal(few, 5)


def candidates(family="gaussian", alphas=(0.0, 1e-3, 1e-2, 100.0)):
    return [Candidate(get_family(family), alpha, False) for alpha in alphas]


def test_the_best_ridge_is_taken_of_several_tables():
    """Of one table the largest near the best: but tables by sex are never held out."""
    rng = np.random.default_rng(0)
    scores = np.array([3.0, 3.2, 3.1, -5.0])[:, None] / 40 + 0.05 * rng.normal(size=(4, 40))
    scores += (np.array([3.0, 3.2, 3.1, -5.0]) - scores.sum(axis=1))[:, None] / 40
    which = np.arange(4)
    assert _simplest_near_best(candidates(), scores, which, False) == 2
    assert _simplest_near_best(candidates(), scores, which, True) == 1
    # no ridge does clearly better than no slopes
    scores[3] = scores[1] - 0.001 * rng.normal(size=40)
    for several in (False, True):
        assert _simplest_near_best(candidates(), scores, which, several) == 3


def test_the_simpler_family_is_taken_with_its_own_best_ridge():
    rng = np.random.default_rng(1)
    both = [*candidates(alphas=(0.0, 1e-3, 100.0)), *candidates("ordinal", (0.0, 1e-3, 100.0))]
    goal = np.array([3.0, 2.9, -5.0, 3.1, 3.3, -5.0])
    scores = 0.05 * rng.normal(size=(6, 40))
    scores += (goal - scores.sum(axis=1))[:, None] / 40
    assert _simplest_near_best(both, scores, np.arange(6), True) == 0
    # also where no ridges are tried
    for several in (False, True):
        assert _simplest_near_best(both, scores, np.array([0, 3]), several) == 0


def test_a_ridge_is_chosen_by_held_out_blocks():
    model = AggregatedGLM(alpha="held-out").fit(X, TARGET)
    best = model.selection_.alpha[np.argmax(model.selection_.score)]
    assert model.alpha_ == model.selection_.alpha[model.selection_.chosen] == best < 0.1
    noise = joined(np.random.default_rng(3).normal(size=len(X)), IDS, EDGES)
    flat = AggregatedGLM(alpha="held-out").fit(X, noise)
    assert flat.alpha_ == flat.selection_.alpha.max()
    assert np.abs(flat.coef_).max() < 0.01


def contextual_outcome(bend):
    means = X.groupby(IDS["county"]).transform("mean").to_numpy()
    return Y + bend * means[:, 2]


@pytest.mark.parametrize("contextual", [True, "county"])
def test_contextual_effects_are_those_of_the_table_named(contextual):
    names = ("county", "sex", "age_group") if contextual is True else ("sex", "county", "age_group")
    model = AggregatedGLM(contextual=contextual).fit(
        X, joined(contextual_outcome(1.0), IDS, 5, names)
    )
    assert model.tables_[0].name == "county"
    frame = model.tidy().set_index("term")
    gap = (frame["estimate"] - [model.intercept_, *COEF, 0, 0, 1.0]) / frame["std_error"]
    assert np.abs(gap.iloc[1:]).max() < 3.5
    means = X.groupby(IDS["county"]).transform("mean").to_numpy()
    eta = X.to_numpy() @ model.coef_ + means @ model.contextual_coef_ + model.intercept_
    np.testing.assert_allclose(model.predict(X, blocks=IDS["county"]), eta, atol=1e-12)


@pytest.mark.parametrize(("bend", "wanted"), [(1.5, True), (0.0, False)])
def test_contextual_effects_are_chosen_where_there_are_some(bend, wanted):
    target = joined(contextual_outcome(bend), IDS, 5)
    model = AggregatedGLM(contextual="auto").fit(X, target)
    assert (model.contextual_coef_ is not None) == wanted
    assert set(model.selection_.contextual) == {False, True}


# -- families, transforms, units -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "n_trials"),
    [(f, 5 if "binomial" in f and "neg" not in f else 1) for f in FAMILIES] + [("binomial", 1)],
)
def test_every_family_recovers_the_slopes(family, n_trials):
    X, eta, ids, rng = draw(5)
    y = draw_outcome(rng, family, eta, spread=0.5, n_trials=n_trials)
    cuts = np.unique(np.floor(np.quantile(y, [0.2, 0.4, 0.6, 0.8]))) if family in COUNTED else None
    bins = 5 if cuts is None else [-INF, *cuts[cuts < max(n_trials, 2)], INF]
    if n_trials == 1 and family == "binomial":
        bins = [-INF, 0, INF]
    names = ("county", "age_group")
    model = AggregatedGLM(family, n_trials=n_trials).fit(X, joined(y, ids, bins, names))
    assert model.status_.converged
    assert (np.abs(model.coef_ - COEF) < 4 * model.standard_errors_).all()
    assert model.standard_errors_[0] < 0.15
    assert [table.name for table in model.tables_] == list(names)
    # age is estimated from age groups; what counties hold of it overlaps with that
    assert model.diagnostics_.information[1, 0] > 0.6
    mean = model.predict(X)
    assert np.corrcoef(mean, expit(eta) if "binomial" in family else eta)[0, 1] > 0.5
    if family == "ordinal":
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_the_log_of_the_outcome():
    cost = np.exp(Y)
    logged = joined(cost, IDS, np.exp(EDGES))
    model = AggregatedGLM(target_transform="log").fit(X, logged)
    np.testing.assert_allclose(model.coef_, MODEL.coef_, rtol=1e-9)
    np.testing.assert_allclose(model.standard_errors_, MODEL.standard_errors_, rtol=1e-9)
    np.testing.assert_allclose(
        model.predict(X), np.exp(MODEL.predict(X) + MODEL.dispersion_ / 2), rtol=1e-9
    )
    for table, plain in zip(model.tables_, MODEL.tables_, strict=True):
        np.testing.assert_allclose(table.published.upper, np.exp(plain.published.upper))
    assert model.score(X, logged) == pytest.approx(MODEL.score(X, TARGET))


def test_an_offset_takes_its_part_of_the_slopes():
    known = np.array([0.2, 0.0, -0.4])
    part = X.to_numpy() @ known
    model = AggregatedGLM().fit(X, TARGET, offset=part)
    np.testing.assert_allclose(model.coef_ + known, MODEL.coef_, atol=1e-4)
    np.testing.assert_allclose(model.predict(X, offset=part), MODEL.predict(X), atol=1e-3)
    np.testing.assert_allclose(model.standard_errors_, MODEL.standard_errors_, rtol=1e-3)


def test_without_an_intercept():
    with_column = AggregatedGLM(fit_intercept=False).fit(X.assign(one=1.0), TARGET)
    np.testing.assert_allclose(with_column.coef_[:3], MODEL.coef_, rtol=1e-4)
    np.testing.assert_allclose(with_column.coef_[3], MODEL.intercept_, atol=1e-4)
    np.testing.assert_allclose(with_column.standard_errors_[:3], MODEL.standard_errors_, rtol=1e-3)
    assert with_column.intercept_ == 0.0


@pytest.mark.parametrize("unit", [1e9, 1e-9])
def test_the_unit_of_the_outcome_does_not_matter(unit):
    model = AggregatedGLM().fit(X, joined(unit * Y, IDS, unit * EDGES))
    z = [m.coef_ / m.standard_errors_ for m in (model, MODEL)]
    np.testing.assert_allclose(z[0], z[1], rtol=1e-7)
    np.testing.assert_allclose(model.predict(X) / unit, MODEL.predict(X), rtol=1e-7, atol=1e-9)


def test_rows_in_another_order():
    order = np.random.default_rng(0).permutation(len(X))
    mixed = IDS.iloc[order].reset_index(drop=True)
    model = AggregatedGLM().fit(
        X.iloc[order].reset_index(drop=True), joined(Y[order], mixed, EDGES)
    )
    np.testing.assert_allclose(model.coef_, MODEL.coef_, rtol=1e-8)
    np.testing.assert_allclose(model.standard_errors_, MODEL.standard_errors_, rtol=1e-8)
    np.testing.assert_allclose(model.impute(), MODEL.impute()[order], atol=1e-5)


# -- what a model tells ----------------------------------------------------------------------------


def test_summary_tidy_and_glance():
    text = str(MODEL.summary())
    for told in (
        "Tables:                            3",
        "Table county: 2,000 people in 40 blocks, Q/df = ",
        "Table sex: 2,000 people in 2 blocks",
        "Most information: on age from age_group (",
        "on male from sex (",
    ):
        assert told in text
    tidy = MODEL.tidy().set_index("term")
    shares = tidy.loc[list(X), [f"information_{name}" for name in TARGET.names]]
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(shares.to_numpy().T, MODEL.diagnostics_.information)
    assert tidy.loc["intercept"].filter(like="information").isna().all()
    (row,) = MODEL.glance().to_dict("records")
    assert (row["n_people"], row["n_blocks"], row["identified"]) == (2000, 52, True)


@pytest.mark.parametrize("public", [None, True])
def test_a_saved_model_is_the_model(tmp_path, public):
    model = AggregatedGLM(contextual="county").fit(X, TARGET)
    unbin.save(model, tmp_path / "m.json", public=public)
    loaded = unbin.load(tmp_path / "m.json")
    np.testing.assert_array_equal(
        loaded.predict(X, blocks=IDS["county"]), model.predict(X, blocks=IDS["county"])
    )
    np.testing.assert_array_equal(loaded.diagnostics_.information, model.diagnostics_.information)
    assert loaded.score(X, TARGET) == model.score(X, TARGET)
    assert str(loaded.summary()) == str(model.summary())
    for old, new in zip(model.tables_, loaded.tables_, strict=True):
        assert (old.name, old.n_people, old.n_blocks) == (new.name, new.n_people, new.n_blocks)
        assert (old.block_sd, old.goodness_of_fit) == (new.block_sd, new.goodness_of_fit)
        # counts of a few people are kept only where everybody has them
        if public:
            np.testing.assert_array_equal(old.published.count, new.published.count)
        else:
            assert new.published is None
    with pytest.raises(AggregatedTargetError, match="impute: this model holds no imputed targets"):
        loaded.impute()


def test_copies_hold_no_personal_values():
    copied = pickle.loads(pickle.dumps(MODEL))
    np.testing.assert_array_equal(copied.predict(X), MODEL.predict(X))
    assert [t.name for t in copied.tables_] == list(TARGET.names)
    with pytest.raises(AggregatedTargetError, match="impute: this model holds no imputed targets"):
        copied.impute()
    again = clone(AggregatedGLM(contextual="county"))
    assert again.contextual == "county"
    assert not hasattr(again, "coef_")


def test_imputed_targets_meet_the_tables():
    mean = MODEL.impute()
    assert np.corrcoef(mean, Y)[0, 1] > np.corrcoef(MODEL.predict(X), Y)[0, 1]
    draws = MODEL.impute("draw", size=2, random_state=0)
    assert draws.shape == (2, len(X))
    np.testing.assert_array_equal(draws, MODEL.impute("draw", size=2, random_state=0))
    for draw in draws:
        again = unbin.aggregate(draw, IDS["county"], EDGES)
        np.testing.assert_array_equal(
            again.histogram.count, TARGET.table("county").release.histogram.count
        )


def test_several_targets_of_several_tables():
    other = joined(2 * Y + 1, IDS, 4)
    model = AggregatedGLM().fit(X, [TARGET, other, TARGET.table("county")])
    np.testing.assert_allclose(model.coef_[0], MODEL.coef_, rtol=1e-12)
    alone = AggregatedGLM().fit(X, other)
    np.testing.assert_allclose(model.coef_[1], alone.coef_, rtol=1e-12)
    assert [len(tables) for tables in model.tables_] == [3, 3, 0]
    assert model.predict(X).shape == model.impute().shape == (len(X), 3)


def test_a_join_of_one_table_is_that_table():
    table = TARGET.table("county")
    for method in ("likelihood", "matching"):
        one, alone = (
            AggregatedGLM(method=method, random_state=0).fit(X, y) for y in (join(table), table)
        )
        np.testing.assert_array_equal(one.coef_, alone.coef_)
        assert one.score(X, join(table)) == alone.score(X, table)
    np.testing.assert_array_equal(
        AggregatedGLM().fit(X, join(table)).standard_errors_,
        AggregatedGLM().fit(X, table).standard_errors_,
    )


def test_tables_by_the_columns_of_a_frame():
    frame = X.join(IDS)
    keys = ("county", ("age_group", "sex"))
    tables = {key: unbin.aggregate(Y, frame[list(key)] if isinstance(key, tuple) else frame[key],
                                   EDGES) for key in keys}  # fmt: skip
    model = AggregatedGLM().fit(frame, tables, features=list(X))
    targets = [tables["county"].align(IDS["county"])]
    targets.append(tables[keys[1]].align(IDS[["age_group", "sex"]]))
    same = AggregatedGLM().fit(X, join(*targets))
    np.testing.assert_allclose(model.coef_, same.coef_, rtol=1e-12)
    np.testing.assert_allclose(model.standard_errors_, same.standard_errors_, rtol=1e-12)
    assert [table.name for table in model.tables_] == ["county", "age_group, sex"]


# -- what takes one table --------------------------------------------------------------------------


def test_matching_takes_one_table():
    message = "matching, the paper's, takes one table, got 3 of the same people; use method='likel"
    with pytest.raises(ParameterError, match=message):
        AggregatedGLM(method="matching").fit(X, TARGET)
    model = AggregatedGLM(method="matching", random_state=0).fit(X, TARGET.table("county"))
    with pytest.raises(ParameterError, match="score: matching takes one table, got 3 of the same"):
        model.score(X, TARGET)
    with pytest.raises(ParameterError, match="method: unknown, got 'matching'; use one of 'likeli"):
        cross_validate(AggregatedGLM(method="matching"), X, TARGET)
    learner = unbin.AggregatedRegressor(LinearRegression())
    with pytest.raises(
        ParameterError, match=r"y: matching takes one table, .* use unbin\.Aggregat"
    ):
        learner.fit(X, TARGET)


# -- hidden counts ---------------------------------------------------------------------------------


def test_counts_hidden_altogether_are_no_evidence():
    """Nothing but the people of each county is known: the slope of income has to stay open."""
    release = TARGET.table("county").release
    columns = release.to_columns()["histogram"]
    n = np.repeat(release.n, np.diff(release.histogram.start))
    nothing = columns | {"count": np.full(len(n), np.nan), "low": 0 * n, "high": n, "n": n}
    hidden = unbin.Release.from_histogram(nothing, n="n", count_low="low", count_high="high")
    sex = TARGET.table("sex")
    model = AggregatedGLM().fit(X, join(hidden.align(IDS["county"]), sex))
    # two blocks are left, which also differ in the other features
    assert model.diagnostics_.verdicts == ("not estimable",) * 3
    assert not model.diagnostics_.trusted


def test_suppressed_counts_cost_precision_not_truth():
    target = joined(Y, IDS, EDGES)
    county = suppressed(unbin.aggregate(Y, IDS["county"], EDGES), 1, 10).align(IDS["county"])
    model = AggregatedGLM().fit(X, join(county, *target.tables[1:]))
    assert (np.abs(model.coef_ - COEF) < 4 * model.standard_errors_).all()
    # by the model: errors by blocks are estimates themselves, and may come out smaller
    assert (model.diagnostics_.efficiency < MODEL.diagnostics_.efficiency).all()
