"""What the judge makes ready ahead: used once, told to nobody, and never held against a kernel."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
import torch

from akg_tui.core.measurement import Outcome
from akg_tui.evaluate import Judge, prefetch
from akg_tui.evaluate.prefetch import Need, Prefetched
from akg_tui.evaluate.processes.child_pool import ChildPool
from akg_tui.evaluate.processes.worker import Zygote
from akg_tui.evaluate.protocol import tensor_layout as layouts
from akg_tui.evaluate.reference import Draw, Loaded, Reference
from akg_tui.evaluate.sandbox import process_watch
from akg_tui.evaluate.sandbox.process_watch import CpuDeadline, cpu_time_ns
from akg_tui.evaluate.sandbox.protections import offered
from akg_tui.evaluate.timing import SPARES
from benchmarks.judge.ordinary.windows import module
from tests.evaluate.kernels import PLAIN, REFERENCE
from tests.judging import Interrupted, is_running, quick_task

DEADLINE_S = 30.0
NEED = Need(count=6, checkable=3, at_least=2)


@pytest.fixture(scope="module")
def pool(
    interruptible_zygote: tuple[Zygote, socket.socket], tmp_path_factory: pytest.TempPathFactory
) -> tuple[ChildPool, socket.socket]:
    """Return a child pool, and the socket on which any message interrupts its waits."""
    zygote, engine = interruptible_zygote
    scratch = tmp_path_factory.mktemp("prefetch")
    return ChildPool(quick_task(), scratch, zygote, offered()), engine


@pytest.fixture
def prefetched(pool: tuple[ChildPool, socket.socket]) -> Iterator[Prefetched]:
    reference = Reference(pool[0], REFERENCE, "reference.py")
    reference.examine()
    yield Prefetched(pool[0], reference)
    pool[0].clear()


def test_an_examination_that_is_broken_off_leaves_nothing_half_known(
    pool: tuple[ChildPool, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = Reference(pool[0], REFERENCE, "reference.py")

    def break_off(*_: object) -> None:
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(Loaded, "vary", break_off)
        with pytest.raises(Interrupted):
            reference.examine()
    assert not reference.examined
    reference.examine()
    assert reference.examined
    assert reference.free_dimensions
    assert reference.sample_held
    pool[0].clear()


SEEDED = module(
    "x, seed",
    "return torch.softmax(x, dim=-1) * seed.sum()",
    "torch.randn(64, 256), torch.tensor([SEED & 0xFFFF, SEED >> 16 & 0xFFFF]).float()",
).replace("SEED", "torch.initial_seed()")


def test_the_seed_of_an_input_tells_nothing_of_the_next_one_s(
    pool: tuple[ChildPool, socket.socket],
) -> None:
    reference = Reference(pool[0], SEEDED, "reference.py")
    reference.examine()
    with (
        reference.loaded() as loaded,
        closing(reference.draw_from(loaded, 9, exact=False, checkable=0, at_least=9)) as draw,
    ):
        size = draw.description.inputs.size
        values = [
            layouts.load(draw.description.inputs, draw.inputs.map, item * size)[1]
            for item in range(draw.count)
        ]
        halves = [value.tolist() for value in values if isinstance(value, torch.Tensor)]
    seeds = [int(low) + (int(high) << 16) for low, high in halves]
    assert len(set(seeds)) == draw.count
    # By chance two of nine in 2 ** 32 are so near once in seven million times.
    apart = [abs(one - other) for one, other in itertools.combinations(seeds, 2)]
    assert min(apart) > 8
    pool[0].clear()


def content(draw: Draw) -> bytes:
    return bytes(draw.inputs.map[: draw.description.inputs.size])


def test_nothing_that_was_drawn_ahead_is_handed_out_twice(prefetched: Prefetched) -> None:
    prefetched.timed(NEED).close()
    prefetched.fill()
    seen = []
    for _ in range(3):
        with closing(prefetched.verification_inputs()) as drawn:
            assert drawn.unusual
            seen += [content(g.draw) for g in (drawn.ordinary, *drawn.unusual)]
        with closing(prefetched.timed(NEED)) as timed:
            assert timed.count >= NEED.count
            assert timed.checkable >= NEED.checkable
            seen.append(content(timed))
    assert len(set(seen)) == len(seen)


def test_kernels_that_follow_have_the_inputs_that_were_kept_and_others_have_fresh_ones(
    prefetched: Prefetched,
) -> None:
    kept = prefetched.verification_inputs(again=True, kept=True)
    prefetched.fill()
    assert prefetched.verification_inputs(again=True, kept=True) is kept
    with closing(prefetched.verification_inputs(again=True)) as last:
        assert last is kept
    with closing(prefetched.verification_inputs(again=True)) as fresh:
        assert content(fresh.ordinary.draw) != content(kept.ordinary.draw)


def test_inputs_are_drawn_for_longer_where_all_are_wanted(
    prefetched: Prefetched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch, "UNUSUAL_CPU_S", 1e-6)
    monkeypatch.setattr(prefetch, "UNUSUAL_WHOLE_CPU_S", 60.0)
    with (
        closing(prefetched.verification_inputs()) as brief,
        closing(prefetched.verification_inputs(whole=True)) as whole,
    ):
        assert any("no time left" in why for why in brief.skipped.values())
        assert not any("no time left" in why for why in whole.skipped.values())


def test_what_is_there_is_not_drawn_again(
    prefetched: Prefetched, pool: tuple[ChildPool, socket.socket]
) -> None:
    prefetched.timed(NEED).close()
    prefetched.fill()
    # Whoever wants to wait for a process now is broken off.
    pool[1].send(b"!")
    prefetched.fill()
    prefetched.verification_inputs().close()
    prefetched.timed(NEED).close()
    with pytest.raises(Interrupted):
        prefetched.verification_inputs()


def test_broken_off_it_keeps_what_is_whole_and_starts_again(
    prefetched: Prefetched, pool: tuple[ChildPool, socket.socket]
) -> None:
    pool[1].send(b"!")
    with pytest.raises(Interrupted):
        prefetched.fill()
    prefetched.fill()
    prefetched.verification_inputs().close()


def test_a_candidate_that_needs_more_inputs_than_there_are_gets_them(
    prefetched: Prefetched,
) -> None:
    prefetched.timed(NEED).close()
    prefetched.fill()
    with closing(prefetched.timed(Need(count=40, checkable=20, at_least=2))) as timed:
        assert (timed.count, timed.checkable) == (40, 20)


def test_patience_counts_what_a_process_works_and_not_what_it_waits() -> None:
    pid = os.getpid()
    deadline = CpuDeadline(pid, 3600.0)
    assert deadline.exceeded() == ""
    before = cpu_time_ns(pid)
    assert before is not None
    spent = time.process_time()
    while time.process_time() - spent < 0.02:
        continue
    after = cpu_time_ns(pid)
    assert after is not None
    assert after - before >= 0.02e9
    short_deadline = CpuDeadline(pid, 0.05)
    while not short_deadline.exceeded():
        continue
    assert short_deadline.exceeded() == "no time left after 0.05 s of the reference's work"


def leaves(pid: int) -> set[int]:
    """Return the processes below one that have none below them."""
    below = set(process_watch.descendants(pid))
    return {pid for pid in below if not process_watch.descendants(pid)}


def spares(judge: Judge) -> set[int]:
    """Return the processes below the zygote."""
    assert judge.pid is not None
    return leaves(judge.pid)


def await_spares(judge: Judge, count: int) -> set[int]:
    """Return the spares when there are so many at least: some may be left of the last one."""
    limit = time.monotonic() + DEADLINE_S
    while time.monotonic() < limit:
        found = spares(judge)
        if count <= len(found) <= 2 * count:
            return found
    raise AssertionError(f"{len(spares(judge))} processes wait, not {count}")


@pytest.mark.asyncio(loop_scope="session")
async def test_processes_wait_for_the_next_kernel_and_one_that_is_killed_is_not_its_fault(
    judge: Judge,
) -> None:
    assert (await judge.probe(PLAIN, samples=1)).outcome is Outcome.CORRECT
    waiting = await_spares(judge, SPARES)
    for pid in waiting:
        # A child of the evaluation before may have ended since.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    while any(is_running(pid) for pid in waiting):
        os.sched_yield()
    found = await judge.probe(PLAIN, samples=1)
    assert found.outcome is Outcome.CORRECT, found
    after = await_spares(judge, SPARES)
    assert not after & waiting
