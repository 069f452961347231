"""Kernels that call PyTorch, which needs no compiler; they may compile C++ too."""

from __future__ import annotations

import re

from akg_tui.core.task import Task
from akg_tui.dsl.adapters.adapter import Dsl


class Torch(Dsl):
    """Kernels that call the framework."""

    name = "torch"
    sign = re.compile(r"^\s*(?:import|from)\s+torch\b", re.M)

    def facts(self, task: Task) -> str:
        """Return that the kernel may call torch, besides how it may compile C++."""
        return f"The kernel may call torch, and may compile C++. {super().facts(task)}"


ADAPTER = Torch()
