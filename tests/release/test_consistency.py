"""Several tables of the same people: whether they agree, and what each tells about the others."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

import unbin
from tests.helpers.releases import mean_release, rounded, suppressed
from unbin import Release, aggregate, join
from unbin.exceptions import AlignmentError, AlignmentWarning, ParameterError, ReleaseError
from unbin.release.bounds import tighten
from unbin.release.consistency import check_tables, disagreement
from unbin.release.join import Tables
from unbin.release.scaling import Margins, proportional_fit, round_to_margins

INF = float("inf")
EDGES = [-INF, 0.0, 10.0, INF]


def people(seed=0, n=240):
    """Return people in 6 counties of 2 states, their sex, and an outcome."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"county": rng.integers(0, 6, n), "sex": rng.choice(["f", "m"], n)})
    frame["state"] = np.where(frame["county"] < 3, "north", "south")
    frame["y"] = rng.normal(4 + frame["county"], 6).round(2)
    return frame


def table(frame, name, bins=EDGES, change=None):
    """Publish the outcome by a column, changed where asked, and align it."""
    release = aggregate(frame["y"], frame[name], bins)
    return (release if change is None else change(release)).align(frame[name])


def shifted(release, *, block=0, by=1):
    """Move people of one block from the first bin to the second."""
    columns = release.to_columns()["histogram"]
    count = columns["count"].copy()
    first = release.histogram.start[block]
    count[first : first + 2] += [-by, by]
    return Release.from_histogram(columns | {"count": count})


# -- whether they agree ----------------------------------------------------------------------------


def test_tables_of_the_same_people_agree():
    frame = people()
    target = join(*(table(frame, name) for name in ("county", "sex", "state")))
    assert target.check().ready
    assert target.check().sentences() == (
        "county counts all 240 people",
        "sex counts all 240 people",
        "state counts all 240 people",
        "the tables agree",
    )
    assert disagreement(target.published, target.codes) is None


def test_a_disagreement_is_named_with_both_numbers():
    frame = people()
    low = int((frame["y"] <= 0).sum())
    target = join(table(frame, "county"), table(frame, "sex", change=lambda r: shifted(r, by=5)))
    told = f"county counts {low} people up to 0, sex counts {low - 5}"
    assert target.check().sentences()[2:] == (
        "1 disagreement between the tables",
        told,
        "the tables contradict each other",
    )
    assert not target.check().ready
    assert disagreement(target.published) == told


def test_a_block_is_compared_with_the_blocks_that_make_it_up():
    """One county has a person too many below 0, another of the other state one too few."""
    frame = people()
    county = aggregate(frame["y"], frame["county"], EDGES)
    county = shifted(shifted(county, block=0, by=1), block=5, by=-1).align(frame["county"])
    target = join(county, table(frame, "state"), table(frame, "sex"))
    north = int((frame.loc[frame["state"] == "north", "y"] <= 0).sum())
    told = f"in state 'north', county counts {north - 1} people up to 0, state counts {north}"
    assert len(target.check().disagreements) == 2
    assert told in target.check().disagreements
    assert disagreement(target.published) is None  # the totals over everybody agree


def test_only_edges_that_both_have_are_compared():
    frame = people()
    other = table(frame, "sex", [-INF, -5.0, 5.0, INF], lambda r: shifted(r, by=-3))
    assert join(table(frame, "county"), other).check().ready
    other = table(frame, "sex", [-INF, 5.0, 10.0, INF], lambda r: shifted(r, by=3))
    assert join(table(frame, "county"), other).check().ready
    finer = table(frame, "sex", [-INF, -5.0, 0.0, 5.0, 10.0, INF])
    assert join(table(frame, "county"), finer).check().ready
    assert not join(table(frame, "county", change=shifted), finer).check().ready


