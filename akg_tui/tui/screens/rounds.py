"""Two kernels side by side, each with its measurement: rounds of a run, or bests of two runs.

Shows what it was given when it was opened; nothing here changes a run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual.app import ComposeResult
from textual.content import Content

from akg_tui.core.measurement import Outcome
from akg_tui.core.phases import Verdict
from akg_tui.core.sanitize import one_line
from akg_tui.core.state import Attempt, RunState
from akg_tui.tui.screens.run_screen import Watching, bindings, called
from akg_tui.tui.widgets.diff_view import without_colours
from akg_tui.tui.widgets.line_view import LineView
from akg_tui.tui.widgets.painted import Rows
from akg_tui.view import formatting
from akg_tui.view.code_rows import CodeRows, Colours, Texts
from akg_tui.view.controls.command_registry import Where, footer
from akg_tui.view.diff import Compared, Kind, Row, SideBySide, compare, find_hunks, folded, size
from akg_tui.view.glyphs import VERDICT
from akg_tui.view.language import retold, tr
from akg_tui.view.lazy_rows import OnDemand
from akg_tui.view.run_snapshot import RunSnapshot
from akg_tui.view.spans import Line, fit, line, width

CONTEXT = 4
SIDE_BY_SIDE = 100  # columns; with fewer, the two stand in one column


@dataclass(frozen=True)
class Exhibit:
    """One side: who it is, in lines, and its kernel. `key` names the text."""

    key: str
    title: Line
    about: tuple[Line, ...]
    text: str


def exhibit(state: RunState, attempt: Attempt, kernel: Callable[[str], str]) -> Exhibit:
    """An attempt of a run, as one side."""
    glyph, role = VERDICT[attempt.verdict]
    if attempt.number:
        item = one_line(state.item(attempt.item).text)
        title = line(
            (f"{tr('round {number}', number=attempt.round)} ", "strong"),
            (f"{glyph} {attempt.verdict} ", role),
            (f"{attempt.item} ", "accent"),
            (item, "text"),
        )
    else:
        title = line((f"{tr('the seed')} ", "strong"))
    measured = attempt.measurement
    over = formatting.times(attempt.over_seed) if attempt.over_seed else ""
    took = formatting.milliseconds(measured.candidate_ms) if measured.candidate_ms else ""
    first = line(
        (over, "figure"),
        (f" {tr('the seed')}  " if over else "", "muted"),
        (tr("{time} a call", time=took) if took else "", "text"),
    )
    if measured.outcome is not Outcome.CORRECT:
        second = line((retold(one_line(measured.message)), "log.error"))
    elif attempt.number and measured.ratio:
        second = line((formatting.sure(measured.ratio), "text"))
    else:
        second = line((tr("against the reference"), "muted"))
    if attempt.verdict is Verdict.KEEP and attempt.number in state.undone:
        second = (*second, (f"  {tr('undone')}", "note"))
    return Exhibit(attempt.blob, title, (first, second), kernel(attempt.blob))


class SideRows(OnDemand[Line]):
    """Pairs of rows, drawn when asked for."""

    def __init__(self, old: CodeRows, new: CodeRows, room: int) -> None:
        self.old, self.new = old, new
        self._half = (room - 3) // 2

    def __len__(self) -> int:
        return len(self.old)

    def _made(self, index: int) -> Line:
        left, right = self.old[index], self.new[index]
        if self.old.compared[index].kind is Kind.GAP:
            return left
        return (*_filled(left, self._half), (" │ ", "phase.rule"), *_filled(right, self._half))


def _filled(row: Line, room: int) -> Line:
    row = fit(row, room)
    ground = row[-1][1] if row and "|" in row[-1][1] else "text"
    return (*row, (" " * (room - width(row)), ground))


_NONE = Row(Kind.SAME, 0, 0)


class _SideRows(OnDemand[Row]):
    """The rows of one side of pairs: 0 the left, 1 the right, each with its own number."""

    def __init__(self, rows: Compared, pairs: SideBySide, side: int) -> None:
        self.last = rows.last
        self._rows, self._pairs, self._side = rows, pairs, side

    def __len__(self) -> int:
        return len(self._pairs)

    def _made(self, index: int) -> Row:
        number = self._pairs[index][self._side]
        if number is None:
            return _NONE
        row = self._rows[number]
        if row.kind is Kind.SAME and not self._side:
            return Row(row.kind, row.old, row.old, row.text)
        return row


class _Half(CodeRows):
    """One side; a row without a partner is empty."""

    def _row(self, row: Row) -> Line:
        return () if row is _NONE else super()._row(row)


class _View(LineView):
    """The arrows to the sides are the screen's: they choose another round."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        for key in ("left", "right"):
            self._bindings.key_to_bindings.pop(key, None)


