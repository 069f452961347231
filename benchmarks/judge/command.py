"""`akg-tui bench aa`, `bench power` and `bench repeat`: their options, and what they print.

Exits with 1 where the judge keeps too many equal kernels, misses a planted gain, or tells two
figures of one kernel that exclude each other.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from akg_tui.cli.run_options import positive
from akg_tui.cli.usage_error import EXIT_NOT_CORRECT, EXIT_OK, UsageError, fail

if TYPE_CHECKING:
    from benchmarks.judge.records import Summary, Trial

KERNELS = ("compute", "mixed", "memory")
BY_CASE = "cases"
FALSE_KEEPS = 0.01
FOUND = 0.95
MISSED = 0.02
DISAGREE = 0.05


def add_commands(add: Callable[..., Any]) -> None:
    """Declare `bench aa`, `bench power` and `bench repeat`."""
    aa = add("aa", _aa, "rate of false KEEPs: each kernel is compared with itself")
    _common(aa, trials=500)
    power = add("power", _power, "detection rate and time for a planted gain")
    _common(power, trials=100)
    power.add_argument(
        "--gain", type=_gain, default=0.03, metavar="G", help="0.03 for 3 %% (default)"
    )
    power.add_argument(
        "--one-slower",
        action="store_true",
        help="with --kernel cases: the last case is slower by the gain, so nothing may be kept",
    )

    repeat = add("repeat", _repeat, "how often two figures of one kernel exclude each other")
    _common(repeat, trials=100)


def _common(command: argparse.ArgumentParser, *, trials: int) -> None:
    command.add_argument(
        "--trials", type=positive, default=trials, metavar="N", help=f"a kernel (default: {trials})"
    )
    command.add_argument(
        "--kernel",
        choices=(*KERNELS, BY_CASE),
        action="append",
        default=[],
        help="default: all but the one with four cases",
    )
    command.add_argument(
        "--load",
        type=positive,
        nargs="?",
        const=1,
        default=0,
        metavar="N",
        help="beside a steady neighbour (default), or beside N processes that come and go",
    )
    command.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="store trials in FILE and run only the missing ones",
    )
    command.add_argument("--json", action="store_true", help="print one JSON object a line")


def _gain(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.001 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a gain from 0.001 to 1")
    return value


def _aa(arguments: argparse.Namespace) -> int:
    cells = _run("aa", arguments, 0.0)
    held = all(not cell.failed and cell.kept <= FALSE_KEEPS * cell.trials for cell in cells)
    return EXIT_OK if held else EXIT_NOT_CORRECT


def _power(arguments: argparse.Namespace) -> int:
    if arguments.one_slower:
        if arguments.kernel != [BY_CASE]:
            raise UsageError(f"--one-slower needs --kernel {BY_CASE} alone")
        cells = _run("power-one-slower", arguments, arguments.gain)
        return EXIT_OK if not any(cell.kept or cell.failed for cell in cells) else EXIT_NOT_CORRECT
    cells = _run("power", arguments, arguments.gain)
    held = all(not cell.failed and _keeps_promise(cell) for cell in cells)
    return EXIT_OK if held else EXIT_NOT_CORRECT


def _repeat(arguments: argparse.Namespace) -> int:
    cells = _run("repeat", arguments, 0.0)
    held = all(not cell.failed and cell.disagree <= DISAGREE * cell.again for cell in cells)
    return EXIT_OK if held else EXIT_NOT_CORRECT


def _keeps_promise(cell: Summary) -> bool:
    if cell.load > 1:
        if cell.promised_s is not None:
            return cell.kept_in_time >= FOUND * cell.trials
        missed = cell.trials - cell.kept - cell.undecided
        return cell.kept + cell.undecided >= FOUND * cell.trials and missed <= MISSED * cell.trials
    # Where processes differ more than it allows for, or by less than it names, nothing is promised.
    return cell.promised_s is None or cell.alike_in_time >= FOUND * cell.alike


def _run(bench: str, arguments: argparse.Namespace, gain: float) -> list[Summary]:
    import asyncio

    import msgspec

    from akg_tui.cli.evaluate_kernel import seen_of
    from benchmarks.judge.records import BadRecords, summarize
    from benchmarks.judge.trials import CannotPlant, run_cell

    def tell(trial: Trial) -> None:
        if not arguments.json:
            took = trial.measurement.elapsed_s
            verdict = "KEEP" if trial.kept else "?" if trial.measurement.undecided else "-"
            print(f"{trial.kernel:8} {verdict:5} {took:5.1f} s  {trial.reason}")
            if not trial.kept and (seen := seen_of(trial.measurement)):
                print(f"{'':24}({seen})")
            if trial.ratio and trial.again:
                told = "excluded by" if trial.disagrees else "and"
                print(f"{'':24}{trial.ratio} {told} {trial.again}")

    cells: list[Summary] = []
    for kernel in arguments.kernel or KERNELS:
        try:
            done = asyncio.run(
                run_cell(
                    bench=bench,
                    kernel=kernel,
                    load=arguments.load,
                    gain=gain,
                    trials=arguments.trials,
                    path=arguments.resume,
                    tell=tell,
                )
            )
        except BadRecords as error:
            fail(error)
        except OSError as error:
            raise UsageError(f"cannot keep trials in {arguments.resume}: {error}") from error
        except CannotPlant as error:
            raise UsageError(f"no gain could be planted: {error}") from error
        cells += summarize(done)
        summary = cells[-1]
        print(msgspec.json.encode(summary).decode() if arguments.json else _line(summary))
    return cells


def _line(cell: Summary) -> str:
    load = {0: "no neighbour made", 1: "beside a steady neighbour"}.get(
        cell.load, f"beside {cell.load} that come and go"
    )
    return (
        f"{cell.bench} {cell.kernel}, {load}, true gain {cell.gain:.1%}: "
        f"{cell.kept} of {cell.trials} kept, {cell.undecided} inconclusive, "
        f"with 95 % confidence a rate of {cell.rate_low:.1%} or "
        f"more and of {cell.rate_high:.1%} or less; ratios {cell.ratio_lowest:.3f} to "
        f"{cell.ratio_highest:.3f}, median {cell.ratio_median:.3f}; {cell.seconds_median:.1f} s "
        f"a trial (95 %: {cell.seconds_p95:.1f} s, worst {cell.seconds_worst:.1f} s), "
        f"{cell.clusters_median:.0f} clusters; disturbed {cell.disturbed}; a gain of "
        f"{cell.detectable_median:.1%} could be seen; {cell.failed} failed{_promise(cell)}"
        + (f"; measured twice: {cell.again}, disagree: {cell.disagree}" if cell.again else "")
    )


def _promise(cell: Summary) -> str:
    """Say what came of the promise, for a benchmark and a gain that have one."""
    from benchmarks.judge.records import ALIKE

    if cell.bench != "power":
        return ""
    if cell.load > 1:
        within = "" if cell.promised_s is None else f" {cell.promised_s:.0f} s"
        return f"; kept within{within}: {cell.kept_in_time} of {cell.trials}" if within else ""
    found = (
        f"; where processes differ by at most {ALIKE:.1%}: {cell.alike_kept} of {cell.alike} kept"
    )
    if cell.promised_s is None:
        return found
    return f"{found}, {cell.alike_in_time} within {cell.promised_s:.0f} s (promised: {FOUND:.0%})"
