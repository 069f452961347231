"""Asks other processes what binds a kernel, without blocking the caller's loop.

Owns these processes and their limits. An answer of a process that read a kernel is untrusted: it is
decoded into bounded data, and decides nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from akg_tui.core.kernel.kernel_files import Kernel, files_of
from akg_tui.core.task import Case, Task
from akg_tui.dsl import toolchains
from akg_tui.dsl.gpu_arches import ARCHES, is_ascend
from akg_tui.evaluate.targets.adapters import adapters
from akg_tui.evaluate.targets.cpu import package_path
from akg_tui.evaluate.targets.lease import Lease, claim
from akg_tui.evaluate.targets.roofline import Level
from akg_tui.evidence.compile_report import CompileFor, CompileReport, as_findings
from akg_tui.evidence.findings import CaseWork, KernelFindings, Request
from akg_tui.evidence.machine_rates import Rates, kept_rates
from akg_tui.evidence.ncu import Profile, Profiled, ProfileFor
from akg_tui.evidence.page import Evidence
from akg_tui.evidence.roof import Roof
from akg_tui.store.reference_constants import UnknownConstant, as_judged

T = TypeVar("T")

MOST_ANSWER = 32 << 20
TOOLS_S = 90.0
"""The seconds for starting torch, and for disassembly, besides the build."""
WORK_S = 240.0
RATES_S = 120.0
NOT_CONFINED = 125
USUAL_ARCHES, USUAL_NPU = ("sm_80", "sm_90"), ("Ascend910B1",)
"""The GPUs that a kernel is compiled for where its task names none."""
_HOMES = ("HOME", "XDG_CACHE_HOME", "AKG_CACHE_DIR")


class Lost(Exception):
    """A process did not answer; the message is one line."""


NO_ANSWER = (Lost, UnknownConstant, OSError)
"""Why a process may have no answer; each tells the reason."""

_works: dict[tuple[str, ...], tuple[CaseWork, ...]] = {}


def not_here(task: Task) -> str:
    """Return why there is no machine code to read for a task's target and DSL, or ""."""
    target, dsl = adapters(task)
    if target.device and not dsl.has_launches:
        return "the machine code of a device is read of Triton kernels only"
    return ""


def _arches(task: Task) -> tuple[str, ...]:
    """Return the devices that a task's kernel is compiled for."""
    arch = task.target.arch
    usual = USUAL_NPU if task.target.backend == "ascend" else USUAL_ARCHES
    return (arch,) if arch in ARCHES or is_ascend(arch) else usual


async def evidence(task: Task, reference: str, kernel: Kernel) -> Evidence:
    """Return the limits of a task and what is found about a kernel."""
    found = await roofs(task, reference)
    dsl = adapters(task)[1]
    findings = KernelFindings()
    if not dsl.has_launches:  # else its machine code is in the compile report
        findings = await kernel_findings(task, reference, kernel)
    left_out = dict(findings.left_out)
    compiled = profiled = None
    if dsl.report_process:
        try:
            compiled = await compile_report(task, reference, kernel, _arches(task))
        except NO_ANSWER as error:
            left_out["compile report"] = str(error)
    if task.target.backend == "cuda":
        try:
            profiled = await profile(task, reference, kernel)
        except NO_ANSWER as error:
            left_out["profiler"] = str(error)
    return Evidence(found, replace(findings, left_out=left_out), compiled, profiled)


async def profile(task: Task, reference: str, kernel: Kernel) -> Profile:
    """Return what Nsight Compute tells of calls, while nobody times on the GPU.

    Raises one of `NO_ANSWER`.
    """
    target, language = adapters(task)
    request = ProfileFor(
        **_named(task, reference, kernel),
        device=target.device,
        preloaded=(*target.preloaded(), *language.preloaded(target.name)),
        devices=target.devices(),
        # The profiler starts a Python of its own, which must find our modules.
        readable=(*target.readable(), str(Path(package_path(), "akg_tui"))),
        bounds_address_space=target.bounds_address_space,
    )
    environment = target.environment(task.timing.threads) | language.environment(target.name)
    async with _timing_alone(task):
        module = "akg_tui.evidence.profile_process"
        found = await _confined(module, task, request, environment, Profiled)
    if found.profile is None:
        raise Lost(found.why)
    return found.profile


