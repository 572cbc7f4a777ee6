# From a fresh clone: `make demo` shows it, `make test` proves it. Needs Python 3.11, make and g++.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed
# The suite runs in as many processes; each compiles and computes on its own (VGG-19 alone takes 4 GB).
PROCESSES ?= 2
# The longest test takes half a minute. One that hangs is failed after ten, with what every thread was doing.
HANGS = --override-ini=faulthandler_timeout=600 --override-ini=faulthandler_exit_on_timeout=true
PYTEST = $(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist worksteal $(HANGS)
# Of the forms of each sweep (`pytest.mark.sweep`), `make test` and `make test-torch` run the first and one in so many.
ONE_IN ?= 3

# What `make test` skips without PyTorch: files, or single tests of files that need it for these alone.
NEED_TORCH = tvm_adapter/test_stubs.py testing/test_torch_models.py zoo/test_zoo_torch.py \
  importing/torch_programs/test_torch_product_types.py importing/torch_programs/test_torch_norms.py importing/torch_programs/test_torch_loops.py \
  importing/torch_programs/test_torch_converters.py importing/torch_programs/test_torch_archives.py \
  importing/torch_programs/test_torch_experts.py importing/shared_ops/test_box_pooling.py \
  importing/shared_ops/test_deformed_convolution.py importing/torch_programs/test_torch_quantization.py \
  importing/torch_programs/test_torch_known_masks.py importing/torch_programs/test_torch_derived_extents.py \
  importing/torch_programs/test_torch_complex.py importing/torch_programs/test_torch_decompositions.py \
  importing/torch_programs/test_torch_plain_extents.py importing/torch_programs/test_torch_row_scatters.py \
  importing/test_origins_of_nodes.py::test_an_exported_program_keeps_the_names_of_its_modules \
  backends/dnnl/test_dnnl_torch.py backends/dnnl/test_dnnl_decoding.py \
  backends/dnnl/test_dnnl_half_models.py::test_a_module_of_pytorch_is_one_region_as_near_to_float32_as_pytorch \
  docs/test_snippets.py::test_the_snippets_that_need_pytorch_run

SANITIZED = $(CURDIR)/build/sanitized
SANITIZING = $(CURDIR)/tests/sanitizers/g++
# The size of a library, the instructions of a clone and what freed memory takes are others under a sanitizer, two
# sanitizers do not go together, and the allocator of AddressSanitizer is not safe to fork beside threads before GCC 14.
NOT_SANITIZED = test_dnnl_embedding.py::test_embedded_constants_serve_every_shape_and_function \
  test_dnnl_halves.py::test_a_library_holds_large_constants_once_in_half_the_bytes \
  test_dnnl_memory.py::test_the_library_is_hardly_in_memory_after_the_first_answer \
  test_dnnl_memory.py::test_packed_weights_are_read_where_the_library_is_mapped \
  test_dnnl_vector_math.py::test_the_best_clone_runs \
  test_dnnl_vector_math.py::test_loops_for_avx2_work_on_whole_vectors \
  test_dnnl_threads.py::test_callers_and_workers_do_not_race \
  test_dnnl_runtime.py::test_plans_that_are_dropped_leave_no_memory_behind \
  "test_dnnl_forks.py::test_a_region_runs_after_a_fork[while"
IN_SANITIZED_PYTHON = XDG_CACHE_HOME=$(SANITIZED) CXX=$(SANITIZING) \
  ASAN_OPTIONS=detect_leaks=0:log_path=$(SANITIZED)/report \
  LD_PRELOAD="$(foreach name,asan ubsan stdc++,$$(g++ -print-file-name=lib$(name).so))" $(BIN)/python

.PHONY: help venv demo test suite test-torch smoke wheel lint types types-of-tests format campaign hunt sanitize sanitize-threads bench docs clean

help:  ## list the targets
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/:/'

$(STAMP): setup.cfg pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

venv: $(STAMP)  ## create .venv with everything that development needs

demo: $(STAMP)  ## partition, build and run a ResNet-50 on oneDNN, against ONNX Runtime and plain TVM
	$(BIN)/python examples/resnet50.py

lint: $(STAMP)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) --no-print-directory --jobs 2 --output-sync types types-of-tests

