"""The structure of inputs is found over several draws, and kept in every input that is tried."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.task import Correctness, InputStructure
from akg_tui.evaluate.child import input_structure, unusual_values
from akg_tui.evaluate.child.input_structure import kept, words_of
from akg_tui.evaluate.child.unusual_values import Alteration, InputChange, ValueKind
from benchmarks.judge.ordinary.windows import pair
from tests.judging import Evaluated, quick_task


def symmetric() -> torch.Tensor:
    made = torch.randn(12, 12)
    return made + made.mT


CONSTANT_ALONG = (ValueKind.CONSTANT, ValueKind.LEVEL)

DRAWS: dict[str, tuple[Callable[[], torch.Tensor], tuple[str, ...]]] = {
    "normal": (lambda: torch.randn(8, 16), ()),
    "uniform": (lambda: torch.rand(8, 16), ()),
    "zeros": (lambda: torch.zeros(8, 16), ()),
    "ones": (lambda: torch.ones(8, 16), ()),
    "few": (lambda: torch.rand(2), ()),
    "mask": (lambda: (torch.rand(4, 64) < 0.5) * 1.0, ("zeros and ones", "no empty rows")),
    "flags": (lambda: torch.ones(8, 16).bool(), ("no empty rows",)),
    "one-hot": (lambda: torch.eye(9)[torch.randint(9, (32,))], ("one-hot rows",)),
    "lower": (lambda: torch.randn(2, 9, 9).tril(), ("lower triangular",)),
    "upper": (lambda: torch.randn(9, 9).triu(), ("upper triangular",)),
    "causal": (
        lambda: torch.ones(9, 9).tril(),
        ("zeros and ones", "no empty rows", "lower triangular"),
    ),
    "banded": (lambda: torch.randn(12, 12).tril(1).triu(-2), ("banded",)),
    "sparse": (
        lambda: torch.randn(12, 12) * (torch.arange(144).view(12, 12) % 7 < 3),
        ("fixed zeros",),
    ),
    "dropped": (lambda: torch.relu(torch.randn(12, 16)), ()),
    "symmetric": (symmetric, ("symmetric",)),
    "definite": (lambda: symmetric() + 100 * torch.eye(12), ("positive definite",)),
    "orthogonal": (lambda: torch.linalg.qr(torch.randn(8, 8)).Q, ("orthogonal",)),
    "sorted": (lambda: torch.randn(4, 16).sort(-1).values, ("sorted rows",)),
    "offsets": (
        lambda: torch.cat([torch.tensor([0]), torch.randint(99, (9,)).sort().values]),
        ("sorted rows",),
    ),
    "permutation": (lambda: torch.randperm(20), ("permutations",)),
    "pages": (lambda: torch.randperm(96)[:64].view(8, 8), ("distinct",)),
    "lengths": (lambda: torch.randint(1, 9, (16,)), ("positive",)),
    "indices": (lambda: torch.randint(0, 9, (16,)), ()),
}


def drawn(name: str, seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    return DRAWS[name][0]()


@pytest.mark.parametrize(("name", "words"), [(name, each[1]) for name, each in DRAWS.items()])
def test_a_structure_is_found_over_several_draws(name: str, words: tuple[str, ...]) -> None:
    assert words_of([drawn(name, seed) for seed in (1, 2, 3)]) == words


def test_numbers_have_no_structure() -> None:
    assert words_of([3, 3, 3]) == ()


def test_the_words_of_a_task_are_those_that_are_kept() -> None:
    assert set(get_args(InputStructure)) == {"any", *input_structure._KEEP}


@given(
    st.sampled_from(sorted(name for name, each in DRAWS.items() if each[1])),
    st.integers(0, 100),
    st.sampled_from([each for each in Alteration if each is not Alteration.REPEATED]),
)
def test_a_structure_is_kept_where_an_input_is_altered(
    name: str, seed: int, alteration: Alteration
) -> None:
    values, words = [drawn(name, at) for at in (seed, seed + 1, seed + 2)], DRAWS[name][1]
    rng = torch.Generator().manual_seed(seed)
    change = InputChange(0, alteration, values[0].dim() - 1)
    made = unusual_values.altered(change, values[:1], lambda: values[1:2], rng, [words])
    if made is not None:
        assert set(words) <= set(words_of([*made, values[2]]))
    for kind in unusual_values.possible("finite", [values[0].dtype]):
        if kind in unusual_values.SPECIAL:
            continue
        found = unusual_values.apply(kind, values[:1], rng, [words])
        if found is not None and kind not in CONSTANT_ALONG:
            for word in words:
                (one,) = (value for value in found if isinstance(value, torch.Tensor))
                again = kept([word], one, values[0], rng)
                assert torch.allclose(again.double(), one.double(), rtol=1e-4, atol=1e-5)


TRIANGLE = "torch.randn(64, 64).tril()"
SQUARE = "(lambda a: a @ a.mT + 32 * torch.eye(32))(torch.randn(32, 32))"
DEFINITE = f"(lambda s: (s + s.mT) / 2)({SQUARE})"
HONEST = {
    "a triangular product by blocks": pair(
        "a, b",
        "return a @ b",
        """
        half = len(a) // 2
        return torch.cat([a[:half, :half] @ b[:half], a[half:] @ b])
        """,
        f"{TRIANGLE}, torch.randn(64, 24)",
    ),
    "a banded solver": pair(
        "a, b",
        "return torch.linalg.solve(a, b)",
        """
        below, diagonal, above = a.diagonal(-1), a.diagonal().clone(), a.diagonal(1)
        y, n = b.clone(), len(a)
        for i in range(1, n):
            factor = below[i - 1] / diagonal[i - 1]
            diagonal[i] -= factor * above[i - 1]
            y[i] = y[i] - factor * y[i - 1]
        y[-1] = y[-1] / diagonal[-1]
        for i in range(n - 2, -1, -1):
            y[i] = (y[i] - above[i] * y[i + 1]) / diagonal[i]
        return y
        """,
        "torch.randn(40, 40).tril(1).triu(-1) + 8 * torch.eye(40), torch.randn(40, 8)",
    ),
    "a one-hot embedding": pair(
        "x, w",
        "return x @ w",
        "return w[x.argmax(-1)]",
        "F.one_hot(torch.randint(40, (64,)), 40).float(), torch.randn(40, 32)",
    ),
    "bisection in sorted rows": pair(
        "edges, x",
        "return (edges[:, None, :] < x[:, :, None]).sum(-1)",
        "return torch.searchsorted(edges, x)",
        "torch.randn(8, 40).sort(-1).values, torch.randn(8, 64)",
    ),
    "Cholesky": pair(
        "m, b",
        "return torch.linalg.solve(m, b)",
        "return torch.cholesky_solve(b, torch.linalg.cholesky(m))",
        f"{DEFINITE}, torch.randn(32, 4)",
    ),
    "half of a symmetric matrix": pair(
        "a, b",
        "return a @ b",
        "return torch.triu(a) @ b + torch.triu(a, 1).mT @ b",
        "(lambda a: a + a.mT)(torch.randn(48, 48)), torch.randn(48, 8)",
    ),
    "the transpose as inverse": pair(
        "q, b",
        "return torch.linalg.solve(q, b)",
        "return q.mT @ b",
        "torch.linalg.qr(torch.randn(32, 32)).Q, torch.randn(32, 8)",
    ),
    "rows written to pages": pair(
        "x, pages",
        "return torch.zeros(256, x.shape[1]).index_add(0, pages.flatten(), x)",
        """
        y = torch.zeros(256, x.shape[1])
        y[pages.flatten()] = x
        return y
        """,
        "torch.randn(128, 16), torch.randperm(256)[:128].view(8, 16)",
    ),
    "a mask as a factor": pair(
        "x, mask",
        "return torch.where(mask > 0, x, 0.0)",
        "return x * mask",
        "torch.randn(32, 64), (torch.rand(32, 64) < 0.5).float()",
    ),
    "segments by their offsets": pair(
        "x, offsets",
        """
        segment = torch.bucketize(torch.arange(len(x)), offsets[1:], right=True)
        return torch.zeros(len(offsets) - 1, x.shape[1]).index_add(0, segment, x)
        """,
        "return torch.stack([x[a:b].sum(0) for a, b in zip(offsets, offsets[1:])])",
        "torch.randn(128, 16), torch.cat([torch.tensor([0]), "
        "torch.randint(1, 128, (7,)).sort().values, torch.tensor([128])])",
    ),
    "rows by their lengths": pair(
        "x, lengths",
        """
        within = torch.arange(x.shape[1])[None] < lengths[:, None]
        return (x * within[..., None]).sum(1) / lengths[:, None]
        """,
        "return torch.stack([row[:n].mean(0) for row, n in zip(x, lengths)])",
        "torch.randn(16, 64, 8), torch.randint(1, 65, (16,))",
    ),
}


@pytest.mark.parametrize(("reference", "kernel"), HONEST.values(), ids=HONEST)
def test_a_kernel_may_count_on_the_structure_of_inputs(
    evaluated: Evaluated, reference: str, kernel: str
) -> None:
    found = evaluated(quick_task(), reference, kernel, timed=False)
    assert found.outcome is Outcome.CORRECT, found


@pytest.mark.parametrize("name", ["a", "0"])
def test_a_task_says_that_a_structure_does_not_matter(evaluated: Evaluated, name: str) -> None:
    task = quick_task(Correctness(trials=1, inputs={name: "any"}))
    found = evaluated(task, *HONEST["a triangular product by blocks"], timed=False)
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.WRONG), found


@pytest.mark.parametrize(
    ("inputs", "outcome"), [({}, Outcome.FAILED), ({"x": "positive"}, Outcome.CORRECT)]
)
def test_a_task_states_a_structure_that_draws_do_not_show(
    evaluated: Evaluated, inputs: dict[str, InputStructure], outcome: Outcome
) -> None:
    logarithms = pair(
        "x", "return x.square() * x.abs()", "return (3 * x.log()).exp()", "torch.rand(8, 64) + 0.1"
    )
    task = quick_task(Correctness(trials=1, inputs=dict(inputs), tolerance=1e-5))
    assert evaluated(task, *logarithms, timed=False).outcome is outcome


def test_a_structure_of_an_unknown_input_is_refused(evaluated: Evaluated) -> None:
    task = quick_task(Correctness(trials=1, inputs={"c": "positive"}))
    found = evaluated(task, *HONEST["a triangular product by blocks"], timed=False)
    assert found.outcome is Outcome.ERROR
    assert found.message == (
        "task.toml: correctness.inputs: forward() has no input 'c', it has: 'a', 'b'"
    )
