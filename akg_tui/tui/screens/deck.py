"""The deck: the one screen on which a run is watched and steered.

Owns the layout and the keys. What the panes show is theirs; what a key does to the run is
a command that core accepts or refuses with a reason.
"""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Container
from textual.events import DescendantFocus
from textual.widget import Widget
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
from akg_tui.tui.widgets.footer import Footer
from akg_tui.tui.widgets.lineview import LineView
from akg_tui.tui.widgets.oneline import OneLine
from akg_tui.tui.widgets.painted import Rows

_NEXT_MODE = {Mode.AUTO: Mode.REVIEW, Mode.REVIEW: Mode.STEP, Mode.STEP: Mode.AUTO}


class Deck(Watching):
    CSS_PATH = "../styles/deck.tcss"
    BINDINGS = bindings("deck")

    def __init__(self) -> None:
        super().__init__()
        self.colours = Colours()
        self.active = "source"
        self.zoomed = False
        self._asked: tuple[int, float, tuple[int, int]] | None = None

    def compose(self) -> ComposeResult:
        yield Header("header")
        yield Rail("rail")
        yield Rows("tabs")
        with Container(id="body"):
            yield PlanPane()
            yield SourcePane("best", "5", self.colours, working=False)
            yield SourcePane("source", "2", self.colours, working=True)
            yield LogPane()
            yield ChartPane()
        yield Rows("spark")
        yield AskCard()
        yield OneLine("hint", "a hint to the agent: enter sends it, esc leaves")
        yield Rows("note")
        yield Footer()

    def on_mount(self) -> None:
        self._arrange()
        self._pane(self.active).focus()

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

    def _pane(self, name: str) -> Widget:
        return self.query_one(f"#{name}")

    def _arrange(self) -> None:
        shape = self.shape
        shown = visible(shape, self.active, zoomed=self.zoomed)
        for each in Shape:
            self.set_class(each is shape, f"-{each}")
        self.set_class(len(shown) == 1, "-one")
        for name in PANES:
            self._pane(name).display = name in shown
        self.call_after_refresh(self.steering.pull_now)

    def pull(self, look: Look) -> None:
        self.query_one(Header).pull(look)
        self.query_one(Rail).pull(look)
        self.query_one(AskCard).pull(self._ask(look), look.now)
        for pane in self.query(f"#body > {LineView.__name__}, #body > ChartPane"):
            if pane.display:
                self._pull_pane(pane, look)
        room = self.app.size.width - 2
        shape = self.shape
        if shape is Shape.TABS:
            self.query_one("#tabs", Rows).show((self._tabs(room),))
            self.query_one("#spark", Rows).show((sparkline(look.state, room),))
        if shape is Shape.TINY:
            self.query_one("#note", Rows).show((self._small(),))
        self.query_one(Footer).pull(footer("deck", look.state), look.now)

    def _pull_pane(self, pane: Widget, look: Look) -> None:
        assert isinstance(pane, PlanPane | SourcePane | LogPane | ChartPane)
        pane.pull(look)

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
        if self.steering.look().state.paused:
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
            self.say("no KEEP waits for an answer")
        elif not self.query_one(AskCard).arming.armed(gate.gate, look.now):
            self.say("not yet: the keys count once the card has been in sight for a moment")
        else:
            approve = answer == "keep"
            told = f"attempt {gate.attempt}: {'kept' if approve else 'rejected'}"
            self.steering.steer(cmd.AnswerKeep(gate.gate, approve), told)

    def action_hint(self) -> None:
        if self.steering.look().state.finished:
            self.say("the run is over: no agent is there to read a hint")
            return
        self.query_one("#hint", OneLine).open()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        hint = self.query_one("#hint", OneLine)
        if self.steering.steer(cmd.Hint(event.value), "the agent reads your hint next"):
            hint.value = ""
        self._leave_hint(hint)

    def on_one_line_left(self) -> None:
        self._leave_hint(self.query_one("#hint", OneLine))

    def _leave_hint(self, hint: OneLine) -> None:
        hint.close()
        self._pane(self.active).focus()

    def action_pane(self, name: str) -> None:
        self.active = name
        self._arrange()
        self._pane(name).focus()

    def action_zoom(self) -> None:
        self.zoomed = not self.zoomed
        self._arrange()

    def action_edge(self, edge: str) -> None:
        pane = self._pane(self.active)
        if isinstance(pane, LineView):
            pane.scroll_home(animate=False) if edge == "home" else pane.to_end()
            if pane.follows:
                pane.set_follow(edge == "end")

    def action_follow(self) -> None:
        log = self.query_one(LogPane)
        log.set_follow(not log.follow)

    def action_cycle(self) -> None:
        self.query_one(ChartPane).cycle()
        self.steering.pull_now()
