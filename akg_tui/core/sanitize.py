"""Text that reaches people: untrusted text made safe, and sentences that can be translated.

`clean` makes text safe for a screen, `strip_escapes` stored output, `name_fault` names of files.
Kernels, model output and file names are untrusted. `clean` drops no character: a character that
would control the terminal, or hide or reorder text, becomes a visible mark. `strip_escapes` drops
escape codes, so that a compiler's colours do not appear in every error message, and cuts out the
middle of a text that is too long. `name_fault` decides for all names that come from a file, whether
they can lead out of the folder that they are meant for.

`Said` is an English sentence that keeps its template and values, so that a view can translate it. A
sentence with values is made as ``Said("the mode is {mode} already", mode=mode)``. It is a `str`:
the English text. In another text or in a journal it is plain text. A sentence without values needs
no `Said`, because the whole text is its template.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache

TAB_WIDTH = 4

_PICTURES = 0x2400  # U+2400 is the picture of NUL, U+241B that of ESC
_DELETE = 0x7F
_BLANKS = "Zs"
_BLANK_LINES = re.compile(r"\A(?:[^\S\n]*\n)+")


def clean(text: str) -> str:
    """Return `text` with each unprintable character replaced by a visible mark.

    Tabs become blanks. A control character becomes its control picture (``␛`` for ESC);
    any other unprintable character (C1 controls, bidi overrides, zero-width marks, lone
    surrogates) becomes its code, such as ``<U+202E>``. The result is one line without escape codes.
    """
    if text.isprintable():
        return text
    if "\t" in text:
        text = text.expandtabs(TAB_WIDTH)
    return "".join(c if c.isprintable() else _mark(c) for c in text)


def split_clean(text: str) -> list[str]:
    """Return the lines of `text`, each cleaned; only ``\\n`` and ``\\r\\n`` end a line."""
    return [clean(line.removesuffix("\r")) for line in text.split("\n")]


def trimmed(text: str) -> str:
    """Return `text` without blank lines at its ends and blanks after it.

    The first line keeps its indentation: of a compiler's excerpt the caret below it counts on that.
    """
    return _BLANK_LINES.sub("", text).rstrip()


def one_line(text: str, width: int | None = None) -> str:
    """Return `text` cleaned, on one line, blanks squeezed, at most `width` characters long."""
    line = clean(" ".join(text.split()))
    return line if width is None or len(line) <= width else line[: width - 1] + "…"


def listed(names: Sequence[str], most: int = 12) -> str:
    """Return the first `most` names with commas between, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


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

# OSC and DCS strings end at BEL or ST, CSI sequences at a final byte; other codes have two bytes.
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
    """Return `text` without escape codes; of a longer text, head and tail in `limit` characters."""
    plain = _UNSEEN.sub("", _ESCAPE.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
    if len(plain) <= limit:
        return plain
    mark = "\n[…]\n"
    head = (limit - len(mark)) // 2
    tail = limit - len(mark) - head
    return plain[:head] + mark + plain[len(plain) - tail :]


def strip_to_line(text: str, limit: int = LINE_LIMIT) -> str:
    """Return `text` without escape codes, on one line of at most `limit` characters."""
    line = " ".join(strip_escapes(text, limit * 4).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


NAME_BYTES = 255  # of one name, as the file systems have it
PATH_LENGTH = 512


class BadName(ValueError):
    """The value of `field` is no name of a file below a folder, for the reason `why`."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field = field
        self.why = why


def name_fault(name: str, *, folders: bool = False) -> str:
    """Return why `name` is no name of a file in a folder, with the name in it; "" if it is one.

    With `folders` it can be a path of such names, with slashes between. Forbidden are steps up,
    also in look-alikes of dots and slashes, and characters that are not printable.
    """
    shown = repr(name) if len(name) <= 80 else f"{name[:79]!r}…"
    if len(name) > PATH_LENGTH:
        return f"{shown} is too long for the name of a file"
    if not name.isprintable():
        return f"{shown} has characters that are not printable"
    for part in name.split("/"):
        plain = unicodedata.normalize("NFKC", part)
        if plain in ("", ".", "..") or "/" in plain or "\\" in plain:
            return f"{shown} leaves the folder" if name else "is empty, expected a name"
        if len(part.encode()) > NAME_BYTES:
            return f"{shown} is too long for the name of a file"
    if "/" in name and not folders:
        return f"{shown} is in another folder, expected a name without a slash"
    return ""


def check_name(field: str, name: str, *, folders: bool = False) -> None:
    """Raise `BadName` if `name_fault` finds one; for the `__post_init__` of what is decoded."""
    if why := name_fault(name, folders=folders):
        raise BadName(field, why)


MOST_CHARACTERS = 1_000


class Said(str):
    """The English text of `template` with `values`, which may be `Said` and errors themselves.

    A value named ``why``, ``what``, ``how``, ``who`` or ``more`` (perhaps with a digit) is a
    sentence and is translated too; another plain text is a name, and stays as it is.
    """

    template: str
    values: Mapping[str, object]

    def __new__(cls, template: str, /, **values: object) -> Said:
        if isinstance(template, Said) and not values:
            return template
        text = super().__new__(cls, template.format(**values) if values else template)
        text.template, text.values = template, values
        return text


class SaidError(Exception):
    """An error made of the template and the values of a `Said`; its text is one printable line."""

    def __init__(self, template: str, /, **values: object) -> None:
        self.said = Said(template, **values)
        super().__init__(one_line(self.said, MOST_CHARACTERS))


def encode_said(value: object) -> str:
    """Return the text of a `Said`: msgspec's `enc_hook`. Raises TypeError for another value."""
    if isinstance(value, Said):
        return str.__str__(value)
    raise TypeError(f"a {type(value).__name__} cannot be encoded")
