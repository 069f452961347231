"""Honest kernels, faults and cheats on a device whose memory and streams are not the host's."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Iterator

import numpy as np
import pytest
import pytest_asyncio
import torch

from akg_tui.core.measurement import Outcome
from akg_tui.core.task import Correctness, Guard, Target, Task, Timing
from akg_tui.dsl import find_compiler
from akg_tui.evaluate import Judge
from akg_tui.evaluate.child import seal
from akg_tui.evaluate.targets import TARGETS
from tests.device.kernels import CHEATS, FAULTS, HONEST, REFERENCE, Refused
from tests.lab.device import target

pytestmark = pytest.mark.skipif(not find_compiler(), reason="the device is built with a compiler")

TASK = Task(
    op="softmax",
    target=Target(backend="cuda", dsl="torch"),
    correctness=Correctness(trials=2, fixed_shape=True, values="drawn"),
    guard=Guard(level="warn"),
    timing=Timing(budget_s=0.5, call_timeout_s=3.0),
)


@pytest.fixture(scope="module", autouse=True)
def _lab_device() -> Iterator[None]:
    before = TARGETS["cuda"]
    target.install()
    yield
    TARGETS["cuda"] = before


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def judge(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Judge]:
    folder = tmp_path_factory.mktemp("device")
    async with Judge(TASK, REFERENCE, folder, modules=(target.MODULE,), prefetch=False) as running:
        yield running


@pytest.mark.parametrize("name", sorted(HONEST))
@pytest.mark.asyncio(loop_scope="session")
async def test_an_honest_kernel_is_correct_on_the_device(judge: Judge, name: str) -> None:
    found = await judge.probe(HONEST[name], timed=name == "plain", samples=8)
    assert found.outcome is Outcome.CORRECT, found.message
    if name == "plain":
        assert found.ratio is not None
        assert found.candidate_ms is not None
        assert found.candidate_ms > 0


@pytest.mark.parametrize("cheat", [*CHEATS, *FAULTS], ids=lambda each: each.name)
@pytest.mark.asyncio(loop_scope="session")
async def test_a_cheat_or_fault_of_the_device_is_refused(judge: Judge, cheat: Refused) -> None:
    found = await judge.probe(cheat.text, timed=cheat.timed, samples=8)
    assert found.outcome is Outcome.FAILED, found.message
    assert found.failure in cheat.fails, found.message
    assert cheat.says in found.message


def test_triton_opens_the_judges_seals_and_digests_as_the_judge_does() -> None:
    # Loads Triton, whose interpreter runs here.
    triton_seal = importlib.import_module("akg_tui.evaluate.child.triton_seal")
    plain, key = np.arange(80_000, dtype=np.uint8), 1 << 62 | 12345
    sealed = np.empty_like(plain)
    seal.apply(plain, sealed, key)
    opened, digest = torch.empty(80_000, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64)
    triton_seal.unseal(opened, torch.from_numpy(sealed), key)
    words = opened.view(torch.int64)
    triton_seal.digest(digest, words, key, seal.lanes_for(words.numel()))
    assert np.array_equal(opened.numpy(), plain)
    assert digest.numpy().view(np.uint64)[0] == seal.digest(plain, key)


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
