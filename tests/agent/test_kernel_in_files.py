"""The agent's tools on a kernel in several files: one attempt is a version of all of them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from akg_tui.agent.prompt import _changes, kernel_again, system_text
from akg_tui.agent.tools.registry import offered
from akg_tui.core import events as ev
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.kernel.knobs import BadKnob, knobs_in, with_setting
from akg_tui.core.task import Files, Task
from tests.agent.test_tools import Caller, calling
from tests.engine.runs import KERNEL

NAMES = ("kernel.py", "shape.py", "scale.cpp")
FILES = {
    "kernel.py": KERNEL.replace("WIDTH = 1  # tune: [1, 2]\n", ""),
    "shape.py": "WIDTH = 1  # tune: [1, 2]\n",
    "scale.cpp": "#define LANES 4  // tune: [4, 8]\nint f();\n",
}
REFERENCE = "task/reference.py"


@contextlib.asynccontextmanager
async def caller(folder: Path, **held_with: Any) -> AsyncIterator[Caller]:
    async with calling(folder, kernels=FILES, **held_with) as call:
        yield call


def texts(call: Caller) -> dict[str, str]:
    return call.engine.kernel(call.engine.state.work_blob).texts


def tag(view: str, text: str) -> str:
    (found,) = (row.partition("|")[0] for row in view.split("\n") if row.endswith(f"|{text}"))
    return found


def sub(view: str, line: str, find: str, instead: str) -> list[dict[str, Any]]:
    return [{"op": "sub", "at": tag(view, line), "find": find, "with": instead}]


async def test_files_are_read_together_or_one_by_one_and_edited_in_one_call(
    tmp_path: Path,
) -> None:
    async with caller(tmp_path) as call:
        view = await call.good("read_kernel")
        assert [row.split()[0] for row in view.split("\n") if row.startswith("@")] == [
            f"@{name}" for name in NAMES
        ]
        one = await call.good("read_kernel", path="scale.cpp")
        assert one.startswith("@scale.cpp r")
        assert "kernel.py" not in one
        why = await call.refused("edit_kernel", path="gone.py", ops=[])
        assert "expected one of kernel.py, shape.py, scale.cpp" in why
        more = {"path": "scale.cpp", "ops": sub(view, "int f();", "f", "g")}
        ops = sub(view, "WIDTH = 1  # tune: [1, 2]", "= 1", "= 2")
        told = await call.good("edit_kernel", path="shape.py", ops=ops, more=[more])
        assert [row.split()[1] for row in told.split("\n")] == ["shape.py", "scale.cpp"]
        assert texts(call) == {
            "kernel.py": FILES["kernel.py"],
            "shape.py": "WIDTH = 2  # tune: [1, 2]\n",
            "scale.cpp": "#define LANES 4  // tune: [4, 8]\nint g();\n",
        }
        edits = [r.event for r in call.engine.records if isinstance(r.event, ev.KernelEdited)]
        assert [(each.added, each.removed) for each in edits] == [(2, 2)]
        diff = await call.good("read_kernel", against=0)
        assert "--- attempt 0 shape.py" in diff
        assert "kernel.py" not in diff
        only = await call.good("read_kernel", against=0, path="scale.cpp")
        assert "-int f();\n+int g();" in only
        assert "shape.py" not in only


async def test_a_kernel_that_is_back_is_named_by_the_digests_that_its_views_show(
    tmp_path: Path,
) -> None:
    async with caller(tmp_path) as call:
        view, kernel = await call.good("read_kernel"), call.executor.kernel
        told = kernel_again(0, kernel.files)
        for row in view.split("\n"):
            if row.startswith("@"):
                name, _, sha, *_ = row.removeprefix("@").split()
                assert f"{name} {sha}" in told


async def test_drafts_replace_the_files_that_they_name_and_keep_the_others(
    tmp_path: Path,
) -> None:
    fast = FILES["kernel.py"].replace('"A"  #', '"C"  #')
    async with caller(tmp_path) as call:
        await call.good("try_kernel", text=fast)
        await call.good("try_kernel", text="int h();\n", file="scale.cpp")
        path = call.note("scale.cpp", "int n();\n")
        await call.good("try_kernel", path=path)
        call.note("whole/kernel.py", fast)
        call.note("whole/shape.py", "WIDTH = 2\n")
        call.note("whole/README.md", "not one of them")
        await call.good("try_kernel", path="notes/whole")
        tried = [call.engine.kernel(t.blob).texts for t in call.engine.state.trials]
        assert tried == [
            {**FILES, "kernel.py": fast},
            {**FILES, "scale.cpp": "int h();\n"},
            {**FILES, "scale.cpp": "int n();\n"},
            {**FILES, "kernel.py": fast, "shape.py": "WIDTH = 2\n"},
        ]
        view = await call.good("read_kernel", trial=4, path="shape.py")
        edit = {"path": "shape.py", "ops": sub(view, "WIDTH = 2", "2", "3")}
        await call.good("try_kernel", trial=4, edit=edit)
        why = await call.refused("try_kernel", text="if:", file="shape.py")
        assert why.startswith("shape.py: line 1: ")
        why = await call.refused("submit_kernel", path=call.note("a/b.txt", ""))
        assert "expected a .py file under notes/" in why
        await call.good("submit_kernel", trial=5)
        assert texts(call) == {**FILES, "kernel.py": fast, "shape.py": "WIDTH = 3\n"}


async def test_a_sweep_varies_knobs_of_all_files(tmp_path: Path) -> None:
    async with caller(tmp_path) as call:
        told = await call.good("sweep_kernel", knobs=["WIDTH", "LANES"])
        assert "4 of 4 settings" in told
        swept = [call.engine.kernel(t.blob).texts for t in call.engine.state.trials]
        found = {(s["shape.py"].split("#")[0], s["scale.cpp"].split("//")[0]) for s in swept}
        assert found == {
            (f"WIDTH = {width}  ", f"#define LANES {lanes}  ")
            for width in (1, 2)
            for lanes in (4, 8)
        }
        assert {s["kernel.py"] for s in swept} == {FILES["kernel.py"]}


def test_a_bad_knob_is_told_by_its_file_and_line() -> None:
    bad = KernelFiles({**FILES, "scale.cpp": "int f();\n#define LANES 5  // tune: [4, 8]\n"})
    with pytest.raises(BadKnob, match=r"scale\.cpp line 2: LANES: the value 5 is not among"):
        knobs_in(bad)
    text = KernelFiles({"kernel.py": "#define LANES 4  // tune: [4, true]\n"})
    with pytest.raises(BadKnob, match="line 1: LANES: value and choices must be"):
        knobs_in(text)
    constants = (
        "static constexpr std::size_t A = 4;  // tune: [4, 8]\nconst int B=1; // tune: [1]\n"
    )
    kernel = KernelFiles({"kernel.py": constants})
    assert [knob.name for knob in knobs_in(kernel)] == ["A", "B"]
    changed = with_setting(kernel, {"A": 8})
    assert changed.text.startswith("static constexpr std::size_t A = 8;  // tune: [4, 8]\n")


async def test_search_names_the_file_of_a_line_with_the_tag_that_an_edit_takes(
    tmp_path: Path,
) -> None:
    async with caller(tmp_path) as call:
        found = await call.good("grep", pattern="tune:|────")
        assert [row for row in found.split("\n") if row[0] == "@"] == [
            row for row in (await call.good("read_kernel")).split("\n") if row.startswith("@")
        ]
        assert "────" not in found
        only = await call.good("grep", pattern="tune:", path="work/scale.cpp")
        assert only.count("tune:") == 1
        ops = sub(only, "#define LANES 4  // tune: [4, 8]", "S 4", "S 8")
        await call.good("edit_kernel", path="scale.cpp", ops=ops)
        assert texts(call)["scale.cpp"].startswith("#define LANES 8")
        assert "changed by edit_kernel" in await call.refused(
            "write_file", file_path="work/scale.cpp", content=""
        )


async def test_a_probe_measures_a_draft_of_one_file_with_the_others(tmp_path: Path) -> None:
    given = {"task_code": REFERENCE, "op_name": "speed"}
    async with caller(tmp_path) as call:
        await call.good("verify_kernel", generated_code="x = 1\n", file="shape.py", **given)
        await call.good("profile_kernel", generated_code="work/kernel.py", **given)
        seen = call.engine._judge.seen[-2:]  # type: ignore[attr-defined]
        assert seen == [KernelFiles({**FILES, "shape.py": "x = 1\n"}).page, KernelFiles(FILES).page]


def test_a_model_is_told_of_several_files_and_of_one_as_before(tmp_path: Path) -> None:
    one, several = Task(op="x"), Task(op="x", files=Files(editable=NAMES))
    assert "several files" not in system_text(one, "pass")
    assert "kernel.py, which the judge loads, and shape.py, scale.cpp" in system_text(
        several, "pass"
    )
    plain, more = (offered(tmp_path, task, {}) for task in (one, several))
    changed = {name for name in plain if plain[name].parameters != more[name].parameters}
    assert changed == {
        "read_kernel", "edit_kernel", "try_kernel", "submit_kernel", "sweep_kernel",
        "verify_kernel", "profile_kernel",
    }  # fmt: skip
    for name in changed:
        extra = set(more[name].properties) - set(plain[name].properties)
        assert extra <= {"path", "file", "more"}
    size = [len(json.dumps(each["edit_kernel"].parameters)) for each in (plain, more)]
    assert size[1] - size[0] < 600


def test_a_failed_attempt_is_told_as_a_diff_of_each_file() -> None:
    told = _changes(KernelFiles(FILES), KernelFiles({**FILES, "shape.py": "WIDTH = 9\n"}))
    assert "--- before shape.py\n+++ tried shape.py" in told
    assert "kernel.py" not in told
