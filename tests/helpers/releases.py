"""Releases that say something true of people or of another release, and checks against them."""

import numpy as np

from unbin import Release


def quantile_release(y, blocks, quantiles=(0.5,)):
    """Publish quantiles of each block: its median, or those named."""
    names = np.unique(blocks)
    value = [np.quantile(y[blocks == name], quantiles, method="inverted_cdf") for name in names]
    return Release.from_quantiles(
        {
            "block": np.repeat(names, len(quantiles)),
            "quantile": np.tile(quantiles, len(names)),
            "value": np.concatenate(value),
        }
    )


def mean_release(y, blocks):
    """Publish the mean of each block."""
    names, codes = np.unique(blocks, return_inverse=True)
    return Release.from_means({"block": names, "mean": np.bincount(codes, y) / np.bincount(codes)})


def suppressed(release, low=1, high=10):
    """Hide every count from low to high."""
    table = release.to_columns()["histogram"]
    hidden = (table["count"] >= low) & (table["count"] <= high)
    cells = {
        "count": np.where(hidden, np.nan, table["count"]),
        "low": np.where(hidden, low, np.nan),
        "high": np.where(hidden, high, np.nan),
    }
    return Release.from_histogram(table | cells, count_low="low", count_high="high")


def rounded(release):
    """Round every count to the nearest multiple of 5."""
    table = release.to_columns()["histogram"]
    count = 5 * np.rint(table["count"] / 5)
    return Release.from_histogram(table | {"count": count}, rounding="nearest-5")


def assert_fills_bins(z, blocks, release, slack=0.0):
    """Check that as many targets lie in each bin of each block as were counted in it."""
    table = release.histogram
    for b, name in enumerate(release.blocks):
        rows = slice(table.start[b], table.start[b + 1])
        inside, count = np.sort(z[blocks == name]), table.count[rows]
        assert (inside >= np.repeat(table.lower[rows], count) - slack).all()
        assert (inside <= np.repeat(table.upper[rows], count) + slack).all()


def same_release(one, other):
    """Tell whether two releases say the same, whatever they were read from."""
    return one.noise_sd == other.noise_sd and all(
        (a is None) == (b is None)
        and (a is None or np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f"))
        for a, b in zip(_said(one), _said(other), strict=True)
    )


def assert_equal(one, other):
    """See that two releases say the same."""
    assert same_release(one, other), f"{_said(one)}\n{_said(other)}"


def _said(release):
    histogram, order = release.histogram, release.order_statistics
    closed = histogram.closed if len(histogram.count) else ""
    return (
        release.blocks, release.n, histogram.start, histogram.lower, histogram.upper, closed,
        *histogram.interval(), order.start, order.rank, order.quantile, order.value, release.means,
        release.categories,
    )  # fmt: skip
