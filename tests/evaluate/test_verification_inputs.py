"""Unusual values and hidden shapes: what they are, and when they would be unfair."""

from __future__ import annotations

import copy
import functools
import math
import random
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from akg_tui.core.measurement import FailureKind, Measurement, Outcome
from akg_tui.core.task import Correctness
from akg_tui.evaluate import correctness, hidden_shapes, verification_inputs
from akg_tui.evaluate.child import kernel_weights, unusual_values
from akg_tui.evaluate.child.kernel_weights import perturb_parameters
from akg_tui.evaluate.child.unusual_values import Alteration, InputChange, ValueKind
from akg_tui.evaluate.protocol import tensor_layout as layouts
from akg_tui.evaluate.protocol.tensor_layout import FLOAT8, computable
from benchmarks.judge.ordinary.windows import module, pair
from tests.judging import Evaluated, quick_task

TALL = ((64, 256), (256,))


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(st.integers(0, 1000))
def test_hidden_shapes_are_small_odd_and_keep_what_belongs_together(seed: int) -> None:
    free = hidden_shapes.dimensions(TALL)
    for first, second in hidden_shapes.hidden_shapes(TALL, free, random.Random(seed)):
        assert first[1] == second[0]  # one dimension, two places
        assert (first, second) != TALL
        assert math.prod(first) <= 2 * hidden_shapes.SMALL
    odd, one, *larger = hidden_shapes.hidden_shapes(TALL, free, random.Random(seed))
    assert odd[0][0] % 2 == odd[0][1] % 2 == 1
    assert 1 in one[0]
    assert any(shapes[0][0] > 64 for shapes in larger)
    assert any(shapes[0][1] > 256 for shapes in larger)


def test_without_a_free_dimension_there_is_no_hidden_shape() -> None:
    assert hidden_shapes.hidden_shapes(TALL, [], random.Random(0)) == []


def test_a_long_tensor_is_cut_down() -> None:
    long = ((1 << 24,),)
    for hidden in hidden_shapes.hidden_shapes(
        long, hidden_shapes.dimensions(long), random.Random(0)
    )[:2]:
        assert hidden[0][0] <= hidden_shapes.SMALL


def applied(kind: ValueKind, value: torch.Tensor, rng: torch.Generator) -> torch.Tensor | None:
    made = unusual_values.apply(kind, [value], rng)
    if made is None:
        return None
    assert isinstance(made[0], torch.Tensor)
    return made[0]


@pytest.mark.parametrize("kind", sorted(unusual_values.FLOATING))
@pytest.mark.parametrize(
    "dtype",
    [
        *(torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.complex64),
        *FLOAT8,
    ],
)
def test_every_case_keeps_shape_and_dtype_and_changes_no_input_in_place(
    kind: ValueKind, dtype: torch.dtype
) -> None:
    x = torch.randn(6, 10, generator=rng()).to(dtype)
    for value in (x, x[0], x[0, 0]):
        before = value.clone()
        holds_them = dtype not in FLOAT8 or dtype is torch.float8_e5m2
        made = applied(kind, value, rng(1))
        if made is None:  # one number is constant, and at the end of its range
            assert value.dim() == 0 or (kind is ValueKind.INFINITE and not holds_them)
            continue
        assert (made.shape, made.dtype) == (value.shape, value.dtype)
        assert torch.equal(value, before)
        finite = bool(torch.isfinite(computable(made)).all())
        infinite = kind is ValueKind.INFINITE and holds_them
        assert finite is not (kind is ValueKind.NAN or infinite)


@pytest.mark.parametrize("dtype", FLOAT8)
@pytest.mark.parametrize("alteration", [*Alteration])
def test_an_input_in_8_bits_is_altered(alteration: Alteration, dtype: torch.dtype) -> None:
    value, other = (torch.randn(64, 32, generator=rng(seed)).to(dtype) for seed in (0, 1))
    change = InputChange(0, alteration, 1)
    made = unusual_values.altered(change, [value, 1], lambda: [other, 2], rng(2))
    assert made is not None
    assert isinstance(made[0], torch.Tensor)
    assert made[0].dtype == dtype
    repeated = alteration is Alteration.REPEATED
    assert unusual_values.same_value(made[0], value) is repeated
    assert made[1] == (2 if repeated else 1)


