"""`akg-tui report`: a run's report, at any time and from its journal alone."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from akg_tui.cli.usage import EXIT_OK, UsageError, fail


def add_reporting(add: Callable[..., Any]) -> None:
    """Declare `report`; `add` makes one command."""
    report = add("report", _report, "write a run's report: what worked and why, with its figures")
    report.add_argument("run_folder", type=Path, metavar="RUN")
    report.add_argument(
        "--format", choices=["html", "md", "json", "all"], help="default: all, or what FILE ends in"
    )
    report.add_argument(
        "--out", metavar="FILE", help="write there instead of into RUN; - is standard output"
    )
    report.add_argument("--json", action="store_true", help="tell what was written as JSON")


def _report(arguments: argparse.Namespace) -> int:
    from akg_tui.report.write import FORMATS, read_report, render, write_file, write_report
    from akg_tui.store.errors import StoreError

    form = _form(arguments)
    try:
        report = read_report(arguments.run_folder, channel="cli", by_command=True)
        if arguments.out is None:
            forms = FORMATS if form == "all" else (form,)
            paths = write_report(arguments.run_folder, report, forms)
        else:
            text = render(report, form)
            if arguments.out == "-":
                sys.stdout.write(text)
                return EXIT_OK
            paths = [Path(arguments.out)]
            write_file(paths[0], text)
    except StoreError as error:
        fail(error)
    _tell(paths, report.status, as_json=arguments.json)
    return EXIT_OK


def _form(arguments: argparse.Namespace) -> Any:
    """Which file is wanted. Raises `UsageError` when that cannot be told."""
    if arguments.out is None:
        return arguments.format or "all"
    if arguments.out == "-" and arguments.json:
        raise UsageError("--json tells what was written; with --out - that is the report itself")
    form = arguments.format or Path(arguments.out).suffix.removeprefix(".")
    if form not in ("html", "md", "json"):
        raise UsageError(f"--out {arguments.out}: say which with --format html, md or json")
    return form


def _tell(paths: list[Path], status: str, *, as_json: bool) -> None:
    import json

    if as_json:
        written = {"files": [str(path) for path in paths], "status": status}
        print(json.dumps({"type": "report_written", **written}))
        return
    for path in paths:
        print(path)
