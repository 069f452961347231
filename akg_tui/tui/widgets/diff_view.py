"""The diff of two kernels to scroll through: unified or side by side, hunk by hunk.

Opens at once at any length, because rows are built when drawn; a thread computes the colours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from textual.content import Content

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.sanitize import one_line
from akg_tui.tui.textual_internals import run_newest
from akg_tui.tui.widgets.line_view import LineView
from akg_tui.view import formatting
from akg_tui.view.code_rows import Colours, DiffRows, SplitRows
from akg_tui.view.diff import Hunk, compare, compare_kernels, find_hunks, folded, size
from akg_tui.view.language import tr

if TYPE_CHECKING:
    from akg_tui.tui.screens.run_screen import RunScreen

CONTEXT = 3
ROOMY_CONTEXT = 12
FEW_CHANGES = 12
SPLIT_FROM = 110


class DiffView(LineView):
    """`split` is the person's choice; None: side by side if the width permits. With `whole` all
    lines are shown, else `context` lines around each change.
    """

    def __init__(self, colours: Colours) -> None:
        super().__init__("diff")
        self._colours = colours
        self.split: bool | None = None
        self.whole = False
        self.left_out: frozenset[int] = frozenset()
        self._starts: dict[int, int] = {}
        self._clear()

    def _clear(self) -> None:
        self._kernels: dict[str, KernelFiles] = {}  # by blob
        self._blobs = "", ""
        self.shown = self.compared = compare((), ())
        self.hunks: tuple[Hunk, ...] = ()
        self.changed = 0, 0

    def on_unmount(self) -> None:
        self._clear()  # see `LineView.on_unmount`

    def compare(self, old: str, new: str, kernel: Callable[[str], KernelFiles]) -> None:
        """Show the kernels of two blobs from the first hunk on."""
        self._blobs = old, new
        self._kernels = {blob: kernel(blob) for blob in self._blobs}
        self.compared = compare_kernels(self._kernels[old], self._kernels[new])
        self.changed = size(self.compared)
        self.context = ROOMY_CONTEXT if sum(self.changed) <= FEW_CHANGES else CONTEXT
        self.fold(whole=self.whole)
        if any(self._colours.of(blob) is None for blob in self._blobs):
            run_newest(self, self._colour, group="colour")

    def fold(self, *, whole: bool) -> None:
        """Show the whole kernels, or what is around the changes."""
        self.whole, self.hunk = whole, 1
        self._show()
        self.to_row(0)
        if self.hunks and self.size:
            self.reveal(self._starts[1])

    def on_resize(self) -> None:
        self.attempt(self.lay_out)

    @property
    def is_split(self) -> bool:
        return self.split if self.split is not None else self.size.width >= SPLIT_FROM

    def lay_out(self) -> None:
        """Build the rows again: for another width, context, layout or colour."""
        split = self.is_split
        old, new = (self._colours.of(blob) for blob in self._blobs)
        rows = DiffRows(self.shown, self.hunks, old=old, new=new, both=not split)
        rows.left_out = self.left_out
        if split:
            beside = SplitRows(rows, self.hunks, self.room)
            self._starts = beside.starts
            self.put(beside)
        else:
            self._starts = {hunk.number: hunk.start for hunk in self.hunks}
            self.put(rows, columns=rows.columns, gutter=rows.gutter)
        self._tell()

    async def _colour(self) -> None:
        try:
            for blob, kernel in list(self._kernels.items()):
                if self._colours.of(blob) is None:
                    coloured = await asyncio.to_thread(self._colours.lex, kernel)
                    self._colours.keep(blob, coloured)
        except Exception as error:  # noqa: BLE001 - a diff without colours can be judged too
            why = one_line(f"{type(error).__name__}: {error}")
            cast("RunScreen", self.screen).say(tr("without colours: {why}", why=why))
            return
        self.attempt(self.lay_out)

    def more_context(self, by: int) -> None:
        self.context = max(0, self.context + by)
        self._show()
        self._reveal()

    def _show(self) -> None:
        self.shown = self.compared if self.whole else folded(self.compared, self.context)
        self.hunks = find_hunks(self.shown)
        self.lay_out()

    def to_hunk(self, step: int) -> None:
        """Go to the next hunk, or with -1 to the previous one."""
        if self.hunks:
            self.hunk = min(len(self.hunks), max(1, self.hunk + step))
            self._reveal()
            self._tell()

    def _reveal(self) -> None:
        if self.hunks:
            self.to_row(max(0, self._starts[self.hunk] - 1))

    def leave_out(self) -> None:
        """Leave the current hunk out, or include it again."""
        if self.hunks:
            self.left_out ^= {self.hunk}
            self.lay_out()

    @property
    def unwanted(self) -> list[Hunk]:
        return [hunk for hunk in self.hunks if hunk.number in self.left_out]

    def _tell(self) -> None:
        text = tr("no difference")
        if self.hunks:
            text = tr("hunk {number} of {many}", number=self.hunk, many=len(self.hunks))
        if self.left_out:
            text += tr(", {hunks} left out", hunks=formatting.count(len(self.left_out), "hunk"))
        self.border_subtitle = Content(text)

    def reword(self) -> None:
        super().reword()
        self.lay_out()
