"""The targets of `task.toml`, one module each, behind the interface `target.Target`.

Importing this package must not import torch.
"""

from __future__ import annotations

from akg_tui.evaluate.targets.cpu import Cpu
from akg_tui.evaluate.targets.cuda import Cuda
from akg_tui.evaluate.targets.target import Target

__all__ = ["TARGETS", "Target", "target_named"]

TARGETS: dict[str, Target] = {target.name: target for target in (Cpu(), Cuda())}


def target_named(name: str) -> Target:
    """Return the target that `task.toml` calls `name`."""
    return TARGETS[name]
