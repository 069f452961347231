"""The command line as scripts call it: exit codes, one-line errors, and real runs."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from akg_tui.cli import DECLARED, main, parser
from akg_tui.cli.evaluate_kernel import _Stages
from akg_tui.cli.run_options import note_goals, stated_limits
from akg_tui.core.measurement import Progress
from akg_tui.core.stopping.automation import AutomationPolicy
from akg_tui.core.stopping.goals import Goal
from akg_tui.core.task import Policy, Task
from akg_tui.engine import run_service
from akg_tui.store.task_folder import write_texts
from tests.engine.fake_judge import FakeJudge
from tests.engine.runs import KERNEL, REFERENCE, create, make_task
from tests.fresh_interpreter import printed


def akg(
    *words: object, cwd: Path | None = None, timeout: float = 200
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "akg_tui", *map(str, words)]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False
    )


def here(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, which is faster; only what `main` does can be seen."""
    out, errors = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
        contextlib.chdir(cwd or Path.cwd()),
    ):
        try:
            code = main([str(word) for word in words])
        except SystemExit as ended:
            code = int(ended.code or 0)
    return subprocess.CompletedProcess(words, code, out.getvalue(), errors.getvalue())


def refused(done: subprocess.CompletedProcess[str], *told: str) -> None:
    """Exit code 2, one line on stderr that says `told`, nothing on stdout."""
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    for words in told:
        assert words in done.stderr


@pytest.fixture
def task(tmp_path: Path) -> Path:
    return make_task(tmp_path / "task")


def test_help_names_every_command_and_loads_neither_textual_nor_torch() -> None:
    script = (
        "import sys; from akg_tui.cli import main\n"
        "for words in (['tune', '--help'], ['serve', '--help'], ['--help']):\n"
        "    try: main(words)\n"
        "    except SystemExit: pass\n"
        "heavy = 'textual torch pygit2 optuna rich matplotlib jinja2 aiohttp tomllib'\n"
        "print([m for m in heavy.split() if m in sys.modules])"
    )
    told = printed(script)
    commands = "demo tune resume fork undo adopt eval new runs show report view edit bench doctor"
    for command in commands.split():
        assert f"\n    {command} " in told
    assert told.endswith("[]\n")


def declared(made: argparse.ArgumentParser) -> list[str]:
    """The commands that a parser knows, in its order."""
    (commands,) = (a for a in made._actions if isinstance(a, argparse._SubParsersAction))
    return list(commands.choices)


def test_each_command_is_declared_by_the_module_that_is_imported_for_it() -> None:
    for _, _, names in DECLARED:
        for name in names:
            assert declared(parser(name)) == list(names)
    named = [name for _, _, names in DECLARED for name in names]
    assert declared(parser()) == declared(parser("nonsense")) == named


def test_a_command_loads_no_other_commands_module() -> None:
    script = (
        "import sys; from akg_tui.cli import main\n"
        "code = main(['show', 'nowhere'])\n"
        "modules = ('akg_tui.cli.tune', 'akg_tui.cli.serve', 'akg_tui.cli.doctor')\n"
        "print(code, [m for m in modules if m in sys.modules])"
    )
    assert printed(script) == "2 []\n"


