"""How references are called: nested arguments, arguments by name, changed ones, gradients."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch.multiprocessing.reductions import StorageWeakRef

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.measurement import Outcome
from akg_tui.core.task import Correctness
from akg_tui.evaluate.child.faults import Fault
from akg_tui.evaluate.child.input_generator import ReferenceServer
from akg_tui.evaluate.child.model_call import ModelCall
from akg_tui.evaluate.child.work_watch import WatchedModel
from akg_tui.evaluate.protocol import tensor_layout as layouts
from akg_tui.evaluate.protocol import value_tree
from akg_tui.evaluate.protocol.child_protocol import REPORT_BYTES, Contract, Description, Plan
from akg_tui.evaluate.protocol.value_tree import Arguments, Mismatch, Unsupported
from akg_tui.evaluate.task_lint import positions
from benchmarks.judge.ordinary.changed_arguments import (
    CHANGED_ARGUMENTS,
    HONEST_STEP,
    OPTIMIZER,
)
from tests.judging import Evaluated, quick_task

LEAVES = st.builds(torch.zeros, st.tuples(st.integers(1, 3)))
KEYS = st.one_of(st.text("abc_ ", min_size=1, max_size=3), st.integers(-2, 5))
NESTED = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS, inner, max_size=3),
    ),
    max_leaves=8,
)


def same(one: object, other: object) -> bool:
    """Say whether values are nested alike and hold the very same tensors."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        alike = type(one) is type(other) and len(one) == len(other)
        return alike and all(map(same, one, other))
    return one is other


@given(st.lists(NESTED, max_size=3), st.dictionaries(st.sampled_from("pqr"), NESTED))
@example([{" ": torch.zeros(1), 0: torch.zeros(1)}], {})
def test_arguments_come_back_as_they_were(
    positional: list[object], named: Mapping[str, object]
) -> None:
    flat = value_tree.flat_arguments(Arguments(positional, named), ["x"])
    group = msgspec.json.decode(msgspec.json.encode(flat.group), type=type(flat.group))
    again = value_tree.nested_arguments(group, flat.values, lambda _: None)
    assert same(list(again.positional), positional)
    assert same(dict(again.named), dict(named))
    known = [name for name in flat.names if name]
    assert len(known) == len(set(known))
    assert all(value_tree.NAME.fullmatch(name) for name in known)
    if flat.group is not None:
        found = value_tree.values_in(flat.group, again, "")
        assert all(map(same, found, flat.values))


@given(NESTED)
def test_results_are_found_where_the_reference_has_them(result: object) -> None:
    flat = value_tree.flat_results(result)
    found = value_tree.values_in(flat.group, result, "output")
    assert len(found) == len(flat.values)
    assert all(one is other for one, other in zip(found, flat.values, strict=True))


def test_what_a_record_stands_for_may_be_a_class_of_the_kernel_or_its_like() -> None:
    names: dict[str, Any] = {}
    exec(
        "from dataclasses import dataclass\nfrom typing import NamedTuple\n"
        "class Pair(NamedTuple):\n    k: object\n    v: object\n"
        "@dataclass(frozen=True)\nclass State:\n    pair: Pair\n    step: int\n",
        names,
    )
    tensors = [torch.zeros(1), torch.ones(1)]
    state = names["State"](names["Pair"](*tensors), 3)
    flat = value_tree.flat_arguments(Arguments([state]), ["state"])
    assert flat.names == ["state.pair.k", "state.pair.v", "state.step"]
    own = value_tree.nested_arguments(flat.group, flat.values, names.get).positional[0]
    assert own == state
    (other,) = value_tree.nested_arguments(flat.group, flat.values, lambda _: None).positional
    assert other.pair.v is tensors[1]  # type: ignore[attr-defined]
    assert other.step == 3  # type: ignore[attr-defined]
    result = value_tree.flat_results(state.pair)
    assert value_tree.values_in(result.group, {"v": 2, "k": 1}, "output") == [1, 2]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"a": 1}, "output is a dict with the keys a, expected a dictionary with a, b"),
        ([1], "output is a list of 1, expected a dictionary with a, b"),
        ({"a": 1, "b": 2}, "output.b is a int, expected a list of 2"),
        (None, "output is None"),
    ],
)
def test_results_of_another_nesting_are_told(value: object, says: str) -> None:
    group = value_tree.flat_results({"a": torch.zeros(1), "b": [torch.zeros(1)] * 2}).group
    with pytest.raises(Mismatch) as told:
        value_tree.values_in(group, value, "output")
    assert says in str(told.value)


