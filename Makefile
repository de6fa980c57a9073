# Two commands set everything up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
NATIVE := CMakeLists.txt $(wildcard csrc/*)
BUILD_TOOLS := 'scikit-build-core>=0.10' 'nanobind>=2.4' 'cmake>=3.18' ninja
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
INSTALL := $(PIP) --no-build-isolation --editable

.PHONY: demo examples test lint format bench clean

demo: .venv/.cli
	$(BIN)/ndpool demo

examples: .venv/.examples
	$(BIN)/python examples/signals.py
	$(BIN)/python examples/digits.py

.PHONY: docs
docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The documentation is in site/index.html"

test: .venv/.test
	$(BIN)/python -m pytest

lint: .venv/.lint .venv/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/.lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.tools: .venv/bin/python
	$(PIP) $(BUILD_TOOLS)
	touch $@

.venv/.installed: .venv/.tools pyproject.toml $(NATIVE)
	$(INSTALL) .
	touch $@

.venv/.cli: .venv/.installed
	$(INSTALL) '.[cli]'
	touch $@

.venv/.docs: .venv/.cli
	$(INSTALL) '.[docs,cli]'
	touch $@

.venv/.examples: .venv/.installed
	$(INSTALL) '.[examples]'
	touch $@

.venv/.test: .venv/.installed constraints.txt
	$(INSTALL) '.[test]'
	touch $@

.venv/.lint: .venv/.tools pyproject.toml
	$(PIP) 'ruff>=0.6' 'mypy>=1.11'
	touch $@
