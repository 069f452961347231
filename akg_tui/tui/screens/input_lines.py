"""The input lines of the deck: a hint, an answer, a search.

Owns which line is open and which function receives its text.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from textual.events import DescendantBlur
from textual.widgets import Input

from akg_tui.core import commands as cmd
from akg_tui.core.task import SWEEP
from akg_tui.tui.panes.pane import Pane, Shared
from akg_tui.tui.panes.source import SourcePane
from akg_tui.tui.screens.run_screen import RunScreen
from akg_tui.tui.widgets.line_view import LineView
from akg_tui.tui.widgets.text_line import OneLine
from akg_tui.tui.widgets.tiles import Tiles
from akg_tui.view.controls.completion import HintRefused, hint_command
from akg_tui.view.language import tr


class Search:
    """A search in one pane, from the row on top at its start."""

    def __init__(self, pane: LineView) -> None:
        self._pane = pane
        self._start = pane.top
        self._at: int | None = None
        self._text = ""

    def typed(self, text: str) -> str:
        """Search `text` from the start of the search; return a message about the result."""
        if text.startswith(":"):
            return ""
        self._text = text
        self._at = self._pane.search(text, self._start)
        return self._told()

    def step(self, step: int) -> str:
        """Go to the next row that holds the text, or with -1 the previous one; return a message."""
        if self._at is not None:
            self._at = self._pane.search(self._text, self._at + step, step)
        return self._told()

    def to_line(self, text: str) -> str:
        """Go to the line that ``:120`` names; return a message."""
        digits = text.lstrip(":").strip()
        if not digits.isdecimal():
            return tr("{text} is not the number of a line", text=repr(text))
        if not isinstance(self._pane, SourcePane):
            self._pane.to_row(int(digits) - 1)
            return tr("row {number}", number=int(digits))
        return self._pane.to_line(int(digits))

    def _told(self) -> str:
        if not self._text:
            return ""
        if self._at is None:
            return tr("not found: {text}", text=self._text)
        return tr("row {number} of {many}: enter next, up before, esc leaves",
                  number=self._at + 1, many=len(self._pane.rows))  # fmt: skip

    def end(self) -> None:
        self._pane.search("", 0)


class InputScreen(RunScreen):
    """A screen with panes and input lines. The subclass supplies the panes, what they share, and
    `active`, the name of the pane that gets the focus when a line is closed.
    """

    active: str
    shared: Shared
    panes: dict[str, Pane]
    body: Tiles

    def __init__(self) -> None:
        super().__init__()
        self.hint = OneLine("hint", "")
        self.prompt = OneLine("prompt", "")
        self.reply = OneLine("reply", "")
        self._replies_to = ""
        self._answered: Callable[[str], bool | None] | None = None
        self._finding: Search | None = None
        self.reword()

    def action_pane(self, name: str) -> None:
        """Show a pane and focus it."""
        raise NotImplementedError

    def reword(self) -> None:
        self.hint.placeholder = self._asked_for()
        self.reply.placeholder = tr("your answer: enter sends it, esc leaves")

    def _asked_for(self) -> str:
        """Return what the hint line takes from this agent."""
        if self.agent == SWEEP:
            return tr(
                "settings of its knobs for the sweep, as TILE=32, MODE=fast: enter has them tried"
            )
        return tr("a hint to the agent: enter sends it, esc leaves")

    @property
    def agent(self) -> str:
        """The agent of the run; "" before the run is open."""
        return self.workbench.snapshot().state.agent if self.is_mounted else ""

    def on_descendant_blur(self, event: DescendantBlur) -> None:
        # If another window has the focus, the line stays open, and gets the keys back afterwards.
        stays = event.widget.has_focus or not self.app.app_focus
        if event.widget in (self.hint, self.reply, self.prompt) and not stays:
            # The person focused another widget, by the mouse or by tab: the line is closed.
            self._close_lines()

    def reply_to(self, ident: str) -> None:
        """Open the line for the answer to a question."""
        self._replies_to = ident
        self.reply.open()

    def action_hint(self, text: str = "") -> None:
        if self.workbench.snapshot().state.finished:
            told = tr("the run is over: no agent is there to read a hint")
            self.workbench.say_no_line(told)
            return
        if text:
            self._send_hint(text)
            return
        self.hint.placeholder = self._asked_for()
        self.hint.open()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input is self.prompt:
            self._take_answer(event.value)
        elif event.input is self.reply:
            self._send_reply(event.value)
        else:
            self._send_hint(event.value)

    def _send_hint(self, text: str) -> None:
        try:
            sent = self.hinted(text) if text.strip() else None
        except HintRefused as error:
            self.say(str(error))
            return
        if sent is None or self.workbench.steer(*sent):
            self.hint.value = ""
            self.on_one_line_left()

    def hinted(self, text: str) -> tuple[cmd.PersonCommand, str]:
        """Return the command that a hint becomes, and its words. Raises `HintRefused`."""
        snapshot = self.workbench.snapshot()
        best = None
        with contextlib.suppress(Exception):  # the pane that shows the kernel tells why
            best = snapshot.kernel(snapshot.state.standing_blob)
        return hint_command(text, snapshot.state, best)

    def _send_reply(self, text: str) -> None:
        open_question = self.workbench.snapshot().state.question
        if open_question is None or f"question {open_question.number}" != self._replies_to:
            self.say(tr("that question is not open any more; your words are still on the line"))
            return
        command = cmd.AnswerQuestion(open_question.number, text)
        if self.workbench.steer(command, tr("the agent goes on with your answer")):
            self.reply.value = ""
            self.on_one_line_left()

    def on_one_line_left(self) -> None:
        self._close_lines()
        self.panes[self.active].focus()

    def _close_lines(self) -> None:
        for each in (self.hint, self.reply, self.prompt):
            each.close()
        if self._finding is not None:
            self._finding.end()
            self._finding = None

    def ask_for(self, what: str, value: str, take: Callable[[str], bool | None]) -> None:
        """Ask for a line. Enter calls `take` with the text; if that returns False, the line stays
        open for correction.
        """
        self._finding = None
        self._answered = take
        self.prompt.open(tr("{what}, esc leaves", what=what), value)

    def _take_answer(self, text: str) -> None:
        finding = self._finding
        if finding is not None and not text.startswith(":"):
            self.tell(finding.step(1))
            return
        take, self._answered = self._answered, None
        if finding is None and take is not None and take(text) is False:
            self._answered = take
            return
        self.on_one_line_left()
        if finding is not None:
            self.say(finding.to_line(text))

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input is not self.prompt or self._finding is None:
            return
        if told := self._finding.typed(event.value):
            self.tell(told)

    def on_one_line_stepped(self, event: OneLine.Stepped) -> None:
        if self._finding is not None:
            self.tell(self._finding.step(event.step))

    def action_find(self) -> None:
        pane = self.panes[self.active]
        if not isinstance(pane, LineView):
            self.workbench.say_no_line(tr("there are no rows to search in this pane"))
            return
        self._answered = None
        self._finding = Search(pane)
        self.prompt.open(tr("find, or :120 for a line: enter goes on, esc leaves"), "")