def test_what_is_no_tree_is_refused_in_one_line() -> None:
    cycle: dict[str, Any] = {"x": torch.zeros(1)}
    cycle["again"] = [cycle]
    deep: list[Any] = [torch.zeros(1)]
    for _ in range(40):
        deep = [deep]
    for value, says in (
        (cycle, "contains itself"),
        (deep, "more than 32 deep"),
        ([torch.zeros(0) for _ in range(5000)], "more than 4096 values"),
        ({(1, 2): torch.zeros(1)}, "keys that are no texts or integers"),
    ):
        with pytest.raises(Unsupported, match=says) as told:
            value_tree.flat_arguments(Arguments([value]), ["state"])
        assert "\n" not in str(told.value)
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(Unsupported, match="contains itself"):
        value_tree.flat_results(loop)


def test_a_container_without_tensors_is_one_value() -> None:
    flat = value_tree.flat_arguments(Arguments([[1, 2], {"a": "b"}, (torch.zeros(1), 2.5)]))
    assert flat.values[:2] == [[1, 2], {"a": "b"}]
    assert flat.names == ["", "", "input2[0]", "input2[1]"]
    layouts.lay_out(flat.values, flat.names)


def test_the_name_of_a_container_stands_for_all_in_it() -> None:
    names = ["x", "state.m[0]", "state.m[1]", "state.scale", "states"]
    assert positions(["state.m", 0], "inputs", names, 5) == {0, 1, 2}
    assert positions(["state"], "inputs", names, 5) == {1, 2, 3}
    assert "has no input 'stat'" in str(positions(["stat"], "inputs", names, 5))


