# Two commands set everything up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
NATIVE := CMakeLists.txt $(shell find csrc -type f)
BUILD_TOOLS := 'scikit-build-core>=0.10' 'nanobind>=2.4' 'cmake>=3.18' ninja
# Python compiles a module when it first imports it. To compile all of PyTorch here would double the time.
PIP_INSTALL := -m pip install --no-compile --constraint constraints.txt
PIP := $(BIN)/python $(PIP_INSTALL)

.PHONY: demo examples docs test test-torch test-onnx test-images test-verified test-triton test-jax test-dask test-gpu test-c test-chips test-tflite test-docs core-test arm compilers sanitize wheel lint format bench bench-compare clean

demo: .venv/.cli
	$(BIN)/ndpool demo --force

examples: .venv/.examples
	$(BIN)/python examples/signals.py
	$(BIN)/python examples/digits.py
	$(BIN)/python examples/certified.py

docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The documentation is in site/index.html"

# As many processes as there are processors.
test: .venv/.test
	$(BIN)/python -m pytest -n auto

# The adapter of PyTorch: a suite of its own, for its length.
test-torch: .venv/.test
	$(BIN)/python -m pytest -n auto tests/pytorch

# Exported models in ONNX Runtime: a suite of its own, for the packages that it needs.
test-onnx: .venv/.test-onnx
	$(BIN)/python -m pytest tests/onnx_export

# Labels, rasters and images beside the libraries that pool them elsewhere: likewise.
test-images: .venv/.test-images
	$(BIN)/python -m pytest tests/image_peers

# Bounds, and proofs with a solver: likewise. The examples of `ndpool.prove` need it, too.
# auto_LiRPA asks for an old PyTorch, and lies beside the other packages without what it asks for: benchmarks/lirpa.py.
LIRPA := build/lirpa
test-verified: .venv/.test-verified $(LIRPA)/.installed
	PYTHONPATH=$(LIRPA) $(BIN)/python -m pytest -n auto tests/verification src/ndpool/prove

# The kernels for GPUs in Triton's interpreter: likewise. Triton is a gigabyte.
test-triton: .venv/.test-triton
	TRITON_INTERPRET=1 $(BIN)/python -m pytest -n auto tests/gpu_kernels src/ndpool/triton

# The adapter of JAX, with the newest JAX that there is for this Python and with the oldest that it works with: likewise.
# The latter is put before the former, and takes everything else from where it is.
OLDEST_JAX := build/jax-oldest
OLDEST_JAX_TESTS := $(foreach part,engine derivatives transforms sharding errors,tests/jax_arrays/test_jax_$(part).py)
test-jax: .venv/.test-jax $(OLDEST_JAX)/.installed
	$(BIN)/python -m pytest -n auto tests/jax_arrays
	$(BIN)/python -m pytest src/ndpool/jax docs/jax.md
	PYTHONPATH=$(OLDEST_JAX) $(BIN)/python -m pytest -n auto $(OLDEST_JAX_TESTS)

# Dask, xarray and pyramids, on threads and on a cluster of processes: likewise.
test-dask: .venv/.test-dask
	$(BIN)/python -m pytest -n auto tests/dask_arrays src/ndpool/dask src/ndpool/xarray src/ndpool/pyramid

# The same kernels, and the adapter of PyTorch, on a GPU. GPU_PYTHON has PyTorch for CUDA, Triton and what tests need; ndpool is the
# one that is built here.
GPU_PYTHON ?= $(BIN)/python
GPU_JOBS ?= 8
# pytest-benchmark, where it is installed, warns of several processes, and a warning is an error here.
GPU_PYTEST := -m pytest -p no:benchmark -n $(GPU_JOBS)
test-gpu:
	@$(GPU_PYTHON) -c "import torch; raise SystemExit(not torch.cuda.is_available())" || { \
		echo "There is no GPU that PyTorch sees here: torch.cuda.is_available() is False, or $(GPU_PYTHON) has no PyTorch."; exit 1; }
	NDPOOL_TEST_DEVICE=cuda $(GPU_PYTHON) $(GPU_PYTEST) tests/gpu_kernels
	NDPOOL_TEST_DEVICE=cuda $(GPU_PYTHON) $(GPU_PYTEST) tests/pytorch

# Exported C, compiled and run on this machine.
test-c: .venv/.test
	$(BIN)/python -m pytest -n auto --dist loadfile tests/c_export --ignore=tests/c_export/test_chips.py --ignore=tests/c_export/test_tflite.py

# Exported C on emulated chips. What is not installed is skipped, and named at the end.
test-chips: .venv/.test
	$(BIN)/python -m pytest -n auto tests/c_export/test_chips.py

