"""The page for users of R prints what it says, where R and reticulate are installed."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tests.helpers import acs
from tests.helpers.documents import DOCS, read_examples
from tests.helpers.paths import ROOT

PAGE = DOCS / "howto" / "from_r.md"
_OLDEST = "1.38"
"""The first reticulate that knows NumPy 2."""


def run_r(script, folder):
    """Run a script in a session whose Python is this one."""
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = os.environ | {"RETICULATE_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(paths)}
    (folder / "page.R").write_text(script, encoding="utf-8")
    return subprocess.run(
        ["Rscript", "page.R"],
        cwd=folder,
        env=env,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )


@pytest.fixture
def reticulate(tmp_path):
    """Skip where there is no R, or none that understands this Python's arrays."""
    if shutil.which("Rscript") is None:
        pytest.skip("needs R")
    asked = f"stopifnot(packageVersion('reticulate') >= '{_OLDEST}')"
    if np.__version__.startswith("1."):
        asked = "packageVersion('reticulate')"
    if run_r(asked, tmp_path).returncode:
        pytest.skip(f"needs reticulate, of version {_OLDEST} for NumPy 2")


@pytest.mark.usefixtures("reticulate")
def test_r_prints_what_is_shown(tmp_path):
    examples = read_examples(PAGE.read_text(encoding="utf-8"), kinds=("r",))
    acs.write_files(tmp_path)
    script = "".join(f'cat("\\001")\n{example.code}' for example in examples)
    result = run_r(script, tmp_path)
    assert result.returncode == 0, result.stderr
    printed = result.stdout.split("\x01")[1:]
    shown = [example.expected or "" for example in examples]
    assert [text.rstrip() for text in printed] == [text.rstrip() for text in shown]
