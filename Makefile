# make demo   install what is needed and run the fp4ops suite on the CPU under --dispatch-report
# make test   install what is needed and run all tests
# make lint   ruff, mypy --strict, faults of the dispatch table

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
FLAGS ?=

.PHONY: demo test lint bench clean

demo: $(VENV)/installed
	$(BIN)/pytest tests/fp4ops -q --dispatch-report=term --dispatch-stored=reports/h200/fp4ops.dispatchcov $(FLAGS)

test: $(VENV)/installed
	$(BIN)/pytest -q -n 2 $(FLAGS)

lint: $(VENV)/linters
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/dispatchcov check fp4ops/dispatch.toml

bench: $(VENV)/installed
	$(BIN)/dispatchcov bench

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test]'
	@touch $@

$(VENV)/linters: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[lint]'
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
