"""The measured arithmetic of this machine: operations a second, in float32 and in float64.

Rates of memory are those of `evaluate.targets.roofline`. Measured by a small C++ program with the
user's compiler, once for each number of threads, and kept beside the bandwidths. Computes for about
a second, so it belongs into a process of its own, which is `python -m` this module and a number of
threads. Decides nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from akg_tui.store.filesystem import replace_file


class NotMeasured(Exception):
    """There is no compiler, or it refuses the program; the message is one line."""


class Rates(Struct, frozen=True):
    """What `threads` threads reach together, in operations a second; a multiply-add is two."""

    threads: int
    float32: float
    float64: float


_SOURCE = Path(__file__).with_suffix(".cpp").read_text("utf-8")
_FLAGS = ("-O3", "-march=native", "-ffp-contract=fast", "-pthread")


def machine_rates(threads: int, *, anew: bool = False) -> Rates:
    """Return the rates of this machine, measured if they are not kept. Raises `NotMeasured`.

    With `anew` they are measured in any case, and the best of old and new counts: the machine's
    capability, not its rates beside other work.
    """
    from akg_tui.dsl import CompileError, CompilerMissing, compile_cpp

    kept = kept_rates(threads)
    if kept is not None and not anew:
        return kept
    try:
        built = compile_cpp(_SOURCE, _FLAGS)
    except (CompileError, CompilerMissing, OSError) as error:
        raise NotMeasured(str(error)) from error
    for name in ("float32_rate", "float64_rate"):
        getattr(built, name).restype = ctypes.c_double
    rates = Rates(threads, built.float32_rate(threads), built.float64_rate(threads))
    if kept is not None:
        best = max(rates.float32, kept.float32), max(rates.float64, kept.float64)
        rates = Rates(threads, *best)
    with contextlib.suppress(OSError):  # then the next process measures again
        path = _path(threads)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, msgspec.json.encode(rates), alone=False)
    return rates


def kept_rates(threads: int) -> Rates | None:
    """Return the rates that were measured before on this machine, or None."""
    try:
        return msgspec.json.decode(_path(threads).read_bytes(), type=Rates)
    except (OSError, msgspec.MsgspecError):
        return None


def _path(threads: int) -> Path:
    from akg_tui.evaluate.targets.cpu import machine_key

    key = hashlib.sha256(f"{machine_key()} {_SOURCE}".encode()).hexdigest()[:16]
    return Path.home() / ".cache" / "akg_tui" / f"rates-{threads}-{key}.json"


def main(words: list[str]) -> None:
    """Print the `Rates` of as many threads as the first word says, or nothing."""
    try:
        print(msgspec.json.encode(machine_rates(int(words[0]))).decode())
    except NotMeasured:
        return


if __name__ == "__main__":
    main(sys.argv[1:])
