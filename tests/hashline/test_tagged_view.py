from __future__ import annotations

import re

import pytest
from hypothesis import given

from akg_tui.hashline import BadRange, Document, render, render_result

from .strategies import TAGGER, anchor, documents, edit, kernel


def test_the_header_names_file_revision_content_and_length() -> None:
    document = Document.from_text("a\nb\n", path="kernel.py", revision=7)
    header = render(document, TAGGER).split("\n")[0]
    assert header == f"@kernel.py r7 sha={document.sha256[:8]} 2 lines"


@given(documents())
def test_a_view_read_back_gives_the_lines_exactly(document: Document) -> None:
    rows = render(document, TAGGER).split("\n")[1:]
    found = [re.fullmatch(r"([0-9]+)([a-z]{2})\|(.*)", row, re.DOTALL) for row in rows]
    tags = [TAGGER.tag(number, text) for number, text in enumerate(document.lines, 1)]
    assert [(int(m[1]), m[2]) for m in found if m] == [*enumerate(tags, 1)]
    assert tuple(m[3] for m in found if m) == document.lines


def test_a_range_shows_the_same_rows_as_the_whole_view() -> None:
    document = kernel("".join(f"line {i}\n" for i in range(1, 31)))
    whole = render(document, TAGGER).split("\n")
    part = render(document, TAGGER, first=10, last=12).split("\n")
    assert part[1:] == whole[10:13]
    assert part[0].endswith("30 lines, 10 to 12 shown")
    assert render(document, TAGGER, first=29, last=99).split("\n")[1:] == whole[29:]


@pytest.mark.parametrize(("first", "last"), [(0, 2), (4, None), (3, 2), (9, 12)])
def test_a_range_without_lines_is_refused(first: int, last: int | None) -> None:
    with pytest.raises(BadRange, match="has 3 lines"):
        render(kernel("a\nb\nc\n"), TAGGER, first=first, last=last)


def test_an_empty_file_has_a_header_only() -> None:
    assert render(kernel(""), TAGGER).endswith(" 0 lines")


def test_a_strange_path_stays_on_the_header_line() -> None:
    view = render(Document.from_text("a", path="k\n\x1b[31m.py"), TAGGER)
    assert view.split("\n")[0].startswith(r"@k\n\x1b[31m.py r0 ")


def test_the_answer_to_an_edit_is_one_line_with_the_tags_of_the_new_lines() -> None:
    document = kernel("".join(f"line {i}\n" for i in range(1, 31)))
    result = edit(
        document,
        [
            {"op": "replace", "from": anchor(document, 5), "lines": ["five", "and a half"]},
            {"op": "delete", "from": anchor(document, 20)},
        ],
    )
    new = result.document
    tags = " ".join(f"{n}{TAGGER.tag(n, new.lines[n - 1])}" for n in (5, 6))
    header = f"OK kernel.txt r1 sha={new.sha256[:8]} 30 lines, +2 -2"
    assert render_result(result, TAGGER) == f"{header}; now {tags}"
    # The reply's anchors work as they stand.
    again = edit(new, [{"op": "replace", "from": tags.split()[0], "lines": ["5"]}])
    assert again.document.lines[4] == "5"