@contextlib.asynccontextmanager
async def _timing_alone(task: Task) -> AsyncIterator[None]:
    """Hold the right to time on the task's device, so that no judge times meanwhile."""
    given_up = threading.Event()

    def wait(seconds: float) -> None:
        if given_up.wait(seconds):
            raise Lost("it was cancelled")

    lease = Lease(claim(task, f"profile of {task.op}"), wait).held()
    try:
        await asyncio.to_thread(lease.__enter__)
    except asyncio.CancelledError:
        given_up.set()
        raise
    try:
        yield
    finally:
        lease.__exit__(None, None, None)


async def kernel_findings(
    task: Task, reference: str, kernel: Kernel, *, idle: bool = False
) -> KernelFindings:
    """Return what is found about a kernel by reading it now.

    With `idle` the process gives way to every other one, so that it does not disturb a measurement.
    What could not be found has its reason in `left_out`; nothing is raised.
    """
    if why := not_here(task):
        return KernelFindings(left_out={"machine code": why})
    try:
        if adapters(task)[1].has_launches:
            report = await compile_report(task, reference, kernel, _arches(task), idle=idle)
            return as_findings(report, task.files.kernel)
        return await _inspected(task, reference, kernel, idle=idle)
    except NO_ANSWER as error:
        return KernelFindings(left_out={"machine code": str(error)})


async def _inspected(task: Task, reference: str, kernel: Kernel, *, idle: bool) -> KernelFindings:
    request = Request(**_named(task, reference, kernel))
    target, language = adapters(task)
    environment = target.environment(task.timing.threads) | language.environment(target.name)
    module = "akg_tui.evidence.kernel_process"
    found = await _confined(module, task, request, environment, KernelFindings, idle=idle)
    if not found.is_sound:
        raise Lost("the process that read the kernel answered with what cannot be")
    return found


async def compile_report(
    task: Task,
    reference: str,
    kernel: Kernel,
    arches: Sequence[str],
    *,
    case: Case | None = None,
    idle: bool = False,
) -> CompileReport:
    """Compile the kernels that a task's kernel launches, for devices of these arches.

    The sizes are those of `case`, or of the task's first one. With `idle` the process gives way to
    every other one. Raises one of `NO_ANSWER`.
    """
    toolchain: tuple[str, ...] = ()
    if any(map(is_ascend, arches)):
        if why := toolchains.missing("ascend"):
            raise Lost(why)
        toolchain = toolchains.places("ascend")
    request = CompileFor(
        **_named(task, reference, kernel, case), arches=tuple(arches), toolchain=toolchain
    )
    target, language = adapters(task)
    # As on a GPU: with the variable of Triton's interpreter nothing can be compiled.
    environment = target.environment(task.timing.threads) | language.environment("cuda")
    module = f"akg_tui.evidence.{adapters(task)[1].report_process}"
    found = await _confined(module, task, request, environment, CompileReport, idle=idle)
    files = files_of(kernel, task.files.kernel)
    found = replace(found, files=files.before if len(files.texts) > 1 else {})
    if toolchain:
        pins = toolchains.TOOLCHAINS["ascend"].pins
        return replace(found, compiler=f"{found.compiler}, {', '.join(pins)}")
    return found


def _named(task: Task, reference: str, kernel: Kernel, case: Case | None = None) -> dict[str, Any]:
    """Return the fields of a request, with the sizes of a case or of the task's first one."""
    if case is None and task.cases:
        case = task.cases[0]
    return {
        "reference": as_judged(reference, task, case),
        "reference_name": task.files.reference,
        "kernel": files_of(kernel, task.files.kernel),
        "threads": task.timing.threads,
    }


