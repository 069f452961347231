"""The projections: refs, the work tree and PLAN.md, made from the state and nothing else.

Each can be done again at any time with the same outcome, so a crash between a journal
line and these is mended by the next `project`. Whatever a hand changed in them is
overwritten. Only this module writes PLAN.md and the work tree.
"""

from __future__ import annotations

from pathlib import Path

from akg_tui.core.plan_view import render_plan
from akg_tui.core.state import RunState
from akg_tui.store.durable import replace_file, sync_folder
from akg_tui.store.errors import RunFolderError
from akg_tui.store.history import History

PLAN = "PLAN.md"
WORK = "work"


def project(run: Path, history: History, state: RunState) -> None:
    """Make the refs and files of `run` show `state`; what does already is left alone.

    Raises
    ------
    HistoryError
        If a ref cannot be set or the kernel's bytes are lost.
    RunFolderError
        If a file cannot be written.
    """
    for attempt in state.attempts:
        history.set_attempt(attempt.number, attempt.commit)
    if state.best is not None:
        history.set_best(state.best.commit)
    kernel = history.read_blob(state.work_blob)
    work = run / WORK
    try:
        if not work.is_dir():
            work.mkdir()
            sync_folder(run)
        replace_file(work / state.task.files.editable, kernel)
        replace_file(run / PLAN, render_plan(state).encode())
    except OSError as error:
        where = error.filename or run
        raise RunFolderError(f"cannot write {where}: {error.strerror}") from error
