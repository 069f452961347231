"""A journal followed by a reader while its writer appends, tears and takes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from akg_tui.core import events as ev
from akg_tui.store.errors import JournalDamaged
from akg_tui.store.journal import Journal, read
from akg_tui.store.journal_reader import JournalTail
from akg_tui.store.lock import RunLock


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal.open(tmp_path / "events.jsonl", lock=RunLock.acquire(tmp_path))


def test_what_was_written_since_is_read_on(journal: Journal) -> None:
    tail = JournalTail(journal.path)
    for number in range(5):
        journal.append(ev.HintGiven(text=f"h{number}"), 1.0)
        before = tail.records
        assert tail.more()
        assert number == 0 or tail.records is before
        assert list(tail.records) == read(journal.path)
    assert not tail.more()


def test_half_a_line_waits_for_its_other_half(journal: Journal) -> None:
    journal.append(ev.HintGiven(text="a"), 1.0)
    tail = JournalTail(journal.path)
    tail.more()
    line = journal.prepare(ev.HintGiven(text="b"), 2.0).line
    for piece, new in ((line[:30], False), (line[30:-1], False), (line[-1:], True)):
        with journal.path.open("ab") as file:
            file.write(piece)
        assert tail.more() is new
    assert [r.seq for r in tail.records] == [1, 2]


def test_a_line_that_was_taken_back_is_forgotten(journal: Journal) -> None:
    journal.append(ev.HintGiven(text="a"), 1.0)
    length = journal.path.stat().st_size
    tail = JournalTail(journal.path)
    with journal.path.open("ab") as file:
        file.write(journal.prepare(ev.HintGiven(text="not durable"), 2.0).line)
    tail.more()
    assert len(tail.records) == 2
    with journal.path.open("r+b") as file:
        file.truncate(length)
    journal.append(ev.HintGiven(text="another, which is longer than the one before it"), 3.0)
    tail.more()
    assert list(tail.records) == read(journal.path)


def test_damage_is_told_and_keeps_what_was_read(journal: Journal) -> None:
    for number in range(4):
        journal.append(ev.HintGiven(text=f"h{number}"), 1.0)
    tail = JournalTail(journal.path)
    tail.more()
    data = journal.path.read_bytes().replace(b"h1", b"hX")
    journal.path.write_bytes(data)
    journal.path.with_name("copy").write_bytes(data)
    journal.path.with_name("copy").replace(journal.path)
    with pytest.raises(JournalDamaged, match="its checksum is wrong"):
        tail.more()
    assert len(tail.records) == 4
