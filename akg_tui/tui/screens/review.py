"""The review: a candidate's diff against the best kernel, with its measurement beside it.

Shows one candidate, even after the run has moved on. Answers only a gate that is open for that
candidate, and only after a moment on screen. A plain letter answers only if no key follows at
once, because the letter may begin a word. A candidate that is sent back needs words: the key `B`
opens the line for them, and enter on that line answers.
"""

from __future__ import annotations

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input

from akg_tui.core.sanitize import Said, one_line
from akg_tui.core.state import RunState
from akg_tui.core.task import SWEEP
from akg_tui.tui.screens.run_screen import RunScreen, waiting_line
from akg_tui.tui.widgets.approval_card import ARM_S, Arming, Ident
from akg_tui.tui.widgets.diff_view import DiffView
from akg_tui.tui.widgets.painted import Rows
from akg_tui.tui.widgets.text_line import OneLine
from akg_tui.view import formatting
from akg_tui.view.code_rows import Colours
from akg_tui.view.controls.approvals import way_back
from akg_tui.view.controls.command_registry import Where, at, footer, way_to
from akg_tui.view.controls.review_commands import Verdict, commands_of
from akg_tui.view.glyphs import VERDICT
from akg_tui.view.language import retold, tr
from akg_tui.view.run_snapshot import RunSnapshot
from akg_tui.view.spans import Line, Span, fit, line

_WORDS: dict[Verdict, str] = {"keep": Said("keep"), "reject": Said("discard")}


def _answer_keys() -> set[str]:
    """Return the keys that answer in the current keymap."""
    return {key for c in at("review") if c.action.startswith("answer(") for key in c.keys_now}