def test_large_values_in_8_bits_are_at_the_ends_of_the_range() -> None:
    x = (torch.randn(6, 64, generator=rng()) * 100).to(torch.float8_e4m3fn)
    large = applied(ValueKind.LARGE, x, rng(1))
    assert large is not None
    assert large.half().abs().max() == 448
    assert ValueKind.INFINITE not in unusual_values.possible("any", [x.dtype])
    assert ValueKind.INFINITE in unusual_values.possible("any", [x.dtype, torch.float8_e5m2])


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_a_gate_saturates_at_either_end_of_numbers_of_both_signs(scale: float) -> None:
    x = scale * torch.randn(6, 64, generator=rng())
    high, low = (applied(kind, x, rng()) for kind in (ValueKind.HIGH, ValueKind.LOW))
    assert high is not None
    assert low is not None
    assert float(torch.sigmoid(high).prod(-1).min()) > 0.99  # a decay of 64 steps is slow
    assert float(torch.sigmoid(low).max()) < 1e-3


def test_values_of_one_sign_stay_in_their_range_and_most_are_near_an_end() -> None:
    x = torch.rand(6, 256, generator=rng())
    for kind, end in ((ValueKind.HIGH, x.max()), (ValueKind.LOW, x.min())):
        made = applied(kind, x, rng())
        assert made is not None
        assert x.min() <= made.min() <= made.max() <= x.max()
        assert float((made - end).abs().median()) < 1e-3
        # A variance without a second pass is not lost in rounding.
        assert float(made.std(-1).min()) > 0.05


@pytest.mark.parametrize("seed", range(8))
def test_a_sum_in_few_bits_is_wrong_for_scaled_or_for_level_values(seed: int) -> None:
    def error(x: torch.Tensor) -> float:
        total = torch.zeros(x.shape[0], dtype=x.dtype)
        for part in (x * x).view(len(x), -1, 64).unbind(1):
            total += part.sum(-1)
        exact = x.double().square().sum(-1)
        return float(((total - exact).abs() / (exact + exact.square().mean().sqrt())).max())

    # 256 parts of 64, near each of which a sum has a whole number of its steps.
    drawn = torch.randn(8, 16384, generator=rng(seed)).bfloat16()
    assert error(drawn) < 0.0157
    unusual = [
        applied(kind, drawn, rng(seed))
        for kind in (ValueKind.LEVEL, ValueKind.LARGE, ValueKind.SMALL)
    ]
    assert max(error(x) for x in unusual if x is not None) > 0.02


def test_one_input_alone_has_values_of_a_kind_if_that_is_wanted() -> None:
    inputs = [torch.randn(8, 8, generator=rng(seed)) for seed in range(3)]
    made = unusual_values.apply(ValueKind.HIGH, inputs, rng(), argument=1)
    assert made is not None
    assert [unusual_values.same_value(*pair) for pair in zip(made, inputs, strict=True)] == [
        True,
        False,
        True,
    ]


BLOCKS = (Alteration.BLOCK, Alteration.PEAK, Alteration.START, Alteration.END)


@given(st.sampled_from(BLOCKS), st.integers(0, 2), st.integers(0, 1000))
def test_a_block_is_a_run_along_its_axis_at_a_place(
    alteration: Alteration, axis: int, seed: int
) -> None:
    value, fresh = (torch.randn(12, 5, 30, generator=rng(at)) for at in (0, 1))
    change = InputChange(0, alteration, axis)
    made = unusual_values.altered(change, [value], lambda: [fresh], rng(seed))
    assert made is not None
    assert isinstance(made[0], torch.Tensor)
    places = (made[0] != value).nonzero()
    first, last = places.amin(0), places.amax(0)
    assert len(places) == math.prod((last - first + 1).tolist())  # it is a block
    extent = value.shape[axis]
    assert int(last[axis] - first[axis]) < extent / 2
    if alteration is Alteration.START:
        assert int(first[axis]) == 0
    if alteration is Alteration.END:
        assert int(last[axis]) == extent - 1
    if alteration in (Alteration.START, Alteration.END):
        assert len(places) * extent == value.numel() * int(last[axis] - first[axis] + 1)
    factors = made[0][made[0] != value] / fresh[made[0] != value]
    low, high = (64, 128) if alteration is Alteration.PEAK else (1, 1)
    assert low <= float(factors.min()) <= float(factors.max()) <= high * (1 + 1e-6)
    assert float(factors.max() / factors.min()) < 1 + 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@given(st.integers(0, 1000))
