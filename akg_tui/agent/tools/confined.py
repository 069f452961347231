"""Runs a command with the powers of a kernel's process: `python -m …confined -- CMD`.

A process between the tool and the script. It takes the network, the capabilities and the
resources away from the command, adopts whatever the command leaves behind, and ends all of
it when the command ends, when it is asked to (SIGTERM), or when its own parent dies.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from akg_tui.evaluate import process_tree, sandbox

MEMORY_BYTES = 4 << 30


def main(arguments: Sequence[str]) -> int:
    """Run the command after `--`; its exit code, or 128 and the number of its signal."""
    if not arguments or arguments[0] != "--" or len(arguments) < 2:
        print("usage: confined -- COMMAND [ARGUMENT]...", file=sys.stderr)
        return 2
    command = list(arguments[1:])
    if not sandbox.die_with_parent(os.getppid()):
        return 128 + signal.SIGKILL
    sandbox.adopt_orphans()
    supervisor = os.getpid()
    # Before the fork: a request to end that came between would kill us and spare the child.
    signal.signal(signal.SIGTERM, _end)
    child = os.fork()
    if child == 0:
        _become(command, supervisor)
    _, status = os.waitpid(child, 0)
    process_tree.end_orphans()
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _end(*_: object) -> None:
    process_tree.end_orphans()
    os._exit(128 + signal.SIGTERM)


def _become(command: list[str], supervisor: int) -> None:
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        sandbox.enter(parent=supervisor, memory_bytes=MEMORY_BYTES)
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
    finally:
        os._exit(127)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
