"""Every input alone decides the result: in the task, and in what a kernel is verified with."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from akg_tui.core.measurement import FailureKind, Measurement, Outcome
from akg_tui.core.task import Correctness
from akg_tui.evaluate import prefetch, verification_inputs
from akg_tui.evaluate.child.unusual_values import ValueKind
from akg_tui.evaluate.evaluation import Evaluations
from akg_tui.evaluate.processes.worker import Zygote
from akg_tui.evaluate.protocol.engine_protocol import Begin
from akg_tui.evaluate.sandbox.protections import offered
from akg_tui.evaluate.verification_inputs import VerificationInputs
from benchmarks.judge.ordinary.windows import module
from tests.judging import Evaluated, quick_task

MASKED = module(
    "x, mask, k, scale",
    "return torch.softmax((x * scale).masked_fill(~mask, -1e9), -1).roll(k, -1)",
    "torch.randn(16, 48), torch.ones(16, 48, dtype=torch.bool), 3, 0.5",
)


def judged(
    evaluated: Evaluated, reference: str, kernel: str | None = None, **rules: object
) -> Measurement:
    checked = quick_task(Correctness(trials=1, **rules))  # type: ignore[arg-type]
    kernel = (kernel or reference).replace("Model(", "ModelNew(")
    return evaluated(checked, reference, kernel, timed=False)


REFUSED = {
    "a mask that decides nothing": (
        "x, mask",
        "return torch.softmax(x, -1) + 0 * mask",
        "torch.randn(8, 32), torch.ones(8, 32, dtype=torch.bool)",
        "'mask' decides nothing",
    ),
    "a constant number": ("x, k", "return torch.softmax(x, -1)", "torch.randn(8, 32), 4", "'k'"),
    "a scale": ("x, s", "return x.abs() + 0 * s", "torch.randn(8, 32), 1e-12", "'s'"),
    "a number beside few results": (
        "x, k",
        "return x.exp().sum(-1)",
        "torch.randn(8, 32), 4",
        "'k'",
    ),
    "an index": (
        "x, index",
        "return x.exp() + 0 * index",
        "torch.randn(8, 32), torch.randint(9, (8, 1))",
        "'index'",
    ),
    "a small bias": (
        "x, bias",
        "return x.exp() + bias * 1e-9",
        "torch.randn(8, 32), torch.randn(32)",
        "'bias' decides nothing",
    ),
    "names unknown": (
        "*given",
        "return given[0].exp()",
        "torch.randn(8, 32), torch.randn(32)",
        "input 1 decides nothing",
    ),
}


@pytest.mark.parametrize(("parameters", "body", "inputs", "says"), REFUSED.values(), ids=REFUSED)
def test_an_input_that_decides_nothing_is_refused(
    evaluated: Evaluated, parameters: str, body: str, inputs: str, says: str
) -> None:
    found = judged(evaluated, module(parameters, body, inputs))
    assert (found.outcome, found.failure) == (Outcome.ERROR, FailureKind.REFERENCE), found
    assert says in found.message
    assert "[correctness] free_inputs = [" in found.message


@pytest.mark.parametrize(
    ("name", "free"), [("a mask that decides nothing", "mask"), ("names unknown", 1)]
)
def test_a_task_may_declare_such_an_input_free(
    evaluated: Evaluated, name: str, free: str | int
) -> None:
    found = judged(evaluated, module(*REFUSED[name][:3]), free_inputs=(free,))
    assert found.outcome is Outcome.CORRECT, found


@pytest.mark.parametrize("unknown", ["maks", 4])
def test_a_free_input_that_does_not_exist_is_named(
    evaluated: Evaluated, unknown: str | int
) -> None:
    found = judged(evaluated, MASKED, free_inputs=(unknown,))
    assert found.outcome is Outcome.ERROR
    assert found.message == (
        f"task.toml: correctness.free_inputs: forward() has no input {unknown!r}, "
        "it has: 'x', 'mask', 'k', 'scale'"
    )


ACCEPTED = {
    "one maximum": ("x", "return x.max()", "torch.randn(200)"),
    "positions": ("x", "return x.argmax(-1)", "torch.randn(8, 32)"),
    "a part of a shape": ("x, n", "return x.view(n, -1).sum(0)", "torch.randn(64), 8"),
    "an index": ("x, at", "return x[at]", "torch.randn(64), torch.randint(64, (5,))"),
    "one element": ("x, y", "return x.exp() * y", "torch.randn(64), torch.randn(1)"),
    "a logarithm": ("x", "return x.log()", "torch.rand(64) + 0.1"),
    "ones": ("x, w", "return x.exp() * w", "torch.randn(8, 64), torch.ones(64)"),
    "a mean in single precision": ("x", "return x.mean(-1)", "torch.rand(8, 60_000)"),
    "a small number": ("x, eps", "return x / (x.norm() + eps)", "torch.randn(64), 1e-6"),
    "no elements": ("x, y", "return torch.cat([x.exp(), y])", "torch.randn(64), torch.empty(0)"),
    "a number of NumPy": (
        "x, n",
        "return x.view(n, -1).sum(0)",
        "torch.randn(64), __import__('numpy').int64(8)",
    ),
    "a mode": ("x, how", "return x.exp() if how == 'e' else x", "torch.randn(64), 'e'"),
}  # fmt: skip


@pytest.mark.parametrize(("parameters", "body", "inputs"), ACCEPTED.values(), ids=ACCEPTED)
def test_inputs_that_decide_are_accepted(
    evaluated: Evaluated, parameters: str, body: str, inputs: str
) -> None:
    found = judged(evaluated, module(parameters, body, inputs), values="drawn", fixed_shape=True)
    assert found.outcome is Outcome.CORRECT, found


def test_an_input_of_few_elements_may_decide_in_every_second_draw(evaluated: Evaluated) -> None:
    body = "return torch.where(x > 0, y.exp(), z.exp()) * x"
    drawn = "next(SIGNS) * torch.rand(1), torch.randn(1), torch.randn(1)"
    alternating = module("x, y, z", body, drawn).replace(
        "import torch\n", "import itertools\nimport torch\n\nSIGNS = itertools.cycle((1, -1))\n"
    )
    found = judged(evaluated, alternating, values="drawn", fixed_shape=True)
    assert found.outcome is Outcome.CORRECT, found


@pytest.mark.parametrize("flag", ["True", "torch.tensor([True])"])
def test_a_flag_may_decide_in_every_second_draw(evaluated: Evaluated, flag: str) -> None:
    body = """
        sums = torch.zeros(4, x.shape[1]).index_add(0, at, x)
        return sums / at.bincount(minlength=4).clamp(min=1)[:, None] if mean else sums
    """
    alternating = module(
        "x, at, mean", body, f"torch.randn(3, 1024), next(PLACES), {flag}"
    ).replace(
        "import torch\n",
        "import itertools\nimport torch\n\n"
        "PLACES = itertools.cycle((torch.tensor([2, 1, 1]), torch.tensor([0, 1, 2])))\n",
    )
    found = judged(evaluated, alternating, values="drawn", fixed_shape=True)
    assert found.outcome is Outcome.CORRECT, found


def test_a_slow_reference_is_not_altered_for_long(
    evaluated: Evaluated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification_inputs, "LATE_CPU_S", 0.25)
    wait = "end = time.thread_time() + 0.05\n        while time.thread_time() < end: pass\n        "
    fast = module("*given", "return 2 * sum(given)", "torch.randn(64), " * 250)
    slow = fast.replace("return 2", f"{wait}return 2")
    slow = slow.replace("import torch\n", "import time\nimport torch\n", 1)
    found = judged(evaluated, slow, fast, values="drawn", fixed_shape=True)
    assert found.outcome is Outcome.CORRECT, found
    assert found.elapsed_s < 20  # all 500 alterations would take 25 s or more


CACHES = """
        if self.key is None or not torch.equal(self.key, KEY):
            self.key, self.kept = KEY.clone(), x @ w
        return self.kept if self.kept.shape == (x @ w).shape else x @ w
