"""`bench` and `gallery`: commands whose work and options are in benchmarks/.

That folder is beside the package in a checkout and inside it in a wheel. This module makes it
importable and calls its command modules to declare their options; it measures and draws nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from akg_tui.cli.usage_error import EXIT_BAD_INPUT
from akg_tui.resources import benchmarks

# The modules of benchmarks/ that declare the subjects of `bench`, in the order of its help.
SUBJECTS = ("edit_formats.command", "judge.command", "agents.command", "hardware.command")


def add_benches(add: Callable[..., Any]) -> None:
    """Declare `bench` with its subjects; `add` creates a command."""
    about = "run a benchmark of the judge, the edit formats or the agents"
    bench = add("bench", lambda _: EXIT_BAD_INPUT, about)
    subjects = bench.add_subparsers(dest="subject", metavar="SUBJECT", required=True)

    def add_subject(name: str, run: Callable[[argparse.Namespace], int], about: str) -> Any:
        subject = subjects.add_parser(name, help=about, description=about)
        subject.set_defaults(run=run, parser=subject)
        return subject

    for module in SUBJECTS:
        _benchmark(module).add_commands(add_subject)


def add_gallery(add: Callable[..., Any]) -> None:
    """Declare `gallery`; `add` creates a command."""
    _benchmark("gallery.command").add_commands(add)


def _benchmark(module: str) -> Any:
    """Import a module of benchmarks/ from the folder that belongs to this program.

    Raises `akg_tui.resources.ResourceMissing` where an install has no such folder.
    """
    parent = str(benchmarks().parent)
    if parent not in sys.path:
        sys.path.insert(0, parent)
    return import_module(f"benchmarks.{module}")
