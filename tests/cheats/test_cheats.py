"""Kernels that cheat gain nothing, and honest ones pass, before the same judges."""

from __future__ import annotations

import select
import socket

import pytest

from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.phases import Verdict
from akg_tui.core.verdict import decide_verdict
from tests.cheats.catalogue import MUST_FAIL, MUST_NOT_LOOK_FASTER
from tests.cheats.cheat import Cheat, Slowpoke
from tests.cheats.conftest import AskJudge
from tests.cheats.honest import HONEST, Honest

pytestmark = pytest.mark.asyncio(loop_scope="session")


def _title(value: object) -> str:
    return str(getattr(value, "name", value)).replace(" ", "-")


@pytest.mark.parametrize("cheat", MUST_FAIL, ids=_title)
async def test_a_cheat_fails_without_the_static_guard(judge_of: AskJudge, cheat: Cheat) -> None:
    judge = await judge_of(cheat.task)
    found = await judge.evaluate(cheat.source, cheat.incumbent)
    assert found.outcome is Outcome.FAILED, found
    assert found.failure in cheat.fails, found
    assert cheat.says.lower() in found.message.lower()
    assert found.ratio is None


@pytest.mark.parametrize("slowpoke", MUST_NOT_LOOK_FASTER, ids=_title)
async def test_a_trick_with_time_gains_nothing(judge_of: AskJudge, slowpoke: Slowpoke) -> None:
    judge = await judge_of(slowpoke.task)
    found = await judge.evaluate(slowpoke.source, slowpoke.incumbent)
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
    elif slowpoke.says and found.confirmation is not None:
        assert slowpoke.says in " ".join(found.noise) or not found.confirmation.agrees
    else:
        # Four clusters on a machine that has other work to do say little more than that.
        assert found.ratio.ratio < 1.25 or slowpoke.says or found.noise


@pytest.mark.parametrize("honest", HONEST, ids=_title)
async def test_an_honest_kernel_is_correct(judge_of: AskJudge, honest: Honest) -> None:
    # A judge that refuses everything is easy: these must be found correct.
    found = await (await judge_of(honest.task)).evaluate(honest.source)
    assert found.outcome is Outcome.CORRECT, found
    assert found.ratio is not None
    assert found.max_error is not None
    tried = [each for each in found.errors if each.error is not None]
    assert len(tried) >= honest.inputs, found.errors
    assert all(each.error <= (each.tolerance or 0.0) for each in tried if each.error is not None)


async def test_the_network_is_out_of_reach_where_the_sandbox_says_so(judge_of: AskJudge) -> None:
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
        found = await (await judge_of("softmax")).evaluate(probe)
        reached = bool(select.select([server], [], [], 0)[0])
        # Whoever is not confined does reach it.
        with socket.create_connection(address):
            assert select.select([server], [], [], 5)[0]
    assert found.outcome is Outcome.FAILED
    if not {"netns", "seccomp"} & set(found.sandbox):
        pytest.skip("this kernel offers neither netns nor seccomp")
    assert not reached
    assert "held: " in found.message


async def test_no_secret_of_the_environment_reaches_a_kernel(judge_of: AskJudge) -> None:
    probe = "import os\nraise ValueError(' '.join(sorted(os.environ)))\nclass ModelNew: pass\n"
    found = await (await judge_of("softmax")).evaluate(probe)
    names = set(found.message.rpartition(": ")[2].split())
    assert "PATH" in names
    assert not [name for name in names if "KEY" in name or "TOKEN" in name or "SECRET" in name]
