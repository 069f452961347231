"""The live view of a run for a screen: activity, progress and streamed text; bounded and lossy.

Writers overwrite, readers poll at their own rate. Nothing here is journaled or decides anything;
everything that must persist arrives as an event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from akg_tui.core.measurement import Progress

MAX_STREAM_CHARS = 20_000


class TextStream:
    """Streamed text; beyond `MAX_STREAM_CHARS` the oldest characters are dropped."""

    def __init__(self) -> None:
        self._pieces: deque[str] = deque()
        self._chars = 0

    def write(self, delta: str) -> None:
        self._pieces.append(delta[-MAX_STREAM_CHARS:])
        self._chars += len(self._pieces[-1])
        while self._chars > MAX_STREAM_CHARS and len(self._pieces) > 1:
            self._chars -= len(self._pieces.popleft())

    def clear(self) -> None:
        self._pieces.clear()
        self._chars = 0

    @property
    def text(self) -> str:
        return "".join(self._pieces)


@dataclass
class SubagentStream:
    """A subagent at work: its `id` in the journal, its kind, its prompt in a line, its text."""

    id: str
    agent: str
    told: str
    stream: TextStream = field(default_factory=TextStream)


class SubagentStreams:
    """The subagents at work, in the order in which they began.

    Their complete replies are in the journal (`ModelReplied.source`, and `source` of tool calls);
    the stream holds the reply in progress, and an entry is removed when its subagent ends.
    `on_change` is called at every change.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._at_work: dict[str, SubagentStream] = {}
        self._on_change = on_change

    @property
    def at_work(self) -> tuple[SubagentStream, ...]:
        return tuple(self._at_work.values())

    def stream(self, subagent: str) -> str:
        """Return the text that the subagent is writing; "" when the subagent is not at work."""
        one = self._at_work.get(subagent)
        return one.stream.text if one else ""

    def begin(self, subagent: str, agent: str, told: str) -> None:
        self._at_work[subagent] = SubagentStream(subagent, agent, told)
        self._on_change()

    def write(self, subagent: str, delta: str) -> None:
        if one := self._at_work.get(subagent):
            one.stream.write(delta)
            self._on_change()

    def said(self, subagent: str) -> None:
        """Clear the subagent's stream: the text so far is a complete reply in the journal."""
        if one := self._at_work.get(subagent):
            one.stream.clear()
            self._on_change()

    def show(self, at_work: Iterable[SubagentStream]) -> None:
        """Replace the shown subagents by these, received from another process."""
        self._at_work = {one.id: one for one in at_work}
        self._on_change()

    def end(self, subagent: str) -> None:
        self._at_work.pop(subagent, None)
        self._on_change()


@dataclass
class Live:
    """The newest progress of an evaluation and the text that the agent is writing.

    `version` grows with every change, so a reader can compare it before a redraw. `notice` is the
    message that a person still has to see when the run is over. `subagents` are those at work, each
    with a stream of its own; a diagnosis writes to `stream` as well. `holds`: no work is under way.
    `at_rest`: no process is at work on the run. `screens`: how many workbenches show the run.
    `detach` lets the run go on without the terminal that it is at work in; None where it has none.
    """

    activity: str = ""
    holds: bool = True
    at_rest: bool = False
    screens: int = 0
    detach: Callable[[], object] | None = None
    notice: str = ""
    progress: Progress | None = None
    version: int = 0
    subagents: SubagentStreams = field(init=False)
    _stream: TextStream = field(default_factory=TextStream)

    def __post_init__(self) -> None:
        self.subagents = SubagentStreams(self._touch)

    def _touch(self) -> None:
        self.version += 1

    def show(self, activity: str, *, holds: bool = False) -> None:
        """Show the current activity, and clear progress and stream of the last one."""
        self.holds = holds
        self._stream.clear()
        self.go_on(activity)

    def go_on(self, activity: str) -> None:
        """Show other words for an activity that goes on, and clear its progress."""
        self.activity = activity
        self.progress = None
        self._touch()

    def report(self, progress: Progress) -> None:
        self.progress = progress
        self._touch()

    def write(self, delta: str) -> None:
        """Append streamed text; beyond `MAX_STREAM_CHARS` the oldest characters are dropped."""
        self._stream.write(delta)
        self._touch()

    @property
    def stream(self) -> str:
        return self._stream.text
