"""The review: a candidate's diff against the best kernel, with its measurement beside it.

Shows one candidate, whatever the run does meanwhile. Answers only a gate that is open for
that candidate, and only after having been on screen for a moment.
"""

from __future__ import annotations

import asyncio

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input

from akg_tui.core import commands as cmd
from akg_tui.core.plain import one_line
from akg_tui.core.state import RunState
from akg_tui.tui import words
from akg_tui.tui.code import CodeRows, Colours
from akg_tui.tui.commands import footer
from akg_tui.tui.compare import compare, folded, hunks, size, split_lines
from akg_tui.tui.glyphs import VERDICT
from akg_tui.tui.look import Look
from akg_tui.tui.screens.watching import Watching, bindings
from akg_tui.tui.spans import Line, fit, line
from akg_tui.tui.widgets.askcard import Arming
from akg_tui.tui.widgets.lineview import LineView
from akg_tui.tui.widgets.oneline import OneLine
from akg_tui.tui.widgets.painted import Rows

CONTEXT = 3
ROOMY_CONTEXT = 12
FEW_CHANGES = 12


class DiffView(LineView):
    """The unified diff. Colour arrives later, from a thread."""

    def __init__(self, look: Look, colours: Colours, old: str, new: str) -> None:
        super().__init__("diff")
        self._colours = colours
        self._blobs = (old, new)
        self._texts = (look.kernel(old), look.kernel(new))
        compared = compare(split_lines(self._texts[0]), split_lines(self._texts[1]))
        self.changed = size(compared)
        context = ROOMY_CONTEXT if sum(self.changed) <= FEW_CHANGES else CONTEXT
        self._code = CodeRows(
            folded(compared, context),
            look.tag_key,
            old=colours.of(old),
            new=colours.of(new),
            both=True,
        )
        self.hunks = hunks(self._code.compared)

    def on_mount(self) -> None:
        self.put(self._code, columns=self._code.columns)
        self.run_worker(self._colour(), group="colour")

    async def _colour(self) -> None:
        for blob, text in zip(self._blobs, self._texts, strict=True):
            if self._colours.of(blob) is None:
                self._colours.keep(blob, await asyncio.to_thread(self._colours.lex, text))
        old, new = (self._colours.of(blob) for blob in self._blobs)
        self._code.recolour(old=old, new=new)
        self.put(self._code, columns=self._code.columns)

    def to_hunk(self, step: int) -> int:
        """Go to the next hunk (or the one before, with -1); its number from 1, 0 if none."""
        top = self.scroll_offset.y + 1
        if step > 0:
            found = [n for n, row in enumerate(self.hunks) if row > top]
            number = found[0] if found else len(self.hunks) - 1
        else:
            found = [n for n, row in enumerate(self.hunks) if row < top]
            number = found[-1] if found else 0
        if self.hunks:
            self._move(max(0, self.hunks[number] - 1))
        return number + 1 if self.hunks else 0


