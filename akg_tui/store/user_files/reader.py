"""Files that users write, read into structs of msgspec; a fault names file, line and field.

The structs alone describe a file, and msgspec reads a sound one. Only for a file with a fault are
other libraries loaded, so that they cost no start: pydantic, with models of the same structs, says
what is wrong (`akg_tui.store.user_files.field_faults`); tomlkit and PyYAML say on which line.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from akg_tui.store.errors import BadFile, Fault, Field

T = TypeVar("T")


class Unsound(ValueError):
    """Values that are not a struct's; `faults` has at least one."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("; ".join(f"{'.'.join(field)}: {why}" for field, why in faults))
        self.faults = faults


def convert(plain: object, kind: type[T]) -> T:
    """Return the struct of decoded TOML, JSON or YAML. Raises `Unsound`."""
    try:
        return msgspec.convert(plain, kind, strict=True)
    except msgspec.ValidationError as error:
        from akg_tui.store.user_files.field_faults import faults_of

        raise Unsound(faults_of(plain, kind) or [Fault((), str(error))]) from None


@dataclass(frozen=True)
class UserFile:
    """The content of a file; `path` is for messages, `error` the kind of its faults."""

    path: Path
    text: str
    plain: Any
    line_of: Callable[[str, Field], int | None]
    error: type[BadFile] = BadFile

    def bad(self, field: Field, why: str) -> BadFile:
        """Return the error with the line of a field, or of what contains it."""
        return self.error(self.path, self.line_of(self.text, field), ".".join(field), why)

    def read(self, kind: type[T]) -> T:
        """Return the struct in the file. Raises `error`."""
        try:
            return convert(self.plain, kind)
        except Unsound as unsound:
            raise self.bad(*unsound.faults[0]) from None

    def sound_part(self, kind: type[T]) -> tuple[T, list[BadFile]]:
        """Return the struct without the faulty fields, which have their defaults, and the faults.

        No field of `kind` may be required.
        """
        plain = self.plain
        told: list[BadFile] = []
        while True:
            try:
                return convert(plain, kind), told
            except Unsound as unsound:
                told += [self.bad(*fault) for fault in unsound.faults]
                for field, _ in unsound.faults:
                    left = _without(plain, field)
                    plain = left if left != plain else {}


def _without(plain: Any, field: Field) -> Any:
    """Return a table without a field; a field of a list takes the whole list with it."""
    if not field or not isinstance(plain, dict):
        return {}
    name, *rest = field
    inner = plain.get(name)
    if rest and isinstance(inner, dict):
        return {**plain, name: _without(inner, tuple(rest))}
    return {key: value for key, value in plain.items() if key != name}


def toml_at(path: Path, error: type[BadFile] = BadFile) -> UserFile:
    """Return the TOML file at a path. Raises `error`, also for a file that cannot be read."""
    try:
        text = path.read_bytes().decode()
    except OSError as fault:
        raise error(path, None, "", f"cannot be read: {fault.strerror}") from fault
    except UnicodeDecodeError as fault:
        raise error(path, None, "", f"is not UTF-8 text at byte {fault.start}") from None
    return toml_file(path, text, error)


def fault_at(path: Path, field: Field, why: str) -> str:
    """Return a fault of a field in words, with its line if the file can still be read."""
    try:
        return str(toml_at(path).bad(field, why))
    except BadFile:
        return str(BadFile(path, None, ".".join(field), why))


def settings_at(path: Path, kind: type[T]) -> tuple[T, list[str]]:
    """Return the settings of a file that count, and its faults in words.

    Nothing of a file that is no TOML counts. No field of `kind` may be required.
    """
    if not path.exists():
        return kind(), []
    try:
        file = toml_at(path)
    except BadFile as fault:
        return kind(), [str(fault)]
    found, faults = file.sound_part(kind)
    return found, [str(fault) for fault in faults]


