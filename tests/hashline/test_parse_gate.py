"""The parse gate: what parsed before an edit parses after it, or the edit is refused."""

from __future__ import annotations

import pytest

from akg_tui.hashline import EditRequest, parse_ops

from .strategies import anchor, edit, kernel, rejection, session_of


def test_a_python_file_that_parsed_must_still_parse() -> None:
    document = kernel("def f(x):\n    return x\n\ny = 1\n", path="kernel.py")
    op = {"op": "replace", "from": anchor(document, 2), "lines": ["    return (x"]}
    (problem,) = rejection(document, [op]).problems
    assert problem.reason == "syntax"
    assert "line 2 of the result: return (x" in problem.detail


@pytest.mark.parametrize(
    "line", ["x = '\x00'", "x = " + "-" * 100_000 + "1", "x = 1" + "+1" * 100_000]
)
def test_code_that_crashes_the_python_parser_is_refused_too(line: str) -> None:
    document = kernel("y = 1\n", path="kernel.py")
    op = {"op": "insert", "at": "tail", "lines": [line]}
    error = rejection(document, [op])
    assert [p.reason for p in error.problems] == ["syntax"]
    assert len(str(error)) < 500


def test_a_python_file_that_did_not_parse_can_be_mended_in_steps() -> None:
    document = kernel("x = (\ny = (\n", path="kernel.py")
    op = {"op": "replace", "from": anchor(document, 1), "lines": ["x = 1"]}
    assert edit(document, [op]).document.lines == ("x = 1", "y = (")


@pytest.mark.parametrize("name", ["kernel.cpp", "kernel.txt"])
def test_a_file_of_another_language_has_no_gate(name: str) -> None:
    document = kernel("int x;\n", path=name)
    op = {"op": "replace", "from": anchor(document, 1), "lines": ["int ("]}
    assert edit(document, [op]).document.text == "int (\n"


def test_a_python_file_with_byte_order_mark_and_odd_escapes_passes_the_gate(
    recwarn: pytest.WarningsRecorder,
) -> None:
    document = kernel("\ufeffx = 1\r\n", path="kernel.py")
    result = edit(document, [{"op": "insert", "at": "tail", "lines": [r"y = '\d'"]}])
    assert result.document.text == "\ufeffx = 1\r\n" + "y = '\\d'\r\n"
    assert not recwarn.list


def test_the_gate_can_be_opened() -> None:
    document = kernel("x = (\n    1)\n", path="kernel.py")
    ops = parse_ops([{"op": "delete", "from": anchor(document, 2)}])
    result = session_of(document).check(EditRequest(ops, 0, allow_broken=True)).result
    assert result.document.lines == ("x = (",)