class Review(Watching):
    CSS_PATH = "../styles/review.tcss"
    BINDINGS = bindings("review")

    def __init__(self, look: Look, colours: Colours) -> None:
        super().__init__()
        state = look.state
        assert state.best is not None
        self._blob = state.work_blob
        self._attempt = state.next_attempt
        self._item = state.active or ""
        self._best = state.best
        self._first = look
        self.about = Rows("about")
        self.diff = DiffView(look, colours, self._best.blob, self._blob)
        self.comment = OneLine("comment", "a comment for the agent: enter keeps it, then K or D")
        self._arming = Arming()
        self._comment = ""

    def compose(self) -> ComposeResult:
        yield self.about
        yield self.diff
        yield self.comment
        yield self.footer

    def on_mount(self) -> None:
        diff = self.diff
        added, removed = diff.changed
        name = one_line(self._first.state.task.files.editable)
        diff.border_title = Content(f"{name} +{added} -{removed} against the best")
        diff.border_subtitle = Content(words.count(len(diff.hunks), "hunk"))
        diff.focus()
        self.pull(self._first)

    def pull(self, look: Look) -> None:
        gate = self._gate(look)
        self._arming.ask(gate)
        if gate is not None and self.is_current:
            self.call_after_refresh(self._arming.painted, look.now)
        room = max(1, self.app.size.width - 2)
        rows = [*self._about(look.state), self._standing(look, gate)]
        self.about.show(tuple(fit(row, room) for row in rows))
        self.footer.pull(footer("review", look.state), look.now)

    def _gate(self, look: Look) -> int | None:
        """The open gate, if it asks about the candidate shown here."""
        gate = look.state.gate
        asks = gate is not None and gate.kind in ("keep", "edit")
        mine = look.waits and asks and gate is not None and gate.attempt == self._attempt
        return gate.gate if mine and gate is not None else None

    def _about(self, state: RunState) -> list[Line]:
        text = ""
        if self._item:
            item = state.item(self._item)
            text = one_line(item.text)
        head = line(
            (f"review of attempt {self._attempt}  ", "brand"),
            (f"{self._item} ", "accent"),
            (text, "strong"),
        )
        settled = next((a for a in state.attempts if a.number == self._attempt), None)
        measured = settled.measurement if settled else None
        if measured is None and state.next_attempt == self._attempt:
            measured = state.measured
        if measured is None:
            return [head, line(("not measured yet", "muted")), line(("", "text"))]
        told = words.sure(measured.ratio) if measured.ratio else one_line(measured.message)
        figures: list[str] = []
        if measured.candidate_ms is not None and measured.baseline_ms is not None:
            before, after = map(words.milliseconds, (measured.baseline_ms, measured.candidate_ms))
            figures.append(f"{before} → {after} a call")
        if measured.clusters:
            figures.append(f"{words.count(measured.clusters, 'pair')}")
        if measured.max_error is not None and measured.tolerance is not None:
            figures.append(f"error {measured.max_error:.1e} of {measured.tolerance:.1e} allowed")
        return [head, line((told, "figure")), line((", ".join(figures), "muted"))]

    def _standing(self, look: Look, gate: int | None) -> Line:
        if gate is not None:
            comment = f"  comment: {one_line(self._comment)}" if self._comment else ""
            if not self._arming.armed(gate, look.now):
                return line(("the run waits for you: the keys count in a moment", "note"))
            return line(
                ("the run waits for you:  ", "note"),
                ("K", "key"), (" keep  ", "text"),
                ("D", "key"), (" reject  ", "text"),
                ("c", "key"), (" comment", "text"),
                (comment, "muted"),
            )  # fmt: skip
        for attempt in look.state.attempts:
            if attempt.number == self._attempt:
                glyph, role = VERDICT[attempt.verdict]
                return line((f"{glyph} {attempt.verdict} ", role), one_line(attempt.reason))
        return line((f"in {look.state.phase}: nothing waits for an answer", "muted"))

    def action_answer(self, answer: str) -> None:
        look = self.steering.look()
        gate = self._gate(look)
        if gate is None:
            self.say("no answer is asked for this candidate now")
        elif not self._arming.armed(gate, look.now):
            self.say("not yet: the keys count once this has been in sight for a moment")
        else:
            approve = answer == "keep"
            told = f"attempt {self._attempt}: {'kept' if approve else 'rejected'}"
            if self.steering.steer(cmd.AnswerGate(gate, approve, self._comment), told):
                self.dismiss()

    def action_comment(self) -> None:
        if self._gate(self.steering.look()) is None:
            self.say("no answer is asked for this candidate now")
        else:
            self.comment.open()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._comment = event.value.strip()
        self.on_one_line_left()

    def on_one_line_left(self) -> None:
        self.comment.close()
        self.diff.focus()
        self.steering.pull_now()

    def action_hunk(self, step: int) -> None:
        diff = self.diff
        number = diff.to_hunk(step)
        diff.border_subtitle = Content(f"hunk {number} of {len(diff.hunks)}")

    def action_close(self) -> None:
        self.dismiss()
