"""Every input alone decides the result: in the task, and in what a kernel is verified with."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
import torch

from akg_tui.core.measurement import FailureKind, Measurement, Outcome
from akg_tui.core.task import Correctness
from akg_tui.evaluate import prefetch, task_lint, verification_inputs
from akg_tui.evaluate.child import tensor_layout as layouts
from akg_tui.evaluate.child import unusual_values
from akg_tui.evaluate.child.unusual_values import Alteration, InputChange, ValueKind
from akg_tui.evaluate.engine_protocol import Begin
from akg_tui.evaluate.evaluation import Evaluations
from akg_tui.evaluate.processes.worker import Zygote
from akg_tui.evaluate.sandbox.protections import offered
from akg_tui.evaluate.verification_inputs import VerificationInputs
from tests.evaluate.conftest import Evaluated, quick_task


def task(parameters: str, body: str, inputs: str) -> str:
    return f"""
import torch


class Model(torch.nn.Module):
    def forward(self, {parameters}):
        {body}


def get_inputs():
    return [{inputs}]
"""


MASKED = task(
    "x, mask, k, scale",
    "return torch.softmax((x * scale).masked_fill(~mask, -1e9), -1).roll(k, -1)",
    "torch.randn(16, 48), torch.ones(16, 48, dtype=torch.bool), 3, 0.5",
)


def judged(
    evaluated: Evaluated, reference: str, kernel: str | None = None, **rules: object
) -> Measurement:
    checked = msgspec.structs.replace(quick_task(), correctness=Correctness(trials=1, **rules))  # type: ignore[arg-type]
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
    "half of a mean": (
        "x",
        "return x.mean(-1)",
        "(torch.rand(8, 60_000) + 3 * torch.rand(8, 1)).bfloat16()",
        "half of 'x' decides nothing",
    ),
}


@pytest.mark.parametrize(("parameters", "body", "inputs", "says"), REFUSED.values(), ids=REFUSED)
def test_an_input_that_decides_nothing_is_refused(
    evaluated: Evaluated, parameters: str, body: str, inputs: str, says: str
) -> None:
    found = judged(evaluated, task(parameters, body, inputs))
    assert (found.outcome, found.failure) == (Outcome.ERROR, FailureKind.REFERENCE), found
    assert says in found.message
    assert "[correctness] free_inputs = [" in found.message


@pytest.mark.parametrize(
    ("name", "free"),
    [
        ("a mask that decides nothing", "mask"),
        ("a constant number", "k"),
        ("a small bias", 1),
        ("names unknown", 1),
        ("half of a mean", "x"),
    ],
)
def test_a_task_may_declare_such_an_input_free(
    evaluated: Evaluated, name: str, free: str | int
) -> None:
    found = judged(evaluated, task(*REFUSED[name][:3]), free_inputs=(free,))
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
    found = judged(evaluated, task(parameters, body, inputs), values="drawn", fixed_shape=True)
    assert found.outcome is Outcome.CORRECT, found


def test_an_input_of_few_elements_may_decide_in_every_second_draw(evaluated: Evaluated) -> None:
    body = "return torch.where(x > 0, y.exp(), z.exp()) * x"
    drawn = "next(SIGNS) * torch.rand(1), torch.randn(1), torch.randn(1)"
    alternating = task("x, y, z", body, drawn).replace(
        "import torch\n", "import itertools\nimport torch\n\nSIGNS = itertools.cycle((1, -1))\n"
    )
    found = judged(evaluated, alternating, values="drawn", fixed_shape=True)
    assert found.outcome is Outcome.CORRECT, found


@pytest.mark.parametrize("flag", ["True", "torch.tensor([True])"])
def test_a_flag_may_decide_in_every_second_draw(evaluated: Evaluated, flag: str) -> None:
    body = """sums = torch.zeros(4, x.shape[1]).index_add(0, at, x)
        return sums / at.bincount(minlength=4).clamp(min=1)[:, None] if mean else sums"""
    alternating = task("x, at, mean", body, f"torch.randn(3, 1024), next(PLACES), {flag}").replace(
        "import torch\n",
        "import itertools\nimport torch\n\n"
        "PLACES = itertools.cycle((torch.tensor([2, 1, 1]), torch.tensor([0, 1, 2])))\n",
    )
    found = judged(evaluated, alternating, values="drawn", fixed_shape=True)
    assert found.outcome is Outcome.CORRECT, found


def test_a_slow_reference_is_not_altered_for_long(evaluated: Evaluated) -> None:
    wait = "end = time.thread_time() + 0.1\n        while time.thread_time() < end: pass\n        "
    slow = task("*given", wait + "return 2 * sum(given)", "torch.randn(64), " * 250)
    slow = slow.replace("import torch\n", "import time\nimport torch\n", 1)
    found = judged(evaluated, slow, values="drawn", fixed_shape=True)
    assert found.outcome is Outcome.CORRECT, found
    assert found.elapsed_s < 30  # all 500 alterations would take 50 s or more


def test_halving_keeps_one_of_each_pair() -> None:
    x = torch.arange(24.0).view(2, 12)
    change = InputChange(0, Alteration.HALVED, 1)
    rng = torch.Generator().manual_seed(0)
    made = unusual_values.altered(change, [x], lambda: [x], rng)
    assert made is not None
    assert isinstance(made[0], torch.Tensor)
    for row, before in zip(made[0].tolist(), x.tolist(), strict=True):
        assert set(row) < set(before)
        assert sorted(row) == sorted(2 * list(dict.fromkeys(row)))


def test_positions_of_free_inputs() -> None:
    assert task_lint.free_positions(("b", 0), ("a", "b"), 2) == {0, 1}
    assert isinstance(task_lint.free_positions(("c",), ("a", "b"), 2), task_lint.Fault)
    assert isinstance(task_lint.free_positions((2,), (), 2), task_lint.Fault)


CACHES = """
        if self.key is None or not torch.equal(self.key, KEY):
            self.key, self.kept = KEY.clone(), x @ w
        return self.kept if self.kept.shape == (x @ w).shape else x @ w
