"""The tree-sitter grammars of kernel files, and parsing anew only what an edit has changed.

Owns nothing but the grammars, which are loaded when a file needs one. Judges no file and
colours none.
"""

from __future__ import annotations

import functools
import time
from importlib import import_module
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from tree_sitter import Language, Parser, Tree

Grammar: TypeAlias = Literal["python", "cpp", "cuda"]

BOM = b"\xef\xbb\xbf"
_PIECE = 4096  # bytes that are handed to a patient parser at once
_LIMIT_S = 3.0  # of the processor; the Python grammar takes time by the square of the length of
# a run of comments after a block, so a file of some thousand comments would take minutes
_STEPS = 8  # of a patient parser, between two times that it lets other threads work


@functools.cache
def language(grammar: Grammar) -> Language:
    import tree_sitter

    return tree_sitter.Language(import_module(f"tree_sitter_{grammar}").language())


def parser_of(grammar: Grammar) -> Parser:
    """A parser of its own for the caller: one parser serves one thread."""
    import tree_sitter

    return tree_sitter.Parser(language(grammar))


def edited(tree: Tree, before: bytes, after: bytes) -> Tree:
    """A copy of the tree of `before` that knows where `after` differs, to parse that with."""
    start = _common(before, after)
    tail = min(_common(before[::-1], after[::-1]), min(len(before), len(after)) - start)
    old_end, new_end = len(before) - tail, len(after) - tail
    tree = tree.copy()
    tree.edit(
        start_byte=start,
        old_end_byte=old_end,
        new_end_byte=new_end,
        start_point=_point(before, start),
        old_end_point=_point(before, old_end),
        new_end_point=_point(after, new_end),
    )
    return tree


def parse_patiently(grammar: Grammar, data: bytes, tree: Tree | None) -> Tree | None:
    """Parse in a thread without holding up the others: 20,000 lines take a third of a second,
    in which tree-sitter would not let go of the interpreter by itself.

    `tree` is that of another version of the text, as `edited` gives it. None for a text that
    takes too long.
    """
    begin, steps = time.thread_time(), 0
    late = over = False

    def rest() -> bool:
        """Let others work now and then; whether it takes too long."""
        nonlocal steps, late
        steps += 1
        if steps % _STEPS == 0 and not late and not over:
            time.sleep(0)
            late = time.thread_time() - begin > _LIMIT_S
        return late

    def piece(offset: int, _point: object) -> bytes:
        # Of a text that is given up there is no more, so that it ends soon. The tree reads by
        # this too, from whatever thread and for good: of a text that was parsed there is all.
        return b"" if rest() else data[offset : offset + _PIECE]

    def stop(_offset: int, _errors: object) -> bool:
        return rest()

    parser = parser_of(grammar)
    try:
        if tree is None:
            found = parser.parse(piece, progress_callback=stop)
        else:
            found = parser.parse(piece, tree, progress_callback=stop)
    except ValueError:  # "Parsing failed": it was stopped
        return None
    over = True
    return None if late else found


def _common(one: bytes, other: bytes) -> int:
    """How many bytes both begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _point(data: bytes, offset: int) -> tuple[int, int]:
    return data.count(b"\n", 0, offset), offset - (data.rfind(b"\n", 0, offset) + 1)
