"""A model that thinks before each reply: what the judge does meanwhile, and what comes of it.

Plays one script twice, without and with idle work: ten items, each of which sets one knob of a
softmax on the CPU. With it the model takes a setting that it is told of instead. The 2,016 settings
are more than a fast machine can measure in that time. Run, engine, judge and socket are real.
`waited_s` is the time in which the model thought, `used_s` that of the measurements that were
finished in it; `gave_way_s` is the longest that other work waited for one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from akg_tui.agent.context import Context
from akg_tui.agent.models.endpoint import Endpoint
from akg_tui.agent.models.served import Served
from akg_tui.agent.prompt import system_text
from akg_tui.core import events as ev
from akg_tui.core.kernel.knobs import Value, knobs_in, read_setting
from akg_tui.core.measurement import Interval, Progress
from akg_tui.core.phases import Mode
from akg_tui.core.task import Agent, Policy, Task, Timing
from akg_tui.engine.engine import Engine
from akg_tui.engine.idle_worker import IdleWorker
from akg_tui.evaluate import Judge
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.task_folder import load_task
from benchmarks.judge.rounds import SOFTMAX
from benchmarks.lab import runs
from benchmarks.lab.replies import Block, Reply, call, message
from benchmarks.lab.server import Lab, Request

LEAST_SHARE = 0.5
ITEMS = 10
REFERENCE = f"{SOFTMAX}\n\ndef get_init_inputs():\n    return []\n"
KERNEL = """\
import torch

ROWS = 2  # tune: [1, 2, 4, 8, 16, 32, 64]
PASSES = 4  # tune: [1, 2, 3, 4]
COPY = True  # tune: [True, False]
SHIFT = "none"  # tune: ["none", "rows", "all"]
WRITE = "assign"  # tune: ["assign", "copy", "out"]
FILL = "empty"  # tune: ["empty", "zeros"]
ORDER = "down"  # tune: ["down", "up"]


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x) if FILL == "empty" else torch.zeros_like(x)
        starts = range(0, x.shape[0], ROWS)
        for _ in range(PASSES):
            for row in starts if ORDER == "down" else reversed(starts):
                part = x[row : row + ROWS]
                part = part.clone() if COPY else part
                if SHIFT != "none":
                    part = part - (part.amax(-1, keepdim=True) if SHIFT == "rows" else part.amax())
                if WRITE == "out":
                    torch.softmax(part, -1, out=y[row : row + ROWS])
                elif WRITE == "copy":
                    y[row : row + ROWS].copy_(torch.softmax(part, -1))
                else:
                    y[row : row + ROWS] = torch.softmax(part, -1)
        return y
