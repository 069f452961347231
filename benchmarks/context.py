"""Cost of a long run's prompts: a scripted model over a simulated prompt cache.

The model edits, tries and submits, sets and sweeps knobs, and searches the task's context files.
The run, the engine, the SDK and the socket are real; the server plays a competent model and
simulates the cache of the Messages API with its lives, on a clock that moves twenty seconds a call.
Kernels are not measured (a fake judge answers at once), so that only prompts count. Tokens are four
characters of JSON. The prefix (rules, facts and tools) is that of the C++ sample with the longest
one; the cost of a change of a knob is all that it adds to the prompt: the news that open its visit,
the call and the answer.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from unittest import mock

from msgspec.structs import asdict, replace

from akg_tui.agent.facts import facts_text
from akg_tui.agent.machine import describe
from akg_tui.agent.prompt import system_text
from akg_tui.agent.tools.registry import offered, specs_of, told_of
from akg_tui.agent.tools.run_access import SUBAGENT, SubagentRunner
from akg_tui.core import events as ev
from akg_tui.core.state import RunState
from akg_tui.core.usage import Totals, usage_report
from akg_tui.resources import sample_kernels
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.task_folder import load_task
from benchmarks.lab.player import Direction, Player
from benchmarks.lab.replies import Block, call
from benchmarks.lab.runs import create, engine, of, play
from benchmarks.lab.server import Lab
from tests.engine.runs import KERNEL

ROUNDS = 300
CALL_S = 20.0  # between two calls, on the cache's clock
BUDGET = 24_000
LEAST_SHARE = 0.95
MOST_GROWTH = 1.2
SETTLED_IN = 3  # rounds until the cache must hold
MOST_PREFIX = 4_500
MOST_KNOB_CHANGE = 250
EARLY = 30
WINDOW = 40  # rounds that a mean is taken over, more than a conversation has


def directions() -> Iterator[Direction]:
    """Plan items: three with a gain, then items without one, at times three wrong ones."""
    why = "each row is read again for the sum, and the loads wait on memory for most of the time"
    yield Direction("use the faster form B of the loop", '^SPEED = "A"', 'SPEED = "B"', why)
    yield Direction("use the fastest form C of the loop", '^SPEED = "[AB]"', 'SPEED = "C"', why)
    for number in itertools.count(3):
        if number % 40 < 3:
            text = f"leave out the check of the last column, form {number}"
            yield Direction(text, '^SPEED = ".*', f'SPEED = "WRONG"; FORM = {number}', why)
        else:
            text = f"unroll the inner loop {number} times and keep the partial sums apart"
            yield Direction(text, r"^WIDTH = \d+", f"WIDTH = {number}", why)


def kernel() -> str:
    """A sample's kernel, of real length, with the lines that the fake judge reads."""
    sample = (sample_kernels() / "row_softmax" / "kernel.py").read_text()
    return KERNEL + "\n" + "\n".join(f"# {line}" for line in sample.split("\n"))


CONTEXT = {
    "README.md": "".join(
        f"Line {n} of what the person knows about this kernel.\n" for n in range(60)
    ),
    "src/old_kernel.cpp": "".join(f"// line {n}\nfloat sum{n} = 0;\n" for n in range(400)),
}


WRONG = KERNEL.replace('SPEED = "A"', 'SPEED = "WRONG"')


@dataclass
class Busy(Player):
    """A player that first tries a wrong kernel for every fourth edit, sets a knob for another
    fourth, sweeps one for a third, and searches the context files before every third plan."""

    plans: int = 0
    edits: int = 0
    pending: list[Block] = field(default_factory=list)

    def _act(self, phase: str, texts: str, since: list[Block], body: Mapping[str, Any]) -> Block:
        call_id = f"toolu_{self.calls:05d}"
        if phase == "EDIT" and self.pending:
            return {**self.pending.pop(0), "id": call_id}
        searched = any(block["type"] == "tool_result" for block in since)
        if phase == "PLAN" and not searched:
            self.plans += 1
            if self.plans % 3 == 0:
                look = {"pattern": rf"sum{self.plans}\d?\b", "path": "task/context", "context": 1}
                return call("grep", look, call_id)
        block = super()._act(phase, texts, since, body)
        return self._varied(block) if block.get("name") == "edit_kernel" else block

    def _varied(self, block: Block) -> Block:
        self.edits += 1
        (op,) = block["input"]["ops"]
        (line,) = op["lines"]
        if self.edits % 4 == 1 and line.startswith("WIDTH = "):
            width = int(line.split()[2])
            lines = [f"WIDTH = {width}  # tune: {[width, width + 1, width + 2]}"]
            given = {"edit": {"ops": [{**op, "lines": lines}]}, "knobs": ["WIDTH"], "submit": True}
            return {**block, "name": "sweep_kernel", "input": given}
        if self.edits % 4 == 2 and line.startswith("WIDTH = "):
            given = {"set": {"WIDTH": int(line.split()[2])}}
            return {**block, "name": "submit_kernel", "input": given}
        if self.edits % 4 == 3:
            self.pending = [
                {**block, "name": "try_kernel", "input": {"edit": {"ops": [op]}, "submit": True}}
            ]
            return {**block, "name": "try_kernel", "input": {"text": WRONG}}
        return block


