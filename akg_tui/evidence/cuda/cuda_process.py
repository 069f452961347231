"""Compiles the CUDA that one call launches, in a confined process without a GPU.

Started by `asking` like `compile_process`. nvcc compiles for each arch; the host part runs with a
runtime that notes launches (`launch_recorder`), so forward goes on with results that no launch has
written. Nothing of an answer may decide anything: it comes from untrusted code.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from ctypes import CDLL
from pathlib import Path
from typing import NamedTuple

import msgspec

from akg_tui import dsl
from akg_tui.dsl import compilers
from akg_tui.dsl.cuda_calls import EPILOGUE, CudaLibrary
from akg_tui.dsl.gpu_arches import ARCHES
from akg_tui.evidence.compile_report import (
    MOST_LAUNCHES,
    Compiled,
    CompileFor,
    CompileReport,
    Launch,
)
from akg_tui.evidence.cuda import launch_recorder
from akg_tui.evidence.cuda.launch_recorder import Noted
from akg_tui.evidence.gpu import assembly
from akg_tui.evidence.gpu.assembly import Entry
from akg_tui.evidence.kernel_process import confined, loaded, said
from akg_tui.evidence.source_lines import rows_of

MOST_UNITS = 4
MOST_PTX = 16 << 20
MOST_TEXT = 600
STATIC_LIMIT = 48 << 10
"""More shared memory of a block has to be allowed with cudaFuncSetAttribute, on every arch."""
GRID_LIMITS = (2**31 - 1, 65535, 65535)
NO_CUDA = "the kernel compiles no CUDA with compile_cuda"
INLINE = "it is built by torch's load_inline; only what compile_cuda builds is read"


class _Built(msgspec.Struct, frozen=True):
    """A unit compiled for an arch: its kernels, or why it does not."""

    arch: str
    failed: str = ""
    entries: dict[str, Entry] = {}
    remarks: tuple[str, ...] = ()


class _Unit(NamedTuple):
    """A source that the kernel compiled, its builds, and its library with the recorder."""

    source: str
    builds: tuple[_Built, ...]
    library: CDLL


class _NotRead(Exception):
    """The kernel uses a way to build that is not read here."""


class Recorder:
    """Stands in for `compile_cuda`: compiles for all arches, and notes what is launched."""

    def __init__(self, request: CompileFor, folder: Path) -> None:
        self._request = request
        self._folder = folder
        self._units: dict[tuple[str, tuple[str, ...]], _Unit] = {}
        self._failed: list[Launch] = []

    def compile_cuda(
        self, source: str, functions: Sequence[str], flags: str | Sequence[str] = ()
    ) -> CudaLibrary:
        """Compile like `akg_tui.dsl.compile_cuda`, which has the meaning of the arguments."""
        words = tuple(shlex.split(flags)) if isinstance(flags, str) else tuple(flags)
        words = compilers.without_arch(words)
        with compilers.faults_of(source):
            called = compilers.declared_functions(compilers.CUDA, source, functions)
            if (source, words) not in self._units:
                if len(self._units) == MOST_UNITS:
                    raise _NotRead(f"it compiles more than {MOST_UNITS} sources")
                self._units[source, words] = self._compiled(source, words)
        return CudaLibrary(self._units[source, words].library, called, place="cpu")

    def load_inline(self, *_: object, **__: object) -> object:
        """Stand in for torch's load_inline, which needs a GPU."""
        raise _NotRead(INLINE)

    def _compiled(self, source: str, words: tuple[str, ...]) -> _Unit:
        nvcc, _ = compilers.nvcc()
        errors: list[compilers.CompileError] = []
        builds: list[_Built] = []
        for arch in self._request.arches:
            place = self._folder / f"unit-{len(self._units)}-{arch}"
            try:
                builds.append(_built(nvcc, source, words, arch, place))
            except compilers.CompileError as error:
                errors.append(error)
                builds.append(_Built(arch, str(error)))
        good = next((each.arch for each in builds if not each.failed), None)
        if good is None:
            self._failed.append(self._unlaunched("", source, builds))
            raise errors[0]
        return _Unit(source, tuple(builds), self._library(nvcc, source, words, good))

    def _library(self, nvcc: list[str], source: str, words: tuple[str, ...], arch: str) -> CDLL:
        """Return the host part of a source, linked with the recorder."""
        place = self._folder / f"host-{len(self._units)}"
        command = _command(nvcc, source + EPILOGUE, words, arch, place)
        (place / launch_recorder.FILE).write_text(launch_recorder.SOURCE)
        command += ["-cudart=none", "-shared", launch_recorder.FILE, "-o", "host.so"]
        compilers.run_compiler(command, place, compilers.CUDA)
        try:
            return CDLL(str(place / "host.so"))
        except OSError as error:
            missing = str(error).rpartition(": ")[2]
            raise _NotRead(
                f"no {missing}: what notes launches without a GPU has a part of the CUDA runtime"
            ) from error

    def launches(self) -> list[Launch]:
        """Return each different launch, and kernels that were compiled and not launched."""
        found = list(self._failed)
        for unit in self._units.values():
            noted = Counter(launch_recorder.launches(unit.library))
            found += [self._launch(unit, each, times) for each, times in noted.items()]
            known = {each.symbol for each in noted}
            symbols = {name: None for built in unit.builds for name in built.entries}
            found += [
                self._unlaunched(name, unit.source, unit.builds)
                for name in symbols
                if name not in known
            ]
        return found

    def _launch(self, unit: _Unit, noted: Noted, times: int) -> Launch:
        name, arguments = _name_and_arguments(noted.name)
        line = self._line(unit.source, name)
        return Launch(
            kernel=name,
            line=line,
            arguments=arguments,
            constants=(f"block {'x'.join(map(str, noted.block))}",),
            grid=noted.grid,
            launches=times,
            compiled=tuple(_for_arch(built, noted) for built in unit.builds),
        )

    def _unlaunched(self, symbol: str, source: str, builds: Sequence[_Built]) -> Launch:
        line = 0
        if told := re.match(r"CUDA line (\d+)", builds[0].failed):
            line = self._in_text(source, int(told[1]))
        compiled = [_of_entry(built, symbol) for built in builds]
        compiled = [
            msgspec.structs.replace(each, line=line) if each.failed else each for each in compiled
        ]
        return Launch(
            kernel=symbol[:MOST_TEXT] or compilers.CUDA.file,
            line=line,
            arguments=(),
            constants=(),
            grid=(),
            launches=0,
            compiled=tuple(compiled),
        )

    def _line(self, source: str, name: str) -> int:
        """Return the line of the kernel's text where a function is defined."""
        plain = re.escape(re.split(r"[<:]", name)[0])
        found = re.search(rf"__global__[^;{{]*?\b{plain}\s*\(", source)
        return self._in_text(source, source.count("\n", 0, found.end()) + 1) if found else 0

    def _in_text(self, source: str, number: int) -> int:
        """Return the line of the kernel's text that is line `number` of a source; 0: unknown."""
        request = self._request
        lines = rows_of(request.kernel, source)
        return lines[number - 1] if 0 < number <= len(lines) else 0


