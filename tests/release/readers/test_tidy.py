"""Tidy files stay strict: rows are people only where that is said."""

import pytest

from tests.helpers.paths import published
from unbin import read_release
from unbin.exceptions import ReadError


def test_figures_of_places_are_no_people(write):
    path = write("Region,Value\na,1\nb,2\n")
    with pytest.raises(ReadError, match="rows may be people or figures of 'Region'") as caught:
        read_release(path)
    assert caught.value.offers == {"dialect": "tidy", "block": "Region"}
    assert str(caught.value).endswith("say dialect='tidy', block='Region'")
    assert read_release(path, **caught.value.offers).n.tolist() == [1, 1]
    assert read_release(path, block="Region").n.tolist() == [1, 1]


@pytest.mark.parametrize("text", ["block,value\na,1\na,2\n", "Block,VALUE\na,1\na,2\n"])
def test_values_of_blocks(write, text):
    assert read_release(write(text)).order_statistics.value.tolist() == [1, 2]


def test_values_of_everybody(write):
    assert read_release(write("value\n1\n2\n")).n.tolist() == [2]


@pytest.mark.parametrize("options", [{}, {"dialect": "tidy"}, {"block": "block"}])
def test_other_columns_beside_values(write, options):
    path = write("block,year,value\na,2021,1\na,2022,2\n")
    with pytest.raises(ReadError):
        read_release(path, **options)
    constant = write("block,unit,value\na,kg,1\na,kg,2\n", "constant.csv")
    assert read_release(constant, dialect="tidy").n.tolist() == [2]


OECD = "LOCATION,INDICATOR,SUBJECT,MEASURE,FREQUENCY,TIME,Value,Flag Codes\n" + "".join(
    f"{place},AIRGHG,TOT,{unit},A,{year},{k + year},\n"
    for k, place in enumerate(["AUS", "AUT"])
    for unit in ["THND_TONNE"]
    for year in (2010, 2011)
)


def test_oecd_figures_are_refused(write):
    with pytest.raises(ReadError, match="column 'MEASURE': must count people, got amounts"):
        read_release(write(OECD))
    with pytest.raises(ReadError, match="one value must be chosen"):
        read_release(write(OECD), dialect="tidy", block="LOCATION")


def test_thousands_of_people_are_refused(write):
    head = "REF_DATE,GEO,Age group,UOM,SCALAR_FACTOR,VALUE\n"
    rows = "2020,{0},0 to 4 years,Persons,{1},{2}\n2020,{0},5 years and over,Persons,{1},{3}\n"
    text = (
        head + rows.format("Ontario", "thousands", 3, 9) + rows.format("Quebec", "thousands", 2, 8)
    )
    with pytest.raises(ReadError, match="column 'SCALAR_FACTOR': must count people one by one"):
        read_release(write(text))
    release = read_release(write(text.replace("thousands", "units")))
    assert release.n.tolist() == [12, 10]


@pytest.mark.parametrize("options", [{}, {"dialect": "plain"}])
def test_statistics_canada_tonnes_as_published(options):
    path = published("statcan_25100017.csv")
    message = r"column 'UOM': must count people, got amounts in 'Metric tonnes', 'Kilolitres'"
    with pytest.raises(ReadError, match=message):
        read_release(path, **options)
    with pytest.raises(ReadError, match="one value must be chosen"):
        read_release(path, dialect="tidy", block="GEO")


def test_labels_under_the_wrong_name(write):
    text = "label,county,count\n05001,0-4,3\n05001,5+,4\n05003,0-4,5\n05003,5+,6\n"
    with pytest.raises(ReadError, match="got numbers, and bins in column 'county'") as caught:
        read_release(write(text))
    release = read_release(write(text), **caught.value.offers)
    assert release.blocks.tolist() == ["05001", "05003"]


def test_an_extra_column_of_standard_deviations(write):
    release = read_release(write("area,mean,sd,n\na,1.5,0.2,10\nb,2.5,0.3,20\n"))
    assert release.means.tolist() == [1.5, 2.5]
    assert "columns not read: 'sd'" in release.notes
    bins = read_release(write("area,lower,upper,count,sd\na,,1,3,1\na,1,,4,1\n"))
    assert bins.n.tolist() == [7]
