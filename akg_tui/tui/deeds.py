"""What the command line and the palette do to a run and with what is on screen: a mode by
name, a hint, stop; copy and export.

A mixin of the app. Steers by commands that core accepts or refuses; writes only to the
run's folder ``exports/``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual.widget import Widget

from akg_tui.core.plain import one_line
from akg_tui.tui.language import tr

if TYPE_CHECKING:
    from akg_tui.tui.dressing import Dressed
    from akg_tui.tui.screens.watching import Steering

    class _Base(Dressed, Steering):
        @property
        def run_path(self) -> str: ...
else:
    _Base = object

# Terminals cut or refuse longer OSC 52 sequences: 100,000 bytes in base64 is what most take.
CLIPBOARD_BYTES = 74_994


class Deeds(_Base):
    """Actions of the app that need the run."""

    def action_mode_named(self, name: str = "") -> None:
        from akg_tui.core import commands as cmd
        from akg_tui.core.machine import Mode

        if not name:
            self.open_line("mode-to ")
        elif self._has_run():
            self.steer(cmd.SetMode(Mode(name)), tr("mode {name}", name=name))

    def action_tell(self, text: str = "") -> None:
        from akg_tui.core import commands as cmd

        if not text:
            self.open_line("tell ")
        elif self._has_run():
            self.steer(cmd.Hint(text), tr("the agent reads your hint next"))

    def action_revoke(self, rule: str = "") -> None:
        from akg_tui.core import commands as cmd

        number = rule.strip()
        if not number:
            self.open_line("revoke ")
        elif not (number.isascii() and number.isdecimal() and len(number) < 10):
            self.tell_person(tr("a rule is named by its number: revoke 1"))
        elif self._has_run():
            self.steer(cmd.RevokeRule(int(number)), tr("rule {number} is ended", number=number))

    def action_stop_run(self) -> None:
        from akg_tui.core import commands as cmd

        if self._has_run():
            self.steer(cmd.Stop(), tr("the run ends as soon as what is under way is done"))

    def action_report(self) -> None:
        """Write the run's report as it stands now, and say where it is."""
        from akg_tui.tui.reporting import reported

        async def report() -> None:
            self.tell_person(await reported(Path(self.run_path)))

        if self._has_run():
            name = one_line(Path(self.run_path).name)
            self.tell_person(tr("making the report of {run} …", run=name))
            self.run_worker(report(), name="report", group="report", exclusive=True)

    def _has_run(self) -> bool:
        if self.watched() is None:
            self.tell_person(tr("there is no run yet"))
            return False
        return True

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
        from akg_tui.tui.words import count

        pane = self._pane()
        if pane is None or not self._has_run():
            return
        what = more or what
        look = self.look()
        try:
            text = export.words_of(pane, what, look)
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
