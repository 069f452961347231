"""Declared knobs of a kernel and settings of them, as text.

Pure. A knob is one line at module level, ``NAME = value # tune: [a, b, c]``, with Python literals
as choices, or a constant or macro of C++ with ``// tune: [2, 4]`` and numbers; a setting is
pairs ``NAME=literal``, ``NAME = literal`` or ``NAME to literal`` in the text of a plan item.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from akg_tui.core.kernel.kernel_files import KernelFiles

Value = int | float | str | bool

_PAIR = re.compile(r"\b([A-Z][A-Z0-9_]*)(?:\s*=\s*|\s+to\s+)(\"(?:[^\"\\]|\\.)*\"|[^\s()\"]+)")

_STOPS = ",;.:"  # prose after a value


def read_setting(text: str) -> dict[str, Value]:
    """Return all readable pairs in `text`; the literals are Python's."""
    read = ((name, _read_value(source)) for name, source in _PAIR.findall(text))
    return {name: value for name, value in read if value is not None}


def _read_value(source: str) -> Value | None:
    try:
        value = ast.literal_eval(source.rstrip(_STOPS))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, Value) else None


_ASKED = re.compile(r"(?<![\w-])([A-Za-z_]\w*)\s*=\s*")
_WORD = re.compile(r"\"[^\"]*\"|'[^']*'|[^\s,;]*")
_END = re.compile(r"[,;.:)]*(?:\s|$)|,")


class Wish(Struct, frozen=True):
    """A setting that a person asks for in words of their own.

    `wrong` are names that no knob has, that are set twice, or whose value is not among the choices;
    `left` are the words that belong to no setting.
    """

    setting: dict[str, Value]
    wrong: tuple[str, ...]
    left: str


def read_wish(text: str, knobs: Mapping[str, Knob]) -> Wish:
    """Return the setting in a person's text: values of choices with or without quotation marks,
    names in any case, and anything between the pairs.
    """
    setting: dict[str, Value] = {}
    wrong: list[str] = []
    left: list[str] = []
    at = 0
    for match in _ASKED.finditer(text):
        name = match[1].upper()
        if match.start() < at or not (name in knobs or match[1].isupper()):
            continue
        left.append(text[at : match.start()])
        found = _choice_at(text[match.end() :], knobs[name].choices) if name in knobs else None
        if found is None or name in setting:
            wrong.append(name)
            word = _WORD.match(text, match.end())
            at = word.end() if word else match.end()
        else:
            setting[name], length = found
            at = match.end() + length
    words = " ".join((*left, text[at:])).replace(",", " ").split()
    return Wish(setting, tuple(wrong), " ".join(word for word in words if word.strip(_STOPS)))


def _choice_at(text: str, choices: Sequence[Value]) -> tuple[Value, int] | None:
    """Return the longest choice at the start of `text`, with the length of its notation."""
    forms = [(form, choice) for choice in choices for form in _notations(choice)]
    forms.sort(key=lambda pair: -len(pair[0]))
    for form, choice in forms:
        if text.startswith(form) and _END.match(text, len(form)):
            return choice, len(form)
    word = _WORD.match(text)
    read = read_setting(f"X={word[0]}") if word else {}
    same = (each for each in choices if read and literal(each) == literal(read["X"]))
    return next(((each, word.end()) for each in same if word), None)


def _notations(choice: Value) -> set[str]:
    bare = {choice} if isinstance(choice, str) else {str(choice).lower()}
    return {literal(choice), repr(choice), *bare} - {""}


def setting_key(setting: Mapping[str, Value]) -> tuple[tuple[str, str], ...]:
    """Return a key that ignores the order of the pairs; 1, 1.0 and True are three values."""
    return tuple(sorted((name, repr(value)) for name, value in setting.items()))


def without_setting(text: str) -> str:
    """Return `text` with a blank in place of each pair that `read_setting` reads."""
    return _PAIR.sub(lambda pair: pair[0] if _read_value(pair[2]) is None else " ", text)


HOW_TO_DECLARE = (
    "the kernel declares no knob; write one on a line of its own at module level, "
    "for example:  BLOCK = 64  # tune: [32, 64, 128]"
)

_LINE = re.compile(
    r"^(?P<name>[A-Z][A-Z0-9_]*)\s*=\s*(?P<value>\S.*?)\s*#\s*tune:\s*(?P<choices>\[.*\])\s*$"
)
LINE_MOST = 1_000
"""A longer line declares no knob: the patterns take time that grows with the square of it."""
_CPP_CHOICES = r"\s*//\s*tune:\s*(?P<choices>\[.*\])\s*$"
_CPP_LINES = (
    re.compile(r"^#define\s+(?P<name>[A-Z][A-Z0-9_]*)\s+(?P<value>\S+)" + _CPP_CHOICES),
    re.compile(
        r"^(?:[a-z_]\w*\s+){0,3}(?:constexpr|const)\s+(?:[a-z_][\w:]*\s+){1,3}"
        r"(?P<name>[A-Z][A-Z0-9_]*)\s*=\s*(?P<value>[^;\s]+)\s*;" + _CPP_CHOICES
    ),
)


