"""The page about what binds a kernel, by the field's names.

Pure. At most `MOST_LINES` lines; every text of the kernel's is sanitized here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from akg_tui.core.kernel.kernel_files import Place
from akg_tui.core.measurement import Measurement
from akg_tui.core.sanitize import one_line
from akg_tui.evidence import compile_report
from akg_tui.evidence.compile_report import MOST_LINES, CompileReport
from akg_tui.evidence.compiler_remarks import condensed
from akg_tui.evidence.findings import CodeFunction, CompilerRemark, KernelFindings, Loop
from akg_tui.evidence.ncu import Profile
from akg_tui.evidence.roof import NEAR, Roof

FAR = "it waits, repeats work, has overhead, or takes functions such as exp, which are not counted"
"""Why a call is far from its limit."""
MOST_REMARKS = 24
MOST_CODE = 40
MOST_OTHER_LOOPS = 6
DISAGREES = 1.2
"""How many times as long as the judge's a profiler's time may be: profiling has a cost."""

Fields = dict[str, object]


class Evidence(Struct, frozen=True):
    """Findings on a kernel (its machine code) and on its task (the limits by case).

    `compiled` is there for a kernel in Triton or CUDA C++, `profile` where Nsight Compute ran.
    """

    roofs: tuple[Roof, ...]
    findings: KernelFindings
    compiled: CompileReport | None = None
    profile: Profile | None = None


def fields(
    evidence: Evidence, measured: Measurement, file: str, at: Sequence[Place] = ()
) -> Fields:
    """Return the page: limits by case, remarks, hot loop, and what is left out and why.

    `file` is the name of the kernel's file, `measured` has the times of its cases. `at` has the
    file and line of each line of the text of a kernel in several files.
    """
    left_out = dict(evidence.findings.left_out)
    told: Fields = {"roofline": [_roof(roof, measured) for roof in evidence.roofs]}
    code = evidence.findings.code
    if code.compiler:
        told["compiler"] = one_line(code.compiler, 200)
    hot = code.loops[0] if code.loops else None
    remarks = [each for each in code.remarks if not _made_void(each, code.loops)]
    if remarks:
        kept = condensed(remarks, hot.lines if hot else (), MOST_REMARKS)
        told["remarks"] = [
            f"{_place(file, r.line, at)}{r.kind}: {one_line(r.text, 160)}" for r in kept
        ]
        if len(kept) < len(remarks):
            left_out["other remarks"] = f"{len(remarks) - len(kept)} of {len(remarks)}"
    if hot is not None:
        function = code.functions[hot.function]
        told["hot_loop"] = loop_facts(hot, function, at) | {"found_by": "its instructions"}
        told["hot_loop_code"] = listing(hot, function, at)
        others = code.loops[1 : 1 + MOST_OTHER_LOOPS]
        if others:
            told["other_loops"] = [
                loop_words(each, code.functions[each.function], at) for each in others
            ]
    if evidence.compiled is not None:
        told["compile_report"] = compile_report.as_lines(evidence.compiled, file)
    if evidence.profile is not None:
        told["profiler"] = [one_line(line, 200) for line in evidence.profile.lines]
        # What is profiled is the first case.
        first = measured.cases[0] if measured.cases else measured
        if first.candidate_ms:
            call_us = first.candidate_ms * 1e3
            told["profiler_and_judge"] = _cross_check(evidence.profile.device_us, call_us)
    if left_out:
        told["left_out"] = {name: one_line(why, 300) for name, why in left_out.items()}
    return told


def _made_void(remark: CompilerRemark, loops: Sequence[Loop]) -> bool:
    """Return whether a remark says that a loop was not vectorized whose machine code is packed,
    because its author wrote intrinsics.
    """
    at = [loop for loop in loops if remark.line in loop.lines]
    packed = [loop for loop in at if 2 * loop.packed > loop.vector]
    return remark.kind == "missed" and bool(at) and len(packed) == len(at)


def _cross_check(device_us: float, call_us: float) -> str:
    """Return in words how a profiler's time of the device fits the judge's time of a call."""
    told = f"{device_us:.4g} us on the device in a call of {call_us:.4g} us by the judge's clock"
    if device_us > DISAGREES * call_us:
        return f"{told}: they disagree, the profiler slows the kernel or counts work beside calls"
    return f"{told}: the device works {device_us / call_us:.0%} of a call"


def _roof(roof: Roof, measured: Measurement) -> Fields:
    name = {"case": roof.case} if roof.case else {}
    if roof.unknown:
        return {**name, "left_out": one_line(roof.unknown, 200)}
    case = next((each for each in measured.cases if each.name == roof.case), None)
    timed = measured if case is None and not roof.case else case
    told: Fields = {
        **name,
        "bytes": roof.moved_bytes,
        "operations": roof.operations,
        "operations_per_byte": round(roof.intensity, 3),
        "binds": binding_words(
            roof, timed.candidate_ms if timed else None, busy=bool(measured.noise)
        ),
        "least_time_us": round(roof.least_s * 1e6, 3),
    }
    for key, value in (
        ("share_of_limit", roof.share(timed.candidate_ms if timed else None)),
        ("share_of_limit_eager", roof.share(timed.baseline_ms if timed else None)),
    ):
        if value is not None:
            told[key] = round(value, 3)
    return told


def binding_words(roof: Roof, milliseconds: float | None = None, *, busy: bool = False) -> str:
    """Return the side that binds, with the rate that limits it, for a call of this time.

    A call that is far from the limit is bound by neither side. Why is not told of a time that was
    taken on a `busy` machine, which slows a call as well.
    """
    if not roof.binds:
        return "not known: no rate of this machine was measured"
    if roof.binds == "memory":
        side = f"memory ({roof.level}, {roof.bandwidth / 1e9:.3g} GB/s)"
    else:
        side = f"arithmetic ({roof.dtype}, {roof.peak / 1e9:.3g} GFLOP/s)"
    share = roof.share(milliseconds)
    if share is None or share >= NEAR:
        return side
    if busy:
        return f"{side}, by its bytes and operations; how near cannot be told on a busy machine"
    return f"neither side yet, then {side}: {FAR}"


def loop_facts(loop: Loop, function: CodeFunction, at: Sequence[Place] = ()) -> Fields:
    """Return a loop as fields: where it is, and its instructions."""
    return {
        "function": one_line(function.name, 80),
        "lines": line_ranges(loop.lines, at),
        "instructions": loop.instructions,
        "vector": loop.vector,
        "packed": loop.packed,
    }


def loop_words(loop: Loop, function: CodeFunction, at: Sequence[Place] = ()) -> str:
    """Return a loop in one line."""
    return (
        f"{one_line(function.name, 60)} lines {line_ranges(loop.lines, at) or '?'}: "
        f"{loop.instructions} instructions, {loop.packed} packed of {loop.vector} vector"
    )


def listing(loop: Loop, function: CodeFunction, at: Sequence[Place] = ()) -> list[str]:
    """Return the instructions of a loop, each with its line of the kernel's file."""
    rows = function.rows[loop.first : loop.last + 1]
    told = [
        f"{_line(row.line, at):>5} {row.label:<4} {one_line(row.text, 110)}".rstrip()
        for row in rows[:MOST_CODE]
    ]
    if len(rows) > MOST_CODE:
        told.append(f"{len(rows) - MOST_CODE} more instructions")
    return told