def described(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Description:
    """Load a reference as its process does; return its description."""
    monkeypatch.chdir(tmp_path)
    plan = Plan(kind="reference", files=KernelFiles({"reference.py": source}), seed=1)
    report = mmap.mmap(-1, REPORT_BYTES)
    try:
        size = ReferenceServer(plan, {"report": report}).start()
    finally:
        torch.set_grad_enabled(True)
    return msgspec.json.decode(report[:size], type=Description)


def module(forward: str, inputs: str = "[torch.randn(4, 8)]", init: str = "[]") -> str:
    """Return a reference whose `Model` has this text."""
    lines = "\n    ".join(forward.splitlines())
    return (
        f"import torch\n\n\nclass Model(torch.nn.Module):\n    {lines}\n\n\n"
        f"def get_inputs():\n    return {inputs}\n\n\ndef get_init_inputs():\n    return {init}\n"
    )


INIT = "def __init__(self, {}):\n    super().__init__()\n    self.told = {}\n"
SCALED = "def forward(self, x):\n    return x * self.told\n"


@pytest.mark.parametrize(
    ("parameters", "told", "init"),
    [
        ("width, out=3", "width + out", "[[], {'width': 4, 'out': 5}]"),
        ("width, out=3", "width + out", "{'width': 4, 'out': 5}"),
        ("width, *, out", "width + out", "[[4], {'out': 5}]"),
        ("width, **more", "width + more['out']", "[[4], {'out': 5}]"),
        ("sizes, options", "sizes[0] + len(options) + 9", "[[0], {}]"),
        ("sizes, options", "sizes[0] + options['a']", "[[4], {'a': 5}]"),
        ("scale", "scale['a'][0].numel() + 8", "[{'a': [torch.zeros(1)]}]"),
    ],
)
def test_constructors_get_what_get_init_inputs_returns(
    parameters: str, told: str, init: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = module(
        INIT.format(parameters, told) + f"    assert self.told == 9\n{SCALED}", init=init
    )
    described(source, tmp_path, monkeypatch)


DRAWS = "[torch.randn(4, 8), torch.randn(4, 8)]"


@pytest.mark.parametrize(
    ("model", "changed", "names"),
    [
        (("def forward(self, x, y):\n    x.add_(y)", DRAWS), (0,), ("argument x",)),
        (
            ("def forward(self, x, y):\n    return x.add_(y), x[0]", DRAWS),
            (0,),
            ("output 0", "output 1", "argument x"),
        ),
        (
            (
                "def forward(self, x, s):\n    s['m'] = s['m'] + x",
                "[torch.ones(4), {'m': torch.ones(4)}]",
            ),
            (1,),
            ("argument s.m",),
        ),
        (
            (
                "def forward(self, s):\n    s['k'] = torch.cat([s['k'], s['x']])",
                "[{'k': torch.randn(4, 2), 'x': torch.randn(1, 2)}]",
            ),
            (0,),
            ("argument s.k",),
        ),
        (
            ("def forward(self, x, y):\n    x.numpy()[:] += 1; return y", DRAWS),
            (0,),
            ("output", "argument x"),
        ),
        (
            (
                "def forward(self, x, s):\n"
                "    s['k'].append(x + s['k'].pop(0)); s['v'][0] += 1; s['new'] = x * 2; return x",
                "[torch.randn(4), {'k': [torch.ones(4), torch.ones(2)], 'v': [torch.ones(4)]}]",
            ),
            (3,),
            ("output", "argument s.k[1]", "argument s.new", "argument s.v[0]"),
        ),
        (
            ("def forward(self, x, y, z=None):\n    return {'s': x + y, 'n': None}", DRAWS),
            (),
            ("output.s",),
        ),
    ],
)
def test_what_forward_changes_is_a_result(
    model: tuple[str, str],
    changed: tuple[int, ...],
    names: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = described(module(*model), tmp_path, monkeypatch)
    assert found.contract.changed == changed
    assert found.outputs.names == names


@pytest.mark.parametrize(
    ("forward", "inputs", "says"),
    [
        (
            "def forward(self, s):\n    s['n'] += 1; s['x'].add_(1)",
            "[{'x': torch.ones(2), 'n': 1}]",
            "forward() changes the value s.n, which is no tensor",
        ),
        (
            "def forward(self, s):\n    s.append(s)",
            "[[torch.ones(2)]]",
            "s[1] contains itself",
        ),
        (
            "def forward(self, s):\n    s.append(s[0].shape[0])",
            "[[torch.ones(2)]]",
            "argument s[1] is a int, expected a tensor",
        ),
        (
            "def forward(self, x):\n    pass",
            "[torch.ones(2)]",
            "returned None and changes no argument",
        ),
        ("def forward(self, x):\n    return x, 3", "[torch.ones(2)]", "output 1 is a int"),
        (
            "def forward(self, x):\n    return x",
            "{'y': torch.ones(2)}",
            "unexpected keyword argument",
        ),
        (
            "def forward(self, x):\n    return x",
            "'text'",
            "returned a str, expected a list or a dict",
        ),
        (
            "def forward(self, x):\n    x = []; x.append(x); return x",
            "[torch.ones(2)]",
            "contains itself",
        ),
        (
            "def forward(self, x):\n    return x['a']",
            "[{'a': torch.ones(2), 'b': object()}]",
            "x.b is a object",
        ),
        *(
            (f"def forward(self, x):\n    {moves}; return x + 1", "[torch.ones(2, 3)]", says)
            for says in ("forward() gives its argument x other memory, shape or strides",)
            for moves in ("x.data = x + 1", "x.set_(x + 1)", "x.resize_(4)", "x.t_()")
        ),
    ],
)
def test_what_can_be_no_contract_is_refused_in_one_line(
    forward: str, inputs: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Fault) as told:
        described(module(forward, inputs), tmp_path, monkeypatch)
    assert says in told.value.what
    assert told.value.place
    assert told.value.place.file == "reference.py"
    assert "\n" not in told.value.what


BACKWARD = """
def __init__(self):
    super().__init__()
    self.w = torch.nn.Parameter(torch.ones(8))

def forward(self, x):
    loss = (x * self.w).exp().sum()
    loss.backward()
    return x.grad, self.w.grad
"""
WANTS_GRADIENTS = "[torch.randn(4, 8, requires_grad=True)]"


def test_gradients_are_computed_where_forward_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, evaluated: Evaluated
) -> None:
    source = module(BACKWARD.strip(), WANTS_GRADIENTS)
    contract = described(source, tmp_path, monkeypatch).contract
    assert contract.gradients
    assert contract.differentiable == (0,)
    plain = module("def forward(self, x):\n    return x * torch.is_grad_enabled()")
    assert not described(plain, tmp_path, monkeypatch).contract.gradients
    # No gradient of an earlier call is left on inputs or parameters.
    body = BACKWARD.strip().replace("exp()", "exp().mul(1)")
    kernel = module(body).replace("class Model", "class ModelNew").partition("def get_inputs")[0]
    found = evaluated(quick_task(), source, kernel, timed=False)
    assert found.outcome is Outcome.CORRECT, found.message
    assert "called with gradients" in found.contract[0]


@pytest.mark.parametrize("wrapped", [lambda model: model, WatchedModel])
def test_a_gradient_lives_no_longer_than_its_result(
    wrapped: Callable[[Any], Callable[..., object]],
) -> None:
    names: dict[str, Any] = {}
    exec(module(BACKWARD.strip()), names)
    model = wrapped(names["Model"]())
    returned = value_tree.flat_results((torch.zeros(1), torch.zeros(1))).group
    call = ModelCall(Contract(None, returned, gradients=True, differentiable=(0,)), lambda _: None)
    x = torch.randn(4, 8)
    x_grad, w_grad = call.call(model, [x])
    assert isinstance(w_grad, torch.Tensor)
    memory = StorageWeakRef(w_grad.untyped_storage())  # type: ignore[no-untyped-call]
    del x_grad, w_grad
    assert memory.expired()  # type: ignore[no-untyped-call]


def test_a_kernel_must_leave_an_argument_in_its_memory(evaluated: Evaluated) -> None:
    kernel = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x, y):\n"
    source = module("def forward(self, x, y):\n    x.add_(y)", DRAWS)
    for body, says in (
        ("x.data = x + y", "forward() gives its argument x other memory"),
        ("x.copy_(x + y)", ""),
    ):
        found = evaluated(quick_task(), source, f"{kernel}        {body}\n", timed=False)
        assert (found.outcome is Outcome.CORRECT) is (not says), found.message
        assert says in found.message


def test_an_optimizer_changes_its_arguments(evaluated: Evaluated) -> None:
    task = quick_task(Correctness(trials=2, noncontiguous=True), budget_s=0.3)
    found = evaluated(task, OPTIMIZER, HONEST_STEP)
    assert found.outcome is Outcome.CORRECT, found.message
    assert found.candidate_ms is not None
    assert any(
        "changes its arguments params[0], params[1], state.m[0]" in each for each in found.contract
    )
    named = {cheat.name: cheat for cheat in CHANGED_ARGUMENTS}
    for name in (
        "one of the changed arguments left as it is",
        "another argument used as scratch",
        "arguments remembered from the last call",
    ):
        cheat = named[name]
        found = evaluated(task, OPTIMIZER, cheat.source, timed=False)
        assert found.outcome is Outcome.FAILED, cheat.name
        assert cheat.says in found.message, (cheat.name, found.message)


CACHE = module(
    "def forward(self, x, cache, at):\n"
    "    cache['k'][:, at] = x\n"
    "    return {'mean': cache['k'].mean(1), 'cache': cache['k']}",
    "[torch.randn(6, 8), {'k': torch.randn(6, 4, 8)}, 2]",
)
RETURNED = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x, cache, at):
        cache["k"][:, at] = x
        return {}
