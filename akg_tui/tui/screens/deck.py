"""The deck: the screen on which a run is watched and steered.

Owns the layout of the panes and the actions of its keys. The panes own their content; an action
changes the run by a command, which core accepts or refuses with a reason.
"""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import TypeVar

from textual.app import ComposeResult
from textual.errors import NoWidget
from textual.events import Click, DescendantFocus, MouseDown, MouseMove, MouseUp
from textual.geometry import Offset

from akg_tui.core import commands as cmd
from akg_tui.core.effects import under_way
from akg_tui.core.phases import Mode
from akg_tui.core.sanitize import one_line
from akg_tui.tui.evidence_reader import EvidenceReader
from akg_tui.tui.panes.agents import AgentsPane
from akg_tui.tui.panes.attempts import AttemptsPane
from akg_tui.tui.panes.chart import ChartPane
from akg_tui.tui.panes.instructions import InstructionsPane
from akg_tui.tui.panes.log import LogPane
from akg_tui.tui.panes.pane import Pane, make
from akg_tui.tui.panes.plan import PlanPane
from akg_tui.tui.panes.roofline_pane import RooflinePane
from akg_tui.tui.panes.source import LinkedScroll, SourcePane
from akg_tui.tui.panes.status_rows import Header, Rail
from akg_tui.tui.panes.timeline import Timeline
from akg_tui.tui.screens.dialogs import Reading
from akg_tui.tui.screens.gates import Gates
from akg_tui.tui.screens.input_lines import InputScreen
from akg_tui.tui.screens.plan_editing import PlanEditing
from akg_tui.tui.screens.review import Review
from akg_tui.tui.screens.run_screen import MENU_PLACE, RIGHT_BUTTON
from akg_tui.tui.screens.subagent_popouts import SubagentPopouts
from akg_tui.tui.textual_internals import PAUSE_S
from akg_tui.tui.widgets.approval_card import AskCard, Ident
from akg_tui.tui.widgets.footer import told_line
from akg_tui.tui.widgets.line_view import LineView
from akg_tui.tui.widgets.painted import Rows
from akg_tui.tui.widgets.tiles import TabRow, Tiles
from akg_tui.view.code_rows import Colours
from akg_tui.view.controls.approvals import Request, requests
from akg_tui.view.controls.command_registry import Where, command, footer, way_to
from akg_tui.view.controls.deck_layout import (
    PANE_NAMES,
    PRESETS,
    Place,
    beside,
    place,
    shape_of,
    too_small,
)
from akg_tui.view.controls.pane_borders import Edge, edge_at, edge_of, moved_border
from akg_tui.view.controls.panes import PANES, Shape
from akg_tui.view.diff import compare, size
from akg_tui.view.language import marked, retold, tr
from akg_tui.view.run_snapshot import RunSnapshot
from akg_tui.view.status import sparkline

P = TypeVar("P", bound=Pane)
_DECKS_OWN = PANE_NAMES.keys() - {"agents"}

_MODE_WAITS = {
    Mode.AUTO: marked("nothing waits for you"),
    Mode.REVIEW: marked("a KEEP waits for your answer"),
    Mode.STEP: marked("every transition waits for {key}"),
}
BORDER_COLUMNS, BORDER_ROWS = 4, 2  # by which a key moves a border
LEAST_BODY = 3  # rows of the panes that the card leaves: a frame, and one row in it
LOOSEN_S = 1.0  # before the mode key lets everything pass
_NEXT_MODE = {Mode.AUTO: Mode.REVIEW, Mode.REVIEW: Mode.STEP, Mode.STEP: Mode.AUTO}


