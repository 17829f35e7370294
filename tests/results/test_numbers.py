"""Numbers are as people write them."""

import numpy as np
import pytest

from unbin.results.numbers import amount, column, decimals_for, number, p_value, share, significant


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [(-57541.3, 0, "−57,541"), (1234567.891, 2, "1,234,567.89"), (-0.0001, 2, "0.00"),
     (-0.5, 1, "−0.5"), (np.nan, 2, "–"), (np.inf, 2, "–"), (0, 0, "0"), (-1e-9, 0, "0")],
)  # fmt: skip
def test_a_number(value, decimals, text):
    assert number(value, decimals) == text


@pytest.mark.parametrize(
    ("values", "errors", "texts"),
    [
        # the smallest error shows two digits, and all rows have its decimals
        ([1.956, 0.51163, -0.5146], [0.0297, 0.005628, 0.01473], ["1.9560", "0.5116", "−0.5146"]),
        ([52000.0, 903.2, -57541.3], [900.0, 35.0, 1210.0], ["52,000", "903", "−57,541"]),
        # a slope that is nearly 0 has no more digits than its error
        ([3.1, 0.00002], [0.01, 0.012], ["3.100", "0.000"]),
        # units that differ so much that one would not be seen: it has its own
        ([0.00031234, -57541.3], [0.00001, 1210.0], ["0.000312", "−57,541.3"]),
        ([np.nan, 1.0], [np.nan, 0.2], ["–", "1.00"]),
        # without errors the smallest number shows four
        ([0.606, -8.4], None, ["0.6060", "−8.4000"]),
        ([0.606, -8.4], [np.nan, np.nan], ["0.6060", "−8.4000"]),
        ([0.0, 0.0], None, ["0", "0"]),
    ],
)  # fmt: skip
def test_a_column(values, errors, texts):
    values = np.array(values)
    errors = None if errors is None else np.array(errors)
    assert column(values, decimals_for(values, errors)) == texts


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.0004, "< .001"), (0.001, ".001"), (0.0124, ".012"), (0.44, ".440"), (0.9999, "1.000"),
     (np.nan, "–")],
)  # fmt: skip
def test_a_p_value(p, text):
    assert p_value(p) == text


def test_shares_and_lone_numbers():
    assert [share(x) for x in (0.0, 0.003, 0.005, 0.555, 1.0, np.nan)] == [
        "0 %", "<1 %", "<1 %", "56 %", "100 %", "–",
    ]  # fmt: skip
    assert [significant(x) for x in (0.0, 0.05912, 1.0, 770074332.0, -12.345, np.inf)] == [
        "0", "0.0591", "1.00", "770,000,000", "−12.3", "–",
    ]  # fmt: skip
    assert amount(-12500) == "−12.5k"
