"""CDC WONDER: ages, hidden rows, totals, months; files of the agency compared with their text."""

import csv
import itertools
import re

import pytest

from tests.helpers.paths import FIXTURES, published
from unbin import read_release
from unbin.exceptions import ReadError

INF = float("inf")
MOTHERS = [-INF, 15, 20, 25, 30, 35, 40, 45, 50]


def rows_of(path):
    """Return the records above the query, by the name of their columns, and without totals."""
    with path.open(encoding="utf-8", newline="") as stream:
        lines = list(csv.reader(stream, delimiter="\t"))
    stop = next(k for k, line in enumerate(lines) if line == ["---"])
    records = [dict(zip(lines[0], line, strict=True)) for line in lines[1:stop]]
    return [record for record in records if record["Notes"] != "Total"]


def cells(release, block):
    """Return (lower, least, most) of every bin of a block."""
    table = release.histogram
    b = release.blocks.tolist().index(block)
    rows = slice(table.start[b], table.start[b + 1])
    low = table.count if table.count_low is None else table.count_low
    high = table.count if table.count_high is None else table.count_high
    return list(zip(*(a[rows].tolist() for a in (table.lower, low, high)), strict=True))


def first_number(text):
    """Return where an age group starts; groups that are open below start nowhere."""
    return -INF if text.startswith(("<", "Under")) else float(re.search(r"\d+", text)[0])


def check_events(release, path):
    expected = {r["State Code"]: (int(r["Deaths"]), int(r["Population"])) for r in rows_of(path)}
    assert release.blocks.tolist() == sorted(expected)
    for block, (deaths, people) in expected.items():
        rest = people - deaths
        assert cells(release, block) == [(0, rest, rest), (1, deaths, deaths)]
    assert release.n.sum() == sum(people for _, people in expected.values())


# -- bins are age groups with a code, nothing else -------------------------------------------------


def test_ages():
    release = read_release(FIXTURES / "wonder_ages.txt")
    assert release.blocks.tolist() == [f"{k:05d}" for k in range(1001, 1017, 2)]
    found = cells(release, "01001")
    assert [lower for lower, _, _ in found] == [-INF, 1, *range(5, 90, 10)]
    assert found[-1] == (85, 50, 50)
    assert release.histogram.closed == "left"
    assert "41 suppressed cells (0–9), 88 of 105 rows" in release.source
    assert release.notes == (
        "8 rows left out: 'Ten-Year Age Groups' unknown, 0 Deaths",
        "9 rows of totals left out, used as bounds for 8 blocks",
    )
    assert release.n[0] == 384  # the total of the file: no one of unknown age


def test_an_age_adjusted_rate_is_no_age():
    path = FIXTURES / "wonder_rates.txt"
    release = read_release(path)
    check_events(release, path)
    assert "1 for Deaths and 0 for the rest of Population" in release.source


@pytest.mark.parametrize("name", ["wonder_ucd_firearms.txt", "wonder_cmf_opioids.txt"])
def test_deaths_of_a_population(name):
    path = published(name)
    check_events(read_release(path), path)


def test_an_average_age_is_no_age(write):
    text = "Notes\tState\tState Code\tBirths\tPopulation\tAverage Age of Mother\n"
    release = read_release(write(text + "\tIdaho\t16\t20\t900\t27.1\n\tUtah\t49\t30\t950\t28.2\n"))
    assert cells(release, "16") == [(0, 880, 880), (1, 20, 20)]


def test_an_age_needs_its_code(write):
    text = (FIXTURES / "wonder_ages.txt").read_text(encoding="utf-8")
    with pytest.raises(ReadError, match="column 'Ten-Year Groups': one value must be chosen"):
        read_release(write(text.replace('"Ten-Year Age Groups"', '"Ten-Year Groups"', 1)))


