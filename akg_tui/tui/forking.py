"""A fork made from the screen: the new run, and where it would end at once another limit for it.

Makes it by the store, in a thread; asks for the limit on a dialog. The run that is forked is
never changed.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from akg_tui.core.plain import one_line
from akg_tui.tui.language import retold, tr

if TYPE_CHECKING:
    from textual.app import App

    from akg_tui.core.state import RunState


def why_at_once(state: RunState) -> str:
    """Why a run in this state would end at once, in words; "" where it would not."""
    from akg_tui.core.automation import QUEUE_EXHAUSTED
    from akg_tui.core.policy import stop_reasons

    stops = stop_reasons(state, time.time())
    # With another limit an empty queue is a new plan.
    told = [each for each in stops if each != QUEUE_EXHAUSTED] or stops
    return "; ".join(retold(one_line(each)) for each in told)


async def fork(app: App[int], path: Path, number: int, tell: Callable[[str], None]) -> None:
    """Fork the run in `path` at the end of a round; to be called by a worker of the app."""
    from akg_tui import __version__
    from akg_tui.store.errors import StoreError
    from akg_tui.store.fork import fork_run
    from akg_tui.tui.screens.limit import AskLimits
    from akg_tui.tui.screens.runs import Runs

    try:
        made = await asyncio.to_thread(fork_run, path, number, version=__version__, clock=time.time)
    except StoreError as error:
        tell(tr("not forked: {why}", why=error))
        return
    listed = next((s for s in app.screen_stack if isinstance(s, Runs)), None)
    if listed is not None:
        listed.come_to(path.parent / made.path.name)
        told = tr("forked: {run}", run=made.path.name)
    else:
        how = f"akg-tui resume {one_line(str(made.path))}"
        told = tr("forked; go on with: {command}", command=how)
    tell(told)
    why = why_at_once(made.state)
    if not why:
        return
    policy = made.state.task.policy
    more = f"rounds={made.state.settled + max(1, policy.max_rounds)}"
    limits = await app.push_screen_wait(AskLimits(made.path.name, why, policy, more))
    if limits:
        try:
            await asyncio.to_thread(limit, made.path, limits)
        except StoreError as error:
            told = tr("not done: {why}", why=error)
        tell(told)


def limit(path: Path, text: str) -> None:
    """Give a run at rest other limits. Raises `StoreError`."""
    from akg_tui import __version__
    from akg_tui.core import commands as cmd
    from akg_tui.store.afterwards import apply_at_rest
    from akg_tui.store.run_folder import RunFolder
    from akg_tui.tui.limiting import limited

    run = RunFolder.open(path)
    try:
        command = cmd.ChangePolicy(limited(run.state.task.policy, text))
        apply_at_rest(run, command, pid=os.getpid(), version=__version__, clock=time.time)
    finally:
        run.close()