class Rounds(Watching):
    """Attempts `left` and `right` of the run in `look`; or two `sides` that stay as they are."""

    CSS_PATH = "../styles/rounds.tcss"
    BINDINGS = bindings("rounds")
    where: Where = "rounds"

    def __init__(
        self,
        look: RunSnapshot | None,
        left: int = 0,
        right: int = 0,
        *,
        sides: tuple[Exhibit, Exhibit] | None = None,
        tag_key: bytes = b"",
        texts: Texts | None = None,
    ) -> None:
        super().__init__()
        self._first = look
        self._chosen = {"left": left, "right": right}
        self._sides = sides
        self._tag_key = look.tag_key if look else tag_key
        self._colours, self._texts = Colours(), texts or Texts()
        self._compared: tuple[tuple[str, str], Compared] | None = None
        self._missing: Sequence[Exhibit] = ()
        self._whole = False
        self._shows = 0
        self._hunks: tuple[int, ...] = ()
        self.about = Rows("about")
        self.view = _View("diff")
        self.call = Rows("call")

    def compose(self) -> ComposeResult:
        yield self.about
        yield self.view
        yield self.call
        yield self.footer

    def on_mount(self) -> None:
        self.view.focus()
        self.call_after_refresh(self._show)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    def reword(self) -> None:
        self._show()

    def pull(self, look: RunSnapshot | None) -> None:
        self._foot(look)
        told = called(look, "rounds.close")
        self.call.display = bool(told)
        self.call.show((told,))

    def _foot(self, look: RunSnapshot | None) -> None:
        state = look.state if look else None
        self.footer.pull(footer("rounds", state), self.steering.wall_clock())

    @property
    def sides(self) -> tuple[Exhibit, Exhibit]:
        if self._sides is not None:
            return self._sides
        look = self._first
        assert look is not None
        left, right = (look.state.attempts[self._chosen[side]] for side in ("left", "right"))
        return exhibit(look.state, left, look.kernel), exhibit(look.state, right, look.kernel)

    def _show(self) -> None:
        self._shows += 1
        self.about.show(tuple(line((self._called(side), "muted")) for side in ("left", "right")))
        self.view.take(self._shows, self._build)
        self._foot(self._first)

    def _called(self, side: str) -> str:
        """What is told of a side whose kernel cannot be read."""
        if self._first is None:
            return ""
        attempt = self._first.state.attempts[self._chosen[side]]
        return tr("round {number}", number=attempt.round) if attempt.number else tr("the seed")

    def _build(self) -> None:
        old, new = self.sides
        room = self.view.room
        wide = self.app.size.width >= SIDE_BY_SIDE
        half = (self.app.size.width - 3) // 2
        head = [old.title, *old.about], [new.title, *new.about]
        if wide:
            rows = [
                (*_filled(left, half), (" │ ", "phase.rule"), *fit(right, half))
                for left, right in zip(*head, strict=True)
            ]
        else:
            rows = [fit((("- ", "diff.removed.mark"), *old.title), 2 * half),
                    fit((*old.about[0], ("   ", "text"), *old.about[1]), 2 * half),
                    fit((("+ ", "diff.added.mark"), *new.title), 2 * half),
                    fit((*new.about[0], ("   ", "text"), *new.about[1]), 2 * half)]  # fmt: skip
        self.about.styles.height = len(rows)
        self.about.show(tuple(rows))
        self._draw(old, new, room, wide=wide)
        if missing := [s for s in (old, new) if self._colours.of(s.key) is None]:
            self._missing = missing
            self.run_worker(self._colour(), group="colour")

    def _draw(self, old: Exhibit, new: Exhibit, room: int, *, wide: bool) -> None:
        (before, old_widest), (after, new_widest) = self._lines(old), self._lines(new)
        if self._compared is None or self._compared[0] != (old.key, new.key):
            self._compared = (old.key, new.key), compare(before, after)
        compared, widest = self._compared[1], max(old_widest, new_widest)
        added, removed = size(compared)
        shown = compared if self._whole else folded(compared, CONTEXT)
        old_ink, new_ink = self._colours.of(old.key), self._colours.of(new.key)
        changed = f"+{added} -{removed}" if added or removed else tr("no line differs")
        self.view.border_title = Content(tr("compare: {changed}", changed=changed))
        found = find_hunks(shown)
        if wide:
            pairs, key = SideBySide(shown, found), self._tag_key
            left, right = _SideRows(shown, pairs, 0), _SideRows(shown, pairs, 1)
            rows = SideRows(
                _Half(left, key, old=old_ink, new=old_ink, widest=widest),
                _Half(right, key, old=old_ink, new=new_ink, widest=widest),
                room,
            )
            self._hunks = tuple(pairs.starts)
            self.view.put(rows)
        else:
            unified = CodeRows(
                shown, self._tag_key, old=old_ink, new=new_ink, both=True, widest=widest
            )
            self._hunks = tuple(hunk.start for hunk in found)
            self.view.put(unified, columns=unified.columns)
        self.view.border_subtitle = Content(formatting.count(len(self._hunks), "change"))

    def _lines(self, side: Exhibit) -> tuple[tuple[str, ...], int]:
        return self._texts.of(side.key, lambda _: side.text)

    async def _colour(self) -> None:
        try:
            for side in self._missing:
                coloured = await asyncio.to_thread(self._colours.lex, side.text)
                self._colours.keep(side.key, coloured)
        except Exception as error:  # noqa: BLE001 - a kernel without colours can be read too
            self.say(without_colours(error))
            return
        wide = self.app.size.width >= SIDE_BY_SIDE
        self.view.attempt(lambda: self._draw(*self.sides, self.view.room, wide=wide))

    def action_side(self, side: str, step: int) -> None:
        if self._first is None:
            self.say(tr("these are two runs: there is no other round to show"))
            return
        last = len(self._first.state.attempts) - 1
        self._chosen[side] = max(0, min(last, self._chosen[side] + step))
        self._show()

    def action_hunk(self, step: int) -> None:
        top = self.view.scroll_offset.y + 1
        found = [n for n in self._hunks if (n > top if step > 0 else n < top)]
        if found:
            self.view._move(max(0, (found[0] if step > 0 else found[-1]) - 1))

    def action_fold(self) -> None:
        self._whole = not self._whole
        self._show()

    def action_close(self) -> None:
        self.dismiss()
