"""Tests of what rounding decides: integers near a tie, and steps inside a reference."""

from __future__ import annotations

import math

import pytest
import torch

from akg_tui.evaluate import correctness
from akg_tui.evaluate.child import unusual_values
from akg_tui.evaluate.correctness import Alternatives


def test_a_decided_element_may_be_between_its_alternatives() -> None:
    native = torch.linspace(1, 2, 4096)
    exact = native.double()
    lower, higher = exact.clone(), exact.clone()
    lower[7:9] -= 1
    higher[7:9] += 1
    alternatives = Alternatives(inexact=[[exact], [lower], [higher]])
    held = correctness.bounds([native], [exact], None, decided=alternatives.inexact)
    assert held[0].exact
    assert held[0].tolerance < 1e-5

    def refused(change: dict[int, float]) -> bool:
        result = native.clone()
        for at, by in change.items():
            result[at] += by
        compared = [result], [native], [exact], held, alternatives
        message = correctness.compare(*compared).message
        assert correctness.accepts(*compared) is not bool(message)
        return bool(message)

    assert not refused({})
    assert not refused({7: -1.0, 8: 0.5})
    # Two more elements may be as wrong as these, but not three, and none by more.
    assert not refused({7: -1.0, 3000: 1.0, 3001: -1.0})
    assert refused({3000: 1.0, 3001: -1.0, 3002: 1.0})
    assert refused({3000: 9.0})
    assert refused({8: 9.0, 9: 9.0})
    assert refused({0: float("nan")})


def test_without_alternatives_a_small_share_may_be_decided() -> None:
    native = torch.linspace(1, 2, 4096)
    exact = native.double()
    other = exact.index_fill(0, torch.arange(64), 3.0)
    (bound,) = held = correctness.widest(
        [correctness.bounds([native], [exact], None, decided=[[each]]) for each in (exact, other)]
    )
    assert bound.decided == 4 * 64 / 4096

    def refused(count: int, value: float = 3.0) -> bool:
        result = native.index_fill(0, torch.arange(1000, 1000 + count), value)
        compared = [result], [native], None, correctness.loosened(held)
        message = correctness.compare(*compared).message
        assert correctness.accepts(*compared) is not bool(message)
        return bool(message)

    assert not refused(257)
    assert refused(258)
    assert refused(1, math.nan)
    assert refused(1, math.inf)
    # Without a decision in any reference nothing is spared.
    held = correctness.bounds([native], [exact], None)
    assert refused(1)


def test_where_rounding_decides_most_of_a_result_nothing_is_excused() -> None:
    native = torch.linspace(1, 2, 4096)
    exact = native.double()
    alternatives = Alternatives(inexact=[[exact], [exact + 1], [exact - 1]])
    held = correctness.bounds([native], [exact], None, decided=alternatives.inexact)
    result = native.clone()
    result[100] += 0.5
    assert correctness.compare([result], [native], [exact], held, alternatives).message


def test_without_exact_results_there_are_no_alternatives() -> None:
    # The memory for them has zeros then.
    native = torch.zeros(4096).index_fill(0, torch.arange(64), -1.0)
    (bound,) = held = correctness.conditioned([native], None, None, None) or []
    assert not bound.exact
    zeros = torch.zeros(4096)
    compared = [zeros], [native], None, held, Alternatives(inexact=[[zeros.double()]])
    assert correctness.compare(*compared).message
    assert not correctness.accepts(*compared)


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
