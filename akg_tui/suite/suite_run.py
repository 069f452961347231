"""Works through a suite: makes tasks, begins and resumes runs, and repeats runs that broke.

A run is a headless run like any other. It is tried again only for an outside reason (the machine,
the model's server, a kill), never for a verdict; every entry is reported, and one that
cannot be run does not stop the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import platform
import shutil
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from akg_tui.core.sanitize import one_line
from akg_tui.core.summary import best_of
from akg_tui.engine.run_service import (
    PreparedRun,
    RunFault,
    RunRequest,
    check_target,
    create_run,
    engine_for,
    open_trusted,
    prepare,
    resume,
)
from akg_tui.engine.task_draft import NewTask
from akg_tui.engine.task_making import make_task
from akg_tui.engine.trust import Untrusted
from akg_tui.headless.watched_run import ModelHeld, run_watched
from akg_tui.store.errors import BadFile, StoreError
from akg_tui.store.filesystem import write_synced
from akg_tui.store.run_folder import RUNS, RunFolder
from akg_tui.store.run_list import JOURNAL
from akg_tui.store.task_folder import TASK_FILE, load_task, write_texts
from akg_tui.suite.suite_record import Entry, SuiteAtWork, is_over, lost_to_machine

if TYPE_CHECKING:
    from akg_tui.core.state import RunState
    from akg_tui.engine.engine import Engine

WHY_WIDTH = 300


class News(Struct, frozen=True, kw_only=True):
    """A change of an entry's state: making, queued, running, done, failed, refused, retry, or
    given up."""

    entry: Entry
    state: str
    what: str = ""


Tell = Callable[[News], None]
Work = Callable[[SuiteAtWork, Entry, Tell], Awaitable["RunState"]]
"""Brings an entry's run to its end: `work_here`, or on a cluster."""


class Refused(Exception):
    """An entry cannot be run; the message says why in one line."""


class Outside(Exception):
    """A run stopped before its end for a reason that is not its kernel's."""


async def work_here(suite: SuiteAtWork, entry: Entry, tell: Tell) -> RunState:
    """Run an entry in this process. Raises `Refused` or `Outside`."""
    began = (suite.run_folder(entry) / JOURNAL).is_file()
    tell(News(entry=entry, state="running", what="resumed" if began else ""))
    with faults_sorted():
        suite.note_host(entry, platform.node())
        memory = suite.record.settings.memory
        engine = engine_for(open_run(suite, entry), "cli", memory=memory)
    return await run_to_end(engine)


class SuiteRunner:
    """Runs the open entries of a suite, at most `jobs` at a time."""

    def __init__(
        self, suite: SuiteAtWork, tell: Tell, *, jobs: int = 1, work: Work = work_here
    ) -> None:
        self._suite = suite
        self._tell = tell
        self._jobs = jobs
        self._work = work
        self._making: dict[str, asyncio.Lock] = {}

    async def run(self) -> None:
        """Work until every entry is over, refused or given up. Cancelling leaves it resumable."""
        suite = self._suite
        for entry in suite.entries:
            if entry.refused:  # by the list of tasks
                self._tell(News(entry=entry, state="refused", what=entry.refused))
        waiting = deque(entry.key for entry in suite.entries if not is_over(suite, entry))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._jobs, len(waiting))):
                    group.create_task(self._work_through(waiting))
        except BaseExceptionGroup as several:  # the disk of the suite itself, or a bug
            raise several.exceptions[0] from several

    async def _work_through(self, waiting: deque[tuple[str, str]]) -> None:
        while waiting:
            key = waiting.popleft()
            entry = next(each for each in self._suite.entries if each.key == key)
            if await self._settle(entry):
                waiting.append(key)  # the others first, so that the reason has time to pass

    async def _settle(self, entry: Entry) -> bool:
        """Work on an entry; return whether it is to be tried again."""
        suite = self._suite
        try:
            state = await self._attempt(entry)
        except Refused as refused:
            suite.put(replace(entry, refused=str(refused), fault=""))
            self._tell(News(entry=entry, state="refused", what=str(refused)))
            return False
        except Outside as outside:
            return self._fell_over(suite.current(entry), str(outside))
        entry = suite.current(entry)
        if lost_to_machine(state):
            again = replace(entry, attempt=entry.attempt + 1, hosts=())
            return self._fell_over(again, state.finished)
        if entry.fault:
            suite.put(replace(entry, fault=""))
        best = best_of(state)
        told = f"{best.line}; {state.finished}" if best else state.finished
        self._tell(News(entry=entry, state="done" if best else "failed", what=one_line(told)))
        return False

    def _fell_over(self, entry: Entry, why: str) -> bool:
        again = replace(entry, faults=entry.faults + 1, fault=one_line(why, WHY_WIDTH))
        self._suite.put(again)
        tries = again.faults <= self._suite.record.settings.retries
        state = "retry" if tries else "given up"
        self._tell(News(entry=again, state=state, what=again.fault))
        return tries

    async def _attempt(self, entry: Entry) -> RunState:
        """Bring an entry's run to its end. Raises `Refused` or `Outside`."""
        suite = self._suite
        async with self._making.setdefault(entry.source.name, asyncio.Lock()):
            if not (suite.task_folder(entry) / TASK_FILE).is_file():
                await self._make(entry)
        return await self._work(suite, entry, self._tell)

    async def _make(self, entry: Entry) -> None:
        source = entry.source
        settings = self._suite.record.settings
        folder, plain = self._suite.task_folder(entry), self._suite.made_folder(source)
        with faults_sorted():
            if not (plain / TASK_FILE).is_file():
                if not source.is_task_folder:
                    self._tell(News(entry=entry, state="making", what=source.path))
                await _in_a_thread(lambda: make(entry, plain, settings.seed))
            if folder != plain:
                _configured(plain, folder, settings.configurations[entry.agent].files)


