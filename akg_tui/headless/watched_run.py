"""A run without the workbench: progress lines for a terminal, or JSON lines for a program.

Reads a `RunHandle` as the workbench does and sends no commands to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from akg_tui.core import events as ev
from akg_tui.core.sanitize import Said, one_line
from akg_tui.core.stopping.automation import REASON_PREFIX, AutomationPolicy
from akg_tui.core.summary import best_of, summarize, token_fields
from akg_tui.core.task import host_of
from akg_tui.engine.run_handle import RunHandle, unread
from akg_tui.view.event_words import Say, line_texts
from akg_tui.view.language import Text, counted

TICK_S = 0.1


def summary_of(handle: RunHandle) -> dict[str, Any]:
    """Return the `summary` object, with the paths of the run and of its report, if any."""
    page = Path(handle.path) / "report.html"
    report = str(page) if handle.state.finished and page.is_file() else None
    return {**summarize(handle.state), "run": handle.path, "report": report}


class ModelHeld(RuntimeError):
    """The model cannot be used, and no user watches the run to correct that."""


async def run_watched(handle: RunHandle, tick: Callable[[], None], *, attended: bool) -> None:
    """Run to the end; call `tick` every `TICK_S` seconds and once at the end.

    Raises `ModelHeld` when the model cannot be used and the run is not `attended` by a person.
    """
    task = asyncio.create_task(handle.run())
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=TICK_S)
            if handle.state.api_failure and not task.done() and not attended:
                raise ModelHeld(handle.state.api_failure)
            tick()
        await task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        tick()


async def run_as_json(handle: RunHandle, out: TextIO, left: Callable[[], bool]) -> None:
    """Run to the end, or until cancelled; write one JSON object a line on `out`, the summary last.

    The summary of an interrupted run is not `ok`, and gives that as the reason. A run
    that is not over and that `left` this process, to go on in another, has no summary here.
    """
    stream = JsonLines(out)
    interrupted: dict[str, Any] = {}
    try:
        await run_watched(handle, lambda: stream.write(handle.records), attended=False)
    except asyncio.CancelledError:
        if not handle.state.finished:
            interrupted = {"ok": False, "reason": "interrupted"}
        raise
    finally:
        if handle.state.finished or ((handle.state.api_failure or interrupted) and not left()):
            out.write(json.dumps({**summary_of(handle), **interrupted}) + "\n")
            out.flush()


class JsonLines:
    """Writes each event after number `cursor` once, with the tokens used up to it."""

    def __init__(self, out: TextIO, cursor: int = 0) -> None:
        self._out = out
        self._cursor = cursor
        self._shown = 0
        self._tokens = 0
        self._policy: AutomationPolicy | None = None

    def write(self, records: Sequence[ev.Record]) -> None:
        """Write the events that were journaled since the last call."""
        count = len(records)
        for record in unread(records, self._shown):
            event = record.event
            match event:
                case ev.RunCreated():
                    self._policy = event.task.policy.automation
                case ev.PolicyChanged() | ev.RunReopened():
                    self._policy = event.policy.automation
                case ev.ModelReplied() | ev.ReplyLost():
                    self._tokens += event.prompt_tokens + event.output_tokens
                case ev.SessionBegan():
                    self._tokens = 0
                case _:
                    pass
            if record.seq <= self._cursor:
                continue
            line = {"seq": record.seq, "at": record.at, **ev.to_builtins(event)}
            if isinstance(event, ev.RunCreated):
                line["server"] = event.task.agent.server
            if isinstance(event, ev.StopConditionsMet):
                line["message"] = REASON_PREFIX + event.primary
            line |= token_fields(self._tokens, self._policy)
            self._out.write(json.dumps(line) + "\n")
        if count > self._shown:
            self._out.flush()
        self._shown = count


async def run_with_progress(handle: RunHandle) -> None:
    """Run to the end; print lines for events, and a live line for the current activity."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(file=sys.stdout, markup=False, highlight=False)
    if host := host_of(handle.state.task.agent.server):
        console.print(f"server    {host}", soft_wrap=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(20))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        bar = progress.add_task("starting", total=None)
        shown = 0

        def tick() -> None:
            nonlocal shown
            count = len(handle.records)
            for line in narrate(unread(handle.records, shown)):
                console.print(line, soft_wrap=True)
            shown = count
            now = handle.live.progress
            doing = f"{handle.state.phase}  {handle.live.activity}"
            if now:
                doing += f": {now.stage} {one_line(now.told_by_message, 60)}"
            part, whole = now.filled if now else (0, 0)
            progress.update(bar, description=doing, total=whole or None, completed=part)

        await run_watched(handle, tick, attended=False)
    console.print()
    for line in closing_lines(handle):
        console.print(line, soft_wrap=True)


