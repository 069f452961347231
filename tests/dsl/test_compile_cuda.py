"""CUDA C++ in a string: finding nvcc, the cache, errors, and calls with tensors.

A contract fake of nvcc compiles host code; the real one is used where it is there.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest
import torch

from akg_tui.dsl import compilers
from akg_tui.dsl.cuda_calls import BadDeclaration, CudaError, CudaLibrary, read_functions
from akg_tui.evaluate.child import faults
from tests.dsl import fake_nvcc

REAL = compilers.find_nvcc()
SOURCE = """\
extern "C" cudaError_t scale(const float *x, float *y, int64_t n, double factor, float add,
                             const uint8_t *mask, cudaStream_t stream) {
  // void scale(int wrong) { the comment is no declaration }
  if (n < 0) { fake_error = 9; return cudaSuccess; }
  if (n == 0) return 13;
  for (int64_t at = 0; at < n; ++at) y[at] = mask[at] ? factor * x[at] + add : 0;
  return stream ? 17 : 0;
}
extern "C" int answer() { return ANSWER; }
"""


@pytest.fixture
def nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make $NVCC the fake, with an own cache; return the file that lists its calls."""
    log, script = tmp_path / "calls", tmp_path / "nvcc"
    log.touch()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{fake_nvcc.__file__}" "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("AKG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_NVCC_LOG", str(log))
    monkeypatch.setenv("NVCC", str(script))
    return log


def built(flags: str = "-arch=sm_90 -DANSWER=42", source: str = SOURCE) -> CudaLibrary:
    return compilers.compile_cuda(source, ["scale", "answer"], flags)


def in_host_memory(library: CudaLibrary) -> CudaLibrary:
    """The same library for tensors of the CPU."""
    return CudaLibrary(library.library, read_functions(SOURCE, ["scale", "answer"]), place="cpu")


def test_a_source_is_compiled_once_for_its_text_and_flags(nvcc: Path) -> None:
    assert built().answer() == built().answer() == 42
    assert built("-arch=sm_90 -DANSWER=43").answer() == 43
    builds = [line for line in nvcc.read_text().splitlines() if "-shared" in line]
    assert len(builds) == 2
    assert "-std=c++17 -Xcompiler=-fPIC" in builds[0]


def test_tensors_are_passed_by_address_and_numbers_by_the_type_in_the_source(nvcc: Path) -> None:
    library = in_host_memory(built())
    x, y = torch.tensor([1.0, 2.0, 3.0]), torch.zeros(3)
    mask = torch.tensor([1, 0, 1], dtype=torch.uint8)
    # Without the stream; seven arguments in registers and on the stack.
    library.scale(x, y, 3, 2, 0.5, mask)
    assert y.tolist() == [2.5, 0.0, 6.5]
    with pytest.raises(CudaError, match="scale returned CUDA's error 17"):
        library.scale(x, y, 3, 2, 0.5, mask, 1)


def test_what_would_be_misread_is_refused_before_the_call(nvcc: Path) -> None:
    library = in_host_memory(built())
    x, mask = torch.ones(2, 2), torch.ones(4, dtype=torch.uint8)
    with pytest.raises(TypeError, match=r"y: is torch.float64, expected torch.float32"):
        library.scale(x, x.double(), 4, 1.0, 0.0, mask)
    with pytest.raises(ValueError, match=r"x: is not contiguous .*\.contiguous\(\)"):
        library.scale(x.T, x, 4, 1.0, 0.0, mask)
    with pytest.raises(TypeError, match=r"takes 6 arguments \(x, y, n, factor, add, mask\), not 2"):
        library.scale(x, x)
    with pytest.raises(ctypes.ArgumentError):
        library.scale(x, x, 1.5, 1.0, 0.0, mask)
    with pytest.raises(ValueError, match="x: is on cpu, expected cuda"):
        built().scale(x, x, 4, 1.0, 0.0, mask, 0)
    with pytest.raises(AttributeError, match="no function other: name it in `functions`"):
        library.other()


def test_a_launch_that_fails_raises_what_the_runtime_says(nvcc: Path) -> None:
    library = in_host_memory(built())
    x, mask = torch.ones(1), torch.ones(1, dtype=torch.uint8)
    with pytest.raises(CudaError, match="scale: CUDA says: invalid configuration argument"):
        library.scale(x, x, -1, 1.0, 0.0, mask)
    with pytest.raises(CudaError, match="returned CUDA's error 13"):
        library.scale(x, x, 0, 1.0, 0.0, mask)


def test_it_is_compiled_for_the_gpu_that_is_there_unless_a_flag_states_another(
    nvcc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(compilers.CompileError, match="torch finds no GPU to compile for"):
        built("-DANSWER=1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    built("-DANSWER=1")
    assert "-gencode=arch=compute_90a,code=sm_90a -DANSWER=1" in nvcc.read_text()
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 0))
    built("-DANSWER=1")
    assert "-gencode=arch=compute_80,code=sm_80 -DANSWER=1" in nvcc.read_text()
    flags = ("-O3", "-gencode", "arch=compute_80,code=sm_80", "-arch=sm_90", "-code=sm_90", "-G")
    assert compilers.without_arch(flags) == ("-O3", "-G")


