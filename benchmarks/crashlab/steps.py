"""Names of the steps of a run on the disk, and the faults that are possible at each."""

from __future__ import annotations

import errno
import json
from pathlib import Path

from benchmarks.crashlab.disk_faults import How, Step

RECOVERY = {"SessionOpened", "EvalInterrupted", "ToolAnswered", "TurnInterrupted", "PlanEdited"}


def faults_of(step: Step) -> list[tuple[How, int]]:
    """The faults of a step. An error may be temporary, or last as long as the process."""
    kills = [How.KILL_BEFORE, How.KILL_AFTER]
    if step.op in ("write", "pwrite"):
        kills.insert(1, How.KILL_IN_THE_MIDDLE)
    errors = [errno.EIO]
    if step.op in ("write", "create", "mkdir", "rename", "link"):
        errors.append(errno.ENOSPC)
    fails = [(how, error) for error in errors for how in (How.FAIL_ONCE, How.FAIL_FROM_HERE)]
    return [(how, 0) for how in kills] + fails


def of_step(steps: list[Step], index: int) -> str:
    """A step in words: `sync of event Decided`, `rename of git ref`, …"""
    step = steps[index]
    return f"{step.op} of {_thing(steps, index)}"


def _thing(steps: list[Step], index: int) -> str:
    step = steps[index]
    path = Path(step.path)
    if path.name == "events.jsonl":
        return _event(steps, index)
    if "history.git" in path.parts:
        inside = path.parts[path.parts.index("history.git") + 1 :]
        if not inside:
            return "git folder"
        if inside[0] == "refs":
            return "git ref" if path.suffix in (".lock", "") and len(inside) > 2 else "git refs"
        if inside[0] == "objects":
            return "git object" if "tmp_object" in path.name or len(inside) > 2 else "git objects"
        return f"git {inside[0]}"
    for name in ("PLAN.md", "lock", "work", "task"):
        if name in path.name or path.parent.name == name:
            return name
    return "folder"


def _event(steps: list[Step], index: int) -> str:
    """The event that a step on the journal writes."""
    if steps[index].op == "pwrite":
        return "the journal's end"
    for step in reversed(steps[: index + 1]):
        if step.path == steps[index].path:
            if step.op == "write":
                payload = step.data[9:]
                return f"event {json.loads(payload)['event']['type']}"
            if step.op in ("pwrite", "truncate", "create"):
                return "the journal's end"
    return "the journal"


def recovered(steps: list[Step]) -> int:
    """Number of steps before the first event that is not of the recovery."""
    for index, step in enumerate(steps):
        if step.op == "write" and Path(step.path).name == "events.jsonl":
            kind = json.loads(step.data[9:])["event"]["type"]
            if kind not in RECOVERY and kind != "RunCreated":
                return index
    raise AssertionError("the session took no step of its own")
