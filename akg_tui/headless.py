"""A run without a workbench: progress for a terminal, or JSON lines for a program.

Watches a `RunHandle` as any screen does; the run itself is the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

from akg_tui.core import events as ev
from akg_tui.core.approval_rules import applied_in_words, in_words
from akg_tui.core.measurement import Measurement
from akg_tui.core.phases import Verdict
from akg_tui.core.sanitize import one_line
from akg_tui.core.stopping.automation import CONDITION_PREFIX, AutomationPolicy
from akg_tui.core.summary import summarize, token_fields
from akg_tui.core.verdict import percent
from akg_tui.engine.run_handle import RunHandle, unread

TICK_S = 0.1


def summary_of(handle: RunHandle) -> dict[str, Any]:
    """The `summary` object, with the run's path and, once there is one, its report's."""
    page = Path(handle.path) / "report.html"
    report = str(page) if handle.state.finished and page.is_file() else None
    return {**summarize(handle.state), "run": handle.path, "report": report}


async def run_as_json(handle: RunHandle, out: TextIO) -> None:
    """Run to the end; one JSON object a line on `out`, the summary last."""
    task = asyncio.create_task(handle.run())
    stream = _JsonLines(handle, out)
    try:
        while not task.done():
            await until_done(task, handle)
            stream.write()
        await task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        stream.write()
        if handle.state.finished or handle.state.api_failure:
            out.write(json.dumps(summary_of(handle)) + "\n")
            out.flush()


class ModelHeld(RuntimeError):
    """The model cannot be used as things are, and nobody watches who could mend it."""


async def until_done(task: asyncio.Task[None], handle: RunHandle) -> None:
    """Wait a tick, or until the work ends. Raises `ModelHeld` when only a person could help."""
    await asyncio.wait({task}, timeout=TICK_S)
    if handle.state.api_failure and not task.done():
        raise ModelHeld(handle.state.api_failure)


class _JsonLines:
    """Writes each event once, with the tokens used up to and with it."""

    def __init__(self, handle: RunHandle, out: TextIO) -> None:
        self._handle = handle
        self._out = out
        self._shown = 0
        self._tokens = 0
        self._policy: AutomationPolicy | None = None

    def write(self) -> None:
        """Write the events that came since the last time."""
        count = len(self._handle.records)
        for record in unread(self._handle.records, self._shown):
            event = record.event
            match event:
                case ev.RunCreated():
                    self._policy = event.task.policy.automation
                case ev.PolicyChanged():
                    self._policy = event.policy.automation
                case ev.ModelReplied() | ev.ReplyLost():
                    self._tokens += event.prompt_tokens + event.output_tokens
                case _:
                    pass
            line = {"seq": record.seq, "at": record.at, **ev.to_builtins(event)}
            if isinstance(event, ev.StopConditionsMet):
                line["message"] = CONDITION_PREFIX + event.primary
            line |= token_fields(self._tokens, self._policy)
            self._out.write(json.dumps(line) + "\n")
        if count > self._shown:
            self._out.flush()
        self._shown = count


async def run_with_progress(handle: RunHandle) -> None:
    """Run to the end; a line an event of note, and a live line for what is going on."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(file=sys.stdout, markup=False, highlight=False)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(20))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        bar = progress.add_task("starting", total=None)
        task = asyncio.create_task(handle.run())
        shown = 0
        try:
            while not task.done():
                await until_done(task, handle)
                count = len(handle.records)
                for record in unread(handle.records, shown):
                    for line in narrate([record], handle):
                        console.print(line, soft_wrap=True)
                shown = count
                now = handle.live.progress
                total = now.total or None if now else None
                doing = f"{handle.state.phase}  {handle.live.activity}"
                if now:
                    doing += f": {now.stage} {one_line(now.message, 60)}"
                progress.update(
                    bar, description=doing, total=total, completed=now.done if now else 0
                )
            await task
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
    for line in closing_lines(handle):
        console.print(line, soft_wrap=True)


def narrate(
    records: Iterable[ev.Record], handle: RunHandle, say: Callable[[str], str] = str
) -> list[str]:
    """One line for each event that a person wants to see pass by.

    `say` puts a reason into the words of the one who reads.
    """
    lines: list[str] = []
    for record in records:
        event = record.event
        match event:
            case ev.SessionOpened(resumed=True):
                lines.append(f"resumed at event {record.seq}")
            case ev.EvalFinished(purpose=ev.Purpose.BASELINE, measurement=m):
                lines += _baseline(m, say)
            case ev.PlanSubmitted(items=items):
                lines += [f"plan      {item.id:<4} {one_line(item.text, 100)}" for item in items]
            case ev.Decided():
                lines.append(_verdict_line(event, say))
            case ev.DiagnosisReported(cause=cause):
                lines.append(f"diagnosis {one_line(cause, 120)}")
            case ev.StopConditionsMet(reasons=reasons):
                lines += [
                    f"stop      {CONDITION_PREFIX}{one_line(say(why), 120)}" for why in reasons
                ]
            case ev.PolicyChanged(source=source):
                lines.append(f"policy    changed by the {one_line(source, 40)}")
            case ev.PlanEdited(kept=kept):
                lines.append(f"PLAN.md   was edited by hand; the edit is kept in {one_line(kept)}")
            case ev.RunSalvaged(source=source):
                lines.append(f"salvaged  from the run {one_line(source)}")
            case _:
                lines += _of_visits(event, say) or _of_subagents(event, say) or _by_hand(event, say)
    return lines


