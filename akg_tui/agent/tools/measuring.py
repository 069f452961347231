"""The tools verify_kernel and profile_kernel: the judge examines a draft, for information.

Makes no attempt and no verdict, so no KEEP can depend on it. Another reference than the task's own
has a judge of its own. `verify_kernel` compares, `profile_kernel` times whatever runs and compares
where it is asked to. A model is told of `profile_kernel` alone, with the arguments that its own
task leaves open.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Annotated

from akg_tui.agent.tools.call_record import TRACE, Node
from akg_tui.agent.tools.composite import run_workflow
from akg_tui.agent.tools.declaration import Arg, Step, ToolContext, tool
from akg_tui.agent.tools.file_access import NOTES, Refused, read_text
from akg_tui.agent.tools.run_access import Answer
from akg_tui.agent.tools.trials import version, whole
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.measurement import (
    LEAST_CLUSTERS,
    NOT_VERIFIED,
    CaseTiming,
    Interval,
    Measurement,
    Outcome,
)
from akg_tui.core.phases import Phase
from akg_tui.core.sanitize import one_line
from akg_tui.core.verdict import busy_line
from akg_tui.dsl.kernel_text import syntax_fault
from akg_tui.evaluate.targets.adapters import adapters
from akg_tui.evidence import page

PROFILE_S = 600
PROBES_A_VISIT = 8
"""The most measurements by these tools in one visit; the harness's own are not counted."""

_REFERENCE = (
    "The reference (class Model, get_inputs, get_init_inputs), as text or as the path of a file of "
    "this run such as task/reference.py."
)
_CODE = "The code to {} (class ModelNew), as text or as the path of a .py file of this run."
TaskCode = Annotated[str, Arg(_REFERENCE, resolve="whole", told=False)]
OpName = Annotated[str, Arg("Name of the operator, such as relu.", told=False)]
CallName = Annotated[str, Arg("Your own name for this call; it is given back.", told=False)]
Device = Annotated[int, Arg(minimum=0, told=False)]
Folder = Annotated[
    str,
    Arg("A node of trace/ or a folder under notes/ that gets a copy of the result.", told=False),
]
Framework = Annotated[str, Arg(schema={"type": "string", "default": "torch"}, told=False)]
# A call, or a user's declaration, that leaves one out means the run's own target. The defaults of
# the specification stand in the schema; a run's schema has those of its target instead.
Backend = Annotated[str, Arg(schema={"type": "string", "default": "cuda"}, told=False)]
Arch = Annotated[str, Arg(schema={"type": "string", "default": "a100"}, told=False)]
Dsl = Annotated[str, Arg(schema={"type": "string", "default": "triton"}, told=False)]
Target = tuple[int, str, str, str, str]
"""Device, framework, backend, arch and DSL in the arguments of a call."""


@tool("domain_tool", (Phase.WRITE, Phase.EDIT, Phase.DIAGNOSE), by_name=True)
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
    target = device_id, framework, backend, arch, dsl
    kernel, reference = _asked(call, task_code, generated_code, cur_path, target)
    found = await call.run.measure(
        kernel, timed=False, reference=reference, device=device_id, limit_s=timeout
    )
    if found.outcome is not Outcome.CORRECT:
        return _fault(found)
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
    generated_code: Annotated[
        str,
        Arg(
            "A text, or a .py path such as notes/draft.py; without a source, the kernel.",
            resolve="whole",
        ),
    ] = "",
    trial: Annotated[int | None, Arg(minimum=1)] = None,
    attempt: Annotated[int | None, Arg(minimum=0)] = None,
    verify: Annotated[bool, Arg("Compare its results with the reference too.")] = False,
    task_code: TaskCode = "",
    op_name: OpName = "",
    task_id: CallName = "default_task",
    device_id: Device = 0,
    run_times: Annotated[
        int,
        Arg(
            "Timed samples of each side after which sampling stops, though never before "
            f"{LEAST_CLUSTERS} pairs of processes, or 2 that leave no doubt.",
            minimum=1,
            maximum=1000,
            told=False,
        ),
    ] = 50,
    warmup_times: Annotated[
        int, Arg("Untimed calls before anything is timed.", minimum=0, maximum=1000, told=False)
    ] = 5,
    cur_path: Folder = "",
    framework: Framework = "torch",
    backend: Backend = "",
    arch: Arch = "",
    dsl: Dsl = "",
) -> Answer:
    """Time a version, right or wrong, against the reference, and tell what binds it: share of the
    roofline by case, the compiler's remarks, the hot loop. Decides nothing.
    """
    target = device_id, framework, backend, arch, dsl
    if sum((bool(generated_code.strip()), trial is not None, attempt is not None)) > 1:
        raise Refused("give one of generated_code, trial and attempt")
    kernel, reference = _asked(call, task_code, generated_code, cur_path, target)
    if trial is not None or attempt is not None:
        _, kernel = version(call, trial, attempt)
    found = await call.run.measure(
        kernel,
        timed=True,
        samples=run_times,
        warmups=warmup_times,
        verified=verify,
        reference=reference,
        device=device_id,
        limit_s=PROFILE_S,
    )
    if found.outcome is not Outcome.CORRECT:
        return _fault(found)
    evidence = None if device_id else await call.run.evidence(kernel, reference)
    correctness: object = found.message or NOT_VERIFIED
    if verify:
        errors = {"max_error": found.max_error, "tolerance": found.tolerance}
        correctness = errors | ({"but": found.message} if found.message else {})
    busy = busy_line(found.noise, found.detectable)
    facts = {
        **({"machine": busy} if busy else {}),
        "op_name": op_name or call.run.state.task.op,
        "task_id": task_id,
        "correctness": correctness,
        "gen_time_us": _us(found.candidate_ms),
        "base_time_us": _us(found.baseline_ms),
        **_speedup(found.ratio),
        **({"cases": [_case(case) for case in found.cases]} if found.cases else {}),
        "samples": found.samples,
        "threads": found.threads,
    }
    if evidence is None:
        return _told(call, cur_path, "profile", facts)
    facts |= page.fields(evidence, found, kernel.main, kernel.places_of_several)
    return _told(call, cur_path, "profile", facts, foreign=True)


