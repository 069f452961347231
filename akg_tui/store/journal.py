"""`events.jsonl`: the only truth about a run, one event a line, each durable before it counts.

A line is ``crc32 SPACE json NEWLINE``: eight lower-case hex digits over the json's bytes.
The json holds ``seq`` (1, 2, 3, …), ``at``, ``schema``, ``prev`` and ``event``; ``prev`` is
the first 16 hex digits of the sha256 of the whole line before (sixteen zeros at first).
All this guards against accidents, not against forgery. Only this module appends.

``schema`` counts the meanings that a line has had. A new kind of event, or a new field
with a default, keeps it: older journals still read, and an older program refuses the
line by name. What an older program would misread raises it; see `SCHEMA`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, get_args

import msgspec
from msgspec import Struct

from akg_tui.core.events import AnyEvent, Record
from akg_tui.store.durable import seal, sync_folder
from akg_tui.store.errors import (
    JournalDamaged,
    JournalTooNew,
    JournalWriteError,
    RunFolderError,
)
from akg_tui.store.lock import RunLock

# Of the lines this version writes. One with a higher number is refused, never guessed at;
# raising it needs a reader for the lines before (`tests/store/fixtures` keeps journals).
SCHEMA = 1
_NO_LINE = "0" * 16


class _Line(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    seq: int
    at: float
    schema: int
    prev: str
    event: msgspec.Raw


class _Known(Struct, frozen=True, gc=False):
    """A line as this version writes it: encoded again it gives the same bytes."""

    seq: int
    at: float
    schema: int
    prev: str
    event: AnyEvent


_encoder = msgspec.json.Encoder()
_known_decoder = msgspec.json.Decoder(_Known)
_line_decoder = msgspec.json.Decoder(_Line)
_event_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


class _Kind(Struct):
    type: str


class _Schema(Struct):
    schema: int = 0


_kinds = {kind.__name__ for kind in get_args(AnyEvent)}


class _Unknown(ValueError):
    """A sound line that tells something this version has no word for."""


class Prepared(Struct, frozen=True):
    """An event as it will be on disk: `record` was read back from `line`."""

    record: Record
    line: bytes


class Journal:
    """The journal of one run, open for appending by the holder of the run's lock.

    `cut` is the number of bytes of a torn tail that `open` removed.
    """

    def __init__(self, path: Path, descriptor: int, scanned: _Scanned, cut: int) -> None:
        self.path = path
        self.cut = cut
        self._descriptor: int | None = descriptor
        self._records = scanned.records
        self._length = scanned.length
        self._prev = scanned.prev
        self._closed_why = "it was closed"
        found = os.fstat(descriptor)
        self._file = (found.st_dev, found.st_ino)

    @classmethod
    def open(cls, path: Path, *, lock: RunLock) -> Journal:
        """Open or create; a torn tail is cut off, and what is left is made durable.

        The last line may be a dead process's, seen here but never fsynced, or left by an
        fsync that failed: nothing may follow from it before it is on the disk.

        Raises
        ------
        JournalDamaged
            If a bad line is followed by a good one, or a whole line does not fit in its
            place. Nothing is written.
        RunFolderError
            If the file cannot be read and written.
        """
        if not lock.held:
            raise ValueError("only the holder of the run's lock may append to its journal")
        is_new = not path.exists()
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise RunFolderError(f"cannot write {path}: {error.strerror}") from error
        try:
            if is_new:
                sync_folder(path.parent)
            data = path.read_bytes()
            scanned = _scan(path, data)
            if cut := len(data) - scanned.length:
                os.ftruncate(descriptor, scanned.length)
                os.fsync(descriptor)
            if last := data[: scanned.length].rpartition(b"\n")[0]:
                start = last.rfind(b"\n") + 1
                seal(path, start, data[start : scanned.length])
        except OSError as error:
            os.close(descriptor)
            raise RunFolderError(f"cannot open {path}: {error.strerror}") from error
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor, scanned, cut)

    @property
    def records(self) -> Sequence[Record]:
        """All events so far; grows with every append."""
        return self._records

    def prepare(self, event: AnyEvent, at: float) -> Prepared:
        """The next line for `event`, without writing it.

        The record is read back from the line, so what a process holds in memory is what
        any later one will read (a NaN, for instance, is null in both).

        Raises
        ------
        JournalWriteError
            If the event could not be read back from its line.
        """
        seq = len(self._records) + 1
        try:
            plain = msgspec.Raw(_encoder.encode(event))
            payload = _encoder.encode(_Line(seq, at, SCHEMA, self._prev, plain))
            record = _record(payload)
        except (TypeError, ValueError, OverflowError) as error:
            what = f"{type(event).__name__} has a value that JSON cannot hold: {error}"
            raise JournalWriteError(f"{self.path}: event {seq} was not written: {what}") from error
        return Prepared(record, b"%08x %b\n" % (zlib.crc32(payload), payload))

    def commit(self, prepared: Prepared) -> Record:
        """Make a prepared event durable: one write, one fsync.

        Raises
        ------
        JournalWriteError
            If that failed. After a failed write the event is not in the journal, which
            can be appended to again. After a failed fsync the journal is closed, because
            what the disk holds is no longer known: opening it again tells. It is closed
            too when the file is no longer where it was, or is not as it was left.
        """
        if self._descriptor is None:
            raise JournalWriteError(f"{self.path}: nothing was written: {self._closed_why}")
        if prepared.record.seq != len(self._records) + 1:
            raise ValueError(f"event {prepared.record.seq} is not the next one")
        line = prepared.line
        self._check_place()
        try:
            written = os.write(self._descriptor, line)
        except OSError as error:
            self._take_back(self._descriptor, error.strerror or str(error))
        else:
            if written != len(line):
                self._take_back(self._descriptor, "no space for the whole line")
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            descriptor = self._descriptor
            self._close(f"a write could not be made durable ({error.strerror}); resume the run")
            # Best effort: should it fail too, the next `open` takes a whole line as written.
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, self._length)
            os.close(descriptor)
            seq = prepared.record.seq
            raise JournalWriteError(
                f"{self.path}: event {seq} could not be made durable: {error.strerror}; "
                "resume the run to see what the disk holds"
            ) from error
        self._length += len(line)
        self._prev = _digest(line)
        self._records.append(prepared.record)
        return prepared.record

    def append(self, event: AnyEvent, at: float) -> Record:
        """Prepare and commit. `at` is seconds since the epoch."""
        return self.commit(self.prepare(event, at))

    def close(self) -> None:
        """Close the file; harmless when done twice."""
        if self._descriptor is not None:
            descriptor = self._descriptor
            self._close("it was closed")
            os.close(descriptor)

    def _close(self, why: str) -> None:
        self._descriptor = None
        self._closed_why = why

    def _not_written(self, why: str) -> JournalWriteError:
        seq = len(self._records) + 1
        return JournalWriteError(f"{self.path}: event {seq} was not written: {why}")

    def _check_place(self) -> None:
        """Refuse to write to a journal that is gone, replaced, or changed by somebody else."""
        assert self._descriptor is not None
        try:
            found = self.path.stat()
            moved = (found.st_dev, found.st_ino) != self._file
            changed = not moved and found.st_size != self._length
        except OSError:
            moved, changed = True, False
        if not (moved or changed):
            return
        why = (
            "the run folder was moved or deleted while it was open"
            if moved
            else "somebody else wrote in the journal while it was open"
        )
        descriptor = self._descriptor
        self._close(f"{why}; resume the run where it is now")
        os.close(descriptor)
        raise self._not_written(why)

    def _take_back(self, descriptor: int, why: str) -> NoReturn:
        """Undo a part of a line, so that the next append starts on a clean one."""
        try:
            os.ftruncate(descriptor, self._length)
            os.fsync(descriptor)
        except OSError as error:
            self._close(f"a failed write could not be undone ({error.strerror}); resume the run")
            os.close(descriptor)
        raise self._not_written(why)


def read(path: Path) -> list[Record]:
    """All events, for readers: no lock is taken, and a torn tail is ignored, not touched.

    Raises
    ------
    JournalDamaged
        As `Journal.open`.
    RunFolderError
        If the file cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RunFolderError(f"cannot read {path}: {error.strerror}") from error
    return _scan(path, data).records


