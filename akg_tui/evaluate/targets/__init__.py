"""The adapters of the backends; `target.Target` is their interface.

Each target is a module named after it, with its adapter as `ADAPTER`. Importing this package must
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
