"""Runs to report on: real folders, real git, chosen measurements."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from msgspec.structs import replace

from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.measurement import FailureKind, Measurement, Outcome
from akg_tui.store.run_folder import RunFolder
from tests.store.scripted import (
    candidate,
    create_run,
    make_task,
    measurement,
    perform,
    play,
    recover,
    send,
)

EVIL = "</script><img src=x onerror=alert(1)> {{ 7*7 }} `` | \x1b[31m \u202e ```\n# h"


def finished(folder: Path, rounds: int = 6) -> RunFolder:
    """A run that is over: KEEP, FAIL and DISCARD in turn."""
    run = create_run(make_task(folder), rounds=rounds)
    recover(run)
    play(run)
    return run


def begun(folder: Path) -> RunFolder:
    """A run of which nothing was measured yet."""
    run = create_run(make_task(folder))
    recover(run)
    return run


def broken(folder: Path) -> RunFolder:
    """A run whose seed does not match its reference."""
    return never_correct(begun(folder))


def unwritten(folder: Path) -> RunFolder:
    """A run whose agent was to write the kernel, and wrote one that is wrong."""
    loaded = make_task(folder)
    task = replace(loaded.task, workflow="write")
    run = create_run(dataclasses.replace(loaded, task=task), rounds=1)
    recover(run)
    return never_correct(run)


def never_correct(run: RunFolder) -> RunFolder:
    bad = Measurement(
        outcome=Outcome.FAILED, failure=FailureKind.WRONG, message="wrong values", detail=EVIL
    )
    while (effect := fx.next_effect(run.state, run.state.last_at)) is not None:
        if isinstance(effect, fx.Measure):
            send(run, cmd.StartEval(effect.purpose, effect.attempt, effect.blob))
            send(run, cmd.FinishEval(bad))
        elif isinstance(effect, fx.RunAgent):
            send(run, cmd.Observe(ev.ModelReplied(phase=effect.phase, model="m")))
            send(run, cmd.Edit(run.history.write_kernel(candidate(9)), "sha", 1, 1))
            send(run, cmd.Observe(ev.TurnEnded()))
        else:
            perform(run, effect)
    return run


def hostile(folder: Path) -> RunFolder:
    """A run whose plan, kernel, hint and messages try to break out of the report."""
    run = begun(folder)
    send(run, cmd.Hint(EVIL))
    while (effect := fx.next_effect(run.state, run.state.last_at)) is not None:
        if isinstance(effect, fx.RunAgent):
            send(run, cmd.Observe(ev.ModelReplied(phase=effect.phase, model="sweep")))
            if effect.phase == "PLAN":
                first = len(run.state.items)
                items = tuple(
                    ev.PlannedItem("", f"{EVIL} {first + i}", f"because {EVIL} says so")
                    for i in range(3)
                )
                send(run, cmd.SubmitPlan(items))
            else:
                text = candidate(run.state.next_attempt) + f'X = """{EVIL}"""\n```\n'
                send(run, cmd.Edit(run.history.write_kernel(text), "sha", 1, 1))
            send(run, cmd.Observe(ev.TurnEnded()))
        elif isinstance(effect, fx.Measure) and effect.incumbent:
            found = measurement(effect.attempt)
            if found.outcome is Outcome.FAILED:
                found = replace(found, message=EVIL)
            send(run, cmd.StartEval(effect.purpose, effect.attempt, effect.blob))
            send(run, cmd.FinishEval(found))
        else:
            perform(run, effect)
    return run


def closed(run: RunFolder) -> Path:
    run.close()
    return run.path
