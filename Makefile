# Two commands do everything on a fresh machine with Python 3.11+: `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
HOST ?= 127.0.0.1
PORT ?= 8000
WORKERS ?= 2
# Published measurements to validate against; name another folder with REFERENCE=...
REFERENCE ?= ../shared/reference

.DEFAULT_GOAL := help
.PHONY: help run test lint bench validate screenshots clean

help:
	@echo "make run | test | lint | bench | validate [REFERENCE=folder] | screenshots | clean"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One stamp per set of packages: installed again only when pyproject.toml changes.
$(VENV)/installed-run: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/installed-test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@ $(VENV)/installed-run

$(VENV)/installed-lint: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,lint]'
	@touch $@ $(VENV)/installed-run $(VENV)/installed-test

run: $(VENV)/installed-run
	$(BIN)/python -m app migrate
	$(BIN)/python -m app serve --host $(HOST) --port $(PORT)

test: $(VENV)/installed-test
	$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

lint: $(VENV)/installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/installed-run
	$(BIN)/python -m app.validation.bench

validate: $(VENV)/installed-run
	$(BIN)/python -m app validate \
	  --training $(REFERENCE)/training.csv --inference $(REFERENCE)/inference.csv \
	  --memory $(REFERENCE)/serving_memory.csv --pairs $(REFERENCE)/interconnect_pairs.csv \
	  --collectives $(REFERENCE)/collectives.csv --fabrics $(REFERENCE)/fabrics.csv \
	  --tco $(REFERENCE)/opex.csv --scenarios $(REFERENCE)/scenarios.jsonl

screenshots: $(VENV)/installed-test
	$(BIN)/python -m tests.browser.screenshots

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .schemathesis .import_linter_cache
	find app tests migrations -name __pycache__ -type d -prune -exec rm -rf {} +
