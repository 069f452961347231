"""A suite on disk: which tasks, which agents, and what stood in the way of each.

FOLDER/suite.json is replaced whole at each change, and holds no result: what became of a task is
read from its run's journal, so that no kill can lose or repeat it. FOLDER/tasks/NAME is a task
folder with its runs.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from akg_tui import __version__
from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.sanitize import check_name
from akg_tui.core.state import RunState
from akg_tui.core.task import Act, Agent
from akg_tui.engine.run_service import Limits
from akg_tui.engine.trust import acts_in, allow
from akg_tui.store.errors import RunFolderError, RunLocked, StoreError, reading, writing
from akg_tui.store.filesystem import replace_file
from akg_tui.store.lock import RunLock
from akg_tui.store.run_folder import RUNS
from akg_tui.store.run_list import JOURNAL, check_plain, read_state
from akg_tui.store.task_toml import BadAgent, stated_agent
from akg_tui.suite.task_list import RECORD, Source

TASKS = "tasks"
SCHEMA = 1


class Configuration(Struct, frozen=True, kw_only=True):
    """An agent that is more than a name: settings of `Agent`, and the files that they name."""

    settings: dict[str, Any]
    files: dict[str, str] = {}

    def __post_init__(self) -> None:
        for name in self.files:
            check_name("files", name)


class Settings(Struct, frozen=True, kw_only=True):
    """What was asked for; a suite is resumed with the same settings.

    `agents` are names as `tune --agent` takes them, or keys of `configurations`. `seed` is the
    first kernel of a task made of a problem: `reference`, `inductor`, `write`, or "" for the
    problem's own, if it has one. Each agent gets every task `seeds` times. Without `memory` no run
    knows what another found.
    """

    words: tuple[str, ...]
    agents: tuple[str, ...]
    base_url: str = ""
    api_key_file: str = ""
    limits: Limits = Limits()
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    seed: str = ""
    retries: int = 2
    configurations: dict[str, Configuration] = {}
    seeds: int = 1
    memory: bool = True

    def stated(self, agent: str) -> dict[str, Any]:
        """Return the settings of an agent of the suite, which override those of the task."""
        given = {"base_url": self.base_url, "api_key_file": self.api_key_file}
        own = self.configurations.get(agent)
        return {k: v for k, v in given.items() if v} | (own.settings if own else {"model": agent})

    def acts(self) -> tuple[Act, ...]:
        """Return what the suite does outside the sandbox, its tasks left out."""
        acts: list[Act] = []
        for name in self.agents:
            own = self.configurations.get(name)
            with contextlib.suppress(BadAgent):  # it does nothing
                agent = stated_agent(Agent(), self.stated(name))
                acts += acts_in(agent, own.files.items() if own else ())
        return tuple(dict.fromkeys(acts))


class Entry(Struct, frozen=True, kw_only=True):
    """One task with one agent.

    `refused` is why there will be no run. `fault` is the last outside reason for which its run
    stopped before its end, `faults` how many there were since the suite was begun or resumed.
    `attempt` counts the runs: a run that ended because the judge was lost is begun anew. `hosts`
    are the machines that worked on the present one. `seed` is that of the agent's own choices.
    """

    source: Source
    agent: str
    refused: str = ""
    fault: str = ""
    faults: int = 0
    attempt: int = 1
    hosts: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        check_name("agent", self.name)

    @property
    def task(self) -> str:
        """The name of the task, with the seed if it is not the first."""
        return self.source.name + (f"-seed{self.seed}" if self.seed else "")

    @property
    def name(self) -> str:
        """The name of the entry, which is also that of its run."""
        again = f"-{self.attempt}" if self.attempt > 1 else ""
        return f"{self.task}-{label_of(self.agent)}{again}"

    @property
    def key(self) -> tuple[str, str]:
        return self.task, self.agent


def label_of(agent: str) -> str:
    """Return an agent's name as a part of the name of a run."""
    return re.sub(r"[^\w.-]", "_", agent)


class Record(Struct, frozen=True, kw_only=True):
    """The content of suite.json."""

    schema: int
    version: str
    settings: Settings
    entries: tuple[Entry, ...]


class Suite:
    """A suite, for reading; `SuiteAtWork` changes it."""

    def __init__(self, folder: Path) -> None:
        """Read the suite in a folder. Raises `RunFolderError`."""
        self.folder = folder
        self.record = _read(folder)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return self.record.entries

    def current(self, entry: Entry) -> Entry:
        """Return the entry of the same task and agent as it is now."""
        return next(each for each in self.entries if each.key == entry.key)

    def task_folder(self, entry: Entry) -> Path:
        """Return the entry's task folder: the agent's own if its configuration has files."""
        folder = self.made_folder(entry.source)
        own = self.record.settings.configurations.get(entry.agent)
        if own is None or not own.files:
            return folder
        return folder.with_name(f"{folder.name}-{label_of(entry.agent)}")

    def made_folder(self, source: Source) -> Path:
        """Return the task folder that is made of a source, as every agent gets it."""
        return self.folder / TASKS / source.name

    def run_folder(self, entry: Entry) -> Path:
        return self.task_folder(entry) / RUNS / entry.name

    def state(self, entry: Entry) -> RunState | None:
        """Return the state of the entry's run; None before it began. Raises `StoreError`."""
        run = self.run_folder(entry)
        return read_state(run) if (run / JOURNAL).is_file() else None


