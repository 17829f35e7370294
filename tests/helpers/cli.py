"""Commands as a user calls them, and the files they are given."""

from typer.testing import CliRunner

import unbin
from unbin._frames import to_frame
from unbin.cli import app

FORMULA = "age + C(sex) + log(los)"


def run(*args):
    """Run a command and return its result."""
    return CliRunner().invoke(app, [str(arg) for arg in args])


def write_release(people, path):
    """Write the costs of patients in six bins, a histogram for each county."""
    release = unbin.aggregate(people["cost"], people["county"], bins=6)
    to_frame(release.to_columns()["histogram"], "pandas").to_csv(path, index=False)
