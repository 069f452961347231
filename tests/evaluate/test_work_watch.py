"""Work that a kernel leaves to torch, numpy or a library is named and refused, where tasks say so.

Most spellings are watched in this process; whole evaluations stand for those in C++.
"""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (as kernels call it)
from hypothesis import given
from hypothesis import strategies as st
from torch import nn, softmax

from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.task import Guard
from akg_tui.dsl.compilers import compile_cpp, find_compiler
from akg_tui.evaluate.child import work_watch
from akg_tui.evaluate.child.faults import Fault
from akg_tui.evaluate.protocol.child_protocol import Status
from tests.evaluate.kernels import CPP, REFERENCE, kernel
from tests.judging import Evaluated, quick_task

X, W = torch.randn(64, 64), torch.randn(64, 64)
CALLED = softmax
LINEAR, GELU, NORM, CONV = nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64), nn.Conv1d(64, 64, 1)
STACK = nn.Sequential(LINEAR, nn.ReLU())


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AKG_CACHE_DIR", str(tmp_path))


def second_call(model: Callable[..., object], *arguments: object) -> object:
    watched = work_watch.WatchedModel(model)
    with torch.no_grad():
        watched(*arguments)
        return watched(*arguments)


def in_a_thread(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    worker = threading.Thread(target=lambda: torch.exp(x, out=y))
    worker.start()
    worker.join()
    return y


def row_by_row(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    for row in range(len(x)):
        y[row] = x[row].softmax(0)
    return y


SPELLINGS: dict[str, tuple[str, Callable[[torch.Tensor], object]]] = {
    "torch.softmax": ("aten::softmax", lambda x: torch.softmax(x, -1)),
    "x.softmax": ("aten::softmax", lambda x: x.softmax(-1)),
    "op = torch.softmax": ("aten::softmax", lambda x: CALLED(x, -1)),
    "getattr": ("aten::softmax", lambda x: getattr(torch, "soft" + "max")(x, -1)),
    "partial": ("aten::softmax", functools.partial(torch.softmax, dim=-1)),
    "F.softmax": ("aten::softmax", lambda x: F.softmax(x, -1)),
    "torch.ops": ("aten::_softmax", lambda x: torch.ops.aten._softmax(x, -1, False)),
    "nn.Linear": ("aten::linear", LINEAR),
    "nn.GELU": ("aten::gelu", GELU),
    "nn.LayerNorm": ("aten::layer_norm", NORM),
    "nn.Conv1d": ("aten::conv1d", lambda x: CONV(x[None])[0]),
    "nn.Sequential": ("aten::linear", STACK),
    "F.linear": ("aten::linear", lambda x: F.linear(x, W)),
    "attention": ("aten::scaled_dot_product_attention",
                  lambda x: F.scaled_dot_product_attention(x[None], W[None], W[None])),
    "@": ("aten::matmul", lambda x: x @ W),
    "torch.matmul": ("aten::matmul", lambda x: torch.matmul(x, W)),
    "x.mm": ("aten::mm", lambda x: x.mm(W)),
    "torch.bmm": ("aten::bmm", lambda x: torch.bmm(x[None], W[None])),
    "torch.addmm": ("aten::addmm", lambda x: torch.addmm(W, x, W)),
    "torch.einsum": ("aten::einsum", lambda x: torch.einsum("ij,jk->ik", x, W)),
    "torch.mm(out=)": ("aten::mm", lambda x: torch.mm(x, W, out=torch.empty(64, 64))),
    "exp_": ("aten::exp_", lambda x: x.clone().exp_()),
    "*": ("aten::mul", lambda x: x * 2),
    "+=": ("aten::add_", lambda x: x.clone().__iadd__(1)),
    "sum": ("aten::sum", lambda x: x.sum(-1)),
    "torch.special": ("aten::special_expit", torch.special.expit),
    "torch.linalg": ("aten::linalg_vector_norm", lambda x: torch.linalg.vector_norm(x, dim=-1)),
    "torch._C._nn": ("aten::gelu", torch._C._nn.gelu),
    "a thread": ("aten::exp", in_a_thread),
    "row by row": ("aten::softmax", row_by_row),
    "numpy": ("Tensor.numpy", lambda x: torch.from_numpy(x.numpy() @ W.numpy())),
    "numpy's functions": ("Tensor.numpy", np.sort),
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_work_left_to_torch_or_numpy_is_named(name: str) -> None:
    op, model = SPELLINGS[name]
    with pytest.raises(Fault) as raised:
        second_call(model, X)
    assert raised.value.status is Status.GUARD
    told = str(raised.value).partition(" leaves work to ")[2]
    assert op in told.removesuffix(": write that in the kernel").split(", "), told


HONEST: dict[str, Callable[[torch.Tensor], object]] = {
    "new memory": lambda x: [torch.empty_like(x), torch.zeros(64, 64), x.new_full((3, 3), 1.0)],
    "views": lambda x: [x.t(), x.view(-1), x[3:, ::2], x.expand(2, 64, 64), x.unfold(0, 2, 1)],
    "layouts": lambda x: [x.t().contiguous(), x.t().reshape(-1), x.permute(1, 0).clone()],
    "dtypes": lambda x: [x.double(), x.to(torch.bfloat16), x.type_as(torch.empty(0).half())],
    "copies": lambda x: [torch.empty(64, 128)[:, :64].copy_(x)],
    "numbers": lambda x: [x[0, 0].item(), bool(torch.zeros(()) == 0), x.numel(), x.tolist()],
    "offsets": lambda x: torch.tensor([3, 4]).cumsum(0),
}


@pytest.mark.parametrize("name", HONEST)
def test_memory_layouts_dtypes_and_offsets_may_be_torch_s(name: str) -> None:
    second_call(HONEST[name], X)


def test_weights_may_be_packed_by_torch_at_the_first_call() -> None:
    packed: list[torch.Tensor] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        if not packed:
            packed.append(W * torch.rsqrt(W.var(0) + 1e-5))
        return x.clone()

    second_call(model, X)


def test_torch_is_as_it_was_after_a_call_that_raised() -> None:
    before = torch.Tensor.numpy
    watched = work_watch.WatchedModel(lambda x: x if watched._calls == 1 else 1 / 0)
    watched(X)
    with pytest.raises(ZeroDivisionError):
        watched(X)
    assert torch.Tensor.numpy is before


def test_the_symbols_that_a_library_needs_are_read() -> None:
    library = compile_cpp('#include <cmath>\nextern "C" double f(double x) { return std::exp(x); }')
    symbols = work_watch.undefined_symbols(Path(library._name).read_bytes())
    assert "exp" in symbols
    assert "f" not in symbols
    assert work_watch.undefined_symbols(b"text") == []


BLAS = """
extern "C" void cblas_sgemm(int, int, int, int, int, int, float, const float*, int, const float*,
                            int, float, float*, int);
extern "C" void sgemm(const float* x, float* y, int n) {
  cblas_sgemm(101, 111, 111, n, n, n, 1, x, n, x, n, 0, y, n);
}
"""


@functools.cache
def library_of_blas() -> bytes:
    """Return a library that was linked without the one that it needs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "product.so"
        command = [*find_compiler(), "-shared", "-fPIC", "-x", "c++", "-", "-o", str(path)]
        subprocess.run(command, input=BLAS.encode(), check=True)
        return path.read_bytes()


def test_blas_is_found_by_the_symbols_of_a_library(tmp_path: Path) -> None:
    (tmp_path / "built").mkdir()
    (tmp_path / "built" / "product.so").write_bytes(library_of_blas())
    assert work_watch.needed(tmp_path) == ["cblas_sgemm"]
    with pytest.raises(Fault, match="leaves work to cblas_sgemm"):
        second_call(torch.clone, X)


def test_blas_is_found_by_the_name_that_a_library_looks_up(tmp_path: Path) -> None:
    source = """
        #include <dlfcn.h>
        extern "C" void* look() { return dlsym(RTLD_DEFAULT, "sgemm_"); }
    """
    library = compile_cpp(source, "-ldl")
    assert tmp_path in Path(library._name).parents
    assert work_watch.needed(tmp_path) == ["sgemm_"]


@given(st.binary(max_size=200), st.integers(0, 4000), st.integers(0, 4000))
def test_a_damaged_library_is_read_without_an_error(more: bytes, start: int, at: int) -> None:
    whole = library_of_blas()
    work_watch.undefined_symbols(whole[:64] + more)
    work_watch.undefined_symbols(whole[:at] + more + whole[at + len(more) :])
    work_watch.undefined_symbols(whole[: -1 - start])


def test_blas_is_found_by_what_ctypes_is_asked_for() -> None:
    asked = work_watch.asked_of_ctypes()
    library = ctypes.CDLL(None)
    assert library.strlen(b"abc") == 3
    with pytest.raises(AttributeError):
        _ = library.cblas_sgemm
    assert asked == ["cblas_sgemm"]


WORKING = msgspec.structs.replace(
    quick_task(build_timeout_s=300.0), guard=Guard(kernel_must_do_the_work=True)
)
DECOY = """
from akg_tui.dsl import compile_cpp

LIBRARY = compile_cpp('extern "C" void touch() {}')
"""
IN_CPP = """
import torch.utils.cpp_extension as extension
from akg_tui.dsl import compile_cpp, pointer

SOURCE = '''
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <cstring>
#include <thread>
extern "C" void rows(float* x, float* y, long rows, long columns) {
  auto work = [=] {
    int64_t sizes[] = {rows, columns}, strides[] = {columns, 1};
    AtenTensorHandle given, made;
    void* result;
    aoti_torch_create_tensor_from_blob(x, 2, sizes, strides, 0, aoti_torch_dtype_float32(),
                                       aoti_torch_device_type_cpu(), 0, &given);
    StableIValue stack[] = {reinterpret_cast<StableIValue>(given), StableIValue(-1), 0};
    aoti_torch_call_dispatcher("aten::softmax", "int", stack);
    made = reinterpret_cast<AtenTensorHandle>(stack[0]);
    aoti_torch_get_data_ptr(made, &result);
    std::memcpy(y, result, rows * columns * sizeof(float));
    aoti_torch_delete_tensor_object(made);
  };
  std::thread(work).join();
}
'''
FLAGS = [f"-I{path}" for path in extension.include_paths()]
FLAGS += [f"-L{path}" for path in extension.library_paths()]
LIBRARY = compile_cpp(SOURCE, " ".join(["-std=c++20", *FLAGS, "-ltorch_cpu", "-lc10"]))
"""


@pytest.mark.parametrize(
    "source",
    [
        kernel("LIBRARY.touch()", "return torch.nn.Softmax(-1)(x)", before=DECOY),
        kernel(
            "x, y = x.contiguous(), torch.empty_like(x)",
            "LIBRARY.rows(pointer(x), pointer(y), *map(ctypes.c_long, x.shape))",
            "return y",
            before=IN_CPP,
        ),
    ],
    ids=["modules", "C++"],
)
def test_a_kernel_that_leaves_its_work_to_torch_is_refused(
    evaluated: Evaluated, source: str
) -> None:
    found = evaluated(WORKING, REFERENCE, source, timed=False)
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.GUARD), found
    assert found.message == (
        "the task says kernel_must_do_the_work, and the kernel leaves work to aten::softmax: "
        "write that in the kernel"
    )


def test_a_kernel_that_does_its_work_is_accepted(evaluated: Evaluated) -> None:
    found = evaluated(WORKING, REFERENCE, CPP, timed=False)
    assert found.outcome is Outcome.CORRECT, found
