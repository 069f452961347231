"""The memory of a run as a page in TOML, which its reader may change, and the memory of that page.

Pure. What was measured stays as it was, whatever a page says. All texts are made printable.
"""

from __future__ import annotations

import json
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from akg_tui.core.sanitize import one_line
from akg_tui.core.verdict import percent
from akg_tui.knowledge import Page
from akg_tui.memory.lessons import Count, Direction, Reason, RunMemory, Text, op_class
from akg_tui.store.user_files.reader import toml_file

_HEAD = """\
# {id}: {title}
# {facts}
# A later run is told the texts. Change them, or take a direction out; figures stay as measured.
best_kernel = {kernel}  # false: it is forgotten"""


class _Row(Struct, frozen=True, forbid_unknown_fields=True):
    """A direction by the number of its attempt."""

    attempt: Count
    text: Text
    reason: Reason = ""


class _PageFile(Struct, frozen=True, forbid_unknown_fields=True):
    best_kernel: bool = False
    direction: tuple[_Row, ...] = ()


def page_of(memory: RunMemory) -> Page:
    """Return the memory of a run as a page, to be listed, searched and changed."""
    facts, kernel = memory.facts, memory.kernel
    best = "no kernel was kept"
    if kernel is not None:
        how = "measured" if kernel.measured else "provisional"
        best = f"attempt {kernel.attempt} is {kernel.over_seed} times its seed ({how})"
    gains = [
        (each.gain, each.text) for each in memory.directions if each.state == "KEPT" and each.gain
    ]
    told = [f"{len(memory.directions)} directions in {facts.rounds} rounds by {facts.agent}"]
    if gains:
        gain, text = max(gains, key=lambda each: each[0].low)
        told.insert(0, f"{percent(gain)} by {json.dumps(text, ensure_ascii=False)}")
    where = f"{facts.machine or 'machine unknown'}; {facts.versions or 'versions unknown'}"
    page = Page(
        id=f"run/{facts.run}-{facts.identity[:4]}",
        title=one_line(f"{facts.op} ({facts.dsl}, {facts.backend}): {best}"),
        dsl=(facts.dsl,),
        backend=(facts.backend,),
        ops=tuple(sorted(op_class(facts.op))),
        when=f"{facts.op} {facts.reference[:12]}",
        summary=one_line("; ".join([*told, where])),
        body="",
    )
    head = _HEAD.format(
        id=page.cited,
        title=page.title,
        facts=one_line(f"{told[-1]}; {where}"),
        kernel=json.dumps(kernel is not None),
    )
    return replace(page, body="\n\n".join([head, *map(_told, memory.directions)]) + "\n")


def _told(found: Direction) -> str:
    gain = f" {percent(found.gain)}" if found.gain else ""
    rows = [f"[[direction]]  # {found.state}{gain}", f"attempt = {found.attempt}"]
    for name in ("text", "reason"):
        if value := one_line(getattr(found, name)):
            rows.append(f"{name} = {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(rows)


def memory_of(page: str, path: Path, memory: RunMemory) -> RunMemory:
    """Return a memory as its changed page has it; `path` names the page in a fault.

    Raises `BadFile`, for a direction that the memory has not, too.
    """
    file = toml_file(path, page)
    said = file.read(_PageFile)
    if said.best_kernel and memory.kernel is None:
        raise file.bad(("best_kernel",), "no kernel of this run was kept")
    left, directions = list(memory.directions), []
    for number, row in enumerate(said.direction):
        field = ("direction", str(number))
        found = next((each for each in left if each.attempt == row.attempt), None)
        if found is None:
            why = f"the run has no direction of attempt {row.attempt} besides those above"
            raise file.bad((*field, "attempt"), why)
        if not row.text.strip():
            raise file.bad((*field, "text"), "is empty")
        left.remove(found)
        directions.append(replace(found, text=row.text, reason=row.reason))
    return replace(
        memory,
        facts=replace(memory.facts, edited=True),
        directions=tuple(directions),
        kernel=memory.kernel if said.best_kernel else None,
    )
