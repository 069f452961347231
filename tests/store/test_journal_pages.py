"""The events of a journal are read from the disk by number, and few of them are held."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from akg_tui.core import events as ev
from akg_tui.core.fold import fold
from akg_tui.core.past_states import Past
from akg_tui.store.errors import JournalDamaged, RunFolderError
from akg_tui.store.journal import read
from akg_tui.store.journal_format import NO_LINE, Scanned, digest, prepare
from akg_tui.store.journal_reader import JournalTail, Pages, read_on
from tests.tui.script import FakeHandle


@cache
def run() -> tuple[ev.Record, ...]:
    handle = FakeHandle().work()
    return tuple(handle.records)


def lines_of(records: Sequence[ev.Record]) -> list[bytes]:
    lines: list[bytes] = []
    prev = NO_LINE
    for record in records:
        lines.append(prepare(record.event, record.seq, record.at, prev).line)
        prev = digest(lines[-1])
    return lines


@contextmanager
def paged(path: Path, *, page: int, kept: int, chunk: int = 1 << 16) -> Iterator[Pages]:
    with path.open("rb") as file:
        pages = Pages(path, file.fileno(), page=page, kept=kept)
        scanned = Scanned()
        while (scanned := read_on(path, file, scanned, most=chunk)).records:
            pages.add(scanned)
    yield pages


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(lines_of(run())))
    return path


@given(
    page=st.integers(1, 70),
    kept=st.integers(1, 4),
    chunk=st.integers(1, 9_000),
    asked=st.lists(st.tuples(st.integers(-300, 300), st.integers(-300, 300)), max_size=6),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pages_are_the_list_of_the_events_whatever_is_asked(
    path: Path, page: int, kept: int, chunk: int, asked: list[tuple[int, int]]
) -> None:
    whole = read(path)
    with paged(path, page=page, kept=kept, chunk=chunk) as pages:
        assert len(pages) == len(whole)
        assert list(pages) == whole
        assert list(reversed(pages)) == whole[::-1]
        for start, stop in asked:
            assert pages[start:stop] == whole[start:stop]
            assert pages[start:stop:-3] == whole[start:stop:-3]
            if -len(whole) <= start < len(whole):
                assert pages[start] == whole[start]
        assert pages.held <= page * (kept + 1)
    with pytest.raises(IndexError):
        pages[len(whole)]


@given(
    jumps=st.lists(st.integers(1, len(run())), min_size=1, max_size=5),
    every=st.integers(1, 60),
    most=st.integers(1, 8),
    torn=st.integers(0, 200),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_state_of_the_past_of_a_growing_torn_journal_is_the_fold_of_its_beginning(
    tmp_path: Path, jumps: list[int], every: int, most: int, torn: int
) -> None:
    """Each jump is made when the journal has grown just so far, and a part of a line more."""
    path = tmp_path / "grown.jsonl"
    path.write_bytes(b"")
    lines = lines_of(run())
    tail = JournalTail(path, chunk=5_000)
    assert not tail.more()
    past, known = Past(tail.records, every=every, most=most), 0
    for stop in sorted(jumps):
        beginning = b"".join(lines[:stop])
        partly = lines[stop][:torn].rstrip(b"\n") if stop < len(lines) else b""
        path.write_bytes(beginning + partly)
        while tail.more():
            assert tail.records is past.records
            past.extend()
        assert len(past) == stop
        for seq in (stop, known or 1, (stop + known) // 2 or 1):
            assert past.at(seq) == fold(run()[:seq])
        known = stop


def test_what_was_read_is_read_again_when_the_journal_is_gone(path: Path) -> None:
    whole = read(path)
    with paged(path, page=8, kept=1) as pages:
        path.unlink()
        assert list(pages) == whole


def test_an_event_that_is_not_what_it_was_is_told_not_shown(path: Path) -> None:
    with paged(path, page=8, kept=1) as pages:
        line = lines_of(run())[3]
        data = path.read_bytes()
        with path.open("r+b") as file:
            file.write(data.replace(line, line[:-3] + b"x" + line[-2:]))
        with pytest.raises(JournalDamaged, match=r"event 4.*its checksum is wrong"):
            pages[0]
        other = prepare(run()[3].event, 9, 1.0, NO_LINE).line
        path.write_bytes(data.replace(line, other))
        with pytest.raises(JournalDamaged, match="its number is 9"):
            pages[3]
        with path.open("r+b") as file:
            file.truncate(100)
        with pytest.raises(RunFolderError, match="is shorter than it was"):
            pages[0]


def test_damage_in_one_chunk_is_told_by_a_good_line_in_a_later_one(path: Path) -> None:
    lines = lines_of(run())
    bad = lines[5].replace(b"seq", b"qes")
    path.write_bytes(b"".join((*lines[:5], bad, *lines[6:])))
    with pytest.raises(JournalDamaged, match=r"event 6.*its checksum is wrong"):
        _read_in_pieces(path)
    path.write_bytes(b"".join((*lines[:5], bad)))
    assert [r.seq for r in _read_in_pieces(path)] == [1, 2, 3, 4, 5], "alone it is a torn end"


def _read_in_pieces(path: Path) -> Sequence[ev.Record]:
    tail = JournalTail(path, chunk=50)
    while tail.more():
        pass
    return tail.records


def test_damage_in_what_was_read_is_told_and_keeps_what_was_read(path: Path) -> None:
    tail = JournalTail(path)
    assert tail.more()
    whole = list(tail.records)
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes().replace(b'"seq":5,', b'"seq":6,'))
    copy.replace(path)
    with pytest.raises(JournalDamaged, match="its checksum is wrong"):
        tail.more()
    assert list(tail.records) == whole
