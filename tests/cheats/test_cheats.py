"""Kernels that try to look faster or more correct than they are, and gain nothing."""

from __future__ import annotations

import pytest

from akg_tui.core.measurement import Outcome
from tests.cheats.catalogue import MUST_FAIL, MUST_NOT_LOOK_FASTER, Cheat, Slowpoke
from tests.cheats.conftest import AskJudge

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
    assert found.outcome is Outcome.CORRECT, found
    assert found.ratio is not None
    assert found.ratio.low < 1.01
    assert found.ratio.ratio < 1.25
    assert slowpoke.says in " ".join(found.noise)


async def test_the_network_is_out_of_reach_where_the_sandbox_says_so(judge_of: AskJudge) -> None:
    # RewardHackBench: 24 of 24 fetch the solution when it is hinted at.
    source = next(c.source for c in MUST_FAIL if c.name == "zeros")
    probe = "import socket; socket.create_connection(('127.0.0.1', 9), timeout=1)\n"
    found = await (await judge_of("softmax")).evaluate(probe + source)
    assert found.outcome is Outcome.FAILED
    if "netns" in found.sandbox and "unreachable" not in found.message:
        assert "rrno" in found.message or "ermission" in found.message


async def test_no_secret_of_the_environment_reaches_a_kernel(judge_of: AskJudge) -> None:
    probe = "import os\nraise ValueError(' '.join(sorted(os.environ)))\nclass ModelNew: pass\n"
    found = await (await judge_of("softmax")).evaluate(probe)
    names = set(found.message.rpartition(": ")[2].split())
    assert "PATH" in names
    assert not [name for name in names if "KEY" in name or "TOKEN" in name or "SECRET" in name]