"""


GROWING = module(
    "def forward(self, x, cache, scale):\n"
    "    cache.append(x * scale)\n"
    "    return torch.cat(cache).sum(0)",
    "[torch.randn(6, 8), [{}], 2.5]",
)
GROWN = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x, cache, scale):
        new = x * scale
        total = sum((each.sum(0) for each in cache), new.sum(0))
        {}
        return total
"""


@pytest.mark.parametrize("held", ["", "torch.randn(6, 8), torch.randn(3, 8)"])
def test_what_a_container_gets_is_a_result(held: str, evaluated: Evaluated) -> None:
    def found(grown: str) -> str:
        source = GROWING.replace("[{}]", f"[{held}]")
        return evaluated(quick_task(), source, GROWN.replace("{}", grown), timed=False).message

    count = held.count("randn")
    assert found("cache += [new]") == ""
    assert f"argument 1 is a list of {count}, expected a list of {count + 1}" in found("pass")
    assert f"argument cache[{count}]: wrong values" in found("cache.append(x)")
    if held:
        assert "was replaced" in found("cache[0] = cache[0].clone(); cache.append(new)")


def test_results_are_nested_and_may_be_changed_arguments(evaluated: Evaluated) -> None:
    def found(returned: str) -> str:
        kernel = RETURNED.replace("{}", returned)
        return evaluated(quick_task(), CACHE, kernel, timed=False).message

    assert found("{'cache': cache['k'], 'mean': cache['k'].sum(1) / cache['k'].shape[1]}") == ""
    assert "output is None, expected a dictionary with mean, cache" in found("None")
    assert "wrong shape: output.mean is [6, 4]" in found(
        "{'cache': cache['k'], 'mean': cache['k'].mean(2)}"
    )
    assert "output.mean: wrong values" in found("{'cache': cache['k'], 'mean': x}")


def test_a_module_that_changes_itself_is_told(evaluated: Evaluated) -> None:
    source = module(
        "def __init__(self):\n"
        "    super().__init__()\n"
        "    self.norm = torch.nn.BatchNorm1d(8)\n\n"
        "def forward(self, x):\n"
        "    return self.norm(x)",
        "[torch.randn(32, 8)]",
    )
    kernel = source.replace("class Model", "class ModelNew").partition("def get_inputs")[0]
    found = evaluated(quick_task(), source, kernel, timed=False)
    assert found.outcome is Outcome.CORRECT, found.message
    assert "the module's own norm.running_mean" in found.contract[0]


def test_a_task_that_a_kernel_without_effect_would_pass_is_refused(evaluated: Evaluated) -> None:
    source = module("def forward(self, x):\n    x.clamp_(-100, 100)")
    found = evaluated(quick_task(), source, RETURNED, timed=False)
    assert found.outcome is Outcome.ERROR
    assert "changes no argument" in found.message or "itself" in found.message
