"""Where the files that tests read lie."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
FIXTURES = TESTS / "fixtures"
EXPERIMENTS = ROOT / "experiments"
PUBLISHED = Path(os.environ.get("UNBIN_PUBLISHED", ROOT.parent / "shared" / "published"))


def published(name):
    """Return a file as an agency published it; a test that needs one skips without it."""
    path = PUBLISHED / name
    if not path.exists():
        pytest.skip(f"needs {name} in the folder that UNBIN_PUBLISHED names")
    return path
