"""Single operations in Triton with their results by PyTorch, and a program that compares them.

`python -m tests.evaluate.triton_operations` runs all, and kernels of `benchmarks/published_triton`,
in the corrected interpreter, and prints what differs as JSON. It is a process of its own, because
CUDA means the host in it from then on.
"""

from __future__ import annotations

import json
import linecache
import sys
import types
from typing import Any

from benchmarks.published_kernels import PATHS

SIZE = 64

_F = ".to(tl.float32)"
_NAN, _ALL = "(x / 0 * 0)", "tl.PropagateNan.ALL"
EXPRESSIONS = {
    # Of blocks x, y, z in bfloat16; `at` counts the elements, `s` is a float of the launch: 1.5.
    "add": ("x + y", "x + y"),
    "subtract": ("x - y", "x - y"),
    "multiply": ("x * y", "x * y"),
    "divide": ("x / y", "x / y"),
    "negate": ("-x", "-x"),
    "compare": ("tl.where(x < y, x, y)", "torch.minimum(x, y)"),
    "comparison": ("(x >= y).to(tl.bfloat16)", "(x >= y).bfloat16()"),
    "maximum": ("tl.maximum(x, y)", "torch.maximum(x, y)"),
    "minimum": ("tl.minimum(x, y)", "torch.minimum(x, y)"),
    "clamp": ("tl.clamp(x, -0.5, 0.5)", "x.clamp(-0.5, 0.5)"),
    "fma": ("tl.fma(x, y, z)", "x.float() * y.float() + z.float()"),
    "absolute": ("tl.abs(x)", "x.abs()"),
    "cumsum": ("tl.cumsum(x, 0)", "x.float().cumsum(0)"),
    "cumsum backwards": ("tl.cumsum(x, 0, reverse=True)", "x.float().flip(0).cumsum(0).flip(0)"),
    "cumprod": ("tl.cumprod(x, 0)", "x.float().cumprod(0)"),
    "minima without NaN": (
        f"tl.maximum({_NAN}, y) + tl.minimum(y, {_NAN}) + tl.clamp({_NAN}, -0.5, 0.5)",
        "y + y - 0.5",
    ),
    "minima with NaN": (
        f"tl.where(tl.maximum({_NAN}, y, {_ALL}) <= y, x, tl.where(tl.minimum({_NAN}, y, {_ALL})"
        f" <= y, x, tl.where(tl.clamp({_NAN}, -1.0, 1.0, {_ALL}) <= 1, x, z)))",
        "z",
    ),
    "sum": ("tl.sum(x, 0) + x * 0", "x.float().sum().bfloat16() + x * 0"),
    "max": ("tl.max(x, 0) + x * 0", "x.max() + x * 0"),
    "argmax": ("tl.argmax(x, 0) + at * 0", "x.argmax().repeat(64)"),
    "sort": ("tl.sort(x)", "x.sort().values"),
    "flip": ("tl.flip(x, 0)", "x.flip(0)"),
    "gather": ("tl.gather(x, 63 - at, 0)", "x.flip(0)"),
    "bits": ("(x.to(tl.int16, bitcast=True) ^ -32768).to(tl.bfloat16, bitcast=True)", "-x"),
    "bits of NaN": (
        "(at * 0 + 0x7F800001).to(tl.float32, bitcast=True).to(tl.bfloat16)"
        ".to(tl.int16, bitcast=True)",
        "at * 0 + 0x7FFF",
    ),
    "to integer": ("(x * 10).to(tl.int32)", "(x * 10).int()"),
    "of integer": ("at.to(tl.bfloat16)", "at.bfloat16()"),
    "by float8": ("x.to(tl.float8e4nv).to(tl.bfloat16)", "x.to(torch.float8_e4m3fn).bfloat16()"),
    "by float8e5": ("x.to(tl.float8e5).to(tl.bfloat16)", "x.to(torch.float8_e5m2).bfloat16()"),
    "towards zero": (
        f"(x{_F} * 1.01).to(tl.bfloat16, fp_downcast_rounding='rtz')",
        "((x.float() * 1.01).view(torch.int32) & -65536).view(torch.float32)",
    ),
    "a float of the launch": ("x * s.to(tl.float32)", "x.float() * 1.5"),
    "a number": ("x + 0.1", "x + torch.tensor(0.1).bfloat16()"),
    "full": ("tl.full((N,), 0.1, tl.bfloat16) + x", "torch.tensor(0.1).bfloat16() + x"),
    "softmax": (f"tl.softmax(x{_F})", "x.float().softmax(0)"),
    "transpose": ("tl.ravel(tl.trans(tl.reshape(x, (8, 8))))", "x.view(8, 8).T.flatten()"),
    "libdevice": (
        f"libdevice.tanh(x{_F}) + tanh(x{_F}) + libdevice.fast_expf(x{_F})",
        "2 * x.float().tanh() + x.float().exp()",
    ),
    "libdevice at its ends": (
        f"libdevice.remainder(x{_F}, s / 0) + libdevice.saturatef({_NAN}{_F})"
        f" + libdevice.fdim(s / 0, s / 0) + 1 / libdevice.tgamma(at{_F} + 200.5)",
        "x",
    ),
    "powers": (f"libdevice.pow(tl.abs(x){_F}, 2.0)", "x.float() ** 2"),
    "finite": (
        f"tl.where(libdevice.isfinited(x.to(tl.float64)) & libdevice.finitef(y{_F}), x, 0)",
        "x",
    ),
    "not and": (
        "tl.where(not (at >= 5) and at > 1 or at == 7, x, 0)",
        "torch.where((at < 5) & (at > 1) | (at == 7), x, 0)",
    ),
    "Python's max and min": ("max(min(x, y), -0.5, z)", "x.minimum(y).clamp(-0.5).maximum(z)"),
    "constants in and": ("tl.where(N == 64 and at > 1, x, 0)", "torch.where(at > 1, x, 0)"),
}
BODIES = {
    "a constant stays one": (
        "h = N // 2\n    store(o_ptr + tl.arange(0, h), tl.zeros([h], tl.float32) + 1)",
        "torch.ones(32)",
    ),
    "a constant's value": ("store(o_ptr + at, x * (N.value // 32))", "x * 2"),
    "a variable is a tensor": (
        "n = 0.0\n    for i in range(4):\n        n += i.to(tl.float32)\n"
        "    store(o_ptr + at, x * 0 + n.to(tl.bfloat16))",
        "x * 0 + 6",
    ),
    "an unrolled loop has constants": (
        "for i in tl.static_range(3):\n        n: tl.constexpr = i + 1\n"
        "        store(o_ptr + at, x * n)",
        "x * 3",
    ),
    "a flag of the launch": ("if flag:\n        store(o_ptr + at, x)", "x"),
    "split and join": (
        "a, b = tl.split(tl.reshape(x, (N // 2, 2)))\n"
        "    store(o_ptr + at, tl.interleave(a, b) + y)",
        "x + y",
    ),
    "atomic sum": (
        "tl.atomic_add(o_ptr + at // 2, x)",
        "x[0::2] + x[1::2]",
    ),
    "a descriptor": (
        "d = tl.make_tensor_descriptor(x_ptr, shape=[N], strides=[1], block_shape=[N])\n"
        "    store(o_ptr + at, d.load([0]))",
        "x",
    ),
    "specialized warps": (
        "for i in tl.range(0, 3, warp_specialize=True):\n        store(o_ptr + at, x * i)",
        "x * 2",
    ),
    "products of other types": (
        "r = tl.arange(0, 16)\n    a = tl.load(x_ptr + r[:, None] * 0 + r[None, :] * 2)\n"
        "    a = (a * 10).to(tl.int8)\n    b = tl.dot(a, tl.trans(a)).to(tl.float32)\n"
        "    c = a.to(tl.float32).to(tl.float8e5)\n    d = tl.dot(c, tl.trans(c))\n"
        "    store(o_ptr + at * 0, (tl.max(b) + tl.max(d)).to(tl.bfloat16))",
        "((x[:32:2] * 10).char().float().square().sum()"
        " + (x[:32:2] * 10).char().float().to(torch.float8_e5m2).float().square().sum())[None]",
    ),
    "a text that has def": ('"""\n    def other():\n    """\n    store(o_ptr + at, x)', "x"),
    "own reduction": ("store(o_ptr + at, tl.reduce(x, 0, latest) + x * 0)", "x[-1] + x * 0"),
    "own scan": ("store(o_ptr + at, tl.associative_scan(x, 0, latest))", "x"),
    "product": (
        "r = tl.arange(0, 16)\n    a = tl.load(x_ptr + r[:, None] + r[None, :])\n"
        "    b = tl.load(y_ptr + r[:, None] + r[None, :])\n"
        "    store(o_ptr + at, tl.sum(tl.dot(a, b), 1).to(tl.bfloat16)[:, None]"
        " + tl.zeros((16, 4), tl.bfloat16))".replace("at,", "r[:, None] * 4 + tl.arange(0, 4),"),
        "(x.unfold(0, 16, 1)[:16].float() @ y.unfold(0, 16, 1)[:16].float())"
        ".sum(1).repeat_interleave(4)",
    ),
}
WRAPPER = """
import sysconfig
import torch
import triton
import triton.language as tl
import triton.testing
from torch._C import _cuda_getCurrentRawStream
from triton.language import load, static_assert, store
from triton.language import sum as total
from triton.language.extra import libdevice

device = torch.cuda.current_device()
x = torch.empty(3, device=device)
assert x.is_cuda and x.get_device() == 0 and str(x.device) == "cuda:0"
assert x.device == triton.runtime.driver.active.get_active_torch_device()
assert torch.get_device_module(x.device) is torch.cuda is torch.get_device_module("cuda")
linear = torch.nn.Linear(3, 3, device="cuda", dtype=torch.bfloat16).to(torch.device("cuda")).cuda()
linear(x.to("cuda", torch.bfloat16).to(device))
torch.randn(2, pin_memory=True).pin_memory().cuda(non_blocking=True)
torch.rand(2, device="cuda", generator=torch.Generator("cuda").manual_seed(3))
with torch.device("cuda"):
    torch.ones(1)
torch.set_default_device("cuda")
torch.ones(1)
torch.set_default_device(None)
stream, event = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
stream.wait_stream(torch.cuda.current_stream())
assert stream.cuda_stream == _cuda_getCurrentRawStream(0)
with torch.cuda._DeviceGuard(0):
    torch.cuda.set_device(0)
    assert torch._C._dynamo.guards._empty_strided_cuda((2, 3), (3, 1), torch.half).is_cuda
event.record()
torch.cuda.synchronize()
assert event.elapsed_time(event) == 0
half = torch.bfloat16
for scope in (torch.cuda.amp.autocast(dtype=half), torch.autocast("cuda", half)):
    with torch.cuda.stream(stream), torch.cuda.device_of(x), scope:
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
sizes = torch.cuda.get_device_properties(x.device)
told = triton.runtime.driver.active.utils.get_device_properties(0)
assert sizes.multi_processor_count == told["multiprocessor_count"]
library = torch.library.Library("akg", "FRAGMENT")
library.define("same(Tensor x) -> Tensor")
library.impl("same", lambda x: x.clone(), "CUDA")
torch.ops.akg.same(x)


@torch.library.custom_op("akg::own", mutates_args=(), device_types="cuda")
def own(x: torch.Tensor) -> torch.Tensor:
    return x + 1


own(x)
assert triton.testing.do_bench(lambda: x) == 1.0
assert triton.runtime.driver.active.get_benchmarker()(lambda: x, quantiles=(0.5,)) == [1.0]
assert isinstance(torch.default_generator, torch.Generator)
exec("assert torch.cuda.is_available() and x.is_cuda")
asked = "assert torch.cuda.is_available() is x.is_cuda is {}"
for library, answer in {"some_kernels": True, "torch": False, "triton": False}.items():
    path = f"{sysconfig.get_path('purelib')}/{library}/asks.py"
    exec(compile(asked.format(answer), path, "exec"))
assert torch.cuda.is_available() and torch.cuda.get_device_capability() == (8, 0)


@triton.jit
def doubled(x_ptr, y_ptr):
    static_assert(True)
    store(y_ptr, libdevice.fma(total(load(x_ptr + tl.arange(0, 1))), 2.0, 0.0))


assert doubled.cache_key  # of launchers that keep what they launched
y = torch.ones(1)
doubled[(1,)](y, y)
assert y == 2
"""
TUNED = """
import triton, triton.language as tl
from triton.runtime.autotuner import Autotuner


def summed(configs, tuner=Autotuner, **options):
    @triton.jit
    def kernel(o_ptr, n, N: tl.constexpr):
        tl.atomic_add(o_ptr + tl.arange(0, N), 1.0)

    options = {"reset_to_zero": None, "restore_value": None} | options
    return tuner(kernel, kernel.arg_names, configs, ["n"], **options)


class OwnChoice(Autotuner):  # by times in a store of its own
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.cache = None

    def run(self, *args, **named):
        self.nargs = dict(zip(self.arg_names, args))
        times = {config: self._bench(*args, config=config, **named) for config in self.configs}
        return self.fn.run(*args, **named, **min(times, key=times.get).all_kwargs())


class Reading(Autotuner):  # before Triton's own run
    def run(self, *args, **named):
        self.looked = True
        return super().run(*args, **named)


two = [triton.Config({"N": 4}), triton.Config({"N": 8})]
warps = [triton.Config({"N": 4}, num_warps=warps, num_stages=warps) for warps in (2, 4)]
"""
THREADS = """
import threading
from concurrent.futures import ThreadPoolExecutor

import torch, triton, triton.language as tl

together = threading.Barrier(4)


@triton.jit
def filled(o_ptr, value, N: tl.constexpr):
    tl.store(o_ptr + tl.program_id(0) * N + tl.arange(0, N), value)


def launched(value):
    out = torch.zeros(256, device="cuda")
    together.wait()
    filled[(64,)](out, value, N=4)
    return out.unique().tolist()


with ThreadPoolExecutor(4) as pool:
    found = list(pool.map(launched, range(1, 9)))
"""
REFUSED = {
    "inline_asm": (
        "tl.inline_asm_elementwise('', '=r,r', [at], dtype=tl.int32, is_pure=True, pack=1)",
        "CannotRunHere",
    ),
    "a timer": ("tl.extra.cuda.globaltimer()", "CannotRunHere"),
    "dot_scaled": (
        "tl.dot_scaled(x[:, None], None, 'bf16', y[None, :], None, 'bf16')",
        "CannotRunHere",
    ),
    "a rare function": ("libdevice.ffs(at)", "CannotRunHere"),
    "chained comparison": ("tl.where(0 <= at < 5, x, y)", "NotCompiled"),
    "static assertion": ("tl.static_assert(N == 65, 'size')", "FailedAssertion"),
}
_HEAD = """
import triton, triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.libdevice import tanh


@triton.jit
def latest(a, b):
    return b


@triton.jit
def store(at, value):
    tl.store(at, value)


@triton.jit
def k(x_ptr, y_ptr, z_ptr, o_ptr, s, flag, N: tl.constexpr):
    at = tl.arange(0, N)
    x, y, z = tl.load(x_ptr + at), tl.load(y_ptr + at), tl.load(z_ptr + at)
    BODY
"""


