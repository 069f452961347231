"""One sizing process of each kind for all tests of this folder: starting it means loading torch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from akg_tui.core.task import Target, Task
from akg_tui.engine import task_making
from akg_tui.sizing.size_probe import SizeProbe

SETS = Path(__file__).parent / "sets"
KERNELBENCH = sorted((SETS / "kernelbench").glob("*.py"))


@pytest.fixture(scope="session")
def generator() -> Iterator[SizeProbe]:
    """Return a sizing process in which torch.compile generates C++."""
    with SizeProbe(Task(op="x", target=Target(dsl="cpp")), generates=True) as running:
        yield running


@pytest.fixture(scope="session")
def probe() -> Iterator[SizeProbe]:
    with SizeProbe(Task(op="x", target=Target(dsl="torch"))) as running:
        yield running


def _take(running: SizeProbe, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `akg-tui new` take a sizing process that runs already."""
    held = contextlib.nullcontext(running)
    monkeypatch.setattr(task_making, "SizeProbe", lambda *_, **__: held)


@pytest.fixture
def shared_probe(monkeypatch: pytest.MonkeyPatch, probe: SizeProbe) -> None:
    _take(probe, monkeypatch)


@pytest.fixture
def shared_generator(monkeypatch: pytest.MonkeyPatch, generator: SizeProbe) -> None:
    _take(generator, monkeypatch)


def module_of(parameters: str, forward: str, inputs: str, head: str = "") -> str:
    """Return a reference with these parameters and lines of `forward`, and these inputs."""
    body = "".join(f"        {line}\n" for line in forward.splitlines())
    return f"""import torch
{head}

class Model(torch.nn.Module):
    def forward(self, {parameters}):
{body}

def get_inputs():
    return {inputs}


def get_init_inputs():
    return []
"""


def names_in(text: str) -> dict[str, Any]:
    """Return what the text of a module binds."""
    names: dict[str, Any] = {}
    exec(text, names)
    return names
