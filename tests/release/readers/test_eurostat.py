"""Eurostat: cut-offs, means, medians; periods and aggregates; files compared with their text."""

import csv

import numpy as np
import pytest

from tests.helpers.paths import FIXTURES, published
from unbin import read_release
from unbin.exceptions import ReadError, ReadWarning

WIDE = FIXTURES / "eurostat_ilc_di01.tsv"
LINEAR = FIXTURES / "eurostat_linear.csv"
INCOME = FIXTURES / "eurostat_ilc_di03.csv"
EUR = {"currency": "EUR", "TIME_PERIOD": "2023"}
WOMEN = {"sex": "F", "statinfo": "MEAN_EI", "unit": "EUR"}
AGGREGATES = ("EU", "EA")


def series(path, period, *wanted):
    """Return the values of a period by geo, of series whose dimensions are those wanted."""
    with path.open(encoding="utf-8", newline="") as stream:
        header, *lines = list(csv.reader(stream))
    column = [name.strip() for name in header].index(period)
    found = {}
    for line in lines:
        dimensions = line[0].split(",")
        value = line[column].split()[0]
        geo = dimensions[-1]
        if set(wanted) <= set(dimensions) and value != ":" and not geo.startswith(AGGREGATES):
            found[geo] = float(value)
    return found


# -- cut-offs --------------------------------------------------------------------------------------


def test_wide():
    release = read_release(WIDE, where=EUR)
    assert len(release) == 12
    order = release.order_statistics
    assert np.diff(order.start).tolist() == [9] * 11 + [8]
    assert order.quantile[:9].round(9).tolist() == [k / 10 for k in range(1, 10)]
    assert order.value[0] == 20666
    assert release.source == "eurostat quantiles, '2023', currency 'EUR', 107 of 324 rows"
    assert release.notes == (
        "108 rows left out: 'currency' is not 'EUR'",
        "108 rows left out: 'indic_il' is not 'TC'",
        "1 row left out: no value, 'HR'",
        "1 block without some of the 9 quantiles: 'HR'",
    )
    older = read_release(WIDE, where={**EUR, "TIME_PERIOD": 2021})
    assert np.diff(older.order_statistics.start).tolist() == [9] * 12


def test_linear():
    with pytest.warns(ReadWarning, match="of 3 periods '2022' is read, with most blocks .4 of 4."):
        release = read_release(LINEAR)
    assert release.blocks.tolist() == ["AT", "BE", "EE", "HR"]
    assert release.order_statistics.quantile[:3].tolist() == [0.1, 0.5, 0.9]
    assert release.order_statistics.value[:3].tolist() == [13905, 27810, 55620]
    assert "eurostat quantiles, '2022', unit 'EUR', 12 of 78 rows" in release.source
    assert "18 rows left out: 'TIME_PERIOD' is not '2022'" in release.notes
    crossed = read_release(LINEAR, block=["geo", "TIME_PERIOD"])
    assert crossed.blocks.tolist()[:3] == ["AT | 2021", "AT | 2022", "AT | 2023"]


def test_quantiles_of_all_kinds(write):
    text = (
        "DATAFLOW,LAST UPDATE,freq,quantile,indic_il,currency,geo,TIME_PERIOD,OBS_VALUE,OBS_FLAG\n"
    )
    for quantile, value in (("Q1", 9), ("Q2", 11), ("QU4", 15), ("P95", 22)):
        text += f"ESTAT:ILC_DI01(1.0),19/12/24,A,{quantile},TC,EUR,AT,2023,{value},\n"
    release = read_release(write(text))
    assert release.order_statistics.quantile.tolist() == [0.25, 0.5, 0.8, 0.95]


def test_shares_are_no_cut_offs(write):
    text = LINEAR.read_text(encoding="utf-8")
    shares = "".join(line for line in text.splitlines(keepends=True) if ",TC," not in line)
    with pytest.raises(ReadError, match=r"column 'statinfo': must hold cut-offs \(TC\)") as caught:
        read_release(write(shares))
    assert not caught.value.offers
    with pytest.raises(ReadError, match="shares of income of a group are no quantiles"):
        read_release(LINEAR, where={"statinfo": "SHARE"})
    with pytest.raises(ReadError, match="must hold cut-offs") as caught:
        read_release(LINEAR, where={"statinfo": ["SHARE", "TC"]})
    assert caught.value.offers == {"where": {"statinfo": "TC"}}
    unsaid = write(text.replace("statinfo", "indicator"))
    with pytest.raises(ReadError, match="must say what its values are in a column 'statinfo' or"):
        read_release(unsaid)


