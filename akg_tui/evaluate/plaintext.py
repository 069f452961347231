"""Makes text that came from untrusted code fit to be kept and shown.

Pure. Takes away escape sequences and control characters, and keeps head and tail of what
is too long; must never interpret what it cleans.
"""

from __future__ import annotations

import re

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


def clean(text: str, limit: int = DETAIL_LIMIT) -> str:
    """Return `text` without escape codes, at most `limit` characters, head and tail kept."""
    plain = _UNSEEN.sub("", _ESCAPE.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
    if len(plain) <= limit:
        return plain
    mark = "\n[…]\n"
    head = (limit - len(mark)) // 2
    tail = limit - len(mark) - head
    return plain[:head] + mark + plain[len(plain) - tail :]


def one_line(text: str, limit: int = LINE_LIMIT) -> str:
    """Return `text` cleaned and on one line."""
    line = " ".join(clean(text, limit * 4).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
