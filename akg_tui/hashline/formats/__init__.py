"""The edit formats that a model may use, all with one small interface.

Hashline cannot change a wrong line; search and replace is for models that were trained on it.
"""

from collections.abc import Sequence

from akg_tui.hashline.formats.contract import (
    EditFormat,
    EditReader,
    Guarded,
    Proposed,
    Refusal,
    line_counts,
)
from akg_tui.hashline.formats.kernel_reader import (
    KernelReader,
    ProposedKernel,
    kernel_line_counts,
)
from akg_tui.hashline.formats.str_replace import StrReplace
from akg_tui.hashline.formats.tagged import Hashline
from akg_tui.hashline.tags import Tagger

FORMATS = ("hashline", "str_replace")


def open_format(name: str, tagger: Tagger) -> EditFormat:
    """Return a format for one reader of one file.

    Raises `ValueError` if `name` is not in `FORMATS`.
    """
    match name:
        case "hashline":
            return Hashline(tagger)
        case "str_replace":
            return StrReplace()
    raise ValueError(f"no edit format {name!r}; there are: {', '.join(FORMATS)}")


def open_reader(name: str, tagger: Tagger) -> EditReader:
    """Return a format for one reader of a file that others change too. Raises `ValueError`."""
    return Hashline(tagger) if name == "hashline" else Guarded(open_format(name, tagger))


def open_kernel_reader(name: str, tagger: Tagger, files: Sequence[str]) -> KernelReader:
    """Return a format for one reader of a kernel's files. Raises `ValueError`."""
    return KernelReader({each: open_reader(name, tagger) for each in files})


__all__ = [
    "FORMATS",
    "EditFormat",
    "EditReader",
    "Guarded",
    "KernelReader",
    "Proposed",
    "ProposedKernel",
    "Refusal",
    "kernel_line_counts",
    "line_counts",
    "open_format",
    "open_kernel_reader",
    "open_reader",
]