def test_cut_offs_of_eurostat():
    path = published("eurostat_ilc_di01_page_linear.csv")
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    values = {
        (r["geo"], r["TIME_PERIOD"]): float(r["OBS_VALUE"])
        for r in rows
        if not r["geo"].startswith(AGGREGATES)
    }
    with pytest.warns(
        ReadWarning, match=r"'2018' is read, with most blocks \(37 of 37\); say where"
    ):
        release = read_release(path)
    order = release.order_statistics
    assert dict(zip(release.blocks.tolist(), order.value.tolist(), strict=True)) == {
        geo: value for (geo, period), value in values.items() if period == "2018"
    }
    assert set(order.quantile) == {0.75}
    assert "56 rows left out: aggregates of other blocks, 'EA', 'EA18', 'EA19'" in release.notes[1]
    latest = read_release(path, where={"TIME_PERIOD": "2022"})
    assert latest.order_statistics.value.tolist() == [
        value for (_, period), value in sorted(values.items()) if period == "2022"
    ]


# -- means and medians -----------------------------------------------------------------------------


def test_a_statistic_must_be_chosen():
    with pytest.raises(ReadError, match=r"column 'statinfo': must be .* got 'MEAN_EI', 'MED") as e:
        read_release(INCOME)
    offer = {"where": {"statinfo": "MEAN_EI", "sex": "T", "unit": "EUR"}}
    assert e.value.offers == offer
    with pytest.raises(ReadError, match=r"column 'sex': one value must be chosen, got 'F', 'M',"):
        read_release(INCOME, where={"statinfo": "MED_EI", "unit": "EUR"})
    with pytest.raises(ReadError, match=r"'sex': .* and of 'unit' 'EUR', 'PPS'; say") as caught:
        read_release(INCOME, where={"statinfo": "MEAN_EI"})
    assert caught.value.offers == offer
    with pytest.warns(ReadWarning, match="of 4 periods '2022' is read"):
        assert read_release(INCOME, **offer).blocks.tolist() == ["AT", "BE", "EE", "HR"]


@pytest.mark.parametrize("name", ["own", "published"])
def test_means_and_medians(name):
    path = INCOME if name == "own" else published("eurostat_ilc_di03_sdmx.csv")
    where = {**WOMEN, "TIME_PERIOD": "2022"}
    means = read_release(path, where=where)
    expected = series(path, "2022", "F", "MEAN_EI", "EUR")
    assert dict(zip(means.blocks.tolist(), means.means.tolist(), strict=True)) == expected
    medians = read_release(path, where={**where, "statinfo": "MED_EI"})
    expected = series(path, "2022", "F", "MED_EI", "EUR")
    order = medians.order_statistics
    assert dict(zip(medians.blocks.tolist(), order.value.tolist(), strict=True)) == expected
    assert set(order.quantile) == {0.5}
    both = means.combine(medians)
    assert len(both.order_statistics.value) == len(both.means) == len(expected)
    assert "sex 'F', unit 'EUR'" in means.source


def test_other_statistics_are_refused(write):
    text = INCOME.read_text(encoding="utf-8").replace("MEAN_EI", "RATE")
    with pytest.raises(ReadError, match="got 'RATE', 'MED_EI'; say") as caught:
        read_release(write(text))
    assert caught.value.offers["where"]["statinfo"] == "MED_EI"
    with pytest.raises(ReadError, match="choose a table such as ilc_di03"):
        read_release(write(text.replace("MED_EI", "RATE")))


# -- periods and aggregates ------------------------------------------------------------------------


