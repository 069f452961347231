"""Kernels that call PyTorch, which needs no compiler; they may compile C++ too."""

from __future__ import annotations

from akg_tui.evaluate.dsls.adapter import Dsl


class Torch(Dsl):
    """Kernels that call the framework."""

    name = "torch"


ADAPTER = Torch()
