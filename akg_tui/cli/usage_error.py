"""The exit codes and the error for bad input, shared by every command of the command line."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import asyncio

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


def ended_by_sigterm() -> asyncio.Task[Any]:
    """Return the present task, which SIGTERM cancels from now on."""
    import asyncio
    import signal

    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return task


def word_of(name: str, module: str = "akg_tui.core.task") -> Callable[[str], str]:
    """Return an option's type: a word of the `Literal`, or a key of the table, of this name.

    The words are read when the option is given, because importing the module slows the help.
    """

    def word(text: str) -> str:
        from importlib import import_module
        from typing import get_args

        table = getattr(import_module(module), name)
        known: tuple[str, ...] = get_args(table) or tuple(table)
        if text in known:
            return text
        raise ArgumentTypeError(f"{text!r} is not one of {', '.join(known)}")

    return word
