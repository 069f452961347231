"""Messages of a failed kernel say what to change, so that the next attempt can be right."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from akg_tui.core.measurement import FailureKind, Measurement, Outcome
from akg_tui.core.task import Correctness
from akg_tui.dsl import kernel_text
from akg_tui.evaluate.processes import worker
from benchmarks.judge.ordinary.tasks import NORMED
from benchmarks.judge.ordinary.windows import module
from tests.evaluate.kernels import CPP, REFERENCE, kernel
from tests.judging import Evaluated, quick_task

WEIGHTED = module(
    "x", "return self.linear(x)", "torch.randn(6, 24)", "self.linear = torch.nn.Linear(24, 8)"
)


def failed(
    evaluated: Evaluated, source: str, reference: str = REFERENCE, **rules: object
) -> Measurement:
    task = quick_task(Correctness(trials=2, **rules))  # type: ignore[arg-type]
    found = evaluated(task, reference, source, timed=False)
    assert found.outcome is Outcome.FAILED, found
    return found


@pytest.mark.parametrize(
    ("init", "says"),
    [
        ("pass", "'norm.weight' is missing in ModelNew; the"),
        ("self.w = torch.nn.Parameter(torch.ones(96))", "ModelNew (rename 'w'?); the"),
        (
            "self.norm = torch.nn.LayerNorm(4)",
            "'norm.weight' in ModelNew is [4] torch.float32, expected [96] torch.float32, as in",
        ),
    ],
)
def test_a_missing_weight_is_named(evaluated: Evaluated, init: str, says: str) -> None:
    source = kernel("return x").replace("self.calls = 0", init)
    found = failed(evaluated, source, NORMED)
    assert found.failure is FailureKind.BUILD
    assert says in found.message
    if "missing" in says:
        given = "weights are given after __init__, by name: norm.weight, norm.bias"
        assert given in found.message


def test_a_wrong_result_without_the_reference_s_weights_names_them(evaluated: Evaluated) -> None:
    # Weights without gradient are not changed, so a kernel may have them by other names.
    frozen = WEIGHTED.replace("Linear(24, 8)", "Linear(24, 8).requires_grad_(False)")
    source = frozen.replace("Model(", "ModelNew(").replace("linear", "layer")
    source = source.replace("super()", "torch.rand(3)\n        super()")
    found = failed(evaluated, source, frozen)
    assert found.failure is FailureKind.WRONG
    assert found.message.endswith(
        "; 'linear.weight' is missing in ModelNew (rename 'layer.weight'?); the reference's "
        "weights are given after __init__, by name: linear.weight, linear.bias"
    )


@pytest.mark.parametrize(
    ("init", "told"),
    [
        ("self.linear = torch.nn.Linear(24, 8)", ""),
        ("layer = torch.nn.Linear(24, 8)", "`packed` was made in `__init__`: where it did not"),
    ],
)
def test_weights_packed_in_init_are_the_reference_s_or_the_message_names_them(
    evaluated: Evaluated, init: str, told: str
) -> None:
    layer = init.partition(" =")[0]
    source = f"""
import torch


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {init}
        self.packed = {layer}.weight.detach().t().contiguous()
        self.linear = {layer}

    def forward(self, x):
        return torch.addmm(self.linear.bias, x, self.packed)
