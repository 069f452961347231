"""The brackets of C++ text: the only fault of C++ that can be told without a compiler.

A grammar cannot know what the preprocessor makes of a text, and would refuse valid code. Brackets
must pair in every translation unit, so a text in which they do not is refused by each compiler,
unless a macro or a conditional hides some of them: such a text is not judged. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_PAIRS: Final = {")": "(", "]": "[", "}": "{"}
_CONDITIONALS: Final = frozenset(
    {"if", "ifdef", "ifndef", "elif", "elifdef", "elifndef", "else", "endif"}
)
# An unfinished comment or raw string reaches to the end, so that no text takes quadratic time.
_COMMENT = r"/\*.*?(?:\*/|\Z)|//(?:\\\n|[^\n])*"
_TOKEN: Final = re.compile(
    rf"""(?P<skip>{_COMMENT}
      |(?:u8|[uUL])?R"(?P<mark>[^\s()\\"]{{0,16}})\(.*?(?:\)(?P=mark)"|\Z)
      |"(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'
      |\.?\d(?:'\w|\w|\.)*       # digits may be grouped by apostrophes
      |\w+)
    |\#[ \t]*(?P<directive>\w*)
      (?P<rest>(?:\\\n|{_COMMENT}|"(?:\\.|[^"\\\n])*"?|[^\n])*)
    |(?P<bracket>[()\[\]{{}}])
    |(?P<odd>["']|\\\n|<%|%>|<:|:>|%:|\?\?[=/'()!<>-])   # unfinished, or spelt in another way
    """,
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Fault:
    """The first syntax error of a text; `line` counts from 1."""

    line: int
    message: str


class NotJudged(Exception):
    """The preprocessor decides which brackets the compiler sees."""


def bracket_fault(text: str) -> Fault | None:
    """Return the first bracket of C++ without its partner, or None. Raises `NotJudged`."""
    text = text.replace("\r\n", "\n")
    opened: list[tuple[str, int]] = []
    depths = [0]  # a number for each prefix of `opened`; equal sequences of brackets have one
    numbers: dict[tuple[int, str], int] = {}
    groups: list[int] = []  # what was open at each `#if` that is not closed yet
    has_arguments = False
    for token in _TOKEN.finditer(text):
        if token["odd"]:
            raise NotJudged
        if (word := token["directive"]) is not None:
            has_arguments |= _defines_with_arguments(word, token["rest"])
            if word in _CONDITIONALS:
                _follow(groups, word, depths[-1])
            elif word.startswith("include") and opened:
                raise NotJudged  # the file may open or close some
        if (sign := token["bracket"]) is None:
            continue
        if sign not in _PAIRS:
            opened.append((sign, token.start()))
            depths.append(numbers.setdefault((depths[-1], sign), len(numbers) + 1))
        elif opened and opened[-1][0] == _PAIRS[sign]:
            opened.pop()
            depths.pop()
        else:
            # A branch may be skipped, and an argument of a macro may hold a single bracket.
            if groups or (has_arguments and any(each == "(" for each, _ in opened)):
                raise NotJudged
            return Fault(
                _line(text, token.start()), f"{sign} closes nothing{_beside(text, opened)}"
            )
    if groups:
        raise NotJudged
    if opened:
        sign, at = opened[-1]
        return Fault(_line(text, at), f"{sign} is never closed")
    return None


def _defines_with_arguments(word: str, rest: str) -> bool:
    """Return whether a directive defines a macro with arguments. Raises `NotJudged`.

    A macro whose text has a bracket without its partner can stand for that bracket.
    """
    if word != "define":
        return False
    name = re.match(r"\s*\w+", rest)
    body = rest[name.end() :] if name else rest
    if bracket_fault(body.replace("\\\n", " ").replace("#", " ")):
        raise NotJudged
    return body.startswith("(")


def _follow(groups: list[int], word: str, opened: int) -> None:
    """Record a conditional. Raises `NotJudged` if a branch changes which brackets are open."""
    if word in ("if", "ifdef", "ifndef"):
        groups.append(opened)
    elif not groups or groups[-1] != opened:
        raise NotJudged
    elif word == "endif":
        groups.pop()


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _beside(text: str, opened: list[tuple[str, int]]) -> str:
    """Return where the bracket that is open instead was opened, as the end of a sentence."""
    if not opened:
        return ""
    sign, at = opened[-1]
    return f", while {sign} of line {_line(text, at)} is open"
