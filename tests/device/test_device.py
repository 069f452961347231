"""Honest kernels, faults and cheats on a device whose memory and streams are not the host's."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.dsl import toolchains
from akg_tui.dsl.compilers import find_compiler
from akg_tui.evaluate.child import seal
from benchmarks.hardware.cheats import CHEATS
from benchmarks.hardware.hostile import HOSTILE
from benchmarks.hardware.kernels import HONEST, PLAIN, ROWS, SOFTMAX, Honest, Refused, kernel
from tests.device.conftest import Judges

pytestmark = pytest.mark.skipif(not find_compiler(), reason="the device is built with a compiler")

COMPILES_THE_SEAL = """
import sys
from pathlib import Path
from triton.compiler import ASTSource
from akg_tui.evaluate.child import triton_seal
from akg_tui.evidence.ascend.handover import lower
text = Path(triton_seal.__file__).read_text()
given = {"out": "*i64", "source": "*i64", "key": "*i64", "words": "i32"}
for function, types in (
    (triton_seal._unseal, {"out": "*i64", "sealed": "*i64", "key": "*i64", "words": "i32"}),
    (triton_seal._chained, {**given, "lanes": "i32"}),
):
    source = ASTSource(function, {**types, "BLOCK": "constexpr"}, {(len(types),): 256})
    print(lower(source, {}, "Ascend910B1", Path(sys.argv[1]), text).hivm)
    print("next" if function is triton_seal._unseal else "")
"""

FLUSHES = """
from akg_tui.evaluate.child import device_server as server
flush, run, seen = server.Device.flush, server.OnDevice._call_model, []
def flushed(self):
    seen.append("displaced")
    flush(self)
def called(self, key):
    seen.append("clock")
    return run(self, key)