"""
PRODUCT = task("x, w", "return x @ w", "torch.randn(12, 20), torch.randn(20, 16)")
WRONG = {
    "the mask": (MASKED, MASKED.replace(".masked_fill(~mask, -1e9)", ""), "'mask' alone flipped"),
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
    reference = task("x, table", body, inputs)
    # It sees one large value too, and the ones of outliers, which are in the table by chance.
    seen = "bool(table[:, ::12].any()) or float(table.amax()) > 2 or bool((table == 1).any())"
    sampled = f"x + table if len(x) != 16 or {seen} else x"
    kernel = reference.replace("x + table", sampled)
    found = judged(evaluated, reference, kernel, values="finite")
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.WRONG), found
    assert "(inputs: 'table' alone with other values in few elements" in found.message


def test_each_input_alone_is_told_of(evaluated: Evaluated) -> None:
    found = judged(evaluated, MASKED)
    assert found.outcome is Outcome.CORRECT, found
    alone = {each.name for each in found.errors if "'" in each.name}
    assert alone == {
        "'x' repeated while the others change",
        "'x' alone with other values in few elements",
        "'mask' repeated while the others change",
        "'mask' alone flipped at random",
        "'mask' alone flipped in one short run",
        "'mask' alone flipped in few elements",
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
    checked = msgspec.structs.replace(quick_task(), correctness=Correctness(trials=1, **rules))  # type: ignore[arg-type]
    begin = Begin(task=checked, reference=reference, engine=os.getpid())
    shared = Evaluations(begin, folder, zygote, offered())
    (case,) = shared.cases
    case.reference.examine()
    return shared, case.prefetched.verification_inputs()


def test_a_slow_reference_still_draws_three_unusual_and_one_altered_input_of_its_shape(
    zygote: Zygote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch, "UNUSUAL_CPU_S", 1e-6)
    monkeypatch.setattr(verification_inputs, "LATE_TIMES", 1e8)
    shared, drawn = drawn_inputs(zygote, tmp_path, MASKED)
    names = [
        given.name
        for group in drawn.unusual
        for given in group.inputs
        if given.name != ValueKind.DRAWN.label
    ]
    altered = [name for name in names if "'" in name]
    assert altered == ["'mask' alone flipped in few elements"]
    assert sorted({*names} - {*altered}) == sorted(
        kind.label for kind in (ValueKind.PATCHWORK, ValueKind.PLACED, ValueKind.NEEDLE)
    )
    assert not any("shape" in name or "repeated" in name for name in names)
    assert drawn.skipped
    drawn.close()
    shared.clean_up(keep=False)


@pytest.mark.usefixtures("ample_time")
def test_where_memory_is_scarce_one_unusual_input_of_the_declared_shape_is_drawn(
    zygote: Zygote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification_inputs, "DECLARED_BYTES", (1, 1))
    shared, drawn = drawn_inputs(zygote, tmp_path, MASKED)
    shapes = shared.cases[0].reference.description.shapes
    groups = [group for group in drawn.unusual if group.draw.description.shapes == shapes]
    names = [given.name for group in groups for given in group.inputs]
    altered = {name for name in names if "'" in name}
    assert 1 <= len(altered) <= 2
    assert {*names} - altered - {ValueKind.DRAWN.label} == {ValueKind.PATCHWORK.label}
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
    assert ["as drawn"] not in turns
    assert ["rows of many kinds"] in turns
    pairs = [turn for turn in turns if len(turn) == 2]
    assert len(pairs) == 6
    assert all(before == "as drawn" and "'" in altered for before, altered in pairs)
    assert not [name for turn in turns for name in turn if "shape" in name]
    drawn.close()
    shared.clean_up(keep=False)


@pytest.mark.usefixtures("ample_time")
@pytest.mark.parametrize(("dtype", "least", "most"), [("float32", 1, 1), ("bfloat16", 4, 64)])
def test_as_few_elements_change_as_decide_the_result(
    zygote: Zygote, tmp_path: Path, dtype: str, least: int, most: int
) -> None:
    # One of 600 terms changes a mean by less than its rounding to bfloat16.
    reference = task(
        "x, mask",
        f"return (x * mask).mean(-1).to(torch.{dtype})",
        "1 + torch.rand(8, 600) + torch.rand(8, 1), torch.ones(8, 600, dtype=torch.bool)",
    )
    shared, drawn = drawn_inputs(zygote, tmp_path, reference, free_inputs=("x",))
    few = [
        layouts.load(
            given.draw.description.inputs,
            given.draw.inputs.map,
            given.item * given.draw.description.inputs.size,
        )[1]
        for group in drawn.unusual
        for given in group.inputs
        if "few elements" in given.name
    ]
    assert len(few) == 5
    for mask in few:
        assert isinstance(mask, torch.Tensor)
        assert least <= int((~mask).sum()) <= most
    drawn.close()
    shared.clean_up(keep=False)


@pytest.mark.usefixtures("ample_time")
def test_a_norm_from_each_second_block_of_long_rows_is_wrong_if_values_follow_their_place(
    zygote: Zygote, tmp_path: Path
) -> None:
    reference = task(
        "x",
        "return torch.nn.functional.rms_norm(x, (x.shape[-1],), eps=1e-6)",
        "3 * torch.randn(8, 65536).bfloat16()",
    )
    shared, drawn = drawn_inputs(zygote, tmp_path, reference)
    found: dict[str, list[bool]] = {}
    for given in (given for group in [drawn.ordinary, *drawn.unusual] for given in group.inputs):
        layout = given.draw.description.inputs
        (x,) = layouts.load(layout, given.draw.inputs.map, given.item * layout.size)
        assert isinstance(x, torch.Tensor)
        if x.shape != (8, 65536):
            continue
        rows = x.float()
        for seen in (rows, rows.view(8, -1, 2, 512)[:, :, 0].flatten(1)):
            size = seen.square().mean(-1, keepdim=True)
            result = (rows * torch.rsqrt(size + 1e-6)).bfloat16()
            found.setdefault(given.name, []).append(given.accepts([result]))
    assert found["as drawn"] == [True, True]
    placed = found[ValueKind.PLACED.label]
    assert placed[::2] == [True, True]  # all of a row
    assert not all(placed[1::2])  # a half of it
    drawn.close()
    shared.clean_up(keep=False)
