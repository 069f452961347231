# Two commands are all a fresh clone needs: `make demo` and `make test`. While you work: `make quick`.
PYTHON ?= python3
BIN := .venv/bin
# What the demo needs, and what `make test` adds.
DEMO := .venv/.demo
DEV := .venv/.dev
SOURCES := pyproject.toml constraints.txt install.py
# The Python of an environment that is there stays.
INSTALL = $(if $(wildcard $(BIN)/pip),$(BIN)/python,$(PYTHON)) install.py

.PHONY: setup demo quick test lint format bench gallery clean

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
	@$(BIN)/python -m tests.tui.catalogue

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# What answers within a minute: the core, edits, files, the agent, one look at judge and workbench.
QUICK := $(addprefix tests/,core hashline store agent seeds test_smoke.py test_house.py)
NOT_QUICK := $(addprefix agent/test_,chat_completions context edit_bench edit_bench_corpus mcp rubbish \
	subagent_faults sweep told wire_faults) core/test_walk hashline/test_edit_formats_bench \
	hashline/test_tags $(addprefix seeds/test_,seed001_tools seed004_subagents) \
	$(addprefix store/test_,crashlab from_elsewhere salvage)
quick: setup
	$(BIN)/python -m pytest -n 2 --dist loadfile $(QUICK) $(NOT_QUICK:%=--ignore=tests/%.py)

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
