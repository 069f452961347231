"""Importing this registers the device with PyTorch, so only a process that needs it may do so."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import torch

from benchmarks.lab.device.library import built

NAME = "labdev"
CACHE_BYTES = 1 << 20
"""The size of the cache that the device reports, in bytes; the judge evicts as much."""


def _register() -> types.ModuleType:
    # The device takes shapes from `meta`, which loads for seconds when it is first used.
    importlib.import_module("torch._dynamo")
    torch.empty(2, 2, device="meta").mul(2).softmax(-1)
    torch.ops.load_library(str(built()))  # type: ignore[no-untyped-call]
    torch.utils.rename_privateuse1_backend(NAME)  # type: ignore[attr-defined]
    operators: Any = getattr(torch.ops, NAME)
    module = types.ModuleType(f"torch.{NAME}")
    module.__dict__.update(
        is_available=lambda: torch.accelerator.device_count() > 0,
        device_count=torch.accelerator.device_count,
        current_device=lambda: 0,
        get_device_properties=lambda _: types.SimpleNamespace(L2_cache_size=CACHE_BYTES),
        is_initialized=lambda: True,
        _is_in_bad_fork=lambda: False,
        manual_seed_all=lambda _: None,
        synchronize=operators.synchronize,
        memory_allocated=operators.memory_allocated,
        spin=operators.spin,
        illegal_address=operators.illegal_address,
        set_late=operators.set_late,
        set_clock=operators.set_clock,
        fail_launches=operators.fail_launches,
    )
    torch._register_device_module(NAME, module)  # type: ignore[no-untyped-call]
    sys.modules[module.__name__] = module
    return module


device = _register()
"""The module that PyTorch knows as `torch.labdev`."""