# The averages of TensorFlow Lite beside its interpreter: a suite of its own, for the package that it needs.
# TensorFlow lies beside the other packages, and not among them: it and Triton end a process that loads both.
TENSORFLOW := build/tensorflow
test-tflite: .venv/.test $(TENSORFLOW)/.installed
	PYTHONPATH=$(TENSORFLOW) $(BIN)/python -m pytest tests/c_export/test_tflite.py

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

bench: .venv/.bench $(LIRPA)/.installed
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.torch_end_to_end
	$(BIN)/python -m benchmarks.images
	PYTHONPATH=$(LIRPA) $(BIN)/python -m benchmarks.verified
	$(BIN)/python -m benchmarks.jax

# The working tree beside the commit OLD: both are built, and take turns. `python -m benchmarks.compare` compares any two.
OLD ?= main
bench-compare: .venv/.bench
	rm -rf build/compare
	mkdir -p build/compare/source
	git archive $(OLD) | tar -x -C build/compare/source
	@echo "Building $(OLD), and then the working tree:"
	@tools/progress build/compare/old.log $(PIP) --verbose --no-deps --no-build-isolation --target build/compare/old build/compare/source
	@tools/progress build/compare/new.log $(PIP) --verbose --no-deps --no-build-isolation --target build/compare/new .
	$(BIN)/python -m benchmarks.compare build/compare/old build/compare/new

# --- The engine by itself ---------------------------------------------------------------------------

ENGINE_TESTS := $(addprefix tests/,test_engine.py test_paths.py test_plans.py test_threads.py)
# An environment without ndpool: an engine that is built for a test comes in by PYTHONPATH.
BARE := .venv-bare
IN_BARE := PATH="$(abspath $(BARE)/bin):$$PATH"
TEST_PACKAGES := pytest pytest-xdist hypothesis mpmath ml_dtypes numpy scipy

# $(1): the folder, $(2): options for CMake.
define build-core-tests
@echo "Building the engine and its C++ tests in $(1): two to three minutes on two cores. A line for each file that is done:"
@PATH="$(abspath $(BIN)):$$PATH" tools/progress $(1).log sh -c 'cmake -S csrc -B $(1) -G Ninja $(2) && cmake --build $(1)'
endef

# The engine's C++ tests, without Python.
core-test: .venv/.tools
	$(call build-core-tests,build/core,)
	$(BIN)/ctest --test-dir build/core --verbose

# The same for 64-bit ARM, compiled and emulated here.
ARM_MISSING := $(strip $(foreach tool,aarch64-linux-gnu-g++ qemu-aarch64,$(if $(shell command -v $(tool) 2>&1),,$(tool))))
ifeq ($(ARM_MISSING),)
arm: .venv/.tools
	$(call build-core-tests,build/arm,-DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake)
	$(BIN)/ctest --test-dir build/arm --verbose
else
arm:
	@echo "Skipped: no test on ARM, because $(ARM_MISSING) is not installed."
	@echo "Debian and Ubuntu have both tools: apt-get install g++-aarch64-linux-gnu qemu-user"
endif

# The engine's tests with every compiler of COMPILERS that is installed. A warning is an error.
COMPILERS ?= g++-11 g++-12 clang++-14 clang++-19
compilers: $(BARE)/.installed
	@$(IN_BARE) tools/compilers "$(COMPILERS)" $(ENGINE_TESTS)

# The engine's tests on a build in which every access outside an array and all undefined behaviour is an error.
# The C++ library is preloaded too, as the sanitizer looks for it before Python has loaded the engine.
sanitize: $(BARE)/.installed
	@$(IN_BARE) tools/build_engine build/sanitize -DNDPOOL_SANITIZE=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo
	LD_PRELOAD=$$($(CXX) -print-file-name=libasan.so):$$($(CXX) -print-file-name=libstdc++.so.6) \
		ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
		PYTHONPATH=build/sanitize/package $(BARE)/bin/python -m pytest -p no:cacheprovider $(ENGINE_TESTS)

$(BARE)/.installed: constraints.txt Makefile
	@echo "Installing what the engine is built and tested with into $(BARE)"
	@test -x $(BARE)/bin/python || $(PYTHON) -m venv $(BARE)
	@$(BARE)/bin/python $(PIP_INSTALL) --quiet $(BUILD_TOOLS) $(TEST_PACKAGES)
	@touch $@

# --- The wheel --------------------------------------------------------------------------------------

