"""A hand edit of PLAN.md that was set aside, read as a change of the plan. Writes nothing."""

from __future__ import annotations

import re
from pathlib import Path

from akg_tui.core.events import PlanChange
from akg_tui.core.plan_edit import BadPlanEdit, read_plan_edit
from akg_tui.core.state import RunState
from akg_tui.store.errors import RunFolderError
from akg_tui.store.project import PLAN

SIZE_LIMIT = 1 << 20


def read_kept_edit(run: Path, kept: str, state: RunState) -> PlanChange:
    """What the edit under the name `kept` asks of the plan as it is now.

    Raises
    ------
    RunFolderError
        If there is no such edit or it cannot be read; the message names file and line.
    """
    path = run / kept
    if not re.fullmatch(rf"{re.escape(PLAN)}\.edited-\d+", kept):
        raise RunFolderError(f"{path}: is not a hand edit of {PLAN}")
    if path.is_symlink():
        raise RunFolderError(f"{path}: is a link, which is not followed")
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise RunFolderError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > SIZE_LIMIT:
        raise RunFolderError(f"{path}: is too large for a plan")
    try:
        return read_plan_edit(data.decode(), state)
    except UnicodeDecodeError as error:
        raise RunFolderError(f"{path}: not UTF-8 text at byte {error.start}") from error
    except BadPlanEdit as error:
        raise RunFolderError(f"{path}: {error}") from error
