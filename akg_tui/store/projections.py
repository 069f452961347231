"""The projections: refs, the work tree and PLAN.md, made from the state and nothing else.

Each can be repeated at any time with an identical result, so the next `project` repairs a crash
between a journal line and its projections. Refs and work tree are overwritten even if modified; a
PLAN.md that was edited by hand is set aside first. Only this module writes PLAN.md and the work
tree.
"""

from __future__ import annotations

import hashlib
import os
from itertools import count
from pathlib import Path

from akg_tui.core.events import PlanEdited
from akg_tui.core.plan.plan_document import is_as_rendered, render_plan
from akg_tui.core.state import RunState
from akg_tui.core.task import Files
from akg_tui.store.errors import RunFolderError, reading, writing
from akg_tui.store.filesystem import make_folder, replace_file, sync_folder
from akg_tui.store.history import History

PLAN = "PLAN.md"
WORK = "work"


def hand_edit(run: Path) -> PlanEdited | None:
    """Return the hand edit in the run's PLAN.md, with a free name to keep it under, or None.

    A rendered PLAN.md contains a checksum of itself, so no record of the last write is needed, and
    a crash before or after a projection is never mistaken for an edit.

    Raises `RunFolderError` if the file cannot be read.
    """
    plan = run / PLAN
    if not plan.is_symlink() and not plan.exists():
        return None
    with reading(plan):
        # Not followed: the target of a link is outside this folder, and can be any file.
        data = bytes(plan.readlink()) if plan.is_symlink() else plan.read_bytes()
    if not plan.is_symlink() and is_as_rendered(data.decode(errors="replace")):
        return None
    number = next(n for n in count(1) if not os.path.lexists(run / f"{PLAN}.edited-{n}"))
    sha256 = hashlib.sha256(data).hexdigest()
    return PlanEdited(kept=f"{PLAN}.edited-{number}", sha256=sha256)


def work_files(run: Path, files: Files) -> dict[str, bytes]:
    """Return the kernel's files in the work tree. Raises `OSError`."""
    return {name: (run / WORK / name).read_bytes() for name in files.names}


def set_aside(run: Path, edit: PlanEdited) -> None:
    """Move the edited PLAN.md to the name it is kept under. Raises `RunFolderError`."""
    try:
        (run / PLAN).rename(run / edit.kept)
        sync_folder(run)
    except OSError as error:
        raise RunFolderError(f"cannot keep {run / edit.kept}: {error.strerror}") from error


def project(run: Path, history: History, state: RunState) -> None:
    """Make the refs and files of `run` match `state`; those that already match are left alone.

    Raises `HistoryError` if a ref cannot be set or the kernel's bytes are lost. Raises
    `RunFolderError` if a file cannot be written.
    """
    for attempt in state.attempts:
        if not attempt.lost:
            history.set_attempt(attempt.number, attempt.commit)
    if state.best is not None:
        history.set_best(state.best.commit)
    kernel = history.read_files(state.work_blob)
    with writing(run):
        if not (run / WORK).is_dir():
            make_folder(run, WORK)
            sync_folder(run)
        for name, content in kernel.items():
            replace_file(run / WORK / name, content, root=run)
        replace_file(run / PLAN, render_plan(state).encode())
