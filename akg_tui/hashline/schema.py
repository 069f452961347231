"""The edit operations as JSON schema, for a model's tool list.

Says in JSON what `ops.parse_ops` reads; owns the words that a model sees beside each
field. Pure data: the same notation always gives the same schema.
"""

from __future__ import annotations

from typing import Final

from akg_tui.hashline.ops import NUMBER_PATTERN
from akg_tui.hashline.tags import TAG_PATTERNS, Notation

_EXAMPLES: Final[dict[Notation, str]] = {"bigram": "42sr", "two bigrams": "42srab", "hex": "42:f1"}
_ONE_LINE: Final = {"type": "string", "pattern": "^[^\\r\\n]*$"}
_LINES: Final[dict[str, object]] = {
    "type": "array",
    "minItems": 1,
    "items": _ONE_LINE,
    "description": "New lines, one string each, indent included, without tags or line breaks.",
}
_SIDES: Final = ("after", "before")


def edit_schema(notation: Notation = "bigram") -> dict[str, object]:
    """Schema of a list of operations whose anchors are in `notation`."""
    pattern = f"^{NUMBER_PATTERN}{TAG_PATTERNS[notation]}$"

    def anchor(description: str) -> dict[str, object]:
        return {"type": "string", "pattern": pattern, "description": description}

    lines_from_to: dict[str, object] = {
        "from": anchor(
            f"First line, as the view names it: number and tag, such as {_EXAMPLES[notation]}."
        ),
        "to": anchor("Last line, included. Left out: the same as from."),
    }
    return {
        "type": "array",
        "minItems": 1,
        "description": (
            "Operations on the lines as shown, applied all together or not at all. "
            "Ranges must not overlap; numbers refer to the file before the edit."
        ),
        "items": {
            "anyOf": [
                _shape("replace", ("from", "lines"), {**lines_from_to, "lines": _LINES}),
                _shape("delete", ("from",), dict(lines_from_to)),
                *(
                    _shape(
                        "insert",
                        (side, "lines"),
                        {side: anchor(f"Insert {side} this line."), "lines": _LINES},
                    )
                    for side in _SIDES
                ),
                _shape(
                    "insert",
                    ("at", "lines"),
                    {"at": {"enum": ["head", "tail"]}, "lines": _LINES},
                ),
                _shape("sub", ("at", "find", "with"), _sub_fields(anchor("The line to change."))),
                *(
                    _shape(
                        kind, ("from", side), {**lines_from_to, side: anchor(f"{side} this line.")}
                    )
                    for kind in ("move", "copy")
                    for side in _SIDES
                ),
            ]
        },
    }


def _sub_fields(anchor: dict[str, object]) -> dict[str, object]:
    return {
        "at": anchor,
        "find": {
            "type": "string",
            "pattern": "^[^\\r\\n]+$",
            "description": "Text that stands in the line exactly once.",
        },
        "with": {**_ONE_LINE, "description": "What takes its place."},
    }


def _shape(op: str, required: tuple[str, ...], fields: dict[str, object]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {"op": {"const": op}, **fields},
        "required": ["op", *required],
        "additionalProperties": False,
    }


EDIT_SCHEMA: Final[dict[str, object]] = edit_schema()
