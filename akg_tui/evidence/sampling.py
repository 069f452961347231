"""Samples where a process spends its CPU time inside some shared objects.

Runs in the confined process only: a timer of the process's CPU time interrupts the kernel, and a
handler in C++ notes the address. A function that the kernel calls, as of the C library, counts for
the place of the kernel that called it, found as the nearest return address on the stack.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path

LEAST_SAMPLES = 20
"""With fewer samples nothing is said: they may all be of one moment."""

_MOST_RANGES = 8
_INTERVAL_US = 1000

_SOURCE = r"""
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <sys/time.h>
#include <ucontext.h>

constexpr uint32_t room = 1 << 15, deep = 48, most = 8;
static uint64_t places[room], low[most], high[most];
static std::atomic<uint32_t> taken{0}, all{0};
static uint32_t ranges = 0;

static bool inside(uint64_t place) {
    for (uint32_t r = 0; r < ranges; ++r)
        if (place >= low[r] && place < high[r]) return true;
    return false;
}

static void note(int, siginfo_t*, void* given) {
    const auto& machine = static_cast<const ucontext_t*>(given)->uc_mcontext;
#if defined(__x86_64__)
    uint64_t place = machine.gregs[REG_RIP];
    const auto* stack = reinterpret_cast<const uint64_t*>(machine.gregs[REG_RSP]);
    uint64_t link = 0;
#elif defined(__aarch64__)
    uint64_t place = machine.pc, link = machine.regs[30];
    const auto* stack = reinterpret_cast<const uint64_t*>(machine.sp);
#else
    uint64_t place = 0, link = 0;
    const uint64_t* stack = nullptr;
#endif
    all.fetch_add(1);
    if (!inside(place) && inside(link)) place = link - 1;
    const auto page = [](const void* at) { return reinterpret_cast<uint64_t>(at) >> 12; };
    // Of the same page, so that it is mapped.
    for (uint32_t n = 0; stack && n < deep && page(stack + n) == page(stack); ++n) {
        if (inside(place)) break;
        if (inside(stack[n])) place = stack[n] - 1;
    }
    if (!inside(place)) return;
    const uint32_t n = taken.fetch_add(1);
    if (n < room) places[n] = place;
}

extern "C" void watch(uint64_t from, uint64_t to) {
    if (ranges < most) { low[ranges] = from; high[ranges++] = to; }
}
extern "C" void begin(long us) {
    struct sigaction act;
    std::memset(&act, 0, sizeof act);
    act.sa_sigaction = note;
    act.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(SIGPROF, &act, nullptr);
    const itimerval every = {{us / 1000000, us % 1000000}, {us / 1000000, us % 1000000}};
    setitimer(ITIMER_PROF, &every, nullptr);
}
extern "C" void end() {
    const itimerval never = {};
    setitimer(ITIMER_PROF, &never, nullptr);
    std::signal(SIGPROF, SIG_IGN);
}
extern "C" uint32_t total() { return all; }
extern "C" uint32_t count() { return taken < room ? taken.load() : room; }
extern "C" const uint64_t* found() { return places; }
"""


def sampled(
    work: Callable[[], None],
    objects: Sequence[Path],
    compile_cpp: Callable[[str, str], ctypes.CDLL],
) -> tuple[int, list[tuple[int, int]]]:
    """Run `work`; return all samples, and those in `objects` as (number of the object, address).

    Addresses are those that objdump prints.
    """
    ranges = [_mapped(path) for path in objects[:_MOST_RANGES]]
    sampler = compile_cpp(_SOURCE, "-O2")
    sampler.watch.argtypes = [ctypes.c_uint64, ctypes.c_uint64]
    sampler.found.restype = ctypes.POINTER(ctypes.c_uint64)
    for low, high in ranges:
        sampler.watch(low, high)
    sampler.begin(ctypes.c_long(_INTERVAL_US))
    try:
        work()
    finally:
        sampler.end()
    places = sampler.found()[: sampler.count()]
    hits = [
        (number, place - low)
        for place in places
        for number, (low, high) in enumerate(ranges)
        if low <= place < high
    ]
    return int(sampler.total()), hits


def _mapped(path: Path) -> tuple[int, int]:
    """Return where a shared object of this process is mapped; an empty range if it is not."""
    low, high = 0, 0
    for line in Path("/proc/self/maps").read_text("utf-8", "replace").splitlines():
        place, _, rest = line.partition(" ")
        if rest.endswith(f" {path}"):
            start, _, stop = place.partition("-")
            low, high = low or int(start, 16), int(stop, 16)
    return low, high
