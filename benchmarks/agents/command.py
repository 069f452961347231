"""`akg-tui bench agents`: its options, and what it prints.

The runs are those of a suite of two agents, and the figures those of `akg-tui suite compare`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from akg_tui.cli.run_options import positive
from akg_tui.cli.suites import add_suite_options, begin_suite, suite_settings, work_on
from akg_tui.cli.usage_error import (
    EXIT_INTERRUPTED,
    EXIT_NOT_CORRECT,
    EXIT_OK,
    print_json,
)

COMPARISON = "comparison"


def add_commands(add: Callable[..., Any]) -> None:
    """Declare `bench agents`."""
    bench = add("agents", _bench, "compare two agents by verified gain, tokens, dollars and hours")
    for name in ("a", "b"):
        bench.add_argument(
            f"--{name}",
            required=True,
            metavar="AGENT",
            help="a name as of tune --agent, or a .toml file with a table [agent]",
        )
    bench.add_argument(
        "--seeds", type=positive, default=1, metavar="N", help="runs of each task (default: 1)"
    )
    add_suite_options(bench)


def _bench(arguments: argparse.Namespace) -> int:
    from akg_tui.report.write import write_file
    from akg_tui.suite.agent_configuration import configurations
    from akg_tui.suite.paired import compare
    from akg_tui.suite.suite_pages import FORMS, as_text, page_of, render

    stated = configurations(arguments.a, arguments.b)
    settings = replace(
        suite_settings(arguments, tuple(stated)),
        configurations=stated,
        seeds=arguments.seeds,
        memory=False,  # what one agent found must not help the other
    )
    ended = work_on(begin_suite(arguments, settings), arguments)
    if ended is None:
        return EXIT_INTERRUPTED
    results, _ = ended
    a, b = (
        (f"{results.name}:{agent}", [task for task in results.tasks if task.agent == agent])
        for agent in stated
    )
    found = compare(a, b)
    files = []
    for form in FORMS:
        files.append(arguments.out / f"{COMPARISON}.{form}")
        write_file(files[-1], render(found, form))
    if arguments.json:
        from msgspec import to_builtins

        print_json("suite_comparison", **to_builtins(found), files=[*map(str, files)])
    else:
        print()
        print(as_text(page_of(found)), end="")
        print(f"results: {', '.join(map(str, files))}")
    return EXIT_NOT_CORRECT if found.left_out else EXIT_OK