"""
TRIED: tuple[tuple[str, Value], ...] = (
    ("ROWS", 4), ("PASSES", 3), ("ROWS", 1), ("COPY", False), ("ROWS", 8), ("PASSES", 2),
    ("ROWS", 16), ("ROWS", 32), ("ROWS", 64), ("PASSES", 1),
)  # fmt: skip
_PHASE = re.compile(r"^Phase (\w+)\.", re.M)
_TOLD = re.compile(r"knobs of the best kernel, faster than it: ([^;\n]*)")


class Thinker:
    """Sets one knob an item, after `delay_s` seconds for each reply; takes what it is told of."""

    def __init__(self, delay_s: float) -> None:
        self.run: RunFolder | None = None
        self.taken: list[dict[str, Value]] = []
        self._delay_s = delay_s
        self._own = iter(TRIED)
        self._calls = 0
        self._told: set[str] = set()

    async def __call__(self, request: Request) -> Reply:
        self._calls += 1
        await asyncio.sleep(self._delay_s)
        block = self._act(request.body["messages"])
        return message([block], message_id=f"msg_{self._calls}", usage=request.usage)

    def _act(self, messages: list[dict[str, Any]]) -> Block:
        texts = [b["text"] for m in messages for b in m["content"] if b["type"] == "text"]
        phase = _PHASE.findall("\n".join(texts))[-1]
        call_id = f"toolu_{self._calls:05d}"
        if phase == "PLAN":
            text, why = "give a knob another value, the", "its best value is not known yet"
            numbers = range(3 * self._calls, 3 * self._calls + 3)
            items = [{"text": f"{text} {n}. time", "rationale": why} for n in numbers]
            return call("submit_plan", {"items": items, "summary": "next"}, call_id)
        if phase == "DIAGNOSE":
            report = {"cause": "slower values", "avoid": [], "directions": ["other values"]}
            return call("report_diagnosis", report, call_id)
        return call("submit_kernel", {"set": self._setting(texts)}, call_id)

    def _setting(self, texts: list[str]) -> dict[str, Value]:
        """Return the best setting told since the last one, or else the next of its own."""
        assert self.run is not None
        assert self.run.state.best is not None
        best = self.run.history.read_kernel(self.run.state.best.blob)
        now = {knob.name: knob.value for knob in knobs_in(best)}
        for text in reversed(texts):
            if (told := _TOLD.search(text)) and text not in self._told:
                self._told.add(text)
                gains = re.findall(r"([A-Z]+=.*?) \+([\d.]+) %", told[1])
                setting = read_setting(max(gains, key=lambda each: float(each[1]))[0])
                if setting.items() - now.items():
                    self.taken.append(setting)
                    return setting
        return next({name: value} for name, value in self._left() if now[name] != value)

    def _left(self) -> Iterator[tuple[str, Value]]:
        yield from self._own
        yield from (("ROWS", 3 + self._calls), ("ROWS", 65 + self._calls))


async def _play(folder: Path, delay_s: float, items: int, *, idle_work: bool) -> dict[str, Any]:
    gave_way = [0.0]
    end = IdleWorker.end

    async def timed(worker: IdleWorker) -> None:
        began = time.monotonic()
        await end(worker)
        gave_way.append(time.monotonic() - began)

    thinker = Thinker(delay_s)
    (folder / "task.toml").write_text('op = "softmax"\n')
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "kernel.py").write_text(KERNEL)
    async with Lab(thinker) as lab:
        agent = Agent(model="lab", base_url=lab.url, idle_work=idle_work)
        run = thinker.run = RunFolder.create(
            load_task(folder),
            task=Task(
                op="softmax",
                agent=agent,
                policy=Policy(max_rounds=items),
                timing=Timing(budget_s=2.0),
            ),
            mode=Mode.AUTO,
            agent="lab",
            version="0",
            clock=time.time,
            name="r",
        )

        def judge(report: Callable[[Progress], None]) -> Judge:
            return Judge(run.state.task, run.reference, run.path / "scratch", on_progress=report)

        rules = system_text(run.state.task, run.reference, ())
        model = Served(agent, Endpoint("lab", lab.url, runs.KEY, agent.api))
        with mock.patch.object(IdleWorker, "end", timed):
            context = Context(rules, budget=agent.context_tokens)
            engine = Engine(run, model, judge, context=context)
            began = time.monotonic()
            await runs.play(engine, limit_s=3_600.0)
            wall_s = time.monotonic() - began
    replies = runs.of(run, ev.ModelReplied)
    found = runs.of(run, ev.IdleMeasured)
    state = run.state
    waited_s = sum(each.duration_s for each in replies)
    used_s = sum(each.measurement.elapsed_s for each in found)
    run.close()
    final = state.final.ratio if state.final is not None else None
    return {
        "idle_work": idle_work,
        "rounds": state.settled,
        "replies": len(replies),
        "waited_s": round(waited_s, 1),
        "used_s": round(used_s, 1),
        "share": round(used_s / waited_s, 2),
        "found": {
            kind: sum(e.purpose == kind for e in found) for kind in {e.purpose for e in found}
        },
        "taken": len(thinker.taken),
        "gave_way_s": round(max(gave_way), 2),
        "wall_s": round(wall_s, 1),
        "final": final or Interval(1.0, 1.0, 1.0, 1.0),  # nothing was kept
    }


def main(words: list[str]) -> bool:
    """Print the figures of both runs; return whether half of the waiting was used to a good end."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks idle", description=__doc__)
    parser.add_argument("--delay", type=float, default=6.0, metavar="S", help="seconds a reply")
    parser.add_argument("--items", type=int, default=ITEMS, metavar="N", help="items to work on")
    given = parser.parse_args(words)
    delay_s, items = given.delay, given.items
    finals: list[Interval] = []
    share = 0.0
    for idle_work in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            found = asyncio.run(_play(Path(folder), delay_s, items, idle_work=idle_work))
        final, share = found["final"], found["share"]
        finals.append(final)
        figures = {**found, "final": [round(x, 2) for x in (final.low, final.ratio, final.high)]}
        load = round(os.getloadavg()[0], 1)
        print(json.dumps({"benchmark": "idle", "delay_s": delay_s, "load": load, **figures}))
    return share >= LEAST_SHARE and finals[1].high >= finals[0].low
