# Every task of the project. Run `make` to list them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: help demo preview test test-all built collected test-plane test-rest quick test-quick lint format types imports plane bench docs lock beside clean long

PYTHONS := python3.13 python3.12 python3.11 python3
FITS := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(eval PYTHON := $(shell for name in $(PYTHONS); do if $$name -c '$(FITS)' 2>/dev/null; then command -v $$name; break; fi; done))$(PYTHON)
unexport PYTHONDONTWRITEBYTECODE  # images often set it: every process would then compile all tests again
BIN := .venv/bin
READY := .venv/.ready
FIRST := .venv/.first
ENOUGH := numpy|rich|markdown-it-py|mdurl|pygments|typer|shellingham|annotated-doc  # for the preview
SHORT := and not extended  # test-all drops this
DURATIONS := --durations 25
SPARING := GOMAXPROCS=1  # Go programs look for work on every core whenever they wake, which takes a tenth of the test time

help: ## list the tasks
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: preview $(READY) ## run the demo on a real control plane: gang starts, packing, preemption, forecasts, a burst, elastic jobs
	$(BIN)/python -m bench.demo

# What the engine does, within seconds: it needs a few packages, and everything else takes minutes the first time.
preview: $(FIRST)
	@$(BIN)/python -m bench.demo.preview

test: $(READY) lint ## run lint, import rules, types and all tests, on a real control plane
	$(MAKE) --no-print-directory --jobs 4 imports types test-plane test-rest

test-all: ## run the same and the tests marked extended, with random walks at full length (see CONTRIBUTING)
	GANGWRIGHT_STEPS=40000 $(MAKE) --no-print-directory test SHORT=

built: $(READY)
	$(BIN)/python -m bench.plane build
	$(BIN)/python -m bench.horovod build
	-$(BIN)/python -m bench.horovod torch  # PyTorch, if Debian has it
	-$(BIN)/python -m tests.status.support.chromium  # a browser for the page, if one can be installed
	-$(BIN)/python -m tests.status.support.axe  # what judges its accessibility, if there is npm

# Compile the tests once, so that the four processes that run them do not each do so.
collected: $(READY)
	$(BIN)/python -m pytest --collect-only -qq > /dev/null || true  # the test run itself reports errors

# Plane tests mostly wait, so the other tests use what they leave of two cores. The others print their output at the end,
# so that lines of progress do not mix.
test-plane: built collected
	$(SPARING) $(BIN)/python -m pytest -m "plane $(SHORT)" -n 3 --dist loadscope --no-loadscope-reorder --randomly-dont-reorganize $(DURATIONS)  # training tests run beside all others (tests/support/sides.py)

test-rest: built collected
	nice -n 10 $(BIN)/python -m pytest -m "not plane $(SHORT)" -n 2 $(DURATIONS) | { said=$$(cat); echo "$$said"; }

quick: $(READY) lint ## run test without the control plane and without slow tests: about a minute
	$(MAKE) --no-print-directory --jobs 3 imports types test-quick

test-quick: $(READY)
	$(BIN)/python -m pytest -m "not plane and not slow $(SHORT)" -n 2

long: $(READY) ## run the property tests with a hundred times the steps
	GANGWRIGHT_STEPS=2000000 $(BIN)/python -m pytest tests/engine --timeout 0

lint: $(READY) ## check style and formatting with ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(READY) ## fix style and formatting with ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(READY) ## check types with mypy, strict
	$(BIN)/mypy

imports: $(READY) ## check the import rules with import-linter
	$(BIN)/lint-imports --no-logo

plane: $(READY) ## start a control plane; prints a KUBECONFIG line and runs until Ctrl-C
	$(BIN)/python -m bench.plane up

bench: $(READY) ## measure the planner and the filter endpoint on this machine
	$(BIN)/python -m bench.micro

docs: $(READY) ## build the documentation as a site, from docs/ into site/
	$(BIN)/python -m tests.docs.site

lock: $(READY) ## pin every dependency again, with hashes and without index addresses
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

clean: ## delete the virtual environment and every cache in the tree
	rm -rf .venv .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis dist build site

$(FIRST): requirements-dev.lock
	@$(or $(PYTHON),false) -c '$(FITS)' 2>/dev/null || { \
	  echo "Python 3.11 or newer with its module venv is needed; $(if $(PYTHON),$(PYTHON) is not,none of $(PYTHONS) is) one." >&2; \
	  echo "On Debian and Ubuntu: apt-get install python3-venv. Another Python: make PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	awk '/^[^ ]/ {kept = $$0 ~ /^($(strip $(ENOUGH)))==/} kept' requirements-dev.lock > .venv/first.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes -r .venv/first.lock
	@touch $@

$(READY): $(FIRST) requirements-dev.lock pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