def test_bins_closed_on_other_sides_are_not_compared():
    frame = people().assign(y=np.repeat([0.0, 3.0], 120))
    left = Release.from_histogram(
        {"block": ["f", "f", "m", "m"], "lower": [-INF, 0.0] * 2, "upper": [0.0, INF] * 2,
         "count": [0, (frame["sex"] == "f").sum(), 0, (frame["sex"] == "m").sum()]},
        closed="left",
    )  # fmt: skip
    assert join(table(frame, "county"), left.align(frame["sex"])).check().ready


def test_suppressed_and_rounded_counts_may_be_what_the_others_say():
    frame = people()
    for change in (rounded, lambda r: suppressed(r, 1, 30)):
        assert join(table(frame, "county", change=change), table(frame, "sex")).check().ready


def test_a_contradiction_beside_suppressed_counts_is_found():
    """First and last bins are hidden: no count up to an edge is known, but the bin between is."""
    frame = people()
    county = aggregate(frame["y"], frame["county"], EDGES)
    columns = county.to_columns()["histogram"]
    count, ends = columns["count"], np.isin(np.arange(len(columns["count"])) % 3, [0, 2])
    columns |= {"low": np.where(ends, 0, np.nan), "high": np.where(ends, 99, np.nan)}
    columns["count"] = np.where(ends, np.nan, count + (np.arange(len(count)) == 1))
    hidden = Release.from_histogram(columns, count_low="low", count_high="high")
    inner = int(((frame["y"] > 0) & (frame["y"] <= 10)).sum())
    with pytest.warns(AlignmentWarning, match="hidden counts were not narrowed"):
        target = join(hidden.align(frame["county"]), table(frame, "sex"))
    told = f"county counts {inner + 1} people in (0, 10], sex counts {inner}"
    assert target.check().disagreements == (told,)


def test_noise_is_allowed_for():
    frame = people()

    def noisy(release, by, noise_sd=5.0):
        columns = release.to_columns()["histogram"]
        count = columns["count"] + by * np.tile([1.0, -1.0, 0.0], 2)
        return Release.from_histogram(columns | {"count": count}, noise_sd=noise_sd)

    county = table(frame, "county")
    # two cells up to 0, each with noise: 4 * 5 * sqrt(2) = 28.3
    assert join(county, table(frame, "sex", change=lambda r: noisy(r, 14.0))).check().ready
    assert not join(county, table(frame, "sex", change=lambda r: noisy(r, 14.3))).check().ready


def test_lists_of_values_are_compared_at_edges():
    frame = people()
    values = Release.from_values({"block": frame["sex"], "value": frame["y"]})
    assert join(table(frame, "county"), values.align(frame["sex"])).check().ready
    other = Release.from_values({"block": frame["sex"], "value": frame["y"] + 1})
    assert not join(table(frame, "county"), other.align(frame["sex"])).check().ready
    by_state = Release.from_values({"block": frame["state"], "value": frame["y"] + 1})
    both = join(values.align(frame["sex"]), by_state.align(frame["state"]))
    assert not both.check().ready


def test_means_are_compared_as_far_as_they_were_rounded():
    frame = people()

    def means(name, digits=15, by=0.0):
        release = mean_release(frame["y"].to_numpy() + by, frame[name].to_numpy())
        columns = release.to_columns()["means"]
        rounded_means = np.round(columns["mean"], digits)
        return Release.from_means(columns | {"mean": rounded_means}).align(frame[name])

    assert join(means("county"), means("sex")).check().ready
    assert join(means("county", 1), means("sex", 0)).check().ready
    target = join(means("county"), means("sex", by=0.01))
    overall = frame["y"].mean()
    assert target.check().disagreements == (
        f"the means of county make a mean of {overall:.6g} of all their people, those of sex "
        f"{overall + 0.01:.6g}",
    )
    assert not join(means("county", 1), means("sex", 1, by=0.2)).check().ready
    assert join(means("county", 1), means("sex", 1, by=0.02)).check().ready


