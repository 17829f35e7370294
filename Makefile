# `make demo` and `make test` need Python 3.11 or newer, git and make; everything else lands in .venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint bench experiments clean

demo: .venv/installed
	$(BIN)/unbin demo

test: .venv/installed-dev lint
	$(BIN)/python -m pytest -n 2

lint: .venv/installed-dev
	$(BIN)/ruff check src tests benchmarks experiments
	$(BIN)/ruff format --check src tests benchmarks experiments
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/installed-dev
	$(BIN)/python benchmarks/matching.py
	$(BIN)/python benchmarks/likelihood.py
	$(BIN)/python benchmarks/several.py
	$(BIN)/python benchmarks/choice.py
	$(BIN)/python benchmarks/weights.py
	$(BIN)/python benchmarks/cores.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/out_of_core.py
	$(BIN)/python benchmarks/wide.py
	$(BIN)/python benchmarks/first_minute.py

# The paper's figures; those of real data are skipped unless UNBIN_DATA names its folder.
experiments: .venv/installed-dev
	$(BIN)/python experiments/figure1.py
	$(BIN)/python experiments/figures2_3.py
	$(BIN)/python experiments/figure4.py
	$(BIN)/python experiments/figure5.py
	$(BIN)/python experiments/figure6.py

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable ".[formulas,plots]"
	@touch $@

.venv/installed-dev: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch .venv/installed $@

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
