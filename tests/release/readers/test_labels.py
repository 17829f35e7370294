"""Labels of bins in words, and edges without gaps."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbin.exceptions import BinError
from unbin.release.readers.bins import close_gaps
from unbin.release.readers.labels import Label, is_total, is_unknown, parse_label

INF = math.inf

WORDS = [
    ("less than 5", -INF, 5, "-)"),
    ("Less than $10,000", -INF, 10_000, "-)"),
    ("Under 18 years", -INF, 18, "-)"),
    ("fewer than 3", -INF, 3, "-)"),
    ("below 7", -INF, 7, "-)"),
    ("<5", -INF, 5, "-)"),
    ("< 1 year", -INF, 1, "-)"),
    ("< -5", -INF, -5, "-)"),
    ("≤ 4", -INF, 4, "-]"),
    ("<= 4", -INF, 4, "-]"),
    ("5 or fewer", -INF, 5, "-]"),
    ("5 and under", -INF, 5, "-]"),
    ("up to 4", -INF, 4, "-]"),
    ("at most 4", -INF, 4, "-]"),
    ("-5 or less", -INF, -5, "-]"),
    ("75+", 75, INF, "[-"),
    ("75 plus", 75, INF, "[-"),
    ("85+ years", 85, INF, "[-"),
    ("85 years and over", 85, INF, "[-"),
    ("65 and over", 65, INF, "[-"),
    ("aged 75 and over", 75, INF, "[-"),
    ("$200,000 or more", 200_000, INF, "[-"),
    ("60 or more minutes", 60, INF, "[-"),
    ("7-or-more person household", 7, INF, "[-"),
    (">=75", 75, INF, "[-"),
    ("≥ -2", -2, INF, "[-"),
    ("at least 3", 3, INF, "[-"),
    ("more than 20", 20, INF, "(-"),
    ("over -3", -3, INF, "(-"),
    ("> 84", 84, INF, "(-"),
    ("5-9", 5, 9, "[]"),
    ("5 – 9", 5, 9, "[]"),
    ("1,000–1,999", 1000, 1999, "[]"),
    ("10 to 14", 10, 14, "[]"),
    ("between 5 and 9", 5, 9, "[]"),
    ("from 5 to 9", 5, 9, "[]"),
    ("65 and 66 years", 65, 66, "[]"),
    ("$10,000 to $14,999", 10_000, 14_999, "[]"),
    ("$50K-$74K", 50_000, 74_000, "[]"),
    ("1.5 million to 2 million", 1.5e6, 2e6, "[]"),
    ("-5 to 5", -5, 5, "[]"),
    ("−10 – −5", -10, -5, "[]"),
    ("-10--5", -10, -5, "[]"),
    ("0.5-0.9", 0.5, 0.9, "[]"),
    ("10% to 20%", 10, 20, "[]"),
    ("5 to under 10", 5, 10, "[)"),
    ("5 and under 10", 5, 10, "[)"),
    ("10 but less than 20", 10, 20, "[)"),
    ("[5, 10)", 5, 10, "[)"),
    ("[1,000, 2,000)", 1000, 2000, "[)"),
    ("over 10 to 20", 10, 20, "(]"),
    ("> 10 - <= 20", 10, 20, "(]"),
    ("(5,10]", 5, 10, "(]"),
    ("(-inf, 3)", -INF, 3, "()"),
    ("0", 0, 0, "[]"),
    ("2-person household", 2, 2, "[]"),
    ("5-9-year-old", 5, 9, "[]"),
    ("$0", 0, 0, "[]"),
    ("20 years", 20, 20, "[]"),
    ("-5", -5, -5, "[]"),
    ("No bedroom", 0, 0, "[]"),
    ("1 bedroom", 1, 1, "[]"),
    ("5 or more bedrooms", 5, INF, "[-"),
    ("No vehicle available", 0, 0, "[]"),
    ("4 or more vehicles available", 4, INF, "[-"),
    ("No more than 4", -INF, 4, "-]"),
    ("Built 2010 to 2019", 2010, 2019, "[]"),
    ("Built 2020 or later", 2020, INF, "[-"),
    ("Built 1939 or earlier", -INF, 1939, "-]"),
    ("Moved in 1989 or earlier", -INF, 1989, "-]"),
    ("Under .50", -INF, 0.5, "-)"),
    (".50 to .99", 0.5, 0.99, "[]"),
    ("2.00 and over", 2, INF, "[-"),
    ("0.50 or less occupants per room", -INF, 0.5, "-]"),
    ("1.01 to 1.50 occupants per room", 1.01, 1.5, "[]"),
    ("500 - 999 grams", 500, 999, "[]"),
    ("499 grams or less", -INF, 499, "-]"),
    ("0_4", 0, 4, "[]"),
    ("under 1 year", -INF, 1, "-)"),
    ("$2,000 or more", 2000, INF, "[-"),
    ("10.0 to 14.9 percent", 10, 14.9, "[]"),
]


@pytest.mark.parametrize(("text", "lower", "upper", "ends"), WORDS, ids=[w[0] for w in WORDS])
def test_words(text, lower, upper, ends):
    label = parse_label(text)
    assert (label.lower, label.upper) == (lower, upper)
    if ends[0] != "-":
        assert label.lower_in == (ends[0] == "[")
    if ends[1] != "-":
        assert label.upper_in == (ends[1] == "]")
    assert parse_label(text.upper()) == label
    assert parse_label(f"  {text} ") == label


BAD = ["", "total", "a-b", "5-", "5--", "--5", "5-9-10", "5 5", "<", "1,00", "<5+", "5+ 6", "1e5"]
BAD += ["=5", "5 > 9", "[5", "[5, 10", "5,6", "٣-٥", "x" * 201, "5 to to to 9", "+", "- -"]
BAD += ["No", "No cash rent", "no 5", "Built", "occupants per room", ".", "..5", "_", "5_", "4_5_6"]
BAD += ["With cash rent"]


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_label(text):
    with pytest.raises(BinError, match=r"a label must name its values, got '.*'; write it like"):
        parse_label(text)


def test_backwards():
    with pytest.raises(BinError, match="a label must run from low to high, got '9 to 5'; correct"):
        parse_label("9 to 5")


def test_totals_and_unknowns():
    assert is_total("Total:")
    assert is_total("All ages")
    assert not is_total("all of 5")
    assert is_unknown("Not Stated")
    assert not is_unknown("0")
    assert is_unknown("Not computed")
    assert is_unknown("No cash rent")
    assert not is_unknown("No bedroom")


# -- gaps ----------------------------------------------------------------------------------------


def closed(*texts, side=None):
    labels = [parse_label(text) for text in texts]
    result = close_gaps(labels, side)
    return [result.edges[label] for label in labels], result.closed


def test_money_touches():
    texts = ("Less than $10,000", "$10,000 to $14,999", "$15,000 to $19,999", "$20,000 or more")
    edges, side = closed(*texts)
    assert side == "left"
    assert edges == [(-INF, 10_000), (10_000, 15_000), (15_000, 20_000), (20_000, INF)]


def test_integers_stay_integers():
    assert closed("0", "1-4", "5-9", "10+") == ([(0, 0), (1, 4), (5, 9), (10, INF)], "both")
    assert closed("<5", "5 to 9", ">9") == ([(-INF, 4), (5, 9), (10, INF)], "both")
    assert closed("≤ 4", "5+") == ([(-INF, 4), (5, INF)], "both")


def test_ages_and_decimals_touch():
    assert closed("< 1 year", "1-4 years", "5+ years") == ([(-INF, 1), (1, 5), (5, INF)], "left")
    assert closed("0.5-0.9", "1.0-1.4") == ([(0.5, 1.0), (1.0, 1.5)], "left")
    assert closed("20 years", "21 years") == ([(20, 21), (21, 22)], "left")
    assert closed(".50 to .99", "1.00 to 1.24") == ([(0.5, 1.0), (1.0, 1.25)], "left")
    assert closed("500 - 999 grams", "1000 - 1499 grams") == ([(500, 1000), (1000, 1500)], "left")
    assert closed("No bedroom", "1 bedroom", "2 or more bedrooms") == (
        [(0, 0), (1, 1), (2, INF)],
        "both",
    )
    assert closed("$50K-$74K", "$75K+") == ([(50_000, 75_000), (75_000, INF)], "left")


def test_printed_ends_that_say_it_all():
    assert closed("<5", "5 to under 9", "9+") == ([(-INF, 5), (5, 9), (9, INF)], "left")
    assert closed("(0, 5]", "(5, 9]", "> 9") == ([(0, 5), (5, 9), (9, INF)], "right")


def test_closed_as_told():
    assert closed("0-10", "10-20", side="left") == ([(0, 10), (10, 21)], "left")
    assert closed("0-10", "10-20", side="right") == ([(-1, 10), (10, 20)], "right")
    assert closed("5-9", "10-14", side="left") == ([(5, 10), (10, 15)], "left")
    assert closed("5-9", "10-14", "15+", side="right") == ([(4, 9), (9, 14), (14, INF)], "right")
    assert closed("$5-$9", "$10-$14", side="both") == ([(5, 9), (10, 14)], "both")
    assert closed("<5", "over 5", side="left") == ([(-INF, 5), (5, INF)], "left")
    assert closed("<5", "5-9", side="right") == ([(-INF, 4), (4, 9)], "right")
    assert closed("<5", "over 5", side="right") == ([(-INF, 5), (5, INF)], "right")
    assert closed("<5", "5", "over 5", side="left") == ([(-INF, 5), (5, 6), (6, INF)], "left")
    assert closed("<5", "5", "over 5", side="right") == ([(-INF, 4), (4, 5), (5, INF)], "right")


def test_what_is_measured_may_be_told():
    labels = [parse_label(text) for text in ("5-9", "10+")]
    told = close_gaps(labels, continuous=True)
    assert told.closed == "left"
    assert [told.edges[label] for label in labels] == [(5, 10), (10, INF)]


def test_shared_ends_need_a_word():
    with pytest.raises(BinError, match=r"labels share the value 10, got .* say closed='left' or"):
        closed("0-10", "10-20")


# -- any label that an agency could print ----------------------------------------------------------

FIRST = ["less than {next:,}", "Under {next}", "<{next}", "≤ {last}", "{last} or fewer", "0-{last}"]
MIDDLE = [
    "{first}-{last}",
    "{first} to {last}",
    "{first:,} – {last:,}",
    "between {first} and {last}",
]
MIDDLE += ["{first} to under {next}", "[{first}, {next})", "{first} and under {next}"]
TOP = ["{first}+", "{first} or more", "{first:,} and over", ">={first}", "more than {before}"]


@st.composite
def tables(draw):
    """Edges of integer bins, and a label for each in a style of its own."""
    cuts = draw(st.lists(st.integers(1, 5000), min_size=2, max_size=8, unique=True))
    cuts = [0, *sorted(cuts), INF]
    labels = []
    for k, (first, following) in enumerate(itertools.pairwise(cuts)):
        if following == INF:
            style = draw(st.sampled_from(TOP))
        elif k == 0:
            style = draw(st.sampled_from(FIRST))
        elif following == first + 1:
            style = draw(st.sampled_from([*MIDDLE, "{first}"]))
        else:
            style = draw(st.sampled_from(MIDDLE))
        last = following - 1
        labels.append(style.format(first=first, next=following, last=last, before=first - 1))
    suffix = draw(st.sampled_from(["", "", " years", " persons"]))
    return cuts, [label if "[" in label else label + suffix for label in labels], suffix


@settings(max_examples=500, deadline=None)
@given(tables(), st.sampled_from([None, "left", "right", "both"]))
def test_integers_come_back(table, side):
    cuts, texts, _ = table
    edges, used = closed(*texts, side=side)
    for (lower, upper), first, following in zip(edges, cuts, cuts[1:], strict=False):
        if used == "both":
            held = lower, upper + 1
        elif used == "left":
            held = lower, upper
        else:
            held = lower + 1, upper + 1
        assert held[1] == following
        assert held[0] == first or (first == 0 and held[0] == -INF)


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 10**6), st.integers(0, 3), st.sampled_from(["$", "€", ""])
)
def test_money_and_decimals_come_back(start, width, decimals, sign):
    scale = 10**decimals
    cuts = [(start + k * (width + 1)) / scale for k in range(4)]
    below = [(start + k * (width + 1) - 1) / scale for k in range(1, 4)]
    texts = [
        f"{sign}{a:,.{decimals}f} to {sign}{b:,.{decimals}f}"
        for a, b in zip(cuts, below, strict=False)
    ]
    edges, side = closed(*texts, side="left")
    assert side == "left"
    for (lower, upper), a, b in zip(edges, cuts, cuts[1:], strict=False):
        assert lower == a
        assert math.isclose(upper, b, abs_tol=1e-9)
        assert upper == round(b, decimals)


@settings(max_examples=1000, deadline=None)
@given(st.text(alphabet="0123456789,.-+<>=≤≥–$% ()[]tounderlesthamkyrs", max_size=30))
def test_any_text_gives_a_label_or_a_complaint(text):
    try:
        label = parse_label(text)
    except BinError as error:
        assert "; " in str(error)  # noqa: PT017
    else:
        assert isinstance(label, Label)
        assert label.lower <= label.upper
        assert label.step > 0
