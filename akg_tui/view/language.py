"""The language of the screens: catalogues, `tr` for one text, `Message` for a text with values.

Catalogues are gettext's `.po` files, read directly: no `.mo` file is compiled. `translated`
renders a message in the language in use, `str` in English. English sentences of lower layers
are matched with their templates. Reads only catalogues.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

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


def spoken() -> str:
    return _spoken


_ENTRY = re.compile(r'^(?:msgctxt "(.*)"\n)?msgid "(.+)"\nmsgstr "(.*)"$', re.MULTILINE)
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t"}


@lru_cache(maxsize=8)
def catalogues(language: str) -> Mapping[str, Mapping[str, str]]:
    """Return the translations of a language, by context and English text; empty for English.

    The contexts are "" for the texts of the screens, ``told`` for the sentences of lower layers,
    ``search`` for the sentences of the built-in search, and the contexts of `tr_in`.
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


def retold(text: str, /) -> str:
    """Translate a refusal or a reason that a lower layer wrote in English."""
    return text if _spoken == ENGLISH or not text else translate_sentence(_spoken, text)


def searched(text: str, /) -> str:
    """Translate an agent's text if it is a sentence of the built-in search.

    Text of a language model stays unchanged: only whole sentences of the search match, and no
    model writes these sentences.
    """
    return text if _spoken == ENGLISH or not text else translate_sentence(_spoken, text, "search")


def marked(text: str) -> str:
    """Return `text` unchanged: marks a literal for the catalogue that `tr` translates elsewhere."""
    return text


class Reason(str):
    """An English reason or refusal of a lower layer, translated by its template."""

    __slots__ = ()


class AgentText(str):
    """Text of an agent: sentences of the built-in search are translated, a model's are not."""

    __slots__ = ()


class Message(NamedTuple):
    """A text not translated yet: its English template and its values.

    A value may itself be a message, a `Reason`, an `AgentText`, a `Count` or a `Joined`.
    """

    template: str
    values: Mapping[str, object]

    def __str__(self) -> str:
        return self.template.format(**self.values) if self.values else self.template


class Count(NamedTuple):
    """A number with its noun: ``3 lines``. `figure` replaces the digits unless it is empty."""

    number: int
    noun: str
    figure: str = ""

    def __str__(self) -> str:
        return f"{self.figure or self.number} {self.noun}{'' if self.number == 1 else 's'}"


class Joined(NamedTuple):
    """Several texts joined by a separator."""

    parts: tuple[Text, ...]
    separator: str = ", "

    def __str__(self) -> str:
        return self.separator.join(map(str, self.parts))


Text: TypeAlias = Message | Joined | Count | str
"""A text not translated yet; a `str` that is no `Reason` or `AgentText` stays unchanged."""


def message(template: str, /, **values: object) -> Message:
    """Return a text to translate later. `template` is a literal, for the catalogue check."""
    return Message(template, values)


def translated(text: object) -> str:
    """Return a message, or another kind of text, in the language in use."""
    if _spoken == ENGLISH or type(text) is str:
        return str(text)
    if isinstance(text, Message):
        template, values = text.template, text.values
        if values:
            values = {name: translated(value) for name, value in values.items()}
        return tr(template, **values)
    if isinstance(text, Joined):
        return text.separator.join(map(translated, text.parts))
    if isinstance(text, Count):
        pattern = catalogue(_spoken).get(f"{{n}} {text.noun}")
        return pattern.format(n=text.figure or text.number) if pattern else str(text)
    if isinstance(text, Reason):
        return retold(text)
    return searched(text) if isinstance(text, AgentText) else str(text)


