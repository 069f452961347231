"""Completion of paths and `@` references, and what a reference stands for.

A reference is resolved when the hint is sent, so that the agent reads the line it points at now.
Reads folder listings; writes nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from akg_tui.core.sanitize import one_line
from akg_tui.core.state import OutOfOrder, RunState
from akg_tui.hashline.tags import TAG_PATTERNS, Tagger
from akg_tui.view.formatting import count
from akg_tui.view.language import tr

MOST = 5_000  # entries of a folder that are looked at


def paths(base: Path, typed: str, *, ending: str | None = "") -> list[str]:
    """The paths that begin as `typed` does, written as the person writes them, in order.

    Parameters
    ----------
    base : Path
        What a path without a root is in.
    typed : str
        With ``~`` or ``~name`` for a home, if the person likes.
    ending : str, optional
        What the names of files must end with; None: folders only.

    Notes
    -----
    A folder ends with a slash. Hidden names come only where a dot was typed, and those that a
    line could not show never. What cannot be read has nothing in it.
    """
    if typed.startswith("~") and "/" not in typed:
        return [f"{typed}/"] if _home(typed).is_dir() else []
    cut = typed.rfind("/") + 1
    head, begun = typed[:cut], typed[cut:]
    found: list[str] = []
    try:
        with os.scandir(base / _home(head)) as entries:
            for entry, _ in zip(entries, range(MOST), strict=False):
                name = entry.name
                if not name.startswith(begun) or not name.isprintable():
                    continue
                if name.startswith(".") and not begun:
                    continue
                if entry.is_dir():
                    found.append(f"{head}{name}/")
                elif ending is not None and name.endswith(ending):
                    found.append(head + name)
    except (OSError, ValueError):
        return []
    return sorted(found)


def _home(typed: str) -> Path:
    try:
        return Path(typed).expanduser()
    except RuntimeError:  # nobody of that name
        return Path(typed)


def common_start(typed: str, offers: Sequence[str]) -> str:
    """What was typed, as far as all the offers agree how it goes on."""
    # By letters, not by parts of a path: half a name is what one wants.
    return os.path.commonprefix(offers) if offers else typed  # noqa: RUF071


_ITEM = re.compile(r"@(p\d+)\b")
_LINE = re.compile(rf"@(\d+)({TAG_PATTERNS['bigram']})\b")
_BEGUN = re.compile(r"@(\w*)$")

MOST_OFFERED = 20


class NoSuchReference(ValueError):
    """A reference stands for nothing; the message says which, and what is near."""


@dataclass(frozen=True)
class Kernel:
    """A kernel that a reference may point into: its name for the agent, and its lines."""

    name: str
    lines: Sequence[str]


def resolved(text: str, state: RunState, kernels: Sequence[Kernel], key: bytes) -> str:
    """The hint as the agent reads it: what it says, and below it what it refers to.

    Raises `NoSuchReference`. The first of `kernels` that has the line is the one meant.
    """
    told = {match[0]: _item(state, match[1]) for match in _ITEM.finditer(text)}
    for match in _LINE.finditer(text):
        told[match[0]] = _line(kernels, key, int(match[1]), match[2])
    notes = [f"{reference} is {what}" for reference, what in told.items()]
    return "\n".join([text, *notes])


def _item(state: RunState, item_id: str) -> str:
    try:
        item = state.item(item_id)
    except OutOfOrder:
        last = state.items[-1].id if state.items else ""
        there = tr("the items go up to {item}", item=last) if last else tr("there is no plan yet")
        told = tr("there is no item {item}: {there}", item=item_id, there=there)
        raise NoSuchReference(told) from None
    return f"the plan item {item.id} ({item.word}): {item.text}"


def _line(kernels: Sequence[Kernel], key: bytes, number: int, tag: str) -> str:
    tagger = Tagger(key)
    for kernel in kernels:
        if 1 <= number <= len(kernel.lines):
            text = kernel.lines[number - 1]
            if tagger.tag(number, text) == tag:
                return f"line {number} of {kernel.name}: {text}"
    first = kernels[0]
    if not 1 <= number <= len(first.lines):
        raise NoSuchReference(tr("{name} has {lines}, there is no @{number}", name=first.name,
                                 lines=count(len(first.lines), "line"), number=number))  # fmt: skip
    now = tagger.tag(number, first.lines[number - 1])
    old, new = f"{number}{tag}", f"{number}{now}"
    told = tr("@{old} is no line now: line {number} is @{new}", old=old, number=number, new=new)
    raise NoSuchReference(told)


def offers(text: str, state: RunState, kernel: Kernel, key: bytes) -> list[str]:
    """References that complete the one begun at the end of `text`, the newest items first."""
    begun = _BEGUN.search(text)
    if begun is None:
        return []
    start = begun[1]
    found = [item.id for item in reversed(state.items) if item.id.startswith(start)]
    if not start or start.isdigit():
        tagger = Tagger(key)
        last = len(kernel.lines)
        begins = (n for n in range(1, last + 1) if start and str(n).startswith(start))
        lines = islice(begins, MOST_OFFERED)
        found += [f"{n}{tagger.tag(n, kernel.lines[n - 1])}" for n in lines]
    head = text[: begun.start() + 1]
    return [head + each for each in found[:MOST_OFFERED]]


def told_of(text: str, state: RunState, kernel: Kernel, key: bytes) -> str:
    """In a few words what the last reference of `text` stands for, to be shown beside it."""
    matches = [*_ITEM.finditer(text), *_LINE.finditer(text)]
    if not matches:
        return ""
    last = max(matches, key=lambda match: match.start())
    try:
        if last[1].startswith("p"):
            item = state.item(last[1])
            return one_line(f"{item.id} {item.word}: {item.text}", 60)
        return one_line(_line([kernel], key, int(last[1]), last[2]).partition(": ")[2], 60)
    except (OutOfOrder, NoSuchReference):
        return tr("{reference} stands for nothing now", reference=last[0])
