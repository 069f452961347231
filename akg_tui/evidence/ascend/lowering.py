"""Compiles one launch of a Triton kernel for Ascend, down to HIVM: all but CANN's last step.

A program for the Python of the toolchain `ascend`, which has Triton for Ascend and not this
package: it imports nothing of ours. It runs inside the sandbox of the process that starts it.
Standard input has a request as JSON, see `handover`; the answer on standard output is JSON too:
`hivm`, or `failed` with its `line`, and `notes` of the compiler. Its working folder is scratch.
"""

# Triton has no types, and is not the one of the product's environment.
# mypy: disable-error-code="import-untyped, import-not-found, attr-defined, call-arg"

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

MOST_HIVM = 1 << 20
MOST_NOTES = 8
COMPILE_S = 120

Answer = dict[str, Any]


class Refused(Exception):
    """The compiler does not accept the kernel, for a reason at a line (0: unknown)."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


class Source:
    """The functions of a request, as files whose lines are those of the kernel's file."""

    def __init__(self, functions: list[Answer]) -> None:
        self._told = functions
        self._made: dict[int, Any] = {}
        self._first = {each["source"]: each["line"] for each in functions}

    def function(self, number: int) -> Any:
        """Return a function for Triton's compiler, after those that it calls."""
        from triton.runtime.jit import JITFunction

        if number in self._made:
            return self._made[number]
        told = self._told[number]
        path = Path(f"f{number}.py").absolute()
        text = "\n" * max(told["line"] - 1, 0) + told["source"]
        path.write_text(text)
        # The compiler refuses functions that call one another; here that must only end.
        self._made[number] = None
        values = {name: self.value(value) for name, value in told["globals"].items()}
        space: dict[str, Any] = {"__name__": "kernel", **values}
        exec(compile(text, str(path), "exec", dont_inherit=True), space)
        made = self._made[number] = space[told["name"]] = JITFunction(space[told["name"]])
        return made

    def value(self, told: Answer) -> Any:
        """Return what a value of a request stands for."""
        ((kind, what),) = told.items()
        if kind == "function":
            return self.function(what)
        if kind == "module":
            return self._module(what)
        if kind == "attribute":
            module, name = what
            return getattr(self._module(module), name)
        if kind == "constexpr":
            from triton.language import constexpr

            return constexpr(self.value(what))
        if kind == "tuple":
            return tuple(self.value(each) for each in what)
        return what

    @staticmethod
    def _module(name: str) -> Any:
        try:
            return importlib.import_module(name)
        except ImportError:
            raise Refused(f"Triton for Ascend has no module {name}") from None

    def line_of(self, error: Any) -> int:
        """Return the line of the kernel's file at which Triton's front end failed."""
        first = self._first.get(getattr(error, "src", None))
        row = getattr(getattr(error, "node", None), "lineno", 0)
        return first + row - 1 if first and row else 0


def lowered(request: Answer) -> Answer:
    """Return the program of a launch in HIVM, and the compiler's notes. Raises `Refused`."""
    linalg = _linalg(request)
    kept = Path("kept")
    kept.mkdir()
    Path("kernel.mlir").write_text(linalg)
    words = [request["compiler"], "kernel.mlir", f"--target={request['arch']}"]
    words += [f"--{name}={_word(value)}" for name, value in _options(request).items()]
    done = _run([*words, "-o", "kernel.o"], AKG_HIVM_KEPT=str(kept.absolute()))
    notes = re.findall(r"\[NOTE\] ?(.+)", done.stderr + done.stdout)[:MOST_NOTES]
    # The last one sums the others up.
    notes = [each for each in notes if each.startswith("Due to")] or notes
    found = sorted(kept.iterdir())
    if not found:
        raise Refused(*_reason(done.stderr + done.stdout, notes))
    text = _with_plain_places(found[-1].read_text(errors="replace"), request["functions"])
    if len(text) > MOST_HIVM:
        raise Refused(f"the compiled program has {len(text)} characters, which is not read")
    return {"hivm": text, "notes": notes}


def _with_plain_places(text: str, functions: list[Answer]) -> str:
    """Return a program whose places are in `kernel.py`, or name what is not of that file."""
    for number, told in enumerate(functions):
        name = "kernel.py" if told["line"] else told["name"]
        text = text.replace(f'"{Path(f"f{number}.py").absolute()}"', f'"{name}"')
    return re.sub(r'loc\("/[^"]*/site-packages/', 'loc("', text)


