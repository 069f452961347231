"""Compiles the Triton kernels that one call launches, in a confined process without a GPU.

Started by `asking` like `kernel_process`. Each launch is compiled for the arches, and then run by
Triton's interpreter so that forward goes on with right values. Triton chooses between compiler and
interpreter when a function is decorated; here it chooses the compiler, and `_Interpreter` runs the
decorated functions as well. Nothing of an answer may decide anything: it comes from untrusted code.
"""

# Triton has no types.
# mypy: disable-error-code="import-untyped"

from __future__ import annotations

import contextlib
import inspect
import io
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.dsl.adapters.triton import lock_by_threads
from akg_tui.dsl.gpu_arches import ARCHES, is_ascend
from akg_tui.dsl.interpretation import CannotRunHere
from akg_tui.evidence.ascend.handover import Lowered, NotLowered, lower
from akg_tui.evidence.ascend.lowering import OPTIONS
from akg_tui.evidence.compile_report import (
    MOST_LAUNCHES,
    Compiled,
    CompileFor,
    CompileReport,
    Launch,
)
from akg_tui.evidence.gpu import assembly
from akg_tui.evidence.kernel_process import confined, loaded, said
from akg_tui.evidence.source_lines import rows_of

MOST_TEXT = 600


class _Interpreter:
    """Runs functions that were decorated for the compiler by Triton's interpreter."""

    def __init__(self) -> None:
        self._rewritten: dict[int, Callable[..., Any]] = {}

    def called(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a device function, of a kernel or of Triton's library, from interpreted code."""
        from triton.runtime.interpreter import FunctionRewriter

        from akg_tui.dsl.triton_interpreter import kernel_language

        kernel_language.patch_names(function.fn)
        if id(function) not in self._rewritten:
            self._rewritten[id(function)] = FunctionRewriter(function.fn).rewrite_ast()
        return self._rewritten[id(function)](*args, **kwargs)

    def launch(self, function: Any, grid: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
        """Run a kernel; the compiler finds the language unchanged afterwards."""
        from triton.runtime.interpreter import InterpretedFunction

        kernel = InterpretedFunction(function.fn)
        for hook in function.pre_run_hooks:
            kernel.add_pre_run_hook(hook)
        kernel.run(*args, grid=grid, warmup=False, **kwargs)


class Recorder:
    """Notes each launch and compiles it for all arches, once for each different one."""

    def __init__(self, request: CompileFor) -> None:
        from triton.backends.compiler import GPUTarget

        from akg_tui.dsl.triton_interpreter.host_cuda import HostDriver

        self._kernel = request.kernel
        self._arches = request.arches
        self._toolchain = Path(*request.toolchain[:1])
        self._driver = HostDriver(tuple(GPUTarget(*_target(name)) for name in request.arches))
        self._interpreter = _Interpreter()
        self._only_compile = False
        self._asked: tuple[Any, dict[str, Any]] | None = None
        self._failures: dict[str, Exception] = {}
        self._logs: dict[int, str] = {}
        self._for_ascend: dict[str, Any] = {}
        self._held: list[Any] = []
        self.launches: dict[tuple[object, ...], Launch] = {}
        self.left_out = 0
        self.stopped = ""
        """Why a launch was compiled and not run."""

    def install(self) -> None:
        """Put the recorder in the place of launching, tuning and the driver."""
        import triton.compiler
        from triton import knobs
        from triton.runtime.autotuner import Autotuner
        from triton.runtime.jit import JITFunction

        from akg_tui.dsl import triton_interpreter

        lock_by_threads()
        triton_interpreter.correct_language()
        triton_interpreter.host_cuda.install(self._driver)
        # The registers are told in ptxas's log alone, which is printed after each compilation.
        knobs.compilation.always_compile = True
        knobs.nvidia.dump_ptxas_log = True
        launch, compile_source = JITFunction.run, triton.compiler.compile
        triton.compiler.compile = lambda *args, **kwargs: self._compile(
            compile_source, *args, **kwargs
        )
        stand_in = triton_interpreter.kernel_language.Launched

        def run(function: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            if not warmup:
                self._launched(launch, function, grid, args, kwargs)
            return stand_in(function, kwargs)

        JITFunction.run = run
        # A lambda, because only a function is bound to the object that is called.
        JITFunction.__call__ = lambda function, *args, **kwargs: self._interpreter.called(  # noqa: PLW0108
            function, *args, **kwargs
        )
        Autotuner._bench = lambda tuner, *args, config, **meta: self._tried(
            tuner, args, config, meta
        )

    def _compile(
        self, compile_source: Callable[..., Any], source: Any, *args: Any, **kwargs: Any
    ) -> Any:
        options = kwargs.get("options") or {}
        self._asked = source, options
        arch = self._arches[self._driver.device]
        key = f"{self._driver.device} {source.hash()} {sorted(options.items(), key=str)}"
        key += f" {self._for_ascend}"
        if key in self._failures:
            raise self._failures[key]
        log = io.StringIO()
        try:
            if is_ascend(arch):
                compiled = lower(source, self._for_ascend, arch, self._toolchain, self._kernel)
            else:
                with contextlib.redirect_stdout(log):
                    compiled = compile_source(source, *args, **kwargs)
        except Exception as error:
            self._failures[key] = error
            raise
        self._held.append(compiled)
        self._logs[id(compiled)] = log.getvalue()
        return compiled

    def _launched(
        self, launch: Callable[..., Any], function: Any, grid: Any, args: Any, kwargs: Any
    ) -> None:
        from akg_tui.dsl.triton_interpreter import tuning

        results: list[Any] = []
        # Triton for Ascend has options that this Triton does not know.
        own = {name for name in OPTIONS if name in kwargs and name not in function.arg_names}
        self._for_ascend = {name: kwargs[name] for name in sorted(own)}
        kwargs = {name: value for name, value in kwargs.items() if name not in own}
        hooks, function.pre_run_hooks = function.pre_run_hooks, []
        self._asked = None
        for number in range(len(self._arches)):
            self._driver.device = number
            try:
                results.append(launch(function, *args, grid=grid, warmup=True, **dict(kwargs)))
            except Exception as error:  # noqa: BLE001 (a compiler may raise anything)
                results.append(error)
        self._driver.device = 0
        function.pre_run_hooks = hooks
        self._note(function, grid, args, kwargs, results)
        if self._only_compile:
            if all(isinstance(each, Exception) for each in results):
                raise results[0]
            return
        try:
            self._interpreter.launch(function, grid, args, kwargs)
        except Exception as error:
            if not isinstance(tuning.innermost(error), CannotRunHere):
                raise
            # `forward` goes on, with wrong values, so that its other launches are compiled.
            self.stopped = self.stopped or f"{function.__name__}: {said(error)}"

    def _note(self, function: Any, grid: Any, args: Any, kwargs: Any, results: list[Any]) -> None:
        self._held.append(function)
        key = (id(function), *(_same(each) for each in results))
        times = 0 if self._only_compile else 1
        if key in self.launches:
            known = self.launches[key]
            self.launches[key] = replace(known, launches=known.launches + times)
        elif len(self.launches) == MOST_LAUNCHES:
            self.left_out += 1
        else:
            source = next((each.src for each in results if not isinstance(each, Exception)), None)
            if source is None and self._asked is not None:
                source = self._asked[0]
            arguments, constants = _described(source)
            lines = rows_of(self._kernel, function.src)
            self.launches[key] = Launch(
                kernel=function.__name__[:MOST_TEXT],
                line=lines[0] if lines else 0,
                arguments=arguments,
                constants=constants,
                grid=_grid(function, grid, args, kwargs),
                launches=times,
                compiled=tuple(
                    self._compiled(arch, found)
                    for arch, found in zip(self._arches, results, strict=True)
                ),
            )

    def _compiled(self, arch: str, found: Any) -> Compiled:
        if isinstance(found, Exception):
            line, what = _located(found, self._kernel)
            return Compiled(arch=arch, failed=what[:MOST_TEXT], line=line)
        if isinstance(found, Lowered):
            return Compiled(arch=arch, hivm=found.hivm, remarks=found.notes)
        log = self._logs.get(id(found), "")
        if ARCHES[arch].is_amd:
            instructions, resources = assembly.read_amdgcn(found.asm["amdgcn"])
        else:
            instructions = assembly.read_ptx(found.asm["ptx"])
            resources = assembly.read_ptxas(log)
        return Compiled(
            arch=arch,
            warps=found.metadata.num_warps,
            stages=found.metadata.num_stages,
            shared=found.metadata.shared,
            instructions=instructions,
            resources=resources,
            remarks=tuple(text[:MOST_TEXT] for text in assembly.ptxas_remarks(log)),
        )

    def _tried(self, tuner: Any, args: Any, config: Any, meta: Any) -> list[float]:
        """Compile a configuration of an autotuner; the first that compiles is taken as the best."""
        named = meta | config.all_kwargs()
        if config.pre_hook:
            config.pre_hook({**tuner.nargs, **named})
        self._only_compile = True
        try:
            tuner.fn.run(*args, **named)
        except Exception:  # noqa: BLE001 (noted, and told in the report)
            return [float("inf")] * 3
        finally:
            self._only_compile = False
        return [0.0] * 3


def _target(arch: str) -> tuple[str, int | str, int]:
    """Return backend, arch and warp of Triton's name for an arch.

    Arguments are bound for another backend where Triton has none, as for Ascend.
    """
    if is_ascend(arch):
        return "cuda", 80, 32
    known = ARCHES[arch]
    if known.is_amd:
        return "hip", arch, known.warp
    return "cuda", int(arch.removeprefix("sm_")), known.warp


def _same(found: Any) -> object:
    return str(found)[:MOST_TEXT] if isinstance(found, Exception) else id(found)


def _described(source: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return arguments and constants of a compiled source, in words."""
    if source is None:
        return (), ()
    arguments, constants = [], []
    for number, (name, kind) in enumerate(source.signature.items()):
        if kind == "constexpr":
            if (number,) in source.constants:
                constants.append(f"{name}={source.constants[number,]!r}"[:MOST_TEXT])
            continue
        known = dict(source.attrs.get((number,), ()))
        aligned = f" divisible by {known['tt.divisibility']}" if "tt.divisibility" in known else ""
        arguments.append(f"{name} {kind}{aligned}"[:MOST_TEXT])
    return tuple(arguments[:64]), tuple(constants[:64])


def _bound(function: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the arguments of a launch by name, without the options of the launch."""
    names = inspect.signature(function.fn).parameters
    bound = inspect.signature(function.fn).bind(
        *args, **{name: value for name, value in kwargs.items() if name in names}
    )
    bound.apply_defaults()
    return dict(bound.arguments)


def _grid(function: Any, grid: Any, args: Any, kwargs: Any) -> tuple[int, ...]:
    if callable(grid):
        grid = grid(_bound(function, args, kwargs))
    return tuple(int(size) for size in grid)[:3]


def _located(error: Exception, kernel: KernelFiles) -> tuple[int, str]:
    """Return the row of the kernel where a compilation failed, and the reason.

    Errors are chained from the launched kernel to the function that it calls; the innermost one
    that lies in the file has the line.
    """
    if isinstance(error, NotLowered):
        return error.line, str(error)
    line, reason = 0, ""
    for each in _chain(error):
        source, node = getattr(each, "src", None), getattr(each, "node", None)
        number = getattr(node, "lineno", 0)
        if source and number:
            lines = rows_of(kernel, source) if _has(kernel, source) else []
            line = lines[number - 1] if 0 < number <= len(lines) else line
        told = getattr(each, "error_message", None) or ("" if source else str(each))
        reason = _reason(told) or reason
    return line, reason or type(error).__name__


def _has(kernel: KernelFiles, source: str) -> bool:
    return any(source.strip() in text for text in kernel.texts.values())


def _reason(text: str) -> str:
    """Return the lines of a compiler's message that say what is wrong."""
    rows = [row.strip() for row in text.splitlines() if row.strip()]
    errors = [row for row in rows if "error" in row.lower() and not row.startswith("`ptxas`")]
    return " ".join(errors[:3] if len(rows) > 3 and errors else rows[:3])


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def compile_launches(request: CompileFor, _: Path) -> CompileReport:
    """Call the kernel once and compile what it launches."""
    import triton

    recorder = Recorder(request)
    stopped = ""
    try:
        recorder.install()
        loaded(request)()
    except BaseException as error:  # noqa: BLE001 (a kernel may raise SystemExit)
        stopped = said(error)
    return CompileReport(
        compiler=f"Triton {triton.__version__}",
        launches=tuple(recorder.launches.values()),
        left_out=recorder.left_out,
        stopped=stopped or recorder.stopped,
    )


def main(arguments: list[str]) -> int:
    """Compile what the kernel of the request on standard input launches, and answer."""
    return confined(
        arguments,
        CompileFor,
        compile_launches,
        before=_import_triton,
        programs=lambda request: request.toolchain,
    )


def _import_triton() -> None:
    import triton.compiler
    import triton.runtime.interpreter  # noqa: F401 - before the sandbox: it reads much


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
