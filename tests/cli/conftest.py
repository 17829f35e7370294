"""Folders that commands are run in."""

import pytest

from tests.helpers.cli import FORMULA, run
from tests.helpers.people import simulate_patients


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Return a folder with people, their release, and a fit."""
    place = tmp_path_factory.mktemp("cli")
    simulate_patients().round(3).to_csv(place / "people.csv", index=False)
    made = run(
        "aggregate", place / "people.csv", "--target", "cost", "--block", "county",
        "--bins", 6, "--output", place / "release.csv",
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    fit = run(
        "fit", place / "people.csv", place / "release.csv", "--block", "county",
        "--formula", FORMULA, "--output", place / "out",
    )  # fmt: skip
    assert fit.exit_code == 0, fit.output
    (place / "fit.txt").write_text(fit.stdout)
    return place


@pytest.fixture
def small(tmp_path):
    """Return a folder with seven people in two counties."""
    (tmp_path / "people.csv").write_text(
        "county,y,x\n05001,1,1\n05001,2,2\n05001,3,3\n05001,4,4\n05003,1,2\n05003,5,3\n05003,6,1\n"
    )
    (tmp_path / "release.csv").write_text(
        "block,lower,upper,count\n05001,,3,3\n05001,3,,1\n05003,,3,1\n05003,3,,2\n"
    )
    return tmp_path


@pytest.fixture(scope="session")
def tables(tmp_path_factory):
    """Return a folder with people, their tables by county and by age group and sex, and a fit."""
    place = tmp_path_factory.mktemp("tables")
    people = simulate_patients().round(3)
    people["age_group"] = (people["age"] // 10).astype(int)
    people.to_csv(place / "people.csv", index=False)
    made = run(
        "aggregate", place / "people.csv", "--target", "cost", "--block", "county", "--block",
        "age_group,sex", "--bins", 6, "--output", place,
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    fit = run(
        "fit", place / "people.csv", place / "county.csv", place / "age_group-sex.csv", "--block",
        "county", "--block", "age_group,sex", "--formula", FORMULA, "--output", place / "out",
        "--write-imputed",
    )  # fmt: skip
    assert fit.exit_code == 0, fit.output
    (place / "fit.txt").write_text(fit.stdout)
    (place / "fit.err").write_text(fit.stderr)
    return place
