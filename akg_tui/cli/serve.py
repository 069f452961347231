"""`serve`: the workbench in a browser on this machine, behind a token in its address."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from akg_tui.cli.usage_error import EXIT_INTERRUPTED, EXIT_OK, UsageError

if TYPE_CHECKING:
    from akg_tui.tui.web_server import Target

DEFAULT_PORT = 8420


def add_serve(add: Callable[..., Any]) -> None:
    """Declare `serve`; `add` creates a command."""
    serve = add("serve", _serve, "show the workbench in a browser, on this machine only")
    serve.add_argument(
        "folders", nargs="*", type=Path, metavar="RUN|TASK",
        help="a run to go on with, or a task to tune; without one, the list of runs below this "
        "folder",
    )  # fmt: skip
    serve.add_argument(
        "--port", type=_port, default=DEFAULT_PORT, help=f"default: {DEFAULT_PORT}; 0: a free one"
    )


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"a port from 0 to 65535 is needed, not {text!r}")
    return int(text)


def _targets(folders: list[Path]) -> list[Target]:
    """Return the served targets, each with the command that a browser's visit starts."""
    from akg_tui.store.filesystem import is_file
    from akg_tui.tui.web_server import Target

    workbench = (sys.executable, "-P", "-m", "akg_tui")
    if not folders:
        return [Target(f"runs below {Path.cwd().name}", workbench)]
    targets: list[Target] = []
    for folder in folders:
        if is_file(folder / "events.jsonl"):
            words = ("resume", str(folder.resolve()))
        elif is_file(folder / "task.toml"):
            words = ("tune", str(folder.resolve()))
        else:
            raise UsageError(f"{folder} is no run (events.jsonl) and no task (task.toml)")
        targets.append(Target(str(folder), (*workbench, *words)))
    return targets


def _serve(arguments: argparse.Namespace) -> int:
    import asyncio
    import secrets

    targets = _targets(arguments.folders)

    from akg_tui.tui.web_server import listening, serve

    def tell(address: str) -> None:
        print(f"open {address}")
        print("who has this address can steer the runs; ctrl+c ends serving", flush=True)

    try:
        listener = listening(arguments.port)
    except OSError as error:
        raise UsageError(f"port {arguments.port}: {error.strerror}") from error
    try:
        asyncio.run(serve(targets, listener, secrets.token_urlsafe(24), tell))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return EXIT_OK
