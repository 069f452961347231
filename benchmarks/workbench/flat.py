"""Memory of the workbench on journals of 100,000 and of 1,000,000 events.

The journal is of rounds of 1,000 events, as an agent makes them that asks a model at every step
and sends a subagent ahead: 1,000 rounds in a million events. Every figure is of a process of
its own, headless at 120×40: one opens the whole journal, waits until every pane has read it,
jumps to random events; another is attached at event 50,000 and follows while the
rest of the million is written, slowly at first: what Python leaves as garbage between two
looks for it grows for some 300 pulls, and then no more. Memory is what a process has resident
when it has done so.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from akg_tui.core import events as ev
from akg_tui.core.phases import Phase
from akg_tui.engine.follower import Followed
from akg_tui.store.history import History
from akg_tui.store.journal_format import NO_LINE, digest, prepare
from akg_tui.tui.app import WorkbenchApp
from akg_tui.tui.garbage_collection import settle
from akg_tui.tui.pull_clock import TICK_S
from akg_tui.tui.screens.deck import Deck
from benchmarks import fold

SHORT, LONG = 100_000, 1_000_000
ROUND = 1_000  # events a round
SUBAGENT_TURNS = 40
JUMPS = 60
JUMP_MS = 50.0
RATIO = 1.15
SIZE = (120, 40)
PULLS = 300
AT_ONCE = 2_000  # events that are written at once to a journal that is followed


def _turn(name: str, number: int, source: str = "") -> Iterator[ev.AnyEvent]:
    """A reply that calls a tool, and the tool's answer: three events."""
    call = f"{source}/{name}{number}" if source else f"{name}{number}"
    yield ev.ModelReplied(
        phase=Phase.EDIT,
        model="m",
        text=f"Line {number} reads the row twice; {name} keeps it in registers.\nI look first.",
        tool_calls=1,
        input_tokens=9_000 + number,
        output_tokens=120,
        source=source,
    )
    arguments = {"path": "kernel.py", "first": number, "last": number + 40}
    yield ev.ToolCalled(call=call, tool="read_kernel", arguments=arguments, source=source)
    output = f"{number:4} for (int64_t i = 1; i < n; ++i) top = x[i] > top ? x[i] : top;\n" * 6
    yield ev.ToolAnswered(
        call=call, tool="read_kernel", status="success", output=output, source=source
    )


def _long_round(number: int) -> Iterator[ev.AnyEvent]:
    """A round of `fold`, in which the agent talks after its first turn."""
    sparse = list(fold.one_round(number))
    after = next(n for n, event in enumerate(sparse) if isinstance(event, ev.ItemActivated)) + 1
    yield from sparse[:after]
    name, call = f"s{number}", f"{number}t"
    yield ev.ModelReplied(phase=Phase.EDIT, model="m", text="A scout first.", tool_calls=1)
    yield ev.ToolCalled(call=call, tool="subagent", arguments={"task": "look around"})
    yield ev.SubagentStarted(
        subagent=name, agent="scout", phase=Phase.EDIT, call=call, prompt="look around"
    )
    for turn in range(SUBAGENT_TURNS):
        yield from _turn("look", turn, name)
    yield ev.SubagentEnded(subagent=name, agent="scout", status="done", calls=SUBAGENT_TURNS)
    yield ev.ToolAnswered(call=call, tool="subagent", status="success", output="all is well")
    yield ev.TurnEnded()
    turns = (ROUND - len(sparse) - 6 - 3 * SUBAGENT_TURNS) // 4
    for turn in range(turns):
        yield from _turn(f"r{number}t", turn)
        yield ev.TurnEnded()
    yield from sparse[after:]


def _events() -> Iterator[ev.AnyEvent]:
    yield from fold.beginning()
    for number in itertools.count(1):
        yield from _long_round(number)


def write(folder: Path, events: int) -> None:
    """A run folder with a journal of so many events, of lines as the store makes them."""
    prev = NO_LINE
    with (folder / "events.jsonl").open("wb") as file:
        for seq, event in enumerate(itertools.islice(_events(), events), 1):
            line = prepare(event, seq, float(seq), prev).line
            prev = digest(line)
            file.write(line)
    History.create(folder / "history.git", kernel_file="kernel.py")


def _cut(whole: Path, folder: Path, events: int) -> None:
    """A run folder with the first events of another journal."""
    with (whole / "events.jsonl").open("rb") as file:
        lines = itertools.islice(file, events)
        (folder / "events.jsonl").write_bytes(b"".join(lines))
    History.create(folder / "history.git", kernel_file="kernel.py")


def _resident_mib() -> float:
    """Resident memory after a garbage collection, as an idle workbench makes one."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def _peak_mib() -> float:
    """The most that this process ever had; `ru_maxrss` would be its parent's."""
    told = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
    return round(int(told) / 1024, 1)


async def _settled(app: WorkbenchApp) -> None:
    """Wait until every pane has read everything."""
    deck = app.screen
    assert isinstance(deck, Deck)
    await _until(lambda: deck.news >= len(app.snapshot_now().records))


async def _until(true: Callable[[], bool]) -> None:
    for _ in itertools.count():
        if true():
            return
        await asyncio.sleep(0.005)


