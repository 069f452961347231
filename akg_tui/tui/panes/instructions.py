"""The machine code of the kernel under work, with its source lines, compared with the best one's.

Opens at the likeliest hot loop. The arrow keys pick a source line with its instructions.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from textual.content import Content

from akg_tui.core.kernel.kernel_files import KernelFiles, Place
from akg_tui.core.sanitize import Said, one_line
from akg_tui.evidence.findings import KernelFindings
from akg_tui.tui.panes.pane import Pane, Shared
from akg_tui.tui.textual_internals import run_newest
from akg_tui.tui.widgets.line_view import Lead, LineView
from akg_tui.view.diff import find_hunks, size
from akg_tui.view.evidence.machine_code import ComparedCode, code_rows, part_name
from akg_tui.view.language import retold, tr
from akg_tui.view.spans import Line, hang, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from akg_tui.view.run_snapshot import RunSnapshot


class InstructionsPane(LineView, Pane):
    TITLE = Said("machine code")
    picks = True

    def __init__(self, name: str, shared: Shared) -> None:
        super().__init__(name)
        self._reader = shared.evidence
        self._code: ComparedCode | None = None
        self._groups: list[int] = []
        self._changes: tuple[int, ...] = ()
        self._sought = 0
        """The line of the kernel to go to as soon as its code is known."""
        self._files: tuple[str, ...] = ()
        self._places: Sequence[Place] = ()
        """Where each line of the kernel's text stands, if it has several files."""

    def pull(self, snapshot: RunSnapshot) -> None:
        best, blob = snapshot.state.standing_blob, snapshot.state.work_blob
        new = self._reader.findings(snapshot, blob)
        old = new if best == blob else self._reader.findings(snapshot, best)
        waits = self._reader.waits(snapshot) if new is None or old is None else ""
        code = new is not None and old is not None and bool(new.code.functions or new.code.report)
        # Only sentences are wrapped.
        if not self.moved((blob, best, new is None, old is None, waits, code or self.room)):
            return
        if new is None or old is None:
            self._tell((waits,))
        elif not (new.code.functions or new.code.report):
            told = [
                tr("no {part}: {why}", part=part_name(part), why=retold(why))
                for part, why in new.left_out.items()
            ]
            self._tell(told)
        else:
            kernels = [snapshot.kernel(each) for each in (best, blob)]
            self._files, self._places = kernels[1].names, kernels[1].places_of_several
            work = partial(self._build, (old, new), kernels)
            run_newest(self, work, group="instructions")

    def _tell(self, told: Iterable[str]) -> None:
        self._code, self._groups, self._changes = None, [], ()
        self._picked = range(0)
        rows: list[Line] = []
        for text in told:
            rows += hang(one_line(text), self.room, (), "muted")
        self.put(rows)
        self.entitle(tr(self.TITLE))
        self.border_subtitle = Content("")

    async def _build(
        self, pair: tuple[KernelFindings, KernelFindings], kernels: Sequence[KernelFiles]
    ) -> None:
        """Compare two kernels in a thread, and show the result."""

        def work() -> tuple[ComparedCode, list[int], int]:
            rows = [code_rows(*each) for each in zip(pair, kernels, strict=True)]
            code = ComparedCode(*rows)
            return code, code.groups(), code.at_hot_loop()

        try:
            code, groups, hot = await asyncio.to_thread(work)
        except Exception as error:  # noqa: BLE001 - the pane shows it, the run goes on
            self.broke(error)
            return
        self._code, self._groups = code, groups
        self._changes = tuple(hunk.start for hunk in find_hunks(code.compared))
        self._picked = range(0)
        self.put(code, columns=code.columns)
        added, removed = size(code.compared)
        told = tr("machine code of {name}", name=one_line(kernels[1].main))
        self.entitle(f"{told} +{added} -{removed}" if added or removed else told)
        found = pair[1].code
        subtitle = one_line(found.compiler, 60)
        if many := sum(len(function.rows) for function in found.functions):
            subtitle = f"{subtitle}  {tr('{many} instructions', many=many)}".lstrip()
        self.border_subtitle = Content(subtitle)
        if self._sought:
            self._to_source_line(self._sought)
        else:
            self.to_row(max(0, hot - 2))

    def enter(self) -> Lead:
        """Lead to the line of the picked row, or of the first row on screen."""
        if self._code is None or not self._groups:
            return Lead("source", None)
        at = self._picked.start if self._picked else self.top
        group = bisect_right(self._groups, at) - 1
        line = self._code.row_of(self._groups[max(0, group)]).line
        if not self._places or not line:
            return Lead("source", (0, line) if line else None)
        file, number = self._places[line - 1]
        return Lead("source", (self._files.index(file), number))

    def come_to(self, place: object) -> str:
        """Go to the instructions of a line, named by the position of its file and its number."""
        assert isinstance(place, tuple)
        file, line = place
        if self._places:
            wanted = Place(self._files[file], line)
            line = self._places.index(wanted) + 1 if wanted in self._places else 1
        return self._to_source_line(line)

    def _to_source_line(self, number: int) -> str:
        """Go to the instructions of a line of the kernel's text; return a message about it."""
        if self._code is None:
            self._sought = number
            return tr("the machine code is not there yet")
        self._sought = 0
        rows = self._code.of_line(number)
        if not rows:
            return tr("no instruction comes from line {number} or later", number=number)
        self.to_row(max(0, rows.start - self.page // 3))
        self.pick(rows)
        found = self._code.row_of(rows.start).line
        if found != number:
            return tr(
                "line {number} has no instruction; line {found} has", number=number, found=found
            )
        return tr("the instructions of line {number}", number=number)

    def pick_step(self, step: int) -> None:
        """Pick the next source line with its instructions, the first one in sight to begin with."""
        if self._code is None or not self._groups:
            return
        if self._picked:
            place = self._groups.index(self._picked.start) + step
        else:
            place = bisect_left(self._groups, self.top)
        start = self._groups[min(len(self._groups) - 1, max(0, place))]
        self.pick(self._code.group(start))

    def turn(self, step: int) -> str:
        """Go to the next change against the best kernel's code, or back; return its number."""
        if not self._changes:
            return tr("no instruction differs from the best kernel")
        here = self.top + self.page // 3 if self.top else -1
        later = [n for n, row in enumerate(self._changes) if row > here]
        earlier = [n for n, row in enumerate(self._changes) if row < here]
        number = (later or [0])[0] if step > 0 else (earlier or [len(self._changes) - 1])[-1]
        self.to_row(max(0, self._changes[number] - self.page // 3))
        return tr("change {number} of {many}", number=number + 1, many=len(self._changes))

    def texts(self) -> Iterable[str]:
        return self._code.texts() if self._code is not None else map(plain, self.rows)
