"""The lines of `--plain` are said in Chinese too, each of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from akg_tui.view.language import lined, sentences, speak
from akg_tui.view.spans import cells

from .sentences import shape, texts

NARRATES = (
    "narrate",
    "_baseline",
    "_by_hand",
    "_of_visits",
    "_of_subagents",
    "_verdict_line",
    "closing_lines",
    "_more",
)


@pytest.fixture(autouse=True)
def chinese() -> Iterator[None]:
    speak("zh")
    yield
    speak("en")


def _lines() -> list[str]:
    """What the functions write: a label in its column, or a sentence with a colon."""
    found = {
        shape(text.text).strip()
        for module in ("headless", "plain_stream")
        for text in texts(module)
        if text.function in NARRATES
    }
    lines = [line for line in found if re.match(r"[\w.]+ {2,}|round |[a-z ,]+: |resumed ", line)]
    assert len(lines) > 35
    return sorted(lines)


@pytest.mark.parametrize("line", _lines())
def test_a_line_of_the_plain_stream_is_said_in_chinese(line: str) -> None:
    # A hole takes a number, but one that takes a phase alone.
    assert any(lined(filled) != filled for filled in (_filled(line, "7"), _filled(line, "EDIT")))


def _filled(line: str, value: str) -> str:
    return line.replace("{}", value)


@pytest.mark.parametrize("english", sorted(sentences("zh", "lines")))
def test_a_line_keeps_its_values_and_its_column(english: str) -> None:
    chinese = sentences("zh", "lines")[english]
    assert sorted(_holes(english)) == sorted(_holes(chinese))
    label = english[:10]
    if "  " in label or (len(english) > 10 and english[9] == " " and english[8] != " "):
        head = chinese[: next(n for n in range(len(chinese)) if cells(chinese[:n]) >= 10)]
        assert head.endswith(" "), chinese


def _holes(text: str) -> list[str]:
    return re.findall(r"\{(\w+)\}", text)


def test_a_reason_and_a_value_stay_as_they_were_put_in() -> None:
    assert lined("phase     PLAN: 下一项") == "阶段      PLAN：下一项"
    assert lined("hint      use {name} and [b]tiles[/b]") == "提示      use {name} and [b]tiles[/b]"
    assert lined("round 3   ✔ KEEP    p1   faster") == "轮 3   ✔ KEEP    p1   faster"


def test_how_a_run_ended_is_said_too() -> None:
    assert lined("plan settled: 12 rounds (3 KEEP)") == "计划各项已定：12 轮（3 KEEP）"
