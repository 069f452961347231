"""Lets torch.compile generate code for one call of a reference, and reports it as text.

Runs in a confined child. Nothing generated is compiled or run here: the reference's own operators
compute the results by which the call's results are recognised.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from keyword import iskeyword
from pathlib import Path

import msgspec
import torch
from msgspec.structs import replace

from akg_tui.evaluate.child.input_generator import ReferenceServer, parameters_of
from akg_tui.evaluate.child.kernel_server import first_line
from akg_tui.evaluate.protocol.child_protocol import REPORT_BYTES, Contract, Group
from akg_tui.evaluate.protocol.value_tree import flat_results, nested_arguments
from akg_tui.problems.inductor.generated import Generated, Given

GENERATE = "generate"
"""The kind of plan that this server serves."""

MODULES = (
    "torch._dynamo",
    "torch._inductor.compile_fx",
    "torch._inductor.codegen.cpp",
    "torch._inductor.codegen.wrapper",
    "torch._inductor.cpp_builder",
)

CONSTANT_ELEMENTS = 4096
"""A tensor with more elements that `forward` makes of numbers is not written into a kernel."""


class CodeGenerator(ReferenceServer):
    """Reports what Inductor generates for a reference and then has nothing more to serve."""

    def start(self) -> int:
        """Load the reference and compile it; return the size of the report."""
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path.cwd() / "inductor")
        self.execute()
        self.load_model()
        if not isinstance(self.model, torch.nn.Module):
            raise self._complaint("Model is no torch.nn.Module, which torch.compile needs")
        inputs = self.draw_inputs()
        try:
            self._check_contract()
            generated = self._generated(self.model, inputs)
        except Unusable as error:
            raise self._complaint(str(error), self._forward) from error
        text = msgspec.json.encode(generated)
        if len(text) > REPORT_BYTES:
            raise self._complaint(f"torch.compile generates {len(text)} bytes, which is too much")
        self.memory["report"][: len(text)] = text
        return len(text)

    def _check_contract(self) -> None:
        """Refuse what the generated `forward` has no words for."""
        contract = self.observe().contract
        if contract.changed or contract.after is not None or contract.gradients:
            raise Unusable("it changes its arguments, or calls autograd")

    def _generated(self, model: torch.nn.Module, inputs: Sequence[object]) -> Generated:
        from torch._inductor.cpp_builder import CppTorchOptions
        from torch._inductor.cpu_vec_isa import pick_vec_isa

        with settings():
            isa = pick_vec_isa()
            options = CppTorchOptions(vec_isa=isa).get_cflags()
            generated = self._compiled(model, inputs, Caught())
        return replace(
            generated,
            isa=str(isa) if isa else "scalar",
            macro=next(iter(isa.build_macro()), "") if isa else "",
            options=tuple(options),
        )

    def _compiled(
        self, model: torch.nn.Module, inputs: Sequence[object], caught: Caught
    ) -> Generated:
        """Return what is generated for the present settings; `caught` catches it."""
        torch._dynamo.reset()
        try:
            compiled = torch.compile(model, backend=caught.compile, fullgraph=True)
            contract = self._contract or Contract()
            result = nested_arguments(contract.inputs, inputs, self.class_named).call(compiled)
        except Unusable:
            raise
        except BaseException as error:
            cause = caught.failure or error
            if isinstance(cause, Unusable):
                raise cause from None
            what = f"torch.compile can't take it as one graph: {_said(cause)}"
            raise self.broken_at(self._line_of(cause), what) from error
        if caught.module is None:
            raise Unusable("torch.compile finds nothing to compute in forward()")
        flat = flat_results(result)
        results = self._as_tensors(flat.values)
        called = _Called(contract.inputs, self.inputs.names, parameters_of(self.called_by_name))
        places = _places(model, dict(zip(called.places, inputs, strict=True)))
        plain = flat.group is None or not (flat.group.keys or any(flat.group.items))
        given = [_given(n, v) for n, v in zip(called.places, inputs, strict=True)]
        return Generated(
            module=caught.module,
            inputs=(*(Given(name=n, value=v) for n, v in called.conditions), *given),
            parameters=called.parameters,
            passed=called.passed,
            nested="" if plain or flat.group is None else _nesting(flat.group),
            arguments=tuple(_place(value, places) for value in caught.arguments),
            results=tuple(_result(value, caught.results, places) for value in results),
            returned=len(caught.results),
            single=isinstance(result, torch.Tensor),
            constants={name: _literal(name, value) for name, value in caught.constants.items()},
            torch=str(torch.__version__),
        )

    def _line_of(self, error: BaseException) -> int:
        """Return the last line of the file that torch.compile's message names, or forward's."""
        lines = re.findall(rf'File "{re.escape(self.plan.filename)}", line (\d+)', str(error))
        return int(lines[-1]) if lines else first_line(self._forward)


def preload_compiler() -> None:
    """Import what torch.compile imports at first use. Computes nothing and starts no thread."""
    for name in MODULES:
        importlib.import_module(name)


class _Called:
    """How `forward` is called with nested arguments.

    `places` are the expressions of the flat values in `forward`, and `conditions` others that say
    how the arguments are nested, with the texts of their values.
    """

    def __init__(self, group: Group | None, names: Sequence[str], known: Sequence[str]) -> None:
        self.conditions: list[tuple[str, str]] = []
        self.places: list[str] = []
        self.parameters: tuple[str, ...] = ()
        self.passed = ""
        if group is None:
            self.places = [name or f"input_{at}" for at, name in enumerate(names)]
            return
        count = group.keys.count("")
        first = [*known[:count], *(f"input_{at}" for at in range(len(known), count))]
        named = [str(key) for key in group.keys[count:]]
        self.parameters = (*first, *(["*", *named] if named else []))
        self.passed = ", ".join([*first, *(f"{name}={name}" for name in named)])
        for place, inner in zip([*first, *named], group.items, strict=True):
            self._visit(place, inner)

    def _visit(self, place: str, group: Group | None) -> None:
        if group is None:
            self.places.append(place)
            return
        if group.kind in ("list", "tuple", "dict"):
            self.conditions.append((f"len({place})", str(len(group.items))))
        record = group.kind in ("named tuple", "dataclass")
        for key, inner in zip(group.keys or range(len(group.items)), group.items, strict=True):
            self._visit(f"{place}.{key}" if record else f"{place}[{key!r}]", inner)


def _nesting(group: Group) -> str:
    """Return the expression of nested results, as a text to format with the flat ones."""
    inner = ["{}" if each is None else _nesting(each) for each in group.items]
    if group.kind == "none":
        return "None"
    if group.kind == "list":
        return f"[{', '.join(inner)}]"
    if group.kind == "tuple":
        return f"({''.join(f'{each}, ' for each in inner)})"
    pairs = list(zip(group.keys, inner, strict=True))
    if group.kind == "dict":
        keys = [repr(key).replace("{", "{{").replace("}", "}}") for key in group.keys]
        items = ", ".join(f"{key}: {each}" for key, each in zip(keys, inner, strict=True))
        return "{{" + items + "}}"
    return f"{group.name}({', '.join(f'{key}={each}' for key, each in pairs)})"


class Unusable(Exception):
    """No kernel can be made of what was generated; the message is one line."""


class Written(BaseException):
    """Ends Inductor where it has written its module: nothing is to be built here.

    No `Exception`, which Inductor would catch.
    """


class Caught:
    """Catches the module that Inductor writes in a call, with its arguments and results."""

    def __init__(self) -> None:
        self.module: str | None = None
        self.constants: dict[str, torch.Tensor] = {}
        self.arguments: list[torch.Tensor] = []
        self.results: list[object] = []
        self.failure: Exception | None = None

    def compile(
        self, graph: torch.fx.GraphModule, examples: Sequence[torch.Tensor]
    ) -> Callable[..., object]:
        """Generate the code of a graph; return the graph itself, which the model then calls."""
        from torch._inductor.graph import GraphLowering

        self._check_arguments(graph)
        GraphLowering.save_output_code = self._keep
        try:
            self.lower(graph, examples)
        except Written:
            pass
        except Exception as error:
            self.failure = error
            raise
        finally:
            GraphLowering.save_output_code = None

        def call(*arguments: torch.Tensor) -> object:
            self.arguments = list(arguments)
            self.results = list(graph(*arguments))
            return self.results

        return call

    def lower(self, graph: torch.fx.GraphModule, examples: Sequence[torch.Tensor]) -> None:
        """Let Inductor generate code for where the examples are."""
        from torch._inductor.compile_fx import compile_fx

        compile_fx(graph, list(examples))

    @staticmethod
    def _check_arguments(graph: torch.fx.GraphModule) -> None:
        """Refuse a graph whose arguments are no tensors: its sizes are not fixed."""
        for node in graph.graph.nodes:
            if node.op == "placeholder" and not isinstance(
                node.meta.get("example_value"), torch.Tensor
            ):
                raise Unusable(f"its input {node.name} is no tensor for torch.compile")

    def _keep(self, module: str) -> None:
        from torch._inductor.virtualized import V

        if self.module is not None:
            raise Unusable("torch.compile splits it into several modules")
        self.module, self.constants = module, dict(V.graph.constants)
        raise Written


@contextlib.contextmanager
def settings() -> Iterator[None]:
    """Make torch.compile compile for these shapes only, start no process and keep nothing."""
    import torch._dynamo.config
    import torch._functorch.config
    import torch._inductor.config

    with (
        torch._dynamo.config.patch(
            automatic_dynamic_shapes=False,
            assume_static_by_default=True,
            # They would end the graph; a kernel says nothing.
            reorderable_logging_functions={print, warnings.warn},
        ),
        torch._functorch.config.patch(enable_autograd_cache=False),
        torch._inductor.config.patch(
            {
                "compile_threads": 1,
                "fx_graph_cache": False,
                "fx_graph_remote_cache": False,
                # As the reference rounds: a comparison of half precision needs it.
                "emulate_precision_casts": True,
                # Found by building and running a program otherwise.
                "cpp.vec_isa_ok": True,
                "cpp.threads": torch.get_num_threads(),
            }
        ),
    ):
        yield


def _said(error: BaseException) -> str:
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _given(name: str, value: object) -> Given:
    if not isinstance(value, torch.Tensor):
        return Given(name=name, value=repr(value))
    return Given(
        name=name,
        shape=tuple(value.shape),
        stride=tuple(value.stride()),
        dtype=str(value.dtype),
    )


def _described(value: torch.Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


def _places(model: torch.nn.Module, inputs: dict[str, object]) -> list[tuple[str, object]]:
    """Return expressions in `forward` with the tensors that they stand for."""
    found = list(inputs.items())
    waiting, seen = [("self", model)], {id(model)}
    while waiting:
        start, owner = waiting.pop(0)
        for table in ("_parameters", "_buffers", "__dict__"):
            found += [
                (start + _step(owner, table, name), each)
                for name, each in getattr(owner, table).items()
                if isinstance(each, torch.Tensor)
            ]
        for name, part in owner._modules.items():
            if part is not None and id(part) not in seen:
                seen.add(id(part))
                waiting.append((start + _step(owner, "_modules", name), part))
    return found


def _step(owner: torch.nn.Module, table: str, name: str) -> str:
    """Return what follows the expression of a module for one of the things that it holds."""
    lists = (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ParameterList)
    if isinstance(owner, lists) and name.isdigit():
        return f"[{name}]"
    return f".{name}" if name.isidentifier() and not iskeyword(name) else f".{table}[{name!r}]"


def _place(value: torch.Tensor, places: Sequence[tuple[str, object]]) -> str:
    place = next((text for text, each in places if each is value), None)
    if place is None:
        raise Unusable(
            f"forward() uses a tensor {_described(value)} that is no input and no attribute of "
            "a module"
        )
    return place


def _result(
    value: torch.Tensor, results: Sequence[object], places: Sequence[tuple[str, object]]
) -> str:
    for index, each in enumerate(results):
        if each is value:
            return f"results[{index}]"
    return _place(value, places)


def _literal(name: str, value: torch.Tensor) -> str:
    if value.numel() > CONSTANT_ELEMENTS:
        raise Unusable(f"forward() makes a tensor {_described(value)} of numbers in its text")
    return f"torch.tensor({value.tolist()!r}, dtype={value.dtype})"
