"""Completion of paths and `@` references, and resolution of references.

A reference is resolved when the hint is sent, so that the agent reads the current line.
Reads folder listings; writes nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from akg_tui.core import commands as cmd
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.kernel.knobs import BadKnob, describe, knobs_in, literal, read_wish
from akg_tui.core.sanitize import one_line
from akg_tui.core.state import OutOfOrder, RunState
from akg_tui.core.task import SWEEP
from akg_tui.hashline.tags import TAG_PATTERNS, Tagger
from akg_tui.view.formatting import count
from akg_tui.view.language import tr

MOST = 5_000  # entries of a folder that are read


def paths(base: Path, typed: str, *, ending: str | None = "") -> list[str]:
    """Return the paths that begin with `typed`, in the notation of `typed`, sorted.

    Parameters
    ----------
    base : Path
        The folder of a relative path.
    typed : str
        The begun path; ``~`` or ``~name`` stands for a home folder.
    ending : str, optional
        The end of the names of files; None: folders only.

    Notes
    -----
    A folder ends with a slash. Hidden names are listed only after a typed dot, names with
    unprintable characters never. A folder that cannot be read counts as empty.
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
    except RuntimeError:  # no user of that name
        return Path(typed)


def common_start(typed: str, offers: Sequence[str]) -> str:
    """Return the longest common beginning of `offers`; `typed` if there are none."""
    # By characters, not by parts of a path: part of a name is a useful completion.
    return os.path.commonprefix(offers) if offers else typed  # noqa: RUF071


_ITEM = re.compile(r"@(p\d+)\b")
_LINE = re.compile(rf"@(\d+)({TAG_PATTERNS['bigram']})\b")
_BEGUN = re.compile(r"@(\w*)$")

MOST_OFFERED = 20


class HintRefused(ValueError):
    """A hint that nobody would act on; the message says why, and what would help."""


class NoSuchReference(HintRefused):
    """A reference without a target; the message names it and the nearest valid reference."""


@dataclass(frozen=True)
class Kernel:
    """A kernel that references may point into: the name shown to the agent, and the lines."""

    name: str
    lines: Sequence[str]


def resolved(text: str, state: RunState, kernels: Sequence[Kernel], key: bytes) -> str:
    """Return the hint for the agent: its text, and below it the target of each reference.

    Raises `NoSuchReference`. A line is taken from the first of `kernels` that contains it.
    """
    told = {match[0]: _item(state, match[1]) for match in _ITEM.finditer(text)}
    for match in _LINE.finditer(text):
        told[match[0]] = _line(kernels, key, int(match[1]), match[2])
    notes = [f"{reference} is {what}" for reference, what in told.items()]
    return "\n".join([text, *notes])


def hint_command(
    text: str, state: RunState, best: KernelFiles | None
) -> tuple[cmd.PersonCommand, str]:
    """Return the command that a hint becomes, and the words for what comes of it.

    The sweep reads no words: a setting of its knobs becomes the next item. `best` is the best
    kernel, None where it cannot be read.

    Raises
    ------
    HintRefused
        If the sweep can make nothing of it.
    """
    if state.agent != SWEEP:
        return cmd.Hint(text), tr("the agent reads your hint next")
    try:
        knobs = {knob.name: knob for knob in (knobs_in(best) if best else ())}
    except BadKnob as error:
        raise HintRefused(str(error)) from None
    wish = read_wish(text, knobs)
    setting = wish.setting
    if not (setting or wish.wrong):
        example = next((f"{k.name}={literal(k.choices[-1])}" for k in knobs.values()), "TILE=32")
        raise HintRefused(tr("sweep reads no hints, only settings of its knobs, such as {example}",
                             example=example))  # fmt: skip
    for name in wish.wrong:
        knob = knobs.get(name)
        if knob is None:
            raise HintRefused(tr("no knob is called {name}; there are: {known}", name=name,
                                 known=", ".join(knobs) or "-"))  # fmt: skip
        if name in setting:
            raise HintRefused(tr("{name} is set twice: an item has one value of it", name=name))
        choices = ", ".join(map(literal, knob.choices))
        raise HintRefused(tr("{name} can be: {words}", name=name, words=choices))
    told = describe(setting, {})
    if all(literal(knobs[name].value) == literal(value) for name, value in setting.items()):
        raise HintRefused(tr("the best kernel has {setting} already", setting=told))
    before = state.pending[0].id if state.pending else ""
    added = cmd.AddItem(told, "a person's hint", before)
    tries = tr("sweep tries {setting} as its next item", setting=told)
    return added, tries + (tr("; not understood: {words}", words=wish.left) if wish.left else "")


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
    """Return `text` with the reference at its end completed, the newest items first."""
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
    """Return the target of the last reference of `text` in a few words, to show beside it."""
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
