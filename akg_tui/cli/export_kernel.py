"""`akg-tui export RUN`: the best kernel in the form in which a set or a library takes it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

from akg_tui.cli.usage_error import EXIT_OK, print_json

FORMS = ("kernelbench", "gpu-mode", "hf-kernels", "module")


def add_export(add: Callable[..., Any]) -> None:
    """Declare `export`; `add` creates a command."""
    export = add("export", _export, "write the best kernel for a public set or a library to take")
    export.add_argument("run_folder", type=Path, metavar="RUN")
    export.add_argument("--to", required=True, choices=FORMS, dest="form")
    export.add_argument(
        "--out", type=Path, metavar="DIR", help="a new or empty folder; default: OP-FORM"
    )
    export.add_argument("--json", action="store_true", help="print one JSON object")


def _export(arguments: argparse.Namespace) -> int:
    from akg_tui.core.sanitize import one_line
    from akg_tui.report.exported_kernel import exported
    from akg_tui.store.task_folder import write_files

    made = exported(arguments.run_folder, arguments.form)
    files, test = made.form.files, made.form.test
    folder = arguments.out or Path(f"{made.op}-{arguments.form}")
    write_files(folder, files)
    if arguments.json:
        print_json("export", folder=str(folder), files=sorted(files), test=test)
    else:
        print(f"{made.told}: {one_line(str(folder))}")
        told = one_line(quote(str(folder / test)))
        print(f"it needs no akg-tui; its test: python {told}")
    return EXIT_OK
