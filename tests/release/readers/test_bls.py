"""Occupational wages: percentiles by area, what is not shown, and mixtures of occupations."""

import csv

import pytest

from tests.helpers.paths import FIXTURES, published
from unbin import read_release
from unbin.exceptions import ReadError

STATES = FIXTURES / "bls_oews_states.csv"
NURSES = {"OCC_TITLE": "Registered Nurses"}
PHYSICIANS = {"OCC_TITLE": "General Internal Medicine Physicians"}
LEVELS = {"PCT10": 0.1, "PCT25": 0.25, "MEDIAN": 0.5, "PCT75": 0.75, "PCT90": 0.9}


def lines_of(path):
    with path.open(newline="", encoding="utf-8-sig") as stream:
        return list(csv.DictReader(stream))


def wages(line, unit):
    """Return quantiles and wages of a line, those that are shown."""
    texts = {level: line[f"{unit}_{name}"] for name, level in LEVELS.items()}
    return [(q, float(t.replace(",", ""))) for q, t in texts.items() if t.strip("*#")]


def quantiles(release, block):
    table = release.order_statistics
    b = release.blocks.tolist().index(block)
    rows = slice(table.start[b], table.start[b + 1])
    return list(zip(table.quantile[rows].tolist(), table.value[rows].tolist(), strict=True))


@pytest.mark.parametrize("unit", ["A", "H"])
def test_published_wages(unit):
    path = published("bls_oews_state_M2023.csv")
    where = {"OCC_TITLE": "Data Scientists"}
    release = read_release(path, where=where, label=unit)
    lines = [line for line in lines_of(path) if line["OCC_TITLE"] == "Data Scientists"]
    assert release.blocks.tolist() == sorted(line["AREA_TITLE"] for line in lines)
    for line in lines:
        assert quantiles(release, line["AREA_TITLE"]) == wages(line, unit)
    assert (release.n == 0).all()


def test_published_wages_of_several_occupations():
    path = published("bls_oews_state_M2023.csv")
    with pytest.raises(ReadError, match="one value must be chosen, got 'Database Admin") as caught:
        read_release(path)
    assert caught.value.offers == {"where": {"OCC_TITLE": "Database Administrators"}}
    assert "say block=['AREA_TITLE', 'OCC_TITLE'], or where=" in str(caught.value)
    crossed = read_release(path, block=["AREA_TITLE", "OCC_TITLE"])
    lines = [line for line in lines_of(path) if wages(line, "A")]
    assert len(crossed) == len(lines)
    for line in lines:
        block = f"{line['AREA_TITLE']} | {line['OCC_TITLE']}"
        assert quantiles(crossed, block) == wages(line, "A")


def test_annual_wages():
    release = read_release(STATES, where=NURSES)
    assert release.source.startswith(
        "bls, percentiles 10, 25, 50, 75, 90 of annual wages, block 'AREA', 3 of 12 rows"
    )
    assert release.blocks.tolist() == ["05", "23", "29"]
    for line in lines_of(STATES):
        if line["OCC_TITLE"] == "Registered Nurses":
            assert quantiles(release, line["AREA"]) == wages(line, "A")
    assert "means not read, nor employment, which is rounded to 10" in release.notes
    assert release.means is None


def test_hourly_wages_and_other_blocks():
    release = read_release(STATES, where=NURSES, label="H", block="PRIM_STATE")
    assert release.blocks.tolist() == ["AR", "ME", "MO"]
    assert "hourly" in release.source
    with pytest.raises(ReadError, match=r"label: wages by year \(A\) or by hour \(H\).*label='H'"):
        read_release(STATES, where=NURSES, label="X")