class Review(RunScreen):
    """The review of the candidate in a snapshot."""

    CSS_PATH = "../styles/review.tcss"
    where: Where = "review"

    def __init__(self, snapshot: RunSnapshot, colours: Colours) -> None:
        super().__init__()
        state = snapshot.state
        self._attempt = state.next_attempt if state.best else 0
        self._item = state.active or ""
        self._first = snapshot
        self.about = Rows("about")
        self.diff = DiffView(colours)
        self.comment = OneLine("comment", "")
        self._arming = Arming()
        self._comment = ""
        self._letter: tuple[Verdict, int, float] | None = None  # the answer, its gate, its time
        self._twice: int | None = None  # the gate at which a final rejection was called once
        self._sends_back = 0  # the gate that enter on the line of the comment answers; 0: none

    @property
    def _sweeps(self) -> bool:
        """Whether the agent is the sweep, which reads no comments."""
        return self._first.state.agent == SWEEP

    def compose(self) -> ComposeResult:
        yield from (self.about, self.diff, self.comment, self.footer)

    def on_mount(self) -> None:
        state = self._first.state
        self.diff.compare(state.standing_blob, state.work_blob, self._first.kernel)
        self.reword()
        self.diff.focus()
        self.pull(self._first)

    def reword(self) -> None:
        """Rewrite the words of the review, in the current language and with the current keys."""
        added, removed = self.diff.changed
        name = one_line(self._first.state.task.files.kernel)
        title = formatting.changed(self._first.state, name, added, removed)
        self.diff.border_title = Content(title)

    def pull(self, snapshot: RunSnapshot) -> None:
        gate = self._gate(snapshot)
        self._arming.ask(gate)
        if gate is not None and self.is_current:
            self.call_after_refresh(self._arming.painted, snapshot.now)
        self._take_letter(snapshot, gate)
        room = max(1, self.app.size.width - 2)
        rows = [*self._about(snapshot.state), self._standing(snapshot, gate)]
        self.about.show(tuple(fit(row, room) for row in rows))
        self.footer.pull(footer("review", snapshot.state), snapshot.now)

    def typed(self, now: float, key: str) -> None:
        if key not in _answer_keys():
            self._letter = None
            self._arming.typed(now)

    def answerable(self, now: float) -> Ident | None:
        return self._arming.answerable(now)

    def _gate(self, snapshot: RunSnapshot) -> int | None:
        """Return the open gate, if it asks about the candidate shown here."""
        gate = snapshot.state.gate
        asks = gate is not None and gate.kind in ("keep", "edit")
        mine = snapshot.gate_waits and asks and gate is not None and gate.attempt == self._attempt
        return gate.gate if mine and gate is not None else None

    def _about(self, state: RunState) -> list[Line]:
        text = one_line(state.item(self._item).text) if self._item else ""
        title = tr("review of attempt {number}", number=self._attempt)
        head = line(
            (f"{title if self._attempt else tr('review of the written kernel')}  ", "brand"),
            (f"{self._item} ", "accent"),
            (text, "strong"),
        )
        settled = next((a for a in state.attempts if a.number == self._attempt), None)
        measured = settled.measurement if settled else None
        if measured is None and state.next_attempt == self._attempt:
            measured = state.measured
        if measured is None:
            return [head, line((tr("not measured yet"), "muted")), line(("", "text"))]
        ratio = measured.ratio
        told = formatting.sure(ratio) if ratio else retold(measured.message)
        figures: list[str] = []
        if times := formatting.call_times(measured):
            figures.append(times)
        if measured.clusters:
            figures.append(formatting.count(measured.clusters, "pair"))
        if measured.max_error is not None and measured.tolerance is not None:
            off = formatting.error_of(measured.max_error, measured.tolerance)
            figures.append(f"{tr('error')} {off}")
        return [head, line((told, "figure")), line((", ".join(figures), "muted"))]

    def _standing(self, snapshot: RunSnapshot, gate: int | None) -> Line:
        if gate is not None:
            if self._letter is not None:
                answer = tr(_WORDS[self._letter[0]])
                told = tr("{answer}: in a moment, unless something is typed", answer=answer)
                return line((told, "note"))
            if not self._arming.armed(gate, snapshot.now):
                return line((tr("the run waits for you: the keys count in a moment"), "note"))
            comment = f"  {tr('comment')}: {one_line(self._comment)}" if self._comment else ""
            keep = (way_to("review.keep"), "key"), (f" {tr('keep')}  ", "text")
            if self.diff.left_out:
                keep = (way_to("review.keep"), "faint"), (f" {tr('keep: never unmeasured')}  ",
                                                          "faint")  # fmt: skip
            back: tuple[Span, ...] = ()
            if not self._sweeps:
                back = (way_to("review.back"), "key"), (f" {tr('send back')}  ", "text")
            return line(
                (f"{tr('the run waits for you:')}  ", "note"),
                *keep,
                (way_to("review.reject"), "key"), (f" {tr('discard')}  ", "text"),
                *back,
                (way_to("review.comment"), "key"), (f" {tr('comment')}", "text"),
                (comment, "muted"),
            )  # fmt: skip
        if snapshot.at_rest:
            return line((retold(snapshot.activity), "note"))
        if call := waiting_line(snapshot, "review.close"):
            return call
        for attempt in snapshot.state.attempts:
            if attempt.number == self._attempt:
                glyph, role = VERDICT[attempt.verdict]
                return line(
                    (f"{glyph} {attempt.verdict} ", role),
                    retold(formatting.verdict_reason(attempt.reason, attempt.measurement.ratio)),
                )
        told = tr("in {phase}: nothing waits for an answer", phase=snapshot.state.phase)
        return line((told, "muted"))

    def action_answer(self, answer: Verdict) -> None:
        snapshot = self.workbench.snapshot()
        gate = self._gate(snapshot)
        self._letter = None
        armed = gate is not None and (
            self._arming.armed(gate, snapshot.now) or gate == self.workbench.vouched
        )
        if self.workbench.typing:
            # After any outcome, a second letter has to wait again.
            self._arming.typed(snapshot.now)
        if gate is None:
            self.say(tr("no answer is asked for this candidate now"))
        elif not armed:
            self._arming.typed(snapshot.now)
            self.say(tr("not yet: the keys count after a moment in sight without another key"))
        elif answer == "keep" and self.diff.left_out:
            told = tr("with hunks left out it was never measured: {key} sends it back",
                      key=way_to("review.back"))  # fmt: skip
            self.say(told)
        elif answer == "reject" and not way_back(snapshot.state) and self._twice != gate:
            self._twice = gate
            key = way_to("review.reject")
            self.say(tr("no way leads back from this: {key} once more rejects", key=key))
        elif self.workbench.typing:
            self._letter = answer, gate, snapshot.now
            self.after(ARM_S, self._due)
            self.workbench.pull_now()
        else:
            self._send(snapshot, answer)

    def _due(self) -> None:
        """Pull, and check again later while the letter waits to become an answer."""
        self.workbench.pull_now()
        if self._letter is not None:
            self.after(ARM_S / 10, self._due)

    def _take_letter(self, snapshot: RunSnapshot, gate: int | None) -> None:
        if self._letter is None:
            return
        answer, asked, since = self._letter
        if gate != asked or not self.is_current:
            self._letter = None
        elif snapshot.now - since >= ARM_S:
            self._letter = None
            self._send(snapshot, answer)

    def _send(self, snapshot: RunSnapshot, answer: Verdict) -> None:
        diff = self.diff
        sent = commands_of(snapshot.state, answer, self._comment, diff.unwanted, diff.shown)
        told = {
            "keep": tr("attempt {attempt}: kept", attempt=self._attempt),
            "reject": tr("attempt {attempt}: discarded", attempt=self._attempt)
            + way_back(snapshot.state),
            "back": tr("attempt {attempt}: sent back to the agent", attempt=self._attempt),
        }[answer]
        if not self.workbench.steer(sent[0], told):
            return
        for command in sent[1:]:
            self.workbench.steer(command, told)
        self.dismiss()

    def _asked(self) -> int | None:
        """Return the open gate; if there is none, say so: text typed next is no command."""
        gate = self._gate(self.workbench.snapshot())
        if gate is None:
            self.workbench.say_no_line(tr("no answer is asked for this candidate now"))
        return gate

    def action_comment(self) -> None:
        if self._asked() is None:
            return
        keep, drop, back = (way_to(f"review.{name}") for name in ("keep", "reject", "back"))
        self._open_line(
            tr("a comment for the journal (sweep reads none): enter, then {keep} or {drop}",
               keep=keep, drop=drop)
            if self._sweeps
            else tr("a comment for the agent: enter, then {keep}, {drop} or {back}",
                    keep=keep, drop=drop, back=back)
        )  # fmt: skip

    def action_send_back(self) -> None:
        """Ask for the words that go back to the agent with the candidate; enter sends both."""
        if (gate := self._asked()) is None:
            return
        if self._sweeps:
            told = tr("sweep reads no comments and makes no part of a change: {drop} discards it",
                      drop=way_to("review.reject"))  # fmt: skip
            self.workbench.say_no_line(told)
            return
        self._open_line(tr("what the agent is to change: enter sends it back, esc leaves"), gate)

    def _open_line(self, placeholder: str, sends_back: int = 0) -> None:
        self._letter, self._sends_back = None, sends_back
        self.comment.open(placeholder)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._comment = event.value.strip()
        if self._sends_back:
            snapshot = self.workbench.snapshot()
            if self._gate(snapshot) != self._sends_back:
                self.say(tr("no answer is asked for this candidate now"))
            elif not (self.diff.left_out or self._comment):
                self.say(tr("say first what to change, or leave a hunk out: {out}",
                            out=way_to("review.leave_out")))  # fmt: skip
                return
            else:
                self.on_one_line_left()
                self._send(snapshot, "back")
                return
        self.on_one_line_left()

    def on_one_line_left(self) -> None:
        self.comment.close()
        self.diff.focus()
        self.workbench.pull_now()

    def action_hunk(self, step: int) -> None:
        self.diff.to_hunk(step)

    def action_leave_out(self) -> None:
        self.diff.leave_out()
        self.workbench.pull_now()

    def action_split(self) -> None:
        self.diff.split = not self.diff.is_split
        self.diff.lay_out()

    def action_context(self, by: int) -> None:
        if self.diff.left_out:
            self.say(tr("first take all hunks in again: another context may join or part them"))
        else:
            self.diff.more_context(by)
