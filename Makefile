# `make demo` and `make test` do all their own set-up in .venv; they need Python >= 3.11 with pip and venv.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
JOBS   ?= 2

.PHONY: demo test test-slow docs figures clean

demo: $(VENV)/installed
	$(BIN)/picardfit demo

test: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pytest -n $(JOBS)

test-slow: $(VENV)/installed-dev
	$(BIN)/pytest -n $(JOBS) -m slow

docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "Open site/index.html, or serve it with its search: $(BIN)/mkdocs serve"

figures: $(VENV)/installed
	$(BIN)/python docs/make_figures.py

clean:
	rm -rf $(VENV) picardfit-demo site build dist .pytest_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable .
	touch $@

$(VENV)/installed-dev: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable ".[dev]"
	touch $@ $(VENV)/installed

$(VENV)/installed-docs: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable ".[docs]"
	touch $@ $(VENV)/installed
