"""Reads a run into a `Report`, from journal and git history alone: no clock, path or host.

Two reports of one journal are equal to the byte, also after the run was copied elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from akg_tui.core import events as ev
from akg_tui.core.events import Purpose
from akg_tui.core.measurement import Measurement, nearest_errors
from akg_tui.core.model_info import TABLE_VERSION
from akg_tui.core.phases import ItemState, Verdict
from akg_tui.core.plan.plan_document import direction_of
from akg_tui.core.state import Attempt, RunState
from akg_tui.core.stopping import export_guard
from akg_tui.core.stopping.export_guard import Channel
from akg_tui.core.summary import (
    best_metrics,
    best_of,
    compile_problem,
    compiled_over_eager,
    held_by,
    reference_lines,
    summarize,
    verdict_counts,
)
from akg_tui.report.contents import (
    SCHEMA,
    About,
    Diagnosis,
    Direction,
    Disturbed,
    Figures,
    Journal,
    Noise,
    Report,
    Result,
    Round,
    Source,
    Spent,
    Step,
    Stop,
    TimedNote,
    Tokens,
)
from akg_tui.report.wording import sandbox_of
from akg_tui.store.run_at_rest import RunAtRest
from akg_tui.store.run_list import JOURNAL
from akg_tui.view.event_words import reported, words_of

_OPEN = (ItemState.PENDING, ItemState.ACTIVE)
_NOT_JUDGE = ("op", "files", "target", "policy", "agent", "check_source", "table")
MAX_REASONS = 3  # per direction
MAX_VALUES = 5  # per fact about the machine


def gather(run: RunAtRest, *, may_export: bool, earlier: Result | None = None) -> Report:
    """Return the whole report of `run`.

    `may_export` means that a person asked for the result; `earlier` is the result of the previous
    report, which is kept if `may_export` is False.

    Raises `StoreError` if a kernel is lost or the journal changed during the read.
    """
    state = run.state
    walked = _JournalWalk(run)
    about = _about(state, walked.created)
    figures = _figures(state)
    best = _source(run, state)
    status, result, notes = exported(about, figures, best, may_export=may_export, earlier=earlier)
    return Report(
        schema=SCHEMA,
        status=status,
        result=result,
        notes=notes,
        about=about,
        figures=figures,
        cases=state.final.cases if state.final else (),
        errors=measured.errors if (measured := _best_measurement(state)) else (),
        correctness_notes=measured.notes if measured else (),
        metrics=best_metrics(state),
        stop=Stop(state.finished, state.stop_conditions, state.goals_met),
        rounds=walked.rounds(),
        incumbents=tuple(walked.steps),
        directions=_directions(state),
        diagnoses=tuple(walked.diagnoses),
        baseline_problem=_baseline_problem(state),
        interventions=tuple(walked.interventions),
        sessions=tuple(walked.sessions),
        spent=_spent(state),
        settings=_judge_settings(state),
        policy=_json(state.task.policy),
        environment=_environment(walked.measurements),
        noise=Noise(walked.timings, tuple(walked.disturbed)),
        sandbox=sandbox_of(m.sandbox for m in walked.measurements),
        kernel_file=state.task.files.editable,
        seed=_seed(run, state, walked.created.kernel_blob),
        best=best,
        reference_sha256=state.reference_sha256,
        seed_sha256=walked.created.kernel_sha256,
        journal=Journal(JOURNAL, len(run.records), run.head_sha256()),
    )


def utc(at: float) -> str:
    """Return seconds since the epoch as ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class _JournalWalk:
    """Facts from a pass through the journal that the final state does not hold."""

    def __init__(self, run: RunAtRest) -> None:
        created = run.records[0].event
        assert isinstance(created, ev.RunCreated)
        self.created = created
        self.steps: list[Step] = []
        self.diagnoses: list[Diagnosis] = []
        self.interventions: list[TimedNote] = []
        self.sessions: list[TimedNote] = []
        self.measurements: list[Measurement] = []
        self.timings = 0
        self.disturbed: list[Disturbed] = []
        self._state = run.state
        self._items = {item.id: item for item in run.state.items}
        self._incumbent_of: dict[int, float] = {}
        before: RunState | None = None
        for record, state in run.states():
            self._see(record, before, state)
            before = state

    def _see(self, record: ev.Record, before: RunState | None, state: RunState) -> None:
        event, at = record.event, utc(record.at)
        if words := words_of(event, "report"):
            self.interventions.append(TimedNote(at, record.seq, reported(words)))
        match event:
            case ev.SessionOpened():
                word = "resumed" if event.resumed else "began"
                self.sessions.append(
                    TimedNote(at, record.seq, f"{word} with version {event.version}")
                )
            case ev.EvalFinished():
                self.measurements.append(event.measurement)
                self._see_noise(event)
            case ev.DiagnosisReported():
                self.diagnoses.append(
                    Diagnosis(at, event.cause, event.avoid, event.directions, event.source)
                )
            case ev.Decided() if before is not None and before.best is not None:
                self._incumbent_of[event.attempt] = before.best.over_seed
            case _:
                pass
        best = state.best
        if best is not None and (not self.steps or self.steps[-1].attempt != best.attempt):
            self.steps.append(Step(state.settled, best.attempt, best.over_seed))

    def _see_noise(self, event: ev.EvalFinished) -> None:
        found = event.measurement
        if found.detectable is None:
            return
        self.timings += 1
        if found.noise:
            candidate = event.purpose is ev.Purpose.CANDIDATE
            what = f"attempt {event.attempt}" if candidate else event.purpose.value
            self.disturbed.append(Disturbed(what, found.noise, found.detectable))

    def rounds(self) -> tuple[Round, ...]:
        return tuple(self._round(a) for a in self._state.attempts if a.number)

    def _round(self, attempt: Attempt) -> Round:
        item = self._items.get(attempt.item)
        text = item.text if item else ""
        measured = attempt.measurement
        return Round(
            round=attempt.round,
            attempt=attempt.number,
            item=attempt.item,
            text=text,
            rationale=item.rationale if item else "",
            direction=direction_of(text),
            verdict=attempt.verdict.value,
            reason=attempt.reason,
            ratio=measured.ratio,
            estimate_over_seed=attempt.speedup,
            incumbent_over_seed=self._incumbent_of.get(attempt.number, 1.0),
            candidate_ms=measured.candidate_ms,
            incumbent_ms=measured.baseline_ms,
            max_error=measured.max_error,
            tolerance=measured.tolerance,
            commit=attempt.commit,
            settled_utc=utc(attempt.at),
            measured_s=round(measured.elapsed_s, 3),
            again_of=attempt.again_of,
            cases=measured.cases,
            errors=nearest_errors(measured.errors),
            metrics=measured.metrics,
        )


