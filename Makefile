# The two commands that need nothing but Python and pip: `make demo` and `make test`.
#   make test ARGS="-k conv"     passes on to pytest
#   make test TORCH=1            with PyTorch, the oracle of the comparison tests
#   make fuzz TORCH=1 COUNT=10000 SEED=1   draws calls and mutates files, and looks for internal errors
#   make docs                    builds the documentation as a site, and looks for dead links in it
#   make notebooks               runs the tutorials anew
#   make demo PYTHON=python3.12 DEMO="train digits --model mlp"
PYTHON ?= python3
VENV ?= .venv
DEMO ?= train auto --model cnn
comma := ,
TEST_EXTRAS := pocl,data,mpi,onnx,plot,tensorboard,dev$(if $(TORCH),$(comma)torch)
BIN := $(VENV)/bin

# What the programs below would leave in the user's home stays in this folder.
HERE := $(CURDIR)/.clnet
export CLNET_CACHE_DIR ?= $(HERE)/cache
export XDG_CACHE_HOME := $(HERE)/xdg
export POCL_CACHE_DIR ?= $(HERE)/pocl
export CUDA_CACHE_PATH := $(HERE)/nvidia
export MPLCONFIGDIR := $(HERE)/matplotlib
export PIP_CACHE_DIR := $(HERE)/pip
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYOPENCL_NO_CACHE := 1
# Tests start hundreds of processes, which would compile clnet's modules anew: 0.7 s of a core each.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test fuzz lint docs links notebooks environment clean

demo: $(VENV)/with-pocl
	$(BIN)/clnet $(DEMO)

environment: $(VENV)/with-$(TEST_EXTRAS)

# pytest's workers take all cores; processes that build kernels would only start in vain. Here PoCL
# links kernels as it does there: clnet/device/linking.py.
test: export CLNET_BUILD_PROCESSES ?= 0
test: $(VENV)/with-$(TEST_EXTRAS)
	PATH="$(abspath $(BIN)):$$PATH:$(CURDIR)/clnet/device/linker" python -m pytest --doctest-modules -n auto --maxprocesses 4 --dist worksteal $(ARGS)

# Drawn calls of every public name, and mutated files: what ends otherwise than in a result or a
# clear error is printed. A call of COUNT takes some tenths of a second; SEED draws others.
COUNT ?= 10000
SEED ?= 1
fuzz: $(VENV)/with-$(TEST_EXTRAS)
	$(BIN)/python -m tests.fuzz.calls --count $(COUNT) --seed $(SEED)
	$(BIN)/python -m tests.fuzz.files --count $(COUNT) --seed $(SEED)

lint: $(VENV)/with-$(TEST_EXTRAS)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/pyrefly check --min-severity warn --python-interpreter-path $(BIN)/python

# The site of docs/, with the reference made from docstrings: docs/_build/html/index.html. A build
# that was stopped leaves no search index, of which the next one would warn: it begins anew.
docs: $(VENV)/with-docs
	test -f docs/_build/html/searchindex.js || rm -rf docs/_build/html
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --jobs auto docs docs/_build/html
	$(BIN)/python ci/links.py docs/_build/html

# Dead links of a site that is built.
links:
	python3 ci/links.py docs/_build/html

# Run tutorials and keep what they gave in their notebooks: make notebooks TUTORIALS="digits vae".
TUTORIALS ?= $(basename $(notdir $(wildcard docs/tutorials/*.py)))
# (A bar of progress that no widget draws is not worth a warning.)
notebooks: export PYTHONWARNINGS = ignore:IProgress not found
notebooks: $(VENV)/with-pocl,data,plot,search,gymnasium,docs
	for name in $(TUTORIALS); do \
	    $(BIN)/jupytext --quiet --to ipynb docs/tutorials/$$name.py && \
	    $(BIN)/jupyter-execute --inplace --timeout=-1 docs/tutorials/$$name.ipynb || exit 1; done

clean:
	rm -rf docs/_build docs/api/*.rst .venv .venv-* .clnet build dist .pytest_cache .ruff_cache .hypothesis
	find clnet tests -name __pycache__ -type d -prune -exec rm -rf {} +

# A file in the environment remembers which extras it has. Debian's python3 can lack ensurepip
# (its python3-venv package); then the system's pip puts pip into the environment.
$(VENV)/with-%: pyproject.toml
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) || { \
	    $(PYTHON) -m venv --clear --without-pip $(VENV) && \
	    $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }
	$(BIN)/python -m pip install --quiet --editable ".[$*]"
	touch $@
