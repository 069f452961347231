"""What the static guard alone says of cheats and of honest kernels."""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator

import msgspec
import pytest

from akg_tui.core.task import Guard, Target, Task
from akg_tui.evaluate import kernel_text, static_guard
from tests.cheats.catalogue import MUST_FAIL, MUST_NOT_LOOK_FASTER
from tests.cheats.honest import CPP, HONEST, Honest
from tests.cheats.tasks import PLAIN, kernel

TASK = Task(op="guarded")
WORKING = Task(op="guarded", guard=Guard(kernel_must_do_the_work=True))

# What the guard says by itself. The other cheats are left to what they compute.
SEEN = {
    "zeros": "constant",
    "the input itself": "constant",
    "all NaN": "constant",
    "poison left standing": "constant",
    "nothing at all": "constant",
    "a lazy tensor": "lazy-tensor",
    "expected results found by the garbage collector": "look-around",
    "expected results found in a caller's frame": "look-around",
    "the reference imported": "reference",
    "the seed in the environment": "process",
    "works only when it is checked": "look-around",
    "a process that fills it in": "process",
    "comparison patched": "patch",
    "the judge's modules patched": "judge",
    "the telling of results patched": "patch",
    "the server's loop replaced": "look-around",
    "answered before the work": "look-around",
    "an answer that was not asked for": "network",
    "exit code 0 while loading": "process",
    "exit code 0 in a call": "process",
    "clocks patched": "patch",
}


def rules(source: str, task: Task = TASK, *, refused: bool | None = None) -> set[str]:
    found = static_guard.findings(source, task)
    return {each.rule for each in found if refused is None or each.refused is refused}


def test_the_catalogue_is_whole() -> None:
    named = [each.name for each in (*MUST_FAIL, *MUST_NOT_LOOK_FASTER)]
    assert len(set(named)) == len(named) >= 40
    assert all(each.seen and each.defence for each in (*MUST_FAIL, *MUST_NOT_LOOK_FASTER))
    assert len({each.name for each in HONEST}) == len(HONEST) >= 12
    assert set(SEEN) <= set(named)


REFUSED = {"judge", "lazy-tensor", "look-around", "patch", "reference"}


@pytest.mark.parametrize("name", SEEN, ids=lambda n: n.replace(" ", "-"))
def test_the_guard_tells_what_is_wrong_and_refuses_what_nothing_else_may_notice(name: str) -> None:
    source = next(c.source for c in (*MUST_FAIL, *MUST_NOT_LOOK_FASTER) if c.name == name)
    assert SEEN[name] in rules(source)
    assert (SEEN[name] in rules(source, refused=True)) is (SEEN[name] in REFUSED)


@pytest.mark.parametrize("honest", HONEST, ids=lambda h: h.name.replace(" ", "-"))
def test_the_guard_refuses_no_honest_kernel(honest: Honest) -> None:
    assert not rules(honest.source, refused=True)
    assert rules(honest.source) <= set(honest.remarks)


@pytest.mark.parametrize(
    ("body", "before", "rule"),
    [
        ("return self.kept[x.data_ptr()]", "", "remembers"),
        ("return self.last", "", "stored"),
        ("return torch.load('x.pt')", "", "files"),
        ("atexit.register(print)\nreturn x + 1", "", "later"),
        ("ctypes.string_at(0)\nreturn x + 1", "", "memory"),
        ("return torch.compile(torch.softmax)(x, -1)", "", "torch-compile"),
        ("try:\n    return x + 1\nexcept Exception:\n    return x", "", "fallback"),
        ("return h(x)", "def h(x):\n    threading.Thread(target=print).start()", "threads"),
        ("return eval('x')", "", "code"),
    ],
)  # fmt: skip
def test_what_is_only_odd_is_a_warning_unless_the_task_is_strict(
    body: str, before: str, rule: str
) -> None:
    source = kernel(body, before)
    assert rule in rules(source, refused=False)
    strict = msgspec.structs.replace(TASK, guard=Guard(level="strict"))
    assert rule in rules(source, strict, refused=True)


def test_at_warn_nothing_is_refused() -> None:
    warn = msgspec.structs.replace(TASK, guard=Guard(level="warn"))
    for cheat in MUST_FAIL:
        assert not rules(cheat.source, warn, refused=True)


def test_a_finding_names_the_line_and_the_reason() -> None:
    found = static_guard.findings("import torch\nfrom reference import Model\n", TASK)
    (finding,) = [f for f in found if f.rule == "reference"]
    assert str(finding) == "line 2: imports the reference (reference)"


@pytest.mark.parametrize(
    "line",
    [
        "return torch.softmax(x, -1)",
        "return x.softmax(-1)",
        "return F.softmax(x, -1)",
        "return torch.nn.functional.softmax(x, -1)",
        "return x @ x",
        "return torch.ops.aten.softmax(x, -1)",
        "return self.helper(x)\n\ndef helper(self, x):\n    return x.exp()",
    ],
)
def test_a_kernel_must_do_the_work_where_the_task_says_so(line: str) -> None:
    body = "from_cpp = self.built.f(x)\n" + line
    source = kernel(body, init="self.built = compile_cpp('')")
    assert "library" in rules(source, WORKING, refused=True)
    assert "library" not in rules(source, TASK)


def test_work_done_in_cpp_is_accepted_and_torch_in_cpp_is_not() -> None:
    assert not rules(CPP, WORKING)
    wrapped = CPP.replace("top = in[0];", "top = at::max(t).item<float>();")
    assert "library" in rules(wrapped, WORKING, refused=True)


def test_a_decoy_that_is_built_and_never_called_is_refused_where_the_kernel_must_work() -> None:
    # MK, Dr. Kernel: a kernel that is compiled and never launched.
    decoy = PLAIN + "\nfrom akg_tui.dsl import compile_cpp\nlibrary = compile_cpp('')\n"
    assert "dsl" in rules(decoy, WORKING, refused=True)
    assert "dsl" in rules(decoy, TASK, refused=False)
    assert "dsl" not in rules(decoy, Task(op="t", target=Target(dsl="torch")))


def test_a_variable_is_no_module() -> None:
    source = kernel("gc = x.exp()\ngc.grad = None\nos.environ['A'] = 'b'\nreturn gc")
    assert not rules(source.replace("gc, ", ""), refused=True)


def test_the_guard_takes_no_time() -> None:
    start = time.thread_time()
    static_guard.findings(CPP, TASK)
    assert time.thread_time() - start < 0.05


def test_many_uses_of_many_functions_take_no_longer_than_their_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Of each function every node was followed, with each of its uses: at the limit of 40,000 nodes
    # that took hours and all memory of the engine's process.
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
    assert len(kernel_text.Kernel.read(source).reached) == 1 + depth + functions
