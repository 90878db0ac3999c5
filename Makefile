# Every task of the project; `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: help demo test test-all built collected test-plane test-rest quick test-quick lint format types arrows plane bench lock beside clean long

PYTHONS := python3.13 python3.12 python3.11 python3
FITS := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for name in $(PYTHONS); do if $$name -c '$(FITS)' 2>/dev/null; then command -v $$name; break; fi; done)
unexport PYTHONDONTWRITEBYTECODE  # images often set it: every process would then compile all tests and asserts again
BIN := .venv/bin
READY := .venv/.ready
SHORT := and not extended  # test-all leaves this out
DURATIONS := --durations 25
SPARING := GOMAXPROCS=1  # Go programs search for work on every core whenever they wake: a tenth of the tests' CPU time

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(READY) ## run the demo on a real control plane: gangs packed, preempting, explained, forecast; a burst; elastic jobs
	$(BIN)/python -m bench.demo

test: $(READY) lint ## run lint, arrows, types, and all tests (on a real control plane)
	$(MAKE) --no-print-directory --jobs 4 arrows types test-plane test-rest

test-all: ## run the same with full-length walks, and the extended tests (see CONTRIBUTING)
	GANGWRIGHT_STEPS=40000 $(MAKE) --no-print-directory test SHORT=

built: $(READY)
	$(BIN)/python -m bench.plane build
	$(BIN)/python -m bench.horovod build
	-$(BIN)/python -m bench.horovod torch  # PyTorch, if Debian has it
	-$(BIN)/python -m tests.status.support.chromium  # a browser for the page, if one is available

# Once, so that the four processes that run the tests don't all compile them.
collected: $(READY)
	$(BIN)/python -m pytest --collect-only -qq > /dev/null || true  # the test processes report errors

# Tests of the plane wait for most of their time, so the others use the rest of two cores. Their output is printed at the
# end, so that lines of progress don't mix.
test-plane: built collected
	$(SPARING) $(BIN)/python -m pytest -m "plane $(SHORT)" -n 3 --dist loadscope --no-loadscope-reorder --randomly-dont-reorganize $(DURATIONS)  # those that train beside all others (tests/support/sides.py)

test-rest: built collected
	nice -n 10 $(BIN)/python -m pytest -m "not plane $(SHORT)" -n 2 $(DURATIONS) | { said=$$(cat); echo "$$said"; }

quick: $(READY) lint ## run the tests without the control plane and without slow tests: about a minute
	$(MAKE) --no-print-directory --jobs 3 arrows types test-quick

test-quick: $(READY)
	$(BIN)/python -m pytest -m "not plane and not slow $(SHORT)" -n 2

long: $(READY) ## run the property tests with a hundred times the steps
	GANGWRIGHT_STEPS=2000000 $(BIN)/python -m pytest tests/engine --timeout 0

lint: $(READY) ## run ruff: style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(READY) ## let ruff fix and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(READY) ## run mypy (strict)
	$(BIN)/mypy

arrows: $(READY) ## run import-linter: which package may import which
	$(BIN)/lint-imports --no-logo

plane: $(READY) ## start a control plane; prints a KUBECONFIG line and runs until Ctrl-C
	$(BIN)/python -m bench.plane up

bench: $(READY) ## measure the planner and the filter endpoint
	$(BIN)/python -m bench.micro

lock: $(READY) ## update the pins of all dependencies, with hashes and without index addresses
	$(BIN)/python -m pip install --quiet uv
	for name in requirements.lock: requirements-dev.lock:--group=dev; do \
	  file=$${name%%:*}; \
	  $(BIN)/uv pip compile --quiet --upgrade --python-version 3.11 --universal --generate-hashes \
	    --no-emit-index-url --no-header $${name#*:} pyproject.toml -o $$file; \
	  sed -i '1i # Made by `make lock`: exact versions with hashes; index addresses stay out.' $$file; \
	done

beside: $(READY) ## resolve the dependencies together with TensorFlow 2.15.1 and Horovod 0.28.1; installs nothing
	$(BIN)/python -m pip install --quiet uv
	printf '%s\n' tensorflow==2.15.1 horovod==0.28.1 | $(BIN)/uv pip compile --quiet --python-version 3.11 \
	  --no-emit-index-url --no-header --no-annotate pyproject.toml -

clean: ## delete the virtual environment and all caches in the tree
	rm -rf .venv .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis dist build

$(READY): requirements-dev.lock pyproject.toml
	@$(or $(PYTHON),false) -c '$(FITS)' 2>/dev/null || { \
	  echo "Python 3.11 or newer with the venv module is required; $(if $(PYTHON),$(PYTHON) is not,none of $(PYTHONS) is) one." >&2; \
	  echo "On Debian and Ubuntu: apt-get install python3-venv. Another Python: make PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
