"""The deck: the one screen on which a run is watched and steered.

Owns the layout and the keys. What the panes show is theirs; what a key does to the run is
a command that core accepts or refuses with a reason.
"""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Container
from textual.events import DescendantFocus
from textual.widgets import Input

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.machine import Mode
from akg_tui.tui.asks import Ask, asks
from akg_tui.tui.code import Colours
from akg_tui.tui.commands import Where, footer
from akg_tui.tui.compare import compare, size, split_lines
from akg_tui.tui.look import Look
from akg_tui.tui.panes.chart import ChartPane
from akg_tui.tui.panes.header import Header
from akg_tui.tui.panes.log import LogPane
from akg_tui.tui.panes.plan import PlanPane
from akg_tui.tui.panes.rail import Rail
from akg_tui.tui.panes.source import SourcePane
from akg_tui.tui.panes.timeline import Timeline
from akg_tui.tui.references import Kernel, NoSuchReference, offers, resolved, told_of
from akg_tui.tui.screens.gates import Gates
from akg_tui.tui.screens.reading import Reading
from akg_tui.tui.screens.review import Review
from akg_tui.tui.screens.watching import Watching, bindings
from akg_tui.tui.shape import LEAST, PANES, TABS, Shape, shape_of, visible
from akg_tui.tui.snapshot import sparkline
from akg_tui.tui.spans import Line, Span, fit, line
from akg_tui.tui.widgets.askcard import AskCard
from akg_tui.tui.widgets.hintline import HintLine
from akg_tui.tui.widgets.lineview import LineView
from akg_tui.tui.widgets.oneline import OneLine
from akg_tui.tui.widgets.painted import Rows

Pane = PlanPane | SourcePane | LogPane | ChartPane

_NEXT_MODE = {Mode.AUTO: Mode.REVIEW, Mode.REVIEW: Mode.STEP, Mode.STEP: Mode.AUTO}