def _best_measurement(state: RunState) -> Measurement | None:
    """Return the last measurement of the best kernel."""
    if state.best is None or state.final is not None:
        return state.final
    return state.attempts[state.best.attempt].measurement


def _about(state: RunState, created: ev.RunCreated) -> About:
    target = state.task.target
    return About(
        run_id=state.run_id,
        op=state.task.op,
        backend=target.backend,
        dsl=target.dsl,
        arch=target.arch,
        agent=state.agent,
        mode=state.mode.value,
        workflow=state.workflow.name,
        table=state.task.table,
        made_by_version=created.version,
        phase=state.phase.value,
        ended=bool(state.finished),
        ended_ok=state.ok,
        ended_why=state.finished,
        held_why=held_by(state),
        started_utc=utc(state.started_at),
        last_event_utc=utc(state.last_at),
        worked_s=round(state.worked_s, 3),
        rounds=state.rounds,
        tries_to_write=state.tries,
        max_rounds=state.task.policy.max_rounds,
        verdicts=verdict_counts(state),
        estimate=state.task.estimate,
        open_items=sum(item.state in _OPEN for item in state.items),
    )


def _figures(state: RunState) -> Figures:
    """Return the figures; the lines of the chart are eager and compile over the seed."""
    baseline, final = state.baseline, state.final
    compiled, autotuned = state.compiled, state.autotuned
    best, lines = best_of(state), dict(reference_lines(state))
    chained = state.best.speedup if state.best and state.best.attempt else None
    return Figures(
        best=best,
        speedup_over_seed=final.ratio if final else None,
        estimate_over_seed=None if state.task.estimate else chained,
        reference_over_seed=lines.get("eager"),
        compile_over_seed=lines.get("compile"),
        compile_over_reference=compiled_over_eager(state),
        best_over_reference=best.over_eager.ratio if best and best.over_eager else None,
        seed_ms=baseline.candidate_ms if baseline else None,
        reference_ms=baseline.baseline_ms if baseline else None,
        best_ms=final.candidate_ms if final else None,
        compile_ms=compiled.candidate_ms if compiled else None,
        compile_problem=compile_problem(state, Purpose.COMPILE),
        max_autotune_ms=autotuned.candidate_ms if autotuned else None,
        max_autotune_problem=compile_problem(state, Purpose.MAX_AUTOTUNE),
    )


