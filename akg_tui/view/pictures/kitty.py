"""The control codes of the terminal graphics protocol of kitty, with Unicode placeholders.

https://sw.kovidgoyal.net/kitty/graphics-protocol/: a picture is sent once, under a number. It is
seen where cells hold the placeholder character: two combining characters tell row and column, and
the colour of the text is the number. So a picture moves, and is covered, as text is.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

PLACEHOLDER = "\U0010eeee"
CHUNK = 4096

_RANGES = (
    "305 30d-30e 310 312 33d-33f 346 34a-34c 350-352 357 35b 363-36f 483-487 592-595 597-599 "
    "59c-5a1 5a8-5a9 5ab-5ac 5af 5c4 610-617 657-65b 65d-65e 6d6-6dc 6df-6e2 6e4 6e7-6e8 6eb-6ec "
    "730 732-733 735-736 73a 73d 73f-741 743 745 747 749-74a 7eb-7f1 7f3 816-819 81b-823 825-827 "
    "829-82d 951 953-954 f82-f83 f86-f87 135d-135f 17dd 193a 1a17 1a75-1a7c 1b6b 1b6d-1b73 "
    "1cd0-1cd2 1cda-1cdb 1ce0 1dc0-1dc1 1dc3-1dc9 1dcb-1dcc 1dd1-1de6 1dfe 20d0-20d1 20d4-20d7 "
    "20db-20dc 20e1 20e7 20e9 20f0 2cef-2cf1 2de0-2dff a66f a67c-a67d a6f0-a6f1 a8e0-a8f1 aab0 "
    "aab2-aab3 aab7-aab8 aabe-aabf aac1 fe20-fe26"
)


def _numbers() -> Iterator[str]:
    for each in _RANGES.split():
        first, _, last = each.partition("-")
        yield from map(chr, range(int(first, 16), int(last or first, 16) + 1))


NUMBERS = tuple(_numbers())
"""The combining characters that stand for 0, 1, 2, …: those of the protocol below U+10000."""

MOST = len(NUMBERS)
"""The most columns and rows of a picture."""

QUERY = "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\" + "\x1b[>q" + "\x1b[c"
"""Asks whether pictures can be sent, which terminal this is, and what every terminal answers."""

_OK = re.compile(r"\x1b_Gi=31;OK\x1b\\")
_NAME = re.compile(r"\x1bP>\|(?:kitty\((\d+)\.(\d+)|ghostty)")
_LAST = re.compile(r"\x1b\[\?[\d;]*c")
FIRST_KITTY = (0, 28)
"""The first version of kitty with placeholders."""


def answered(text: str) -> bool:
    """Return whether the answer to the last question of `QUERY` is there."""
    return _LAST.search(text) is not None


def shows_pictures(text: str) -> bool:
    """Return whether these answers to `QUERY` are of a terminal that shows placeholders.

    Some terminals that take pictures print the placeholders as text, and tell it by no answer; so
    the terminal must also be one that is known to show them.
    """
    name = _NAME.search(text)
    if name is None or not _OK.search(text):
        return False
    return name[1] is None or (int(name[1]), int(name[2])) >= FIRST_KITTY


def sent(number: int, png: bytes, columns: int, rows: int) -> str:
    """Return the codes that store a picture under a number, scaled to so many cells.

    An older picture of that number is forgotten. The terminal answers nothing.
    """
    data = base64.b64encode(png).decode()
    chunks = [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)]
    keys = f"a=T,U=1,q=2,f=100,t=d,i={number},c={columns},r={rows},"
    codes = []
    for at, chunk in enumerate(chunks, 1):
        codes.append(f"\x1b_G{keys}m={int(at < len(chunks))};{chunk}\x1b\\")
        keys = "q=2,"
    return "".join(codes)


def deleted(number: int) -> str:
    """Return the codes that delete a picture."""
    return f"\x1b_Ga=d,d=I,q=2,i={number}\x1b\\"


def cell(row: int, column: int) -> str:
    """Return the text of the cell that shows this part of a picture."""
    return PLACEHOLDER + NUMBERS[row] + NUMBERS[column]