def test_the_period_with_most_blocks():
    with pytest.warns(ReadWarning, match=r"say where=\{'TIME_PERIOD': '2024'\} for another .1 blo"):
        release = read_release(INCOME, where=WOMEN)
    assert "'2022'" in release.source  # of 2021 and 2022 the later, and the latest has one block
    release = read_release(INCOME, where={**WOMEN, "TIME_PERIOD": "2024"})
    assert release.blocks.tolist() == ["AT"]
    assert "3 rows left out: no value, 'BE', 'EE', 'HR'" in release.notes
    for asked in (["2021", "2022"], "1999"):
        with pytest.raises(ReadError, match="one period of the file must be chosen, got") as caught:
            read_release(INCOME, where={**WOMEN, "TIME_PERIOD": asked})
        assert caught.value.offers == {"where": {**WOMEN, "TIME_PERIOD": "2024"}}
    with pytest.raises(
        ReadError, match="one period of the file must be chosen, got '2021', '2022'"
    ):
        read_release(LINEAR, where={"TIME_PERIOD": ["2021", "2022"]})


def test_a_period_is_a_year_or_part_of_one(write):
    text = INCOME.read_text(encoding="utf-8")
    with pytest.raises(ReadError, match="periods must start with their year, got 'X2021'"):
        read_release(write(text.replace("2021 ", "X2021 ", 1)), where=WOMEN)
    quarters = text.replace("2021 ,2022 ,2023 ,2024 ", "2023-Q3 ,2023-Q4 ,2024-Q1 ,2024-Q2 ", 1)
    with pytest.warns(ReadWarning, match="'2023-Q4' is read"):
        read_release(write(quarters), where=WOMEN)


def test_blocks_of_different_periods_are_no_table(write):
    lines = LINEAR.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [s for s in lines if ",AT,Austria,2021," in s or ",BE,Belgium,2022," in s]
    with pytest.warns(ReadWarning, match=r"of 2 periods '2022' is read, with most blocks .1 of 2"):
        assert read_release(write(lines[0] + "".join(kept))).blocks.tolist() == ["BE"]


def test_aggregates():
    where = {**WOMEN, "TIME_PERIOD": "2022"}
    kept = read_release(INCOME, where=where, totals="keep")
    assert kept.blocks.tolist() == ["AT", "BE", "EA20", "EE", "EU27_2020", "HR"]
    left = read_release(INCOME, where=where)
    assert "2 rows left out: aggregates of other blocks, 'EA20', 'EU27_2020'" in left.notes
    union = read_release(INCOME, where={**where, "geo": "EU27_2020"})
    assert union.blocks.tolist() == ["EU27_2020"]


def test_a_total_row(write):
    text = INCOME.read_text(encoding="utf-8")
    line = next(line for line in text.splitlines(keepends=True) if ",F,MEAN_EI,EUR,AT" in line)
    release = read_release(
        write(text + line.replace("EUR,AT", "EUR,TOTAL")), where={**WOMEN, "TIME_PERIOD": "2022"}
    )
    assert "TOTAL" not in release.blocks
    assert any("'TOTAL'" in note for note in release.notes)


def test_a_country_beside_its_regions(write):
    text = "freq,statinfo,unit,geo\\TIME_PERIOD\t2023 \n"
    for geo, value in (("AT", 30), ("AT1", 31), ("AT2", 29), ("EE", 17), ("EL", 12)):
        text += f"A,MEAN_EI,EUR,{geo}\t{value} \n"
    assert read_release(write(text)).blocks.tolist() == ["AT1", "AT2", "EE", "EL"]


def test_labels_behind_codes(write):
    text = "freq,statinfo,unit,geo\\TIME_PERIOD\t2023 \n"
    text += "A:Annual,MED_EI:Median,EUR:Euro,AT:Austria\t30 \n"
    text += "A:Annual,MED_EI:Median,EUR:Euro,EU28:European Union\t31 \n"
    assert read_release(write(text)).blocks.tolist() == ["AT:Austria"]


def test_a_dimension_named_like_a_period(write):
    text = "freq,statinfo,2023,geo\\TIME_PERIOD\t2023 \nA,MED_EI,x,AT\t30 \n"
    with pytest.raises(ReadError, match="dimensions and periods must be different"):
        read_release(write(text))
