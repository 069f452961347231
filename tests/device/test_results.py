"""Expected results are computed on the device, and on the host where the device can't."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akg_tui.core.measurement import Outcome
from akg_tui.dsl.compilers import find_compiler
from akg_tui.evaluate import Judge
from akg_tui.evaluate.child import seal
from benchmarks.hardware.kernels import PLAIN, SOFTMAX, TASK
from benchmarks.lab.device import target
from tests.fresh_interpreter import printed

pytestmark = pytest.mark.skipif(not find_compiler(), reason="the device is built with a compiler")

DRAWS = """
import json, mmap, os, tempfile
import torch
import benchmarks.lab.device.registered
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.evaluate.child import input_generator
from akg_tui.evaluate.child.input_generator import ReferenceServer
from akg_tui.evaluate.protocol.child_protocol import KIND_SHIFT, Op, Plan, Want
from akg_tui.evaluate.child.unusual_values import ValueKind
from akg_tui.evaluate.reference import Draw, NudgedDraw

REFERENCE = '''
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 8)

    def forward(self, x, times):
        FIRST
        y = self.linear(x) * times
        return torch.softmax(y, -1), y.argmax(-1)

def get_inputs():
    return [torch.rand(4, 16), float(torch.rand(()))]

def get_init_inputs():
    return []
'''
WITH_RESULTS = Want.OUTPUT | Want.EXACT

def drawn(first, device):
    text = REFERENCE.replace("FIRST", first)
    plan = Plan(kind="reference", files=KernelFiles({"reference.py": text}), seed=5,
                results_on=device, threads=2)
    server = ReferenceServer(plan, {"report": mmap.mmap(-1, 1 << 16)})
    server.start()
    made = []
    def ask(draw, wanted):
        fds = [os.dup(fd) for fd in draw.fds]
        made.append(server.prepare(Op.DRAW, 1, (3, 0, WITH_RESULTS | wanted), fds))
    ordinary, unusual = (kind.allocate(server._description, 2, exact=True)
                         for kind in (Draw, NudgedDraw))
    ask(unusual, ValueKind.NEGATIVE << KIND_SHIFT)
    ask(ordinary, Want.TWICE)
    results = [*ordinary.results(0), *ordinary.results(1), *ordinary.exact_results(0)]
    if made[0]:
        exact, (nudged, *_) = unusual.exact_results(0), unusual.nudged_results(0)
        results += exact
        assert 0 < float((exact[0] - nudged[0]).abs().max()) < 1e-5
    return server, made, results

def told(first):
    _, host_made, on_host = drawn(first, "")
    server, made, results = drawn(first, "labdev")
    return {
        "made": made == host_made,
        "equal": all(map(torch.equal, on_host, results)) and len(on_host) == len(results),
        "refused": sorted(map(str, server._refused)),
        "on_device": sorted(str(dtype) for dtype, device in server._converted if device),
        "threads": torch.get_num_threads(),
    }

os.chdir(tempfile.mkdtemp())
input_generator.DEVICE_FROM_S = 3600
on_host = told("pass")
input_generator.DEVICE_FROM_S = 0
found = {
    "worth no device": on_host,
    "as it is": told("pass"),
    "on the host alone": told("times = times * torch.ones(8)"),
    "not in double": told("assert x.device.type == 'cpu' or x.dtype != torch.float64"),
    "of some inputs": told("assert x.min() >= 0"),
}
to = torch.Tensor.to

def rounding(self, *args, **more):
    found = to(self, *args, **more)
    wide = found.device.type == "labdev" and found.dtype == torch.float64
    return to(found, torch.float32) if wide else found

torch.Tensor.to = rounding
input_generator._has_doubles.cache_clear()
found["rounded in silence"] = told("pass")
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, Any]]:
    """Return what became of references, by what a device can do of them."""
    told: dict[str, dict[str, Any]] = json.loads(printed(DRAWS))
    return told


EVERY = ["None", "torch.float32", "torch.float64"]


@pytest.mark.parametrize(
    ("what", "on_device", "refused"),
    [
        ("worth no device", [], []),
        ("as it is", EVERY, []),
        ("on the host alone", [], EVERY),
        ("not in double", ["None", "torch.float32"], ["torch.float64"]),
        # That they fail says nothing of the device.
        ("of some inputs", EVERY, []),
        # Single precision is made of nudged inputs in double precision.
        ("rounded in silence", ["None"], ["torch.float32", "torch.float64"]),
    ],
)
def test_results_of_the_device_are_those_of_the_host(
    found: dict[str, dict[str, Any]], what: str, on_device: list[str], refused: list[str]
) -> None:
    told = found[what]
    assert (told["made"], told["equal"]) == (True, True)
    assert (told["on_device"], told["refused"]) == (on_device, refused)
    assert told["threads"] == 2


@pytest.mark.asyncio(loop_scope="session")
async def test_the_judge_compares_with_results_of_the_device(tmp_path: Path) -> None:
    # Slow on the host, or its results would be computed there; and wrong there.
    slow = "host = x.device.type == 'cpu'; time.sleep(0.05 * host); return host + torch"
    reference = "import time\n" + SOFTMAX.replace("return torch", slow)
    async with Judge(TASK, reference, tmp_path, modules=(target.MODULE,), prefetch=False) as judge:
        found = await judge.probe(PLAIN, timed=False)
    assert found.outcome is Outcome.CORRECT, found.message


def test_seals_and_digests_are_those_of_a_device() -> None:
    places = np.arange(5_000_008, dtype=np.uint32)
    plain = (places * np.uint32(2654435761) >> np.uint32(7)).astype(np.uint8)
    sealed = np.empty_like(plain)
    seal.apply(plain, sealed, 1 << 62 | 5, first=3)
    # As the code of a device has them.
    assert seal.digest(plain, 77) == 6479385643302759607
    assert seal.digest(sealed, 77) == 9822628670477143503
    assert seal.digest(plain[:-3], 77) == 15000040709333856695
