"""Lets torch.compile generate Triton for a GPU, on a machine that need not have one.

Inductor asks the GPU for its properties and the driver for nothing else. It gets those of an arch,
and fake tensors on that GPU. As in `code_generator`, nothing generated is compiled or run here.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import copy
import importlib
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from msgspec.structs import replace

from akg_tui.dsl.gpu_arches import ARCHES, PROCESSORS
from akg_tui.evaluate.targets.nvml import arch_here
from akg_tui.problems.inductor.generated import Generated, TritonConfig, TritonFunction
from akg_tui.problems.inductor.module import own_functions
from akg_tui.problems.module_text import used_by
from akg_tui.sizing.code_generator import Caught, CodeGenerator, Unusable, settings

MODULES = (
    "torch._inductor.codegen.triton",
    "torch._inductor.codegen.cuda_combined_scheduling",
    "torch._inductor.runtime.triton_helpers",
    "torch._inductor.runtime.triton_heuristics",
)

USUAL = "sm_90"
"""The arch whose code is generated where none is known."""

DEVICE = torch.device("cuda", 0)

KNOWN = frozenset({"tl", "triton", "libdevice", "math", *dir(builtins)})
"""The names that a kernel binds, as the helpers of Inductor know them."""

_HELPER = re.compile(r"\btriton_helpers\.(\w+)")


def arch_of(stated: str) -> str:
    """Return the arch to generate for: the stated one or the GPU's, if its properties are known."""
    found = (each for each in (stated, arch_here()) if each in PROCESSORS)
    return next(found, USUAL)


def preload() -> None:
    """Import what Inductor imports when it first writes Triton."""
    for name in MODULES:
        importlib.import_module(name)


class TritonGenerator(CodeGenerator):
    """Reports the Triton that Inductor generates for a reference."""

    arch = USUAL

    def _generated(self, model: torch.nn.Module, inputs: Sequence[object]) -> Generated:
        from akg_tui.dsl.triton_interpreter import host_cuda

        host_cuda.withdraw()
        with settings():
            generated = self._compiled(model, inputs, _CaughtOnGpu(self.arch))
        functions = tuple(_functions(generated.module))
        texts = "".join(each.text + each.inner for each in functions)
        return replace(generated, arch=self.arch, functions=functions, helpers=_helpers(texts))


class _CaughtOnGpu(Caught):
    """Catches the module for a graph whose tensors are all on a GPU of an arch."""

    def __init__(self, arch: str) -> None:
        super().__init__()
        self._arch = arch

    def lower(self, graph: torch.fx.GraphModule, examples: Sequence[torch.Tensor]) -> None:
        """Let Inductor generate code for a copy of the graph on the GPU."""
        from torch._inductor.compile_fx import compile_fx
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.utils._device import _device_constructors

        moved = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
        for node in moved.graph.nodes:
            made = node.target in _device_constructors() or node.kwargs.get("device") is not None
            # A number of the host stays one: Inductor writes it into the code.
            if made and node.target is not torch.tensor:
                node.kwargs = {**node.kwargs, "device": DEVICE}
        moved.recompile()
        with _gpu(self._arch), FakeTensorMode(allow_non_fake_inputs=True):
            given = [
                torch.empty_strided(e.shape, e.stride(), dtype=e.dtype, device=DEVICE)
                for e in examples
            ]
            compile_fx(moved, given)


@contextlib.contextmanager
def _gpu(arch: str) -> Iterator[None]:
    """Let Inductor find a GPU of an arch."""
    import torch._inductor.config
    import torch._inductor.scheduler
    import torch.utils._triton
    from torch._dynamo.device_interface import CudaInterface
    from torch._inductor import ir
    from torch._inductor.fx_passes import joint_graph
    from torch._inductor.runtime.hints import ReductionHint

    limits = ARCHES[arch]
    major, minor = divmod(int(arch.removeprefix("sm_")), 10)
    properties = SimpleNamespace(
        name=arch,
        gcnArchName=arch,
        major=major,
        minor=minor,
        multi_processor_count=PROCESSORS[arch],
        regs_per_multiprocessor=65536,
        max_threads_per_multi_processor=limits.threads,
        max_threads_per_block=1024,
        warp_size=limits.warp,
        shared_memory_per_block_optin=limits.shared_a_block,
    )
    init = joint_graph.lazy_init

    def told(_: object = None) -> Any:
        return properties

    with contextlib.ExitStack() as patched:
        for owner, name, value in (
            (torch.cuda, "get_device_properties", told),
            (torch.cuda, "get_device_capability", lambda _=None: (major, minor)),
            (torch.cuda, "current_device", lambda: 0),
            (CudaInterface, "get_device_properties", staticmethod(told)),
            (CudaInterface.Worker, "get_device_properties", staticmethod(told)),
            (
                CudaInterface,
                "get_compute_capability",
                staticmethod(lambda _=None: 10 * major + minor),
            ),
            # Parts of a scan would need memory of their own.
            (ir.Scan, "num_splits", lambda **_: (ReductionHint.DEFAULT, 1)),
            (torch._inductor.scheduler, "has_triton", lambda *_: True),
            (torch.utils._triton, "triton_hash_with_backend", lambda: ""),
            # The patterns that it looks for are traced with tensors: on the CPU.
            (joint_graph, "lazy_init", lambda *_: init(torch.device("cpu"))),
        ):
            patched.enter_context(mock.patch.object(owner, name, value))
        patched.enter_context(
            torch._inductor.config.patch(
                {
                    # They would time products on the GPU, and compute there.
                    "shape_padding": False,
                    "joint_graph_constant_folding": False,
                    # Launches that need memory or a grid of their own.
                    "triton.mix_order_reduction": False,
                    "triton.cooperative_reductions": False,
                }
            )
        )
        yield


