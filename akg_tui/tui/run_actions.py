"""What the command line and the palette do to a run and with what is on screen: a mode by
name, a hint, stop; copy and export.

A mixin of the app. Steers by commands that core accepts or refuses; writes only to the
run's folder ``exports/``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual.widget import Widget

from akg_tui.core.sanitize import one_line
from akg_tui.view.language import tr

if TYPE_CHECKING:
    from akg_tui.core.events import PlanChange
    from akg_tui.tui.appearance import Dressed
    from akg_tui.tui.screens.run_screen import Steering

    class _Base(Dressed, Steering):
        @property
        def run_path(self) -> str: ...

        @property
        def has_run(self) -> bool: ...

        def plan_change(self, kept: str) -> PlanChange: ...
else:
    _Base = object

# Terminals cut or refuse longer OSC 52 sequences: 100,000 bytes in base64 is what most take.
CLIPBOARD_BYTES = 74_994


def changes(change: PlanChange) -> list[str]:
    """What a hand edit of PLAN.md comes to, a line for each item."""
    told = [tr("add {item} {text}", item=each.id, text=one_line(each.text, 100))
            for each in change.added]  # fmt: skip
    told += [tr("edit {item} {text}", item=each.id, text=one_line(each.text, 100))
             for each in change.edited]  # fmt: skip
    told += [tr("drop {item}", item=each) for each in change.dropped]
    if change.order:
        told.append(tr("order {items}", items=", ".join(change.order)))
    return told


class Deeds(_Base):
    """Actions of the app that need the run."""

    def action_mode_named(self, name: str = "") -> None:
        from akg_tui.core import commands as cmd
        from akg_tui.core.phases import Mode

        if not name:
            self.open_line("mode-to ")
        elif self._has_run():
            self.steer(cmd.SetMode(Mode(name)), tr("mode {name}", name=name))

    def action_tell(self, text: str = "") -> None:
        from akg_tui.core import commands as cmd

        if not text:
            self.open_line("tell ")
        elif self._has_run():
            try:
                told = self._with_references(text)
            except ValueError as error:
                self.tell_person(str(error))
                return
            self.steer(cmd.Hint(told), tr("the agent reads your hint next"))

    def _with_references(self, text: str) -> str:
        """As the hint line of the deck sends it."""
        from akg_tui.tui.screens.input_lines import Writing

        deck = next(screen for screen in self.screen_stack if isinstance(screen, Writing))
        return deck.with_references(text)

    def action_revoke(self, rule: str = "") -> None:
        from akg_tui.core import commands as cmd

        number = rule.strip()
        if not number:
            self.open_line("revoke ")
        elif not (number.isascii() and number.isdecimal() and len(number) < 10):
            self.tell_person(tr("a rule is named by its number: revoke 1"))
        elif self._has_run():
            self.steer(cmd.RevokeRule(int(number)), tr("rule {number} is ended", number=number))

    def action_limits(self, text: str = "") -> None:
        """Change the limits of the run; without any, write those of now on the line."""
        from akg_tui.core import commands as cmd
        from akg_tui.view.controls.run_limits import BadLimit, limited

        if not self._has_run():
            return
        policy = self.look().state.task.policy
        if not text.strip():
            self.open_line(f"limits rounds={policy.max_rounds}")
            return
        try:
            changed = limited(policy, text)
        except BadLimit as error:
            self.tell_person(str(error))
            return
        self.steer(cmd.ChangePolicy(changed), tr("limits from now on: {text}", text=text.strip()))

    def action_demand(self, what: str, reason: str = "") -> None:
        """Call for a new plan or a diagnosis."""
        from akg_tui.core import commands as cmd

        if not self._has_run():
            return
        if what == "replan":
            self.steer(cmd.ForceReplan(reason.strip()), tr("a new plan is called for"))
        else:
            self.steer(cmd.ForceDiagnosis(reason.strip()), tr("a diagnosis is called for"))

    def action_adopt(self) -> None:
        """Take the newest hand edit of PLAN.md over, after a question that lists the changes."""
        from akg_tui.core import commands as cmd
        from akg_tui.store.errors import StoreError
        from akg_tui.tui.screens.dialogs import Confirm

        if not self._has_run():
            return
        state = self.look().state
        left = [each.kept for each in state.plan_edits if each.kept not in state.adopted]
        if not left:
            self.tell_person(tr("there is no hand edit of PLAN.md to take over"))
            return
        kept = left[-1]
        try:
            change = self.plan_change(kept)
        except StoreError as error:
            self.tell_person(str(error))
            return
        told = changes(change)
        if not told:
            self.tell_person(tr("{file} changes no item", file=one_line(kept)))
            return

        def adopt(yes: bool | None) -> None:
            if yes:
                taken = tr("{file} is taken over", file=one_line(kept))
                self.steer(cmd.AdoptPlanEdit(kept, change), taken)

        title = tr("take {file} over?", file=one_line(kept))
        self.app.push_screen(Confirm(title, told, tr("take it over")), adopt)

    def action_stop_run(self) -> None:
        from akg_tui.core import commands as cmd

        if self._has_run():
            self.steer(cmd.Stop(), tr("the run ends as soon as what is under way is done"))

    def action_report(self) -> None:
        """Write the run's report as it stands now, and say where it is."""
        from akg_tui.tui.report_process import reported

        async def report() -> None:
            self.tell_person(await reported(Path(self.run_path)))

        if self._has_run():
            name = one_line(Path(self.run_path).name)
            self.tell_person(tr("making the report of {run} …", run=name))
            self.run_worker(report(), name="report", group="report", exclusive=True)

    def _has_run(self) -> bool:
        if not self.has_run:
            self.tell_person(tr("no run is open here"))
        return self.has_run

    def _pane(self) -> Widget | None:
        """The pane that is meant: the focused one, else the first that is in sight."""
        screen = self.watched()
        if screen is None:
            return None
        if screen.focused is not None:
            return screen.focused
        return next(iter(screen.focus_chain), None)

    def action_copy(self, what: str = "view", more: str = "") -> None:
        from akg_tui.tui import export
        from akg_tui.view.formatting import count

        pane = self._pane()
        if pane is None:
            return
        what = more or what
        try:
            text = export.words_of(pane, what, self.look() if self.has_run else None)
        except export.NothingThere as error:
            self.tell_person(str(error))
            return
        self.copy_to_clipboard(text)
        told = tr("copied: {lines}", lines=count(len(text.splitlines()), "line"))
        if len(text.encode("utf-8", "replace")) > CLIPBOARD_BYTES:
            told += tr(" (so much that the terminal may refuse it: export writes a file)")
        self.tell_person(told)

    def action_export(self, what: str = "screen", form: str = "svg") -> None:
        from akg_tui.tui import export

        pane = self._pane() if what == "pane" else None
        if not self._has_run() or (what == "pane" and pane is None):
            return
        look = self.look()
        name = f"{what if pane is None else pane.id or what}-{len(look.records)}"
        folder = Path(self.run_path) / "exports"
        text = export.picture(self.app, pane) if form == "svg" else export.text(self.app, pane)
        try:
            path = export.write(folder, name, "svg" if form == "svg" else "txt", text)
        except OSError as error:
            why = error.strerror or str(error)
            self.tell_person(tr("not written: {folder}: {why}", folder=folder, why=why))
            return
        self.tell_person(tr("written: {path}", path=path))
