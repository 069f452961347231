"""The language of the screens: catalogues, and `tr`, `translated` and `retold`, which use them.

Catalogues are gettext's `.po` files, read directly: no `.mo` file is compiled. A text that is in
no catalogue is shown in English. Reads only catalogues.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from akg_tui.core.sanitize import Said, SaidError, one_line

FOLDER = Path(__file__).parent / "locale"
LANGUAGES: Mapping[str, str] = MappingProxyType({"en": "English", "zh": "中文"})
ENGLISH = "en"

_spoken = ENGLISH


def speak(language: str) -> None:
    """Set the language of all later texts. Raises ValueError if it is not in `LANGUAGES`."""
    global _spoken  # noqa: PLW0603 - one screen, one language
    if language not in LANGUAGES:
        raise ValueError(f"no language {language!r}; there are: {', '.join(LANGUAGES)}")
    _spoken = language


_ENTRY = re.compile(r'^(?:msgctxt "(.*)"\n)?msgid "(.+)"\nmsgstr "(.*)"$', re.MULTILINE)
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t"}


@lru_cache(maxsize=8)
def catalogues(language: str) -> Mapping[str, Mapping[str, str]]:
    """Return the translations of a language, by context and English text; empty for English.

    The context is "" but for the words of `tr_in`.
    """
    if language == ENGLISH:
        return {}
    path = FOLDER / language / "LC_MESSAGES" / "akg_tui.po"
    found: dict[str, dict[str, str]] = {}
    for context, *texts in _ENTRY.findall(path.read_text("utf-8").replace('"\n"', "")):
        english, said = (_unescaped(text) if "\\" in text else text for text in texts)
        found.setdefault(context, {})[english] = said
    return found


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), text)


@lru_cache(maxsize=64)
def catalogue(language: str, context: str = "") -> Mapping[str, str]:
    """Return the translations of one context by English text; empty where there are none."""
    return catalogues(language).get(context, {})


def tr(text: str, /, **values: object) -> str:
    """Translate an English text into the language in use and insert its ``{values}``."""
    said = text if _spoken == ENGLISH else catalogue(_spoken).get(text, text)
    return said.format(**values) if values else said


def tr_in(context: str, text: str, /) -> str:
    """Translate a word with several meanings by its context in the catalogue."""
    return text if _spoken == ENGLISH else catalogue(_spoken, context).get(text, text)


class Joined(NamedTuple):
    """Several texts joined by a separator."""

    parts: tuple[Text, ...]
    separator: str = ", "

    def __str__(self) -> str:
        return self.separator.join(map(str, self.parts))


Text: TypeAlias = Said | Joined | str
"""A text not translated yet; a `str` that is no `Said` stays unchanged."""


def counted(number: int, noun: str, figure: str = "") -> Said:
    """Return a number with its noun: ``3 lines``. `figure` replaces the digits unless it is empty.

    The catalogue has one pattern a noun: ``{n} line``.
    """
    digits = figure or str(number)
    text = str.__new__(Said, f"{digits} {noun}{'' if number == 1 else 's'}")
    text.template, text.values = f"{{n}} {noun}", {"n": digits}
    return text


def translated(text: object) -> str:
    """Return a text in the language in use; in English where the catalogue has no translation."""
    if isinstance(text, Joined):
        return text.separator.join(map(translated, text.parts))
    if _spoken == ENGLISH or not isinstance(text, Said):
        return str(text)
    pattern = catalogue(_spoken).get(text.template)
    if pattern is None:
        return str(text)
    values = {name: _value(name, value) for name, value in text.values.items()}
    return pattern.format(**values) if values else pattern


_SENTENCES = frozenset({"why", "what", "who", "how", "more"})  # see `Said`


def _value(name: str, value: object) -> str:
    if isinstance(value, SaidError):
        value = value.said
    elif name.rstrip("0123456789") in _SENTENCES and not isinstance(value, Joined):
        value = Said(value if isinstance(value, str) else str(value))
    return translated(value)


def retold(sentence: str | BaseException, width: int | None = None) -> str:
    """Translate a sentence of a lower floor, or the message of an error, on one clean line.

    A plain text, for example of a journal, is translated if the catalogue has the whole of it.
    """
    if isinstance(sentence, BaseException):
        sentence = sentence.said if isinstance(sentence, SaidError) else str(sentence)
    return one_line(translated(Said(sentence)), width)


def language_of(environment: Mapping[str, str] = os.environ) -> str:
    """Return the language of the locale; English if that language has no catalogue."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := environment.get(name):
            code = value.split("_")[0].split(".")[0].lower()
            return code if code in LANGUAGES else ENGLISH
    return ENGLISH
