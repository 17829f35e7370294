"""Where the files that tests read lie."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
FIXTURES = TESTS / "fixtures"
EXPERIMENTS = ROOT / "experiments"