def test_what_is_not_shown_is_left_out_and_said():
    release = read_release(STATES, where=PHYSICIANS)
    lines = [line for line in lines_of(STATES) if line["OCC_TITLE"] == PHYSICIANS["OCC_TITLE"]]
    assert "23" not in release.blocks
    hidden = [line[f"A_{name}"] for line in lines for name in LEVELS]
    top, other = hidden.count("#"), hidden.count("*")
    assert top > 0
    assert any(
        note.startswith(f"{top + other} percentiles left out: ")
        and f"{top} top-coded" in note
        and f"{other} not released" in note
        for note in release.notes
    )
    assert "1 block without any: '23'" in release.notes
    for line in lines:
        if line["AREA"] != "23":
            assert quantiles(release, line["AREA"]) == wages(line, "A")
    with pytest.raises(ReadError, match="must hold wages, got none that was released"):
        read_release(STATES, where={**PHYSICIANS, "AREA": "23"})


# -- mixtures --------------------------------------------------------------------------------------


def test_groups_of_occupations_overlap():
    with pytest.raises(ReadError, match="column 'O_GROUP': one value must be chosen") as caught:
        read_release(STATES, block=["AREA_TITLE", "OCC_TITLE"])
    assert caught.value.offers == {"where": {"O_GROUP": "major"}}
    assert "block=" not in str(caught.value)
    crossed = read_release(STATES, block=["AREA_TITLE", "OCC_TITLE"], where={"O_GROUP": "detailed"})
    assert len(crossed) == 5


def test_all_occupations_are_a_total_unless_asked_for():
    release = read_release(STATES, where={"OCC_TITLE": "All Occupations"})
    assert release.blocks.tolist() == ["05", "23", "29"]
    both = {"OCC_TITLE": ["All Occupations", "Registered Nurses"]}
    nurses = read_release(STATES, where=both)
    assert any("totals of others (OCC_TITLE 'All Occupations')" in note for note in nurses.notes)
    assert quantiles(nurses, "05") == quantiles(read_release(STATES, where=NURSES), "05")


def changed(tmp_path, old, new):
    text = STATES.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "states.csv"
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


def test_areas_of_several_kinds_overlap(tmp_path):
    metro = changed(tmp_path, "23,Maine,2,", "23,Maine,4,")
    with pytest.raises(ReadError, match="'AREA_TYPE': one value must be chosen, got '2', '4'"):
        read_release(metro, where=NURSES)
    territory = changed(tmp_path, "23,Maine,2,", "23,Maine,3,")
    assert len(read_release(territory, where=NURSES)) == 3
    nation = changed(tmp_path, "23,Maine,2,", "99,U.S.,1,")
    release = read_release(nation, where=NURSES)
    assert release.blocks.tolist() == ["05", "29"]
    assert any("totals of others (AREA_TITLE 'U.S.')" in note for note in release.notes)


def test_a_row_twice(tmp_path):
    text = STATES.read_text(encoding="utf-8")
    path = tmp_path / "twice.csv"
    path.write_text(text + text.splitlines()[4] + "\n", encoding="utf-8")
    with pytest.raises(ReadError, match="block '05': must be listed once, got row 5 too; keep"):
        read_release(path, where=NURSES)


def test_columns_that_were_mixed_up(tmp_path):
    path = changed(tmp_path, "H_PCT90,A_PCT10", "A_PCT10,H_PCT90")
    with pytest.raises(ReadError, match="a wage by year must be 2,080 times that by hour, got"):
        read_release(path, where=NURSES)
    with pytest.raises(ReadError, match="must be the code of an area, got 'Arkansas'; say block="):
        read_release(changed(tmp_path, "AREA,AREA_TITLE", "AREA_TITLE,AREA"), where=NURSES)


def test_wages_that_decrease(tmp_path):
    line = next(line for line in lines_of(STATES) if line["OCC_TITLE"] == "Registered Nurses")
    path = changed(tmp_path, line["A_PCT10"], "900,000")
    path.write_text(path.read_text(encoding="utf-8").replace("H_", "X_"), encoding="utf-8")
    with pytest.raises(ReadError, match="order statistics must not decrease"):
        read_release(path, where=NURSES)
