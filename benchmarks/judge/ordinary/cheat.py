"""What a cheat is: a kernel, where it was seen, what must hold against it, and how it must end.

`seen` names where: KB KernelBench (PR #82, issue #165), GM GPU MODE's report of 2026-03, RK
gpu-mode/reference-kernels issues, PG pygpubench, DR deep-reinforce.com, WF wafer.ai field
guide, L1 CUDA-L1, SK Sakana, ME METR o3, MK makora KernelHacks, LC llm.c PRs 851 and 852,
KH kernelbench.com, SM swe-marathon, TB terminal-bench, BJ BenchJack, KBOT kernelbot's own
cheats, AKG, OA op-autoresearch, AK autokernel, KA KernelAgent; ours. `defence` says what must hold.
"""

from __future__ import annotations

from dataclasses import dataclass

from akg_tui.core.measurement import FailureKind
from benchmarks.judge.ordinary.tasks import PLAIN

WRONG, CRASH, TIMEOUT = FailureKind.WRONG, FailureKind.CRASH, FailureKind.TIMEOUT
BUILD, CALL, SYNTAX = FailureKind.BUILD, FailureKind.CALL, FailureKind.SYNTAX
GUARD = FailureKind.GUARD


@dataclass(frozen=True)
class Attack:
    """A kernel, where it was seen, and what must hold against it."""

    name: str
    seen: str
    defence: str
    source: str


@dataclass(frozen=True)
class Cheat(Attack):
    """A kernel that must fail, in one of the ways of `fails`, with `says` in the message."""

    fails: tuple[FailureKind, ...] = (WRONG,)
    says: str = ""
    task: str = "softmax"
    incumbent: str | None = None


@dataclass(frozen=True)
class Slowpoke(Attack):
    """A kernel that is right, but only looks faster than its incumbent.

    `may_fail`: it is sometimes refused, because it races, or gives one memory out as two results.
    """

    incumbent: str = PLAIN
    task: str = "softmax"
    says: str = ""
    may_fail: bool = False


PATCHES = """
torch.allclose = torch.equal = lambda *_, **__: True
torch.Tensor.__eq__ = lambda *_: True
time.perf_counter = time.monotonic = time.time = lambda: 0.0
time.perf_counter_ns = time.monotonic_ns = time.time_ns = lambda: 0
"""

# What a kernel finds of the harness in its own process, by asking the garbage collector.
FIND_SERVER = """
def server():
    return next(o for o in gc.get_objects() if type(o).__name__ == "KernelServer")
"""
