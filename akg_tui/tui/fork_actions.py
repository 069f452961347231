"""Goes on from a run that is over: in a fork of it, or in the run itself under other limits.

The store writes fork and limits, in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from akg_tui.core import commands as cmd
from akg_tui.core.sanitize import one_line
from akg_tui.store.errors import StoreError
from akg_tui.store.fork import fork_run
from akg_tui.store.run_at_rest import command_at_rest
from akg_tui.store.run_list import read_state
from akg_tui.tui.screens.dialogs import AskLimits
from akg_tui.tui.screens.run_screen import RunScreen
from akg_tui.tui.textual_internals import OPENING
from akg_tui.view.controls.policy_words import limited
from akg_tui.view.language import retold, tr

if TYPE_CHECKING:
    from textual.app import App


MORE_ROUNDS = 20  # offered for a run that is over


def fork(app: App[int], path: Path, number: int, tell: Callable[[str], None]) -> None:
    """Fork the run in `path` at the end of round `number`, in a worker of the app."""
    app.run_worker(_fork(app, path, number, tell), name="fork", group=OPENING)


async def _fork(app: App[int], path: Path, number: int, tell: Callable[[str], None]) -> None:
    try:
        made = await asyncio.to_thread(fork_run, path, number)
    except StoreError as error:
        tell(tr("not forked: {why}", why=error))
        return
    screens = [screen for screen in app.screen_stack if isinstance(screen, RunScreen)]
    if any(screen.come_to(path.parent / made.path.name) for screen in screens):
        told = tr("forked: {run}", run=made.path.name)
    else:
        how = f"akg-tui resume {quote(one_line(str(made.path)))}"
        told = tr("forked; go on with: {command}", command=how)
    tell(told)


async def raise_limits(app: App[int], path: Path, then: Callable[[str], None]) -> None:
    """Ask for the limits under which a run goes on that is over; call `then` with the answer.

    Raises `StoreError`.
    """
    state = await asyncio.to_thread(read_state, path)
    over = tr("{run} is over: {why}. It goes on as the same run.", run=one_line(path.name),
              why=retold(state.finished))  # fmt: skip
    asked = AskLimits(
        tr("go on, with more"), over, state.task, f"rounds=+{MORE_ROUNDS}",
        settled=state.rounds,
    )  # fmt: skip
    app.push_screen(asked, lambda limits: then(limits) if limits else None)


def let_go_on(path: Path, limits: str) -> None:
    """Let a run go on that is over, under these limits. Raises `StoreError`."""
    state = read_state(path)
    task = state.task
    policy = limited(task.policy, limits, settled=state.rounds, metrics=task.metrics)
    command_at_rest(path, cmd.GoOn(policy))
