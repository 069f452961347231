"""The list of runs below a folder, the first screen if no run is named.

Shows the runs that a `RunScanner` has found and read; opens, resumes, reports and discards
runs by the same functions as the commands of the command line.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Click

from akg_tui.core.sanitize import one_line
from akg_tui.engine.attach import NotAttached, ask_to_detach
from akg_tui.engine.run_scanner import RunScanner
from akg_tui.engine.run_service import Limits, RunRequest
from akg_tui.resources import DEMO_ROUNDS, DEMO_SAMPLE
from akg_tui.store.errors import StoreError
from akg_tui.store.run_at_rest import discard_run
from akg_tui.tui import run_start
from akg_tui.tui.export import report
from akg_tui.tui.fork_actions import let_go_on, raise_limits
from akg_tui.tui.screens.dialogs import Confirm
from akg_tui.tui.screens.new_run import ChooseStart
from akg_tui.tui.screens.run_screen import RunScreen
from akg_tui.tui.textual_internals import OPENING
from akg_tui.tui.widgets.line_view import LineView
from akg_tui.tui.widgets.painted import Rows
from akg_tui.tui.widgets.text_line import OneLine
from akg_tui.view.controls.command_registry import Where, footer, way_to
from akg_tui.view.controls.preferences import SORTS
from akg_tui.view.formatting import count
from akg_tui.view.language import retold, tr, tr_in
from akg_tui.view.run_rows import RunRows, column_heads, filtered, home_path, last_part, run_details
from akg_tui.view.run_snapshot import RunSnapshot
from akg_tui.view.spans import BLANK, Line, fit, line, spread

if TYPE_CHECKING:
    from akg_tui.engine.run_scanner import ListedRun

_FRAME = 2  # columns of the frame of the details
SETTLE_S = 0.3  # shortest time between two automatic sorts of the list


class RunsView(LineView):
    """The list with a cursor; its screen carries out the keys."""

    picks = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "step(-1000000)", show=False),
        Binding("end", "step(1000000)", show=False),
    ]

    def pick_step(self, step: int) -> None:
        cast("Runs", self.screen).move(step)

    def action_page(self, step: int) -> None:
        cast("Runs", self.screen).move(step * max(1, self.page - 1))

    def pick_row(self, row: int) -> None:
        cast("Runs", self.screen).move_to(row)

    def mark(self, rows: range) -> None:
        """Mark the row under the cursor at the next `put`, and stay where the person scrolled."""
        self._picked = rows

    def show_row(self, row: int) -> None:
        self.bring(range(row, row + 1))


class Runs(RunScreen):
    """The list of the runs below `folder`, with a filter and a cursor."""

    CSS_PATH = "../styles/runs.tcss"
    where: Where = "runs"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.catalogue = RunScanner(folder)
        self.shown: list[ListedRun] = []
        self.cursor = 0
        self._at: Path | None = None
        self._drawn: tuple[object, ...] = ()
        self._ordered = -1, 0.0
        self._carried = False  # the last sort moved the cursor with its run
        self.top = Rows("top")
        self.view = RunsView("runs")
        self.detail = Rows("about")
        self.filter = OneLine("filter", "")
        self.reword()

    def compose(self) -> ComposeResult:
        yield from (self.top, self.view, self.detail, self.filter, self.footer)

    def on_mount(self) -> None:
        self.catalogue.start()
        self.view.focus()

    def on_unmount(self) -> None:
        self.catalogue.stop()

    def reword(self) -> None:
        self.filter.placeholder = tr("words that a run must have: enter keeps them")
        self._drawn = ()
        self._ordered = -1, 0.0  # the order may have changed too

    @property
    def sort(self) -> str:
        """The order of the list."""
        return self.workbench.appearance.runs_sort

    @property
    def here(self) -> ListedRun | None:
        """The run under the cursor."""
        return self.shown[self.cursor] if self.cursor < len(self.shown) else None

    @property
    def news(self) -> int:
        """A number that changes whenever the list of found runs changes."""
        return self.catalogue.version

    def pull(self, snapshot: RunSnapshot) -> None:
        """Do nothing: the list shows no single run."""

    def pull_runs(self, now: float) -> None:
        """Show the runs found so far; sort them at most once in `SETTLE_S`."""
        self._order()
        room = self.view.room
        drawn = (
            self._ordered[0], self.cursor, room, self.sort,
            self.filter.value, int(now) // 30, self.catalogue.searched,
        )  # fmt: skip
        if drawn != self._drawn:
            self._drawn = drawn
            rows = RunRows(self.shown, now=now, room=room, cursor=self.cursor)
            first = self.catalogue.searched and not self.catalogue.many
            self.view.mark(range(0) if first else range(self.cursor, self.cursor + 1))
            self.view.put(self._first_rows(room) if first else rows)
            if self._carried:
                self._carried = False
                self.view.show_row(self.cursor)
            self._tell(now)
        top = self.view.scroll_offset.y
        self.catalogue.want([run.path for run in self.shown[top : top + self.view.page]])
        empty = self.catalogue.searched and not self.catalogue.many
        self.footer.pull(footer("runs", None, empty=empty), now)

    def _order(self) -> None:
        version, at = self._ordered
        if version == self.catalogue.version or time.monotonic() - at < SETTLE_S:
            return
        self._sort()

    def _sort(self) -> None:
        self._ordered = self.catalogue.version, time.monotonic()
        self.shown = filtered(self.catalogue.runs, self.filter.value, self.sort)
        # The cursor stays on its run; before the first move it stays on the top row.
        if self._at is not None:
            before = self.cursor
            least = min(self.cursor, max(0, len(self.shown) - 1))
            places = (place for place, run in enumerate(self.shown) if run.path == self._at)
            self.cursor = next(places, least)
            self._carried = self._carried or self.cursor != before
        self._drawn = ()

    def _first_rows(self, room: int) -> list[Line]:
        """Return what can be done where there is no run yet, with the keys."""
        offered = (
            ("runs.demo", tr("try the demo: a bundled sample, without key or GPU")),
            ("runs.new", tr("tune a kernel of mine, a task or a sample")),
        )
        rows = [line("  ", (way_to(name), "key"), f"  {told}") for name, told in offered]
        return [BLANK, *(fit(row, room) for row in rows)]

    def _tell(self, now: float) -> None:
        room = max(1, self.app.size.width - 2)
        catalogue, unread = self.catalogue, self.catalogue.unread
        where = last_part(home_path(self.folder.absolute()), max(12, room - 52))
        told = count(catalogue.many, "run")
        if self.filter.value:
            told = tr("{shown} of {runs}", shown=len(self.shown), runs=told)
        wanted = repr(one_line(self.filter.value))
        left = line(
            ("akg-tui", "brand"), (f"  {told}", "strong"),
            (tr(", {number} to be read", number=unread) if unread else "", "muted"),
            (f" {tr_in('runs', 'below')} ", "muted"), (where, "text"),
            (f"  {tr('has {words}', words=wanted)}" if self.filter.value else "", "note"),
        )  # fmt: skip
        right = line((f"{tr('by')} ", "muted"), (tr(self.sort), "accent"))
        self.top.show((spread(left, right, room), column_heads(self.view.room)))
        here = self.here
        if here is not None:
            self.detail.show(tuple(run_details(here, now, max(1, room - _FRAME))))
            return
        trouble = retold(catalogue.trouble)
        if trouble:
            empty = [line((trouble, "log.error"))]
        elif not catalogue.searched:
            empty = [line((tr("looking for runs …"), "muted"))]
        elif self.filter.value:
            key = way_to("runs.filter")
            empty = [line((tr("no run has these words; {key} changes them", key=key), "muted"))]
        else:
            empty = [line((tr("There is no run here yet."), "text"))]
        self.detail.show(tuple(fit(each, max(1, room - _FRAME)) for each in empty))

    def on_click(self, event: Click) -> None:
        """A double click opens a run."""
        inside = self.view.content_region.contains_point(event.screen_offset)
        if event.chain == 2 and inside and self.here is not None:
            self.action_open()

    def move(self, step: int) -> None:
        self.move_to(self.cursor + step)

    def move_to(self, row: int) -> None:
        self.cursor = max(0, min(len(self.shown) - 1, row))
        self._at = self.here.path if self.here else None
        self.view.show_row(self.cursor)
        self.pull_runs(self.workbench.wall_clock())

    def come_to(self, path: Path) -> bool:
        """Put the cursor on this run as soon as it is found."""
        self._at = path
        self.catalogue.refresh()
        return True

    def come_back(self) -> None:
        """Refresh the list after a run was left, because its row may be old."""
        self.catalogue.refresh()
        self.view.focus()

    def _chosen(self) -> ListedRun | None:
        if self.here is None:
            self.say(tr("there is no run here"))
        return self.here

    def action_open(self) -> None:
        run = self._chosen()
        if run is None:
            return
        if run.summary is not None and run.summary.damaged:
            self.say(run.summary.damaged)
            return
        running = run.summary is not None and run.summary.status == "running"
        path = run.path
        self.say(tr("opening {run} …", run=run.name))
        self.workbench.open_run(lambda: run_start.watched(path, steer=running), past=not running)

    def action_resume(self) -> None:
        run = self._chosen()
        if run is None:
            return
        told = run.summary
        if told is not None and told.damaged:
            self.say(told.damaged)
        elif told is not None and told.finished:
            self.run_worker(self._ask_limits(run.path), name="ask limits", group=OPENING)
        elif told is not None and told.status == "running":
            self.say(tr("process {pid} is at work on it; {key} watches and steers it",
                        pid=told.pid, key=way_to("runs.open")))  # fmt: skip
        else:
            path = run.path
            self.say(tr("resuming {run} …", run=run.name))
            self.workbench.open_run(lambda: run_start.resumed(path))

    def action_detach(self) -> None:
        run = self._chosen()
        told = run.summary if run is not None else None
        if run is None or told is None:
            return
        if told.damaged or told.finished:
            self.say(told.damaged or tr("the run is over: {why}", why=retold(told.finished)))
            return
        running = told.status == "running"
        self.say(tr("detaching {run} …", run=run.name))
        self.run_worker(self._go_detached(run.path, running=running), name="detach", group=OPENING)

    async def _go_detached(self, path: Path, *, running: bool) -> None:
        """Let a run at rest go on without a terminal, or one at work leave its own."""
        try:
            if running:
                refused = await asyncio.to_thread(ask_to_detach, path)
                self.say(refused.why if refused else tr("it leaves its terminal and goes on"))
            else:
                await run_start.detached(path)
                self.say(tr("it is at work without a terminal"))
        except (NotAttached, run_start.Unfit) as error:
            self.say(tr("not done: {why}", why=retold(error)))
        self.catalogue.refresh()

    async def _ask_limits(self, path: Path) -> None:
        def answered(limits: str) -> None:
            self.run_worker(self._go_on(path, limits), name="go on", group=OPENING)

        try:
            await raise_limits(self.app, path, answered)
        except StoreError as error:
            self.say(str(error))

    async def _go_on(self, path: Path, limits: str) -> None:
        """Let a run go on that is over, and work on it."""
        try:
            await asyncio.to_thread(let_go_on, path, limits)
        except StoreError as error:
            self.say(tr("not done: {why}", why=retold(error)))
        else:
            self.workbench.open_run(lambda: run_start.resumed(path))

    def action_discard(self) -> None:
        run = self._chosen()
        if run is None:
            return
        if run.summary is not None and run.summary.status == "running":
            pid = run.summary.pid
            self.say(tr("process {pid} is at work on it: stop it first", pid=pid))
            return
        words = (
            tr("{run} is moved to the folder .trash beside it:", run=run.path),
            tr("it leaves this list, its kernels and its journal stay on the disk,"),
            tr("and moving it back brings it back."),
        )
        path = run.path

        def answered(yes: bool | None) -> None:
            if yes:
                self.run_worker(self._discard(path), name="discard")
            else:
                self.say(tr("nothing was discarded"))

        question = Confirm(tr("discard this run?"), words, tr("discard"), typed=path.name)
        self.app.push_screen(question, answered)

    async def _discard(self, path: Path) -> None:
        try:
            told = tr("it is now {path}", path=await asyncio.to_thread(discard_run, path))
        except StoreError as error:
            told = str(error)
        self.say(told)
        self.catalogue.refresh()

    def action_report(self) -> None:
        run = self._chosen()
        if run is not None:
            self.run_worker(report(run.path, run.name, self.say), name="report")

    def action_demo(self) -> None:
        """Begin the demo in this folder."""
        limits = Limits(max_rounds=DEMO_ROUNDS)
        self._begun(RunRequest(self.folder, sample=DEMO_SAMPLE, limits=limits))

    def action_new(self) -> None:
        self.app.push_screen(ChooseStart(self.folder), self._begun)

    def _begun(self, request: RunRequest | None) -> None:
        if request is not None:
            self.say(tr("beginning a run …"))
            self.workbench.open_run(lambda: run_start.begun(request))

    def action_sort(self) -> None:
        order = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        self.workbench.appearance.runs_sort = order
        told = f"{tr('by')} {tr(self.sort)}"
        self.say(self.workbench.appearance.with_way_to_keep("sort", order, told))
        self._sort()
        self.view.show_row(self.cursor)
        self.pull_runs(self.workbench.wall_clock())

    def action_filter(self) -> None:
        self.filter.open()

    def on_input_changed(self) -> None:
        self._sort()
        self.pull_runs(self.workbench.wall_clock())

    def on_input_submitted(self) -> None:
        self.on_one_line_left()

    def on_one_line_left(self) -> None:
        self.filter.close()
        self.view.focus()

    def action_clear(self) -> None:
        self.filter.value = ""
