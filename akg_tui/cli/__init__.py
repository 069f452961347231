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

VERBS = (
    *("list", "show", "events", "pause", "resume", "step", "stop", "hint", "answer", "approve"),
    *("reject", "revoke", "limit", "undo", "detach"),
)
LEARN_VERBS = ("list", "show", "edit", "delete")
# The modules and the commands that each declares, in the order of the help.
DECLARED = (
    ("tune", "add_tune", ("demo", "tune", "resume")),
    ("run_listing", "add_views", ("replay", "attach")),
    ("run_control", "add_control", tuple(f"ctl {verb}" for verb in VERBS)),
    ("suites", "add_suite", ("suite", "suite resume", "suite show", "suite compare")),
    ("suites", "add_fleet", ("fleet up", "fleet status", "fleet down")),
    ("evaluate_kernel", "add_eval", ("eval",)),
    ("new_task", "add_new", ("new",)),
    ("run_listing", "add_run_commands", ("runs", "show")),
    ("report_and_usage", "add_report", ("report",)),
    ("report_and_usage", "add_export", ("export",)),
    ("run_changes", "add_run_changes", ("fork", "undo", "adopt")),
    ("trust_commands", "add_trust_commands", ("trust list", "trust revoke")),
    ("report_and_usage", "add_usage", ("usage",)),
    ("hashline_files", "add_file_commands", ("view", "edit")),
    ("knowledge", "add_knowledge", ("knowledge",)),
    ("knowledge", "add_learn", ("learn", *(f"learn {verb}" for verb in LEARN_VERBS))),
    ("doctor", "add_doctor", ("doctor",)),
    ("doctor", "add_toolchain", ("toolchain add", "toolchain remove", "toolchain list")),
    ("appearance_options", "add_keys", ("keys",)),
    ("serve", "add_serve", ("serve",)),
    ("serve_mcp", "add_mcp", ("mcp",)),
    ("benches", "add_gallery", ("gallery",)),
    ("benches", "add_benches", ("bench",)),
)


_Declared = tuple[str, str, tuple[str, ...]]


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
    top.set_defaults(run=_browse, parser=top)
    top.add_argument("--version", action="version", version=f"akg-tui {__version__}")
    if asked == "":
        return top
    commands = top.add_subparsers(dest="command", metavar="COMMAND")

    only = [each for each in DECLARED if asked in each[2]]
    _declare(only or DECLARED, commands)
    return top


def _declare(declared: Sequence[_Declared], commands: Any, group: str = "") -> None:
    """Add commands to the subparsers `commands`; those of a group without its word."""

    def add(
        name: str, run: Callable[[argparse.Namespace], int], about: str, *, hidden: bool = False
    ) -> Any:
        shown: dict[str, Any] = {} if hidden else {"help": about}
        command = commands.add_parser(name.removeprefix(group), description=about, **shown)
        command.set_defaults(run=run, parser=command)
        return command

    for module, function, _ in declared:
        getattr(import_module(f"akg_tui.cli.{module}"), function)(add)


def _group_parser(word: str) -> argparse.ArgumentParser | None:
    """Return the parser of the commands that begin with `word`, if they are a group: several
    commands of two words, where `word` alone is none.
    """
    group = f"{word} "
    members = [each for each in DECLARED if any(name.startswith(group) for name in each[2])]
    if not members or _is_command(word):
        return None
    made = argparse.ArgumentParser(prog=f"akg-tui {word}")
    made.set_defaults(parser=made)
    _declare(members, made.add_subparsers(dest="command", metavar="COMMAND", required=True), group)
    return made


def _is_command(name: str) -> bool:
    return any(name in names for _, _, names in DECLARED)


def _browse(arguments: argparse.Namespace) -> int:
    from akg_tui.cli.run_listing import browse

    return browse(arguments)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (see the design: 0, 1, 2, 130)."""
    try:
        arguments = _parsed(sys.argv[1:] if argv is None else argv)
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
        return error.code if isinstance(error, UsageError) else EXIT_BAD_INPUT
    return code


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    """Return the options and the function of a command line. Raises `UsageError`.

    Ends with the usage of the command where its options are wrong, as argparse does.
    """
    first = words[0] if words else ""
    two = " ".join(words[:2])
    if (made := _group_parser(first)) is not None:
        words = words[1:]
        if not words:
            made.print_help(sys.stderr)
            raise SystemExit(EXIT_BAD_INPUT)
    elif len(words) > 1 and _is_command(two):
        made, words = parser(two), [two, *words[2:]]
    elif first and not first.startswith("-") and not _is_command(first):
        raise UsageError(_no_command(first))
    else:
        made = parser(first)
    arguments, unknown = made.parse_known_args(words)
    if unknown:
        arguments.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return arguments


def _no_command(word: str) -> str:
    from difflib import get_close_matches

    from akg_tui.core.sanitize import one_line

    near = get_close_matches(word, [name for _, _, names in DECLARED for name in names])
    meant = f"did you mean {' or '.join(near)}? All commands" if near else "all commands"
    return f"{one_line(word, 60)!r} is no command; {meant}: akg-tui --help"


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
