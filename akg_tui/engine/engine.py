"""The engine: performs the effects that core asks for, and journals the events.

It owns one open run, its judge and its model, and uses clock, disk, processes and model. It decides
nothing: events come from `core.decide` and from the steps in `core.effects`, and each event is
durable before it takes effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, Unpack, assert_never

from msgspec.structs import replace

from akg_tui import __version__
from akg_tui.agent.chat import ChatModel, ModelFailed, ReachedModel, ServedModel, ServerBusy
from akg_tui.agent.context import Context
from akg_tui.agent.model_calls import Retry
from akg_tui.agent.react_loop import Describe, LoopContext, Recall
from akg_tui.agent.tools.trials import SAMPLES, WARMUPS, journaled
from akg_tui.agent.visit import visit
from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.commands import Events
from akg_tui.core.decide import Rejected, decide
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.kernel.knobs import BadKnob, describe, knobs_in, with_setting
from akg_tui.core.measurement import (
    PRECISE,
    FailureKind,
    Measurement,
    Outcome,
    ProbeTerms,
    Progress,
    RaceOutcome,
)
from akg_tui.core.phases import Overlay, Phase
from akg_tui.core.plan.idle_work import idle_work
from akg_tui.core.recovery import cut_off, opening
from akg_tui.core.sanitize import Said, one_line
from akg_tui.core.state import RunState
from akg_tui.core.stopping.limits import time_left
from akg_tui.core.task import CompileBaseline, Task
from akg_tui.dsl.compiled_reference import USUAL_S
from akg_tui.engine.attach import served
from akg_tui.engine.idle_worker import IdleWorker
from akg_tui.engine.live import Live
from akg_tui.engine.run_handle import KEPT_KERNELS
from akg_tui.engine.run_report import Reporter
from akg_tui.evidence.page import Evidence
from akg_tui.hashline.kernel_reader import kernel_line_counts
from akg_tui.hashline.tags import run_key
from akg_tui.store.errors import HistoryError, StoreError
from akg_tui.store.run_at_rest import read_kept_edit
from akg_tui.store.run_folder import RunFolder

if TYPE_CHECKING:
    from akg_tui.engine.run_memory import Learner


BASELINE_S = 3.0
"""The seconds of sampling for the seed's figure, which says how precise it is.

No KEEP hangs on it, and the figures at the end of a run are measured afresh.
"""

SLEPT_S = 1.0
"""The least sleep of the machine that is journaled."""

TOLD_S = 0.1
"""The least waits of an evaluation for the right to time that are journaled, in seconds."""

OUT_OF_TIME = Measurement(
    outcome=Outcome.FAILED, failure=FailureKind.TIMEOUT, message="the time of the run was up"
)


def suspended_s() -> float:
    """Return the seconds that this machine was suspended since it started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


class EngineBroken(RuntimeError):
    """Core refused the result of an effect that it asked for: a bug."""


class Evaluator(Protocol):
    """The part of a judge (`akg_tui.evaluate.Judge`) that the engine uses."""

    yields: bool
    """Whether a request is cancelled where it would wait for the right to time."""

    async def prepare(self) -> None: ...

    async def evaluate(
        self,
        kernel: KernelFiles,
        incumbent: KernelFiles | None,
        *,
        precise: float | None = None,
        within_s: float | None = None,
        whole: bool = False,
        prior: tuple[float, ...] = (),
    ) -> Measurement: ...

    async def measure_compiled(self, baseline: CompileBaseline) -> Measurement: ...

    async def probe(
        self,
        kernel: KernelFiles,
        incumbent: KernelFiles | None = None,
        **terms: Unpack[ProbeTerms],
    ) -> Measurement: ...

    async def race(
        self, kernels: Sequence[KernelFiles], *, within_s: float, limit_s: float
    ) -> RaceOutcome: ...

    async def close(self) -> None: ...


Inspector = Callable[[Task, str, KernelFiles], Awaitable[Evidence]]
"""Returns what binds a kernel of a task, from the reference's text and the kernel."""