def test_where_one_number_outweighs_all_others_no_sample_has_their_mean(
    dtype: torch.dtype, seed: int
) -> None:
    value = torch.rand(2, 1 << 14, generator=rng()).to(dtype)
    change = InputChange(0, Alteration.ONE)
    made = unusual_values.altered(change, [value], lambda: [value], rng(seed))
    assert made is not None
    assert isinstance(made[0], torch.Tensor)
    assert int((made[0] != value).sum()) == 1
    mean = made[0].double().mean(-1)
    for sample in (made[0][:, ::8], made[0][:, : 1 << 11], made[0][:, seed % 8 :: 8]):
        error = (sample.double().mean(-1) - mean).abs() / (mean + mean.square().mean().sqrt())
        assert float(error.max()) > 0.1


EQUAL_IN_EACH_DRAW = {
    "flags": torch.ones(40, 36).bool(),
    "zeros": torch.zeros(40, 36),
    "the order of time": torch.full((36, 36), -torch.inf).triu(1),
    "one integer": torch.full((40, 36), 7),
    "integers": torch.randint(3, 90, (40, 36), generator=rng()),
    "complex numbers": torch.zeros(40, 36, dtype=torch.complex64),
}


@pytest.mark.parametrize("value", EQUAL_IN_EACH_DRAW.values(), ids=EQUAL_IN_EACH_DRAW)
def test_an_input_that_is_equal_in_each_draw_changes(value: torch.Tensor) -> None:
    change = InputChange(0, Alteration.CHANGED)
    made = unusual_values.altered(change, [value], lambda: [value], rng(1))
    assert made is not None
    assert isinstance(made[0], torch.Tensor)
    assert made[0].dtype is value.dtype
    assert int((made[0] != value).sum()) > value.numel() / 3
    if value is EQUAL_IN_EACH_DRAW["integers"]:
        assert value.min() <= made[0].min() <= made[0].max() <= value.max()


@given(st.integers(-5, 5) | st.floats(-1e6, 1e6), st.integers(0, 100))
def test_another_number_has_the_same_sign(number: float, seed: int) -> None:
    change = InputChange(0, Alteration.CHANGED)
    made = unusual_values.altered(change, [number], lambda: [number], rng(seed))
    assert made is not None
    assert isinstance(made[0], type(number))
    assert made[0] != number
    assert made[0] * number >= 0


def test_integers_go_to_the_ends_of_what_was_drawn() -> None:
    index = torch.randint(3, 90, (50,), generator=rng())
    made = applied(ValueKind.EDGES, index, rng())
    assert made is not None
    low, high = int(index.min()), int(index.max())
    beside = (high - low) // 8
    ends = {*range(low, low + beside + 1), *range(high - beside, high + 1)}
    assert {low, high} <= set(made.tolist()) <= ends
    assert len(set(made.tolist())) > 10
    few = torch.arange(8, dtype=torch.uint8).repeat(6)
    made = applied(ValueKind.EDGES, few, rng())
    assert made is not None
    assert made.dtype is torch.uint8
    assert set(made.tolist()) == {0, 7}


@pytest.mark.parametrize(
    ("values", "has", "has_not"),
    [
        ("any", {ValueKind.NAN, ValueKind.INFINITE, ValueKind.ZEROS}, set()),
        ("finite", {ValueKind.NAN, ValueKind.INFINITE, ValueKind.ZEROS}, set()),
        ("drawn", set(), set(ValueKind)),
    ],
)
def test_a_task_says_how_unusual_values_may_be(
    values: str, has: set[ValueKind], has_not: set[ValueKind]
) -> None:
    possible = set(unusual_values.possible(values, [torch.float32]))
    assert has <= possible
    assert not has_not & possible
    assert unusual_values.possible(values, [torch.bool]) == []


def test_what_hangs_on_a_rounding_is_not_held_against_a_kernel() -> None:
    wide = torch.tensor([[0.1, 0.1, 0.1], [1.0, 2.0, 4.0]], dtype=torch.float64)
    nudged = unusual_values.nudged(wide, wide.float())
    assert isinstance(nudged, torch.Tensor)

    def normed(x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-12).sqrt()

    constant = [normed(each[:1]) for each in (wide.float(), wide.float().double(), nudged)]
    assert correctness.conditioned(constant[:1], constant[1:2], [constant[2:]], None) is None
    other = [normed(each[1:]) for each in (wide.float(), wide, nudged)]
    held = correctness.conditioned(other[:1], other[1:2], [other[2:]], None, random=True)
    assert held is not None
    assert held[0].tolerance < 1e-4


