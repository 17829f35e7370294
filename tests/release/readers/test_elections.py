"""Election results by precinct, checked against a few lines of csv code."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.paths import FIXTURES
from unbin import Release, read_release
from unbin.exceptions import ReadError

PRECINCTS = FIXTURES / "elections_precincts.csv"
MEDSL = FIXTURES / "elections_medsl.csv"
PRESIDENT = {"where": {"office": "President"}}


def cells(release: Release) -> dict[tuple[str, str], int]:
    columns = release.to_columns()["categories"]
    pairs = zip(columns["block"], columns["category"], strict=True)
    return dict(zip(((str(b), str(c)) for b, c in pairs), columns["count"].tolist(), strict=True))


def records(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def changed(tmp_path: Path, old: str, new: str, path: Path = PRECINCTS) -> Path:
    text = path.read_text()
    assert old in text
    other = tmp_path / "votes.csv"
    other.write_text(text.replace(old, new))
    return other


def test_parties_of_one_office() -> None:
    release = read_release(PRECINCTS, **PRESIDENT)
    found: Counter[tuple[str, str]] = Counter()
    for each in records(PRECINCTS):
        if each["office"] == "President" and "Votes" not in each["candidate"]:
            party = each["party"] or "write-in"
            found[f"{each['county']} | {each['precinct']}", party] += int(each["votes"])
    got = cells(release)
    assert release.categories == ("DEM", "LIB", "REP", "write-in")
    assert len(got) == 24
    assert {key: got[key] for key in found} == found
    assert got["Alder | 002", "LIB"] == 0
    assert release.public
    assert "elections, block 'county, precinct', 'votes' by 'party'" in release.source
    assert any(
        "12 rows left out, 'votes' for nobody: 'Over Votes', 'Under Votes'" in note
        for note in release.notes
    )


def test_registered_voters_leave_a_rest() -> None:
    offices = {"office": ["President", "Registered Voters"]}
    release = read_release(PRECINCTS, where=offices, rest="none")
    registered = {
        f"{each['county']} | {each['precinct']}": int(each["votes"])
        for each in records(PRECINCTS)
        if each["office"] == "Registered Voters"
    }
    people = dict(zip(map(str, release.blocks), release.n.tolist(), strict=True))
    assert people == registered
    votes = cells(read_release(PRECINCTS, **PRESIDENT))
    voted = sum(n for (block, _), n in votes.items() if block == "Birch | 001")
    assert cells(release)["Birch | 001", "none"] == registered["Birch | 001"] - voted
    with pytest.raises(ReadError, match="rest: the people of every block must be known, got none"):
        read_release(PRECINCTS, **PRESIDENT, rest="none")


def test_a_party_that_did_not_stand_is_not_offered() -> None:
    release = read_release(PRECINCTS, where={"office": "U.S. House"})
    offered = cells(release)
    assert ("Alder | 001", "GRN") not in offered
    assert ("Birch | 001", "GRN") in offered
    everywhere = read_release(PRECINCTS, where={"office": "U.S. House"}, absent="zero")
    assert cells(everywhere)["Alder | 001", "GRN"] == 0


def test_candidates() -> None:
    release = read_release(PRECINCTS, where={"office": "U.S. House"}, category="candidate")
    assert release.categories == (
        "Dee Vale 1", "Dee Vale 2", "Eli Stone 1", "Eli Stone 2", "Fay Moss",
    )  # fmt: skip
    assert ("Alder | 001", "Dee Vale 2") not in cells(release)


def test_candidates_of_one_party(tmp_path: Path) -> None:
    path = changed(tmp_path, ",REP,", ",DEM,")
    path.write_text(path.read_text().replace(",LIB,", ",DEM,"))
    release = read_release(path, **PRESIDENT)
    assert release.categories == ("Ada Quill", "Bo Marsh", "Cy Root", "Write-ins")


def test_modes_are_added_up() -> None:
    release = read_release(MEDSL)
    found: Counter[tuple[str, str]] = Counter()
    for each in records(MEDSL):
        if each["candidate"] != "UNDERVOTES":
            block = f"{each['county_fips']} | {each['precinct']}"
            found[block, each["party_simplified"]] += int(each["votes"])
    assert cells(release) == found
    assert release.source.endswith("by 'party_simplified', 24 of 30 rows")
    detailed = read_release(MEDSL, category="party_detailed")
    assert detailed.categories == ("DEMOCRAT", "GREEN", "REPUBLICAN", "write-in")


def test_modes_beside_their_total_are_left_out(tmp_path: Path) -> None:
    path = changed(
        tmp_path, "P1,GOVERNOR,GREEN,OTHER,MAIL,", "P1,GOVERNOR,GREEN,OTHER,TOTAL,", MEDSL
    )
    release = read_release(path)
    votes = next(
        int(each["votes"])
        for each in records(path)
        if (each["county_fips"], each["mode"], each["party_detailed"])
        == ("99001", "TOTAL", "GREEN")
    )
    assert cells(release)["99001 | P1", "OTHER"] == votes
    assert any("votes by mode, beside their total" in note for note in release.notes)


def test_towns_tell_precincts_apart(tmp_path: Path) -> None:
    text = MEDSL.read_text().replace("P2,GOVERNOR", "P1,GOVERNOR")
    lines = text.splitlines()
    towns = [
        line.replace(f"{name},{fips},{name},{fips}", f"{name},{fips},{town},{fips}")
        for line, old in zip(lines[1:], MEDSL.read_text().splitlines()[1:], strict=True)
        for name, fips in [("ALDER", "99001") if "ALDER" in line else ("BIRCH", "99003")]
        for town in ["NORTH" if old.startswith("P1") else "SOUTH"]
    ]
    path = tmp_path / "towns.csv"
    path.write_text("\n".join([lines[0], *towns]) + "\n")
    release = read_release(path)
    assert [str(block) for block in release.blocks] == [
        "99001 | NORTH | P1", "99001 | SOUTH | P1", "99003 | NORTH | P1", "99003 | SOUTH | P1",
    ]  # fmt: skip


def test_blocks_of_ones_own() -> None:
    release = read_release(PRECINCTS, **PRESIDENT, block=["precinct", "county"])
    assert "001 | Alder" in release.blocks


def test_county_totals_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text(PRECINCTS.read_text() + "Alder,Total,President,,DEM,Ada Quill,999\n")
    release = read_release(path, **PRESIDENT)
    assert len(release.blocks) == 6
    assert any("1 row left out, places that are totals of others" in n for n in release.notes)
    assert len(read_release(path, **PRESIDENT, totals="keep").blocks) == 7


def test_counties(tmp_path: Path) -> None:
    path = tmp_path / "counties.csv"
    path.write_text(
        "year,state,county_name,county_fips,office,candidate,party,candidatevotes,totalvotes\n"
        "2030,NOWHERE,ALDER,99001,US PRESIDENT,ADA QUILL,DEMOCRAT,70,100\n"
        "2030,NOWHERE,ALDER,99001,US PRESIDENT,BO MARSH,REPUBLICAN,30,100\n"
    )
    assert cells(read_release(path)) == {
        ("99001", "DEMOCRAT"): 70, ("99001", "REPUBLICAN"): 30,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "settings", "message"),
    [
        ("", "", {}, "column 'office': one value must be chosen, got 'President', 'U.S. House'; "
         "say where={'office': 'President'}"),
        ("President", "Ballots Cast", {"where": {"office": ["Ballots Cast"]}},
         "column 'office': must hold votes, got 'Ballots Cast' only; choose other rows"),
        ("Alder,002,President,,DEM,Ada Quill", "Alder,001,President,,DEM,Ada Quill", PRESIDENT,
         "row 14: block 'Alder | 001': votes must be listed once, got 'Ada Quill' in row 4 too"),
        ("Alder,002,President,,DEM", "Alder,,President,,DEM", PRESIDENT,
         "row 14, column 'county, precinct': every row needs a block id, got an empty cell"),
        (",DEM,Ada Quill,", ",DEM,Ada Quill,x", PRESIDENT, "column 'votes': must be a number, got"),
        ("Ada Quill", "", {**PRESIDENT, "category": "candidate"},
         "column 'candidate': every row needs a category, got an empty cell"),
    ],
)  # fmt: skip
def test_bad_files(tmp_path: Path, old: str, new: str, settings: Any, message: str) -> None:
    path = changed(tmp_path, old, new) if old else PRECINCTS
    with pytest.raises(ReadError, match=message):
        read_release(path, **settings)


def test_too_many_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unbin.release.readers.dialects.elections.MAX_CELLS", 10)
    with pytest.raises(ReadError, match="must have fewer cells, got 6 places of up to 4 categorie"):
        read_release(PRECINCTS, **PRESIDENT)
