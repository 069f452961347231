"""Knob settings in the text of a plan item: ``NAME=literal`` pairs, in any order.

Pure text. What knobs a kernel has is not known here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

Value = int | float | str | bool

_PAIR = re.compile(r"\b([A-Z][A-Z0-9_]*)=(\"(?:[^\"\\]|\\.)*\"|[^\s()\"]+)")

_STOPS = ",;.:"  # prose after a value


def read_setting(text: str) -> dict[str, Value]:
    """All ``NAME=literal`` pairs in `text` that can be read; literals are Python's."""
    setting: dict[str, Value] = {}
    for name, source in _PAIR.findall(text):
        try:
            value = ast.literal_eval(source.rstrip(_STOPS))
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(value, Value):
            setting[name] = value
    return setting


def setting_key(setting: Mapping[str, Value]) -> tuple[tuple[str, str], ...]:
    """The same for equal settings in any order; 1, 1.0 and True are three values."""
    return tuple(sorted((name, repr(value)) for name, value in setting.items()))


def without_setting(text: str) -> str:
    """What `text` says beside its pairs."""
    return _PAIR.sub(" ", text)
