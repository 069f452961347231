"""The command `eval`, which judges one kernel without a run."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from akg_tui.cli.run_options import add_sandbox, options_at_fault
from akg_tui.cli.usage_error import EXIT_BAD_INPUT, EXIT_NOT_CORRECT, EXIT_OK, UsageError, read_text
from akg_tui.core.sanitize import one_line

if TYPE_CHECKING:
    from akg_tui.core.kernel.kernel_files import KernelFiles
    from akg_tui.core.measurement import Measurement, Progress
    from akg_tui.evidence.compile_report import CompileReport
    from akg_tui.evidence.page import Fields
    from akg_tui.store.task_folder import TaskFolder


def add_eval(add: Callable[..., Any]) -> None:
    """Declare `eval`; `add` creates a command."""
    evaluate = add("eval", _eval, "verify and time a kernel once against the reference")
    evaluate.add_argument("task", type=Path, help="a folder with task.toml")
    evaluate.add_argument(
        "--kernel",
        type=Path,
        help="kernel file to use instead of the task's; of several files: a folder, or one of them",
    )
    evaluate.add_argument(
        "--verify", action="store_true", help="verify the kernel without timing it"
    )
    evaluate.add_argument("--json", action="store_true", help="print one JSON object")
    evaluate.add_argument(
        "--profile",
        action="store_true",
        help="tell what binds the kernel: roofline, compiler's remarks, hot loop, Nsight Compute",
    )
    evaluate.add_argument(
        "--compile-report",
        type=_arches,
        metavar="ARCH[,ARCH...]",
        help="compile kernels in Triton or CUDA C++ for these devices, which need not be here, "
        "such as sm_90,gfx942,Ascend910B1, and tell what the compiler says",
    )
    add_sandbox(evaluate)


SAMPLED_S = 4.0
"""At most so long `eval` takes samples: a person waits, and the figure says how sure it is."""

UNTRIED_TOLD = 3
"""The kinds of inputs not tried for one reason that are named."""

_DOING = {
    "start": "starting the judge",
    "reference": "examining the reference",
    "build": "building the kernel",
    "verify": "verifying",
    "time": "timing",
    "confirm": "timing again",
}
_UNIT = {"verify": "input", "time": "pair of processes", "confirm": "pair of processes"}


class _Stages:
    """One line of a terminal, which says what the judge does now and for how long."""

    def __init__(self, out: TextIO | None) -> None:
        self._out = out
        self._began = time.monotonic()

    def tell(self, progress: Progress) -> None:
        """Write the line anew; write nothing without a terminal."""
        if self._out is None:
            return
        doing = _DOING.get(progress.stage, progress.stage)
        case = f" {progress.case}" if progress.case else ""
        steps = ""
        if progress.total:
            unit = _UNIT.get(progress.stage, "step")
            steps = f": {unit} {progress.done} of {progress.total}"
        spent = f"{time.monotonic() - self._began:.0f} s"
        told = one_line(f"{doing}{case}{steps}, {spent}", 78)
        self._out.write(f"\r\x1b[K{told}")
        self._out.flush()

    def clear(self) -> None:
        """Remove the line."""
        if self._out is not None:
            self._out.write("\r\x1b[K")
            self._out.flush()


def _arches(text: str) -> tuple[str, ...]:
    """Return the arches in a list such as `sm_80,gfx942`."""
    from akg_tui.dsl import toolchains
    from akg_tui.dsl.gpu_arches import ARCHES, is_ascend

    arches = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for arch in arches:
        if is_ascend(arch):
            # Without the toolchain no name is known; then the command ends with its own line.
            known = toolchains.ascend_arches()
            if known and arch not in known:
                raise argparse.ArgumentTypeError(f"{arch!r} is not one of {', '.join(known)}")
        elif arch not in ARCHES:
            known = (*ARCHES, "Ascend910B1 (and others of Ascend's)")
            raise argparse.ArgumentTypeError(f"{arch!r} is not one of {', '.join(known)}")
    return arches


def _eval(arguments: argparse.Namespace) -> int:
    import asyncio
    import tempfile

    from akg_tui.core.measurement import Outcome
    from akg_tui.engine.run_service import check_sandbox
    from akg_tui.evaluate.targets.adapters import adapters, target_lacking
    from akg_tui.store.task_folder import load_task

    with options_at_fault(arguments):
        folder = load_task(arguments.task)
        target, language = adapters(folder.task)
        no_device = target_lacking(target, language)
        # The report needs the language alone.
        if no_device and not arguments.compile_report:
            raise UsageError(no_device)
        if why := language.lacking(target.name):
            raise UsageError(why)
        check_sandbox(folder.task, required=arguments.require_sandbox)
        _check_report(arguments, folder.task.target.dsl)
    kernel = _kernel(folder, arguments.kernel)

    profile: Fields | None = None

    async def profiled(measured: Measurement) -> Fields:
        from akg_tui.evidence import asking, page

        found = await asking.evidence(folder.task, folder.reference, kernel)
        return page.fields(found, measured, kernel.main, kernel.places_of_several)

    report = _compiled(folder, kernel, arguments.compile_report)
    file = folder.task.files.kernel
    never_runs = _never_runs(folder, report, arguments.compile_report, file)
    if report is not None and (no_device or never_runs):
        _print_report(report, file, as_json=arguments.json)
    if never_runs:
        print(f"not evaluated: {never_runs}", file=sys.stderr)
        return EXIT_NOT_CORRECT
    if no_device:
        raise UsageError(f"not evaluated: {no_device}")
    with tempfile.TemporaryDirectory(prefix="akg-eval-") as scratch:
        measured = asyncio.run(_measured(folder, kernel, Path(scratch), arguments))
    if arguments.profile and measured.outcome is Outcome.CORRECT:
        profile = asyncio.run(profiled(measured))
    elif arguments.profile:
        print("not profiled: the kernel is not correct", file=sys.stderr)
    _print_measurement(measured, as_json=arguments.json, profile=profile, report=report, file=file)
    codes = {Outcome.CORRECT: EXIT_OK, Outcome.FAILED: EXIT_NOT_CORRECT}
    return codes.get(measured.outcome, EXIT_BAD_INPUT)


async def _measured(
    folder: TaskFolder, kernel: KernelFiles, scratch: Path, arguments: argparse.Namespace
) -> Measurement:
    """Return the measurement of a kernel, not timed if it is only to be verified."""
    from msgspec.structs import replace

    from akg_tui.core.measurement import PRECISE, FailureKind, Outcome
    from akg_tui.evaluate import Judge
    from akg_tui.evaluate.targets.lease import claim
    from akg_tui.evidence.compile_gate import refusal

    stages = _Stages(None if arguments.json or not sys.stderr.isatty() else sys.stderr)
    judge = Judge(
        *(folder.task, folder.reference, scratch),
        on_progress=stages.tell,
        prefetch=False,
        gate=refusal,
        lease=claim(folder.task, f"eval {folder.path.absolute().name}"),
    )
    try:
        await judge.prepare()  # it loads torch while the kernel's text is checked
        if not arguments.verify:
            found = await judge.evaluate(
                kernel, None, precise=PRECISE, within_s=SAMPLED_S, whole=True
            )
        else:
            found = await judge.probe(kernel, timed=False, whole=True)
        if found.failure is FailureKind.UNSUPPORTED:
            return replace(found, outcome=Outcome.ERROR)
        if not arguments.verify or found.outcome is not Outcome.CORRECT:
            return found
        message = found.message or "verified only, no call was timed"
        return replace(found, timed=False, message=message)
    finally:
        stages.clear()
        await judge.close()


def _check_report(arguments: argparse.Namespace, dsl: str) -> None:
    """Refuse a compile report that cannot be made here."""
    from akg_tui.dsl import toolchains
    from akg_tui.dsl.adapters import DSLS
    from akg_tui.dsl.gpu_arches import is_ascend

    arches = arguments.compile_report or ()
    if any(map(is_ascend, arches)) and (why := toolchains.missing("ascend")):
        raise UsageError(why)
    if arches and not DSLS[dsl].report_process:
        told = " and ".join(name for name, each in DSLS.items() if each.report_process)
        raise UsageError(f"--compile-report is for kernels in {told}; this task's DSL is {dsl}")
    if why := next(filter(None, map(DSLS[dsl].unreported, arches)), ""):
        raise UsageError(why)


def _kernel(folder: TaskFolder, path: Path | None) -> KernelFiles:
    """Return the kernel to judge: the task's, with the files at `path` instead of its own."""
    names = folder.task.files.names
    if path is None:
        return folder.kernel
    if len(names) > 1 and path.is_dir():
        return folder.kernel.having({name: read_text(path / name) for name in names})
    name = path.name if path.name in names else names[0]
    return folder.kernel.having({name: read_text(path)})