@pytest.mark.parametrize("group", ["fleet", "toolchain"])
def test_a_group_of_commands_has_a_page_of_help(
    group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as asked:
        main([group, "--help"])
    page = capsys.readouterr().out
    assert asked.value.code == 0
    for name in (name for _, _, names in DECLARED for name in names if name.startswith(group)):
        assert f"\n    {name.split()[1]} " in page
    with pytest.raises(SystemExit) as bare:
        main([group])
    assert (bare.value.code, capsys.readouterr()) == (2, ("", page))


@pytest.mark.parametrize("command", ["tune x", "suite show x", "toolchain list", "demo"])
def test_a_wrong_option_is_told_with_the_usage_of_its_command(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--quick"])
    told = capsys.readouterr().err
    assert ended.value.code == 2
    name = command.removesuffix(" x")
    assert told.startswith(f"usage: akg-tui {name} [-h]")
    assert told.endswith(f"akg-tui {name}: error: unrecognized arguments: --quick\n")


def test_a_word_that_is_no_command_is_told_with_the_nearest_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["tun", "x"]) == 2
    told = "akg-tui: 'tun' is no command; did you mean tune? All commands: akg-tui --help\n"
    assert capsys.readouterr().err == told


@pytest.mark.parametrize("option", ["--rounds", "--max-rounds"])
@pytest.mark.parametrize("command", ["demo", "tune TASK", "resume RUN", "suite TASK --out S"])
def test_the_limit_on_rounds_has_one_name_and_a_short_one(command: str, option: str) -> None:
    words = command.split()
    assert parser(words[0]).parse_args([*words, option, "7"]).max_rounds == 7


@pytest.mark.parametrize(
    "moment", ["argparse", "akg_tui.cli.run_listing", "akg_tui.store.run_list"]
)
def test_an_interrupt_while_modules_are_loaded_prints_nothing(moment: str) -> None:
    script = (
        "import os, signal, sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {moment!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.modules.pop('argparse', None)\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell may ignore it
        "sys.argv = ['akg-tui', 'runs']\n"
        "from akg_tui.__main__ import run\n"
        "sys.exit(run())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_columns_of_the_keys_are_straight(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    names = {row.index(" :") for row in rows}
    assert len(names) == 1
    (name,) = names
    helps = {
        start
        for start in range(name + 3, min(map(len, rows)))
        if all(row[start - 2 : start] == "  " and row[start] != " " for row in rows)
    }
    assert len(helps) == 1


def test_a_folder_or_a_name_that_cannot_be_used_is_one_line(tmp_path: Path, task: Path) -> None:
    refused(here("tune", tmp_path, "--headless"), "task.toml", "akg-tui new")
    refused(here("resume", tmp_path, "--headless"), str(tmp_path))
    refused(here("demo", "nothing", cwd=tmp_path), "row_softmax")
    (task / "runs").write_text("in the way")
    refused(here("tune", task, "--headless"), "runs")
    (task / "reference.py").unlink()
    refused(here("eval", task), "reference.py")


def test_a_broken_task_is_refused_by_file_line_and_field(tmp_path: Path) -> None:
    for number, (name, text, told) in enumerate(
        (
            ("task.toml", 'op = "x"\n[timing]\nthreads = 0\n', "task.toml:3: timing.threads"),
            ("reference.py", "def broken(:\n", "reference.py:1"),
            ("kernel.py", "class ModelNew:\n    pass\n", "# tune: [32, 64, 128]"),
            ("kernel.py", KERNEL.replace('= "A"', '= "Q"'), "SPEED: the value 'Q'"),
        )
    ):
        task = make_task(tmp_path / f"task{number}")
        (task / name).write_text(text)
        refused(here("tune", task, "--headless"), told)
        assert not (task / "runs").exists()


def test_a_second_writer_is_refused_and_the_run_is_untouched(tmp_path: Path, task: Path) -> None:
    run = create(tmp_path / "other")
    try:
        before = (run.path / "events.jsonl").read_bytes()
        refused(here("resume", run.path, "--headless"), f"process {os.getpid()}")
        assert (run.path / "events.jsonl").read_bytes() == before
    finally:
        run.close()


def test_new_makes_a_task_that_can_be_checked(tmp_path: Path) -> None:
    (tmp_path / "r.py").write_text(REFERENCE)
    (tmp_path / "k.py").write_text(KERNEL)
    words = ("new", tmp_path / "t", "--reference", tmp_path / "r.py", "--kernel", tmp_path / "k.py")
    made = here(*words)
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "t" / "kernel.py").read_text() == KERNEL
    refused(here(*words), "has files in it")


def test_view_shows_tags_and_edit_by_them_changes_the_file(tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text("A = 1\nB = 2\n")
    shown = here("view", file).stdout.splitlines()
    anchor = shown[2].split("|")[0]
    ops = tmp_path / "ops.json"
    ops.write_text(json.dumps([{"op": "replace", "from": anchor, "lines": ["B = 3"]}]))
    sha = shown[0].split("sha=")[1][:8]
    assert here("edit", file, "--ops", ops, "--sha", sha).returncode == 0
    assert file.read_text() == "A = 1\nB = 3\n"
    before = file.stat()
    stale = here("edit", file, "--ops", ops, "--sha", sha)
    assert stale.returncode == 2
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert "othing was written" in stale.stderr
    assert file.read_text() == "A = 1\nB = 3\n"


def test_a_part_of_a_file_is_viewed_in_the_notation_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text("A = 1\nB = 2\nC = 3\n")
    shown = here("view", file, "--first", "2", "--last", "2", "--tags", "hex").stdout.splitlines()
    assert shown[0].endswith("3 lines, 2 to 2 shown")
    assert re.fullmatch(r"2:[0-9a-f]{2}\|B = 2", shown[1])
    assert len(shown) == 2
    refused(here("view", file, "--first", "9"), "there is none from 9")


def test_view_never_sends_an_escape_code_to_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text("A = '\x1b]0;owned\x07'\n")
    assert "\x1b" not in here("view", file).stdout


def test_eval_says_on_a_terminal_what_it_does_and_takes_the_words_away_again() -> None:
    out = io.StringIO()
    stages = _Stages(out)
    stages.tell(Progress("reference"))
    stages.tell(Progress("verify", 3, 20, case="wide\x1b[31m", cases_done=1, cases=2))
    stages.tell(Progress("time", 2, 6))
    stages.clear()
    lines = out.getvalue().split("\r\x1b[K")
    assert lines == [
        "",
        "examining the reference, 0 s",
        "verifying wide␛[31m: input 3 of 20, 0 s",
        "timing: pair of processes 2 of 6, 0 s",
        "",
    ]
    _Stages(None).tell(Progress("reference"))


SMALL_REFERENCE = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2


def get_inputs():
    return [torch.randn(32, 256)]


def get_init_inputs():
    return []
"""
SMALL_KERNEL = """\
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2
"""


def small_task(folder: Path, kernel: str) -> Path:
    """A task in torch that is built in no time and judged in little."""
    timing = "[correctness]\ntrials = 1\n\n[timing]\nbudget_s = 0.3\n"
    toml = f'op = "doubled_relu"\nbaselines = []\n\n[target]\ndsl = "torch"\n\n{timing}'
    return write_texts(folder, {"reference.py": SMALL_REFERENCE, "kernel.py": kernel}, toml).path


def test_eval_answers_with_exit_codes(tmp_path: Path) -> None:
    folder = small_task(tmp_path / "task", SMALL_KERNEL)
    good = akg("eval", folder, "--json")
    assert good.returncode == 0, good.stderr
    measured = json.loads(good.stdout)
    assert measured["outcome"] == "correct"
    assert measured["ratio"]["low"] <= measured["ratio"]["ratio"] <= measured["ratio"]["high"]
    # A kernel in two files, of which the second has what makes it wrong.
    toml = folder / "task.toml"
    files = '[files]\neditable = ["kernel.py", "factor.py"]\n\n[target]'
    toml.write_text(toml.read_text().replace("[target]", files))
    (folder / "factor.py").write_text("FACTOR = 2.0\n")
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    (wrong / "kernel.py").write_text(
        "from factor import FACTOR\n" + SMALL_KERNEL.replace("* 2", "* FACTOR")
    )
    (wrong / "factor.py").write_text("FACTOR = 2.5\n")
    bad = here("eval", folder, "--verify", "--kernel", wrong)
    assert bad.returncode == 1, bad.stderr
    assert bad.stdout.startswith("failed: ")
    assert "verified only" not in bad.stdout
    assert "max error" in bad.stdout
    (folder / "reference.py").write_text(
        (folder / "reference.py").read_text().replace("def forward(", "def forward(self_, ")
    )
    assert here("eval", folder).returncode == 2


def test_a_reader_that_goes_away_does_not_break_the_command(task: Path) -> None:
    command = f"{sys.executable} -m akg_tui view {task / 'kernel.py'} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_a_bad_limit_is_told_by_its_option(task: Path) -> None:
    for words, told in (
        (("--goal", "speed>=2"), "speedup"),
        (("--goal", "speedup=2"), "speedup>=2"),
        (("--max-tokens", "0"), "--max-tokens"),
        (("--max-cost", "nan"), "--max-cost"),
        (("--max-experiments", "x"), "--max-experiments"),
    ):
        done = here("tune", task, "--headless", *words)
        assert done.returncode == 2
        assert told in done.stderr
        assert words[0] in done.stderr
    assert not (task / "runs").exists()


def test_a_bad_policy_file_is_told_by_field(task: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('{"goals": [{"metric": "speedup", "operator": "~", "value": 2}]}')
    refused(here("tune", task, "--headless", "--policy", path), str(path), ":1: goals.0.operator: ")


def test_a_goal_on_a_number_that_the_task_does_not_declare_is_refused(
    task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.json"
    path.write_text('{"goals": [{"metric": "Mean R", "operator": ">", "value": 0.8}]}')
    why = "'Mean R' is not measured, expected one of: speedup, ratio, candidate_ms, max_error"
    assert main(["tune", str(task), "--headless", "--goal", "Mean R>0.8"]) == 2
    assert capsys.readouterr() == ("", f"akg-tui: --goal: {why}\n")
    (task / "task.toml").write_text('metrics = ["Mean R"]\n' + (task / "task.toml").read_text())
    assert main(["tune", str(task), "--headless", "--policy", str(path)]) == 2
    assert "reference.py:1: metrics: is missing, expected def metrics(" in capsys.readouterr().err
    assert not (task / "runs").exists()


def stated(policy: Policy, *words: str) -> Policy:
    return stated_limits(parser().parse_args(["tune", "t", *words])).over(policy)


def test_the_command_line_goes_before_its_policy_file_and_that_before_the_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.json"
    path.write_text(
        '{"automation_policy": {"maxTokens": 9, "maxRounds": 7, "maxExperiments": 5,'
        ' "goals": [{"metric": "Mean R", "operator": ">", "value": 1}]}}'
    )
    task = Policy(max_rounds=3, max_hours=2.0, automation=AutomationPolicy(max_tokens=1))
    assert stated(task) == task
    filed = stated(task, "--policy", str(path))
    assert filed.max_rounds == 7
    assert filed.max_hours == 2.0
    assert filed.automation is not None
    assert (filed.automation.max_tokens, filed.automation.max_experiments) == (9, 5)
    note_goals(Task(op="a", policy=filed))
    assert "'Mean R' is not measured" in capsys.readouterr().err
    note_goals(Task(op="a", policy=filed, metrics=("Mean R",)))
    assert capsys.readouterr().err == ""
    words = ("--max-tokens", "8", "--max-rounds", "4", "--goal", "speedup>2", "--max-cost", "1")
    said = stated(task, "--policy", str(path), *words)
    assert said.max_rounds == 4
    assert said.automation == AutomationPolicy(
        goals=(Goal("speedup", ">", 2.0),), max_tokens=8, max_experiments=5, max_cost_usd=1.0
    )


@pytest.fixture
def fake_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_service, "_judge", lambda run, on_step: FakeJudge(on_step))
    monkeypatch.setattr(run_service, "check_target", lambda task, path: None)
    monkeypatch.setattr("akg_tui.engine.run_report.reporter", lambda channel: None)


@pytest.mark.usefixtures("fake_judge")
def test_a_kernel_wrong_at_baseline_is_bad_input_and_the_run_is_kept(task: Path) -> None:
    (task / "kernel.py").write_text(KERNEL.replace('"A"  #', '"WRONG"  #'))
    done = here("tune", task, "--headless", "--json")
    assert done.returncode == 2
    assert "not correct before any change" in done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (summary["type"], summary["ok"]) == ("summary", False)
    listed = here("runs", task, "--json")
    assert json.loads(listed.stdout)["run_id"] == summary["run_id"]


@pytest.mark.usefixtures("fake_judge")
def test_resume_changes_the_policy_of_the_run_as_an_event(tmp_path: Path) -> None:
    run = create(tmp_path / "other")
    run.close()
    done = here("resume", run.path, "--headless", "--json", "--max-tokens", 123, "--max-rounds", 1)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    (changed,) = [line for line in lines if line["type"] == "PolicyChanged"]
    assert changed["source"] == "command line"
    assert changed["policy"]["max_rounds"] == 1
    at = lines.index(changed)
    assert all("max_tokens" not in line for line in lines[:at])
    assert all(line["max_tokens"] == 123 for line in lines[at:])
    assert all(line["tokens_used_session"] == 0 for line in lines)
