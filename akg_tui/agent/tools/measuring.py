"""The tools verify_kernel and profile_kernel: the judge examines a draft, for information.

Makes no attempt and no verdict, so no KEEP can depend on it. The reference is always the
task's own; a call that gives another reference is refused.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from pathlib import PurePosixPath
from typing import Annotated, Literal

from msgspec import to_builtins

from akg_tui.agent.tools.composite import run_workflow
from akg_tui.agent.tools.declaration import Arg, Step, ToolContext, tool
from akg_tui.agent.tools.file_access import NOTES, Refused
from akg_tui.agent.tools.files import read_text
from akg_tui.agent.tools.run_access import Answer
from akg_tui.agent.tools.trials import whole
from akg_tui.core.measurement import CaseTiming, Interval, Measurement, Outcome
from akg_tui.core.phases import Phase
from akg_tui.evaluate.evidence import page
from akg_tui.kernel_files import places_of_several

PROFILE_S = 600
PROBES_A_VISIT = 8
"""The most measurements by these tools in one visit; the harness's own are not counted."""

_REFERENCE = "The reference (class Model): the task's own, as text or as task/reference.py."
_CODE = "The code to {} (class ModelNew), as text or as the path of a .py file of this run."
TaskCode = Annotated[str, Arg(_REFERENCE, resolve="whole")]
OpName = Annotated[str, Arg("Name of the operator, such as relu.")]
CallName = Annotated[str, Arg("Your own name for this call; it is given back.")]
Device = Annotated[int, Arg(minimum=0)]
Folder = Annotated[str, Arg("A folder under notes/ that gets a copy of the result.")]
Framework = Literal["torch"]
# A call, or a user's declaration, that leaves one out means the run's own target. The defaults of
# the specification stand in the schema; a run's schema has those of its target instead.
Backend = Annotated[str, Arg(schema={"type": "string", "default": "cuda"})]
Arch = Annotated[str, Arg(schema={"type": "string", "default": "a100"})]
Dsl = Annotated[str, Arg(schema={"type": "string", "default": "triton"})]
Target = tuple[int, str, str, str]
"""Device, backend, arch and DSL in the arguments of a call."""


@tool("domain_tool", (Phase.WRITE, Phase.EDIT, Phase.DIAGNOSE))
async def verify_kernel(
    call: ToolContext,
    *,
    task_code: TaskCode,
    generated_code: Annotated[str, Arg(_CODE.format("examine"), resolve="whole")],
    op_name: OpName,
    task_id: CallName = "default_task",
    device_id: Device = 0,
    timeout: Annotated[  # noqa: ASYNC109 - the argument's name in a call
        int, Arg("Seconds after which it is given up.", minimum=1, maximum=3600)
    ] = 300,
    cur_path: Folder = "",
    framework: Framework = "torch",
    backend: Backend = "",
    arch: Arch = "",
    dsl: Dsl = "",
) -> Answer:
    """Compare generated code with the reference on fresh inputs, by the judge. Tells only;
    what counts is the evaluation that the harness makes of your edit.
    """
    kernel = _kernel(call, task_code, generated_code, cur_path, (device_id, backend, arch, dsl))
    found = await _examined(call.run.measure(kernel, timed=False), timeout)
    if isinstance(found, Answer):
        return found
    facts = {
        "op_name": op_name,
        "task_id": task_id,
        "correct": True,
        "max_error": found.max_error,
        "tolerance": found.tolerance,
    }
    if found.metrics:
        facts["metrics"] = {each.name: str(each) for each in found.metrics}
    return _told(call, cur_path, "verify", facts)


@tool("domain_tool", (Phase.WRITE, Phase.PLAN, Phase.EDIT, Phase.DIAGNOSE))
async def profile_kernel(
    call: ToolContext,
    *,
    task_code: TaskCode,
    generated_code: Annotated[str, Arg(_CODE.format("time"), resolve="whole")],
    op_name: OpName,
    task_id: CallName = "default_task",
    device_id: Device = 0,
    run_times: Annotated[
        int,
        Arg(
            "Timed samples of each side after which sampling stops, though never before three "
            "pairs of processes.",
            minimum=1,
            maximum=1000,
        ),
    ] = 50,
    warmup_times: Annotated[
        int, Arg("Untimed calls before anything is timed.", minimum=0, maximum=1000)
    ] = 5,
    cur_path: Folder = "",
    framework: Framework = "torch",
    backend: Backend = "",
    arch: Arch = "",
    dsl: Dsl = "",
) -> Answer:
    """Time generated code against the reference, by the judge, and tell what binds it: share
    of the roofline by case, hardware counters, the compiler's remarks, the hot loop with its
    throughput. Does not verify, says nothing of correctness, and decides nothing.
    """
    kernel = _kernel(call, task_code, generated_code, cur_path, (device_id, backend, arch, dsl))
    probe = call.run.measure(kernel, timed=True, samples=run_times, warmups=warmup_times)
    found = await _examined(probe, PROFILE_S)
    if isinstance(found, Answer):
        return found
    evidence = await call.run.evidence(kernel)
    facts = {
        "op_name": op_name,
        "task_id": task_id,
        "gen_time_us": _us(found.candidate_ms),
        "base_time_us": _us(found.baseline_ms),
        **_speedup(found.ratio),
        **({"cases": [_case(case) for case in found.cases]} if found.cases else {}),
        **({} if found.estimate is None else {"estimate": to_builtins(found.estimate)}),
        "samples": found.samples,
        "threads": found.threads,
    }
    if evidence is None:
        return _told(call, cur_path, "profile", facts)
    files = call.run.state.task.files
    at = places_of_several(files.names, kernel)
    facts |= page.fields(evidence, found, files.kernel, at)
    return _told(call, cur_path, "profile", facts, foreign=True)


