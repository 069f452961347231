"""The pictures of the gallery: screens replayed from recorded runs without a terminal.

A picture shows only facts of a recorded journal, at a chosen event of it. Writes SVG files and
nothing else.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from akg_tui.core import events as ev
from akg_tui.core.measurement import Progress
from akg_tui.tui.app import WorkbenchApp
from akg_tui.tui.export import picture
from akg_tui.tui.screens.deck import Deck
from akg_tui.tui.screens.runs import Runs
from akg_tui.view.controls.preferences import Preferences
from benchmarks.gallery.recorded_run import Recorded, Recording

if TYPE_CHECKING:
    from textual.pilot import Pilot

COMPACT, WIDE = (120, 40), (200, 60)
LOOKED_S = 2.0  # after the event at which a run is looked at
WAIT_LIMIT_S = 60.0  # for what is being opened or read, on a machine under load


# Where a run is looked at: while the last kept attempt is evaluated, when it is asked about, at
# the end; or not at all, but listed.
WORKING, ASKED, OVER, LISTED = "working", "asked", "over", "listed"


@dataclass(frozen=True)
class Scene:
    """A picture: event, keys pressed before it, size, theme and language."""

    name: str
    size: tuple[int, int]
    theme: str
    keys: tuple[str, ...] = ()
    at: str = OVER
    lang: str = "en"


def scenes() -> tuple[Scene, ...]:
    """All pictures."""
    return (
        Scene("deck", WIDE, "ember", at=WORKING),
        Scene("deck-compact", COMPACT, "tide", at=WORKING),
        Scene("deck-chinese", COMPACT, "ember", at=ASKED, lang="zh"),
        Scene("ask", COMPACT, "okabe", at=ASKED),
        Scene("review", COMPACT, "ember", ("r",), at=ASKED),
        Scene("review-unified", COMPACT, "paper", ("r", "s"), at=ASKED),
        Scene("deck-small", (60, 16), "ember", ("4",), at=WORKING),
        Scene("deck-tabs", (80, 24), "tide", ("6",), at=WORKING),
        Scene("deck-large", (300, 90), "ember", at=WORKING),
        Scene("policy", COMPACT, "ember", ("P",), at=WORKING),
        Scene("past", WIDE, "chalk", ("T", *("shift+left",) * 5)),
        Scene("compare", WIDE, "tide", ("v", "z")),
        Scene("runs", COMPACT, "ember", ("down",), at=LISTED),
        Scene("wizard", COMPACT, "ember", ("n", "enter"), at=LISTED),
        Scene("help", COMPACT, "paper", ("question_mark",), at=WORKING),
        Scene("palette", COMPACT, "ember", ("ctrl+p", *"theme", "down"), at=WORKING),
    )


def moment(recording: Recording, at: str) -> int:
    """The number of the last event that a scene shows.

    Raises `ValueError` where no question of that run was answered with approval.
    """
    records = recording.records
    if at not in (WORKING, ASKED):
        return len(records)
    answers = [r.event for r in records if isinstance(r.event, ev.GateAnswered)]
    approved = [event.gate for event in answers if event.answer == "approve"]
    if not approved:
        raise ValueError(f"{recording.path}: in this run nothing was asked and kept")
    asked = next(
        r for r in records if isinstance(r.event, ev.GateOpened) and r.event.gate == approved[-1]
    )
    if at == ASKED:
        return asked.seq
    begun = [r.seq for r in records[: asked.seq] if isinstance(r.event, ev.EvalStarted)]
    return begun[-1]


async def shown(recordings: Sequence[Recording], folder: Path, scene: Scene) -> str:
    """A scene as SVG. `folder` holds the runs to be listed."""
    recording = recordings[0]
    upto = moment(recording, scene.at)
    now = recording.records[upto - 1].at + LOOKED_S
    wanted = Preferences(theme=scene.theme, lang=scene.lang, motion="reduced")

    async def open_run() -> Recorded:
        handle = Recorded(recording, upto, path="runs")
        _under_way(handle, recording, upto)
        return handle

    if scene.at == LISTED:
        now += 60 * 12
        app = WorkbenchApp(None, browse=folder, wanted=wanted, clock=lambda: now)
    else:
        app = WorkbenchApp(open_run, wanted=wanted, clock=lambda: now)
    async with app.run_test(size=scene.size) as pilot:
        for key in ("", *scene.keys):
            if key:
                await pilot.press(key)
            await settled(app, pilot)
        now += 1.0  # the keys of a card count from now on
        await settled(app, pilot)
        return picture(app)


async def settled(app: WorkbenchApp, pilot: Pilot[int]) -> None:
    """Wait until the screen shows everything that has begun to load."""
    await opened(app, pilot)
    for _ in range(2):
        await pulled(app, pilot)
    while not all(worker.is_finished for worker in app.workers):  # begun by what was painted
        await pulled(app, pilot)
    for screen in app.screen_stack:
        if isinstance(screen, Runs):
            await _read(screen)
            app.pull_now()
            await pilot.pause()


async def opened(app: WorkbenchApp, pilot: Pilot[int]) -> None:
    """Wait until a run or the list of runs is on the screen; a slow machine may take long.

    Raises `RuntimeError` where neither comes.
    """
    end = time.monotonic() + WAIT_LIMIT_S
    while not any(isinstance(s, (Deck, Runs)) and s.is_mounted for s in app.screen_stack):
        if time.monotonic() > end:
            raise RuntimeError("neither a run nor the list of runs was opened")
        await pulled(app, pilot)


async def pulled(app: WorkbenchApp, pilot: Pilot[int]) -> None:
    """Pull the run into the screen, and wait for the workers that this starts."""
    app.pull_now()
    await app.workers.wait_for_complete()
    await pilot.pause()


async def _read(screen: Runs) -> None:
    """Wait until every run of the list was read, and sort the list."""
    end = time.monotonic() + WAIT_LIMIT_S
    while not screen.catalogue.searched or screen.catalogue.unread:
        if time.monotonic() > end:
            raise RuntimeError("the list of runs was not read to its end")
        screen.pull_runs(screen.workbench.wall_clock())
        await asyncio.sleep(0.01)
    screen._sort()


def _under_way(handle: Recorded, recording: Recording, upto: int) -> None:
    """Show the evaluation in progress, near the end that the journal has for it."""
    running = handle.state.running
    if running is None:
        return
    following = (record.event for record in recording.records[upto:])
    found = next(event for event in following if isinstance(event, ev.EvalFinished)).measurement
    many = found.clusters or 1
    handle.live.show(f"{running.purpose} evaluation")
    handle.live.report(Progress("time", max(1, many - 2), many, ratio=found.ratio))


def run_folders(recordings: Sequence[Recording], home: Path) -> Path:
    """A folder with the recorded runs, as they ended and one cut off, to be listed."""
    kernels = home / "kernels"
    for number, recording in enumerate(recordings):
        created = recording.records[0].event
        assert isinstance(created, ev.RunCreated)
        cuts = [len(recording.records)] if number else [len(recording.records), _middle(recording)]
        for place, upto in enumerate(cuts):
            folder = kernels / created.task.op / "runs" / f"{created.run_id}{'-r8' * place}"
            folder.mkdir(parents=True)
            journal = folder / "events.jsonl"
            journal.write_bytes(recording.journal(upto))
            at = recording.records[upto - 1].at
            os.utime(journal, (at, at))
    return kernels


def _middle(recording: Recording) -> int:
    """The end of the round in the middle."""
    settled = [r.seq for r in recording.records if isinstance(r.event, ev.Decided)]
    return settled[len(settled) // 3]


@contextmanager
def neutral_environment(home: Path) -> Iterator[None]:
    """An environment without the user's settings, folders, time zone and terminal."""
    mine = {
        **{"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "TZ": "UTC"},
        **{"TERM": "xterm-256color", "COLORTERM": "truecolor"},
    }
    before = {name: os.environ.get(name) for name in (*mine, "NO_COLOR")}
    os.environ.update(mine)
    os.environ.pop("NO_COLOR", None)
    time.tzset()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        time.tzset()


def paint(recordings: Sequence[Recording], out: Path) -> Iterator[Path]:
    """Write every picture; yields each path once its file is written.

    Raises
    ------
    ValueError
        If the first recording is of a run in which nothing was asked and kept.
    OSError
        If a picture cannot be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="akg-gallery-") as scratch:
        home = Path(scratch).resolve()
        with neutral_environment(home):
            folder = run_folders(recordings, home)
            for scene in scenes():
                path = out / f"{scene.name}.svg"
                drawn = asyncio.run(shown(recordings, folder, scene))
                path.write_text(drawn, encoding="utf-8")
                yield path
