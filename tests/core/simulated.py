"""A run in memory: the real core, with chosen results in place of processes and files."""

from __future__ import annotations

from dataclasses import dataclass, field

from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.decide import Rejected, decide
from akg_tui.core.fold import evolve, fold
from akg_tui.core.measurement import FailureKind, Interval, Measurement, Outcome
from akg_tui.core.phases import Mode, Phase, Workflow, WorkflowName
from akg_tui.core.state import RunState
from akg_tui.core.task import Baseline, Policy, Task


def faster(ratio: float = 1.5, half: float = 0.05) -> Measurement:
    interval = Interval(ratio, ratio - half, ratio + half, 0.99)
    return Measurement(outcome=Outcome.CORRECT, ratio=interval, candidate_ms=1.0, baseline_ms=ratio)


def unproved(*log_ratios: float, ratio: float = 1.18) -> Measurement:
    """A probable gain that the budget was too short to prove, after these clusters."""
    return Measurement(
        outcome=Outcome.CORRECT,
        ratio=Interval(ratio, 0.99, 1.41, 0.99),
        candidate_ms=1.0,
        baseline_ms=ratio,
        log_ratios=log_ratios or (0.1, 0.2),
        undecided=True,
    )


def failed(message: str = "wrong values") -> Measurement:
    return Measurement(outcome=Outcome.FAILED, failure=FailureKind.WRONG, message=message)


def broken(kind: FailureKind = FailureKind.JUDGE) -> Measurement:
    return Measurement(outcome=Outcome.ERROR, failure=kind, message="the judge was lost")


def item(text: str, why: str = "because the figures so far point this way") -> ev.PlannedItem:
    return ev.PlannedItem("", text, why)


def report(
    *avoid: str, cause: str = "the wider blocks overflow the registers", **changes: object
) -> cmd.ReportDiagnosis:
    return cmd.ReportDiagnosis(cause, avoid, ("try narrower blocks",), **changes)  # type: ignore[arg-type]


TOOL_OF = {
    cmd.SubmitPlan: "submit_plan",
    cmd.RevisePlan: "revise_plan",
    cmd.Edit: "edit_kernel",
    cmd.ReportDiagnosis: "report_diagnosis",
    cmd.RequestFinish: "finish",
    cmd.AskUser: "ask_user",
    cmd.ReportBlocked: "report_blocked",
}


