"""The agents of a run as rows: the main agent, each diagnosis, and each subagent.

Built from the events: a DIAGNOSE visit counts as a subagent with its own context, as does each
agent that a tool call starts; replies and calls name their subagent. Stores counts and the last
line of each agent, never its text. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from akg_tui.core import events as ev
from akg_tui.core.phases import AGENT_PHASES, Phase, Verdict
from akg_tui.core.sanitize import one_line
from akg_tui.view import formatting
from akg_tui.view.event_words import diagnosis_cause
from akg_tui.view.glyphs import DONE, IDLE, LIVE, VERDICT, WAITS
from akg_tui.view.language import retold, tr, translated
from akg_tui.view.spans import BLANK, Line, cells, fit, line, spread, width

LINE_CHARS = 400
KEPT = 200  # newest subagents that are stored
MOST = 500  # records read by one call, so that a call never blocks the screen


@dataclass
class Agent:
    """One agent, with its records from index `first` up to, not including, index `last`.

    `unread` counts the user's messages that wait for the agent's next request.
    """

    name: str
    doing: str
    state: str  # working, idle, done, failed, stopped
    since: float
    replies: int = 0
    calls: int = 0
    tokens: int = 0
    line: str = ""
    ended: float | None = None
    ident: str = ""  # its name in the journal; "" if it has none
    first: int = 0
    last: int | None = None
    visit: bool = False  # a visit to a phase, which no tool call started
    unread: int = 0
    stopping: bool = False

    @property
    def key(self) -> str:
        """The identity of the agent within the run."""
        return self.ident or self.name

    @property
    def at_work(self) -> bool:
        return self.state == "working"


_SIGN = {
    "working": (LIVE, "item.active"),
    "idle": (IDLE, "muted"),
    "waiting": (WAITS, "note"),
    "done": (DONE, "verdict.keep"),
    "failed": ("✗", "verdict.fail"),
    "stopped": VERDICT[Verdict.DISCARD],
}


@dataclass
class AgentList:
    """The agents of one run, up to the last record read."""

    main: Agent = field(default_factory=lambda: Agent("main", "plans and edits", "idle", 0.0))
    subagents: list[Agent] = field(default_factory=list)
    seen: int = 0
    diagnoses: int = 0
    _diagnosing: bool = False
    _diagnosis: Agent = field(default_factory=lambda: Agent("", "", "idle", 0.0))

    @property
    def at_work(self) -> Agent:
        return self._diagnosis if self._diagnosing else self.main

    def read(self, records: Sequence[ev.Record]) -> None:
        """Read at most `MOST` new records; with fewer than before, begin again."""
        if len(records) < self.seen:
            self.forget()
        until = min(len(records), self.seen + MOST)
        for index, record in enumerate(records[self.seen : until], self.seen):
            self._read(record, index)
        self.seen = until

    def forget(self) -> None:
        """Clear the list: its texts are in the former language, or an earlier event is shown."""
        self.__dict__.update(AgentList().__dict__)

    def find(self, key: str) -> Agent | None:
        """Return the newest subagent with this key; None before its start and after its removal."""
        return next((each for each in reversed(self.subagents) if each.key == key), None)

    @property
    def newest(self) -> Agent | None:
        """The subagent that started last, among those at work if there are any."""
        working = [each for each in self.subagents if each.at_work]
        listed = working or self.subagents
        return listed[-1] if listed else None

    def _read(self, record: ev.Record, index: int) -> None:
        event = record.event
        agent = self.at_work
        if isinstance(event, ev.ModelReplied | ev.ToolCalled):
            agent = self.find(event.source) or agent
        if isinstance(event, ev.PhaseEntered):
            self._entered(event, record.at, index)
        elif isinstance(event, ev.SubagentStarted):
            self._started(event, record.at, index)
        elif isinstance(event, ev.SubagentEnded):
            self._ended(event, record.at, index)
        elif isinstance(event, ev.SubagentHinted | ev.SubagentStopped):
            self._reached(event)
        elif isinstance(event, ev.ModelReplied):
            agent.replies += 1
            agent.unread = max(0, agent.unread - event.own_hints_told)
            agent.tokens += event.input_tokens + event.output_tokens
            agent.line = _last_line(event.text) or agent.line
        elif isinstance(event, ev.ToolCalled):
            agent.calls += 1
            agent.line = tr("last call: {tool}", tool=event.tool)[:LINE_CHARS]
        elif isinstance(event, ev.DiagnosisReported):
            fallback = event.source == "fallback"
            agent.state = "failed" if fallback else "done"
            agent.line = translated(diagnosis_cause(event))[:LINE_CHARS]
        elif isinstance(event, ev.VisitFailed):
            agent.line = retold(event.reason)[:LINE_CHARS]

    def _reached(self, event: ev.SubagentHinted | ev.SubagentStopped) -> None:
        if (agent := self.find(event.subagent)) is not None:
            agent.unread += isinstance(event, ev.SubagentHinted)
            agent.stopping = agent.stopping or isinstance(event, ev.SubagentStopped)

    def _started(self, event: ev.SubagentStarted, at: float, index: int) -> None:
        visit = not event.call
        if self._diagnosing and visit and not self._diagnosis.ident:
            self._diagnosis.ident = event.subagent
            return
        name = f"{event.subagent} {event.agent}"
        agent = Agent(name, "", "working", at, ident=event.subagent, first=index, visit=visit)
        agent.line = event.prompt[:LINE_CHARS]
        if self._diagnosing and visit:
            self._diagnosis = agent  # a later agent of the visit
        self._add(agent)

    def _ended(self, event: ev.SubagentEnded, at: float, index: int) -> None:
        agent = self.find(event.subagent)
        if agent is not None:
            agent.ended, agent.last, agent.unread = at, index + 1, 0
            agent.state = {"done": "done", "cancelled": "stopped"}.get(event.status, "failed")
            agent.line = retold(event.reason)[:LINE_CHARS] or agent.line

    def _add(self, agent: Agent) -> None:
        self.subagents.append(agent)
        del self.subagents[:-KEPT]

    def _entered(self, event: ev.PhaseEntered, at: float, index: int) -> None:
        if self._diagnosing and event.phase is not Phase.DIAGNOSE:
            last = self._diagnosis
            last.ended, last.last = last.ended or at, index
            if last.state == "working":
                last.state = "failed"
            self._diagnosing = False
        if event.phase is Phase.DIAGNOSE:
            self.diagnoses += 1
            name = f"diagnosis {self.diagnoses}"
            self._diagnosis = Agent(name, "why attempts failed", "working", at, first=index)
            self._diagnosis.visit = True
            self._add(self._diagnosis)
            self._diagnosing = True
        else:
            self.main.doing = event.phase.value
        working = event.phase in AGENT_PHASES and not self._diagnosing
        self.main.state = "working" if working else "idle"
        self.main.since = at


def _last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2][-LINE_CHARS:]


def shown_order(agents: AgentList) -> list[Agent]:
    """Return the main agent, then the subagents, the newest first."""
    return [agents.main, *reversed(agents.subagents)]


def cost_of(agent: Agent, now: float, most: int = 3) -> str:
    """Return turns, tokens and, for a subagent, time as text; only the last `most` parts."""
    cost = [formatting.count(agent.replies, "turn")]
    if agent.tokens:
        cost.append(tr("{count} tok", count=formatting.tokens(agent.tokens)))
    if agent.first or agent.ident:
        cost.append(formatting.short_time((agent.ended or now) - agent.since))
    return " · ".join(cost[-most:])


def state_told(agent: Agent) -> str:
    """Return the state of an agent in words."""
    stopping = agent.at_work and agent.stopping
    return tr("is being stopped") if stopping else translated(formatting.ending(agent.state))


def head_of(agent: Agent) -> Line:
    """Return the glyph, name and state of an agent."""
    glyph, role = _SIGN[agent.state]
    told = state_told(agent)
    return line((f"{glyph} ", role), (one_line(agent.name), "strong"), (f"  {told}", role))


ROWS_EACH = 2


def agent_rows(
    agents: AgentList, now: float, room: int, streams: Callable[[str], str] = lambda subagent: ""
) -> list[Line]:
    """Return two rows per agent: name, state and cost, and below them its last line.

    `streams` returns the text that a subagent is streaming.
    """
    rows: list[Line] = []
    for agent in shown_order(agents):
        doing = agent.doing if agent is agents.main else ""
        left = (*head_of(agent), (f" {tr('in {phase}', phase=doing)}" if doing else "", "muted"))
        fits = (most for most in (3, 2) if width(left) + cells(cost_of(agent, now, most)) < room)
        rows.append(spread(left, line((cost_of(agent, now, next(fits, 1)), "muted")), room))
        writing = _last_line(streams(agent.ident)[-LINE_CHARS:]) if agent.at_work else ""
        said = one_line(writing or agent.line)
        rows.append(fit(line("  ", (said, "faint")), room) if said else BLANK)
    return rows
