"""A judge that refuses everything is easy: these must be found correct."""

from __future__ import annotations

import pytest

from akg_tui.core.measurement import Outcome
from tests.cheats.conftest import AskJudge
from tests.cheats.honest import HONEST, Honest

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize("honest", HONEST, ids=lambda h: h.name.replace(" ", "-"))
async def test_an_honest_kernel_is_correct(judge_of: AskJudge, honest: Honest) -> None:
    found = await (await judge_of(honest.task)).evaluate(honest.source)
    assert found.outcome is Outcome.CORRECT, found
    assert found.ratio is not None
    assert found.max_error is not None
    tried = [each for each in found.errors if each.error is not None]
    assert len(tried) >= 10, found.errors
    assert all(each.error <= (each.tolerance or 0.0) for each in tried if each.error is not None)
