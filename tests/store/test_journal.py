"""The journal against torn writes, flipped bytes, full disks and bugs."""

from __future__ import annotations

import os
import resource
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from akg_tui.core import events as ev
from akg_tui.core.measurement import Interval, Measurement, Outcome
from akg_tui.store.errors import JournalDamaged, JournalWriteError, RunFolderError
from akg_tui.store.journal import Journal, read
from akg_tui.store.lock import RunLock
from akg_tui.store.run_list import fold_journal

texts = st.text(max_size=30)
events = st.one_of(
    st.builds(lambda t: ev.HintGiven(text=t), texts),
    st.builds(lambda t: ev.FinishRequested(reason=t), texts),
    st.builds(
        lambda t, v: ev.ToolCalled(call=t, tool="edit_kernel", arguments={t: v, "n": [1, None]}),
        texts,
        texts,
    ),
    st.just(ev.Paused()),
)
journals = st.lists(events, min_size=1, max_size=6)


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@contextmanager
def opened(at: Path) -> Iterator[Journal]:
    with RunLock.acquire(at) as lock:
        journal = Journal.open(at / "events.jsonl", lock=lock)
        try:
            yield journal
        finally:
            journal.close()


def written(at: Path, told: list[ev.AnyEvent]) -> tuple[bytes, list[ev.Record]]:
    with opened(at) as journal:
        for number, event in enumerate(told):
            journal.append(event, 100.0 + number)
        return journal.path.read_bytes(), list(journal.records)


def of_one_line(folder: Path, event: bytes) -> Path:
    """A journal that holds this event alone."""
    body = b'{"seq":1,"at":1.0,"schema":1,"prev":"0000000000000000","event":%b}' % event
    path = folder / "events.jsonl"
    path.write_bytes(b"%08x %b\n" % (zlib.crc32(body), body))
    return path


def line_ends(data: bytes) -> list[int]:
    return [index + 1 for index, byte in enumerate(data) if byte == 0x0A]


def test_what_was_appended_is_read_back(tmp_path: Path) -> None:
    told: list[ev.AnyEvent] = [ev.HintGiven(text="é\n\x1b[31m"), ev.Paused(), ev.Unpaused()]
    _, records = written(tmp_path, told)
    assert [record.event for record in records] == told
    assert [record.seq for record in records] == [1, 2, 3]
    assert read(tmp_path / "events.jsonl") == records
    with opened(tmp_path) as again:
        assert list(again.records) == records


def test_a_line_is_a_checksum_a_blank_and_json(tmp_path: Path) -> None:
    data, _ = written(tmp_path, [ev.Paused()])
    digits, _, payload = data.rstrip(b"\n").partition(b" ")
    assert int(digits, 16) == zlib.crc32(payload)
    start = b'{"seq":1,"at":100.0,"schema":1,"prev":"0000000000000000","event":{"type":"Paused"'
    assert payload.startswith(start)


@settings(max_examples=60, deadline=None)
@given(journals, st.data())
def test_any_truncation_reopens_to_a_prefix_and_goes_on(
    told: list[ev.AnyEvent], data: st.DataObject
) -> None:
    with folder() as at:
        whole, records = written(at, told)
        path = at / "events.jsonl"
        cut = data.draw(st.integers(0, len(whole)))
        path.write_bytes(whole[:cut])
        kept = sum(end <= cut for end in line_ends(whole))
        assert read(path) == records[:kept]
        assert path.read_bytes() == whole[:cut], "a reader changes nothing"
        with opened(at) as journal:
            assert list(journal.records) == records[:kept]
            assert path.read_bytes() == whole[: [0, *line_ends(whole)][kept]]
            added = journal.append(ev.HintGiven(text="after"), 200.0)
        assert added.seq == kept + 1
        assert read(path) == [*records[:kept], added]


