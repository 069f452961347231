"""CUDA C++ in a string, compiled by the kernel itself with nvcc.

nvcc, its cache and the calls are `akg_tui.dsl`'s; torch's `load_inline` works where a whole CUDA
toolkit is installed. Must never import torch.
"""

from __future__ import annotations

import re
from pathlib import Path

from akg_tui.core.task import Task
from akg_tui.dsl import compilers
from akg_tui.dsl.adapters.adapter import UNKNOWN, Dsl, outside_system, version_told
from akg_tui.dsl.gpu_arches import is_ascend
from akg_tui.dsl.toolchains import toolchain_program

_COMPILE = (
    '`from akg_tui.dsl import compile_cuda`: `library = compile_cuda(SOURCE, ["launch"], "-O3")` '
    "compiles a CUDA string with nvcc for this GPU, and loads it from a cache later; each change "
    'costs some seconds. `launch` is a host function that makes launches, defined as extern "C" '
    "with void or cudaError_t as result, and pointers, numbers and a last cudaStream_t as "
    "parameters: `library.launch(x, y, rows)` passes tensors by address (contiguous ones, of the "
    "pointer's type) and PyTorch's current stream, in which launches belong. A launch that fails "
    "raises. No -arch is needed; wgmma and TMA are there on compute capability 9.0 and later."
)
_FRAME = Path(__file__).with_suffix(".txt").read_text("utf-8")


def find_nvcc() -> str:
    """Return the path of nvcc: as `akg_tui.dsl` finds it, or the private toolchain's; "" if none.

    A kernel's process finds the same one by the variable NVCC.
    """
    return compilers.find_nvcc() or str(toolchain_program("cuda", "nvcc") or "")


class CudaCpp(Dsl):
    """Kernels whose work is done by CUDA C++ that they hold in a string."""

    name = "cuda_cpp"
    sign = re.compile(r"\bcompile_cuda\b|\bcuda_sources\b")
    frame = _FRAME
    report_process = "cuda.cuda_process"
    builders = frozenset({"compile_cuda", "load_inline", "load"})
    nothing_built = (
        "nothing is compiled by compile_cuda or load_inline: this task's DSL is CUDA C++"
    )

    def facts(self, task: Task) -> str:
        """Return how a kernel compiles and calls CUDA C++."""
        return f"{_COMPILE} torch's `load_inline(cuda_sources=…)` works too."

    def unreported(self, arch: str) -> str:
        """Return that nvcc does not compile for NPUs."""
        return f"nvcc compiles for GPUs of NVIDIA, not for {arch}" if is_ascend(arch) else ""

    def lacking(self, target: str) -> str:
        """Return that there is no nvcc, or that a target runs no CUDA."""
        if target != "cuda":
            return f'dsl = "cuda_cpp" runs on a GPU of NVIDIA: backend = "cuda", not "{target}"'
        if find_nvcc():
            return ""
        try:
            compilers.nvcc()
        except compilers.CompilerMissing as error:
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
        found = outside_system(Path(path).resolve().parents[1])
        return (*super().readable(), *found, *([str(Path(path).parent)] if found else []))

    def toolchain_lacking(self) -> bool:
        """Return whether nvcc or the host's compiler, which it calls, is missing."""
        return not find_nvcc() or super().toolchain_lacking()


def _release(told: str) -> str:
    """Return the release in nvcc's words, such as `13.0, V13.0.88`."""
    lines = told.partition("release ")[2].splitlines()
    return lines[0].strip() if lines else ""


ADAPTER = CudaCpp()
