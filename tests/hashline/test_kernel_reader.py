"""A kernel in several files: an edit changes all that it names or none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.hashline.document import Document
from akg_tui.hashline.file_reader import Refusal
from akg_tui.hashline.kernel_reader import KernelReader, ProposedKernel
from tests.hashline.strategies import TAGGER, batches, documents

NAMES = ("kernel.py", "scale.cpp", "unroll.h")
TEXTS = {"kernel.py": "a = 1\n", "scale.cpp": "int b;\n", "unroll.h": "int c;\n"}
# `documents` are no Python, so the gate of the parser is not asked.
EDIT = {"allow_dup": True, "allow_broken": True}


def opened() -> KernelReader:
    return KernelReader(TAGGER, NAMES)


@settings(max_examples=20)
@given(st.data())
def test_random_edits_of_several_files_change_these_files_alone(
    data: st.DataObject,
) -> None:
    now = {name: data.draw(documents(min_lines=1)) for name in NAMES}
    kernel = KernelFiles({name: each.text for name, each in now.items()})
    reader = opened()
    reader.render(kernel, 1)
    for _ in range(2):
        edits = {name: data.draw(batches(now[name])) for name in NAMES}
        calls = [{"path": n, "ops": e.ops, **EDIT} for n, e in edits.items() if e.ops]
        if not calls:
            continue
        made = reader.propose(kernel, 1, {**calls[0], "more": calls[1:]})
        if isinstance(made, Refusal):  # one of the batches changes nothing: so does the call
            assert "nothing was written" in made.message or "REJECTED" in made.message
            break
        made.accept()
        kernel = made.kernel
        for name, text in kernel.texts.items():
            lines = edits[name].expected if edits[name].ops else list(now[name].lines)
            now[name] = Document.from_text(text, path=name)
            assert list(now[name].lines) == lines


def test_one_stale_tag_in_one_file_leaves_all_files_as_they_are() -> None:
    kernel, reader = KernelFiles(TEXTS), opened()
    reader.render(kernel, 1)
    good = f"1{TAGGER.tag(1, 'a = 1')}"
    stale = f"1{TAGGER.tag(1, 'int x;')}"
    more = [{"path": "scale.cpp", "ops": [{"op": "delete", "from": stale}]}]
    op = {"op": "replace", "from": good, "lines": ["a = 2"]}
    refused = reader.propose(kernel, 1, {"ops": [op], "more": more})
    assert isinstance(refused, Refusal)
    assert refused.message.startswith("scale.cpp: REJECTED, nothing was written")
    # The first file's tags were not used up: the same edit alone is made.
    assert isinstance(reader.propose(kernel, 1, {"ops": [op]}), ProposedKernel)


def test_an_edit_of_another_version_is_refused_with_its_lines() -> None:
    kernel, reader = KernelFiles(TEXTS), opened()
    op = {"op": "replace", "from": f"1{TAGGER.tag(1, 'a = 1')}", "lines": ["a = 2"]}
    reader.render(kernel, 1)
    refused = reader.propose(kernel.having({"kernel.py": "a = 3\n"}), 1, {"ops": [op]})
    assert isinstance(refused, Refusal)
    assert "|a = 3" in refused.message


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
    kernel, reader = KernelFiles(dict.fromkeys(NAMES, "a = 1\n")), opened()
    reader.render(kernel, 1)
    refused = reader.propose(kernel, 1, {"ops": [], **call})
    assert isinstance(refused, Refusal)
    assert why in refused.message


@given(st.dictionaries(st.sampled_from(NAMES), st.text(), min_size=3))
def test_each_row_has_its_place_and_no_text_makes_two_kernels_one(texts: dict[str, str]) -> None:
    kernel = KernelFiles(texts)
    headings = 0
    for at, (place, row) in enumerate(kernel.rows(), 1):
        assert kernel.place(at) == kernel.places[at - 1] == place
        headings += not place.line
        if place.line:
            assert texts[place.file].split("\n")[place.line - 1] == row
            assert kernel.before[place.file] + place.line == at
        else:
            assert place.file in row
    assert headings == 2
    first, second, _ = texts.values()
    heading = next(row for place, row in kernel.rows() if not place.line)
    other = KernelFiles({**texts, kernel.main: f"{first}\n{heading}\n{second}"})
    assert (other.sha256, other) != (kernel.sha256, kernel)
    assert hash(KernelFiles(dict(texts))) == hash(kernel)


def test_one_file_is_itself() -> None:
    kernel = KernelFiles({"kernel.py": "x\n"})
    assert (kernel.page, kernel.places_of_several, kernel.before) == ("x\n", (), {"kernel.py": 0})
    assert kernel.sha256 == Document.from_text("x\n", path="").sha256
