"""Random runs, and after every event the question whether all surfaces tell the same.

A run is made of real commands and effects of core: an agent that plans, edits, fails, asks and is
blocked; measurements of every outcome on quiet and noisy machines; a person who steers, undoes,
stops and lets the run go on; sessions that break; forks. The expected best kernel, state and
reason are computed from the events alone, without the fold. The header, the list of runs, the
chart, the status row, the report, PLAN.md and `show --json` must show these.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from msgspec.structs import replace

from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.decide import Rejected, decide
from akg_tui.core.fold import evolve, fold
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.measurement import (
    CaseTiming,
    Confirmation,
    FailureKind,
    Interval,
    Measurement,
    Outcome,
)
from akg_tui.core.phases import Gate, Mode, Phase, Verdict, WorkflowName
from akg_tui.core.plan.plan_document import render_plan
from akg_tui.core.state import RunState
from akg_tui.core.summary import ratio_text, summarize
from akg_tui.core.task import Case, Policy, Task
from akg_tui.engine.run_scanner import ListedRun
from akg_tui.report.gather import gather
from akg_tui.report.markdown import render_markdown
from akg_tui.store.run_at_rest import RunAtRest
from akg_tui.store.run_list import summary_of
from akg_tui.view.run_chart import AttemptSeries
from akg_tui.view.run_rows import row_of, run_details
from akg_tui.view.spans import plain
from akg_tui.view.status import header, phase_row, sparkline, status

RUNS = 500
MOST_EVENTS = 160
ROOM = 400  # columns, so that nothing is left out
START = 1_700_000_000.0
PATH = "runs/fuzzed"
CASES = ("small", "large")
WHY = (
    "a word with | and `ticks`",
    "[red]not markup[/]",
    "the exponential loses digits",
    "the server is not there",
    "out of memory",
)


def check(held: bool, told: str) -> list[str]:
    return [] if held else [told]


@dataclass
class Truth:
    """The expected best kernel, state and reason, computed from the events without the fold."""

    stack: list[tuple[int, float]] = field(default_factory=list)  # attempts kept, over the seed
    fresh: float | None = None
    eager: float | None = None  # the seed over eager
    fresh_eager: float | None = None
    compiled: float | None = None  # compile over eager
    timed: bool = True
    phase: str = "INIT"
    mode: str = ""
    rounds: int = 0
    edited: bool = False  # otherwise its item's kernel is measured again, which is no round
    verdicts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(map(str, Verdict), 0))
    writing: bool = False  # a round of WRITE is under way
    finished: str = ""
    ok: bool = True
    broke: str = ""
    held: str = ""  # by the model's server

    def see(self, event: ev.AnyEvent) -> None:
        match event:
            case ev.RunCreated() | ev.ModeChanged():
                self.mode = event.mode.value
            case ev.PhaseEntered():
                self.phase = event.phase.value
                self.writing = self.writing or event.phase is Phase.WRITE
            case ev.EvalFinished():
                self._measured(event)
            case ev.BaselineAccepted():
                self.stack = [(0, 1.0)]
            case ev.ItemActivated():
                self.edited = False
            case ev.KernelEdited():
                self.edited = True
            case ev.Decided():
                self.rounds += self.edited
                self.verdicts[event.verdict.value] += 1
                if event.verdict is Verdict.KEEP:
                    assert event.ratio is not None
                    self.stack.append((event.attempt, self.stack[-1][1] * event.ratio.ratio))
            case ev.KeepUndone():
                self.stack.pop()
                self.fresh = self.fresh_eager = None
            case _:
                self._see_end(event)

    def _see_end(self, event: ev.AnyEvent) -> None:
        match event:
            case ev.RunFinished():
                self.finished, self.ok = event.reason, event.ok
            case ev.RunReopened():
                self.phase = event.phase.value
                self.writing = event.phase is Phase.WRITE
                self.finished, self.ok, self.held = "", True, ""
                self.fresh = self.fresh_eager = None
            case ev.SessionBroke():
                self.broke = event.reason
            case ev.SessionOpened():
                self.broke = self.held = ""
            case ev.ApiFailed():
                self.held = event.reason
            case ev.Unpaused():
                self.held = ""
            case ev.Forked():
                self.broke = ""
            case _:
                pass

    def _measured(self, event: ev.EvalFinished) -> None:
        found = event.measurement
        ratio = found.ratio.ratio if found.ratio else None
        match event.purpose:
            case ev.Purpose.BASELINE:
                self.eager, self.timed = ratio, found.timed
                if self.writing and found.outcome is not Outcome.ERROR:
                    self.rounds, self.writing = self.rounds + 1, False
            case ev.Purpose.FINAL:
                self.fresh = ratio
            case ev.Purpose.EAGER:
                self.fresh_eager = ratio
            case ev.Purpose.COMPILE | ev.Purpose.MAX_AUTOTUNE if ratio is not None:
                self.compiled = max(ratio, self.compiled or 0.0)
            case _:
                pass

    @property
    def over_seed(self) -> float:
        return self.stack[-1][1] if self.fresh is None else self.fresh

    @property
    def named(self) -> list[tuple[str, float]]:
        """The ratios of the best kernel by name, as all surfaces should tell them."""
        eager = None if self.eager is None else self.over_seed * self.eager
        if self.fresh is not None and self.fresh_eager is not None:
            eager = self.fresh_eager
        compiled = None if eager is None or self.compiled is None else eager / self.compiled
        found = {"seed": self.over_seed, "eager": eager, "compile": compiled}
        if self.stack[-1][0] == 0 and eager is not None:
            del found["seed"]
        return [(name, ratio) for name, ratio in found.items() if ratio is not None]

    @property
    def provisional(self) -> bool:
        return self.stack[-1][0] != 0 and self.fresh is None

    @property
    def reason(self) -> str:
        """Why nothing goes on; "" while it does."""
        return self.finished or self.broke or self.held

    @property
    def status(self) -> str:
        if self.finished:
            return "finished" if self.ok else "failed"
        return "broken" if self.broke else "stopped" if self.held else "open"


class Told:
    """A run of records in memory, for the report: what `RunAtRest` reads from a folder."""

    def __init__(self, records: Sequence[ev.Record], states: Sequence[RunState]) -> None:
        self.records, self._states = records, states
        self.state = states[-1]

    def states(self) -> Iterator[tuple[ev.Record, RunState]]:
        yield from zip(self.records, self._states, strict=True)

    def head_sha256(self) -> str:
        return "0" * 64

    def kernel(self, blob: str) -> KernelFiles:
        return KernelFiles({"kernel.py": f"# {blob}\n"})


class Surfaces:
    """Everything that is shown of one run, kept over its events as the workbench keeps it."""

    def __init__(self) -> None:
        self._series = AttemptSeries()

    def faults(
        self, truth: Truth, records: Sequence[ev.Record], states: Sequence[RunState]
    ) -> list[str]:
        """Return each untruth that some surface tells of the run after its last event."""
        state = states[-1]
        now = state.last_at
        summary = summary_of(PATH, state, None)
        shown = json.loads(json.dumps(summarize(state)))
        report = gather(cast("RunAtRest", Told(records, states)), may_export=True)
        page = render_markdown(report)
        head = plain(header(state, now, ROOM))
        row = plain(status(state, "at work", None, now, ROOM))
        listed = ListedRun(Path(PATH), PATH, 0, now, summary)
        details = [plain(each) for each in run_details(listed, now, ROOM)]
        plan = render_plan(state)
        faults = [
            *check(summary.phase == truth.phase, f"list: phase {summary.phase}"),
            *check(report.about.phase == truth.phase, f"report: phase {report.about.phase}"),
            *check(f"phase: {truth.phase}\n" in plan, "PLAN.md: another phase"),
            *check(truth.phase in plain(phase_row(state, now, ROOM)), "phase row: another phase"),
            *check(f"mode {truth.mode}" in head, "header: another mode"),
            *check(summary.mode == report.about.mode == truth.mode, "list, report: another mode"),
            *check(summary.rounds == truth.rounds, f"list: {summary.rounds} rounds"),
            *check(shown["rounds"] == truth.rounds, f"show: {shown['rounds']} rounds"),
            *check(report.about.rounds == truth.rounds, f"report: {report.about.rounds} rounds"),
            *check(summary.status == truth.status, f"list: {summary.status}"),
        ]
        for name, counts in (
            ("list", summary.verdicts), ("show", shown["verdicts"]),
            ("report", report.about.verdicts),
        ):  # fmt: skip
            # A run of this version tells of no shortlist.
            whole = dict.fromkeys(truth.verdicts, 0) | dict(counts)
            faults += check(whole == truth.verdicts, f"{name}: verdicts {counts}")
        texts = {
            "header": head,
            "list": summary.line(),
            "list details": "\n".join(details),
            "status row": row,
            "report": page,
        }
        faults += _reasons(truth, texts, shown)
        faults += check(report.about.ended == bool(truth.finished), "report: another end")
        faults += check(report.about.ended_why == truth.finished, "report: another reason")
        faults += check(report.stop.primary == truth.finished, "report: another reason to stop")
        if not truth.stack:
            told = [shown["best"], summary.best, report.figures.best, summary.over_seed]
            return faults + check(told == [None] * 4, "a best kernel before there is one")
        faults += self._best(truth, state, head, shown, plan)
        if not truth.finished:
            del texts["status row"]  # it tells what the run does
        if not truth.timed:
            del texts["header"]
        row_ratio = f"{'~' if truth.provisional else ''}{ratio_text(truth.over_seed)}×"
        columns = plain(row_of(listed, now, ROOM))
        faults += check(row_ratio in columns, f"list row: no {row_ratio}")
        marks = {name: _marked(text, truth.named) for name, text in texts.items()}
        for name, text in texts.items():
            faults += check(marks[name] == marks["list"] is not None, f"{name}: {marks[name]}")
            faults += check(("so far" in text) == truth.provisional, f"{name}: provisional or not")
            faults += check(
                name == "list" or ("measured afresh" in text) == (truth.fresh is not None),
                f"{name}: measured afresh or not",
            )  # fmt: skip
        return faults

    def _best(
        self, truth: Truth, state: RunState, head: str, shown: dict[str, Any], plan: str
    ) -> list[str]:
        attempt = truth.stack[-1][0]
        best = shown["best"]
        told = [(name, best[f"over_{name}"]["ratio"]) for name, _ in truth.named]
        faults = check(alike(told, truth.named), f"show: {told}")
        faults += check(best["attempt"] == shown["best_attempt"] == attempt, "show: another best")
        faults += check(best["fresh"] == (truth.fresh is not None), "show: fresh or not")
        found = re.search(r"^best_over_seed: (\S+)", plan, re.M)
        value = found.group(1) if found else "nothing"
        faults += check(value == f"{truth.over_seed:.3f}", f"PLAN.md: {value}")
        if attempt and truth.timed:
            faults += check(f"attempt {attempt}" in head, "header: another attempt")
        self._series.read(state)
        plot = self._series.plot(state, None)
        end = plot.steps[-1][1] if plot.steps else 0.0
        faults += check(near(end, truth.over_seed), f"chart: ends at {end}")
        faults += check(plot.fresh == (truth.fresh is not None), "chart: fresh or not")
        if len(state.attempts) > 1:
            line = plain(sparkline(state, ROOM))
            faults += check(f"→ {ratio_text(truth.over_seed)}×" in line, f"chart in a row: {line}")
        return faults


def _marked(text: str, named: list[tuple[str, float]]) -> dict[str, bool] | None:
    """Return which of the best kernel's ratios a text marks as not proved; None where one is
    missing, or one that is marked stands before one that is not.
    """
    found: dict[str, bool] = {}
    places: list[tuple[bool, int]] = []
    for name, ratio in named:
        told = re.search(rf"{re.escape(ratio_text(ratio))}[x×](\??) {name}", text)
        if told is None:
            return None
        found[name] = bool(told[1])
        places.append((found[name], told.start()))
    in_order = sorted(places, key=lambda place: place[1]) == sorted(places)
    return found if in_order else None


def _reasons(truth: Truth, texts: dict[str, str], shown: dict[str, Any]) -> list[str]:
    """Return where the reason is not told, or another one is."""
    why = truth.reason
    good = truth.ok and not (truth.broke or truth.held) if not truth.finished else truth.ok
    faults = check(shown["reason"] == why, f"show: reason {shown['reason']!r}")
    faults += check(shown["ok"] == good, f"show: ok {shown['ok']}")
    over = "the run is over" in texts["status row"]
    faults += check(over == bool(truth.finished), "status row: over or not")
    keys = texts["list details"].splitlines()[-1]
    if not why:
        return faults + check("broke" not in keys, "list details: broken")
    faults += check(texts["list"].endswith(why), "list: another reason")
    faults += check(why in keys, "list details: another reason")
    faults += check(why.replace("|", "¦") in texts["report"], "report: another reason")
    if truth.finished:
        faults += check(why in texts["status row"], "status row: another reason")
    return faults


def near(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-9 * max(abs(one), abs(other))


def alike(one: list[tuple[str, float]], other: list[tuple[str, float]]) -> bool:
    return [n for n, _ in one] == [n for n, _ in other] and all(
        near(a, b) for (_, a), (_, b) in zip(one, other, strict=True)
    )


class Story:
    """A random run. `go` makes it and yields after every event."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.now = START
        self.records: list[ev.Record] = []
        self.states: list[RunState] = []
        self.truth = Truth()
        self._blobs = 0
        self._texts = 0

    @property
    def state(self) -> RunState:
        return self.states[-1]

    def go(self) -> Iterator[None]:
        yield from self._begin()
        while len(self.records) < MOST_EVENTS:
            before = len(self.records)
            if self._chance(0.18):
                yield from self._send(self._of_a_person())
            if self._chance(0.02):
                yield from self._broken()
            effect = fx.next_effect(self.state, self.now)
            if effect is None and not self._chance(0.5):
                return
            if effect is None or isinstance(effect, fx.Hold):
                yield from self._unheld(effect)
            else:
                yield from self._run(effect)
            if self._chance(0.01):
                yield from self._forked()
            self.now += self.dice.choice((0.5, 30.0)) if len(self.records) > before else 60.0

    def _chance(self, share: float) -> bool:
        return self.dice.random() < share

    def _append(self, event: ev.AnyEvent) -> Iterator[None]:
        record = ev.Record(len(self.records) + 1, self.now, event)
        self.states.append(evolve(self.states[-1] if self.states else None, record))
        self.records.append(record)
        self.truth.see(event)
        self.now += 0.7
        yield

    def _send(self, command: cmd.Command | None) -> Iterator[None]:
        decided = decide(self.state, command, self.now) if command is not None else ()
        for event in () if isinstance(decided, Rejected) else decided:
            yield from self._append(event)

    def _tell(self, event: ev.Observation) -> Iterator[None]:
        yield from self._send(cmd.Observe(event))

    def _begin(self) -> Iterator[None]:
        dice = self.dice
        policy = Policy(
            max_rounds=dice.randint(1, 9),
            max_rounds_without_keep=dice.choice((None, None, 3)),
            fail_streak=dice.randint(1, 3),
            discard_streak=dice.choice((None, 2)),
            min_plan_items=1,
            on_blocked=dice.choice(("diagnose", "ask", "stop")),
            automation=dice.choice((None, Policy().automation)),
        )
        workflows: Sequence[WorkflowName] = ("tune", "tune", "write_then_tune", "write")
        task = Task(
            op="row_softmax",
            baselines=dice.choice(((), ("eager",), ("compile",), ("eager", "compile"))),
            cases=tuple(Case(name) for name in CASES) if self._chance(0.2) else (),
            policy=policy,
            workflow=dice.choice(workflows),
        )
        yield from self._append(
            ev.RunCreated(
                run_id="fuzzed", task=task, mode=dice.choice(tuple(Mode)),
                agent=dice.choice(("sweep", "claude")), version="0", reference_sha256="0" * 64,
                kernel_sha256="0" * 64, kernel_blob=self._blob(),
            )
        )  # fmt: skip
        yield from self._append(ev.SessionOpened(pid=1, version="0", resumed=False))

    def _blob(self) -> str:
        self._blobs += 1
        return f"b{self._blobs}"

    def _run(self, effect: fx.Effect) -> Iterator[None]:
        match effect:
            case fx.Measure():
                yield from self._send(cmd.StartEval(effect.purpose, effect.attempt, effect.blob))
                if self._chance(0.2):
                    yield from self._send(self._of_a_person())
                if self._chance(0.05):
                    lost = ev.EvalInterrupted(attempt=effect.attempt, reason="the session ended")
                    yield from self._tell(lost)
                    return
                yield from self._send(cmd.FinishEval(self._measurement(effect)))
            case fx.CommitSeed():
                yield from self._send(cmd.AcceptBaseline("c0"))
            case fx.Commit():
                yield from self._send(cmd.Settle(f"c{effect.attempt}"))
            case fx.Step():
                for event in effect.events:
                    yield from self._append(event)
            case fx.RunAgent():
                yield from self._visit(effect.phase)
            case _:
                raise AssertionError(effect)

    def _broken(self) -> Iterator[None]:
        if self.state.finished:
            return
        if self.state.running is not None:
            lost = ev.EvalInterrupted(attempt=self.state.running.attempt, reason="it broke")
            yield from self._tell(lost)
        yield from self._tell(ev.SessionBroke(reason=self.dice.choice(WHY)))
        self.now += 3600
        yield from self._tell(ev.SessionOpened(pid=2, version="0", resumed=True))

    def _unheld(self, hold: fx.Hold | None) -> Iterator[None]:
        """A person does something about what holds the run; about a run that is over too."""
        state, dice = self.state, self.dice
        choices: list[cmd.Command] = [cmd.Unpause(), cmd.Step(), cmd.SetMode(Mode.AUTO)]
        if state.gate is not None and not state.gate.answer:
            always, approve = self._chance(0.2), self._chance(0.7)
            choices = [cmd.AnswerGate(state.gate.gate, approve, dice.choice(("", *WHY)), always)]
        if state.question is not None:
            choices.append(cmd.AnswerQuestion(state.question.number, "yes"))
        if hold is None:
            policy = replace(state.task.policy, max_rounds=state.settled + dice.randint(1, 4))
            choices = [cmd.UndoKeep(), cmd.GoOn(policy)]
        yield from self._send(dice.choice(choices))

    def _of_a_person(self) -> cmd.Command:
        state, dice = self.state, self.dice
        pending = [item.id for item in state.pending]
        order = dice.sample(pending, len(pending))
        item = dice.choice([each.id for each in state.items] or ["p1"])
        policy = state.task.policy
        commands: list[Callable[[], cmd.Command]] = [
            lambda: cmd.SetMode(dice.choice(tuple(Mode))),
            lambda: cmd.SetGate(dice.choice(tuple(Gate)), on=self._chance(0.5)),
            cmd.Pause,
            cmd.Unpause,
            cmd.Step,
            lambda: cmd.AddItem(self._text()),
            lambda: cmd.EditItem(item, self._text()),
            lambda: cmd.DropItem(item),
            lambda: cmd.PinItem(item),
            lambda: cmd.ReorderItems(tuple(order)),
            lambda: cmd.Remeasure(item),
            lambda: cmd.ForceReplan(dice.choice(("", *WHY))),
            lambda: cmd.ForceDiagnosis(dice.choice(("", *WHY))),
            cmd.UndoKeep,
            lambda: cmd.Hint("use fewer lanes"),
            lambda: cmd.RevokeRule(1),
            lambda: cmd.ChangePolicy(replace(policy, max_rounds=policy.max_rounds + 1)),
        ]
        return cmd.Stop(dice.choice(WHY)) if self._chance(0.03) else dice.choice(commands)()

    def _text(self) -> str:
        self._texts += 1
        return f"LANES = {self._texts}"

    def _visit(self, phase: Phase) -> Iterator[None]:
        dice = self.dice
        yield from self._tell(
            ev.ModelReplied(
                phase=phase, model="lab", text="I work.", tool_calls=1, input_tokens=900,
                output_tokens=dice.randint(1, 400),
            )
        )  # fmt: skip
        kind = dice.random()
        if kind < 0.06:
            yield from self._tell(ev.ApiWaiting(reason=dice.choice(WHY), attempt=1, seconds=9.0))
        elif kind < 0.10:
            yield from self._tell(ev.TurnInterrupted(reason="the model cannot be used"))
            yield from self._tell(ev.ApiFailed(reason=dice.choice(WHY)))
            return
        elif kind < 0.14:
            yield from self._send(cmd.AskUser("How far may errors go?"))
        elif kind < 0.17:
            about: Literal["run", "item"] = "run" if self._chance(0.5) else "item"
            yield from self._send(
                cmd.ReportBlocked("other", "something that is needed is not there", about)
            )
        elif kind < 0.20:
            yield from self._send(cmd.RequestScript("ab" * 32, "print()"))
        elif kind < 0.24:
            yield from self._tell(ev.TurnInterrupted(reason="cut off"))
            yield from self._tell(ev.VisitFailed(phase=phase, reason=dice.choice(WHY)))
            return
        else:
            yield from self._work(phase)
        yield from self._tell(ev.TurnEnded())

    def _work(self, phase: Phase) -> Iterator[None]:
        dice = self.dice
        if phase is Phase.PLAN:
            texts = [self._text() for _ in range(dice.randint(1, 4))]
            items = tuple(ev.PlannedItem("", t, "more lanes hide the latency") for t in texts)
            yield from self._send(cmd.RequestFinish(dice.choice(WHY)) if self._chance(0.1)
                                  else cmd.SubmitPlan(items))  # fmt: skip
        elif phase is Phase.DIAGNOSE:
            yield from self._send(cmd.ReportDiagnosis(dice.choice(WHY), directions=("fewer",)))
        else:
            if self._chance(0.2):
                tried = self._interval(0.9, 1.3)
                yield from self._send(cmd.RecordTrial(self._blob(), "the best", tried))
            yield from self._send(cmd.Edit(self._blob(), "0" * 64, added=1, removed=1))

    def _interval(self, least: float, most: float, half: float = 0.01) -> Measurement:
        ratio = self.dice.uniform(least, most)
        noise = ("2 of 4 processors were busy",) if self._chance(0.3) else ()
        cases = tuple(
            CaseTiming(name=each.name, candidate_ms=1.0, baseline_ms=ratio, ratio=_around(ratio))
            for each in self.state.task.cases
        )
        return Measurement(
            outcome=Outcome.CORRECT, max_error=1e-6, tolerance=1e-4, candidate_ms=1.0 / ratio,
            baseline_ms=1.0, ratio=_around(ratio, half), clusters=8, samples=64, elapsed_s=3.0,
            detectable=self.dice.choice((None, 0.02, 0.4)), noise=noise, cases=cases,
            log_ratios=(0.01,) * 8,
        )  # fmt: skip

    def _measurement(self, effect: fx.Measure) -> Measurement:
        dice = self.dice
        kind = dice.random()
        if kind < 0.04:
            return Measurement(
                outcome=Outcome.ERROR, failure=FailureKind.JUDGE, message="the judge was lost"
            )
        candidate = effect.purpose is ev.Purpose.CANDIDATE
        if kind < (0.2 if candidate else 0.1):
            failure = dice.choice((FailureKind.WRONG, FailureKind.TIMEOUT, FailureKind.BUILD))
            return Measurement(
                outcome=Outcome.FAILED, failure=failure, message=f"{failure}: {dice.choice(WHY)}"
            )
        found = self._interval(0.3, 3.0)
        if kind < (0.23 if candidate else 0.13):
            untimed = replace(found, ratio=None, candidate_ms=None, cases=())
            why = "an interpreter ran it"
            return dice.choice((untimed, replace(untimed, timed=False, message=why)))
        if not candidate:
            return found
        if kind < 0.55:
            found = self._interval(1.1, 1.9)
            confirmed = Confirmation(found.ratio, agrees=self._chance(0.8))
            return replace(found, confirmation=dice.choice((None, confirmed)))
        if kind < 0.75:
            return replace(self._interval(1.0, 1.3, 0.2), undecided=True)
        return self._interval(0.7, 1.02)

    def _forked(self) -> Iterator[None]:
        """Go on as a fork of the run, at the end of one of its rounds."""
        ends = [r.seq for r in self.records if isinstance(r.event, ev.Decided)]
        if not ends:
            return
        last = self.dice.choice(ends)
        parent = self.state.run_id
        self.records, self.states = self.records[:last], self.states[:last]
        assert self.states[-1] == fold(self.records)
        self.truth = Truth()
        for record in self.records:
            self.truth.see(record.event)
        decided = self.records[-1].event
        assert isinstance(decided, ev.Decided)
        yield from self._append(
            ev.Forked(
                run_id=f"{parent}-r{decided.round}", parent=parent, parent_path="",
                round=decided.round, seq=last, hash="0" * 64, version="0",
            )
        )  # fmt: skip
        yield from self._append(ev.SessionOpened(pid=3, version="0", resumed=True))


