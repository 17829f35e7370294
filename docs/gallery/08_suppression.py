"""
Keep suppressed counts as intervals
===================================

Agencies hide small counts. A hidden count is neither 0 nor missing: it lies between 1 and the
limit, and the totals of the block narrow it further. unbin uses exactly that information. Here the
same table is published with ever higher limits.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import unbin

people = unbin.datasets.simulate(6000, 2, 60, between=0.5, coef=[1.0, -0.5], random_state=6)
table = unbin.aggregate(people.y, people.blocks, bins=8).to_columns()["histogram"]
count, limits = np.asarray(table["count"]), [1, 3, 5, 8, 11]


def fit(release, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a misread table is not trusted, and says so
        model = unbin.AggregatedGLM("gaussian").fit(
            people.X, release.align(people.blocks, **options)
        )
    return model.coef_[0], *model.conf_int()[-2]


kept, zeros = [], []
for limit in limits:
    hidden = (count >= 1) & (count < limit)
    shown = table | {"count": np.where(hidden, np.nan, count)}
    shown |= {"low": np.where(hidden, 1, np.nan), "high": np.where(hidden, limit - 1, np.nan)}
    read = unbin.Release.from_histogram
    kept.append(fit(read(shown, count_low="low", count_high="high")))
    zeros.append(fit(read(table | {"count": np.where(hidden, 0, count)}), scale=True))

fig, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
for shift, found, colour, label in (
    (-0.1, kept, unbin.plots.BLUE, "kept as intervals"),
    (0.1, zeros, unbin.plots.ORANGE, "taken for 0"),
):
    estimate, low, high = np.transpose(found)
    place = np.arange(len(limits)) + shift
    ax.vlines(place, low, high, color=colour)
    ax.plot(place, estimate, "o", color=colour, label=f"hidden counts {label}")
ax.axhline(1, color=unbin.plots.GREY, linewidth=0.8)
share = [np.mean((count >= 1) & (count < limit)) for limit in limits]
ax.set_xticks(range(len(limits)), [f"<{k}\n{s:.0%}" for k, s in zip(limits, share, strict=True)])
ax.set(xlabel="counts that are hidden, and their share of all counts", ylabel="coefficient")
ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)
ax.spines[["top", "right"]].set_visible(False)

# %%
# The grey line is the truth, bars are 95 % intervals. Kept as intervals, hidden counts cost little
# precision here and do not shift the estimate. Taken as 0, they pull it away, with intervals that
# do not show it, and in the end make it useless.