def test_a_long_sum_is_not_judged_where_adding_one_by_one_is_off_by_more_than_the_bound() -> None:
    """The mean of 4,000 equal numbers has errors of equal sign, and the deviation enlarges them."""
    rows = torch.full((2, 4000), 1.7)
    nudged = unusual_values.nudged(rows.double(), rows)
    assert isinstance(nudged, torch.Tensor)

    def normed(x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, x.shape[-1:])

    drawn = torch.randn(2, 4000, generator=torch.Generator().manual_seed(1))
    usual = correctness.bounds([normed(drawn)], [normed(drawn.double())], None, 4000)
    results = ([normed(rows)], [normed(rows.double())], [[normed(nudged)]], None)
    assert correctness.conditioned(*results, 4000, usual=usual) is None
    assert correctness.conditioned(*results, 40, usual=usual) is not None


def test_a_tie_has_no_right_answer() -> None:
    zeros = torch.zeros(1, 5)
    first, other = torch.tensor([0]), torch.tensor([3])
    assert correctness.conditioned([first], [first], [[other]], None) is None
    assert correctness.conditioned([first], [first], [[first]], None) is not None
    nudged = unusual_values.nudged(zeros.double(), zeros)
    assert isinstance(nudged, torch.Tensor)
    assert len(set(nudged.flatten().tolist())) == 5


@pytest.mark.parametrize(
    "nudge",
    [
        unusual_values.nudged,
        functools.partial(unusual_values.nudged_by_place, roundings=1.0),
        functools.partial(unusual_values.nudged_by_place, roundings=-1.0),
    ],
    ids=["each", "place", "place reversed"],
)
def test_a_rounding_leaves_infinities_as_they_are(nudge: Callable[..., torch.Tensor]) -> None:
    value = torch.tensor([[torch.inf, -torch.inf]]).repeat(50, 1)
    assert torch.equal(nudge(value.double(), value), value.double())


def test_strided_layouts_are_not_contiguous_and_hold_the_same_values() -> None:
    tensors = [torch.randn(5, 7), torch.randn(3, 4), torch.randn(9)]
    layout = layouts.strided(layouts.lay_out([tensors[0], 2.5, *tensors[1:], "x"]))
    layout.check()
    import mmap

    memory = mmap.mmap(-1, max(layout.size, 1))
    layouts.store(layout, [tensors[0], 2.5, *tensors[1:], "x"], memory, 0)
    loaded = layouts.load(layout, memory, 0)
    assert [loaded[1], loaded[4]] == [2.5, "x"]
    for given_, back in zip(tensors, (loaded[0], loaded[2], loaded[3]), strict=True):
        assert isinstance(back, torch.Tensor)
        assert torch.equal(given_, back)
        assert not back.is_contiguous()


@pytest.mark.parametrize(
    ("tensor", "lies"),
    [
        (torch.empty(3, 4), "contiguous"),
        (torch.empty(3, 4).t(), "dense"),
        (torch.empty(2, 3, 4).permute(1, 2, 0), "dense"),
        (torch.empty(3, 8)[:, ::2], "strided"),
        (torch.empty(3, 1).expand(3, 4), "strided"),
        (torch.empty(0, 4).t(), "contiguous"),
        (torch.tensor(1.0), "contiguous"),
    ],
)
def test_how_a_tensor_lies(tensor: torch.Tensor, lies: str) -> None:
    assert layouts.stride_class(tensor.shape, tensor.stride()) == lies


FUSSY = module(
    "x, index",
    """
        assert x.shape[0] % 2 == 0
        return self.linear(x.log()).sum(-1)[index]
    """,
    "torch.rand(40, 16) + 0.5, torch.randint(40, (30,))",
    "self.linear = torch.nn.Linear(16, 8)",
)


def found_correct(evaluated: Evaluated, reference: str, **rules: object) -> Measurement:
    task = quick_task(Correctness(trials=1, **rules))  # type: ignore[arg-type]
    kernel = reference.replace("class Model(", "class ModelNew(").replace(
        "assert", "assert True or"
    )
    found = evaluated(task, reference, kernel, timed=False)
    assert found.outcome is Outcome.CORRECT, found
    return found


