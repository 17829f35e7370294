"""unbin.glm: one call from a frame and tables to a fitted model."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.exceptions import ConvergenceWarning

import unbin
from tests.helpers.precincts import published, voters
from unbin.exceptions import AlignmentWarning, CategoryError, EncodingError, ParameterError
from unbin.fitting.naming import with_names
from unbin.people.encoding import Encoding

N, B = 4000, 80
RNG = np.random.default_rng(3)
COUNTY = np.repeat([f"{b:05d}" for b in range(B)], N // B)
AGE = 50 + 10 * RNG.normal(size=N) + 8 * RNG.normal(size=B).repeat(N // B)
SEX = RNG.choice(["f", "m"], N)
Y = 0.05 * AGE + 0.8 * (SEX == "m") + 0.5 * RNG.normal(size=N)
PEOPLE = pd.DataFrame({"county": COUNTY, "age": AGE, "sex": SEX})
COUNTIES = unbin.aggregate(Y, COUNTY, bins=6)
SEXES = unbin.aggregate(Y, SEX, bins=4)
TABLES = {"county": COUNTIES, "sex": SEXES}


def fitted(people=PEOPLE, tables=None, formula="age + sex", **settings):
    settings = {"family": "gaussian", **settings}
    return unbin.glm(formula, people, TABLES if tables is None else tables, **settings)


def test_it_is_the_estimator_with_encoded_columns():
    X = np.column_stack([AGE, SEX == "m"]).astype(float)
    target = unbin.join(COUNTIES.align({"county": COUNTY}), SEXES.align({"sex": SEX}))
    by_hand = unbin.AggregatedGLM().fit(pd.DataFrame(X, columns=["age", "sex[T.m]"]), target)
    model = fitted()
    np.testing.assert_array_equal(model.coef_, by_hand.coef_)
    np.testing.assert_array_equal(model.standard_errors_, by_hand.standard_errors_)
    assert [table.name for table in model.tables_] == ["county", "sex"]
    assert model.tidy()["term"].tolist() == ["intercept", "age", "sex[T.m]"]
    np.testing.assert_allclose(model.coef_, [0.05, 0.8], atol=0.05)


@pytest.mark.parametrize("make", [pl.from_pandas, pa.Table.from_pandas, dict])
def test_any_frame_will_do(make):
    people = make(PEOPLE)
    np.testing.assert_allclose(fitted(people).coef_, fitted().coef_, rtol=1e-12)


def test_paths_and_frames_of_tables(tmp_path):
    PEOPLE.to_csv(tmp_path / "people.csv", index=False)
    table = COUNTIES.to_columns()["histogram"]
    pd.DataFrame(table).rename(columns={"block": "county"}).to_csv(
        tmp_path / "county.csv", index=False
    )
    from_files = fitted(
        str(tmp_path / "people.csv"), {"county": tmp_path / "county.csv", "sex": SEXES}
    )
    frames = fitted(tables={"county": pl.DataFrame(table), "sex": SEXES})
    for model in (from_files, frames):
        np.testing.assert_allclose(model.coef_, fitted().coef_, rtol=1e-9)


def test_a_crossed_table_has_two_columns():
    people = PEOPLE.assign(old=np.where(AGE > 50, "old", "young"))
    cells = unbin.aggregate(Y, [f"{a} | {s}" for a, s in zip(people["old"], SEX, strict=True)], 4)
    model = fitted(people, {"county": COUNTIES, ("old", "sex"): cells})
    np.testing.assert_allclose(model.coef_, [0.05, 0.8], atol=0.05)


def test_new_people_are_encoded_as_in_the_fit(tmp_path):
    model = fitted(formula="bs(age, 4) * C(sex, 'm')", alpha=0)
    new = PEOPLE.iloc[5:9]
    X = Encoding.build("bs(age, 4) * C(sex, 'm')", PEOPLE)[1][5:9]
    expected = model.intercept_ + X @ model.coef_
    np.testing.assert_allclose(model.predict(new), expected)
    np.testing.assert_allclose(model.predict(pl.from_pandas(new)), expected)
    unbin.save(model, tmp_path / "model.json")
    loaded = unbin.load(tmp_path / "model.json")
    np.testing.assert_allclose(loaded.predict(new), expected)
    with pytest.raises(EncodingError, match="category 'x' was not in the fit"):
        model.predict(new.assign(sex="x"))
    refitted = model.fit(PEOPLE[["age"]], COUNTIES.align(COUNTY))
    assert not hasattr(refitted, "encoding_")


def test_the_family_is_chosen_by_default():
    model = unbin.glm("age", PEOPLE, {"county": COUNTIES}, random_state=0)
    assert model.family == "auto"
    assert model.selection_ is not None


def holes(column="age", share=0.1, seed=0):
    """Return people of whom some lack a value, at random."""
    rng = np.random.default_rng(seed)
    gone = rng.random(N) < share
    return PEOPLE.assign(**{column: PEOPLE[column].where(~gone, None)}), gone


def test_missing_values_are_refused_unless_told():
    people, gone = holes()
    row = int(np.argmax(gone)) + 1
    message = rf"column 'age', row {row}: must have a value, got {gone.sum()} of 4,000 missing; say"
    with pytest.raises(EncodingError, match=message):
        fitted(people)
    with pytest.raises(
        ParameterError, match="missing: unknown, got 'omit'; use one of 'error', 'drop'"
    ):
        fitted(people, missing="omit")


def test_people_who_lack_a_value_are_dropped_and_taken_out_of_the_tables():
    people, gone = holes()
    with pytest.warns(AlignmentWarning, match=rf"missing: {gone.sum()} of 4,000 people were"):
        model = fitted(people, missing="drop")
    assert model.n_people_ == N - gone.sum()
    np.testing.assert_allclose(model.coef_, [0.05, 0.8], atol=0.06)
    left = PEOPLE[~gone]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AlignmentWarning)
        target = unbin.join(
            COUNTIES.align({"county": left["county"]}, scale=True),
            SEXES.align({"sex": left["sex"]}, scale=True),
            scale=True,
        )
    by_hand = unbin.AggregatedGLM().fit(Encoding.build("age + sex", left)[1], target)
    np.testing.assert_allclose(model.coef_, by_hand.coef_)


def test_blocks_whose_people_all_lack_a_value_are_left_out():
    people = PEOPLE.assign(age=PEOPLE["age"].where(COUNTY != "00003", None))
    with pytest.warns(AlignmentWarning, match="who lack 'age' \\(50\\)"):
        model = fitted(people, {"county": COUNTIES}, missing="drop")
    assert model.n_blocks_ == B - 1
    medians = unbin.Release.from_quantiles(
        {
            "block": np.unique(COUNTY),
            "quantile": [0.5] * B,
            "value": [np.sort(Y[b == COUNTY])[24] for b in np.unique(COUNTY)],
            "n": [50] * B,
        },
        n="n",
    )
    with pytest.warns(AlignmentWarning, match="missing: "):
        model = fitted(holes()[0], {"county": medians}, "age", missing="drop")
    assert model.coef_[0] == pytest.approx(0.05, abs=0.02)


def test_the_mean_stands_for_a_missing_value_beside_an_indicator():
    people, gone = holes()
    people["sex"] = people["sex"].where(np.arange(N) % 50 > 0, None)
    model = fitted(people, {"county": COUNTIES}, missing="mean")
    names = ["age", "sex[T.f]", "sex[T.m]", "age[missing]"]
    assert model.feature_names_in_.tolist() == names
    X = model.encoding_.encode(people)
    np.testing.assert_array_equal(X[:, 3], gone)
    np.testing.assert_allclose(X[gone, 0], AGE[~gone].mean())
    np.testing.assert_array_equal(X[:, 1:3].sum(axis=1) == 0, people["sex"].isna())
    again = Encoding.from_json(model.encoding_.to_json())
    np.testing.assert_array_equal(again.encode(people), X)
    with pytest.raises(EncodingError, match="column 'age': must have a value in some rows"):
        fitted(PEOPLE.assign(age=np.nan), missing="mean")


def test_a_missing_number_of_the_fit_is_the_mean_of_its_block():
    people = {"x": np.array([1.0, np.nan, 4.0, np.nan, np.nan]), "z": np.arange(5.0)}
    blocks = {"county": ["a", "a", "b", "b", "c"], "sex": ["f"] * 5}
    encoding, X = Encoding.build("x + z", people, missing="mean", blocks=blocks)
    np.testing.assert_array_equal(X[:, 0], [1.0, 1.0, 4.0, 4.0, 2.5])  # of c nobody is known
    np.testing.assert_array_equal(encoding.encode(people)[:, 0], [1.0, 2.5, 4.0, 2.5, 2.5])


def test_slopes_are_right_where_numbers_are_missing(monkeypatch):
    rng = np.random.default_rng(0)
    block = np.repeat(np.arange(100), 200)
    x = rng.normal(size=20_000) + 0.5 * rng.normal(size=100)[block]
    table = {"block": unbin.aggregate(x + rng.normal(size=20_000), block, bins=6)}
    people = pd.DataFrame({"block": block, "x": np.where(rng.random(20_000) < 0.3, np.nan, x)})
    model = unbin.glm("x", people, table, family="gaussian", missing="mean")
    assert abs(model.coef_[0] - 1) < 2 * model.standard_errors_[0]
    monkeypatch.setattr("unbin.people.encoding._block_means", lambda *_: {})
    model = unbin.glm("x", people, table, family="gaussian", missing="mean")
    assert model.conf_int()[0].mean() - 1 > 3 * model.standard_errors_[0]


@pytest.mark.parametrize("dtype", ["string", object])
def test_a_missing_text_may_be_what_pandas_calls_it(dtype):
    people = PEOPLE.assign(sex=PEOPLE["sex"].astype(dtype))
    people.loc[[3, 70], "sex"] = pd.NA
    with pytest.raises(EncodingError, match=r"column 'sex', row 4: .* 2 of"):
        fitted(people, {"county": COUNTIES})
    encoding, X = Encoding.build("age + C(sex, 'f')", people, missing="mean")
    assert encoding.names == ("age", "C(sex)[T.(missing)]", "C(sex)[T.m]")
    assert X[:, 1].sum() == 2


def test_weights_offset_and_known_outcomes_are_columns():
    people = PEOPLE.assign(w=1.0, shift=0.0, known=np.where(np.arange(N) % 40 == 0, Y, np.nan))
    plain = fitted(tables={"county": COUNTIES})
    weighed = fitted(people, {"county": COUNTIES}, weights="w", offset="shift")
    np.testing.assert_allclose(weighed.coef_, plain.coef_, rtol=1e-8)
    known = fitted(people, {"county": COUNTIES}, observed="known")
    assert known.n_observed_ == N // 40
    with pytest.raises(EncodingError, match="column 'v': must be in the table of people"):
        fitted(people, weights="v")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: fitted(tables=COUNTIES), ParameterError, "tables: must map the column of blocks"),
        (lambda: fitted(tables={}), ParameterError, "tables: must map the column of blocks"),
        (lambda: fitted(tables={3: COUNTIES}), ParameterError, "tables: must be keyed by the"),
        (lambda: fitted(tables={"county": 3}), ParameterError, "'county' must be a release, a f"),
        (lambda: fitted(AGE), ParameterError, "people: must be a frame, a mapping of columns or"),
        (lambda: fitted(tables={"x": COUNTIES}), EncodingError, "column 'x': must be in the table"),
        (
            lambda: fitted(PEOPLE.assign(day=pd.Timestamp("2020-01-01")), formula="day"),
            EncodingError,
            "column 'day': must hold numbers or categories, got dates; make what matters",
        ),
        (
            lambda: fitted(PEOPLE.assign(day="2020-01-01"), formula="age + day"),
            EncodingError,
            "column 'day': must hold numbers or categories, got dates",
        ),
        (
            lambda: fitted(formula="age + county"),
            EncodingError,
            "column 'county': has 80 different texts; is it an id. If they are categories, write C",
        ),
        (
            lambda: fitted(formula="C(sex, 'x')"),
            EncodingError,
            "the reference must be one of its categories, got 'x' beside 'f', 'm'; correct",
        ),
    ],
)
def test_bad_calls(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_reasons_name_features_and_tables():
    bent = Y + 0.004 * (AGE - 50) ** 2
    decade = np.char.add((AGE // 10).astype(int).astype(str), "0s")
    people = PEOPLE.assign(decade=decade, same=1.0)
    tables = {
        "county": unbin.aggregate(bent, COUNTY, bins=6),
        "decade": unbin.aggregate(bent, decade, bins=6),
    }
    with pytest.warns(UserWarning, match="not estimable: 1 of 2 features are the same for every"):
        model = fitted(people, tables, "age + same")
    reasons = " ".join(model.diagnostics_.reasons)
    assert "(same), and the intercept takes up their effect" in reasons
    (fit,) = model._fits
    numbered = replace(fit.diagnostics, reasons=("blocks of table 2 differ", "of feature 0 is"))
    named = with_names(replace(fit, diagnostics=numbered), ["age", "same"])
    assert named.diagnostics.reasons == ("blocks of decade differ", "of age is")
    # effects of decades have no root where that of age is so far from what it is said to be
    with pytest.warns(ConvergenceWarning, match=r"solved.*Also: the tables differ from the model"):
        ordinal = fitted(people, tables, "age", family="ordinal").diagnostics_.reasons
    assert ordinal
    assert "family='ordinal'" not in " ".join(ordinal)


# -- tables of categories --------------------------------------------------------------------------


def test_tables_of_categories_give_the_classifier():
    """By a formula or by hand the fit is the same, and the levels are those of the formula."""
    people = voters()
    table = published(people)
    model = unbin.glm("C(race, 'white') + age", people, {"precinct": table}, random=["race"])
    assert isinstance(model, unbin.AggregatedClassifier)
    assert model.encoding_.formula.text == "C(race, 'white') + age"
    again = unbin.AggregatedClassifier(random=["race"]).fit(
        people, {"precinct": table}, features=["race", "age"]
    )
    new = people[["race", "age"]].head(9)
    np.testing.assert_allclose(model.predict_proba(new), again.predict_proba(new), atol=1e-3)
    both = [each.group_table("race").set_index(["race", "category"]) for each in (model, again)]
    np.testing.assert_allclose(both[0]["share"], both[1].loc[both[0].index, "share"], atol=1e-3)


def test_a_second_fit_forgets_the_formula():
    people = voters(n_precincts=20)
    model = unbin.glm("race", people, {"precinct": published(people)}, family="multinomial")
    model.fit(people[["age"]].to_numpy(), published(people).align(people["precinct"]))
    assert not hasattr(model, "encoding_")


def test_known_categories_beside_tables():
    people = voters(n_precincts=20)
    people["known"] = people["vote"].where(np.arange(len(people)) % 10 == 0)
    model = unbin.glm("race", people, {"precinct": published(people)}, observed="known")
    assert model.classes_.tolist() == ["dem", "non", "rep"]


def test_what_categories_and_numbers_refuse():
    people = voters(n_precincts=20)
    table, numbers = published(people), unbin.aggregate(people["age"], people["precinct"])
    with pytest.raises(ParameterError, match="offset: is for outcomes that are numbers, got 'age'"):
        unbin.glm("race", people, {"precinct": table}, offset="age")
    with pytest.raises(CategoryError, match=r"fit it with unbin\.AggregatedClassifier"):
        unbin.glm("race", people, {"precinct": table}, family="poisson")
    with pytest.raises(CategoryError, match="must be tables of categories, got numbers"):
        unbin.glm("race", people, {"precinct": numbers}, family="multinomial")
    with pytest.raises(ParameterError, match=r"'multinomial' is for categories.*AggregatedClassif"):
        unbin.AggregatedGLM("multinomial").fit(people[["age"]], numbers.align(people["precinct"]))