# The wheel is built from the sdist, and tested where nothing else is: first with NumPy alone, then by the engine's tests.
# It has the levels of all processors, so these are what goes through each of them.
WHEEL := build/wheel
LEVEL_TESTS := $(addprefix tests/,test_plans.py test_engine.py test_paths.py test_rounding.py test_order_statistics.py)
wheel: .venv/.tools
	@rm -rf dist $(WHEEL)
	@$(PIP) --quiet build
	@echo "Building the sdist, and the wheel from it: about two minutes on two cores. A line for each file that is done:"
	@tools/progress $(WHEEL).log $(BIN)/python -m build
	$(BIN)/python tools/check_wheel.py dist
	@echo "Testing the wheel in an environment of its own, $(WHEEL)"
	@$(PYTHON) -m venv $(WHEEL)
	@$(WHEEL)/bin/python -m pip install --quiet dist/*.whl
	cd $(WHEEL) && bin/python -I ../../tools/smoke.py
	@$(WHEEL)/bin/python $(PIP_INSTALL) --quiet $(TEST_PACKAGES)
	cd $(WHEEL) && bin/python -I -m pytest -p no:cacheprovider -n auto $(addprefix ../../,$(LEVEL_TESTS))

clean:
	rm -rf .venv .venv-bare build dist wheelhouse site .pytest_cache .mypy_cache .ruff_cache .hypothesis

# --- What is installed into .venv, each part once ----------------------------------------------------

.venv/bin/python:
	@echo "Making a virtual environment in .venv"
	@$(PYTHON) -m venv .venv

.venv/.tools: .venv/bin/python
	@echo "Installing what the engine is built with"
	@$(PIP) --quiet $(BUILD_TOOLS)
	@touch $@

# For this machine's processor alone, which takes half of the time. Wheels have the levels of all processors.
FOR_THIS_MACHINE := --config-settings=cmake.define.NDPOOL_LEVELS=here
.venv/.installed: .venv/.tools pyproject.toml $(NATIVE)
	@echo "Building the engine: a minute or two on two cores. A line for each file that is done:"
	@tools/progress build/install.log $(PIP) --verbose --no-build-isolation $(FOR_THIS_MACHINE) --editable .
	@$(BIN)/python -c "import ndpool; from ndpool import _engine; print('Installed ndpool', ndpool.__version__, 'with', *_engine.levels())"
	@touch $@

# An argument of a call may have a comma in it by this name.
comma := ,

# $(1): the extra, $(2): what it is for. The engine is not built again, since ndpool is there already.
define install-extra
@echo "Installing the packages for $(2)"
@$(PIP) --quiet 'ndpool[$(1)]'
@touch $@
endef

.venv/.cli: .venv/.installed
	$(call install-extra,cli,the command ndpool)

.venv/.docs: .venv/.cli
	$(call install-extra,docs,the documentation)

.venv/.examples: .venv/.installed
	$(call install-extra,examples,the examples)

.venv/.test: .venv/.installed constraints.txt
	$(call install-extra,test,the tests; PyTorch is large and takes about half a minute)

.venv/.test-onnx: .venv/.test
	$(call install-extra,test-onnx,the tests of exported models)

.venv/.test-triton: .venv/.test
	$(call install-extra,test-triton,the tests of the kernels for GPUs; Triton is large)

.venv/.test-jax: .venv/.test
	$(call install-extra,test-jax,the tests of the adapter of JAX)

$(OLDEST_JAX)/.installed: .venv/.tools Makefile
	@echo "Installing the oldest JAX that ndpool works with into $(OLDEST_JAX)"
	@rm -rf $(OLDEST_JAX)
	@$(BIN)/python -m pip install --no-compile --quiet --no-deps --target $(OLDEST_JAX) jax==0.6.0 jaxlib==0.6.0
	@touch $@

.venv/.test-images: .venv/.test
	$(call install-extra,test-images,the tests beside other libraries)

$(TENSORFLOW)/.installed: .venv/.tools Makefile
	@echo "Installing TensorFlow, which is large, into $(TENSORFLOW)"
	@rm -rf $(TENSORFLOW)
	@$(PIP) --quiet --target $(TENSORFLOW) 'tensorflow-cpu>=2.21'
	@touch $@

$(LIRPA)/.installed: .venv/.tools Makefile
	@rm -rf $(LIRPA)
	@echo "Installing auto_LiRPA into $(LIRPA)"
	@$(PIP) --quiet --no-deps --target $(LIRPA) auto_LiRPA==0.3
	@touch $@

.venv/.test-verified: .venv/.test
	$(call install-extra,test-verified,the tests of bounds and proofs)

.venv/.test-dask: .venv/.installed
	$(call install-extra,test-dask,the tests of Dask$(comma) xarray and pyramids)

.venv/.bench: .venv/.installed constraints.txt
	$(call install-extra,bench,the benchmarks; the peers are large and take minutes)

.venv/.lint: .venv/.tools pyproject.toml
	@echo "Installing the packages for lint"
	@$(PIP) --quiet 'ruff>=0.6' 'mypy>=1.11'
	@touch $@
