from __future__ import annotations

import json
import re
from typing import Any

import pytest

from akg_tui.hashline import EDIT_SCHEMA, BadEdit, parse_ops
from akg_tui.hashline.ops import Anchor, Delete, Insert, InsertAtEdge, Replace, Sub, Transfer

ONE = Anchor(12, "sr")
TWO = Anchor(14, "ab")


def test_each_form_is_read_as_written() -> None:
    raw: list[dict[str, Any]] = [
        {"op": "replace", "from": "12sr", "to": "14ab", "lines": ["\ta ", ""]},
        {"op": "replace", "from": "12sr", "lines": ["a"]},
        {"op": "insert", "after": "12sr", "lines": ["b"]},
        {"op": "insert", "before": "12sr", "lines": ["c"]},
        {"op": "insert", "at": "head", "lines": ["d"]},
        {"op": "insert", "at": "tail", "lines": ["e"]},
        {"op": "delete", "from": "12sr", "to": "14ab"},
        {"op": "delete", "from": "12sr"},
        {"op": "sub", "at": "12sr", "find": "64", "with": ""},
        {"op": "move", "from": "12sr", "to": "14ab", "after": "20zz"},
        {"op": "copy", "from": "12sr", "before": "20zz"},
    ]
    assert parse_ops(json.loads(json.dumps(raw))) == (
        Replace(ONE, TWO, ("\ta ", "")),
        Replace(ONE, ONE, ("a",)),
        Insert("after", ONE, ("b",)),
        Insert("before", ONE, ("c",)),
        InsertAtEdge("head", ("d",)),
        InsertAtEdge("tail", ("e",)),
        Delete(ONE, TWO),
        Delete(ONE, ONE),
        Sub(ONE, "64", ""),
        Transfer("move", ONE, TWO, "after", Anchor(20, "zz")),
        Transfer("copy", ONE, ONE, "before", Anchor(20, "zz")),
    )
    assert all(_fits_schema(op) for op in raw)


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "op"),
    ({"op": "swap"}, "op"),
    ({"op": "sub", "at": "12sr", "find": "", "with": "x"}, "find"),
    ({"op": "sub", "at": "12sr", "find": "x", "with": "a\nb"}, "with"),
    ({"op": ["insert"]}, "op"),
    ({"op": "delete", "from": 12}, "from"),
    ({"op": "delete", "from": "12"}, "from"),
    ({"op": "delete", "from": "sr"}, "from"),
    ({"op": "delete", "from": "012sr"}, "from"),
    ({"op": "delete", "from": "0sr"}, "from"),
    ({"op": "delete", "from": "12SR"}, "from"),
    ({"op": "delete", "from": "12sr|x = 1"}, "from"),
    ({"op": "delete", "from": " 12sr"}, "from"),
    ({"op": "delete", "from": "12sr\n"}, "from"),
    ({"op": "delete", "from": "١٢sr"}, "from"),
    ({"op": "delete", "from": "9" * 5000 + "sr"}, "from"),
    ({"op": "delete", "from": "12sr", "to": None}, "to"),
    ({"op": "delete", "from": "12sr", "lines": []}, "lines"),
    ({"op": "delete", "from": "12sr", "rev": 3}, "rev"),
    ({"op": "replace", "from": "12sr", "lines": "x"}, "lines"),
    ({"op": "replace", "from": "12sr", "lines": []}, "lines"),
    ({"op": "replace", "from": "12sr", "lines": ["a", 1]}, "lines[1]"),
    ({"op": "replace", "from": "12sr", "lines": ["a\nb"]}, "lines[0]"),
    ({"op": "replace", "from": "12sr", "lines": ["a\r"]}, "lines[0]"),
    ({"op": "insert", "at": "top", "lines": ["a"]}, "at"),
]
# What the schema doesn't say, and only the parser holds.
BEYOND_SCHEMA: list[tuple[dict[str, Any], str]] = [
    ({"op": "sub", "at": "12sr", "with": "x"}, "find"),
    ({"op": "sub", "at": "12sr", "find": "x"}, "with"),
    ({"op": "sub", "find": "x", "with": "y"}, "at"),
    ({"op": "move", "from": "12sr"}, ""),
    ({"op": "copy", "from": "12sr", "after": "1aa", "before": "2bb"}, ""),
    ({"op": "move", "from": "12sr", "at": "head"}, "at"),
    ({"op": "copy", "after": "12sr"}, "from"),
    ({"op": "delete"}, "from"),
    ({"op": "replace", "from": "12sr"}, "lines"),
    ({"op": "insert", "lines": ["a"]}, ""),
    ({"op": "insert", "after": "12sr", "before": "12sr", "lines": ["a"]}, ""),
    ({"op": "insert", "at": "head"}, "lines"),
    ({"op": "replace", "from": "14ab", "to": "12sr", "lines": ["a"]}, "to"),
    ({"op": "delete", "from": "12sr", "to": "12ab"}, "to"),
    ({"op": "insert", "at": "head", "lines": ["a", "\ufeffb"]}, "lines[1]"),
    ({"op": "insert", "at": "head", "lines": ["\ud800"]}, "lines[0]"),
]


@pytest.mark.parametrize(("bad", "field"), BAD + BEYOND_SCHEMA)
def test_the_error_for_a_request_outside_the_grammar_names_operation_and_field(
    bad: dict[str, Any], field: str
) -> None:
    good = {"op": "delete", "from": "1aa"}
    with pytest.raises(BadEdit) as caught:
        parse_ops([good, bad])
    assert (caught.value.index, caught.value.field) == (1, field)
    assert str(caught.value).startswith("ops[1]")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("raw", [None, [], {}, "[]", {"ops": []}, 3])
def test_only_a_list_of_operations_is_a_request(raw: object) -> None:
    with pytest.raises(BadEdit, match="ops: a list of at least one operation"):
        parse_ops(raw)


def test_errors_quote_a_request_without_control_characters() -> None:
    for bad in ({"op": "\x1b[2J"}, {"op": "delete", "\x1b[2J": 1, "from": "1aa"}):
        with pytest.raises(BadEdit) as caught:
            parse_ops([bad])
        assert str(caught.value).isprintable()


@pytest.mark.parametrize("bad", [bad for bad, _ in BAD])
def test_the_schema_refuses_what_the_parser_refuses(bad: dict[str, Any]) -> None:
    assert not _fits_schema(bad)


def test_the_schema_takes_few_tokens_because_every_request_has_it() -> None:
    assert len(json.dumps(EDIT_SCHEMA)) / 4 < 400


def _fits_schema(op: dict[str, Any]) -> bool:
    return _fits(json.loads(json.dumps(EDIT_SCHEMA))["items"], op)


def _fits(schema: Any, value: object) -> bool:
    """The few JSON schema keywords that the tool's schema uses; any other one fails."""
    unknown = set(schema) - {
        *("enum", "type", "properties", "required", "additionalProperties"),
        *("items", "minItems", "pattern", "description"),
    }
    assert not unknown
    if "enum" in schema:
        return value in schema["enum"]
    if schema["type"] == "string":
        # A JSON schema's $ is the end of the text, which Python spells \Z.
        pattern = schema["pattern"].removesuffix("$") + r"\Z"
        return isinstance(value, str) and re.match(pattern, value) is not None
    if schema["type"] == "array":
        return (
            isinstance(value, list)
            and len(value) >= schema["minItems"]
            and all(_fits(schema["items"], item) for item in value)
        )
    return (
        isinstance(value, dict)
        and set(schema["required"]) <= set(value) <= set(schema["properties"])
        and all(_fits(schema["properties"][name], item) for name, item in value.items())
    )
