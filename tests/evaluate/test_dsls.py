"""What the guard and the compilers' reports say of kernels, by DSL; nothing is run."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from akg_tui import resources
from akg_tui.core.task import Dsl, Guard, Target, Task
from akg_tui.dsl import compilers
from akg_tui.dsl.adapters import DSLS
from akg_tui.dsl.adapters.triton import INTERPRETED
from akg_tui.evaluate import static_guard
from akg_tui.evaluate.targets import TARGETS, adapters
from tests.evaluate import cuda_kernels
from tests.evaluate import triton_kernels as kernels
from tests.evaluate.ascend_records import COMPILER_REFUSES
from tests.evaluate.kernels import REFERENCE, kernel
from tests.judging import Evaluated, quick_task


def task(name: Dsl, *, working: bool = False) -> Task:
    rules = Guard(kernel_must_do_the_work=working)
    return Task(op="x", target=Target(dsl=name), guard=rules)


def remarks(source: str, of: Task) -> dict[str, bool]:
    """The rules that found something, and whether that is reason to refuse."""
    return {each.rule: each.refused for each in static_guard.findings(source, of)}


@pytest.mark.parametrize("working", [False, True])
def test_an_honest_kernel_in_triton_gets_no_remark(working: bool) -> None:
    assert remarks(kernels.GOOD, task("triton", working=working)) == {}


@pytest.mark.parametrize("name", [n for n in resources.sample_names() if n.endswith("_triton")])
def test_the_samples_in_triton_get_no_remark_where_the_kernel_must_do_the_work(name: str) -> None:
    source = (resources.sample(name) / "kernel.py").read_text("utf-8")
    assert remarks(source, task("triton", working=True)) == {}


def test_a_task_in_triton_wants_a_kernel_in_triton() -> None:
    assert remarks(kernels.NOT_TRITON, task("triton")) == {}
    assert remarks(kernels.NOT_TRITON, task("triton", working=True)) == {"dsl": True}


@pytest.mark.parametrize(
    "decorator",
    [
        "@triton.jit(debug=True)",
        "@triton.autotune(configs=[], key=[])\n@triton.jit",
        "@triton.heuristics({})\n@triton.jit",
        "@jit",
    ],
)
def test_a_kernel_may_be_decorated_in_other_ways(decorator: str) -> None:
    source = "from triton import jit\n" + kernels.changed("@triton.jit", decorator)
    assert remarks(source, task("triton", working=True)) == {}


def test_changing_triton_for_others_is_refused() -> None:
    source = kernels.changed(
        "import triton.language as tl\n",
        "import triton.language as tl\ntriton.language.exp = None\ntriton.knobs.cache.dir = 'x'\n",
    )
    found = static_guard.findings(source, task("triton"))
    assert [(each.rule, each.refused) for each in found] == [("patch", True)]


@pytest.mark.parametrize("working", [False, True])
def test_an_honest_kernel_in_cuda_gets_no_remark(working: bool) -> None:
    assert remarks(cuda_kernels.GOOD, task("cuda_cpp", working=working)) == {}
    inline = cuda_kernels.GOOD.replace(
        'compile_cuda(SOURCE, ["softmax"], "-O3")',
        'load_inline("k", cpp_sources="", cuda_sources=SOURCE, functions=["softmax"])',
    ).replace("from akg_tui.dsl import compile_cuda",
              "from torch.utils.cpp_extension import load_inline")  # fmt: skip
    assert remarks(inline, task("cuda_cpp", working=working)) == {}


def test_a_task_in_cuda_wants_cuda() -> None:
    of = task("cuda_cpp", working=True)
    assert remarks(cuda_kernels.NO_CUDA, of) == {"dsl": True}
    assert remarks(cuda_kernels.NO_CUDA, task("cuda_cpp")) == {}
    for_host = cuda_kernels.NO_CUDA.replace(
        "import torch\n", "import torch\nfrom akg_tui.dsl import compile_cpp\n"
        "library = compile_cpp('')\n", 1)  # fmt: skip
    assert remarks(for_host, of) == {"dsl": True}


def test_cuda_lacks_a_gpu_or_nvcc_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = DSLS["cuda_cpp"]
    assert adapter.lacking("cpu").endswith('runs on a GPU of NVIDIA: backend = "cuda", not "cpu"')
    script = tmp_path / "toolkit" / "bin" / "nvcc"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.5, V13.5.37'\n")
    script.chmod(0o755)
    monkeypatch.setenv("NVCC", str(script))
    assert adapter.lacking("cuda") == ""
    assert adapter.versions("cuda") == {"nvcc": "13.5, V13.5.37"}
    root = str(tmp_path / "toolkit")
    assert adapter.environment("cuda") == {"NVCC": str(script), "CUDA_HOME": root}
    assert root in adapter.readable()
    monkeypatch.setenv("NVCC", "no-such-nvcc")
    told = adapter.lacking("cuda")
    assert "NVCC names 'no-such-nvcc'" in told
    assert "pip install nvidia-cuda-nvcc" in told
    assert adapter.toolchain_lacking()
    assert adapter.environment("cuda") == {}


def test_times_are_taken_wherever_the_code_runs_itself() -> None:
    timed = {(name, target): not each.untimed(target) for name, each in DSLS.items()
             for target in TARGETS}  # fmt: skip
    assert [pair for pair, is_timed in timed.items() if not is_timed] == [
        ("triton", "cpu"), ("helion", "cpu"),
    ]  # fmt: skip
    assert DSLS["triton"].untimed("cpu") == INTERPRETED


def test_only_a_task_in_triton_or_helion_loads_triton() -> None:
    for name, each in DSLS.items():
        for target in TARGETS:
            asks = [*each.preloaded(target), *each.environment(target), *each.versions(target)]
            on_triton = name in ("triton", "helion")
            assert on_triton or (name, target) == ("cuda_cpp", "cuda") or not asks
            assert any("triton" in asked.lower() for asked in asks) is on_triton


def test_a_missing_triton_is_told_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install 'akg-tui[triton]'" in adapters.lacking(task("triton"))
    assert adapters.lacking(task("cpp")) == ""


def test_the_start_path_imports_neither_torch_nor_triton() -> None:
    script = (
        "import sys, akg_tui.cli, akg_tui.tui.app, akg_tui.evaluate\n"
        "import akg_tui.evaluate.targets.adapters\n"
        "print(sorted({'torch', 'triton'} & {name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_another_tasks_process_never_holds_triton(evaluated: Evaluated) -> None:
    lines = "assert 'triton' not in sys.modules, 'loaded'", "return torch.softmax(x, -1)"
    found = evaluated(quick_task(), REFERENCE, kernel(*lines), timed=False)
    assert found.outcome == "correct", found


def test_a_compiler_of_cpp_reports_its_own_errors_and_no_others(tmp_path: Path) -> None:
    told = DSLS["cpp"].report(compilers.CompileError("C++ line 3: what", "all of it"))
    assert told is not None
    assert (told.kind, told.text, told.output) == ("build", "C++ line 3: what", "all of it")
    missing = DSLS["cpp"].report(compilers.CompilerMissing("no compiler"))
    assert missing is not None
    assert missing.kind == "toolchain"
    assert DSLS["cpp"].report(ValueError("what")) is None


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is for Linux")
def test_tritons_compiler_and_interpreter_report_their_own_errors() -> None:
    from triton.compiler.errors import CompilationError
    from triton.runtime.errors import InterpreterError

    triton = DSLS["triton"]
    told = triton.report(CompilationError("a = b\n", ast.parse("a = b").body[0], "no such name"))
    assert told is not None
    assert told.kind == "build"
    assert told.text.startswith("Triton does not compile: ")
    inner = ValueError("range")
    outer = InterpreterError("ValueError('range')")
    outer.__cause__ = inner
    told = triton.report(outer)
    assert told is not None
    assert (told.kind, told.text, told.at) == ("call", "ValueError: range", inner)
    assert triton.report(ValueError("what")) is None


def test_what_ascends_compiler_refuses_is_told_in_its_own_words() -> None:
    """A contract fake: triton-ascend is not installed, its exception is one by name and module."""
    refused = type("MLIRCompilationError", (Exception,), {"__module__": "triton.compiler.errors"})
    told = DSLS["triton"].report(refused(COMPILER_REFUSES))
    assert told is not None
    assert told.kind == "build"
    assert "ub overflow, requires 3145984 bits while 1572864 bits available!" in told.text
    assert "///" not in told.text + told.output
