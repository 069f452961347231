"""The parse gate: what parsed before an edit parses after it, or the edit is refused."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from akg_tui.hashline import EditRejected, EditRequest, parse_ops
from akg_tui.hashline.parse_gate import fault_in, newly_broken

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


def test_a_file_of_no_known_language_has_no_gate() -> None:
    document = kernel("int x;\n", path="kernel.txt")
    op = {"op": "replace", "from": anchor(document, 1), "lines": ["int ("]}
    assert edit(document, [op]).document.text == "int (\n"


def test_a_python_file_with_byte_order_mark_and_odd_escapes_passes_the_gate(
    recwarn: pytest.WarningsRecorder,
) -> None:
    document = kernel("\ufeffx = 1\r\n", path="kernel.py")
    result = edit(document, [{"op": "insert", "at": "tail", "lines": [r"y = '\d'"]}])
    assert result.document.text == "\ufeffx = 1\r\n" + "y = '\\d'\r\n"
    assert not recwarn.list


CPP = """\
#include <cmath>
int f(int x) {
    if (x > 1) {
        return x;
    }
    return 0;
}
"""
CUDA = "__global__ void f(float* x) {\n    x[threadIdx.x] = 1.0f;\n}\n"


@pytest.mark.parametrize(
    ("path", "text", "number", "line", "said"),
    [
        ("k.cpp", CPP, 5, "", "missing } at line 7 of the result: }"),
        ("k.h", CPP, 4, "        return x", "missing ; at line 4 of the result: return x"),
        ("k.cu", CUDA, 2, "    x[threadIdx.x = 1.0f;", "line 2 of the result"),
    ],
)
def test_cpp_and_cuda_that_parsed_must_still_parse(
    path: str, text: str, number: int, line: str, said: str
) -> None:
    document = kernel(text, path=path)
    op = {"op": "replace", "from": anchor(document, number), "lines": [line]}
    (problem,) = rejection(document, [op]).problems
    assert problem.reason == "syntax"
    assert said in problem.detail


def test_cuda_launches_are_no_fault() -> None:
    assert fault_in((CUDA + "void g() { f<<<1, 32>>>(nullptr); }\n").encode(), "cuda") is None


@given(st.data())
def test_parsing_only_what_changed_gives_what_parsing_the_whole_gives(data: st.DataObject) -> None:
    document = kernel(f"\ufeff{CPP}// größer\n{CPP}", path="k.cpp")
    count = len(document.lines)
    start = data.draw(st.integers(1, count))
    stop = data.draw(st.integers(start, min(count, start + 3)))
    rows = ["}", "{", "int y = (1);", "    return 0;", "if (x > 1) {", "é(", "}}", ""]
    lines = data.draw(st.lists(st.sampled_from(rows), min_size=1, max_size=3))
    named = {"from": anchor(document, start), "to": anchor(document, stop)}
    ops = parse_ops([{"op": "replace", **named, "lines": lines}])
    request = EditRequest(ops, 0, allow_dup=True, allow_broken=True)
    try:
        result = session_of(document).check(request).result
    except EditRejected:
        assume(False)
    assert newly_broken(document, result) == fault_in(result.document.data, "cpp")


def test_the_gate_can_be_opened() -> None:
    document = kernel(CPP, path="k.cpp")
    ops = parse_ops([{"op": "delete", "from": anchor(document, 5)}])
    result = session_of(document).check(EditRequest(ops, 0, allow_broken=True)).result
    assert len(result.document.lines) == 6


PYTHON = f'"""A kernel; {{not C++}}.\n\nMore.\n"""\n\nX = 1\nSOURCE = r"""\n{CPP}"""\n'


def test_cpp_in_a_string_of_a_python_file_must_still_parse() -> None:
    document = kernel(PYTHON, path="kernel.py")
    at = document.lines.index("    return 0;") + 1
    op = {"op": "replace", "from": anchor(document, at), "lines": ["    return (0;"]}
    (problem,) = rejection(document, [op]).problems
    assert problem.reason == "syntax"
    assert "in the C++ of a string" in problem.detail
    assert f"line {at} of the result: return (0;" in problem.detail
    fine = {"op": "replace", "from": anchor(document, at), "lines": ["    return 1;"]}
    edit(document, [fine])


def test_prose_in_a_string_is_not_parsed_as_code() -> None:
    document = kernel(PYTHON, path="kernel.py")
    op = {"op": "replace", "from": anchor(document, 3), "lines": ["More; {and (more"]}
    edit(document, [op])


def test_cpp_that_did_not_parse_in_a_string_may_be_mended_in_steps() -> None:
    broken = PYTHON.replace("if (x > 1) {", "if (x > 1 {")
    document = kernel(broken, path="kernel.py")
    at = document.lines.index("    return 0;") + 1
    op = {"op": "replace", "from": anchor(document, at), "lines": ["    return (0;"]}
    edit(document, [op])
