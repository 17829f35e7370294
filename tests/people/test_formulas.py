"""Formulas: what they mean, what they refuse, and that encodings survive a file."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

from unbin.exceptions import EncodingError, FormulaError
from unbin.people.encoding import Encoding
from unbin.people.formulas import parse_formula

PEOPLE = {
    "age": np.arange(1.0, 21.0),
    "los": np.linspace(1, 3, 20),
    "sex": ["m", "f"] * 10,
    "code": [1, 2, 3, 11] * 5,
    "[bold]": ["<script>", "v0", "=cmd()", "$x$"] * 5,
}
FRAMES = {"mapping": PEOPLE, "pandas": pd.DataFrame(PEOPLE), "polars": pl.DataFrame(PEOPLE)}
FORMULAS = {
    "age + C(sex) + log(los)": ["age", "C(sex)[T.m]", "log(los)"],
    "age * C(sex)": ["age", "C(sex)[T.m]", "age:C(sex)[T.m]"],
    "- 1 + sex + age": ["sex[f]", "sex[m]", "age"],
    "C(code)": ["C(code)[T.2]", "C(code)[T.3]", "C(code)[T.11]"],
    "exp(-los / 2) + sqrt(age + 1)": ["exp(-los / 2)", "sqrt(age + 1)"],
    "center(age) + scale(log(los))": ["center(age)", "scale(log(los))"],
    "poly(los, 2)": ["poly(los, degree=2)[1]", "poly(los, degree=2)[2]"],
    "bs(age, df=4)": [f"bs(age, df=4)[{k}]" for k in range(1, 5)],
    "(age + los):sex": ["age:sex[f]", "age:sex[m]", "los:sex[f]", "los:sex[m]"],
    "I(age**2) + I((los - 1)**3 / 2)": ["I(age ** 2)", "I((los - 1) ** 3 / 2)"],
    "ns(age, 3)": [f"cr(age, df=3)[{k}]" for k in range(1, 4)],
    "cr(los)": [f"cr(los, df=4)[{k}]" for k in range(1, 5)],
    "cut(age, 5, 10)": ["cut(age)[T.(5, 10]]", "cut(age)[T.> 10]"],
    "cut(age, [-1.5, 10])": ["cut(age)[T.(-1.5, 10]]", "cut(age)[T.> 10]"],
    'C(sex, Treatment("m"))': ["C(sex)[T.f]"],
    "C(sex, 'm') * age": ["C(sex)[T.f]", "age", "C(sex)[T.f]:age"],
    "C(code, Treatment(reference=11))": ["C(code)[T.1]", "C(code)[T.2]", "C(code)[T.3]"],
    "`[bold]`": ["`[bold]`[T.<script>]", "`[bold]`[T.=cmd()]", "`[bold]`[T.v0]"],
}


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("kind", FRAMES)
def test_columns_are_named_and_survive_json(formula, kind):
    encoding, X = Encoding.build(formula, FRAMES[kind])
    assert list(encoding.names) == FORMULAS[formula]
    assert X.shape == (20, len(encoding.names))
    again = Encoding.from_json(json.loads(json.dumps(encoding.to_json(), allow_nan=False)))
    assert again == encoding
    few = {name: np.asarray(values)[4:6] for name, values in PEOPLE.items()}
    np.testing.assert_array_equal(again.encode(few), X[4:6])


def test_values_are_those_of_the_formula():
    _, X = Encoding.build("age + C(sex) + log(los + 1) * code", PEOPLE)
    log, code = np.log(PEOPLE["los"] + 1), np.array(PEOPLE["code"])
    male = np.array(PEOPLE["sex"]) == "m"
    np.testing.assert_allclose(X, np.column_stack([PEOPLE["age"], male, log, code, log * code]))


def test_a_fit_without_intercept_is_noted():
    assert parse_formula("age").intercept
    assert parse_formula("1 + age").intercept
    for text in ("age - 1", "-1 + age", "0 + age", "~ age + 0"):
        assert not parse_formula(text).intercept


CODE = [
    "{open('ran', 'w')}",
    "{__import__('os').system('touch ran')}",
    "__import__('os').system('touch ran')",
    "age + __import__",
    "open('ran', 'w')",
    "eval(age)",
    "exec(age)",
    "getattr(age, sex)",
    "age.__class__",
    "age.__class__.__mro__",
    "np.log(age)",
    "np.fromfile('ran')",
    "age[0]",
    "log(age)[0]",
    "log(age.real)",
    "log(open)(age)",
    "log((age, los))",
    "I(`age`**`los`)",
    "Q('age')",
    "C(age, contr.sum)",
    "C(age, levels=[1])",
    "C(log(age))",
    "bs(age, knots=[1])",
    "bs(age, df=los)",
    "poly(age, raw=1)",
    "center(age, _state={})",
    "lag(age)",
    "hashed(age)",
    "'age'",
    '"age"',
    "log('age')",
    "age if sex else los",
    "lambda: age",
    "[age for age in sex]",
    "age := 1",
    "age ** 9",
    "log(9 ** 9 ** 9)",
    "age; los",
    "age | los",
    "age ^ 2",
    "age % 2",
    "age @ los",
    "age\\los",
    "age # los",
    "age\x00",
    ".",
    "...",
    "age == los",
    "log(x=age)",
    "log(*age)",
    "f'{age}'",
    "age ~ los",
    "`age` `los`",
    "`age",
    "log(1)",
    "log(1e999 + age)",
    "ｅval(age)",
]


@pytest.mark.parametrize("formula", CODE)
def test_code_is_refused_before_it_is_evaluated(formula, monkeypatch, tmp_path):
    def fail(*args, **kwargs):
        raise AssertionError("the formula was evaluated")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("formulaic.ModelSpec.from_spec", fail)
    with pytest.raises((FormulaError, EncodingError)):  # "lambda" may be the name of a column
        Encoding.build(formula, PEOPLE)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name", ["__import__('os').system('touch ran')", "{open('ran', 'w')}", "a.b", "eval", "log"]
)
def test_a_column_may_have_any_name_and_stays_a_column(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    encoding, X = Encoding.build(f"`{name}`", {name: [1.0, 2.0]})
    np.testing.assert_array_equal(X, [[1.0], [2.0]])
    assert name in encoding.names[0]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("age + + los", "formula, position 7: got '+', which stands where a column should"),
        (
            "eval(age)",
            "got 'eval', which is no function of formulas; use one of C, I, cut, log, exp",
        ),
        ("age - los", "position 7: got 'los', which cannot be taken away; only - 1 can"),
        ("age.x", "position 4: got '.', which is not part of formulas; use columns"),
        ("y ~ age", "got '~', which has no place here: the outcome is the release"),
        ("age los", "got 'los', which does not belong there; put"),
        ("", "formula, position 1: got the end, which stands where a column should"),
        ("1", "formula: must name a column, got none; write for example 'age'"),
        ("2 + age", "got '2', which is no term; numbers go inside functions"),
        ("__dict__", "looks like Python's own; put a column of that name in backticks"),
        ("log(C(sex))", "got 'C', which gives several columns"),
        ("log(2)", "got 'log', which is called on numbers alone; name a column"),
        ("log(1e999 * age)", "got '1e999', which is too large a number"),
        ("log(age", "got the end, which stands where ')' should"),
        ("bs(age, df=99)", "got '99', which must be a whole number from 1 to 50"),
        ("bs(age, knots=3)", "got 'knots', which is no option of bs, or is there twice"),
        ("(" * 30 + "age" + ")" * 30, "is nested more than 20 deep; simplify it"),
        ("*".join("abcdefghijk"), "comes after more than 500 terms; use fewer"),
        ("a" * 20_000, "formula: must have at most 10,000 characters, got 20,000; shorten it"),
        (None, "formula: must be text, got NoneType; pass 'age'"),
    ],
)
def test_messages_of_formulas(formula, message):
    with pytest.raises(FormulaError) as caught:
        parse_formula(formula)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("formula", "people", "message"),
    [
        ("size", PEOPLE, "column 'size': must be in the table of people, got 'age', 'los', 'sex'"),
        (
            "size",
            pd.DataFrame({"a": [1]}),
            "column 'size': must be in the table of people, got 'a'",
        ),
        (
            "a",
            {"a": [1.0, np.nan, np.nan]},
            "column 'a', row 2: must have a",
        ),
        (
            "a",
            {"a": ["x", None]},
            "column 'a', row 2: must have a",
        ),
        ("a", {"a": np.array(["x", ""])}, "column 'a', row 2: must have a"),
        ("log(a)", {"a": [1.0, 0.0]}, "log(a), row 2: must be finite, got -inf"),
        ("log(a)", {"a": ["x", "y"]}, "column 'a': functions need numbers, got 'x'; write C(a)"),
        ("a", {"a": ["1", "2", "3x"]}, "column 'a', row 3: must be a number like"),
        (
            "C(a)",
            {"a": np.arange(1001)},
            "column 'a': must have at most 1,000 categories, got",
        ),
        ("C(a)", {"a": ["x", "x"]}, "formula: must give different columns, got none"),
        (
            "a",
            {"a": np.array(["2020-01-01"], dtype="M8[D]")},
            "must hold numbers or categories, got dates",
        ),
        (
            "a",
            {"a": np.array([3, -(2**31), 5], dtype=np.int32)},
            "column 'a': must hold numbers, got -2147483648 1 times, which is R's missing integer",
        ),
        ("bs(a, df=2)", {"a": [1.0, 2.0]}, "formula: cannot be evaluated, got Invalid value for"),
    ],
)
def test_messages_of_people(formula, people, message):
    with pytest.raises(EncodingError) as caught:
        Encoding.build(formula, people)
    assert message in str(caught.value)


def test_new_people_are_held_to_the_fit():
    encoding, _ = Encoding.build("age + C(sex) + bs(los, df=4)", PEOPLE)
    good = {"age": [1.0], "sex": ["m"], "los": [2.0]}
    encoding.encode(good)
    for change, message in [
        (
            {"sex": ["x"]},
            "column 'sex', row 1: category 'x' was not in the fit",
        ),
        ({"age": ["x"]}, "column 'age': must hold numbers as in the fit, got 'x'; convert it"),
        ({"los": [9.0]}, "formula: bs() needs values within the range of the fit, got others"),
        ({"los": [None]}, "column 'los', row 1: must have a value"),
    ]:
        with pytest.raises(EncodingError) as caught:
            encoding.encode(good | change)
        assert message in str(caught.value)


def test_numbers_and_texts_are_the_same_categories():
    encoding, _ = Encoding.build("C(code)", PEOPLE)
    assert encoding.categories == (("1", "2", "3", "11"),)
    for values in ([11, 2], [11.0, 2.0], ["11", "2"]):
        np.testing.assert_array_equal(encoding.encode({"code": values}), [[0, 0, 1], [1, 0, 0]])


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"formula": "{open('ran', 'w')}"}, FormulaError),
        ({"formula": "age + los"}, EncodingError),
        ({"names": [1]}, EncodingError),
        ({"categories": [["a"], 3]}, EncodingError),
        ({"state": []}, EncodingError),
        ({"state": {"center(v0)": {"code": 1}}}, EncodingError),
        ({"state": {"center(v0)": {"center": "1"}}}, EncodingError),
        ({"state": {"center(v0)": {"center": float("nan")}}}, EncodingError),
        ({"more": 1}, EncodingError),
    ],
)
def test_a_damaged_encoding_is_refused(change, error):
    encoding, _ = Encoding.build("center(age)", PEOPLE)
    with pytest.raises(error):
        Encoding.from_json(encoding.to_json() | change)


def test_an_encoding_whose_names_were_changed_is_refused():
    encoding, _ = Encoding.build("age", PEOPLE)
    changed = Encoding.from_json(encoding.to_json() | {"names": ["los"]})
    with pytest.raises(EncodingError, match="must give the columns of the fit, got others"):
        changed.encode(PEOPLE)
