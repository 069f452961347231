"""The tree-sitter grammars of kernel files, and incremental parsing of edited text.

Owns only the grammars, which are loaded when a file needs one. Neither checks nor colours files.
"""

from __future__ import annotations

import functools
import time
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from tree_sitter import Language, Parser, Tree

Grammar: TypeAlias = Literal["python", "cpp", "cuda"]

_BY_SUFFIX: Final[dict[str, Grammar]] = {
    ".py": "python",
    **dict.fromkeys((".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".inc"), "cpp"),
    **dict.fromkeys((".cu", ".cuh"), "cuda"),
}

BOM = b"\xef\xbb\xbf"
_PIECE = 4096  # bytes per read of the parser
_LIMIT_S = 3.0  # CPU seconds; the time of the Python grammar is quadratic in the length of
# a run of comments after a block, so a file of a few thousand comments would take minutes
_STEPS = 8  # callbacks of the parser between two yields of the interpreter lock


def grammar_of(name: str) -> Grammar | None:
    """Return the grammar by the suffix of a file's name, or of a suffix alone, or None."""
    return _BY_SUFFIX.get(f".{name.rpartition('.')[2]}".lower())


@functools.cache
def language(grammar: Grammar) -> Language:
    import tree_sitter

    return tree_sitter.Language(import_module(f"tree_sitter_{grammar}").language())


def parser_of(grammar: Grammar) -> Parser:
    """Return a new parser for the caller, because a parser serves one thread."""
    import tree_sitter

    return tree_sitter.Parser(language(grammar))


def edited(tree: Tree, before: bytes, after: bytes) -> Tree:
    """Return a copy of the tree of `before`, marked where `after` differs, to parse it."""
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
    """Parse in a thread and release the interpreter lock at intervals: tree-sitter itself would
    hold the lock for the third of a second that 20,000 lines take.

    `tree` is the tree of another version of the text, as `edited` returns it. Return None for a
    text that takes longer than `_LIMIT_S`.
    """
    begin, steps = time.thread_time(), 0
    late = over = False

    def rest() -> bool:
        """Yield to other threads every `_STEPS` calls; return whether the time limit has passed."""
        nonlocal steps, late
        steps += 1
        if steps % _STEPS == 0 and not late and not over:
            time.sleep(0)
            late = time.thread_time() - begin > _LIMIT_S
        return late

    def piece(offset: int, _point: object) -> bytes:
        # After the limit the text ends here, so that the parser stops soon. The tree keeps this
        # function and reads by it later, from any thread: for a parsed text it returns all bytes.
        return b"" if rest() else data[offset : offset + _PIECE]

    def stop(_offset: int, _errors: object) -> bool:
        return rest()

    parser = parser_of(grammar)
    try:
        if tree is None:
            found = parser.parse(piece, progress_callback=stop)
        else:
            found = parser.parse(piece, tree, progress_callback=stop)
    except ValueError:  # "Parsing failed": `stop` ended the parse
        return None
    over = True
    return None if late else found


def _common(one: bytes, other: bytes) -> int:
    """Return the length of the common prefix in bytes."""
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
