# Everything runs in .venv, which the first target that needs it creates. `make` lists the targets.

EXPERIMENT ?= data/handbook
PORT ?= 3000

# Python 3.11 where it is there: the pinned versions are tested with it.
PYTHON ?= $(shell for python in python3.11 python3 python3.12 python3.13; do \
	$$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	>/dev/null 2>&1 && echo $$python && break; done)

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# Two test processes with one thread each: on two cores, more threads only wait for each other. Each takes
# half of the files, and then from the other, so most fixtures of a file are made once. Compiled modules
# are kept, whatever the environment says: a hundred processes import them.
TEST_PROCESSES ?= 2

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: evaluate
evaluate: $(INSTALLED) ## evaluate an experiment and print its leaderboard (EXPERIMENT=path)
	@$(BIN)/rag-assets evaluate "$(EXPERIMENT)"

.PHONY: test
test: lint ## lint, types and all tests that take less than ten seconds each
	@$(MAKE) --no-print-directory -j 2 types unit  # mypy uses one core for a tenth of the time

.PHONY: setup
setup: $(INSTALLED) ## create .venv and install the pinned packages

$(INSTALLED): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer with venv and pip is needed; none was found. Name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "installing packages into $(VENV), once: about 3.4 GB on disk, one to three minutes ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv --clear $(VENV)
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install -qq --no-compile --constraint constraints.txt --editable '.[dev]'
	@# In parallel, and twice as fast as pip does it. A few packages ship files for other Pythons.
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	@touch $@

.PHONY: lint
lint: $(INSTALLED) ## style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

.PHONY: types
types: $(INSTALLED) ## static types
	$(BIN)/mypy

.PHONY: unit
unit: $(INSTALLED) ## the tests of `make test` only (ARGS="-k name" for some of them)
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/pytest -n $(TEST_PROCESSES) --dist worksteal -m "not slow" $(ARGS)

.PHONY: slow
slow: $(INSTALLED) ## the tests that take longer: kills, daemons, clusters, the Dagster UI, built packages
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/pytest -n $(TEST_PROCESSES) --dist worksteal -m slow $(ARGS)

.PHONY: quick
quick: $(INSTALLED) ## the core tests of every package, in less than a minute (tests/quick.txt)
	@PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/pytest -n $(TEST_PROCESSES) --dist worksteal @tests/quick.txt $(ARGS)

.PHONY: journeys
journeys: $(INSTALLED) ## what people do, from a folder to a decision: the covering array, its journeys, the advices run
	@$(BIN)/python -m tests.journeys.pairs
	@OMP_NUM_THREADS=1 $(BIN)/pytest tests/journeys -q -n $(TEST_PROCESSES) --dist worksteal -m "not slow" $(ARGS)

.PHONY: coverage
coverage: $(INSTALLED) ## all tests, and which lines and branches of each package they run (ARGS="tests/retrieval/fusion")
	@OMP_NUM_THREADS=1 $(BIN)/pytest -n $(TEST_PROCESSES) --dist worksteal --cov --cov-report= $(ARGS); \
	status=$$?; $(BIN)/python -m tests.coverage_table && exit $$status

.PHONY: packages
packages: $(INSTALLED) ## the package beside the lowest and the newest versions that it allows: installs for minutes
	@RAG_ASSETS_PACKAGES=1 OMP_NUM_THREADS=1 $(BIN)/pytest tests/packaging $(ARGS)

.PHONY: mutants
mutants: $(INSTALLED) ## small changes of the code that tests must notice (ARGS="retrieval/fusion --sample 100")
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.mutants $(ARGS)

.PHONY: bench
bench: $(INSTALLED) ## all benchmarks, and docs/benchmarks.md (ARGS="--quick", "--only NAME", "--data DIR")
	$(BIN)/python benchmarks/bench.py $(ARGS)

.PHONY: ui
ui: $(INSTALLED) ## the Dagster UI on this machine (PORT=3000)
	@$(BIN)/dagster dev --host 127.0.0.1 --port $(PORT)

.PHONY: format
format: $(INSTALLED) ## put the code into the common format
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

.PHONY: option-tables
option-tables: $(INSTALLED) ## fill in the tables of options in docs/ from the code
	@$(BIN)/python -m tests.option_tables

.PHONY: reference
reference: $(INSTALLED) ## write docs/reference/ and the plots of docs/weightings.md from the code
	@$(BIN)/python -m tests.reference_pages
	@$(BIN)/python -m tests.weighting_plots

.PHONY: docs
docs: $(INSTALLED) ## the documentation as a site, in build/site; warnings are errors
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "open build/site/index.html; its search needs a server: $(BIN)/python -m http.server -d build/site"

.PHONY: constraints
constraints: ## pin the newest versions that pyproject.toml allows, found in a new environment
	@rm -rf build/pin && $(PYTHON) -m venv build/pin
	@build/pin/bin/python -m pip install -qq --upgrade setuptools
	@# A newer torch is taken by hand: see constraints.txt.
	@grep '^torch==' constraints.txt > build/torch.txt
	@build/pin/bin/python -m pip install -qq --no-compile --constraint build/torch.txt --editable '.[dev]'
	@{ sed '/^#/!d' constraints.txt; \
	   build/pin/bin/python -m pip freeze --all --exclude-editable --exclude pip --exclude wheel \
	   | sed 's/+.*//'; } > build/constraints.txt
	@mv build/constraints.txt constraints.txt && rm -rf build/pin build/torch.txt
	@echo "constraints.txt is new; now: make test"

.PHONY: dist
dist: $(INSTALLED) ## sdist and wheel, in dist (RAG_ASSETS_REPOSITORY=address for absolute links)
	@$(BIN)/python -m build --outdir dist .

.PHONY: clean
clean: ## remove caches and builds; leaves data/store (results) and .venv
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist .tmp_dagster_home_*
	find rag_assets tests -type d -name __pycache__ -prune -exec rm -rf {} +
	@echo "data/store is left as it is"
