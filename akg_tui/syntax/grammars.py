"""The tree-sitter grammars of kernel files, and patient parsing with them.

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


def parse_patiently(grammar: Grammar, data: bytes) -> Tree | None:
    """Parse in a thread and release the interpreter lock at intervals: tree-sitter itself would
    hold the lock for the third of a second that 20,000 lines take.

    Return None for a text that takes longer than `_LIMIT_S`.
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

    try:
        found = parser_of(grammar).parse(piece, progress_callback=stop)
    except ValueError:  # "Parsing failed": `stop` ended the parse
        return None
    over = True
    return None if late else found
