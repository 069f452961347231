"""A new run: of a bundled sample, a task folder, or the user's own kernel.

The user names files, target and agent; the judge checks them; then the task is written. Nothing
is written before the check has passed; escape cancels a check.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
import tomllib
from collections.abc import Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, get_args

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import DescendantFocus
from textual.screen import ModalScreen
from textual.widgets import Input, Static
from textual.worker import Worker

from akg_tui import resources
from akg_tui.core.measurement import FailureKind, Measurement, Outcome, Progress
from akg_tui.core.phases import WorkflowName
from akg_tui.core.sanitize import Said, clean, one_line
from akg_tui.core.task import SWEEP, Agent, Backend, Dsl
from akg_tui.dsl.adapters import DSLS
from akg_tui.engine.run_service import SAMPLES, RunRequest
from akg_tui.store.errors import StoreError
from akg_tui.store.run_list import JOURNAL
from akg_tui.store.task_folder import TASK_FILE
from akg_tui.store.task_toml import BadAgent, stated_agent
from akg_tui.tui import run_start
from akg_tui.tui.run_start import FITS, Draft, Unfit
from akg_tui.tui.textual_internals import DimmingScreen, run_newest
from akg_tui.tui.widgets.line_view import LineView
from akg_tui.tui.widgets.painted import Rows
from akg_tui.view import formatting
from akg_tui.view.controls.completion import common_start, paths
from akg_tui.view.glyphs import LIVE
from akg_tui.view.language import retold, tr, translated
from akg_tui.view.spans import BLANK, Line, cells, cut, first_rows, fit, hang, line

DEPTH = 4
MOST = 200
MODES = ("auto", "review", "step")


def tasks_below(folder: Path) -> list[Path]:
    """Return task folders at or below a folder, without those inside runs; at most `MOST`."""
    found: list[Path] = []
    top = len(folder.parts)
    for at, below, files in os.walk(folder):
        here = Path(at)
        deep = len(here.parts) - top >= DEPTH
        if JOURNAL in files:  # a run, with its own copy of the task
            below.clear()
            continue
        if TASK_FILE in files:
            found.append(here)
        skip = {"runs", "node_modules", "__pycache__"}
        below[:] = [] if deep else sorted(n for n in below if n not in skip and n[0] != ".")
        if len(found) >= MOST:
            break
    return found


@dataclass(frozen=True)
class Sample:
    """A bundled sample: its DSL, the first sentence of its README, and why it is not timed."""

    name: str
    dsl: str
    about: str
    untimed: str


def samples() -> list[Sample]:
    """Return the bundled samples, those that are timed first."""
    found: list[Sample] = []
    for name in resources.sample_names():
        folder = resources.sample_kernels() / name
        target = tomllib.loads((folder / TASK_FILE).read_text("utf-8"))["target"]
        _, about, *_ = (folder / "README.md").read_text("utf-8").split("\n\n")
        untimed = DSLS[target["dsl"]].untimed(target["backend"])
        found.append(Sample(name, target["dsl"], about.rstrip("."), untimed))
    return sorted(found, key=lambda sample: bool(sample.untimed))


@dataclass(frozen=True)
class Offer:
    """A possible start. `group` heads the first one of each group; without `start`: the form."""

    group: str
    name: str
    about: str
    start: RunRequest | None = None


class ChooseStart(ModalScreen[RunRequest | None], DimmingScreen[RunRequest | None]):
    """The list of possible starts of a run: a kernel, a task folder, a bundled sample."""

    CSS_PATH = "../styles/new_run.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", show=False),
        Binding("enter", "choose", show=False),
        Binding("m", "mode", show=False),
    ]

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.mode = MODES[0]
        self.cursor = 0
        self.view = _Choices("choices")
        self._tasks: list[Path] = []
        self._samples: list[Sample] = []
        self._offer_of: list[int] = []  # of each row; a heading stands for the offer below it

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        self.view.border_title = Content(tr("begin a run"))
        self.view.focus()
        self.call_after_refresh(self._show)
        self.run_worker(self._search(), name="find tasks")

    async def _search(self) -> None:
        self._samples = await asyncio.to_thread(samples)
        self._show()
        found = await asyncio.to_thread(tasks_below, self.folder)
        copies = {(self.folder / SAMPLES / each.name).resolve() for each in self._samples}
        self._tasks = [path for path in found if path.resolve() not in copies]
        self._show()

    def _offers(self) -> list[Offer]:
        about = tr("a reference, and a kernel or none; both are checked first")
        offers = [Offer("", tr("a kernel of yours …"), about)]
        for path in self._tasks:
            start = RunRequest(path, mode=self.mode)
            offers.append(Offer("", one_line(str(path)), tr("task"), start))
        for each in self._samples:
            group = retold(each.untimed) if each.untimed else tr("bundled samples")
            start = RunRequest(self.folder, sample=each.name, mode=self.mode)
            offers.append(Offer(group, each.name, f"{each.dsl:<8}{retold(each.about)}", start))
        return offers

    def _show(self) -> None:
        rows: list[Line] = []
        self._offer_of, group = [], ""
        for number, offer in enumerate(self._offers()):
            if offer.group != group:
                group = offer.group
                rows += [BLANK, line((group, "title"))]
                self._offer_of += [number, number]
            here = number == self.cursor
            lead = (f"{LIVE} ", "accent") if here else ("  ", "text")
            pad = " " * max(0, 28 - cells(offer.name))
            row = line(lead, (f"{offer.name}{pad}  ", "strong"), (offer.about, "muted"))
            rows.append(fit(row, self.view.room))
            self._offer_of.append(number)
        self.view.put(rows)
        told = tr("enter begins it in mode {name}, m another mode, esc", name=self.mode)
        self.view.border_subtitle = Content(told)
        at = len(rows) - 1 - self._offer_of[::-1].index(self.cursor)
        self.view.pick(range(at, at + 1))

    def choose_row(self, row: int) -> None:
        """Move to the offer of a row, or take it if the cursor is there."""
        offer = self._offer_of[row]
        if offer == self.cursor:
            self.action_choose()
        else:
            self.move(offer - self.cursor)

    def move(self, step: int) -> None:
        self.cursor = max(0, min(len(self._offers()) - 1, self.cursor + step))
        self._show()

    def action_mode(self) -> None:
        self.mode = MODES[(MODES.index(self.mode) + 1) % len(MODES)]
        self._show()

    def action_choose(self) -> None:
        def made(start: RunRequest | None) -> None:
            if start is not None:
                self.dismiss(start)
            else:
                self.view.display = True
                self.view.focus()

        start = self._offers()[self.cursor].start
        if start is None:
            self.view.display = False  # the form takes its place
            self.app.push_screen(Wizard(self.folder, self.mode), made)
        else:
            self.dismiss(start)


class _Choices(LineView):
    picks = True

    def pick_step(self, step: int) -> None:
        screen = self.screen
        assert isinstance(screen, ChooseStart)
        screen.move(step)

    def pick_row(self, row: int) -> None:
        screen = self.screen
        assert isinstance(screen, ChooseStart)
        screen.choose_row(row)


_TOLD_ROWS = 4
_FAULT_ROWS = 3
_ABOUT_ROWS = 2
_FRAME_ROWS = 3  # the border, and the blank row below the fields
_LABEL = 13  # columns of the names of the fields


@dataclass(frozen=True)
class Field:
    """A row of the wizard.

    A path field: tab completes files with `ending`, or folders only if `ending` is None. Other
    fields: tab completes `words`; with `only` no other value is allowed. `for_model` fields are
    shown only for an agent with a language model.
    """

    name: str
    label: str
    about: str
    value: str = ""
    is_path: bool = False
    ending: str | None = ""
    words: tuple[str, ...] = ()
    only: bool = False
    for_model: bool = False


FIELDS = (
    Field("reference", Said("reference"), Said("class Model, get_inputs, get_init_inputs"),
          "reference.py", is_path=True, ending=".py"),
    Field("kernel", Said("kernel"),
          Said("class ModelNew, for sweep with knobs; empty: one is made"), "kernel.py",
          is_path=True, ending=".py"),
    Field("folder", Said("task folder"), Said("made new, or empty"), "mytask", is_path=True,
          ending=None),
    Field("backend", Said("target"), Said("where the kernel runs"), "cpu",
          words=get_args(Backend), only=True),
    Field("dsl", Said("DSL"), Said("what the kernel is written in"), "cpp",
          words=get_args(Dsl), only=True),
    Field("arch", Said("arch"), Said("free text, for the reader")),
    Field("agent", Said("agent"), Said("sweep, claude, or a model's id"), SWEEP,
          words=(SWEEP, "claude")),
    Field("server", Said("server"),
          Said("http(s)://… of the Messages API; empty: Anthropic's own"), for_model=True),
    Field("key", Said("key file"), Said("holds the model's key; empty: ANTHROPIC_API_KEY"),
          is_path=True, for_model=True),
    Field("cost", Said("cost"), Said("USD at most; empty: no limit"), for_model=True),
    Field("workflow", Said("workflow"), Said("faster, correct or both"), FITS,
          words=(FITS, *get_args(WorkflowName)), only=True),
    Field("rounds", Said("rounds"), Said("when to stop"), "20"),
    Field("mode", Said("mode"), Said("what waits for you"), "auto",
          words=MODES, only=True),
)  # fmt: skip
_BY_NAME = {field.name: field for field in FIELDS}
# The field of each setting of the agent, and the description of a valid value.
_OF_AGENT = {
    "model": ("agent", Said("an id has letters, digits and ._:/@+- and no blank")),
    "base_url": ("server", Said("an address is like http://127.0.0.1:8080")),
}


class _Pick(Input):
    """A value of a list: left and right go through it. It can be typed as well."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right", "pick(1)", show=False),
        Binding("left", "pick(-1)", show=False),
    ]

    def __init__(self, value: str, about: str, words: tuple[str, ...], name: str) -> None:
        super().__init__(value, about, id=name, compact=True)
        self._words = words

    def action_pick(self, step: int) -> None:
        words = self._words
        at = words.index(self.value) + step if self.value in words else 0
        self.value = words[at % len(words)]
        self.cursor_position = len(self.value)