PUBLISHED = (
    *("batch_product", "delta_rule", "descriptors", "dropout", "expert_products", "external"),
    *("fp8_product", "group_norm", "grouped_products", "layer_norm", "log_softmax", "matmul"),
    *("quantize", "retention", "rms_norm", "rms_norm_gradient", "swiglu_gradient", "topk"),
)
"""Published kernels of each manner that use, together with the operations above, every function of
Triton that any of them uses: the benchmark `published_kernels` judges all."""


def names() -> list[str]:
    """Return the names of all that is compared."""
    return [
        *EXPRESSIONS,
        *BODIES,
        *REFUSED,
        "CUDA",
        "tuners",
        "threads",
        *PUBLISHED,
    ]


def module(name: str, text: str) -> types.ModuleType:
    """Return a module of this text, which inspect can read."""
    made = types.ModuleType(name)
    made.__file__ = f"{name}.py"
    linecache.cache[made.__file__] = (len(text), None, text.splitlines(True), made.__file__)
    sys.modules[name] = made
    exec(compile(text, made.__file__, "exec"), made.__dict__)
    return made


def outcome(body: str, wanted: str) -> str:
    """Return how the result of a kernel differs from the wanted one; "" if it does not."""
    import torch

    from akg_tui.dsl.triton_interpreter.tuning import innermost

    torch.manual_seed(1)
    x, y, z = (torch.randn(SIZE).bfloat16() for _ in range(3))
    at = torch.arange(SIZE)
    result = eval(wanted, {"torch": torch, "x": x, "y": y, "z": z, "at": at}) if wanted else x
    whole = not result.is_floating_point()
    out = torch.zeros(SIZE, dtype=torch.int32 if whole else torch.bfloat16)
    kernel = module("operation", _HEAD.replace("BODY", body)).k
    try:
        kernel[(1,)](x, y, z, out, 1.5, True, N=SIZE)
    except Exception as error:  # noqa: BLE001 (told)
        cause = innermost(error)
        return f"{type(cause).__name__}: {cause}"
    result = result.to(out.dtype).flatten()
    return "" if torch.equal(out[: result.numel()], result) else f"{out} is not {result}"


