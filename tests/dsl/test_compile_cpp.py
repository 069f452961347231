"""Compiling C++ from a string: the cache, the errors, and tensors as pointers."""

from __future__ import annotations

import os
import subprocess
import sys
from ctypes import c_int
from pathlib import Path

import pytest
import torch

from akg_tui.dsl import compilers
from tests.fresh_interpreter import printed

ANSWER = 'extern "C" int answer() { return VALUE; }\n'


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test a cache of its own, and the system's own compiler."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("AKG_CACHE_DIR", str(folder))
    monkeypatch.delenv("CXX", raising=False)
    return folder


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make $CXX a script that runs g++ and adds a line to the file returned."""
    log = tmp_path / "compiles"
    log.touch()
    script = tmp_path / "counted-c++"
    script.write_text(
        "#!/bin/sh\n"
        f'case " $* " in *" -c "*) echo run >> "{log}";; esac\n'
        f'exec "{_system_compiler()}" "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    return log


def _system_compiler() -> str:
    return compilers._compiler()[0][0]


def _answer(flags: str | tuple[str, ...]) -> int:
    return int(compilers.compile_cpp(ANSWER, flags).answer())


def _objects(cache: Path) -> list[Path]:
    return sorted(cache.rglob("*.so"))


def test_each_source_and_its_flags_are_compiled_once(counted: Path, cache: Path) -> None:
    assert _answer("-O1 '-DVALUE=(40 + 2)'") == 42
    assert _answer(("-O1", "-DVALUE=(40 + 2)")) == 42
    assert counted.read_text().count("run") == len(_objects(cache)) == 1
    assert [_answer(f"-DVALUE={value}") for value in (1, 2, 1)] == [1, 2, 1]
    assert compilers.compile_cpp(ANSWER + "// more\n", "-DVALUE=1").answer() == 1
    assert counted.read_text().count("run") == 4


def test_native_code_is_kept_apart_for_each_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def keys() -> tuple[str, str]:
        return compilers._key("", ("-march=native",), "g++"), compilers._key("", ("-O2",), "g++")

    native_here, plain_here = keys()
    monkeypatch.setattr(compilers, "described_cpu", lambda: "another cpu")
    native_there, plain_there = keys()
    assert native_here != native_there
    assert plain_here == plain_there


@pytest.mark.parametrize("damage", ["truncated", "altered"])
def test_a_damaged_object_in_the_cache_is_built_again(cache: Path, damage: str) -> None:
    # Another process fills the cache: this one must not have the object mapped already.
    _in_processes(1, "-DVALUE=7")
    (path,) = _objects(cache)
    whole = path.read_bytes()
    altered = whole[:-1] + bytes([whole[-1] ^ 1])
    path.write_bytes(altered if damage == "altered" else whole[: len(whole) // 3])
    assert _answer("-DVALUE=7") == 7
    assert all(compilers._digest(found) == found.stem for found in _objects(cache))


def test_processes_that_compile_at_once_all_get_a_whole_object(cache: Path) -> None:
    assert _in_processes(3, "-DVALUE=9") == ["9", "9", "9"]
    assert _objects(cache)
    assert not list(cache.rglob("build-*"))
    assert _in_processes(1, "-DVALUE=9") == ["9"]


def _in_processes(count: int, flags: str) -> list[str]:
    code = (
        "import sys; from akg_tui.dsl import compile_cpp; sys.stdin.readline();"
        f"print(compile_cpp({ANSWER!r}, {flags!r}).answer())"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(compilers.__file__).parents[2])},
        )
        for _ in range(count)
    ]
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate(timeout=60) for process in running]
    assert [err for _, err in said] == [""] * count
    return [out.strip() for out, _ in said]


def test_without_a_cache_that_can_be_written_the_kernel_still_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a-file").touch()
    monkeypatch.setenv("AKG_CACHE_DIR", str(tmp_path / "a-file" / "below"))
    assert _answer("-DVALUE=3") == 3


def test_the_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AKG_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compilers.cache_dir() == tmp_path / "akg-tui"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert compilers.cache_dir() == tmp_path / "home" / ".cache" / "akg-tui"


def test_a_compile_error_names_the_line_of_the_source(cache: Path) -> None:
    with pytest.raises(compilers.CompileError, match=r"^C\+\+ line 3: .*missing_name") as caught:
        compilers.compile_cpp('extern "C" int f() {\n  int x = 1;\n  return missing_name;\n}\n')
    assert "\n" not in str(caught.value)
    assert "missing_name" in caught.value.output
    assert not _objects(cache)
    assert not list(cache.rglob("build-*"))


def test_endless_compiler_output_is_cut_and_carries_no_escape_codes() -> None:
    lines = "".join(f'#warning "\x1b[31m{i}\x07"\n' for i in range(2000))
    with pytest.raises(compilers.CompileError) as caught:
        compilers.compile_cpp(lines + "#error end\n")
    assert 0 < len(caught.value.output) <= compilers.OUTPUT_LIMIT
    assert "\x1b" not in caught.value.output
    assert "\x07" not in caught.value.output
    assert "\n" not in str(caught.value)


def test_a_symbol_that_is_nowhere_is_a_compile_error() -> None:
    with pytest.raises(compilers.CompileError, match=r"does not load.*nowhere"):
        compilers.compile_cpp('extern "C" int nowhere(); extern "C" int f() { return nowhere(); }')


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("PATH", "", r"apt install g\+\+.*dnf install gcc-c\+\+.*CXX"),
        ("CXX", "no-such-compiler", "CXX names 'no-such-compiler'"),
        ("CXX", "false", r"false does not run as a C\+\+ compiler"),
    ],
)
def test_without_a_compiler_the_message_names_it_or_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(compilers.CompilerMissing, match=says):
        compilers.compile_cpp(ANSWER, "-DVALUE=1")


def test_importing_the_module_does_not_import_torch() -> None:
    code = "import sys, akg_tui.dsl, akg_tui.resources; print('torch' in sys.modules)"
    assert printed(code) == "False\n"


def test_a_kernel_reads_and_writes_tensors_through_pointers() -> None:
    source = 'extern "C" void twice(float* x, int n) { for (int i = 0; i < n; ++i) x[i] *= 2; }'
    x = torch.arange(5.0)
    compilers.compile_cpp(source).twice(compilers.pointer(x, torch.float32), c_int(5))
    assert torch.equal(x, 2 * torch.arange(5.0))


@pytest.mark.parametrize(
    ("tensor", "says"),
    [
        (torch.zeros(3, 4).T, r"x: is not contiguous \(shape \(4, 3\), stride \(1, 4\)\)"),
        (torch.zeros(2, dtype=torch.float64), "x: is torch.float64, expected torch.float32"),
        ([1.0], "x: expected a tensor, got list"),
        (torch.zeros(2, device="meta"), "x: is on meta"),
    ],
    ids=["strides", "dtype", "list", "device"],
)
def test_what_would_be_misread_is_refused(tensor: torch.Tensor, says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        compilers.pointer(tensor, torch.float32, name="x")


def test_a_fast_math_kernel_leaves_the_arithmetic_of_its_process_alone(cache: Path) -> None:
    script = (
        "from akg_tui.dsl import compile_cpp\n"
        "compile_cpp('extern \"C\" float f(float x) { return x * 0.5f; }', '-O3 -ffast-math')\n"
        "print(5e-324 > 0.0, 1e-310 / 2 > 0.0)\n"
    )
    assert printed(script, AKG_CACHE_DIR=str(cache)) == "True True\n"