@dataclass
class SimulatedRun:
    """Applies commands as the engine does; every event takes one second."""

    policy: Policy = field(default_factory=Policy)
    mode: Mode = Mode.AUTO
    baselines: tuple[Baseline, ...] = ()
    clock_off: float = 0.0  # what jumps of the clock add up to
    workflow: WorkflowName | None = None
    table: Workflow | None = None  # instead of `workflow`
    agent: str = "sweep"

    def __post_init__(self) -> None:
        self.records: list[ev.Record] = []
        created = ev.RunCreated(
            run_id="run",
            task=Task(
                op="op",
                policy=self.policy,
                baselines=self.baselines,
                workflow=self.table.name if self.table else self.workflow,
                table=self.table,
            ),
            mode=self.mode,
            agent=self.agent,
            version="0",
            reference_sha256="r",
            kernel_sha256="k",
            kernel_blob="seed",
        )
        record = ev.Record(1, 0.0, created)
        self.records.append(record)
        self.state: RunState = evolve(None, record)

    @property
    def now(self) -> float:
        return float(self.state.seq) + self.clock_off

    def send(self, command: cmd.Command) -> Rejected | None:
        decided = decide(self.state, command, self.now)
        if isinstance(decided, Rejected):
            return decided
        for event in decided:
            self.tell(event)
        return None

    def tell(self, event: ev.AnyEvent) -> None:
        """One more event, whoever it is from."""
        record = ev.Record(self.state.seq + 1, self.now, event)
        self.state = evolve(self.state, record)
        self.records.append(record)

    def must(self, command: cmd.Command) -> None:
        refused = self.send(command)
        assert refused is None, refused

    def next(self) -> fx.Effect | None:
        return fx.next_effect(self.state, self.now)

    def entering(self) -> tuple[Phase, str] | None:
        """The transition that core takes next, with its reason; None when something else is due."""
        effect = self.next()
        last = effect.events[-1] if isinstance(effect, fx.Step) else None
        return (last.phase, last.reason) if isinstance(last, ev.PhaseEntered) else None

    def step(self) -> None:
        """Take one step of core's own."""
        effect = self.next()
        assert isinstance(effect, fx.Step)
        self.perform(effect)

    def perform(self, effect: fx.Effect, measurement: Measurement | None = None) -> None:
        """Do what the engine would do for `effect`; an agent's visit is not done here."""
        match effect:
            case fx.Step():
                for event in effect.events:
                    self.tell(event)
            case fx.Measure():
                self.must(cmd.StartEval(effect.purpose, effect.attempt, effect.blob))
                self.must(cmd.FinishEval(measurement or faster()))
            case fx.CommitSeed():
                self.must(cmd.AcceptBaseline("c0"))
            case fx.Commit():
                self.must(cmd.Settle(f"c{effect.attempt}"))
            case _:
                raise AssertionError(f"not the harness's work: {effect}")

    def turn(self, *wishes: cmd.Command) -> list[Rejected | None]:
        """One model reply that makes these wishes."""
        self.must(cmd.Observe(ev.ModelReplied(phase=self.state.phase, model="sweep")))
        answers = [self._call(wish) for wish in wishes]
        self.must(cmd.Observe(ev.TurnEnded()))
        return answers

    def _call(self, wish: cmd.Command) -> Rejected | None:
        """One tool call, with its line before and its answer after."""
        tool, call = TOOL_OF[type(wish)], f"u{self.state.seq}"  # type: ignore[index]
        self.must(cmd.Observe(ev.ToolCalled(call=call, tool=tool, arguments={})))
        refused = self.send(wish)
        answered = ev.ToolAnswered(call=call, tool=tool, status="error" if refused else "success")
        self.must(cmd.Observe(answered))
        return refused

    def until_agent(self, *measurements: Measurement) -> fx.Effect | None:
        """Do the harness's work, giving `measurements` in turn, until somebody else is due."""
        queue = list(measurements)
        while (effect := self.next()) is not None:
            if isinstance(effect, fx.RunAgent | fx.Hold):
                return effect
            measurement = queue.pop(0) if isinstance(effect, fx.Measure) and queue else None
            self.perform(effect, measurement)
        return None

    def plan(self, *texts: str) -> None:
        items = tuple(item(text) for text in texts)
        assert self.turn(cmd.SubmitPlan(items)) == [None]

    def edit(self) -> None:
        blob = f"b{self.state.next_attempt}"
        assert self.turn(cmd.Edit(blob, "sha", 1, 1)) == [None]

    def writes(self, blob: str, *measurements: Measurement) -> fx.Effect | None:
        """Write the kernel `blob` in WRITE, and go on until somebody else is due."""
        assert self.turn(cmd.Edit(blob, "sha", 1, 1)) == [None]
        return self.until_agent(*measurements)

    def begins(self, *texts: str) -> None:
        """Plan these items, and go on until somebody else is due."""
        self.plan(*texts)
        self.until_agent()

    def tries(self, *measurements: Measurement) -> fx.Effect | None:
        """Edit the kernel, and go on until somebody else is due."""
        self.edit()
        return self.until_agent(*measurements)

    def refold(self) -> RunState | None:
        return fold(self.records)


def planned(*texts: str, **changes: object) -> SimulatedRun:
    """In EDIT, the first of these items active."""
    run = SimulatedRun(**changes)  # type: ignore[arg-type]
    run.until_agent()
    run.begins(*texts)
    return run
