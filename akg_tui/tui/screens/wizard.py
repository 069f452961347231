"""A task of one's own: reference and kernel are named, checked by the judge, and then written.

Nothing is written before the check has passed; escape cuts a check off.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static
from textual.worker import Worker

from akg_tui.core.measurement import Measurement, Outcome, Progress
from akg_tui.core.plain import clean, one_line
from akg_tui.store.errors import StoreError
from akg_tui.tui import openings, words
from akg_tui.tui.language import marked, retold, tr
from akg_tui.tui.openings import Draft, Start
from akg_tui.tui.spans import Line, hang
from akg_tui.tui.widgets.painted import Rows

_FIELDS = (
    (
        "reference",
        marked("reference"),
        "reference.py",
        marked("class Model, get_inputs, get_init_inputs"),
    ),
    ("kernel", marked("kernel"), "kernel.py", marked("class ModelNew, with knobs to tune")),
    ("folder", marked("task folder"), "mytask", marked("made new, or empty")),
    ("dsl", marked("DSL"), "cpp", marked("cpp or torch")),
    ("rounds", marked("rounds"), "20", marked("when to stop")),
    ("mode", marked("mode"), "auto", marked("auto, review or step")),
)
_CHOICES = {"dsl": ("cpp", "torch"), "mode": ("auto", "review", "step")}
_TOLD_ROWS = 5


class BadField(ValueError):
    """A field that cannot be what was typed."""


class Wizard(ModalScreen[Start | None]):
    DEFAULT_CSS = """
    Wizard { align: center middle; background: $ink-ground 60%; }
    Wizard Vertical {
        width: 86; max-width: 100%; height: auto; border: round $ink-flame;
        border-title-color: $ink-flame; border-title-style: bold;
        border-subtitle-color: $ink-ash; background: $surface; padding: 0 1;
    }
    Wizard Static { height: 1; color: $ink-ash; }
    Wizard Input { background: $ink-ground; }
    Wizard Input:focus { background: $ink-gold-deep; }
    Wizard #told { height: 5; margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("up", "app.focus_previous", show=False),
        Binding("down", "app.focus_next", show=False),
    ]

    def __init__(self, folder: Path, mode: str) -> None:
        super().__init__()
        self.folder = folder
        self._mode = mode
        self.told = Rows("told")
        self._check: Worker[None] | None = None
        self._passed: Draft | None = None

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content(tr("a kernel of yours"))
            box.border_subtitle = Content(tr("enter checks it, then begins; ↑ ↓ fields; esc"))
            for name, label, value, help_ in _FIELDS:
                yield Static(f"{tr(label)}  ({tr(help_)})", markup=False)
                shown = self._mode if name == "mode" else value
                yield Input(shown, id=f"field-{name}", compact=True)
            yield self.told

    def on_mount(self) -> None:
        self.call_after_refresh(self._tell, tr("enter checks reference and kernel"), "muted")

    def _tell(self, text: str, role: str = "text") -> None:
        room = max(10, self.told.size.width)
        rows: list[Line] = []
        for part in text.split("\n"):
            rows += hang(clean(part), room, (), role)
        self.told.show(tuple(rows[:_TOLD_ROWS]))

    def _value(self, name: str) -> str:
        return self.query_one(f"#field-{name}", Input).value.strip()

    def draft(self) -> Draft:
        """What is described now. Raises `BadField`."""
        for name, choices in _CHOICES.items():
            if self._value(name) not in choices:
                value, known = repr(self._value(name)), ", ".join(choices)
                raise BadField(tr("{name}: {value} is none of {known}", name=name, value=value,
                                  known=known))  # fmt: skip
        rounds = self._value("rounds")
        if not rounds.isdecimal() or int(rounds) < 1:
            raise BadField(tr("rounds: {value} is not a number from 1 on", value=repr(rounds)))
        if not self._value("folder"):
            raise BadField(tr("task folder: it needs a name"))
        paths = {n: self.folder / self._value(n) for n in ("reference", "kernel", "folder")}
        return Draft(
            paths["reference"], paths["kernel"], paths["folder"],
            dsl=self._value("dsl"), mode=self._value("mode"), rounds=int(rounds),
        )  # fmt: skip

    def on_input_changed(self, event: Input.Changed) -> None:
        self._passed = None

    def on_input_submitted(self, event: Input.Submitted) -> None:
        try:
            draft = self.draft()
        except BadField as error:
            self._tell(str(error), "log.error")
            return
        if self._passed == draft:
            self._write(draft)
        elif self._check is None:
            self._check = self.run_worker(self._checked(draft), name="check")

    async def _checked(self, draft: Draft) -> None:
        self._tell(tr("checking: the judge starts …"), "muted")
        try:
            measured = await openings.checked(draft, self._progress)
        except asyncio.CancelledError:
            self._tell(tr("the check was cut off; nothing was written"), "note")
            raise
        except (StoreError, ValueError, OSError) as error:
            self._tell(retold(one_line(str(error), 600)), "log.error")
            return
        finally:
            self._check = None
        self._tell(*_verdict(measured))
        if measured.outcome is Outcome.CORRECT:
            self._passed = draft

    def _progress(self, progress: Progress) -> None:
        done = f" {progress.done}/{progress.total}" if progress.total else ""
        stage = f"{words.stage(progress.stage)}{done}"
        self._tell(tr("checking: {stage}  esc cuts it off", stage=stage), "muted")

    def _write(self, draft: Draft) -> None:
        try:
            self.dismiss(openings.written(draft))
        except StoreError as error:
            self._tell(retold(str(error)), "log.error")

    def action_leave(self) -> None:
        if self._check is not None:
            self._check.cancel()
        else:
            self.dismiss(None)


def _verdict(measured: Measurement) -> tuple[str, str]:
    """What the check came to, and its role."""
    if measured.outcome is not Outcome.CORRECT:
        detail = "\n".join(retold(each) for each in measured.detail.split("\n")[:3])
        return f"{words.measured(measured, tr('the reference'))}\n{detail}".strip(), "log.error"
    told = words.measured(measured, tr("the reference"))
    return f"{told}\n{tr('enter again writes the task and begins the run')}", "verdict.keep"
