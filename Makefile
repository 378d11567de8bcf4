# Needs Python 3.11 or newer and make; everything else goes into .venv.

PYTHON ?= python3
MINUTES ?= 10
KILLS ?= 100
BIN := .venv/bin
READY := .venv/.ready
HOUSE := src tests bench

.DEFAULT_GOAL := help
.PHONY: help install dev test lint format bench soak docs clean

help:  ## say what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

install: $(READY)  ## prepare .venv

$(READY): pyproject.toml
	@echo "installing FlowFabric, with its extras and the tools for its tests, into .venv: this is done once, and may take minutes"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "FlowFabric needs Python 3.11 or newer")'
	@echo "[1/3] .venv, with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv .venv
	@echo "[2/3] pip"
	@$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@echo "[3/3] FlowFabric and what pyproject.toml lists under dev"
	@$(BIN)/python -m pip install --disable-pip-version-check --editable . --group dev
	@touch $@

dev: $(READY)  ## watch an agent work, kill its worker, see its work go on, and answer it
	@$(BIN)/ff dev examples.agent.app:app --submit 'research question=volcanoes'

test: $(READY)  ## run every suite, in random order, and hold the model to its coverage
	@rm -f .coverage .coverage.*
	@$(BIN)/coverage run -m pytest -n 2 $(ARGS)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report --skip-covered --skip-empty
	@$(BIN)/python -m tools.branch_coverage src/flowfabric/model 95

lint: $(READY)  ## rules, format, types, import directions, sizes
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo
	@find $(HOUSE) -name '*.py' -exec wc -l {} + | \
		awk '$$2 != "total" && $$1 > 500 { print $$2 ": " $$1 " lines, 500 are allowed"; bad = 1 } END { exit bad }'

format: $(READY)  ## put code and imports in order
	@$(BIN)/ruff check --quiet --select I --fix
	@$(BIN)/ruff format --quiet

bench: $(READY)  ## measure both stores beside what their engines could do at most, and tasks of an app beside them
	@$(BIN)/python -m bench run s1 --store sqlite
	@$(BIN)/python -m bench run s1 --store valkey
	@$(BIN)/python -m bench run s1 --store sqlite --face app
	@$(BIN)/python -m bench run s1 --store valkey --face app
	@$(BIN)/python -m bench report

soak: $(READY)  ## simulate for MINUTES minutes (10), then kill KILLS workers on each store (100)
	@PYTHONPATH=src:tests $(BIN)/python -m support.simulation --minutes $(MINUTES)
	@FF_KILLS=$(KILLS) $(BIN)/pytest -q -n 2 tests/worker/test_kill.py

docs: $(READY)  ## write docs/reference anew from the code
	@$(BIN)/python -m tools.generate_docs

clean:  ## remove everything that make and the tools made
	@rm -rf .venv .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .bench build dist
	@find $(HOUSE) examples tools -name __pycache__ -type d -prune -exec rm -rf {} +
