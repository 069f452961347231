"""KernelBench, and every set whose files are Python modules of the same convention.

One file has `Model`, `get_inputs()` and `get_init_inputs()`, with the sizes as numbers at the top
level. It becomes the reference byte for byte.
"""

from __future__ import annotations

import re
from pathlib import Path

from akg_tui.problems.problem import Problem
from akg_tui.store.task_folder import check_reference, file_text, op_named

NAME = "kernelbench"


def read(path: Path, label: str = "KernelBench") -> Problem:
    """Return the problem in a Python file. Raises `BadTask`."""
    text = file_text(path)
    check_reference(path, text.encode())
    return Problem(
        format=label,
        origin=path,
        op=op_of(path.stem),
        reference=text,
        filename=path.name,
        verbatim=True,
    )


def op_of(stem: str) -> str:
    """Return an operator's name from a file's: `23_Softmax` is `Softmax`."""
    return op_named(re.sub(r"^\d+_(?=\w)", "", stem).strip("_") or stem)
