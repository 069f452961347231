"""Makes any text safe to put on a terminal: `clean`, the one place where that is done.

Kernels, model output and file names are untrusted. Nothing is dropped: what would act on
the terminal, or hide or reorder text, is shown as a visible mark instead.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

TAB_WIDTH = 4

_PICTURES = 0x2400  # U+2400 is the picture of NUL, U+241B the one of ESC
_DELETE = 0x7F
_BLANKS = "Zs"


def clean(text: str) -> str:
    """`text` with every character that is not printable replaced by a mark of its own.

    Tabs become blanks. A control character becomes its control picture (ESC is ``␛``);
    any other unseen character (C1 controls, bidi overrides, zero-width marks, lone
    surrogates) becomes ``<U+202E>``. The result is one line without an escape code.
    """
    if text.isprintable():
        return text
    if "\t" in text:
        text = text.expandtabs(TAB_WIDTH)
    return "".join(c if c.isprintable() else _mark(c) for c in text)


def split_clean(text: str) -> list[str]:
    """The lines of `text`, each cleaned; a line ends at ``\\n`` or ``\\r\\n`` only."""
    return [clean(line.removesuffix("\r")) for line in text.split("\n")]


def one_line(text: str, width: int | None = None) -> str:
    """`text` cleaned, on one line, blanks squeezed, at most `width` characters long."""
    line = clean(" ".join(text.split()))
    return line if width is None or len(line) <= width else line[: width - 1] + "…"


@lru_cache(maxsize=512)
def _mark(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(_PICTURES + code)
    if code == _DELETE:
        return "␡"
    if unicodedata.category(character) == _BLANKS:
        return character
    return f"<U+{code:04X}>"