def test_an_error_has_the_line_of_the_python_file(nvcc: Path, tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    text = (
        "from akg_tui.dsl import compile_cuda\n\nSOURCE = '''\n"
        + SOURCE.replace("return 13", "return missing_name")
        + "'''\nlibrary = compile_cuda(SOURCE, ['scale'], '-arch=sm_90')\n"
    )
    faults.remember_source(str(file), text)
    with pytest.raises(compilers.CompileError) as caught:
        exec(compile(text, str(file), "exec"), {})
    assert str(caught.value).startswith("CUDA line 6: ")
    line = str(faults.describe(caught.value, [str(file)]))
    wrong = next(n for n, row in enumerate(text.splitlines(), 1) if "missing_name" in row)
    assert line.startswith(f"{file}:{wrong}: CUDA line 6: ")
    assert "missing_name" in line


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("int other() { return 0; }", 'CUDA: the source defines no function extern "C" … f'),
        ('\nextern "C" void f(dim3 x) {}', r"CUDA line 2: f takes 'dim3 x': expected a pointer"),
        ('extern "C" std::string f() {}', "CUDA line 1: f returns std::string: expected void"),
    ],
)
def test_a_function_that_cannot_be_called_is_refused_before_it_is_compiled(
    source: str, says: str, nvcc: Path
) -> None:
    with pytest.raises(compilers.CompileError, match=says):
        compilers.compile_cuda(source, ["f"], "-arch=sm_90")
    assert nvcc.read_text() == ""


def test_a_function_without_c_linkage_is_told(nvcc: Path) -> None:
    with pytest.raises(
        compilers.CompileError, match=r'f is compiled as C.*define it as extern "C"'
    ):
        compilers.compile_cuda("void f() {}", ["f"], "-arch=sm_90")


def test_declarations_are_read_as_a_compiler_reads_them() -> None:
    (function,) = read_functions(
        """
        extern "C" {
        /* void g(int) { */ void other(float);
        cudaError_t
        g(const float *__restrict__ x, __half* y, std::int64_t n, unsigned int k,
          unsigned char mask[], float, unsigned, void const *const p, float **q, const int *i,
          const __nv_fp8_e4m3 *w, size_t size = 0, cudaStream_t stream = nullptr) { return 0; }
        }""",
        ["g"],
    )
    pointers = {each.name: each.dtype for each in function.parameters if each.is_pointer}
    assert pointers == {
        "x": "float32", "y": "float16", "mask": "uint8", "p": "", "q": "", "i": "int32",
        "w": "float8_e4m3fn",
    }  # fmt: skip
    numbers = [each.kind for each in function.parameters if not each.is_pointer][:-1]
    assert numbers == [
        ctypes.c_int64, ctypes.c_uint, ctypes.c_float, ctypes.c_uint, ctypes.c_size_t,
    ]  # fmt: skip
    assert function.parameters[-1].is_stream
    assert function.returns == "cudaError_t"
    with pytest.raises(BadDeclaration):
        read_functions('extern "C" void g(int x);', ["g"])


def test_nvcc_is_looked_for_where_it_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NVCC", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    places = {
        "packages": tmp_path / "site/nvidia/cu13/bin/nvcc",
        "CUDA_HOME": tmp_path / "toolkit/bin/nvcc",
        "PATH": tmp_path / "path/nvcc",
        "NVCC": tmp_path / "own/nvcc",
    }
    for path in places.values():
        path.parent.mkdir(parents=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(compilers, "CUDA_ROOTS", ())
    monkeypatch.setattr(compilers.sysconfig, "get_path", lambda _: str(tmp_path / "site"))
    assert compilers.find_nvcc() == str(places["packages"])
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    assert compilers.find_nvcc() == str(places["CUDA_HOME"])
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert compilers.find_nvcc() == str(places["PATH"])
    monkeypatch.setenv("NVCC", str(places["NVCC"]))
    assert compilers.find_nvcc() == str(places["NVCC"])
    monkeypatch.setenv("NVCC", "no-such-nvcc")
    with pytest.raises(
        compilers.CompilerMissing, match="NVCC names 'no-such-nvcc', which can't be run"
    ):
        compilers.nvcc()


@pytest.mark.skipif(not REAL, reason="nvcc is not here")
def test_the_real_nvcc_compiles_for_a_gpu_and_tells_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AKG_CACHE_DIR", str(tmp_path))
    source = (fake_nvcc.RECORDED / "scale.cu").read_text()
    library = compilers.compile_cuda(source, ["scaled"], "-O3 -gencode=arch=compute_80,code=sm_80")
    if not torch.cuda.is_available():
        with pytest.raises(CudaError, match="scaled: CUDA says: "):
            library.scaled(None, None, 1, 1.0, 1, None)
    with pytest.raises(compilers.CompileError, match=r"^CUDA line 9: .*missing_name"):
        compilers.compile_cuda(source.replace("v.x", "missing_name"), ["scaled"], "-arch=sm_80")
