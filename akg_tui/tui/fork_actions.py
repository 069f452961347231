"""A fork made from the screen, with other limits where the new run would end at once.

The store makes it, in a thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input

from akg_tui.core.sanitize import one_line
from akg_tui.tui.screens.banded import Dimming
from akg_tui.tui.widgets.painted import Rows
from akg_tui.view.controls.run_limits import NAMES, BadLimit, limited
from akg_tui.view.language import retold, tr
from akg_tui.view.spans import BLANK, Line, hang

if TYPE_CHECKING:
    from textual.app import App

    from akg_tui.core.state import RunState
    from akg_tui.core.task import Policy


def why_at_once(state: RunState) -> str:
    """Why a run in this state would end at once, in words; "" where it would not."""
    from akg_tui.core.stopping.automation import QUEUE_EXHAUSTED
    from akg_tui.core.stopping.limits import stop_reasons

    stops = stop_reasons(state, time.time())
    # With another limit an empty queue is a new plan.
    told = [each for each in stops if each != QUEUE_EXHAUSTED] or stops
    return "; ".join(retold(one_line(each)) for each in told)


async def fork(app: App[int], path: Path, number: int, tell: Callable[[str], None]) -> None:
    """Fork the run in `path` at the end of a round; to be called by a worker of the app."""
    from akg_tui.store.errors import StoreError
    from akg_tui.store.fork import fork_run
    from akg_tui.tui.screens.runs import Runs

    try:
        made = await asyncio.to_thread(fork_run, path, number)
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
    from akg_tui.core import commands as cmd
    from akg_tui.store.run_at_rest import command_at_rest
    from akg_tui.store.run_list import read_state

    command_at_rest(path, cmd.ChangePolicy(limited(read_state(path).task.policy, text)))


_WIDTH = 76


class AskLimits(ModalScreen[str], Dimming[str]):
    """The limits as they were written, which can be read; "" where it was left without any."""

    DEFAULT_CSS = """
    AskLimits { align: center middle; background: $ink-ground 60%; }
    AskLimits Vertical {
        width: 76; max-width: 100%; height: auto; border: round $ink-gold;
        border-title-color: $ink-gold; background: $surface; padding: 0 1;
    }
    AskLimits Input { background: $ink-gold-deep; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss('')", show=False)]

    def __init__(self, name: str, why: str, policy: Policy, text: str) -> None:
        super().__init__()
        self._of, self._why, self._policy, self._text = name, why, policy, text
        self._rows = Rows("question")

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content(tr("limits of the fork"))
            yield self._rows
            yield Input(self._text, compact=True, select_on_focus=False)

    def on_mount(self) -> None:
        self._tell("")
        self.query_one(Input).focus()

    def _tell(self, fault: str) -> None:
        room = max(10, min(_WIDTH, self.app.size.width) - 4)
        name = one_line(self._of)
        lines: list[Line] = [
            *hang(tr("{run} would end at once: {why}.", run=name, why=self._why), room, (), "text"),
            BLANK,
            *hang(
                tr("Write other limits ({names}), enter sets them; esc leaves it as it is.",
                   names=", ".join(NAMES)), room, (), "note",
            ),
            *(hang(fault, room, (), "log.error") if fault else ()),
        ]  # fmt: skip
        self._rows.styles.height = len(lines)
        self._rows.show(tuple(lines))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            limited(self._policy, event.value)
        except BadLimit as error:
            self._tell(str(error))
        else:
            self.dismiss(event.value.strip())
