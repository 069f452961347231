"""Shared by the edit formats of the comparison: the schema and the reading of plain arguments."""

from __future__ import annotations

from collections.abc import Mapping

from akg_tui.hashline.file_reader import Refusal


def text_argument(call: Mapping[str, object], name: str) -> str | Refusal:
    """Return a string argument of a call, or a refusal if it is not a string."""
    value = call.get(name)
    return value if isinstance(value, str) else Refusal(f"{name}: a string is needed")


def object_schema(**properties: Mapping[str, object]) -> dict[str, object]:
    """Return the JSON schema of an object whose properties are all required."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
