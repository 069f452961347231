"""A person's command to a run at rest: taken in a session of its own, then let go again."""

from __future__ import annotations

from collections.abc import Callable

from akg_tui.core.commands import Command
from akg_tui.core.decide import Rejected, decide
from akg_tui.core.events import AnyEvent, Record
from akg_tui.core.fold import evolve
from akg_tui.core.recovery import opening
from akg_tui.store.errors import StoreError
from akg_tui.store.run_folder import RunFolder


class Refused(StoreError):
    """Core does not allow the command now; the text is its reason. Nothing was journaled."""


def apply_at_rest(
    run: RunFolder, command: Command, *, pid: int, version: str, clock: Callable[[], float]
) -> None:
    """Have an open run take a command, so that no idle time counts as worked.

    Raises
    ------
    Refused
        If the command is not allowed; then not even the session is journaled.
    StoreError
        If the run cannot be written.
    """
    events: list[AnyEvent] = [*opening(run.state, pid, version)]
    state = run.state
    for seq, event in enumerate(events, state.seq + 1):
        state = evolve(state, Record(seq, clock(), event))
    decided = decide(state, command, clock())
    if isinstance(decided, Rejected):
        raise Refused(decided.why)
    for event in (*events, *decided):
        run.append(event)
    run.project()
