"""The adapters of the DSLs; `adapter.Dsl` is their interface.

Each DSL is a module named after it, with its adapter as `ADAPTER`. Importing this package imports
neither torch nor a DSL's own packages. The other floors read all facts of a DSL from `DSLS`.
"""

from __future__ import annotations

from importlib import import_module
from typing import get_args

from akg_tui.core import task
from akg_tui.dsl.adapters.adapter import CompilerReport, Dsl

__all__ = ["DSLS", "CompilerReport", "Dsl", "dsl_of", "generated_in"]

DSLS: dict[str, Dsl] = {
    name: import_module(f"{__name__}.{name}").ADAPTER for name in get_args(task.Dsl)
}


def dsl_of(kernel: str) -> str:
    """Return the DSL that a kernel's text is written in; "" if none shows.

    Kernels in any DSL import PyTorch, so `torch` is the last answer.
    """
    found = [name for name, each in DSLS.items() if each.sign.search(kernel)]
    return min(found, key=lambda name: name == "torch", default="")


def generated_in(target: str) -> str:
    """Return the DSL in which torch.compile generates first kernels for a target, "" if none."""
    return next((name for name, each in DSLS.items() if target in each.generated_for), "")
