"""NHS tables: the monthly layout, registrations with practices, waiting times."""

import csv
from collections import Counter, defaultdict

import numpy as np
import pytest

from tests.helpers.paths import FIXTURES, published
from unbin import read_release
from unbin.exceptions import ReadError, ReadWarning

INF = float("inf")
WEEKS = FIXTURES / "nhs_rtt.csv"
MONTHLY = FIXTURES / "nhs_mhsds.csv"
REGISTERED = FIXTURES / "nhs_registrations.csv"


def records(path):
    with open(path, encoding="utf-8-sig", newline="") as stream:
        return list(csv.DictReader(stream))


def counts(release):
    """Return the counts of each block, by its bins."""
    table = release.histogram
    return {
        str(block): {
            (table.lower[k], table.upper[k]): table.count[k]
            for k in range(table.start[b], table.start[b + 1])
        }
        for b, block in enumerate(release.blocks)
    }


def intervals(release, block):
    table = release.histogram
    b = release.blocks.tolist().index(block)
    rows = slice(table.start[b], table.start[b + 1])
    return list(zip(table.count_low[rows].tolist(), table.count_high[rows].tolist(), strict=True))


def changed(path, tmp_path, edit, name="changed.csv"):
    """Write a table again with its records edited."""
    rows = [dict(record) for record in records(path)]
    kept = edit(rows) or rows
    target = tmp_path / name
    with open(target, "w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(kept[0]))
        writer.writeheader()
        writer.writerows(kept)
    return target


# -- waiting times ---------------------------------------------------------------------------------


def waited(rows, block, *, part="Part_2"):
    """Add up weeks: C_999 where a provider and commissioner have it, else the functions."""
    pairs = defaultdict(dict)
    for row in rows:
        if row["RTT Part Type"] == part:
            key = row["Provider Org Code"], row["Commissioner Org Code"]
            pairs[key][row["Treatment Function Code"]] = row
    result = defaultdict(Counter)
    for functions in pairs.values():
        used = [functions["C_999"]] if "C_999" in functions else functions.values()
        for row in used:
            for name, cell in row.items():
                if name.startswith("Gt "):
                    words = name.split()
                    upper = float(words[3]) if words[2] == "To" else INF
                    result[row[block]][float(words[1]), upper] += int(cell or 0)
    return result


@pytest.mark.parametrize("block", ["Provider Org Code", "Commissioner Org Code"])
def test_weeks_are_added_up(block):
    with pytest.warns(ReadWarning, match="people still waiting were read"):
        release = read_release(WEEKS, block=block)
    assert counts(release) == waited(records(WEEKS), block)
    assert release.histogram.closed == "right"
    assert release.public
    assert "6 of 36 rows" in release.source
    assert "12 rows left out: functions that C_999 counts together" in release.notes
    assert any("6 rows added up into" in note for note in release.notes)


def test_a_part_can_be_chosen():
    release = read_release(WEEKS, where={"RTT Part Type": "Part_1A"})
    rows = records(WEEKS)
    assert counts(release) == waited(rows, "Provider Org Code", part="Part_1A")
    lost = sum(
        int(row["Patients with unknown clock start date"])
        for row in rows
        if row["RTT Part Type"] == "Part_1A" and row["Treatment Function Code"] == "C_999"
    )
    assert f"{lost} people left out: clock start not known" in release.notes


def test_a_function_can_be_chosen():
    where = {"RTT Part Type": "Part_2", "Treatment Function Code": "C_110"}
    release = read_release(WEEKS, where=where)
    rows = [row for row in records(WEEKS) if row["Treatment Function Code"] == "C_110"]
    assert counts(release) == waited(rows, "Provider Org Code")


def test_functions_are_added_up_where_their_total_is_not_listed(tmp_path):
    def edit(rows):
        return [
            row
            for row in rows
            if row["RTT Part Type"] == "Part_2"
            and (row["Provider Org Code"], row["Treatment Function Code"]) != ("RA1", "C_999")
        ]

    path = changed(WEEKS, tmp_path, edit)
    release = read_release(path)
    with pytest.warns(ReadWarning):
        assert counts(release) == counts(read_release(WEEKS))
    assert any("functions added up for lack of C_999: 2 pairs" in note for note in release.notes)


@pytest.mark.parametrize("column", ["Total", "Total All"])
def test_weeks_are_held_against_totals(tmp_path, column):
    def edit(rows):
        rows[2][column] = str(int(rows[2][column]) + 1)

    path = changed(WEEKS, tmp_path, edit)
    with pytest.raises(ReadError, match=rf"row 4, column '{column}': must count what the weeks"):
        read_release(path, where={"RTT Part Type": "Part_1A"})


@pytest.mark.parametrize("column", ["Treatment Function Code", "Commissioner Org Code"])
def test_columns_that_tell_rows_apart_are_needed(tmp_path, column):
    def edit(rows):
        for row in rows:
            del row[column]

    with pytest.raises(ReadError, match=f"column '{column}' not found"):
        read_release(changed(WEEKS, tmp_path, edit), where={"RTT Part Type": "Part_2"})


def test_rows_twice_periods_and_parts_are_refused(tmp_path):
    path = changed(WEEKS, tmp_path, lambda rows: rows + rows[-1:])
    with pytest.raises(ReadError, match=r"row 38, .* twice"):
        read_release(path)

    def later(rows):
        rows[-1]["Period"] = "RTT-April-2025"

    with pytest.raises(ReadError, match="column 'Period': one value must be chosen"):
        read_release(changed(WEEKS, tmp_path, later))

    def other(rows):
        for row in rows:
            row["RTT Part Type"] = row["RTT Part Type"].replace("Part_2", "Part_1B")

    with pytest.raises(ReadError, match="column 'RTT Part Type': one value must be chosen"):
        read_release(changed(WEEKS, tmp_path, other))


@pytest.mark.parametrize("block", ["Provider Org Code", "Commissioner Org Code"])
def test_waiting_times_as_published(block):
    path = published("nhs_rtt_excerpt.csv")
    release = read_release(path, block=block)
    assert counts(release) == waited(records(path), block)
    assert len(release.histogram.count) == 105 * len(release.blocks)
    # the excerpt is cut: functions are missing, and one total
    assert any("does not count what the functions listed count" in note for note in release.notes)
    assert any("1 pair of a provider and a commissioner" in note for note in release.notes)


# -- the monthly layout ----------------------------------------------------------------------------


def test_england_is_left_out_and_the_rest_is_rounded():
    release = read_release(MONTHLY)
    assert release.blocks.tolist() == ["RX1", "RX2", "RX3"]
    # fewer than 5 are hidden, so a 5 is 5 to 7
    assert intervals(release, "RX1") == [(0, 4), (18, 22), (38, 42), (88, 92)]
    assert intervals(release, "RX2") == [(0, 4), (5, 7), (23, 27), (63, 67)]
    assert "12 of 20 rows" in release.source
    assert "4 rows left out: England, the total of the others" in release.notes
    assert any("not split into bands" in note for note in release.notes)


def test_england_is_exact_beside_rounded_providers():
    release = read_release(MONTHLY, totals="keep")
    assert intervals(release, "England") == [(15, 15), (57, 57), (77, 77), (303, 303)]
    assert intervals(release, "RX1")[1] == (18, 22)
    alone = read_release(MONTHLY, where={"BREAKDOWN": "England; Age Band"})
    assert alone.histogram.count.tolist() == [15, 57, 77, 303]


def test_hidden_counts_by_what_is_shown(tmp_path):
    def no_five(rows):
        return [row for row in rows if row["MEASURE_VALUE"] != "5"]

    release = read_release(changed(MONTHLY, tmp_path, no_five))
    assert intervals(release, "RX1")[0] == (0, 7)

    def zero(rows):
        rows[-4]["MEASURE_VALUE"] = "0"

    release = read_release(changed(MONTHLY, tmp_path, zero))
    assert intervals(release, "RX1")[0] == (1, 4)
    told = read_release(MONTHLY, suppression={"*": (2, 3)}, rounding="nearest-5")
    assert intervals(told, "RX1")[0] == (2, 3)


def test_breakdowns_are_not_mixed(tmp_path):
    def edit(rows):
        boards = [dict(row) for row in rows[-4:]]
        for row in boards:
            row |= {"BREAKDOWN": "ICB; Age Band", "PRIMARY_LEVEL": "QX1"}
        return rows + boards

    path = changed(MONTHLY, tmp_path, edit)
    with pytest.raises(ReadError, match="column 'BREAKDOWN': one value must be chosen") as caught:
        read_release(path)
    assert caught.value.offers == {"where": {"BREAKDOWN": "Provider; Age Band"}}
    release = read_release(path, **caught.value.offers)
    assert release.blocks.tolist() == ["RX1", "RX2", "RX3"]


def test_codes_of_categories_are_no_bands(tmp_path):
    def edit(rows):
        codes = {"0-13": ("1", "Male"), "14-17": ("2", "Female")}
        kept = [row for row in rows if row["SECONDARY_LEVEL"] in codes]
        for row in kept:
            code, words = codes[row["SECONDARY_LEVEL"]]
            row |= {"SECONDARY_LEVEL": code, "SECONDARY_LEVEL_DESCRIPTION": words}
        return kept

    with pytest.raises(ReadError, match="got codes such as '1' for 'Male'"):
        read_release(changed(MONTHLY, tmp_path, edit))


def test_figures_without_bands_are_refused_as_published():
    path = published("nhs_mhsds_4ww_aug2024.csv")
    assert {row["SECONDARY_LEVEL"] for row in records(path)} == {"NONE"}
    with pytest.raises(ReadError, match="must hold bands of values, got 'NONE' in all 105 rows"):
        read_release(path)


# -- registrations ---------------------------------------------------------------------------------


def registered(rows, *sexes):
    result = defaultdict(Counter)
    for row in rows:
        age = row["AGE_GROUP_5"]
        if row["SEX"] in sexes and age != "ALL":
            low, _, high = age.rstrip("+").partition("_")
            ends = float(low), float(high) + 1 if high else INF
            result[row["ORG_CODE"]][ends] += int(row["NUMBER_OF_PATIENTS"])
    return result


def test_sexes_are_added_up():
    with pytest.warns(ReadWarning, match=r"every SEX were added up .*where=\{'SEX': 'FEMALE'\}"):
        release = read_release(REGISTERED)
    assert counts(release) == registered(records(REGISTERED), "FEMALE", "MALE")
    assert "120 of 123 rows" in release.source
    assert "3 rows left out: totals of all ages" in release.notes


def test_one_sex_can_be_chosen():
    release = read_release(REGISTERED, where={"SEX": "MALE"})
    assert counts(release) == registered(records(REGISTERED), "MALE")


def with_everybody(rows):
    """Add rows of both sexes together."""
    pairs = Counter()
    for row in rows:
        if row["SEX"] != "ALL":
            pairs[row["ORG_CODE"], row["AGE_GROUP_5"]] += int(row["NUMBER_OF_PATIENTS"])
    more = [
        rows[0] | {"ORG_CODE": org, "SEX": "ALL", "AGE_GROUP_5": age, "NUMBER_OF_PATIENTS": n}
        for (org, age), n in pairs.items()
    ]
    return rows + more


def test_rows_of_both_sexes_are_not_counted_twice(tmp_path):
    with pytest.warns(ReadWarning, match="people of every SEX were read together"):
        release = read_release(changed(REGISTERED, tmp_path, with_everybody))
    assert counts(release) == registered(records(REGISTERED), "FEMALE", "MALE")
    partly = changed(REGISTERED, tmp_path, lambda rows: with_everybody(rows)[:-1])
    with pytest.raises(ReadError, match="column 'SEX': one value must be chosen"):
        read_release(partly)


def test_single_years_of_age(tmp_path):
    path = tmp_path / "ages.csv"
    head = "EXTRACT_DATE,CCG_CODE,ONS_CCG_CODE,ORG_CODE,POSTCODE,SEX,AGE,NUMBER_OF_PATIENTS\n"
    ages = {"ALL": 60, "0": 10, "1": 20, "2": 5, "3+": 25}
    path.write_text(
        head + "".join(f"1,A,B,P1,X,MALE,{age},{n}\n" for age, n in ages.items()), "utf-8"
    )
    release = read_release(path)
    assert counts(release) == {"P1": {(0, 1): 10, (1, 2): 20, (2, 3): 5, (3, INF): 25}}


def test_kinds_of_organisations_are_not_mixed(tmp_path):
    def edit(rows):
        rows[-1]["ORG_TYPE"] = "PCN"

    with pytest.raises(ReadError, match=r"'ORG_TYPE': one .* say where=\{'ORG_TYPE': 'GP'\}"):
        read_release(changed(REGISTERED, tmp_path, edit))


def test_totals_that_ages_do_not_add_up_to_are_said(tmp_path):
    def edit(rows):
        rows[0]["NUMBER_OF_PATIENTS"] = "1"

    with pytest.warns(ReadWarning):
        release = read_release(changed(REGISTERED, tmp_path, edit))
    assert any("whose ages count others than their total" in note for note in release.notes)
    assert np.sum(release.n) == sum(
        int(row["NUMBER_OF_PATIENTS"]) for row in records(REGISTERED) if row["SEX"] != "ALL"
    )


def test_a_file_without_ages_is_refused(tmp_path):
    path = changed(REGISTERED, tmp_path, lambda rows: [r for r in rows if r["SEX"] == "ALL"])
    with pytest.raises(ReadError, match="column 'AGE_GROUP_5': must hold ages, got 'ALL' only"):
        read_release(path)
