"""Ascend C in a string: finding bisheng, the cache, errors, calls, and what the guard says.

CANN is not here: a contract fake of bisheng compiles the kernels for the host.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from akg_tui.core.task import Guard, Target, Task
from akg_tui.dsl import compilers
from akg_tui.dsl.adapters import DSLS
from akg_tui.dsl.cuda_calls import CudaError, CudaLibrary, read_functions
from akg_tui.evaluate import static_guard
from akg_tui.evaluate.child import faults
from tests.dsl import fake_bisheng

SOURCE = """\
#include "acl/acl.h"
#include "kernel_operator.h"
extern "C" __global__ __aicore__ void scale_kernel(GM_ADDR x, GM_ADDR y, int32_t n, float factor) {
  auto from = (__gm__ float *)x, to = (__gm__ float *)y;
  for (int32_t at = AscendC::GetBlockIdx(); at < n; at += AscendC::GetBlockNum())
    to[at] = factor * from[at];
}
extern "C" aclError scale(void *x, void *y, int32_t n, float factor, uint32_t blocks,
                          aclrtStream stream) {
  if (n == 0) return 507018;
  scale_kernel<<<blocks, nullptr, stream>>>((GM_ADDR)x, (GM_ADDR)y, n, factor);
  return 0;
}
"""
KERNEL = f'''
import torch
from akg_tui.dsl import compile_ascendc

SOURCE = r"""
{SOURCE}"""
library = compile_ascendc(SOURCE, ["scale"], "-O2")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        library.scale(x, y, x.numel(), 2.0, 40)
        return y
'''


@pytest.fixture
def bisheng(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make $BISHENG the fake, with an own cache; return the file that lists its calls."""
    log, script = tmp_path / "calls", tmp_path / "bisheng"
    log.touch()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{fake_bisheng.__file__}" "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("AKG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_BISHENG_LOG", str(log))
    monkeypatch.setenv("BISHENG", str(script))
    return log


def test_a_kernel_is_compiled_once_and_called_with_tensors_and_numbers(bisheng: Path) -> None:
    for _ in range(2):
        library = compilers.compile_ascendc(SOURCE, ["scale"], "-O2 --npu-arch=dav-2201")
    builds = [line for line in bisheng.read_text().splitlines() if "kernel.asc" in line]
    assert builds == [
        "-shared -fPIC -fdiagnostics-color=never -O2 --npu-arch=dav-2201 kernel.asc -o kernel.so"
    ]
    on_host = CudaLibrary(library.library, read_functions(SOURCE, ["scale"]), place="cpu")
    x, y = torch.arange(100.0), torch.zeros(100)
    on_host.scale(x, y, 100, 0.5, 7)
    assert torch.equal(y, x / 2)
    with pytest.raises(CudaError, match="scale returned CANN's error 507018"):
        on_host.scale(x, y, 0, 0.5, 7)
    with pytest.raises(ValueError, match="x: is on cpu, expected npu"):
        library.scale(x, y, 100, 0.5, 7)


def test_an_error_has_the_line_of_the_python_file(bisheng: Path, tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    text = KERNEL.replace("to[at] = factor", "to[at] = no_such_factor")
    text = text.replace('"-O2"', '"--npu-arch=dav-2201"')
    faults.remember_source(str(file), text)
    with pytest.raises(compilers.CompileError) as raised:
        exec(compile(text, str(file), "exec"), {})
    told = str(faults.describe(raised.value, [str(file)]))
    wrong = next(n for n, row in enumerate(text.splitlines(), 1) if "no_such_factor" in row)
    assert told.startswith(f"{file}:{wrong}: Ascend C line 7: ")
    assert "no_such_factor" in told
    with pytest.raises(compilers.CompileError, match="Ascend C: the source defines no function"):
        compilers.compile_ascendc(SOURCE, ["scales"])


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("Ascend910B3", "dav-2201"),
        ("Ascend910_9382", "dav-2201"),
        ("Ascend910_9579", "dav-3510"),
        ("Ascend310P3", "dav-2002"),
        ("Ascend910A", "dav-1001"),
    ],
)
def test_it_is_compiled_for_the_npu_that_is_there(
    name: str, arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    npu = SimpleNamespace(get_device_name=lambda: name)
    monkeypatch.setattr(torch, "get_device_module", lambda device: npu)
    assert compilers.npu_arch() == arch
    npu.get_device_name = lambda: "Ascend123"
    with pytest.raises(compilers.CompileError, match="of Ascend123 no architecture is known"):
        compilers.npu_arch()


def test_bisheng_is_looked_for_where_cann_puts_it(
    bisheng: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = DSLS["ascendc"]
    assert adapter.lacking("ascend") == ""
    assert adapter.versions("ascend") == {"bisheng": "bisheng: a contract fake, version 0.0"}
    monkeypatch.delenv("BISHENG")
    monkeypatch.setenv("PATH", "/usr/bin")
    assert adapter.lacking("ascend") == (
        'dsl = "ascendc" needs CANN\'s compiler bisheng (PATH, $ASCEND_HOME_PATH): '
        "install CANN's toolkit and source its set_env.sh"
    )
    assert adapter.toolchain_lacking()
    path = tmp_path / "cann/compiler/ccec_compiler/bin/bisheng"
    path.parent.mkdir(parents=True)
    (tmp_path / "bisheng").rename(path)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "cann"))
    assert adapter.environment("ascend") == {"BISHENG": str(path)}
    assert str(tmp_path / "cann") in adapter.readable()
    assert 'backend = "ascend", not "cpu"' in adapter.lacking("cpu") == adapter.instead()


def test_the_guard_wants_a_kernel_that_is_compiled() -> None:
    task = Task(
        op="x",
        target=Target(backend="ascend", dsl="ascendc"),
        guard=Guard(kernel_must_do_the_work=True),
    )
    assert static_guard.findings(KERNEL, task) == ()
    found = static_guard.findings("import torch\n\n\n" + KERNEL[KERNEL.index("class") :], task)
    assert "nothing is compiled by compile_ascendc" in found[0].reason