async def _in_a_thread(work: Callable[[], None]) -> None:
    """Do work of seconds in a thread that an interrupt does not wait for."""
    done: Future[None] = Future()

    def run() -> None:
        if done.set_running_or_notify_cancel():
            try:
                work()
            except Exception as error:  # noqa: BLE001 - raised where it is awaited
                done.set_exception(error)
            else:
                done.set_result(None)

    threading.Thread(target=run, daemon=True).start()
    await asyncio.wrap_future(done)


@contextlib.contextmanager
def faults_sorted() -> Iterator[None]:
    """Turn a fault of the task into `Refused`, and one of the disk into `Outside`."""
    try:
        yield
    except (BadFile, RunFault, Untrusted) as error:
        raise Refused(refusal(error)) from error
    except (StoreError, OSError) as error:
        raise Outside(str(error)) from error


async def run_to_end(engine: Engine) -> RunState:
    """Run an engine to the end and close it. Raises `Outside` when it stops before that."""
    try:
        await run_watched(engine, lambda: None, attended=False)
    except ModelHeld as error:
        raise Outside(f"the model cannot be used: {error}") from error
    except Exception as error:  # whatever it is: it is told, and the other tasks go on
        raise Outside(str(error) or type(error).__name__) from error
    finally:
        await engine.close()
    return engine.state


def refusal(error: Exception) -> str:
    """Return why an entry cannot be run, with the file or model concerned."""
    about = getattr(error, "about", "")
    why = str(error)
    return one_line(f"{about}: {why}" if str(about) and str(about) not in why else why, WHY_WIDTH)


def make(entry: Entry, folder: Path, seed: str) -> None:
    """Make the entry's task folder: a copy of a task, or a task of a problem.

    Raises `BadFile` if task or problem cannot be used; the message names the user's own file.
    """
    source = entry.source
    if folder.exists():  # a process was killed here: task.toml is written last
        shutil.rmtree(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    if source.is_task_folder:
        found = load_task(Path(source.path))
        files = {found.task.files.reference: found.reference} | found.kernel.texts
        write_texts(folder, files | dict(found.tools) | dict(found.context), found.toml)
        return
    wanted = NewTask(
        folder=folder,
        origin=Path(source.path),
        format=source.format,
        fit=True,
        sizes=source.sizes,
        own_seed=not seed,
        unwritten=seed == "write",
        inductor=seed == "inductor",
        verify=seed == "inductor",  # a wrong one of torch.compile is not taken
    )
    make_task(wanted, lambda _: None)


def _configured(plain: Path, folder: Path, files: Mapping[str, str]) -> None:
    """Make a task folder like another, with the files of a configuration. Raises `OSError`."""
    shutil.rmtree(folder, ignore_errors=True)  # a process was killed here
    shutil.copytree(plain, folder, ignore=shutil.ignore_patterns(RUNS, TASK_FILE))
    for name, text in files.items():
        write_synced(folder / name, text.encode())
    shutil.copy(plain / TASK_FILE, folder)  # last: a folder with task.toml is complete


def open_run(suite: SuiteAtWork, entry: Entry, *, here: bool = True) -> RunFolder:
    """Open the entry's run; begin it if there is none. With `here` this machine is to work on it.

    Raises `BadFile`, `RunFault` or `Untrusted` if it cannot be run here, with these settings.
    Raises `StoreError` or `OSError` if the disk is in the way.
    """
    run = suite.run_folder(entry)
    if (run / JOURNAL).is_file():
        return (resume if here else open_trusted)(run, trust=suite.trust)
    # A process that was killed while it began this run has left a part of it.
    shutil.rmtree(run.parent / f".{run.name}.new", ignore_errors=True)
    settings = suite.record.settings
    stated = settings.stated(entry.agent) | ({"seed": entry.seed} if entry.seed else {})
    request = RunRequest(
        suite.task_folder(entry),
        limits=settings.limits,
        settings=stated,
        trust=suite.trust,
        own_settings=suite.own_settings,
    )
    prepared = _prepared(request, entry)
    if here:
        check_target(prepared.task, prepared.folder.path)
    return create_run(
        prepared.folder, prepared.task, prepared.mode, run.name, allowed=prepared.allowed
    )


def _prepared(request: RunRequest, entry: Entry) -> PreparedRun:
    """Check the request of an entry's run; the copy of a task may do what that task may."""
    try:
        return prepare(request)
    except Untrusted as untrusted:
        if not entry.source.is_task_folder:
            raise
        origin = prepare(replace_fields(request, folder=Path(entry.source.path)))
        if not origin.allowed.issuperset(untrusted.acts):
            raise
        return prepare(replace_fields(request, trust=True))