def test_an_age_without_its_code_is_offered(write):
    text = (FIXTURES / "wonder_ages.txt").read_text(encoding="utf-8")
    path = write(text.replace('"Ten-Year Age Groups Code"', '"Number"', 1))
    with pytest.raises(
        ReadError, match="ages have a column 'Ten-Year Age Groups Code' beside"
    ) as e:
        read_release(path)
    assert e.value.offers == {"label": "Ten-Year Age Groups"}
    whole = read_release(FIXTURES / "wonder_ages.txt")
    assert cells(read_release(path, **e.value.offers), "01001") == cells(whole, "01001")


def test_other_ages_are_bins_on_request_only(write):
    text = "Notes\tState\tState Code\tOE Gestational Age 10\tOE Gestational Age 10 Code\tBirths\n"
    text += "\tIdaho\t16\t37 - 38\t1\t120\n\tIdaho\t16\t39\t2\t340\n"
    with pytest.raises(ReadError, match="must have a column of age groups or a 'Population'"):
        read_release(write(text))
    asked = read_release(write(text), label="OE Gestational Age 10")
    assert cells(asked, "16") == [(37, 120, 120), (39, 340, 340)]


def test_codes_of_ages_are_no_ages():
    """The code of "< 1 year" is 1, and that of "Under 15 years" is 15."""
    path = FIXTURES / "wonder_parents.txt"
    by_code = read_release(path, label="Age of Father Code")
    assert cells(by_code, "15-19 years") == cells(
        read_release(path, label="Age of Father"), "15-19 years"
    )


def test_single_year_ages(write):
    text = "Notes\tSex\tSex Code\tSingle-Year Ages\tSingle-Year Ages Code\tDeaths\n"
    for age, count in (("< 1 year", 30), ("1 year", 14), ("2 years", 12), ("100+ years", 11)):
        text += f"\tFemale\tF\t{age}\t0\t{count}\n"
    text += "---\nDataset: Deaths\nShow Zero Values: True\nShow Suppressed: True\n"
    release = read_release(write(text))
    assert release.blocks.tolist() == ["Female"]
    table = release.histogram
    assert table.lower.tolist() == [-INF, 1, 2, 100]
    assert table.upper.tolist() == [1, 2, 3, INF]


def test_ages_in_days_are_refused(write):
    text = "Notes\tState\tState Code\tAge Group\tAge Group Code\tDeaths\n"
    text += "\tIdaho\t16\t1-6 days\t1\t12\n\tIdaho\t16\t1-4 years\t2\t14\n"
    with pytest.raises(ReadError, match="row 2, column 'Age Group': ages must be in years, got"):
        read_release(write(text))


# -- blocks ----------------------------------------------------------------------------------------


def test_years_are_blocks_where_there_is_no_place():
    path = published("wonder_ucd_covid_ex.txt")
    release = read_release(path)
    expected = {}
    for row in rows_of(path):
        group = first_number(row["Ten-Year Age Groups"]), int(row["Deaths"])
        expected.setdefault(row["Year"], []).append((group[0], group[1], group[1]))
    assert release.blocks.tolist() == sorted(expected)
    for year, groups in expected.items():
        assert cells(release, year) == groups
    assert release.n.sum() == 50_563_267
    assert release.notes == ("12 rows of totals left out",)


def test_everybody(write):
    text = "Notes\tAge Group\tAge Group Code\tDeaths\n\t1-4 years\t1-4\t20\n\t5+ years\t5+\t31\n"
    text += "Total\t\t\t51\n"
    footer = "---\nDataset: D\nShow Zero Values: True\nShow Suppressed: True\n"
    release = read_release(write(text + footer))
    assert release.blocks.tolist() == ["all"]
    assert release.n.tolist() == [51]


def test_several_years_need_a_choice():
    path = FIXTURES / "wonder_births.txt"
    with pytest.raises(ReadError, match="column 'Year': one value must be chosen") as caught:
        read_release(path)
    assert caught.value.offers == {"where": {"Year": "2018"}}
    one = read_release(path, **caught.value.offers)
    both = read_release(path, block=["Residence State Code", "Year"])
    assert one.blocks.tolist() == ["16", "56"]
    assert both.blocks.tolist() == ["16 | 2018", "16 | 2019", "56 | 2018", "56 | 2019"]
    assert cells(both, "16 | 2018") == cells(one, "16")