class Deck(Watching):
    CSS_PATH = "../styles/deck.tcss"
    BINDINGS = bindings("deck")

    def __init__(self) -> None:
        super().__init__()
        self.active = "source"
        self.zoomed = False
        self.colours = Colours()
        self.header = Header("header")
        self.rail = Rail("rail")
        self.timeline = Timeline()
        self.tab_row = Rows("tabs")
        self.log_pane = LogPane()
        self.chart = ChartPane()
        self.panes: dict[str, Pane] = {
            "plan": PlanPane(),
            "best": SourcePane("best", "5", self.colours, working=False),
            "source": SourcePane("source", "2", self.colours, working=True),
            "log": self.log_pane,
            "chart": self.chart,
        }
        self.spark = Rows("spark")
        self.card = AskCard()
        self.hint = HintLine(
            "hint",
            "a hint to the agent: @p3 an item, @44ab a line (tab completes), enter sends it",
            self._references,
            self._referred,
        )
        self.note = Rows("note")
        self.reply = OneLine("reply", "your answer: enter sends it, esc leaves")
        self._replies_to = ""
        self._asked_at: dict[str, float] = {}
        self._read_asked = 0
        self._changed: tuple[tuple[str, str], tuple[int, int]] | None = None

    def compose(self) -> ComposeResult:
        yield self.header
        yield self.rail
        yield self.timeline
        yield self.tab_row
        with Container(id="body"):
            yield from self.panes.values()
        yield self.spark
        yield self.card
        yield self.hint
        yield self.reply
        yield self.note
        yield self.footer

    def on_mount(self) -> None:
        self._arrange()
        self.panes[self.active].focus()

    def on_resize(self) -> None:
        self._arrange()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        name = event.widget.id or ""
        if name in PANES and name != self.active:
            self.active = name
            self._arrange()

    @property
    def shape(self) -> Shape:
        return shape_of(*self.app.size)

    def _arrange(self) -> None:
        self.call_after_refresh(self.card.fit_height)
        shape = self.shape
        shown = visible(shape, self.active, zoomed=self.zoomed)
        for each in Shape:
            self.set_class(each is shape, f"-{each}")
        self.set_class(len(shown) == 1, "-one")
        for name in PANES:
            self.panes[name].display = name in shown
        self.call_after_refresh(self.steering.pull_now)

    def pull(self, look: Look) -> None:
        self.header.pull(look)
        self.rail.pull(look)
        self.timeline.pull(look)
        self.set_class(look.past is not None, "-past")
        self.card.pull(self.asks(look), look.now)
        for pane in self.panes.values():
            if pane.display:
                pane.pull(look)
        room = self.app.size.width - 2
        shape = self.shape
        if shape is Shape.TABS:
            self.tab_row.show((self._tabs(room),))
            self.spark.show((sparkline(look.state, room),))
        if shape is Shape.TINY:
            self.note.show((self._small(),))
        here: Where = "deck" if look.past is None else "past"
        self.footer.pull(footer(here, look.state), self.steering.wall_clock())

    def _tabs(self, room: int) -> Line:
        spans: list[Span] = [(" ", "text")]
        for name, digit, label in TABS:
            role = "phase.live" if name == self.active else "muted"
            spans += [(f" {digit} {label} ", role), (" ", "text")]
        return fit(tuple(spans), room)

    def _small(self) -> Line:
        width, height = self.app.size
        least = f"{LEAST[0]}×{LEAST[1]}"
        text = f"{width}×{height} is small: one pane, 1-5 change it; the deck needs {least}"
        return fit(line((text, "note")), width)

    def asks(self, look: Look) -> tuple[Ask, ...]:
        """Everything that waits for the person, the oldest first."""
        state = look.state
        if not look.waits and state.question is None:
            return ()
        for record in look.records[self._read_asked :]:
            if isinstance(record.event, ev.GateOpened):
                self._asked_at[f"gate {record.event.gate}"] = record.at
            elif isinstance(record.event, ev.QuestionAsked):
                self._asked_at[f"question {record.event.question}"] = record.at
        self._read_asked = len(look.records)
        changed = self._changes(look) if look.waits else (0, 0)
        return asks(state, lambda ident: self._asked_at.get(ident, look.now), look.now, changed)

    def _changes(self, look: Look) -> tuple[int, int]:
        """Lines added and removed by the candidate; compared once for two versions."""
        best = look.state.best
        if best is None:
            return 0, 0
        blobs = best.blob, look.state.work_blob
        if self._changed is None or self._changed[0] != blobs:
            old, new = (split_lines(look.kernel(blob)) for blob in blobs)
            self._changed = blobs, size(compare(old, new))
        return self._changed[1]

    def action_pause(self) -> None:
        state = self.steering.look().state
        if state.paused or state.api_failure:
            self.steering.steer(cmd.Unpause(), "the run goes on")
        else:
            self.steering.steer(cmd.Pause(), "paused: the work under way ends first")

    def action_step(self) -> None:
        self.steering.steer(cmd.Step(), "one step is granted")

    def action_mode(self) -> None:
        mode = _NEXT_MODE[self.steering.look().state.mode]
        told = {
            Mode.AUTO: "mode auto: nothing waits for you",
            Mode.REVIEW: "mode review: a KEEP waits for your answer",
            Mode.STEP: "mode step: every transition waits for n",
        }[mode]
        self.steering.steer(cmd.SetMode(mode), told)

    def action_gates(self) -> None:
        self.app.push_screen(Gates(self.steering))

    def action_review(self) -> None:
        look = self.steering.look()
        if look.candidate is None:
            self.say("there is no candidate to review: the kernel under work is the best one")
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
        """Answer the ask on the card; `answer` is keep or reject."""
        ask = self.armed_ask()
        if ask is None:
            return
        found = next((each for each in ask.answers if each.does == answer), None)
        if found is None:
            self._not_an_answer("a question is answered, not rejected: its card says how")
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
            self.say("nothing waits for an answer")
        elif not self.card.arming.armed(ask.ident, look.now):
            self._not_an_answer("not yet: the keys count after a moment in sight without typing")
        else:
            return ask
        return None

    def action_next_ask(self) -> None:
        if not self.card.turn():
            self._not_an_answer("no other question waits")

    def action_choice(self, step: int) -> None:
        if not self.card.mark(step):
            self._not_an_answer("there is nothing to choose")

    def action_reply(self) -> None:
        ask = self.card.shown
        if ask is not None and not ask.free:
            self._not_an_answer("this is answered with its keys, not in words; i writes a hint")
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
            self.say("the run is over: no agent is there to read a hint")
            return
        self.hint.open()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input is self.reply:
            self._send_reply(event.value)
        else:
            self._send_hint(event.value)

    def _send_hint(self, text: str) -> None:
        look = self.steering.look()
        kernels = [self._kernel(look), self._kernel(look, best=True)]
        try:
            command = cmd.Hint(resolved(text, look.state, kernels, look.tag_key))
        except NoSuchReference as error:
            self.say(str(error))
            return
        if not text.strip() or self.steering.steer(command, "the agent reads your hint next"):
            self.hint.value = ""
            self.on_one_line_left()

    def _kernel(self, look: Look, *, best: bool = False) -> Kernel:
        state = look.state
        kept = state.best.blob if state.best else state.seed_blob
        name = f"the best {state.task.files.editable}" if best else state.task.files.editable
        return Kernel(name, split_lines(look.kernel(kept if best else state.work_blob)))

    def _references(self, text: str) -> list[str]:
        look = self.steering.look()
        return offers(text, look.state, self._kernel(look), look.tag_key)

    def _referred(self, text: str) -> str:
        look = self.steering.look()
        return told_of(text, look.state, self._kernel(look), look.tag_key)

    def _send_reply(self, text: str) -> None:
        open_question = self.steering.look().state.question
        if open_question is None or f"question {open_question.number}" != self._replies_to:
            self.say("that question is not open any more; your words are still on the line")
            return
        command = cmd.AnswerQuestion(open_question.number, text)
        if self.steering.steer(command, "the agent goes on with your answer"):
            self.reply.value = ""
            self.on_one_line_left()

    def on_one_line_left(self) -> None:
        self.hint.close()
        self.reply.close()
        self.panes[self.active].focus()

    def action_pane(self, name: str) -> None:
        self.active = name
        self._arrange()
        self.panes[name].focus()

    def action_zoom(self) -> None:
        self.zoomed = not self.zoomed
        self._arrange()

    def action_edge(self, edge: str) -> None:
        pane = self.panes[self.active]
        if isinstance(pane, LineView):
            pane.scroll_home(animate=False) if edge == "home" else pane.to_end()
            if pane.follows:
                pane.set_follow(edge == "end")

    def action_follow(self) -> None:
        self.log_pane.set_follow(not self.log_pane.follow)

    def action_cycle(self) -> None:
        self.chart.cycle()
        self.steering.pull_now()