def _command(
    nvcc: list[str], source: str, words: tuple[str, ...], arch: str, place: Path
) -> list[str]:
    """Write a source into a new folder; return the beginning of a command that compiles it."""
    place.mkdir()
    (place / compilers.CUDA.file).write_text(source, "utf-8", "surrogateescape")
    _, options = compilers.linked_last(words)
    of_arch = compilers.arch_flag(compilers.full_arch(arch))
    return [*nvcc, *compilers.CUDA_FLAGS, *options, of_arch, compilers.CUDA.file]


def _built(nvcc: list[str], source: str, words: tuple[str, ...], arch: str, place: Path) -> _Built:
    """Compile a source for an arch in a folder; raises CompileError."""
    command = _command(nvcc, source, words, arch, place)
    command += ["-cubin", "-Xptxas=-v", "--keep", "--keep-dir=.", "-o", "kernel.cubin"]
    log = compilers.run_compiler(command, place, compilers.CUDA)
    with (place / "kernel.ptx").open("rb") as opened:
        ptx = opened.read(MOST_PTX).decode("utf-8", "replace")
    entries = assembly.read_entries(ptx, log)
    remarks = tuple(each[:MOST_TEXT] for each in assembly.ptxas_remarks(log))
    return _Built(arch, "", entries, remarks)


