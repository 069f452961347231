"""Approval rules by `ctl`, on a run at rest and on one at work; and a run under a rule."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from akg_tui.cli import main
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.phases import Gate, Mode
from akg_tui.store.journal import read
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.run_list import read_state
from tests.engine.runs import create, engine
from tests.engine.test_attach import at_work, until


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    told = capsys.readouterr()
    assert told.err == ""
    return told.out.splitlines()


async def test_a_rule_is_made_at_rest_listed_and_used_by_the_next_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with at_work(tmp_path / "task", Mode.REVIEW) as work:
        await until(lambda: work.state.gate is not None)
    run = Path(work.path)
    assert main(["ctl", "show", str(run)]) == 0
    approves = "every later KEEP becomes the best unasked"
    assert f"always {approves}" in lines(capsys)[-1]
    worked = read_state(run).worked_s
    assert main(["ctl", "approve", str(run), "--always"]) == 0
    assert read_state(run).worked_s - worked < 60
    work = engine(RunFolder.open(run))
    await work.run()
    await work.close()
    state = read_state(run)
    assert state.finished == "max rounds reached (5)"
    used = [r.event for r in read(run / "events.jsonl") if isinstance(r.event, ev.RuleApplied)]
    assert used
    assert state.rules[0].used == len(used)
    assert main(["ctl", "show", str(run)]) == 0
    assert lines(capsys)[-1].startswith(f"rule 1, in force: {approves}")
    assert main(["ctl", "show", str(run), "--json"]) == 0
    told = json.loads(lines(capsys)[0])
    assert told["gate"] is None
    assert [(r["number"], r["scope"]["gate"], r["used"]) for r in told["rules"]] == [
        (1, "keep", len(used))
    ]


async def test_a_run_at_work_takes_a_rule_and_its_end_from_another_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with at_work(tmp_path / "task", Mode.REVIEW) as work:
        await until(lambda: work.state.gate is not None)
        work.send(cmd.Pause())
        assert await asyncio.to_thread(main, ["ctl", "approve", work.path, "--always"]) == 0
        assert [rule.number for rule in work.state.rules_in_force] == [1]
        assert await asyncio.to_thread(main, ["ctl", "revoke", work.path, "1"]) == 0
        assert work.state.rules_in_force == ()
        assert await asyncio.to_thread(main, ["ctl", "revoke", work.path, "1"]) == 3
        error = capsys.readouterr().err
        assert "rule 1 is not in force: taken back" in error
        assert error.count("\n") == 1


def test_a_script_is_shown_in_full_and_cannot_draw_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = create(tmp_path / "task")
    run.append(ev.GateChanged(gate=Gate.SCRIPT, on=True))
    opened = ev.GateOpened(
        gate=1, kind="script", attempt=1, subject="ab", detail="notes/a.sh\necho \x1b[2J\nls",
        interpreter="sh",
    )  # fmt: skip
    run.append(opened)
    run.close()
    assert main(["ctl", "show", str(run.path)]) == 0
    asks, *script = lines(capsys)[-4:]
    assert "always every sh script of the agent in phase INIT" in asks
    assert script == ["  | notes/a.sh", "  | echo ␛[2J", "  | ls"]
