# Every target does all its own set-up in .venv; only Python >= 3.11 with pip and venv, and make, must be there.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
JOBS   ?= 2

.PHONY: demo test coverage test-studio test-slow test-oldest test-newest lint paper docs figures clean

demo: $(VENV)/installed
	$(BIN)/picardfit demo

test: lint
	$(BIN)/pytest -n $(JOBS)

# Which lines the tests reach; on Python 3.11 counting them nearly doubles the time.
coverage: $(VENV)/installed-dev
	$(BIN)/pytest -n $(JOBS) --cov --cov-report=term:skip-covered --no-cov-on-fail

# All tests of the studio, the long ones too: ten minutes of random clicking (PICARDFIT_MONKEY_MINUTES,
# PICARDFIT_MONKEY_SEED), 100,000 rows.
test-studio: $(VENV)/installed-dev
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || command -v google-chrome > /dev/null || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && apt-get install --yes --quiet chromium; } || \
		{ echo "Chromium is missing: sudo apt install chromium (dnf, brew: chromium). Then make test-studio again."; exit 1; }
	$(BIN)/pytest -n 1 -m "slow or not slow" tests/studio

test-slow: $(VENV)/installed-dev
	$(BIN)/pytest -n $(JOBS) -m slow

# The oldest versions that pyproject.toml declares, exactly, in an environment of their own. The pages of the docs show
# what current versions print, such as the number of searches, so they are left out.
test-oldest:
	$(PYTHON) -m venv --clear .venv-oldest
	.venv-oldest/bin/python tests/oldest.py > .venv-oldest/constraints.txt
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint .venv-oldest/constraints.txt --editable ".[test,dask,petab,notebook]"
	.venv-oldest/bin/pytest -n $(JOBS) --ignore=tests/test_docs.py

NEWEST ?= python3.13
test-newest:
	@if ! $(NEWEST) -c "" 2> /dev/null; then echo "$(NEWEST) does not run here: nothing was tested."; exit 0; fi; \
	$(NEWEST) -m venv --clear .venv-newest && \
	.venv-newest/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[test,dask,petab,notebook]" && \
	.venv-newest/bin/pytest -n $(JOBS)

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

# make paper QUICK=1 EXPERIMENT=predator-prey: fewer data sets, and one experiment of the five.
EXPERIMENT ?= all
PAPER_SETUP = $(VENV)/installed$(if $(filter all lorenz,$(EXPERIMENT)),-compare)
paper:
	$(MAKE) $(PAPER_SETUP)
	$(BIN)/python -m paper $(EXPERIMENT) $(if $(QUICK),--quick) --workers $(JOBS) --out picardfit-paper

docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "Open site/index.html, or serve it with its search: $(BIN)/mkdocs serve"

figures: $(VENV)/installed
	$(BIN)/python docs/make_figures.py
	$(BIN)/python docs/draw_rooms.py

clean:
	rm -rf $(VENV) .venv-oldest .venv-newest picardfit-demo picardfit-paper site build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis .coverage*

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable .
	touch $@

$(VENV)/installed-%: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable ".[$*]"
	touch $@ $(VENV)/installed
