from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

from akg_tui.engine.run_service import RunRequest
from akg_tui.tui import run_start
from akg_tui.tui.app import WorkbenchApp
from akg_tui.view import language
from akg_tui.view.controls import keymap
from tests.engine.runs import create, engine

from .quiet import wait_for_events

ODD = "\x1b[31m漢字\u202e[red]"


@pytest.fixture(scope="session", autouse=True)
def _rules_of_css_are_parsed_once() -> Iterator[None]:
    """Each app parses the same files under the same colours: a quarter of a short test's time."""
    parse = Stylesheet._parse_rules
    known: dict[object, list[RuleSet]] = {}

    def parsed(sheet: Stylesheet, *terms: object, **named: object) -> list[RuleSet]:
        key = (terms, *named.items(), *sheet._variables.items())
        if key not in known:
            known[key] = parse(sheet, *terms, **named)  # type: ignore[arg-type]
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", parsed)
        yield


@pytest.fixture(autouse=True)
def _nobodys_own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Whoever runs the tests may have settings of their own, and a locale."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("NO_COLOR", "TEXTUAL_ANIMATIONS", "LC_ALL", "LC_MESSAGES", "LC_CTYPE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("THEME", "KEYMAP", "LANG", "GLYPHS", "MOTION", "LAYOUT", "SORT"):
        monkeypatch.delenv(f"AKG_TUI_{name}", raising=False)
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("COLORTERM", "truecolor")
    wait_for_events(monkeypatch)
    yield
    language.speak(language.ENGLISH)
    keymap.use(keymap.Keymap(keymap.DEFAULT))


@pytest.fixture(autouse=True)
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[BaseException]]:
    """What went wrong in actions and workers. A person is told; here it fails the test that does
    not take it from this list.
    """
    found: list[BaseException] = []
    tell = WorkbenchApp.report_fault

    def report_fault(app: WorkbenchApp, error: BaseException) -> None:
        found.append(error)
        tell(app, error)

    monkeypatch.setattr(WorkbenchApp, "report_fault", report_fault)
    yield found
    assert found == []


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is over, one that can go on under an odd name, one damaged, one foreign."""
    home = tmp_path_factory.mktemp("made")

    async def tuned() -> Path:
        run = create(home / "task", rounds=4)
        work = engine(run)
        await work.run()
        await work.close()
        return run.path

    over = asyncio.run(tuned())
    lines = (over / "events.jsonl").read_bytes().split(b"\n")
    for name, kept in ((f"{ODD}/runs/open", lines[:60]), ("damaged", lines)):
        shutil.copytree(over, home / name)
        (home / name / "events.jsonl").write_bytes(b"\n".join(kept) + b"\n")
    damaged = home / "damaged" / "events.jsonl"
    damaged.write_bytes(damaged.read_bytes().replace(b"SPEED", b"XPEED", 1))
    (home / "foreign").mkdir()
    (home / "foreign" / "events.jsonl").write_bytes(b"\x00\xff not a journal\n[]\n")
    return home


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of them, which the test may change."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[RunRequest]:
    """The requests for a run that the screens make; none begins."""
    starts: list[RunRequest] = []

    async def noted(start: RunRequest) -> object:
        starts.append(start)
        raise ValueError("noted, and that is all of it")

    monkeypatch.setattr(run_start, "begun", noted)
    return starts
