"""The normal form of a plan item's text: what two texts must share to name one direction.

Pure. A form has the knobs that the text sets, its numbers in their order, its signs, and its
other words without fillers and endings. `core.plan.submission` compares forms.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from akg_tui.core.kernel.knobs import read_setting, setting_key, without_setting

DIFFERS = "differs:"
"""In the text of an item the words after this mark tell how it differs from a tried item."""

LEAST_WORDS = 3
"""Fewer words keep their order, and are too few for the likeness of two texts."""

_SIGNS = re.compile(r"[<>=!*%^]+|(?<=\s)-(?=\w)")
_TIMES = re.compile(r"(?<=\d)\s*[x×]\s*(?=\d)")
_FILLERS = frozenset(
    re.findall(
        r"\w+",
        "a an and by change in of only set the to try use using with "
        "again another different differ differs from is it not other same that this",
    )
)
_UNITS = re.findall(
    r"\w+",
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen",
)
_TENS = re.findall(r"\w+", "twenty thirty forty fifty sixty seventy eighty ninety")
_VALUES = dict(zip((*_UNITS, *_TENS), (*range(20), *range(20, 100, 10)), strict=True))
_NUMBER = re.compile(
    rf"\b(?:({'|'.join(_TENS)})(?:[\s-]({'|'.join(_UNITS[1:10])}))?|({'|'.join(_UNITS)}))\b", re.I
)


class ItemForm(Struct, frozen=True):
    """The parts of a text that say which direction it is; empty parts are not in the text."""

    setting: tuple[tuple[str, str], ...]
    numbers: tuple[str, ...]
    signs: tuple[str, ...]
    words: tuple[str, ...]

    @property
    def figures(self) -> tuple[tuple[object, ...], ...]:
        """All but the words: texts with other figures are other directions."""
        return self.setting, self.numbers, self.signs

    @property
    def says_nothing(self) -> bool:
        return not (self.words or any(self.figures))

    def is_like(self, other: ItemForm) -> bool:
        """Return whether the figures are equal, and one has all words of the other."""
        if self.figures != other.figures:
            return False
        fewer, more = sorted((frozenset(self.words), frozenset(other.words)), key=len)
        return fewer <= more and bool(self.setting or len(fewer) >= LEAST_WORDS)


@lru_cache(maxsize=8192)  # because each plan is compared with all items of a long run
def item_form(text: str) -> ItemForm:
    """Return the normal form of a plan item's text."""
    from akg_tui.knowledge.library import words_of  # a run that plans nothing needs no library

    text = _NUMBER.sub(_in_digits, text)
    prose = _TIMES.sub("x", without_setting(text))
    found = [_root(word) for word in words_of(prose) if word not in _FILLERS]
    words = [word for word in found if not word[0].isdigit()]
    return ItemForm(
        setting_key(read_setting(text)),
        tuple(word for word in found if word[0].isdigit()),
        tuple(_SIGNS.findall(prose)),
        tuple(words if len(found) < LEAST_WORDS else sorted(words)),
    )


def told_difference(text: str) -> ItemForm:
    """Return the form of what a text says behind `differs:`."""
    return item_form(text.partition(DIFFERS)[2])


def _root(word: str) -> str:
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word.removesuffix(ending)
    return word


def _in_digits(number: re.Match[str]) -> str:
    if number[0].isupper():
        return number[0]  # a knob's name
    return str(sum(_VALUES[part.lower()] for part in number.groups() if part))
