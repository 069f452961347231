from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from akg_tui.tui.app import WorkbenchApp
from akg_tui.view import language
from akg_tui.view.controls import keymap

from .quiet import wait_for_events


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
