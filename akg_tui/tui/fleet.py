"""The agents of a run: the main one, every diagnosis, and the subagents of its calls. Pure.

Read from the events: a visit to DIAGNOSE is a subagent with a context of its own, and so is
what the agent starts by a call; their replies and calls name them. Keeps a few figures and
the last line of each, never its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from akg_tui.core import events as ev
from akg_tui.core.machine import AGENT_PHASES, Phase
from akg_tui.core.plain import one_line
from akg_tui.tui import words
from akg_tui.tui.glyphs import DONE, IDLE, LIVE, WAITS
from akg_tui.tui.spans import BLANK, Line, fit, line, spread

LINE_CHARS = 400
KEPT = 200  # subagents, the newest
MOST = 2_000  # records that are read at once, so that no reading holds the screen


@dataclass
class Agent:
    """`first` and `last` are places in the records, to read its own part of the log by."""

    name: str
    doing: str
    state: str  # working, idle, done, failed
    since: float
    replies: int = 0
    calls: int = 0
    tokens: int = 0
    line: str = ""
    ended: float | None = None
    ident: str = ""  # its name in the journal, where it has one


_SIGN = {
    "working": (LIVE, "item.active"),
    "idle": (IDLE, "muted"),
    "waiting": (WAITS, "note"),
    "done": (DONE, "verdict.keep"),
    "failed": ("✗", "verdict.fail"),
}


@dataclass
class Fleet:
    """What was read of one run so far."""

    main: Agent = field(default_factory=lambda: Agent("main", "plans and edits", "idle", 0.0))
    subagents: list[Agent] = field(default_factory=list)
    seen: int = 0
    diagnoses: int = 0
    _former: list[Fleet] = field(default_factory=list)  # copies, one after every MOST records
    _diagnosing: bool = False
    _diagnosis: Agent = field(default_factory=lambda: Agent("", "", "idle", 0.0))

    @property
    def at_work(self) -> Agent:
        return self._diagnosis if self._diagnosing else self.main

    def read(self, records: Sequence[ev.Record]) -> None:
        """Read what is new, at most `MOST` records at once; of an earlier moment of the run,
        what lies after the last copy before it.
        """
        self._leap(len(records))
        until = min(len(records), self.seen + MOST)
        for index in range(self.seen, until):
            self._read(records[index])
            if (index + 1) % MOST == 0:
                self._keep(index + 1)
        self.seen = until

    def _keep(self, seen: int) -> None:
        if seen // MOST > len(self._former):
            copy = self._copied()
            copy.seen = seen
            self._former.append(copy)

    def _copied(self) -> Fleet:
        new = {id(each): replace(each) for each in (self.main, self._diagnosis, *self.subagents)}
        return replace(
            self,
            main=new[id(self.main)],
            subagents=[new[id(each)] for each in self.subagents],
            _diagnosis=new[id(self._diagnosis)],
            _former=[],
        )

    def _leap(self, count: int) -> None:
        """Go on from the copy that is the nearest one before `count` records, if that is nearer."""
        former = self._former
        place = min(count // MOST, len(former))
        if self.seen > count or self.seen < place * MOST:
            copy = former[place - 1]._copied() if place else Fleet()
            self.__dict__.update(copy.__dict__)
            self._former = former

    def _read(self, record: ev.Record) -> None:
        event = record.event
        agent = self.at_work
        if isinstance(event, ev.ModelReplied | ev.ToolCalled):
            agent = self._named(event.source) or agent
        if isinstance(event, ev.PhaseEntered):
            self._entered(event, record.at)
        elif isinstance(event, ev.SubagentStarted):
            self._started(event, record.at)
        elif isinstance(event, ev.SubagentEnded):
            self._ended(event, record.at)
        elif isinstance(event, ev.ModelReplied):
            agent.replies += 1
            agent.tokens += event.input_tokens + event.output_tokens
            agent.line = _last_line(event.text) or agent.line
        elif isinstance(event, ev.ToolCalled):
            agent.calls += 1
            agent.line = f"calls {event.tool}"[:LINE_CHARS]
        elif isinstance(event, ev.DiagnosisReported):
            fallback = event.source == "fallback"
            agent.state = "failed" if fallback else "done"
            agent.line = event.cause[:LINE_CHARS]
        elif isinstance(event, ev.VisitFailed):
            agent.line = event.reason[:LINE_CHARS]

    def _named(self, ident: str) -> Agent | None:
        if not ident:
            return None
        return next((each for each in reversed(self.subagents) if each.ident == ident), None)

    def _started(self, event: ev.SubagentStarted, at: float) -> None:
        if self._diagnosing and not event.call and not self._diagnosis.ident:
            self._diagnosis.ident = event.subagent
            return
        agent = Agent(f"{event.agent} {event.subagent}", "", "working", at, ident=event.subagent)
        agent.line = event.prompt[:LINE_CHARS]
        if self._diagnosing and not event.call:
            self._diagnosis = agent  # the visit goes on with another
        self._add(agent)

    def _ended(self, event: ev.SubagentEnded, at: float) -> None:
        agent = self._named(event.subagent)
        if agent is not None:
            agent.ended = at
            agent.state = "done" if event.status == "done" else "failed"
            agent.line = event.reason[:LINE_CHARS] or agent.line

    def _add(self, agent: Agent) -> None:
        self.subagents.append(agent)
        del self.subagents[:-KEPT]

    def _entered(self, event: ev.PhaseEntered, at: float) -> None:
        if self._diagnosing and event.phase is not Phase.DIAGNOSE:
            last = self._diagnosis
            last.ended = last.ended or at
            if last.state == "working":
                last.state = "failed"
            self._diagnosing = False
        if event.phase is Phase.DIAGNOSE:
            self.diagnoses += 1
            name = f"diagnosis {self.diagnoses}"
            self._diagnosis = Agent(name, "why attempts failed", "working", at)
            self._add(self._diagnosis)
            self._diagnosing = True
        else:
            self.main.doing = event.phase.value
        working = event.phase in AGENT_PHASES and not self._diagnosing
        self.main.state = "working" if working else "idle"
        self.main.since = at


def _last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2][-LINE_CHARS:]


def fleet_rows(fleet: Fleet, now: float, room: int) -> list[Line]:
    """Two rows an agent: who, in which state, at what cost; and below it its last line."""
    rows: list[Line] = []
    for agent in (fleet.main, *reversed(fleet.subagents)):
        glyph, role = _SIGN[agent.state]
        doing = agent.doing if agent is fleet.main else ""
        left = line(
            (f"{glyph} ", role), (one_line(agent.name), "strong"), (f"  {agent.state}", role)
        )
        left = (*left, (f" in {doing}" if doing else "", "muted"))
        cost = [words.count(agent.replies, "turn")]
        if agent.tokens:
            cost.append(words.tokens(agent.tokens))
        if agent is not fleet.main:
            cost.append(words.short_time((agent.ended or now) - agent.since))
        rows.append(spread(left, line((" · ".join(cost), "muted")), room))
        said = one_line(agent.line)
        rows.append(fit(line("  ", (said, "faint")), room) if said else BLANK)
    return rows
