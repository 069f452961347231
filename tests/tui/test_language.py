from __future__ import annotations

import re
import subprocess
import sys

import pytest

from akg_tui.core import events as ev
from akg_tui.core.approval_rules import applied_in_words, in_words
from akg_tui.core.commands import Refusal
from akg_tui.core.measurement import Interval
from akg_tui.core.phases import Phase
from akg_tui.core.sanitize import Said, clean
from akg_tui.view import formatting
from akg_tui.view.controls import approvals
from akg_tui.view.language import FOLDER, catalogue, catalogues, language_of, retold, speak, tr
from akg_tui.view.spans import cells

from .catalogue import OTHERS, Found, read, texts, warn
from .moments import under_evaluation
from .script import FakeHandle
from .stage import on_stage


@pytest.mark.parametrize("language", OTHERS)
def test_a_catalogue_is_sound(language: str) -> None:
    """Each entry stands once, keeps the names in braces, and holds nothing odd."""
    known = read(language)
    (path,) = FOLDER.joinpath(language).rglob("*.po")
    entries = re.findall(r'^msgid "(?=.*\n(?!msgstr ""\n"Project))', path.read_text(), re.MULTILINE)
    assert len(entries) == len(known) == sum(map(len, catalogues(language).values()))
    for entry in known:
        english, said = str(entry.id), str(entry.string)
        assert catalogue(language, entry.context or "").get(english, said) == said, english
        names = re.findall(r"\{\w*\}", english)
        assert english == "" or sorted(re.findall(r"\{\w*\}", said)) == sorted(names), english
        assert english == "" or (clean(said) == said and said.strip()), english


@pytest.mark.parametrize("language", OTHERS)
def test_a_catalogue_has_no_text_that_the_code_does_not_have(language: str) -> None:
    written = {(each.text, each.context) for each in texts()}
    entries = {(str(each.id), each.context or "") for each in read(language) if each.id}
    assert entries - written == set()


def test_a_text_that_is_not_translated_yet_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    place = "akg_tui/new.py:7"
    new = [Found("no such text", "", place, shown=True), Found("quit", "", place, shown=True)]
    warn(new, "zh")
    assert capsys.readouterr().out == f"{place}: warning: zh lacks: no such text\n"


def test_a_thing_has_one_name_in_chinese() -> None:
    """Beside each word that is not used: the one that is, of a pane, a sample, a DISCARD, a seed's
    kernel, a ratio, and the word that runs are counted with."""
    text = (FOLDER / "zh" / "LC_MESSAGES" / "akg_tui.po").read_text("utf-8")
    said = [line for line in text.splitlines() if line.startswith(("msgstr", '"'))]
    instead = {"窗格": "面板", "示例": "样例", "舍弃": "丢弃", "倍率": "倍数", "个运行": "次运行"}
    assert {word: line for word in instead for line in said if word in line} == {}
    assert [line for line in said if "种子" in line and "随机数" not in line] == []  # 初版


def test_a_text_without_a_translation_is_said_in_english() -> None:
    speak("zh")
    assert tr("no such text {n}", n=1) == "no such text 1"
    assert tr("quit") == "退出"


def test_a_sentence_of_a_lower_floor_is_said_with_its_values() -> None:
    why = Said("mode {mode} set its gate anew", mode="review")
    ended = Said("rule {n} is not in force: {why}", n=3, why=why)
    assert retold(ended) == str(ended) == "rule 3 is not in force: mode review set its gate anew"
    speak("zh")
    assert retold(ended) == "规则 3 已无效：模式 review 重新设了它的关卡"
    assert retold(Refusal("{item} is under work", item="p3")) == retold(
        Said("{item} is under work", item="p3")
    )


def test_a_plain_text_is_translated_only_as_a_whole() -> None:
    speak("zh")
    assert retold("the run is not paused") == "运行没有暂停"
    kept = ("rule 3 is not in force: X", "{item} {why}", "a {n} b", "ValueError: p3", "")
    assert [retold(each) for each in kept] == list(kept)
    assert retold(Said("there is no hand edit {file}", file="on")).endswith("on"), "a name stays"


def test_english_reads_no_catalogue() -> None:
    code = (
        "from akg_tui.tui import app; from akg_tui.view import language; "
        "assert language.retold('the run is not paused') == 'the run is not paused'; "
        "assert not language.catalogues.cache_info().currsize"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_figures_are_said_in_the_language_spoken() -> None:
    assert formatting.sure(Interval(1.123, 1.098, 1.149, 0.95)) == (
        "12.3 % faster (9.8 to 14.9), 95 % sure"
    )
    assert formatting.count(3, "line") == "3 lines"
    speak("zh")
    assert (
        formatting.sure(Interval(1.123, 1.098, 1.149, 0.95))
        == "快 12.3 %（9.8 至 14.9）, 置信度 95 %"
    )
    assert formatting.count(3, "line") == "3 行"


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C.UTF-8"}, "en"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LC_MESSAGES": "zh", "LANG": "en_GB.UTF-8"}, "zh"),
        ({}, "en"),
    ],
)
def test_the_locale_chooses_the_language(environment: dict[str, str], language: str) -> None:
    assert language_of(environment) == language


def borders(text: str) -> list[list[int]]:
    """In which columns each row has a border; the first row's words stand apart by their length."""
    rows: list[list[int]] = []
    for row in text.split("\n")[1:]:
        column, found = 0, []
        for character in row:
            if character in "│╭╮╰╯":
                found.append(column)
            column += cells(character)
        rows.append(found)
    return rows


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_wide_letters_shift_no_column_on_any_screen(size: tuple[int, int]) -> None:
    async with on_stage(under_evaluation(), size) as stage:
        english = borders(stage.text())
        stage.app.appearance.action_setting("lang", "zh")
        stage.handle.now += 10
        await stage.pull()
        assert any("一" <= c <= "龥" for c in stage.text())
        assert borders(stage.text()) == english
        for keys in (("colon", "t"), ("escape", "ctrl+p")):
            await stage.press(*keys)
            assert {cells(row) for row in stage.text().split("\n")} == {size[0]}


async def test_a_command_is_found_by_its_english_name_in_every_language() -> None:
    async with on_stage(FakeHandle()) as stage:
        await stage.command("language zh")
        await stage.command("theme tide")
        assert stage.app.theme == "tide"
        await stage.pilot.press("ctrl+p", *"zoom")
        await stage.pull()
        assert "面板: 放大" in stage.text()


@pytest.mark.parametrize(
    "covered",
    [
        ev.Scope("plan", Phase.PLAN),
        ev.Scope("edit", Phase.EDIT),
        ev.Scope("keep", Phase.DECIDE),
        ev.Scope("script", Phase.EDIT, "", "python"),
        ev.Scope("script", Phase.DIAGNOSE, "diagnosis", "bash"),
    ],
)
def test_a_rule_is_said_in_the_language_spoken(covered: ev.Scope) -> None:
    assert approvals.scope(covered) == in_words(covered)
    applied = ev.RuleApplied(2, covered, gate=4, attempt=7, detail="import os\nprint()")
    speak("zh")
    assert "不再询问" in approvals.scope(covered)
    assert retold(applied_in_words(applied)).startswith("规则 2 批准了")
