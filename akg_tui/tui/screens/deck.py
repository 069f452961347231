"""The deck: the one screen on which a run is watched and steered.

Owns the layout and the keys. What the panes show is theirs; what a key does to the run is
a command that core accepts or refuses with a reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.events import DescendantBlur, DescendantFocus
from textual.widgets import Input

from akg_tui.core import commands as cmd
from akg_tui.core.machine import Mode
from akg_tui.tui.asks import Ask, asks
from akg_tui.tui.code import Colours, Texts
from akg_tui.tui.commands import Where, footer, way_to
from akg_tui.tui.compare import compare, size, split_lines
from akg_tui.tui.language import marked, tr
from akg_tui.tui.look import Look
from akg_tui.tui.panes.agents import AgentsPane
from akg_tui.tui.panes.attempts import AttemptsPane
from akg_tui.tui.panes.chart import ChartPane
from akg_tui.tui.panes.eval import EvalPane
from akg_tui.tui.panes.header import Header
from akg_tui.tui.panes.linked import Linked
from akg_tui.tui.panes.log import LogPane
from akg_tui.tui.panes.plan import PlanPane
from akg_tui.tui.panes.rail import Rail
from akg_tui.tui.panes.source import SourcePane
from akg_tui.tui.panes.timeline import Timeline
from akg_tui.tui.references import Kernel, NoSuchReference, offers, resolved, told_of
from akg_tui.tui.screens.finding import Finding
from akg_tui.tui.screens.gates import Gates
from akg_tui.tui.screens.planhand import PlanHand
from akg_tui.tui.screens.popping import Popping
from akg_tui.tui.screens.reading import Reading
from akg_tui.tui.screens.review import Review
from akg_tui.tui.screens.watching import Watching, bindings
from akg_tui.tui.shape import (
    PANE_NAMES,
    PANES,
    PRESETS,
    TABS,
    Place,
    Shape,
    beside,
    place,
    shape_of,
)
from akg_tui.tui.snapshot import sparkline
from akg_tui.tui.tabs import tabs, too_small
from akg_tui.tui.widgets.askcard import AskCard
from akg_tui.tui.widgets.hintline import HintLine
from akg_tui.tui.widgets.lineview import LineView
from akg_tui.tui.widgets.oneline import OneLine
from akg_tui.tui.widgets.painted import Rows
from akg_tui.tui.widgets.tiles import Tiles

_DECKS_OWN = frozenset(PANES) - {"agents"}

if TYPE_CHECKING:
    from textual.dom import DOMNode

Pane = PlanPane | SourcePane | LogPane | ChartPane | AttemptsPane | AgentsPane | EvalPane

_MODE_WAITS = {
    Mode.AUTO: marked("nothing waits for you"),
    Mode.REVIEW: marked("a KEEP waits for your answer"),
    Mode.STEP: marked("every transition waits for {key}"),
}
_NEXT_MODE = {Mode.AUTO: Mode.REVIEW, Mode.REVIEW: Mode.STEP, Mode.STEP: Mode.AUTO}


class Deck(Watching):
    CSS_PATH = "../styles/deck.tcss"
    BINDINGS = bindings("deck")

    def __init__(self) -> None:
        super().__init__()
        self.active = "source"
        self.zoomed = False
        self.preset = "deck"
        self.hidden: set[str] = set()
        self.colours, texts = Colours(), Texts()
        self.header = Header("header")
        self.rail = Rail("rail")
        self.timeline = Timeline()
        self.tab_row = Rows("tabs")
        self.plan = PlanPane()
        self.log_pane = LogPane()
        self.chart = ChartPane()
        self.attempts = AttemptsPane()
        self.evaluation = EvalPane()
        self.agents = AgentsPane()
        # In the order in which tab goes through them; popouts come after.
        self.panes: dict[str, Pane] = {
            "plan": self.plan,
            "best": SourcePane("best", self.colours, texts, working=False),
            "source": SourcePane("source", self.colours, texts, working=True),
            "chart": self.chart,
            "attempts": self.attempts,
            "eval": self.evaluation,
            "log": self.log_pane,
            "agents": self.agents,
        }
        self.popping = Popping(self, self.agents)
        best, working = self.panes["best"], self.panes["source"]
        assert isinstance(best, SourcePane)
        assert isinstance(working, SourcePane)
        self.linked = Linked(best, working)
        self.body = Tiles(*self.panes.values(), places=self._places, id="body")
        self.spark = Rows("spark")
        self.card = AskCard()
        self.hint = HintLine("hint", "", self._references, self._referred)
        self.prompt = OneLine("prompt", "")
        self.note = Rows("note")
        self.reply = OneLine("reply", "")
        self._replies_to = ""
        self._changed: tuple[tuple[str, str], tuple[int, int] | None] | None = None
        self._answered: Callable[[str], bool | None] | None = None
        self._finding: Finding | None = None
        self._arranged: tuple[object, ...] = ()
        self.reword()

    def rekey(self) -> None:
        self.timeline.rekey()

    def holder_of(self, where: Where) -> DOMNode:
        return self.timeline if where == "past" else self

    def reword(self) -> None:
        self.hint.placeholder = tr(
            "a hint to the agent: @p3 an item, @44ab a line (tab completes), enter sends it"
        )
        self.reply.placeholder = tr("your answer: enter sends it, esc leaves")

    def compose(self) -> ComposeResult:
        yield self.header
        yield self.rail
        yield self.timeline
        yield self.tab_row
        yield self.body
        yield self.spark
        yield self.card
        yield self.hint
        yield self.reply
        yield self.prompt
        yield self.note
        yield self.footer

    def on_mount(self) -> None:
        self.hand = PlanHand(self.steering, self.plan, self.ask_for, self.say)
        self._arrange()
        self.panes[self.active].focus()

    def on_resize(self) -> None:
        self._arrange()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        name = event.widget.id or ""
        if name in self.panes and name != self.active:
            self.active = name
            self._arrange()

    def on_descendant_blur(self, event: DescendantBlur) -> None:
        if event.widget in (self.hint, self.reply, self.prompt):
            # Somebody went elsewhere, by the mouse or by tab: the line is left.
            self._close_lines()

    @property
    def news(self) -> int:
        """What the deck has still to read tells the clock to come again."""
        return self.agents.fleet.seen

    @property
    def shape(self) -> Shape:
        return shape_of(*self.app.size)

    def _places(self, size: tuple[int, int]) -> dict[str, Place]:
        below = self.popping.below(self.active)
        zoomed = self.zoomed and below == self.active
        places = place(size, self.shape, self.preset, below, hidden=self.hidden, zoomed=zoomed)
        return self.popping.places(places, size, self.shape)

    @property
    def shown(self) -> list[str]:
        """The panes on screen, in the order of tab."""
        places = self._places((200, 60))
        return [name for name in self.panes if name in places]

    def _arrange(self) -> None:
        self.call_after_refresh(self.card.fit_height)
        shape = self.shape
        shown = self.shown
        self.call_after_refresh(self.steering.pull_now)
        popouts = self.popping.standing
        arranged = (shape, tuple(shown), popouts, self.preset, self.zoomed, self.app.size)
        if arranged == self._arranged:
            return  # the focus moved: a layout of the whole screen is dear
        self._arranged = arranged
        for each in Shape:
            self.set_class(each is shape, f"-{each}")
        for name, pane in self.panes.items():
            if pane.display != (name in shown):
                pane.display = name in shown
        self.body.rearrange()

    def pull(self, look: Look) -> None:
        seq = look.state.seq
        self.header.take(seq, lambda: self.header.pull(look))
        self.rail.take(seq, lambda: self.rail.pull(look))
        self.timeline.pull(look)
        self.set_class(look.past is not None, "-past")
        self.card.pull(self.asks(look), look.now)
        self.evaluation.attempt(lambda: self.evaluation.see(look))
        self.agents.attempt(lambda: self.agents.see(look))
        for pane in self.panes.values():
            if pane.display:
                self._pull_pane(pane, look)
        self.linked.follow(self.active)
        room = self.app.size.width - 2
        shape = self.shape
        if shape is Shape.TABS:
            self.tab_row.show((tabs(self.active, room, self.popping.labels),))
            self.spark.show((sparkline(look.state, room),))
        if shape is Shape.TINY:
            self.note.show((too_small(*self.app.size),))
        here: Where = "deck" if look.past is None else "past"
        if here == "deck" and self.active not in _DECKS_OWN:
            here = "agents"
        self.footer.pull(footer(here, look.state), self.steering.wall_clock())

    def _pull_pane(self, pane: Pane, look: Look) -> None:
        pane.take(look.state.seq, lambda: pane.pull(look))

    def asks(self, look: Look) -> tuple[Ask, ...]:
        """Everything that waits for the person, the oldest first."""
        state = look.state
        if not look.waits and state.question is None:
            return ()
        gate, question = state.gate, state.question
        since = {f"gate {gate.gate}": gate.since} if gate else {}
        if question is not None:
            since[f"question {question.number}"] = question.since
        changed = self._changes(look) if look.waits else (0, 0)
        return asks(state, since.__getitem__, look.now, changed)

    def _changes(self, look: Look) -> tuple[int, int] | None:
        """Lines added and removed by the candidate; compared once for two versions.

        None where a kernel cannot be read.
        """
        best = look.state.best
        if best is None:
            return 0, 0
        blobs = best.blob, look.state.work_blob
        if self._changed is None or self._changed[0] != blobs or self._changed[1] is None:
            self._changed = blobs, _changed(look, *blobs)
        return self._changed[1]

    def action_pause(self) -> None:
        state = self.steering.look().state
        if state.paused or state.api_failure:
            self.steering.steer(cmd.Unpause(), tr("the run goes on"))
        else:
            self.steering.steer(cmd.Pause(), tr("paused: the work under way ends first"))

    def action_step(self) -> None:
        self.steering.steer(cmd.Step(), tr("one step is granted"))

    def action_mode(self) -> None:
        mode = _NEXT_MODE[self.steering.look().state.mode]
        waits = tr(_MODE_WAITS[mode], key=way_to("run.step"))
        self.steering.steer(cmd.SetMode(mode), f"{tr('mode {name}', name=mode)}: {waits}")

    def action_gates(self) -> None:
        self.app.push_screen(Gates(self.steering))

    def action_review(self) -> None:
        look = self.steering.look()
        if look.candidate is None:
            self.say(tr("there is no candidate to review: the kernel under work is the best one"))
            return
        if self._changes(look) is None:
            self.say(tr("there is no diff to review: a kernel cannot be read, its pane says why"))
            return
        self.app.push_screen(Review(look, self.colours))

    def action_see(self) -> None:
        """What the card asks about, in full: a diff to review, or a script to read."""
        ask = self.card.shown
        if ask is not None and ask.detail:
            self.app.push_screen(Reading(ask.title, ask.detail))
        else:
            self.action_review()

    def action_answer(self, answer: str) -> None:
        """Answer the ask on the card; `answer` is keep, reject or always."""
        ask = self.armed_ask()
        if ask is None:
            return
        found = next((each for each in ask.answers if each.does == answer), None)
        if found is None:
            self._not_an_answer(
                tr("no rule can be made of this: it is answered by itself")
                if answer == "always"
                else tr("a question is answered, not rejected: its card says how")
            )
            return
        if answer == "always" and not self.card.says_all:
            self._not_an_answer(
                tr("no room here to say what a rule would approve: widen the window")
            )
            return
        command = found.command
        if ask.choices and isinstance(command, cmd.AnswerQuestion):
            command = cmd.AnswerQuestion(command.question, self.card.marked)
        self.steering.steer(command, found.told)

    def armed_ask(self) -> Ask | None:
        """The ask on the card, if it may be answered now; else the person is told why not."""
        look = self.steering.look()
        ask = self.card.shown
        if ask is None or ask.ident not in {each.ident for each in self.asks(look)}:
            self.say(tr("nothing waits for an answer"))
        elif not self.card.arming.armed(ask.ident, look.now):
            self._not_an_answer(
                tr("not yet: the keys count after a moment in sight without typing")
            )
        else:
            return ask
        return None

    def action_next_ask(self) -> None:
        if not self.card.turn():
            self._not_an_answer(tr("no other question waits"))

    def action_choice(self, step: int) -> None:
        if not self.card.mark(step):
            self._not_an_answer(tr("there is nothing to choose"))

    def action_reply(self) -> None:
        ask = self.card.shown
        if ask is not None and not ask.free:
            key = way_to("run.hint")
            self._not_an_answer(
                tr("this is answered with its keys, not in words; {key} writes a hint", key=key)
            )
        elif (ask := self.armed_ask()) is not None:
            self._replies_to = ask.ident
            self.reply.open()

    def _not_an_answer(self, why: str) -> None:
        """A key that answers nothing here was pressed at random: the next one has to wait."""
        self.card.arming.typed(self.steering.wall_clock())
        self.say(why)

    def typed(self, now: float, key: str) -> None:
        """The person types, so what appears meanwhile is not answered by it."""
        self.card.arming.typed(now)

    def action_hint(self) -> None:
        if self.steering.look().state.finished:
            self.say(tr("the run is over: no agent is there to read a hint"))
            return
        self.hint.open()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input is self.prompt:
            self._take_answer(event.value)
        elif event.input is self.reply:
            self._send_reply(event.value)
        else:
            self._send_hint(event.value)

    def _send_hint(self, text: str) -> None:
        try:
            command = cmd.Hint(self.with_references(text))
        except NoSuchReference as error:
            self.say(str(error))
            return
        if not text.strip() or self.steering.steer(command, tr("the agent reads your hint next")):
            self.hint.value = ""
            self.on_one_line_left()

    def with_references(self, text: str) -> str:
        """`text` with what its `@` references stand for. Raises `NoSuchReference`."""
        look = self.steering.look()
        kernels = [self._kernel(look), self._kernel(look, best=True)]
        return resolved(text, look.state, kernels, look.tag_key)

    def _kernel(self, look: Look, *, best: bool = False) -> Kernel:
        state = look.state
        kept = state.best.blob if state.best else state.seed_blob
        name = f"the best {state.task.files.editable}" if best else state.task.files.editable
        return Kernel(name, split_lines(_text(look, kept if best else state.work_blob) or ""))

    def _references(self, text: str) -> list[str]:
        look = self.steering.look()
        return offers(text, look.state, self._kernel(look), look.tag_key)

    def _referred(self, text: str) -> str:
        look = self.steering.look()
        return told_of(text, look.state, self._kernel(look), look.tag_key)

    def _send_reply(self, text: str) -> None:
        open_question = self.steering.look().state.question
        if open_question is None or f"question {open_question.number}" != self._replies_to:
            self.say(tr("that question is not open any more; your words are still on the line"))
            return
        command = cmd.AnswerQuestion(open_question.number, text)
        if self.steering.steer(command, tr("the agent goes on with your answer")):
            self.reply.value = ""
            self.on_one_line_left()

    def on_one_line_left(self) -> None:
        self._close_lines()
        self.panes[self.active].focus()

    def _close_lines(self) -> None:
        for each in (self.hint, self.reply, self.prompt):
            each.close()
        if self._finding is not None:
            self._finding.end()
            self._finding = None

    def ask_for(
        self, what: str, value: str, take: Callable[[str], bool | None], about: str = ""
    ) -> None:
        """Ask for a line: `take` gets it when enter sends it, and says False where it stays to
        be mended. What is left unsent is a draft `about` what it names.
        """
        self._finding = None
        self._answered = take
        self.prompt.open(tr("{what}, esc leaves", what=what), value, about)

    def _take_answer(self, text: str) -> None:
        finding = self._finding
        if finding is not None and not text.startswith(":"):
            self.say(finding.step(1))
            return
        take, self._answered = self._answered, None
        if finding is None and take is not None and take(text) is False:
            self._answered = take
            return
        self.prompt.value = ""  # what was taken is no draft
        if self._answered is None:  # or another line is asked for already
            self.on_one_line_left()
        if finding is not None:
            self.say(finding.to_line(text))

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input is not self.prompt or self._finding is None:
            return
        if told := self._finding.typed(event.value):
            self.say(told)

    def on_one_line_stepped(self, event: OneLine.Stepped) -> None:
        if self._finding is not None:
            self.say(self._finding.step(event.step))

    def action_find(self, begin: str = "") -> None:
        pane = self.panes[self.active]
        if not isinstance(pane, LineView):
            self.say(tr("there are no rows to search in this pane"))
            return
        self._answered = None
        self._finding = Finding(pane)
        what = tr("the number of a line") if begin else tr("find, or :120 for a line")
        self.prompt.open(tr("{what}: enter goes on, esc leaves", what=what), begin)

    def action_open(self) -> None:
        pane = self.panes[self.active]
        if pane is self.attempts and self.attempts.picked_item:
            self.action_pane("plan")
            self.plan.unfold(self.attempts.picked_item)
        elif isinstance(pane, AgentsPane):
            self._open_agent()
        elif isinstance(pane, LineView):
            self.say(pane.open() or tr("{key} folds it again", key=way_to("pane.open")))
        else:
            self.action_zoom()
        self.steering.pull_now()

    def action_turn(self, step: int) -> None:
        pane = self.panes[self.active]
        if isinstance(pane, SourcePane):
            self.say(pane.to_change(step))
        elif not self._log_here.turn(step):
            self.say(tr("there is no further reply of the agent"))

    def action_blame(self) -> None:
        pane = self.panes[self.active]
        source = pane if isinstance(pane, SourcePane) else self.panes["source"]
        assert isinstance(source, SourcePane)
        on = source.toggle_blame()
        about = tr("blame: the item that wrote each line, and its gain")
        self.say(about if on else tr("no blame"))
        self.steering.pull_now()

    def action_plan(self, what: str) -> None:
        if self.active != "plan":
            self.say(tr("that is for the plan: {key} goes there", key=way_to("pane.plan")))
            return
        self.hand.do(what)

    def action_pane(self, name: str) -> None:
        self.hidden.discard(name)
        self.active = name
        self._arrange()
        self.panes[name].focus()

    def action_cycle_pane(self, step: int) -> None:
        listed = [*TABS, *self.popping.open]
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
        if self.active in self.popping.open:
            self.popping.do("full")
            return
        self.zoomed = not self.zoomed
        self._arrange()

    def action_hide(self) -> None:
        shown = self.shown
        if self.active in self.popping.open:
            self.popping.do("close")
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
        self._arrange()
        self.say(tr("all panes of this layout are back"))

    def action_preset(self) -> None:
        names = list(PRESETS)
        self.preset = names[(names.index(self.preset) + 1) % len(names)]
        self.zoomed = False
        self.say(tr("layout {name}: {names}", name=self.preset, names=", ".join(names)))
        self._arrange()
        if self.shape not in PRESETS[self.preset]:
            self.say(tr("layout {name}: seen from 100×30 on", name=self.preset))

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
        """The log that is meant: the focused one, else the run's own."""
        pane = self.panes[self.active]
        return pane if isinstance(pane, LogPane) else self.log_pane

    def action_subagent(self, what: str) -> None:
        self.popping.do(what)
        self.steering.pull_now()

    def on_agents_pane_chosen(self) -> None:
        self._open_agent()

    def _open_agent(self) -> None:
        """Look closer at the picked agent: a peek at a subagent, the log for the main one."""
        if self.popping.list.picked_main:
            self.action_pane("log")
        else:
            self.popping.look_closer()
            self.steering.pull_now()

    def action_cycle(self) -> None:
        if self.active == "attempts":
            self.attempts.cycle()
        else:
            self.chart.cycle()
        self.steering.pull_now()


def _changed(look: Look, old: str, new: str) -> tuple[int, int] | None:
    """Lines added and removed; None where a kernel cannot be read."""
    before, after = _text(look, old), _text(look, new)
    if before is None or after is None:
        return None
    return size(compare(split_lines(before), split_lines(after)))


def _text(look: Look, blob: str) -> str | None:
    """A kernel; None where it cannot be read. The kernel's pane says why."""
    try:
        return look.kernel(blob)
    except Exception:  # noqa: BLE001 - told by the pane that shows the kernel
        return None
