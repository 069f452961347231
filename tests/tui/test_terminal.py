"""The workbench in a real pseudo-terminal: what happens to the terminal, and to the run."""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from akg_tui.store.journal import read
from akg_tui.store.run_folder import RunFolder

from .terminal import COMMAND, PtyTerminal, alive

STAGED = """
import sys, time
from pathlib import Path
from akg_tui.core.phases import Mode
from akg_tui.tui.app import WorkbenchApp
from tests.tui.script import FakeHandle

handle = FakeHandle(mode=Mode.REVIEW, path=str(Path.cwd()))
handle.work()
async def open_run():
    return handle
began = time.monotonic()
app = WorkbenchApp(open_run, clock=lambda: handle.now + time.monotonic() - began)
{more}
code = app.run()
print(f"LEFT {{code}}", flush=True)  # at once: keys still typed are echoed between two writes
sys.exit(2 if code is None else code)
"""


@pytest.fixture
def open_terminal(tmp_path: Path) -> Iterator[Callable[..., PtyTerminal]]:
    opened: list[PtyTerminal] = []

    def start(command: list[str], size: tuple[int, int] = (100, 30)) -> PtyTerminal:
        root = str(Path(__file__).parents[2])
        opened.append(PtyTerminal(command, tmp_path, size, PYTHONPATH=root))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


def staged(more: str = "") -> list[str]:
    """A run from a script under a real screen, with `more` done to the app before it runs."""
    return [sys.executable, "-c", STAGED.format(more=more)]


def the_run(folder: Path) -> Path:
    (run,) = folder.glob("akg-demo/row_softmax/runs/*")
    return run


def test_a_closed_terminal_ends_the_run_cleanly_and_leaves_no_process(
    open_terminal: Callable[..., PtyTerminal], tmp_path: Path
) -> None:
    terminal = open_terminal([*COMMAND, "demo", "row_softmax", "--rounds", "30"])
    evaluated = re.compile("baseline evaluation: (verify|time)")
    terminal.until(lambda: bool(evaluated.search(terminal.screen())), "a kernel that is run")
    below = terminal.descendants()
    assert below, "the judge has processes"
    terminal.hang_up()
    assert terminal.wait_ended() == 128 + signal.SIGHUP
    assert alive(below) == []
    run = RunFolder.open(the_run(tmp_path))
    assert not run.state.finished
    seen = run.state.seq
    run.close()
    assert [r.seq for r in read(the_run(tmp_path) / "events.jsonl")] == list(range(1, seen + 1))


def test_sigterm_ends_the_run_as_quitting_does(open_terminal: Callable[..., PtyTerminal]) -> None:
    terminal = open_terminal(staged())
    terminal.wait("KEEP attempt 1?")
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.wait_ended() == 128 + signal.SIGTERM
    assert terminal.attributes() & termios.ECHO


def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it_again(
    open_terminal: Callable[..., PtyTerminal],
) -> None:
    terminal = open_terminal(staged())
    terminal.wait("KEEP attempt 1?")
    assert not terminal.attributes() & termios.ECHO
    terminal.write("\x1a")
    terminal.wait_stopped()
    terminal.until(lambda: bool(terminal.attributes() & termios.ECHO), "echo")
    leaves, enters = b"\x1b[?1049l", b"\x1b[?1049h"
    terminal.until(
        lambda: terminal.written.rfind(leaves) > terminal.written.rfind(enters),
        "the screen that it was started from",
    )
    mark = len(terminal.written)
    terminal.forget()
    terminal.resize(120, 40)
    os.kill(terminal.pid, signal.SIGCONT)
    terminal.wait("KEEP attempt 1?", "3 chart")
    assert enters in terminal.written[mark:]
    terminal.write("q")
    terminal.wait("leave the run?")
    terminal.insist("y", "leave the run?", "LEFT 0")
    assert terminal.wait_ended() == 0


