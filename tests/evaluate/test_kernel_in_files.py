"""A kernel in several files as the judge reads, guards and loads it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.task import Files, Guard, Task
from akg_tui.dsl import compilers
from akg_tui.dsl.kernel_text import syntax_fault
from akg_tui.evaluate.child.faults import Fault
from akg_tui.evaluate.child.kernel_server import Server
from akg_tui.evaluate.protocol.child_protocol import Plan, Status
from akg_tui.evaluate.protocol.value_tree import Arguments
from akg_tui.evaluate.static_guard import findings
from akg_tui.evidence.page import line_ranges
from akg_tui.evidence.source_lines import rows_of

NAMES = ("kernel.py", "launch.py", "scale.cpp", "unroll.h")
FILES = {
    "kernel.py": """\
from pathlib import Path
from akg_tui.dsl import compile_cpp, read_cpp
from launch import called

LIBRARY = compile_cpp(read_cpp(Path(__file__).with_name("scale.cpp")))


class ModelNew:
    def __call__(self, x):
        return called(LIBRARY.scale, x)
""",
    "launch.py": "def called(function, x):\n    return function(int(x))\n",
    "scale.cpp": '#include <cmath>\n#include "unroll.h"\nextern "C" int scale(int x) {\n'
    "    return x * UNROLL;\n}\n",
    "unroll.h": "#pragma once\n#define UNROLL 8\n",
}


def loaded(texts: dict[str, str]) -> Server:
    """Load the files as a kernel's process does, in the folder where that stands."""
    server = Server(Plan(kind="kernel", files=KernelFiles(texts), seed=1), {})
    server.execute()
    return server


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AKG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "launch", raising=False)


def test_a_kernel_imports_its_python_and_builds_its_cpp_with_what_that_includes() -> None:
    model = loaded(FILES).construct("ModelNew", Arguments(()))
    assert model(5) == 40


def test_a_failure_is_told_by_the_file_and_line_where_it_lies() -> None:
    broken = FILES["scale.cpp"].replace("x * UNROLL", "x * UNROLLED")
    with pytest.raises(Fault) as raised:
        loaded({**FILES, "scale.cpp": broken})
    assert raised.value.status is Status.BUILD
    assert str(raised.value).startswith("scale.cpp:4: C++ line 6: ")
    sys.modules.pop("launch")
    server = loaded({**FILES, "launch.py": FILES["launch.py"].replace("int(x)", "nothing(x)")})
    model = server.construct("ModelNew", Arguments(()))
    with pytest.raises(NameError) as failed:
        model(1)
    told = str(server.fault(failed.value, Status.CALL))
    assert told.startswith("launch.py:2: NameError: ")


def test_included_files_are_put_in_once_and_others_are_left_to_the_compiler(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.cpp").write_text('#include "b.h"\n#include "c.h"\n#include "gone.h"\nint a;\n')
    (tmp_path / "b.h").write_text('#pragma once\n#include "c.h"\nint b;')
    (tmp_path / "c.h").write_text('#include "b.h"\nint c;')
    told = [line for line in compilers.read_cpp(tmp_path / "a.cpp").splitlines() if line]
    assert told == ["int c;", "int b;", '#include "gone.h"', "int a;"]


def test_machine_code_of_an_included_line_is_told_by_its_file(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    kernel = KernelFiles(FILES)
    lines = rows_of(kernel, compilers.read_cpp(tmp_path / "scale.cpp"))
    assert (
        line_ranges(sorted(filter(None, lines[2:6])), kernel.places) == "scale.cpp:3-4, unroll.h:2"
    )


def test_the_syntax_of_all_python_is_checked_and_the_entry_is_in_the_first() -> None:
    assert syntax_fault(KernelFiles(FILES)) is None
    broken = KernelFiles({**FILES, "launch.py": "x = 1\nif:\n"})
    assert (syntax_fault(broken) or "").startswith("launch.py: line 2: ")
    unwritable = KernelFiles(FILES | {"more.cu": "int a;\n// \udc80"})
    assert syntax_fault(unwritable) == "more.cu: line 2: '\\udc80' can't be written as UTF-8"
    entry = {**FILES, "kernel.py": "x = 1\n", "launch.py": FILES["kernel.py"]}
    fault = "line 1: the file defines no class ModelNew"
    assert syntax_fault(KernelFiles(entry)) == fault


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("launch.py", "import os\nimport reference\n", "launch.py:2: imports the reference"),
        ("kernel.py", "import reference\n" + FILES["kernel.py"], "kernel.py:1: imports the ref"),
    ],
)
def test_the_guard_reads_all_files_and_names_the_one_at_fault(
    name: str, text: str, told: str
) -> None:
    guard = Guard(kernel_must_do_the_work=True)
    task = Task(op="x", files=Files(editable=NAMES), guard=guard)
    assert not [f for f in findings(KernelFiles(FILES), task) if f.refused]
    found = findings(KernelFiles({**FILES, name: text}), task)
    refused = next(f for f in found if f.refused)
    assert f"{refused.place('kernel.py')}: {refused.reason}".startswith(told)
