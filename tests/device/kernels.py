"""Kernels for the device of the tests: honest ones, faulty ones, and cheats that only it allows."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from akg_tui.core.measurement import FailureKind

REFERENCE = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(256) + 0.5)

    def forward(self, x, factor):
        return torch.softmax(x * self.scale * factor, dim=-1)

def get_inputs():
    return [torch.randn(64, 256), float(torch.rand(()) + 0.5)]

def get_init_inputs():
    return []
"""

_HEAD = """
import ctypes
import sys
import torch
device = torch.get_device_module("labdev")
"""

_CLASS = """
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(256))
        self.kept = {}
        self.side = None

    def right(self, x, factor):
        return torch.softmax(x * self.scale * factor, dim=-1)

    def forward(self, x, factor):
"""

_SERVER = "from akg_tui.evaluate.child import device_server as server, seal\n"


def kernel(body: str, before: str = "") -> str:
    """Return a kernel with a body of `forward`, and statements at its top level."""
    lines = textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8)
    return _HEAD + textwrap.dedent(before).strip("\n") + "\n" + _CLASS + lines + "\n"


HONEST = {
    "plain": kernel("return self.right(x, factor)"),
    "in place on a copy": kernel("""
        y = x.clone().mul_(self.scale).mul_(factor)
        y -= y.amax(-1, keepdim=True)
        y.exp_()
        return y.div_(y.sum(-1, keepdim=True))
    """),
    "on a stream of its own": kernel("""
        if self.side is None:
            self.side = torch.Stream("labdev")
        with self.side:
            y = self.right(x, factor)
        return y
    """),
    "one buffer for all results": kernel("""
        if x.shape not in self.kept:
            self.kept[x.shape] = torch.empty_like(x)
        return self.kept[x.shape].copy_(self.right(x, factor))
    """),
    "through the host": kernel("""
        y = torch.softmax(x.cpu() * self.scale.cpu() * factor, -1)
        return y.to(x.device)
    """),
}


@dataclass(frozen=True)
class Refused:
    """A kernel that must fail, with the kinds of its failure and words of the message."""

    name: str
    text: str
    fails: tuple[FailureKind, ...]
    says: str = ""
    timed: bool = False
    """Whether only the comparison of times shows it."""


WRONG, CALL, CRASH = FailureKind.WRONG, FailureKind.CALL, FailureKind.CRASH

UNSYNCHRONISED = "device.synchronize = lambda: None"

SKIPS_ONE = """
real, skipped = device.synchronize, []
device.synchronize = lambda: skipped.pop() if skipped else real()
"""