class Wizard(ModalScreen[RunRequest | None], DimmingScreen[RunRequest | None]):
    """Fields that describe a task; enter checks it, and enter again writes it."""

    CSS_PATH = "../styles/new_run.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("tab", "complete", show=False),
        Binding("up", "app.focus_previous", show=False),
        Binding("down", "app.focus_next", show=False),
    ]

    def __init__(self, folder: Path, mode: str) -> None:
        super().__init__()
        self.folder = folder
        self._mode = mode
        self.told = Rows("told")
        self.about = Rows("about")
        self.fault = Rows("fault")
        self._work: Worker[None] | None = None
        self._writes = False
        self._passed: Draft | None = None
        self._notes: list[str] = []
        self._whole: Draft | None = None  # what passed, with the kernel that was made for it
        self._made = tempfile.TemporaryDirectory(prefix="akg-made-", ignore_cleanup_errors=True)
        self._found_dsl = _BY_NAME["dsl"].value
        self._names_dsl = False  # a person chose the DSL: that of the kernel does not replace it
        self._began = 0.0
        self._doing = ""

    def compose(self) -> ComposeResult:
        with Vertical(id="box") as box:
            box.border_title = Content(tr("a kernel of yours"))
            box.border_subtitle = Content(
                tr("enter checks it, then begins; ↑ ↓ fields; tab completes; esc")
            )
            with Vertical(id="fields"):
                for field in FIELDS:
                    with Horizontal(id=f"row-{field.name}") as row:
                        row.display = not field.for_model
                        yield Static(tr(field.label), markup=False)
                        value = self._mode if field.name == "mode" else field.value
                        name, about = f"field-{field.name}", tr(field.about)
                        if field.words:
                            yield _Pick(value, about, field.words, name)
                        else:
                            yield Input(value, about, id=name, compact=True)
                yield self.fault
            yield self.about
            yield self.told

    def on_unmount(self) -> None:
        self._made.cleanup()

    def on_mount(self) -> None:
        self.call_after_refresh(self._tell, tr("enter checks reference and kernel"), "muted")
        self.set_interval(1.0, self._tick)
        self._look_at_kernel()

    def on_resize(self) -> None:
        # The fields scroll, so that the focused one and the rows below are in sight together.
        below = _FRAME_ROWS + _ABOUT_ROWS + _TOLD_ROWS
        self.query_one("#fields").styles.max_height = max(1, self.app.size.height - below)
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        for field in FIELDS:
            self._input(field.name).placeholder = cut(tr(field.about), self._room)
        self._tell_about()
        if self.focused is not None:
            self.focused.scroll_visible(animate=False)

    @property
    def _room(self) -> int:
        """The columns of a field."""
        return max(10, self.told.size.width - _LABEL)

    def _look_at_kernel(self) -> None:
        """Find the DSL of the kernel, in a thread."""
        run_newest(self, self._find_dsl, name="find the DSL", group="dsl")

    async def _find_dsl(self) -> None:
        try:
            path = self._path("kernel")
        except Unfit:
            return
        field = self._input("dsl")  # not after the wait: the form may be closed by then
        found = await asyncio.to_thread(run_start.dsl_found, path)
        if found and not self._names_dsl:
            self._found_dsl = field.value = found

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        self.call_after_refresh(self._tell_about)

    def _tell_about(self) -> None:
        field = self._here
        if field is not None:
            known = f"  ← → {', '.join(field.words)}" if field.words else ""
            rows = hang(f"{tr(field.about)}{known}", self._room, (), "muted")
            self.about.show(tuple(first_rows(rows, _ABOUT_ROWS, self._room)))
            self.about.styles.height = min(len(rows), _ABOUT_ROWS)

    @property
    def _here(self) -> Field | None:
        """The field with the cursor."""
        return _BY_NAME.get((getattr(self.focused, "id", "") or "").removeprefix("field-"))

    def _tell(self, text: str, role: str = "text") -> None:
        room = max(10, self.told.size.width)
        rows: list[Line] = []
        for part in text.split("\n"):
            rows += hang(clean(part), room, (), role)
        self.told.show(tuple(first_rows(rows, _TOLD_ROWS, room)))

    def _tell_fault(self, name: str, why: str) -> None:
        """Show a fault directly below its field, and focus the field."""
        row = self.query_one(f"#row-{name}")
        self.query_one("#fields").move_child(self.fault, after=row)
        rows = hang(one_line(why, 400), self._room, (), "log.error")
        self.fault.show(tuple(first_rows(rows, _FAULT_ROWS, self._room)))
        self.fault.styles.height = min(len(rows), _FAULT_ROWS)
        self.fault.display = True
        self._input(name).focus()
        self.call_after_refresh(self.fault.scroll_visible, animate=False)

    def _input(self, name: str) -> Input:
        return self.query_one(f"#field-{name}", Input)

    def _value(self, name: str) -> str:
        return self._input(name).value.strip()

    def draft(self) -> Draft:
        """Return the task described by the fields. Raises `Unfit`."""
        for field in FIELDS:
            value = self._value(field.name)
            counts = not field.for_model or self._value("agent") != SWEEP
            if counts and field.only and value not in field.words:
                known = ", ".join(field.words)
                raise Unfit(field.name, tr("{value} is none of {known}", value=repr(value),
                                           known=known))  # fmt: skip
        rounds = self._value("rounds")
        if not rounds.isdecimal() or int(rounds) < 1:
            raise Unfit("rounds", tr("{value} is not a number from 1 on", value=repr(rounds)))
        agent = self._agent()
        kernel = self._path("kernel") if self._value("kernel") else None
        # A DSL that nobody named does not bind a kernel that is made.
        dsl = self._value("dsl") if kernel or self._names_dsl else ""
        return Draft(
            self._path("reference"), kernel, self._path("folder"),
            backend=self._value("backend"), dsl=dsl, arch=self._value("arch"),
            agent=agent, max_cost=None if agent.model == SWEEP else self._cost(),
            mode=self._value("mode"), rounds=int(rounds), workflow=self._value("workflow"),
        )  # fmt: skip

    def _path(self, name: str) -> Path:
        value = self._value(name)
        if not value:
            raise Unfit(name, tr("it needs a name"))
        try:
            return self.folder / Path(value).expanduser()
        except RuntimeError:
            raise Unfit(name, tr("{value} is nobody's home", value=repr(value))) from None

    def _cost(self) -> float | None:
        value = self._value("cost")
        try:
            cost = float(value) if value else None
        except ValueError:
            cost = 0.0
        if cost is not None and not 0 < cost < float("inf"):
            raise Unfit("cost", tr("{value} is not a number above 0", value=repr(value)))
        return cost

    def _agent(self) -> Agent:
        said = {"model": self._value("agent")}
        if said["model"] != SWEEP:
            said["base_url"] = self._value("server")
            if self._value("key"):
                said["api_key_file"] = str(self._path("key").absolute())
        try:
            return stated_agent(Agent(), said)
        except BadAgent as error:
            name = _OF_AGENT[error.setting][0]
            raise Unfit(name, tr("{value} is not allowed: {right}", value=repr(self._value(name)),
                                 right=tr(_OF_AGENT[error.setting][1]))) from None  # fmt: skip

    def on_input_changed(self, event: Input.Changed) -> None:
        self._passed = None
        self.fault.display = False
        if event.input.id == "field-kernel":
            self._look_at_kernel()
        # The field's value, not the event's: an earlier event may come after the DSL was found.
        elif event.input.id == "field-dsl" and event.input.value != self._found_dsl:
            self._names_dsl = True
        if event.input.id == "field-agent":
            for field in FIELDS:
                if field.for_model:
                    row = self.query_one(f"#row-{field.name}")
                    row.display = self._value("agent") != SWEEP

    def action_complete(self) -> None:
        """Extend the path or word by its unambiguous part; if complete, focus the next field."""
        field = self._here
        if field is not None and field.is_path:
            work = partial(self._complete_path, field)
            run_newest(self, work, name="complete", group="complete")
        elif field is not None:
            typed = self._input(field.name).value
            self._complete(field, typed, [w for w in field.words if w.startswith(typed)])

    async def _complete_path(self, field: Field) -> None:
        typed = self._input(field.name).value
        found = await asyncio.to_thread(paths, self.folder, typed, ending=field.ending)
        self._complete(field, typed, found)

    def _complete(self, field: Field, typed: str, offers: list[str]) -> None:
        here = self._input(field.name)
        if here.value != typed or self.focused is not here:
            return  # more was typed meanwhile
        longer = common_start(typed, offers)
        if longer != typed:
            here.value = longer
            here.cursor_position = len(longer)
        elif typed in offers or not offers:
            self.focus_next(Input)
            return
        if len(offers) > 1:
            names = "  ".join(each.rstrip("/").rpartition("/")[2] for each in offers)
            self._tell(names, "muted")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if self._work is not None:
            return
        try:
            draft = self.draft()
        except Unfit as error:
            self._tell_fault(error.field, str(error))
            return
        self._writes = self._passed == draft
        self.fault.display = False
        work = self._write(draft) if self._writes else self._checked(draft)
        self._work = self.run_worker(self._told(work), name="check")

    async def _told(self, work: Coroutine[object, object, None]) -> None:
        """Await a check or a write, and show its error."""
        try:
            await work
        except asyncio.CancelledError:
            self._tell(tr("the check was cut off; nothing was written"), "note")
            raise
        except Unfit as error:
            # Of the kernel that was made: whose code it is and why, and what the judge found.
            self._tell("\n".join(self._notes[-5:-2]), "muted")
            self._tell_fault(error.field, str(error))
        except (StoreError, ValueError, OSError) as error:
            self._tell(retold(error, 600), "log.error")
        finally:
            self._work = None

    async def _checked(self, draft: Draft) -> None:
        self._began, self._doing = time.monotonic(), tr("the judge starts …")
        self._tick()
        try:
            await self._check(draft)
        finally:
            self._doing = ""

    async def _check(self, draft: Draft) -> None:
        self._notes.clear()
        whole = draft
        if draft.kernel is None:
            whole = await run_start.with_kernel(draft, Path(self._made.name), self._note)
        measured = await run_start.checked(whole, self._progress)
        self._doing = ""
        self._whole = whole
        told = translated(formatting.measured(measured, Said("the reference")))
        detail = "\n".join(retold(each) for each in measured.detail.split("\n")[:3])
        if measured.outcome is Outcome.CORRECT:
            again = tr("enter again writes the task and begins the run")
            self._tell(f"{told}\n{again}", "verdict.keep")
            self._passed = draft
        elif at := _blamed(measured):
            if at == "kernel" and draft.agent.model != SWEEP:
                again = tr("enter again begins a run in which the model first makes it correct")
                detail = f"{detail}\n{again}" if detail else again
                self._passed = draft
            self._tell(detail, "log.error")
            self._tell_fault(at, told)
        else:
            self._tell(f"{told}\n{detail}", "log.error")

    def _note(self, text: str) -> None:
        """Show a line of the command that makes a kernel."""
        self._notes.append(text)
        self._doing = retold(text, 200)
        self._tick()

    def _progress(self, progress: Progress) -> None:
        self._doing = f"{formatting.stage(progress.stage)} {progress.told}".strip()
        self._tick()

    def _tick(self) -> None:
        """Show the stage of the check, and for how long it has worked."""
        if self._doing:
            took = formatting.short_time(time.monotonic() - self._began)
            told = tr("checking: {stage}, {time}  esc cuts it off", stage=self._doing, time=took)
            self._tell(told, "muted")

    async def _write(self, draft: Draft) -> None:
        self.dismiss(await run_start.written(self._whole or draft))

    def action_leave(self) -> None:
        if self._work is None:
            self.dismiss(None)
        elif not self._writes:  # a write is short, and ends by itself
            self._work.cancel()


def _blamed(measured: Measurement) -> str:
    """Return the field of the file that a failed check is about; "" if neither file is."""
    if measured.failure is FailureKind.REFERENCE:
        return "reference"
    return "kernel" if measured.outcome is Outcome.FAILED else ""
