"""Seed 000, kernels for Ascend: the extra `ascend` goes beside the pinned torch."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from akg_tui.cli.machine_checks import check_devices
from akg_tui.evaluate.targets import TARGETS, ascend

ROOT = Path(__file__).parents[2]


def test_seed000_torch_npu_is_pinned_to_the_release_of_the_pinned_torch() -> None:
    """That the two, and all else, resolve together is in `tests/test_install.py`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (extra,) = project["optional-dependencies"]["ascend"]
    assert extra.startswith("torch-npu")
    pins = dict(pin.split("==") for pin in (ROOT / "constraints.txt").read_text("utf-8").split())
    assert pins["torch-npu"] == pins["torch"]


@pytest.mark.parametrize("version", ["2.13.0.post2", ""])
def test_seed000_the_doctor_tells_what_of_torch_npu_is_here(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(ascend, "_version", lambda package: version)
    (told,) = [check.found for check in check_devices() if check.name == "ascend"]
    assert TARGETS["ascend"].lacking() in told
    assert f"torch_npu {version or 'missing'}" in told
