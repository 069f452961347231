"""The parser of the `:` line: the command and its argument.

Pure: returns the command of a text, or the fault of the text and its completions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from akg_tui.view.controls.command_registry import Argument, Command
from akg_tui.view.language import tr

SHOWN = 8


@dataclass(frozen=True)
class Reading:
    """The parsed `:` line. `offers` are whole lines that complete it, each with its help."""

    command: Command | None
    argument: str
    fault: str
    offers: tuple[tuple[str, str], ...]


def read(
    text: str, commands: Sequence[Command], choices: Callable[[Argument], Sequence[str]]
) -> Reading:
    """Parse `text` as a call of one of `commands`."""
    name, _, rest = text.strip().partition(" ")
    rest = rest.strip()
    typing_name = " " not in text.lstrip()
    exact = [c for c in commands if name in _names(c)]
    near = [c for c in commands if name and any(n.startswith(name) for n in _names(c))]
    found = exact or near
    offers: tuple[tuple[str, str], ...] = ()
    if typing_name and not (exact and len(near) == 1):
        shown = near if name else commands
        offers = tuple((f"{c.name} " if c.argument else c.name, tr(c.help)) for c in shown)
    elif len(found) == 1 and (argument := found[0].argument):
        words = [w for w in choices(argument) if w.startswith(rest)]
        offers = tuple((f"{found[0].name} {word}", "") for word in words)
    if not name:
        return Reading(None, "", "", offers)
    if not found:
        return Reading(None, rest, tr("no command is called {name} here", name=name), offers)
    if len(found) > 1:
        many = ", ".join(c.id for c in found[:SHOWN])
        return Reading(None, rest, tr("{name} may be: {many}", name=name, many=many), offers)
    rest = _completed(found[0], rest, choices)
    return Reading(found[0], rest, _argument_fault(found[0], rest, choices), offers)


def _names(command: Command) -> tuple[str, ...]:
    return command.name, command.id, tr(command.label).replace(" ", "-")


def _completed(command: Command, rest: str, choices: Callable[[Argument], Sequence[str]]) -> str:
    """Return the only choice that begins with `rest`; `rest` if there is not exactly one."""
    if command.argument is None or command.argument.free or not rest:
        return rest
    words = [word for word in choices(command.argument) if word.startswith(rest)]
    return words[0] if len(words) == 1 else rest


def _argument_fault(
    command: Command, rest: str, choices: Callable[[Argument], Sequence[str]]
) -> str:
    argument = command.argument
    if argument is None:
        return tr("{name} takes no argument", name=command.name) if rest else ""
    if not rest or argument.free:
        return ""
    words = choices(argument)
    if rest in words:
        return ""
    return tr("{name} can be: {words}", name=command.name, words=", ".join(words))
