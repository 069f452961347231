"""Seed 000, kernels for Ascend: the extra `ascend` goes beside the pinned torch."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_seed000_torch_npu_is_pinned_to_the_release_of_the_pinned_torch() -> None:
    """That the two, and all else, resolve together is in `tests/test_install.py`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (extra,) = project["optional-dependencies"]["ascend"]
    assert extra.startswith("torch-npu")
    pins = dict(pin.split("==") for pin in (ROOT / "constraints.txt").read_text("utf-8").split())
    assert pins["torch-npu"] == pins["torch"]
