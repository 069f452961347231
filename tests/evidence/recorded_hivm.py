"""Kernels in HIVM as the compiler for Ascend NPUs wrote them, recorded in an archive."""

from functools import cache
from pathlib import Path
from zipfile import ZipFile

ARCHIVE = Path(__file__).with_suffix(".zip")


@cache
def texts() -> dict[str, str]:
    """Return the recorded texts by kernel."""
    with ZipFile(ARCHIVE) as archive:
        return {
            name.removesuffix(".mlir"): archive.read(name).decode()
            for name in archive.namelist()
            if name.endswith(".mlir")
        }