def test_a_burst_of_commands_a_huge_paste_and_a_storm_of_sizes_end_in_a_whole_screen(
    open_terminal: Callable[..., PtyTerminal],
) -> None:
    terminal = open_terminal(staged())
    terminal.wait("KEEP attempt 1?", "alt+y keep")
    terminal.write("i")
    terminal.write(b"\x1b[200~" + b"KDy alt+y\n" * (100 << 10 >> 3) + b"\x1b[201~")
    terminal.wait("the paste was cut")
    terminal.write("\x1b")
    terminal.wait("KEEP attempt 1?", gone=("KDy",))  # and it answered nothing
    sizes = random.Random(7)
    for _ in range(150):
        terminal.resize(sizes.randint(1, 220), sizes.randint(1, 70))
        terminal.write("z12345"[sizes.randint(0, 5)])
    terminal.resize(120, 40)
    terminal.write("2")
    terminal.wait("1 plan", "2 kernel.py", "3 chart", "4 agent", "KEEP attempt 1?")
    terminal.until(lambda: terminal.screen().startswith(" akg-tui"), "the header")
    terminal.write(":limits rounds=40\r+\x07:messages\r")  # all at once
    terminal.wait("told so far", "limits from now on: rounds=40")


def test_a_size_that_comes_while_another_is_measured_is_the_one_that_stays(
    open_terminal: Callable[..., PtyTerminal],
) -> None:
    growing = """
import fcntl, os, shutil, struct, termios
measured = shutil.get_terminal_size
def measure(*fallback):
    size = measured(*fallback)
    if size.columns == 90:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    return size
shutil.get_terminal_size = measure
"""
    terminal = open_terminal(staged(growing))
    terminal.wait("KEEP attempt 1?")
    terminal.resize(90, 30)
    terminal.grown(120, 40)
    terminal.until(lambda: "────╮" in terminal.screen().split("\n")[3][100:], "120 columns")


def test_what_a_library_writes_to_its_descriptors_never_reaches_the_screen(
    open_terminal: Callable[..., PtyTerminal], tmp_path: Path
) -> None:
    loud = """
import os, subprocess
def shout():
    os.write(1, b"NATIVE out \\x1b[2J\\n")
    os.write(2, b"NATIVE err\\n")
    print("PYTHON prints")
    subprocess.run(["sh", "-c", "echo CHILD says >&2"])
pulled = app._pull
def pull():
    global shout
    pulled()
    if shout and app._handle is not None:
        shout, once = None, shout
        once()
app._pull = pull
app.clock._pull = pull
"""
    terminal = open_terminal(staged(loud))
    terminal.wait("KEEP attempt 1?", "written past the screen: E shows it")
    assert b"NATIVE" not in terminal.written
    assert b"CHILD" not in terminal.written
    terminal.write("E")
    said = "NATIVE out ␛[2J", "NATIVE err", "PYTHON prints", "CHILD says"
    terminal.wait("stray.log", *said)
    terminal.write("\x1b")
    terminal.wait("KEEP attempt 1?", gone=("NATIVE",))
    terminal.write("q")
    terminal.wait("leave the run?")
    terminal.insist("y", "leave the run?", "LEFT 0")
    kept = (tmp_path / "stray.log").read_text()
    assert kept.splitlines()[:2] == ["NATIVE out \x1b[2J", "NATIVE err"]


def test_after_a_crash_the_terminal_is_whole_and_the_traceback_can_be_read(
    open_terminal: Callable[..., PtyTerminal],
) -> None:
    crash = """
def broken():
    raise RuntimeError("a mistake of ours")
from akg_tui.tui.screens.deck import Deck
Deck.action_pause = lambda deck: deck.call_later(broken)
"""
    terminal = open_terminal(staged(crash))
    terminal.wait("KEEP attempt 1?")
    terminal.write(" ")
    terminal.wait("RuntimeError: a mistake of ours")
    assert terminal.wait_ended() == 2
    left = terminal.written.rindex(b"\x1b[?1049l")
    assert b"a mistake of ours" in terminal.written[left:]
    assert b"\x1b[?1004l" in terminal.written[left:]
    assert terminal.attributes() & termios.ECHO
    assert terminal.attributes() & termios.ISIG