def _of_entry(built: _Built, symbol: str) -> Compiled:
    """Return a kernel compiled for an arch, without what a launch adds."""
    if built.failed:
        return Compiled(arch=built.arch, failed=built.failed[:MOST_TEXT])
    entry = built.entries.get(symbol)
    if entry is None:
        return Compiled(arch=built.arch, failed="the kernel is not compiled for it")
    return Compiled(
        arch=built.arch,
        shared=entry.shared,
        instructions=entry.instructions,
        resources=entry.resources,
        remarks=built.remarks,
    )


def _for_arch(built: _Built, noted: Noted) -> Compiled:
    found = _of_entry(built, noted.symbol)
    if found.failed:
        return found
    entry, warp = built.entries[noted.symbol], ARCHES[built.arch].warp
    return msgspec.structs.replace(
        found,
        warps=min(-(-noted.threads // warp), 4096),
        shared=entry.shared + noted.shared,
        refused=_refused(noted, entry),
    )


def _refused(noted: Noted, entry: Entry) -> str:
    """Return why the runtime refuses a launch on every arch, or ""."""
    if not noted.threads or not all(noted.grid):
        return f"a size is 0: grid {noted.grid}, block {noted.block}"
    for axis, size, most in zip("xyz", noted.grid, GRID_LIMITS, strict=True):
        if size > most:
            return f"the grid has {size} blocks in {axis}, the limit is {most}"
    if noted.block[2] > 64:
        return f"the block has {noted.block[2]} threads in z, the limit is 64"
    if 0 < entry.most_threads < noted.threads:
        return (
            f"a block has {noted.threads} threads, and __launch_bounds__ states at most "
            f"{entry.most_threads}"
        )
    if entry.shared + noted.shared > STATIC_LIMIT and noted.shared > noted.allowed:
        return (
            f"{noted.shared} bytes of dynamic shared memory: more than 48 KiB a block must be "
            "allowed with cudaFuncSetAttribute(…MaxDynamicSharedMemorySize…)"
        )
    return ""


def _name_and_arguments(signature: str) -> tuple[str, tuple[str, ...]]:
    """Return name and types of arguments in a demangled signature."""
    name, bracket, rest = signature.removeprefix("void ").partition("(")
    inside = rest.rpartition(")")[0] if bracket else ""
    return name[:MOST_TEXT], tuple(part[:MOST_TEXT] for part in inside.split(", ") if part)[:64]


def compile_launches(request: CompileFor, folder: Path) -> CompileReport:
    """Call the kernel once, and compile what it launches."""
    import torch.utils.cpp_extension as extensions

    recorder = Recorder(request, folder)
    stopped = ""
    try:
        dsl.compile_cuda = recorder.compile_cuda
        extensions.load_inline = extensions.load = recorder.load_inline
        loaded(request)()
    except BaseException as error:  # noqa: BLE001 (a kernel may raise SystemExit)
        stopped = said(error)
    found = recorder.launches()
    try:
        version = compilers.nvcc()[1]
    except compilers.CompilerMissing as error:
        version, stopped = "", str(error)
    release = version.partition("release ")[2].splitlines()
    return CompileReport(
        compiler=f"nvcc {release[0] if release else ''}".strip(),
        launches=tuple(found[:MOST_LAUNCHES]),
        left_out=max(0, len(found) - MOST_LAUNCHES),
        stopped=stopped or ("" if found else NO_CUDA),
    )


def main(arguments: list[str]) -> int:
    """Compile what the kernel of the request on standard input launches, and answer."""
    return confined(arguments, CompileFor, compile_launches)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