types: $(STAMP)
	$(BIN)/mypy

types-of-tests: $(STAMP)
	$(BIN)/mypy --config-file tests/mypy.ini tests

test: lint  ## lint, then the tests, of sweeps one form in three
	$(MAKE) --no-print-directory suite FORMS="--one-in $(ONE_IN)"

# Where the environment keeps Python from writing bytecode, each process that a test starts would compile the package.
suite: $(STAMP)  ## the whole suite alone, every form of every sweep
	$(BIN)/python -m compileall -q annotated_region
	$(PYTEST) $(FORMS)

test-torch: $(STAMP)  ## the tests that need PyTorch (pip install torch first); ONE_IN=1 for every form of every sweep
	$(PYTEST) --one-in $(ONE_IN) $(NEED_TORCH:%=tests/%)

smoke: $(STAMP)  ## the wheel in empty environments: each supported pair of TVM and its FFI, each Python that is here (or PYTHONS)
	$(BIN)/python tests/smoke/smoke.py $(if $(PYTHONS),--only $(PYTHONS))

campaign: $(STAMP) hunt  ## the property tests with 100 000 examples each (hours), and the hunt
	AR_CAMPAIGN_EXAMPLES=100000 $(BIN)/python -m pytest -m campaign

hunt: $(STAMP)  ## dense small graphs on every target, against float64 on the host (hours; goes on where it was interrupted)
	mkdir -p build
	$(BIN)/python tests/hunt/hunt.py --target dnnl --graphs 200000 --processes $(PROCESSES) --state build/hunt
	for target in onnxruntime openvino tensorrt passes; do \
	  $(BIN)/python tests/hunt/hunt.py --target $$target --graphs 50000 --processes $(PROCESSES) --state build/hunt || exit 1; \
	done

# The program of the deployment example looks for leaks as well; a Python process would find its own.
sanitize: $(STAMP)  ## the C++ of the dnnl backend under AddressSanitizer and UndefinedBehaviorSanitizer, also on dense graphs
	XDG_CACHE_HOME=$(SANITIZED) CXX=$(SANITIZING) $(BIN)/python -m pytest tests/examples/test_deploy_cpp.py
	$(IN_SANITIZED_PYTHON) -m pytest tests/backends/dnnl $(NOT_SANITIZED:%=--deselect tests/backends/dnnl/%)
	AR_HUNT_SANITIZED=1 PYTHONPATH=tests $(IN_SANITIZED_PYTHON) tests/sanitizers/sanitized_graphs.py --graphs 2000

# oneDNN is not instrumented, so only the headers that share work take part.
sanitize-threads:  ## the workers of the dnnl backend under ThreadSanitizer
	mkdir -p build
	g++ -std=c++17 -O1 -g -fsanitize=thread -pthread -Iannotated_region/backends/dnnl/runtime \
	  tests/sanitizers/threads.cc -o build/threads -ldl
	OMP_NUM_THREADS=4 TVM_NUM_THREADS=4 build/threads 1000

wheel: $(STAMP)  ## the wheel for this platform in dist/, with the C++ runtimes compiled
	$(BIN)/python release/platform_wheel.py

bench: $(STAMP)  ## the side-by-side measurements
	$(BIN)/python benchmarks/inference.py

docs: $(STAMP)  ## the documentation as HTML in build/docs; a warning is an error
	$(BIN)/python -m sphinx --fail-on-warning --keep-going -q docs build/docs

clean:  ## remove .venv and caches
	rm -rf $(VENV) .hypothesis .mypy_cache .pytest_cache .ruff_cache build *.egg-info
