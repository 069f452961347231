"""Reads one kernel in a confined process: loads and calls it, and disassembles its C++.

Started by `asking` with a request on standard input; answers with `KernelFindings` on standard
output. It runs untrusted code, compilers and binutils under the protections of a kernel, so nothing
of its answer may decide anything.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from akg_tui import dsl
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.dsl import compilers
from akg_tui.evaluate.sandbox import confinement, namespaces
from akg_tui.evaluate.sandbox.protections import missing, named
from akg_tui.evidence import compiler_remarks, disassembly
from akg_tui.evidence.findings import (
    CodeFunction,
    CompilerRemark,
    KernelFindings,
    MachineCode,
    Request,
)
from akg_tui.evidence.source_lines import rows_of

NOT_CONFINED = 125
SEED = 1
MOST_UNITS = 4
MOST_LISTING = 24 << 20
MOST_REMARKS = 4 << 20
TOOL_S = 30.0

NOTHING_COMPILED = "the kernel compiles no C++ with compile_cpp"
_INLINE = "it is built by torch's load_inline; only what compile_cpp builds is read"
_GCC_REMARKS = "-fopt-info-vec-optimized-missed"
_HOMES = ("HOME", "TMPDIR", "AKG_CACHE_DIR", "TRITON_HOME")
"""The variables that name folders to write to."""

AnyRequest = TypeVar("AnyRequest", bound=Request)


class _Unit(NamedTuple):
    """One translation unit that the kernel compiled."""

    source: str
    flags: tuple[str, ...]
    built: Path
    remarks: Path


class _NotRead(Exception):
    """The kernel uses a way to build that is not read here."""


class Recorder:
    """Stands in for `compile_cpp`: builds the same code with lines and remarks, and notes it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._compile = compilers.compile_cpp
        self._seen: set[tuple[str, tuple[str, ...]]] = set()
        self.units: list[_Unit] = []
        self.inline = False

    def compile_cpp(self, source: str, flags: str | Sequence[str] = ()) -> object:
        """Compile and load like `akg_tui.dsl.compile_cpp`. Debug lines change no instruction."""
        words = tuple(shlex.split(flags)) if isinstance(flags, str) else tuple(flags)
        remarks = self._folder / f"remarks-{len(self.units)}"
        extra = ["-g1"]
        if _is_gcc():
            extra.append(f"{_GCC_REMARKS}={remarks}")
        try:
            library = self._compile(source, (*words, *extra))
        except compilers.CompileError:
            # As the kernel asked for it: then the error is the kernel's own.
            library = self._compile(source, words)
        if (source, words) not in self._seen and len(self.units) < MOST_UNITS:
            self._seen.add((source, words))
            self.units.append(_Unit(source, words, Path(library._name), remarks))
        return library

    def load_inline(self, *_: object, **__: object) -> object:
        """Stand in for torch's load_inline, which takes up to a minute."""
        self.inline = True
        raise _NotRead(_INLINE)


def _is_gcc() -> bool:
    command = compilers.find_compiler()
    return bool(command) and "Free Software" in run_tool([*command, "--version"], 1 << 14)


def run_tool(command: Sequence[str], most: int) -> str:
    """Return the first `most` bytes of what a program prints; "" if it fails to run in time."""
    with Path("output").open("w+b") as log:
        try:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.DEVNULL,
                timeout=TOOL_S,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return ""
        log.seek(0)
        return log.read(most).decode("utf-8", "replace")


def inspect(request: Request, folder: Path) -> KernelFindings:
    """Load and call the kernel, and read what it compiled."""
    recorder = Recorder(folder)
    import torch.utils.cpp_extension as extensions

    dsl.compile_cpp = recorder.compile_cpp  # type: ignore[assignment]
    why = NOTHING_COMPILED
    try:
        extensions.load_inline = extensions.load = recorder.load_inline
        loaded(request)()
    except BaseException as error:  # noqa: BLE001 (a kernel may raise SystemExit)
        why = _INLINE if recorder.inline else f"the kernel does not run: {said(error)}"
    if not recorder.units:
        return KernelFindings(left_out={"machine code": why})
    left_out: dict[str, str] = {}
    code = _machine_code(request, recorder.units, left_out)
    return KernelFindings(code=code, left_out=left_out)


def said(error: BaseException) -> str:
    """Return a failure of loading or calling in one line."""
    from akg_tui.evaluate.child.faults import Fault, describe

    return str(error if isinstance(error, Fault) else describe(error))[:300]


def loaded(request: Request, device: str = "") -> Callable[[], None]:
    """Load the kernel; return what calls it on the reference's inputs.

    Model and tensors are on the `device` of PyTorch, by default in the host's memory.
    """
    import torch

    from akg_tui.evaluate.child.input_generator import ReferenceServer
    from akg_tui.evaluate.child.kernel_server import Server, seed_all
    from akg_tui.evaluate.protocol.child_protocol import Plan, Status
    from akg_tui.evaluate.protocol.value_tree import nested_arguments

    torch.set_num_threads(request.threads)
    name = request.reference_name
    files = KernelFiles({name: request.reference})
    reference = ReferenceServer(Plan(kind="reference", files=files, seed=SEED), {})
    reference.execute()
    reference.load_model()
    model = reference.model
    weights = model.state_dict() if isinstance(model, torch.nn.Module) else {}
    seed_all(SEED)
    inputs, group = reference.draw_inputs(), reference.inputs.group
    kernel = Server(Plan(kind="kernel", files=request.kernel, seed=SEED), {})
    kernel.execute()
    given = nested_arguments(reference.given.group, reference.given.values, kernel.named)
    called = kernel.construct("ModelNew", given, weights)
    if device:
        inputs = [each.to(device) if isinstance(each, torch.Tensor) else each for each in inputs]
        if isinstance(called, torch.nn.Module):
            called.to(device)

    def call() -> None:
        try:
            nested_arguments(group, inputs, kernel.named).call(called)
        except BaseException as error:
            raise kernel.fault(error, Status.CALL) from error

    return call


