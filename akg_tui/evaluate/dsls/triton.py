"""Triton: compiled on a GPU; on the CPU run by its interpreter, for verification only.

The interpreter runs the programs of a grid one after the other, in Python: its results
can be compared, its times are meaningless. Must never import torch or triton.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.metadata
import importlib.util
from collections.abc import Iterator

from akg_tui.evaluate.dsls.adapter import CompilerReport, Dsl, first_line
from akg_tui.evaluate.kernel_text import Function, Kernel, Remark

INTERPRETED = "verified only: Triton's interpreter says nothing about time"
JIT = frozenset({"triton.jit", "triton.runtime.jit", "triton.runtime.jit.jit"})
REFUSALS = frozenset(
    {"CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct"}
)
"""The exceptions of Triton's compiler for code that it does not accept."""
ASCEND_REFUSAL = "MLIRCompilationError"
"""The exception of triton-ascend for a refusal of bishengir-compile; it holds its whole output."""


class Triton(Dsl):
    """Kernels whose work is done by functions that `triton.jit` decorates."""

    name = "triton"

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
        return (*language, "triton.runtime.interpreter") if target == "cpu" else language

    def versions(self, target: str) -> dict[str, str]:
        """Return Triton's version, and that it was interpreted."""
        how = ", interpreter" if target == "cpu" else ""
        return {"triton": _version() + how}

    def report(self, error: BaseException) -> CompilerReport | None:
        """Return the error inside a Triton program, not the interpreter's error around it."""
        module, name = type(error).__module__, type(error).__name__
        if module.partition(".")[0] != "triton":
            return super().report(error)
        if name == "InterpreterError" and error.__cause__ is not None:
            inner = error.__cause__
            return CompilerReport("call", f"{type(inner).__name__}: {inner}", inner)
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

    def built(self, kernel: Kernel) -> set[str]:
        """Return the functions that `triton.jit` decorates, and names assigned from them."""
        names = {f.name for f in _functions(kernel) if self.is_own(f, kernel)}
        for node in ast.walk(kernel.tree):
            if isinstance(node, ast.Assign) and any(
                name in JIT for _, name in kernel.calls(node.value)
            ):
                names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        return names

    def is_own(self, function: Function, kernel: Kernel) -> bool:
        """Return whether `triton.jit` decorates the function, with or without arguments."""
        for decorator in function.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if kernel.name(called) in JIT:
                return True
        return False

    def remarks(self, kernel: Kernel, *, must_do_work: bool) -> Iterator[Remark]:
        """Yield a remark if no Triton kernel is written, or no call launches one."""
        line = first_line(kernel)
        own = {f.name for f in _functions(kernel) if self.is_own(f, kernel)}
        if not self.built(kernel):
            what = "nothing has triton.jit: this task's DSL is Triton"
            yield Remark("dsl", line, what, cheat=must_do_work)
        elif not any(
            _launches(node)
            for function in kernel.reached
            if function.name not in own
            for node in ast.walk(function)
        ):
            what = "forward launches no Triton kernel, as in kernel[grid](...)"
            yield Remark("dsl", line, what, cheat=must_do_work)


def _launches(node: ast.AST) -> bool:
    """Return whether this is `kernel[grid](...)`: no other call has a subscript before it.

    The name before the subscript is not checked, because it may come from anywhere (a table of
    kernels, an attribute): a rule that refuses honest code costs more than one that is evaded.
    """
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Subscript):
        return True
    by_name = isinstance(node.func, ast.Attribute) and node.func.attr == "run"
    return by_name and any(keyword.arg == "grid" for keyword in node.keywords)


def _functions(kernel: Kernel) -> list[Function]:
    return [n for n in ast.walk(kernel.tree) if isinstance(n, ast.FunctionDef)]


@functools.cache
def _version() -> str:
    for name in ("triton", "triton-ascend"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return "of unknown version"


ADAPTER = Triton()