OPTIONS = {
    "multibuffer": "enable-auto-multi-buffer",
    "enable_auto_bind_sub_block": "enable-auto-bind-sub-block",
    "enable_hivm_auto_cv_balance": "enable-hivm-auto-cv-balance",
    "sync_solver": "enable-hivm-graph-sync-solver",
    "unit_flag": "enable-hivm-unit-flag-sync",
    "inject_barrier_all": "enable-hivm-inject-barrier-all-sync",
    "inject_block_all": "enable-hivm-inject-block-all-sync",
    "limit_auto_multi_buffer_only_for_local_buffer": (
        "limit-auto-multi-buffer-only-for-local-buffer"
    ),
    "limit_auto_multi_buffer_of_local_buffer": "limit-auto-multi-buffer-of-local-buffer",
    "set_workspace_multibuffer": "set-workspace-multibuffer",
    "tile_mix_vector_loop": "tile-mix-vector-loop",
    "tile_mix_cube_loop": "tile-mix-cube-loop",
    "disable_auto_inject_block_sync": "disable-auto-inject-block-sync",
}
"""The options of a launch on Ascend, and those of the compiler, as Triton for Ascend hands them."""


def _options(request: Answer) -> Answer:
    given = {"multibuffer": True, "enable_auto_bind_sub_block": True, **request["options"]}
    told = {OPTIONS[name]: value for name, value in given.items() if value is not None}
    return told | {
        "enable-debug-info": True,
        "enable-hfusion-compile": True,
        "enable-hivm-compile": True,
        "enable-triton-kernel-compile": True,
    }


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _linalg(request: Answer) -> str:
    """Return a launch as Triton for Ascend gives it to the compiler of the NPU."""
    from triton._C.libtriton import ir
    from triton.backends.ascend.compiler import (
        AscendAttrsDescriptor,
        AscendBackend,
        _parse_linalg_metadata,
        make_ttir,
        ttir_to_linalg,
    )
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import ASTSource

    source = Source(request["functions"])
    target = GPUTarget("npu", request["arch"], 0)
    backend = AscendBackend(target)
    options = backend.parse_options(request["options"])
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    attributes = AscendAttrsDescriptor()
    attributes.arg_properties = {"tt.divisibility": request["divisible"]}
    constants = {name: source.value(value) for name, value in request["constants"].items()}
    try:
        launched = ASTSource(source.function(0), request["signature"], constants, attributes)
        module = launched.make_ir(
            options, backend.get_codegen_implementation(), backend.get_module_map(), context
        )
        metadata = dict(options.__dict__, target=target, hash="0")
        module = make_ttir(module, metadata, options)
        linalg = ttir_to_linalg(module, metadata, options, named_ops=True)
    except subprocess.CalledProcessError as error:
        raise Refused(*_reason(error.stderr.decode(errors="replace"), [])) from None
    except Refused:
        raise
    except Exception as error:  # noqa: BLE001 (a compiler may raise anything)
        chain: list[BaseException] = [error]
        while (cause := chain[-1].__cause__) is not None:
            chain.append(cause)
        # Of errors that are chained from the kernel to what it calls, the innermost tells most.
        line = next((found for each in reversed(chain) if (found := source.line_of(each))), 0)
        inner = chain[-1]
        told = getattr(inner, "error_message", None) or str(inner).rpartition("\n")[2]
        raise Refused(f"{told or type(inner).__name__}", line) from None
    text, _ = _parse_linalg_metadata(linalg, metadata)
    return str(text)


def _reason(said: str, notes: list[str]) -> tuple[str, int]:
    """Return what a compiler says is wrong, and at which line of the kernel's file."""
    errors = re.findall(r"(?:loc\((.*)\): )?error: (.+)", said)
    # What failed first is told last, before the name of the pipeline that failed.
    told = [each for each in errors if "pipeline" not in each[1]]
    if not told:
        rows = [row.strip() for row in said.splitlines() if row.strip() and "[NOTE]" not in row]
        last = rows[-1] if rows else "it ended without a word"
        return " ".join(["the compiler failed:", last, *notes[-1:]]), 0
    where, what = told[0]
    found = re.search(r'f\d+\.py":(\d+)', where)
    return what, int(found[1]) if found else 0


def _run(words: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMPILE_S,
            env={**os.environ, **environment},
        )
    except subprocess.TimeoutExpired:
        raise Refused(f"the compiler did not end within {COMPILE_S} s") from None


def main() -> None:
    """Answer the request on standard input."""
    request = json.load(sys.stdin)
    # Compilers of the toolchain print, and so may code that is run while it is compiled.
    answer, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
    os.dup2(2, 1)
    try:
        told = lowered(request)
    except Refused as error:
        told = {"failed": str(error), "line": error.line}
    json.dump(told, answer)
    answer.close()


if __name__ == "__main__":
    main()