"""
PRODUCT = module("x, w", "return x @ w", "torch.randn(12, 20), torch.randn(20, 16)")
WRONG = {
    "the mask": (MASKED, MASKED.replace(".masked_fill(~mask, -1e9)", ""), "'mask' alone with "),
    "an integer": (MASKED, MASKED.replace("roll(k,", "roll(3,"), "'k' alone with other values"),
    "a number": (MASKED, MASKED.replace("x * scale", "x / 2"), "'scale' alone with other"),
    "all but the first input": (PRODUCT, "x", "'x' repeated while the others change"),
    "all but the second input": (PRODUCT, "w", "'w' repeated while the others change"),
}


@pytest.mark.parametrize(("reference", "kernel", "says"), WRONG.values(), ids=WRONG)
def test_a_kernel_that_ignores_an_input_is_wrong(
    evaluated: Evaluated, reference: str, kernel: str, says: str
) -> None:
    if len(kernel) == 1:
        kernel = PRODUCT.replace("        return x @ w\n", CACHES.replace("KEY", kernel)).replace(
            "    def forward", "    key = None\n\n    def forward"
        )
        # Unusual values, in random order, may find it earlier.
        found = judged(evaluated, reference, kernel, values="drawn", fixed_shape=True)
    else:
        found = judged(evaluated, reference, kernel)
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.WRONG), found
    assert f"(inputs: {says}" in found.message


def test_a_sample_of_an_input_that_is_always_equal_does_not_stand_for_it(
    evaluated: Evaluated,
) -> None:
    body, inputs = "return torch.softmax(x + table, -1)", "torch.randn(16, 48), torch.zeros(16, 48)"
    reference = module("x, table", body, inputs)
    seen = "bool(table[::8, ::24].any())"
    sampled = f"x + table if len(x) != 16 or {seen} else x"
    kernel = reference.replace("x + table", sampled)
    found = judged(evaluated, reference, kernel, values="finite")
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.WRONG), found
    assert "(inputs: 'table' alone with " in found.message


def test_each_input_alone_is_told_of(evaluated: Evaluated) -> None:
    found = judged(evaluated, MASKED)
    assert found.outcome is Outcome.CORRECT, found
    alone = {each.name for each in found.errors if "'" in each.name}
    assert alone == {
        "values at the upper end of 'x'",
        "values at the lower end of 'x'",
        "'x' repeated while the others change",
        "'x' alone with other values in a block",
        "'x' alone with large values in a block",
        "'x' alone with other values at its start",
        "'x' alone with other values at its end",
        "'mask' repeated while the others change",
        "'mask' alone with other values",
        "'mask' alone with other values in a block",
        "'k' alone with other values",
        "'scale' alone with other values",
    }


def test_values_that_the_reference_refuses_are_skipped_and_told(evaluated: Evaluated) -> None:
    fussy = MASKED.replace("        return", "        assert k == 3\n        return")
    found = judged(evaluated, fussy, free_inputs=("mask", "scale"))
    assert found.outcome is Outcome.CORRECT, found
    notes = {each.name: each.note for each in found.errors}
    assert notes["'k' alone with other values"] == "not tried: the reference refuses these values"


def test_with_drawn_values_only_inputs_are_repeated_and_not_changed(evaluated: Evaluated) -> None:
    found = judged(evaluated, MASKED, values="drawn")
    assert found.outcome is Outcome.CORRECT, found
    alone = {each.name for each in found.errors if "'" in each.name}
    assert alone == {f"'{name}' repeated while the others change" for name in ("x", "mask")}


def drawn_inputs(
    zygote: Zygote, folder: Path, reference: str, **rules: object
) -> tuple[Evaluations, VerificationInputs]:
    checked = quick_task(Correctness(trials=1, **rules))  # type: ignore[arg-type]
    begin = Begin(task=checked, reference=reference, engine=os.getpid())
    shared = Evaluations(begin, folder, zygote, offered())
    (case,) = shared.cases
    case.reference.examine()
    return shared, case.prefetched.verification_inputs()


def test_a_slow_reference_still_draws_a_slow_decay_a_constant_and_a_block_of_its_shape(
    zygote: Zygote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch, "UNUSUAL_CPU_S", 1e-6)
    monkeypatch.setattr(verification_inputs, "LATE_CPU_S", 1e6)
    shared, drawn = drawn_inputs(zygote, tmp_path, MASKED)
    names = [given.name for group in drawn.unusual for given in group.inputs]
    kinds = {kind.label for kind in verification_inputs.ALWAYS}
    assert kinds < {*names}
    assert any(name.endswith(" end of 'x'") for name in names)
    assert any(name.startswith("'x' alone with other values at its ") for name in names)
    assert not any("shape" in name for name in names)
    assert drawn.skipped
    drawn.close()
    shared.clean_up(keep=False)


@pytest.mark.usefixtures("ample_time")
@pytest.mark.parametrize(
    ("dtype", "names"),
    [
        ("float32", r".* end of 'x'; 'x' alone with other values at its (start|end)"),
        ("bfloat16", "as drawn; 'x' alone with one number that outweighs all others"),
    ],
)
def test_where_memory_is_scarce_two_unusual_inputs_of_the_declared_shape_are_drawn(
    zygote: Zygote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, names: str
) -> None:
    monkeypatch.setattr(verification_inputs, "DECLARED_BYTES", 1)
    reference = MASKED.replace("torch.randn(16, 48)", f"torch.randn(16, 48, dtype=torch.{dtype})")
    shared, drawn = drawn_inputs(zygote, tmp_path, reference)
    shapes = shared.cases[0].reference.description.shapes
    groups = [group for group in drawn.unusual if group.draw.description.shapes == shapes]
    assert re.fullmatch(names, "; ".join(given.name for group in groups for given in group.inputs))
    drawn.close()
    shared.clean_up(keep=False)


@pytest.fixture
def ample_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every unusual input is drawn, however slow the machine is."""
    monkeypatch.setattr(prefetch, "UNUSUAL_CPU_S", 60.0)


@pytest.mark.usefixtures("ample_time")
def test_inputs_of_the_declared_shape_come_in_the_order_of_their_calls(
    zygote: Zygote, tmp_path: Path
) -> None:
    shared, drawn = drawn_inputs(zygote, tmp_path, MASKED)
    turns = [[given.name for given in turn] for turn in drawn.like_ordinary()]
    assert [ValueKind.LARGE.label] in turns
    pairs = [turn for turn in turns if len(turn) == 2]
    assert ["as drawn", "'mask' alone with other values"] in pairs
    assert ["values at the upper end of 'x'", "'x' alone with other values at its start"] in pairs
    assert not [name for turn in turns for name in turn if "shape" in name]
    drawn.close()
    shared.clean_up(keep=False)
