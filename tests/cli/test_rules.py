"""`akg-tui rules`, on a run at rest and on one at work; and a headless run under a rule."""

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


async def waiting(folder: Path, mode: Mode = Mode.REVIEW) -> Path:
    """A run at rest whose first KEEP waits for a person."""
    async with at_work(folder, mode) as work:
        await until(lambda: work.state.gate is not None)
    return Path(work.path)


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    told = capsys.readouterr()
    assert told.err == ""
    return told.out.splitlines()


async def test_a_rule_is_made_at_rest_listed_used_by_the_next_session_and_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = await waiting(tmp_path / "task")
    assert main(["rules", str(run)]) == 0
    out = lines(capsys)
    assert out[0] == "no rules: each request waits for a person, or for nobody"
    assert out[1] == "request 1 waits: the keep of attempt 1"
    assert out[-1] == f"  make that rule with: akg-tui rules {run} --always 1"
    worked = read_state(run).worked_s
    assert main(["rules", str(run), "--always", "1"]) == 0
    out = lines(capsys)
    assert out[0].startswith("rule 1, in force: every later KEEP becomes the best unasked")
    assert out[1].endswith("from request 1, by the command line")
    assert read_state(run).worked_s - worked < 60
    work = engine(RunFolder.open(run))
    await work.run()
    await work.close()
    state = read_state(run)
    assert state.finished == "max rounds reached (5)"
    used = [r.event for r in read(run / "events.jsonl") if isinstance(r.event, ev.RuleApplied)]
    assert used
    assert state.rules[0].used == len(used)
    assert main(["rules", str(run), "--json"]) == 0
    (told,) = map(json.loads, lines(capsys))
    assert told["waits"] is None
    (rule,) = told["rules"]
    assert (rule["rule"], rule["gate"], rule["by"], rule["used"], rule["in_force"]) == (
        1, "keep", "command line", len(used), True,
    )  # fmt: skip


async def test_a_run_at_work_takes_a_rule_and_its_end_from_another_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with at_work(tmp_path / "task", Mode.REVIEW) as work:
        await until(lambda: work.state.gate is not None)
        work.send(cmd.Pause())
        run = work.path
        assert await asyncio.to_thread(main, ["rules", run, "--always", "1"]) == 0
        assert "rule 1, in force" in lines(capsys)[0]
        assert [(r.number, r.source) for r in work.state.rules] == [(1, "user")]
        assert await asyncio.to_thread(main, ["rules", run, "--revoke", "1"]) == 0
        assert "rule 1, ended: taken back" in lines(capsys)[0]
        assert work.state.rules_in_force == ()
        assert await asyncio.to_thread(main, ["rules", run, "--revoke", "1"]) == 2
        error = capsys.readouterr().err
        assert "rule 1 is not in force: taken back" in error
        assert error.count("\n") == 1


async def test_a_script_is_shown_in_full_and_cannot_draw_on_the_terminal(
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
    assert main(["rules", str(run.path)]) == 0
    out = lines(capsys)
    assert out[1:5] == [
        "request 1 waits: a script", "  | notes/a.sh", "  | echo ␛[2J", "  | ls",
    ]  # fmt: skip
    assert "every sh script of the agent in phase INIT" in out[5]


def test_bad_input_is_one_line_exit_2_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = create(tmp_path / "task")
    run.close()
    journal = (run.path / "events.jsonl").read_bytes()
    for words, told in (
        (["nowhere"], "nowhere: is not a run"),
        ([str(run.path), "--revoke", "1"], "there is no rule 1: the run has no rules"),
        ([str(run.path), "--always", "1"], "gate 1 is not open"),
    ):
        assert main(["rules", *words]) == 2
        error = capsys.readouterr().err
        assert told in error
        assert error.count("\n") == 1
        assert (run.path / "events.jsonl").read_bytes() == journal


@pytest.mark.parametrize("words", [["--always", "0"], ["--revoke", "x"], ["--always", "1", "--revoke", "1"]])  # fmt: skip  # noqa: E501
def test_a_bad_number_is_refused_by_its_option(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["rules", "RUN", *words])
    assert ended.value.code == 2
