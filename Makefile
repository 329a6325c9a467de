# `make demo` and `make test` set up everything they need in .venv; PYTHON chooses the interpreter (3.10 or newer).
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
SOURCES := $(shell find rust/src -name '*.rs') Cargo.toml pyproject.toml

.PHONY: demo test lint bench format clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python tools/install_dependencies.py
	touch $@

$(STAMP): $(VENV)/.installed $(SOURCES)
	$(BIN)/maturin develop --release --quiet
	touch $@

demo: $(STAMP)
	$(BIN)/python examples/demo.py

test: $(STAMP)
	cargo test --release --quiet
	$(BIN)/python -m pytest -q

lint: $(STAMP)
	cargo fmt --check
	cargo clippy --release --all-targets --quiet -- -D warnings
	cargo clippy --release --all-targets --features python --quiet -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python benches/models.py

format: $(STAMP)
	cargo fmt
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) target out
