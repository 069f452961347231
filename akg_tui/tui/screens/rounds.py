"""Two kernels side by side, each with its measurement: rounds of a run, or bests of two runs.

Shows the snapshot taken at opening; changes no run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from textual.app import ComposeResult
from textual.content import Content

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.tui.evidence_reader import EvidenceReader
from akg_tui.tui.screens.run_screen import RunScreen, waiting_line
from akg_tui.tui.textual_internals import drop_keys
from akg_tui.tui.widgets.diff_view import without_colours
from akg_tui.tui.widgets.line_view import LineView
from akg_tui.tui.widgets.painted import Rows, tag_key
from akg_tui.view import formatting
from akg_tui.view.code_rows import CodeRows, Colours, SplitRows, Texts, filled
from akg_tui.view.comparison import (
    Side,
    between,
    between_runs,
    missing_rows,
    name_of,
    side_of,
)
from akg_tui.view.controls.command_registry import Where, footer
from akg_tui.view.diff import (
    Compared,
    compare_kernels,
    find_hunks,
    folded,
    size,
)
from akg_tui.view.evidence.machine_code import code_text, part_name
from akg_tui.view.language import retold, tr
from akg_tui.view.run_snapshot import RunSnapshot
from akg_tui.view.spans import Line, fit, join, line

CONTEXT = 4
_NONE = KernelFiles({"": ""})
_CODE = "code of "
SIDE_BY_SIDE = 100  # columns; below this width both kernels share one column


class Rounds(RunScreen):
    """Attempts `left` and `right` of the run in `snapshot`, or two fixed `sides`."""

    CSS_PATH = "../styles/rounds.tcss"
    where: Where = "rounds"

    def __init__(
        self,
        snapshot: RunSnapshot | None,
        left: int = 0,
        right: int = 0,
        *,
        sides: tuple[Side, Side] | None = None,
        tag_key: bytes = b"",
        colours: Colours | None = None,
        texts: Texts | None = None,
        evidence: EvidenceReader | None = None,
    ) -> None:
        super().__init__()
        self._first = snapshot
        self._chosen = {"left": left, "right": right}
        self._sides = sides
        self._tag_key = snapshot.tag_key if snapshot else tag_key
        self._colours, self._texts = colours or Colours(), texts or Texts()
        self._compared: tuple[tuple[str, str], Compared] | None = None
        self._whole = False
        self._evidence = evidence
        self._in_code = False  # whether machine code is compared instead of the text
        self._read = (0, "")  # the answers of `evidence` that are shown, and what others wait for
        self._latest = snapshot
        self._unread: set[str] = set()
        self._shows = 0
        self._hunks: tuple[int, ...] = ()
        self.about = Rows("about")
        self.view = LineView("diff")
        drop_keys(self.view, "left", "right")  # these keys choose another round
        self.waiting = Rows("call")

    def compose(self) -> ComposeResult:
        yield from (self.about, self.view, self.waiting, self.footer)

    def on_mount(self) -> None:
        self.view.focus()
        self.call_after_refresh(self._show)

    def on_unmount(self) -> None:
        self._compared, self._colours = None, Colours()  # see `LineView.on_unmount`

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    def reword(self) -> None:
        self._show()

    def pull(self, snapshot: RunSnapshot | None) -> None:
        self._foot(snapshot)
        if snapshot is not None and self._in_code and self._evidence is not None:
            self._latest = snapshot
            for blob in self._unread:
                self._evidence.findings(snapshot, blob)  # it finds out one thing at a time
            if self._known(self._evidence) != self._read:
                self._show()
        told = waiting_line(snapshot, "rounds.close")
        self.waiting.display = bool(told)
        self.waiting.show((told,))

    def _foot(self, snapshot: RunSnapshot | None) -> None:
        state = snapshot.state if snapshot else None
        self.footer.pull(footer("rounds", state), self.workbench.wall_clock())

    @property
    def sides(self) -> tuple[Side, Side]:
        if self._sides is not None:
            return self._sides
        snapshot = self._first
        assert snapshot is not None
        left, right = (snapshot.state.attempts[self._chosen[side]] for side in ("left", "right"))
        state, kernel = snapshot.state, snapshot.kernel
        sides = side_of(state, left, kernel), side_of(state, right, kernel)
        return (self._coded(sides[0]), self._coded(sides[1])) if self._in_code else sides

    def _known(self, evidence: EvidenceReader) -> tuple[int, str]:
        """Return what the screen shows of the reader: its answers, and what one waits for."""
        assert self._latest is not None
        return evidence.version, evidence.waits(self._latest) if self._unread else ""

    def _coded(self, side: Side) -> Side:
        """Return a side with its machine code as the text, or why there is none yet."""
        assert self._latest is not None
        assert self._evidence is not None
        found = self._evidence.findings(self._latest, side.key)
        self._unread.discard(side.key)
        if found is None:
            self._unread.add(side.key)
        self._read = self._known(self._evidence)
        if found is None:
            return replace(side, kernel=_NONE, missing=self._evidence.waits(self._latest))
        if not found.code.functions:
            why = retold(found.left_out.get("machine code", ""))
            told = tr("no {part}: {why}", part=part_name("machine code"), why=why)
            return replace(side, kernel=_NONE, missing=told)
        code = KernelFiles({side.kernel.main: code_text(found, side.kernel)})
        return replace(side, key=f"{_CODE}{side.key}", kernel=code)

    def _show(self) -> None:
        self._shows += 1
        self.about.show(tuple(line((self._side_name(side), "muted")) for side in ("left", "right")))
        self.view.take(self._shows, self._build)
        self._foot(self._first)

    def _side_name(self, side: str) -> str:
        """Return the name of a side, shown if its kernel cannot be read."""
        if self._first is None:
            return ""
        return name_of(self._first.state.attempts[self._chosen[side]])

    def _build(self) -> None:
        old, new = self.sides
        half = (self.app.size.width - 3) // 2
        head = [old.title, *old.about], [new.title, *new.about]
        if self._wide:
            rows = [
                (*filled(left, half), (" │ ", "phase.rule"), *fit(right, half))
                for left, right in zip(*head, strict=True)
            ]
        else:
            rows = [
                fit(row, 2 * half)
                for row in (
                    (("- ", "diff.removed.mark"), *old.title),
                    join(old.about, ("   ", "text")),
                    (("+ ", "diff.added.mark"), *new.title),
                    join(new.about, ("   ", "text")),
                )
            ]
        if told := self._between():
            rows.append(fit(told, self.app.size.width))
        self.about.styles.height = len(rows)
        self.about.show(tuple(rows))
        self._draw(old, new)
        missing = [s for s in (old, new) if self._colours.of(s.key) is None]
        if missing and not self._in_code:
            self.run_worker(self._colour(missing), group="colour")

    def _between(self) -> Line:
        if self._first is None:
            return between_runs(*self.sides)
        state = self._first.state
        left, right = (state.attempts[self._chosen[side]] for side in ("left", "right"))
        return between(state, left, right)

    @property
    def _wide(self) -> bool:
        return self.app.size.width >= SIDE_BY_SIDE

    def _draw(self, old: Side, new: Side) -> None:
        named = [(self._side_name("left"), old), (self._side_name("right"), new)]
        if told := missing_rows(named, self.view.room):
            # Nothing is compared: a count of changes would be one of the sentences.
            self._hunks = ()
            self.view.put(told)
            self.view.border_title = Content(tr("compare: {changed}", changed=tr("machine code")))
            self.view.border_subtitle = Content("")
            return
        if self._compared is None or self._compared[0] != (old.key, new.key):
            self._compared = (old.key, new.key), compare_kernels(old.kernel, new.kernel)
        compared = self._compared[1]
        widest = max(map(self._widest, (old, new)))
        added, removed = size(compared)
        shown = compared if self._whole else folded(compared, CONTEXT)
        old_ink, new_ink = self._colours.of(old.key), self._colours.of(new.key)
        changed = f"+{added} -{removed}" if added or removed else tr("no line differs")
        self.view.border_title = Content(tr("compare: {changed}", changed=changed))
        found = find_hunks(shown)
        key = tag_key(self.view, self._tag_key)
        rows = CodeRows(shown, key, old=old_ink, new=new_ink, both=not self._wide, widest=widest)
        if self._wide:
            beside = SplitRows(rows, found, self.view.room)
            self._hunks = tuple(beside.starts.values())
            self.view.put(beside)
        else:
            self._hunks = tuple(hunk.start for hunk in found)
            self.view.put(rows, columns=rows.columns, gutter=rows.gutter)
        self.view.border_subtitle = Content(formatting.count(len(self._hunks), "change"))

    def _widest(self, side: Side) -> int:
        return self._texts.of(side.key, lambda _: side.kernel.page)[1]

    async def _colour(self, missing: Sequence[Side]) -> None:
        try:
            for side in missing:
                coloured = await asyncio.to_thread(self._colours.lex, side.kernel)
                self._colours.keep(side.key, coloured)
        except Exception as error:  # noqa: BLE001 - a kernel without colours can be read too
            self.say(without_colours(error))
            return
        self.view.attempt(lambda: self._draw(*self.sides))

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
            self.view.to_row(max(0, (found[0] if step > 0 else found[-1]) - 1))

    def action_code(self) -> None:
        """Compare the machine code of the two kernels, or their text again."""
        if self._evidence is None:
            self.say(tr("machine code is compared between rounds of one run"))
            return
        self._in_code = not self._in_code
        self._show()
        self.workbench.pull_now()

    def action_fold(self) -> None:
        self._whole = not self._whole
        self._show()