"""
    if told:
        found = failed(evaluated, source, WEIGHTED)
        assert found.failure is FailureKind.WRONG
        assert found.message.endswith(f"{told} follow the weights, make it at the first call")
    else:
        found = evaluated(quick_task(), WEIGHTED, source, timed=False)
        assert found.outcome is Outcome.CORRECT, found


UNTYPED = CPP.replace(
    "library.softmax(pointer(x), pointer(y), rows, cols)",
    "library.softmax(x.data_ptr(), y.data_ptr(), rows, cols)",
)


def test_a_crash_for_want_of_argtypes_says_so(evaluated: Evaluated) -> None:
    found = failed(evaluated, UNTYPED)
    assert found.failure is FailureKind.CRASH
    assert found.message == (
        "the process was killed by SIGSEGV while being called; set argtypes of softmax (line "
        f"{line_of(UNTYPED, 'data_ptr')}): without them ctypes passes pointers as 32-bit ints"
    )


@pytest.mark.parametrize(
    "source",
    [
        CPP,
        UNTYPED.replace("\n\nclass", "\nlibrary.softmax.argtypes = [ctypes.c_void_p] * 4\n\nclass"),
        UNTYPED.replace("x.data_ptr()", "ctypes.c_void_p(x.data_ptr())").replace(
            "y.data_ptr()", "ctypes.c_void_p(y.data_ptr())"
        ),
    ],
)
def test_a_crash_of_typed_calls_gives_no_such_hint(source: str) -> None:
    assert kernel_text.with_untyped_call("a crash", source) == "a crash"


def test_a_function_in_a_variable_is_known_by_its_name() -> None:
    source = "f = library.f\np = x.data_ptr()\nf(p, 3)\n"
    assert "argtypes of f (line 3)" in kernel_text.with_untyped_call("", source)
    typed = source.replace("\np =", "\nf.argtypes = []\np =")
    assert kernel_text.with_untyped_call("", typed) == ""


def test_a_kernel_for_contiguous_inputs_only_is_told_of_strides(evaluated: Evaluated) -> None:
    source = CPP.replace("pointer(x)", "ctypes.c_void_p(x.data_ptr())")
    source = source.replace("torch.empty_like(x)", "torch.empty(x.shape)")
    found = failed(evaluated, source, noncontiguous=True)
    assert found.failure is FailureKind.WRONG
    told = "the kernel is right for contiguous inputs only, it ignores strides: wrong values"
    assert found.message.startswith(told)


def test_a_missing_symbol_is_explained(evaluated: Evaluated) -> None:
    found = failed(evaluated, CPP.replace('extern "C" ', ""))
    named = re.search(
        r"no symbol softmax in \w{8}….so: it has (.+), declare that extern", found.message
    )
    assert named is not None, found.message
    assert named[1] in ("softmax(float const*, float*, long, long)", "_Z7softmaxPKfPfll")


def test_a_symbol_that_is_defined_nowhere_is_explained(evaluated: Evaluated) -> None:
    source = CPP.replace("#include <cmath>", "#include <cmath>\nvoid lost(float*);")
    source = source.replace("double sum = 0;", "double sum = 0; lost(y);")
    found = failed(evaluated, source)
    assert found.failure is FailureKind.BUILD
    assert re.search(r"undefined symbol: (lost\(float\*\)|_Z4lostPf)", found.message), found.message


def test_a_call_that_the_sandbox_refuses_is_told_as_not_allowed(evaluated: Evaluated) -> None:
    source = kernel("os.sched_setaffinity(0, {0})", "return x")
    found = failed(evaluated, source)
    assert found.failure is FailureKind.CALL
    told = (
        f"kernel.py:{line_of(source, 'sched')}: not allowed here: os.sched_setaffinity(0, {{0}}) "
        "(PermissionError: [Errno 1] Operation not permitted)"
    )
    assert found.message == told


@pytest.mark.parametrize("cached", ["x.shape", "0"])
def test_a_result_of_other_inputs_is_called_cached(evaluated: Evaluated, cached: str) -> None:
    source = kernel(
        f"if {cached} not in self.kept:",
        f"    self.kept[{cached}] = torch.softmax(x, -1)",
        f"return self.kept[{cached}]",
    )
    found = failed(evaluated, source)
    assert found.failure is FailureKind.WRONG
    assert "the result of other inputs came back, so something is cached" in found.message


def test_a_process_killed_while_memory_ran_out_is_told_the_limit(
    evaluated: Evaluated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = tmp_path / "vmstat"
    counter.write_text("pgfault 3\noom_kill 1\n")
    monkeypatch.setattr(worker, "OOM_KILLS", counter)
    died = worker.Worker._died

    def after_a_kill(self: worker.Worker, activity: str) -> worker.ChildFailed:
        counter.write_text("pgfault 3\noom_kill 2\n")
        return died(self, activity)

    waits = worker.Worker._await_answer

    def kill_when_called(
        self: worker.Worker, deadline_s: float, activity: str, *, compile_s: float = 0.0
    ) -> None:
        if activity == "being called":
            os.kill(self.pid, signal.SIGKILL)
        waits(self, deadline_s, activity, compile_s=compile_s)

    monkeypatch.setattr(worker.Worker, "_died", after_a_kill)
    monkeypatch.setattr(worker.Worker, "_await_answer", kill_when_called)
    found = failed(evaluated, kernel("import time; time.sleep(1)", "return x"))
    assert found.failure is FailureKind.CRASH
    told = r"the process was killed for memory \(limit \d+\.\d GiB\) while being called"
    assert re.fullmatch(told, found.message), found.message


BROKEN = CPP.replace("std::exp(", "std::exq(")


def line_of(source: str, text: str) -> int:
    return next(number for number, line in enumerate(source.splitlines(), 1) if text in line)


def test_an_excerpt_keeps_the_indentation_of_its_first_line(evaluated: Evaluated) -> None:
    excerpt = "    x = tl.load(p)\n        ^\nNameError: tl"
    told = failed(evaluated, f"print({excerpt!r})\nraise ValueError\n")
    assert told.detail.endswith(f"printed:\n{excerpt}")


TWICE = "static double e(double x) { return std::exq(x); }"
ESCAPED = CPP.replace('r"""', '"""').replace(
    'extern "C"', f'// \\t "\n{TWICE}\n{TWICE}\nextern "C"', 1
)
TOGETHER = BROKEN.replace("compile_cpp(SOURCE,", "compile_cpp('#define A 1\\n' + SOURCE,")
MADE = CPP.replace("compile_cpp(SOURCE,", "compile_cpp(SOURCE.replace('std::exp', 'std::exq'),")


@pytest.mark.parametrize(
    ("source", "at", "line"),
    [
        (BROKEN, "exq", "8: "),
        (ESCAPED, "exq", ""),
        (TOGETHER, "exq", "9: "),
        (MADE, "compile_cpp(SOURCE", "8"),
    ],
    ids=["as it stands", "with escapes", "found by its text", "in no line of the file"],
)
def test_an_error_in_cpp_is_at_its_line_of_the_file(
    evaluated: Evaluated, source: str, at: str, line: str
) -> None:
    found = failed(evaluated, source)
    assert found.failure is FailureKind.BUILD
    assert found.message.startswith(f"kernel.py:{line_of(source, at)}: C++ line {line}")
    assert "exq" in found.detail
    put_together = "(that line of C++ is put together by the file: for (long c = 0"
    assert (put_together in found.message) is (source == MADE)


SPREADS = module("x, w", "return x @ w", "torch.randn(24, 16), torch.randn(16, 8)")


@pytest.mark.parametrize(
    "body",
    [
        "return torch.nan_to_num(x) @ w",
        "assert x.isfinite().all(); return x @ w",
        "import os; x.isfinite().all() or os.abort(); return x @ w",
    ],
    ids=["other values", "raises", "crashes"],
)
@pytest.mark.parametrize("values", ["finite", "any"])
def test_a_difference_at_infinities_and_nan_is_a_note_by_default(
    evaluated: Evaluated, body: str, values: str
) -> None:
    task = quick_task(Correctness(trials=1, values=values))  # type: ignore[arg-type]
    kernel = SPREADS.replace("Model(", "ModelNew(").replace("return x @ w", body)
    found = evaluated(task, SPREADS, kernel, timed=False)
    if values == "any":
        assert found.outcome is Outcome.FAILED
        assert not found.notes
        if "nan_to_num" in body:
            told = '; all finite values match; with values = "finite" under [correctness]'
            assert told in found.message
        return
    assert found.outcome is Outcome.CORRECT, found.message
    (note,) = found.notes
    assert note.endswith('; it counts only with values = "any" under [correctness] in task.toml')
    assert "(inputs: NaN" in note or "(inputs: infinities" in note
    noted = [each for each in found.errors if each.note == "wrong; it does not count"]
    assert noted
    assert all(each.error is None for each in noted)
