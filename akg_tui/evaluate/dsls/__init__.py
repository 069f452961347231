"""The adapters of the DSLs; `adapter.Dsl` is their interface.

Each DSL is a module named after it, with its adapter as `ADAPTER`. Importing this package imports
neither torch nor a DSL's own packages.
"""

from __future__ import annotations

from importlib import import_module
from typing import get_args

from akg_tui.core import task
from akg_tui.evaluate.dsls.adapter import CompilerReport, Dsl

__all__ = ["DSLS", "CompilerReport", "Dsl"]

DSLS: dict[str, Dsl] = {
    name: import_module(f"{__name__}.{name}").ADAPTER for name in get_args(task.Dsl)
}
