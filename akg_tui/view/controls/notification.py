"""Notices: terminal bell, terminal title, desktop notification.

Told are requests that wait for the user, a KEEP, a failure and the end of a run, while the
terminal reports that it is not focused; a terminal that reports nothing counts as focused. Text
sent to the terminal is sanitized and of bounded length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from akg_tui.core.sanitize import one_line
from akg_tui.view.controls.preferences import Notify
from akg_tui.view.language import retold, tr

if TYPE_CHECKING:
    # At run time they are imported where they are used, so that the first screen needs none.
    from akg_tui.core import events as ev
    from akg_tui.core.state import RunState
    from akg_tui.view.controls.approvals import Request


BELL = "\x07"
_PUSH_TITLE, _POP_TITLE = "\x1b[22;2t", "\x1b[23;2t"
_WIDTH = 120


def title(text: str) -> str:
    """Return the escape codes that set the title of the terminal to `text`."""
    return f"\x1b]2;{one_line(text, _WIDTH)}\x07"


def note(text: str, environment: Mapping[str, str]) -> str:
    """Return the codes of a desktop notification: OSC 777 if supported, else OSC 9."""
    body = one_line(text, _WIDTH).replace(";", ",")
    kin = environment.get("TERM", "").startswith(("rxvt", "foot"))
    speaks_777 = kin or environment.get("VTE_VERSION")
    code = f"\x1b]777;notify;akg-tui;{body}\x07" if speaks_777 else f"\x1b]9;akg-tui: {body}\x07"
    if environment.get("TMUX"):
        doubled = code.replace("\x1b", "\x1b\x1b")
        return f"\x1bPtmux;{doubled}\x1b\\"
    return code


@dataclass(frozen=True)
class Notice:
    """Something to tell. `kind` is one of `preferences.Notice`; `head` is for the title."""

    kind: str
    head: str
    text: str


def _asked(ask: Request, state: RunState) -> Notice:
    from akg_tui.view import formatting

    op = state.task.op
    what = {"keep": f"KEEP? {op}", "plan": f"PLAN? {op}", "edit": f"EDIT? {op}",
            "script": f"SCRIPT? {op}"}.get(ask.kind, f"? {op}: {ask.title}")  # fmt: skip
    gained = ""
    if ask.kind == "keep" and state.best and state.measured and state.measured.ratio:
        over_seed = state.best.over_seed * state.measured.ratio.ratio
        gained = f" {formatting.times(over_seed)}"
    return Notice("ask", f"● {what}{gained}", f"{ask.who}: {ask.title}")


def _happened(events: Iterable[ev.AnyEvent], state: RunState) -> list[Notice]:
    """Return the notices of events; `state` is at or after the last one."""
    # Not needed for the first frame; imported once for all events of a flood.
    from akg_tui.core import events as ev
    from akg_tui.core.phases import Verdict
    from akg_tui.core.summary import best_of
    from akg_tui.view import formatting

    op = state.task.op
    notices: list[Notice] = []
    for event in events:
        match event:
            case ev.Decided(verdict=Verdict.KEEP):
                kept = next((a for a in state.attempts if a.number == event.attempt), None)
                gained = f" {formatting.times(kept.over_seed)}" if kept and kept.over_seed else ""
                why = formatting.verdict_reason(event.reason, event.ratio)
                told = f"{op}: KEEP {event.item}, {retold(why)}"
                notices.append(Notice("keep", f"✓ KEEP {op}{gained}", told))
            case ev.RunFinished():
                kind, sign = ("end", "■") if event.ok else ("fail", "✗")
                over = tr("the run is over: ") + retold(event.reason)
                best = best_of(state) if event.ok else None
                gained = f" {formatting.ratio(best.over_seed)}" if best else ""
                notices.append(Notice(kind, f"{sign} {op}{gained}", f"{op}: {over}"))
            case ev.ApiFailed() | ev.SessionBroke():
                notices.append(Notice("fail", f"✗ {op}", f"{op}: {retold(event.reason)}"))
    return notices


class Notifier:
    """A notifier that tells each request and event once, and restores the title on focus.

    Parameters
    ----------
    write : callable
        Writes control codes to the terminal.
    """

    def __init__(self, write: Callable[[str], None], environment: Mapping[str, str]) -> None:
        self.wanted = Notify()
        self._write = write
        self._environment = environment
        self._told: set[str] = set()
        self._read: int | None = None  # events seen; None before the first look
        self._titled = ""  # the kind of the notice in the title

    def look(
        self,
        asks: Sequence[Request],
        records: Sequence[ev.Record],
        state: RunState,
        *,
        focused: bool,
    ) -> None:
        """Tell what is new since the last look; call at every refresh."""
        many = len(records)
        since = many if self._read is None or self._read > many else self._read
        happened = _happened((records[n].event for n in range(since, many)), state)
        fresh = [ask for ask in asks if ask.ident not in self._told]
        self._read, self._told = many, {ask.ident for ask in asks}
        if focused and not self.wanted.always:
            self.rest()
            return
        notices = happened + [_asked(ask, state) for ask in fresh]
        notices = [each for each in notices if each.kind in self.wanted.on]
        if self._titled == "ask" and not asks:
            self.rest()
        if notices:
            self._tell(notices, len(asks))

    def _tell(self, notices: Sequence[Notice], waiting: int) -> None:
        last = notices[-1]
        if self.wanted.title:
            if not self._titled:
                self._write(_PUSH_TITLE)
            self._titled = last.kind
            several = last.kind == "ask" and waiting > 1
            head = tr("{number} waiting: {text}", number=waiting, text=last.head)
            self._write(title(head if several else last.head))
        if self.wanted.desktop:
            for each in notices:
                self._write(note(each.text, self._environment))
        if self.wanted.bell:
            self._write(BELL)

    def rest(self) -> None:
        """Restore the title of the terminal, if it was changed."""
        if self._titled:
            self._write(_POP_TITLE)
            self._titled = ""

    def forget(self) -> None:
        """Forget the run, before another one is opened."""
        self.rest()
        self._read, self._told = None, set()