def _directions(state: RunState) -> tuple[Direction, ...]:
    """Return the directions, those with most rounds first."""
    texts = {item.id: item.text for item in state.items}
    found: dict[str, list[Attempt]] = {}
    for attempt in state.attempts:
        if attempt.number:
            found.setdefault(direction_of(texts.get(attempt.item, "")), []).append(attempt)
    ordered = sorted(found.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    return tuple(_direction(name, attempts) for name, attempts in ordered)


def _direction(name: str, attempts: Sequence[Attempt]) -> Direction:
    count = Counter(attempt.verdict for attempt in attempts)
    ratios = [a.measurement.ratio.ratio for a in attempts if a.measurement.ratio is not None]
    # The reason of a FAIL can be quoted; the reason of a DISCARD only repeats its ratio.
    reasons = Counter(a.reason for a in attempts if a.verdict is Verdict.FAIL)
    return Direction(
        name=name,
        rounds=len(attempts),
        kept=count[Verdict.KEEP] + count[Verdict.SHORTLIST],
        discarded=count[Verdict.DISCARD],
        failed=count[Verdict.FAIL],
        best_ratio=max(ratios, default=None),
        reasons=tuple(reason for reason, _ in reasons.most_common(MAX_REASONS)),
        inconclusive=count[Verdict.INCONCLUSIVE],
    )


def _baseline_problem(state: RunState) -> str:
    """Return why the seed or the reference could not be used, or ""."""
    if state.best is not None or state.baseline is None:
        return ""
    return "\n".join(filter(None, (state.baseline.message, state.baseline.detail)))


def _spent(state: RunState) -> Spent:
    summary = summarize(state)
    by_model: list[Tokens] = []
    for used in state.usage:
        plain = msgspec.to_builtins(used)
        by_model.append(Tokens(plain.pop("model"), plain))
    return Spent(
        input_tokens=state.input_tokens,
        output_tokens=state.output_tokens,
        by_model=tuple(by_model),
        cost_usd=summary["cost_usd"],
        price_table=TABLE_VERSION,
    )


def _judge_settings(state: RunState) -> dict[str, Any]:
    """Return the settings of checks and timing: the task without fields unused by the judge."""
    return {name: value for name, value in _json(state.task).items() if name not in _NOT_JUDGE}


def _json(value: msgspec.Struct) -> dict[str, Any]:
    """Return `value` as plain JSON, so that a report equals the value read from `report.json`."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return plain


def _environment(measurements: Iterable[Measurement]) -> dict[str, tuple[str, ...]]:
    """Return each fact about the machine with all its values, in the order of their occurrence."""
    found: dict[str, dict[str, None]] = {}
    for measurement in measurements:
        for name, value in measurement.environment.items():
            found.setdefault(name, {})[value] = None
    return {name: _values(name, list(values)) for name, values in sorted(found.items())}


def _values(name: str, values: list[str]) -> tuple[str, ...]:
    """Return at most `MAX_VALUES` values; of a load, which varies, the least and greatest."""
    if name == "load":
        try:
            loads = sorted(values, key=float)
        except ValueError:
            return tuple(values[:MAX_VALUES])
        return (loads[0],) if len(loads) == 1 else (f"{loads[0]} to {loads[-1]}",)
    return tuple(values[:MAX_VALUES])


def _seed(run: RunAtRest, state: RunState, first: str) -> Source:
    """Return attempt 0; before there is one, the `first` kernel, with which the run began."""
    seed = next((a for a in state.attempts if a.number == 0), None)
    blob = seed.blob if seed is not None else first
    return Source.of(0, blob, seed.commit if seed is not None else "", run.kernel(blob))


def _source(run: RunAtRest, state: RunState) -> Source:
    """Return the best kernel; the one measured last if none was correct."""
    best = state.best
    if best is None:
        return Source.of(0, state.seed_blob, "", run.kernel(state.seed_blob))
    return Source.of(best.attempt, best.blob, best.commit, run.kernel(best.blob))


def is_asked_for(channel: Channel, hints: Iterable[str], *, by_command: bool) -> bool:
    """Return whether the result may be written.

    A person's command to report allows it, so does following the run on the command line, and so
    does a person's message to the agent that asks for the result, on any channel.
    """
    return any(
        export_guard.may_export(words, channel=channel, allow_result_write=by_command)
        for words in ("", *hints)
    )


def exported(
    about: About, figures: Figures, best: Source, *, may_export: bool, earlier: Result | None
) -> tuple[str, Result | None, tuple[str, ...]]:
    """Return the report's status, its result, and the notes of the export guard.

    A run that is not over is always in progress, even when a person asks.
    """
    claimed = "completed" if about.ended and about.ended_ok else "in_progress"
    guarded = export_guard.guard(
        before=_plain(earlier),
        after=_plain(_result(figures, best)),
        status=claimed,
        pending=about.open_items > 0 or not about.ended,
        may_write=may_export,
    )
    result = guarded.result
    return guarded.status, Result(**result) if result else None, guarded.notes


def _plain(result: Result | None) -> dict[str, str] | None:
    return msgspec.structs.asdict(result) if result else None


def _result(figures: Figures, best: Source) -> Result | None:
    """Return the kernel that was kept; None if no candidate was kept."""
    if not best.attempt:
        return None
    told = figures.best.line if figures.best else ""
    gained = figures.speedup_over_seed
    summary = f"{told}, measured afresh" if gained else f"{told}, not measured afresh"
    return Result("kernel", "history.git: best", best.commit, summary)
