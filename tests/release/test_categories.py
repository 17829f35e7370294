"""Tables of categories, from columns to targets."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression

import unbin
from unbin import Release
from unbin.exceptions import (
    AggregatedTargetError,
    AlignmentError,
    AlignmentWarning,
    CategoryError,
    CountError,
    ParameterError,
    ReleaseError,
    UnbinError,
)
from unbin.fitting.checkpoint import fingerprint

VOTES = {
    "block": ["A", "A", "B", "C"],
    "category": ["rep", "dem", "dem", "oth"],
    "count": [5, 7, 9, 4],
}


def cells(release: Release) -> dict[tuple[str, str], int]:
    columns = release.to_columns()["categories"]
    pairs = zip(columns["block"], columns["category"], strict=True)
    return dict(zip(((str(b), str(c)) for b, c in pairs), columns["count"].tolist(), strict=True))


# -- from columns ----------------------------------------------------------------------------------


def test_every_category_is_a_value() -> None:
    release = Release.from_categories(VOTES)
    assert release.categories == ("dem", "oth", "rep")
    table = release.histogram
    np.testing.assert_array_equal(table.lower, [0, 1, 2] * 3)
    np.testing.assert_array_equal(table.upper, table.lower)
    np.testing.assert_array_equal(table.count, [7, 0, 5, 9, 0, 0, 0, 4, 0])
    np.testing.assert_array_equal(release.n, [12, 9, 4])


def test_structural_absence_has_no_bin() -> None:
    release = Release.from_categories(VOTES, absent="structural")
    assert cells(release) == {
        ("A", "dem"): 7, ("A", "rep"): 5, ("B", "dem"): 9, ("C", "oth"): 4,
    }  # fmt: skip
    assert "3 categories: dem, oth, rep, fewer in 3 blocks" in repr(release)


def test_order_is_the_one_asked_for() -> None:
    names = ["rep", "green", "dem", "oth"]
    release = Release.from_categories(VOTES, categories=names)
    assert release.categories == tuple(names)
    np.testing.assert_array_equal(release.histogram.count[:4], [5, 0, 7, 0])
    assert cells(release).items() >= cells(Release.from_categories(VOTES)).items()


def test_row_order_does_not_matter() -> None:
    shuffled = {name: values[::-1] for name, values in VOTES.items()}
    assert cells(Release.from_categories(shuffled)) == cells(Release.from_categories(VOTES))


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame])
def test_frames(make: Any) -> None:
    assert cells(Release.from_categories(make(VOTES))) == cells(Release.from_categories(VOTES))


def test_pandas_categorical_and_whole_numbers_are_names() -> None:
    frame = pd.DataFrame(VOTES).astype({"category": "category"})
    assert Release.from_categories(frame).categories == ("dem", "oth", "rep")
    coded = {**VOTES, "category": [2, 1, 1, 3]}
    assert Release.from_categories(coded).categories == ("1", "2", "3")


def test_rest_is_what_the_others_leave() -> None:
    votes = {**VOTES, "n": [20, 20, 10, 4]}
    release = Release.from_categories(votes, n="n", rest="none")
    assert release.categories == ("dem", "oth", "rep", "none")
    np.testing.assert_array_equal(release.n, [20, 10, 4])
    assert [cells(release)[b, "none"] for b in "ABC"] == [8, 1, 0]
    assert release.histogram.count_low is None


def test_rest_where_the_user_wants_it() -> None:
    votes = {**VOTES, "n": [20, 20, 10, 4]}
    names = ["none", "dem", "rep", "oth"]
    release = Release.from_categories(votes, n="n", rest="none", categories=names)
    assert release.categories == tuple(names)
    np.testing.assert_array_equal(release.histogram.count[:4], [8, 7, 5, 0])


def test_rest_of_structural_absence() -> None:
    votes = {**VOTES, "n": [20, 20, 10, 4]}
    release = Release.from_categories(votes, n="n", rest="none", absent="structural")
    assert cells(release) == {
        ("A", "dem"): 7, ("A", "rep"): 5, ("A", "none"): 8, ("B", "dem"): 9, ("B", "none"): 1,
        ("C", "oth"): 4, ("C", "none"): 0,
    }  # fmt: skip


def test_rest_of_hidden_counts_is_an_interval() -> None:
    votes = {
        "block": ["A", "A"], "category": ["dem", "rep"], "count": [7, None], "low": [None, 1],
        "high": [None, 4], "n": [20, 20],
    }  # fmt: skip
    release = Release.from_categories(votes, count_low="low", count_high="high", n="n", rest="-")
    low, high = release.histogram.interval()
    np.testing.assert_array_equal(low, [7, 1, 9])
    np.testing.assert_array_equal(high, [7, 4, 12])


def test_rest_of_rounded_counts_is_an_interval() -> None:
    votes = {"block": ["A", "A"], "category": ["dem", "rep"], "count": [5, 10], "n": [20, 20]}
    release = Release.from_categories(votes, n="n", rest="-", rounding="nearest-5")
    low, high = release.histogram.interval()
    np.testing.assert_array_equal(low, [3, 8, 1])
    np.testing.assert_array_equal(high, [7, 12, 9])


def test_rest_of_percentages() -> None:
    votes = {"block": ["A", "A"], "category": ["dem", "rep"], "share": [40, 25], "n": [20, 20]}
    release = Release.from_categories(votes, percent="share", n="n", rest="-")
    np.testing.assert_array_equal(release.histogram.count, [8, 5, 7])


def test_counts_are_read_as_those_of_bins() -> None:
    noisy = Release.from_categories({**VOTES, "count": [5.5, -1.0, 9.0, 4.0]}, noise_sd=2.0)
    assert noisy.noise_sd == 2.0
    np.testing.assert_array_equal(noisy.histogram.count[:3], [-1.0, 0.0, 5.5])
    errors = Release.from_categories({**VOTES, "se": [1.0, 2.0, 3.0, 4.0]}, count_se="se")
    assert errors.histogram.count_se is not None
    np.testing.assert_array_equal(errors.histogram.count_se[:3], [2.0, np.nan, 1.0])
    crossed = {"a": ["x", "x"], "b": ["1", "2"], "category": ["u", "v"], "count": [1, 2]}
    assert list(Release.from_categories(crossed, block=["a", "b"]).blocks) == ["x | 1", "x | 2"]
    assert list(Release.from_categories(crossed, block=None).n) == [3]


@pytest.mark.parametrize(
    ("change", "settings", "error", "message"),
    [
        ({"category": ["a", None, "b", "c"]}, {}, CategoryError,
         "column 'category': every row needs a category, got 1 missing, the first in row 1; fill"),
        ({"category": ["a", "", "b", "c"]}, {}, CategoryError, "got 1 missing, the first in row 1"),
        ({"category": ["dem", "dem", "dem", "oth"]}, {}, CategoryError,
         "block 'A': every category must be listed once, got 'dem' 2 times; add the counts"),
        ({"category": ["a", "b", 1.5, "c"]}, {}, CategoryError,
         "column 'category': categories must be text or whole numbers, got float, str; convert"),
        ({"category": ["a"]}, {}, ReleaseError,
         "column 'category': must be as long as the block ids, got 1 names for 4 rows; pass"),
        ({}, {"categories": ["dem", "rep"]}, CategoryError,
         "column 'category': must hold the categories asked for, got 'oth' beside 'dem', 'rep'; "
         r"add it to categories=..., or drop"),
        ({}, {"categories": ["dem", "rep", "oth", "dem"]}, CategoryError,
         "categories: every one must be named once, got 'dem' twice; drop one"),
        ({}, {"categories": "dem"}, ParameterError, "categories: must be a list of names, got 'd"),
        ({}, {"absent": "none"}, ParameterError, "absent: .*'zero'.*'structural'"),
        ({}, {"rest": "none"}, CountError, "rest: those in no category are the rest .* pass n="),
        ({"n": [20] * 4}, {"n": "n", "rest": "dem"}, CategoryError,
         "rest: must be no category of the table, got 'dem', which has rows; give"),
        ({"n": [20] * 4}, {"n": "n", "rest": 3}, ParameterError, "rest: must be the name of a cat"),
        ({"n": [20] * 4}, {"n": "n", "rest": "x", "noise_sd": 1.0}, CountError,
         "rest: noisy counts do not add up to the people, got noise_sd; publish"),
        ({"n": [20] * 4}, {"n": "n"}, CountError,
         "block 'A': the categories must count the people of column 'n', got 12 in the categories "
         "and 20 in the column; correct one of them, or say rest=... with a name for people in"),
        ({"n": [10] * 4}, {"n": "n", "rest": "x"}, CountError,
         "block 'A': the categories must count the people of column 'n', got 12 to 22 in"),
        ({"count": [5, -7, 9, 4]}, {}, CountError, "block 'A': the count is negative, got -7 in r"),
    ],
)  # fmt: skip
def test_bad_tables(change: Any, settings: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Release.from_categories({**VOTES, **change}, **settings)


def test_filling_in_zeros_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unbin.release.categories.MAX_CELLS", 8)
    with pytest.raises(CategoryError, match="at most 8 cells, got 3 categories of 3 blocks; pass"):
        Release.from_categories(VOTES)
    assert len(Release.from_categories(VOTES, absent="structural").histogram.count) == 4


# -- from people -----------------------------------------------------------------------------------


def labels_of(seed: int = 0, n: int = 60) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.choice(["dem", "non", "rep"], n), rng.choice(["a", "b", "c"], n)


def test_aggregate_counts_labels() -> None:
    labels, blocks = labels_of()
    counted = Counter(zip(blocks.tolist(), labels.tolist(), strict=True))
    for given in (labels, labels.tolist(), pd.Series(labels), pd.Series(labels).astype("category"),
                  pl.Series(labels.tolist()), labels.astype(object)):  # fmt: skip
        release = unbin.aggregate(given, blocks)
        assert {key: count for key, count in cells(release).items() if count} == counted
        assert release.categories == ("dem", "non", "rep")


def test_aggregate_takes_an_order_and_weights() -> None:
    labels, blocks = labels_of()
    names = ["rep", "green", "non", "dem"]
    release = unbin.aggregate(labels, blocks, weights=np.full(60, 3.0), categories=names)
    assert release.categories == tuple(names)
    tripled = unbin.aggregate(np.repeat(labels, 3), np.repeat(blocks, 3))
    assert {k: v for k, v in cells(release).items() if k[1] != "green"} == cells(tripled)


def test_numbers_are_categories_when_asked() -> None:
    release = unbin.aggregate([3, 1, 1, 20], ["a", "a", "b", "b"], bins="categories")
    assert release.categories == ("1", "20", "3")
    assert cells(release)["b", "20"] == 1
    assert not unbin.aggregate([3, 1, 1, 20], ["a", "a", "b", "b"]).categories
    assert not unbin.aggregate(np.array([True, False]), ["a", "a"]).categories


@pytest.mark.parametrize(
    ("y", "settings", "message"),
    [
        (["a", None], {}, "y: every row needs a category, got 1 missing, the first in row 1; fill"),
        (["a", "b"], {"bins": [0, 1]}, "bins: categories have no edges, got y of 'a' and others"),
        (["a", "b"], {"categories": ["a"]}, "y: must hold the categories asked for, got 'b' besi"),
        ([1.5, 2.0], {"bins": "categories"}, "y: categories must be text or whole numbers, got 1."),
        (
            [["a"], ["b"]],
            {"bins": "categories"},
            "y: must be one-dimensional, got shape",
        ),
    ],
)
def test_bad_labels(y: Any, settings: Any, message: str) -> None:
    with pytest.raises(CategoryError, match=message):
        unbin.aggregate(y, **settings)


@pytest.mark.parametrize("y", [None, {"a": 1}, "words"])
def test_something_that_is_no_list(y: Any) -> None:
    with pytest.raises(ReleaseError, match="y: must be one-dimensional"):
        unbin.aggregate(y)
    with pytest.raises(UnbinError, match="observed: must be one-dimensional"):
        unbin.observed(y)


def test_no_labels() -> None:
    with pytest.raises(ReleaseError, match="y: must hold targets to count, got 0 values"):
        unbin.aggregate(np.array([], dtype=str))


# -- copies keep the names -------------------------------------------------------------------------


def test_every_copy_keeps_the_categories() -> None:
    labels, blocks = labels_of()
    release = unbin.aggregate(labels, blocks)
    names = release.categories
    target = release.align(blocks)
    with pytest.warns(AlignmentWarning, match="1 block of X"):
        dropped = release.align([*blocks, "x"], on_missing="drop")
    with pytest.warns(AlignmentWarning, match="multiplied"):
        scaled = release.align(np.repeat(blocks, 2), scale=True)
    for copy in (
        release.select(["a", "b"]), target.release, dropped.release, scaled.release,
        release.without(np.array([True, False, False])), target[blocks == "a"].release,
    ):  # fmt: skip
        assert copy.categories == names


def test_select_keeps_everything_else() -> None:
    release = Release.from_categories(VOTES, noise_sd=1.0)
    assert release.select(["A"]).noise_sd == 1.0


def test_combine_maps_codes() -> None:
    one = Release.from_categories({"block": ["A"] * 2, "category": ["b", "c"], "count": [1, 2]})
    two = Release.from_categories({"block": ["B"] * 2, "category": ["a", "c"], "count": [3, 4]})
    both = one.combine(two)
    assert both.categories == ("a", "b", "c")
    assert cells(both) == {("A", "b"): 1, ("A", "c"): 2, ("B", "a"): 3, ("B", "c"): 4}


def test_combine_keeps_an_order_of_ones_own() -> None:
    votes = {"block": ["A"] * 2, "category": ["c", "b"], "count": [1, 2]}
    one = Release.from_categories(votes, categories=["c", "b"])
    two = Release.from_categories({"block": ["B"] * 2, "category": ["a", "c"], "count": [3, 4]})
    assert one.combine(two).categories == ("c", "b", "a")
    assert cells(one.combine(two)) == {**cells(one), **cells(two)}


def test_combine_refuses_numbers_beside_categories() -> None:
    numbers = unbin.aggregate([1.0, 2.0], ["x", "x"])
    for one, other in ((numbers, Release.from_categories(VOTES)),) * 2:
        with pytest.raises(CategoryError, match="combine: both releases must hold numbers or both"):
            other.combine(one)
        with pytest.raises(CategoryError, match="got categories 'dem', 'oth', 'rep' in one and nu"):
            one.combine(other)


@pytest.mark.parametrize("spell", ["to_order_statistics", "to_histogram", "to_cumulative"])
def test_categories_have_no_order(spell: str) -> None:
    with pytest.raises(CategoryError, match=f"{spell}: categories have no order, got a table of"):
        getattr(Release.from_categories(VOTES), spell)()


def test_a_checkpoint_knows_the_names() -> None:
    none, one = np.zeros(0), Release.from_categories(VOTES)
    renamed = Release.from_categories({**VOTES, "category": ["rep", "dem", "dem", "other"]})
    digests = [fingerprint([each], none, none, {}) for each in (one, renamed)]
    assert digests[0] != digests[1]


def test_long_lists_are_shortened() -> None:
    names = [f"party {k:02d}" for k in range(12)]
    release = Release.from_categories({"block": ["A"] * 12, "category": names, "count": [1] * 12})
    assert "1 block, 12 categories: party 00, party 01," in repr(release)
    assert "party 07, …" in repr(release)
    assert "party 08" not in repr(release)


def test_totals_that_differ_are_told() -> None:
    release = Release.from_categories(VOTES)
    with pytest.raises(AlignmentError, match="block 'A': the release counts 12 people, X has 1 r"):
        release.align(["A", "B", "C"])


# -- joined tables and people who are known --------------------------------------------------------


def joined() -> tuple[Any, Any, Any]:
    labels, county = labels_of()
    sex = np.random.default_rng(1).choice(["f", "m"], len(labels))
    return labels, county, sex


def test_join_gives_all_tables_one_order() -> None:
    labels, county, sex = joined()
    one = unbin.aggregate(labels, county).align(county)
    two = unbin.aggregate(labels, sex, categories=["rep", "dem", "non"]).align(sex)
    target = unbin.join(one, two)
    assert [table.release.categories for table in target.tables] == [("dem", "non", "rep")] * 2
    assert cells(target.tables[1].release) == cells(two.release)
    assert target.check().ready
    first = unbin.join(two, one)
    assert [table.release.categories for table in first.tables] == [("rep", "dem", "non")] * 2
    assert cells(first.tables[1].release) == cells(one.release)


def test_a_disagreement_names_the_category() -> None:
    labels, county, sex = joined()
    changed = labels.copy()
    changed[np.argmax(labels == "dem")] = "rep"
    one, two = unbin.aggregate(labels, county), unbin.aggregate(changed, sex)
    told = str(unbin.join(one.align(county), two.align(sex)).check())
    number = int((labels == "dem").sum())
    assert f"table 1 counts {number} people in 'dem', table 2 counts {number - 1}" in told


def test_hidden_counts_are_narrowed_by_other_tables() -> None:
    labels, county, sex = joined()
    exact = unbin.aggregate(labels, sex)
    table = unbin.aggregate(labels, county).to_columns()["categories"]
    hidden = (table["block"] == "a") & (table["category"] == "dem")
    truth = int(table["count"][hidden][0])
    table["low"], table["high"] = (np.where(hidden, end, table["count"]) for end in (0, 60))
    other = Release.from_categories(table, count=None, count_low="low", count_high="high")
    target = unbin.join(exact.align(sex), other.align(county))
    assert cells(target.tables[1].release)["a", "dem"] == truth
    assert not target.tables[1].release.histogram.hidden().any()


def test_scale_rakes_categories() -> None:
    labels, county, sex = joined()
    changed = labels.copy()
    changed[:5] = "rep"
    one, two = unbin.aggregate(labels, county), unbin.aggregate(changed, sex)
    with pytest.warns(AlignmentWarning):
        target = unbin.join(one.align(county), two.align(sex), scale=True)
    for name in one.categories:
        counted = [
            sum(count for (_, which), count in cells(table.release).items() if which == name)
            for table in target.tables
        ]
        assert counted[0] == counted[1] == (labels == name).sum()


def test_join_refuses_other_categories_and_numbers() -> None:
    labels, county, sex = joined()
    one = unbin.aggregate(labels, county).align(county)
    more = unbin.aggregate(labels, sex, categories=["dem", "green", "non", "rep"]).align(sex)
    with pytest.raises(CategoryError, match="same categories, got 'green' in table 2 and not in"):
        unbin.join(one, more)
    numbers = unbin.aggregate(np.arange(60.0), sex).align(sex)
    for pair in ((one, numbers), (numbers, one)):
        with pytest.raises(CategoryError, match="join: all tables must hold numbers or all categ"):
            unbin.join(*pair)


@pytest.mark.parametrize("nobody", [None, np.nan, ""])
def test_known_labels_are_taken_out(nobody: Any) -> None:
    labels, county, sex = joined()
    asked = labels.astype(object)
    asked[5:] = nobody
    tables = (
        unbin.aggregate(labels, county, categories=["rep", "non", "dem"]).align(county),
        unbin.aggregate(labels, sex).align(sex),
    )
    target = unbin.join(*tables, unbin.observed(asked))
    others = unbin.aggregate(labels[5:], county[5:])
    assert cells(target.tables[0].release) == cells(others)
    names = np.array(target.tables[0].release.categories)
    known = target.observed
    assert known is not None
    assert known.categories == tuple(names)
    np.testing.assert_array_equal(names[known.values[:5].astype(int)], labels[:5])
    assert np.isnan(known.values[5:]).all()
    led = unbin.join(*tables, unbin.observed(asked), disjoint=True)
    assert led.observed is not None
    assert led.observed.categories == tuple(names)


def test_known_labels_that_do_not_fit() -> None:
    votes = Release.from_categories(VOTES, absent="structural")
    blocks = np.repeat(["A", "B", "C"], [12, 9, 4])
    asked = np.full(25, None, dtype=object)
    for row, label, message in (
        (0, "oth", "block 'A': the outcome 'oth' is known of one of its people, but is not offer"),
        (0, "green", "observed: an outcome must be a category of the tables, got 'green' beside"),
    ):
        given = asked.copy()
        given[row] = label
        with pytest.raises((AlignmentError, CategoryError), match=message):
            unbin.join(votes.align(blocks), unbin.observed(given))
    given = asked.copy()
    given[:6] = "rep"
    with pytest.raises(AlignmentError, match="its category 'rep' counts 5 people, but 6 are know"):
        unbin.join(votes.align(blocks), unbin.observed(given))
    with pytest.raises(CategoryError, match="got numbers beside tables of categories; pass names"):
        unbin.join(votes.align(blocks), unbin.observed([1.0] + [np.nan] * 24))
    numbers = unbin.aggregate(np.arange(25.0), blocks).align(blocks)
    with pytest.raises(CategoryError, match="got categories beside tables of numbers; pass numbe"):
        unbin.join(numbers, unbin.observed(given))
    with pytest.warns(AlignmentWarning, match="no outcome is known"):
        nothing = unbin.observed(asked)
    unknown = unbin.join(votes.align(blocks), nothing)
    assert unknown.observed is not None
    assert not unknown.observed.known.any()


# -- where only numbers can be fitted --------------------------------------------------------------


def test_categories_are_refused_where_numbers_are_fitted() -> None:
    labels, county, sex = joined()
    X = np.random.default_rng(2).normal(size=(60, 2))
    target = unbin.aggregate(labels, county).align(county)
    several = unbin.join(target, unbin.aggregate(labels, sex).align(sex))
    message = "got a table of the categories 'dem', 'non', 'rep'; fit it with unbin.AggregatedClass"
    for family in ("auto", "gaussian", "binomial"):
        for y in (target, several, unbin.observed(labels)):
            with pytest.raises(CategoryError, match=message):
                unbin.AggregatedGLM(family=family).fit(X, y)
    for log in ({"target_transform": "log"}, {"method": "matching"}):
        with pytest.raises(CategoryError, match=message):
            unbin.AggregatedGLM(family="gaussian", **log).fit(X, target)
    with pytest.raises(CategoryError, match=message):
        unbin.AggregatedRegressor(LinearRegression()).fit(X, target)
    frame = pd.DataFrame(X, columns=["u", "v"]).assign(county=county)
    with pytest.raises(CategoryError, match=message):
        unbin.glm("u + v", frame, {"county": unbin.aggregate(labels, county)}, family="gaussian")


def test_a_target_of_categories_has_no_values() -> None:
    labels, county = labels_of()
    with pytest.raises(AggregatedTargetError):
        np.asarray(unbin.aggregate(labels, county).align(county))
