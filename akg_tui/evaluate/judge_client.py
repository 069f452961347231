"""The engine's client of the judge: starts it, sends requests, cancels, restarts a lost judge.

Runs in the engine's process, so it must never import torch and never block the event loop. It
owns the judge's process, and computes no part of a measurement.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, Unpack

import msgspec

from akg_tui.core.kernel.kernel_files import Kernel, KernelFiles, files_of
from akg_tui.core.measurement import (
    PRECISE,
    FailureKind,
    Measurement,
    Outcome,
    ProbeTerms,
    Progress,
    RaceOutcome,
)
from akg_tui.core.sanitize import strip_escapes, strip_to_line
from akg_tui.core.task import CompileBaseline, Task
from akg_tui.dsl import compiled_reference
from akg_tui.dsl.kernel_text import syntax_fault
from akg_tui.evaluate import static_guard
from akg_tui.evaluate.processes.draws import fixed_draws
from akg_tui.evaluate.protocol import engine_protocol
from akg_tui.evaluate.protocol.engine_protocol import (
    Begin,
    Cancel,
    Evaluate,
    Race,
    Raced,
    Result,
    Step,
)
from akg_tui.evaluate.reference_fault import Fault
from akg_tui.evaluate.targets.adapters import adapters, lacking
from akg_tui.evaluate.targets.lease import Claim, lease_of

CANCEL_S = 10.0
CLOSE_S = 12.0
LOG_TAIL = 4096
AHEAD = 3  # kernels that are built together with the one before them

Gate: TypeAlias = Callable[[Task, str, KernelFiles], Awaitable[Fault | None]]
"""Called with a task and the texts of its reference and a kernel. Returns why the kernel cannot run
on the device, or "" if it may."""


class EvaluationCancelled(Exception):
    """`Judge.cancel` ended the evaluation, or it yields and others time on the device."""


class JudgeLost(Exception):
    """The judge's process ended or can't be started."""


class Judge:
    """Evaluates kernels of one task, in separate processes.

    Parameters
    ----------
    task
        The task with its rules.
    reference
        The text of the reference: `Model`, `get_inputs`, `get_init_inputs`.
    scratch
        A folder for builds and for the processes' own files. Build caches stay in it; no
        two judges may share one concurrently.
    on_progress
        Called in the loop with each step; its `message` is the evaluation's label. It must
        return at once.
    prefetch
        Whether the judge prepares the next evaluation while it is idle: it draws inputs and
        forks processes that have seen no kernel.
    lease
        What the judge holds while it times; None: it times at any moment.
    gate
        Asked before a process runs a kernel; a kernel that it refuses fails to build.
    modules, environment
        What kernels' processes have loaded and set besides what the target and the DSL need.

    Use it as an asynchronous context manager, or `prepare` and `close` it. One evaluation
    runs at a time; a second call waits for the first.
    """

    def __init__(
        self,
        task: Task,
        reference: str,
        scratch: Path,
        *,
        on_progress: Callable[[Progress], None] | None = None,
        prefetch: bool = True,
        lease: Claim | None = None,
        gate: Gate | None = None,
        modules: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        # As the judge will decode it: 5 becomes 5.0, so that both ends have the same digest.
        self._task = task = msgspec.json.decode(msgspec.json.encode(task), type=Task)
        self._scratch = scratch.absolute()
        self._begin = Begin(
            task=task,
            reference=reference,
            engine=os.getpid(),
            prefetch=prefetch,
            lease=lease,
        )
        self._gate = gate
        self._modules = modules
        self._environment = environment or {}
        self._log = self._scratch / "judge.log"
        self._on_progress = on_progress or (lambda _: None)
        self._numbers = itertools.count(1)
        self._evaluating = asyncio.Lock()
        self._starting = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._current: int | None = None
        self._gating: asyncio.Future[Fault | None] | None = None
        self._passed: KernelFiles | None = None  # the last kernel that the gate did not refuse
        self._ready = False  # whether the judge has sent a message since its start
        self.yields = False
        """Whether an evaluation is cancelled where it would wait for the right to time."""

    async def __aenter__(self) -> Judge:
        await self.prepare()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def pid(self) -> int | None:
        """The judge's process id while it runs."""
        return self._process.pid if self._process is not None else None

    async def prepare(self) -> None:
        """Start the judge, which then loads torch; return without waiting for torch.

        Optional: shortens the wait in `evaluate`, which also reports a judge that can't start.
        """
        if lacking(self._task):
            return
        with contextlib.suppress(JudgeLost):
            await self._ensure()

    async def _ensure(self) -> None:
        """Start the judge unless it runs; raise JudgeLost with the reason if it can't start."""
        async with self._starting:
            if self._process is not None and self._process.returncode is None:
                return
            await self._discard()
            try:
                await self._start()
            except OSError as error:
                await self._discard()
                what = f"the judge can't be started in {self._scratch}: {error}"
                raise JudgeLost(what) from error

    async def evaluate(
        self,
        kernel: Kernel,
        incumbent: Kernel | None = None,
        *,
        label: str = "",
        precise: float | None = None,
        within_s: float | None = None,
        whole: bool = False,
        prior: tuple[float, ...] = (),
    ) -> Measurement:
        """Build, verify and time a kernel; compare with `incumbent`, or with the reference.

        With `precise` there is no verdict: clusters are run until half of the ratio's interval
        is this fraction of the ratio (0.02: ± 2 %; more for a ratio far from 1), or the task's
        time budget, or `within_s` seconds of it, are spent.
        `whole`: verify a slow kernel on all inputs, also where no KEEP depends on them.
        `prior` are the log ratios of earlier measurements of this kernel against this incumbent.

        Every behaviour of the kernel gives a Measurement. Cancelling the task that awaits this
        kills the kernel's processes and leaves the judge usable.

        Raises
        ------
        EvaluationCancelled
            `cancel` was called meanwhile.
        """
        return await self._evaluate(
            kernel,
            incumbent,
            label=label,
            precise=precise,
            within_s=within_s,
            whole=whole,
            prior=prior,
        )

    async def measure_compiled(self, baseline: CompileBaseline) -> Measurement:
        """Time the reference under `torch.compile` against the reference, within its `LIMITS_S`.

        A judge of its own does it, whose processes have the compiler loaded. Every behaviour of
        the compiler gives a Measurement. Cancelling the task that awaits this ends that judge.
        """
        start = time.monotonic()
        limit = asyncio.timeout(most := compiled_reference.LIMITS_S[baseline])
        judge = Judge(
            compiled_reference.terms_of(self._task),
            self._begin.reference,
            self._scratch / "compiled",
            on_progress=_stopping(limit, self._on_progress),
            prefetch=False,
            lease=self._begin.lease,
            modules=compiled_reference.PRELOADED,
            environment=compiled_reference.ENVIRONMENT,
        )
        judge.yields = self.yields
        kernel = compiled_reference.kernel_of(self._task, self._begin.reference, baseline)
        async with self._evaluating:
            try:
                async with limit:
                    return await judge.evaluate(kernel, label="torch.compile", precise=PRECISE)
            except TimeoutError:
                return Measurement(
                    outcome=Outcome.FAILED,
                    failure=FailureKind.TIMEOUT,
                    message=f"it took longer than {most:g} s",
                    threads=self._task.timing.threads,
                    elapsed_s=time.monotonic() - start,
                )
            finally:
                await judge.close()

    async def probe(
        self, kernel: Kernel, incumbent: Kernel | None = None, **terms: Unpack[ProbeTerms]
    ) -> Measurement:
        """Verify and time a kernel by these terms, for information.

        It is compared with `incumbent`, or with the reference. Raises as `evaluate` does.
        """
        how: dict[str, Any] = {**terms}
        reference, device = how.pop("reference", ""), how.pop("device", 0)
        limit_s, ahead = how.pop("limit_s", 0.0), how.pop("ahead", ())
        own = reference in ("", self._begin.reference)
        if own and not device:
            runnable = await self._runnable(ahead)
            return await self._evaluate(
                kernel, incumbent, limit_s, label="probe", ahead=runnable, **how
            )
        target, lease = adapters(self._task)[0], self._begin.lease
        if lease and device:
            lease = msgspec.structs.replace(lease, path=str(lease_of(self._task, device)))
        judge = Judge(
            self._task if own else self._task.with_other_reference(),
            self._begin.reference if own else reference,
            self._scratch / "asked",
            on_progress=self._on_progress,
            prefetch=False,
            lease=lease,
            gate=self._gate,
            environment={target.device_variable: target.device_name(device)} if device else {},
        )
        async with self._evaluating:
            try:
                return await judge.probe(kernel, limit_s=limit_s, **how)
            finally:
                await judge.close()

    async def race(
        self, kernels: Sequence[Kernel], *, within_s: float, limit_s: float = 0.0
    ) -> RaceOutcome:
        """Time kernels in turns with each other, for information. They must have been verified.

        After `limit_s` seconds of work (0: never) it is given up. Raises as `evaluate` does.
        """
        request = Race(
            number=next(self._numbers),
            kernels=tuple(files_of(each, self._task.files.kernel) for each in kernels),
            within_s=within_s,
            label=f"a race of {len(kernels)}",
        )
        async with self._evaluating:
            self._on_progress(Progress(stage="start", message=request.label))
            try:
                await self._ensure()
                answer = await self._ask(request, limit_s)
            except (JudgeLost, ConnectionError) as lost:
                await self._discard()
                return RaceOutcome(message=strip_to_line(str(lost) or "the judge was lost"))
        if not isinstance(answer, Raced) or answer.outcome is None:
            raise EvaluationCancelled(request.label)
        return answer.outcome

    async def _runnable(self, kernels: Sequence[Kernel]) -> tuple[KernelFiles, ...]:
        """Return the kernels that may run without being asked for by themselves.

        Not those that are refused for their text, and none where a gate must be asked.
        """
        task = self._task

        def may_run(kernel: KernelFiles) -> bool:
            if kernel.names != task.files.names or syntax_fault(kernel) is not None:
                return False
            return not any(each.refused for each in static_guard.findings(kernel, task))

        files = () if self._gate is not None else kernels[:AHEAD]
        given = [files_of(each, task.files.kernel) for each in files]
        return tuple([each for each in given if await asyncio.to_thread(may_run, each)])

    async def _evaluate(
        self, given: Kernel, incumbent: Kernel | None, limit_s: float = 0.0, **options: Any
    ) -> Measurement:
        start = time.monotonic()
        files = self._task.files
        kernel = files_of(given, files.kernel)
        request = Evaluate(
            number=next(self._numbers),
            kernel=kernel,
            incumbent=None if incumbent is None else files_of(incumbent, files.kernel),
            yields=self.yields,
            **options,
        )

        def without_judge(
            outcome: Outcome, failure: FailureKind, message: str, **more: Any
        ) -> Measurement:
            return Measurement(
                outcome=outcome,
                failure=failure,
                message=strip_to_line(message),
                threads=self._task.timing.threads,
                elapsed_s=time.monotonic() - start,
                **more,
            )

        if why := lacking(self._task):
            return without_judge(Outcome.ERROR, FailureKind.TOOLCHAIN, why)
        if kernel.names != files.names:
            why = f"the kernel's files are {', '.join(kernel.names)}, not {', '.join(files.names)}"
            return without_judge(Outcome.FAILED, FailureKind.SYNTAX, why)
        # In a thread: a large file takes about a second, and the event loop must not wait.
        if (fault := await asyncio.to_thread(syntax_fault, kernel)) is not None:
            return without_judge(Outcome.FAILED, FailureKind.SYNTAX, fault)
        findings = await asyncio.to_thread(static_guard.findings, kernel, self._task)
        refused = next((finding for finding in findings if finding.refused), None)
        if refused is not None:
            at = refused.place(files.kernel)
            detail = strip_escapes("\n".join(str(finding) for finding in findings))
            return without_judge(
                Outcome.FAILED,
                FailureKind.GUARD,
                f"{at}: {refused.reason}",
                place=at,
                detail=detail,
                findings=findings,
            )
        async with self._evaluating:
            self._on_progress(Progress(stage="start", message=request.label))
            if gated := await self._refused_by_gate(request):
                failure, place = FailureKind.BUILD, gated.place
                return without_judge(
                    Outcome.FAILED, failure, gated.reason, place=place, findings=findings
                )
            try:
                await self._ensure()
                answer = await self._ask(request, limit_s)
            except (JudgeLost, ConnectionError) as lost:
                await self._discard()
                message, tail = str(lost) or "the judge was lost", self._log_tail()
                return without_judge(Outcome.ERROR, FailureKind.JUDGE, message, detail=tail)
        if not isinstance(answer, Result) or answer.measurement is None:
            raise EvaluationCancelled(request.label)
        return msgspec.structs.replace(answer.measurement, findings=findings)

    async def _refused_by_gate(self, request: Evaluate) -> Fault | None:
        """Return why the gate refuses a kernel, or None."""
        if self._gate is None or request.kernel == self._passed:
            return None
        asked = self._gate(self._task, self._begin.reference, request.kernel)
        self._gating = gate = asyncio.ensure_future(asked)
        try:
            await asyncio.wait([gate])
            # Only `cancel` ends it alone.
            if gate.cancelled():
                raise EvaluationCancelled(request.label)
            refused = gate.result()
        finally:
            self._gating = None
            gate.cancel()
            await asyncio.wait([gate])
        if not refused:
            self._passed = request.kernel
        return refused

    async def cancel(self) -> None:
        """End the running evaluation, if any."""
        if self._gating is not None:
            self._gating.cancel()
        if self._current is None or self._writer is None:
            return
        with contextlib.suppress(ConnectionError):
            self._writer.write(engine_protocol.encode(Cancel(self._current)))
            await self._writer.drain()

    async def close(self) -> None:
        """End the judge and all its children; return when they are gone."""
        process, writer = self._process, self._writer
        # One that has answered nothing yet may still import torch, and has no kernel's process.
        if process is not None and writer is not None and self._ready:
            writer.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), CLOSE_S)
        await self._discard()

    async def _start(self) -> None:
        self._scratch.mkdir(parents=True, exist_ok=True)
        target, dsl = adapters(self._task)
        environment = target.environment(self._task.timing.threads) | dsl.environment(target.name)
        environment |= {**self._environment, **fixed_draws()}
        ours, theirs = socket.socketpair()
        with theirs, self._log.open("wb") as log:
            try:
                # In a new session: an interrupt typed in the terminal is for the engine only.
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", "akg_tui.evaluate.judge"),
                    *(str(theirs.fileno()), target.name, dsl.name, *self._modules),
                    env=environment,
                    cwd=self._scratch,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        self._reader, self._writer = await asyncio.open_connection(
            sock=ours, limit=engine_protocol.LINE_LIMIT
        )
        self._writer.write(engine_protocol.encode(self._begin))
        self._ready = False

    async def _ask(self, request: Evaluate | Race, limit_s: float = 0.0) -> Result | Raced:
        if self._writer is None:
            raise JudgeLost("the judge is not running")
        self._current = request.number
        try:
            self._writer.write(engine_protocol.encode(request))
            await self._writer.drain()
            return await self._result_within(request.number, limit_s)
        except asyncio.CancelledError:
            # A judge that still imports torch has no children, and reads no message for seconds:
            # then it reads that the request is cancelled as well.
            if not self._ready:
                await self.cancel()
                raise
            # Wait until the judge's children are gone; after the limit kill the judge.
            try:
                await self.cancel()
                await asyncio.wait_for(self._result(request.number), CANCEL_S)
            except (JudgeLost, ConnectionError, TimeoutError, asyncio.CancelledError):
                await self._discard()
            raise
        finally:
            self._current = None

    async def _result_within(self, number: int, limit_s: float) -> Result | Raced:
        """Return the result, or after `limit_s` seconds (0: never) what is known by then."""
        if not limit_s or self._writer is None:
            return await self._result(number)
        try:
            async with asyncio.timeout(limit_s) as limit:
                return await self._result(number, _stopping(limit, self._on_progress))
        except TimeoutError:
            self._writer.write(engine_protocol.encode(Cancel(number, limit_s)))
        try:
            async with asyncio.timeout(CANCEL_S):
                return await self._result(number)
        except TimeoutError:
            raise JudgeLost(f"the judge did not give up within {CANCEL_S:g} s") from None

    async def _result(
        self, number: int, told: Callable[[Progress], None] | None = None
    ) -> Result | Raced:
        """Report progress until the result arrives, and return it."""
        if self._reader is None:
            raise JudgeLost("the judge is not running")
        try:
            while True:
                text = await self._reader.readuntil(b"\n")
                message = engine_protocol.decode_for_engine(text)
                self._ready = True
                if message.number != number:
                    continue
                if not isinstance(message, Step):
                    return message
                (told or self._on_progress)(message.progress)
        except asyncio.IncompleteReadError as error:
            raise JudgeLost("the judge's process ended") from error
        except (asyncio.LimitOverrunError, msgspec.MsgspecError) as error:
            raise JudgeLost(f"the judge said what can't be read: {error}") from error

    async def _discard(self) -> None:
        """Drop the judge; kill it if it still runs. Its zygote then ends all children."""
        process, writer = self._process, self._writer
        self._process = self._reader = self._writer = None
        if writer is not None:
            writer.close()
        if process is not None:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            await process.wait()

    def _log_tail(self) -> str:
        try:
            return strip_escapes(self._log.read_text("utf-8", "replace")[-LOG_TAIL:])
        except OSError:
            return ""


def _stopping(
    limit: asyncio.Timeout, told: Callable[[Progress], None]
) -> Callable[[Progress], None]:
    """Return `told`, which also stops the clock of a limit while another run times."""
    until = limit.when()

    def stops(progress: Progress) -> None:
        told(progress)
        if until is not None and not limit.expired():
            limit.reschedule(None if progress.waits else until + progress.waited_s)

    return stops
