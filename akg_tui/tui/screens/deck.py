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
from akg_tui.tui.code import Colours
from akg_tui.tui.commands import footer
from akg_tui.tui.compare import compare, size, split_lines
from akg_tui.tui.look import Look
from akg_tui.tui.panes.chart import ChartPane
from akg_tui.tui.panes.header import Header
from akg_tui.tui.panes.log import LogPane
from akg_tui.tui.panes.plan import PlanPane
from akg_tui.tui.panes.rail import Rail
from akg_tui.tui.panes.source import SourcePane
from akg_tui.tui.screens.review import Review
from akg_tui.tui.screens.watching import Watching, bindings
from akg_tui.tui.shape import LEAST, PANES, TABS, Shape, shape_of, visible
from akg_tui.tui.snapshot import Ask, ask, sparkline
from akg_tui.tui.spans import Line, Span, fit, line
from akg_tui.tui.widgets.askcard import AskCard
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
        self.hint = OneLine("hint", "a hint to the agent: enter sends it, esc leaves")
        self.note = Rows("note")
        self._asked: tuple[int, float, tuple[int, int]] | None = None

    def compose(self) -> ComposeResult:
        yield self.header
        yield self.rail
        yield self.tab_row
        with Container(id="body"):
            yield from self.panes.values()
        yield self.spark
        yield self.card
        yield self.hint
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
        self.card.pull(self._ask(look), look.now)
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
        self.footer.pull(footer("deck", look.state), look.now)

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

    def _ask(self, look: Look) -> Ask | None:
        gate = look.state.gate
        if not look.waits or gate is None or look.state.best is None:
            return None
        if self._asked is None or self._asked[0] != gate.gate:
            opened = (r.at for r in reversed(look.records) if isinstance(r.event, ev.GateOpened))
            old, new = look.kernel(look.state.best.blob), look.kernel(look.state.work_blob)
            changed = size(compare(split_lines(old), split_lines(new)))
            self._asked = gate.gate, next(opened, look.now), changed
        _, since, (added, removed) = self._asked
        return ask(look.state, since, look.now, added, removed)

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

    def action_review(self) -> None:
        look = self.steering.look()
        if look.candidate is None:
            self.say("there is no candidate to review: the kernel under work is the best one")
            return
        self.app.push_screen(Review(look, self.colours))

    def action_answer(self, answer: str) -> None:
        look = self.steering.look()
        gate = look.state.gate
        if gate is None or not look.waits:
            self.say("nothing waits for an answer")
        elif not self.card.arming.armed(gate.gate, look.now):
            self.say("not yet: the keys count once the card has been in sight for a moment")
        else:
            approve = answer == "keep"
            yes = "kept" if gate.kind == "keep" else "approved"
            what = f"attempt {gate.attempt}" if gate.kind in ("keep", "edit") else gate.kind
            told = f"{what}: {yes if approve else 'rejected'}"
            self.steering.steer(cmd.AnswerGate(gate.gate, approve), told)

    def action_hint(self) -> None:
        if self.steering.look().state.finished:
            self.say("the run is over: no agent is there to read a hint")
            return
        self.hint.open()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        question = self.steering.look().state.question
        command: cmd.Command = cmd.Hint(event.value)
        told = "the agent reads your hint next"
        if question is not None and question.attended:
            command = cmd.AnswerQuestion(question.number, event.value)
            told = "the agent goes on with your answer"
        if self.steering.steer(command, told):
            self.hint.value = ""
        self.on_one_line_left()

    def on_one_line_left(self) -> None:
        self.hint.close()
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