async def scripted(folder: Path, rounds: int, budget: int) -> tuple[RunFolder, Lab]:
    """Play the whole run; the cache's clock moves with the calls."""
    now = itertools.count(0.0, CALL_S)
    async with Lab(Busy(directions()), clock=lambda: next(now)) as lab:
        run = create(folder, lab.url, rounds=rounds, kernel=kernel(), context=CONTEXT)
        await play(engine(run, lab.url, budget=budget), limit_s=1_800.0)
    return run, lab


def prefix(state: RunState) -> int:
    """Return the tokens of the longest prefix of a C++ sample, with this machine's facts."""
    machine = asyncio.run(describe(1, None))
    sizes = []
    for folder in sorted(each for each in sample_kernels().iterdir() if each.is_dir()):
        task = load_task(folder).task
        if task.target.dsl == "cpp":
            reference = (folder / task.files.reference).read_text()
            facts = facts_text(replace(state, task=task, machine=machine))
            agents = {SUBAGENT: cast(SubagentRunner, object())}
            tools = specs_of(told_of(offered(folder, task, agents), task))
            told = [f"{system_text(task, reference)}\n\n{facts}", [asdict(each) for each in tools]]
            sizes.append(len(json.dumps(told, ensure_ascii=False)) // 4)
    return max(sizes)


def knob_changes(lab: Lab) -> list[int]:
    """Return the tokens that each change of a knob adds to the prompt, in order."""
    found: dict[str, int] = {}
    for request in lab.requests:
        for news, reply, answer in zip(
            *(request.body["messages"][at:] for at in range(3)), strict=False
        ):
            calls = [block for block in reply["content"] if block["type"] == "tool_use"]
            if calls and "set" in calls[0]["input"]:
                results = [b for b in answer["content"] if b["type"] == "tool_result"]
                added = [news["content"][-1], *reply["content"], *results]
                size = sum(len(json.dumps(block, ensure_ascii=False)) for block in added)
                found.setdefault(calls[0]["id"], size // 4)
    return list(found.values())


def figures(run: RunFolder, lab: Lab, rounds: int) -> dict[str, Any]:
    """The figures of a run, from its journal and the server."""
    report = usage_report(run.records)
    late = Totals()
    prompts: dict[int, list[int]] = {}
    for made in report.calls:
        prompts.setdefault(made.round, []).append(made.usage.prompt)
    for number, totals in report.by_round.items():
        if number > SETTLED_IN:
            late = Totals(late.calls + totals.calls, late.usage + totals.usage)
    last = max(number for number in prompts if number <= rounds)
    rebuilds = len(of(run, ev.ContextRebuilt))
    diagnoses = len(of(run, ev.DiagnosisReported))
    # A conversation grows until it is begun anew, so one round's prompt is a matter of luck.
    half = WINDOW // 2
    windows = range(EARLY - half, EARLY + half), range(last - WINDOW + 1, last + 1)
    early, end = (_mean(prompts, numbers) for numbers in windows)
    return {
        "rounds": run.state.settled,
        "calls": report.total.calls,
        "prompt_tokens": report.total.prompt_tokens,
        "cache_read_share_after_round_3": round(late.cache_read_share or 0.0, 4),
        f"prompt_tokens_round_{EARLY}": round(_mean(prompts, [EARLY])),
        f"prompt_tokens_round_{last}": round(_mean(prompts, [last])),
        f"prompt_tokens_{WINDOW}_rounds_early": round(early),
        f"prompt_tokens_{WINDOW}_rounds_late": round(end),
        "growth": round(end / early, 3),
        "knob_changes": len(changes := knob_changes(lab)),
        "knob_change": statistics.median(changes or [0]),
        "largest_prompt": max(max(each) for each in prompts.values()),
        "trials": len([trial for trial in run.state.trials if not trial.sweep]),
        "swept": len([trial for trial in run.state.trials if trial.sweep]),
        "searches": len([e for e in of(run, ev.ToolCalled) if e.tool == "grep"]),
        "rebuilds": rebuilds,
        "diagnoses": diagnoses,
        "broken_prefixes": len(lab.memory.faults),
        "new_conversations": lab.memory.fresh,
        "unexplained_conversations": lab.memory.fresh - 1 - rebuilds - diagnoses,
        "refused_requests": len(lab.refused),
    }


def _mean(prompts: dict[int, list[int]], rounds: Iterable[int]) -> float:
    counted = [tokens for number in rounds for tokens in prompts.get(number, ())]
    return sum(counted) / len(counted)


def held(found: dict[str, Any], rounds: int) -> bool:
    """Whether the bounds hold. Growth is for a long run: a short one sees one conversation grow."""
    return bool(
        found["rounds"] == rounds
        and found["cache_read_share_after_round_3"] >= LEAST_SHARE
        and (rounds < ROUNDS or found["growth"] <= MOST_GROWTH)
        and (rounds < ROUNDS or found["prefix"] <= MOST_PREFIX)
        and found["knob_change"] <= MOST_KNOB_CHANGE
        and found["broken_prefixes"] == 0
        and found["unexplained_conversations"] == 0
        and found["refused_requests"] == 0
        and min(found[each] for each in ("trials", "swept", "searches", "knob_changes"))
        >= rounds // 20
    )


def main(_words: list[str]) -> bool:
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch("os.fsync"),  # thousands of them; durability is not what is measured
    ):
        done, lab = asyncio.run(scripted(Path(folder) / "task", ROUNDS, BUDGET))
        found = {"prefix": prefix(done.state), **figures(done, lab, ROUNDS)}
        done.close()
    json.dump(found, sys.stdout)
    print()
    return held(found, ROUNDS)
