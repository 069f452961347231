"""What a person may order a run from elsewhere, as plain JSON values. Pure.

Only a person's commands have a name here: what the engine or the agent reports cannot be
sent from outside.
"""

from __future__ import annotations

from typing import Any

import msgspec

from akg_tui.core import commands as cmd

_ORDERS: tuple[type[Any], ...] = (
    cmd.SetMode,
    cmd.SetGate,
    cmd.ChangePolicy,
    cmd.Pause,
    cmd.Unpause,
    cmd.Step,
    cmd.AnswerGate,
    cmd.RevokeRule,
    cmd.AnswerQuestion,
    cmd.AddItem,
    cmd.EditItem,
    cmd.DropItem,
    cmd.ReorderItems,
    cmd.PinItem,
    cmd.AdoptPlanEdit,
    cmd.ForceReplan,
    cmd.ForceDiagnosis,
    cmd.UndoKeep,
    cmd.Hint,
    cmd.HintSubagent,
    cmd.StopSubagent,
    cmd.Stop,
)
ORDERS: dict[str, type[Any]] = {kind.__name__: kind for kind in _ORDERS}
"""The commands of a person, by name."""


class BadOrder(ValueError):
    """No command of a person; the message says what is wrong with it."""


def order_of(plain: object) -> cmd.Command:
    """The command that ``{"order": NAME, "with": {FIELD: VALUE}}`` stands for.

    Who sends it is a person at a screen, whatever it says. Raises `BadOrder`.
    """
    if not isinstance(plain, dict) or not isinstance(name := plain.get("order"), str):
        raise BadOrder('expected {"order": NAME, "with": {…}}')
    kind = ORDERS.get(name)
    if kind is None:
        raise BadOrder(f"{name!r} is not a person's command; there are: {', '.join(ORDERS)}")
    fields = plain.get("with", {})
    if not isinstance(fields, dict):
        raise BadOrder(f"{name}: its fields must be an object")
    if unknown := set(fields) - set(kind.__struct_fields__):
        raise BadOrder(f"{name} has no field {', '.join(sorted(map(str, unknown)))}")
    if "source" in kind.__struct_fields__:
        fields = {**fields, "source": "user"}
    try:
        command: cmd.Command = msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise BadOrder(f"{name}: {error}") from error
    return command


def plain_of(command: cmd.Command) -> dict[str, Any]:
    """The plain values of a person's command. Raises `BadOrder` for any other."""
    name = type(command).__name__
    if name not in ORDERS:
        raise BadOrder(f"{name} is not a person's command")
    return {"order": name, "with": msgspec.to_builtins(command)}
