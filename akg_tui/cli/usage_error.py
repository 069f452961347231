"""The exit codes and the error for bad input, shared by every command of the command line."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

EXIT_OK, EXIT_NOT_CORRECT, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 0, 1, 2, 130
EXIT_REFUSED, EXIT_NOBODY = 3, 4
"""Of `ctl`: the run does not allow the command now; no process takes commands for it."""


class UsageError(Exception):
    """Bad input, described in one line; `code` is the exit code."""

    def __init__(self, why: str, code: int = EXIT_BAD_INPUT) -> None:
        super().__init__(why)
        self.code = code


def read_text(path: Path) -> str:
    """Return the text of a file named on the command line. Raises `UsageError`."""
    try:
        return path.read_bytes().decode()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text at byte {error.start}") from error


def fail(error: Exception) -> NoReturn:
    """Turn an error that a user can correct into a `UsageError` of one line."""
    raise UsageError(" ".join(str(error).split())) from error


def print_json(kind: str, **values: Any) -> None:
    """Print one JSON object of this `type` on a separate line."""
    import json

    print(json.dumps({"type": kind, **values}))


def task_word(kind: str) -> Callable[[str], str]:
    """Return an option's type: one of the words that `core.task` has for `kind`.

    The words are read when the option is given, because importing that module slows the help.
    """

    def word(text: str) -> str:
        from typing import get_args

        from akg_tui.core import task

        known: tuple[str, ...] = get_args(getattr(task, kind))
        if text in known:
            return text
        raise ArgumentTypeError(f"{text!r} is not one of {', '.join(known)}")

    return word
