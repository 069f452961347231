"""The user's trust: what a folder's settings may do outside the sandbox, in the user's own config.

A folder may do what was allowed for it or for a folder above it, and nothing else: a setting or a
tool file that changed is asked about again. Owns ``trust.json``, and decides; it asks nobody.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from akg_tui.core.task import AGENT_FILES, MAKERS, SWEEP, Act, Agent, is_makers
from akg_tui.store.errors import RunFolderError, StoreError, reading, writing
from akg_tui.store.filesystem import is_file, is_folder, replace_file
from akg_tui.store.run_folder import RUNS
from akg_tui.store.task_folder import TASK_FILE
from akg_tui.store.user_files.user_folders import config_folder


class Trusted(Struct, frozen=True):
    """The acts that the user allows a folder.

    A folder that `akg-tui new` made (`made`) may do whatever its own files say.
    """

    acts: tuple[Act, ...] = ()
    made: bool = False


Folders = Mapping[str, Trusted]
"""By the real path of the folder."""


class _Content(Struct, frozen=True):
    folders: dict[str, Trusted]


class Untrusted(StoreError):
    """A folder would do `acts` outside the sandbox, which the user has not allowed it."""

    def __init__(self, folder: Path, acts: tuple[Act, ...]) -> None:
        what = "; ".join(map(str, acts))
        super().__init__(
            "{path}: is not trusted; --trust allows what it would do: {acts}",
            path=folder,
            acts=what,
        )
        self.folder = folder
        self.acts = acts


def acts_in(
    agent: Agent, tools: Iterable[tuple[str, str]] = (), stated: Container[str] = ()
) -> tuple[Act, ...]:
    """Return what the settings of an agent do outside the sandbox.

    `tools` are the task's tool files, as (name, text). The settings in `stated` are a person's.
    """
    if agent.model == SWEEP:  # it asks no server, and calls only tools of ours
        return ()
    acts: list[Act] = []
    server = agent.base_url or MAKERS[agent.api]
    elsewhere = not is_makers(server, agent.api) and "base_url" not in stated
    if elsewhere:
        acts.append(Act("server", server))
    # A person's file too: it was meant for another server.
    if (file := agent.api_key_file) and (elsewhere or "api_key_file" not in stated):
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # no path: it opens nothing
            file = str(Path(file).expanduser().resolve())
        acts.append(Act("key-file", file, server))
    own = {getattr(agent, setting) for setting in AGENT_FILES if setting in stated}
    for name, text in tools:
        if name not in own:
            digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
            acts.append(Act("tools", name, digest))
    if agent.allow_script and "allow_script" not in stated:
        acts.append(Act("scripts"))
    return tuple(acts)


def allowed(folders: Folders, path: Path) -> frozenset[Act]:
    """Return what is allowed for the real `path`, or for a folder above it."""
    places = (folders.get(str(place)) for place in (path, *path.parents))
    return frozenset(act for place in places if place is not None for act in place.acts)


def not_allowed(folders: Folders, path: Path, acts: Iterable[Act]) -> tuple[Act, ...]:
    """Return those of `acts` that the user does not allow the folder at the real `path`."""
    here = folders.get(str(path))
    if here is not None and here.made:
        return ()
    granted = allowed(folders, path)
    return tuple(act for act in acts if act not in granted)


def insist(folder: Path, acts: tuple[Act, ...], *, trust: bool = False) -> None:
    """Check that the user allows `acts` of a folder; with `trust` allow them now.

    Raises
    ------
    Untrusted
        If something in them is not allowed.
    StoreError
        If the file with the user's answers cannot be read or written.
    """
    if trust:
        allow(folder, acts)
    elif acts and (missing := not_allowed(read_trust(), folder.resolve(), acts)):
        raise Untrusted(folder, missing)


def may_have_own_key(folder: Path, server: str) -> bool:
    """Return whether the user has named this server for the folder, or for one above it."""
    return Act("own-key", server) in allowed(read_trust(), folder.resolve())


def home_of(run: Path) -> Path:
    """Return the folder that a run is trusted by: its task's, or its own if it stands alone."""
    path = run.resolve()
    task = path.parent.parent
    return task if path.parent.name == RUNS and is_file(task / TASK_FILE) else path


def allow(folder: Path, acts: Iterable[Act]) -> None:
    """Remember that the user allows `acts` of a folder; those of a run go to `home_of` it.

    Raises `StoreError`.
    """
    path = home_of(folder)
    if new := [act for act in acts if act not in allowed(read_trust(), path)]:
        with _changed() as folders:
            here = folders.get(str(path), Trusted())
            folders[str(path)] = replace(here, acts=tuple(dict.fromkeys((*here.acts, *new))))


def note_made(folder: Path) -> None:
    """Remember that `akg-tui new` made a folder. Raises `StoreError`."""
    with _changed() as folders:
        folders[str(folder.resolve())] = Trusted(made=True)


def revoke(folder: Path) -> bool:
    """Forget the user's trust in a folder and in all below it; return False if there was none.

    Raises `StoreError`.
    """
    path = folder.resolve()
    with _changed() as folders:
        found = [known for known in folders if Path(known).is_relative_to(path)]
        for known in found:
            del folders[known]
    return bool(found)


def trust_file() -> Path:
    """Return the path of the file with the user's answers."""
    return config_folder() / "trust.json"


def read_trust() -> dict[str, Trusted]:
    """Return what the user allows, by folder. Raises `StoreError` if the file cannot be read."""
    path = trust_file()
    if not is_file(path):
        return {}
    with reading(path):
        data = path.read_bytes()
    try:
        content = msgspec.json.decode(data, type=_Content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RunFolderError(
            "{path}: is damaged, so no folder is trusted; mend it or remove it: {fault}",
            path=path,
            fault=error,
        ) from None
    return content.folders


@contextlib.contextmanager
def _changed() -> Iterator[dict[str, Trusted]]:
    """Yield the folders to change, and write them, without those that are gone.

    No other process changes the file meanwhile.
    """
    path = trust_file()
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(
            path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        folders = read_trust()
        yield folders
        kept = {known: told for known, told in folders.items() if is_folder(known)}
        data = msgspec.json.format(msgspec.json.encode(_Content(kept))) + b"\n"
        with writing(path):
            replace_file(path, data)
            path.chmod(0o600)
    finally:
        os.close(descriptor)
