"""Time travel through 100,000 events, a folder of 10,000 runs, and memory over 1,000,000 events.

A jump is the effect of a key: another state, every pane and the timeline drawn, until the
screen's rows are there; headless, at 120×40, to random events, in time of the processor.
The list is opened on a folder of copies of one short journal; its stalls are how late the
loop was while keys were pressed and the runs were being read. Memory is
`benchmarks.workbench.flat`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from akg_tui.engine.follower import Followed
from akg_tui.store.history import History
from akg_tui.tui.app import WorkbenchApp
from akg_tui.tui.garbage_collection import settle
from akg_tui.tui.screens.runs import Runs
from benchmarks import fold
from benchmarks.workbench import flat

EVENTS = 100_000
JUMPS = 60
JUMP_MS = 50.0
RUNS = 10_000
LIST_S = 1.0
STALL_MS = 50.0
SIZE = (120, 40)


def _run_folder(folder: Path, events: int) -> None:
    fold._write(folder, events)
    History.create(folder / "history.git", kernel_file="kernel.py")


async def _jumps(folder: Path) -> dict[str, float]:
    begin = time.perf_counter()
    handle = Followed(folder)
    opened = time.perf_counter() - begin
    past = handle.past
    assert past is not None

    async def open_run() -> Followed:
        return handle

    app = WorkbenchApp(open_run, past=True)
    dice, jumps, states = random.Random(1), [], []
    async with app.run_test(size=SIZE) as pilot:
        await app.workers.wait_for_complete()
        await pilot.pause()
        settle()  # as the workbench does in a terminal
        for _ in range(JUMPS):
            seq = dice.randint(1, len(handle.records))
            begin = time.thread_time()
            past.at(seq)
            states.append(time.thread_time() - begin)
            begin = time.thread_time()
            app.time_travel.action_past_go(seq)
            app.screen._compositor.render_strips()
            jumps.append(time.thread_time() - begin)
            await pilot.pause()
        await pilot.press("q")
    quantiles = statistics.quantiles(jumps, n=20)
    return {
        "events": len(handle.records),
        "open_s": round(opened, 3),
        "state_ms_p95": round(statistics.quantiles(states, n=20)[18] * 1000, 1),
        "jump_ms_p50": round(quantiles[9] * 1000, 1),
        "jump_ms_p95": round(quantiles[18] * 1000, 1),
        "jump_ms_worst": round(max(jumps) * 1000, 1),
    }


async def _list(folder: Path) -> dict[str, float]:
    app = WorkbenchApp(None, browse=folder)
    late: list[float] = []
    worked: list[float] = []

    async def watch() -> None:
        while True:
            begin, cpu = time.perf_counter(), time.thread_time()
            await asyncio.sleep(0.005)
            late.append(time.perf_counter() - begin - 0.005)
            worked.append(time.thread_time() - cpu)

    begin = time.perf_counter()
    async with app.run_test(size=SIZE) as pilot:
        watching = asyncio.create_task(watch())
        shown = all_found = 0.0
        while not all_found and time.perf_counter() - begin < 60:
            await asyncio.sleep(0.01)
            screen = app.screen
            if isinstance(screen, Runs):
                if screen.shown and not shown:
                    shown = time.perf_counter() - begin
                if screen.catalogue.searched:
                    all_found = time.perf_counter() - begin
        settle()  # as the workbench does in a terminal
        late.clear()
        worked.clear()
        for key in ("down", "pagedown", "end", "s", "s", "home", "slash", "1", "enter") * 3:
            await pilot.press(key)
        watching.cancel()
    return {
        "runs": RUNS,
        "first_rows_s": round(shown, 3),
        "all_found_s": round(all_found, 3),
        "stall_ms_p95": round(statistics.quantiles(late, n=20)[18] * 1000, 1),
        "stall_ms_worst": round(max(late) * 1000, 1),
        "worked_ms_worst": round(max(worked) * 1000, 1),
    }


def main(_words: list[str]) -> bool:
    """Measure all three, print, and say whether the bounds hold."""
    with tempfile.TemporaryDirectory(prefix="akg-past-") as scratch:
        long = Path(scratch) / "long"
        long.mkdir()
        _run_folder(long, EVENTS)
        jumps = asyncio.run(_jumps(long))
        print(json.dumps({"benchmark": "past", **jumps}))
        many = Path(scratch) / "many"
        one = Path(scratch) / "one"
        one.mkdir()
        fold._write(one, 120)
        for number in range(RUNS):
            (many / f"run-{number:05d}").mkdir(parents=True)
            shutil.copy(one / "events.jsonl", many / f"run-{number:05d}")
        # A workbench of its own: nothing of the one before is left to be swept.
        gc.unfreeze()
        gc.collect()
        listed = asyncio.run(_list(many))
        print(json.dumps({"benchmark": "runs", **listed}))
        memory = Path(scratch) / "memory"
        memory.mkdir()
        flat_held = flat.run(memory)
    return (
        jumps["jump_ms_p95"] <= JUMP_MS
        and listed["first_rows_s"] <= LIST_S
        and listed["stall_ms_p95"] <= STALL_MS
        and flat_held
    )
