"""What the evaluator must know of each DSL; one module a DSL.

`adapter.Dsl` says what that is. Importing this package imports neither torch nor a DSL.
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
