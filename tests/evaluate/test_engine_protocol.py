"""What the engine asks of the judge arrives as it was sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from akg_tui.core.measurement import Measurement, Outcome
from akg_tui.core.task import Task
from akg_tui.evaluate import engine_protocol
from akg_tui.evaluate.engine_protocol import Evaluate, Result
from akg_tui.evaluate.judge_client import Judge

KERNEL = "class ModelNew:\n    pass\n"
PRIOR = (0.1, -1 / 3, 5e-324)


async def test_the_earlier_log_ratios_reach_the_judge_and_come_back_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Evaluate] = []

    async def ensure(judge: Judge) -> None:
        pass

    async def ask(judge: Judge, request: Evaluate) -> Measurement | None:
        sent = engine_protocol.decode_for_judge(engine_protocol.encode(request))
        assert isinstance(sent, Evaluate)
        asked.append(sent)
        found = Measurement(outcome=Outcome.CORRECT, log_ratios=sent.prior, undecided=True)
        answer = engine_protocol.encode(Result(sent.number, found))
        received = engine_protocol.decode_for_engine(answer)
        assert isinstance(received, Result)
        return received.measurement

    monkeypatch.setattr(Judge, "_ensure", ensure)
    monkeypatch.setattr(Judge, "_ask", ask)
    judge = Judge(Task(op="op"), "class Model: pass", tmp_path)
    found = await judge.evaluate(KERNEL, "class ModelNew: ...", prior=PRIOR)
    assert asked[0].prior == found.log_ratios == PRIOR
    assert found.undecided
    assert (await judge.evaluate(KERNEL, "class ModelNew: ...")).log_ratios == ()
