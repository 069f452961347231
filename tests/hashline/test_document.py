from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from akg_tui.hashline import Document, NotText

from .strategies import documents


@given(st.one_of(st.binary(max_size=60), st.text(max_size=40).map(str.encode)))
def test_any_file_comes_back_byte_for_byte_or_is_refused(data: bytes) -> None:
    if data.decode("utf-8", "replace").encode() != data:
        with pytest.raises(NotText) as caught:
            Document.from_bytes(data, path="k.py")
        data[: caught.value.offset].decode("utf-8")
        return
    document = Document.from_bytes(data, path="k.py")
    mark = "\ufeff" if document.has_bom else ""
    rows = zip(document.lines, document.endings, strict=True)
    assert (mark + "".join(line + end for line, end in rows)).encode() == data
    assert document.data == data
    assert document.sha256 == hashlib.sha256(data).hexdigest()


@given(documents())
def test_text_and_bytes_give_the_same_document(document: Document) -> None:
    again = Document.from_text(document.text, path=document.path, revision=document.revision)
    assert again == document


def test_only_a_line_feed_ends_a_line() -> None:
    text = "a\x0cb\x0bc\u2028d\x85e\rf\n\ttab  \r\nlast"
    document = Document.from_text(text, path="k.py")
    assert document.lines == ("a\x0cb\x0bc\u2028d\x85e\rf", "\ttab  ", "last")
    assert document.endings == ("\n", "\r\n", "")


@pytest.mark.parametrize(
    ("text", "lines"),
    [("", ()), ("\n", ("",)), ("\ufeff", ()), ("\ufeffa\n", ("a",)), ("a\n\n", ("a", ""))],
)
def test_small_files_have_the_lines_an_editor_shows(text: str, lines: tuple[str, ...]) -> None:
    assert Document.from_text(text, path="k.py").lines == lines


def test_bytes_that_are_not_text_are_refused_with_their_place() -> None:
    with pytest.raises(NotText, match=r"kernel\.so: not UTF-8 text: .* at byte 3") as caught:
        Document.from_bytes(b"ab\n\xff\xfe", path="kernel.so")
    assert caught.value.offset == 3


def test_a_lone_surrogate_is_not_text() -> None:
    with pytest.raises(NotText) as caught:
        Document.from_text("é\ud800", path="k.py")
    assert caught.value.offset == 2


def test_the_usual_newline_is_the_more_frequent_one() -> None:
    assert Document.from_text("a\r\nb\r\nc\n", path="k").newline == "\r\n"
    assert Document.from_text("a\r\nb\n", path="k").newline == "\n"
    assert Document.from_text("a", path="k").newline == "\n"
