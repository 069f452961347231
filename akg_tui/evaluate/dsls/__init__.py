"""The DSLs of `task.toml`, one module each, behind the interface `adapter.Dsl`.

Importing this package must import neither torch nor a DSL.
"""

from __future__ import annotations

from akg_tui.evaluate.dsls.adapter import CompilerReport, Dsl
from akg_tui.evaluate.dsls.cpp import Cpp, Torch
from akg_tui.evaluate.dsls.triton import Triton

__all__ = ["DSLS", "CompilerReport", "Dsl", "dsl_named"]

DSLS: dict[str, Dsl] = {each.name: each for each in (Cpp(), Torch(), Triton())}


def dsl_named(name: str) -> Dsl:
    """Return the DSL that `task.toml` calls `name`."""
    return DSLS[name]
