"""The sessions of a benchmark on disk, one JSON line each, so that it can be resumed.

The first line tells what is measured; a file that was begun for something else is refused.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.edit_models.session import Session


class BadResults(ValueError):
    """The results file cannot be used; the message names file and line."""


class Setting(Struct, frozen=True, forbid_unknown_fields=True):
    """The subject of a benchmark, for any models. `prompt_digest` changes with the tasks.

    `corpus` is the name of the folder whose files the tasks are in.
    """

    corpus: str
    seed: int
    tasks: int
    prompt_digest: str
    write_tool: bool


class Results:
    """All sessions so far; kept in a file as well if there is one."""

    def __init__(self, setting: Setting, path: Path | None) -> None:
        """Read the sessions of the file. Raises `BadResults`."""
        self.setting = setting
        self.path = path
        self.sessions: list[Session] = []
        self._played: set[tuple[str, str, str, int]] = set()
        try:
            if path is not None and path.exists():
                self._read(path)
            elif path is not None:
                path.write_bytes(msgspec.json.encode(setting) + b"\n")
        except OSError as error:
            raise BadResults(f"cannot use {path}: {error.strerror}") from error

    def has(self, model: str, task: str, form: str, repeat: int) -> bool:
        """Whether this session was played."""
        return (model, task, form, repeat) in self._played

    def add(self, session: Session) -> None:
        """Keep a session, durably. Raises `BadResults`."""
        self._keep(session)
        if self.path is None:
            return
        try:
            with self.path.open("ab") as file:
                file.write(msgspec.json.encode(session) + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise BadResults(f"cannot write {self.path}: {error.strerror}") from error

    def _keep(self, session: Session) -> None:
        self.sessions.append(session)
        self._played.add((session.model, session.task, session.format, session.repeat))

    def _read(self, path: Path) -> None:
        whole, _, torn = path.read_bytes().rpartition(b"\n")
        lines = whole.split(b"\n") if whole else []
        if torn:  # a session whose writing was cut off is played again
            with path.open("r+b") as file:
                file.truncate(len(whole) + 1 if whole else 0)
        try:
            found = msgspec.json.decode(lines[0], type=Setting) if lines else None
        except msgspec.DecodeError as error:
            raise BadResults(
                f"{path}: line 1: not the results of `bench edits`: {error}"
            ) from error
        if found is None:
            path.write_bytes(msgspec.json.encode(self.setting) + b"\n")
            return
        for name in Setting.__struct_fields__:
            had, wanted = getattr(found, name), getattr(self.setting, name)
            if had != wanted:
                raise BadResults(f"{path}: begun with {name} {had!r}, not {wanted!r}")
        for number, line in enumerate(lines[1:], 2):
            try:
                self._keep(msgspec.json.decode(line, type=Session))
            except msgspec.DecodeError as error:
                raise BadResults(f"{path}: line {number}: {error}") from error