@settings(max_examples=60, deadline=None)
@given(journals, st.data())
def test_no_flipped_byte_is_taken_for_the_truth(
    told: list[ev.AnyEvent], data: st.DataObject
) -> None:
    with folder() as at:
        whole, records = written(at, told)
        path = at / "events.jsonl"
        where = data.draw(st.integers(0, len(whole) - 1))
        flipped = bytearray(whole)
        flipped[where] ^= data.draw(st.integers(1, 255))
        path.write_bytes(flipped)
        ends = line_ends(whole)
        index = sum(end <= where for end in ends)
        lost = 2 if where + 1 in ends else 1  # a lost line end spoils two lines
        if index + lost < len(told):
            with pytest.raises(JournalDamaged) as damage, opened(at):
                pass
            assert damage.value.line == index + 1
            assert path.read_bytes() == flipped, "a damaged journal is left as it is"
        else:
            with opened(at) as journal:
                assert list(journal.records) == records[:index]
            assert path.read_bytes() == whole[: [0, *ends][index]], "the tail is cut"


@settings(max_examples=40, deadline=None)
@given(st.lists(events, min_size=3, max_size=6), st.data())
def test_a_missing_or_moved_line_is_damage(told: list[ev.AnyEvent], data: st.DataObject) -> None:
    with folder() as at:
        whole, _ = written(at, told)
        lines = whole.splitlines(keepends=True)
        gone = data.draw(st.integers(0, len(lines) - 2))
        path = at / "events.jsonl"
        path.write_bytes(b"".join(lines[:gone] + lines[gone + 1 :]))
        with pytest.raises(JournalDamaged) as damage, opened(at):
            pass
        assert damage.value.line == gone + 1
        assert "number" in damage.value.what


def test_a_line_of_another_journal_breaks_the_chain(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    ours, _ = written(tmp_path / "a", [ev.HintGiven(text="a"), ev.Paused()])
    theirs, _ = written(tmp_path / "b", [ev.HintGiven(text="b"), ev.Paused()])
    path = tmp_path / "a" / "events.jsonl"
    path.write_bytes(ours[: line_ends(ours)[0]] + theirs[line_ends(theirs)[0] :])
    with pytest.raises(JournalDamaged, match="hash chain"):
        read(path)


def test_an_event_that_lacks_a_field_is_damage_and_never_cut(tmp_path: Path) -> None:
    path = of_one_line(tmp_path, b'{"type":"HintGiven"}')
    before = path.read_bytes()
    with pytest.raises(JournalDamaged, match="text"), opened(tmp_path):
        pass
    assert path.read_bytes() == before


def test_an_older_line_without_a_newer_field_still_reads(tmp_path: Path) -> None:
    older = b'{"type":"PhaseEntered","phase":"PLAN","previous":"INIT"}'
    (record,) = read(of_one_line(tmp_path, older))
    assert isinstance(record.event, ev.PhaseEntered)
    assert record.event.reason == ""


def test_every_part_of_an_event_refuses_a_field_of_a_newer_version() -> None:
    _, parts = msgspec.json.schema_components([ev.AnyEvent])
    structs = {name: part for name, part in parts.items() if "properties" in part}
    assert "Measurement" in structs
    assert not [name for name, part in structs.items() if part.get("additionalProperties", True)]


def test_memory_holds_what_the_disk_holds(tmp_path: Path) -> None:
    odd = Measurement(outcome=Outcome.CORRECT, max_error=float("nan"))
    with opened(tmp_path) as journal:
        finished = ev.EvalFinished(attempt=1, purpose=ev.Purpose.CANDIDATE, measurement=odd)
        record = journal.append(finished, 1.0)
    assert [record] == read(tmp_path / "events.jsonl")
    assert isinstance(record.event, ev.EvalFinished)
    assert record.event.measurement.max_error is None


def test_an_event_that_could_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    nan = Interval(float("nan"), 1.0, 1.0, 0.99)
    bad = Measurement(outcome=Outcome.CORRECT, ratio=nan)
    with opened(tmp_path) as journal:
        with pytest.raises(JournalWriteError, match="EvalFinished"):
            journal.append(
                ev.EvalFinished(attempt=1, purpose=ev.Purpose.FINAL, measurement=bad), 1.0
            )
        with pytest.raises(JournalWriteError):
            journal.append(ev.HintGiven(text="\ud800"), 1.0)
        journal.append(ev.Paused(), 1.0)
        assert read(journal.path) == list(journal.records)


def test_a_full_disk_loses_nothing_and_the_journal_goes_on(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        journal.append(ev.Paused(), 1.0)
        before = journal.path.read_bytes()
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        # Room for a part of the line: the write is short, as on a disk that fills up.
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, hard))
        try:
            with pytest.raises(JournalWriteError, match="event 2 was not written"):
                journal.append(ev.HintGiven(text="x" * 100), 2.0)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert journal.path.read_bytes() == before
        journal.append(ev.Unpaused(), 3.0)
        assert read(journal.path) == list(journal.records)
        assert [record.seq for record in journal.records] == [1, 2]


