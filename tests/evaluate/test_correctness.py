"""The comparison: what counts as equal, and what never does."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from akg_tui.core.measurement import InputError
from akg_tui.evaluate import correctness
from akg_tui.evaluate.child import unusual_values
from akg_tui.evaluate.correctness import CEILINGS, FLOORS, Bound, Comparison
from akg_tui.evaluate.protocol.tensor_layout import FLOAT8
from akg_tui.evaluate.verification import Errors


def judged(
    result: torch.Tensor, native: torch.Tensor, exact: torch.Tensor | None = None
) -> Comparison:
    several = [exact] if exact is not None else None
    held = correctness.bounds([native], several, None)
    return correctness.compare([result], [native], several, held)


@pytest.fixture
def exact() -> torch.Tensor:
    return EXACT.clone()


EXACT = torch.randn(50, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
STRANGE = (math.nan, math.inf, -math.inf)
SIZES = ((1e-300, "float64"), (1e-40, "float64"), (1e25, "float32"),
         (1e38, "float64"), (1e300, "float64"))  # fmt: skip


def poisoned(native: torch.Tensor) -> torch.Tensor:
    poison = torch.full((native.numel() * native.element_size(),), 255, dtype=torch.uint8)
    return poison.view(native.dtype).reshape(native.shape)


def _compared() -> Iterator[tuple[str, torch.Tensor, torch.Tensor, torch.Tensor | None, bool]]:
    """Yield a name, a result, the reference's, it in double precision, and which is right."""
    for dtype in FLOORS:
        native = EXACT.to(dtype)
        wide = EXACT.to(torch.complex128) if dtype.is_complex else EXACT
        yield f"the reference in {dtype}", native, native, wide, True
    for dtype in (*FLOORS, torch.int32):
        native = (EXACT * 100).to(dtype)
        yield f"poisoned memory in {dtype}", poisoned(native), native, None, False
    for dtype in (torch.float16, torch.bfloat16):
        yield f"half precision in {dtype}", EXACT.to(dtype).float(), EXACT.float(), EXACT, False
    for dtype in (torch.int64, torch.uint8, torch.bool):
        native = torch.tensor([0, 1, 1, 0]).to(dtype)
        yield f"equal numbers of {dtype}", native.clone(), native, None, True
        yield f"other numbers of {dtype}", torch.tensor([0, 1, 1, 1]).to(dtype), native, None, False
    for value in STRANGE:
        native = torch.tensor([1.0, value, 2.0])
        yield f"{value} where it is", native.clone(), native, None, True
        for other in (0.0, -value if math.isinf(value) else math.inf):
            yield f"{other} for {value}", torch.tensor([1.0, other, 2.0]), native, None, False
    for dtype in FLOAT8:
        native = torch.tensor([1.0, math.nan, 300.0]).to(dtype)
        yield f"NaN in {dtype}", native.clone(), native, None, True
        for first, second in ((1.0, 1.0), (math.nan, math.nan)):
            other = torch.tensor([first, second, 300.0]).to(dtype)
            yield f"{first}, {second} in {dtype}", other, native, None, False
    infinite = torch.tensor([1.0, math.inf, 300.0]).to(torch.float8_e5m2)
    yield "an infinity in 8 bits", infinite.clone(), infinite, None, True
    turned = torch.tensor([1.0, -math.inf, 300.0]).to(torch.float8_e5m2)
    yield "the other infinity in 8 bits", turned, infinite, None, False
    for native in (torch.empty(0, 3), torch.tensor(2.5)):
        yield f"a result of shape {[*native.shape]}", native.clone(), native, None, True
    yield "another number", torch.tensor(3.0), torch.tensor(2.5), None, False
    tiny = EXACT * 1e-30
    yield "zeros for tiny values", torch.zeros(50, 40), tiny.float(), tiny, False
    for size, name in SIZES:
        wide = EXACT / EXACT.abs().max() * size
        native = wide.to(getattr(torch, name))
        yield f"values of size {size}", native.clone(), native, wide, True
        yield f"an error in values of size {size}", native * 1.01, native, wide, False
        yield f"zeros for values of size {size}", torch.zeros_like(native), native, wide, False


COMPARED = {name: compared for name, *compared in _compared()}


@pytest.mark.parametrize(("result", "native", "exact", "right"), COMPARED.values(), ids=COMPARED)
def test_what_is_equal_and_what_is_not(
    result: torch.Tensor, native: torch.Tensor, exact: torch.Tensor | None, right: bool
) -> None:
    found = judged(result, native, exact)
    assert (not found.message) is right
    assert not right or 0 <= found.error <= found.tolerance


@given(st.integers(0, 49), st.integers(0, 39))
def test_a_single_wrong_element_is_found_where_it_is(row: int, column: int) -> None:
    native = torch.ones(50, 40)
    result = native.clone()
    result[row, column] = 1.5
    found = judged(result, native)
    assert f"at [{row}, {column}]: expected 1, got 1.5" in found.message
    assert found.detail.startswith("1 of 2000 elements are wrong")


