"""A device for tests that PyTorch does not take for the CPU: `labdev`, built from `device.cpp`.

Its memory can't be read by the host, its streams run later, and its faults are switched on by
tests. Importing this package builds it, once for a source and a version of PyTorch, and registers
it with PyTorch; so only a process that needs it may import it.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import torch

from akg_tui.dsl import find_compiler

NAME = "labdev"
SOURCE = Path(__file__).parent / "device.cpp"
CACHE_BYTES = 1 << 20
"""What the device says of its cache, so that the judge displaces what it holds."""

FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-w", "-D_GLIBCXX_USE_CXX11_ABI=1")


def built() -> Path:
    """Return the library, built if it is missing."""
    key = hashlib.sha256(f"{torch.__version__} {FLAGS}".encode() + SOURCE.read_bytes())
    folder = Path.home() / ".cache" / "akg_tui" / "labdev"
    library = folder / f"{key.hexdigest()[:16]}.so"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            home = Path(torch.__file__).parent
            half = library.with_suffix(".half")
            subprocess.run(
                [*find_compiler(), *FLAGS, str(SOURCE), "-o", str(half),
                 f"-I{home / 'include'}", f"-I{home / 'include/torch/csrc/api/include'}",
                 f"-L{home / 'lib'}", "-ltorch_cpu", "-lc10"],
                check=True,
            )  # fmt: skip
            half.replace(library)
    return library


def _register() -> types.ModuleType:
    # The device takes shapes from `meta`, which loads for seconds when it is first used.
    importlib.import_module("torch._dynamo")
    torch.empty(2, 2, device="meta").mul(2).softmax(-1)
    torch.ops.load_library(str(built()))
    torch.utils.rename_privateuse1_backend(NAME)
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
    torch._register_device_module(NAME, module)
    sys.modules[module.__name__] = module
    return module


device = _register()
"""The module that PyTorch knows as `torch.labdev`."""