def test_after_a_failed_fsync_the_journal_is_closed_and_reopens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with opened(tmp_path) as journal:
        journal.append(ev.Paused(), 1.0)
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", failing)
            with pytest.raises(JournalWriteError, match="Input/output error"):
                journal.append(ev.Unpaused(), 2.0)
        with pytest.raises(JournalWriteError, match="resume the run"):
            journal.append(ev.Unpaused(), 3.0)
    with opened(tmp_path) as again:
        assert [record.event for record in again.records] == [ev.Paused()]


def test_only_a_lock_holder_may_open_and_a_folder_must_be_there(tmp_path: Path) -> None:
    lock = RunLock.acquire(tmp_path)
    lock.release()
    with pytest.raises(ValueError, match="holder"):
        Journal.open(tmp_path / "events.jsonl", lock=lock)
    with pytest.raises(RunFolderError):
        read(tmp_path / "events.jsonl")


def test_damage_is_told_in_one_printable_line(tmp_path: Path) -> None:
    path = of_one_line(tmp_path, b'{"type":"\\u001b[2J\\n"}')
    with pytest.raises(JournalDamaged) as damage:
        read(path)
    told = str(damage.value)
    assert told.isprintable()
    assert f"{path}:1" in told


FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("*.jsonl"))


@pytest.mark.parametrize("kept", FIXTURES, ids=lambda path: path.stem)
def test_a_journal_of_an_earlier_version_reads_folds_and_can_be_added_to(
    kept: Path, tmp_path: Path
) -> None:
    """A change that breaks this breaks runs that people have: give it a reader instead."""
    records = read(kept)
    assert len(records) == kept.read_bytes().count(b"\n")
    state = fold_journal(kept, records)
    assert state.finished
    assert state.ok
    assert state.best is not None
    (tmp_path / "events.jsonl").write_bytes(kept.read_bytes())
    with opened(tmp_path) as journal:
        assert list(journal.records) == records
        journal.append(ev.HintGiven(text="today"), state.last_at)
    assert (tmp_path / "events.jsonl").read_bytes().startswith(kept.read_bytes())
    assert read(tmp_path / "events.jsonl")[:-1] == records


def test_the_last_line_is_made_durable_again_when_a_journal_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed fsync only a page that is written again is written out."""
    data, _ = written(tmp_path, [ev.Paused(), ev.HintGiven(text="last")])
    seen: list[tuple[str, object]] = []
    real_write, real_sync = os.pwrite, os.fsync

    def write(descriptor: int, line: bytes, at: int) -> int:
        seen.append(("write", (line, at)))
        return real_write(descriptor, line, at)

    def sync(descriptor: int) -> None:
        seen.append(("sync", None))
        real_sync(descriptor)

    monkeypatch.setattr(os, "pwrite", write)
    monkeypatch.setattr(os, "fsync", sync)
    with opened(tmp_path):
        start = line_ends(data)[0]
        assert seen == [("write", (data[start:], start)), ("sync", None)]
    assert (tmp_path / "events.jsonl").read_bytes() == data