class Inspected(Struct, frozen=True):
    """A journal as it is: its sound beginning, and what ends it.

    `data` are the bytes of the file, the first `length` of them sound. What follows is
    damage when `fault` says so, else a torn tail, or nothing.
    """

    records: list[Record]
    data: bytes
    length: int
    fault: JournalDamaged | None


def inspect(path: Path) -> Inspected:
    """Read as much as can be trusted, and say why no more. Raises `RunFolderError`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RunFolderError(f"cannot read {path}: {error.strerror}") from error
    scanned = _Scanned([], 0, _NO_LINE)
    fault = None
    try:
        _scan_into(scanned, path, data)
    except JournalDamaged as error:
        fault = error
    return Inspected(scanned.records, data, scanned.length, fault)


class _Scanned(Struct):
    """What a journal's bytes hold: the events, where the last ends, the link to the next."""

    records: list[Record]
    length: int
    prev: str


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()[:16]


def _payload(line: bytes) -> bytes | None:
    """The json of a line whose checksum is right, else None."""
    payload = line[9:]
    # Compared as bytes: parsing the digits would let `A` pass for `a`.
    return payload if line[:9] == b"%08x " % zlib.crc32(payload) else None


def _told(line: bytes) -> str:
    """What is wrong with a line that fails its checksum."""
    if b"\0" in line:
        return "it has zero bytes, as a file system leaves them after a power loss"
    return "its checksum is wrong"