def tuners() -> str:
    """Return what is wrong with the runs of tuners; "" if nothing is."""
    import torch

    from akg_tui.dsl.interpretation import CONFIGURATIONS

    made = module("tuned", TUNED)

    def found(number: int, configs: Any, **options: Any) -> list[float]:
        CONFIGURATIONS.number, CONFIGURATIONS.most, out = number, 1, torch.zeros(8)
        kernel = made.summed(configs, **options)
        for _ in range(2):
            kernel[(3,)](out, 8)
        return [float(out[0]), float(out[7]), CONFIGURATIONS.most]

    # The run that a tuner times counts too, but for what it resets or restores.
    wrong = {
        "not reset": found(1, made.two) != [9, 9, 2],
        "reset": found(1, made.two, reset_to_zero=["o_ptr"]) != [6, 6, 2],
        "restored": found(0, made.two, restore_value=["o_ptr"]) != [6, 0, 2],
        "warps": found(1, made.warps) != [9, 0, 1],
        "its own run": found(1, made.two, tuner=made.OwnChoice) != [9, 9, 2],
        "its own run before Triton's": found(0, made.two, tuner=made.Reading) != [9, 0, 2],
    }
    return ", ".join(name for name, is_wrong in wrong.items() if is_wrong)


def published(name: str) -> float:
    """Return the largest error of a published kernel as a share of 1 or of the result.

    With the first and the last configuration of its tuner: the benchmark tries all.
    """
    import torch

    from akg_tui.dsl.interpretation import CONFIGURATIONS

    made = module(name, PATHS[name].read_text("utf-8"))
    torch.manual_seed(0)
    given, init = made.get_inputs(), made.get_init_inputs()
    wanted, kernel = made.Model(*init)(*given), made.ModelNew(*init)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    worst, CONFIGURATIONS.most, CONFIGURATIONS.number = 0.0, 1, 0
    while CONFIGURATIONS.number < CONFIGURATIONS.most:
        found = kernel(*given)
        for got, want in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            scale = want.float().abs() + 0.05 * want.float().abs().max()
            worst = max(worst, float(((got.float() - want.float()).abs() / scale).max()))
        CONFIGURATIONS.number = max(CONFIGURATIONS.number + 1, CONFIGURATIONS.most - 1)
    return worst


def main() -> None:
    """Print the outcome of each name."""
    import torch

    from akg_tui.dsl import triton_interpreter

    triton_interpreter.install()
    torch.set_grad_enabled(False)
    found: dict[str, Any] = {}
    for name, (text, wanted) in EXPRESSIONS.items():
        found[name] = outcome(f"store(o_ptr + at, {text})", wanted)
    found |= {name: outcome(*each) for name, each in BODIES.items()}
    found |= {name: outcome(text, "") for name, (text, _) in REFUSED.items()}
    found["tuners"] = tuners()
    sys.setswitchinterval(1e-5)
    results = module("threads", THREADS).found
    found["threads"] = "" if results == [[value] for value in range(1, 9)] else str(results)
    module("wrapper", WRAPPER)
    found["CUDA"] = "" if torch.zeros(1).is_cpu else "it does not mean the host"
    for name in PUBLISHED:
        found[name] = published(name)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
