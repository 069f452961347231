"""Makes untrusted text safe: `clean` for a screen, `strip_escapes` for output that is kept.

Kernels, model output and file names are untrusted. On a screen nothing is dropped: what would act
on the terminal, or hide or reorder text, is shown as a visible mark. Kept output loses its escape
codes, so that a compiler's colours do not stand in every error message, and the middle of what is
too long.
"""

from __future__ import annotations

import re
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


DETAIL_LIMIT = 8_192
LINE_LIMIT = 400

# OSC and DCS strings end at BEL or ST; CSI sequences at a final byte; the rest is two bytes.
_ESCAPE = re.compile(
    r"(?:\x1b\]|\x9d|\x1b[PX^_]|[\x90\x98\x9e\x9f]).*?(?:\x07|\x1b\\|\x9c|$)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|\x1b[ -/]*[0-~]?",
    re.S,
)
# Control characters, lone surrogates, and the marks that reorder or hide text.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def strip_escapes(text: str, limit: int = DETAIL_LIMIT) -> str:
    """Return `text` without escape codes, at most `limit` characters, head and tail kept."""
    plain = _UNSEEN.sub("", _ESCAPE.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
    if len(plain) <= limit:
        return plain
    mark = "\n[…]\n"
    head = (limit - len(mark)) // 2
    tail = limit - len(mark) - head
    return plain[:head] + mark + plain[len(plain) - tail :]


def strip_to_line(text: str, limit: int = LINE_LIMIT) -> str:
    """Return `text` cleaned and on one line."""
    line = " ".join(strip_escapes(text, limit * 4).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
