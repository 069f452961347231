"""The comparison: what counts as equal, and what never does."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from akg_tui.core.measurement import InputError
from akg_tui.evaluate import correctness
from akg_tui.evaluate.child import unusual_values
from akg_tui.evaluate.child.tensor_layout import FLOAT8
from akg_tui.evaluate.correctness import CEILINGS, FLOORS, Alternatives, Bound, Comparison
from akg_tui.evaluate.verification import Errors


def judged(
    result: torch.Tensor, native: torch.Tensor, exact: torch.Tensor | None = None
) -> Comparison:
    several = [exact] if exact is not None else None
    held = correctness.bounds([native], several, None)
    return correctness.compare([result], [native], several, held)


@pytest.fixture
def exact() -> torch.Tensor:
    return torch.randn(50, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("dtype", list(FLOORS))
def test_the_reference_itself_is_correct(exact: torch.Tensor, dtype: torch.dtype) -> None:
    native = exact.to(dtype)
    found = judged(native, native, exact.to(torch.complex128) if dtype.is_complex else exact)
    assert not found.message
    assert 0 <= found.error <= found.tolerance


@pytest.mark.parametrize("lower", [torch.float16, torch.bfloat16])
def test_computing_in_half_precision_is_not_single_precision(
    exact: torch.Tensor, lower: torch.dtype
) -> None:
    native = exact.float()
    assert "wrong values" in judged(native.to(lower).float(), native, exact).message


@given(st.integers(0, 49), st.integers(0, 39))
def test_a_single_wrong_element_is_found_where_it_is(row: int, column: int) -> None:
    native = torch.ones(50, 40)
    result = native.clone()
    result[row, column] = 1.5
    found = judged(result, native)
    assert f"at [{row}, {column}]: expected 1, got 1.5" in found.message
    assert found.detail.startswith("1 of 2000 elements are wrong")


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_strange_value_is_wrong_where_the_reference_has_none(
    exact: torch.Tensor, bad: float
) -> None:
    native = exact.float()
    result = native.clone()
    result[1, 2] = bad
    found = judged(result, native, exact)
    assert "1 of 2000 differ, first at [1, 2]" in found.message
    assert found.error == math.inf


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_strange_value_must_be_there_where_the_reference_has_it(value: float) -> None:
    native = torch.tensor([1.0, value, 2.0])
    assert not judged(native.clone(), native).message
    for other in (0.0, -value if math.isinf(value) else math.inf):
        assert judged(torch.tensor([1.0, other, 2.0]), native).message


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool])
def test_integers_and_booleans_must_be_equal(dtype: torch.dtype) -> None:
    native = torch.tensor([0, 1, 1, 0]).to(dtype)
    assert not judged(native.clone(), native).message
    assert (
        "1 of 4 differ, first at [3]"
        in judged(torch.tensor([0, 1, 1, 1]).to(dtype), native).message
    )


def test_zeros_are_wrong_however_small_the_expected_values(exact: torch.Tensor) -> None:
    native = (exact * 1e-30).float()
    assert judged(torch.zeros_like(native), native, exact * 1e-30).message


def test_poisoned_memory_is_wrong_for_every_dtype(exact: torch.Tensor) -> None:
    for dtype in (*FLOORS, torch.int32):
        native = (exact * 100).to(dtype)
        poison = torch.full((native.numel() * native.element_size(),), 255, dtype=torch.uint8)
        assert judged(poison.view(dtype).reshape(native.shape), native).message


def test_the_bound_follows_the_references_own_error_up_to_a_ceiling(exact: torch.Tensor) -> None:
    close, far, hopeless = (exact * (1 + shift) for shift in (1e-9, 3e-6, 1.0))
    bound = [
        correctness.bounds([exact.float()], [other], None)[0] for other in (close, far, hopeless)
    ]
    assert bound[0].tolerance == FLOORS[torch.float32]
    assert 8e-6 < bound[1].tolerance < 3e-5
    assert bound[2].tolerance <= CEILINGS[torch.float32]
    assert [b.exact for b in bound] == [True, True, False]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_bounded_by_roundings_and_by_sums_in_single_precision(
    exact: torch.Tensor, dtype: torch.dtype
) -> None:
    native, unit = exact.to(dtype), torch.finfo(dtype).eps / 2

    def bound(own: torch.Tensor, terms: int, roundings: int) -> Bound:
        return correctness.bounds([own], [exact], None, terms, roundings=roundings)[0]

    one, several, many = (bound(native, 1, roundings) for roundings in (1, 3, 50))
    assert one.tolerance == pytest.approx(2 * unit, rel=0.01)
    assert several.tolerance == many.tolerance == pytest.approx(4 * unit, rel=0.01)
    name = str(dtype).removeprefix("torch.")
    assert one.origin == f"2 roundings to {name}"
    assert bound(native, 9, 1).origin.endswith(", and adding 9 terms in float32")
    long = bound(native, 1_000_000, 1)
    assert long.tolerance == pytest.approx(one.tolerance + 4 * 1000 * 2**-24, rel=0.01)
    rough = bound((exact * (1 + 6 * unit)).to(dtype), 1, 1)
    assert rough.origin.startswith("twice the reference's own error")
    assert 6 * unit < rough.tolerance <= CEILINGS[dtype]
    wrong = correctness.compare([(exact * (1 + 8 * unit)).to(dtype)], [native], [exact], [one])
    assert "off by rounding" in wrong.message
    assert "compute in float32 and round to the result's dtype once" in wrong.message


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_reference_that_rounds_in_double_precision_too_is_no_reason_to_check_less(
    dtype: torch.dtype,
) -> None:
    rng = torch.Generator().manual_seed(5)
    exact = torch.randn(1000, 256, generator=rng, dtype=torch.float64)
    change = torch.rand(exact.shape, generator=rng, dtype=torch.float64) * 2e-7

    def held(change: torch.Tensor) -> list[Bound] | None:
        results = [exact.to(dtype)]
        target, nudged = ([each.to(dtype).double()] for each in (exact, exact * (1 + change)))
        assert not torch.equal(target[0], nudged[0])
        return correctness.conditioned(results, target, [nudged], None, 1024)

    found = held(change)
    assert found is not None
    assert found[0].tolerance < 2.5 * torch.finfo(dtype).eps
    # One row for which a rounding of the inputs is nearly a step of the result.
    change[7] *= torch.finfo(dtype).eps / 4e-7
    assert held(change) is None


@pytest.mark.parametrize("dtype", FLOAT8)
def test_in_8_bits_a_step_to_the_next_value_is_right_and_two_are_wrong(
    exact: torch.Tensor, dtype: torch.dtype
) -> None:
    native, step = exact.to(dtype), torch.finfo(dtype).eps
    for standard in (exact, native.double() * (1 + step / 2), None):
        several = [standard] if standard is not None else None
        (bound,) = held = correctness.bounds([native], several, None, roundings=9)
        assert bound.tolerance == pytest.approx(step, rel=0.02)
        assert bound.origin.startswith("2 roundings to ")
    bits = native.view(torch.uint8).clone()
    place = int((native.half() - 2).abs().view(-1).argmin())
    for steps, right in ((1, True), (2, False)):
        moved = bits.clone()
        moved.view(-1)[place] += steps
        found = correctness.compare([moved.view(dtype)], [native], [native.double()], held)
        assert (not found.message) is right
        assert right or "compute in float32 and round" in found.message
        assert right is correctness.accepts([moved.view(dtype)], [native], [native.double()], held)


@pytest.mark.parametrize("dtype", FLOAT8)
def test_nan_and_infinities_in_8_bits_are_where_the_reference_has_them(dtype: torch.dtype) -> None:
    native = torch.tensor([1.0, math.nan, 300.0]).to(dtype)
    assert not judged(native.clone(), native).message
    assert judged(torch.tensor([1.0, 1.0, 300.0]).to(dtype), native).message
    assert judged(torch.tensor([math.nan, math.nan, 300.0]).to(dtype), native).message
    if dtype is torch.float8_e5m2:
        infinite = torch.tensor([1.0, math.inf, 300.0]).to(dtype)
        assert not judged(infinite.clone(), infinite).message
        assert judged(torch.tensor([1.0, -math.inf, 300.0]).to(dtype), infinite).message


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, *FLOAT8])
def test_zeros_in_half_precision_must_be_zeros(dtype: torch.dtype) -> None:
    zeros = torch.zeros(5, 4, dtype=dtype)
    wide = zeros.double()
    held = correctness.conditioned([zeros], [wide], [[wide]], None)
    assert held is not None
    assert not correctness.compare([zeros], [zeros], [wide], held).message
    near = torch.full_like(zeros, 1e-2)
    assert correctness.compare([near], [zeros], [wide], held).message


@pytest.mark.parametrize("left", [1e-38, 6.3e-33])
def test_what_a_bounded_exponential_leaves_of_a_zero_is_no_error(left: float) -> None:
    native = torch.zeros(1, 100)
    wide = native.double() - 1e-300
    held = correctness.conditioned([native], [wide], [[wide]], None)
    assert held is not None
    assert not correctness.compare([native - left], [native], [wide], held).message
    assert correctness.compare([native - 1e-30], [native], [wide], held).message


def test_a_denormal_result_of_float16_may_be_rounded() -> None:
    wide = torch.linspace(2e-5, 9e-5, 40, dtype=torch.float64)
    native = wide.half()
    step = torch.finfo(torch.float16).smallest_normal * torch.finfo(torch.float16).eps
    other = (wide + step / 2).half()
    held = correctness.bounds([native], [wide], None)
    assert not correctness.compare([other], [native], [wide], held).message
    assert correctness.compare([(wide * 1.05).half()], [native], [wide], held).message


def test_a_bound_says_what_it_is_derived_from(exact: torch.Tensor) -> None:
    native = exact.float()

    def origin(other: torch.Tensor, tolerance: float | None = None, terms: int = 1) -> str:
        held = correctness.bounds([native], [other], tolerance, terms)
        return correctness.compare([native], [native], [other], held).origin

    assert origin(exact, 0.1) == "the task's tolerance"
    assert origin(exact) == "the floor of float32"
    assert origin(exact, None, 5000).endswith("adding 5000 terms one by one")
    assert origin(exact * (1 + 3e-6)) == "8 times the reference's own error"
    assert origin(exact * (1 + 9e-5)) == "the largest error that float32 may have"


def test_a_task_may_set_its_own_tolerance(exact: torch.Tensor) -> None:
    native = exact.float()
    held = correctness.bounds([native], [exact], 0.1)
    assert held == [Bound(0.1, held[0].own_error, exact=True)]
    assert not correctness.compare([native * 1.05], [native], [exact], held).message


def test_several_outputs_are_told_apart(exact: torch.Tensor) -> None:
    native = [exact.float(), torch.arange(5)]
    held = correctness.bounds(native, None, None)
    found = correctness.compare([native[0], native[1] + 1], native, None, held)
    assert found.message.startswith("output 1: wrong values: 5 of 5 differ")


def test_results_of_few_elements_are_judged_by_those_of_many_draws() -> None:
    means = 0.03 * torch.randn(64, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    means[0] = 1e-5  # by luck small, and exact
    wide = [mean.float().double() if at == 0 else mean for at, mean in enumerate(means)]
    draws = [([mean.float()], [mean]) for mean in wide]
    (pooled,) = correctness.pooled_bounds(draws, None, 300)
    assert pooled is not None
    assert 0.02 < pooled.scale < 0.04
    assert pooled.exact

    def refused(error: float, known: Sequence[Bound | None]) -> bool:
        native, exact = draws[0]
        held = correctness.bounds(native, exact, None, 300, pooled=known)
        return bool(correctness.compare([native[0] + error], native, exact, held).message)

    # The rounding of a sum of such size: the lucky draw alone would not allow it.
    assert refused(1e-8, [])
    assert not refused(1e-8, [pooled])
    assert refused(1e-6, [pooled])
    # The bounds of timed results, which are compared with the reference's own, know the size too.
    (timed,) = correctness.loosened(correctness.widest([[pooled], [pooled]]))
    assert timed.scale == pooled.scale
    many = torch.randn(100)
    assert correctness.pooled_bounds([([many], [many.double()])], None) == [None]


def test_a_cancelling_sum_may_be_rounded_at_its_partial_sums() -> None:
    x = torch.randn(40, generator=torch.Generator().manual_seed(58)).sort().values
    wide = x.double()
    one_by_one = torch.zeros(())
    for each in x:
        one_by_one = one_by_one + each
    native, exact = [wide.sum().float()], [wide.sum()]
    torch.manual_seed(0)
    nudged = [unusual_values.nudged(wide, x)]
    nudged += [unusual_values.nudged_in_sums(wide, x) for _ in range(4)]
    shaken = [[each.sum()] for each in nudged if isinstance(each, torch.Tensor)]

    def refused(result: torch.Tensor, several: list[list[torch.Tensor]]) -> bool:
        held = correctness.conditioned(native, exact, several, None, len(x))
        assert held is not None
        return bool(correctness.compare([result], native, exact, held).message)

    assert not refused(one_by_one, shaken)
    assert refused(x[1:].sum(), shaken)
    assert refused(x[::2].sum() * 2, shaken)


def test_a_difference_of_a_long_sum_may_have_its_roundings() -> None:
    rows = 0.3 + torch.rand(200, 71, generator=torch.Generator().manual_seed(3)) / 100
    rows[:, 0] = 3_000
    wide = rows.double()
    one_by_one = torch.zeros(200)
    for column in rows.T:
        one_by_one = one_by_one + column
    native, exact = [(wide.sum(1) - 3_000).float()], [wide.sum(1) - 3_000]
    torch.manual_seed(0)
    nudged = unusual_values.nudged(wide, rows)
    assert isinstance(nudged, torch.Tensor)

    def refused(terms: int) -> bool:
        held = correctness.conditioned(native, exact, [[nudged.sum(1) - 3_000]], None, terms)
        assert held is not None
        result = one_by_one - 3_000
        return bool(correctness.compare([result], native, exact, held).message)

    assert refused(1)
    assert not refused(71)


@pytest.mark.parametrize("mask", [-1e4, -65504.0, 1e9])
def test_a_mask_hides_no_error_of_what_it_leaves(mask: float) -> None:
    rng = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 64, 128, generator=rng)
    later = torch.ones(64, 64, dtype=torch.bool).triu(1)
    exact = (q.double() @ k.double().T).masked_fill(later, mask)
    native = (q @ k.T).masked_fill(later, mask)
    crude = (q.bfloat16() @ k.bfloat16().T).float().masked_fill(later, mask)
    added = (q[:, :64] @ k[:, :64].T + q[:, 64:] @ k[:, 64:].T).masked_fill(later, mask)
    held = correctness.bounds([native], [exact], None, 128)
    assert held[0].mask == mask
    several = correctness.conditioned([native], [exact], [[exact]], None, 128, masks=[mask])
    assert several is not None
    for bounds in (held, several, correctness.widest([held, held]), correctness.loosened(held)):
        assert correctness.compare([crude], [native], [exact], bounds).message
        assert not correctness.compare([added], [native], [exact], bounds).message
        assert not correctness.accepts([crude], [native], [exact], bounds)
    # All of a result may be masked, in inputs of another shape.
    empty = torch.full_like(native, mask)
    assert not correctness.compare([empty], [empty], [empty.double()], held).message


def test_most_results_have_no_mask() -> None:
    rng = torch.Generator().manual_seed(0)
    values = torch.randn(64, 64, generator=rng)
    for result in (
        values,
        values.clamp(max=1.0),
        torch.zeros(64, 64),
        values.index_fill(0, torch.tensor([3]), math.nan),
        values.index_fill(0, torch.tensor([3]), -math.inf),
        torch.full((64, 64), -1e4),
        values.long(),
        values.to(torch.complex64),
        values.where(torch.arange(64) != 3, torch.linspace(-1e4, -9e3, 64)[:, None]),
    ):
        assert correctness.bounds([result], None, None)[0].mask is None


def with_own_scales(native: torch.Tensor, exact: torch.Tensor) -> list[Bound]:
    held = correctness.bounds([native], [exact], None)
    return correctness.with_slices([native], [exact], held)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        *((torch.float32, 1e-7), (torch.float32, 1e-4), (torch.complex64, 1e-7)),
        *((torch.float64, 1e-13), (torch.bfloat16, 1e-3), (torch.float16, 1e-3)),
    ],
)
def test_a_slice_with_small_values_counts_by_its_own_size(
    dtype: torch.dtype, size: float, axis: int
) -> None:
    wide = torch.complex128 if dtype.is_complex else torch.float64
    exact = torch.randn(12, 11, 10, dtype=wide, generator=torch.Generator().manual_seed(0))
    exact.movedim(axis, 0)[3] *= size
    native = exact.to(dtype)
    held = with_own_scales(native, exact)
    zeros, crude = native.clone(), native.clone()
    zeros.movedim(axis, 0)[3] = 0
    crude.movedim(axis, 0)[3] *= 1.2
    for several, exacts in ((held, [exact]), (correctness.loosened(held), None)):
        assert not correctness.compare([native], [native], exacts, several).message
        for wrong in (zeros, crude):
            found = correctness.compare([wrong], [native], exacts, several)
            assert "wrong values" in found.message
            assert not correctness.accepts([wrong], [native], exacts, several)
    assert not judged(zeros, native, exact).message or size > 1e-5
    (both,) = correctness.widest([held, held])
    assert [each.axis for each in both.slices] == [axis]
    assert torch.equal(both.slices[0].which, held[0].slices[0].which)
    # In another draw another slice is small.
    other = with_own_scales(native.roll(1, axis), exact.roll(1, axis))
    assert not correctness.widest([held, other])[0].slices


def test_a_slice_of_differences_of_larger_numbers_has_no_size_of_its_own() -> None:
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(8, 400, generator=rng)
    y = x.clone()
    y[:7] = torch.randn(7, 400, generator=rng)
    y[7] += 1e-6 * torch.randn(400, generator=rng)
    exact = (x.double() * 3).exp().log() - (y.double() * 3).exp().log()
    native = (x * 3).exp().log() - (y * 3).exp().log()
    (bound,) = with_own_scales(native, exact)
    assert not bound.slices


@pytest.mark.parametrize(("values", "counts"), [(1, False), (8, False), (64, True)])
def test_a_slice_of_which_few_values_are_not_near_zero_has_no_size_of_its_own(
    values: int, *, counts: bool
) -> None:
    rng = torch.Generator().manual_seed(0)
    exact = torch.randn(8, 400, dtype=torch.float64, generator=rng)
    exact[5] *= 1e-12
    exact[5, :values] = 1e-4
    # Exact values: the luck that a few of them may have.
    native = exact.float()
    assert bool(with_own_scales(native, exact)[0].slices) is counts


def test_the_few_values_that_relu_leaves_of_a_channel_may_have_their_roundings() -> None:
    rng = torch.Generator().manual_seed(4)
    weight = (torch.rand(2048, 1024, generator=rng) * 2 - 1) / 32
    bias, order = torch.randn(2048, generator=rng), torch.randperm(1024, generator=rng)

    def layer(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return torch.relu(x.to(dtype) @ weight.to(dtype).T + bias.to(dtype))

    def reordered(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x[:, order] @ weight[:, order].T + bias)

    first = torch.rand(1024, 1024, generator=rng)
    native, exact = layer(first, torch.float32), layer(first, torch.float64)
    held = correctness.with_slices(
        [native], [exact], correctness.bounds([native], [exact], None, 1024)
    )
    for _ in range(4):
        x = torch.rand(1024, 1024, generator=rng)
        found = correctness.compare(
            [reordered(x)],
            [layer(x, torch.float32)],
            [layer(x, torch.float64)],
            held,
        )
        assert not found.message


@pytest.mark.parametrize("dtype", FLOAT8)
def test_slices_of_8_bits_and_of_denormal_numbers_have_no_size_of_their_own(
    dtype: torch.dtype,
) -> None:
    exact = torch.randn(8, 400, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    exact[3] *= 1e-2
    assert not with_own_scales(exact.to(dtype), exact)[0].slices
    exact[3] *= 1e-4
    assert not with_own_scales(exact.half(), exact)[0].slices


def test_an_index_that_rounding_decides_may_be_either() -> None:
    native = torch.arange(16)
    exact = native.clone()
    exact[3] = 9
    held = correctness.conditioned([native], [exact], [[exact]], None, ties=[[native]])
    assert held == [Bound(0.0)]

    def refused(at: int, value: int) -> bool:
        result = native.clone()
        result[at] = value
        return bool(
            correctness.compare([result], [native], None, held, Alternatives([[exact]])).message
        )

    assert not refused(3, 3)
    assert not refused(3, 9)
    assert refused(3, 4)
    assert refused(4, 9)
    # Several values that are equal, or rounding that decides much, leave no right answer.
    third = native.clone()
    third[3] = 5
    assert correctness.conditioned([native], [exact], [[exact]], None, ties=[[third]]) is None
    assert correctness.conditioned([native], [native + 1], [[native + 1]], None) is None


def test_empty_and_scalar_results_compare() -> None:
    for native in (torch.empty(0, 3), torch.tensor(2.5)):
        assert not judged(native.clone(), native).message
    assert "at []: expected 2.5, got 3" in judged(torch.tensor(3.0), torch.tensor(2.5)).message


@pytest.mark.parametrize("size", [1e-300, 1e-40, 1e25, 1e38, 1e300])
def test_no_size_of_the_values_hides_an_error(exact: torch.Tensor, size: float) -> None:
    dtype = torch.float64 if not 1e-37 < size < 1e37 else torch.float32
    wide = exact.double() / exact.abs().max() * size
    native = wide.to(dtype)
    assert not judged(native.clone(), native, wide).message
    assert judged(native * 1.01, native, wide).message
    assert judged(torch.zeros_like(native), native, wide).message


def test_kinds_of_input_that_were_tried_come_before_those_that_were_not() -> None:
    errors = Errors()

    def add(name: str, error: float) -> None:
        errors.add(name, Comparison(error, 2e-6, outputs=(Comparison(error, 2e-6),)))

    add("as drawn", 1e-7)
    errors.skip("outliers", "no time left")
    errors.skip("zeros", "the reference refuses them")
    add("the same input again", 3e-7)
    add("the same input again", 2e-7)
    # In another shape it was tried after all.
    add("zeros", 0.0)
    assert errors.by_name == (
        InputError("as drawn", 1e-7, 2e-6),
        InputError("the same input again", 3e-7, 2e-6),
        InputError("zeros", 0.0, 2e-6),
        InputError("outliers", note="not tried: no time left"),
    )
    assert (errors.worst, errors.tolerance) == (3e-7, 2e-6)


def test_errors_are_kept_by_case_and_dtype_and_the_nearest_to_its_bound_wins() -> None:
    reference = [torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.bfloat16), torch.tensor([7])]
    held = correctness.bounds(reference, None, None)
    near = [reference[0] + 2.0**-23, reference[1], reference[2]]
    far = [reference[0], reference[1] + 2.0**-7, reference[2]]
    errors = Errors()
    errors.begin_case("narrow")
    for results in (near, far):
        errors.add("as drawn", correctness.compare(results, reference, None, held))
    told = {(each.label, each.dtype): each.share for each in errors.by_name}
    assert [*told] == [("narrow: as drawn", name) for name in ("float32", "bfloat16", "int64")]
    assert all(0 < told["narrow: as drawn", name] < 1 for name in ("float32", "bfloat16"))
    assert told["narrow: as drawn", "int64"] == 0.0
    wrong = correctness.compare([*far[:2], reference[2] + 1], reference, None, held)
    errors.add("as drawn", wrong)
    assert [each.dtype for each in errors.by_name if each.note] == ["int64"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e5m2, torch.int64])
def test_accepts_says_what_compare_says(dtype: torch.dtype) -> None:
    rng = torch.Generator().manual_seed(0)
    native = (torch.randn(300, 300, generator=rng) * 100).to(dtype)
    others = [native.clone() for _ in range(4)]
    others[1].view(-1)[-1] = others[1].view(-1)[-1].item() + 700
    if dtype.is_floating_point:
        others[2][0, 0] = torch.nan
        others[3][5, 5] = torch.inf
    with_nan = [each.clone() for each in others]
    for each in with_nan if dtype.is_floating_point else ():
        each[7, 7] = torch.nan
    for reference, results in ((native, others), (with_nan[0], with_nan), (native, with_nan)):
        held = correctness.bounds([reference], [reference.double()], None)
        for result in results:
            asked = [result], [reference], None, held
            assert correctness.accepts(*asked) == (not correctness.compare(*asked).message)
