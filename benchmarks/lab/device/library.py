"""Builds the library of the device. Must not import torch: the engine's side uses it too."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import subprocess
from pathlib import Path

from akg_tui.dsl.compilers import find_compiler

SOURCE = Path(__file__).parent / "device.cpp"
FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-w", "-D_GLIBCXX_USE_CXX11_ABI=1")


def built() -> Path:
    """Return the library, built if it is missing: once for a source and a version of PyTorch."""
    version = importlib.metadata.version("torch")
    key = hashlib.sha256(f"{version} {FLAGS}".encode() + SOURCE.read_bytes())
    folder = Path.home() / ".cache" / "akg_tui" / "labdev"
    library = folder / f"{key.hexdigest()[:16]}.so"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            found = importlib.util.find_spec("torch")
            assert found, "PyTorch is not installed"
            assert found.origin
            home = Path(found.origin).parent
            half = library.with_suffix(".half")
            subprocess.run(
                [*find_compiler(), *FLAGS, str(SOURCE), "-o", str(half),
                 f"-I{home / 'include'}", f"-I{home / 'include/torch/csrc/api/include'}",
                 f"-L{home / 'lib'}", "-ltorch_cpu", "-lc10"],
                check=True,
            )  # fmt: skip
            half.replace(library)
    return library