CHEATS = (
    Refused(
        "work left on another stream",
        kernel("""
            if self.side is None:
                self.side = torch.Stream("labdev")
            out = torch.zeros_like(x)
            with self.side:
                device.spin(0.01)
                out.copy_(self.right(x, factor))
            return out
        """, UNSYNCHRONISED), (WRONG,),
    ),
    Refused(
        "the result made while it is fetched",
        kernel("""
            self.given = x, factor
            server.late = self
            return torch.zeros_like(x)
        """, _SERVER + """
fetch = server.OnDevice._fetch
def late(self):
    with torch.no_grad():
        self._returned[0].copy_(server.late.right(*server.late.given))
    fetch(self)
server.OnDevice._fetch = late
"""), (WRONG,), "not those of the answer",
    ),
    Refused(
        "the result made while the input is placed",
        kernel("""
            server.early = self
            done = self.kept.pop("early", None)
            return self.right(x, factor) if done is None else done
        """, _SERVER + """
place = server.OnDevice._place
def early(self):
    place(self)
    model = getattr(server, "early", None)
    if model is not None:
        sealed = self._sealed[:64 * 256 * 4].view(torch.float32).view(64, 256)
        model.kept["early"] = model.right(sealed, 1.0)
server.OnDevice._place = early
"""), (WRONG, CRASH, CALL),
    ),
    Refused(
        "a digest made up",
        kernel("return self.right(x, factor)", _SERVER + "seal.joined = lambda _: 12345"),
        (WRONG,), "not those of the answer",
    ),
    Refused(
        "a digest of what comes later",
        kernel("return torch.zeros_like(x)", _SERVER + """
def told(self, key):
    self._returned = [torch.zeros(64, 256, device="labdev")]
    self._answer(server.Answer(1000, 0, 0), self._returned)
    return 0
server.OnDevice._call_model = told
"""), (WRONG,),
    ),
    Refused(
        "a result cached in the device's memory by address",
        kernel("""
            if x.data_ptr() not in self.kept:
                self.kept[x.data_ptr()] = self.right(x, factor)
            return self.kept[x.data_ptr()]
        """), (WRONG,), "cached",
    ),
    Refused(
        "work replayed on the first input",
        kernel("""
            if x.shape not in self.kept:
                self.kept[x.shape] = x.clone()
            return self.right(self.kept[x.shape], factor)
        """), (WRONG,),
    ),
    Refused(
        "the number taken from the sealed input",
        kernel("return self.right(x, 1.0)"), (WRONG,),
    ),
    Refused(
        "memory that was never written", kernel("return torch.empty_like(x)"), (WRONG,),
    ),
    Refused(
        "a result in the host's memory",
        kernel("return self.right(x, factor).cpu()"), (WRONG,), "wrong device",
    ),
    Refused(
        "the input overwritten",
        kernel("""
            y = self.right(x, factor)
            x.zero_()
            return y
        """), (WRONG,), "changed its inputs",
    ),
    Refused(
        "the device's memory read by the host",
        kernel("return torch.zeros_like(x) + ctypes.c_float.from_address(x.data_ptr()).value"),
        (CRASH,), "SIGSEGV",
    ),
    Refused(
        "events that are patched",
        kernel("device.spin(0.002)\nreturn self.right(x, factor)", _SERVER + """
timed = server.Device.timed
server.Device.timed = lambda self, call: (timed(self, call)[0], 10_000)
"""), (FailureKind.IMPOSSIBLE,), "tampering", timed=True,
    ),
    Refused(
        "a clock that lies",
        # Calls that take longer than a judge that waits for a CPU takes to come back.
        kernel("device.spin(0.02)\nreturn self.right(x, factor)", "device.set_clock(0.001)"),
        (FailureKind.IMPOSSIBLE,), "tampering", timed=True,
    ),
    Refused(
        "work left after the answer",
        kernel("""
            if self.side is None:
                self.side = torch.Stream("labdev")
            y = self.right(x, factor)
            with self.side:
                device.spin(0.05)  # longer than a judge that waits for a CPU takes to come back
            skipped.append(1)
            return y
        """, SKIPS_ONE), (WRONG,), "work was left on the device", timed=True,
    ),
)  # fmt: skip

FAULTS = (
    Refused(
        "an illegal address", kernel("device.illegal_address()\nreturn self.right(x, factor)"),
        (CALL,), "illegal memory access",
    ),
    Refused(
        "out of memory",
        kernel("return self.right(x, factor) + torch.empty(1 << 30, device='labdev')[:256]"),
        (CALL,), "out of memory",
    ),
    Refused(
        "a launch that fails", kernel("device.fail_launches(1)\nreturn self.right(x, factor)"),
        (CALL,), "launch failed",
    ),
    Refused(
        "a hung device", kernel("device.spin(1000.0)\nreturn self.right(x, factor)"),
        (FailureKind.TIMEOUT,), "no answer after",
    ),
    Refused(
        "memory that grows with every call",
        kernel("""
            self.kept[len(self.kept)] = y = self.right(x, factor)
            return y.clone()
        """), (CRASH,), "memory of the device grows", timed=True,
    ),
)  # fmt: skip