def _machine_code(
    request: Request, units: Sequence[_Unit], left_out: dict[str, str]
) -> MachineCode:
    """Disassemble what was compiled. Reasons for what is missing are put into `left_out`."""
    command = compilers.find_compiler()
    version = run_tool([*command, "--version"], 1 << 14).partition("\n")[0] if command else ""
    functions: list[CodeFunction] = []
    remarks: list[CompilerRemark] = []
    cut = 0
    for unit in units:
        lines = rows_of(request.kernel, unit.source)

        def line_of(number: int, lines: Sequence[int] = lines) -> int:
            return lines[number - 1] if 0 < number <= len(lines) else 0

        remarks += _remarks_of(unit, line_of)
        if shutil.which("objdump"):
            words = ["objdump", "-dlC", "--no-show-raw-insn", "-j", ".text", str(unit.built)]
            listing = run_tool(words, MOST_LISTING)
            read, more = disassembly.read_functions(
                listing.splitlines(), line_of, compilers.SOURCE_NAME
            )
            functions += read
            cut += more
    if not shutil.which("objdump"):
        left_out["machine code"] = left_out["hot loop"] = "objdump is not installed (binutils)"
    elif not functions:
        left_out["machine code"] = "objdump found no functions in what was compiled"
    if not _is_gcc():
        left_out["remarks"] = "only those of GCC are read"
    elif not remarks:
        left_out["remarks"] = "the compiler made none; below -O2 it does not vectorize"
    loops = disassembly.find_loops(functions)
    if functions and not loops:
        left_out["hot loop"] = "no function has a loop"
    flags = " ".join(dict.fromkeys(" ".join(unit.flags) for unit in units))
    return MachineCode(
        compiler=f"{version} {flags}".strip()[:300],
        functions=tuple(functions),
        loops=tuple(loops),
        remarks=tuple(remarks[: compiler_remarks.MOST_REMARKS]),
        cut=cut,
    )


def _remarks_of(unit: _Unit, line_of: Callable[[int], int]) -> list[CompilerRemark]:
    text = ""
    with contextlib.suppress(OSError), unit.remarks.open("rb") as opened:
        text = opened.read(MOST_REMARKS).decode("utf-8", "replace")
    return compiler_remarks.read_remarks(text.splitlines(), line_of, compilers.SOURCE_NAME)


def confined(
    arguments: list[str],
    kind: type[AnyRequest],
    answer: Callable[[AnyRequest, Path], Struct],
    before: Callable[[], object] = lambda: None,
    programs: Callable[[AnyRequest], tuple[str, ...]] = lambda _: (),
    *,
    loads_torch: bool = True,
) -> int:
    """Confine this process, and answer the request of this kind on standard input.

    `before` is called before the sandbox is entered; torch is loaded before, as it reads much.
    `programs` are paths that it may execute from besides the usual ones.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--memory-bytes", type=int, required=True)
    parser.add_argument("--cpu-seconds", type=int, required=True)
    parser.add_argument("--require", action="store_true", help="refuse where walls are missing")
    parser.add_argument("--idle", action="store_true", help="give way to every other process")
    wanted = parser.parse_args(arguments)
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=kind)
    output, nothing = os.dup(1), os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    if loads_torch:
        import torch  # noqa: F401
    isolated = not namespaces.enter_pid_namespace()
    parent = os.getpid()
    if isolated and (pid := namespaces.PidNamespaceForker().fork()):
        namespaces.wait_and_exit(pid)
    if wanted.idle:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    before()
    folder = wanted.folder.absolute()
    rights = confinement.Confinement(
        folder=str(folder),
        programs=(*confinement.programs(), *programs(request)),
        data=(*confinement.DATA, *request.readable),
        devices=request.devices,
        memory_bytes=wanted.memory_bytes,
        cpu_seconds=wanted.cpu_seconds,
        bounds_address_space=request.bounds_address_space,
        own_pid_namespace=isolated,
    )
    tried = confinement.enter(rights, parent=parent if isolated else os.getppid())
    if wanted.require and missing(named(tried)):
        return NOT_CONFINED
    os.chdir(folder)
    os.environ |= dict.fromkeys(_HOMES, str(folder))
    found = msgspec.json.encode(answer(request, folder))
    with os.fdopen(output, "wb") as out:
        out.write(found)
    # Skips what a kernel may have registered for the exit.
    os._exit(0)


def main(arguments: list[str]) -> int:
    """Read the kernel that standard input asks about, and answer."""
    return confined(arguments, Request, inspect)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
