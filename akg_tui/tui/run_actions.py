"""The app's actions on the open run and on the screen: mode, hint, limits, stop, report,
copy, export.

The app finds the `action_*` methods here. Sends commands, which core accepts or refuses;
writes only to the run's folder ``exports/``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual.widget import Widget

from akg_tui.core import commands as cmd
from akg_tui.core.events import PlanChange
from akg_tui.core.sanitize import one_line
from akg_tui.engine.attach import Ask
from akg_tui.engine.follower import Followed
from akg_tui.store.errors import StoreError
from akg_tui.tui import export
from akg_tui.tui.fork_actions import MORE_ROUNDS
from akg_tui.tui.screens.dialogs import Confirm
from akg_tui.tui.screens.policy_panel import PolicyPanel
from akg_tui.tui.screens.run_screen import RunScreen, Workbench
from akg_tui.tui.textual_internals import run_newest
from akg_tui.view.controls.command_registry import way_to
from akg_tui.view.controls.policy_words import BadLimit, limited
from akg_tui.view.formatting import count
from akg_tui.view.language import tr
from akg_tui.view.status import stop_told

if TYPE_CHECKING:
    from textual.app import App

    from akg_tui.engine.run_handle import RunHandle

# Terminals cut or refuse longer OSC 52 sequences; most accept 100,000 bytes of base64.
CLIPBOARD_BYTES = 74_994


def changes(change: PlanChange) -> list[str]:
    """Return the changes of a hand edit of PLAN.md in words, one string for each change."""
    told = [tr("add {item} {text}", item=each.id, text=one_line(each.text, 100))
            for each in change.added]  # fmt: skip
    told += [tr("edit {item} {text}", item=each.id, text=one_line(each.text, 100))
             for each in change.edited]  # fmt: skip
    told += [tr("drop {item}", item=each) for each in change.dropped]
    if change.order:
        told.append(tr("order {items}", items=", ".join(change.order)))
    told += [tr("keep {item}: it is under work, so its text cannot change", item=each)
             for each in change.fixed]  # fmt: skip
    return told


class RunActions:
    """The actions of the app on the open run and on the screen."""

    def __init__(self, app: App[int], workbench: Workbench) -> None:
        self._app = app
        self._workbench = workbench

    def action_limits(self, text: str = "") -> None:
        """Change the limits of the run; a run that is over goes on under them. Without `text`, put
        the current limit on the ``:`` line.
        """
        if self._run() is None:
            return
        state = self._workbench.snapshot().state
        policy = state.task.policy
        if not text.strip():
            self._workbench.open_line(f"limits rounds={policy.max_rounds}")
            return
        try:
            settled = state.rounds if state.finished else None
            changed = limited(policy, text, settled=settled, metrics=state.task.metrics)
        except BadLimit as error:
            self._workbench.say(str(error))
            return
        told = tr("limits from now on: {text}", text=text.strip())
        if state.finished:
            told = tr("the run goes on: {text}", text=text.strip())
            self._workbench.steer(cmd.GoOn(changed), told)
        else:
            self._workbench.steer(cmd.ChangePolicy(changed), told)

    def action_more(self, rounds: str = "") -> None:
        """Give the run more rounds; without `rounds`, put a number on the ``:`` line."""
        number = rounds.strip().removeprefix("+")
        if not number:
            self._workbench.open_line(f"more {MORE_ROUNDS}")
        else:
            self.action_limits(f"rounds=+{number}")

    def action_policy(self) -> None:
        """Show the policy; what is chosen there is finished on the ``:`` line."""
        if self._run() is None:
            return

        def chosen(text: str | None) -> None:
            if text:
                self._workbench.open_line(text)

        self._app.push_screen(PolicyPanel(self._workbench), chosen)

    def action_demand(self, what: str, reason: str = "") -> None:
        """Demand a new plan or a diagnosis."""
        reason = reason.strip()
        if what == "replan":
            self._workbench.steer(cmd.ForceReplan(reason), tr("a new plan is called for"))
        else:
            self._workbench.steer(cmd.ForceDiagnosis(reason), tr("a diagnosis is called for"))

    def action_skip_compile(self) -> None:
        """Leave out what is still to be measured of torch.compile."""
        self._workbench.steer(cmd.LeaveOutCompile(), tr("torch.compile is left out"))

    def action_new_session(self) -> None:
        """Begin a new conversation with the agent, and count its tokens from zero."""
        self._workbench.steer(cmd.NewSession(), tr("a new session begins"))

    def action_remeasure(self, what: str = "") -> None:
        """Measure the kernel of an item or an attempt again."""
        what = what.strip()
        if what:
            told = tr("{what} is measured again next", what=one_line(what, 40))
            self._workbench.steer(cmd.Remeasure(what), told)
        else:
            self._workbench.open_line("remeasure ")

    def action_adopt(self) -> None:
        """Adopt the newest hand edit of PLAN.md, after a question that lists the changes."""
        if (handle := self._run()) is None:
            return
        state = self._workbench.snapshot().state
        left = [each.kept for each in state.plan_edits if each.kept not in state.adopted]
        if not left:
            self._workbench.say(tr("there is no hand edit of PLAN.md to take over"))
            return
        kept = left[-1]
        try:
            change = handle.plan_change(kept)
        except StoreError as error:
            self._workbench.say(str(error))
            return
        told = changes(change)
        if not told:
            self._workbench.say(tr("{file} changes no item", file=one_line(kept)))
            return

        def adopt(yes: bool | None) -> None:
            if yes:
                taken = tr("{file} is taken over", file=one_line(kept))
                self._workbench.steer(cmd.AdoptPlanEdit(kept, change), taken)

        title = tr("take {file} over?", file=one_line(kept))
        self._app.push_screen(Confirm(title, told, tr("take it over")), adopt)

    def action_stop_run(self) -> None:
        if self._run() is not None:
            state, now = self._workbench.snapshot().state, self._workbench.wall_clock()
            told = stop_told(state, now, step=way_to("run.step"))
            self._workbench.steer(cmd.Stop(), told)

    def action_detach(self) -> None:
        """Leave the run at work: to a detached engine, or to the process that works on it."""
        if self._run() is not None:
            self._workbench.detach()

    def action_steering(self, ask: Ask) -> None:
        """Take the steering of a run of another process, or hand it over."""
        handle = self._run()
        if handle is None:
            return
        if not isinstance(handle, Followed):
            self._workbench.say(tr("this process works on the run itself, and may steer it always"))
            return
        refused = handle.ask(ask)
        taken, given = tr("this workbench steers the run now"), tr("another process may steer now")
        told = taken if ask == "take" else given
        self._workbench.say(refused.why if refused else told)

    def action_report(self) -> None:
        """Write the report of the run so far, and show its path."""
        if (handle := self._run()) is not None:
            run = Path(handle.path)
            work = partial(export.report, run, one_line(run.name), self._workbench.say)
            run_newest(self._app, work, name="report", group="report")

    def _run(self) -> RunHandle | None:
        """Return the open run; if there is none, show a message."""
        handle = self._workbench.handle
        if handle is None:
            self._workbench.say(tr("no run is open here"))
        return handle

    def _pane(self) -> Widget | None:
        """Return the focused pane, else the first pane in the order of focus."""
        screens = [each for each in self._app.screen_stack if isinstance(each, RunScreen)]
        return next((s.focused or next(iter(s.focus_chain), None) for s in screens[-1:]), None)

    def action_copy(self, what: str = "view", more: str = "") -> None:
        pane = self._pane()
        if pane is None:
            return
        snapshot = self._workbench.snapshot() if self._workbench.handle else None
        try:
            text = export.words_of(pane, more or what, snapshot)
        except export.NothingThere as error:
            self._workbench.say(str(error))
            return
        self._app.copy_to_clipboard(text)
        told = tr("copied: {lines}", lines=count(len(text.splitlines()), "line"))
        if len(text.encode("utf-8", "replace")) > CLIPBOARD_BYTES:
            told += tr(" (so much that the terminal may refuse it: export writes a file)")
        self._workbench.say(told)

    def action_export(self) -> None:
        """Write a picture of the screen to the run's folder."""
        if (handle := self._run()) is None:
            return
        name = f"screen-{len(self._workbench.snapshot().records)}"
        folder = Path(handle.path) / "exports"
        try:
            path = export.write(folder, name, export.picture(self._app))
        except OSError as error:
            why = error.strerror or str(error)
            self._workbench.say(tr("not written: {folder}: {why}", folder=folder, why=why))
            return
        self._workbench.say(tr("written: {path}", path=path))
