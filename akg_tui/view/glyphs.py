"""The signs beside words and colours, and the ASCII replacement of each, of equal width.

Pure. No meaning depends on colour alone; each sign is one column wide in every terminal.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from akg_tui.core.phases import ItemState, Mode, Verdict

DONE = "✓"
LIVE = "▸"
WAITS = "⋯"
IDLE = "◦"
PIN = "‣"
FRESH = "⋆"
TOOL = "›"
FOLDED = "›"
OPEN = "▾"

VERDICT: dict[Verdict, tuple[str, str]] = {
    Verdict.KEEP: ("✓", "verdict.keep"),
    Verdict.DISCARD: ("▪", "verdict.discard"),
    Verdict.FAIL: ("✗", "verdict.fail"),
    Verdict.INCONCLUSIVE: ("≃", "note"),
    Verdict.SHORTLIST: ("≋", "figure"),
}

SHORT: dict[Verdict, str] = {Verdict.INCONCLUSIVE: "INCONCL", Verdict.SHORTLIST: "SHORTL"}
"""The verdicts that a table column writes shorter."""

# Glyph, word, short word, role.
ITEM: dict[ItemState, tuple[str, str, str, str]] = {
    ItemState.PENDING: ("◦", "PENDING", "", "item.pending"),
    ItemState.ACTIVE: ("▸", "ACTIVE", "ACTIVE", "item.active"),
    ItemState.KEPT: ("✓", "KEPT", "KEPT", "verdict.keep"),
    ItemState.DISCARDED: ("▪", "DISCARDED", "DISC", "verdict.discard"),
    ItemState.FAILED: ("✗", "FAILED", "FAIL", "verdict.fail"),
    ItemState.SUSPENDED: ("⊟", "SUSPENDED", "SUSP", "item.suspended"),
    ItemState.DROPPED: ("⨯", "DROPPED", "DROP", "item.dropped"),
    ItemState.SHORTLISTED: ("≋", "SHORTLIST", "LIST", "figure"),
}
# A pending item that was measured already, and not proved.
UNPROVED = (VERDICT[Verdict.INCONCLUSIVE][0], "INCONCL", "INC", "note")

MODE: dict[Mode, str] = {Mode.AUTO: "mode.auto", Mode.REVIEW: "mode.review", Mode.STEP: "mode.step"}


def bar(done: int, total: int, room: int) -> tuple[str, str]:
    """Return the full and the empty part of a progress bar `room` columns long."""
    full = room * min(done, total) // total if total else 0
    return "⣿" * full, "⣀" * (room - full)


_LEVELS = "▁▂▃▄▅▆▇█"


def spark(climb: Sequence[float], room: int) -> str:
    """Return a sparkline of the best ratio: one column per round, the last `room` rounds."""
    shown = climb[-room:]
    if not shown:
        return ""
    top = max(shown) - 1.0 or 1.0
    return "".join(_LEVELS[max(0, min(7, round((v - 1.0) / top * 7)))] for v in shown)


_ASCII: dict[str, str] = {
    "✓": "v", "✔": "v", "✗": "x", "✘": "x", "▪": "#", "▸": ">", "▶": ">", "▼": "v", "▾": "v",
    "◂": "<", "◀": "<", "▲": "^", "⋯": "~", "◦": ".", "·": ".", "•": "*", "●": "*", "○": "o",
    "◐": "o", "›": ">", "‹": "<", "⊟": "#", "⨯": "x", "×": "x", "±": "~", "→": ">", "←": "<",
    "↑": "^", "↓": "v", "…": ".", "–": "-", "—": "-", "≤": "<", "≥": ">", "≈": "~", "µ": "u",
    "█": "#", "▓": "#", "▒": "+", "░": ".", "▏": "|", "▎": "|", "▍": "|", "▌": "|", "▐": "|",
    "▁": "_", "▂": "_", "▃": ".", "▄": "-", "▅": "=", "▆": "=", "▇": "#", "▀": "-", "▔": "-",
    "⧗": "*", "⏺": "*", "␛": "^", "␇": "^", "∅": "0", "“": '"', "”": '"', "‘": "'", "’": "'",
    "\N{NO-BREAK SPACE}": " ", "≃": "~", "≋": "=", "⋆": "*", "‣": "!", "⋄": "~", "■": "#", "▴": "^",
    "−": "-", "━": "=", "═": "=", "╷": ",", "╵": "'",
}  # fmt: skip

_CORNERS = "┌┐└┘├┤┬┴┼╭╮╰╯╔╗╚╝╠╣╦╩╬┏┓┗┛┣┫┳┻╋╴╶╸╹╺╻"
_LEVEL, _UPRIGHT = "─╌┄┈╍┅┉⎯", "│┃║╎┆┊╏┇┋"
_ASCII.update(dict.fromkeys(_CORNERS, "+"))
_ASCII.update(dict.fromkeys(_LEVEL, "-"))
_ASCII.update(dict.fromkeys(_UPRIGHT, "|"))


def _braille(bits: int) -> str:
    """Return the nearest ASCII sign for a cell: by the position of its dots, then by number."""
    if not bits:
        return " "
    if bits & ~0x36 == 0 and bits.bit_count() <= 2:
        return "-"
    if bits & ~0x09 == 0:
        return "'"
    if bits & ~0xC0 == 0:
        return "_"
    if bits & ~0x47 == 0 or bits & ~0xB8 == 0:
        return "|"
    return "#" if bits == 0xFF else "*" if bits.bit_count() >= 4 else "."


_ASCII.update({chr(0x2800 + bits): _braille(bits) for bits in range(256)})
_TABLE = str.maketrans(_ASCII)


def ascii_twin(text: str) -> str:
    """Return `text` in ASCII at equal width; a character without a twin becomes ``?``."""
    if text.isascii():
        return text
    text = text.translate(_TABLE)
    if text.isascii():
        return text
    return "".join(c if c.isascii() else "?" * cell_len(c) for c in text)
