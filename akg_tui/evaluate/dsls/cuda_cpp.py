"""CUDA C++ in a string, compiled by the kernel itself with nvcc.

nvcc, its cache and the calls are `akg_tui.dsl`'s; torch's `load_inline` works where a whole CUDA
toolkit is installed. Must never import torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from akg_tui import dsl
from akg_tui.evaluate.dsls.adapter import (
    SYSTEM,
    UNKNOWN,
    Dsl,
    called_names,
    version_told,
    work_remarks,
)
from akg_tui.evaluate.kernel_text import Kernel, Remark
from akg_tui.evaluate.targets.toolchains import toolchain_program

COMPILING = frozenset({"compile_cuda", "load_inline", "load"})


def find_nvcc() -> str:
    """Return the path of nvcc: as `akg_tui.dsl` finds it, or the private toolchain's; "" if none.

    A kernel's process finds the same one by the variable NVCC.
    """
    return dsl.find_nvcc() or str(toolchain_program("cuda", "nvcc") or "")


class CudaCpp(Dsl):
    """Kernels whose work is done by CUDA C++ that they hold in a string."""

    name = "cuda_cpp"

    def lacking(self, target: str) -> str:
        """Return that there is no nvcc, or that a target runs no CUDA."""
        if target != "cuda":
            return f'dsl = "cuda_cpp" runs on a GPU of NVIDIA: backend = "cuda", not "{target}"'
        if find_nvcc():
            return ""
        try:
            dsl.nvcc()
        except dsl.CompilerMissing as error:
            return f'dsl = "cuda_cpp" needs {error}, or: akg-tui toolchain add cuda'
        return ""

    def environment(self, target: str) -> dict[str, str]:
        """Return where nvcc and its toolkit are, for `compile_cuda` and for `load_inline`."""
        path = find_nvcc()
        if target != "cuda" or not path:
            return {}
        return {"NVCC": path, "CUDA_HOME": str(Path(path).resolve().parents[1])}

    def versions(self, target: str) -> dict[str, str]:
        """Return the version of nvcc."""
        path = find_nvcc()
        return (
            {"nvcc": _release(version_told(path)) or UNKNOWN} if target == "cuda" and path else {}
        )

    def readable(self) -> tuple[str, ...]:
        """Return the folder of the CUDA toolkit, besides that of the host's compiler."""
        path = find_nvcc()
        if not path:
            return super().readable()
        root = Path(path).resolve().parents[1]
        if any(root.is_relative_to(parent) for parent in SYSTEM):
            return super().readable()
        return (*super().readable(), str(root), str(Path(path).parent))

    def toolchain_lacking(self) -> bool:
        """Return whether nvcc or the host's compiler, which it calls, is missing."""
        return not find_nvcc() or super().toolchain_lacking()

    def remarks(self, kernel: Kernel, *, must_do_work: bool) -> Iterator[Remark]:
        """Return a remark if no CUDA is compiled, or no call reaches what was compiled."""
        what = "nothing is compiled by compile_cuda or load_inline: this task's DSL is CUDA C++"
        compiles = bool(called_names(kernel) & COMPILING)
        return work_remarks(
            kernel, self.built(kernel), what, compiles=compiles, must_do_work=must_do_work
        )


def _release(told: str) -> str:
    """Return the release in nvcc's words, such as `13.0, V13.0.88`."""
    lines = told.partition("release ")[2].splitlines()
    return lines[0].strip() if lines else ""


ADAPTER = CudaCpp()