async def _confined(
    module: str,
    task: Task,
    request: Request,
    environment: dict[str, str],
    kind: type[T],
    *,
    idle: bool = False,
) -> T:
    """Return the answer of a process of ours that runs a kernel under its protections."""
    limits = task.timing
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    stated = task.sandbox.memory_gb
    memory = int(total / 2 if stated is None else stated * (1 << 30))
    limit_s = limits.build_timeout_s + 3 * limits.call_timeout_s + TOOLS_S
    with tempfile.TemporaryDirectory(prefix="akg-evidence-") as folder:
        words = [
            module,
            folder,
            f"--memory-bytes={memory}",
            f"--cpu-seconds={math.ceil(limit_s * limits.threads)}",
            *(["--idle"] if idle else []),
            *(["--require"] if task.sandbox.require else []),
        ]
        answer = await _answer(words, environment, msgspec.json.encode(request), limit_s)
    try:
        return msgspec.json.decode(answer, type=kind)
    except msgspec.MsgspecError:
        raise Lost("the process that read the kernel ended without an answer") from None


async def case_works(task: Task, reference: str) -> tuple[CaseWork, ...]:
    """Return bytes and operations of the reference by case; a case may say why it has none.

    What is known is kept for as long as this process runs.
    """
    sizes = [(case.name, sorted(task.constants(case).items())) for case in task.cases]
    told = (reference, repr([*sizes, task.constants()]), task.target.backend)
    if told in _works:
        return _works[told]
    from akg_tui.evidence.workload_process import Count

    request = msgspec.json.encode(Count(task, reference))
    try:
        answer = await _answer(
            ["akg_tui.evidence.workload_process"], _environment(task), request, WORK_S
        )
        found = msgspec.json.decode(answer, type=tuple[CaseWork, ...])
    except (Lost, OSError, msgspec.MsgspecError) as error:
        why = str(error) if isinstance(error, Lost) else "the sizing process did not answer"
        return tuple(
            CaseWork(case.name if case else "", unknown=why) for case in task.cases or (None,)
        )
    if not any(each.unknown for each in found):
        _works[told] = found
    return found


async def roofs(task: Task, reference: str) -> tuple[Roof, ...]:
    """Return the limits of a task's cases on this machine."""
    works = await case_works(task, reference)
    target, _ = adapters(task)
    threads = task.timing.threads
    levels: Sequence[Level] = await asyncio.to_thread(target.levels)
    measured = await rates(threads) if task.target.backend == "cpu" else None
    return tuple(Roof.of(work, levels, measured, threads) for work in works)


async def rates(threads: int) -> Rates | None:
    """Return the measured rates of this machine, kept or measured now; None without a compiler."""
    if (kept := kept_rates(threads)) is not None:
        return kept
    words = ["akg_tui.evidence.machine_rates", str(threads)]
    try:
        answer = await _answer(words, _environment(None), b"", RATES_S)
        return msgspec.json.decode(answer, type=Rates)
    except (Lost, OSError, msgspec.MsgspecError):
        return None


def _environment(task: Task | None) -> dict[str, str]:
    from akg_tui.evaluate.targets.cpu import base_environment

    homes = {name: os.environ[name] for name in _HOMES if name in os.environ}
    if task is None:
        return base_environment() | homes
    return adapters(task)[0].environment(task.timing.threads) | homes


async def _answer(
    words: Sequence[str], environment: dict[str, str], given: bytes, limit_s: float
) -> bytes:
    """Run a module of ours; return at most `MOST_ANSWER` bytes of what it prints.

    It is killed, with all that it started, when the time is over or the caller is cancelled.
    Raises `Lost`.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", *words),
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(limit_s):
            with contextlib.suppress(ConnectionError):
                process.stdin.write(given)
                await process.stdin.drain()
            process.stdin.close()
            answer = bytearray()
            while data := await process.stdout.read(1 << 16):
                answer += data
                if len(answer) > MOST_ANSWER:
                    raise Lost("the process that read the kernel answered with too much")
            code = await process.wait()
    except TimeoutError:
        raise Lost(f"it took longer than {limit_s:g} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if code == NOT_CONFINED:
        raise Lost("the sandbox that this task requires is not complete here")
    if code != 0:
        raise Lost(f"the process that read it ended with status {code}")
    return bytes(answer)
