"""The rows of help: every command with its keys, by group, then the signs."""

from __future__ import annotations

from akg_tui.core.phases import Verdict
from akg_tui.core.sanitize import Said
from akg_tui.view.controls import command_registry
from akg_tui.view.glyphs import ITEM, VERDICT
from akg_tui.view.language import tr
from akg_tui.view.spans import BLANK, Line, cells, cut, hang, line, width

_KEYS_LEAST, _KEYS_WIDTH = 12, 24
_VERDICTS = {
    Verdict.KEEP: Said("correct, and faster than the best beyond doubt"),
    Verdict.DISCARD: Said("correct, but not faster beyond doubt"),
    Verdict.FAIL: Said("it does not compile, run in time or match the reference"),
    Verdict.INCONCLUSIVE: Said("probably faster, not proved yet: it is measured again"),
    Verdict.SHORTLIST: Said("correct, not timed: an earlier version ranked it by an estimate"),
}
_WHERE = {
    "review": Said("in a review: "),
    "past": Said("in the past: "),
    "rounds": Said("comparing: "),
    "runs": Said("in the list of runs: "),
}


_FIRST = {
    "agents": command_registry.SUBAGENTS,
    "review": "Review",
    "past": "Time",
    "rounds": "Compare",
    "runs": "Runs",
    "plan": "Plan",
}
"""The group that help begins with, by the screen or pane that is looked at; else it is Run."""


def help_rows(room: int, wanted: str = "", here: str = "deck") -> list[Line]:
    """Return all commands with keys, by group, then the signs; with `wanted`, only matches.

    The group of `here`, the screen or pane that is looked at, comes first.
    """
    rows: list[Line] = []
    members = {
        group: [command for command in listed if _holds(command, wanted)]
        for group, listed in command_registry.groups().items()
    }
    first = _FIRST.get(here, "Run")
    members = {first: members[first], **members}
    keys = max((cells(_how(c)) for listed in members.values() for c in listed), default=0)
    column = min(_KEYS_WIDTH, max(_KEYS_LEAST, keys))
    for group, listed in members.items():
        if not listed:
            continue
        rows += [BLANK, line((tr(group), "title"))] if rows else [line((tr(group), "title"))]
        for command in listed:
            lead = _lead(command, column)
            rows += hang(_about(command), room, lead, "text", indent=width(lead))
    return rows if wanted else [*rows, *_signs(room)]


def _about(command: command_registry.Command) -> str:
    where = tr(_WHERE[command.where]) if command.where in _WHERE else ""
    more = command.keys_now and command.argument is not None
    return f"{where}{tr(command.help)}{f'  ({_typed(command)})' if more else ''}"


def _typed(command: command_registry.Command) -> str:
    argument = f" {command.argument.name.upper()}" if command.argument else ""
    return f":{command.name}{argument}"


def _how(command: command_registry.Command) -> str:
    """Return the keys of a command, or without keys the text to type."""
    return command.shown_key or _typed(command)


def _lead(command: command_registry.Command, column: int) -> Line:
    how = cut(_how(command), column)
    role = "key" if command.keys_now else "muted"
    return line((f"{' ' * (column - cells(how))}{how}  ", role))


def _holds(command: command_registry.Command, wanted: str) -> bool:
    texts = (command.id, command.label, command.help, tr(command.label), tr(command.help))
    found = " ".join((*texts, command.shown_key, tr(command.group))).casefold()
    return all(word in found for word in wanted.casefold().split())


def _signs(room: int) -> list[Line]:
    rows = [BLANK, line((tr("Signs"), "title"))]
    for verdict, (glyph, role) in VERDICT.items():
        lead = line((f"{glyph:>4} {verdict:<12} ", role))
        rows += hang(tr(_VERDICTS[verdict]), room, lead, "text", indent=width(lead))
    others = "  ".join(
        f"{glyph} {word}" for glyph, word, _, role in ITEM.values() if role.startswith("item")
    )
    rows += hang(others, room, line((f"   {tr('plan')}: ", "muted")), "text")
    figures = (
        ("1.84×", "figure", tr("a ratio: above 1 is faster")),
        ("1.70×?", "figure",
         tr("a ratio that is not proved: by its interval the kernel can be faster or slower")),
        ("[1.79, 1.90]", "muted",
         tr("its interval: the true ratio lies in it with the stated confidence, mostly 95 to "
            "99 %; a KEEP needs its lower bound above 1")),
        (tr("noisy ({gain})", gain="12 %"), "note",
         tr("the machine is disturbed now: gains under 12 % are not seen")),
    )  # fmt: skip
    for sign, role, told in figures:
        pad = " " * (17 - cells(sign))
        lead = line((f"{pad}{sign} ", role))
        rows += hang(told, room, lead, "text", indent=width(lead))
    return rows