def test_two_ages():
    with pytest.raises(ReadError, match="one outcome must be chosen, got 'Age of Mother 9'") as e:
        read_release(FIXTURES / "wonder_parents.txt")
    assert e.value.offers == {"label": "Age of Father"}
    release = read_release(FIXTURES / "wonder_parents.txt", label="Age of Father")
    # a count below 10 is shown, so what is not listed is 0, and the totals say the same
    found = cells(release, "Under 15 years")
    assert found[:4] == [(-INF, 3, 3), (15, 14, 14), (20, 5, 5), (25, 0, 0)]
    assert sorted(release.n.tolist()) == [22, 175, 294]


@pytest.mark.parametrize(
    ("label", "block"),
    [("Age of Father", "Age of Mother 9"), ("Age of Mother 9", "Age of Father")],
)
def test_ages_of_both_parents(label, block):
    path = published("wonder_fetal_parents_age.txt")
    with pytest.raises(ReadError, match=r"one outcome must be chosen, .* label='Age of Father'$"):
        read_release(path)
    release = read_release(path, label=label)
    expected = {}
    for row in rows_of(path):
        found = expected.setdefault(row[block], {})
        if row[label] not in ("Unknown or Not Stated", "Not Reported"):
            found[first_number(row[label])] = int(row["Fetal Deaths"])
    groups = sorted({lower for found in expected.values() for lower in found})
    assert release.blocks.tolist() == sorted(expected)
    for name, found in expected.items():
        assert cells(release, name) == [(k, found.get(k, 0), found.get(k, 0)) for k in groups]


def test_a_count_must_be_chosen(write):
    text = "Notes\tState\tState Code\tAge of Mother\tAge of Mother Code\tDeaths\tBirths\n"
    text += "\tIdaho\t16\t15-19 years\t15-19\t20\t900\n"
    with pytest.raises(ReadError, match=r"got 'Deaths', 'Births'; say count='Deaths'"):
        read_release(write(text))
    assert cells(read_release(write(text), count="Births"), "16") == [(15, 900, 900)]
    infants = "Notes\tState\tState Code\tDeaths\tBirths\n\tIdaho\t16\t20\t900\n"
    assert cells(read_release(write(infants)), "16") == [(0, 880, 880), (1, 20, 20)]


# -- rows that are not listed ----------------------------------------------------------------------


def test_hidden_rows_of_births():
    path = published("wonder_natality_hidden_rows.txt")
    release = read_release(path)
    shown = {
        (r["State Code"], first_number(r["Age of Mother 9"])): int(r["Births"])
        for r in rows_of(path)
    }
    for block, n_hidden in (("01", 1), ("50", 3)):
        found = cells(release, block)
        assert [lower for lower, _, _ in found] == MOTHERS
        hidden = [cell for cell in found if (block, cell[0]) not in shown]
        assert len(hidden) == n_hidden
        assert {(low, high) for _, low, high in hidden} == {(0, 9)}
        for lower, low, high in found:
            if (block, lower) in shown:
                assert low == high == shown[block, lower]
    assert "4 suppressed cells (0–9), all 14 rows" in release.source
    (note,) = release.notes
    assert note.startswith("4 cells of blocks and bins not listed: 0–9 Births (Show Suppressed: F")


HEAD = "Notes\tState\tState Code\tAge Group\tAge Group Code\tDeaths\n"
BODY = "\tIdaho\t16\t1-4 years\t1-4\t{a}\n\tIdaho\t16\t5-9 years\t5-9\t12\n"
BODY += "\tUtah\t49\t1-4 years\t1-4\t20\n"
FLAGS = "---\nDataset: D\nShow Zero Values: {zeros}\nShow Suppressed: {suppressed}\n"