@pytest.mark.parametrize("bad", STRANGE)
def test_a_strange_value_is_wrong_where_the_reference_has_none(
    exact: torch.Tensor, bad: float
) -> None:
    native = exact.float()
    result = native.clone()
    result[1, 2] = bad
    found = judged(result, native, exact)
    assert "1 of 2000 differ, first at [1, 2]" in found.message
    assert found.error == math.inf


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_bounded_by_roundings_and_by_sums_in_single_precision(
    exact: torch.Tensor, dtype: torch.dtype
) -> None:
    native, unit = exact.to(dtype), torch.finfo(dtype).eps / 2

    def bound(own: torch.Tensor, terms: int = 1) -> Bound:
        return correctness.bounds([own], [exact], None, terms)[0]

    one = bound(native)
    assert one.tolerance == pytest.approx(4 * unit, rel=0.01)
    name = str(dtype).removeprefix("torch.")
    assert one.origin == f"4 roundings to {name}"
    assert bound(native, 9).origin.endswith(", and adding 9 terms in float32")
    long = bound(native, 1_000_000)
    assert long.tolerance == pytest.approx(one.tolerance + 4 * 1000 * 2**-24, rel=0.01)
    rough = bound((exact * (1 + 6 * unit)).to(dtype))
    assert rough.origin.startswith("twice the reference's own error")
    assert 6 * unit < rough.tolerance <= CEILINGS[dtype]
    wrong = correctness.compare([(exact * (1 + 8 * unit)).to(dtype)], [native], [exact], [one])
    assert "off by rounding" in wrong.message
    assert "compute in float32 and round to the result's dtype once" in wrong.message


@pytest.mark.parametrize("dtype", FLOAT8)
def test_in_8_bits_a_step_to_the_next_value_is_right_and_two_are_wrong(
    exact: torch.Tensor, dtype: torch.dtype
) -> None:
    native, step = exact.to(dtype), torch.finfo(dtype).eps
    for standard in (exact, native.double() * (1 + step / 2), None):
        several = [standard] if standard is not None else None
        (bound,) = held = correctness.bounds([native], several, None)
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
    assert origin(exact, None, 5000) == "the error of adding 5000 terms one by one"
    assert origin(exact * (1 + 3e-6)) == "32 times the reference's own error"
    assert origin(exact * (1 + 9e-5)) == "the largest error that float32 may have"
    assert origin(-exact).endswith("as the reference's own error is 1.6, too large to count")


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
    nudged = [unusual_values.nudged(wide, x) for _ in range(5)]
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

    def refused(sums: torch.Tensor) -> bool:
        held = correctness.conditioned(native, exact, [[nudged.sum(1) - 3_000]], None, 71)
        assert held is not None
        return bool(correctness.compare([sums - 3_000], native, exact, held).message)

    assert not refused(one_by_one)
    assert refused(one_by_one - rows[:, 70])


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
    several = correctness.conditioned([native], [exact], [[exact]], None, 128, usual=held)
    assert several is not None
    for bounds in (held, several, correctness.widest([held, held]), correctness.loosened(held)):
        assert correctness.compare([crude], [native], [exact], bounds).message
        assert not correctness.compare([added], [native], [exact], bounds).message
        assert not correctness.accepts([crude], [native], [exact], bounds)
    # All of a result may be masked, in inputs of another shape.
    empty = torch.full_like(native, mask)
    assert not correctness.compare([empty], [empty], [empty.double()], held).message


def test_a_result_of_zeros_has_the_size_of_ordinary_ones() -> None:
    """The loss over one class is zero, and an honest logarithm is off by a rounding of one."""
    drawn, zeros = torch.linspace(-2, 2, 512), torch.zeros(512)
    usual = correctness.bounds([drawn], [drawn.double()], None)
    exact = [zeros.double()]
    held = correctness.conditioned([zeros], exact, [exact], None, usual=usual, random=True)
    assert held is not None
    assert not correctness.compare([zeros + 1.2e-7], [zeros], exact, held).message
    assert correctness.compare([zeros + 1e-4], [zeros], exact, held).message


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


def test_an_index_that_rounding_decides_may_be_either() -> None:
    native = torch.arange(16)
    exact = native.clone()
    exact[3] = 9
    held = correctness.conditioned([native], [exact], [[exact]], None, ties=[[native]])
    assert held == [Bound(0.0)]

    def refused(at: int, value: int) -> bool:
        result = native.clone()
        result[at] = value
        return bool(correctness.compare([result], [native], None, held, [[exact]]).message)

    assert not refused(3, 3)
    assert not refused(3, 9)
    assert refused(3, 4)
    assert refused(4, 9)
    # Several values that are equal, or rounding that decides much, leave no right answer.
    third = native.clone()
    third[3] = 5
    assert correctness.conditioned([native], [exact], [[exact]], None, ties=[[third]]) is None
    assert correctness.conditioned([native], [native + 1], [[native + 1]], None) is None


@pytest.mark.parametrize(
    ("error", "terms", "advice"),
    [
        (2.5e-5, 256, "Winograd with large tiles or several levels of Strassen, needs `tolerance`"),
        (1e-4, 4096, "add with several accumulators or in double precision"),
    ],
)
def test_a_message_names_what_would_mend_the_error(error: float, terms: int, advice: str) -> None:
    native = torch.linspace(1, 2, 4096)
    held = correctness.bounds([native], [native.double()], None, terms)
    found = correctness.compare([native * (1 + 2 * error)], [native], [native.double()], held)
    assert found.message.startswith("off by rounding")
    assert advice in found.message


def test_a_difference_at_nan_and_infinities_alone_is_told_apart(exact: torch.Tensor) -> None:
    native = exact.float()
    native[3, 4] = math.nan
    spread = native.clone()
    spread[3] = math.nan
    assert judged(spread, native).strange
    spread[5] *= 2
    assert judged(spread, native).message
    assert not judged(spread, native).strange
    assert not judged(native * 2, native).strange


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
    assert errors.nearest is not None
    assert (errors.nearest.error, errors.nearest.tolerance) == (3e-7, 2e-6)


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