def _compiled(
    folder: TaskFolder, kernel: KernelFiles, arches: tuple[str, ...] | None
) -> CompileReport | None:
    """Return the compile report for these arches, or None if it was not asked for or is lost."""
    import asyncio

    from akg_tui.evidence import asking

    if not arches:
        return None
    try:
        found = asyncio.run(asking.compile_report(folder.task, folder.reference, kernel, arches))
    except asking.NO_ANSWER as error:
        print(f"no compile report: {one_line(str(error))}", file=sys.stderr)
        return None
    if not found.launches and not found.stopped:
        raise UsageError("--compile-report: forward launches no kernel of the task's DSL")
    return found


def _never_runs(
    folder: TaskFolder, report: CompileReport | None, arches: tuple[str, ...] | None, file: str
) -> str:
    """Return why a kernel for a GPU can run on none of these arches; "" if it can, or may."""
    from akg_tui.evidence.compile_report import cannot_run

    if report is None or folder.task.target.backend != "cuda":
        return ""
    reasons = [cannot_run(report, arch, file) for arch in arches or ()]
    if not reasons or reasons[0] is None or None in reasons:
        return ""
    return f"it runs on none of {', '.join(arches or ())}: {reasons[0].reason}"


def _print_report(report: CompileReport, file: str, *, as_json: bool) -> None:
    """Print a compile report alone."""
    import msgspec

    from akg_tui.evidence.compile_report import as_lines, fields

    if as_json:
        print(msgspec.json.encode({"compile_report": fields(report, file)}).decode())
    else:
        print("\n".join(as_lines(report, file)))


