"""`python -m akg_tui.report RUN`: writes the report, for the run itself or its agent.

A separate process, so that the run never waits for a drawing and never loads a plotting library.
Prints the notes of the export guard; an error is one line on stderr, exit code 2.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from akg_tui.report.write import FORMATS, read_report, write_report
from akg_tui.store.errors import StoreError


def main() -> int:
    words = argparse.ArgumentParser(prog="python -m akg_tui.report")
    words.add_argument("run_folder", type=Path, metavar="RUN")
    words.add_argument("--channel", choices=["ui", "cli"], default="ui")
    words.add_argument("--form", choices=FORMATS, action="append", help="this file alone")
    arguments = words.parse_args()
    try:
        report = read_report(arguments.run_folder, channel=arguments.channel)
        write_report(arguments.run_folder, report, tuple(arguments.form or FORMATS))
    except StoreError as error:
        print(error, file=sys.stderr)
        return 2
    for note in report.notes:
        print(note)
    return 0


if __name__ == "__main__":
    sys.exit(main())
