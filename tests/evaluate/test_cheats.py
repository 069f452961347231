"""Kernels that cheat gain nothing, and honest ones pass.

The suite evaluates a few of each principle: `python -m benchmarks cheats` evaluates all.
"""

from __future__ import annotations

import select
import socket

import pytest

from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.phases import Verdict
from akg_tui.core.verdict import decide_verdict
from akg_tui.evaluate import Judge
from benchmarks.judge.expert import EXPERT
from benchmarks.judge.ordinary.catalogue import ORDINARY, TASKS
from benchmarks.judge.ordinary.cheat import Cheat, Slowpoke
from benchmarks.judge.ordinary.honest_styles import HONEST, Honest
from tests.judging import Evaluated

IN_SUITE = {
    1: ("a lazy tensor", "expected results found by the garbage collector", "comparison patched"),
    2: ("the first result for ever", "remembered by address", "the mask of the first call"),
    3: (
        "only the declared shape",
        "a mask ignored",
        "window: gated scan",
        "window: causal attention",
        "window: a norm of each second block in 16 bits",
    ),
    4: ("a lower limit", "a scan in bfloat16"),
    5: (
        "one result in four stale while it is timed",
        "care left out after many ordinary calls",
        "filled in after the answer",
        "a process that fills it in",
        "a thread that begins before the clock",
    ),
    6: ("a hog that outlives the call", "a ring of 3 result buffers"),
    7: ("the same kernel in other words",),
    8: ("BLAS found with ctypes",),
}
"""By the number of a principle."""

HONEST_IN_SUITE = {
    "compiled at the first call": True,
    "a result buffer used again": True,
    "threads that are joined": True,
    "a choice made by trying both": True,
    "scripted by torch": True,
    "constants made once for a shape": False,
    "loud, and with warnings": False,
    "numpy": False,
    "fake quantisation by a product with the reciprocal": False,
    "a bfloat16 mixture of experts, routed in single precision": False,
    "the top of bfloat16 numbers, of equal ones the first": False,
}
"""Honest kernels, and whether each is timed: results that a kernel keeps, and what it starts,
builds or chooses in a call, could be held against it there."""

CHOSEN = [each for number, group in ORDINARY.items() for each in group
          if each.name in IN_SUITE[number]]  # fmt: skip


@pytest.mark.parametrize("number", range(1, 9))
def test_each_principle_stops_ordinary_cheats(number: int) -> None:
    assert len(ORDINARY[number]) >= 3
    assert {*IN_SUITE[number]} <= {each.name for each in ORDINARY[number]}


def test_the_catalogue_is_whole() -> None:
    everyone = [*(each for group in ORDINARY.values() for each in group), *EXPERT]
    named = [each.name for each in everyone]
    assert len(set(named)) == len(named)
    assert all(each.seen and each.defence and each.task in TASKS for each in everyone)
    assert sum(len(group) for group in ORDINARY.values()) >= 120
    assert len({each.name for each in HONEST}) == len(HONEST) >= 12
    assert {each.name for each in HONEST} >= HONEST_IN_SUITE.keys()


def _title(value: object) -> str:
    return str(getattr(value, "name", value)).replace(" ", "-")


@pytest.mark.parametrize("cheat", [each for each in CHOSEN if type(each) is Cheat], ids=_title)
def test_a_cheat_fails(evaluated: Evaluated, cheat: Cheat) -> None:
    found = evaluated(*TASKS[cheat.task], cheat.source, incumbent=cheat.incumbent)
    assert found.outcome is Outcome.FAILED, found
    assert found.failure in cheat.fails, found
    assert cheat.says.lower() in found.message.lower()
    assert found.ratio is None


@pytest.mark.parametrize(
    "slowpoke", [each for each in CHOSEN if type(each) is Slowpoke], ids=_title
)
def test_a_trick_with_time_gains_nothing(evaluated: Evaluated, slowpoke: Slowpoke) -> None:
    found = evaluated(*TASKS[slowpoke.task], slowpoke.source, incumbent=slowpoke.incumbent)
    if slowpoke.may_fail and found.failure is FailureKind.WRONG:
        return
    assert found.outcome is Outcome.CORRECT, found
    assert found.ratio is not None
    decision = decide_verdict(found, 0.01)
    assert decision.verdict is not Verdict.KEEP, decision
    if found.ratio.low > 1.01:
        # One look in a hundred errs, more on a loaded machine. Who looks faster is measured again.
        assert found.confirmation is not None
        assert not found.confirmation.agrees
        assert "not confirmed" in decision.reason


@pytest.mark.parametrize(
    "honest", [each for each in HONEST if each.name in HONEST_IN_SUITE], ids=_title
)
def test_an_honest_kernel_is_correct(evaluated: Evaluated, honest: Honest) -> None:
    # A judge that refuses everything is easy: these must be found correct.
    timed = HONEST_IN_SUITE[honest.name]
    found = evaluated(*TASKS[honest.task], honest.source, timed=timed)
    assert found.outcome is Outcome.CORRECT, found
    assert (found.ratio is not None) == timed
    assert found.max_error is not None
    tried = [each for each in found.errors if each.error is not None]
    assert len(tried) >= honest.inputs, found.errors
    assert all(each.error <= (each.tolerance or 0.0) for each in tried if each.error is not None)


@pytest.mark.asyncio(loop_scope="session")
async def test_the_network_is_out_of_reach_where_the_sandbox_says_so(judge: Judge) -> None:
    # RewardHackBench: 24 of 24 fetch the solution when it is hinted at.
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        probe = (
            "import socket\n"
            "try:\n"
            f"    socket.create_connection({address}, timeout=5)\n"
            "except OSError as error:\n"
            "    raise ValueError(f'held: {error}')\n"
            "raise ValueError('connected')\n"
            "class ModelNew: pass\n"
        )
        found = await judge.evaluate(probe)
        reached = bool(select.select([server], [], [], 0)[0])
        # Whoever is not confined does reach it.
        with socket.create_connection(address):
            assert select.select([server], [], [], 5)[0]
    assert found.outcome is Outcome.FAILED
    if not {"netns", "seccomp"} & set(found.sandbox):
        pytest.skip("this kernel offers neither netns nor seccomp")
    assert not reached
    assert "held: " in found.message


@pytest.mark.asyncio(loop_scope="session")
async def test_no_secret_of_the_environment_reaches_a_kernel(judge: Judge) -> None:
    probe = "import os\nraise ValueError(' '.join(sorted(os.environ)))\nclass ModelNew: pass\n"
    found = await judge.evaluate(probe)
    names = set(found.message.rpartition(": ")[2].split())
    assert "PATH" in names
    assert not [name for name in names if "KEY" in name or "TOKEN" in name or "SECRET" in name]