def _around(ratio: float, half: float = 0.01) -> Interval:
    return Interval(ratio, ratio * (1 - half), ratio * (1 + half), 0.99)


@dataclass
class Found:
    """What one run was made of, and the untruths told of it."""

    events: int = 0
    kinds: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)


def fuzzed(seed: int) -> Found:
    """Make the run of this seed, and ask all surfaces after every event."""
    found, story, surfaces = Found(), Story(seed), Surfaces()
    for _ in story.go():
        found.events += 1
        kind = type(story.records[-1].event).__name__
        found.kinds.add(kind)
        if isinstance(story.records[-1].event, ev.Forked):
            surfaces = Surfaces()
        where = f"run {seed}, event {len(story.records)} ({kind})"
        for fault in surfaces.faults(story.truth, story.records, story.states):
            found.faults.append(f"{where}: {fault}")
    return found


def main(words: list[str]) -> bool:
    parser = argparse.ArgumentParser(prog="benchmarks agreement", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    given = parser.parse_args(words)
    began = time.process_time()
    events, kinds, faults = 0, set[str](), list[str]()
    for seed in range(given.first, given.first + given.runs):
        found = fuzzed(seed)
        events += found.events
        kinds |= found.kinds
        faults += found.faults
    for fault in faults[:20]:
        print(fault)
    figures = {
        "benchmark": "agreement",
        "runs": given.runs,
        "events": events,
        "kinds_of_events": len(kinds),
        "untruths": len(faults),
        "cpu_s": round(time.process_time() - began, 1),
        "held": not faults,
    }
    print(json.dumps(figures), flush=True)
    return not faults
