"""`akg-tui usage RUN`: what the model's calls took, by round, item and subagent."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from akg_tui.cli.usage import EXIT_OK, fail

if TYPE_CHECKING:
    from akg_tui.core.usage import Totals, UsageReport


def add_usage(add: Callable[..., Any]) -> None:
    """Declare `usage`; `add` makes one command."""
    usage = add("usage", _usage, "calls, tokens and cost of a run by round, item and subagent")
    usage.add_argument("run_folder", type=Path, metavar="RUN")
    usage.add_argument("--json", action="store_true", help="print one JSON object")


def _usage(arguments: argparse.Namespace) -> int:
    import json

    from akg_tui.core.usage import usage_report
    from akg_tui.store.at_rest import RunAtRest
    from akg_tui.store.errors import StoreError

    try:
        report = usage_report(RunAtRest(arguments.run_folder).records)
    except StoreError as error:
        fail(error)
    if arguments.json:
        print(json.dumps({"type": "usage", **_plain(report)}))
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
        "cache_misses": [
            {"seq": call.seq, "round": call.round, "why": call.cache_miss}
            for call in report.cache_misses
        ],
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
    from akg_tui.core.plain import one_line

    lines = [
        f"{'':<24} {'calls':>6} {'prompt':>11} {'cached':>7} {'output':>9} {'cost':>9} {'time':>8}"
    ]
    lines += [_row(f"round {number}", total) for number, total in sorted(report.by_round.items())]
    lines += [_row(f"item {one_line(name, 18)}", total) for name, total in report.by_item.items()]
    for name, total in report.by_subagent.items():
        agent = one_line(report.agents.get(name, ""), 16)
        lines.append(_row(f"{one_line(name, 6)} {agent}", total))
    lines.append(_row("run", report.total))
    if lost := sum(bool(call.lost) for call in report.calls):
        lines.append(f"{lost} of the calls gave no reply; what they took is counted")
    lines += [
        f"cache missed in round {call.round}: {one_line(call.cache_miss, 120)}"
        for call in report.cache_misses
    ]
    return lines


def _row(name: str, total: Totals) -> str:
    """One line; a dash where nothing is known: the cost of a model without a price."""
    share, cost = total.cache_read_share, total.cost_usd
    cached = "-" if share is None else f"{share:.0%}"
    paid = "-" if cost is None else f"${cost:.4f}"
    return (
        f"{name:<24} {total.calls:>6} {total.prompt_tokens:>11} {cached:>7} "
        f"{total.output_tokens:>9} {paid:>9} {total.duration_s:>6.1f} s"
    )
