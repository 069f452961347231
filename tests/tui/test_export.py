from __future__ import annotations

import base64
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from .moments import at_work, keeping
from .script import KERNEL
from .stage import on_stage


@pytest.fixture
def clipboard(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a terminal would have put on its clipboard: the OSC 52 sequences, decoded."""
    copied: list[str] = []

    def write(self: object, data: str) -> None:
        copied.extend(
            base64.b64decode(found).decode() for found in re.findall(r"\x1b\]52;c;(.*?)\x07", data)
        )

    monkeypatch.setattr("textual.drivers.headless_driver.HeadlessDriver.write", write)
    return copied


async def test_the_kernel_is_copied_without_numbers_and_marks(clipboard: list[str]) -> None:
    async with on_stage(at_work(3)) as stage:
        await stage.command("copy k")
        await stage.press("2", "Y")
    kernel = stage.handle.kernel(stage.handle.state.work_blob).text
    assert clipboard == [kernel, kernel.rstrip("\n")]
    assert kernel != KERNEL


async def test_what_is_in_sight_is_copied_with_y(clipboard: list[str]) -> None:
    async with on_stage(at_work(3), (120, 30)) as stage:
        await stage.press("2", "g", "y")
        page = stage.deck.panes["source"].page  # type: ignore[union-attr]
    (text,) = clipboard
    assert (
        text.split("\n")[0] == '"""Softmax over the last dimension, with the knobs to tune it."""'
    )
    assert 0 < len(text.split("\n")) <= page


async def test_a_diff_is_copied_with_its_marks(clipboard: list[str]) -> None:
    async with on_stage(keeping(), armed=True) as stage:
        await stage.press("r", "Y")
    (text,) = clipboard
    changed = [row for row in text.split("\n") if row[:1] in ("+", "-")]
    assert [row[:9] for row in changed] == ["-FLAGS = ", "+FLAGS = "]


async def test_chart_log_and_plan_are_copied_as_they_stand(clipboard: list[str]) -> None:
    async with on_stage(at_work(3)) as stage:
        for key in "134":
            await stage.press(key, "Y")
    plan, chart, log = clipboard
    assert "✓ p1 FLAGS = -O3" in plan
    assert "┤" in chart
    assert "the run begins" in log


async def test_pictures_of_the_screen_are_written_to_the_run_folder_and_never_over_another(
    tmp_path: Path,
) -> None:
    async with on_stage(at_work(3, path=str(tmp_path)), (200, 40)) as stage:
        await stage.press("X", "X")
        pictures = sorted((tmp_path / "exports").glob("*"))
        assert pictures[0].name in stage.text()
    assert len(pictures) == 2
    for path in pictures:
        picture = path.read_text()
        ElementTree.fromstring(picture)
        assert "p1" in picture
        assert "https://" not in picture.replace("https://www.textualize.io", "")


async def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "exports").write_text("in the way")
    async with on_stage(at_work(3, path=str(tmp_path)), (200, 40)) as stage:
        await stage.press("X")
        assert f"not written: {tmp_path}/exports: " in stage.text()
