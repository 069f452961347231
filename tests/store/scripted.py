"""A run played through real files and real git, with chosen measurements and a counting clock.

Everything is a function of the journal, so a run that was killed and resumed must end
like one that was not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.decide import Rejected, decide
from akg_tui.core.measurement import FailureKind, Interval, Measurement, Outcome
from akg_tui.core.phases import Mode, Phase
from akg_tui.core.recovery import opening
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.task_folder import TaskFolder, load_task
from tests.engine.runs import Clock

REFERENCE = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1


def get_inputs():
    return [torch.ones(4)]


def get_init_inputs():
    return []
"""

KERNEL = """\
import torch

BLOCK = 32  # tune: [32, 64]


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x + 1  # é — not only ASCII
"""

ROUNDS = 6
TOML = f'op = "add_one"\n\n[policy]\nmax_rounds = {ROUNDS}\n'


def make_task(folder: Path) -> TaskFolder:
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text(TOML)
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "kernel.py").write_text(KERNEL)
    return load_task(folder)


def create_run(
    folder: TaskFolder, name: str = "20260101-000000-add_one", rounds: int = ROUNDS
) -> RunFolder:
    policy = replace(folder.task.policy, max_rounds=rounds)
    return RunFolder.create(
        folder,
        task=replace(folder.task, policy=policy),
        mode=Mode.AUTO,
        agent="sweep",
        version="0",
        clock=Clock(),
        name=name,
    )


def candidate(attempt: int) -> str:
    return KERNEL.replace("BLOCK = 32", f"BLOCK = {32 + attempt}")


def measurement(attempt: int) -> Measurement:
    """KEEP, DISCARD and FAIL in turn."""
    if attempt % 3 == 2:
        return Measurement(outcome=Outcome.FAILED, failure=FailureKind.WRONG, message="wrong")
    ratio = 1.5 if attempt % 3 == 1 else 1.0
    return Measurement(
        outcome=Outcome.CORRECT,
        ratio=Interval(ratio, ratio - 0.1, ratio + 0.1, 0.99),
        candidate_ms=1.0,
        baseline_ms=ratio,
    )


def send(run: RunFolder, command: cmd.Command) -> None:
    decided = decide(run.state, command, run.state.last_at)
    assert not isinstance(decided, Rejected), decided.why
    append(run, decided)


def append(run: RunFolder, events: Iterable[ev.AnyEvent]) -> None:
    for event in events:
        run.append(event)
    run.project()


def recover(run: RunFolder) -> None:
    """Close what a killed session left open, as the engine does."""
    for event in opening(run.state, os.getpid(), "0"):
        send(run, cmd.Observe(event))


def play(run: RunFolder) -> None:
    """Work until the run is over."""
    while (effect := fx.next_effect(run.state, run.state.last_at)) is not None:
        perform(run, effect)


def go_on(run: RunFolder) -> None:
    """Recover the run as a new session does, and work until the run is over."""
    recover(run)
    play(run)


def perform(run: RunFolder, effect: fx.Effect) -> None:
    state, history = run.state, run.history
    match effect:
        case fx.Step():
            append(run, effect.events)
        case fx.Measure():
            send(run, cmd.StartEval(effect.purpose, effect.attempt, effect.blob))
            send(run, cmd.FinishEval(measurement(effect.attempt if effect.incumbent else 1)))
        case fx.CommitSeed():
            message = history.message_for(
                subject="seed", round_number=0, item="", verdict="", ratio=None
            )
            commit = history.commit(effect.blob, None, message, state.last_at)
            send(run, cmd.AcceptBaseline(commit))
        case fx.RunAgent():
            visit(run, effect.phase)
        case fx.Commit():
            assert state.best is not None
            assert state.active is not None
            assert state.measured is not None
            message = history.message_for(
                subject=state.item(state.active).text,
                round_number=state.round,
                item=state.active,
                verdict=effect.decision.verdict,
                ratio=state.measured.ratio,
            )
            parent = state.best.commit
            send(run, cmd.Settle(history.commit(effect.blob, parent, message, state.last_at)))
        case _:
            raise AssertionError(f"not in this script: {effect}")


def visit(run: RunFolder, phase: Phase) -> None:
    send(run, cmd.Observe(ev.ModelReplied(phase=phase, model="script")))
    if phase is Phase.PLAN:
        first = len(run.state.items) + 1
        items = tuple(
            ev.PlannedItem("", f"try {first + i}", "the one after the last one") for i in range(2)
        )
        send(run, cmd.SubmitPlan(items))
    else:
        blob = run.history.write_kernel(candidate(run.state.next_attempt))
        send(run, cmd.Edit(blob, "sha", 1, 1))
    send(run, cmd.Observe(ev.TurnEnded()))


def outcome(run: RunFolder) -> list[tuple[object, ...]]:
    """What must not depend on when a run was killed."""
    return [(a.number, a.round, a.item, a.verdict.value, a.blob) for a in run.state.attempts]
