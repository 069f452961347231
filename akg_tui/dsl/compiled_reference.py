"""The reference under `torch.compile`: a kernel for the judge, which tells what a compiler gains.

Pure: makes the text, the terms and the environment of one evaluation, and runs nothing. The judge
builds, compares and times the result like any kernel, but no run can keep it.
"""

from __future__ import annotations

from msgspec.structs import replace

from akg_tui.core.task import CompileBaseline, Correctness, Guard, Task
from akg_tui.store.reference_constants import as_judged

NAME = "torch_compile.py"
"""The file of the kernel, in messages about it."""

PRELOADED = ("akg_tui.evaluate.child.torch_compiler",)
"""Modules that the zygote loads before it forks, because loading them takes seconds."""

ENVIRONMENT = {
    # Inside the kernel's process: it may start no workers.
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    # Otherwise each process starts a Python to find out whether the vector unit can be used.
    "TORCHINDUCTOR_VEC_ISA_OK": "1",
    # Precompiling headers takes longer than the few files that include them.
    "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
}

BUDGET_S = 10.0
"""The most seconds of sampling: a baseline needs a figure, not a verdict."""

USUAL_S: dict[CompileBaseline, float] = {"compile": 60.0, "max-autotune": 300.0}
"""The seconds in which the whole evaluation usually ends: what a person is told to expect."""

LIMITS_S: dict[CompileBaseline, float] = {"compile": 300.0, "max-autotune": 900.0}
"""The most seconds of the whole evaluation, with compilation and the start of the judge, by
baseline: max-autotune also builds and times the code that it chooses from."""

_MODES: dict[CompileBaseline, str] = {
    "compile": "default",
    # CUDA graphs would overwrite a result at the next call: no kernel may do that.
    "max-autotune": "max-autotune-no-cudagraphs",
}

_TAIL = '''


class ModelNew(Model):
    """The reference, compiled by torch.compile at its first call."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        import torch._inductor.config

        # The judge builds with more threads than it times with: for these it would be built anew.
        torch._inductor.config.cpp.threads = {threads}
        self.compile(mode="{mode}")
'''


def kernel_of(task: Task, reference: str, baseline: CompileBaseline) -> str:
    """Return the kernel: the reference with the task's constants, and a compiled `ModelNew`.

    Raises `UnknownConstant` if the reference has no such constants.
    """
    text = as_judged(reference, task).rstrip("\n")
    return text + _TAIL.format(mode=_MODES[baseline], threads=task.timing.threads)


def terms_of(task: Task) -> Task:
    """Return the task by which the compiled reference is evaluated.

    It is compared on inputs as drawn, those that it is timed on. Every first call compiles, or
    loads what was compiled, so it has the time of a build.
    """
    limits, rules = task.timing, task.correctness
    return replace(
        task,
        files=replace(task.files, editable=NAME),
        target=replace(task.target, dsl="torch"),
        guard=Guard(level="warn"),
        correctness=Correctness(
            trials=rules.trials,
            tolerance=rules.tolerance,
            check=rules.check,
            values="drawn",
            fixed_shape=True,
            strides="any",
            free_inputs=rules.free_inputs,
        ),
        timing=replace(
            limits,
            budget_s=min(limits.budget_s, BUDGET_S),
            call_timeout_s=max(limits.call_timeout_s, limits.build_timeout_s),
        ),
    )
