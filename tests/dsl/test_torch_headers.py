"""Torch's precompiled headers, with a small header in torch's place and the real compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import types
from pathlib import Path

import pytest

from akg_tui.core.measurement import Outcome
from akg_tui.dsl import torch_headers
from akg_tui.dsl.torch_headers import HEADER, VARIABLE, Flags, TorchHeaders, key
from akg_tui.evaluate import Judge
from tests.evaluate.kernels import kernel

KERNEL = """
from torch.utils.cpp_extension import load_inline
SOURCE = "torch::Tensor made();"
FLAGS = ["-O3", "-march=native"]
ext = load_inline("ext", SOURCE, extra_cflags={flags})
"""


THIRD = "#pragma once\ninline int third(int x) { return x / 3; }\n"


def is_gcc() -> bool:
    if not shutil.which("c++") or os.environ.get("CXX"):
        return False
    said = subprocess.run(["c++", "--version"], capture_output=True, text=True, check=True)
    return "Free Software Foundation" in said.stdout


needs_gcc = pytest.mark.skipif(not is_gcc(), reason="only GCC's headers are precompiled")


@pytest.fixture
def headers(tmp_path: Path) -> TorchHeaders:
    header = tmp_path / "include" / HEADER
    header.parent.mkdir(parents=True)
    half = "inline int half(int x) { return x / 2; }\n"
    header.write_text(f"#pragma once\n#include <torch/types.h>\n{half}")
    header.with_name("types.h").write_text(THIRD)
    return TorchHeaders(tmp_path / "home", [str(tmp_path / "include")])


NINTH = "int ninth(int x) { return third(third(x)); }"
QUARTER = "int quarter(int x) { return half(half(x)); }"


def used_by_build(includes: Path, flags: Flags, source: str = NINTH) -> list[str]:
    """Return the folder of the header that each compiler of a build used; "": it read text."""
    used = []

    def load_inline(name: str, cpp_sources: str, extra_cflags: Flags | None = None) -> None:
        (includes / "main.cpp").write_text(f"#include <{HEADER}>\n{cpp_sources}\n")
        command = ["c++", "-H", "-isystem", str(includes), *torch_headers._TORCH_FLAGS]
        command += [*(extra_cflags or ()), "-c", "main.cpp", "-o", "main.o"]
        ran = subprocess.run(command, cwd=includes, check=False, capture_output=True, text=True)
        # GCC marks a precompiled header that it uses with an exclamation mark (-H).
        first = ran.stderr.splitlines()[0]
        used.append(Path(first[2:]).parts[-3] if first.startswith("! ") else "")
        if ran.returncode:
            raise RuntimeError(ran.stderr)

    versioner = types.SimpleNamespace(entries={"x": 0})
    module = types.SimpleNamespace(load_inline=load_inline, JIT_EXTENSION_VERSIONER=versioner)
    torch_headers.use(module)
    module.load_inline("x", source, extra_cflags=flags)
    # A build is done again only if torch forgets the failed one.
    assert (len(used) == 2) == (not versioner.entries)
    return used


def compiled(headers: TorchHeaders, flags: Flags) -> bool:
    return headers.precompile(flags, lambda: None)


@needs_gcc
def test_a_build_uses_the_header_of_equal_flags_and_no_other(
    headers: TorchHeaders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(headers.folder))
    monkeypatch.delenv("CPATH", raising=False)
    include = tmp_path / "include"
    assert used_by_build(include, ("-O2",)) == [""]
    assert compiled(headers, ("-O2",))
    made = [key(("-O2",))]
    assert used_by_build(include, ("-O2",)) == made
    assert used_by_build(include, ("-O2", "-Wall", "-DBLOCK=64")) == made
    # GCC would take it, and compile the header's functions as -O2 does.
    assert used_by_build(include, ("-O3",)) == [""]
    assert used_by_build(include, ("-O2", "-fno-builtin")) == [""]
    assert "CPATH" not in os.environ


@needs_gcc
def test_what_the_header_lacks_is_built_with_the_text(
    headers: TorchHeaders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(headers.folder))
    include, flags = tmp_path / "include", ("-O2",)
    text = KERNEL.format(flags='["-O2"]')
    assert headers.missing(text) == [flags]
    assert compiled(headers, flags)
    assert headers.missing(text) == []
    assert TorchHeaders(tmp_path / "home", [str(include)]).missing(text) == []
    assert used_by_build(include, flags, QUARTER) == [key(flags), ""]
    assert used_by_build(include, flags, f"{QUARTER} // torch::nn") == [""]


@pytest.mark.parametrize(
    ("text", "suits"),
    [
        ("torch::Tensor f(torch::Tensor x) { return torch::softmax(x, -1); }", True),
        ("auto o = torch::TensorOptions().dtype(torch::kFloat);", True),
        ("torch::nn::functional::relu(x)", False),
        ("torch :: optim :: Adam", False),
        ("using namespace torch;", False),
        ("#include <torch/torch.h>", False),
    ],
)
def test_a_name_of_the_frontend_needs_more_than_the_header(text: str, suits: bool) -> None:
    named = torch_headers.named_in(f"torch.utils.cpp_extension.load_inline('x', {text!r})")
    assert named == [()] * suits


@needs_gcc
def test_a_header_that_has_changed_is_precompiled_anew(
    headers: TorchHeaders, tmp_path: Path
) -> None:
    text, include = KERNEL.format(flags="[]"), tmp_path / "include"
    assert compiled(headers, ())
    (include / "torch" / "types.h").write_text(THIRD + "\n")
    later = TorchHeaders(tmp_path / "home", [str(include)])
    assert later.missing(text) == [()]
    assert compiled(later, ())
    assert later.missing(text) == []


@needs_gcc
def test_what_does_not_compile_is_tried_once(headers: TorchHeaders, tmp_path: Path) -> None:
    (tmp_path / "include" / "torch" / "types.h").write_text("#error no\n")
    assert not compiled(headers, ())
    assert headers.missing(KERNEL.format(flags="[]")) == []
    assert headers.folder is not None
    assert not list(headers.folder.iterdir())


@needs_gcc
def test_a_user_without_a_home_builds_without_them(
    tmp_path: Path, headers: TorchHeaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    homeless = TorchHeaders(torch_headers.home(), [str(tmp_path / "include")])
    assert not compiled(homeless, ())


@needs_gcc
def test_a_cancellation_ends_the_compiler_and_leaves_nothing(headers: TorchHeaders) -> None:
    class Cancelled(Exception):
        pass

    def cancel() -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        headers.precompile((), cancel)
    assert headers.folder is not None
    assert not list(headers.folder.iterdir())


@needs_gcc
def test_what_was_not_used_for_longest_is_removed_first(
    headers: TorchHeaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compiled(headers, ("-O1",))
    assert compiled(headers, ("-O2",))
    assert headers.folder is not None
    for flags, at in (("-O1", 2e9), ("-O2", 1e9)):
        os.utime(headers.folder / key((flags,)) / "stamp.json", (at, at))
    size = (headers.folder / key(("-O1",)) / f"{HEADER}.gch").stat().st_size
    monkeypatch.setattr(torch_headers, "KEPT_BYTES", int(2.5 * size))
    assert compiled(headers, ("-O3",))
    assert {path.name for path in headers.folder.iterdir()} == {key(("-O1",)), key(("-O3",))}


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ("['-O2', '-Wall', '-DBLOCK=4']", [("-O2",)]),
        ("FLAGS", [("-O3", "-march=native")]),
        ("['-O3', '-DNDEBUG', '-ffast-math', '-fopenmp']",
         [("-O3", "-DNDEBUG", "-ffast-math", "-fopenmp")]),
        ("None", []),
        ("[f'-O{LEVEL}']", []),
        ("['-fplugin=/tmp/evil.so']", []),
        ("['-include', '/etc/shadow']", []),
        ("['-O2', '-o', '/tmp/x']", []),
        ("['-wrapper', 'sh']", []),
        ("['-Wp,-DNDEBUG']", []),
        ("['-march=../x']", []),
    ],
)  # fmt: skip
def test_only_known_flags_reach_the_compiler_outside_the_sandbox(
    flags: str, found: list[Flags]
) -> None:
    assert torch_headers.named_in(KERNEL.format(flags=flags)) == found


def test_a_text_without_torchs_headers_asks_for_none() -> None:
    assert torch_headers.named_in("import torch") == []
    bare = KERNEL.format(flags="[]").replace("SOURCE,", "SOURCE, no_implicit_headers=True,")
    assert torch_headers.named_in(bare) == []


@pytest.mark.asyncio(loop_scope="session")
async def test_a_kernel_reads_the_headers_and_cannot_write_there(judge: Judge) -> None:
    lines = (
        "from torch.utils import cpp_extension", "home = os.path.dirname(os.environ[VARIABLE])",
        "os.listdir(home)", "try:", "    open(os.path.join(home, 'x'), 'w')",
        "except PermissionError: pass", "except OSError as error: assert error.errno == 30",
        "else: raise AssertionError('written')", "return torch.softmax(x, -1)",
    )  # fmt: skip
    source = f"import os\nVARIABLE = {VARIABLE!r}\n" + kernel(*lines)
    if not is_gcc():
        pytest.skip("only GCC's headers are precompiled")
    found = await judge.probe(source, timed=False)
    assert found.outcome is Outcome.CORRECT, found