@pytest.mark.parametrize(
    ("zeros", "suppressed", "a", "expected"),
    [
        ("False", "False", 11, (0, 9)),
        ("True", "False", 11, (0, 9)),
        ("Disabled", "False", 11, (0, 9)),
        ("False", "True", 11, (0, 0)),
        ("False", "False", 3, (0, 0)),  # a small count is shown: none is suppressed
        ("True", "True", 11, None),
        ("True", "False", 3, None),
    ],
)
def test_what_a_row_that_is_not_listed_counts(write, zeros, suppressed, a, expected):
    text = HEAD + BODY.format(a=a) + FLAGS.format(zeros=zeros, suppressed=suppressed)
    release = read_release(write(text))
    found = cells(release, "49")
    assert found == [(1, 20, 20)] + ([(5, *expected)] if expected else [])
    assert any("1 block without some of the 2 bins" in n for n in release.notes) == (not expected)
    told = text + "---\nMessages:\n1. Rows with suppressed Deaths are hidden. Use Quick Options\n"
    if suppressed == "False":
        assert cells(read_release(write(told)), "49")[1] == (5, 0, 9)


def test_rows_are_hidden_unless_the_query_says_otherwise(write):
    release = read_release(write(HEAD + BODY.format(a=11)))
    assert cells(release, "49")[1] == (5, 0, 9)
    assert any("the query below the table is missing" in note for note in release.notes)
    known = {"suppressed": (1, 9)}
    text = HEAD + BODY.format(a=11) + FLAGS.format(zeros="True", suppressed="False")
    assert cells(read_release(write(text), suppression=known), "49")[1] == (5, 1, 9)
    assert cells(read_release(write(text), suppression="none"), "49")[1] == (5, 0, 0)
    shown = HEAD + BODY.format(a="Suppressed") + "\tUtah\t49\t5-9 years\t5-9\t0\n"
    assert cells(read_release(write(shown)), "49")[1] == (5, 0, 0)
    assert not any("not listed" in note for note in read_release(write(shown)).notes)


def test_groups_of_the_query(write):
    """Only groups that were asked for are hidden; a list may run over two lines."""
    head = HEAD.replace("Age Group", "Ten-Year Age Groups")
    body = "\tIdaho\t16\t15-24 years\t15-24\t40\n"
    footer = FLAGS.format(zeros="False", suppressed="False")
    release = read_release(write(head + body + footer))
    assert [lower for lower, _, _ in cells(release, "16")] == [-INF, 1, *range(5, 90, 10)]
    asked = footer + "Ten-Year Age Groups: 15-24 years; 25-34\nyears; Not Stated\nGroup By: State\n"
    assert cells(read_release(write(head + body + asked)), "16") == [(15, 40, 40), (25, 0, 9)]
    other = footer + "Single-Year Ages: 18 years; 19 years\n"
    release = read_release(write(head + body + other))
    assert cells(release, "16") == [(15, 40, 40)]
    assert any("only the 1 of the file are read" in note for note in release.notes)
    chosen = read_release(
        write(head + body + footer), where={"Ten-Year Age Groups": ["15-24 years", "85+ years"]}
    )
    assert cells(chosen, "16") == [(15, 40, 40), (85, 0, 9)]


@pytest.mark.parametrize("total", [19, 25, 31, 38, 47, 55])
@pytest.mark.parametrize("unknown", ["", "\tUtah\t49\tNot Stated\tNS\t13\n"])
@pytest.mark.parametrize("asked", ["", "; Not Stated", "; odd"])
def test_totals_bound_what_is_not_listed(write, total, unknown, asked):
    """Every way to fill the hidden rows, the row of unknown ages included, by brute force."""
    text = HEAD + BODY.format(a=11) + "\tIdaho\t16\t10+ years\t10+\t14\n" + unknown
    text += f"Total\tUtah\t49\t\t\t{total}\n"
    text += FLAGS.format(zeros="False", suppressed="False")
    if asked:
        text += f"Age Group: 1-4 years; 5-9 years; 10+ years{asked}\n"
    lost = [13] if unknown else range(10) if asked != "; odd" else [0]
    ways = [
        (a, b, u)
        for a, b, u in itertools.product(range(10), range(10), lost)
        if 20 + a + b + u == total
    ]
    if not ways:
        with pytest.raises(ReadError, match="block '49': bins and total must agree, got a total"):
            read_release(write(text))
        return
    found = cells(read_release(write(text)), "49")[1:]
    expected = [(min(w[k] for w in ways), max(w[k] for w in ways)) for k in (0, 1)]
    assert [(low, high) for _, low, high in found] == expected