def _baseline(m: Measurement, say: Callable[[str], str]) -> list[str]:
    """How fast reference and first kernel are, and what they were not kept from."""
    if m.ratio:
        told = f"reference {m.baseline_ms:.3f} ms, kernel {m.candidate_ms:.3f} ms"
    elif not m.timed:
        told = f"right; {one_line(say(m.message), 100)}"
    else:
        return []
    lacks = [f"sandbox   lacks {one_line(say(each), 100)}" for each in m.sandbox_missing]
    return [f"baseline  {told}", *lacks]


def _of_visits(event: ev.AnyEvent, say: Callable[[str], str]) -> list[str]:
    """What the model's server makes a visit wait for, begin anew or end."""
    match event:
        case ev.ApiWaiting(reason=reason, attempt=attempt, seconds=seconds):
            return [f"WAIT_API  try {attempt + 1} in {seconds:.0f} s: {one_line(say(reason), 100)}"]
        case ev.ApiFailed(reason=reason):
            return [f"WAIT_API  the model cannot be used: {one_line(say(reason), 300)}"]
        case ev.ContextRebuilt(reason=reason):
            return [f"context   begun anew: {one_line(say(reason), 100)}"]
        case ev.VisitFailed(reason=reason):
            return [f"agent     {one_line(say(reason), 120)}"]
        case _:
            return []


def _by_hand(event: ev.AnyEvent, say: Callable[[str], str]) -> list[str]:
    """What a person did to the run, and what was asked of one."""
    match event:
        case ev.KeepUndone(attempt=attempt, comment=comment):
            why = f": {one_line(comment, 100)}" if comment else ""
            return [f"undo      the KEEP of attempt {attempt}{why}"]
        case ev.RuleLearned(rule=rule, scope=scope):
            return [f"rule      {rule} learned: {say(in_words(scope))}"]
        case ev.RuleApplied():
            return [f"rule      {applied_in_words(event).removeprefix('rule ')}"]
        case ev.RuleRevoked(rule=rule, reason=reason):
            return [
                f"rule      {rule} ended" + (f": {one_line(say(reason), 100)}" if reason else "")
            ]
        case ev.Forked(parent=parent, round=number):
            return [f"forked    from {one_line(parent, 80)}, round {number}"]
        case ev.QuestionAsked(text=text):
            return [f"question  {one_line(text, 120)}"]
        case ev.QuestionAnswered(answer=answer, source=source):
            return [f"answer    {source}: {one_line(answer, 120)}"]
        case ev.BlockedReported(kind=kind, text=text):
            return [f"blocked   {kind}: {one_line(text, 120)}"]
        case ev.CallRefused(reason=reason):
            return [f"budget    {one_line(say(reason), 120)}"]
        case _:
            return []


def _of_subagents(event: ev.AnyEvent, say: Callable[[str], str]) -> list[str]:
    match event:
        case ev.SubagentStarted(subagent=name, agent=agent, prompt=prompt):
            return [f"subagent  {name} {one_line(agent, 40)}: {one_line(prompt, 100)}"]
        case ev.SubagentEnded(subagent=name, status=status, calls=calls, reason=reason):
            why = f", {one_line(say(reason), 100)}" if reason else ""
            return [f"subagent  {name} {status} after {calls} calls{why}"]
        case ev.SubagentHinted(subagent=name, text=text):
            return [f"subagent  {name} is told: {one_line(text, 100)}"]
        case ev.SubagentStopped(subagent=name, reason=reason):
            why = f": {one_line(reason, 100)}" if reason else ""
            return [f"subagent  {name} is stopped by a person{why}"]
        case _:
            return []


_MARKS = {Verdict.KEEP: "✔", Verdict.DISCARD: "–", Verdict.FAIL: "✘"}


def _verdict_line(event: ev.Decided, say: Callable[[str], str]) -> str:
    mark = _MARKS[event.verdict]
    reason = one_line(say(event.reason), 90)
    return f"round {event.round:<3} {mark} {event.verdict:<7} {event.item:<4} {reason}"


def _bill(summary: dict[str, Any]) -> str:
    """The share of the prompts that came from a cache, and what all cost, where known."""
    share, cost = summary["cache_read_share"], summary["cost_usd"]
    read = f", {share:.0%} of the prompts from the cache" if share else ""
    return f"{read}, ${cost:.2f}" if cost else read


def closing_lines(handle: RunHandle) -> list[str]:
    """What the run came to, in a few lines."""
    summary = summary_of(handle)
    verdicts = ", ".join(f"{count} {name}" for name, count in summary["verdicts"].items())
    lines = [f"\n{summary['reason']}: {summary['rounds']} rounds ({verdicts})"]
    if used := summary["tokens_used_session"]:
        limit = f" of {summary['max_tokens']}" if "max_tokens" in summary else ""
        lines.append(f"tokens: {used}{limit}{_bill(summary)}")
    final = handle.state.final
    if final and final.ratio:
        lines.append(
            f"best kernel against the seed, measured afresh: {final.ratio.ratio:.2f}x "
            f"({percent(final.ratio)}), {final.candidate_ms:.3f} ms a call"
        )
    lines.append(f"run: {handle.path}")
    if handle.live.notice:
        lines.append(handle.live.notice)
    elif summary["report"]:
        lines.append(f"report: {summary['report']}")
    return lines
