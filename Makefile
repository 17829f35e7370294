# `make demo` and `make test` need Python 3.11 or newer, git and make; everything else lands in .venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-all lint docs bench experiments studies clean

demo: .venv/installed
	$(BIN)/unbin demo

test: .venv/installed-dev lint
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

# Clusters, browsers, killed processes and simulated claims too: five minutes more.
test-all: .venv/installed-dev lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: .venv/installed-dev
	$(BIN)/ruff check src tests benchmarks experiments studies docs
	$(BIN)/ruff format --check src tests benchmarks experiments studies docs
	$(BIN)/mypy
	$(BIN)/lint-imports

# The documentation, docs/_build/html/index.html; a warning is an error.
docs: .venv/installed-docs
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --jobs 2 --quiet --doctree-dir docs/_build/doctrees \
		docs docs/_build/html

bench: .venv/installed-dev
	$(BIN)/python benchmarks/matching.py
	$(BIN)/python benchmarks/likelihood.py
	$(BIN)/python benchmarks/several.py
	$(BIN)/python benchmarks/choice.py
	$(BIN)/python benchmarks/weights.py
	$(BIN)/python benchmarks/cores.py
	$(BIN)/python benchmarks/many.py
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

# The leaderboard: what is not in studies/results.csv yet, then docs/studies.md and its picture.
studies: .venv/installed-dev
	$(BIN)/python -m studies.run
	$(BIN)/python -m studies.page

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable ".[formulas,plots]"
	@touch $@

.venv/installed-dev: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch .venv/installed $@

.venv/installed-docs: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	@touch .venv/installed $@

clean:
	rm -rf docs/_build docs/api/generated docs/auto_gallery
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
