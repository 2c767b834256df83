# The README's two commands are `make demo` and `make test`; each does its own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Node comes from PATH, or else from the PyPI package in the extra "node".
NODE := $(shell command -v node >/dev/null 2>&1 || echo node)
comma := ,
AND_NODE := $(if $(NODE),$(comma)node)

.PHONY: help demo test attacks soak fuzz lint types docs bench wheel-test clean

help:  ## print the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(VENV)/.base$(NODE): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.$(if $(NODE),[node])'
	@touch $@

$(VENV)/.test$(NODE): $(VENV)/.base$(NODE)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test$(AND_NODE)]'
	@touch $@

$(VENV)/.dev$(NODE): $(VENV)/.test$(NODE)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,dev$(AND_NODE)]'
	@touch $@

$(VENV)/.bench$(NODE): $(VENV)/.base$(NODE)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench$(AND_NODE)]'
	@touch $@

demo: $(VENV)/.base$(NODE)  ## install, then show a tool refused, run, sent to approval, and a hostile one contained
	@$(BIN)/python examples/demo.py

test: $(VENV)/.test$(NODE)  ## install what tests need and run all of them
	@$(BIN)/python -m pytest

attacks: $(VENV)/.test$(NODE)  ## run every hostile case in every tier this host has, and print the table
	@$(BIN)/python tests/attacks/table.py

soak: $(VENV)/.test$(NODE)  ## 200,000 calls with faults, and what is left at the end
	@$(BIN)/python tests/soak/soak.py --calls 200000

fuzz: $(VENV)/.test$(NODE)  ## coverage-guided fuzzing of every parser, a few minutes in all
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,fuzz$(AND_NODE)]'
	@$(BIN)/python tests/fuzz/coverage_guided.py --seconds 300

lint: $(VENV)/.dev$(NODE)  ## ruff, formatting, generated documentation
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/cog --check README.md SECURITY.md docs/*.md

types: $(VENV)/.dev$(NODE)  ## mypy, strict
	@$(BIN)/mypy

docs: $(VENV)/.dev$(NODE)  ## write generated tables anew
	@$(BIN)/cog -r README.md SECURITY.md docs/*.md

bench: $(VENV)/.bench$(NODE)  ## measure against peers in one interleaved run
	@$(BIN)/python -m benchmarks

wheel-test: $(VENV)/.dev$(NODE)  ## build the wheel and try it in a clean environment elsewhere
	@$(BIN)/python tests/wheel_smoke.py

clean:  ## remove what the other targets made
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .bench
