"""A kernel in several files on screen: one at a time in a pane, all that changed in a review."""

from __future__ import annotations

from msgspec.structs import replace

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.phases import Mode
from akg_tui.core.task import Files
from akg_tui.tui.export import words_of
from akg_tui.view.diff import compare_kernels, folded

from .script import FakeHandle, Try, faster, task
from .stage import on_stage
from .test_review import in_review, more_items

FILES = {
    "kernel.py": "".join(f"first_{n} = {n}\n" for n in range(1, 31)),
    "launch.py": "def launch():\n    return 1\n",
    "scale.cpp": "int a;\nint b;\nint c;\n",
}
CHANGED = {
    **FILES,
    "launch.py": "def launch():\n    return 2\n",
    "scale.cpp": "int a;\nint z;\nint c;\n",
}


def handle() -> FakeHandle:
    kernel, changed = KernelFiles(FILES), KernelFiles(CHANGED)
    several = replace(task(), files=Files(editable=tuple(FILES)))
    plans = [[Try("two files", "", changed, faster(1.3)), *more_items()]]
    made = FakeHandle(
        mode=Mode.REVIEW, agent="claude", kernel=kernel, plans=plans, the_task=several
    )
    made.work()
    return made


async def test_a_pane_shows_one_file_with_its_own_lines_and_names_the_others_that_changed() -> None:
    async with on_stage(handle(), (200, 60)) as stage:
        pane = stage.source
        await stage.press("2", "z")
        assert "file 1 of 3, launch.py, scale.cpp changed too" in stage.text()
        assert "first_30 = 30" in stage.text()
        assert "int b;" not in stage.text()
        await stage.press("N", "N")
        rows = [row for row in stage.text().splitlines() if "int z;" in row]
        assert rows
        assert any("2" in row.split("+")[0] for row in rows), "the second line of its file"
        assert "file 3 of 3, launch.py changed too" in stage.text()
        assert "first_30" not in stage.text()
        assert pane.to_line(3) == "line 3"
        assert words_of(pane, "kernel", stage.app.snapshot()) == KernelFiles(CHANGED).page
        await stage.press("N")
        assert "file 1 of 3" in stage.text()


async def test_a_review_shows_every_changed_file_below_its_name_and_none_of_another() -> None:
    async with on_stage(handle(), (120, 40), armed=True) as stage:
        screen = await in_review(stage)
        shown = stage.text()
        assert screen.diff.changed == (2, 2)
        assert "─ launch.py ─" in shown
        at = shown.index("─ scale.cpp ─")
        assert shown.index("return 2") < at < shown.index("int z;")
        row = next(row for row in shown.splitlines() if "int z;" in row)
        assert " 2 " in row.split("int z;")[0]


def test_a_folded_comparison_keeps_the_headings() -> None:
    before = KernelFiles(FILES)
    after = before.having({"scale.cpp": "int a;\nint b;\nint d;\n"})
    compared = compare_kernels(before, after)
    rows = folded(compared, 0)
    shown = [row.text.strip("─ ") or f"~{row.old}" for row in rows]
    assert shown == ["~30", "launch.py", "~2", "scale.cpp", "~2", "int c;", "int d;"]
    assert [
        compared.in_files(row) for row in compared if row.text in ("    return 1", "int d;")
    ] == [(2, 2), (0, 3)]
