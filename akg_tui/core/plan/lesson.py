"""The findings of an earlier run, as values of the event that recalls it.

Pure. The texts are untrusted, and no facts of this run.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from akg_tui.core.measurement import Interval
from akg_tui.core.sanitize import check_name

LessonState = Literal["KEPT", "DISCARDED", "FAILED", "UNDONE"]


class Lesson(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The result of one direction in an earlier run: untrusted text, and no fact of this run.

    `gain` is the ratio over that run's incumbent, `over_seed` its estimate over that run's seed.
    `elsewhere` names the machine, if it is not the one of this run.
    """

    run: str
    attempt: int
    state: LessonState
    text: str
    reason: str = ""
    gain: Interval | None = None
    over_seed: float | None = None
    elsewhere: str = ""


class RememberedKernel(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The best kernel of an earlier run, copied to `path` in this run. It is untrusted.

    `versions` names that run's compiler and torch; `over_seed` is its ratio over that run's seed.
    """

    run: str
    attempt: int
    path: str
    sha256: str
    over_seed: Interval
    versions: str = ""
    elsewhere: str = ""

    def __post_init__(self) -> None:
        check_name("path", self.path, folders=True)
