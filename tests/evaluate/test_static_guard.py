"""What the static guard alone says of cheats and of honest kernels."""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator

import msgspec
import pytest

from akg_tui.core.task import Guard, Target, Task
from akg_tui.dsl import kernel_text
from akg_tui.evaluate import static_guard
from benchmarks.judge.expert import EXPERT
from benchmarks.judge.ordinary.catalogue import ORDINARY
from benchmarks.judge.ordinary.honest_styles import CPP, HONEST, Honest
from benchmarks.judge.ordinary.tasks import PLAIN, kernel

TASK = Task(op="guarded")
WORKING = Task(op="guarded", guard=Guard(kernel_must_do_the_work=True))

EVERYONE = (*(each for group in ORDINARY.values() for each in group), *EXPERT)

# The rules that refuse a cheat; the others are left to what they compute.
SEEN = {
    "a lazy tensor": "lazy-tensor",
    "expected results found by the garbage collector": "look-around",
    "expected results found in a caller's frame": "look-around",
    "the reference imported": "reference",
    "works only when it is checked": "look-around",
    "comparison patched": "patch",
    "the judge's modules patched": "judge",
    "the telling of results patched": "patch",
    "the server's loop replaced": "look-around",
    "answered before the work": "look-around",
    "clocks patched": "patch",
}


def rules(source: str, task: Task = TASK, *, refused: bool | None = None) -> set[str]:
    found = static_guard.findings(source, task)
    return {each.rule for each in found if refused is None or each.refused is refused}


@pytest.mark.parametrize("name", SEEN, ids=lambda n: n.replace(" ", "-"))
def test_the_guard_refuses_what_nothing_else_may_notice(name: str) -> None:
    source = next(c.source for c in EVERYONE if c.name == name)
    strict = msgspec.structs.replace(TASK, guard=Guard(level="strict"))
    assert all(SEEN[name] in rules(source, each, refused=True) for each in (TASK, strict))


@pytest.mark.parametrize("honest", HONEST, ids=lambda h: h.name.replace(" ", "-"))
def test_the_guard_finds_nothing_in_an_honest_kernel(honest: Honest) -> None:
    compiles = {"torch-compile"} if "torch.jit." in honest.source else set()
    assert rules(honest.source) == compiles


@pytest.mark.parametrize("call", ["torch.compile(torch.softmax)(x, -1)", "torch.jit.script(f)(x)"])
def test_torch_s_compilers_are_refused_unless_the_task_allows_them(call: str) -> None:
    source = kernel(f"return {call}")
    assert rules(source, refused=True) == {"torch-compile"}
    assert not rules(source, msgspec.structs.replace(TASK, guard=Guard(allow_compile=True)))


def test_at_warn_nothing_is_refused() -> None:
    warn = msgspec.structs.replace(TASK, guard=Guard(level="warn"))
    for cheat in EVERYONE:
        if cheat.name in SEEN:
            assert rules(cheat.source, warn)
            assert not rules(cheat.source, warn, refused=True)


def test_a_finding_names_the_line_and_the_reason() -> None:
    found = static_guard.findings("import torch\nfrom reference import Model\n", TASK)
    (finding,) = [f for f in found if f.rule == "reference"]
    assert str(finding) == "line 2: imports the reference (reference)"


def test_a_kernel_that_builds_nothing_is_refused_where_the_kernel_must_work() -> None:
    assert rules(PLAIN, WORKING, refused=True) == {"dsl"}
    assert not rules(PLAIN, TASK)
    assert not rules(CPP, WORKING)
    in_torch = msgspec.structs.replace(WORKING, target=Target(dsl="torch"))
    assert not rules(PLAIN, in_torch)


def test_a_variable_is_no_module() -> None:
    source = kernel("gc = x.exp()\ngc.grad = None\nos.environ['A'] = 'b'\nreturn gc")
    assert not rules(source.replace("gc, ", ""), refused=True)


def test_the_guard_takes_no_time() -> None:
    start = time.thread_time()
    static_guard.findings(CPP, TASK)
    assert time.thread_time() - start < 0.5


def test_many_uses_of_many_functions_take_no_longer_than_their_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    depth, uses, functions = 60, 300, 400
    lines = ["class ModelNew:", "    def forward(self, x):"]
    lines += [f"{' ' * (8 + level)}def g{level}():" for level in range(depth)]
    lines += [f"{' ' * (8 + depth)}return {'f[' * 60}f(), {'f, ' * uses}{']' * 60}"]
    lines += [f"        return {', '.join(f'g{level}()' for level in range(depth))}"]
    source = "\n".join([*lines, *functions * ["def f(): return 0"], ""])
    assert kernel_text.syntax_fault(source) is None
    nodes = sum(1 for _ in ast.walk(ast.parse(source)))
    visits, iterate = 0, ast.iter_child_nodes

    def counted(node: ast.AST) -> Iterator[ast.AST]:
        nonlocal visits
        visits += 1
        return iterate(node)

    monkeypatch.setattr(ast, "iter_child_nodes", counted)
    for task in (TASK, WORKING):
        static_guard.findings(source, task)
        kernel_text.with_untyped_call("a crash", source)
    assert visits < 200 * nodes, visits / nodes
