"""The normal form of a kernel's text: what of it is code, in Python, C++ files and strings."""

from __future__ import annotations

import pytest

from akg_tui.core.kernel.code_form import code_form
from akg_tui.core.kernel.kernel_files import KernelFiles

CPP = """#define TILE 64
// the sum
#pragma omp simd
for (int i = 0; i < n; ++i) { y[i] = x[i] /* old */ + "a // b"[0]; }
"""


def in_string(code: str) -> str:
    return f'SOURCE = r"""{code}"""\n'


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = 1  # one\n", "# two\n\nx   =   1\n"),
        ('def f(a):\n    """Doc."""\n    return a\n', "def f(a):\n\n    return (a)\n"),
        (in_string(CPP), in_string(CPP.replace("// the sum\n", ""))),
        (in_string(CPP), in_string(CPP.replace("/* old */", "// new\n  "))),
        (in_string(CPP), in_string(CPP.replace("; ++i", ";\n   ++i"))),
    ],
)
def test_comments_blanks_and_docstrings_are_no_code(one: str, other: str) -> None:
    assert code_form(one) == code_form(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = 1\n", "x = 2\n"),
        ("x = 'a b'\n", "x = 'a  b'\n"),
        ("if a:\n    b()\nc()\n", "if a:\n    b()\n    c()\n"),
        ("x = (\n", "x = ( # not yet\n"),
        (in_string(CPP), in_string(CPP.replace("64", "32"))),
        (in_string(CPP), in_string(CPP.replace("#pragma omp simd\n", ""))),
        (in_string(CPP), in_string(CPP.replace("simd\n", "simd "))),
        (in_string(CPP), in_string(CPP.replace("a // b", "a // c"))),
        (in_string(CPP), in_string(CPP.replace("++i", "+ +i"))),
    ],
)
def test_whatever_can_change_what_runs_is_code(one: str, other: str) -> None:
    assert code_form(one) != code_form(other)


def test_a_file_that_is_no_python_is_read_as_cpp() -> None:
    def kernel(header: str) -> KernelFiles:
        return KernelFiles({"kernel.py": "import x\n", "tile.h": header})

    assert code_form(kernel(CPP)) == code_form(kernel(f"/* mine */\n{CPP}"))
    for other in (CPP.replace("64", "32"), "#define TILE 64\n"):
        assert code_form(kernel(CPP)) != code_form(kernel(other))