class Deck(InputScreen):
    """All panes of one run, the card of the open question, and the input lines."""

    CSS_PATH = "../styles/deck.tcss"
    where: Where = "deck"
    PAINTS_AFTER_RESIZE = True

    def __init__(self) -> None:
        super().__init__()
        self.active = "source"
        self.zoomed = False
        self.hidden: set[str] = set()
        self.colours = Colours()
        self.header = Header("header")
        self.rail = Rail("rail")
        self.timeline = Timeline()
        self.tab_row = TabRow()
        declared = sorted(PANES, key=lambda pane: pane.order)
        # In the order of the tab key; popouts follow.
        self.panes = {each.id: make(each, self.colours, self.texts) for each in declared}
        self.plan = self._pane("plan", PlanPane)
        self.log_pane = self._pane("log", LogPane)
        self.attempts = self._pane("attempts", AttemptsPane)
        self.agents = self._pane("agents", AgentsPane)
        self.plan_editing = PlanEditing(self, self.plan)
        self.popouts = SubagentPopouts(self, self.agents)
        best, working = (self._pane(name, SourcePane) for name in ("best", "source"))
        self.linked = LinkedScroll(best, working)
        self.working = working
        self.evidence = EvidenceReader(self._find_out, self._run_folder, self._found_out)
        self.instructions = self._pane("asm", InstructionsPane)
        self.instructions.reader = self._pane("roofline", RooflinePane).reader = self.evidence
        self.body = Tiles(*self.panes.values(), places=self._places, id="body")
        self.spark = Rows("spark")
        self.card = AskCard()
        self.note = Rows("note")
        self._changed: dict[tuple[str, str], tuple[int, int]] = {}
        self._arranged: tuple[object, ...] = ()
        self._loosens = 0.0  # when the mode key was pressed that leads to auto
        self._alike = False  # the kernel under work is the best one: one pane shows both
        self._dragged: Edge | None = None
        self._dragged_from = Offset()

    def _find_out(self, work: Coroutine[None, None, None]) -> None:
        self.run_worker(work, group="evidence")

    def _run_folder(self) -> str:
        handle = self.workbench.handle
        return handle.path if handle is not None else ""

    def _found_out(self) -> None:
        self.workbench.pull_now()

    def _pane(self, name: str, kind: type[P]) -> P:
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
        return self.agents.agent_list.seen

    @property
    def shape(self) -> Shape:
        return shape_of(*self.app.size)

    def _places(self, size: tuple[int, int]) -> dict[str, Place]:
        below = self.popouts.below(self.active)
        zoomed = self.zoomed and below == self.active
        hidden = self.hidden | ({"best"} if self._alike else set())
        places = place(
            size, self.shape, self.preset, below, hidden=hidden, zoomed=zoomed,
            borders=self.workbench.appearance.borders,
        )  # fmt: skip
        return self.popouts.places(places, size, self.shape)

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
        # Pull the panes that have appeared, but in a later step than the layout and the paint.
        self.call_after_refresh(self.after, PAUSE_S, self.workbench.pull_now)
        popouts = self.popouts.standing
        arranged = (shape, tuple(shown), popouts, self.preset, self.zoomed, self.app.size)
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
        self.linked.follow(self.active)
        room = self.app.size.width - 2
        shape = self.shape
        if shape is Shape.TABS:
            self.tab_row.tell(self.active, self.popouts.labels)
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

    def asks(self, snapshot: RunSnapshot) -> tuple[Request, ...]:
        """Return everything that waits for the person, oldest first; nothing in the past."""
        state = snapshot.state
        if snapshot.past is not None or not snapshot.waits:
            return ()
        gate, question = state.gate, state.question
        since = {f"gate {gate.gate}": gate.since} if gate else {}
        if question is not None:
            since[f"question {question.number}"] = question.since
        changed = self._changes(snapshot) if snapshot.gate_waits else (0, 0)
        return requests(state, since.__getitem__, snapshot.now, changed)

    def _changes(self, snapshot: RunSnapshot) -> tuple[int, int] | None:
        """Return the counts of added and removed lines; cached for the last pair of kernels.

        None if a kernel cannot be read.
        """
        blobs = snapshot.state.standing_blob, snapshot.state.work_blob
        if blobs not in self._changed:
            try:
                before, after = (self.texts.of(blob, snapshot.kernel)[0] for blob in blobs)
            except Exception:  # noqa: BLE001 - shown by the pane that shows the kernel
                return None
            self._changed = {blobs: size(compare(before, after))}
        return self._changed[blobs]

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

    def action_mode(self) -> None:
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

    def action_review(self) -> None:
        snapshot = self.workbench.snapshot()
        if snapshot.candidate is None:
            self.say(tr("there is no candidate to review: the kernel under work is the best one"))
            return
        if self._changes(snapshot) is None:
            self.say(tr("there is no diff to review: a kernel cannot be read, its pane says why"))
            return
        self.app.push_screen(Review(snapshot, self.colours, self.texts))

    def action_see(self) -> None:
        """Show the subject of the card in full: a diff to review, or a script to read."""
        self._stop_clock()
        ask = self.card.shown
        if ask is not None and ask.detail:
            self.app.push_screen(Reading(ask.title, ask.detail))
        else:
            self.action_review()

    def action_answer(self, answer: str) -> None:
        """Answer the ask on the card; `answer` is keep, reject or always."""
        ask = self.armed_ask()
        if ask is None:
            self._stop_clock()
            return
        found = next((each for each in ask.answers if each.does == answer), None)
        if found is None:
            self._stop_clock()
            self._not_an_answer(
                tr("no rule can be made of this: it is answered by itself")
                if answer == "always"
                else tr("a question is answered, not rejected: its card says how")
            )
            return
        if answer == "always" and not self.card.says_all:
            self._not_an_answer(
                tr("no room here to say what a rule would approve: enlarge the window")
            )
            return
        if found.twice and not self.card.calls_again(answer):
            told = tr(
                "no way leads back from this: {key} once more rejects", key=way_to("ask.reject")
            )
            self.say(told)
            return
        command = found.command
        if ask.choices and isinstance(command, cmd.AnswerQuestion):
            command = cmd.AnswerQuestion(command.question, self.card.marked)
        self.workbench.steer(command, found.told)

    def armed_ask(self, *, line: bool = False) -> Request | None:
        """Return the ask on the card if it may be answered now; else show the reason. With `line`
        a line would be opened.
        """
        say = self.workbench.say_no_line if line else self.say
        snapshot = self.workbench.snapshot()
        ask = self.card.shown
        if snapshot.past is not None:
            key = way_to("past.live")
            say(tr("this is the past: {key} goes back to what is true now", key=key))
        elif snapshot.at_rest:
            say(retold(one_line(snapshot.activity)))
        elif ask is None or ask.ident not in {each.ident for each in self.asks(snapshot)}:
            say(tr("nothing waits for an answer"))
        elif not (
            self.card.arming.armed(ask.ident, snapshot.now) or ask.ident == self.workbench.vouched
        ):
            self._not_an_answer(
                tr("not yet: the keys count after a moment in sight without typing"), line=line
            )
        else:
            return ask
        return None

    def _stop_clock(self) -> None:
        """Let a question wait for its answer without a limit: a key says that somebody is there."""
        snapshot, ask = self.workbench.snapshot(), self.card.shown
        question = snapshot.state.question
        if snapshot.past is not None or snapshot.at_rest or question is None:
            return
        if ask is not None and ask.ident == f"question {question.number}" and question.until:
            told = tr("the question waits until you answer it")
            self.workbench.steer(cmd.HoldQuestion(question.number), told)

    def action_next_ask(self) -> None:
        self._stop_clock()
        if not self.card.turn():
            self._not_an_answer(tr("no other question waits"))

    def action_choice(self, step: int) -> None:
        self._stop_clock()
        if not self.card.mark(step):
            self._not_an_answer(tr("there is nothing to choose"))

    def action_reply(self) -> None:
        self._stop_clock()
        ask = self.card.shown
        if ask is not None and ask.gate:
            key = way_to("run.hint")
            self._not_an_answer(
                tr("this is answered with its keys, not in words; {key} writes a hint", key=key),
                line=True,
            )
        elif (ask := self.armed_ask(line=True)) is not None:
            self.reply_to(ask.ident)

    def answerable(self, now: float) -> Ident | None:
        return self.card.arming.answerable(now)

    def _not_an_answer(self, why: str, *, line: bool = False) -> None:
        """Show why a key answers nothing here, and make the next key wait, as after typing. With
        `line` the key would have opened a line.
        """
        self.card.arming.typed(self.workbench.wall_clock())
        (self.workbench.say_no_line if line else self.say)(why)

    def typed(self, now: float, key: str) -> None:
        """Make the card wait: text being typed must not answer a new question."""
        self.card.arming.typed(now)

    def action_open(self) -> None:
        pane = self.panes[self.active]
        if pane is self.attempts and self.attempts.picked_item:
            self.action_pane("plan")
            self.plan.unfold(self.attempts.picked_item)
        elif isinstance(pane, AgentsPane):
            self._open_agent()
        elif pane is self.instructions:
            self.action_code()
        elif isinstance(pane, LineView) and pane.picks:
            self.say(pane.open() or tr("{key} folds it again", key=way_to("pane.open")))
        else:
            self.action_zoom()
        self.workbench.pull_now()

    def action_turn(self, step: int) -> None:
        pane = self.panes[self.active]
        if isinstance(pane, SourcePane | InstructionsPane):
            self.say(pane.to_change(step))
        elif not self._log_here.turn(step):
            self.say(tr("there is no further reply of the agent"))

    def action_code(self) -> None:
        """Go from a line of the kernel to its instructions, or from instructions to their line."""
        if self.active == "asm":
            line = self.instructions.line_here
            self.action_pane("source")
            if line:
                file, line = self.instructions.place_of(line)
                self._show_file(file)
                self.say(self.working.to_line(line))
        else:
            line = self.instructions.line_of(self.working.file, self.working.line_here)
            self.action_pane("asm")
            self.say(self.instructions.to_source_line(line))
        self.workbench.pull_now()

    def action_file(self) -> None:
        """Show the next of the kernel's files, in both panes."""
        names = self.workbench.snapshot().state.task.files.names
        if len(names) == 1:
            self.say(tr("the kernel is one file"))
            return
        self._show_file((self.working.file + 1) % len(names))
        self.say(names[self.working.file])

    def _show_file(self, number: int) -> None:
        for pane in (self.working, self._pane("best", SourcePane)):
            pane.file = number
        self.shown_file = number
        self.workbench.pull_now()

    def action_blame(self) -> None:
        pane = self.panes[self.active]
        source = pane if isinstance(pane, SourcePane) else self._pane("source", SourcePane)
        source.blaming = not source.blaming
        about = tr("blame: the item that wrote each line, and its gain")
        self.say(about if source.blaming else tr("no blame"))
        self.workbench.pull_now()

    def action_plan(self, what: str) -> None:
        if self.active != "plan":
            told = tr("that is for the plan: {key} goes there", key=way_to("pane.plan"))
            say = self.workbench.say_no_line if what in ("add", "edit") else self.say
            say(told)
            return
        self.plan_editing.do(what)

    def action_pane(self, name: str) -> None:
        self.hidden.discard(name)
        self.active = name
        self.arrange_panes()
        # At once: with a delay, another key may have hidden the pane again before the focus.
        self.set_focus(self.panes[name])

    def pane_at(self, place: Offset) -> str:
        """Return the pane at a place of the screen; "" beside all panes."""
        try:
            widget, _ = self.get_widget_at(*place)
        except NoWidget:
            return ""
        nodes = widget.ancestors_with_self
        return next((node.id for node in nodes if node.id in self.panes), "") or ""

    def _laid(self) -> dict[str, Place]:
        size = self.body.size
        return self._places((size.width, size.height))

    def on_mouse_down(self, event: MouseDown) -> None:
        """Take hold of a border between two panes."""
        if event.button != 1 or not self.pane_at(event.screen_offset):
            return
        at = event.screen_offset - self.body.region.offset
        self._dragged = edge_at(self._laid(), at.x, at.y)
        self._dragged_from = event.screen_offset
        if self._dragged is not None:
            self.capture_mouse()

    def on_mouse_move(self, event: MouseMove) -> None:
        if self._dragged is None:
            return
        moved = event.screen_offset - self._dragged_from
        if by := moved.y if self._dragged.below else moved.x:
            self._dragged_from = event.screen_offset
            self._move_border(self._dragged, by)

    def on_mouse_up(self, event: MouseUp) -> None:
        if self._dragged is not None:
            self.capture_mouse(False)
            self._dragged = None

    def _move_border(self, edge: Edge, by: int) -> None:
        appearance = self.workbench.appearance
        layout = self.preset, self.shape
        moved = moved_border(appearance.borders, layout, self._laid(), edge=edge, by=by)
        if moved is None:
            key = way_to("pane.show")
            self.say(tr("borders move while all panes of the layout are here: {key}", key=key))
            return
        appearance.borders = moved
        self.body.rearrange()
        self.say(appearance.with_save_hint("borders", tr("borders moved")))

    def action_border(self, what: str) -> None:
        """Make the focused pane wider, narrower, higher or lower; or all as the layout has them."""
        if what == "reset":
            self.workbench.appearance.borders = {}
            self.body.rearrange()
            self.say(tr("the borders are those of the layout"))
            return
        below = what in ("higher", "lower")
        found = edge_of(self._laid(), self.active, below=below)
        if found is None:
            self.say(tr("there is no border to move here"))
            return
        edge, grows = found
        step = BORDER_ROWS if below else BORDER_COLUMNS
        self._move_border(edge, step * grows * (1 if what in ("higher", "wider") else -1))

    def on_click(self, event: Click) -> None:
        """A right click offers what a pane can do; a double click opens what was clicked, or on
        the frame, or in a pane without entries, zooms the pane.
        """
        pane = self.pane_at(event.screen_offset)
        if not pane:
            return
        if event.button == RIGHT_BUTTON:
            self.action_pane(pane)
            self.open_menu(event.screen_offset, pane)
        elif event.chain == 2:
            widget = self.panes[pane]
            inside = widget.content_region.contains_point(event.screen_offset)
            if widget is self.agents and inside:
                return  # its second click has opened the agent
            if isinstance(widget, LineView) and widget.picks and inside:
                self.action_open()
            elif not (isinstance(widget, ChartPane) and inside):
                self.action_zoom()

    def action_menu(self) -> None:
        self.open_menu(self.panes[self.active].region.offset + MENU_PLACE, self.active)

    def on_chart_pane_chosen(self, message: ChartPane.Chosen) -> None:
        """Pick the attempt of a clicked point; a double click leads to the end of its round."""
        found = message.attempt
        if message.twice:
            self.app.run_worker(self.workbench.to_round(found.round), name="to a round")
            return
        self.attempts.choose(found.number)
        why = retold(one_line(found.reason))
        told = {"number": found.number, "item": found.item, "verdict": found.verdict, "why": why}
        self.say(tr("attempt {number} of {item}: {verdict}, {why}", **told))

    def on_ask_card_touched(self) -> None:
        self._stop_clock()

    async def on_ask_card_called(self, message: AskCard.Called) -> None:
        await self.workbench.carry_out(command(message.command))

    def on_tab_row_chosen(self, message: TabRow.Chosen) -> None:
        self.action_pane(message.pane)

    def action_cycle_pane(self, step: int) -> None:
        listed = [*PANE_NAMES, *self.popouts.open]
        names = self.shown if len(self.shown) > 1 else listed
        self.action_pane(names[(names.index(self.active) + step) % len(names)])

    def action_beside(self, side: str) -> None:
        size = self.body.size
        name = beside(self._places((size.width, size.height)), self.active, side)
        if name is not None:
            self.action_pane(name)
        elif len(self.shown) == 1:
            self.action_cycle_pane(-1 if side in ("left", "up") else 1)

    def action_zoom(self) -> None:
        if self.active in self.popouts.open:
            self.popouts.do("full")
            return
        self.zoomed = not self.zoomed
        self.arrange_panes()

    def action_hide(self) -> None:
        shown = self.shown
        if self.active in self.popouts.open:
            self.popouts.do("close")
            return
        if len(shown) < 2:
            self.say(tr("the only pane on screen stays"))
            return
        self.hidden.add(self.active)
        at = shown.index(self.active)
        key = way_to("pane.show")
        name = tr(PANE_NAMES[self.active])
        self.say(tr("{pane} is hidden: {key} brings all panes back", pane=name, key=key))
        self.action_pane(shown[at + 1] if at + 1 < len(shown) else shown[at - 1])

    def action_show_all(self) -> None:
        self.hidden.clear()
        self.zoomed = False
        self.arrange_panes()
        self.say(tr("all panes of this layout are back"))

    def action_preset(self) -> None:
        names = list(PRESETS)
        self.workbench.appearance.deck_layout = names[(names.index(self.preset) + 1) % len(names)]
        self.zoomed = False
        told = tr("layout {name}: {names}", name=self.preset, names=", ".join(names))
        self.arrange_panes()
        if self.shape not in PRESETS[self.preset]:
            told = tr("layout {name}: seen from 100×30 on", name=self.preset)
        self.say(self.workbench.appearance.with_save_hint("layout", told))

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
        return pane if isinstance(pane, LogPane) else self.log_pane

    def action_subagent(self, what: str) -> None:
        self.popouts.do(what)
        self.workbench.pull_now()

    def on_agents_pane_chosen(self) -> None:
        self._open_agent()

    def _open_agent(self) -> None:
        """Open the picked agent: a popout for a subagent, the log for the main agent."""
        if self.popouts.list.picked_main:
            self.action_pane("log")
        else:
            self.popouts.look_closer()
            self.workbench.pull_now()

    def action_cycle(self) -> None:
        if not self.panes[self.active].cycle():
            self.panes["chart"].cycle()
        self.workbench.pull_now()
