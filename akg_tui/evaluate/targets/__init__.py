"""What the evaluator must know of each backend: `target.Target` says what that is.

A target is a module of its name here, with its adapter as `ADAPTER`. Importing this package must
not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import get_args

from akg_tui.core.task import Backend
from akg_tui.evaluate.targets.target import Target

__all__ = ["TARGETS", "Target"]

TARGETS: dict[str, Target] = {
    name: import_module(f"{__name__}.{name}").ADAPTER for name in get_args(Backend)
}
