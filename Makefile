# Every task of the project; `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: help demo test test-all built collected test-plane test-rest quick test-quick lint format types arrows plane bench docs lock beside clean long

PYTHONS := python3.13 python3.12 python3.11 python3
FITS := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for name in $(PYTHONS); do if $$name -c '$(FITS)' 2>/dev/null; then command -v $$name; break; fi; done)
unexport PYTHONDONTWRITEBYTECODE  # images often set it: every process would then compile all tests anew, asserts and all
BIN := .venv/bin
READY := .venv/.ready
SHORT := and not extended  # test-all leaves this out
DURATIONS := --durations 25
SPARING := GOMAXPROCS=1  # programs in Go look for work on every core whenever they wake: a tenth of what the tests take

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(READY) ## the story on a real control plane: gangs whole, packed, preempting, explained, foretold; a burst; elastic jobs
	$(BIN)/python -m bench.demo

test: $(READY) lint ## everything that must hold: lint, arrows, types, and all tests (on a real control plane)
	$(MAKE) --no-print-directory --jobs 4 arrows types test-plane test-rest

test-all: ## the same, walks at full length, and what is proven elsewhere too or is about a bench (CONTRIBUTING says what)
	GANGWRIGHT_STEPS=40000 $(MAKE) --no-print-directory test SHORT=

built: $(READY)
	$(BIN)/python -m bench.plane build
	$(BIN)/python -m bench.horovod build
	-$(BIN)/python -m bench.horovod torch  # PyTorch, where Debian has it
	-$(BIN)/python -m tests.status.support.chromium  # a browser for the page, where one is to be had

# Once, so that not each of the four processes that run the tests compiles all of them.
collected: $(READY)
	$(BIN)/python -m pytest --collect-only -qq > /dev/null || true  # what is wrong, they say

# Tests of the plane wait for most of their time: the others take what they leave of two cores. They are told when they
# end, so that no two lines of progress mix.
test-plane: built collected
	$(SPARING) $(BIN)/python -m pytest -m "plane $(SHORT)" -n 3 --dist loadscope --no-loadscope-reorder --randomly-dont-reorganize $(DURATIONS)  # those that train beside all others (tests/support/sides.py)

test-rest: built collected
	nice -n 10 $(BIN)/python -m pytest -m "not plane $(SHORT)" -n 2 $(DURATIONS) | { said=$$(cat); echo "$$said"; }

quick: $(READY) lint ## like test, without the control plane and without slow tests: about a minute
	$(MAKE) --no-print-directory --jobs 3 arrows types test-quick

test-quick: $(READY)
	$(BIN)/python -m pytest -m "not plane and not slow $(SHORT)" -n 2

long: $(READY) ## the property tests with a hundred times the steps
	GANGWRIGHT_STEPS=2000000 $(BIN)/python -m pytest tests/engine --timeout 0

lint: $(READY) ## ruff: style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(READY) ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(READY) ## mypy, strict
	$(BIN)/mypy

arrows: $(READY) ## import-linter: which room may know which
	$(BIN)/lint-imports --no-logo

plane: $(READY) ## a control plane by hand; prints a KUBECONFIG line and stays until Ctrl-C
	$(BIN)/python -m bench.plane up

bench: $(READY) ## the planner and the filter verb, measured here and now
	$(BIN)/python -m bench.micro

docs: $(READY) ## the documentation as a site, from docs/ into site/
	$(BIN)/python -m tests.docs.site

lock: $(READY) ## pin every dependency anew, with hashes and without index addresses
	$(BIN)/python -m pip install --quiet uv
	for name in requirements.lock: requirements-dev.lock:--group=dev; do \
	  file=$${name%%:*}; \
	  $(BIN)/uv pip compile --quiet --upgrade --python-version 3.11 --universal --generate-hashes \
	    --no-emit-index-url --no-header $${name#*:} pyproject.toml -o $$file; \
	  sed -i '1i # Made by `make lock`: exact versions with hashes; index addresses stay out.' $$file; \
	done

beside: $(READY) ## resolve our dependencies together with TensorFlow 2.15.1 and Horovod 0.28.1; installs nothing
	$(BIN)/python -m pip install --quiet uv
	printf '%s\n' tensorflow==2.15.1 horovod==0.28.1 | $(BIN)/uv pip compile --quiet --python-version 3.11 \
	  --no-emit-index-url --no-header --no-annotate pyproject.toml -

clean: ## forget the virtual environment and every cache in the tree
	rm -rf .venv .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis dist build site

$(READY): requirements-dev.lock pyproject.toml
	@$(or $(PYTHON),false) -c '$(FITS)' 2>/dev/null || { \
	  echo "Python 3.11 or newer with its module venv is needed; $(if $(PYTHON),$(PYTHON) is not,none of $(PYTHONS) is) one." >&2; \
	  echo "On Debian and Ubuntu: apt-get install python3-venv. Another Python: make PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
