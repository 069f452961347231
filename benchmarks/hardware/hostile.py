"""Kernels that harm their process or the device: each fails, and the device serves the next one."""

from __future__ import annotations

from akg_tui.core.measurement import FailureKind
from benchmarks.hardware.kernels import Refused, kernel

CALL, CRASH, TIMEOUT = FailureKind.CALL, FailureKind.CRASH, FailureKind.TIMEOUT

HOSTILE = (
    Refused(
        "an illegal address", kernel("device.illegal_address()\nreturn self.right(x, factor)"),
        (CALL,), "illegal memory access", portable=False,
    ),
    Refused(
        "an illegal address on another stream, after the answer",
        kernel("""
            self.side.synchronize()  # finds what the call before has left
            with self.side:
                device.illegal_address()
            return self.right(x, factor)
        """, "device.synchronize = lambda: None"), (CALL,), "illegal memory access", portable=False,
    ),
    Refused(
        "out of memory",
        kernel("return self.right(x, factor) + torch.empty(1 << 44, device=x.device)[:256]"),
        (CALL,), "out of memory",
    ),
    Refused(
        "a launch that fails", kernel("device.fail_launches(1)\nreturn self.right(x, factor)"),
        (CALL,), "launch failed", portable=False,
    ),
    Refused(
        "a crash while the device works",
        kernel("""
            spin(0.05)
            ctypes.string_at(0)
        """), (CRASH,), "SIGSEGV",
    ),
    Refused(
        "an exit while the device works",
        kernel("""
            spin(0.05)
            os._exit(0)
        """, "import os"), (CRASH,),
    ),
    Refused(
        "the memory of an argument freed",
        kernel("""
            y = self.right(x, factor)
            device.synchronize()
            x.untyped_storage().resize_(0)
            return y
        """), (CALL, CRASH),
    ),
    Refused(
        "a hung device", kernel("spin(1000.0)\nreturn self.right(x, factor)"),
        (TIMEOUT,), "no answer after",
    ),
    Refused(
        "a hung host that ignores SIGTERM",
        kernel("""
            while True:
                time.sleep(1000)
        """, "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)"),
        (TIMEOUT,), "no answer after",
    ),
)  # fmt: skip
