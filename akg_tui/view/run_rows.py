"""The list of the runs below a folder: a thread that finds and reads runs, and their rows.

Owns the thread, and the process that reads journals for it where there are many runs. Reads
run folders and never writes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from akg_tui.core.sanitize import one_line
from akg_tui.store.errors import RunFolderError
from akg_tui.store.run_list import JOURNAL, RunSummary, SummaryProcess, find_runs, summarize_run
from akg_tui.view import formatting
from akg_tui.view.controls.command_registry import way_to
from akg_tui.view.glyphs import DONE, IDLE, LIVE, spark
from akg_tui.view.language import marked, retold, tr, tr_in, translated
from akg_tui.view.lazy_rows import OnDemand
from akg_tui.view.spans import ELLIPSIS, Line, cells, cut, fit, line

if TYPE_CHECKING:
    from akg_tui.core.state import RunState
    from akg_tui.view.run_chart import Plot

RESCAN_S = 1.0
SEARCH_AGAIN = 5  # rounds between two searches of the folders
BREATH_S = 0.002  # pause between two journals, so that the screen can refresh
MANY = 40  # number of unread journals from which on a process reads them
BATCH = 32  # journals per request to the process


@dataclass
class ListedRun:
    """A listed run: its folder, the size and time of its journal, and its summary."""

    path: Path
    name: str  # the path relative to the listed folder
    size: int
    at: float  # the journal's last change, in seconds since the epoch
    summary: RunSummary | None = None
    read: tuple[int, float, int | None] | None = None
    words: tuple[RunSummary, str] | None = None  # the text that a filter searches, for this summary


class RunScanner:
    """A thread that finds runs and reads their summaries. `version` grows with every change.

    `charted` is the path of the newest run that was asked for with `want`, and its chart.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.version = 0
        self.searched = False
        self.trouble = ""
        self._found: dict[Path, ListedRun] = {}
        self.unread = 0
        self._order: list[ListedRun] = []  # unread runs, the newest last
        self._wanted: tuple[Path, ...] = ()
        self._chosen: Path | None = None
        self.charted: tuple[Path, Plot] | None = None
        self._reader = SummaryProcess()
        self._stop = threading.Event()
        self._again = threading.Event()
        self._forced = False
        self._thread = threading.Thread(target=self._work, name="catalogue", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._again.set()
        self._reader.close()

    @property
    def runs(self) -> Sequence[ListedRun]:
        """All runs found so far."""
        return list(self._found.values())

    @property
    def many(self) -> int:
        """The number of runs found so far."""
        return len(self._found)

    def want(self, paths: Sequence[Path], chosen: Path | None = None) -> None:
        """Set the visible runs, which are read first and checked for changes in every round, and
        the run whose chart is wanted.
        """
        self._wanted = tuple(paths)
        if chosen != self._chosen:
            self._chosen = chosen
            self._again.set()

    def refresh(self) -> None:
        """Start the next search and read at once."""
        self._forced = True
        self._again.set()

    def _work(self) -> None:
        rounds = 0
        while not self._stop.is_set():
            self._again.clear()
            forced, self._forced = self._forced, False
            trouble = ""
            try:
                if forced or self.trouble or rounds % SEARCH_AGAIN == 0:
                    self._search()
                self._check_changed()
                self._read_chosen()
                self._read_all()
            except OSError as error:
                trouble = f"{self.folder}: {error.strerror or error}"
            except Exception as error:  # noqa: BLE001 - shown in the list, retried next round
                trouble = str(error) or type(error).__name__
            if trouble != self.trouble:
                self.trouble = trouble
                self.version += 1
            rounds += 1
            self._again.wait(RESCAN_S)

    def _search(self) -> None:
        if not self.folder.is_dir():
            self._found.clear()
            self.unread = 0
            raise RunFolderError(f"{self.folder}: is not a folder")
        there: set[Path] = set()
        for path in find_runs(self.folder):
            if self._stop.is_set():
                return
            there.add(path)
            if path not in self._found and (found := self._stat(path)):
                self._found[path] = found
                self.unread += 1
                self.version += 1
        for gone in self._found.keys() - there:
            self.unread -= self._found.pop(gone).summary is None
            self.version += 1
        self.searched = True
        self.version += 1

    def _stat(self, path: Path) -> ListedRun | None:
        try:
            told = (path / JOURNAL).stat()
        except OSError:
            return None
        name = str(path.relative_to(self.folder)) if path != self.folder else path.name
        return ListedRun(path, name, told.st_size, told.st_mtime)

    def _check_changed(self) -> None:
        """Read again each visible or running run whose journal has changed."""
        live = [p for p, f in self._found.items() if f.summary and f.summary.status == "running"]
        for path in dict.fromkeys((*self._wanted, *live)):
            found, now = self._found.get(path), self._stat(path)
            if found is None or now is None:
                continue
            found.size, found.at = now.size, now.at
            if found.summary is not None and found.read != self._print(found):
                self._read(found)

    def _read_chosen(self) -> None:
        """Read the run whose chart is wanted, unless the chart is of this run already."""
        found = self._found.get(self._chosen) if self._chosen else None
        known = self.charted is not None and self.charted[0] == self._chosen
        if found is not None and not known and not (found.summary and found.summary.damaged):
            self._read(found)

    def _read_all(self) -> None:
        while not self._stop.is_set() and not self._again.is_set():
            found = self._next()
            if found is None:
                self._reader.close()
                return
            if self.unread >= MANY and found.path not in self._wanted:
                self._read_batch(found)
            else:
                self._read(found)
            self._stop.wait(BREATH_S)

    def _read_batch(self, first: ListedRun) -> None:
        """Read a batch in the reader process; runs without a summary from there are read here."""
        batch = [first]
        while len(batch) < BATCH and (found := self._next()) is not None:
            if found in batch:
                break
            batch.append(found)
        told = self._reader.read([found.path for found in batch])
        for found in batch:
            summary = told.get(str(found.path))
            self._take(found, summary if summary is not None else summarize_run(found.path))

    def _next(self) -> ListedRun | None:
        for path in self._wanted:
            found = self._found.get(path)
            if found is not None and found.summary is None:
                return found
        while self._order:
            found = self._order.pop()
            if found.summary is None and found.path in self._found:
                return found
        if self.unread:
            unread = [found for found in self._found.values() if found.summary is None]
            self._order = sorted(unread, key=attrgetter("at"))
            return self._order.pop() if self._order else None
        return None

    def _print(self, found: ListedRun) -> tuple[int, float, int | None]:
        from akg_tui.store.lock import holder

        finished = found.summary is not None and found.summary.finished
        return found.size, found.at, None if finished else holder(found.path)

    def _read(self, found: ListedRun) -> None:
        def chart(state: RunState) -> None:
            from akg_tui.view.run_chart import AttemptSeries  # the first frame does not need it

            series = AttemptSeries()
            series.read(state)
            self.charted = found.path, series.plot(state, None)

        chosen = found.path == self._chosen
        self._take(found, summarize_run(found.path, chart if chosen else None))

    def _take(self, found: ListedRun, summary: RunSummary) -> None:
        self.unread -= found.summary is None
        found.summary = summary
        found.read = self._print(found)
        self.version += 1


_STATE = {
    marked("running"): (LIVE, "accent"),
    "open": (IDLE, "text"),
    marked("broken"): ("✗", "log.error"),
    marked("stopped"): ("⋯", "note"),
    marked("finished"): (DONE, "verdict.keep"),
    marked("failed"): ("✗", "verdict.fail"),
    marked("damaged"): ("⨯", "log.error"),
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
    return found


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


class RunRows(OnDemand[Line]):
    """A row for each run, built when it is drawn."""

    def __init__(
        self,
        runs: Sequence[ListedRun],
        *,
        now: float,
        room: int,
        cursor: int = -1,
        marked: frozenset[str] = frozenset(),
    ) -> None:
        self.runs = runs
        self._now, self._room, self.cursor, self._marked = now, room, cursor, marked

    def __len__(self) -> int:
        return len(self.runs)

    def _made(self, index: int) -> Line:
        run = self.runs[index]
        row = row_of(run, self._now, self._room - 3)
        mark = "+" if str(run.path) in self._marked else " "
        if index != self.cursor:
            return (("  ", "text"), (mark, "accent"), *row)
        dim = ("muted", "faint", "text")
        lit = tuple((text, "strong" if role in dim else role) for text, role in row)
        return ((f"{LIVE} ", "accent"), (mark, "accent"), *lit)


def column_heads(room: int) -> Line:
    """Return the row of column names."""
    names = [(tr(name), size) for name, size in _columns(room - 3)]
    padded = (name + " " * (size - cells(name)) for name, size in names)
    return fit(tuple((name, "muted") for name in (" " * 3, *padded)), room)


def _columns(room: int) -> list[tuple[str, int]]:
    columns = [(marked("state"), 11), (marked("task"), 18), (marked("best"), 7)]
    if room >= 64:
        columns.append((marked("eager"), 7))
    if room >= 74:
        columns.append((marked("rise"), _SPARK + 2))
    columns += [(marked("rounds"), 8), (marked("age"), 8)]
    if room >= 102:
        columns += [(marked("agent"), 9), (marked("mode"), 8)]
    if room - sum(size for _, size in columns) >= LEAST_RUN:
        columns.append((marked("run"), 0))
    return columns


def _word(name: str) -> str:
    """Return the status of a run as a word; for "", that the run is being read."""
    if name == "open":
        return tr_in("state", "open")
    return tr(name) if name else tr("reading")


def row_of(run: ListedRun, now: float, room: int) -> Line:
    """Return a run as one row."""
    told = run.summary
    status = told.status if told else ""
    glyph, role = _STATE[status]
    if told is not None and told.damaged:
        why = told.damaged.partition("events.jsonl")[2].lstrip(":") or told.damaged
        name = last_part(one_line(run.name), max(20, room // 3))
        word = _word(status)
        lead = line((f"{glyph} {word}{' ' * (9 - cells(word))}", role), (f"{name}  ", "text"))
        return fit((*lead, (retold(one_line(why)), "muted")), room)
    values: dict[str, tuple[str, str]] = {
        "state": (f"{glyph} {_word(status)}", role),
        "age": (age(now - run.at), "muted"),
        "run": (one_line(run.name), "muted"),
    }
    if told is not None:
        found = told.best
        best = f"{formatting.sign(found)}{formatting.ratio(found.over_seed)}" if found else "-"
        if told.estimate is not None:
            best = _narrow(told.estimate.us)
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


def _narrow(us: float) -> str:
    """Return an estimate in at most six columns: ``~8.8µs``, ``~120µs``, ``~1.2ms``."""
    value, unit = (us, "µs") if us < 999.5 else (us / 1000, "ms")
    return f"~{value:.1f}{unit}" if value < 9.95 else f"~{value:.0f}{unit}"


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
        damage = line((retold(one_line(told.damaged)), "log.error"))
        return [fit(where, room), fit(damage, room), ()]
    verdicts = ", ".join(f"{count} {name}" for name, count in told.verdicts.items() if count)
    working = told.status == "running"
    best = told.best
    model = told.estimate
    ranked = f"  {tr('best so far')} {translated(formatting.estimated(model))}" if model else ""
    facts = line(
        (f"{told.phase}", "strong"),
        (f"  {formatting.best_label(best)} {formatting.ratios(best)}" if best else "", "figure"),
        (ranked, "figure"),
        (f"  {tr('{done} of {many} rounds', done=told.rounds, many=told.max_rounds)}", "text"),
        (f"  {verdicts}" if verdicts else "", "muted"),
        (f"  {tr('worked on by process {pid}', pid=told.pid)}" if working else "", "accent"),
    )
    return [fit(where, room), fit(facts, room), fit(line((_next(told), "muted")), room)]


def _next(told: RunSummary) -> str:
    """Return the keys that apply to the run, with their effects."""
    open_, resume = way_to("runs.open"), way_to("runs.resume")
    if told.status == "running":
        return tr("{key} watches and steers it", key=open_)
    if told.finished and not told.can_go_on:
        return tr("over: {why}; {key} looks at it", why=retold(one_line(told.finished)), key=open_)
    if told.finished:
        return tr("over: {why}; {key} looks at it, {resume} goes on with more rounds",
                  why=retold(one_line(told.finished)), key=open_, resume=resume)  # fmt: skip
    if told.broke:
        return tr("it broke: {why}; {resume} takes it up again, {key} looks at it",
                  why=retold(one_line(told.broke)), resume=resume, key=open_)  # fmt: skip
    if told.stopped:
        return tr("it stopped: {why}; {resume} takes it up again, {key} looks at it",
                  why=retold(one_line(told.stopped)), resume=resume, key=open_)  # fmt: skip
    return tr("it can go on: {resume} resumes it, {key} looks at it", resume=resume, key=open_)
