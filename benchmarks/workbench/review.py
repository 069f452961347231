"""Time until a review of 3,000 changed lines is on the screen.

A headless screen of 160×50 over a run in memory: from the key to the first row of the diff
drawn, compared lines and layout included. Two kinds of change: every other line of 6,000,
and a block of 3,000 lines written anew. Colour follows later, from a thread.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time

from akg_tui.core.phases import Mode
from akg_tui.tui.screens.review import Review
from akg_tui.tui.widgets.diff_view import DiffView
from akg_tui.view.code_rows import Colours

REPEATS = 7
OPEN_MS = 150.0


def _texts(kind: str) -> tuple[str, str]:
    old = [f"    value_{n} = table[{n % 97}] + {n % 13}" for n in range(6_000)]
    new = list(old)
    if kind == "every other line":
        new[::2] = [f"    value_{n} = table[{n % 97}] * {n % 13 + 1}" for n in range(0, 6_000, 2)]
    else:
        new[1_500:4_500] = [f"    row_{n % 700} = fetch({n % 41}, {n % 7})" for n in range(3_000)]
    return "\n".join(old) + "\n", "\n".join(new) + "\n"


async def _open_ms(kind: str) -> tuple[float, float]:
    from tests.tui.script import FakeHandle, Try, faster
    from tests.tui.stage import on_stage

    old, new = _texts(kind)
    plans = [[Try("a large change", old, new, faster(1.2))]]
    handle = FakeHandle(mode=Mode.REVIEW, kernel=old, plans=plans)
    handle.work()
    drawn: list[tuple[float, float]] = []
    draw = DiffView.render_line

    def first(self: DiffView, y: int) -> object:
        if not drawn:
            drawn.append((time.perf_counter(), time.process_time()))
        return draw(self, y)

    async with on_stage(handle, (160, 50)) as stage:
        DiffView.render_line = first  # type: ignore[method-assign,assignment]
        try:
            begin = time.perf_counter(), time.process_time()
            stage.app.push_screen(Review(stage.app.snapshot(), Colours()))
            while not drawn:  # noqa: ASYNC110 - another way to wait would be measured too
                await asyncio.sleep(0)
        finally:
            DiffView.render_line = draw  # type: ignore[method-assign]
    return tuple((then - now) * 1000 for now, then in zip(begin, drawn[0], strict=True))  # type: ignore[return-value]


def main(_words: list[str]) -> bool:
    """Measure, print, and say whether the bound holds."""
    held = True
    for kind in ("every other line", "a block"):
        taken = [asyncio.run(_open_ms(kind)) for _ in range(REPEATS)]
        p50, cpu = (statistics.median(times) for times in zip(*taken, strict=True))
        held = held and p50 <= OPEN_MS
        figures = {
            "benchmark": "review",
            "change": kind,
            "lines": 3_000,
            "p50_ms": round(p50, 1),
            "worst_ms": round(max(wall for wall, _ in taken), 1),
            "cpu_p50_ms": round(cpu, 1),
            "held": p50 <= OPEN_MS,
        }
        print(json.dumps(figures))
    return held
