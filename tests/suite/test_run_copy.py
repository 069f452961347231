"""A run that is worked on elsewhere: its copy can be opened at any moment, and goes on."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from akg_tui.core import events as ev
from akg_tui.store.errors import RunFolderError
from akg_tui.store.run_at_rest import RunAtRest
from akg_tui.store.run_folder import RunFolder
from akg_tui.suite.run_copy import Parcel, Sender, received, take_in
from tests.engine.runs import create, engine


class Stopped(Exception):
    """The node was lost."""


async def test_a_lost_run_goes_on_from_its_copy_and_ends_as_if_nothing_had_been(
    tmp_path: Path,
) -> None:
    undisturbed = engine(create(tmp_path / "undisturbed"))
    await undisturbed.run()
    await undisturbed.close()

    there = create(tmp_path / "there")
    here = tmp_path / "here" / there.path.name
    take_in(here, Sender(there.path, whole=True).parcel())
    sender = Sender(there.path, whole=False)
    assert sender.parcel().empty
    append = there.append
    events = 0

    def counted(event: ev.AnyEvent) -> ev.Record:
        nonlocal events
        events += 1
        if events == 25:
            raise Stopped
        done = append(event)
        if events % 5 == 0:
            take_in(here, sender.parcel())
            RunFolder.open(here).close()
        return done

    there.append = counted  # type: ignore[method-assign]
    lost = engine(there)
    with pytest.raises(Stopped):
        await lost.run()
    await lost.close()

    again = engine(RunFolder.open(here, clock=there._clock))
    await again.run()
    await again.close()

    def decided(run: str) -> list[object]:
        events = (record.event for record in RunAtRest(Path(run)).records)
        return [(e.round, e.verdict, e.blob) for e in events if isinstance(e, ev.Decided)]

    assert decided(again.path) == decided(undisturbed.path)
    assert len(decided(again.path)) == 5


def test_what_does_not_follow_or_leads_out_of_the_run_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    with pytest.raises(RunFolderError, match="has 0 bytes, and what came continues 7"):
        take_in(run, Parcel(folders=(), files={}, offset=7, journal=b"x\n"))
    for name in ("../outside", "/etc/outside", "a/../../outside"):
        plain = {"folders": [], "files": {}, "offset": 0, "journal": b""}
        for field in ({"files": {name: b"x"}}, {"folders": [name]}):
            with pytest.raises(RunFolderError, match=f"'{name}' leaves the folder"):
                received(msgspec.msgpack.encode({**plain, **field}))
    assert list(tmp_path.iterdir()) == [run]


def test_what_comes_is_not_written_through_a_link(tmp_path: Path) -> None:
    run, outside = tmp_path / "run", tmp_path / "outside"
    for folder in (run, outside):
        folder.mkdir()
    (run / "trace").symlink_to(outside)
    (run / "events.jsonl").symlink_to(outside / "journal")
    parcels = (
        Parcel(folders=("trace/a",), files={}, offset=0, journal=b""),
        Parcel(folders=(), files={"trace/a.json": b"x"}, offset=0, journal=b""),
        Parcel(folders=(), files={}, offset=0, journal=b"line\n"),
    )
    for parcel in parcels:
        with pytest.raises(RunFolderError, match="links are not followed"):
            take_in(run, parcel)
    assert list(outside.iterdir()) == []
