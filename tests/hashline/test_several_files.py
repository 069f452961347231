"""A kernel in several files: one text for all, and an edit changes all that it names or none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from akg_tui.hashline.document import Document
from akg_tui.hashline.formats import Proposed, Refusal, SeveralFiles, open_reader
from akg_tui.kernel_files import (
    NotJoinable,
    heading,
    join_files,
    places,
    split_files,
)
from tests.hashline.strategies import TAGGER, batches, documents

NAMES = ("kernel.py", "scale.cpp", "unroll.h")
# `documents` are no Python, so the gate of the parser is not asked.
EDIT = {"allow_dup": True, "allow_broken": True}


def opened(form: str = "hashline") -> SeveralFiles:
    reader = open_reader(form, TAGGER, NAMES)
    assert isinstance(reader, SeveralFiles)
    return reader


def whole(texts: dict[str, str]) -> Document:
    return Document.from_text(join_files(texts), path=NAMES[0], revision=1)


@settings(max_examples=40)
@given(st.data())
def test_random_edits_of_several_files_change_these_files_alone_and_undo_restores_every_byte(
    data: st.DataObject,
) -> None:
    now = {name: data.draw(documents(min_lines=1)) for name in NAMES}
    history = [whole({name: each.text for name, each in now.items()})]
    reader = opened()
    reader.render(history[0])
    for _ in range(2):
        edits = {name: data.draw(batches(now[name])) for name in NAMES}
        calls = [{"path": n, "ops": e.ops, **EDIT} for n, e in edits.items() if e.ops]
        if not calls:
            continue
        made = reader.propose(history[-1], {**calls[0], "more": calls[1:]})
        if isinstance(made, Refusal):  # one of the batches changes nothing: so does the call
            assert "nothing was written" in made.message or "REJECTED" in made.message
            break
        made.accept()
        texts = split_files(NAMES, made.document.text)
        for name, text in texts.items():
            lines = edits[name].expected if edits[name].ops else list(now[name].lines)
            now[name] = Document.from_text(text, path=name)
            assert list(now[name].lines) == lines
        history.append(made.document)
    # What an undo goes back to is the text of an earlier version: all files, byte for byte.
    for document in history:
        assert join_files(split_files(NAMES, document.text)).encode() == document.data


def test_one_stale_tag_in_one_file_leaves_all_files_as_they_are() -> None:
    texts = {"kernel.py": "a = 1\n", "scale.cpp": "int b;\n", "unroll.h": "int c;\n"}
    document, reader = whole(texts), opened()
    reader.render(document)
    good = f"1{TAGGER.tag(1, 'a = 1')}"
    stale = f"1{TAGGER.tag(1, 'int x;')}"
    more = [{"path": "scale.cpp", "ops": [{"op": "delete", "from": stale}]}]
    op = {"op": "replace", "from": good, "lines": ["a = 2"]}
    refused = reader.propose(document, {"ops": [op], "more": more})
    assert isinstance(refused, Refusal)
    assert refused.message.startswith("scale.cpp: REJECTED, nothing was written")
    # The first file's tags were not used up: the same edit alone is made.
    assert isinstance(reader.propose(document, {"ops": [op]}), Proposed)


@pytest.mark.parametrize("form", ["str_replace", "unified diff"])
def test_the_other_formats_name_their_file_too(form: str) -> None:
    texts = {"kernel.py": "a = 1\n", "scale.cpp": "int b;\n", "unroll.h": "int c;\n"}
    document, reader = whole(texts), opened(form)
    shown = reader.render(document)
    assert shown.count("\n\n") == 2
    assert f"{heading('unroll.h')}\nint c;" in shown
    call: dict[str, Any] = {"old": "int c;", "new": "int d;"}
    if form == "unified diff":
        call = {"diff": "--- unroll.h\n+++ unroll.h\n@@ -1 +1 @@\n-int c;\n+int d;\n"}
    made = reader.propose(document, {**call, "path": "unroll.h"})
    assert isinstance(made, Proposed)
    assert split_files(NAMES, made.document.text) == {**texts, "unroll.h": "int d;\n"}


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ({"path": "other.py"}, "path: 'other.py' is not one of kernel.py, scale.cpp, unroll.h"),
        ({"path": 3}, "path: '3' is not one of"),
        ({"more": [{"ops": []}]}, "more[0].path: '' is not one of"),
        ({"more": [{"path": "kernel.py"}]}, "more[0].path: kernel.py is named twice"),
        ({"more": "scale.cpp"}, "more: a list of objects is needed"),
    ],
)
def test_an_edit_of_no_file_or_of_one_twice_is_refused(call: dict[str, Any], why: str) -> None:
    document, reader = whole(dict.fromkeys(NAMES, "a = 1\n")), opened()
    reader.render(document)
    refused = reader.propose(document, {"ops": [], **call})
    assert isinstance(refused, Refusal)
    assert why in refused.message


@given(st.dictionaries(st.sampled_from(NAMES), st.text(), min_size=3))
def test_joined_files_part_again_and_each_line_has_its_place(texts: dict[str, str]) -> None:
    joined = join_files(texts)
    names = tuple(texts)
    assert split_files(names, joined) == texts
    lines = joined.split("\n")
    found = places(names, joined)
    assert len(lines) == len(found)
    for line, place in zip(lines, found, strict=True):
        if place.line:
            assert texts[place.file].split("\n")[place.line - 1] == line
        else:
            assert line in ("", *map(heading, names))


def test_one_file_is_itself_and_a_file_that_holds_a_heading_is_refused() -> None:
    assert join_files({"kernel.py": "x"}) == "x"
    assert split_files(("kernel.py",), "x") == {"kernel.py": "x"}
    with pytest.raises(NotJoinable):
        join_files({"a.py": f"x\n{heading('b.py')}\n", "b.py": "y"})
    with pytest.raises(NotJoinable):
        split_files(("a.py", "b.py"), "x")