def test_people_outside_a_table_can_be_anywhere():
    frame = people()
    insured = frame["sex"].where(frame["county"] != 2, None).rename("payer")
    inside = insured.notna()
    low = int((frame["y"] <= 0).sum())
    payers = aggregate(frame.loc[inside, "y"], insured[inside], EDGES)
    payer = payers.align(insured, on_missing="drop")
    target = join(table(frame, "county"), payer)
    assert target.check().people == (240, int(inside.sum()))
    assert target.check().sentences()[1] == f"payer counts {inside.sum()} of 240 people"
    assert target.check().ready
    # more people up to 0 among some than among all
    many = shifted(payers, block=0, by=-int(payers.histogram.count[1]))
    many = shifted(many, block=1, by=-int(payers.histogram.count[4]))
    target = join(table(frame, "county"), many.align(insured, on_missing="drop"))
    assert f"county counts {low} people up to 0" in target.check().disagreements[0]


def test_a_release_is_checked_as_it_will_be_aligned():
    release = aggregate(np.arange(4.0), ["f", "f", "m", "x"], EDGES)
    ids = np.array(["f", "f", "m", "y", None], dtype=object)
    found = release.check(ids, on_missing="drop")
    assert found.ready
    assert (found.n_blocks, found.n_rows, found.n_outside) == (2, 5, 1)
    assert (found.without_release, found.without_people) == (("y",), ("x",))
    assert found.sentences()[3] == "1 row of X without a block id: outside the table"
    assert not release.check(ids[:4]).ready
    assert not release.check(ids[3:], on_missing="drop").ready  # nobody is left
    with pytest.raises(ParameterError, match="on_missing"):
        release.check(ids[:4], on_missing="keep")


@pytest.mark.filterwarnings("ignore:align")
def test_tables_of_the_same_some_people_are_compared_on_them():
    """Over everybody the 40 people outside could make up for the difference."""
    frame = people()
    inside = frame["county"] != 2
    tables = []
    for name, by in (("sex", 0), ("county", 2)):
        ids = frame[name].astype(object).where(inside, None)
        release = aggregate(frame.loc[inside, "y"], ids[inside], EDGES)
        tables.append((shifted(release, by=by) if by else release).align(ids, on_missing="drop"))
    low = int((frame.loc[inside, "y"] <= 0).sum())
    assert join(*tables).check().disagreements == (
        f"sex counts {low} people up to 0, county counts {low - 2}",
    )


def test_who_is_not_in_the_hidden_bins_above_is_below():
    """Twelve people, at most five in each bin: at least two are up to 10, whatever was hidden."""
    hidden = Release.from_histogram(
        {"block": ["a"] * 4, "lower": [-INF, 0, 10, 20], "upper": [0, 10, 20, INF], "low": [0] * 4,
         "high": [5] * 4},
        count=None, count_low="low", count_high="high",
    )  # fmt: skip
    counts = {"block": ["b", "b"], "lower": [-INF, 10], "upper": [10, INF]}
    tables = [hidden.align(["a"] * 12)]
    for count in ([2, 10], [1, 11]):
        other = Release.from_histogram(counts | {"count": count}).align(["b"] * 12)
        tables.append(other)
    assert join(tables[0], tables[1]).check().ready
    published = Tables(("age", "sex"), (tables[0].release, tables[2].release))
    assert disagreement(published) == "age counts 2 to 10 people up to 10, sex counts 1"