class BadKnob(ValueError):
    """A `# tune:` line that cannot be read: its number, the fault, and of several files its own."""

    def __init__(self, line: int, why: str, file: str = "") -> None:
        super().__init__(f"{file} line {line}: {why}".lstrip())
        self.line = line
        self.why = why


class Knob(Struct, frozen=True):
    """A declared knob; `line` is the line number of the declaration, from 1."""

    name: str
    line: int
    value: Value
    choices: tuple[Value, ...]


def knobs_in(kernel: KernelFiles) -> tuple[Knob, ...]:
    """Return the knobs in a kernel's rows, as `find_knobs`; an error names one of several files."""
    try:
        return find_knobs([row for _, row in kernel.rows()])
    except BadKnob as error:
        if not (at := kernel.places_of_several):
            raise
        file, line = at[error.line - 1]
        raise BadKnob(line, error.why, file) from None


def find_knobs(lines: Sequence[str]) -> tuple[Knob, ...]:
    """Return all knobs declared in a kernel's lines, in their order.

    Raises `BadKnob` if a `# tune:` line has no readable literals, repeats a name, or its current
    value is not among its choices.
    """
    knobs: dict[str, Knob] = {}
    for number, line in enumerate(lines, 1):
        match = _declaration(line)
        if match is None:
            continue
        name = match["name"]
        try:
            value = ast.literal_eval(match["value"])
            choices = ast.literal_eval(match["choices"])
        except (ValueError, SyntaxError):
            why = f"{name}: value and choices must be Python literals"
            raise BadKnob(number, why) from None
        if not choices or not all(isinstance(c, int | float | str) for c in choices):
            raise BadKnob(number, f"{name}: choices are numbers, strings or booleans")
        if match.re in _CPP_LINES and any(isinstance(c, str | bool) for c in choices):
            raise BadKnob(number, f"{name}: choices of C++ are numbers")
        if value not in choices:
            raise BadKnob(number, f"{name}: the value {value!r} is not among its choices")
        if name in knobs:
            raise BadKnob(number, f"{name} is declared twice")
        knobs[name] = Knob(name, number, value, tuple(choices))
    return tuple(knobs.values())


def _declaration(line: str) -> re.Match[str] | None:
    if "tune:" not in line or len(line) > LINE_MOST:
        return None
    return next((found for each in (_LINE, *_CPP_LINES) if (found := each.match(line))), None)


def with_value(line: str, value: Value) -> str:
    """Return the declaration `line` with another current value and all other text unchanged, but
    that a value which is none of the choices is added to them.
    """
    match = _declaration(line)
    if match is None:
        raise ValueError(f"not a knob declaration: {line}")
    start, end = match.span("value")
    choices = match["choices"]
    if value not in ast.literal_eval(choices):
        choices = f"{choices[:-1].rstrip(' ,')}, {literal(value)}]"
    first, last = match.span("choices")
    return line[:start] + literal(value) + line[end:first] + choices + line[last:]


def check_setting(knobs: Sequence[Knob], setting: Mapping[str, object]) -> None:
    """Raise `BadKnob` if a value is none, or for a name that no knob has."""
    known = {knob.name: knob for knob in knobs}
    if not known:
        raise BadKnob(0, HOW_TO_DECLARE)
    for name, value in setting.items():
        if name not in known:
            raise BadKnob(0, f"{name[:60]} is not declared; there are: {', '.join(known)}")
        if not isinstance(value, Value):
            raise BadKnob(0, f"{name}: a value is a number, a text, true or false")


def with_setting(kernel: KernelFiles, setting: Mapping[str, Value]) -> KernelFiles:
    """Return a kernel with other current values of its knobs.

    Raises `BadKnob` if a knob cannot be read, or not with the new value.
    """
    lines = {name: text.split("\n") for name, text in kernel.texts.items()}
    at = kernel.places
    for knob in knobs_in(kernel):
        if knob.name in setting:
            file, line = at[knob.line - 1]
            value = setting[knob.name]
            declared = with_value(lines[file][line - 1], value)
            if [each.value for each in find_knobs([declared])] != [value]:
                raise BadKnob(line, f"{knob.name} cannot be {literal(value)[:60]}")
            lines[file][line - 1] = declared
    return kernel.having({name: "\n".join(each) for name, each in lines.items()})


def literal(value: Value) -> str:
    """Return `value` as Python source; strings are in double quotes."""
    return json.dumps(value) if isinstance(value, str) else repr(value)


def describe(setting: Mapping[str, Value], current: Mapping[str, Value]) -> str:
    """Return a plan item's text for a full setting: changed pairs first, the others in brackets.

    `akg_tui.core.kernel.knobs.read_setting` is the inverse.
    """
    changed = [f"{n}={literal(v)}" for n, v in setting.items() if current.get(n) != v]
    rest = [f"{n}={literal(v)}" for n, v in setting.items() if current.get(n) == v]
    if not changed:
        return " ".join(rest)
    return " ".join(changed) + (f" (with {' '.join(rest)})" if rest else "")
