"""The deck: the screen on which a run is watched and steered.

Owns the layout of the panes and the actions of its keys. The panes own their content; an action
changes the run by a command, which core accepts or refuses with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TypeVar

from textual.app import ComposeResult
from textual.errors import NoWidget
from textual.events import Click, DescendantFocus
from textual.geometry import Offset

from akg_tui.core import commands as cmd
from akg_tui.core.effects import under_way
from akg_tui.core.phases import Mode
from akg_tui.core.sanitize import Said
from akg_tui.tui.evidence_reader import EvidenceReader
from akg_tui.tui.panes.agents import AgentsPane
from akg_tui.tui.panes.chart import ChartPane
from akg_tui.tui.panes.log import LogPane
from akg_tui.tui.panes.pane import Pane, Shared, make
from akg_tui.tui.panes.plan import PlanPane
from akg_tui.tui.panes.source import SourcePane
from akg_tui.tui.panes.status_rows import Header, Rail
from akg_tui.tui.panes.subagent import SubagentPane
from akg_tui.tui.panes.timeline import Timeline
from akg_tui.tui.screens.answering import AnsweringScreen
from akg_tui.tui.screens.gates import Gates
from akg_tui.tui.screens.plan_editing import PlanEditing
from akg_tui.tui.screens.subagent_keys import SubagentKeys
from akg_tui.tui.widgets.footer import told_line
from akg_tui.tui.widgets.line_view import Lead, LineView
from akg_tui.tui.widgets.painted import Rows
from akg_tui.tui.widgets.tiles import TabRow, Tiles
from akg_tui.view.code_rows import Colours, Texts
from akg_tui.view.controls.command_registry import Where, footer, way_to
from akg_tui.view.controls.deck_layout import (
    PANE_NAMES,
    PRESETS,
    Place,
    place,
    shape_of,
    too_small,
)
from akg_tui.view.controls.panes import PANES, Shape
from akg_tui.view.language import retold, tr
from akg_tui.view.run_snapshot import RunSnapshot
from akg_tui.view.status import sparkline

P = TypeVar("P", bound=Pane)
_DECKS_OWN = PANE_NAMES.keys() - {"agents", "subagent"}
_ELSE = {"turn": "log", "cycle": "chart"}
"""The pane that does a thing if the focused one has nothing of that kind."""

_MODE_WAITS = {
    Mode.AUTO: Said("nothing waits for you"),
    Mode.REVIEW: Said("a KEEP waits for your answer"),
    Mode.STEP: Said("every transition waits for {key}"),
}
LEAST_BODY = 3  # rows of the panes that the card leaves: a frame, and one row in it
LOOSEN_S = 1.0  # before the mode key lets everything pass
_NEXT_MODE = {Mode.AUTO: Mode.REVIEW, Mode.REVIEW: Mode.STEP, Mode.STEP: Mode.AUTO}


class Deck(AnsweringScreen):
    """All panes of one run, the card of the open question, and the input lines."""

    where: Where = "deck"
    PAINTS_AFTER_RESIZE = True

    def __init__(self) -> None:
        super().__init__()
        self.active = "source"
        self.zoomed = False
        reader = EvidenceReader(self._find_out, self._run_folder, self._found_out)
        self.shared = Shared(Colours(), Texts(), reader)
        self.header = Header("header")
        self.rail = Rail("rail")
        self.timeline = Timeline()
        self.tab_row = TabRow()
        declared = sorted(PANES, key=lambda pane: pane.order)
        # In the order of the tab key.
        self.panes = {each.id: make(each, self.shared) for each in declared}
        self._plan_editing = PlanEditing(self, self.pane("plan", PlanPane))
        self._list = self.pane("agents", AgentsPane)
        self._subagent_keys = SubagentKeys(self, self._list, self.pane("subagent", SubagentPane))
        self.body = Tiles(*self.panes.values(), places=self._places, id="body")
        self.spark = Rows("spark")
        self.note = Rows("note")
        self._arranged: tuple[object, ...] = ()
        self._loosens = 0.0  # when the mode key was pressed that leads to auto
        self._alike = False  # the kernel under work is the best one: one pane shows both

    def _find_out(self, work: Coroutine[None, None, None]) -> None:
        self.run_worker(work, group="evidence")

    def _run_folder(self) -> str:
        handle = self.workbench.handle
        return handle.path if handle is not None else ""

    def _found_out(self) -> None:
        self.workbench.pull_now()

    def pane(self, name: str, kind: type[P]) -> P:
        """Return a pane by its name and kind."""
        pane = self.panes[name]
        assert isinstance(pane, kind)
        return pane

    @property
    def preset(self) -> str:
        """The layout in use."""
        return self.workbench.appearance.deck_layout

    def reword(self) -> None:
        super().reword()
        if self.is_mounted:
            self.arrange_panes()  # the layout may have changed too

    def compose(self) -> ComposeResult:
        yield from (self.header, self.rail, self.timeline, self.tab_row, self.body, self.spark)
        yield from (self.card, self.hint, self.reply, self.prompt, self.note, self.footer)

    def on_mount(self) -> None:
        self.arrange_panes()
        self.focus_active()

    def focus_active(self) -> None:
        """Give the focus to the active pane."""
        self.panes[self.active].focus()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        self._fit_card()  # an input line has come or gone
        name = event.widget.id or ""
        late = event.widget is not self.focused  # a later key has moved the focus already
        if name in self.panes and name != self.active and not late:
            self.active = name
            self.arrange_panes()

    @property
    def news(self) -> int:
        """The number of records read by the agents pane; while it grows, the clock pulls again."""
        return self.shared.agents.seen

    @property
    def shape(self) -> Shape:
        return shape_of(*self.app.size)

    def _places(self, size: tuple[int, int]) -> dict[str, Place]:
        hidden = {"best"} if self._alike else set()
        return place(size, self.shape, self.preset, self.active, hidden=hidden, zoomed=self.zoomed)

    @property
    def shown(self) -> list[str]:
        """The panes on screen, in the order of tab."""
        places = self._places((200, 60))
        return [name for name in self.panes if name in places]

    def before_resize(self) -> None:
        self.arrange_panes()

    def _fit_card(self) -> None:
        """Give the card the rows that are left beside the other rows and a little of the panes."""
        others = (each for each in self.children if each not in (self.body, self.card))
        heights = (each.styles.height for each in others if each.display)
        taken = sum(int(height.value) for height in heights if height is not None)
        self.card.fit_height(self.app.size.height - taken - LEAST_BODY)

    def arrange_panes(self) -> None:
        self.call_after_refresh(self._fit_card)
        shape = self.shape
        shown = self.shown
        self.call_after_refresh(self.workbench.pull_now)  # for the panes that have appeared
        arranged = (shape, tuple(shown), self.preset, self.zoomed, self.app.size)
        if arranged == self._arranged:
            return  # only the focus moved: a layout of the whole screen is slow
        self._arranged = arranged
        self.update_classes({f"-{each}": each is shape for each in Shape}, animate=False)
        for name, pane in self.panes.items():
            if pane.display != (name in shown):
                pane.display = name in shown
        self.body.rearrange()

    def _one_kernel_pane(self, snapshot: RunSnapshot) -> None:
        """Show one pane of kernels while the kernel under work is the best one."""
        state = snapshot.state
        alike = state.work_blob == state.standing_blob
        if alike is not self._alike:
            self._alike = alike
            self.arrange_panes()

    def pull(self, snapshot: RunSnapshot) -> None:
        self._loosen()
        self._one_kernel_pane(snapshot)
        seq = snapshot.state.seq
        self.header.take(seq, lambda: self.header.pull(snapshot))
        self.rail.take(seq, lambda: self.rail.pull(snapshot))
        self.timeline.pull(snapshot)
        self.body.set_class(snapshot.past is not None, "-past")
        self.card.pull(self.asks(snapshot), snapshot.now)
        for pane in self.panes.values():
            pane.attempt(partial(pane.see, snapshot))
            self._pull_pane(pane, snapshot)
        room = self.app.size.width - 2
        shape = self.shape
        if shape is Shape.TABS:
            self.tab_row.show(self.active)
            self.spark.show((sparkline(snapshot.state, room),))
        here: Where = "deck" if snapshot.past is None else "past"
        if here == "deck" and self.active not in _DECKS_OWN:
            here = "agents"
        self.footer.pull(footer(here, snapshot.state, self.active), self.workbench.wall_clock())
        self._note()

    def _pull_pane(self, pane: Pane, snapshot: RunSnapshot) -> None:
        if pane.display and pane.placed:
            pane.take(snapshot.state.seq, partial(pane.pull, snapshot))

    def on_pane_placed(self, message: Pane.Placed) -> None:
        """Fill a pane for its size at once, not at the next tick of the clock."""
        if self.workbench.handle is not None:
            self._pull_pane(message.pane, self.workbench.snapshot())

    def tell(self, text: str) -> None:
        super().tell(text)
        self._note()

    def _note(self) -> None:
        """Show the message, or a hint to enlarge the window, in one row if a footer has no room."""
        if self.shape is Shape.TINY:
            columns, rows = self.app.size
            told = told_line(self.footer.told, columns)
            self.note.show((told if self.footer.told else too_small(columns, rows),))

    def action_pause(self) -> None:
        state = self.workbench.snapshot().state
        if state.paused or state.api_failure:
            self.workbench.steer(cmd.Unpause(), tr("the run goes on"))
        else:
            working = under_way(state) or not self.workbench.snapshot_now().holds
            told = tr("pausing: the work under way ends first") if working else tr("paused")
            self.workbench.steer(cmd.Pause(), told)

    def action_step(self) -> None:
        self.workbench.steer(cmd.Step(), tr("one step is granted"))

    def action_mode(self, name: str = "") -> None:
        if name:
            self._loosens = 0.0
            self._set_mode(Mode(name))
            return
        now = self.workbench.wall_clock()
        mode = _NEXT_MODE[Mode.AUTO if self._loosens else self.workbench.snapshot().state.mode]
        self._loosens = 0.0
        if mode is Mode.AUTO and self.workbench.snapshot().past is None:
            # On its way round, the key must not let pass what would wait in the next mode.
            self._loosens = now
            self.say(tr("mode auto in a moment; {key} goes on to {name}", key=way_to("run.mode"),
                        name=_NEXT_MODE[mode]))  # fmt: skip
            self.after(LOOSEN_S, self._await_loosening)
            return
        self._set_mode(mode)

    def _set_mode(self, mode: Mode) -> None:
        waits = tr(_MODE_WAITS[mode], key=way_to("run.step"))
        if mode is self.workbench.snapshot().state.mode:
            self.say(f"{tr('mode {name}', name=mode)}: {waits}")
            return
        self.workbench.steer(cmd.SetMode(mode), f"{tr('mode {name}', name=mode)}: {waits}")

    def _loosen(self) -> None:
        """Set the mode auto, unless the key was pressed again within `LOOSEN_S`."""
        if self._loosens and self.workbench.wall_clock() - self._loosens >= LOOSEN_S:
            self._loosens = 0.0
            self._set_mode(Mode.AUTO)

    def _await_loosening(self) -> None:
        self._loosen()
        if self._loosens:
            self.after(LOOSEN_S / 10, self._await_loosening)

    def action_gates(self) -> None:
        self.app.push_screen(Gates(self.workbench))

    def action_open(self) -> None:
        found = self.panes[self.active].enter()
        if found is None:
            self.action_zoom()
        else:
            self._follow(found)

    def _follow(self, found: str | Lead) -> None:
        """Go where a pane leads to, and show what is told there."""
        if isinstance(found, Lead):
            self.action_pane(found.pane)
            found = self.panes[found.pane].come_to(found.place)
        if found:
            self.say(found)
        self.workbench.pull_now()

    def _ask_pane(self, thing: str, does: Callable[[Pane], str | None]) -> None:
        """Let the focused pane do a thing, or the one that does it for all."""
        told = does(self.panes[self.active])
        if told is None:
            told = does(self.panes[_ELSE[thing]])
        self._follow(told or "")

    def action_turn(self, step: int) -> None:
        self._ask_pane("turn", lambda pane: pane.turn(step))

    def action_cycle(self) -> None:
        self._ask_pane("cycle", lambda pane: pane.cycle())

    def action_code(self) -> None:
        """Go from a line of the kernel to its instructions, or from instructions to their line."""
        if self.active == "asm":
            self.action_open()
        else:
            self._follow(self.pane("source", SourcePane).to_code())

    def action_file(self) -> None:
        """Show the next of the kernel's files, in all panes."""
        names = self.workbench.snapshot().state.task.files.names
        if len(names) == 1:
            self.say(tr("the kernel is one file"))
            return
        self.shared.file = (self.shared.file + 1) % len(names)
        self._follow(names[self.shared.file])

    def action_plan(self, what: str) -> None:
        if self.active != "plan":
            told = tr("that is for the plan: {key} goes there", key=way_to("pane.plan"))
            say = self.workbench.say_no_line if what in ("add", "edit") else self.say
            say(told)
            return
        self._plan_editing.do(what)

    def action_pane(self, name: str) -> None:
        self.active = name
        self.arrange_panes()
        self.set_focus(self.panes[name])  # at once: the next key may have arrived already

    def pane_at(self, place: Offset) -> str:
        """Return the pane at a place of the screen; "" beside all panes."""
        try:
            widget, _ = self.get_widget_at(*place)
        except NoWidget:
            return ""
        nodes = widget.ancestors_with_self
        return next((node.id for node in nodes if node.id in self.panes), "") or ""

    def on_click(self, event: Click) -> None:
        """A double click opens what was clicked; on the frame, or in a pane without entries, it
        zooms the pane.
        """
        pane = self.pane_at(event.screen_offset)
        if pane and event.chain == 2:
            widget = self.panes[pane]
            inside = widget.content_region.contains_point(event.screen_offset)
            if isinstance(widget, LineView) and widget.picks and inside:
                self.action_open()
            elif not (isinstance(widget, ChartPane) and inside):
                self.action_zoom()

    def on_chart_pane_chosen(self, message: ChartPane.Chosen) -> None:
        """Pick the attempt of a clicked point; a double click leads to the end of its round."""
        found = message.attempt
        if message.twice:
            to_round = self.app.run_action(f"app.to_round({found.round})")
            self.app.run_worker(to_round, name="to a round")
            return
        self.panes["attempts"].come_to(found.number)
        why = retold(found.reason)
        told = {"number": found.number, "item": found.item, "verdict": found.verdict, "why": why}
        self.say(tr("attempt {number} of {item}: {verdict}, {why}", **told))

    def on_tab_row_chosen(self, message: TabRow.Chosen) -> None:
        self.action_pane(message.pane)

    def action_cycle_pane(self, step: int) -> None:
        names = self.shown if len(self.shown) > 1 else list(PANE_NAMES)
        self.action_pane(names[(names.index(self.active) + step) % len(names)])

    def action_zoom(self) -> None:
        self.zoomed = not self.zoomed
        self.arrange_panes()

    def action_preset(self) -> None:
        names = list(PRESETS)
        self.workbench.appearance.deck_layout = names[(names.index(self.preset) + 1) % len(names)]
        self.zoomed = False
        told = tr("layout {name}: {names}", name=self.preset, names=", ".join(names))
        self.arrange_panes()
        if self.shape not in PRESETS[self.preset]:
            told = tr("layout {name}: seen from 100×30 on", name=self.preset)
        self.say(self.workbench.appearance.with_way_to_keep("layout", self.preset, told))

    def action_edge(self, edge: str) -> None:
        pane = self.panes[self.active]
        if isinstance(pane, LineView):
            pane.scroll_home(animate=False) if edge == "home" else pane.to_end()
            if pane.follows:
                pane.set_follow(edge == "end")

    def action_follow(self) -> None:
        log = self._log_here
        log.set_follow(not log.follow)

    @property
    def _log_here(self) -> LogPane:
        """The focused log, else the log of the run."""
        pane = self.panes[self.active]
        return pane if isinstance(pane, LogPane) else self.pane("log", LogPane)

    def action_subagent(self, what: str) -> None:
        self._subagent_keys.do(what)
        self.workbench.pull_now()

    def on_agents_pane_chosen(self) -> None:
        """Show the log of the picked agent."""
        self.action_pane("log" if self._list.picked_main else "subagent")
        self.workbench.pull_now()
