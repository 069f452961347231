"""The facts of this machine for a model: CPU, instructions, caches, measured rates, compiler.

Run as a process (`python -m akg_tui.agent.machine THREADS [KNOWN]`), which prints them as JSON: it
may compute for about a second, and the engine's loop must not wait. Decides nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

import msgspec

from akg_tui.agent.tools.processes import run_process
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


def facts(threads: int) -> dict[str, str]:
    """Return the facts by name, in the order in which they are told."""
    from akg_tui.evaluate.targets import cpu

    known = cpu.ADAPTER.fingerprint("", threads)
    sizes = cpu.caches()
    levels = cpu.ADAPTER.levels()
    copies = ", ".join(f"{each.name} {each.bandwidth / 1e9:.3g}" for each in levels)
    told = {
        "CPU": f"{known['cpu']}, {known['cpus']} CPUs",
        "instructions": instructions(_flags()),
        "caches": ", ".join(f"{name} {_size(size)}" for name, size in sizes.items()),
        "memory": known.get("memory", ""),
        "compiler": known["compiler"],
        "copies, one thread": f"{copies} GB/s, bytes read and written",
        **_rates(threads),
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


def _rates(threads: int) -> dict[str, str]:
    """Return measured operations of one thread, and of all `threads` if they are more."""
    from akg_tui.evidence.machine_rates import NotMeasured, machine_rates

    told: dict[str, str] = {}
    try:
        for count in sorted({1, threads}):
            who = "one thread" if count == 1 else f"{count} threads"
            rates = machine_rates(count, anew=True)
            adds = f"float32 {rates.float32 / 1e9:.3g}, float64 {rates.float64 / 1e9:.3g}"
            told[f"multiply-adds, {who}"] = f"{adds} GFLOP/s"
    except NotMeasured as error:
        return {"rates": f"not measured: {one_line(str(error), 200)}"}
    return told


def _size(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


async def describe(threads: int, known: MachineDescribed | None) -> MachineDescribed | None:
    """Return the facts of this machine; None if `known` is of this machine, or they cannot be had.

    Measures for about a second, in another process.
    """
    from akg_tui.evaluate.targets.cpu import base_environment

    homes = {name: os.environ[name] for name in _HOMES if name in os.environ}
    done = await run_process(
        (sys.executable, "-P", "-m", __spec__.name, str(threads), known.machine if known else ""),
        folder=Path("/"),
        environment=base_environment() | homes,
        timeout_s=LIMIT_S,
    )
    try:
        return msgspec.json.decode(done.stdout, type=MachineDescribed) if done.stdout else None
    except msgspec.MsgspecError:
        return None


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
