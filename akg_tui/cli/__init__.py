"""The command line: the module that declares each command, and the exit codes of errors.

Only the module of the requested command is imported, and that module imports its dependencies
inside its functions, so that the help and the first frame do not wait for other imports.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from akg_tui import __version__
from akg_tui.cli.usage_error import EXIT_BAD_INPUT, EXIT_INTERRUPTED, UsageError

# The modules and the commands that each declares, in the order of the help.
DECLARED = (
    ("tune", "add_tune", ("demo", "tune", "resume")),
    ("settle", "add_settle", ("settle",)),
    ("run_listing", "add_views", ("replay", "attach")),
    ("suites", "add_suite", ("suite", "suite resume", "suite show", "suite compare")),
    ("suites", "add_fleet", ("fleet up", "fleet status", "fleet down")),
    ("evaluate_kernel", "add_eval", ("eval",)),
    ("new_task", "add_new", ("new",)),
    ("run_listing", "add_run_commands", ("runs", "show")),
    ("report_and_usage", "add_report", ("report",)),
    ("run_changes", "add_run_changes", ("fork", "undo", "adopt")),
    ("rules", "add_rules", ("rules",)),
    ("report_and_usage", "add_usage", ("usage",)),
    ("hashline_files", "add_file_commands", ("view", "edit")),
    ("knowledge", "add_knowledge", ("knowledge", "learn")),
    ("doctor", "add_doctor", ("doctor", "salvage")),
    ("doctor", "add_toolchain", ("toolchain add", "toolchain remove", "toolchain list")),
    ("appearance_options", "add_keys", ("keys",)),
    ("serve", "add_serve", ("serve",)),
    ("serve_mcp", "add_mcp", ("mcp",)),
    ("benches", "add_gallery", ("gallery",)),
    ("benches", "add_benches", ("bench",)),
)


def parser(asked: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of the commands and their options.

    With `asked`, the first word of a command line, only the commands of the module that declares it
    are added, and none for an empty word: the others would slow down the start. All commands are
    added if no module declares `asked`.
    """
    top = argparse.ArgumentParser(
        prog="akg-tui",
        description="A terminal workbench in which an agent tunes a compute kernel. Without a "
        "command it lists the runs below this folder, to watch, resume or begin one.",
    )
    top.set_defaults(run=_browse)
    top.add_argument("--version", action="version", version=f"akg-tui {__version__}")
    if asked == "":
        return top
    commands = top.add_subparsers(dest="command", metavar="COMMAND")

    def add(
        name: str, run: Callable[[argparse.Namespace], int], about: str, *, hidden: bool = False
    ) -> Any:
        shown: dict[str, Any] = {} if hidden else {"help": about}
        command = commands.add_parser(name, description=about, **shown)
        command.set_defaults(run=run)
        return command

    only = [each for each in DECLARED if asked in each[2]]
    for module, function, _ in only or DECLARED:
        getattr(import_module(f"akg_tui.cli.{module}"), function)(add)
    return top


def _browse(arguments: argparse.Namespace) -> int:
    from akg_tui.cli.run_listing import browse

    return browse(arguments)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (see the design: 0, 1, 2, 130)."""
    words = _with_command_whole(sys.argv[1:] if argv is None else argv)
    arguments = parser(words[0] if words else "").parse_args(words)
    try:
        code: int = arguments.run(arguments)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of the pipe has closed it (`| head`).
        sys.stderr.close()
        return EXIT_INTERRUPTED
    except Exception as error:
        if (line := _error_line(error)) is None:
            raise
        print(f"akg-tui: {line}", file=sys.stderr)
        return EXIT_BAD_INPUT
    return code


def _with_command_whole(words: Sequence[str]) -> Sequence[str]:
    """Return a command line in which a command of two words is one."""
    two = " ".join(words[:2])
    declared = any(two in names for _, _, names in DECLARED)
    return [two, *words[2:]] if declared and len(words) > 1 else words


def _error_line(error: Exception) -> str | None:
    """Return the line for an error that a user can correct; None for any other.

    An `OSError` is a folder without read permission or a full disk: a traceback would not help.
    Commands with a more precise message catch the error before it gets here.
    """
    from akg_tui.core.sanitize import one_line
    from akg_tui.store.errors import StoreError

    if isinstance(error, OSError):
        why = error.strerror or str(error) or type(error).__name__
        return one_line(f"{error.filename}: {why}" if error.filename else why, 1000)
    return str(error) if isinstance(error, UsageError | StoreError) else None