def test_mothers_have_an_age(write):
    """Nobody of unknown age is hidden: the total says what the only hidden row counts."""
    text = HEAD.replace("Age Group", "Age of Mother 9").replace("Deaths", "Births")
    ages = ["Under 15 years", *(f"{k}-{k + 4} years" for k in range(15, 50, 5))]
    text += "".join(f"\tIdaho\t16\t{age}\tx\t20\n" for age in ages) + "Total\tIdaho\t16\t\t\t167\n"
    text += FLAGS.format(zeros="False", suppressed="False")
    assert cells(read_release(write(text)), "16")[-1] == (50, 7, 7)


def test_groups_that_are_not_the_usual_ones(write):
    text = HEAD.replace("Age Group", "Five-Year Age Groups") + BODY.format(a=11)
    text += "\tIdaho\t16\t65+ years\t65+\t70\n" + FLAGS.format(zeros="False", suppressed="False")
    release = read_release(write(text))
    assert cells(release, "49") == [(1, 20, 20), (5, 0, 9), (65, 0, 9)]
    assert any("only the 3 of the file are read" in note for note in release.notes)


def test_blocks_that_are_not_listed():
    release = read_release(FIXTURES / "wonder_rates.txt")
    assert "blocks that are not listed had 0–9 Deaths; all of them together: 15 of 1,908,960" in (
        release.notes
    )
    path = published("wonder_cmf_opioids.txt")
    listed = rows_of(path)
    rest = 1105 - sum(int(r["Deaths"]) for r in listed)
    people = 323_127_513 - sum(int(r["Population"]) for r in listed)
    assert f"; all of them together: {rest:,} of {people:,}" in read_release(path).notes[1]


def test_person_years():
    note = "Population counts person-years: the people of 11 years (2010 to 2020) are added up"
    assert note in read_release(published("wonder_ucd_firearms.txt")).notes
    for name, years in (("wonder_rates.txt", "2 years (2015"), ("wonder_deaths.txt", "22 years (")):
        assert any(years in note for note in read_release(FIXTURES / name).notes)


# -- months and populations that are no numbers ----------------------------------------------------


@pytest.mark.parametrize("name", ["own", "published"])
def test_months(name):
    own = name == "own"
    path = FIXTURES / "wonder_months.txt" if own else published("wonder_ucd_state_month.txt")
    with pytest.raises(
        ReadError, match="Deaths must be a share of a population, got 'Not App"
    ) as e:
        read_release(path)
    year = "2018" if own else "2009"
    assert e.value.offers == {"label": "Month Code", "where": {"Year": year}}
    release = read_release(path, **e.value.offers)
    table = release.histogram
    assert table.lower.tolist() == table.upper.tolist() == [*range(1, 13)] * 2
    rows = [r for r in rows_of(path) if r["Year"] == year]
    assert table.count.tolist() == [int(r["Deaths"]) for r in rows]
    words = read_release(path, label="Month", where={"Year": year})
    assert words.histogram.count.tolist() == table.count.tolist()
    with pytest.raises(ReadError, match="column 'Year': one value must be chosen"):
        read_release(path, label="Month Code")
    crossed = read_release(path, label="Month Code", block=["State Code", "Year"])
    assert crossed.n.sum() == sum(int(r["Deaths"]) for r in rows_of(path))


def test_rows_without_a_population(write):
    text = (FIXTURES / "wonder_deaths.txt").read_text(encoding="utf-8")
    release = read_release(write(text.replace("\t304\t", "\tNot Available\t")))
    assert "01001" not in release.blocks
    assert "1 row left out: no Population" in release.notes
    weekday = "Notes\tState\tState Code\tWeekday\tWeekday Code\tDeaths\tPopulation\n"
    weekday += "\tIdaho\t16\tMonday\t2\t20\tNot Applicable\n"
    with pytest.raises(ReadError, match=r"group by a place, or by ages too$"):
        read_release(write(weekday))


