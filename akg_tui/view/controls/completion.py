"""Completion of paths, and the command that a hint becomes. Reads folder listings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from akg_tui.core import commands as cmd
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.kernel.knobs import BadKnob, describe, knobs_in, literal, read_wish
from akg_tui.core.state import RunState
from akg_tui.core.task import SWEEP
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


class HintRefused(ValueError):
    """A hint that nobody would act on; the message says why, and what would help."""


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