def test_blocks_that_nearly_make_up_others_are_not_compared():
    """One person of a county of thousands is in the other state."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"county": rng.integers(0, 4, 3000), "y": rng.normal(5, 5, 3000)})
    frame["state"] = frame["county"] // 2
    frame.loc[1, "state"] = 1 - frame.loc[1, "state"]
    frame.loc[1, "y"] = -1.0
    assert join(table(frame, "county"), table(frame, "state")).check().ready


def test_many_tables_are_each_compared_with_the_first():
    frame = people()
    rng = np.random.default_rng(1)
    ids = {f"t{k}": rng.integers(0, 4, 240) for k in range(200)}
    frame = pd.concat([frame, pd.DataFrame(ids)], axis=1)
    tables = [table(frame, name) for name in ids]
    assert join(*tables).check().ready
    tables[137] = table(frame, "t137", change=lambda r: shifted(r, by=2))
    low = int((frame["y"] <= 0).sum())
    found = join(*tables).check().disagreements
    assert f"t0 counts {low} people up to 0, t137 counts {low - 2}" in found
    assert len(found) == 3  # with the first and with both neighbours


# -- what hidden counts can be ---------------------------------------------------------------------


def programs(frame, names, releases, edges=EDGES):
    """Return the least and the most of every count, by linear programs over all tables of cells.

    The unknowns are the people of each cell of all partitions crossed, in each bin.
    """
    cells, code = np.unique(frame[names].astype(str).agg("|".join, axis=1), return_inverse=True)
    size, n_bins = np.bincount(code), len(edges) - 1
    unknown = len(cells) * n_bins
    add_up = np.kron(np.eye(len(cells)), np.ones(n_bins))
    rows, low, high = [], [], []
    for name, release in zip(names, releases, strict=True):
        block = pd.Series(frame[name].astype(str).to_numpy()).groupby(code).first().to_numpy()
        for b, k in itertools.product(release.blocks, range(n_bins)):
            rows.append(np.kron(block == b, np.arange(n_bins) == k).astype(float))
        low.append(release.histogram.interval()[0])
        high.append(release.histogram.interval()[1])
    rows, low, high = np.array(rows), np.concatenate(low), np.concatenate(high)
    ends = [
        [
            sign * linprog(
                sign * row, np.vstack([rows, -rows]), np.concatenate([high, -low]), add_up, size,
                bounds=(0, None),
            ).fun
            for row in rows
        ]
        for sign in (1, -1)
    ]  # fmt: skip
    assert unknown == rows.shape[1]
    return np.round(ends[0], 6), np.round(ends[1], 6)


@pytest.mark.parametrize("seed", range(6))
def test_bounds_are_sure_and_hold_those_of_linear_programs(seed):
    frame = people(seed, n=60)
    names = ["county", "sex", "state"]
    exact = [aggregate(frame["y"], frame[name], EDGES) for name in names]
    hidden = [suppressed(exact[0], 1, 4), suppressed(exact[1], 1, 15), exact[2]]
    if seed % 2:
        hidden[2] = rounded(exact[2])
    aligned = [release.align(frame[name]) for release, name in zip(hidden, names, strict=True)]
    target = join(*aligned)
    published = [table.release for table in aligned]
    least, most = programs(frame, names, published)
    ends = [table.release.histogram.interval() for table in target.tables]
    low, high = (np.concatenate(each) for each in zip(*ends, strict=True))
    before = sum(int(b.histogram.hidden().sum()) for b in published)
    truth = np.concatenate([release.histogram.count for release in exact])
    assert (low <= least).all()
    assert (most <= high).all()
    assert ((low <= truth) & (truth <= high)).all()
    assert (low < high).sum() < before
    for table_, name in zip(target.tables, names, strict=True):
        assert table_.release.histogram.total().tolist() == frame.groupby(name).size().tolist()


def test_a_hidden_county_count_follows_from_its_state():
    """Counties 0 and 3 hide two counts each; those of their states tell them."""
    frame = people()
    exact = aggregate(frame["y"], frame["county"], EDGES)
    columns = exact.to_columns()["histogram"]
    where = np.isin(np.arange(18), [0, 1, 9, 10])
    columns |= {
        "count": np.where(where, np.nan, columns["count"]),
        "low": np.where(where, 0, np.nan),
        "high": np.where(where, 99, np.nan),
    }
    county = Release.from_histogram(columns, count_low="low", count_high="high")
    county = replace(county, public=True).align(frame["county"])
    alone = join(county).tables[0].release.histogram
    assert alone.hidden().sum() == 4
    target = join(county, table(frame, "state"))
    found = target.tables[0].release.histogram
    assert found.count_low is None
    assert found.count.tolist() == exact.histogram.count.tolist()
    # what was worked out is not what everybody has, and reports mask it
    assert not target.tables[0].release.public
    assert join(county).tables[0].release.public
    # over everybody alone, the two counties remain unknown
    without = tighten(target.published.__class__(target.names, tuple(
        t.release for t in (county, table(frame, "state")))))  # fmt: skip
    assert without.releases[0].histogram.hidden().sum() == 4
    low, high = without.releases[0].histogram.interval()
    least, most = programs(frame, ["county", "sex"], [county.release, table(frame, "sex").release])
    assert low.tolist() == least[:18].tolist()
    assert high.tolist() == most[:18].tolist()


def test_bounds_use_lists_and_other_bins():
    frame = people()
    county = table(frame, "county", change=lambda r: suppressed(r, 1, 12))
    values = Release.from_values({"block": frame["state"], "value": frame["y"]})
    finer = table(frame, "state", [-INF, -5.0, 0.0, 5.0, 10.0, 20.0, INF])
    narrow = [
        join(county, other).tables[0].release.histogram.interval()
        for other in (table(frame, "state"), values.align(frame["state"]), finer)
    ]
    for low, high in narrow[1:]:
        assert low.tolist() == narrow[0][0].tolist()
        assert high.tolist() == narrow[0][1].tolist()
    assert (narrow[0][1] < county.release.histogram.interval()[1]).any()


def test_noisy_tables_bound_nothing():
    frame = people()
    county = table(frame, "county", change=lambda r: suppressed(r, 1, 12))
    columns = aggregate(frame["y"], frame["state"], EDGES).to_columns()["histogram"]
    noisy = Release.from_histogram(columns, noise_sd=1.0).align(frame["state"])
    found = join(county, noisy).tables[0].release.histogram
    assert found.interval()[1].tolist() == county.release.histogram.interval()[1].tolist()


def test_exact_tables_are_joined_as_they_are():
    frame = people()
    tables = [table(frame, "county"), table(frame, "sex")]
    assert all(a is b for a, b in zip(join(*tables).tables, tables, strict=True))


def test_tables_that_hide_and_contradict_are_named():
    frame = people()
    county = table(frame, "county", change=lambda r: suppressed(r, 1, 12))
    state = table(frame, "state", change=lambda r: shifted(shifted(r, by=-5), block=1, by=5))
    tables = Tables(("county", "state"), (county.release, state.release))
    with pytest.raises(ReleaseError) as caught:
        tighten(tables, (county.codes, state.codes))
    inner = int(((frame["y"] > 0) & (frame["y"] <= 10) & (frame["state"] == "north")).sum())
    assert str(caught.value) == (
        "tables: must agree where they count the same people, got a contradiction: in state "
        f"'north', county counts {inner} people in (0, 10], state counts {inner - 5}; check that "
        "they are about the same people and the same outcome"
    )
    with pytest.warns(AlignmentWarning, match="join: hidden counts were not narrowed; tables: mus"):
        target = join(county, state)
    assert target.tables[0] is county


def test_a_block_that_cannot_add_up_is_named():
    """Over everybody each bin can be met, and then block a would have four people."""

    def hide(rows, names, ids):
        cells = [(low, high) for each in rows for low, high in each]
        frame = {
            "block": np.repeat(names, 3), "lower": [-INF, 0.0, 10.0] * 2,
            "upper": [0.0, 10.0, INF] * 2, "low": [low for low, _ in cells],
            "high": [high for _, high in cells],
        }  # fmt: skip
        release = Release.from_histogram(frame, count=None, count_low="low", count_high="high")
        return release.align(np.array(ids))

    free, one = (0, 2), (1, 1)
    tables = [
        hide([[free, free, free], [(0, 0), (0, 0), (2, 2)]], ["a", "c"], list("aacc")),
        hide([[one, free, free]] * 2, ["f", "m"], list("fmfm")),
        hide([[free, one, free]] * 2, ["x", "y"], list("xyyx")),
    ]
    published = Tables(("county", "sex", "age"), tuple(each.release for each in tables))
    with pytest.raises(ReleaseError) as caught:
        tighten(published, tuple(each.codes for each in tables))
    assert str(caught.value) == (
        "county, block 'a': must count 2 people, got 4 to 4 once its hidden counts meet the other "
        "tables; check that the tables are about the same people"
    )


# -- raked to the first ----------------------------------------------------------------------------


def test_scale_rakes_the_tables_to_the_first():
    frame = people()
    county = table(frame, "county")
    sex = table(frame, "sex", [-INF, -5.0, 0.0, 10.0, INF], lambda r: shifted(shifted(r), block=1))
    other = table(frame, "state", change=lambda r: shifted(r, by=7))
    with pytest.warns(AlignmentWarning) as caught:
        target = join(county, sex, other, scale=True)
    low = ((frame["y"] <= 0) & (frame["state"] == "north")).sum()
    moved = np.abs(target.tables[2].release.histogram.count - other.release.histogram.count).sum()
    assert moved == 14
    assert [str(w.message) for w in caught] == [
        "join: the counts of state were raked to the bins of county, which moved up to "
        f"{100 * moved / 480:.2g} % of the people; worst: in state 'north', county counts {low} "
        f"people up to 0, state counts {low - 7}"
    ]
    assert target.check().ready
    assert not join(county, sex, other).check().ready
    raked = target.tables[2].release.histogram
    assert raked.total().tolist() == frame.groupby("state").size().tolist()
    assert (raked.count >= 0).all()
    assert target.tables[0].release is county.release
    assert target.tables[1].release is sex.release


def test_scale_keeps_finer_bins_in_proportion_and_widens_intervals():
    frame = people(n=600)
    county = table(frame, "county")
    fine = [-INF, -5.0, 0.0, 5.0, 10.0, 20.0, INF]

    def change(release):
        columns = release.to_columns()["histogram"]
        count = columns["count"].copy()
        count[[0, 1, 3, 4]] += [20, 20, -20, -20]
        return Release.from_histogram(columns | {"count": count})

    with pytest.warns(AlignmentWarning, match="were raked"):
        target = join(county, table(frame, "sex", fine, change), scale=True)
    assert target.check().ready
    with pytest.warns(AlignmentWarning, match="were raked"):
        target = join(
            county, table(frame, "sex", fine, lambda r: suppressed(change(r), 1, 30)), scale=True
        )
    found = target.tables[1].release.histogram
    assert found.hidden().any()
    assert target.check().ready


def test_scale_says_what_it_cannot_rake():
    frame = people()
    sex = aggregate(frame["y"], frame["sex"], EDGES)
    columns = sex.to_columns()["histogram"]
    count = columns["count"].reshape(2, 3)
    moved = np.column_stack([np.zeros(2, int), count[:, 0] + count[:, 1], count[:, 2]]).ravel()
    nobody = Release.from_histogram(columns | {"count": moved}).align(frame["sex"])
    with pytest.raises(AlignmentError) as caught:
        join(table(frame, "county"), nobody, scale=True)
    low = (frame["y"] <= 0).sum()
    assert str(caught.value) == (
        f"join: scale=True cannot make the tables agree, got county counts {low} people up to 0, "
        "sex counts 0, and blocks without anybody there; check that the tables are about the same "
        "people"
    )


def test_proportional_fit_is_the_nearest_table():
    """Known: the table with those sums and the odds ratios of the old one, in each group."""
    counts = np.array([[10.0, 30.0], [20.0, 20.0], [5.0, 7.0]])
    columns = np.array([[32.0, 48.0], [9.0, 3.0]])
    margins = Margins(np.array([30.0, 50.0, 12.0]), columns, np.array([0, 0, 1]))
    found = proportional_fit(counts, margins)
    assert found.sum(axis=1) == pytest.approx([30, 50, 12])
    assert found[:2].sum(axis=0) == pytest.approx([32, 48], abs=1e-3)
    assert found[2] == pytest.approx([9, 3])
    odds = found[0, 0] * found[1, 1] / (found[0, 1] * found[1, 0])
    assert odds == pytest.approx(10 * 20 / (30 * 20), rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_rounding_keeps_both_sums_and_moves_less_than_one(seed):
    rng = np.random.default_rng(seed)
    counts = rng.gamma(1.0, 5.0, (40, 6))
    whole, group = np.rint(counts), np.arange(40) % 3
    columns = np.array([whole[group == g].sum(axis=0) for g in range(3)])
    margins = Margins(whole.sum(axis=1), columns, group)
    real = proportional_fit(counts, margins)
    found = round_to_margins(real, margins)
    assert (found.sum(axis=1) == margins.rows).all()
    assert (margins.sums(found) == columns).all()
    assert (np.abs(found - real) < 1 + 1e-3).all()
    assert (found == np.rint(found)).all()


@pytest.mark.parametrize("order", list(itertools.permutations(["county", "state", "sex"])))
def test_scale_makes_nested_tables_agree_block_by_block(order):
    frame = people()
    tables = [
        table(frame, name, change=lambda r, by=by: shifted(shifted(r, by=by), block=1, by=-4))
        for by, name in zip((0, 3, 5), order, strict=True)
    ]
    assert not join(*tables).check().ready
    with pytest.warns(AlignmentWarning, match="were raked"):
        target = join(*tables, scale=True)
    assert target.check().ready
    for name, each in zip(order, target.tables, strict=True):
        assert each.release.histogram.total().tolist() == frame.groupby(name).size().tolist()


@pytest.mark.filterwarnings("ignore:align")
def test_scale_leaves_tables_of_other_people_and_noisy_ones():
    frame = people()
    some = frame["sex"].where(frame["county"] != 2, None)
    few = aggregate(frame["y"][some.notna()], some[some.notna()], EDGES)
    few = shifted(few, by=-30).align(some, on_missing="drop")
    columns = aggregate(frame["y"] + 5, frame["sex"], EDGES).to_columns()["histogram"]
    noisy = Release.from_histogram(columns, noise_sd=1.0).align(frame["sex"])
    target = join(table(frame, "county"), few, noisy, scale=True)
    assert [t.release for t in target.tables[1:]] == [few.release, noisy.release]


@pytest.mark.filterwarnings("ignore:align")
def test_scale_leaves_blocks_of_which_not_all_people_are_counted():
    """Of the north a county is outside; it contradicts its state, and cannot be raked to it."""
    frame = people()
    ids = frame["county"].astype(object).where(frame["county"] != 2, None)
    inside = ids.notna()
    release = aggregate(frame.loc[inside, "y"], ids[inside], EDGES)
    north = int(release.histogram.count[:6].sum())
    counts = release.histogram.count.copy()
    counts[:6] = [counts[:3].sum(), 0, 0, counts[3:6].sum(), 0, 0]
    release = Release.from_histogram(release.to_columns()["histogram"] | {"count": counts})
    target = join(table(frame, "state"), release.align(ids, on_missing="drop"), scale=True)
    assert f"county counts {north}" in target.check().disagreements[0]
    assert target.tables[1].release.histogram.count.tolist() == counts.tolist()


def test_totals_are_compared_without_rows():
    frame = people()
    tables = [table(frame, "county"), table(frame, "sex", change=lambda r: shifted(r, by=5))]
    published = unbin.join(*tables).published
    assert check_tables(published).disagreements == join(*tables).check().disagreements
