"""Triton: compiled on a GPU; on the CPU run by its interpreter, for verification only.

The interpreter runs the programs of a grid one after the other, in Python: its results
can be compared, its times are meaningless. Must never import torch or triton.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import importlib.util
import multiprocessing
import re
import threading

from akg_tui.core.task import Task
from akg_tui.dsl.adapters.adapter import CompilerReport, Dsl
from akg_tui.dsl.interpretation import CannotRunHere, NotCompiled, NoValidLaunch

INTERPRETED = "verified only: Triton's interpreter says nothing about time"
_FACTS = (
    "Triton runs in its interpreter here: kernels are verified, never timed, so no attempt can be "
    "kept for its speed."
)
REFUSALS = frozenset(
    {"CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct"}
)
"""The exceptions of Triton's compiler for code that it does not accept."""
ASCEND_REFUSAL = "MLIRCompilationError"
"""The exception of triton-ascend for a refusal of bishengir-compile; it holds its whole output."""


class Triton(Dsl):
    """Kernels whose work is done by functions that `triton.jit` decorates."""

    name = "triton"
    sign = re.compile(r"^\s*(?:import|from)\s+triton\b", re.M)
    generated_for = frozenset({"cuda", "cpu"})
    report_process = "compile_process"
    has_launches = True
    builders = frozenset({"jit"})
    nothing_built = "nothing has triton.jit: this task's DSL is Triton"

    def facts(self, task: Task) -> str:
        """Return that nothing is timed where kernels are interpreted."""
        return _FACTS if self.untimed(task.target.backend) else ""

    def lacking(self, target: str) -> str:
        """Return how to install Triton if it is missing, else ""."""
        if importlib.util.find_spec("triton") is not None:
            return ""
        return "this task's DSL is Triton, which is not installed: pip install 'akg-tui[triton]'"

    def instead(self) -> str:
        """Return that the interpreter verifies, and that the compiler says much."""
        if why := self.lacking("cpu"):
            return why
        return (
            'backend = "cpu" verifies kernels in dsl = "triton" here, and '
            "`akg-tui eval --compile-report` compiles them"
        )

    def untimed(self, target: str) -> str:
        """Return, on the CPU, that the interpreter's times are meaningless: it has no compiler."""
        return INTERPRETED if target == "cpu" else ""

    def environment(self, target: str) -> dict[str, str]:
        """Return the variable that selects the interpreter, read when a kernel is decorated."""
        return {"TRITON_INTERPRET": "1"} if target == "cpu" else {}

    def preloaded(self, target: str) -> tuple[str, ...]:
        """Return Triton's modules; loading the interpreter alone takes a quarter of a second."""
        language = ("triton", "triton.language")
        interpreter = ("triton.runtime.interpreter", "triton.runtime.autotuner")
        return (*language, *interpreter) if target == "cpu" else language

    def prepare(self, target: str) -> None:
        """Have the interpreter compute as the compiler would, and CUDA mean the host."""
        lock_by_threads()
        if self.environment(target):
            from akg_tui.dsl import triton_interpreter

            triton_interpreter.install()

    def versions(self, target: str) -> dict[str, str]:
        """Return Triton's version, and that it was interpreted."""
        how = ", interpreter" if target == "cpu" else ""
        return {"triton": _version() + how}

    def report(self, error: BaseException) -> CompilerReport | None:
        """Return the error inside a Triton program, not the interpreter's error around it."""
        module, name = type(error).__module__, type(error).__name__
        if isinstance(error, CannotRunHere):
            return CompilerReport("unsupported", f"could not run here: {error}", error)
        if isinstance(error, NotCompiled):
            return CompilerReport("build", f"Triton does not compile: {error}", error)
        if isinstance(error, NoValidLaunch) or name == "AutotunerError":
            return CompilerReport("call", str(error), error)
        if module.partition(".")[0] != "triton":
            return super().report(error)
        if name == "InterpreterError" and error.__cause__ is not None:
            inner = error.__cause__
            own = self.report(inner)
            return own or CompilerReport("call", f"{type(inner).__name__}: {inner}", inner)
        if name == ASCEND_REFUSAL:
            lines = [line for line in str(error).splitlines() if line.strip(" /-")]
            lines = [line for line in lines if not line.startswith(("///", "["))] or lines or [name]
            first = next((line for line in lines if "error" in line), lines[0]).strip()
            return CompilerReport(
                "build", f"Triton does not compile: {first}", error, "\n".join(lines)
            )
        if name in REFUSALS:
            first, _, rest = str(error).partition("\n")
            return CompilerReport("build", f"Triton does not compile: {first}", error, rest)
        return None


def lock_by_threads() -> None:
    """Have locks among processes, which launchers hold, be locks among threads.

    The others need files in /dev/shm, which the sandbox denies; a kernel is one process.
    """
    multiprocessing.Lock, multiprocessing.RLock = threading.Lock, threading.RLock  # type: ignore[assignment]


@functools.cache
def _version() -> str:
    for name in ("triton", "triton-ascend"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return "of unknown version"


ADAPTER = Triton()
