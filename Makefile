# Two commands are all a fresh clone needs: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test lint format bench gallery clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (the first time takes a minute or two)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[dev]'
	@# pip compiles in one process; a package may have templates that are no Python.
	@$(BIN)/python -m compileall -q -j 0 -x 'site-packages/.*/tests?/' $(VENV)/lib >/dev/null 2>&1 || true
	@touch $(STAMP)

demo: setup
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

gallery: setup
	$(BIN)/akg-tui gallery

clean:
	rm -rf $(VENV) akg-demo build dist .mypy_cache .ruff_cache .import_linter_cache
