"""Takes a run out of the lists: into `.trash/` beside it, where a person can take it back."""

from __future__ import annotations

from pathlib import Path

from akg_tui.store.durable import sync_folder
from akg_tui.store.errors import RunFolderError
from akg_tui.store.lock import RunLock
from akg_tui.store.run_list import check_is_run

TRASH = ".trash"


def discard_run(run: Path) -> Path:
    """Move a run that nobody works on, sound or damaged, to the trash. Where it is now.

    Raises
    ------
    RunLocked
        If a process is at work on it.
    RunFolderError
        If it is not a run, or cannot be moved.
    """
    check_is_run(run)
    run = run.absolute()
    trash = run.parent / TRASH
    with RunLock.acquire(run):
        try:
            trash.mkdir(exist_ok=True)
            number = 1
            while (place := trash / (run.name if number == 1 else f"{run.name}-{number}")).exists():
                number += 1
            run.rename(place)
            sync_folder(run.parent)
        except OSError as error:
            raise RunFolderError(f"cannot move {run} to {trash}: {error.strerror}") from error
    return place
