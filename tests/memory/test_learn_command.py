"""`akg-tui learn` and `knowledge --mine`, the settings of the memory, and a run that ends."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from akg_tui.agent.models.sweep import Sweep
from akg_tui.cli import main
from akg_tui.engine.engine import Engine
from akg_tui.engine.run_memory import memory_of_runs
from akg_tui.memory.memory_config import memory_settings
from akg_tui.memory.shelf import PAGES, RUNS, Shelf
from tests.memory.runs import KnobJudge, create, tuned


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "memory"
    monkeypatch.setenv("AKG_TUI_MEMORY", str(folder))
    return folder


def test_runs_are_learned_from_a_folder_listed_and_searched(
    memory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["knowledge", "--mine"]) == 1
    assert "the memory is empty" in capsys.readouterr().out
    tuned(tmp_path / "task", None, rounds=3, name="first").close()
    create(tmp_path / "task", rounds=3, name="untouched").close()
    runs = tmp_path / "task" / "runs"
    assert main(["learn", str(runs)]) == 0
    told = capsys.readouterr().out
    assert f"{runs / 'first'}: learned\n" in told
    assert f"{runs / 'untouched'}: nothing was measured but its seed\n" in told
    assert main(["learn", str(runs / "first"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "known already"
    (memory / PAGES).mkdir()
    (memory / PAGES / "farm.md").write_text("# The \x1b[31mfarm\n\nznver4\n")
    (memory / RUNS / "x.jsonl").write_text("{}")
    assert main(["knowledge", "--mine", "speed"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("k:run/first-")
    assert "times its seed" in out
    assert err.count("\n") == 1
    assert "x.jsonl: skipped: its name is not" in err
    cited = out.split(" ")[0]
    assert main(["knowledge", "--mine", cited]) == 0
    assert "attempt 1: K" in capsys.readouterr().out
    assert main(["knowledge", "znver4"]) == 0
    shown = capsys.readouterr().out
    assert "k:mine/farm  The ␛[31mfarm" in shown


def test_a_folder_without_a_run_and_a_damaged_run_are_told(
    memory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["learn", str(tmp_path)]) == 2
    assert "there is no run at or below it" in capsys.readouterr().err
    assert main(["learn", str(tmp_path / "nowhere")]) == 2
    run = create(tmp_path / "task", rounds=1)
    run.close()
    journal = run.path / "events.jsonl"
    journal.write_bytes(b"{}\n" + journal.read_bytes())
    assert main(["learn", str(run.path)]) == 2
    assert capsys.readouterr().err.count("\n") == 2


def test_the_settings_name_the_folder_and_a_wrong_one_is_ignored(
    tmp_path: Path,
) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}
    assert memory_settings(home).folder == tmp_path / "data" / "akg_tui"
    config = tmp_path / "akg_tui" / "config.toml"
    config.parent.mkdir()
    config.write_text('[memory]\nfolder = "/srv/team"\nlearn = false\n')
    found = memory_settings(home)
    assert (found.folder, found.learn, found.on) == (Path("/srv/team"), False, True)
    config.write_text('[memory]\nfolder = "relative"\nlearn = "no"\nrecall = 1\n')
    found = memory_settings(home)
    assert (found.folder, found.learn) == (tmp_path / "data" / "akg_tui", True)
    assert not memory_settings({**home, "AKG_TUI_MEMORY": "off"}).on
    assert memory_settings({**home, "AKG_TUI_MEMORY": "/x"}).folder == Path("/x")


def test_a_run_is_learned_at_its_end_unless_the_settings_say_no(
    memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config" / "akg_tui" / "config.toml"
    config.parent.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for number, learns in enumerate((False, True)):
        config.write_text(f"[memory]\nlearn = {'true' if learns else 'false'}\n")
        recall, learner = memory_of_runs()
        run = create(tmp_path / f"task{number}", rounds=2)
        work = Engine(run, Sweep(0), KnobJudge, clock=run._clock, recall=recall, learner=learner)
        asyncio.run(work.run())
        assert work.live.notice == ""
        assert len(Shelf(memory).read()[0]) == learns
        run.close()
    monkeypatch.setenv("AKG_TUI_MEMORY", "off")
    assert memory_of_runs() == (None, None)


def test_a_memory_that_cannot_be_written_is_told_and_harms_nothing(
    memory: Path, tmp_path: Path
) -> None:
    memory.write_text("a file where the folder should be")
    _, learner = memory_of_runs()
    run = create(tmp_path / "task", rounds=2)
    work = Engine(run, Sweep(0), KnobJudge, clock=run._clock, learner=learner)
    asyncio.run(work.run())
    assert run.state.finished
    assert work.live.notice.startswith("the run was not learned: cannot write")
    run.close()
