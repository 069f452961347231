"""Hands a launch of a Triton kernel to the toolchain `ascend`, from inside the sandbox.

Runs where the kernel runs, with the product's Triton. The other Triton gets the text of the
functions and plain values, and no object of this process.
"""

# Triton has no types.
# mypy: disable-error-code="import-untyped"

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import tempfile
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.evidence.ascend import lowering
from akg_tui.evidence.source_lines import rows_of

LAUNCH_S = 2 * lowering.COMPILE_S
MOST_FUNCTIONS = 200


class NotLowered(Exception):
    """A launch that does not compile for Ascend, for a reason at a line (0: unknown)."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


class Lowered:
    """A launch that was compiled for Ascend: its source, its program, the compiler's notes."""

    def __init__(self, source: Any, hivm: str, notes: tuple[str, ...]) -> None:
        self.src = source
        self.hivm = hivm
        self.notes = notes


def lower(
    source: Any, options: Mapping[str, Any], arch: str, toolchain: Path, kernel: KernelFiles
) -> Lowered:
    """Compile a source of Triton's for an arch. Raises `NotLowered`.

    `options` are those that the launch gives for Ascend, `toolchain` is the toolchain's folder.
    """
    packages = next(toolchain.glob("lib/python3.*/site-packages"))
    programs = packages / "ascendnpuir" / "bin"
    request = {
        **_described(source, kernel),
        "arch": arch,
        "options": {name: value for name, value in options.items() if name in lowering.OPTIONS},
        "compiler": str(programs / "bishengir-compile"),
    }
    with tempfile.TemporaryDirectory(prefix="ascend-", dir=os.environ.get("TMPDIR")) as scratch:
        places = [str(toolchain / "bin"), str(programs), os.defpath]
        environment = {
            **dict.fromkeys(("HOME", "TMPDIR", "TRITON_CACHE_DIR"), scratch),
            "PATH": os.pathsep.join(places),
            "TRITON_DISABLE_LINE_INFO": "false",
        }
        try:
            done = subprocess.run(
                [str(toolchain / "bin" / "python"), "-I", "-B", "-X", "utf8", lowering.__file__],
                input=json.dumps(request),
                check=False,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=LAUNCH_S,
                cwd=scratch,
                env=environment,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise NotLowered(f"the toolchain does not run: {error}") from None
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        rows = done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"]
        raise NotLowered(f"Triton for Ascend failed: {rows[-1]}") from None
    if "failed" in answer:
        raise NotLowered(str(answer["failed"]), int(answer["line"]))
    return Lowered(source, answer["hivm"], tuple(answer["notes"]))


def _described(source: Any, kernel: KernelFiles) -> dict[str, Any]:
    """Return functions, types, constants and alignment of a source as values of JSON."""
    functions = _Functions(kernel)
    functions.number(source.fn)
    names = list(source.signature)
    constants = {}
    for path, value in source.constants.items():
        if len(path) != 1:
            raise NotLowered("an argument that is a tuple is not known to Triton for Ascend")
        constants[names[path[0]]] = functions.value(value)
    for name, kind in source.signature.items():
        if kind == "constexpr" and name not in constants:
            constants[name] = {"value": None}
        elif not isinstance(kind, str) or not re.fullmatch(r"constexpr|\*?k?\*?[a-z]+\d*\w*", kind):
            raise NotLowered(f"argument {name} is of a type that Triton for Ascend does not know")
    divisible = [
        path[0] for path, known in source.attrs.items() if "tt.divisibility" in dict(known)
    ]
    return {
        "functions": functions.told,
        "signature": source.signature,
        "constants": constants,
        "divisible": divisible,
    }


class _Functions:
    """The functions that a kernel consists of, each with the globals that it uses."""

    def __init__(self, kernel: KernelFiles) -> None:
        self._kernel = kernel
        self._numbers: dict[int, int] = {}
        self.told: list[dict[str, Any]] = []

    def number(self, function: Any) -> int:
        """Return the number of a function, which is described first if it is new."""
        if id(function) in self._numbers:
            return self._numbers[id(function)]
        if len(self.told) == MOST_FUNCTIONS:
            raise NotLowered(f"the kernel calls more than {MOST_FUNCTIONS} functions")
        number = self._numbers[id(function)] = len(self.told)
        lines = rows_of(self._kernel, function.src)
        told: dict[str, Any] = {
            "name": function.__name__,
            "source": function.src,
            "line": lines[0] if lines else 0,
        }
        self.told.append(told)
        space = {**function.fn.__globals__, **inspect.getclosurevars(function.fn).nonlocals}
        used = {node.id for node in ast.walk(ast.parse(function.src)) if isinstance(node, ast.Name)}
        told["globals"] = {
            name: value
            for name in sorted(used & space.keys())
            if space[name] is not function and (value := self._known(space[name])) is not None
        }
        return number

    def value(self, value: Any) -> dict[str, Any]:
        """Return a constant for the request. Raises `NotLowered`."""
        if (known := self._known(value)) is None:
            raise NotLowered(f"a constant of type {type(value).__name__} can't be handed over")
        return known

    def _known(self, value: Any) -> dict[str, Any] | None:
        """Return how a value is told in a request, or None: then the compiler misses it."""
        import triton.language as tl
        from triton.runtime.jit import JITFunction

        if value is None or isinstance(value, bool | int | float | str):
            return {"value": value}
        if isinstance(value, types.ModuleType):
            return {"module": value.__name__}
        if isinstance(value, JITFunction):
            if value.__module__.startswith("triton."):
                return {"attribute": [_public(value), value.__name__]}
            return {"function": self.number(value)}
        if isinstance(value, tl.constexpr):
            inner = self._known(value.value)
            return None if inner is None else {"constexpr": inner}
        if isinstance(value, tl.dtype):
            return {"attribute": ["triton.language", _dtype_name(value)]}
        if isinstance(value, tuple | list):
            items = [self._known(each) for each in value]
            return None if None in items else {"tuple": items}
        name = getattr(value, "__name__", "")
        if name and getattr(value, "__module__", "").startswith("triton."):
            return {"attribute": [_public(value), name]}
        return None


def _public(value: Any) -> str:
    """Return the module that both versions of Triton have a function of the language in."""
    import triton.language as tl

    name = value.__name__
    return "triton.language" if getattr(tl, name, None) is value else str(value.__module__)


def _dtype_name(value: Any) -> str:
    import triton.language as tl

    return next((name for name in dir(tl) if getattr(tl, name) == value), str(value))
