"""The lines of a journal: the encoding of an event, and the checks that make a line trusted.

A line is ``crc32 SPACE json NEWLINE``: eight lower-case hex digits over the json's bytes. The json
holds ``seq`` (1, 2, 3, …), ``at``, ``schema``, ``prev`` and ``event``; ``prev`` is the first 16 hex
digits of the sha256 of the whole previous line (sixteen zeros in the first). All this guards
against accidents, not against forgery. Reads only.

``schema`` is the version of a line's meaning. A new kind of event, or a new field with a default,
keeps it: older journals still read, and an older program refuses the line by name. A change that an
older program would misread raises it; see `SCHEMA`.
"""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import Struct

from akg_tui.core.events import AnyEvent, Record
from akg_tui.core.sanitize import BadName, encode_said
from akg_tui.store.errors import JournalDamaged, JournalLeaves, JournalTooNew, reading

# The schema of the lines that this version writes. A line with a higher number is refused; raising
# it needs a reader for older lines (`tests/store/fixtures` keeps journals).
SCHEMA = 1
NO_LINE = "0" * 16
LATEST = 32_503_680_000.0  # the year 3000


class _Line(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    seq: int
    at: float
    schema: int
    prev: str
    event: AnyEvent


_encoder = msgspec.json.Encoder(enc_hook=encode_said)
_line_decoder = msgspec.json.Decoder(_Line)
_record_decoder = msgspec.json.Decoder(Record)


class _Outline(Struct):
    """The fields of a line that are read where this version may not know the others."""

    schema: int = 0
    event: Any = None


_kinds = {kind.__name__ for kind in get_args(AnyEvent)}


class _Unknown(ValueError):
    """A sound line with a value that this version does not define."""


class Prepared(Struct, frozen=True):
    """An event in its form on disk: `record` was read back from `line`."""

    record: Record
    line: bytes


def prepare(event: AnyEvent, seq: int, at: float, prev: str) -> Prepared:
    """Return the line for `event`, and the record read back from it.

    Raises `TypeError`, `ValueError` or `OverflowError` if the event could not be read back from its
    line.
    """
    payload = _encoder.encode(_Line(seq, at, SCHEMA, prev, event))
    record = _record_decoder.decode(payload)
    return Prepared(record, b"%08x %b\n" % (zlib.crc32(payload), payload))


def lines_of(data: bytes, count: int) -> list[bytes]:
    """Return the first `count` lines of a sound journal, each with its line end."""
    return [line + b"\n" for line in data.split(b"\n", count)[:count]]


def continued(lines: list[bytes], event: AnyEvent, at: float) -> bytes:
    """Return the bytes of a journal: these lines unchanged, then `event`, linked to the last."""
    return b"".join((*lines, prepare(event, len(lines) + 1, at, digest(lines[-1])).line))


class Inspected(Struct, frozen=True):
    """A journal as found: its sound beginning, and the reason why it ends.

    `data` are the bytes of the file, the first `length` of them sound. The bytes after them are
    damage if `fault` is set, else a torn tail, or empty.
    """

    records: list[Record]
    data: bytes
    length: int
    fault: JournalDamaged | None


def inspect(path: Path, data: bytes | None = None) -> Inspected:
    """Read the part that can be trusted, and why it ends. Raises `RunFolderError`.

    `data` are the bytes of a journal that is not a file; `path` is the name in faults.
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

    `records` are the events of the last read, `ends` the byte at which the line of each ends, and
    `last` is the last line.
    """

    count: int = 0
    length: int = 0
    prev: str = NO_LINE
    records: list[Record] = []
    ends: list[int] = []
    last: bytes = b""

    def on(self) -> Scanned:
        """Return a copy to read on from, so that reading leaves this value unchanged."""
        return Scanned(self.count, self.length, self.prev, last=self.last)


def digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()[:16]


def _payload(line: bytes) -> bytes | None:
    """Return the json of a line whose checksum is right, else None."""
    payload = line[9:]
    # Compared as bytes: parsing the digits would accept `A` for `a`.
    return payload if line[:9] == b"%08x " % zlib.crc32(payload) else None


def _checksum_fault(line: bytes) -> str:
    """Describe the fault of a line that fails its checksum."""
    if b"\0" in line:
        return "it has zero bytes, as a file system leaves them after a power loss"
    return "its checksum is wrong"


class Unsure(Exception):
    """A line is wrong, and the bytes read so far do not show whether it is torn."""


def scan_into(scanned: Scanned, path: Path, data: bytes, *, whole: bool) -> Scanned:
    """Add the events in `data`, the bytes after those already read, to `scanned`, and return it.

    Stops at the first wrong line. Without `whole`, the file continues after `data`.

    Raises `JournalDamaged` if a line is wrong and is no torn end. Raises `Unsure` if a line is
    wrong, and `data` is not `whole`.
    """
    lines = data.split(b"\n")
    lines.pop()  # after the last line end: empty, or a part of a line
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
            found = _line(payload)
            if fault := _order_fault(found, number, scanned.prev):
                raise JournalDamaged(path, number, fault, scanned.length)
            scanned.records.append(Record(number, found.at, found.event))
        except _Unknown as error:
            raise JournalTooNew(path, number, str(error), scanned.length) from error
        except (ValueError, RecursionError) as error:  # includes msgspec's errors
            raise _unreadable(path, number, error, scanned.length) from error
        ended = line + b"\n"
        scanned.count = number
        scanned.length += len(ended)
        scanned.ends.append(scanned.length)
        scanned.prev = digest(ended)
        scanned.last = ended
    return scanned


def _unreadable(
    path: Path, number: int, error: ValueError | RecursionError, offset: int
) -> JournalDamaged:
    cause = error.__cause__
    if isinstance(cause, BadName):
        return JournalLeaves(path, number, f"{_place(error)}{cause.field}: {cause.why}", offset)
    what = "nested too deeply" if isinstance(error, RecursionError) else str(error)
    return JournalDamaged(path, number, what, offset)


def _place(error: Exception) -> str:
    """Return where in an event msgspec found a fault: "" or a dotted path with a dot at its end."""
    _, found, place = str(error).rpartition(" - at `$.event")
    inside = place.strip("`.") if found else ""
    return f"{inside}." if inside else ""


def reread(path: Path, data: bytes, first: int, offset: int) -> list[Record]:
    """Return the events of lines checked before, from number `first` at byte `offset`.

    Raises `JournalDamaged` if they have changed since.
    """
    records: list[Record] = []
    for number, line in enumerate(data.split(b"\n")[:-1], first):
        payload = _payload(line)
        if payload is None:
            raise JournalDamaged(path, number, _checksum_fault(line), offset)
        record = _record_decoder.decode(payload)  # the first read has checked its schema
        if record.seq != number:
            what = f"its number is {record.seq}: the journal is another since it was read"
            raise JournalDamaged(path, number, what, offset)
        records.append(record)
        offset += len(line) + 1
    return records


def _line(payload: bytes) -> _Line:
    """Return the parts of a line. Raises `_Unknown` for one that only a newer version reads."""
    try:
        line = _line_decoder.decode(payload)
    except msgspec.ValidationError as error:
        if what := _newer(payload, str(error)):
            raise _Unknown(what) from error
        raise
    if line.schema > SCHEMA:
        raise _Unknown(_newer(payload, ""))
    return line


def _newer(payload: bytes, fault: str) -> str:
    """Return what of a line this version does not know, or "". `fault` is that of its decoding.

    The schema counts first: a newer one can have other parts.
    """
    outline = msgspec.json.decode(payload, type=_Outline)
    kind = outline.event.get("type") if isinstance(outline.event, dict) else None
    if outline.schema > SCHEMA:
        return f"schema {outline.schema}, this version reads up to {SCHEMA}"
    if isinstance(kind, str) and kind not in _kinds:
        return f"an event {kind!r}, which this version does not know"
    return f"{kind}: {fault}" if fault.startswith("Object contains unknown field") else ""


def _order_fault(line: _Line, number: int, prev: str) -> str:
    if line.schema < 1:
        return f"schema {line.schema} never was"
    if not 0 <= line.at <= LATEST:
        return f"at: {line.at!r} is no time, expected seconds since 1970"
    if line.seq != number:
        return f"its number is {line.seq}, an event is missing or doubled"
    if line.prev != prev:
        return "the hash chain is broken: it does not follow the line before it"
    return ""
