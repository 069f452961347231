"""`akg-tui learn` and its verbs, the settings of the memory, and a run that ends."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from akg_tui.agent.models.sweep import Sweep
from akg_tui.cli import main
from akg_tui.engine.engine import Engine
from akg_tui.engine.run_memory import memory_of_runs
from akg_tui.memory.memory_config import memory_settings
from akg_tui.memory.recall import recall
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
    assert main(["learn", "list"]) == 1
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
    assert main(["learn", "list", "speed"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("k:run/first-")
    assert "times its seed" in out
    assert err.count("\n") == 1
    assert "x.jsonl: skipped: its name is not" in err
    cited = out.split(" ")[0]
    assert main(["learn", "show", cited]) == 0
    assert 'attempt = 1\ntext = "K' in capsys.readouterr().out
    assert main(["knowledge", "znver4"]) == 0
    shown = capsys.readouterr().out
    assert "k:mine/farm  The ␛[31mfarm" in shown


@pytest.fixture
def page(memory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The id of the page of a run that is remembered."""
    tuned(tmp_path / "task", None, rounds=3, name="first").close()
    assert main(["learn", str(tmp_path / "task" / "runs")]) == 0
    assert main(["learn", "list", "--json"]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])["id"]


def test_a_changed_page_is_what_the_next_run_is_told(
    page: str,
    memory: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (before,), _ = Shelf(memory).read()
    text = before.directions[0].text
    monkeypatch.setenv("EDITOR", f"sed -i -e 's/{text}/mind the cache/' -e s/=.true/=false/")
    monkeypatch.setenv("VISUAL", "")
    assert main(["learn", "edit", page]) == 0
    (after,), faults = Shelf(memory).read()
    assert (faults, after.kernel) == ([], None)
    assert after.directions[0] == replace(before.directions[0], text="mind the cache")
    assert after.directions[1:] == before.directions[1:]
    run = create(tmp_path / "task", rounds=1, name="second")
    found = recall(run.state, Shelf(memory))
    run.close()
    assert found is not None
    assert "mind the cache" in [lesson.text for lesson in found[0].lessons]
    assert main(["learn", str(tmp_path / "task" / "runs" / "first")]) == 0
    assert Shelf(memory).read()[0] == [after]  # no later end of the run takes the edit back
    capsys.readouterr()


def test_a_faulty_page_changes_nothing_and_its_line_is_told(
    page: str, memory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    before = {path: path.read_bytes() for path in (memory / RUNS).iterdir()}
    file = tmp_path / "page.toml"
    direction = '[[direction]]\nattempt = 1\ntext = "a"\n'
    for text, told in (
        ("best_kernel = 3\n", "page.toml:1: best_kernel: "),
        ("\n[[direction]]\nattempt = 99\ntext = 'x'\n", "page.toml:3: direction.0.attempt: "),
        (direction + direction, "page.toml:5: direction.1.attempt: "),
        ('[[direction]]\nattempt = 1\ntext = " "\n', "page.toml:3: direction.0.text: is empty"),
        (direction + 'gain = "+900 %"\n', "page.toml:4: direction.0.gain: "),
        ("[[", "page.toml:1: not valid TOML"),
    ):
        file.write_text(text)
        assert main(["learn", "edit", page, "--from", str(file)]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert told in err
    monkeypatch.setenv("VISUAL", "sed -i s/best_kernel/worst/")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["learn", "edit", page]) == 2
    told_file = capsys.readouterr().err.partition(":")[2].partition(":")[0].strip()
    assert "worst = true" in Path(told_file).read_text()  # what was written is not lost
    for editor in ("", "false", "/no/such/editor"):
        monkeypatch.setenv("VISUAL", editor)
        monkeypatch.setenv("EDITOR", editor)
        assert main(["learn", "edit", page]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    for verb in ("show", "edit", "delete"):
        assert main(["learn", verb, "run/none"]) == 2
        assert "learn list names them" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in (memory / RUNS).iterdir()} == before


def test_a_page_of_a_run_is_deleted_once_it_was_confirmed(
    page: str, memory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["learn", "delete", page]) == 0
    assert f"akg-tui learn delete {page.removeprefix('k:')} --yes" in capsys.readouterr().out
    assert len(Shelf(memory).read()[0]) == 1
    assert main(["learn", "delete", page, "--yes"]) == 0
    assert Shelf(memory).read() == ([], [])


def test_a_page_of_the_user_is_written_shown_changed_and_deleted(
    memory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new.md"
    file.write_text("# The farm\n\nznver4 \x1b[31m\n")
    assert main(["learn", "edit", "k:mine/farm", "--from", str(file)]) == 0
    assert main(["learn", "show", "mine/farm"]) == 0
    assert "znver4 ␛[31m" in capsys.readouterr().out
    for text, told in (
        ("---\ntitel: x\n---\n\nbody", "new.md:2: expected one of title"),
        ("\n", "new.md: is empty"),
        ("x" * 40_000, "new.md: has more than 32768 bytes"),
    ):
        file.write_text(text)
        assert main(["learn", "edit", "mine/farm", "--from", str(file)]) == 2
        assert told in capsys.readouterr().err
    assert main(["learn", "edit", "mine/../../x", "--from", str(file)]) == 2
    assert "can be no page's name" in capsys.readouterr().err
    assert main(["learn", "delete", "mine/farm", "--yes"]) == 0
    assert not list((memory / PAGES).iterdir())


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