class SuiteAtWork(Suite):
    """A suite that this process works on: it holds the folder's lock until `close`.

    With `trust` the user allows what its tasks and runs do outside the sandbox. With `own_settings`
    the user has just stated them; else they are the folder's, which has to be trusted.
    """

    trust = False
    own_settings = False

    def __init__(self, folder: Path) -> None:
        # Deeper paths are in a run, and looked at when it is opened: TASKS/NAME/RUNS/RUN/…
        check_plain(folder, lambda path: path.count("/") > 3)
        try:
            self._lock = RunLock.acquire(folder)
        except RunLocked as error:
            who = f"process {error.pid}" if error.pid is not None else "another process"
            raise RunFolderError(f"{folder}: {who} is at work on this suite") from None
        try:
            super().__init__(folder)
        except BaseException:
            self._lock.release()
            raise

    @classmethod
    def begin(cls, folder: Path, settings: Settings, sources: Sequence[Source]) -> SuiteAtWork:
        """Begin a suite in a new or an empty folder, or open the one with these settings.

        Raises `RunFolderError` if the folder has other files or another suite, or cannot be
        written.
        """
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            names = {path.name for path in folder.iterdir()}
        if RECORD not in names:
            # A process that was killed here leaves the lock, or a part of the record.
            if others := sorted(n for n in names if n != "lock" and not n.startswith(f".{RECORD}")):
                raise RunFolderError(
                    f"{folder}: has {others[0]} in it, expected a new folder, or one of a suite"
                )
            entries = tuple(
                Entry(source=source, agent=agent, refused=source.fault, seed=seed)
                for number, source in enumerate(sources)
                for seed in range(settings.seeds)
                for agent in _in_turn(settings.agents, number + seed)
            )
            made = Record(schema=SCHEMA, version=__version__, settings=settings, entries=entries)
            with RunLock.acquire(folder):
                _write(folder, made)
        suite = cls(folder)
        if suite.record.settings != settings:
            suite.close()
            raise RunFolderError(
                f"{folder}: holds a suite of other tasks or settings; go on with that one by "
                f"`akg-tui suite resume {folder}`, or take another folder for this one"
            )
        return suite

    def trust_own(self) -> None:
        """Note that the user has stated the suite's settings, so that it is resumed unasked."""
        self.own_settings = True
        settings = self.record.settings
        servers = {str(settings.stated(agent).get("base_url", "")) for agent in settings.agents}
        named = [Act("own-key", server) for server in sorted(servers - {""})]
        with contextlib.suppress(StoreError):  # then `suite resume` says what is in the way
            allow(self.folder, (*settings.acts(), *named))

    def put(self, changed: Entry) -> None:
        """Replace the entry of the same task and agent, durably."""
        entries = tuple(changed if each.key == changed.key else each for each in self.entries)
        record = replace(self.record, entries=entries)
        _write(self.folder, record)
        self.record = record

    def note_host(self, entry: Entry, host: str) -> None:
        """Note that a machine works on the entry's run."""
        now = self.current(entry)
        if host not in now.hosts:
            self.put(replace(now, hosts=(*now.hosts, host)))

    def forgive(self) -> None:
        """Give each entry its retries anew; a refused one may have been mended since."""
        entries = tuple(replace(each, faults=0, refused=each.source.fault) for each in self.entries)
        record = replace(self.record, entries=entries)
        _write(self.folder, record)
        self.record = record

    def close(self) -> None:
        self._lock.release()


def _in_turn(agents: tuple[str, ...], number: int) -> tuple[str, ...]:
    """Return the order in which agents get a task: no agent always comes first."""
    first = number % len(agents)
    return agents[first:] + agents[:first]


def is_over(suite: Suite, entry: Entry) -> bool:
    """Return whether nothing is left to do for an entry: refused, or its run has ended."""
    if entry.refused:
        return True
    try:
        state = suite.state(entry)
    except StoreError:
        return False  # told when its turn comes
    return state is not None and bool(state.finished) and not lost_to_machine(state)


def lost_to_machine(state: RunState) -> bool:
    """Return whether a run ended because the judge was lost, not for its kernel or its limits."""
    measured: Iterable[object] = (state.baseline, state.measured, state.final)
    return (
        bool(state.finished)
        and not state.ok
        and any(
            getattr(each, "outcome", None) is Outcome.ERROR
            and getattr(each, "failure", None) is FailureKind.JUDGE
            for each in measured
        )
    )


def _read(folder: Path) -> Record:
    path = folder / RECORD
    if not path.is_file():
        raise RunFolderError(f"{folder}: is not a suite, expected a folder with {RECORD}")
    with reading(path):
        data = path.read_bytes()
    try:
        record = msgspec.json.decode(data, type=Record)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RunFolderError(f"{path}: cannot be read: {error}") from None
    if record.schema != SCHEMA:
        raise RunFolderError(f"{path}: has schema {record.schema}, this version reads {SCHEMA}")
    return record


def _write(folder: Path, record: Record) -> None:
    with writing(folder / RECORD):
        replace_file(folder / RECORD, msgspec.json.format(msgspec.json.encode(record)) + b"\n")