_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*"""
_LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-])(?:{_PART}){{40}}")


def toml_file(path: Path, text: str, error: type[BadFile] = BadFile) -> UserFile:
    """Return a TOML file from elsewhere, read in bounded time. Raises `error`.

    Numbers that JSON does not have are refused too.
    """
    if found := _LONG_KEY.search(text):
        # Its time grows with the square of the parts: 20,000 of them take more than a minute.
        line = text.count("\n", 0, found.start()) + 1
        raise error(path, line, "", "not valid TOML: a key has too many parts")
    try:
        plain = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        why = str(fault).partition(" (at ")[0]
        if why == r"Illegal character '\n'":
            why = "unterminated string"
        raise error(path, _faulty_line(text), "", f"not valid TOML: {why}") from None
    except RecursionError:
        raise error(path, 1, "", "not valid TOML: nested too deeply") from None
    except ValueError:
        raise error(path, 1, "", "not valid TOML: a number has too many digits") from None
    file = UserFile(path, text, plain, toml_line, error)
    for field, why in _beyond_json(plain, ()):
        raise file.bad(field, why)
    return file


_LARGEST = 2**63 - 1


def _beyond_json(value: Any, field: Field) -> Iterator[Fault]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _beyond_json(inner, (*field, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _beyond_json(inner, (*field, str(index)))
    elif isinstance(value, float) and not math.isfinite(value):
        yield Fault(field, f"{value} is not allowed, expected a finite number")
    elif isinstance(value, int) and abs(value) > _LARGEST:
        yield Fault(field, f"too large, expected at most {_LARGEST}")


LOCATED = 100_000
"""Characters up to which a fault in TOML is located: tomlkit reads some 100,000 a second."""

_MARK = "\0"


def toml_line(text: str, field: Field) -> int | None:
    """Return the line, from 1, of a field in valid TOML, or of what contains it; 1 for neither.

    None for a text longer than `LOCATED`.
    """
    import tomlkit
    from tomlkit.items import Table

    if len(text) > LOCATED:
        return None
    document = tomlkit.parse(text)
    for _, item in sorted(_on_the_way(document, field), key=lambda each: each[0]):
        # No item tells its line: a mark in its comment does.
        item.trivia.comment = f"#{_MARK}"
        before, mark, _ = document.as_string().partition(_MARK)
        if mark:
            rows = 0 if isinstance(item, Table) else item.as_string().count("\n")
            return before.count("\n") + 1 - rows
    return 1


def _on_the_way(parent: Any, field: Field) -> Iterator[tuple[int, Any]]:
    """Yield the items on the way to a field and those in it, each with the number of names left."""
    from tomlkit.items import AoT, Table

    if isinstance(parent, AoT):
        inner = [(str(index), table) for index, table in enumerate(parent.body)]
    else:
        container = parent.value if isinstance(parent, Table) else parent
        named = getattr(container, "body", ())
        inner = [(key.key, item) for key, item in named if key is not None]
    for name, item in inner:
        if not field or name == field[0]:
            yield max(0, len(field) - 1), item
            yield from _on_the_way(item, field[1:])


def _faulty_line(text: str) -> int | None:
    """Return the line of the fault in a text that is no TOML; None if it is not found."""
    import tomlkit
    from tomlkit.exceptions import ParseError

    if len(text) > LOCATED:
        return None
    try:
        tomlkit.parse(text)
    except ParseError as error:
        return error.line
    except (ValueError, RecursionError):
        pass  # a fault of another kind, which tells no line
    return None


def yaml_line(text: str, field: Field) -> int | None:
    """Return the line, from 1, of a field in valid YAML or JSON, or of what contains it.

    None where PyYAML cannot read the text: some JSON is no YAML for it.
    """
    import yaml

    try:
        node = yaml.compose(text, yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    line = 1
    for part in field:
        if isinstance(node, yaml.MappingNode):
            found = next((pair for pair in node.value if pair[0].value == part), None)
            if found is None:
                break
            key, node = found
            line = key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and part.isdigit() and int(part) < len(node.value):
            node = node.value[int(part)]
            line = node.start_mark.line + 1
        else:
            break
    return line
