"""`akg-tui gallery`: its options, and what it prints.

It is hidden from the help: only those who work on the documentation need it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from akg_tui.cli.usage_error import EXIT_OK, UsageError

RECORDED = Path("tests") / "recorded"
PICTURES = Path("docs") / "gallery"


def add_commands(add: Callable[..., Any]) -> None:
    """Declare `gallery`; `add` makes one command."""
    gallery = add("gallery", _gallery, "make the pictures of the documentation", hidden=True)
    gallery.add_argument(
        "recordings", nargs="*", type=Path, metavar="RECORDING",
        help=f"the first is looked at, all are listed; default: those in {RECORDED}",
    )  # fmt: skip
    gallery.add_argument("--out", type=Path, default=PICTURES, help=f"default: {PICTURES}")
    gallery.add_argument(
        "--record", type=Path, metavar="RUN", help="write the one RECORDING, of this run, instead"
    )


def _gallery(arguments: argparse.Namespace) -> int:
    from akg_tui.store.errors import StoreError
    from benchmarks.gallery import recorded_run

    archives: list[Path] = arguments.recordings
    try:
        if arguments.record is not None:
            if len(archives) != 1:
                raise UsageError("--record RUN needs the one RECORDING to write")
            made = recorded_run.record(arguments.record, archives[0])
            print(f"{made.path}: {len(made.records)} events, {len(made.kernels)} kernels")
            return EXIT_OK
        archives = archives or sorted(RECORDED.glob("*.zip"), reverse=True)
        if not archives:
            raise UsageError(f"there is no recording in {RECORDED}; name one")
        read = [recorded_run.read(archive) for archive in archives]
    except StoreError as error:
        raise UsageError(str(error)) from error

    from benchmarks.gallery.pictures import paint

    try:
        for path in paint(read, arguments.out):
            print(path, flush=True)
    except ValueError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"{error.filename or arguments.out}: {error.strerror}") from error
    return EXIT_OK
