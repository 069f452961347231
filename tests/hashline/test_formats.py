"""The rival formats do what their own rules say, right or wrong, and say no to the rest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from akg_tui.hashline import Document
from akg_tui.hashline.file_reader import Refusal
from benchmarks.edit_formats.whole_file import BY_LINES, open_any
from benchmarks.edit_formats.writers import CALLS

from .strategies import TAGGER, kernel


def apply(name: str, document: Document, call: dict[str, Any]) -> Document | Refusal:
    form = open_any(name, TAGGER)
    form.render(document)
    return form.apply(document, call)


@pytest.mark.parametrize("name", BY_LINES)
@given(st.data())
def test_on_an_unchanged_file_every_format_makes_the_intended_edit_or_refuses(
    name: str, data: st.DataObject
) -> None:
    lines = data.draw(st.lists(st.text("ab }\t", max_size=4), min_size=1, max_size=12).filter(any))
    document = kernel("".join(f"{line}\n" for line in lines))
    start = data.draw(st.integers(0, len(lines) - 1))
    stop = data.draw(st.integers(start + 1, len(lines)))
    new = tuple(data.draw(st.lists(st.text("xy", min_size=1, max_size=3), max_size=3)))
    assume(tuple(lines[start:stop]) != new)
    call = CALLS[name](document, start, stop, new, TAGGER)
    made = apply(name, document, call)
    if isinstance(made, Refusal):
        assert name == "str_replace"  # the only one that asks for uniqueness
    elif name != "apply_patch":  # which takes the first place that fits
        assert made.lines == (*lines[:start], *new, *lines[stop:])


def test_str_replace_finds_text_inside_other_text() -> None:
    document = kernel("x_new = 1\n    y = 2\n")
    inside = apply("str_replace", document, {"old": "y = 2", "new": "y = 3"})
    assert isinstance(inside, Document)
    assert inside.lines[1] == "    y = 3"
    assert isinstance(apply("str_replace", kernel("aaa"), {"old": "aa", "new": ""}), Refusal)


def _patch(*rows: str, path: str = "kernel.txt") -> dict[str, str]:
    begin, end = f"*** Begin Patch\n*** Update File: {path}\n", "\n*** End Patch\n"
    return {"patch": begin + "\n".join(rows) + end}


def test_apply_patch_takes_the_first_place_and_forgives_blanks() -> None:
    document = kernel("def f():\n    x = 1\ndef g():\n    x = 1  \n    y = 1\n")

    def lines(*rows: str) -> tuple[str, ...] | None:
        made = apply("apply_patch", document, _patch(*rows))
        return made.lines if isinstance(made, Document) else None

    first = lines("@@", "-x = 1", "+x = 2")
    assert first == ("def f():", "x = 2", *document.lines[2:])
    second = lines("@@ def g():", "-    x = 1", "+    x = 2")
    assert second == (*document.lines[:3], "    x = 2", document.lines[4])
    assert lines("@@", "+z", "*** End of File") == (*document.lines, "z")
    assert lines("@@", "-gone", "+z") is None
    assert lines("@@ nowhere", "-    x = 1") is None
    assert isinstance(apply("apply_patch", document, _patch("@@", "-x", path="b")), Refusal)


def test_a_unified_diff_is_applied_near_its_line_and_with_fuzz() -> None:
    body = ["a", "b", "x", "c", "d", "a", "b", "x", "c", "d"]
    diff = "@@ -5,4 +5,4 @@\n a\n b\n-x\n+y\n c\n"
    made = apply("unified diff", kernel("".join(f"{t}\n" for t in body)), {"diff": diff})
    assert isinstance(made, Document)
    assert made.lines == (*body[:7], "y", *body[8:])
    far = kernel("1\nB\nx\nc\n")
    made = apply("unified diff", far, {"diff": diff})
    assert isinstance(made, Document)
    assert made.lines == ("1", "B", "y", "c")
    none = {"diff": "@@ -1 +1 @@\n-q\n+y\n"}
    assert isinstance(apply("unified diff", far, none), Refusal)
