# Two commands set everything up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
NATIVE := CMakeLists.txt $(wildcard csrc/*)
BUILD_TOOLS := 'scikit-build-core>=0.10' 'nanobind>=2.4' 'cmake>=3.18' ninja
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
INSTALL := $(PIP) --no-build-isolation --editable

.PHONY: demo examples test test-onnx test-docs lint format sanitize bench bench-compare clean

demo: .venv/.cli
	$(BIN)/ndpool demo --force

examples: .venv/.examples
	$(BIN)/python examples/signals.py
	$(BIN)/python examples/digits.py

.PHONY: docs
docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The documentation is in site/index.html"

# As many processes as there are processors.
test: .venv/.test
	$(BIN)/python -m pytest -n auto

# Exported models in ONNX Runtime: a suite of its own, for the packages that it needs.
test-onnx: .venv/.test-onnx
	$(BIN)/python -m pytest tests/onnx_export

# The site as a reader sees it, in Chromium.
test-docs: .venv/.docs .venv/.test
	$(BIN)/python -m pytest tests/test_docs.py tests/test_parameters.py

lint: .venv/.lint .venv/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/.lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/.bench
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.torch_end_to_end

# Two builds side by side: `make bench-compare OLD=../old/src`, where OLD holds the package ndpool with its engine.
NEW ?= src
bench-compare: .venv/.bench
	$(BIN)/python -m benchmarks.compare $(OLD) $(NEW)

# The engine's tests on a build in which every access outside an array and all undefined behaviour is an error.
SANE := .venv-sanitize
ENGINE_TESTS := $(addprefix tests/,test_engine.py test_paths.py test_plans.py test_threads.py)
# The C++ library comes along, as the sanitizer looks for it before Python has loaded the engine.
sanitize: $(SANE)/.installed
	LD_PRELOAD=$$($(CXX) -print-file-name=libasan.so):$$($(CXX) -print-file-name=libstdc++.so.6) \
		ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
		$(SANE)/bin/python -m pytest -p no:cacheprovider $(ENGINE_TESTS)

$(SANE)/.installed: pyproject.toml constraints.txt $(NATIVE) $(wildcard src/ndpool/*.py)
	test -x $(SANE)/bin/python || $(PYTHON) -m venv $(SANE)
	$(SANE)/bin/python -m pip install --quiet --constraint constraints.txt $(BUILD_TOOLS) pytest hypothesis mpmath ml_dtypes numpy
	$(SANE)/bin/python -m pip install --quiet --no-deps --no-build-isolation --force-reinstall . \
		-C cmake.define.NDPOOL_SANITIZE=ON -C cmake.build-type=RelWithDebInfo -C build-dir=build/sanitize -C install.strip=false
	touch $@

clean:
	rm -rf .venv .venv-sanitize build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis

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

.venv/.test-onnx: .venv/.test
	$(INSTALL) '.[test-onnx]'
	touch $@

.venv/.bench: .venv/.installed constraints.txt
	$(INSTALL) '.[bench]'
	touch $@

.venv/.lint: .venv/.tools pyproject.toml
	$(PIP) 'ruff>=0.6' 'mypy>=1.11'
	touch $@
