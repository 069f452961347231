"""Finds the lines of a kernel's file that hold the lines of its C++.

Pure. The C++ is a string of the file, or is put together by it from several strings.
"""

from __future__ import annotations

from difflib import SequenceMatcher

from akg_tui.core.kernel.kernel_files import KernelFiles

MOST_LINES = 6_000


def lines_in_file(file: str, whole: str) -> list[int]:
    """Return, for each line of the C++ `whole`, its line in `file`, counted from 1; 0: unknown.

    Lines are matched by their text, in order. A line between two matches that are as far apart in
    both is taken to correspond: there the file put something into a line.
    """
    wanted, there = _keys(whole), _keys(file)
    if len(wanted) > MOST_LINES or len(there) > MOST_LINES:
        return [0] * len(wanted)
    start = file.find(whole) if whole.strip() else -1
    if start >= 0:
        first = file.count("\n", 0, start) + 1
        return [first + number for number in range(len(wanted))]
    # Blank lines and lone braces match anywhere, so only the rest leads.
    leading = [key if len(key) > 2 else None for key in there]
    matcher = SequenceMatcher(None, wanted, leading, autojunk=False)
    blocks = [block for block in matcher.get_matching_blocks() if block.size]
    found = [0] * len(wanted)
    for number, (a, b, size) in enumerate(blocks):
        first = a if number else 0
        following = blocks[number + 1] if number + 1 < len(blocks) else None
        last = following.a if following is not None else len(wanted)
        if following is not None and following.b - following.a != b - a:
            last = a + size
        for line in range(first, last):
            if 0 <= line + b - a < len(there):
                found[line] = line + b - a + 1
    return found


def rows_of(kernel: KernelFiles, whole: str) -> list[int]:
    """Return `lines_in_file` for a kernel's files, as its rows.

    The C++ of one file may stand inside that of another, which includes it.
    """
    found: list[int] = []
    texts = {name: text for name, text in kernel.texts.items() if whole.strip() and whole in text}
    for name, text in (texts or kernel.texts).items():
        before = kernel.before[name]
        lines = [line and before + line for line in lines_in_file(text, whole)]
        found = [old or new for old, new in zip(found or lines, lines, strict=True)]
    return found


def _keys(text: str) -> list[str]:
    # In a format string a brace is written twice.
    return [line.strip().replace("{{", "{").replace("}}", "}") for line in text.splitlines()]
