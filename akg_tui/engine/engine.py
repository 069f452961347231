"""The engine: folds, asks core what is next, does it, and appends what follows.

It owns one open run, its judge and its model. It decides nothing: a command becomes
events only through `core.decide`, and each event is durable before it counts.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from typing import Protocol, assert_never

from akg_tui import __version__
from akg_tui.agent.chat import ChatModel
from akg_tui.agent.react import visit
from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.decide import Rejected, decide
from akg_tui.core.machine import Overlay
from akg_tui.core.measurement import PRECISE, FailureKind, Measurement, Outcome, Progress
from akg_tui.core.state import RunState
from akg_tui.engine.live import Live
from akg_tui.store.run_folder import RunFolder

# After these events a projection (refs, work tree, PLAN.md) shows something else.
_PROJECTED = (
    ev.BaselineAccepted,
    ev.Decided,
    ev.DiagnosisReported,
    ev.ItemActivated,
    ev.ItemsDropped,
    ev.ItemsSuspended,
    ev.KernelEdited,
    ev.PhaseEntered,
    ev.PlanSubmitted,
    ev.RunFinished,
    ev.TurnInterrupted,
)


class EngineBroken(RuntimeError):
    """Core refused what core itself had asked for: a bug, told with what was refused."""


class Evaluator(Protocol):
    """What the engine asks of a judge (`akg_tui.evaluate.Judge`)."""

    async def prepare(self) -> None: ...

    async def evaluate(
        self, kernel: str, incumbent: str | None, *, precise: float | None = None
    ) -> Measurement: ...

    async def close(self) -> None: ...


class Engine:
    """One run at work. Implements `akg_tui.engine.handle.RunHandle`.

    `connect` makes the judge; it is given the callback for its progress, and is not
    called before the first evaluation is due.
    """

    def __init__(
        self,
        folder: RunFolder,
        model: ChatModel,
        connect: Callable[[Callable[[Progress], None]], Evaluator],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._model = model
        self._clock = clock
        self._live = Live()
        self._judge = connect(self._live.report)
        self._changed = asyncio.Event()
        self._kernels: dict[str, str] = {}

    @property
    def state(self) -> RunState:
        return self._folder.state

    @property
    def records(self) -> Sequence[ev.Record]:
        return self._folder.records

    @property
    def live(self) -> Live:
        return self._live

    @property
    def path(self) -> str:
        return str(self._folder.path)

    @property
    def tag_key(self) -> bytes:
        return self._folder.state.run_id.encode()

    def kernel(self, blob: str) -> str:
        """The kernel text behind a blob id."""
        if blob not in self._kernels:
            self._kernels[blob] = self._folder.history.read_blob(blob).decode()
        return self._kernels[blob]

    def keep_text(self, text: str) -> str:
        """Store kernel text durably; the blob id is the answer."""
        return self._folder.history.write_blob(text)

    def send(self, command: cmd.Command) -> Rejected | None:
        """Apply a command at once. The reason when it was refused, else None."""
        decided = decide(self.state, command, self._clock())
        if isinstance(decided, Rejected):
            return decided
        for event in decided:
            self._folder.append(event)
        if any(isinstance(event, _PROJECTED) for event in decided):
            self._folder.project()
        self._changed.set()
        return None

    async def run(self) -> None:
        """Recover, then work until the run is over. Cancelling it leaves a resumable run."""
        self._recover()
        if not self.state.finished:
            await self._judge.prepare()  # it loads torch while the first steps are taken
        while (effect := fx.next_effect(self.state, self._clock())) is not None:
            self._changed.clear()
            await self._perform(effect)
            await asyncio.sleep(0)  # let a screen breathe between effects that never wait
        await self._judge.close()  # a finished run may stay on screen for days; torch need not
        self._live.show("")

    async def close(self) -> None:
        await self._judge.close()
        self._folder.close()

    def _recover(self) -> None:
        """Say that a session begins, and close what the last one left open."""
        resumed = self.state.seq > 1
        opened = ev.SessionOpened(pid=os.getpid(), version=__version__, resumed=resumed)
        self._observe(opened)
        if running := self.state.running:
            self._observe(ev.EvalInterrupted(attempt=running.attempt, reason="session ended"))
        for call, tool in self.state.open_calls:
            why = "interrupted: the session ended before the tool answered"
            answer = ev.ToolAnswered(call=call, tool=tool, status="error", error_information=why)
            self._observe(answer)
        # A visit starts afresh, so what an unfinished one had edited is undone.
        unfinished_edit = self.state.edited and self.state.turn_open
        if self.state.turn_open or unfinished_edit:
            self._observe(ev.TurnInterrupted(reason="session ended"))

    def _observe(
        self,
        event: ev.SessionOpened | ev.EvalInterrupted | ev.ToolAnswered | ev.TurnInterrupted,
    ) -> None:
        self.send(cmd.Observe(event))

    def _must(self, command: cmd.Command) -> None:
        if refused := self.send(command):
            raise EngineBroken(f"{type(command).__name__}: {refused.why}")

    async def _perform(self, effect: fx.Effect) -> None:
        match effect:
            case fx.Hold():
                self._live.show(_waiting(effect))
                await self._changed.wait()
            case fx.Advance():
                self._must(cmd.Advance(effect.to))
            case fx.Activate():
                self._must(cmd.Activate(effect.item))
            case fx.Abandon():
                self._must(cmd.Abandon(effect.item, effect.reason))
            case fx.Measure():
                await self._measure(effect)
            case fx.CommitSeed():
                self._must(cmd.AcceptBaseline(self._commit_seed(effect.blob)))
            case fx.RunAgent():
                self._live.show(f"{self._model.name} is at work")
                await visit(self, self._model, clock=self._clock, on_delta=self._live.write)
            case fx.AskKeep():
                self._must(cmd.AskKeep())
            case fx.Commit():
                self._must(cmd.Settle(self._commit_attempt(effect)))
            case fx.FallBack():
                self._must(self._plain_diagnosis())
            case fx.Finish():
                self._must(cmd.Finish(effect.reason, effect.ok))
            case _:
                assert_never(effect)

    async def _measure(self, effect: fx.Measure) -> None:
        self._must(cmd.StartEval(effect.purpose, effect.attempt, effect.blob))
        self._live.show(f"{effect.purpose} evaluation")
        incumbent = self.kernel(effect.incumbent) if effect.incumbent else None
        # A candidate needs a verdict; what a run begins and ends with needs a figure.
        precise = None if effect.purpose is ev.Purpose.CANDIDATE else PRECISE
        kernel = self.kernel(effect.blob)
        measurement = await self._judge.evaluate(kernel, incumbent, precise=precise)
        if measurement.outcome is Outcome.ERROR and measurement.failure is FailureKind.JUDGE:
            self._live.show(f"the judge was lost: {measurement.message}")
        self._must(cmd.FinishEval(measurement))

    def _commit_seed(self, blob: str) -> str:
        message = self._folder.history.message_for(
            subject="seed kernel", round_number=0, item="", verdict="", ratio=None
        )
        # The time of the last event, not of now: done again after a crash, the commit is the same.
        return self._folder.history.commit(blob, None, message, self.state.last_at)

    def _commit_attempt(self, effect: fx.Commit) -> str:
        state = self.state
        assert state.best is not None
        assert state.active is not None
        item = state.item(state.active)
        assert state.measured is not None
        message = self._folder.history.message_for(
            subject=f"{item.id}: {item.text}",
            round_number=state.round,
            item=item.id,
            verdict=effect.decision.verdict.value,
            ratio=state.measured.ratio,
        )
        return self._folder.history.commit(
            effect.blob, state.best.commit, message, state.phase_since
        )

    def _plain_diagnosis(self) -> cmd.ReportDiagnosis:
        failed = [a for a in self.state.attempts if a.number][-self.state.fail_streak :]
        cause = "; ".join(f"{a.item}: {a.reason}" for a in failed)
        return cmd.ReportDiagnosis(cause or "no report was given", fallback=True)


def _waiting(hold: fx.Hold) -> str:
    """The words for a hold, for the screen."""
    following = f", then {hold.due}" if hold.due else ""
    return {
        Overlay.PAUSED: f"paused{following}",
        Overlay.WAIT_STEP: f"waiting for a step{following}",
        Overlay.WAIT_USER: "waiting for a review",
    }[hold.overlay]
