"""Steps inside a reference that rounding decides: honest kernels decide some of them otherwise."""

from __future__ import annotations

import math

import msgspec
import pytest
import torch

from akg_tui.core.measurement import FailureKind, Measurement, Outcome
from akg_tui.core.task import Correctness
from akg_tui.evaluate import correctness
from akg_tui.evaluate.child import unusual_values
from akg_tui.evaluate.correctness import Alternatives
from tests.evaluate.conftest import Evaluated, quick_task

QUANTISED = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True) / 127
        return torch.clamp(torch.round(x / scale), -128, 127) * scale


def get_inputs():
    return [torch.randn(128, 1024)]
"""

COUNTED = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.histc(x, 100, -3.0, 3.0)


def get_inputs():
    return [torch.randn(100_000)]
"""

EXPERTS = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.router = torch.nn.Parameter(torch.randn(64, 8) / 8)
        self.experts = torch.nn.Parameter(torch.randn(8, 64, 64) / 8)
        self.bfloat16()

    def forward(self, x):
        p, i = torch.topk(torch.softmax(x @ self.router, -1), 2, dim=-1)
        every = torch.einsum("td,edh->teh", x, self.experts)
        chosen = every.gather(1, i.unsqueeze(-1).expand(-1, -1, 64))
        return (chosen * p.unsqueeze(-1)).sum(1)


def get_inputs():
    return [torch.randn(512, 64).bfloat16()]
"""

KEPT_LARGE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        p = torch.softmax(x, -1)
        return torch.where(p > 1 / 256, p, 0.0)


def get_inputs():
    return [torch.randn(2048, 256)]
"""

TOP = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.topk(x, 50, dim=-1)


def get_inputs():
    return [torch.randn(16, 4096).bfloat16()]
"""

TOP_INTEGERS = TOP.replace(
    "torch.randn(16, 4096).bfloat16()", "torch.randint(-(1 << 40), 1 << 40, (16, 4096))"
)


def kernel(reference: str, forward: str) -> str:
    """Return a kernel whose `forward` has another body."""
    head, _, rest = reference.replace("class Model(", "class ModelNew(").partition("self, x):")
    body = "".join(f"\n        {line}" for line in forward.strip().splitlines())
    return f"{head}self, x):{body}\n\n\ndef get_inputs{rest.partition('def get_inputs')[2]}"


def in_order(count: int) -> str:
    return f"""
v, i = torch.sort(x, dim=-1, descending=True, stable=True)
return v[:, :{count}].contiguous(), i[:, :{count}].contiguous()
"""


HONEST = {
    "a product with the reciprocal": (
        QUANTISED,
        """
top = x.abs().amax(-1, keepdim=True)
return torch.clamp(torch.round(x * (1 / (top / 127))), -128, 127) * (top / 127)
""",
    ),
    "bins by a product": (
        COUNTED,
        """
x = x[(x >= -3) & (x <= 3)]
at = ((x + 3) * (100 / 6)).long().clamp_(max=99)
return torch.bincount(at, minlength=100).float()
""",
    ),
    "experts in single precision": (
        EXPERTS,
        """
f = x.float()
p, i = torch.topk(torch.softmax(f @ self.router.float(), -1), 2, dim=-1)
every = torch.einsum("td,edh->teh", f, self.experts.float())
chosen = every.gather(1, i.unsqueeze(-1).expand(-1, -1, 64))
return (chosen * p.unsqueeze(-1)).sum(1).bfloat16()
""",
    ),
    "a limit on a quotient": (
        KEPT_LARGE,
        """
x = torch.exp(x - x.amax(-1, keepdim=True))
p = x * (1 / x.sum(-1, keepdim=True))
return p * (p > 1 / 256)
""",
    ),
    "of equal bfloat16 numbers the first": (TOP, in_order(50)),
    "of equal integers the first": (TOP_INTEGERS, in_order(50)),
}
WRONG = {
    "rounded down from a little below a half": (
        QUANTISED,
        """
scale = x.abs().amax(-1, keepdim=True) / 127
return torch.clamp(torch.floor(x / scale + 0.499), -128, 127) * scale
""",
    ),
    "a lower limit": (
        KEPT_LARGE,
        """
p = torch.softmax(x, -1)
return torch.where(p > 0.999 / 256, p, 0.0)
""",
    ),
    "bins of one in fifty numbers more": (
        COUNTED,
        """
return torch.histc(torch.cat([x[:-2000], x[:2000]]), 100, -3.0, 3.0)
""",
    ),
    "one expert for one token of sixteen": (
        EXPERTS,
        """
p, i = torch.topk(torch.softmax(x @ self.router, -1), 2, dim=-1)
p[::16, 1] = 0
every = torch.einsum("td,edh->teh", x, self.experts)
chosen = every.gather(1, i.unsqueeze(-1).expand(-1, -1, 64))
return (chosen * p.unsqueeze(-1)).sum(1)
""",
    ),
    "the top of all but the last numbers": (
        TOP,
        """
return torch.topk(x[:, :-64], 50, dim=-1)
""",
    ),
}


def judged(evaluated: Evaluated, reference: str, forward: str) -> Measurement:
    task = quick_task(budget_s=0.2)
    # Denormal numbers, whose reciprocal is infinite, are another matter.
    rules = Correctness(trials=2, values="drawn")
    task = msgspec.structs.replace(task, correctness=rules)
    return evaluated(task, reference, kernel(reference, forward))


@pytest.mark.parametrize(("reference", "forward"), HONEST.values(), ids=HONEST)
def test_a_kernel_may_decide_near_ties_otherwise(
    evaluated: Evaluated, reference: str, forward: str
) -> None:
    for _ in range(4):
        found = judged(evaluated, reference, forward)
        assert found.outcome is Outcome.CORRECT, found.message


@pytest.mark.parametrize(("reference", "forward"), WRONG.values(), ids=WRONG)
def test_what_rounding_does_not_decide_is_wrong(
    evaluated: Evaluated, reference: str, forward: str
) -> None:
    found = judged(evaluated, reference, forward)
    assert found.failure is FailureKind.WRONG, found


def test_integers_have_unusual_values_without_ties(evaluated: Evaluated) -> None:
    task = quick_task(budget_s=0.2)
    reference, forward = HONEST["of equal integers the first"]
    found = evaluated(task, reference, kernel(reference, forward))
    assert found.outcome is Outcome.CORRECT, found.message
    tried = [each.name for each in found.errors if not each.note]
    assert any("integers at the ends" in name for name in tried)


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
    # One more element may be as wrong as these, but not two, and none by more.
    assert not refused({7: -1.0, 3000: 1.0})
    assert refused({3000: 1.0, 3001: -1.0})
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
