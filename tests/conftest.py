"""Settings shared by all tests."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import settings

import unbin
from tests.helpers.paths import EXPERIMENTS

if not EXPERIMENTS.is_dir():  # a copy without the scripts that these run
    collect_ignore = ["test_claims.py", "test_figures.py", "test_stored.py", "test_studies.py"]
    collect_ignore += ["docs/test_gallery.py", "docs/test_pages.py"]
    collect_ignore += ["likelihood/test_joint_coverage.py"]

SLOW = {
    "test_browser.py", "test_checkpoint_kills.py", "test_claims.py", "test_coverage.py",
    "test_dask.py", "test_dask_sources.py", "test_figures.py", "test_from_r.py",
    "test_joint_coverage.py", "test_joint_fits.py", "test_studies.py",
}  # fmt: skip
"""Modules of slow tests, which ``make test`` leaves to ``make test-all``."""


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.name in SLOW:
            item.add_marker("slow")


# the same examples in every run of CI; a developer's machine keeps exploring
settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("ci")


@dataclass(frozen=True)
class Study:
    """People, what was published of them, and fits that pictures and reports are made of."""

    X: pd.DataFrame
    y: np.ndarray
    blocks: np.ndarray
    release: unbin.Release
    model: unbin.AggregatedGLM
    oracle: unbin.AggregatedGLM
    matching: unbin.AggregatedGLM


HOSTILE = (
    "<script>alert(1)</script>",
    "$x$ & $10,000",
    "=cmd()|'/C calc'!A0 [bold]",
    '" onload="x" ' + "very long " * 20,
)


@pytest.fixture(scope="session")
def study():
    """Return 40 blocks, the first of 6 people, with features and blocks of hostile names."""
    rng = np.random.default_rng(5)
    size = np.concatenate([[6, 7], np.linspace(40, 160, 38).astype(int)])
    names = [f"{name} {k}" for k, name in enumerate((HOSTILE * 10)[:40])]
    blocks = np.repeat(names, size)
    codes = np.repeat(np.arange(40), size)
    X = rng.normal(size=(len(codes), 4)) + 0.7 * rng.normal(size=(40, 4))[codes]
    y = X @ [1.0, -0.5, 0.0, 0.3] + rng.normal(size=len(codes))
    frame = pd.DataFrame(X, columns=list(HOSTILE))
    release = unbin.aggregate(y, blocks, bins=5)
    target = release.align(blocks)
    return Study(
        frame,
        y,
        blocks,
        release,
        unbin.AggregatedGLM(random_state=0).fit(frame, target),
        unbin.AggregatedGLM().fit(frame, y),
        unbin.AggregatedGLM(method="matching", random_state=0).fit(frame, target),
    )


@pytest.fixture(scope="session")
def joint(study):
    """Return a fit to two tables of hostile names; only the first has counts to be masked."""
    first, second = (pd.Series(ids, name=name) for name, ids in (
        (HOSTILE[0], study.blocks),
        (HOSTILE[3], np.digitize(study.X.iloc[:, 2], np.linspace(-1, 1, 11)).astype(str)),
    ))  # fmt: skip
    target = unbin.join(
        study.release.align(first), unbin.aggregate(study.y, second, bins=3).align(second)
    )
    return unbin.AggregatedGLM(random_state=0).fit(study.X, target)


@pytest.fixture(scope="session")
def crowd():
    """Return a fit to ten tables of the same people."""
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.normal(size=(3000, 10)), columns=[f"x{j}" for j in range(10)])
    y = 0.3 * X.to_numpy().sum(axis=1) + rng.normal(size=3000)
    cuts = [pd.Series(np.digitize(X[name], [-1, 0, 1]), name=f"by {name}") for name in X]
    tables = [unbin.aggregate(y, ids, bins=3).align(ids) for ids in cuts]
    return unbin.AggregatedGLM().fit(X, unbin.join(*tables))


@pytest.fixture(scope="session")
def audited(study):
    """Return an audit of people, features and levels with hostile names, some blocks small."""
    return unbin.audit(
        study.X,
        study.y,
        {HOSTILE[0]: study.blocks, HOSTILE[3]: None},
        bins=[3, 6],
        attacks=("matching", "likelihood"),
        families=("gaussian",),
        suppress=11,
        n_permutations=19,
        random_state=0,
    )


@pytest.fixture(scope="session")
def real_data():
    """Return the folder of the real data that UNBIN_DATA names."""
    folder = os.environ.get("UNBIN_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("UNBIN_DATA does not name the folder of the real data")
    pytest.importorskip("pandas")
    return folder
