"""Suites as scripts call them: many tasks, broken ones among them, killed, resumed, tried again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from akg_tui import cli
from akg_tui.core import events as ev
from akg_tui.core.measurement import FailureKind, Measurement, Outcome
from akg_tui.store.errors import BadTask
from akg_tui.store.run_at_rest import RunAtRest
from akg_tui.store.run_list import list_runs
from akg_tui.suite import suite_run
from akg_tui.suite.suite_record import Suite, SuiteAtWork
from akg_tui.suite.suite_results import results_of
from akg_tui.suite.task_list import find_tasks
from tests.engine.fake_judge import FakeJudge
from tests.engine.runs import make_task
from tests.suite.fake_suite import patched, tasks_in

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _fake_judge() -> Iterator[None]:
    patches = patched()
    for patch in patches:
        patch.start()
    yield
    for patch in patches:
        patch.stop()


def told(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, list[dict[str, Any]]]:
    """Run a command with --json; return its exit code and its lines."""
    code = cli.main([*map(str, words), "--json"])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def begun(folder: Path, *more: object) -> list[object]:
    return ["suite", folder / "tasks", "--out", folder / "out", "--max-rounds", 3, *more]


def test_all_tasks_are_run_and_the_results_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks_in(tmp_path / "tasks", 3)
    code, lines = told(capsys, *begun(tmp_path, "--jobs", 2))
    assert code == 0
    assert [line["state"] for line in lines[:-1]].count("done") == 3
    (agent,) = lines[-1]["agents"]
    assert agent["correct_share"] == 1.0
    written = sorted(path.name for path in (tmp_path / "out").glob("results.*"))
    assert written == ["results.json", "results.md"]
    assert len(list_runs(tmp_path)) == 3, "they stand in the list of runs"
    assert not list((tmp_path / "tasks").rglob("runs")), "the tasks given stay as they are"


def test_a_broken_task_among_others_is_one_line_and_the_others_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks_in(tmp_path / "tasks", 2)
    broken = make_task(tmp_path / "tasks/broken")
    (broken / "task.toml").write_text('op = "x"\nopp = 1\n')
    (tmp_path / "tasks/problem.py").write_text("import torch\nclass Model(\n")
    code, lines = told(capsys, *begun(tmp_path))
    assert code == 1
    whys = {line["task"]: line["what"] for line in lines[:-1] if line["state"] == "refused"}
    assert set(whys) == {"broken", "problem"}
    assert whys["broken"].startswith(f"{broken}/task.toml:2: opp: is not a known field")
    assert whys["problem"].startswith(f"{tmp_path}/tasks/problem.py:2: not valid Python")
    assert lines[-1]["agents"][0]["correct"] == 2
    assert lines[-1]["agents"][0]["refused"] == 2

    (broken / "task.toml").write_text('op = "x"\n')
    _, lines = told(capsys, "suite resume", tmp_path / "out")
    states = [(line["task"], line["state"]) for line in lines[:-1]]
    assert ("broken", "done") in states, "it was mended"
    assert ("task0", "running") not in states, "what is over is not run again"


def test_a_run_that_went_on_on_another_machine_has_no_ratio_over_compile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = make_task(tmp_path / "tasks/one")
    (task / "task.toml").write_text('op = "speed"\nbaselines = ["compile"]\n')
    assert told(capsys, *begun(tmp_path))[0] == 0
    (here,) = results_of(Suite(tmp_path / "out")).tasks
    assert (here.over_eager, here.over_compile, here.moved) == (3.0, 2.0, False)
    suite = SuiteAtWork(tmp_path / "out")
    suite.note_host(suite.entries[0], "another")
    suite.close()
    (there,) = results_of(Suite(tmp_path / "out")).tasks
    assert (there.over_eager, there.over_compile, there.moved) == (3.0, None, True)


def decisions(folder: Path) -> dict[str, list[Any]]:
    suite = Suite(folder)
    return {
        entry.name: [
            (e.round, e.attempt, e.verdict, e.blob)
            for e in (r.event for r in RunAtRest(suite.run_folder(entry)).records)
            if isinstance(e, ev.Decided)
        ]
        for entry in suite.entries
    }


def test_a_suite_killed_again_and_again_ends_like_one_that_was_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks_in(tmp_path / "tasks", 3)
    told(capsys, *begun(tmp_path))
    whole = decisions(tmp_path / "out")
    killed = tmp_path / "killed"
    words = ["suite", tmp_path / "tasks", "--out", killed, "--max-rounds", 3]
    command = [sys.executable, "-m", "tests.suite.fake_suite", *map(str, words)]
    deaths = 0
    # The first write of all is the record's; later ones are in the middle of the runs.
    for last in (1, 5, 11, 40):
        environment = {**os.environ, "DIE_AT": str(last)}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
        deaths += done.returncode == -signal.SIGKILL
    assert deaths >= 3
    assert cli.main(["suite resume", str(killed)] if (killed / "suite.json").is_file() else []) == 0
    assert decisions(killed) == whole
    assert len(list_runs(killed)) == 3, "no run was begun twice"


def test_the_same_command_goes_on_with_limits_and_names_of_any_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks_in(tmp_path / "tasks", 1)
    (tmp_path / "tasks" / os.fsdecode(b"not\xff.py")).write_text("x = 1\n")
    policy = tmp_path / "policy.json"
    policy.write_text(
        '{"maxExperiments": 1, "goals": [{"metric": "speedup", "operator": ">=", "value": 9}]}'
    )
    words = begun(tmp_path, "--policy", policy, "--goal", "ratio>=3", "--only", "*")
    code, lines = told(capsys, *words)
    assert code == 1
    assert [line["state"] for line in lines[:-1]] == ["refused", "running", "done"]
    assert "has a name that is not UTF-8" in lines[0]["what"]
    assert "max experiments reached (1/1)" in lines[2]["what"]
    assert lines[-1]["agents"][0]["refused"] == 1
    assert [line.get("state") for line in told(capsys, *words)[1]] == ["refused", None]


def test_a_suite_is_not_continued_with_other_settings_nor_in_a_used_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks_in(tmp_path / "tasks", 1)
    assert told(capsys, *begun(tmp_path))[0] == 0
    assert cli.main([*map(str, begun(tmp_path, "--max-tokens", 5))]) == 2
    assert "holds a suite of other tasks or settings" in capsys.readouterr().err
    assert cli.main(["suite", str(tmp_path / "tasks"), "--out", str(tmp_path / "tasks")]) == 2
    assert "has task0 in it" in capsys.readouterr().err


def test_a_suite_from_elsewhere_writes_and_deletes_nothing_outside_of_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks_in(tmp_path / "tasks", 1)
    told(capsys, *begun(tmp_path))
    out, mine = tmp_path / "out", tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis").write_text("years of work")
    record = json.loads((out / "suite.json").read_text())

    def attack(**fields: object) -> None:
        forged = json.loads(json.dumps(record))
        forged["entries"][0] |= fields
        (out / "suite.json").write_text(json.dumps(forged))

    def refused(*words: str) -> None:
        for command in (["suite", "resume", str(out)], ["suite", "show", str(out)]):
            code, err = cli.main(command), capsys.readouterr().err
            if command[1] == "resume" or "link" not in words[0]:
                assert (code, err.count("\n")) == (2, 1), err
                assert all(word in err for word in words), err
        assert (mine / "thesis").read_text() == "years of work"
        assert list(mine.iterdir()) == [mine / "thesis"]

    source = record["entries"][0]["source"]
    attack(source={**source, "name": "../../mine"})
    refused("suite.json: cannot be read", "name: '../../mine' leaves the folder")
    attack(source={**source, "name": "mine"})
    (out / "tasks").rename(tmp_path / "moved")
    (out / "tasks").symlink_to(tmp_path)
    refused("tasks: is a link, a pipe or a device")


def test_each_agent_has_each_task_and_a_dead_server_is_an_outside_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks_in(tmp_path / "tasks", 1)
    more = ["--agents", "sweep,lab/model", "--base-url", "http://127.0.0.1:9", "--retries", 0]
    code, lines = told(capsys, *begun(tmp_path, *more))
    assert code == 1
    assert [(line["agent"], line["state"]) for line in lines[:-1]] == [
        ("sweep", "running"), ("sweep", "done"),
        ("lab/model", "running"), ("lab/model", "given up"),
    ]  # fmt: skip
    assert "cannot reach the server" in lines[3]["what"]
    assert [(a["correct"], a["open"]) for a in lines[-1]["agents"]] == [(1, 0), (0, 1)]
    out = tmp_path / "out"
    assert cli.main(["suite", "compare", str(out), str(out)]) == 2
    assert f"name one: {out}:sweep" in capsys.readouterr().err
    assert cli.main(["suite", "compare", f"{out}:sweep", f"{out}:lab/model"]) == 0
    assert "left out: 1 tasks" in capsys.readouterr().out
    words = [str(word) for word in begun(tmp_path / "other", "--agents", "lab/m,lab_m")]
    assert cli.main(words) == 2
    assert "two would have runs of the same name" in capsys.readouterr().err


class LostJudge(FakeJudge):
    """Is lost whenever it is to evaluate, while `left` is above zero."""

    left = 0

    async def evaluate(self, *args: Any, **named: Any) -> Measurement:
        if LostJudge.left > 0:
            LostJudge.left -= 1
            return Measurement(
                outcome=Outcome.ERROR, failure=FailureKind.JUDGE, message="the judge was lost"
            )
        return await super().evaluate(*args, **named)


def test_a_lost_judge_is_an_outside_reason_and_a_wrong_kernel_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = make_task(tmp_path / "tasks/wrong")
    kernel = (wrong / "kernel.py").read_text().replace('SPEED = "A"', 'SPEED = "WRONG"')
    (wrong / "kernel.py").write_text(kernel)
    make_task(tmp_path / "tasks/good")
    judge = lambda run, on_progress: LostJudge(on_progress)  # noqa: E731
    monkeypatch.setattr("akg_tui.engine.run_service._judge", judge)
    LostJudge.left = 3  # a run ends after three
    code, lines = told(capsys, *begun(tmp_path))
    assert code == 1
    states = [(line["task"], line["state"]) for line in lines[:-1]]
    assert states == [
        ("good", "running"), ("good", "retry"), ("wrong", "running"), ("wrong", "failed"),
        ("good", "running"), ("good", "done"),
    ]  # fmt: skip
    assert lines[-1]["agents"][0]["tasks"] == 2, "the run that was lost counts no second time"
    # Nothing is left to do: a verdict is not tried again.
    assert [line["type"] for line in told(capsys, "suite resume", tmp_path / "out")[1]] == ["suite"]


def test_what_stops_again_and_again_is_given_up_and_stays_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks_in(tmp_path / "tasks", 1)

    def full(suite: object, entry: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(suite_run, "open_run", full)
        code, lines = told(capsys, *begun(tmp_path, "--retries", 1))
    assert code == 1
    assert [line["state"] for line in lines[:-1]] == ["running", "retry", "running", "given up"]
    assert "No space left on device" in lines[-2]["what"]
    assert lines[-1]["agents"][0]["open"] == 1
    assert told(capsys, "suite resume", tmp_path / "out")[0] == 0


def test_tasks_are_found_in_folders_patterns_and_manifests(tmp_path: Path) -> None:
    tasks_in(tmp_path / "level1", 2)
    (tmp_path / "level1/task0/runs/old").mkdir(parents=True)
    (tmp_path / "level1/task0/runs/old/task.toml").write_text("")
    (tmp_path / "level1/23_Softmax.py").write_text("x = 1\n")
    make_task(tmp_path / "level1/earlier/tasks/task0")
    (tmp_path / "level1/earlier/suite.json").write_text("{}")
    names = lambda *words, **more: [s.name for s in find_tasks(words, **more)]  # noqa: E731
    folder = str(tmp_path)
    assert names(f"{folder}/level1") == ["23_Softmax", "task0", "task1"]
    assert names(folder) == ["level1-23_Softmax", "level1-task0", "level1-task1"]
    assert names(f"{folder}/*/task*", f"{folder}/level1/task1") == ["task0", "task1"]
    assert names(folder, only=["*task*"], skip=["*1"]) == ["level1-task0"]
    with pytest.raises(BadTask, match="no task of these names"):
        names(folder, only=["nothing"])

    manifest = tmp_path / "suite.toml"
    manifest.write_text(
        '[[tasks]]\npath = "level1/task0"\nname = "first"\n'
        '[[tasks]]\npath = "level1/23_Softmax.py"\nsizes = { N = 4 }\n'
        'needs = { num_gpus = 1, labels = { kind = "h100" } }\n'
        '[[tasks]]\npath = "level1/gone"\n'
        '[[tasks]]\nname = "pathless"\n'
    )
    first, second, gone, pathless = find_tasks([str(manifest)])
    assert (first.name, first.fault) == ("first", "")
    assert (second.sizes, second.needs.num_gpus) == ({"N": 4}, 1)
    assert (
        gone.fault == f"{manifest}:9: tasks.2.path: 'level1/gone' is no task folder and no problem"
    )
    assert pathless.fault.startswith(f"{manifest}:10: tasks.3.path: is missing")
    manifest.write_text(f"[[tasks]]\npath = 'x'\nname = '..'\n[[tasks]]\npath = '{'n' * 300}'\n")
    upwards, endless = find_tasks([str(manifest)])
    assert upwards.fault == f"{manifest}:3: tasks.0.name: '..' leaves the folder"
    assert "is no task folder and no problem" in endless.fault
    manifest.write_text("[[tasks]]\npath = 'x'\n[task]\n")
    with pytest.raises(BadTask, match=r"suite.toml:3: task: is not a known field"):
        find_tasks([str(manifest)])


def test_files_that_the_agent_may_read_are_part_of_the_copied_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = make_task(tmp_path / "tasks/one")
    (task / "notes").mkdir()
    (task / "notes/cache.md").write_text("Rows fit in L2.\n")
    (task / "task.toml").write_text('op = "speed"\n[files]\ncontext = ["notes/*.md"]\n')
    assert told(capsys, *begun(tmp_path))[0] == 0
    assert (tmp_path / "out/tasks/one/notes/cache.md").read_text() == "Rows fit in L2.\n"
