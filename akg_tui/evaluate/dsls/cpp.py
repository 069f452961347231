"""C++ in a string, compiled by the kernel itself.

The compiler and its cache are `akg_tui.dsl`'s. Must never import torch.
"""

from __future__ import annotations

from collections.abc import Iterator

from akg_tui.evaluate.dsls.adapter import Dsl, work_remarks
from akg_tui.evaluate.kernel_text import Kernel, Remark


class Cpp(Dsl):
    """Kernels whose work is done by C++ that they hold in a string."""

    name = "cpp"

    def lacking(self, target: str) -> str:
        """Return that C++ for the host can't use the memory of a device."""
        if target == "cpu":
            return ""
        return (
            'dsl = "cpp" is C++ for the host, which can\'t use the memory of a device; '
            'dsl = "torch" or "triton" can, on NVIDIA\'s GPUs "cuda_cpp" too'
        )

    def remarks(self, kernel: Kernel, *, must_do_work: bool) -> Iterator[Remark]:
        """Return a remark if nothing is compiled, or no call reaches the compiled code."""
        built = self.built(kernel)
        what = "nothing is compiled: this task's DSL is C++"
        return work_remarks(kernel, built, what, compiles=bool(built), must_do_work=must_do_work)


ADAPTER = Cpp()
