"""A journal's lines: how an event becomes bytes, and which bytes can be trusted.

A line is ``crc32 SPACE json NEWLINE``: eight lower-case hex digits over the json's bytes.
The json holds ``seq`` (1, 2, 3, …), ``at``, ``schema``, ``prev`` and ``event``; ``prev`` is
the first 16 hex digits of the sha256 of the whole line before (sixteen zeros at first).
All this guards against accidents, not against forgery. Reads only.

``schema`` counts the meanings that a line has had. A new kind of event, or a new field
with a default, keeps it: older journals still read, and an older program refuses the
line by name. What an older program would misread raises it; see `SCHEMA`.
"""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import Struct

from akg_tui.core.events import AnyEvent, Record
from akg_tui.store.errors import JournalDamaged, JournalTooNew, reading

# Of the lines this version writes. One with a higher number is refused, never guessed at;
# raising it needs a reader for the lines before (`tests/store/fixtures` keeps journals).
SCHEMA = 1
NO_LINE = "0" * 16


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
_record_decoder = msgspec.json.Decoder(Record)
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


def prepare(event: AnyEvent, seq: int, at: float, prev: str) -> Prepared:
    """Return the line for `event`, and what will be read back from it.

    Raises
    ------
    TypeError, ValueError, OverflowError
        If the event could not be read back from its line.
    """
    plain = msgspec.Raw(_encoder.encode(event))
    payload = _encoder.encode(_Line(seq, at, SCHEMA, prev, plain))
    return Prepared(_record(payload), b"%08x %b\n" % (zlib.crc32(payload), payload))


def lines_of(data: bytes, count: int) -> list[bytes]:
    """Return the first `count` lines of a sound journal, each with its line end."""
    return [line + b"\n" for line in data.split(b"\n", count)[:count]]


def continued(lines: list[bytes], event: AnyEvent, at: float) -> bytes:
    """A journal's bytes: these lines as they are, and `event` after them, linked to the last."""
    return b"".join((*lines, prepare(event, len(lines) + 1, at, digest(lines[-1])).line))


class Inspected(Struct, frozen=True):
    """A journal as it is: its sound beginning, and what ends it.

    `data` are the bytes of the file, the first `length` of them sound. What follows is
    damage when `fault` says so, else a torn tail, or nothing.
    """

    records: list[Record]
    data: bytes
    length: int
    fault: JournalDamaged | None


def inspect(path: Path, data: bytes | None = None) -> Inspected:
    """Read as much as can be trusted, and say why no more. Raises `RunFolderError`.

    `data` are the bytes of a journal that is no file of its own; `path` is what faults name.
    """
    if data is None:
        with reading(path):
            data = path.read_bytes()
    scanned = Scanned()
    fault = None
    try:
        scan_into(scanned, path, data, whole=True)
    except JournalDamaged as error:
        fault = error
    return Inspected(scanned.records, data, scanned.length, fault)


class Scanned(Struct):
    """How far a journal was read: `count` events, `length` bytes, the link to the next event.

    `records` are the events that were read last, `ends` where the line of each ends, and
    `last` is the last line.
    """

    count: int = 0
    length: int = 0
    prev: str = NO_LINE
    records: list[Record] = []
    ends: list[int] = []
    last: bytes = b""

    def on(self) -> Scanned:
        """To read on from here: what was read is not changed by it."""
        return Scanned(self.count, self.length, self.prev, last=self.last)


def digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()[:16]


def _payload(line: bytes) -> bytes | None:
    """Return the json of a line whose checksum is right, else None."""
    payload = line[9:]
    # Compared as bytes: parsing the digits would let `A` pass for `a`.
    return payload if line[:9] == b"%08x " % zlib.crc32(payload) else None


def _checksum_fault(line: bytes) -> str:
    """What is wrong with a line that fails its checksum."""
    if b"\0" in line:
        return "it has zero bytes, as a file system leaves them after a power loss"
    return "its checksum is wrong"


class Unsure(Exception):
    """A line is wrong, and only what follows the bytes at hand can tell whether it is torn."""


def scan_into(scanned: Scanned, path: Path, data: bytes, *, whole: bool) -> Scanned:
    """Add what `data`, the bytes after those that were read, holds to `scanned`, and return it.

    Up to the first line that is wrong. Not `whole`, the file goes on after `data`.

    Raises
    ------
    JournalDamaged
        If a line is wrong and is no torn end.
    Unsure
        If a line is wrong, and `data` is not `whole`.
    """
    lines = data.split(b"\n")
    lines.pop()  # after the last line end: nothing, or the part of a line
    for index, line in enumerate(lines):
        number = scanned.count + 1
        payload = _payload(line)
        if payload is None:
            if any(_payload(later) is not None for later in lines[index + 1 :]):
                what = _checksum_fault(line)
                raise JournalDamaged(path, number, what, scanned.length)
            if not whole:
                raise Unsure
            break
        try:
            found = _known(payload) or _line(payload)
            if fault := _order_fault(found, number, scanned.prev):
                raise JournalDamaged(path, number, fault, scanned.length)
            event = found.event if isinstance(found, _Known) else _event(found.event)
            scanned.records.append(Record(number, found.at, event))
        except _Unknown as error:
            raise JournalTooNew(path, number, str(error), scanned.length) from error
        except ValueError as error:  # includes msgspec's errors
            raise JournalDamaged(path, number, str(error), scanned.length) from error
        ended = line + b"\n"
        scanned.count = number
        scanned.length += len(ended)
        scanned.ends.append(scanned.length)
        scanned.prev = digest(ended)
        scanned.last = ended
    return scanned


def reread(path: Path, data: bytes, first: int, offset: int) -> list[Record]:
    """The events of lines that were found sound before, from number `first` at byte `offset`.

    Raises
    ------
    JournalDamaged
        If they are not what they were.
    """
    records: list[Record] = []
    for number, line in enumerate(data.split(b"\n")[:-1], first):
        payload = _payload(line)
        if payload is None:
            raise JournalDamaged(path, number, _checksum_fault(line), offset)
        try:
            record = _record_decoder.decode(payload)  # it was checked when it was read first
        except msgspec.ValidationError:
            record = _record(payload)
        if record.seq != number:
            what = f"its number is {record.seq}: the journal is another since it was read"
            raise JournalDamaged(path, number, what, offset)
        records.append(record)
        offset += len(line) + 1
    return records


def _known(payload: bytes) -> _Known | None:
    """Return the line when it is as this version writes it, which most are; else None."""
    try:
        known = _known_decoder.decode(payload)
    except msgspec.ValidationError:
        return None
    return known if known.schema == SCHEMA and _encoder.encode(known) == payload else None


def _line(payload: bytes) -> _Line:
    """Return the parts of a line. The schema first: a newer one may have other parts."""
    schema = msgspec.json.decode(payload, type=_Schema).schema
    if schema > SCHEMA:
        raise _Unknown(f"schema {schema}, this version reads up to {SCHEMA}")
    return _line_decoder.decode(payload)


def _order_fault(line: _Known | _Line, number: int, prev: str) -> str:
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
    """Return the first key of `found` that `known` lacks, as a dotted path, or ""."""
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
