"""The workbench in a real terminal: what a person sees and presses, and what it leaves.

Only the judge is a fake.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from akg_tui.core import events as ev
from akg_tui.store.journal import read
from tests.cli.fake_judged import COMMAND
from tests.engine.runs import make_task
from tests.tui.terminal import PtyTerminal

PATIENCE_S = 60.0
ROOT = Path(__file__).parents[2]


class Terminal:
    """One tmux session of its own server. `wait` polls the screen until it shows a text."""

    def __init__(self, width: int, height: int, command: list[str], folder: Path) -> None:
        self.socket = f"akg-{uuid.uuid4().hex[:12]}"
        size = ("-x", str(width), "-y", str(height))
        # The size is the terminal's, whatever the tests' own environment says.
        words = f"unset COLUMNS LINES; export PYTHONPATH={shlex.quote(str(ROOT))}; "
        words += shlex.join(command) + "; echo LEFT; exec cat"
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, "-c", str(folder), words)

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-L", self.socket, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def insist(self, key: str, question: str, *texts: str) -> str:
        """Press a key that counts only after a while in sight, as long as the question is on the
        screen, until `texts` are.
        """
        return self.wait(*texts, press=(key, question))

    def wait(self, *texts: str, press: tuple[str, str] | None = None) -> str:
        """Poll until all `texts` are on screen."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            screen = self.screen()
            if all(text in screen for text in texts):
                return screen
            if press and press[1] in screen:
                self.press(press[0])
            if time.monotonic() > deadline:
                raise AssertionError(f"never saw {texts} in:\n{screen}")
            time.sleep(0.1)

    def close(self) -> None:
        subprocess.run(["tmux", "-L", self.socket, "kill-server"], capture_output=True, check=False)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    assert shutil.which("tmux"), "this test needs tmux: apt-get install tmux"
    make_task(tmp_path / "task")
    command = [*COMMAND, "tune", "task", "--max-rounds", "2", "--mode", "step"]
    session = Terminal(120, 40, command, tmp_path)
    yield session
    session.close()


def test_a_person_steps_reviews_rejects_resizes_and_leaves(
    terminal: Terminal, tmp_path: Path
) -> None:
    terminal.wait(
        "WAIT_STEP", "one step to BASELINE", "1 plan", "2 kernel.py", "3 chart", "4 agent"
    )
    for phase in ("PLAN", "EDIT", "EVAL", "DECIDE"):
        terminal.press("n")
        terminal.wait("WAIT_STEP", f"one step to {phase}")
    terminal.press("n")
    terminal.wait("WAIT_USER", "KEEP attempt 1?", "typing never answers this")
    terminal.press("y", "k", "d", "Escape", "Enter")
    terminal.wait("WAIT_USER")
    terminal.press("r")
    terminal.wait("review of attempt 1", "- SPEED", "+ SPEED", "the run waits for you:  K keep")
    terminal.press("D")
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
    terminal.press("z")
    terminal.wait("1 plan", "3 chart")
    terminal.press("q")
    terminal.wait("can be resumed")
    terminal.insist("y", "can be resumed", "akg-tui resume task/runs/", "LEFT")


def test_a_run_in_a_terminal_that_nobody_touched_writes_a_draft(tmp_path: Path) -> None:
    """The workbench replaces stdout; that must not make it a command line, which may export."""
    make_task(tmp_path / "task")
    workbench = [*COMMAND, "tune", "task", "--max-rounds", "1"]
    terminal = PtyTerminal(workbench, tmp_path, (120, 40), PYTHONPATH=str(ROOT))
    found = "task/runs/*/report.json"  # written last
    try:
        terminal.until(lambda: any(tmp_path.glob(found)), "a report")
    finally:
        terminal.close()
    (report,) = tmp_path.glob(found)
    assert json.loads(report.read_text())["status"] == "in_progress"