def _print_measurement(
    measured: Measurement,
    *,
    as_json: bool,
    profile: Fields | None = None,
    report: CompileReport | None = None,
    file: str = "",
) -> None:
    import msgspec

    from akg_tui.core.sanitize import clean, one_line
    from akg_tui.core.verdict import percent
    from akg_tui.evidence import compile_report
    from akg_tui.evidence.page import page_lines

    if as_json:
        told = msgspec.to_builtins(measured) | ({} if profile is None else {"profile": profile})
        if report is not None:
            told["compile_report"] = compile_report.fields(report, file)
        print(msgspec.json.encode(told).decode())
        return
    print(
        f"{measured.outcome}: {one_line(measured.message)}"
        if measured.message
        else measured.outcome
    )
    if measured.ratio:
        print(
            f"kernel {measured.candidate_ms:.4f} ms, reference {measured.baseline_ms:.4f} ms: "
            f"speedup {measured.ratio.ratio:.3f} ({percent(measured.ratio)})"
        )
        if not measured.times_agree:
            print("the times are medians of each side alone; the speedup is of calls side by side")
    for case in measured.cases:
        told = f"  case {case.name}: "
        if case.candidate_ms is not None and case.baseline_ms is not None:
            told += f"kernel {case.candidate_ms:.4f} ms, reference {case.baseline_ms:.4f} ms"
        print(told + (f": speedup {case.ratio.ratio:.3f}" if case.ratio else ""))
    if seen := seen_of(measured):
        print(seen)
    if measured.roofline:
        roof = measured.roofline
        gigabytes = roof.bandwidth * roof.share / 1e9, roof.bandwidth / 1e9
        print(
            f"moves {gigabytes[0]:.1f} of {gigabytes[1]:.1f} GB/s ({roof.level}): "
            f"{roof.share:.0%} of the roofline, bytes only"
        )
    said = [("noise", each) for each in measured.noise] + [("note", n) for n in measured.notes]
    for kind, sentence in said:
        print(f"{kind}: {one_line(sentence)}")
    _print_metrics_and_errors(measured)
    for finding in measured.findings:
        print(f"guard: {one_line(str(finding))}")
    for protection in measured.sandbox_missing:
        print(f"not sandboxed: {one_line(protection)}")
    for line in measured.detail.splitlines():
        print("  " + clean(line))
    if profile is not None:
        print("\n".join(page_lines(profile)))
    if report is not None:
        _print_report(report, file, as_json=False)


def seen_of(measured: Measurement) -> str:
    """Return the spread between pairs of processes and the gain that is excluded; "" if unknown."""
    from akg_tui.core.verdict import busy_first, excluded_gain

    if measured.deviation is None:
        return ""
    told = f"pairs of processes differ by {measured.deviation * 100:.1f} %"
    if measured.ratio is not None and measured.ratio.low <= 1:
        told = "; ".join(filter(None, (told, excluded_gain(measured))))
    return busy_first(measured, told)


def _print_metrics_and_errors(measured: Measurement) -> None:
    """Print the task's metrics, the errors nearest to their bounds, each kind of input that was
    wrong, and those not tried, a line for each reason.
    """
    from akg_tui.core.measurement import nearest_errors

    for metric in measured.metrics:
        print(f"{one_line(metric.name)}: {one_line(str(metric))}")
    errors: Any = measured.errors
    good = [each for each in errors if each.share is not None and each.share <= 1]
    if good:
        kinds = len({each.label for each in good})
        print(f"kinds of input that it is right on: {kinds}; nearest to its limit:")
    for near in nearest_errors(good):
        share = f"{near.error:.2g} of {near.tolerance:.2g}" if near.tolerance else "equal"
        print(f"  {near.dtype or 'results'} {share}: {one_line(near.label)}")
    untried: dict[str, list[str]] = {}
    for each in errors:
        if each not in good and each.error:
            off = f"error {each.error:.2g} > {each.tolerance:.2g}"
            print(f"{one_line(each.label)}: {off}")
        elif each not in good:
            untried.setdefault(each.note, []).append(each.label)
    for note, labels in untried.items():
        listed = "; ".join(map(one_line, labels[:UNTRIED_TOLD]))
        if len(labels) > UNTRIED_TOLD:
            listed += f"; {len(labels) - UNTRIED_TOLD} more kinds of input (eval --json)"
        print(f"{listed}: {one_line(note)}")
    if measured.tolerance is not None and measured.tolerance_from:
        print(f"tolerance {measured.tolerance:.2g}: {one_line(measured.tolerance_from)}")
