"""The public surface, pinned."""

import inspect

import pytest

import unbin
from tests.helpers.processes import run_python

PUBLIC = [
    "AggregatedClassifier",
    "AggregatedGLM",
    "AggregatedRegressor",
    "AggregatedTarget",
    "BlockKFold",
    "Release",
    "aggregate",
    "audit",
    "compare",
    "cross_validate",
    "datasets",
    "exceptions",
    "glm",
    "join",
    "load",
    "observed",
    "permutation_test",
    "plots",
    "read_release",
    "read_releases",
    "report",
    "save",
]


def test_public_names():
    assert sorted(unbin.__all__) == PUBLIC
    assert all(hasattr(unbin, name) for name in PUBLIC)


def test_nothing_but_public_names_is_offered():
    offered = [name for name in dir(unbin) if not name.startswith("_")]
    assert sorted(offered) == PUBLIC


@pytest.mark.parametrize("name", ["datasets", "exceptions", "plots", "report"])
def test_modules_are_there_after_a_plain_import(name):
    assert run_python(f"import unbin; print(unbin.{name}.__name__)").endswith(name)


def test_releases_are_read_as_documented():
    signatures = {
        "from_categories": ["frame", "block", "category", "count"],
        "from_histogram": ["frame", "block", "lower", "upper", "count"],
        "from_quantiles": ["frame", "block", "quantile", "value", "n"],
        "from_values": ["frame", "block", "value"],
    }
    for name, wanted in signatures.items():
        given = inspect.signature(getattr(unbin.Release, name)).parameters
        assert set(wanted) <= set(given)


def test_every_error_is_an_unbin_error():
    classes = [
        cls
        for _, cls in inspect.getmembers(unbin.exceptions, inspect.isclass)
        if issubclass(cls, Exception) and not issubclass(cls, Warning)
    ]
    assert len(classes) >= 10
    assert all(issubclass(cls, unbin.exceptions.UnbinError) for cls in classes)
    for cls in classes:
        assert cls.__name__ in (unbin.exceptions.__doc__ or "")


def test_import_is_light():
    code = (
        "import sys, unbin; heavy = ('matplotlib', 'dask', 'torch', 'pandas', 'polars'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    assert run_python(code) == "[]"
