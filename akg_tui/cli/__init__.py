"""The command line. Imports what a command needs inside it, so that --help stays instant."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from akg_tui import __version__
from akg_tui.cli.benches import add_judge_benches
from akg_tui.cli.evaluating import add_evaluating
from akg_tui.cli.files import add_file_benches, add_file_commands
from akg_tui.cli.gallery import add_gallery
from akg_tui.cli.health import add_health
from akg_tui.cli.knowledge import add_knowledge
from akg_tui.cli.levers import add_levers
from akg_tui.cli.looks import add_keys
from akg_tui.cli.reporting import add_reporting
from akg_tui.cli.rules import add_rules
from akg_tui.cli.running import add_running
from akg_tui.cli.runs import add_run_commands
from akg_tui.cli.serving import add_serving
from akg_tui.cli.usage import EXIT_BAD_INPUT, EXIT_INTERRUPTED, UsageError
from akg_tui.cli.usage_report import add_usage
from akg_tui.cli.watching import add_watching, browse


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = argparse.ArgumentParser(
        prog="akg-tui",
        description="A terminal workbench in which an agent tunes a compute kernel. Without a "
        "command it lists the runs below this folder, to watch, resume or begin one.",
    )
    top.set_defaults(run=browse)
    top.add_argument("--version", action="version", version=f"akg-tui {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")

    def add(
        name: str, run: Callable[[argparse.Namespace], int], about: str, *, hidden: bool = False
    ) -> Any:
        shown: dict[str, Any] = {} if hidden else {"help": about}
        command = commands.add_parser(name, description=about, **shown)
        command.set_defaults(run=run)
        return command

    add_running(add)
    add_watching(add)
    add_evaluating(add)
    add_run_commands(add)
    add_reporting(add)
    add_levers(add)
    add_rules(add)
    add_usage(add)
    add_file_commands(add)
    add_knowledge(add)
    add_health(add)
    add_keys(add)
    add_serving(add)
    add_gallery(add)

    about = "measure a part of the workbench"
    bench = commands.add_parser("bench", help=about, description=about)
    subjects = bench.add_subparsers(dest="subject", metavar="SUBJECT", required=True)

    def add_bench(name: str, run: Callable[[argparse.Namespace], int], about: str) -> Any:
        subject = subjects.add_parser(name, help=about, description=about)
        subject.set_defaults(run=run)
        return subject

    add_file_benches(add_bench)
    add_judge_benches(add_bench)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (see the design: 0, 1, 2, 130)."""
    arguments = parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except UsageError as error:
        print(f"akg-tui: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader went away (`| head`); there is nobody left to tell.
        sys.stderr.close()
        return EXIT_INTERRUPTED
    return code
