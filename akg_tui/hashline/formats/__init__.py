"""The edit formats that a model may use, all with one small interface.

Hashline cannot change a wrong line; search and replace is for models that were trained on it.
"""

from collections.abc import Sequence

from akg_tui.hashline.formats.contract import EditReader, Proposed, Refusal
from akg_tui.hashline.formats.kernel_reader import (
    KernelReader,
    ProposedKernel,
    kernel_line_counts,
)
from akg_tui.hashline.formats.str_replace import StrReplace
from akg_tui.hashline.formats.tagged import Hashline
from akg_tui.hashline.tags import Tagger

FORMATS = ("hashline", "str_replace")


def open_reader(name: str, tagger: Tagger) -> Hashline | StrReplace:
    """Return a format, one of `FORMATS`, for one reader of one file."""
    return Hashline(tagger) if name == "hashline" else StrReplace()


def open_kernel_reader(name: str, tagger: Tagger, files: Sequence[str]) -> KernelReader:
    """Return a format, one of `FORMATS`, for one reader of a kernel's files."""
    return KernelReader({each: open_reader(name, tagger) for each in files})


__all__ = [
    "FORMATS",
    "EditReader",
    "KernelReader",
    "Proposed",
    "ProposedKernel",
    "Refusal",
    "kernel_line_counts",
    "open_kernel_reader",
    "open_reader",
]
