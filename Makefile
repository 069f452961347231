# Two commands are all a fresh clone needs: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
# What the demo needs, and what `make test` adds.
DEMO := .venv/.demo
DEV := .venv/.dev
SOURCES := pyproject.toml constraints.txt install.py
# The Python of an environment that is there stays.
INSTALL = $(if $(wildcard $(BIN)/pip),$(BIN)/python,$(PYTHON)) install.py

.PHONY: setup demo test lint format bench gallery clean

setup: $(DEV)

$(DEMO): $(SOURCES)
	@$(INSTALL)
	@touch $@

$(DEV): $(SOURCES)
	@$(INSTALL) dev
	@# The tests start hundreds of processes. A package may have templates that are no Python.
	@$(BIN)/python -m compileall -q -j 0 -x 'site-packages/.*/tests?/' .venv/lib >/dev/null 2>&1 || true
	@touch $(DEMO) $@

demo: $(DEMO)
	@$(BIN)/akg-tui demo

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --num-workers 2
	$(BIN)/lint-imports --no-logo

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# A file's tests in one process, in the order of the folders: the longest come first. Three at a
# time, because on two cores each test waits a tenth of its time.
test: lint
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

bench: setup
	$(BIN)/python -m benchmarks

gallery: $(DEMO)
	$(BIN)/akg-tui gallery

clean:
	rm -rf .venv akg-demo build dist .mypy_cache .ruff_cache .import_linter_cache
