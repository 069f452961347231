"""The program `akg-tui`, also as `python -m akg_tui`: an interrupt ends it quietly at any time."""

import os
import signal
import sys

EXIT_INTERRUPTED = 130


def run() -> int:
    """Run one command and return its exit code."""
    heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeded:  # while modules are loaded there is nothing to clean up
        signal.signal(signal.SIGINT, lambda *_: os._exit(EXIT_INTERRUPTED))
    from akg_tui.cli import main

    try:
        if heeded:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return main()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(run())
