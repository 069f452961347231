"""C++ in a string, compiled by the kernel itself.

The compiler and its cache are `akg_tui.dsl`'s. Must never import torch.
"""

from __future__ import annotations

import re

from akg_tui.dsl import compilers
from akg_tui.dsl.adapters.adapter import Dsl


class Cpp(Dsl):
    """Kernels whose work is done by C++ that they hold in a string."""

    name = "cpp"
    sign = re.compile(r"\bcompile_cpp\b")
    generated_for = frozenset({"cpu"})
    builders = frozenset({"compile_cpp", "load_inline", "load", "CDLL"})
    nothing_built = "nothing is compiled: this task's DSL is C++"

    def generator_lacking(self) -> str:
        """Return that there is no compiler for the C++ that torch.compile generates."""
        return "" if compilers.find_compiler() else "it needs a C++ compiler, such as g++"

    def lacking(self, target: str) -> str:
        """Return that C++ for the host can't use the memory of a device."""
        if target == "cpu":
            return ""
        return (
            'dsl = "cpp" is C++ for the host, which can\'t use the memory of a device; '
            'dsl = "torch" or "triton" can, on NVIDIA\'s GPUs "cuda_cpp" too'
        )


ADAPTER = Cpp()
