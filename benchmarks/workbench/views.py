"""Speed of the workbench's views, and its response under a flood of events.

The views are measured in this process, in seconds of its processor; keys in a real
pseudo-terminal of 120×40, by the clock, to the first bytes that follow. The slow terminal
takes 100 KiB a second.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from akg_tui.core import events as ev
from akg_tui.engine.run_handle import RunHandle
from akg_tui.tui.app import WorkbenchApp
from akg_tui.tui.panes.source import SourcePane
from akg_tui.tui.screens.deck import Deck
from akg_tui.view.agent_log import AgentLog
from akg_tui.view.agent_rows import AgentList
from akg_tui.view.diff import compare
from akg_tui.view.lazy_rows import OnDemand
from akg_tui.view.run_chart import Plot, Series, draw
from benchmarks.workbench.flooded import Flood, event
from benchmarks.workbench.terminal import Terminal

LINES = 100_000
POINTS = 10_000
EVENTS = 1_000_000
KEYS = 60
EVERY_S = 0.1
# Goes round: panes, the chart's unit, zoom and back, layouts, top and bottom; a search
# that finds nothing in the long kernel, a hint, review, two rounds and the whole
# of them; machine code of 4,000 instructions compared with the best's, and the roofline of eight
# cases; the past, the palette, and other sizes of the terminal.
ACTIONS = [
    "1",
    "down",
    "2",
    "c",
    "3",
    "c",
    "z",
    "z",
    "4",
    "g",
    "G",
    "f",
    "w",
    "w",
    "w",
    "w",
    "2",
    *("/", "q", "x", "z", "escape"),
    *("i", "x", "escape"),
    *("r", "n", "s", "escape"),
    *("v", "z", "left", "escape"),
    *("9", "z", "down", "G", "g", "z"),
    *("0", "z", "z", "2"),
    *("T", "left", "home", "L"),
    *("ctrl+p", "t", "h", "down", "escape", "escape"),
    *("80x24", "200x60", "120x40"),
]
SIZES = {"80x24": (80, 24), "200x60": (200, 60), "120x40": (120, 40)}
BOUNDS = {
    "log_us_a_line": 3.0,
    "source_jump_ms": 12.0,
    "chart_ms": 5.0,
    "compare_20000_lines_ms": 50.0,
    "memory_growth_mib": 8.0,
    "key_p95_ms_at_5000": 40.0,
    "key_p95_ms_at_20000": 60.0,
    "worst_stall_ms": 50.0,
    "worst_stall_ms_slow_link": 100.0,
    "idle_rss_mib": 60.0,
    "idle_cpu_percent": 3.0,
}


class _Made(OnDemand[ev.Record]):
    """Records that are made when they are read, so that only the reader's memory grows."""

    def __init__(self) -> None:
        self.many = 0

    def __len__(self) -> int:
        return self.many

    def _made(self, index: int) -> ev.Record:
        return ev.Record(index + 1, 0.0, event(index))


def log_us_a_line() -> float:
    """A hundred one-line events a pull, as at 3,000 a second, until there are 10⁵ rows."""
    records = [ev.Record(n, 0.0, ev.HintGiven(text=f"line {n} of the log")) for n in range(LINES)]
    shown: list[ev.Record] = []
    agent_log = AgentLog(60)
    spent = 0.0
    for start in range(0, LINES, 100):
        shown += records[start : start + 100]
        begin = time.thread_time()
        agent_log.read(shown)
        spent += time.thread_time() - begin
    return spent / LINES * 1e6


def chart_ms() -> float:
    """A frame of `POINTS` attempts at 180×45."""
    kinds = (
        Series("✓", "verdict.keep"),
        Series("▪", "verdict.discard"),
        Series("✗", "verdict.fail"),
    )
    steps = [(0, 1.0)]
    for n in range(1, POINTS + 1):
        y = 1 + n % 97 / 500 + n / POINTS
        if n % 10 == 0:
            steps.append((n, 1 + n / POINTS))
            kinds[0].add(n, y, y * 0.99, y * 1.01)
        elif n % 3:
            kinds[1].add(n, y, y * 0.98, y * 1.02)
        else:
            kinds[2].add(n, None)
    plot = Plot(kinds, tuple(steps), POINTS, "")
    return _best_ms(lambda: draw(plot, 180, 45), 40)


def compare_ms() -> float:
    old = [f"line {n}" for n in range(20_000)]
    new = [*old[:5_000], "one more", *old[5_000:12_000], "another", *old[12_003:]]
    return _best_ms(lambda: compare(old, new), 10)


def _best_ms(work: object, repeats: int) -> float:
    """The median of `repeats`, in milliseconds."""
    assert callable(work)
    times = []
    for _ in range(repeats):
        begin = time.thread_time()
        work()
        times.append((time.thread_time() - begin) * 1000)
    return statistics.median(times)


