"""Tests of what rounding decides: integers near a tie, and steps inside a reference."""

from __future__ import annotations

import math

import pytest
import torch

from akg_tui.evaluate import correctness
from akg_tui.evaluate.child import unusual_values


def test_a_small_share_of_a_result_may_be_decided_by_rounding() -> None:
    native = torch.linspace(1, 2, 4096)
    exact = native.double()
    other = exact.index_fill(0, torch.arange(64), 3.0)
    (bound,) = held = correctness.widest(
        [correctness.bounds([native], [exact], None, decided=[[each]]) for each in (exact, other)]
    )
    assert bound.decided == 4 * 64 / 4096
    (least,) = correctness.bounds([native], [exact], None, decided=[[exact]])
    assert least.decided == 1 / 64

    def refused(count: int, value: float = 3.0) -> bool:
        result = native.index_fill(0, torch.arange(1000, 1000 + count), value)
        compared = [result], [native], None, correctness.loosened(held)
        message = correctness.compare(*compared).message
        assert correctness.accepts(*compared) is not bool(message)
        return bool(message)

    assert not refused(258)
    assert refused(259)
    assert refused(1, math.nan)
    assert refused(1, math.inf)
    # Without a decision in any reference nothing is spared.
    held = correctness.bounds([native], [exact], None)
    assert refused(1)


def test_where_the_decided_elements_are_known_few_others_may_be_wrong() -> None:
    native = torch.linspace(1, 2, 4096)
    exact = native.double()
    held = correctness.bounds(
        [native], [exact], None, decided=[[exact.index_fill(0, torch.arange(64), 3.0)]]
    )

    def refused(*wrong: int) -> bool:
        result = native.index_fill(0, torch.tensor(wrong), 2.5)
        return bool(correctness.compare([result], [native], [exact], held).message)

    assert not refused(*range(64))
    assert not refused(*range(64), *range(1000, 1006))
    assert refused(*range(1000, 1007))


def test_where_rounding_decides_much_an_unusual_input_is_skipped_and_little_is_excused() -> None:
    native = torch.linspace(1, 2, 4096)
    exact = native.double()
    decided = [[exact + 1]]
    assert correctness.conditioned([native], [exact], [[exact]], None, decided=decided) is None
    held = correctness.bounds([native], [exact], None, decided=decided)
    assert held[0].decided == 1 / 8
    assert correctness.compare([native + 0.5], [native], [exact], held).message


def test_results_of_few_elements_have_none_to_spare() -> None:
    native = torch.linspace(1, 2, 7)
    held = correctness.bounds([native], [native.double()], None, decided=[[native.double()]])
    result = native.clone()
    result[3] = 0
    assert correctness.compare([result], [native], [native.double()], held).message


def test_the_reference_may_itself_be_on_either_side_of_a_near_tie() -> None:
    exact = torch.linspace(1, 2, 4096, dtype=torch.float64)
    native = exact.float()
    native[50] += 1
    assert correctness.differ([native], [exact])
    assert not correctness.differ([native], [exact], 1.0)
    assert not correctness.differ([exact.float()], [exact])
    (alone,) = correctness.bounds([native], [exact], None)
    (bound,) = correctness.bounds([native], [exact], None, decided=[[exact]])
    assert (alone.exact, bound.exact) == (False, True)
    several = [native], [exact], [[exact]], None
    assert correctness.conditioned(*several) is None
    assert correctness.conditioned(*several, decided=[[exact]]) is not None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_order_of_equal_numbers_follows_their_place(dtype: torch.dtype) -> None:
    native = torch.tensor([[1, -2, 1, 0, 1, 0], [-3, 4, -3, 4, 5, 4]]).to(dtype)
    wide = native.double()
    for change, stable in ((-1.0, wide), (1.0, wide.flip(-1))):
        made = unusual_values.nudged_by_place(wide, native, change)
        assert isinstance(made, torch.Tensor)
        order = made.argsort(-1, descending=True)
        expected = stable.sort(dim=-1, descending=True, stable=True).indices
        if change > 0:
            expected = native.shape[-1] - 1 - expected
        assert torch.equal(order, expected)
        assert torch.equal(made.to(dtype)[native != 0], native[native != 0])
