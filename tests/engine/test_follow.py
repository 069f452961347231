"""A run followed as its journal grows: its state and its past are folds of what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from akg_tui.core import events as ev
from akg_tui.core.fold import fold
from akg_tui.engine.follower import Followed
from akg_tui.store.errors import JournalDamaged
from akg_tui.store.journal import read
from akg_tui.store.journal_format import NO_LINE, digest, prepare
from akg_tui.store.journal_reader import Pages
from tests.tui.script import FakeHandle


def script() -> list[bytes]:
    handle = FakeHandle().work()
    lines: list[bytes] = []
    for record in handle.records:
        prev = digest(lines[-1]) if lines else NO_LINE
        lines.append(prepare(record.event, record.seq, record.at, prev).line)
    return lines


async def test_the_state_and_the_past_grow_with_the_journal(tmp_path: Path) -> None:
    lines = script()
    journal = tmp_path / "events.jsonl"
    journal.write_bytes(b"".join(lines[:3]))
    followed = Followed(tmp_path)
    assert followed.state.seq == 3
    for stop in (4, 40, 41, len(lines)):
        torn = lines[stop][:20] if stop < len(lines) else b""
        journal.write_bytes(b"".join(lines[:stop]) + torn)
        while await followed.more():
            pass
        assert followed.state == fold(read(journal))
        assert followed.past is not None
        assert followed.past.at(stop // 2) == fold(read(journal)[: stop // 2])
    assert isinstance(followed.records, Pages)


async def test_an_event_that_was_taken_back_is_no_part_of_the_past(tmp_path: Path) -> None:
    lines = script()
    journal = tmp_path / "events.jsonl"
    journal.write_bytes(b"".join(lines[:30]))
    followed = Followed(tmp_path)
    other = prepare(ev.HintGiven(text="another"), 30, 1e9, digest(lines[28])).line
    journal.write_bytes(b"".join(lines[:29]) + other)
    assert await followed.more()
    assert followed.state == fold(read(journal))
    assert followed.state.hints == ("another",)
    assert followed.past is not None
    assert followed.past.at(29) == fold(read(journal)[:29])


async def test_an_event_that_breaks_the_rules_is_damage_and_the_state_stays(tmp_path: Path) -> None:
    lines = script()
    journal = tmp_path / "events.jsonl"
    journal.write_bytes(b"".join(lines[:30]))
    followed = Followed(tmp_path)
    before = followed.state
    event = ev.ItemActivated(item="p99", round=99)
    journal.write_bytes(b"".join(lines[:30]) + prepare(event, 31, 1e9, digest(lines[29])).line)
    with pytest.raises(JournalDamaged, match=r"event 31.*breaks the rules"):
        await followed.more()
    assert followed.state == before
    with pytest.raises(JournalDamaged, match="breaks the rules"):
        Followed(tmp_path)