def test_events():
    release = read_release(FIXTURES / "wonder_deaths.txt")
    text = (FIXTURES / "wonder_deaths.txt").read_text(encoding="utf-8")
    n_hidden = sum("\tSuppressed\t" in line for line in text.splitlines())
    assert n_hidden >= 1
    assert f"{n_hidden} suppressed cell" in release.source
    assert cells(release, "01005") == [(0, 346, 355), (1, 0, 9)]


def test_only_one_row_per_block(write):
    text = "Notes\tState\tState Code\tGender\tGender Code\tDeaths\tPopulation\n"
    text += "\tIdaho\t16\tFemale\tF\t20\t900\n\tIdaho\t16\tMale\tM\t21\t900\n"
    with pytest.raises(ReadError, match=r"column 'Gender': .* say where=\{'Gender': 'Female'\}$"):
        read_release(write(text))


# -- categories ------------------------------------------------------------------------------------

CAUSES = {"category": "ICD Chapter"}


def by_name(release):
    """Return (least, most) of every block and category."""
    table = release.to_columns()["categories"]
    low, high = release.histogram.interval()
    keys = zip(table["block"].tolist(), table["category"].tolist(), strict=True)
    return dict(zip(keys, zip(low.tolist(), high.tolist(), strict=True), strict=True))


def test_causes_of_death_are_categories():
    release = read_release(FIXTURES / "wonder_causes.txt", **CAUSES)
    got = by_name(release)
    for each in rows_of(FIXTURES / "wonder_causes.txt"):
        assert got[each["State Code"], each["ICD Chapter"]] == (int(each["Deaths"]),) * 2
    ear = "Diseases of the ear and mastoid process"
    # what the query hides is 0 to 9, and at most what the total of the state leaves
    assert (got["02", ear], got["04", ear]) == ((0, 3), (0, 4))
    assert len(got) == 12
    assert release.source.startswith(
        "cdc-wonder, block 'State Code', categories 'ICD Chapter' of Deaths"
    )


def test_the_rest_of_a_population_is_a_category():
    release = read_release(FIXTURES / "wonder_causes.txt", **CAUSES, rest="alive")
    assert release.n.tolist() == [900000, 70000, 800000]
    assert by_name(release)["01", "alive"] == (900000 - 2145,) * 2


def test_zeros_that_are_not_listed_are_zeros(write):
    text = (FIXTURES / "wonder_causes.txt").read_text()
    text = text.replace("Show Suppressed: False", "Show Suppressed: True")
    text = text.replace("\t194\t", "\t191\t").replace("\t2289\t", "\t2285\t")
    got = by_name(read_release(write(text, "causes.txt"), **CAUSES))
    assert got["02", "Diseases of the ear and mastoid process"] == (0, 0)


def test_categories_that_cannot_be_read(write):
    text = (FIXTURES / "wonder_causes.txt").read_text()
    with pytest.raises(ReadError, match="column 'Cause' not found, got 'Notes', 'State'"):
        read_release(write(text, "causes.txt"), category="Cause")
    other = text.replace("42\t70000", "42\t70001")
    with pytest.raises(ReadError, match="rest: must be one number for all categories of a block"):
        read_release(write(other, "causes.txt"), **CAUSES, rest="alive")
    wrong = text.replace("\t194\t", "\t190\t")
    with pytest.raises(
        ReadError, match="block '02': bins and total must agree, got a total of 190"
    ):
        read_release(write(wrong, "causes.txt"), **CAUSES)


def test_real_groups_as_categories():
    path = published("wonder_fetal_parents_age.txt")
    got = by_name(read_release(path, category="Age of Father"))
    listed = {
        (r["Age of Mother 9"], r["Age of Father"]): int(r["Fetal Deaths"]) for r in rows_of(path)
    }
    assert {key: got[key] for key in listed} == {key: (n, n) for key, n in listed.items()}
    assert all(got[key] == (0, 0) for key in got.keys() - listed.keys())
