"""The workbench in a real terminal: what a person sees and presses, and what it leaves.

Only the judge is a fake.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from akg_tui.core import events as ev
from akg_tui.store.journal import read
from tests.cli.fake_judged import COMMAND
from tests.engine.runs import make_task
from tests.tui.terminal import PtyTerminal

ROOT = Path(__file__).parents[2]
Tune = Callable[..., PtyTerminal]


@pytest.fixture
def tune(tmp_path: Path) -> Iterator[Tune]:
    """Return what begins a run in a terminal."""
    opened: list[PtyTerminal] = []

    def begin(*words: str) -> PtyTerminal:
        make_task(tmp_path / "task")
        command = [*COMMAND, "tune", "task", *words]
        opened.append(PtyTerminal(command, tmp_path, (120, 40), PYTHONPATH=str(ROOT)))
        return opened[0]

    yield begin
    for terminal in opened:
        terminal.close()


def test_a_person_steps_reviews_rejects_resizes_and_leaves(tune: Tune, tmp_path: Path) -> None:
    terminal = tune("--max-rounds", "2", "--mode", "step")
    terminal.wait(
        "WAIT_STEP", "one step to BASELINE", "1 plan", "2 kernel.py", "3 chart", "4 agent"
    )
    for phase in ("PLAN", "EDIT", "EVAL", "DECIDE"):
        terminal.write("n")
        terminal.wait("WAIT_STEP", f"one step to {phase}")
    terminal.write("n")
    terminal.wait("WAIT_USER", "KEEP attempt 1?", "typing never answers this")
    for key in ("y", "k", "d", "\x1b", "\r"):
        terminal.write(key)
    terminal.wait("WAIT_USER")
    terminal.write("r")
    terminal.wait("review of attempt 1", "- SPEED", "+ SPEED", "the run waits for you:  K keep")
    terminal.write("D")
    terminal.wait("WAIT_STEP", "one step to EDIT")
    (journal,) = tmp_path.glob("task/runs/*/events.jsonl")
    answers = [r.event for r in read(journal) if isinstance(r.event, ev.GateAnswered)]
    assert [answer.answer for answer in answers] == ["reject"]
    terminal.resize(80, 24)
    terminal.wait("1 plan   2 kernel   3 chart   4 log")
    terminal.resize(40, 10)
    terminal.wait("40×10")
    terminal.resize(120, 40)
    # Enter did zoom the pane.
    terminal.write("z")
    terminal.wait("1 plan", "3 chart")
    terminal.write("q")
    terminal.wait("can be resumed")
    terminal.insist("y", "can be resumed", "go on with: akg-tui resume task/runs/")
    assert terminal.wait_ended() == 0


def test_a_run_in_a_terminal_that_nobody_touched_writes_a_draft(tune: Tune, tmp_path: Path) -> None:
    """The workbench replaces stdout; that must not make it a command line, which may export."""
    terminal = tune("--max-rounds", "1")
    found = "task/runs/*/report.json"  # written last
    terminal.until(lambda: any(tmp_path.glob(found)), "a report")
    (report,) = tmp_path.glob(found)
    assert json.loads(report.read_text())["status"] == "in_progress"