_SAME = {"task_code": "$task_code", "generated_code": "$generated_code"}
_FIRST_NAME = "read_json_file('$1/result.json')['output']['op_name']"
_STEPS = (
    Step("verify_kernel", {**_SAME, "op_name": "$op_name"}),
    Step("profile_kernel", {**_SAME, "op_name": _FIRST_NAME}),
)
AsOfVerify = Annotated[str, Arg("As of verify_kernel.", resolve="whole")]


@tool("call_workflow", steps=_STEPS)
async def verify_then_profile(
    call: ToolContext,
    task_code: AsOfVerify,
    generated_code: AsOfVerify,
    op_name: OpName,
) -> Answer:
    """verify_kernel and then, if the code is correct, profile_kernel."""
    given = {"task_code": task_code, "generated_code": generated_code, "op_name": op_name}
    return await run_workflow(call, given)


def _kernel(
    call: ToolContext, task_code: str, generated_code: str, cur_path: str, target: Target
) -> str:
    """Check the arguments against the run, and return the text to measure. Raises `Refused`."""
    task, files, probes = call.run.state.task, call.files, call.caller.probes
    device_id, *parts = target
    for name, given in zip(("backend", "arch", "dsl"), parts, strict=True):
        wanted = getattr(task.target, name)
        if wanted and given and given != wanted:
            raise Refused(f"{name} is {given[:40]!r}, but this run's is {wanted!r}; leave it out")
    if device_id != 0:
        raise Refused(f"device {device_id}: this run's target has device 0 only")
    reference = f"task/{task.files.reference}"
    code = task_code.strip()
    is_path = code in (reference, task.files.reference)
    if not is_path and _rows(code) != _rows(read_text(files, reference)):
        raise Refused(f"task_code is not this run's reference; give {reference!r} instead")
    if cur_path and PurePosixPath(files.relative(cur_path)).parts[0] != NOTES:
        raise Refused(f"cur_path: {cur_path}: expected a folder under {NOTES}/")
    if probes.made >= PROBES_A_VISIT:
        raise Refused(f"{PROBES_A_VISIT} measurements were made in this visit: edit the kernel")
    probes.made += 1
    code = generated_code.strip()
    named = "\n" not in code and code.endswith((".py", *task.files.names))
    return whole(call, read_text(files, code), code) if named else whole(call, generated_code)


async def _examined(probe: Awaitable[Measurement], seconds: float) -> Measurement | Answer:
    """Return the measurement of a correct kernel, or an error answer with the reason."""
    try:
        async with asyncio.timeout(seconds):
            found = await probe
    except TimeoutError:
        return Answer.error(f"given up after {seconds:g} s")
    if found.outcome is Outcome.CORRECT:
        return found
    what = "the judge failed" if found.outcome is Outcome.ERROR else str(found.failure or "wrong")
    lines = [f"{what}: {found.message}", *found.detail.splitlines()]
    return Answer.error("\n".join(line for line in lines if line), foreign=True)


def _told(
    call: ToolContext, cur_path: str, kind: str, facts: dict[str, object], *, foreign: bool = False
) -> Answer:
    text = page.as_json(facts) if foreign else json.dumps(facts)
    if cur_path:
        folder = call.files.relative(cur_path)
        call.files.write(f"{folder}/{kind}_result.json", text.encode())
    return Answer.success(text, foreign=foreign)


def _us(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else round(milliseconds * 1e3, 3)


def _case(case: CaseTiming) -> dict[str, object]:
    return {
        "name": case.name,
        "gen_time_us": _us(case.candidate_ms),
        "base_time_us": _us(case.baseline_ms),
        **_speedup(case.ratio),
    }


def _speedup(ratio: Interval | None) -> dict[str, object]:
    if ratio is None:
        return {"speedup": None}
    return {
        "speedup": round(ratio.ratio, 4),
        "speedup_low": round(ratio.low, 4),
        "speedup_high": round(ratio.high, 4),
        "confidence": ratio.confidence,
    }


def _rows(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
