"""`python -m akg_tui.report RUN`: writes the report of a run, for the run itself.

A separate process, so that the run never waits for a drawing and never loads a plotting library.
An error is one line on stderr, exit code 2.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from akg_tui.report.write import read_report, write_report
from akg_tui.store.errors import StoreError


def main() -> int:
    words = argparse.ArgumentParser(prog="python -m akg_tui.report")
    words.add_argument("run_folder", type=Path, metavar="RUN")
    words.add_argument("--channel", choices=["ui", "cli"], default="ui")
    arguments = words.parse_args()
    try:
        report = read_report(arguments.run_folder, channel=arguments.channel)
        write_report(arguments.run_folder, report)
    except StoreError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
