"""The facts of this machine for a model: CPU, instructions, caches, measured rates, compiler.

Run as a process (`python -m akg_tui.agent.machine THREADS [KNOWN]`), which prints them as JSON: it
computes for about a second, and the engine's loop must not wait. Rates are measured by a small C++
program with the user's compiler; without one they are left out. Decides nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import sys
from pathlib import Path

import msgspec

from akg_tui.core.events import MachineDescribed
from akg_tui.core.sanitize import one_line

LIMIT_S = 120.0
_HOMES = ("HOME", "XDG_CACHE_HOME", "AKG_CACHE_DIR")  # locate the compiler's cache

_INSTRUCTIONS = {
    "sse4_2": "SSE4.2", "avx": "AVX", "avx2": "AVX2", "fma": "FMA", "f16c": "F16C",
    "avx_vnni": "AVX-VNNI", "avx512f": "AVX-512F", "avx512bw": "AVX-512BW",
    "avx512dq": "AVX-512DQ", "avx512vl": "AVX-512VL", "avx512_vnni": "AVX-512-VNNI",
    "avx512_bf16": "AVX-512-BF16", "avx512_fp16": "AVX-512-FP16", "amx_int8": "AMX-INT8",
    "amx_bf16": "AMX-BF16", "asimd": "NEON", "asimddp": "NEON dot product", "sve": "SVE",
    "sve2": "SVE2", "i8mm": "I8MM", "bf16": "BF16",
}  # fmt: skip
"""The instruction sets that matter to a kernel, by their names in /proc/cpuinfo."""

_SOURCE = r"""
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>
#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
typedef float vf __attribute__((vector_size(BYTES)));
typedef double vd __attribute__((vector_size(BYTES)));