def test_the_reference_says_which_values_and_shapes_make_sense(evaluated: Evaluated) -> None:
    found = found_correct(evaluated, FUSSY, inputs={"x": "any"})
    notes = {each.name.partition(", shape")[0]: each.note for each in found.errors}
    # The logarithm of values that are not positive is not finite, so they prove nothing.
    assert "the reference has no finite result" in notes["all zeros"]
    assert notes["large values"] == notes["as drawn"] == ""
    shaped = [each.name for each in found.errors if "shape" in each.name]
    # Only the number of indices is free: 16 is the weights', and 40 may not be odd.
    assert shaped
    assert all("[40, 16]" in name for name in shaped)


def test_a_kernel_that_refuses_other_shapes_is_told_of_the_setting(evaluated: Evaluated) -> None:
    reference = module("x", "return x.relu()", "torch.randn(40, 16)")
    kernel = module("x", "assert x.shape[0] == 40; return x.relu()", "torch.randn(40, 16)")
    kernel = kernel.replace("class Model(", "class ModelNew(")
    found = evaluated(quick_task(Correctness(trials=1)), reference, kernel, timed=False)
    assert found.failure is FailureKind.CALL
    assert "fixed_shape = true" in found.message
    found = evaluated(quick_task(Correctness(fixed_shape=True)), reference, kernel, timed=False)
    assert found.outcome is Outcome.CORRECT


def test_a_task_may_fix_its_shape_and_keep_to_what_is_drawn(evaluated: Evaluated) -> None:
    found = found_correct(evaluated, FUSSY, fixed_shape=True, values="drawn")
    # Each input alone is as drawn too, if it is repeated while the others are drawn again.
    alone = {f"'{name}' repeated while the others change" for name in ("x", "index")}
    names = {each.name for each in found.errors}
    assert names == {"as drawn", "the same input again"} | alone


def test_with_a_fixed_shape_unusual_values_come_in_that_shape(evaluated: Evaluated) -> None:
    found = found_correct(evaluated, FUSSY, fixed_shape=True)
    names = {each.name for each in found.errors}
    assert {"large values", "rows of mixed scale", "integers at the ends of their range"} <= names
    assert not [name for name in names if "shape" in name]


def test_every_part_of_an_input_decides_in_the_declared_shape(evaluated: Evaluated) -> None:
    reference = SLOW_REFERENCE.replace("WAIT", "pass")
    found = found_correct(evaluated, reference)
    declared = {each.name: each.note for each in found.errors if "shape" not in each.name}
    always = [ValueKind.LARGE, ValueKind.LEVEL, ValueKind.CONSTANT, ValueKind.SMALL]
    ends = [f"{kind.label} of 'x'" for kind in (ValueKind.HIGH, ValueKind.LOW)]
    blocks = [f"'x' {alteration.label}" for alteration in BLOCKS]
    assert {*(kind.label for kind in always), *ends, *blocks} < {*declared}
    assert [declared[name] for name in ends] == ["", ""]
    assert "'x' alone with other values in a block" in declared


def test_inputs_without_elements_are_judged_too(evaluated: Evaluated) -> None:
    reference = SLOW_REFERENCE.replace("WAIT", "pass").replace("randn(8, 16)", "randn(0, 16)")
    task = quick_task(Correctness(trials=1))
    found = evaluated(task, reference, reference.replace("Model(", "ModelNew("), timed=False)
    assert found.failure is not FailureKind.JUDGE, found


