"""A run that is worked on elsewhere: its copy can be opened at any moment, and goes on."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from akg_tui.store.errors import RunFolderError
from akg_tui.suite.run_copy import Parcel, received, take_in


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