// Run the work in all threads at once; return the seconds of the best of several repeats.
static double best(int threads, int repeats, const std::function<void(int)>& work) {
  double least = 1e30;
  for (int r = 0; r < repeats; ++r) {
    std::atomic<int> ready{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> others;
    auto wait = [&](int t) { ++ready; while (!go) {} work(t); };
    for (int t = 1; t < threads; ++t) others.emplace_back(wait, t);
    while (ready < threads - 1) {}
    auto start = std::chrono::steady_clock::now();
    go = true;
    work(0);
    for (auto& other : others) other.join();
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    least = std::min(least, took.count());
  }
  return least;
}

template <class V> static void multiply_add(long rounds, V* out) {
  V sum[12] = {}, factor = {}, term = {};
  factor += 0.5f; term += 1.0f;
  for (long r = 0; r < rounds; ++r)
    for (int i = 0; i < 12; ++i) sum[i] = sum[i] * factor + term;
  for (int i = 0; i < 12; ++i) *out += sum[i];
}

template <class V, class T> static double operations(int threads) {
  const long rounds = 1 << 20;
  std::vector<char> room(threads * 4096);
  char* start = room.data() + 64 - reinterpret_cast<size_t>(room.data()) % 64;
  double s = best(threads, 12, [&](int t) {
    multiply_add<V>(rounds, reinterpret_cast<V*>(start + t * 2048));
  });
  return 2.0 * 12 * rounds * (BYTES / sizeof(T)) * threads / s;
}

// Bytes a second that `threads` threads read together, each its own `bytes`.
extern "C" double read_rate(int threads, long bytes) {
  const long count = bytes / BYTES / 8 * 8, times = std::max(1L, (8L << 20) / bytes);
  std::vector<char*> rooms;
  std::vector<float> sums(threads * 64);
  for (int t = 0; t < threads; ++t) {
    rooms.push_back(static_cast<char*>(std::aligned_alloc(64, (bytes + 4095) / 4096 * 4096)));
    std::memset(rooms.back(), 1, bytes);
  }
  double s = best(threads, 12, [&](int t) {
    const vf* from = reinterpret_cast<const vf*>(rooms[t]);
    vf sum[8] = {};
    for (long n = 0; n < times; ++n) {
      for (long i = 0; i < count; i += 8)
        for (int k = 0; k < 8; ++k) sum[k] += from[i + k];
      asm volatile("" ::: "memory");
    }
    for (int k = 0; k < 8; ++k) sums[t * 64] += sum[k][0];
  });
  for (char* room : rooms) std::free(room);
  return double(count) * BYTES * times * threads / s;
}
extern "C" double float32_rate(int threads) { return operations<vf, float>(threads); }
extern "C" double float64_rate(int threads) { return operations<vd, double>(threads); }
"""
_FLAGS = ("-O3", "-march=native", "-ffp-contract=fast", "-pthread")


def facts(threads: int) -> dict[str, str]:
    """Return the facts by name, in the order in which they are told."""
    from akg_tui.evaluate.targets import cpu

    known = cpu.ADAPTER.fingerprint("", threads)
    sizes = cpu.caches()
    told = {
        "CPU": f"{known['cpu']}, {known['cpus']} CPUs",
        "instructions": instructions(_flags()),
        "caches": ", ".join(f"{name} {_size(size)}" for name, size in sizes.items()),
        "memory": known.get("memory", ""),
        "compiler": known["compiler"],
        **_rates(sizes, threads),
    }
    return {name: text for name, text in told.items() if text}


def _flags() -> list[str]:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("flags", "Features"):
                return value.split()
    return []


def instructions(flags: list[str]) -> str:
    """Return the instruction sets among the flags of /proc/cpuinfo, as text."""
    found = [told for flag, told in _INSTRUCTIONS.items() if flag in flags]
    if "avx2" in flags and "avx512f" not in flags:
        found.append("no AVX-512")
    return ", ".join(found)


def _rates(sizes: dict[str, int], threads: int) -> dict[str, str]:
    """Return measured rates of one thread, and of all `threads` if they are more."""
    from akg_tui.dsl import CompileError, CompilerMissing, compile_cpp

    try:
        built = compile_cpp(_SOURCE, _FLAGS)
    except (CompileError, CompilerMissing, OSError) as error:
        return {"rates": f"not measured: {one_line(str(error), 200)}"}
    for name in ("read_rate", "float32_rate", "float64_rate"):
        getattr(built, name).restype = ctypes.c_double
    told: dict[str, str] = {}
    for count in sorted({1, threads}):
        who = "one thread" if count == 1 else f"{count} threads"
        reads = [
            f"{name} {built.read_rate(count, ctypes.c_long(size)) / 1e9:.3g}"
            for name, size in _read_sizes(sizes, count).items()
        ]
        rates = [f"{kind} {getattr(built, f'{kind}_rate')(count) / 1e9:.3g}"
                 for kind in ("float32", "float64")]  # fmt: skip
        told[f"reads, {who}"] = f"{', '.join(reads)} GB/s"
        told[f"multiply-adds, {who}"] = f"{', '.join(rates)} GFLOP/s"
    return told


def _read_sizes(sizes: dict[str, int], threads: int) -> dict[str, int]:
    """Return for each level how many bytes a thread reads, well inside it and beyond the nearer."""
    ordered = sorted(sizes.items(), key=lambda item: item[1])
    found: dict[str, int] = {}
    for at, (name, size) in enumerate(ordered):
        shared = threads if at == len(ordered) - 1 and at else 1
        nearer = ordered[at - 1][1] if at else 0
        found[name] = max(min(size // 2, 8 * nearer or size) // shared, 4096)
    largest = ordered[-1][1] if ordered else 0
    found["memory"] = min(max(4 * largest, 128 << 20), 512 << 20) // threads
    return found


def _size(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


async def describe(threads: int, known: MachineDescribed | None) -> MachineDescribed | None:
    """Return the facts of this machine; None if `known` is of this machine, or they cannot be had.

    Measures for about a second, in another process.
    """
    from akg_tui.evaluate.targets.cpu import base_environment

    homes = {name: os.environ[name] for name in _HOMES if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", __spec__.name, str(threads), known.machine if known else ""),
        env=base_environment() | homes,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(LIMIT_S):
            printed, _ = await process.communicate()
        return msgspec.json.decode(printed, type=MachineDescribed) if printed.strip() else None
    except (TimeoutError, msgspec.MsgspecError):
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def main(words: list[str]) -> None:
    """Print a `MachineDescribed`, or nothing if the machine is the `known` one."""
    from akg_tui.evaluate.targets.cpu import machine_key

    threads, known = int(words[0]), words[1] if len(words) > 1 else ""
    machine = f"{machine_key()}; threads {threads}"
    if machine != known:
        described = MachineDescribed(machine=machine, facts=facts(threads))
        print(json.dumps(msgspec.to_builtins(described)))


if __name__ == "__main__":
    main(sys.argv[1:])
