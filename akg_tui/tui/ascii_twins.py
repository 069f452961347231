"""The ASCII twin of every sign that the screens draw, each as many columns wide. Pure."""

from __future__ import annotations

from rich.cells import cell_len

_ASCII: dict[str, str] = {
    "✓": "v", "✔": "v", "✗": "x", "✘": "x", "▪": "#", "▸": ">", "▶": ">", "▼": "v", "▾": "v",
    "◂": "<", "◀": "<", "▲": "^", "⋯": "~", "◦": ".", "·": ".", "•": "*", "●": "*", "○": "o",
    "◐": "o", "›": ">", "‹": "<", "⊟": "#", "⨯": "x", "×": "x", "±": "~", "→": ">", "←": "<",
    "↑": "^", "↓": "v", "…": ".", "–": "-", "—": "-", "≤": "<", "≥": ">", "≈": "~", "µ": "u",
    "█": "#", "▓": "#", "▒": "+", "░": ".", "▏": "|", "▎": "|", "▍": "|", "▌": "|", "▐": "|",
    "▁": "_", "▂": "_", "▃": ".", "▄": "-", "▅": "=", "▆": "=", "▇": "#", "▀": "-", "▔": "-",
    "⧗": "*", "⏺": "*", "␛": "^", "␇": "^", "∅": "0", "“": '"', "”": '"', "‘": "'", "’": "'",
    "\N{NO-BREAK SPACE}": " ",
}  # fmt: skip

_CORNERS = "┌┐└┘├┤┬┴┼╭╮╰╯╔╗╚╝╠╣╦╩╬┏┓┗┛┣┫┳┻╋╴╵╶╷╸╹╺╻"
_LEVEL, _UPRIGHT = "─━═╌┄┈╍┅┉⎯", "│┃║╎┆┊╏┇┋"
_ASCII.update(dict.fromkeys(_CORNERS, "+"))
_ASCII.update(dict.fromkeys(_LEVEL, "-"))
_ASCII.update(dict.fromkeys(_UPRIGHT, "|"))


def _braille(bits: int) -> str:
    """The nearest sign for the dots of one cell: where they lie, then how many."""
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
    """`text` in ASCII, as many columns wide: signs by their twins, the rest as ``?``."""
    if text.isascii():
        return text
    text = text.translate(_TABLE)
    if text.isascii():
        return text
    return "".join(c if c.isascii() else "?" * cell_len(c) for c in text)