async def run_logged(handle: RunHandle, out: TextIO) -> None:
    """Run to the end; write a line for each event that is told, and the closing lines.

    A log that cannot be written, as on a full disk, does not end the run.
    """
    shown = 0

    def write(lines: Iterable[str]) -> None:
        with contextlib.suppress(OSError):
            out.writelines(f"{line}\n" for line in lines)
            out.flush()

    def tick() -> None:
        nonlocal shown
        count = len(handle.records)
        for record in unread(handle.records, shown):
            at = time.strftime("%Y-%m-%d %H:%M:%S ", time.localtime(record.at))
            write(at + line for line in line_texts(record.event, "plain", str))
        shown = count

    shown = len(handle.records)
    await run_watched(handle, tick, attended=True)
    write(closing_lines(handle))


def narrate(records: Iterable[ev.Record]) -> list[str]:
    """Return the lines for the events that neither the live line nor the closing lines show."""
    return [line for each in records for line in line_texts(each.event, "headless", str)]


def _bill(summary: dict[str, Any]) -> str:
    """Return the share of the prompts read from a cache, and the total cost, where known."""
    share, cost = summary["cache_read_share"], summary["cost_usd"]
    read = f", {share:.0%} of the prompts from the cache" if share else ""
    return f"{read}, ${cost:.2f}" if cost else read


def closing_lines(handle: RunHandle, say: Say = str) -> list[str]:
    """Return a few lines on the result of the run."""
    summary = summary_of(handle)
    verdicts = ", ".join(f"{count} {name}" for name, count in summary["verdicts"].items())
    if tries := summary["tries_to_write"]:
        verdicts = f"{tries} WRITE, {verdicts}"
    told: list[Text] = [
        Said("{reason}: {rounds} ({verdicts})", reason=Said(summary["reason"]),
                rounds=counted(summary["rounds"], "round"), verdicts=verdicts)
    ]  # fmt: skip
    if used := summary["tokens_used_session"]:
        limit = f" of {summary['max_tokens']}" if "max_tokens" in summary else ""
        told.append(Said("tokens: {words}", words=f"{used}{limit}{_bill(summary)}"))
    if best := best_of(handle.state):
        final = handle.state.final
        time = f", {final.candidate_ms:.3f} ms" if final and final.candidate_ms else ""
        figures = f"{best.line}{time}"
        told.append(
            Said("best kernel, measured afresh: {figures} a call", figures=figures)
            if best.fresh
            else Said("best kernel so far: {figures}", figures=figures)
            if best.provisional
            else Said("best kernel is the seed: {figures}", figures=best.line)
        )
    if problem := summary["compile_problem"]:
        told.append(Said("torch.compile was not measured: {why}", why=Said(problem)))
    if problem := summary["max_autotune_problem"]:
        told.append(Said("max-autotune was not measured: {why}", why=Said(problem)))
    told.append(Said("run: {path}", path=handle.path))
    if handle.live.notice:
        told.append(Said(handle.live.notice))
    elif summary["report"]:
        told.append(Said("report: {path}", path=summary["report"]))
    return [say(text) for text in told]
