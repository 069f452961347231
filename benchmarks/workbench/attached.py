"""Attaching to a run at work of 50,000 events: time to the deck, and from a key to the screen.

The engine is a process of its own, and so is each viewer, at 120×40. A viewer with its modules
loaded tells the time from connecting to a deck whose panes are all drawn; `akg-tui attach` in a
pseudo-terminal tells what the start of a process adds. The key changes the mode of supervision:
beside an engine in its own process, and through the socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

from akg_tui.agent.models.sweep import Sweep
from akg_tui.core import commands as cmd
from akg_tui.core.phases import Mode
from akg_tui.engine.attach import Attached, NotAttached
from akg_tui.engine.engine import Engine
from akg_tui.engine.follower import Followed
from akg_tui.store import run_folder
from akg_tui.store.history import History
from akg_tui.store.journal import Journal
from akg_tui.store.lock import RunLock
from akg_tui.store.run_folder import HISTORY, RunFolder
from akg_tui.store.run_list import JOURNAL, Folding
from akg_tui.tui.app import WorkbenchApp
from akg_tui.tui.screens.deck import Deck
from benchmarks.workbench import flat
from benchmarks.workbench.terminal import Terminal
from tests.engine.fake_judge import FakeJudge

EVENTS, FEW = 50_000, 100
REPEATS = 5
KEYS = 30
DECK_MS = 500.0
KEY_RATIO = 1.2
SIZE = (120, 40)
MODE = b"m"
EVERY_S = 0.3
PROGRAM = (sys.executable, "-m", "benchmarks.workbench.attached")
FIRST, DECK = b"opening the run", b"row_softmax"  # the first frame; the deck's header


def engine_on(path: Path) -> Engine:
    """Return an engine on a run whose kernels and reference are not there; it is not to work."""
    lock = RunLock.acquire(path)
    folding = Folding(path / JOURNAL)
    journal = Journal.open(path / JOURNAL, lock=lock, take=folding.take)
    history = History.open(path / HISTORY, kernel_file=("kernel.py",), lock=lock)
    folder = RunFolder(path, lock, journal, history, folding.state, clock=time.time)
    engine = Engine(folder, Sweep(0), FakeJudge)
    for command in (cmd.SetMode(Mode.STEP), cmd.Pause()):
        engine.send(command)
    return engine


async def _to_the_deck(path: Path, *, steer: bool) -> dict[str, float]:
    """Milliseconds, and those of the processor, from connecting to a deck that is drawn."""
    begin = cpu = 0.0

    async def opened() -> Followed:
        nonlocal begin, cpu
        begin, cpu = time.perf_counter(), time.process_time()
        return await asyncio.to_thread(Followed, path, steer=steer)

    app = WorkbenchApp(opened)
    async with app.run_test(size=SIZE) as pilot:
        while not isinstance(app.screen, Deck):
            await pilot.pause()
        await pilot.pause()
        taken = {
            "ms": (time.perf_counter() - begin) * 1000,
            "cpu_ms": (time.process_time() - cpu) * 1000,
        }
        await pilot.press("q")
    return taken


def _viewer(path: Path) -> dict[str, float]:
    """In a process of its own: the deck with the state handed over, and read; the first is warm."""
    figures: dict[str, float] = {}
    for name, steer in (("deck", True), ("deck_without", False)):
        told = [asyncio.run(_to_the_deck(path, steer=steer)) for _ in range(REPEATS + 1)][1:]
        for unit in ("ms", "cpu_ms"):
            figures[f"{name}_{unit}"] = round(statistics.median(each[unit] for each in told), 1)
    return figures


def _start(path: Path) -> tuple[float, float]:
    """Milliseconds of `akg-tui attach` from its start to the first frame, and from there on to the
    deck.
    """
    screen = Terminal([sys.executable, "-m", "akg_tui", "attach", str(path)])
    try:
        return screen.wait(FIRST), screen.wait(DECK)
    finally:
        screen.close()


def _keys(command: list[str]) -> list[float]:
    """Milliseconds from a key that changes the mode of the paused run to the screen."""
    screen = Terminal(command)
    try:
        screen.wait(DECK)
        screen.drain(3.0)
        taken = []
        for _ in range(KEYS):
            taken.append(screen.press(MODE))
            screen.drain(EVERY_S)
    finally:
        screen.close()
    return taken


def _at_work(path: Path) -> subprocess.Popen[bytes]:
    """Start an engine on a run; return when it takes commands."""
    process = subprocess.Popen([*PROGRAM, "engine", str(path)])
    while process.poll() is None:
        with contextlib.suppress(NotAttached):
            Attached.to(path).close()
            break
        time.sleep(0.05)
    return process


def main(_words: list[str]) -> bool:
    """Measure, print, and say whether the bounds hold."""
    starts: dict[int, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="akg-attached-") as scratch:
        for events in (FEW, EVENTS):
            path = Path(scratch) / str(events)
            path.mkdir()
            flat.write(path, events)
            engine = _at_work(path)
            try:
                starts[events] = [_start(path) for _ in range(REPEATS)]
                if events == EVENTS:
                    viewer = subprocess.run(
                        [*PROGRAM, "viewer", str(path)], check=True, stdout=subprocess.PIPE
                    )
                    through = _keys([sys.executable, "-m", "akg_tui", "attach", str(path)])
            finally:
                engine.kill()
                engine.wait()
        own = _keys([*PROGRAM, "own", str(path)])
    figures: dict[str, float] = {"events": EVENTS, **json.loads(viewer.stdout)}
    for events, told in starts.items():
        for name, place in (("first_frame", 0), ("then_deck", 1)):
            median = statistics.median(each[place] for each in told)
            figures[f"{name}_ms_at_{events}"] = round(median, 1)
    for name, keys in (("own", own), ("socket", through)):
        figures[f"key_{name}_ms_p50"] = round(statistics.median(keys), 1)
        figures[f"key_{name}_ms_p95"] = round(statistics.quantiles(keys, n=20)[-1], 1)
    held = figures["deck_ms"] <= DECK_MS
    held &= figures["key_socket_ms_p50"] <= KEY_RATIO * figures["key_own_ms_p50"]
    print(json.dumps({"benchmark": "attached", **figures, "held": held}))
    return held


if __name__ == "__main__":
    what, place = sys.argv[1], Path(sys.argv[2])
    with mock.patch.object(RunFolder, "project"), mock.patch.object(run_folder, "read_reference"):
        if what == "viewer":
            print(json.dumps(_viewer(place)))
        elif what == "engine":
            asyncio.run(engine_on(place).run())
        else:

            async def opened() -> Engine:
                return engine_on(place)

            WorkbenchApp(opened).run()