async def _followed(handle: Followed, events: int) -> None:
    await _until(lambda: len(handle.records) >= events)


async def _replay(folder: Path) -> dict[str, float]:
    begin = time.perf_counter()
    handle = Followed(folder)
    opened = time.perf_counter() - begin
    dice, jumps = random.Random(1), []

    async def open_run() -> Followed:
        return handle

    app = WorkbenchApp(open_run)
    async with app.run_test(size=SIZE) as pilot:
        await app.workers.wait_for_complete()
        await pilot.pause()
        await _settled(app)
        at_rest = _resident_mib()
        await pilot.press("T")
        await app.workers.wait_for_complete()
        settle()  # as the workbench does in a terminal
        for _ in range(JUMPS):
            seq = dice.randint(1, len(handle.records))
            begin = time.thread_time()
            app.time_travel.action_past_go(seq)
            app.screen._compositor.render_strips()
            jumps.append(time.thread_time() - begin)
            await pilot.pause()
        app.time_travel.action_past_go(len(handle.records) // 2)
        app.time_travel.action_past("page", 1)
        await asyncio.sleep(1.0)
        await pilot.press("L")
        after = _resident_mib()
        await pilot.press("q")
    quantiles = statistics.quantiles(jumps, n=20)
    return {
        "events": len(handle.records),
        "rounds": handle.state.settled,
        "open_s": round(opened, 2),
        "mib_read": at_rest,
        "mib": after,
        "mib_peak": _peak_mib(),
        "jump_ms_p50": round(quantiles[9] * 1000, 1),
        "jump_ms_p95": round(quantiles[18] * 1000, 1),
        "jump_ms_worst": round(max(jumps) * 1000, 1),
    }


async def _attached(folder: Path, whole: Path, stops: Sequence[int]) -> dict[str, float]:
    """Follow while the journal in `folder` grows to each of the `stops`, as that in `whole`."""
    handle = Followed(folder, steer=True)
    figures: dict[str, float] = {"events_before": len(handle.records)}

    async def open_run() -> Followed:
        return handle

    app = WorkbenchApp(open_run)
    async with app.run_test(size=SIZE) as pilot:
        await app.workers.wait_for_complete()
        await pilot.pause()
        settle()
        begin = time.perf_counter()
        ours, theirs = folder / "events.jsonl", whole / "events.jsonl"
        with theirs.open("rb") as file, ours.open("ab") as on:
            file.seek(ours.stat().st_size)
            written = len(handle.records)
            at_once = (stops[0] - written) // PULLS  # slowly, until garbage is what it will be
            for stop in stops:
                while lines := list(itertools.islice(file, min(at_once, stop - written))):
                    on.writelines(lines)
                    on.flush()
                    written += len(lines)
                    await _followed(handle, written - AT_ONCE)  # it does not fall behind
                    if at_once < AT_ONCE:
                        await asyncio.sleep(2 * TICK_S)
                await _followed(handle, written)
                await _settled(app)
                figures[f"mib_at_{stop}"] = _resident_mib()
                at_once = AT_ONCE
        taken = time.perf_counter() - begin
        figures["events_a_second"] = round((written - figures["events_before"]) / taken)
        await pilot.press("q")
    return figures


def _measured(*words: str) -> dict[str, float]:
    """The figures of a fresh process."""
    command = [sys.executable, "-m", "benchmarks.workbench.flat", *words]
    done = subprocess.run(command, check=True, capture_output=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def run(scratch: Path, *, short: int = SHORT, long: int = LONG) -> bool:
    """Measure in `scratch`, print, and say whether the bounds hold."""
    folders = {name: scratch / name for name in ("long", "short", "grown")}
    for folder in folders.values():
        folder.mkdir()
    begin = time.perf_counter()
    write(folders["long"], long)
    written = time.perf_counter() - begin
    _cut(folders["long"], folders["short"], short)
    _cut(folders["long"], folders["grown"], short // 2)
    few = _measured("replay", str(folders["short"]))
    many = _measured("replay", str(folders["long"]))
    grown = _measured(
        "attached", str(folders["grown"]), str(folders["long"]), str(short), str(long)
    )
    ratio = many["mib"] / few["mib"]
    ratio_attached = grown[f"mib_at_{long}"] / grown[f"mib_at_{short}"]
    size = (folders["long"] / "events.jsonl").stat().st_size / 2**20
    held = ratio <= RATIO and ratio_attached <= RATIO and many["jump_ms_p95"] <= JUMP_MS
    told = {"journal_mib": round(size, 1), "write_s": round(written, 1)}
    ratios = {"ratio": round(ratio, 3), "ratio_attached": round(ratio_attached, 3)}
    print(json.dumps({"benchmark": "flat", **told, **ratios, "held": held}))
    for name, figures in (("replay", few), ("replay", many), ("attached", grown)):
        print(json.dumps({"benchmark": "flat", "what": name, **figures}))
    return held


if __name__ == "__main__":
    what, folder, *more = sys.argv[1:]
    if what == "replay":
        figures = asyncio.run(_replay(Path(folder)))
    else:
        whole, *stops = more
        figures = asyncio.run(_attached(Path(folder), Path(whole), [int(stop) for stop in stops]))
    print(json.dumps(figures))
