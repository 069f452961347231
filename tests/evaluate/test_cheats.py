"""Kernels that try to look faster or more correct than they are, and gain nothing."""

from __future__ import annotations

import pytest

from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.evaluate import Judge
from tests.evaluate.kernels import PLAIN, SLOW, kernel

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATCHES = """
torch.allclose = torch.equal = lambda *_, **__: True
torch.Tensor.__eq__ = lambda *_: True
time.perf_counter = time.monotonic = time.time = lambda: 0.0
time.perf_counter_ns = time.monotonic_ns = time.time_ns = lambda: 0
"""


@pytest.mark.parametrize(
    "lines",
    [
        ("key = x.data_ptr()", "if key not in self.kept:", "    self.kept[key] = x.softmax(-1)",
         "return self.kept[key]"),
        ("key = id(x)", "return self.kept.setdefault(key, x.softmax(-1))"),
        ("return torch.zeros_like(x)",),
        ("return torch.empty_like(x)",),
        ("return x",),
    ],
)  # fmt: skip
async def test_a_remembered_or_constant_answer_is_wrong(
    judge: Judge, lines: tuple[str, ...]
) -> None:
    found = await judge.evaluate(kernel(*lines))
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.WRONG), found


async def test_an_answer_remembered_only_while_timed_is_found_wrong(judge: Judge) -> None:
    found = await judge.evaluate(
        kernel(
            "self.calls += 1",
            "if self.calls <= 8:",
            "    self.last = x.softmax(-1)",
            "return self.last",
        ),
        SLOW,
    )
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.WRONG), found
    assert "in a timed call" in found.message


async def test_a_result_filled_in_after_the_answer_does_not_count(judge: Judge) -> None:
    late = kernel(
        "y = torch.empty_like(x)",
        "def fill():",
        "    time.sleep(0.05)",
        "    y.copy_(x.softmax(-1))",
        "threading.Thread(target=fill, daemon=True).start()",
        "return y",
    )
    found = await judge.evaluate(late)
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.WRONG), found


async def test_patched_clocks_and_comparisons_change_nothing(judge: Judge) -> None:
    slow = SLOW.replace("class ModelNew", PATCHES + "\n\nclass ModelNew")
    found = await judge.evaluate(slow, PLAIN)
    assert found.outcome is Outcome.CORRECT, found
    assert found.ratio is not None
    assert found.ratio.high < 1.0
    found = await judge.evaluate(kernel("return x", before=PATCHES))
    assert found.failure is FailureKind.WRONG


async def test_an_answer_that_was_not_asked_for_is_a_crash(judge: Judge) -> None:
    forger = "import socket; socket.socket(fileno=os.dup(3)).send(bytes(24))"
    found = await judge.evaluate(kernel("return x", before=forger))
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.CRASH), found
    assert "what it was not asked" in found.message


async def test_the_network_is_out_of_reach_where_the_sandbox_says_so(judge: Judge) -> None:
    probe = "import socket; socket.create_connection(('127.0.0.1', 9), timeout=1)"
    found = await judge.evaluate(kernel("return x", before=probe))
    assert found.failure is FailureKind.BUILD
    if "seccomp" in found.sandbox:
        assert "PermissionError" in found.message
    elif "netns" in found.sandbox:
        assert "unreachable" in found.message


async def test_no_secret_of_the_environment_reaches_a_kernel(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = "raise ValueError(' '.join(sorted(os.environ)))"
    found = await judge.evaluate(kernel("return x", before=probe))
    names = set(found.message.rpartition(": ")[2].split())
    assert "PATH" in names
    assert not [name for name in names if "KEY" in name or "TOKEN" in name or "SECRET" in name]
