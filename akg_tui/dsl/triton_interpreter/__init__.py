"""Corrects Triton's interpreter, so that it computes as Triton's compiler would.

`arithmetic` has the types and operations, `kernel_language` the meaning of text and arguments,
`tuning` the autotuner, and `host_cuda` has CUDA mean the host. Only processes that run kernels may
import it: it changes modules of Triton and torch. Each correction is a row of `CORRECTIONS`.
"""

from __future__ import annotations

from akg_tui.dsl.triton_interpreter import arithmetic, host_cuda, kernel_language, tuning

CORRECTIONS = {
    "bfloat16": (arithmetic.correct_types, "it computes on the bits; here in float32, rounded"),
    "operations": (arithmetic.correct_operations, "its products and atomics know no such types"),
    "scans": (arithmetic.correct_scans, "it takes one element at a time"),
    "libdevice": (arithmetic.add_libdevice, "it has none of CUDA's functions"),
    "text": (
        kernel_language.correct_text,
        "`and`, `or`, `not` and loops mean something else in Python",
    ),
    "arguments": (
        kernel_language.correct_arguments,
        "floats and booleans of a launch stay Python's",
    ),
    "tuners": (tuning.correct_tuners, "several configurations need a driver and a clock"),
}
"""By name of a correction: the function that makes it, and the reason."""


def correct_language() -> None:
    """Correct the interpreter alone; the compiler beside it stays as it is."""
    for name in ("bfloat16", "operations", "scans", "libdevice", "text", "arguments"):
        CORRECTIONS[name][0]()


def install() -> None:
    """Correct the interpreter for all kernels of this process, and have CUDA mean the host."""
    for correct, _ in CORRECTIONS.values():
        correct()
    kernel_language.keep_patched()
    host_cuda.install()