def _scan(path: Path, data: bytes) -> _Scanned:
    scanned = _Scanned([], 0, _NO_LINE)
    _scan_into(scanned, path, data)
    return scanned


def _scan_into(scanned: _Scanned, path: Path, data: bytes) -> None:
    """Add what `data` holds to `scanned`, up to the first line that is wrong."""
    lines = data.split(b"\n")
    lines.pop()  # after the last line end: nothing, or the part of a line
    for index, line in enumerate(lines):
        number = index + 1
        payload = _payload(line)
        if payload is None:
            if any(_payload(later) is not None for later in lines[number:]):
                what = _told(line)
                raise JournalDamaged(path, number, number, what, scanned.length)
            break
        try:
            found = _known(payload) or _line(payload)
            if fault := _misfit(found, number, scanned.prev):
                raise JournalDamaged(path, number, number, fault, scanned.length)
            event = found.event if isinstance(found, _Known) else _event(found.event)
            scanned.records.append(Record(number, found.at, event))
        except _Unknown as error:
            raise JournalTooNew(path, number, number, str(error), scanned.length) from error
        except ValueError as error:  # includes msgspec's errors
            raise JournalDamaged(path, number, number, str(error), scanned.length) from error
        whole = line + b"\n"
        scanned.length += len(whole)
        scanned.prev = _digest(whole)


def _known(payload: bytes) -> _Known | None:
    """The line when it is as this version writes it, which most are; else None."""
    try:
        known = _known_decoder.decode(payload)
    except msgspec.ValidationError:
        return None
    return known if known.schema == SCHEMA and _encoder.encode(known) == payload else None


def _line(payload: bytes) -> _Line:
    """The parts of a line. The schema first: a newer one may have other parts."""
    schema = msgspec.json.decode(payload, type=_Schema).schema
    if schema > SCHEMA:
        raise _Unknown(f"schema {schema}, this version reads up to {SCHEMA}")
    return _line_decoder.decode(payload)


def _misfit(line: _Known | _Line, number: int, prev: str) -> str:
    if line.schema < 1:
        return f"schema {line.schema} never was"
    if line.seq != number:
        return f"its number is {line.seq}, an event is missing or doubled"
    if line.prev != prev:
        return "the hash chain is broken: it does not follow the line before it"
    return ""


def _record(payload: bytes) -> Record:
    line = _line_decoder.decode(payload)
    return Record(line.seq, line.at, _event(line.event))


def _event(raw: msgspec.Raw) -> AnyEvent:
    """The event in `raw`. A field that this version does not know is an error, not a loss."""
    try:
        event = _event_decoder.decode(raw)
    except msgspec.ValidationError as error:
        kind = msgspec.json.decode(raw, type=_Kind).type
        if kind not in _kinds:
            raise _Unknown(f"an event {kind!r}, which this version does not know") from error
        raise
    # Encoding again is the cheap test: what differs is looked at, field by field.
    again = _encoder.encode(event)
    if again != bytes(raw):
        unknown = _unknown(msgspec.json.decode(raw), msgspec.json.decode(again), "")
        if unknown:
            raise _Unknown(f"unknown field {unknown} in {type(event).__name__}")
    return event


def _unknown(found: Any, known: Any, at: str) -> str:
    """The first key of `found` that `known` lacks, as a dotted path, or ""."""
    if isinstance(found, dict) and isinstance(known, dict):
        for key, value in found.items():
            place = f"{at}.{key}" if at else str(key)
            if key not in known:
                return place
            if deeper := _unknown(value, known[key], place):
                return deeper
    if isinstance(found, list) and isinstance(known, list):
        for left, right in zip(found, known, strict=False):
            if deeper := _unknown(left, right, f"{at}[]"):
                return deeper
    return ""
