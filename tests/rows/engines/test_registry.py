"""One registry of engines, and rows that make sums their own way."""

import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from unbin.exceptions import EngineError, ParameterError
from unbin.rows.design import lay_out, row_sums
from unbin.rows.engines import ENGINES, Engine, Options, open_engine
from unbin.rows.rows import Rows, kernel


@pytest.mark.parametrize("name", list(ENGINES))
def test_every_engine_opens_by_its_name(name):
    if name == "torch":
        pytest.importorskip("torch")
    engine = open_engine(name, Options(n_threads=1, device="cpu"))
    assert isinstance(engine, Engine)
    assert engine.name == name


def test_engines_are_imported_when_they_are_asked_for():
    code = (
        "import sys, unbin.estimator; "
        "print([name for name in ('dask', 'distributed', 'torch') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_an_engine_says_which_features_it_does_not_take():
    with pytest.raises(ParameterError, match="takes Parquet files, Dask frames or Dask arrays"):
        open_engine("dask", Options(n_threads=1)).check(np.zeros((3, 2)))
    local = open_engine("local", Options(n_threads=1))
    local.check(np.zeros((3, 2)))
    assert not local.owns(np.zeros((3, 2)))
    pytest.importorskip("torch")
    with pytest.raises(EngineError, match="solver 'alternating' needs everybody's targets"):
        open_engine("torch", Options(n_threads=1, device="cpu", alternating=True))


@dataclass(frozen=True, slots=True)
class Own(Rows):
    def row_sums(self):
        return (np.full((len(self.blocks), 3), 7.0),)


def test_rows_with_a_method_of_the_kernels_name_make_its_sums():
    rows = lay_out(np.arange(12.0).reshape(6, 2), np.array([0, 0, 1, 1, 1, 2]), 3).in_memory()
    own = Own(*(getattr(rows, name) for name in Rows.__slots__))
    assert (row_sums(own)[0] == 7.0).all()
    assert not (row_sums(rows)[0] == 7.0).any()


def test_a_kernel_keeps_its_name_and_its_arguments():
    @kernel
    def total(rows, factor):
        """Add up."""
        return factor * sum(rows)

    assert (total.__name__, total.__doc__) == ("total", "Add up.")
    assert total([1, 2], 3) == 9