class Engine:
    """One run at work. Implements `akg_tui.engine.run_handle.RunHandle`.

    `connect` creates the judge; its argument is the callback for progress. It is not called before
    the first evaluation is due. `reporter` writes the report at the end, and `learner` keeps what
    the run found. `describe` describes the machine for a language model, `recall` reads what
    earlier runs found, and `inspect` finds out what binds a kernel. `open_model` opens another
    model of the same server by its name.
    """

    def __init__(
        self,
        folder: RunFolder,
        model: ChatModel,
        connect: Callable[[Callable[[Progress], None]], Evaluator],
        *,
        clock: Callable[[], float] = time.time,
        suspended: Callable[[], float] = suspended_s,
        context: Context | None = None,
        retry: Retry | None = None,
        reporter: Reporter | None = None,
        describe: Describe | None = None,
        open_model: Callable[[str], ChatModel] | None = None,
        recall: Recall | None = None,
        learner: Learner | None = None,
        inspect: Inspector | None = None,
    ) -> None:
        self.path = str(folder.path)
        self.resume_options: tuple[str, ...] = ()  # what `akg-tui resume` needs to go on with it
        self.records = folder.records
        self.live = Live()
        self._folder = folder
        self._model = model
        self._context = context or Context()
        self._wall_clock = clock
        self._suspended = suspended
        self._suspended_before = suspended()
        self._reporter = reporter
        self._learner = learner
        self._inspect = inspect
        self._idle = IdleWorker(self._idle_work, self._work_idly)
        self._loop = LoopContext(
            self,
            model,
            self._clock,
            self.live.write,
            self.live.subagents,
            retry or Retry(),
            describe=describe,
            open_model=self._other_model,
            recall=recall,
            on_wait=self._use_the_wait,
        )
        self._open_model = open_model
        self._others: dict[str, ChatModel] = {}
        self._loop.retry.rest = self._rest
        self._judge = connect(self._report)
        self._changed = asyncio.Event()
        self._kernel = lru_cache(KEPT_KERNELS)(self._folder.history.read_kernel)
        self._compiling: asyncio.Task[Measurement] | None = None
        self._reached = False
        self._visit: asyncio.Task[None] | None = None
        self._visit_began: RunState | None = None
        self._waited_s = self._journaled_wait_s = 0.0
        """How long the evaluation under way has waited for the right to time, and what of it the
        journal has."""

    def _clock(self) -> float:
        """Return the time, after a sleep of the machine since the last look was journaled.

        Call it before the state is read: a sleep that is not in the state counts as worked time.
        """
        slept = self._suspended() - self._suspended_before
        if slept >= SLEPT_S and not self.state.finished:
            self._suspended_before += slept
            self._append((ev.MachineSlept(seconds=round(slept, 3)),))
        return self._wall_clock()

    def _report(self, progress: Progress) -> None:
        """Show the progress of the judge, and journal its waits for the right to time."""
        self.live.report(progress)
        if progress.stage == "start":
            self._journaled_wait_s = 0.0
        self._waited_s = progress.waited_s
        if progress.waits != self.state.queued:
            self._queue(waits=progress.waits)

    def _queue(self, *, waits: bool) -> None:
        """Journal whether the judge waits, and the waits that were too short to be told."""
        ends = self.state.queued and not waits
        untold_s = self._waited_s - self._journaled_wait_s
        if ends or waits or untold_s >= TOLD_S:
            self._journaled_wait_s = self._waited_s
            before_s = 0.0 if ends else round(untold_s, 3)
            self.send(cmd.Observe(ev.TimingQueued(waits=waits, before_s=before_s)))

    def _other_model(self, name: str) -> ChatModel:
        """Return the model of this name, opened once, or the run's own if no other can be."""
        if self._open_model is None:
            return self._model
        if name not in self._others:
            self._others[name] = self._open_model(name)
        return self._others[name]

    @property
    def state(self) -> RunState:
        return self._folder.state

    @property
    def tag_key(self) -> bytes:
        return run_key(self._folder.state.run_id)

    @property
    def computing(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Held by a measurement or a script, because one disturbs the other."""
        return self._idle.given_way()

    def kernel(self, blob: str) -> KernelFiles:
        """Return the kernel of an object id."""
        return self._kernel(blob)

    def keep_kernel(self, kernel: KernelFiles) -> str:
        """Store a kernel durably; return its object id."""
        return self._folder.history.write_kernel(kernel)

    async def measure(
        self,
        kernel: KernelFiles,
        incumbent: KernelFiles | None = None,
        **terms: Unpack[ProbeTerms],
    ) -> Measurement:
        """Measure a kernel for the agent: nothing is journaled or decided."""
        async with self._judging():
            return await self._judge.probe(kernel, incumbent, **terms)

    async def race(
        self, kernels: Sequence[KernelFiles], *, within_s: float, limit_s: float
    ) -> RaceOutcome:
        """Time verified kernels in turns for the agent: nothing is journaled or decided."""
        async with self._judging():
            return await self._judge.race(kernels, within_s=within_s, limit_s=limit_s)

    @contextlib.asynccontextmanager
    async def _judging(self) -> AsyncIterator[None]:
        """Use the judge for the agent: subagents work concurrently, but measure one at a time."""
        async with self.computing:
            try:
                yield
            finally:
                self._queue(waits=False)

    async def evidence(self, kernel: KernelFiles, reference: str = "") -> Evidence | None:
        """Return what binds a kernel, for information; None where nothing finds that out."""
        if self._inspect is None:
            return None
        async with self.computing:  # it would disturb a measurement
            task = self.state.task.with_other_reference() if reference else self.state.task
            return await self._inspect(task, reference or self._folder.reference, kernel)

    def send(self, command: cmd.Command) -> Rejected | None:
        """Apply a command at once; return the reason if it was refused, else None."""
        now = self._clock()
        if isinstance(command, cmd.AskUser):
            command = replace(command, watched=self.live.screens > 0)
        decided = decide(self.state, command, now)
        if isinstance(decided, Rejected):
            return decided
        self._append(decided)
        return None

    def _append(self, events: Events) -> None:
        """Journal the events, each durable before the next, and apply their side effects."""
        try:
            for event in events:
                self._folder.append(event)
                if isinstance(event, ev.SubagentStopped):
                    self._loop.stops.stop(event.subagent)
                elif isinstance(event, ev.ModelReplied) and event.source:
                    self.live.subagents.said(event.source)
            if any(event.projected for event in events):
                self._folder.project()
        finally:
            self._changed.set()  # also when the disk failed: earlier events are journaled
        if self._compiling is not None and self.state.running is None:
            self._compiling.cancel()
        if self.state.paused:
            self._idle.interrupt()
        began = self._visit_began
        if self._visit is not None and began and fx.visit_is_void(began, self.state):
            self._visit.cancel()

    def plan_change(self, kept: str) -> ev.PlanChange:
        """Return the hand edit of PLAN.md kept as `kept`, as a change of the current plan.

        Raises
        ------
        akg_tui.store.errors.RunFolderError
            If there is no such file, or it cannot be read as a plan.
        """
        return read_kept_edit(self._folder.path, kept, self.state)

    async def run(self) -> None:
        """Recover, then work until the run is over. Cancelling it leaves a resumable run.

        May be called again after a person let the run go on (`akg_tui.core.commands.GoOn`).
        """
        # Before any wait: begin the session, and close the steps that the last session left open.
        for event in opening(self.state, os.getpid(), __version__):
            self.send(cmd.Observe(event))
        async with served(self):
            try:
                await self._work()
            except Exception as error:
                # A journal that cannot be written holds no word of it: the caller tells `error`.
                with contextlib.suppress(StoreError, OSError):
                    why = one_line(str(error), 300) or type(error).__name__
                    self.send(cmd.Observe(ev.SessionBroke(reason=why)))
                raise

    async def _work(self) -> None:
        await self._until_over()
        while not self.state.finished:  # a person let it go on while the report was made
            await self._until_over()

    async def _until_over(self) -> None:
        if not self.state.finished:
            await self._judge.prepare()  # the judge loads torch during the first steps
        while (effect := self._next()) is not None:
            self._changed.clear()
            await self._perform(effect)
            await asyncio.sleep(0)  # let the screen draw between effects that never wait
        await self._idle.end()
        await self._judge.close()  # a finished run can stay on screen for days: unload torch
        notices: list[str] = []
        if self._learner is not None:
            notices.append(await self._learner(self.state, self.kernel))
        if self._reporter is not None:
            self.live.show("making the report")
            notices.append(await self._reporter(self._folder.path))
        self.live.notice = "; ".join(filter(None, notices))
        self.live.show(self.live.notice, holds=True)

    def _next(self) -> fx.Effect | None:
        """Return the effect that core wants now."""
        now = self._clock()  # first: it can journal a sleep, which changes the state
        return fx.next_effect(self.state, now)

    async def close(self) -> None:
        await self._idle.end()
        await self._judge.close()
        for model in (self._model, *self._others.values()):
            if isinstance(model, ServedModel):
                await model.close()
        self._folder.close()

    def _must(self, command: cmd.Command) -> None:
        if refused := self.send(command):
            raise EngineBroken(f"{type(command).__name__}: {refused.why}")

    async def _perform(self, effect: fx.Effect) -> None:
        match effect:
            case fx.Hold():
                await self._idle.end()
                self.live.show(_waiting(self.state, effect), holds=True)
                await self._change(self._hold_s(effect))
            case fx.Step():
                self.live.holds = True
                self._append(effect.events)
            case fx.Measure():
                await self._measure(effect)
            case fx.CommitSeed():
                self._must(cmd.AcceptBaseline(self._commit_seed(effect.blob)))
            case fx.SubmitTrial():
                self._submit(effect)
            case fx.RunAgent():
                self.live.show(Said("{name} is at work", name=self._model.name))
                await self._visit_agent()
            case fx.Commit():
                self._must(cmd.Settle(self._commit_attempt(effect)))
            case _:
                assert_never(effect)

    def _hold_s(self, hold: fx.Hold) -> float | None:
        """Return the seconds after which a hold is looked at again, without an event."""
        now = self._clock()
        ends = None if hold.until is None else max(0.0, hold.until - now)
        left = time_left(self.state, now)
        if left is None or left <= 0:  # a limit that is reached ends no pause
            return ends
        return left if ends is None else min(ends, left)

    async def _change(self, seconds: float | None) -> None:
        """Wait until an event is journaled, at most `seconds`."""
        # Not `wait_for`: before Python 3.12 it swallows a cancellation that arrives with the
        # change, and any event that cuts a visit off is a change as well.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    async def _visit_agent(self) -> None:
        """Perform one visit of the agent, until a person takes its item or kernel away, or its time
        is up.
        """
        work = asyncio.create_task(visit(self._loop, self._context))
        self._visit, self._visit_began = work, self.state
        try:
            in_time = await self._until_time_is_up(work)
        finally:
            self._visit = self._visit_began = None
        if not work.cancelled():
            work.result()
            return
        why = "visit ended by a person's hand" if in_time else "visit ended by a limit of time"
        for event in cut_off(self.state, why):
            self.send(cmd.Observe(event))

    async def _until_time_is_up(self, work: asyncio.Task[Any]) -> bool:
        """Wait until `work` is done, and cancel it at a limit of time; return whether it was not.

        Any event can move the limit, so the time is looked at after each.
        """
        while not work.done():
            self._changed.clear()
            now = self._clock()
            left = time_left(self.state, now)
            if left is not None and left <= 0:
                work.cancel()
                await _until_done(work)
                return False
            changed = asyncio.create_task(self._changed.wait())
            try:
                await asyncio.wait(
                    {work, changed}, timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
            except asyncio.CancelledError:
                work.cancel()
                await _until_done(work)
                raise
            finally:
                changed.cancel()
        return True

    async def _rest(self, seconds: float) -> None:
        """Wait for the model's server; a stop or a pause ends the wait at once."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        self.live.show(Said("waiting {n} s for the model's server", n=f"{seconds:.0f}"))
        while (left := until - loop.time()) > 0:
            now = self._clock()
            if fx.wait_over(self.state, now):
                break
            self._changed.clear()
            await self._change(left)
        self.live.show(Said("{name} is at work", name=self._model.name))

    async def _reaches_model(self, effect: fx.Measure) -> bool:
        """Return whether the model's server answers with this key for this model, asked once.

        A refusal is journaled, and that no server is there. A server that is only busy is there.
        What changes the effect meanwhile, a pause, ends the wait.
        """
        if self._reached or not isinstance(self._model, ReachedModel):
            return True
        self.live.show(
            Said("asking the server of {model} for a first reply", model=self._model.name)
        )
        work = asyncio.create_task(_reach(self._model, self._loop.retry))
        changed = asyncio.create_task(self._until_other(effect))
        try:
            await asyncio.wait({work, changed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in (work, changed):
                each.cancel()
            await asyncio.wait({work, changed})
        if work.cancelled():
            return False
        try:
            probed = work.result()
        except ServerBusy as busy:
            if busy.unreachable or busy.garbled:
                self.send(cmd.Observe(ev.ApiFailed(reason=str(busy))))
                return False
        except ModelFailed as failed:
            self.send(cmd.Observe(ev.ApiFailed(reason=str(failed))))
            return False
        else:
            if probed is not None:
                self.send(cmd.Observe(probed))
        self._reached = True
        return True

    async def _until_other(self, effect: fx.Effect) -> None:
        """Wait until core wants something else than `effect`."""
        while self._next() == effect:
            self._changed.clear()
            await self._changed.wait()

    async def _measure(self, effect: fx.Measure) -> None:
        if effect.purpose is ev.Purpose.BASELINE and not await self._reaches_model(effect):
            return
        await self._idle.end()
        self._must(cmd.StartEval(effect.purpose, effect.attempt, effect.blob))
        self.live.show(_measuring(effect))
        if effect.purpose in ev.COMPILED:
            await self._measure_compiled(effect)
            return
        measurement = await self._judged(effect)
        self._queue(waits=False)
        if measurement.outcome is Outcome.ERROR and measurement.failure is FailureKind.JUDGE:
            self.live.show(Said("the judge was lost: {why}", why=measurement.message))
        self._must(cmd.FinishEval(measurement))

    async def _judged(self, effect: fx.Measure) -> Measurement:
        """Let the judge make a measurement; nothing is journaled."""
        if effect.purpose is ev.Purpose.COMPILE:
            return await self._judge.measure_compiled("compile")
        if effect.purpose is ev.Purpose.MAX_AUTOTUNE:
            return await self._judge.measure_compiled("max-autotune")
        kernel = self.kernel(effect.blob)
        incumbent = self.kernel(effect.incumbent) if effect.incumbent else None
        if effect.purpose is ev.Purpose.SETTING:
            try:
                kernel = with_setting(kernel, dict(effect.setting))
            except BadKnob as bad:
                syntax = FailureKind.SYNTAX
                return Measurement(outcome=Outcome.FAILED, failure=syntax, message=str(bad))
            return await self._judge.probe(
                kernel,
                incumbent,
                timed=True,
                samples=SAMPLES,
                warmups=WARMUPS,
                limit_s=self.state.task.policy.trial_s,
            )
        # A candidate needs a verdict; the measurements at begin and end of a run need a figure.
        precise = None if effect.purpose is ev.Purpose.CANDIDATE else PRECISE
        # A seed may be slow: its figure says how far it is known.
        seed = effect.purpose is ev.Purpose.BASELINE
        # A first kernel that a model wrote is kept by its baseline; a KEEP decides itself.
        kept = not seed or Phase.WRITE in self.state.workflow.rows
        return await self._judge.evaluate(
            kernel,
            incumbent,
            precise=precise,
            within_s=BASELINE_S if seed else None,
            whole=kept and precise is not None,
            prior=effect.prior,
        )

    async def _measure_compiled(self, effect: fx.Measure) -> None:
        """Measure torch.compile, unless a person leaves it out or stops the run meanwhile."""
        work = asyncio.create_task(self._judged(effect))
        self._compiling = work
        try:
            in_time = await self._until_time_is_up(work)
        finally:
            self._compiling = None
            self._queue(waits=False)
        if self.state.running is None:
            return
        measured = work.result() if in_time else OUT_OF_TIME
        self._must(cmd.FinishEval(measured))

    def _use_the_wait(self) -> None:
        """Let the judge work while the reply of a served model is waited for."""
        if isinstance(self._model, ServedModel):
            self._idle.begin()

    def _idle_work(self, interrupted: Mapping[fx.Measure, int]) -> fx.Measure | None:
        """Return what the judge may measure while the model's reply is waited for."""
        now, best = self._clock(), self.state.best
        try:
            knobs = knobs_in(self.kernel(best.blob)) if best is not None else ()
        except BadKnob:
            knobs = ()
        return idle_work(self.state, now, knobs, interrupted)

    async def _work_idly(self, effect: fx.Measure) -> bool:
        """Make and journal a measurement of idle time; return whether the judge is still there."""
        told = Said("{name} is at work", name=self._model.name)
        self.live.go_on(Said("{what}, meanwhile: {more}", what=told, more=_measuring(effect)))
        self._judge.yields = True
        try:
            found = await self._judged(effect)
        finally:
            self._judge.yields = False
            self.live.go_on(told)
        if found.outcome is Outcome.ERROR:
            return False
        event = ev.IdleMeasured(
            purpose=effect.purpose,
            blob=effect.blob,
            incumbent=effect.incumbent,
            measurement=replace(journaled(found), errors=()) if effect.setting else found,
            setting=dict(effect.setting),
        )
        self.send(cmd.Observe(event))
        return True

    def _submit(self, effect: fx.SubmitTrial) -> None:
        """Make the kernel of a trial the one that is evaluated; drop its item if the text is lost.

        A fork can be without the text.
        """
        try:
            kernel = self.kernel(effect.blob)
        except HistoryError:
            assert self.state.active is not None
            why = "the kernel of its trial is lost"
            self._append((ev.ItemsDropped(items=(self.state.active,), reason=why),))
            return
        changed = kernel_line_counts(self.kernel(self.state.work_blob), kernel)
        note = f"trial {effect.trial}, which was not submitted"
        self._must(cmd.Edit(effect.blob, kernel.sha256, *changed, note))

    def _commit_seed(self, blob: str) -> str:
        message = self._folder.history.message_for("seed kernel")
        # The time of the last event, not the clock: a commit repeated after a crash is identical.
        return self._folder.history.commit(blob, None, message, self.state.last_at)

    def _commit_attempt(self, effect: fx.Commit) -> str:
        state, history = self.state, self._folder.history
        assert state.best is not None
        assert state.active is not None
        assert state.measured is not None
        item, verdict = state.item(state.active), effect.decision.verdict
        subject, ratio = f"{item.id}: {item.text}", state.measured.ratio
        message = history.message_for(subject, state.round, item.id, verdict, ratio)
        return history.commit(effect.blob, state.best.commit, message, state.phase_since)


def _measuring(effect: fx.Measure) -> str:
    """Return the words that the screen shows for a measurement."""
    match effect.purpose:
        case ev.Purpose.COMPILE:
            usual = USUAL_S["compile"]
            return Said("measuring torch.compile, usually within {n} s", n=f"{usual:g}")
        case ev.Purpose.MAX_AUTOTUNE:
            usual = USUAL_S["max-autotune"]
            return Said(
                "measuring torch.compile with max-autotune, usually within {n} s", n=f"{usual:g}"
            )
        case ev.Purpose.EAGER:
            return "measuring eager"
        case ev.Purpose.SETTING:
            return Said("{name} evaluation", name=describe(dict(effect.setting), {}))
    return Said("{what} evaluation", what=effect.purpose)


async def _reach(model: ReachedModel, retry: Retry) -> ev.EndpointProbed | None:
    """Ask for the model, and once more if no server took the connection: it may be starting."""
    began = retry.now()
    try:
        return await model.reach()
    except ServerBusy as busy:
        if not busy.unreachable or retry.now() - began > retry.base_s:
            raise
    await asyncio.sleep(retry.wait_for(1, None))
    return await model.reach()


async def _until_done(work: asyncio.Task[Any]) -> None:
    """Wait until `work` is done or cancelled; cancel it if the engine itself is being stopped."""
    try:
        await asyncio.wait({work})
    finally:
        if not work.done():
            work.cancel()
            await asyncio.wait({work})


def _waiting(state: RunState, hold: fx.Hold) -> str:
    """Return the words that the screen shows for a hold."""
    if hold.overlay is Overlay.WAIT_USER:
        if state.question is not None:
            return Said("the agent asks: {words}", words=one_line(state.question.text, 200))
        what = {"plan": "the plan", "edit": "the edit", "script": "a script"}
        kind = state.gate.kind if state.gate else "keep"
        return Said("waiting for a review of {what}", what=what.get(kind, "the KEEP"))
    if hold.overlay is Overlay.WAIT_API:
        return "the model cannot be used"
    paused = hold.overlay is Overlay.PAUSED
    if hold.due:
        template = "paused, then {phase}" if paused else "waiting for a step, then {phase}"
        return Said(template, phase=hold.due)
    return "paused" if paused else "waiting for a step"