server.Device.flush, server.OnDevice._call_model = flushed, called
"""


@pytest.mark.parametrize("honest", HONEST, ids=lambda each: each.name)
@pytest.mark.asyncio(loop_scope="session")
async def test_an_honest_kernel_is_correct_on_the_device(judges: Judges, honest: Honest) -> None:
    # Its call is longer than the device's own clock tells, by the fixed cost.
    timed = honest.name == "through the host"
    found = await judges[honest.task].probe(honest.text, timed=timed, samples=8)
    assert found.outcome is Outcome.CORRECT, found.message
    if timed:
        assert found.ratio is not None
        assert found.candidate_ms is not None
        assert found.candidate_ms > 0


@pytest.mark.asyncio(loop_scope="session")
async def test_a_comparison_begins_when_the_devices_clock_is_at_rest(
    judges: Judges, watched: Path
) -> None:
    watched.touch()
    try:
        found = await judges[SOFTMAX].probe(PLAIN, timed=True, samples=8)
        asked = watched.read_text().split()
    finally:
        watched.unlink()
    assert found.outcome is Outcome.CORRECT, found.message
    assert asked[:4] == ["sample", "moves", "sample", "rests"]
    assert asked.count("sample") >= 2 + found.clusters > 2
    assert "the device was warm" in found.noise
    assert found.ratio is not None
    assert found.candidate_ms is not None
    assert found.candidate_ms > 0


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda each: each.name)
@pytest.mark.asyncio(loop_scope="session")
async def test_a_cheat_of_the_device_is_refused(judges: Judges, cheat: Refused) -> None:
    found = await judges[cheat.task].probe(cheat.text, timed=cheat.timed, samples=8)
    assert found.outcome is Outcome.FAILED, found.message
    assert found.failure in cheat.fails, found.message
    assert cheat.says in found.message


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda each: each.name)
@pytest.mark.asyncio(loop_scope="session")
async def test_a_hostile_kernel_fails_and_the_device_serves_the_next(
    judges: Judges, hostile: Refused
) -> None:
    found = await judges[hostile.task].probe(hostile.text, timed=hostile.timed, samples=8)
    assert found.outcome is Outcome.FAILED, found.message
    assert found.failure in hostile.fails, found.message
    assert hostile.says in found.message
    assert (await judges[SOFTMAX].probe(PLAIN, timed=False)).outcome is Outcome.CORRECT


@pytest.mark.asyncio(loop_scope="session")
async def test_a_lost_device_is_an_error_and_no_failure_of_the_kernel(
    judges: Judges, lost: Path
) -> None:
    judge = judges[SOFTMAX]
    lost.touch()
    try:
        found = await judge.probe(PLAIN, timed=False)
    finally:
        lost.unlink()
    assert (found.outcome, found.failure) == (Outcome.ERROR, FailureKind.JUDGE)
    assert "the device can't be used any more" in found.message
    assert (await judge.probe(PLAIN, timed=False)).outcome is Outcome.CORRECT


@pytest.mark.asyncio(loop_scope="session")
async def test_the_cache_is_displaced_before_the_clock_starts(judges: Judges) -> None:
    text = kernel(
        """
        assert seen[-2:] == ["displaced", "clock"], seen
        return self.right(x, factor)
        """,
        FLUSHES,
    )
    found = await judges[SOFTMAX].probe(text, timed=False)
    assert found.outcome is Outcome.CORRECT, found.message


def test_triton_opens_the_judges_seals_and_digests_as_the_judge_does() -> None:
    # Loads Triton, whose interpreter runs here.
    triton_seal = importlib.import_module("akg_tui.evaluate.child.triton_seal")
    plain, key = np.arange(80_000, dtype=np.uint8), 1 << 62 | 12345
    sealed = np.empty_like(plain)
    seal.apply(plain, sealed, key)
    opened, digest = torch.empty(80_000, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64)
    given, held = np.array([key]), torch.zeros(1, dtype=torch.int64)
    triton_seal.await_key(held, given.ctypes.data)
    triton_seal.unseal(opened, torch.from_numpy(sealed), held)
    words = opened.view(torch.int64)
    triton_seal.digest(digest, words, held, seal.lanes_for(words.numel()))
    told = np.zeros(2, np.int64)
    triton_seal.tell(digest, told.ctypes.data)
    assert told.tolist() == [digest.item(), 0]
    assert np.array_equal(opened.numpy(), plain)
    assert digest.numpy().view(np.uint64)[0] == seal.digest(plain, key)


@pytest.mark.skipif(toolchains.installed("ascend") is None, reason="akg-tui toolchain add ascend")
def test_the_seal_compiles_for_an_npu_with_a_mask_for_each_shift() -> None:
    """That compiler shifts a vector of 64-bit words arithmetically, whatever it is told."""
    # Triton's interpreter, which these tests use, has no source to compile.
    environment = {name: os.environ[name] for name in os.environ if name != "TRITON_INTERPRET"}
    words = [sys.executable, "-c", COMPILES_THE_SEAL, toolchains.places("ascend")[0]]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    programs = done.stdout.split("next\n")
    assert len(programs) == 2
    for hivm in programs:
        assert "shrsi" in hivm
        assert "shrui" not in hivm
        assert all(f"{(1 << bits) - 1} : i64" in hivm for bits in (34, 37, 33))


def test_a_seal_opens_with_its_key_only_and_hides_equal_words() -> None:
    plain = np.zeros(4096, np.uint8)
    sealed, opened, wrong = (np.empty_like(plain) for _ in range(3))
    seal.apply(plain, sealed, 1 << 62 | 5)
    seal.apply(sealed, opened, 1 << 62 | 5)
    seal.apply(sealed, wrong, 1 << 62 | 6)
    assert np.array_equal(opened, plain)
    assert not np.array_equal(wrong, plain)
    assert len(np.unique(sealed.view(np.uint64))) == 512


@pytest.mark.parametrize("size", [1, 8, 1000, 4096, 700_000])
def test_a_digest_tells_every_byte_its_place_and_its_key(size: int) -> None:
    data = np.arange(size, dtype=np.uint8)
    known = seal.digest(data, 7)
    changed = data.copy()
    changed[-1] ^= 1
    assert seal.digest(data, 7) == known
    assert len({known, seal.digest(changed, 7), seal.digest(data, 8)}) == 3
    assert seal.joined([known, 1]) != seal.joined([1, known])


@pytest.mark.parametrize(
    ("waits", "least", "most"), [("", 0, 25), ("device.synchronize()", 50, 1e3)]
)
@pytest.mark.asyncio(loop_scope="session")
async def test_work_of_the_host_counts_only_if_the_kernel_waits_for_the_device(
    judges: Judges, waits: str, least: float, most: float
) -> None:
    text = kernel(f"""
        time.sleep(0.05)
        {waits}
        return self.right(x, index)
    """, "import time", task=ROWS)  # fmt: skip
    found = await judges[ROWS].probe(text, timed=True, samples=2)
    assert found.outcome is Outcome.CORRECT, found.message
    assert found.candidate_ms is not None
    assert least < found.candidate_ms < most


@pytest.mark.asyncio(loop_scope="session")
async def test_a_queued_call_that_takes_long_leaves_no_work(judges: Judges) -> None:
    text = kernel("""
        spin(0.08)
        return self.right(x, index)
    """, task=ROWS)  # fmt: skip
    found = await judges[ROWS].probe(text, timed=True, samples=1)
    assert found.outcome is Outcome.CORRECT, found.message
    assert found.candidate_ms is not None
    assert found.candidate_ms > 80
