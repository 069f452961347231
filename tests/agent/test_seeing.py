"""What a model can look at: context files, found lines with tags, diffs, failed attempts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from akg_tui.agent.prompt import MAX_CHANGE, _changes, system_text
from akg_tui.agent.tools import searching
from akg_tui.core import events as ev
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.store.context_files import context_listing
from akg_tui.store.errors import BadTask
from akg_tui.store.fork import fork_run
from akg_tui.store.run_folder import TASK
from akg_tui.store.task_folder import load_task
from benchmarks.lab.player import Player
from benchmarks.lab.runs import create, engine, of, play, wrong
from benchmarks.lab.server import Lab
from tests.agent.test_tools import FAST, calling
from tests.engine.runs import KERNEL, make_task


def task_with(folder: Path, context: str, **files: str) -> Path:
    made = make_task(folder)
    (made / "task.toml").write_text(f'op = "speed"\n[files]\ncontext = {context}\n')
    for name, text in files.items():
        path = made / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return made


def test_context_files_are_found_by_globs_and_those_of_the_task_are_not(tmp_path: Path) -> None:
    made = task_with(
        tmp_path / "t",
        '["*", "papers/**/*.md"]',
        README_md="read me\n",
        papers__deep__a_md="a\nb\n",
        runs__r__x_md="x",
    )
    (made / ".secret.md").write_text("s")
    (made / "key").write_text("sk-key")
    toml = (made / "task.toml").read_text() + f'[agent]\napi_key_file = "{made}/key"\n'
    (made / "task.toml").write_text(toml)
    assert load_task(made).context == (("README.md", "read me\n"), ("papers/deep/a.md", "a\nb\n"))


@pytest.mark.parametrize(
    ("context", "why"),
    [
        ('["*.pdf"]', "'*.pdf' matches no file besides those that the task names"),
        ('["kernel.py"]', "'kernel.py' matches no file besides those that the task names"),
        ('["../*.md"]', "'../*.md' leaves the folder"),
        ('["/etc/passwd"]', "'/etc/passwd' leaves the folder"),
        ('["out.md"]', "out.md is a link that leads out of the folder"),
        ('["data.bin"]', "data.bin is not UTF-8 text"),
    ],
)
def test_a_context_glob_that_cannot_be_used_is_told_with_its_line(
    tmp_path: Path, context: str, why: str
) -> None:
    made = task_with(tmp_path / "t", context)
    (tmp_path / "outside.md").write_text("x")
    (made / "out.md").symlink_to(tmp_path / "outside.md")
    (made / "data.bin").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadTask) as caught:
        load_task(made)
    assert str(caught.value).startswith(f"{made}/task.toml:3: files.context: {why}")


async def test_context_files_go_into_the_run_its_forks_and_the_prompt(tmp_path: Path) -> None:
    async with Lab(Player(wrong())) as lab:
        run = create(
            tmp_path / "task",
            lab.url,
            rounds=1,
            context={"README.md": "one\ntwo\n", "src/a.cpp": "int x;\n"},
        )
        await play(engine(run, lab.url))
    listing = (("task/context/README.md", 2), ("task/context/src/a.cpp", 1))
    assert context_listing(run.path / TASK) == listing
    system = lab.requests[0].body["system"][0]["text"]
    assert "- task/context/README.md (2 lines)\n- task/context/src/a.cpp (1 lines)" in system
    assert "README" not in system_text(run.state.task, run.reference)
    assert context_listing(fork_run(run.path, 0).path / TASK) == listing


async def test_a_found_line_of_the_kernel_can_be_edited_by_its_tag(tmp_path: Path) -> None:
    async with calling(tmp_path) as caller:
        caller.note("idea.md", "a WIDTH of 4\n")
        told = await caller.good("grep", pattern=r"WIDTH\b")
        tag = re.findall(r"^(2[a-z]{2})\|WIDTH = 1", told, re.M)[0]
        assert "notes/idea.md:\n1: a WIDTH of 4" in told
        assert "SPEED" not in told
        op = {"op": "replace", "from": tag, "to": tag, "lines": ["WIDTH = 2"]}
        await caller.good("edit_kernel", ops=[op])
        text = caller.engine.kernel(caller.engine.state.work_blob).text
        assert text.split("\n")[1] == "WIDTH = 2"


async def test_a_found_line_of_a_trial_is_edited_in_a_copy_of_it(tmp_path: Path) -> None:
    async with calling(tmp_path) as caller:
        await caller.good("try_kernel", text=f"# a trial\n{KERNEL}")
        told = await caller.good("grep", pattern="(?i)^speed", trial=1, context=1)
        assert len(told.split("\n")) == 4
        tag = re.findall(r"^(2[a-z]{2})\|SPEED", told, re.M)[0]
        op = {"op": "sub", "at": tag, "find": '"A"  #', "with": '"C"  #'}
        assert "correct" in await caller.good("try_kernel", trial=1, edit={"ops": [op]})


async def test_a_search_that_cannot_be_made_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "SEARCH_S", 0.2)
    async with calling(tmp_path) as caller:
        caller.note("hard.txt", "a" * 60 + "b\n")
        for arguments, why in (
            ({"pattern": "("}, "is no regular expression: missing ), unterminated subpattern"),
            ({"pattern": "nothing"}, "no line matches in the kernel, task/reference.py"),
            ({"pattern": "x", "path": "history.git"}, "not among the files of this run"),
            ({"pattern": "x", "path": "task", "trial": 1}, "give one of path, trial and attempt"),
            ({"pattern": "(a+)+$", "path": "notes"}, "takes longer than 0.2 s to match"),
        ):
            assert why in await caller.refused("grep", **arguments)


async def test_a_search_shows_at_most_what_was_asked_for(tmp_path: Path) -> None:
    async with calling(tmp_path) as caller:
        caller.note("many.txt", "hit\n" * 100)
        told = await caller.good("grep", pattern="hit", path="notes/many.txt", limit=3)
        assert (
            told == "notes/many.txt:\n1: hit\n2: hit\n3: hit\n(3 of 100 matches; limit shows more)"
        )


async def test_the_difference_of_a_version_to_an_attempt_is_shown(tmp_path: Path) -> None:
    async with calling(tmp_path) as caller:
        await caller.good("try_kernel", text=FAST)
        told = await caller.good("read_kernel", trial=1, against=0)
        assert "--- attempt 0\n+++ trial 1\n" in told
        assert '+SPEED = "C"' in told
        equal = await caller.good("read_kernel", against=0)
        assert equal == "attempt 0 and the kernel are equal"
        assert "no text of an attempt 9" in await caller.refused("read_kernel", against=9)


async def test_a_diagnosis_begins_with_the_code_and_errors_of_what_failed(tmp_path: Path) -> None:
    async with Lab(Player(wrong())) as lab:
        run = create(tmp_path / "task", lab.url, rounds=4)
        await play(engine(run, lab.url))
    (report,) = of(run, ev.DiagnosisReported)
    assert report.source == "subagent"
    assert lab.refused == lab.memory.faults == []
    first = next(
        text
        for request in lab.requests
        if "Phase DIAGNOSE." in (text := request.body["messages"][0]["content"][0]["text"])
    )
    for number in (1, 2, 3):
        assert f"Attempt {number} (p{number}: a shortcut, number {number}) failed: " in first
        assert f'SPEED = "WRONG"; NUMBER = {number}' in first
    assert first.partition("# Conclusions")[2].count(") failed: ") == 3
    assert "Last verdict" not in first


def test_a_long_change_is_cut() -> None:
    long = "".join(f"x{n} = {n}\n" for n in range(5_000))
    told = _changes(*(KernelFiles({"kernel.py": each}) for each in ("y = 1\n", long)))
    assert told.startswith("Its code:\nx0 = 0")
    assert len(told) < MAX_CHANGE + 100
