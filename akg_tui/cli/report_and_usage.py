"""`akg-tui report RUN`, `usage RUN` and `export RUN`: what a run's journal and history hold, at any
time, and its best kernel in the form in which a set or a library takes it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from akg_tui.cli.usage_error import EXIT_OK, UsageError, print_json

if TYPE_CHECKING:
    from akg_tui.core.usage import Totals, UsageReport

FORMS = ("kernelbench", "gpu-mode", "hf-kernels", "module")


def add_report(add: Callable[..., Any]) -> None:
    """Declare `report`; `add` creates a command."""
    report = add("report", _report, "write a run's report: what worked and why, with its figures")
    report.add_argument("run_folder", type=Path, metavar="RUN")
    report.add_argument(
        "--format",
        choices=["html", "md", "json", "all"],
        help="default: all; with --out, the suffix of FILE",
    )
    report.add_argument(
        "--out", metavar="FILE", help="write there instead of into RUN; - is standard output"
    )
    report.add_argument(
        "--json", action="store_true", help="print the paths of the written files as JSON"
    )


def _report(arguments: argparse.Namespace) -> int:
    from akg_tui.report.write import FORMATS, read_report, render, write_file, write_report

    form = _form(arguments)
    report = read_report(arguments.run_folder, channel="cli", by_command=True)
    if arguments.out is None:
        forms = FORMATS if form == "all" else (form,)
        paths = write_report(arguments.run_folder, report, forms)
    else:
        text = render(report, form)
        if arguments.out == "-":
            sys.stdout.write(text)
            return EXIT_OK
        paths = [Path(arguments.out)]
        write_file(paths[0], text)
    if arguments.json:
        print_json("report_written", files=[str(path) for path in paths], status=report.status)
    else:
        print("\n".join(map(str, paths)))
    return EXIT_OK


def _form(arguments: argparse.Namespace) -> Any:
    """Return the requested file format. Raises `UsageError` when the options leave it open."""
    if arguments.out is None:
        return arguments.format or "all"
    if arguments.out == "-" and arguments.json:
        raise UsageError("--json tells what was written; with --out - that is the report itself")
    form = arguments.format or Path(arguments.out).suffix.removeprefix(".")
    if form not in ("html", "md", "json"):
        raise UsageError(f"--out {arguments.out}: say which with --format html, md or json")
    return form


def add_usage(add: Callable[..., Any]) -> None:
    """Declare `usage`; `add` creates a command."""
    usage = add("usage", _usage, "calls, tokens and cost of a run by round, item and subagent")
    usage.add_argument("run_folder", type=Path, metavar="RUN")
    usage.add_argument("--json", action="store_true", help="print one JSON object")


def _usage(arguments: argparse.Namespace) -> int:
    from akg_tui.core.usage import usage_report
    from akg_tui.store.run_at_rest import RunAtRest

    report = usage_report(RunAtRest(arguments.run_folder).records)
    if arguments.json:
        print_json("usage", **_plain(report))
    else:
        print("\n".join(_table(report)))
    return EXIT_OK


def _plain(report: UsageReport) -> dict[str, Any]:
    return {
        "total": _plain_totals(report.total),
        "by_round": {str(n): _plain_totals(total) for n, total in report.by_round.items()},
        "by_item": {name: _plain_totals(total) for name, total in report.by_item.items()},
        "by_subagent": {
            name: {"agent": report.agents.get(name, ""), **_plain_totals(total)}
            for name, total in report.by_subagent.items()
        },
        "lost_calls": sum(bool(call.lost) for call in report.calls),
    }


def _plain_totals(total: Totals) -> dict[str, Any]:
    return {
        "calls": total.calls,
        "prompt_tokens": total.prompt_tokens,
        "output_tokens": total.output_tokens,
        "cache_read_share": total.cache_read_share,
        "cost_usd": total.cost_usd,
        "duration_s": round(total.duration_s, 3),
    }


def _table(report: UsageReport) -> list[str]:
    from akg_tui.core.sanitize import one_line

    rows = [(f"round {number}", total) for number, total in sorted(report.by_round.items())]
    rows += [(f"item {one_line(name)}", total) for name, total in report.by_item.items()]
    rows += [
        (one_line(f"{name} {report.agents.get(name, '')}"), total)
        for name, total in report.by_subagent.items()
    ]
    rows.append(("run", report.total))
    wide = max(24, *(len(name) for name, _ in rows))
    lines = [
        f"{'':<{wide}} {'calls':>6} {'prompt':>11} {'cached':>7} {'output':>9} {'cost':>9} "
        f"{'time':>8}"
    ]
    lines += [_row(f"{name:<{wide}}", total) for name, total in rows]
    if lost := sum(bool(call.lost) for call in report.calls):
        lines.append(f"{lost} of the calls gave no reply; what they took is counted")
    return lines


def _row(name: str, total: Totals) -> str:
    """Return one line; a dash for an unknown value, such as the cost of a model without a price."""
    share, cost = total.cache_read_share, total.cost_usd
    cached = "-" if share is None else f"{share:.0%}"
    paid = "-" if cost is None else f"${cost:.4f}"
    return (
        f"{name} {total.calls:>6} {total.prompt_tokens:>11} {cached:>7} "
        f"{total.output_tokens:>9} {paid:>9} {total.duration_s:>6.1f} s"
    )


def add_export(add: Callable[..., Any]) -> None:
    """Declare `export`; `add` creates a command."""
    export = add("export", _export, "write the best kernel for a public set or a library to take")
    export.add_argument("run_folder", type=Path, metavar="RUN")
    export.add_argument("--to", required=True, choices=FORMS, dest="form")
    export.add_argument(
        "--out", type=Path, metavar="DIR", help="a new or empty folder; default: OP-FORM"
    )
    export.add_argument("--json", action="store_true", help="print one JSON object")


def _export(arguments: argparse.Namespace) -> int:
    from akg_tui.core.sanitize import one_line
    from akg_tui.report.exported_kernel import exported
    from akg_tui.store.task_folder import write_files

    made = exported(arguments.run_folder, arguments.form)
    files, test = made.form.files, made.form.test
    folder = arguments.out or Path(f"{made.op}-{arguments.form}")
    write_files(folder, files)
    if arguments.json:
        print_json("export", folder=str(folder), files=sorted(files), test=test)
    else:
        print(f"{made.told}: {one_line(str(folder))}")
        told = one_line(quote(str(folder / test)))
        print(f"it needs no akg-tui; its test: python {told}")
    return EXIT_OK
