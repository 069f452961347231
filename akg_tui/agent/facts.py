"""The facts about a task that a kernel engineer has on the desk, told once in a conversation.

Made from the journal alone (the machine's description and the baseline measurements), so that
every request and every restart has the same bytes. Does no I/O and measures nothing.
"""

from __future__ import annotations

from akg_tui.core.measurement import CaseTiming
from akg_tui.core.state import RunState
from akg_tui.core.task import Task
from akg_tui.dsl.adapters import DSLS

_HEAD = "The facts. They hold for the whole run:"


def facts_text(state: RunState) -> str:
    """Return the paragraph with the facts of a run: machine, times, correctness, DSL, rules."""
    rows = [*_machine(state), *_times(state), *_correctness(state), *_metrics(state)]
    rows += [_dsl(state), *_allowed(state)]
    return "\n".join([_HEAD, *(f"- {row}" for row in rows)])


_OF_DEVICE = ("gpu", "gpu clock limit", "gpu power limit", "mig", "nvcc")
"""The entries of a measurement's fingerprint that tell of a device, whose compiler included."""


def _machine(state: RunState) -> list[str]:
    environment = state.baseline.environment if state.baseline is not None else {}
    known = {} if state.machine is None else dict(state.machine.facts)
    wanted = _OF_DEVICE if known else ("cpu", "cpus", "caches", "memory", "compiler", *_OF_DEVICE)
    known |= {name: environment[name] for name in wanted if name in environment}
    return [f"{name}: {text}." for name, text in known.items()]


def _times(state: RunState) -> list[str]:
    seed = state.baseline
    if seed is None or seed.candidate_ms is None or seed.baseline_ms is None:
        return []
    told = f"Time of a call: the seed kernel {_ms(seed.candidate_ms)}"
    told += f", the reference run by PyTorch (eager) {_ms(seed.baseline_ms)}"
    if seed.ratio is not None:
        told += f"; the seed is {seed.ratio.ratio:.3g} times as fast as eager"
    modes = {"torch.compile": state.compiled, "torch.compile with max-autotune": state.autotuned}
    for name, found in modes.items():
        if found is not None and found.candidate_ms is not None and found.ratio is not None:
            told += f". The reference under {name} {_ms(found.candidate_ms)}"
            told += f", {found.ratio.ratio:.3g} times as fast as eager"
    rows = [f"{told}."]
    if by_case := [_case(case) for case in seed.cases if case.ratio is not None]:
        rows.append(f"By case, seed and eager: {'; '.join(by_case)}.")
    if (roof := seed.roofline) is not None:
        rows.append(
            f"A call moves at least {roof.moved_bytes / 1e6:.3g} MB (inputs and outputs, each "
            f"once); the nearest level that holds them is {roof.level}."
        )
    return rows


def _case(case: CaseTiming) -> str:
    seed, eager = (_ms(value or 0.0) for value in (case.candidate_ms, case.baseline_ms))
    return f"{case.name} {seed} and {eager}"


def _ms(milliseconds: float) -> str:
    return f"{milliseconds:.4g} ms"


_VALUES = {
    "any": "unusual values, with infinities and NaN where the reference accepts them",
    "finite": "unusual finite values (a difference at infinities and NaN does not count)",
    "drawn": "no values but those that get_inputs() draws",
}


def _correctness(state: RunState) -> list[str]:
    rules, seed = state.task.correctness, state.baseline
    told = "Correct: |y - ref| / (|ref| + rms(ref)) of every element is within a bound, with ref in"
    told += " double precision where the reference supports that. "
    if rules.check:
        told = f"Correct: {rules.check} of the task accepts the results, which are not unique"
    elif rules.tolerance is not None:
        told += f"The task sets the bound, {rules.tolerance:.3g}"
    else:
        told += "The bound of each input follows from its dtype and the reference's rounding error"
    if seed is not None and seed.tolerance is not None and seed.max_error is not None:
        origin = f" ({seed.tolerance_from})" if seed.tolerance_from else ""
        told += f"; the seed came nearest to it with {seed.max_error:.3g} of {seed.tolerance:.3g}"
        told += origin
    tried = [f"{rules.trials} fresh draws of get_inputs()", _VALUES[rules.values]]
    tried.append("only the declared shapes" if rules.fixed_shape else "other, small shapes too")
    if rules.noncontiguous:
        tried.append("non-contiguous inputs")
    equal = "" if rules.check else " Integers and booleans must be equal."
    told += f".{equal} Tried are: {'; '.join(tried)}."
    more = ["Shape, dtype and device of a result are the reference's"]
    more.append(
        "its memory layout is free" if rules.strides == "any" else "its strides no worse than its"
    )
    if rules.deterministic:
        more.append("equal inputs must give equal bits")
    rows = [
        told,
        f"{', '.join(more)}; inputs must stay unchanged, unless the reference changes them.",
    ]
    contract = seed.contract if seed is not None else ()
    return rows + [f"How the reference is called, and so the kernel: {each}." for each in contract]


def _metrics(state: RunState) -> list[str]:
    if not state.task.metrics:
        return []
    seed = {each.name: each for each in state.baseline.metrics} if state.baseline else {}
    named = [
        name + (f" (the seed: {seed[name]})" if name in seed else "") for name in state.task.metrics
    ]
    told = "The task measures more numbers, by the function metrics of the reference"
    return [f"{told}: {', '.join(named)}."]


def _dsl(state: RunState) -> str:
    told = DSLS[state.task.target.dsl].facts(state.task)
    bound = f"Building and loading may take {state.task.timing.build_timeout_s:g} s."
    return f"{told} {bound}" if told else bound


def _allowed(state: RunState) -> list[str]:
    task, rows = state.task, []
    threads = task.timing.threads
    rows.append(
        "Threads gain nothing: a call runs on one CPU."
        if threads == 1
        else f"OpenMP has {threads} threads and a call as many CPUs, so more threads gain nothing."
    )
    rows.append(
        "Allowed: packing, transposing or converting parameters once, at the first call, and "
        "keeping that (the reference's values come by name: as __init__ assigns a parameter or a "
        "module to self, and once more after it; then they stay); scratch memory kept over calls. "
        "Not allowed: keeping results, or anything of an input, for a later call. A new result "
        "needs memory of its own: one buffer for all results costs a copy of each."
    )
    rows += _guard(task)
    return rows


def _guard(task: Task) -> list[str]:
    rules, rows = task.guard, []
    if rules.kernel_must_do_the_work:
        rows.append(
            "The kernel's own code does the work: a call of forward in which torch's operators or "
            "numpy compute, or a library that needs BLAS, is refused. Views, empty tensors, "
            "copies, other layouts and dtypes, `.item()` and arithmetic on a few sizes may be "
            "torch's, and all of it in the first call (packing of weights)."
        )
    elif DSLS[task.target.dsl].builders:
        rows.append("torch's own operations may do parts of the work.")
    if not rules.allow_compile and rules.level != "warn":
        rows.append("torch.compile and torch.jit are refused.")
    return rows
