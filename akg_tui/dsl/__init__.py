"""Functions that kernels import: compilers for C++, CUDA and Ascend C, addresses of tensors.

`adapters/` has one adapter a DSL. Importing this package imports none of them, and no torch.
"""

from __future__ import annotations

from akg_tui.dsl.compilers import (
    CompileError,
    CompilerMissing,
    compile_ascendc,
    compile_cpp,
    compile_cuda,
    pointer,
    read_cpp,
)
from akg_tui.dsl.cuda_calls import CudaError, CudaLibrary

__all__ = [
    "CompileError",
    "CompilerMissing",
    "CudaError",
    "CudaLibrary",
    "compile_ascendc",
    "compile_cpp",
    "compile_cuda",
    "pointer",
    "read_cpp",
]
