"""Reads the remarks of g++ (-fopt-info-vec) about vectorization.

Pure. Remarks about other files than the kernel's own C++ are left out: they speak of headers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from akg_tui.evidence.findings import CompilerRemark

MOST_REMARKS = 200
MOST_TEXT = 200

_GCC = re.compile(
    r"^(?P<file>[^:\s][^:]*):(?P<line>\d+)(?::\d+)?: (?P<kind>optimized|missed): +(?P<text>.+)$"
)
# Names of GCC's own temporaries, which say nothing to a reader.
_TEMPORARY = re.compile(r"\b_\d+ = |\bvect_[\w.]+|\b_\d+\b")
# Said of every loop before the reason is given in another remark of the same line.
_BARE = "couldn't vectorize loop"


def read_remarks(
    lines: Iterable[str], line_of: Callable[[int], int], source: str
) -> list[CompilerRemark]:
    """Return the remarks about `source`, each once, in the order of lines of the kernel's file.

    What was vectorized comes before what was missed in a line.
    """
    found: dict[CompilerRemark, None] = {}
    for text in lines:
        told = _GCC.match(text)
        if told is None or told["file"].rpartition("/")[2] != source:
            continue
        good = told["kind"] == "optimized"
        said = " ".join(_TEMPORARY.sub("", told["text"]).split())[:MOST_TEXT]
        line = line_of(int(told["line"]))
        found[CompilerRemark(line, "vectorized" if good else "missed", said)] = None
        if len(found) >= MOST_REMARKS:
            break
    return sorted(_without_bare(list(found)), key=lambda r: (r.line, r.kind != "vectorized"))


def _without_bare(remarks: Sequence[CompilerRemark]) -> list[CompilerRemark]:
    """Leave out `couldn't vectorize loop` where the line's reason or success is told too."""
    told = {remark.line for remark in remarks if remark.text != _BARE}
    return [r for r in remarks if r.text != _BARE or r.line not in told]


def condensed(
    remarks: Sequence[CompilerRemark], lines: Sequence[int], most: int
) -> list[CompilerRemark]:
    """Return at most `most` remarks: those about `lines` first, then the missed ones."""
    wanted = set(lines)
    ranked = sorted(remarks, key=lambda r: (r.line not in wanted, r.kind == "vectorized", r.line))
    return sorted(ranked[:most], key=lambda r: (r.line, r.kind != "vectorized"))
