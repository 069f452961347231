"""Renders a report's files and writes them into the run folder, each whole or not at all.

Applies the export guard to a run: decides whether a report is the result or a draft.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal

import msgspec

from akg_tui.core.events import HintGiven
from akg_tui.core.stopping.export_guard import Channel
from akg_tui.report.contents import Report, Result
from akg_tui.report.gather import gather, is_asked_for
from akg_tui.store.errors import RunFolderError, writing
from akg_tui.store.filesystem import open_below, replace_file
from akg_tui.store.run_at_rest import RunAtRest

Format = Literal["html", "md", "json"]
FORMATS: tuple[Format, ...] = ("html", "md", "json")


class _Written(msgspec.Struct):
    """The part of an earlier `report.json` that is still needed."""

    result: Result | None = None


def read_report(run: Path, *, channel: Channel, by_command: bool = False) -> Report:
    """Return the report of the run in this folder.

    `channel` is where the run is followed; `by_command` means that a person typed `report`.

    Raises `StoreError` if the folder is not a run, or the run cannot be trusted.
    """
    found = RunAtRest(run)
    hints = [r.event.text for r in found.records if isinstance(r.event, HintGiven)]
    asked = is_asked_for(channel, hints, by_command=by_command)
    return gather(found, may_export=asked, earlier=None if asked else _earlier_result(run))


def render(report: Report, form: Format) -> str:
    """Return the text of one of the report's files."""
    if form == "html":
        from akg_tui.report.html import render_page

        return render_page(report)
    if form == "md":
        from akg_tui.report.markdown import render_markdown

        return render_markdown(report)
    plain: dict[str, Any] = msgspec.to_builtins(report)
    # ASCII only: no raw character of a kernel reaches a terminal that shows the file.
    return json.dumps({"type": "report", **plain}, indent=1) + "\n"


def path_in(run: Path, form: Format) -> Path:
    """Return the path of this file in the run."""
    return run / f"report.{form}"


def write_report(run: Path, report: Report, forms: tuple[Format, ...] = FORMATS) -> list[Path]:
    """Write the files into the run folder; return their paths. Raises `StoreError` on failure."""
    paths: list[Path] = []
    for form in forms:
        path = path_in(run, form)
        with writing(path):
            # A run writes its report as it ends, and a person can request one at that moment.
            replace_file(path, render(report, form).encode(), alone=False)
        paths.append(path)
    return paths


def write_file(path: Path, text: str) -> None:
    """Write one file, whole or not at all. Raises `StoreError`."""
    try:
        # Devices and pipes are written to, never replaced; so is `/dev/stdout`, which is a link to
        # a regular file if the output is redirected to one.
        if path.exists() and (not path.is_file() or path.absolute().is_relative_to("/dev")):
            path.write_bytes(text.encode())
        else:
            replace_file(path, text.encode(), alone=False)
    except OSError as error:
        raise RunFolderError(f"cannot write {path}: {error.strerror}") from error


def _earlier_result(run: Path) -> Result | None:
    """Return the result of the previous report; None if that report cannot be read."""
    try:
        with os.fdopen(open_below(run, path_in(run, "json").name, os.O_RDONLY), "rb") as file:
            return msgspec.json.decode(file.read(), type=_Written).result
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
