"""The estimate of a kernel for an Ascend NPU as rows: what binds, and a timeline of the pipes.

Pure. It is an estimate, and is named one. The names of kernels are untrusted, and are cleaned.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from akg_tui.core.sanitize import one_line
from akg_tui.evaluate.evidence.ascend.pipe_model import (
    LaunchEstimate,
    Timeline,
    busiest,
    leaves_cores,
)
from akg_tui.evaluate.evidence.ascend.pipe_picture import LEAST_COLUMNS, row_name, shade, shares
from akg_tui.evaluate.evidence.compile_report import CompileReport, estimate_of, estimates_us
from akg_tui.view.language import marked, retold, tr
from akg_tui.view.spans import BLANK, Line, cells, fit, hang, line

_WORK = {
    "MTE2": marked("loads from global memory"),
    "MTE1": marked("moves from L1 to L0"),
    "M": marked("products of the cube unit"),
    "FIX": marked("results of the cube unit"),
    "V": marked("vector operations"),
    "MTE3": marked("stores to global memory"),
    "S": marked("scalar work"),
}
_CORES = {"cube": marked("cube"), "vector": marked("vector")}
_ROLE = {"V": "verdict.keep", "M": "verdict.keep", "S": "note"}


class EstimateView(NamedTuple):
    """What was compiled of the kernel under work and of the best one, or why nothing was."""

    arch: str
    new: CompileReport | str
    best: CompileReport | str


def estimate_rows(view: EstimateView, room: int) -> list[Line]:
    """Return the estimate of each launch of the kernel under work, against the best kernel's."""
    if isinstance(view.new, str):
        return hang(tr("no estimate: {why}", why=retold(one_line(view.new))), room, (), "muted")
    rows = hang(tr("An estimate of a model of the pipes: nothing ran on {arch}", arch=view.arch),
                room, (), "note")  # fmt: skip
    rows.append(_total(view))
    if view.new.stopped:
        why = tr("the call stopped: {why}", why=retold(one_line(view.new.stopped, 200)))
        rows += hang(why, room, (), "verdict.fail")
    for launch in view.new.launches:
        for compiled in launch.compiled:
            if compiled.arch != view.arch:
                continue
            name = line((one_line(launch.kernel, 60), "strong"), (f"  :{launch.line}", "faint"))
            rows += [BLANK, name]
            if compiled.failed:
                told = tr("does not compile: {why}", why=one_line(compiled.failed, 300))
                rows += hang(told, room, (), "verdict.fail")
            elif (estimate := estimate_of(launch, compiled)) is not None:
                rows += launch_rows(estimate, launch.launches, room)
    return [fit(row, room) for row in rows]


def _total(view: EstimateView) -> Line:
    """Return the time of all launches, beside that of the best kernel."""
    new, best = (_time_of(each, view.arch) for each in (view.new, view.best))
    told = line((tr("all launches: {time}", time=_us(new)), "figure"))
    if view.best is view.new or best is None:
        return told
    return (*told, (f"  {tr('best kernel: {time}', time=_us(best))}", "muted"))


def _time_of(report: CompileReport | str, arch: str) -> float | None:
    return None if isinstance(report, str) else estimates_us(report).get(arch)


def _us(time: float | None) -> str:
    return "?" if time is None or not math.isfinite(time) else f"{time:.1f} us"


def launch_rows(estimate: LaunchEstimate, launches: int, room: int) -> list[Line]:
    """Return the rows of one launch: its time, what binds it, and its timeline."""
    if estimate.problem:
        return hang(tr("no estimate: {why}", why=estimate.problem), room, (), "verdict.fail")
    times = f" x {launches}" if launches > 1 else ""
    shape = tr(
        "{programs} programs of {time} on {cores} of {all} cores, in {waves} waves",
        programs=estimate.programs,
        time=f"{estimate.program_us:.2f} us",
        cores=estimate.cores,
        all=estimate.of_cores,
        waves=estimate.waves,
    )
    rows = [line((_us(estimate.us) + times, "figure"), (f"  {shape}", "muted"))]
    rows += hang(binding(estimate), room, (), "text")
    if estimate.assumed:
        told = tr("{many} decisions depend on data and are assumed", many=estimate.assumed)
        rows += hang(told, room, (), "faint")
    return rows + timeline_rows(estimate, room)


def binding(estimate: LaunchEstimate) -> str:
    """Return what binds a launch, and what is hidden behind what."""
    name, share = busiest(estimate.busy)
    if estimate.limit == "launch":
        told = tr("the launch takes longer than the work")
    elif estimate.limit == "pipe":
        work = tr(_WORK[name.rpartition(" ")[2]])
        told = tr("{pipe} binds: {work}, {share} of the time", pipe=_pipe(name), work=work,
                  share=_percent(share))  # fmt: skip
    else:
        told = tr("the pipes wait for one another: the busiest, {pipe}, works {share} of the time",
                  pipe=_pipe(name), share=_percent(share))  # fmt: skip
    if estimate.limit != "launch" and leaves_cores(estimate.programs, estimate.of_cores):
        told += "; " + tr("most cores have no program")
    if estimate.overlap is not None:
        hidden = _percent(estimate.overlap)
        told += "; " + tr("loading and computing overlap by {share} of the shorter", share=hidden)
    return told


def _pipe(name: str) -> str:
    """Return a pipe's name with the word for its core."""
    core, _, pipe = name.rpartition(" ")
    return f"{tr(_CORES[core])} {pipe}" if core in _CORES else pipe


def _percent(share: float) -> str:
    return f"{min(share, 1.0) * 100:.0f} %"


def timeline_rows(estimate: LaunchEstimate, room: int) -> list[Line]:
    """Return a row for each pipe, its sign darker where the pipe works more, under a scale."""
    timeline = estimate.timeline
    if timeline is None or not timeline.rows:
        return []
    keys = [row_name(row, timeline) for row in timeline.rows]
    names = [_pipe(key) for key in keys]
    gutter = max(map(cells, names)) + 1
    columns = max(LEAST_COLUMNS, room - gutter - len("100 %") - 2)
    rows = [_scale(timeline, gutter, columns)]
    for key, name, row in zip(keys, names, timeline.rows, strict=True):
        drawn = shares(row, timeline.start, timeline.end, columns)
        rows.append(
            line(
                (name + " " * (gutter - cells(name)), "muted"),
                ("".join(map(shade, drawn)), _ROLE.get(row.pipe, "chart.live")),
                (f" {_percent(estimate.busy.get(key, 0.0)):>6}", "number"),
            )
        )
    return [fit(row, room) for row in rows]


def _scale(timeline: Timeline, gutter: int, columns: int) -> Line:
    first, last = f"{timeline.start:.2f}", f"{timeline.end:.2f} us"
    what = tr("one program") if timeline.whole else tr("iterations of one program")
    between = columns - len(first) - len(last)
    if between < cells(what) + 2:
        what = ""
    left = (between - cells(what)) // 2
    text = first + " " * max(1, left) + what + " " * max(1, between - left - cells(what)) + last
    return line(" " * gutter, (text, "chart.axis"))
