"""The card of the open question on the deck, and the keys that answer it.

Owns which question is asked, whether a key counts yet, and what an answer sends; core accepts or
refuses it.
"""

from __future__ import annotations

from akg_tui.core import commands as cmd
from akg_tui.tui.screens.dialogs import Reading
from akg_tui.tui.screens.input_lines import InputScreen
from akg_tui.tui.screens.review import Review
from akg_tui.tui.widgets.approval_card import AskCard, Ident
from akg_tui.view.controls.approvals import Request, requests
from akg_tui.view.controls.command_registry import command as command_of
from akg_tui.view.controls.command_registry import way_to
from akg_tui.view.diff import compare_kernels, size
from akg_tui.view.language import retold, tr
from akg_tui.view.run_snapshot import RunSnapshot


class AnsweringScreen(InputScreen):
    """A screen with the card of the open question."""

    def __init__(self) -> None:
        super().__init__()
        self.card = AskCard()
        self._changed: dict[tuple[str, str], tuple[int, int]] = {}

    def asks(self, snapshot: RunSnapshot) -> tuple[Request, ...]:
        """Return everything that waits for the person, oldest first; nothing in the past."""
        if snapshot.past is not None or not snapshot.waits:
            return ()
        changed = self._changes(snapshot) if snapshot.gate_waits else (0, 0)
        return requests(snapshot.state, snapshot.now, changed)

    def _changes(self, snapshot: RunSnapshot) -> tuple[int, int] | None:
        """Return the counts of added and removed lines; cached for the last pair of kernels.

        None if a kernel cannot be read.
        """
        blobs = snapshot.state.standing_blob, snapshot.state.work_blob
        if blobs not in self._changed:
            try:
                before, after = (snapshot.kernel(blob) for blob in blobs)
            except Exception:  # noqa: BLE001 - shown by the pane that shows the kernel
                return None
            self._changed = {blobs: size(compare_kernels(before, after))}
        return self._changed[blobs]

    def action_review(self) -> None:
        snapshot = self.workbench.snapshot()
        if snapshot.candidate is None:
            self.say(tr("there is no candidate to review: the kernel under work is the best one"))
            return
        if self._changes(snapshot) is None:
            self.say(tr("there is no diff to review: a kernel cannot be read, its pane says why"))
            return
        self.app.push_screen(Review(snapshot, self.shared.colours))

    def action_see(self) -> None:
        """Show the subject of the card in full: a diff to review, or a script to read."""
        self._stop_clock()
        ask = self.card.shown
        if ask is not None and ask.detail:
            self.app.push_screen(Reading(ask.title, ask.detail))
        else:
            self.action_review()

    def action_answer(self, answer: str) -> None:
        """Answer the ask on the card; `answer` is keep, reject or always."""
        ask = self.armed_ask()
        if ask is None:
            self._stop_clock()
            return
        found = next((each for each in ask.answers if each.does == answer), None)
        if found is None:
            self._stop_clock()
            self._not_an_answer(
                tr("no rule can be made of this: it is answered by itself")
                if answer == "always"
                else tr("a question is answered, not rejected: its card says how")
            )
            return
        if answer == "always" and not self.card.says_all:
            self._not_an_answer(
                tr("no room here to say what a rule would approve: enlarge the window")
            )
            return
        if found.twice and not self.card.calls_again(answer):
            told = tr(
                "no way leads back from this: {key} once more rejects", key=way_to("ask.reject")
            )
            self.say(told)
            return
        command = found.command
        if ask.choices and isinstance(command, cmd.AnswerQuestion):
            command = cmd.AnswerQuestion(command.question, self.card.marked)
        self.workbench.steer(command, found.told)

    def armed_ask(self, *, line: bool = False) -> Request | None:
        """Return the ask on the card if it may be answered now; else show the reason. With `line`
        a line would be opened.
        """
        say = self.workbench.say_no_line if line else self.say
        snapshot = self.workbench.snapshot()
        ask = self.card.shown
        if snapshot.past is not None:
            key = way_to("past.live")
            say(tr("this is the past: {key} goes back to what is true now", key=key))
        elif snapshot.at_rest:
            say(retold(snapshot.activity))
        elif ask is None or ask.ident not in {each.ident for each in self.asks(snapshot)}:
            say(tr("nothing waits for an answer"))
        elif not (
            self.card.arming.armed(ask.ident, snapshot.now) or ask.ident == self.workbench.vouched
        ):
            self._not_an_answer(
                tr("not yet: the keys count after a moment in sight without typing"), line=line
            )
        else:
            return ask
        return None

    def _stop_clock(self) -> None:
        """Let a question wait for its answer without a limit: a key says that somebody is there."""
        snapshot, ask = self.workbench.snapshot(), self.card.shown
        question = snapshot.state.question
        if snapshot.past is not None or snapshot.at_rest or question is None:
            return
        if ask is not None and ask.ident == f"question {question.number}" and question.until:
            told = tr("the question waits until you answer it")
            self.workbench.steer(cmd.HoldQuestion(question.number), told)

    def action_next_ask(self) -> None:
        self._stop_clock()
        if not self.card.turn():
            self._not_an_answer(tr("no other question waits"))

    def action_choice(self, step: int) -> None:
        self._stop_clock()
        if not self.card.mark(step):
            self._not_an_answer(tr("there is nothing to choose"))

    def action_reply(self) -> None:
        self._stop_clock()
        ask = self.card.shown
        if ask is not None and ask.gate:
            key = way_to("run.hint")
            self._not_an_answer(
                tr("this is answered with its keys, not in words; {key} writes a hint", key=key),
                line=True,
            )
        elif (ask := self.armed_ask(line=True)) is not None:
            self.reply_to(ask.ident)

    def answerable(self, now: float) -> Ident | None:
        return self.card.arming.answerable(now)

    def _not_an_answer(self, why: str, *, line: bool = False) -> None:
        """Show why a key answers nothing here, and make the next key wait, as after typing. With
        `line` the key would have opened a line.
        """
        self.card.arming.typed(self.workbench.wall_clock())
        (self.workbench.say_no_line if line else self.say)(why)

    def typed(self, now: float, key: str) -> None:
        """Make the card wait: text being typed must not answer a new question."""
        self.card.arming.typed(now)

    def on_ask_card_touched(self) -> None:
        self._stop_clock()

    async def on_ask_card_called(self, message: AskCard.Called) -> None:
        await self.workbench.carry_out(command_of(message.command))
