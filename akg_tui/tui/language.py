"""The language of the screens: `tr` gives a sentence of English in the language spoken now.

A catalogue is a TOML file keyed by the English text, read when it is first needed. What a
run's own words are (phases, verdicts, modes, ids) is the same in every language.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

FOLDER = Path(__file__).parent / "i18n"
LANGUAGES: Mapping[str, str] = MappingProxyType({"en": "English", "zh": "中文"})
ENGLISH = "en"

_spoken = ENGLISH


def speak(language: str) -> None:
    """Show everything in this language from now on."""
    global _spoken  # noqa: PLW0603 - one screen, one language
    if language not in LANGUAGES:
        raise ValueError(f"no language {language!r}; there are: {', '.join(LANGUAGES)}")
    _spoken = language


def spoken() -> str:
    return _spoken


@lru_cache(maxsize=8)
def catalogue(language: str) -> Mapping[str, str]:
    """What each English text is in a language; empty for English."""
    if language == ENGLISH:
        return {}
    texts: dict[str, str] = tomllib.loads((FOLDER / f"{language}.toml").read_text("utf-8"))
    return texts


def tr(text: str, /, **values: object) -> str:
    """`text`, which is English, in the language spoken now, with its ``{values}`` put in."""
    said = text if _spoken == ENGLISH else catalogue(_spoken).get(text, text)
    return said.format(**values) if values else said


def tr_in(context: str, text: str, /) -> str:
    """A word that means something else elsewhere: ``context|text`` in a catalogue."""
    return text if _spoken == ENGLISH else catalogue(_spoken).get(f"{context}|{text}", text)


def retold(text: str, /) -> str:
    """What a floor below wrote in English, a refusal or a reason, in the language spoken now."""
    if _spoken == ENGLISH or not text:
        return text
    # Here, so that a workbench that speaks English never reads it.
    from akg_tui.tui.sayings import said_in

    return said_in(_spoken, text)


def searched(text: str, /) -> str:
    """What an agent wrote, in the language spoken now where it is the built-in search's.

    A language model's words are its own and stay as they are: the search's few sentences
    are taken as wholes, and are nobody else's.
    """
    if _spoken == ENGLISH or not text:
        return text
    from akg_tui.tui.sayings import said_in

    return said_in(_spoken, text, "search")


def lined(text: str, /) -> str:
    """A line that `headless.narrate` tells of an event, in the language spoken now."""
    if _spoken == ENGLISH or not text:
        return text
    from akg_tui.tui.sayings import said_in

    return said_in(_spoken, text, "lines")


def marked(text: str) -> str:
    """`text` as it is: marks a text that is put through `tr` elsewhere."""
    return text


def language_of(environment: Mapping[str, str] = os.environ) -> str:
    """The language that a person's locale asks for, as far as it is known."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := environment.get(name):
            code = value.split("_")[0].split(".")[0].lower()
            return code if code in LANGUAGES else ENGLISH
    return ENGLISH
