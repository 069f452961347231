"""What the evaluator must know of each backend; one module a target.

`target.Target` says what that is. Importing this package must not import torch.
"""

from __future__ import annotations

from akg_tui.evaluate.targets.cpu import Cpu
from akg_tui.evaluate.targets.cuda import Cuda
from akg_tui.evaluate.targets.target import Device, Target

__all__ = ["TARGETS", "Device", "Target", "target_named"]

TARGETS: dict[str, Target] = {target.name: target for target in (Cpu(), Cuda())}


def target_named(name: str) -> Target:
    """Return the target that `task.toml` calls `name`."""
    return TARGETS[name]
