# Targets for developers. The first target that needs it sets up .venv, once.
#
# To use your own environment: make test VENV=/path/to/it, or set LEAVEN_VENV. It is not changed if Leaven can be imported
# there.

.DEFAULT_GOAL := help

PYTHON3 ?= python3
LEAVEN_VENV ?= .venv
VENV ?= $(LEAVEN_VENV)
BIN := $(VENV)/bin
PYTHON := $(BIN)/python
STAMP := $(VENV)/.leaven-installed

# An environment that is not ours and has Leaven installed is used as it is. In ours, the stamp file tells whether the
# dependencies in pyproject.toml are installed.
IS_READY := $(shell [ ! -e $(STAMP) ] && [ -x $(PYTHON) ] && $(PYTHON) -c 'import leaven.cli.main, pytest' 2>/dev/null && echo yes)

# Tests in several processes, each with one thread: a test that trains is small, and loading torch takes longer.
PYTEST := OMP_NUM_THREADS=1 $(PYTHON) -m pytest -n logical --maxprocesses 4 --dist worksteal

.PHONY: help setup demo test test-slow test-jobs test-all check fuzz bench bench-smoke bless clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## ?/\t/' | expand -t 13

ifeq ($(IS_READY),yes)
setup:
else
setup: $(STAMP)  ## create the virtual environment (once; PyTorch is large)
endif

$(STAMP): pyproject.toml
	@$(PYTHON3) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Leaven needs Python 3.11 or newer; set PYTHON3=/path/to/python3" >&2; exit 1; }
	@echo "Setting up $(VENV). PyTorch is large: the first time takes a few minutes."
	@$(PYTHON3) -m venv $(VENV)
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --editable '.[starters,dev]'
	@$(PYTHON) -m compileall -q src/leaven  # otherwise every start compiles, if PYTHONDONTWRITEBYTECODE is set
	@touch $(STAMP)

demo: setup  ## train the quickstart, compare, predict (a few minutes)
	@$(PYTHON) examples/demo.py

test: setup  ## run the tests (at most 8 minutes on two cores)
	@$(PYTEST) -m 'not slow'

test-slow: setup  ## run only the slow tests
	@$(PYTEST) -m 'slow and not jobs'

test-jobs: setup  ## run only the tests that kill jobs for minutes; without Slurm, Ray or PostgreSQL some are skipped
	@$(PYTEST) -m jobs -rs --maxprocesses 2 --dist loadfile

test-all: setup  ## run all tests
	@$(PYTEST)

check: setup  ## the gate: lint, format, types, tests
	@$(PYTHON) -m ruff check
	@$(PYTHON) -m ruff format --check
	@$(PYTHON) -m mypy
	@$(PYTEST) -m 'not slow'

fuzz: setup  ## 200,000 mutated recipes (CASES=n for another number)
	@LEAVEN_FUZZ_CASES=$(or $(CASES),200000) $(PYTEST) tests/fuzz

bench: setup  ## run the benchmarks of docs/benchmarks.md
	@failed=; for script in bench/*.py; do echo "== $$script"; $(PYTHON) "$$script" $(FLAGS) || failed="$$failed $$script"; done; \
	  [ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

bench-smoke:  ## start every benchmark in its smallest form, on drawn data
	@$(MAKE) --no-print-directory bench FLAGS=--smoke

bless: setup  ## rewrite the expected outputs in tests/; read the diff as code
	@LEAVEN_BLESS=1 $(PYTHON) -m pytest

clean:  ## remove caches and build files (but not .venv)
	@rm -rf build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
