"""Seed 002, edits by tag: what is read shows them, and what has changed since is not touched."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from benchmarks.edit_models.tasks import draw_tasks
from tests.agent.test_tools import calling
from tests.cli.test_cli import here, refused


async def test_seed002_read_file_shows_the_tags_of_a_file_that_may_be_edited(tmp_path) -> None:
    async with calling(tmp_path) as call:
        assert await call.good("read_file", file_path="work/kernel.py") == await call.good(
            "read_kernel"
        )
        part = await call.good("read_file", file_path="work/kernel.py", offset=2, limit=1)
        tag, _, line = part.partition("|")
        assert line.startswith("WIDTH = 1")
        assert part.endswith("\n(lines 2 to 2 of 6; offset shows others)")
        op = {"op": "replace", "from": tag.splitlines()[-1], "lines": ["WIDTH = 2"]}
        await call.good("edit_kernel", ops=[op])
        assert "|" not in await call.good("read_file", file_path="task/reference.py")


def test_seed002_a_line_whose_tag_is_not_given_is_removed_only_with_the_files_sha(
    tmp_path: Path,
) -> None:
    file, ops = tmp_path / "hello.js", tmp_path / "ops.json"
    file.write_text('function hello() {\n return "world";\n}\n')

    def tags() -> list[str]:
        shown = here("view", file, "--tags", "hex").stdout.splitlines()
        assert all(re.fullmatch(r"\d:[0-9a-f]{2}\|.*", line) for line in shown[1:])
        return [shown[0].split("sha=")[1][:8], *(line.split("|")[0] for line in shown[1:])]

    def edit(*words: str, **op: object) -> subprocess.CompletedProcess[str]:
        ops.write_text(json.dumps([op]))
        return here("edit", file, "--ops", ops, "--tags", "hex", *words)

    sha, first, middle, last = tags()
    whole = {"op": "replace", "from": first, "to": last, "lines": ["hello();"]}
    file.write_text(file.read_text().replace("world", "seed"))
    changed = file.read_text()
    refused(edit(**whole), "removes line 2 of")
    refused(edit("--sha", sha, **whole), "has sha")
    stale = edit(op="replace", **{"from": middle}, lines=[""])
    assert (stale.returncode, "nothing was written" in stale.stderr) == (2, True)
    assert file.read_text() == changed
    sha, first, middle, last = tags()
    done = edit(op="replace", **{"from": middle}, lines=['  return "you";'])
    assert done.returncode == 0, done.stderr
    sha, first, middle, last = tags()
    assert edit("--sha", sha, **whole | {"from": first, "to": last}).returncode == 0
    assert file.read_text() == "hello();\n"


def test_seed002_a_planted_fault_is_told_as_the_page_tells_it() -> None:
    """The file, what was removed, the function around it, and what to restore; never the line."""
    task = next(each for each in draw_tasks(20, seed=7) if each.kind == "guard removed")
    assert re.sub(r"function `\w+`", "function `F`", task.prompt) == (
        f"# Fix the bug in `{task.path}`\n\n"
        "A guard clause (early return) was removed.\n"
        "The issue is in the function `F`.\n"
        "Restore the missing guard clause (an if statement that leaves early).\n"
        "Change nothing else.\n"
    )
