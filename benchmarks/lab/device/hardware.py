"""`akg-tui bench hardware` on the test device: `python -m benchmarks.lab.device.hardware`."""

from __future__ import annotations

import sys

from akg_tui.cli import main
from benchmarks.hardware import command
from benchmarks.lab.device import target


def run(words: list[str]) -> int:
    """Run the command with more options, without samples: Triton knows no such device."""
    command.MODULES = (target.MODULE,)
    if "--target" not in words:
        words = ["--target", "cuda", *words]
    try:
        with target.installed():
            return main(["bench", "hardware", "--no-samples", *words])
    finally:
        command.MODULES = ()


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