def line_ranges(lines: Sequence[int], at: Sequence[Place] = ()) -> str:
    """Return lines as text, such as "12-14, 20", or by their files: "a.h:3-4, b.cpp:12"."""
    if at:
        places = [at[line - 1] for line in lines]
        ranges = {
            name: line_ranges([place.line for place in places if place.file == name])
            for name in dict.fromkeys(place.file for place in places)
        }
        return ", ".join(f"{name}:{told}" for name, told in ranges.items())
    ends = [n for n, after in pairwise([*lines, 0]) if after != n + 1]
    starts = [n for before, n in pairwise([-1, *lines]) if before != n - 1]
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def _place(file: str, line: int, at: Sequence[Place]) -> str:
    if line and at:
        file, line = at[line - 1]
    return f"{file}:{line} " if line else f"{file} "


def _line(line: int, at: Sequence[Place]) -> str:
    """Return a line as text, after its file where there are several; "" for none."""
    if not line:
        return ""
    return f"{at[line - 1].file}:{at[line - 1].line}" if at else str(line)


def page_lines(facts: Mapping[str, object]) -> list[str]:
    """Return the fields of a page as lines for a person."""
    told: list[str] = []
    for name, value in facts.items():
        title = name.replace("_", " ")
        if isinstance(value, list):
            told.append(f"{title}:")
            told += [f"  {_words(each)}" for each in value]
        elif isinstance(value, dict) and name == "left_out":
            told += [f"no {part}: {why}" for part, why in value.items()]
        else:
            told.append(f"{title}: {_words(value)}")
    return told[:MOST_LINES]


def _words(value: object) -> str:
    if not isinstance(value, dict):
        return str(value)
    return ", ".join(f"{name.replace('_', ' ')} {each}" for name, each in value.items())


def as_json(facts: Mapping[str, object]) -> str:
    """Return fields as JSON that reads as a page: one row for each field and each entry of a list.

    Rows beyond `MOST_LINES` are cut from the longest list.
    """
    told = dict(facts)
    while (over := sum(_rows(value) for value in told.values()) + 2 - MOST_LINES) > 0:
        name = max(told, key=lambda each: _rows(told[each]))
        entries = told[name]
        if not isinstance(entries, list) or len(entries) < 2:
            break
        kept = max(1, len(entries) - over - 1)
        told[name] = [*entries[:kept], f"{len(entries) - kept} more"]
        if _rows(told[name]) >= len(entries) + 2:
            break
    rows = []
    for name, value in told.items():
        if isinstance(value, list) and value:
            entries = ",\n  ".join(json.dumps(each, ensure_ascii=False) for each in value)
            rows.append(f" {json.dumps(name)}: [\n  {entries}\n ]")
        else:
            rows.append(f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(rows) + "\n}"


def _rows(value: object) -> int:
    return len(value) + 2 if isinstance(value, list) and value else 1
