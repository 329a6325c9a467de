# `make demo` and `make test` set up everything they need in .venv; PYTHON chooses the interpreter (3.10 or newer).
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
SOURCES := $(shell find rust/src -name '*.rs') Cargo.toml Cargo.lock pyproject.toml
LIBRARY := target/library/.ready

# pip tells much that nobody asked for; errors still show.
export PIP_QUIET := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo library test lint oldest seeds pages bench format release-check site clean

$(VENV)/.installed: pyproject.toml tools/install_dependencies.py
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust 1.85 or newer, see https://rustup.rs" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "$(PYTHON) is older than 3.10: name a newer one, make PYTHON=python3.12" >&2; exit 1; }
	@echo "setting up $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --upgrade pip
	@$(BIN)/python tools/install_dependencies.py
	@touch $@

$(STAMP): $(VENV)/.installed $(SOURCES)
	@echo "building the extension (about half a minute the first time) ..."
	@env -u CONDA_PREFIX VIRTUAL_ENV='$(abspath $(VENV))' $(BIN)/maturin develop --release >$(VENV)/build.log 2>&1 || { cat $(VENV)/build.log >&2; exit 1; }
	@touch $@

demo: $(STAMP)
	@$(BIN)/python examples/demo.py

# The simulator as a C library, without Python: libethoscade_npu in python/ethoscade/lib, or with headers and pkg-config
# file in another folder, make library FOLDER=/opt/ethoscade.
library: $(LIBRARY)
ifdef FOLDER
	@$(PYTHON) tools/build_library.py '$(FOLDER)'
endif

$(LIBRARY): $(SOURCES) tools/build_library.py
	@echo "building libethoscade_npu ..."
	@$(PYTHON) tools/build_library.py
	@touch $@

test: $(STAMP) $(LIBRARY)
	cargo test --quiet
	$(BIN)/python -m pytest -q -n auto --dist loadfile

lint: $(STAMP)
	cargo fmt --check
	cargo clippy --release --all-targets --quiet -- -D warnings
	cargo clippy --release --all-targets --features python --quiet -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --release --no-deps --quiet
	RUSTDOCFLAGS='-D warnings' cargo doc --release --no-deps --quiet --features python --document-private-items
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file benches/mypy.ini
	$(BIN)/python tools/words.py

# The oldest Rust and Python that are promised, where they can be had.
oldest: $(STAMP)
	$(BIN)/python tools/oldest.py

# What fuzzers start from: fuzz/seeds.
seeds: $(STAMP)
	$(BIN)/python fuzz/make_seeds.py

# The worked example and the drawings in docs.
pages: $(STAMP)
	@$(BIN)/python tools/worked_example.py
	@$(BIN)/python tools/room_diagram.py

bench: $(STAMP)
	$(BIN)/python benches/models.py

format: $(STAMP)
	cargo fmt
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The pages of docs/ with the reference from docstrings: target/site/index.html.
site: export NO_MKDOCS_2_WARNING := 1
site: $(STAMP)
	$(BIN)/mkdocs build --strict

# What would be uploaded: sdist and wheels, built, judged, installed on every Python there is. TESTS=all runs the sdist's
# own `make test` as well. Takes minutes, and what it lacks from PyPI and Debian.
TESTS ?= some
release-check:
	@$(PYTHON) tools/release_check.py --tests $(TESTS)

clean:
	rm -rf $(VENV) target out python/ethoscade/lib/libethoscade_npu.*