class Untrained(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
        self.linear = torch.nn.Linear(4, 3)
        self.scale = torch.nn.Parameter(torch.tensor(1e-6))
        self.scales = torch.nn.Parameter(torch.full((3,), -1e-6))
        self.phases = torch.nn.Parameter(torch.ones(3, dtype=torch.complex64))
        self.none = torch.nn.Parameter(torch.full((2,), -math.inf))
        self.rotation = torch.nn.Parameter(torch.eye(4))
        self.bounds = torch.nn.Parameter(torch.tensor([-math.inf, 1.0]))
        self.copied = copy.deepcopy(self.linear)
        self.triangle = torch.nn.Parameter(torch.ones(4, 4).tril(), requires_grad=False)
        self.register_buffer("mask", torch.ones(4))


@pytest.mark.parametrize("at_once", [5, kernel_weights.PERTURBED_AT_ONCE])
def test_parameters_are_changed_as_by_training_and_nothing_else(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_weights, "PERTURBED_AT_ONCE", at_once)
    with torch.no_grad():
        torch.manual_seed(0)
        model = Untrained()
        before = {name: value.clone() for name, value in model.state_dict().items()}
        moved = perturb_parameters(model, 5)
        assert set(moved) == {
            "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var", "scale",
            "linear.weight", "linear.bias", "copied.weight", "copied.bias", "rotation", "bounds",
            "scales", "phases",
        }  # fmt: skip
        for name, value in model.state_dict().items():
            assert torch.equal(value, before[name]) is (name not in moved), name
        after = {name: value.clone() for name, value in model.state_dict().items()}
        assert 0.7e-6 < float(after["scale"]) < 1.3e-6
        assert -0.5 < float(after["scales"].min()) < float(after["scales"].max()) < -0.1
        assert (after["phases"].imag != 0).all()
        assert 0.7 < float(after["phases"].real.min()) < float(after["phases"].real.max()) < 1.3
        assert len(set(after["norm.weight"].tolist())) == 4
        assert float(after["norm.running_var"].min()) > 0
        assert not torch.equal(after["copied.weight"], after["linear.weight"])
        assert torch.equal(after["linear.weight"].sign(), before["linear.weight"].sign())
        assert (after["rotation"] != before["rotation"]).all()
        assert float((after["rotation"] - before["rotation"]).abs().max()) <= 0.25
        assert after["bounds"][0] == -math.inf
        assert 0.75 < float(after["bounds"][1]) < 1.25
        torch.manual_seed(0)
        again = Untrained()
        perturb_parameters(again, 5)
        assert all(torch.equal(v, after[name]) for name, v in again.state_dict().items())


MAKES_A_TENSOR, OTHERWISE = pair(
    "x, target",
    """
        total = torch.zeros(24, x.shape[1])
        total.index_add_(0, target, x)
        return F.layer_norm(total, (x.shape[1],))
    """,
    """
        total = torch.zeros(24, x.shape[1])
        total.index_add_(0, target, x)
        centred = total - total.sum(-1, keepdim=True) * (1 / x.shape[1])
        variance = centred.square().sum(-1, keepdim=True) * (1 / x.shape[1])
        return centred * torch.rsqrt(variance + 1e-5)
    """,
    "torch.randn(96, 64), torch.randint(0, 24, (96,))",
)


def test_results_are_exact_where_the_reference_makes_a_tensor_for_them(
    evaluated: Evaluated,
) -> None:
    found = evaluated(quick_task(), MAKES_A_TENSOR, OTHERWISE, timed=False)
    assert found.outcome is Outcome.CORRECT, found
    drawn = next(each for each in found.errors if each.name == "as drawn")
    assert drawn.tolerance is not None
    assert drawn.tolerance < correctness.CEILINGS[torch.float32]


SLOW_REFERENCE = """
import time
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        WAIT
        return torch.softmax(x, -1)


def get_inputs():
    return [torch.randn(8, 16)]
"""
WORKS = "stop = time.thread_time() + 0.02\n        while time.thread_time() < stop: pass"


@pytest.mark.parametrize(
    ("wait", "works"), [("time.sleep(0.02)", False), (WORKS, True)], ids=["waits", "works"]
)
def test_what_a_reference_has_no_time_for_hangs_on_its_work_alone_and_is_told(
    evaluated: Evaluated, monkeypatch: pytest.MonkeyPatch, wait: str, works: bool
) -> None:
    monkeypatch.setattr(verification_inputs, "LATE_CPU_S", 0.1)
    reference = SLOW_REFERENCE.replace("WAIT", wait)
    kernel = SLOW_REFERENCE.replace("Model(", "ModelNew(").replace("WAIT", "pass")
    task = quick_task(Correctness(trials=1))
    found = evaluated(task, reference, kernel, timed=False)
    assert found.outcome is Outcome.CORRECT, found
    notes = [each.note for each in found.errors if each.note]
    late = [note for note in notes if "no time left after" in note]
    # On a busy machine the clock on the wall may end the time first.
    assert late if works else not any("the reference's work" in note for note in late)
    # Every value is told of: tried, or not and why.
    named = " ".join(each.name for each in found.errors)
    assert all(kind.label in named for kind in unusual_values.possible("any", [torch.float32]))