def language_of(environment: Mapping[str, str] = os.environ) -> str:
    """Return the language of the locale; English if that language has no catalogue."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := environment.get(name):
            code = value.split("_")[0].split(".")[0].lower()
            return code if code in LANGUAGES else ENGLISH
    return ENGLISH


LONGEST = 1_000  # characters; a longer text matches no template
DEPTH = 5  # the nesting depth of sentences in sentences
KEPT = 4096  # cached translations: each refresh of a screen needs them again

_HOLE = re.compile(r"\{([a-z]+\d?)\}")
# Names of holes, without digits, that may hold a sentence; `more` holds a sentence or nothing.
_TOLD = frozenset({"why", "what", "who", "how", "more"})
_FORMS: Mapping[str, re.Pattern[str]] = {
    "n": re.compile(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?%?|nan|[-+]?inf"),
    "item": re.compile(r"p\d+"),
    "phase": re.compile(r"[A-Z_]+"),
    "name": re.compile(r"\S+"),
    "kind": re.compile(r"[\w.]+"),
    "where": re.compile(r"\[[\d, ]*\]"),
    "value": re.compile(r"\S+|\[[\d, ]*\]"),
    "s": re.compile(r"s?"),
}
_MAY_BE_EMPTY = frozenset({"more", "s"})


@dataclass(frozen=True, slots=True)
class SentenceTemplate:
    """A sentence of the catalogue: the texts between its holes, the hole names, the translation."""

    rank: int  # 0 for the template with the most letters
    texts: tuple[str, ...]
    holes: tuple[str, ...]
    kinds: tuple[str, ...]  # the holes without their digits
    said: tuple[str, ...]  # texts and, at odd indices, names of holes

    @property
    def is_mere_marks(self) -> bool:
        """Whether its texts have no letters, for example only a colon between two sentences."""
        return not any(map(str.isalpha, "".join(self.texts)))

    def values(self, text: str) -> list[str] | None:
        """Return the values of the holes in `text`, or None where the template does not match.

        Each hole ends at the first occurrence of the text after it, so the time is linear.
        """
        if not self.holes:
            return [] if text == self.texts[0] else None
        first, *between, last = self.texts
        at, end = len(first), len(text) - len(last)
        if at > end or not text.startswith(first) or not text.endswith(last):
            return None
        found: list[str] = []
        for after in between:
            until = text.find(after, at, end)
            if until < 0:
                return None
            found.append(text[at:until])
            at = until + len(after)
        found.append(text[at:end])
        return found if all(map(_fits, self.kinds, found)) else None


def _fits(kind: str, value: str) -> bool:
    form = _FORMS.get(kind)
    if form is not None:
        return form.fullmatch(value) is not None
    return bool(value) or kind in _MAY_BE_EMPTY


def _templates(catalogue: Mapping[str, str]) -> list[SentenceTemplate]:
    def weight(english: str) -> int:
        return len(_HOLE.sub("", english))

    found: list[SentenceTemplate] = []
    for rank, english in enumerate(sorted(catalogue, key=weight, reverse=True)):
        parts = _HOLE.split(english)
        holes = tuple(parts[1::2])
        kinds = tuple(hole.rstrip("0123456789") for hole in holes)
        said = tuple(_HOLE.split(catalogue[english]))
        found.append(SentenceTemplate(rank, tuple(parts[::2]), holes, kinds, said))
    return found


# The translations of parts of one text, by the part and whether it filled a `more` hole.
_LookedUp = dict[tuple[str, bool], str | None]


class SentenceTemplates:
    """The templates of a language, indexed so that a text is compared with few of them.

    The index is the first word, or the last word where a template begins with a hole.
    """

    def __init__(
        self, catalogue: Mapping[str, str], replies: SentenceTemplates | None = None
    ) -> None:
        self._replies = replies
        self._first: dict[str, list[SentenceTemplate]] = {}
        self._last: dict[str, list[SentenceTemplate]] = {}
        self._loose: list[SentenceTemplate] = []
        for one in _templates(catalogue):
            head, ends, _ = one.texts[0].partition(" ")
            _, begins, tail = one.texts[-1].rpartition(" ")
            if ends or not one.holes:
                self._first.setdefault(head, []).append(one)
            elif begins:
                self._last.setdefault(tail, []).append(one)
            else:
                self._loose.append(one)

    def near(self, text: str) -> list[SentenceTemplate]:
        """Return the templates that may match `text`, those with the most letters first."""
        first = self._first.get(text.partition(" ")[0], ())
        last = self._last.get(text.rpartition(" ")[2], ())
        return sorted((*first, *last, *self._loose), key=attrgetter("rank"))

    def said(self, text: str) -> str | None:
        """Return the translation of `text`, or None where no template matches."""
        return self._said(text, "", DEPTH, {})

    def _said(self, text: str, kind: str, depth: int, known: _LookedUp) -> str | None:
        """Return the translation of the value of a hole of this kind; "" for the whole text."""
        if not text or depth == 0:
            return None
        part = text, kind == "more"
        if part not in known:
            known[part] = None
            known[part] = self._first_that_fits(text, kind, depth, known)
        return known[part]

    def _first_that_fits(self, text: str, kind: str, depth: int, known: _LookedUp) -> str | None:
        more = kind == "more"
        for one in self.near(text):
            values = one.values(text)
            # A `more` part must begin with a fixed mark or word.
            if values is None or (more and not one.texts[0]):
                continue
            told = self._told(one, values, depth, known)
            if told is None or not (told or more or not one.is_mere_marks):
                continue
            return _filled(one.said, dict(zip(one.holes, values, strict=True)) | told)
        return None

    def _told(
        self, one: SentenceTemplate, values: Sequence[str], depth: int, known: _LookedUp
    ) -> dict[str, str] | None:
        """Return the translated values of holes; None if a `more` hole holds no sentence."""
        told: dict[str, str] = {}
        for hole, kind, value in zip(one.holes, one.kinds, values, strict=True):
            said = None
            if kind in _TOLD:
                said = self._said(value, kind, depth - 1, known)
            elif kind == "reply" and self._replies is not None:
                said = self._replies.said(value)
            if said is not None:
                told[hole] = said
            elif value and kind == "more":
                return None
        return told


def _filled(said: Sequence[str], known: Mapping[str, str]) -> str:
    """Join the parts, with a blank where a Chinese word meets a Latin word or a number."""
    whole = ""
    for at, part in enumerate(said):
        text = known[part] if at % 2 else part
        if whole and text and _meet(whole[-1], text[0]):
            whole += " "
        whole += text
    return whole


def _meet(left: str, right: str) -> bool:
    chinese = "一" <= left <= "鿿", "一" <= right <= "鿿"
    plain = left.isascii() and left.isalnum(), right.isascii() and right.isalnum()
    return (chinese[0] and plain[1]) or (plain[0] and chinese[1])


@lru_cache(maxsize=4)
def _templates_of(language: str, whose: str) -> SentenceTemplates:
    replies = _templates_of(language, "search") if whose == "told" else None
    return SentenceTemplates(catalogue(language, whose), replies)


@lru_cache(maxsize=KEPT)
def translate_sentence(language: str, text: str, whose: str = "told") -> str:
    """Return the translation of `text`; `text` unchanged where no template matches."""
    if len(text) > LONGEST:
        return text
    said = _templates_of(language, whose).said(text)
    return text if said is None else said