_SAME = {"task_code": "$task_code", "generated_code": "$generated_code"}
_FIRST_NAME = "read_json_file('$1/result.json')['output']['op_name']"
_STEPS = (
    Step("verify_kernel", {**_SAME, "op_name": "$op_name"}),
    Step("profile_kernel", {**_SAME, "op_name": _FIRST_NAME}),
)
AsOfVerify = Annotated[str, Arg("As of verify_kernel.", resolve="whole")]


@tool("call_workflow", steps=_STEPS, by_name=True)
async def verify_then_profile(
    call: ToolContext,
    task_code: AsOfVerify,
    generated_code: AsOfVerify,
    op_name: Annotated[str, Arg("Name of the operator, such as relu.")],
) -> Answer:
    """verify_kernel and then, if the code is correct, profile_kernel."""
    given = {"task_code": task_code, "generated_code": generated_code, "op_name": op_name}
    return await run_workflow(call, given)


def _asked(
    call: ToolContext, task_code: str, generated_code: str, cur_path: str, target: Target
) -> tuple[KernelFiles, str]:
    """Check the arguments against the run; return the kernel to measure (without a code, the
    run's), and the text of another reference than the run's, or "". Raises `Refused`.
    """
    task, files, probes = call.run.state.task, call.files, call.caller.probes
    device_id, framework, *parts = target
    if framework != "torch":
        raise Refused(
            f"framework is {one_line(framework, 40)!r}: a reference is a Model of PyTorch, because "
            "the judge computes the expected results with torch alone; leave it out"
        )
    for name, given in zip(("backend", "arch", "dsl"), parts, strict=True):
        wanted = getattr(task.target, name)
        if wanted and given and given != wanted:
            raise Refused(f"{name} is {given[:40]!r}, but this run's is {wanted!r}; leave it out")
    target_adapter, _ = adapters(task)
    if not target_adapter.device_name(device_id):
        limit = f"fewer devices by {target_adapter.device_variable}"
        limit = limit if target_adapter.device_variable else "device 0 only"
        raise Refused(f"device {device_id}: the target {task.target.backend} has {limit}")
    if cur_path:
        _check_folder(call, cur_path)
    reference = _reference(call, task_code.strip())
    if probes.made >= PROBES_A_VISIT:
        raise Refused(f"{PROBES_A_VISIT} measurements were made in this visit: edit the kernel")
    probes.made += 1
    code = generated_code.strip()
    if not code:
        return call.kernel.files, reference
    named = "\n" not in code and code.endswith((".py", *task.files.names))
    kernel = whole(call, read_text(files, code), code) if named else whole(call, generated_code)
    return kernel, reference


def _reference(call: ToolContext, code: str) -> str:
    """Return the text of another reference than the run's, or "" for its own."""
    name = call.run.state.task.files.reference
    own = read_text(call.files, f"task/{name}")
    if code in ("", name):
        return ""
    if "\n" not in code and code.endswith(".py"):
        code = read_text(call.files, code)
    if _rows(code) == _rows(own):
        return ""
    if fault := syntax_fault(code, "Model"):
        raise Refused(f"task_code: {fault}; the run's own reference is 'task/{name}'")
    return code


def _check_folder(call: ToolContext, cur_path: str) -> None:
    """Raise `Refused` unless a result may be copied into this folder."""
    files = call.files
    top, *inside = PurePosixPath(files.relative(cur_path)).parts
    if top == TRACE and inside:
        files.read(f"{cur_path}/request.json")  # which only a node has
    elif top != NOTES:
        raise Refused(f"cur_path: {cur_path}: expected a node of {TRACE}/ or a folder of {NOTES}/")


def _fault(found: Measurement) -> Answer:
    """Return the error answer for a kernel that is not correct."""
    what = "the judge failed" if found.outcome is Outcome.ERROR else str(found.failure or "wrong")
    lines = [f"{what}: {found.message}", *found.detail.splitlines()]
    return Answer.error("\n".join(line for line in lines if line), foreign=True)


def _told(
    call: ToolContext, cur_path: str, kind: str, facts: dict[str, object], *, foreign: bool = False
) -> Answer:
    text = page.as_json(facts) if foreign else json.dumps(facts)
    if cur_path:
        folder, name = call.files.relative(cur_path), f"{kind}_result.json"
        if folder.startswith(f"{TRACE}/"):
            Node(Path(call.run.path), folder).keep(name, text.encode())
        else:
            call.files.write(f"{folder}/{name}", text.encode())
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