def _functions(module: str) -> Iterator[TritonFunction]:
    """Yield the functions of a module that are in Triton."""
    for name, kind, given in own_functions(ast.parse(module)):
        if kind == "triton":
            yield _function(name, ast.literal_eval(given[1]))


def _function(name: str, text: str) -> TritonFunction:
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    found = next((node for node in functions if node.name == name), None)
    called = found.decorator_list[0] if found is not None else None
    if found is None or not isinstance(called, ast.Call):
        raise Unusable(f"torch.compile writes {name} in a way that is not known")
    arguments, configs = _heuristic(called)
    constexpr = {each.arg for each in found.args.args if each.annotation is not None}
    kept = tuple(
        TritonConfig(
            blocks={key: value for key, value in each.kwargs.items() if key in constexpr},
            warps=each.num_warps,
            stages=each.num_stages,
        )
        for each in configs
    )
    if not kept or kept[0].blocks.keys() != constexpr:
        raise Unusable(f"torch.compile writes {name} with blocks that are not known")
    lines = text.splitlines()
    # Such as the function by which a scan combines two elements.
    inner = [_text(lines, node) for node in functions if node is not found]
    return TritonFunction(
        name=name,
        text="\n".join(lines[found.lineno - 1 : found.end_lineno]),
        inner="\n\n\n".join(inner),
        configs=kept,
        limits=_limits(arguments["size_hints"]),
        grid=str(arguments["inductor_meta"].get("grid_type", "")),
    )


def _heuristic(called: ast.Call) -> tuple[dict[str, Any], list[Any]]:
    """Return the arguments of Inductor's decorator, and the configs that it would choose from."""
    from torch._inductor.runtime import hints, triton_heuristics

    names = {name: getattr(hints, name) for name in dir(hints)} | {
        "triton_heuristics": triton_heuristics,
        "__file__": "",
    }
    arguments = {
        each.arg: eval(compile(ast.Expression(each.value), "", "eval"), names)
        for each in called.keywords
        if each.arg
    }
    if not isinstance(called.func, ast.Attribute):
        raise Unusable("torch.compile decorates its functions in a way that is not known")
    kind = called.func.attr
    if kind not in ("pointwise", "reduction", "persistent_reduction"):
        raise Unusable(f"torch.compile writes a function of the kind {kind}")

    def chosen(_: object, configs: list[Any], *__: object, **___: object) -> list[Any]:
        return configs

    with mock.patch.object(triton_heuristics, "cached_autotune", chosen):
        return arguments, getattr(triton_heuristics, kind)(**arguments)


def _limits(size_hints: Mapping[str, int]) -> dict[str, int]:
    """Return the largest block of each dimension: no larger than it, and than Inductor's."""
    from torch._inductor.runtime.hints import TRITON_MAX_BLOCK

    return {
        f"{prefix.upper()}BLOCK": min(size, TRITON_MAX_BLOCK.get(prefix.upper(), size))
        for prefix, size in size_hints.items()
    }


def _helpers(texts: str) -> str:
    """Return the text of the functions of Inductor that are called, and of those that they call."""
    from torch._inductor.runtime import triton_helpers

    source = inspect.getsource(triton_helpers)
    lines = source.splitlines()
    functions = {
        node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)
    }
    waiting = set(_HELPER.findall(texts))
    needed: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in functions:
            raise Unusable(f"torch.compile calls {name}, a part of torch._inductor")
        needed.add(name)
        waiting |= used_by(functions[name]) - KNOWN - needed
    return "\n\n\n".join(_text(lines, functions[name]) for name in functions if name in needed)


def _text(lines: Sequence[str], node: ast.FunctionDef) -> str:
    """Return a function with its decorators."""
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return "\n".join(lines[first - 1 : node.end_lineno])