async def _source_jump_ms() -> float:
    handle = Flood(0, long=True)

    async def open_run() -> RunHandle:
        return handle.as_run()

    os.environ["FLOODED_REPORT"] = str(Path(tempfile.gettempdir()) / "flooded.json")
    app = WorkbenchApp(open_run, clock=handle.clock)
    async with app.run_test(size=(120, 40)) as pilot:
        for _ in range(3):
            app.pull_now()
            await app.workers.wait_for_complete([w for w in app.workers if w.group == "colour"])
            await pilot.pause()
        deck = app.screen
        assert isinstance(deck, Deck)
        pane = deck.panes["source"]
        assert isinstance(pane, SourcePane)
        times = []
        for n in range(30):
            begin = time.thread_time()
            pane.to_line(600 + n * 631)
            app.screen._compositor.render_strips()
            times.append((time.thread_time() - begin) * 1000)
        return statistics.median(times)


def memory_growth_mib() -> float:
    """Resident memory after 10⁶ events over that after the first 10⁵."""
    records, agent_log, agent_list = _Made(), AgentLog(60), AgentList()
    first = 0.0
    for count in range(1_000, EVENTS + 1, 1_000):
        records.many = count
        agent_log.read(records)
        agent_list.read(records)
        if count == EVENTS // 10:
            first = _rss_mib(os.getpid())
    return _rss_mib(os.getpid()) - first


def _rss_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _flooded(events: int, report: Path, *, long: bool = False, rate: int = 0) -> Terminal:
    """The flooded workbench in a pseudo-terminal that takes `rate` bytes a second, 0 for all."""
    more = ["long"] if long else []
    command = [sys.executable, "-m", "benchmarks.workbench.flooded", str(events), *more]
    return Terminal(command, rate=rate, FLOODED_REPORT=str(report))


_BYTES = {
    "down": b"\x1b[B",
    "left": b"\x1b[D",
    "home": b"\x1b[H",
    "tab": b"\t",
    "escape": b"\x1b",
    "ctrl+p": b"\x10",
}


def _keys(report: Path, events: int) -> float:
    """The 95th percentile of a key to bytes, in milliseconds."""
    terminal = _flooded(events, report)
    try:
        terminal.drain(4)
        times = []
        for _ in range(KEYS):
            times.append(terminal.press(b"c"))
            terminal.drain(EVERY_S)
    finally:
        terminal.close()
    return statistics.quantiles(times, n=20)[-1]


def _stalls(report: Path, rate: int) -> dict[str, tuple[float, float]]:
    """The worst stall of the loop after each action, in milliseconds.

    By the clock, and the CPU time of the loop's own thread within it.
    """
    terminal = _flooded(5_000 if not rate else 500, report, long=True, rate=rate)
    begun: list[tuple[float, str]] = []
    try:
        terminal.drain(5)
        begun.append((time.monotonic(), "none"))
        terminal.drain(1)
        for name in ACTIONS:
            begun.append((time.monotonic(), name))
            if name in SIZES:
                terminal.resize(*SIZES[name])
            else:
                terminal.write(_BYTES.get(name, name.encode()))
            terminal.drain(0.4)
        terminal.drain(1.2)
        told = json.loads(report.read_text())["stalls"]
    finally:
        terminal.close()
    worst: dict[str, tuple[float, float]] = {}
    for place, (at, name) in enumerate(begun):
        until = begun[place + 1][0] if place + 1 < len(begun) else math.inf
        mine = [(stall * 1000, busy * 1000) for when, stall, busy in told if at <= when < until]
        worst[f"{place} {name}"] = max(mine, default=(0.0, 0.0))
    return worst


def _idle(report: Path) -> tuple[float, float]:
    """MiB and percent of a core of a workbench on which nothing happens."""
    terminal = _flooded(0, report)
    try:
        terminal.drain(6)
        shares = []
        for _ in range(6):
            terminal.drain(0.6)
            shares.append(float(json.loads(report.read_text())["cpu"]))
        return _rss_mib(terminal.pid), statistics.median(shares) * 100
    finally:
        terminal.close()


def main(_words: list[str]) -> bool:
    """Measure, print, and say whether the bounds hold."""
    figures = {
        "log_us_a_line": log_us_a_line(),
        "chart_ms": chart_ms(),
        "compare_20000_lines_ms": compare_ms(),
        "source_jump_ms": asyncio.run(_source_jump_ms()),
        "memory_growth_mib": memory_growth_mib(),
    }
    # In memory: where the disk is busy, a file that replaces another waits for it, and with it the
    # loop that is measured.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        report = Path(folder) / "report.json"
        figures["key_p95_ms_at_5000"] = _keys(report, 5_000)
        figures["key_p95_ms_at_20000"] = _keys(report, 20_000)
        for name, rate in (("worst_stall_ms", 0), ("worst_stall_ms_slow_link", 100 * 1024)):
            stalls = _stalls(report, rate)
            rounded = {action: [round(s), round(b)] for action, (s, b) in stalls.items()}
            print(json.dumps({"benchmark": name, "stalled_and_worked_ms": rounded}))
            figures[name] = max(stall for stall, _ in stalls.values())
            figures[f"{name}_worked"] = max(busy for _, busy in stalls.values())
        figures["idle_rss_mib"], figures["idle_cpu_percent"] = _idle(report)
    held = all(figures[name] <= bound for name, bound in BOUNDS.items())
    told = {name: round(value, 2) for name, value in figures.items()}
    print(json.dumps({"benchmark": "workbench", **told, "held": held}))
    return held
