"""`trust list` and `trust revoke`: what the user allows folders to do outside the sandbox."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from akg_tui.cli.usage_error import EXIT_OK, UsageError, print_json


def add_trust_commands(add: Callable[..., Any]) -> None:
    """Declare `trust list` and `trust revoke`; `add` creates a command."""
    listed = add("trust list", _trusted, "list the folders that you trust, and with what")
    listed.add_argument("--json", action="store_true", help="one JSON object per folder")
    revoke = add("trust revoke", _revoke, "trust a folder no more, nor what is below it")
    revoke.add_argument("folder", type=Path, metavar="FOLDER")


def _trusted(arguments: argparse.Namespace) -> int:
    from msgspec import to_builtins

    from akg_tui.core.sanitize import clean
    from akg_tui.engine.trust import read_trust

    for folder, told in sorted(read_trust().items()):
        if arguments.json:
            print_json("trusted", folder=folder, **to_builtins(told))
            continue
        print(clean(folder))
        if told.made:
            print("  made by akg-tui new: what its own files say")
        for act in told.acts:
            print(f"  {act}")
    return EXIT_OK


def _revoke(arguments: argparse.Namespace) -> int:
    from akg_tui.engine.trust import revoke

    if not revoke(arguments.folder):
        raise UsageError(f"{arguments.folder}: is not trusted; akg-tui trust list names what is")
    return EXIT_OK
