"""The rows of the list of runs, and the details of one run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path

from akg_tui.core.sanitize import Said, one_line
from akg_tui.engine.run_scanner import ListedRun
from akg_tui.store.run_list import RunSummary
from akg_tui.view import formatting
from akg_tui.view.controls.command_registry import way_to
from akg_tui.view.glyphs import DONE, IDLE, LIVE, WAITS, spark
from akg_tui.view.language import retold, tr, tr_in
from akg_tui.view.lazy_rows import OnDemand
from akg_tui.view.spans import ELLIPSIS, Line, cells, cut, fit, line

_STATE = {
    Said("waits"): (WAITS, "note"),
    Said("running"): (LIVE, "accent"),
    "open": (IDLE, "text"),
    Said("broken"): ("✗", "log.error"),
    Said("stopped"): ("⋯", "note"),
    Said("finished"): (DONE, "verdict.keep"),
    Said("failed"): ("✗", "verdict.fail"),
    Said("damaged"): ("⨯", "log.error"),
    "": ("⋯", "faint"),
}
_ORDER = {name: place for place, name in enumerate(_STATE)}
_SPARK = 12
LEAST_RUN = 12  # columns of the name of a run; in fewer it would tell nothing


def filtered(runs: Sequence[ListedRun], words_wanted: str, sort: str) -> list[ListedRun]:
    """Return the runs with all the words, sorted; `best` and `state` put unread runs last."""
    found = list(runs)
    for word in words_wanted.lower().split():
        found = [run for run in found if word in _text(run)]
    # One plain sort key after the other: faster for ten thousand runs, while a person waits.
    if sort in ("best", "name"):
        found.sort(key=attrgetter("name"))
    else:
        found.sort(key=attrgetter("at"), reverse=True)
    if sort == "best":
        found.sort(key=lambda run: -(run.summary.over_seed or 0) if run.summary else 1)
    elif sort == "state":
        found.sort(key=lambda run: _ORDER[run.summary.status if run.summary else ""])
    found.sort(key=lambda run: not _waits(run.summary))
    return found


def _waits(told: RunSummary | None) -> bool:
    """Return whether a run at work waits for a person."""
    return told is not None and bool(told.waits) and told.status == "running"


def _text(run: ListedRun) -> str:
    told = run.summary
    if told is None:
        return run.name.lower()
    if run.words is None or run.words[0] is not told:
        text = f"{run.name} {told.op} {told.agent} {told.status} {told.mode}".lower()
        run.words = told, text
    return run.words[1]


def age(seconds: float) -> str:
    """Return an age in short form: ``now``, ``12 min``, ``3 h``, ``5 d``."""
    if seconds < 60:
        return tr("now")
    for size, limit, unit in ((60, 3600, "min"), (3600, 86400, "h"), (86400, 86400e4, "d")):
        if seconds < limit:
            return f"{int(seconds // size)} {unit}"
    return tr("long ago")


STALLED_S = 60.0


def idle_told(run: RunSummary, now: float) -> str:
    """Return how long nothing has happened in a run and what it waits for; "" if neither is so."""
    idle = run.idle_s(now)
    if run.damaged or run.finished or (run.pid is None and not run.waits):
        return ""
    if run.waits and idle < STALLED_S:
        return tr("waits for a person ({what})", what=run.waits)
    if run.waits:
        return tr("idle {age}: waits for a person ({what})", age=age(idle), what=run.waits)
    return tr("idle {age} in {phase}", age=age(idle), phase=run.phase) if idle >= STALLED_S else ""


class RunRows(OnDemand[Line]):
    """A row for each run, built when it is drawn."""

    def __init__(
        self, runs: Sequence[ListedRun], *, now: float, room: int, cursor: int = -1
    ) -> None:
        self.runs = runs
        self._now, self._room, self.cursor = now, room, cursor

    def __len__(self) -> int:
        return len(self.runs)

    def _made(self, index: int) -> Line:
        run = self.runs[index]
        row = row_of(run, self._now, self._room - 2)
        if index != self.cursor:
            return (("  ", "text"), *row)
        dim = ("muted", "faint", "text")
        lit = tuple((text, "strong" if role in dim else role) for text, role in row)
        return ((f"{LIVE} ", "accent"), *lit)


def column_heads(room: int) -> Line:
    """Return the row of column names."""
    names = [(tr(name), size) for name, size in _columns(room - 2)]
    padded = (name + " " * (size - cells(name)) for name, size in names)
    return fit(tuple((name, "muted") for name in (" " * 2, *padded)), room)


def _columns(room: int) -> list[tuple[str, int]]:
    columns: list[tuple[str, int]] = [(Said("state"), 11), (Said("task"), 18), (Said("best"), 7)]
    if room >= 64:
        columns.append((Said("eager"), 7))
    if room >= 74:
        columns.append((Said("rise"), _SPARK + 2))
    columns += [(Said("rounds"), 8), (Said("age"), 8)]
    if room >= 102:
        columns += [(Said("agent"), 9), (Said("mode"), 8)]
    if room - sum(size for _, size in columns) >= LEAST_RUN:
        columns.append((Said("run"), 0))
    return columns


def _word(name: str) -> str:
    """Return the status of a run as a word; for "", that the run is being read."""
    if name == "open":
        return tr_in("state", "open")
    return tr(name) if name else tr("reading")


def row_of(run: ListedRun, now: float, room: int) -> Line:
    """Return a run as one row."""
    told = run.summary
    status = "waits" if _waits(told) else told.status if told else ""
    glyph, role = _STATE[status]
    if told is not None and told.damaged:
        why = told.damaged.partition("events.jsonl")[2].lstrip(":") or told.damaged
        name = last_part(one_line(run.name), max(20, room // 3))
        word = _word(status)
        lead = line((f"{glyph} {word}{' ' * (9 - cells(word))}", role), (f"{name}  ", "text"))
        return fit((*lead, (retold(why), "muted")), room)
    values: dict[str, tuple[str, str]] = {
        "state": (f"{glyph} {_word(status)}", role),
        "age": (age(now - run.at), "muted"),
        "run": (one_line(run.name), "muted"),
    }
    if told is not None:
        found = told.best
        best = f"{formatting.sign(found)}{formatting.ratio(found.over_seed)}" if found else "-"
        eager = found.over_eager if found else None
        values |= {
            "task": (one_line(told.op), "strong"),
            "best": (best, "figure"),
            "eager": (formatting.ratio(eager) if eager else "-", "figure"),
            "rise": (spark(told.climb, _SPARK), "chart.best"),
            "rounds": (f"{told.rounds}/{told.max_rounds}", "text"),
            "agent": (one_line(told.agent), "text"),
            "mode": (told.mode, "text"),
        }
    spans: list[tuple[str, str]] = []
    for name, size in _columns(room):
        text, role = values.get(name, ("", "text"))
        if size:
            text = cut(text, size - 1)
            text += " " * (size - cells(text))
        elif name == "run":
            text = last_part(text, room - sum(cells(t) for t, _ in spans))
        spans.append((text, role))
    return fit(tuple(spans), room)


def last_part(text: str, room: int) -> str:
    """Return the end of `text`, where names of runs differ, in at most `room` columns."""
    if cells(text) <= room:
        return text
    while text and cells(text) > room - 1:
        text = text[1:]
    return ELLIPSIS + text if room > 0 else ""


def home_path(path: Path) -> str:
    """Return a path as text; inside the home folder it begins with ``~``."""
    with suppress(ValueError, RuntimeError):  # outside the home folder, or no home folder
        inside = path.relative_to(Path.home())
        return one_line(str(Path("~") / inside))
    return one_line(str(path))


def run_details(run: ListedRun, now: float, room: int) -> list[Line]:
    """Return three rows of details of a run."""
    told = run.summary
    where = line((f"{tr('run')}  ", "muted"), (home_path(run.path), "text"))
    if told is None:
        return [fit(where, room), line((tr("it is being read"), "muted")), ()]
    if told.damaged:
        damage = line((retold(told.damaged), "log.error"))
        return [fit(where, room), fit(damage, room), ()]
    verdicts = ", ".join(f"{count} {name}" for name, count in told.verdicts.items() if count)
    working = told.status == "running"
    best = told.best
    facts = line(
        (f"{told.phase}", "strong"),
        (f"  {formatting.best_label(best)} {formatting.ratios(best)}" if best else "", "figure"),
        (f"  {tr('{done} of {many} rounds', done=told.rounds, many=told.max_rounds)}", "text"),
        (f"  {verdicts}" if verdicts else "", "muted"),
        (f"  {tr('worked on by process {pid}', pid=told.pid)}" if working else "", "accent"),
    )
    if working and (idle := idle_told(told, now)):
        role = "note" if told.waits else "muted"
        facts = line((f"{idle}  ", role), *facts)
    return [fit(where, room), fit(facts, room), fit(line((_next(told), "muted")), room)]


def _next(told: RunSummary) -> str:
    """Return the keys that apply to the run, with their effects."""
    open_, resume = way_to("runs.open"), way_to("runs.resume")
    if told.status == "running":
        return tr("{key} watches and steers it", key=open_)
    if told.finished and not told.can_go_on:
        return tr("over: {why}; {key} looks at it", why=retold(told.finished), key=open_)
    if told.finished:
        return tr("over: {why}; {key} looks at it, {resume} goes on with more rounds",
                  why=retold(told.finished), key=open_, resume=resume)  # fmt: skip
    if told.broke:
        return tr("it broke: {why}; {resume} takes it up again, {key} looks at it",
                  why=retold(told.broke), resume=resume, key=open_)  # fmt: skip
    if told.stopped:
        return tr("it stopped: {why}; {resume} takes it up again, {key} looks at it",
                  why=retold(told.stopped), resume=resume, key=open_)  # fmt: skip
    return tr("it can go on: {resume} resumes it, {key} looks at it", resume=resume, key=open_)
