"""Published cells as intervals of counts."""

# ruff: noqa: E501

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbin.exceptions import CountError, ParameterError, ReleaseError
from unbin.release.readers.cells import SCHEMES, Cell, add_cells, find_scheme, parse_cell
from unbin.release.readers.numbers import parse_edge, parse_number

INF = float("inf")
CELLS = [
    ("none", "1,204", 1204, 1204),
    ("none", "12.0", 12, 12),
    ("none", "1 204", 1204, 1204),
    ("none", "1e3", 1000, 1000),
    ("none", "<5", 0, 4),
    ("none", "≤ 10", 0, 10),
    ("none", "<11", 0, 10),
    ("none", "<0", 0, 0),
    ("cms", "*", 1, 10),
    ("cms", "#", 1, None),
    ("cms", "", 0, None),
    ("cms", "0", 0, 0),
    ("cms", "11", 11, 11),
    ("cdc-wonder", "Suppressed", 0, 9),
    ("cdc-wonder", "SUPPRESSED", 0, 9),
    ("cdc-wonder", "10", 10, 10),
    ("nhs", "*", 1, 7),
    ("nhs", "0", 0, 0),
    ("nhs", "10", 8, 12),
    ("nhs", "5", 3, 7),
    ("nhs", "1,205", 1203, 1207),
    ("hhs", "-999999", 1, 3),
    ("hhs", "-999,999", 1, 3),
    ("hhs", "4", 4, 4),
    ("acs", "-", 0, None),
    ("acs", "N", 0, None),
    ("acs", "(X)", 0, None),
    ("acs", "**", 0, None),
    ("acs", "*****", 0, None),
    ("acs", "2,500-", 0, 2500),
    ("acs", "250,000+", 250_000, None),
    ("acs", "-666666666", 0, None),
    ("acs", "1,234", 1234, 1234),
]


@pytest.mark.parametrize(("scheme", "text", "low", "high"), CELLS)
def test_cells(scheme, text, low, high):
    cell = parse_cell(text, SCHEMES[scheme])
    assert (cell.low, cell.high) == (low, high)


def test_what_is_hidden():
    assert parse_cell("*", SCHEMES["nhs"]).hidden
    assert not parse_cell("10", SCHEMES["nhs"]).hidden
    assert not parse_cell("10", SCHEMES["cms"]).hidden
    assert parse_cell("10", SCHEMES["cms"]).exact


BAD = [
    ("none", "*", CountError, r"must be a count, got '\*'; if it hides one, say suppression='cms' or 'nhs', or a mapping"),
    ("none", "-999999", CountError, "must be a count, got '-999999'; if it hides one, say suppression='hhs'"),
    ("none", "x", ReleaseError, "must be a number, got 'x'; correct the cell"),
    ("none", "", ReleaseError, "must be a number, got ''; correct the cell"),
    ("none", "1,5", ReleaseError, "must be a number, got '1,5'; write decimals with a point"),
    ("none", "=cmd()", ReleaseError, r"must be a number, got '=cmd\(\)'; save the table with values"),
    ("none", "-3", ReleaseError, "a count must not be negative, got '-3'; correct it, or name"),
    ("none", "2.5", ReleaseError, "a count must be a whole number, got '2.5'; correct it"),
    ("none", "1e16", ReleaseError, "a count is too large, got '1e16'; correct it"),
    ("none", "1e999", ReleaseError, "must be a finite number, got '1e999'; correct the cell"),
    ("none", "5+", ReleaseError, r"must be a number, got '5\+'"),
    ("nhs", "13", CountError, "counts are rounded \\(nearest-5\\) here, got '13'; say rounding='none'"),
]  # fmt: skip


@pytest.mark.parametrize(("scheme", "text", "error", "message"), BAD)
def test_bad_cells(scheme, text, error, message):
    with pytest.raises(error, match=message):
        parse_cell(text, SCHEMES[scheme])


@given(st.integers(0, 10**6), st.sampled_from([2, 3, 5, 10, 100]))
def test_a_rounded_count_holds_the_truth(count, base):
    scheme = find_scheme(None, f"nearest-{base}", "none")
    shown = base * int(count / base + 0.5)
    cell = parse_cell(f"{shown:,}", scheme)
    assert cell.low <= count <= cell.high


def test_schemes_by_name_and_by_hand():
    assert find_scheme(None, None, "cms") is SCHEMES["cms"]
    assert find_scheme("hhs", None, "cms") is SCHEMES["hhs"]
    assert find_scheme(None, "none", "nhs").rounding == ""
    by_hand = find_scheme({"C": (1, 4), "?": (0, None)}, "nearest-3", "cms")
    assert parse_cell("c", by_hand) == Cell(1, 4, hidden=True)
    assert parse_cell("9", by_hand) == Cell(8, 10)
    assert parse_cell("0", by_hand) == Cell(0, 1)
    assert parse_cell("9", find_scheme(None, "random-3", "none")) == Cell(7, 11)
    assert parse_cell("10", find_scheme(None, "down-10", "none")) == Cell(10, 19)
    with pytest.raises(
        ParameterError, match=r"rounding: the table holds counts, got 'nearest-0.1%'"
    ):
        find_scheme(None, "nearest-0.1%", "none")
    assert parse_cell("?", by_hand).high is None


@pytest.mark.parametrize("value", ["cmss", 3, ["*"]])
def test_unknown_scheme(value):
    with pytest.raises(
        ParameterError, match=r"suppression: unknown, got .*; use one of 'none', 'a"
    ):
        find_scheme(value, None, "cms")


@pytest.mark.parametrize("value", [5, (1,), (3, 1), (-1, 4), ("a", "b"), None, (0, 10**16)])
def test_bad_bounds(value):
    with pytest.raises(ParameterError, match=r"suppression: '\*' must stand for \(least, most\)"):
        find_scheme({"*": value}, None, "cms")


def test_add_cells():
    assert add_cells([Cell(1, 2), Cell(3, 3)]) == Cell(4, 5)
    assert add_cells([Cell(1, None, hidden=True), Cell(3, 3)]) == Cell(4, None, hidden=True)


def test_edges():
    assert parse_edge("", side=-1) == -INF
    assert parse_edge("", side=1) == INF
    assert parse_edge("-Inf", side=1) == -INF
    assert parse_edge("∞", side=1) == INF
    assert parse_edge("$1,000", side=1) == 1000
    assert parse_number("−1.5") == -1.5
    with pytest.raises(ReleaseError, match="an edge is too large, got '1e301'; say inf"):
        parse_edge("1e301", side=1)
    for text in ("nan", "NA", "1_000", "0x10", "٣", ".", "-", "e5"):
        with pytest.raises(ReleaseError, match="must be a number, got"):
            parse_edge(text, side=1)
