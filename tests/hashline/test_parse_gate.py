"""The parse gate: what parsed before an edit parses after it, or the edit is refused."""

from __future__ import annotations

import shutil
import time

import pytest

from akg_tui.hashline import EditRequest, parse_ops
from akg_tui.hashline.parse_gate import fault_in
from benchmarks import cpp_gate

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
        ("k.cpp", CPP, 5, "", "{ is never closed at line 2 of the result: int f(int x) {"),
        (
            "k.h",
            CPP,
            4,
            "        return x);",
            ") closes nothing, while { of line 3 is open at line 4",
        ),
        ("k.cu", CUDA, 2, "    x[threadIdx.x = 1.0f;", "while [ of line 2 is open at line 3"),
    ],
)
def test_the_brackets_of_cpp_and_cuda_that_paired_must_still_pair(
    path: str, text: str, number: int, line: str, said: str
) -> None:
    document = kernel(text, path=path)
    op = {"op": "replace", "from": anchor(document, number), "lines": [line]}
    (problem,) = rejection(document, [op]).problems
    assert problem.reason == "syntax"
    assert said in problem.detail


def test_cuda_launches_are_no_fault() -> None:
    assert fault_in((CUDA + "void g() { f<<<1, 32>>>(nullptr); }\n").encode(), "cuda") is None


@pytest.mark.parametrize(
    "text",
    [
        "for (int i = 0; i < n; ++i)\n#pragma omp simd\n    for (;;) a[i] = i;\n",
        "if (x)\n#pragma GCC unroll 4\n    for (;;) f();\nelse\n#pragma omp critical\n    g();\n",
        "for (int i = 0; i < n; ++i)\n#ifdef FAST\n    f(i);\n#else\n    g(i);\n#endif\n",
        "#define STEP(i) f(i);\nSTEP(0)\nSTEP(1)\ng();\n",
        "#ifdef A\nif (x) {\n#else\nif (y) {\n#endif\n    f(); }\n",
        '#ifdef __cplusplus\nextern "C" {\n#endif\nvoid f();\n#ifdef __cplusplus\n}\n#endif\n',
        "#define BEGIN {\nvoid f() BEGIN }\n",
        "#define EAT(x)\nEAT({)\n",
        "#if 0\n) don't {\n#endif\n",
        "auto s = R\"x( ) } \" )x\"; char c = '\\''; int m = 1'000; // ' } \\\n }\n",
        "void f() <% g(); }\n",
        '#error "don\'t /* } "\nint a; /* { */\n',
        'void f() {\n#include "body.inc"\n',
    ],
)
def test_code_that_a_compiler_takes_is_never_refused(text: str) -> None:
    assert fault_in(text.encode(), "cpp") is None
    assert fault_in(text.replace("\n", "\r\n").encode(), "cpp") is None


@pytest.mark.parametrize(
    "text",
    [
        "{" * 80_000 + "\n#if 1" * 20_000,
        "/*" * 200_000,
        '"\\' * 200_000,
        'R"x(' * 200_000,
        "{" * 200_000,
    ],
    ids=["directives", "comments", "escapes", "raw strings", "braces"],
)
def test_hostile_text_takes_no_more_than_linear_time(text: str) -> None:
    begin = time.process_time()
    fault_in(text.encode(), "cpp")
    fault_in(f"#define A {text}".encode(), "cpp")
    assert time.process_time() - begin < 4


def test_the_gate_can_be_opened() -> None:
    document = kernel(CPP, path="k.cpp")
    ops = parse_ops([{"op": "delete", "from": anchor(document, 5)}])
    result = session_of(document).check(EditRequest(ops, 0, allow_broken=True)).result
    assert len(result.document.lines) == 6


PYTHON = f'"""A kernel; {{not C++}}.\n\nMore.\n"""\n\nX = 1\nSOURCE = r"""\n{CPP}"""\n'
PYTHON += "LIB = compile_cpp(SOURCE)\n"


@pytest.mark.parametrize(
    "compiler", ["compile_cpp(SOURCE)", 'compile_cuda(SOURCE, ["f"])', "load_inline('k', [SOURCE])"]
)
def test_cpp_in_a_string_of_a_python_file_must_still_parse(compiler: str) -> None:
    document = kernel(PYTHON.replace("compile_cpp(SOURCE)", compiler), path="kernel.py")
    at = document.lines.index("    return 0;") + 1
    op = {"op": "replace", "from": anchor(document, at), "lines": ["    return (0;"]}
    (problem,) = rejection(document, [op]).problems
    assert problem.reason == "syntax"
    assert "in the C++ of a string" in problem.detail
    assert f"while ( of line 7 is open, in the C++ of a string at line {at + 1}" in problem.detail
    fine = {"op": "replace", "from": anchor(document, at), "lines": ["    return 1;"]}
    edit(document, [fine])


@pytest.mark.parametrize(
    "use",
    [
        "compile_cpp(SOURCE + TAIL)",
        'compile_cpp(SOURCE.replace("@", "}"))',
        "def build(SOURCE): return compile_cpp(SOURCE)",
        "print(SOURCE)",
    ],
)
def test_a_string_that_is_only_a_part_of_the_cpp_is_not_judged(use: str) -> None:
    document = kernel(PYTHON.replace("LIB = compile_cpp(SOURCE)", use), path="kernel.py")
    at = document.lines.index("    return 0;") + 1
    op = {"op": "replace", "from": anchor(document, at), "lines": ["    return (0;"]}
    edit(document, [op])


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


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_a_sample_of_valid_files_and_headers_is_not_refused() -> None:
    found = cpp_gate.measure(files=8, most_headers=100)
    assert (found["taken_by_gcc"], found["refused"], found["headers_refused"]) == (8, 0, [])
    assert found["headers"]
