"""Files in KernelBench's convention: read without running them, sized, and seeded."""

from __future__ import annotations

import ast
import math
from collections.abc import Collection
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from akg_tui.core.task import ReferenceChanges, Target, Task
from akg_tui.engine import size_search
from akg_tui.engine.size_search import SizeSearch
from akg_tui.engine.task_draft import NewTask
from akg_tui.engine.task_making import make_task
from akg_tui.evaluate.reference_fault import Fault, FaultKind
from akg_tui.problems.formats import read_problem
from akg_tui.problems.seeds import kernel_from
from akg_tui.sizing.fitting import FAR, LEAST, RIDGE, Found, Role, Sizes, grown, role, shrunk
from akg_tui.sizing.needs import Needs, Question
from akg_tui.sizing.size_probe import ReferenceRefused, SizeProbe
from akg_tui.store.reference_constants import constants
from akg_tui.store.task_folder import check_kernel
from tests.problems.conftest import KERNELBENCH, SETS, module_of

TASK = Task(op="x", target=Target(dsl="torch"))
MIB = 1 << 20
FAKED = [path for path in KERNELBENCH if path.stem != "24_normalize_by_largest"]
"""Those that do not look at values."""

QUESTIONS: tuple[Question, ...] = ("estimate", "measure", "examine")

BYTES = {
    "1_matmul_square": 2 * 4096 * 4096 * 4,
    "4_softmax": 4096 * 393216 * 4,
    "12_masked_cumsum": 32768 * 32768 * 5,
    "13_cross_entropy": 32768 * 4096 * 4 + 32768 * 8,
}
"""The bytes of the inputs of some of the files."""


def search(probe: SizeProbe, path: Path, fixed: Collection[str] = ()) -> SizeSearch:
    return SizeSearch(probe, TASK, path.read_text, path.name, fixed=fixed)


@pytest.mark.parametrize("path", KERNELBENCH, ids=lambda path: path.stem)
def test_a_file_becomes_the_reference_byte_for_byte_and_a_first_kernel(path: Path) -> None:
    problem = read_problem(path)
    assert problem.reference.encode() == path.read_bytes()
    assert (problem.format, problem.verbatim) == ("KernelBench", True)
    assert problem.op == path.stem.partition("_")[2]
    kernel = kernel_from(path, problem.reference, {})
    check_kernel(path, kernel.encode())
    names = {node.id for node in ast.walk(ast.parse(kernel)) if isinstance(node, ast.Name)}
    assert "Model" not in names
    assert "get_inputs" not in kernel
    assert "__main__" not in kernel
    # The sizes belong to the inputs: no model of these reads one.
    assert constants(kernel) == {}


@pytest.mark.parametrize("path", FAKED, ids=lambda path: path.stem)
def test_a_file_of_any_size_is_sized_and_fitted_without_allocating(
    probe: SizeProbe, path: Path
) -> None:
    sizes = search(probe, path)
    found = sizes.needs({})
    assert found.inputs == BYTES.get(path.stem, found.inputs) > 0
    assert found.results > 0
    assert found.call_s is None
    assert sizes.is_faked
    sizes.limit = max(found.weights * 1.5, found.held / 5, 8 * MIB)
    fitted = sizes.fitting_memory({})
    assert fitted is not None
    assert sizes.needs(fitted).held <= sizes.limit


def test_of_attention_batch_and_rows_are_fitted_and_the_width_stays(
    probe: SizeProbe, tmp_path: Path
) -> None:
    path = SETS / "kernelbench" / "23_causal_attention.py"
    task = NewTask(folder=tmp_path / "task", origin=path, fit=True, own_seed=False)
    told: list[str] = []
    sizes = make_task(task, told.append, probe).task.reference.constants
    assert sizes.keys() <= {"batch_size", "seq_len"}
    regime = next(line for line in told if line.startswith("as stated: "))
    stated, fitted = regime.split("; as fitted: ")
    assert float(stated.split()[2]) > float(fitted.split()[0]) >= RIDGE / FAR
    assert "MiB of data " in stated and "MiB of data " in fitted  # noqa: PT018


ONE_NUMBER_A_ROW = module_of(
    "x",
    "return torch.tanh(torch.nn.functional.avg_pool2d(x, 2)).sum(dim=[1, 2, 3])",
    "[torch.rand(batch, channels, height, width)]",
    "batch, channels, height, width = 64, 8, 512, 512\n",
)


def test_where_results_are_one_number_a_row_enough_rows_are_left(
    probe: SizeProbe, tmp_path: Path
) -> None:
    path = tmp_path / "tanh_sum.py"
    path.write_text(ONE_NUMBER_A_ROW)
    sizes = search(probe, path)
    sizes.limit = 8 * MIB
    fitted = sizes.fitting_memory({})
    assert fitted is not None
    assert fitted["batch"] == LEAST[Role.ROWS]
    assert sizes.needs(fitted).held <= sizes.limit


def test_sizes_are_sought_that_are_drawn_quickly_and_else_any_that_fit(probe: SizeProbe) -> None:
    sizes = search(probe, SETS / "kernelbench" / "4_softmax.py")
    sizes.limit = 4096 * MIB
    fitted = sizes.fitting_memory({})
    assert fitted is not None
    assert sizes.fit_limit / 4 < sizes.needs(fitted).held <= sizes.fit_limit < sizes.limit
    # Where no size lowers it that far, what fits into the memory does.
    least = {"batch_size": 1, "dim": 1 << 28}
    fixed = search(probe, SETS / "kernelbench" / "4_softmax.py", ("dim",))
    fixed.limit = 4096 * MIB
    assert fixed.fitting_memory(least) == least


def test_a_file_that_looks_at_values_is_sized_by_a_real_call(probe: SizeProbe) -> None:
    path = SETS / "kernelbench" / "24_normalize_by_largest.py"
    sizes = search(probe, path)
    found = sizes.needs({"batch_size": 16, "dim": 64})
    assert not sizes.is_faked
    assert (found.inputs, found.results) == (16 * 64 * 4, 16 * 64 * 4)
    assert found.call_s is not None
    sizes.limit = 16 * 64
    assert sizes.fitting_memory({"batch_size": 16, "dim": 64}) is not None


def test_sizes_that_belong_together_are_fitted_without_a_call_of_the_rest(
    probe: SizeProbe, tmp_path: Path
) -> None:
    path = tmp_path / "norm.py"
    # `dim` and `features` must be equal, so neither can be halved alone.
    path.write_text(
        (SETS / "kernelbench" / "4_softmax.py")
        .read_text()
        .replace("dim = 393216", "dim = 1 << 20\nfeatures = 1 << 20")
        .replace("torch.softmax(x, dim=1)", "torch.layer_norm(x, (features,))")
    )
    sizes = search(probe, path)
    asked: list[Question] = []
    ask = probe.ask
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probe, "ask", lambda what, *rest: (asked.append(what), ask(what, *rest))[1])
        fitted = sizes.fitting_memory({})
    assert fitted is not None
    assert fitted.keys() == {"batch_size"}
    assert set(asked) == {"shapes", "estimate"}
    assert sizes.needs(fitted).held <= sizes.limit


def test_the_time_of_a_call_is_without_that_of_other_work(probe: SizeProbe) -> None:
    source = (SETS / "kernelbench" / "4_softmax.py").read_text()
    # A process that sleeps stands for one that waits for a CPU.
    waits = source.replace(
        "return torch.softmax", "__import__('time').sleep(0.5)\n        return torch.softmax"
    )
    assert waits != source
    changed = ReferenceChanges(constants={"batch_size": 2, "dim": 3})
    found = probe.ask("measure", replace(TASK, reference=changed), waits, "4_softmax.py")
    assert found is not None
    assert found.call_s is not None
    assert found.call_s < 0.4


def test_what_a_real_call_can_not_allocate_is_halved_until_it_can(probe: SizeProbe) -> None:
    path = SETS / "kernelbench" / "24_normalize_by_largest.py"
    sizes = search(probe, path)
    sizes.free, sizes.limit = 1024 * MIB, 32 * MIB
    fitted = sizes.fitting_memory({"batch_size": 1024, "dim": 1 << 40})
    assert fitted is not None
    assert sizes.needs(fitted).held <= 32 * MIB


def test_inputs_that_are_too_large_are_not_drawn_for_a_call_that_needs_their_values(
    probe: SizeProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = SETS / "kernelbench" / "24_normalize_by_largest.py"
    sizes = search(probe, path)
    asked: list[tuple[Question, float]] = []
    ask = probe.ask

    def noted(question: Question, task: Task, *rest: str) -> Needs | None:
        asked.append((question, math.prod(task.reference.constants.values())))
        return ask(question, task, *rest)

    monkeypatch.setattr(probe, "ask", noted)
    fitted = sizes.fitting_memory({"batch_size": 1 << 14, "dim": 1 << 14})
    assert fitted is not None
    assert sizes.needs(fitted).held <= sizes.fit_limit
    assert max(size for question, size in asked if question == "measure") * 4 <= sizes.fit_limit


@pytest.mark.parametrize("most", [1 << 15, 1 << 9])
def test_smaller_sizes_are_sought_where_a_call_takes_too_long(
    probe: SizeProbe, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    ask = probe.ask

    def asked(question: Question, task: Task, *rest: str) -> Needs | None:
        if question == "measure" and math.prod(task.reference.constants.values()) > most:
            raise ReferenceRefused(Fault(reason="no answer", kind=FaultKind.SLOW), "reference.py")
        return ask(question, task, *rest)

    monkeypatch.setattr(probe, "ask", asked)
    sizes = search(probe, SETS / "kernelbench" / "4_softmax.py")
    fitted, needs = sizes.fitting_time({"batch_size": 64, "dim": 1024})
    assert (math.prod(fitted.values()) <= most, needs.call_s is not None) == (True, True)
    # The same where no call is estimated.
    sizes = search(probe, SETS / "kernelbench" / "24_normalize_by_largest.py")
    found = sizes.fitting_memory({"batch_size": 1 << 14, "dim": 1 << 14})
    assert found is not None
    assert math.prod(found.values()) <= most


def test_sizes_that_belong_together_are_halved_together_where_a_call_needs_values(
    probe: SizeProbe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "halves.py"
    path.write_text(
        "import torch\n\nlength = 1 << 26\nhalf = 1 << 25\n\n\n"
        "class Model(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x.reshape(2, half) / x.abs().max().item()\n\n\n"
        "def get_inputs():\n    return [torch.randn(length)]\n"
    )
    monkeypatch.setattr("akg_tui.engine.size_search.free_memory", lambda: 12 * MIB)
    sizes = search(probe, path)
    fitted = sizes.fitting_memory({})
    assert fitted is not None
    assert fitted["length"] == 2 * fitted["half"] < 1 << 18
    assert sizes.needs(fitted).held <= MIB


def test_constants_of_a_task_reach_the_reference(probe: SizeProbe) -> None:
    path = SETS / "kernelbench" / "4_softmax.py"
    changed = replace(TASK, reference=ReferenceChanges(constants={"batch_size": 2, "dim": 3}))
    found = probe.ask("measure", changed, path.read_text(), path.name)
    assert isinstance(found, Needs)
    assert found.inputs == 2 * 3 * 4
    probe.ask("examine", replace(changed, reference=ReferenceChanges(constants={
        "batch_size": 32, "dim": 96})), path.read_text(), path.name)  # fmt: skip


def test_a_fault_of_a_reference_is_told_with_its_line(probe: SizeProbe) -> None:
    source = (SETS / "kernelbench" / "4_softmax.py").read_text()
    line = source.splitlines().index("        return torch.softmax(x, dim=1)") + 1
    bad = source.replace("4096", "4").replace("393216", "8").replace("softmax(", "softmaxx(")
    for question in QUESTIONS:
        if question == "estimate":
            needs = probe.ask(question, TASK, bad, "4_softmax.py")
            assert needs is not None
            assert needs.failed is not None
            assert needs.failed.line == line
            assert needs.failed.reason.startswith("AttributeError")
            assert needs.inputs == 4 * 8 * 4
            continue
        with pytest.raises(ReferenceRefused) as refused:
            probe.ask(question, TASK, bad, "4_softmax.py")
        assert f"4_softmax.py:{line}: AttributeError" in str(refused.value)


def test_an_input_that_cannot_be_passed_is_refused_before_sizes_are_searched(
    probe: SizeProbe,
) -> None:
    source = (SETS / "kernelbench" / "4_softmax.py").read_text().replace("4096", "4")
    bad = source.replace("393216", "8").replace("return [x]", "return [x, object()]")
    bad = bad.replace("forward(self, x)", "forward(self, x, y)")
    assert bad.count("object()") == 1
    for question in QUESTIONS:
        with pytest.raises(ReferenceRefused, match="y is a object; only tensors"):
            probe.ask(question, TASK, bad, "4_softmax.py")


UNDECIDED = module_of("x", "return torch.relu(x)", "[torch.rand(1024, 1024)]")


def test_a_refused_reference_leaves_no_memory_in_the_sizing_process(probe: SizeProbe) -> None:
    with pytest.raises(ReferenceRefused):
        probe.ask("examine", TASK, UNDECIDED, "relu.py")
    status = Path(f"/proc/{probe.pid}/status").read_text()
    shared = int(status.partition("RssShmem:")[2].split()[0])  # KiB
    assert shared < 4 * 1024  # one input


def test_the_role_of_a_size_is_that_in_the_first_input_of_several_axes() -> None:
    x, mask, bias = (128, 512, 768), (512, 512), (768,)
    whole = (bias, x, mask)
    assert role(whole, (bias, (64, 512, 768), mask), trained=False) is Role.BATCH
    assert role(whole, (bias, (128, 256, 768), (256, 256)), trained=False) is Role.ROWS
    assert role(whole, (bias, (128, 256, 768), (256, 256)), trained=True) is Role.TRAINED
    assert role(whole, ((384,), (128, 512, 384), mask), trained=True) is Role.INNER
    assert role(whole, whole, trained=True) is Role.WIDTH
    assert role([(9, 3, 8, 4)], [(9, 1, 8, 4)], trained=False) is Role.MIDDLE
    assert role([bias], [(384,)], trained=False) is Role.BATCH


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(2, 512), min_size=1),
    st.lists(st.sampled_from(Role), min_size=4, max_size=4),
    st.floats(0.01, 1),
)
def test_inner_sizes_stay_as_long_as_outer_ones_can_be_halved(
    sizes: dict[str, int], order: list[Role], share: float
) -> None:
    roles = dict(zip("abcd", order, strict=True))
    limit = math.prod(sizes.values()) * share
    found = shrunk(sizes, lambda tried: Found(math.prod(tried.values())), limit, roles)
    if found is None:
        assert limit < 1
        return
    assert math.prod(found.values()) <= limit
    changed = [roles[name] for name in sizes if found[name] != sizes[name]]
    left = [roles[n] for n in sizes if found[n] >= 2 * LEAST.get(roles[n], 2)]
    assert not changed or not left or max(changed) <= min(left)


def test_a_halving_that_leaves_the_regime_waits_for_one_that_does_not() -> None:
    def look(sizes: Sizes) -> Found:
        m, k, n = sizes["m"], sizes["k"], sizes["n"]
        return Found(m * k * n, m * k * n / (2 * (m * k + k * n + m * n)))

    start = {"m": 4096, "k": 4096, "n": 4096}
    roles = {"m": Role.BATCH, "k": Role.INNER, "n": Role.INNER}
    # 64 rows would leave 31 operations a byte, which memory could bound.
    limit = 64 * 4096 * 4096
    found = shrunk(start, look, limit, roles, look(start).intensity)
    assert found == {"m": 128, "k": 2048, "n": 4096}
    # A reference that is bound by memory anyway stays as it is.
    low = {**start, "m": 8}
    found = shrunk(low, look, 8 * 4096 * 1024, roles, look(low).intensity)
    assert found == {"m": 4, "k": 2048, "n": 4096}


def test_sizes_grow_from_small_ones_as_far_as_the_limit_allows_the_inner_ones_first() -> None:
    tried: list[int] = []

    def look(sizes: Sizes) -> Found | None:
        if sizes["width"] < 8 or sizes["width"] % 4:
            return None
        tried.append(sizes["batch"] * sizes["rows"] * sizes["width"])
        return Found(tried[-1])

    start = {"batch": 64, "rows": 4096, "width": 96, "top": 8}
    roles = {"batch": Role.BATCH, "rows": Role.ROWS, "width": Role.INNER, "top": Role.WIDTH}
    limit = 96 * 100 * 2
    assert grown(start, look, limit, roles) == {"batch": 8, "rows": 16, "width": 96, "top": 8}
    assert max(tried) <= 2 * limit
    assert grown(start, look, 1, roles) is None
    assert grown({"width": 6}, look, limit, roles) is None


def test_sizes_grow_around_those_that_a_reference_fixes() -> None:
    def look(sizes: Sizes) -> Found | None:
        fixed = (sizes["heads"], sizes["width"]) == (32, 384)
        return Found(math.prod(sizes.values())) if fixed and sizes["batch"] > 1 else None

    start = {"heads": 32, "batch": 64, "width": 384, "rows": 4096}
    found = grown(start, look, 32 * 384 * 64, {"batch": Role.BATCH, "rows": Role.ROWS})
    assert found == {"heads": 32, "batch": 2, "width": 384, "rows": 32}


LONGEST_S = dict.fromkeys(size_search.LONGEST_S, 1.0)

ONE_BY_ONE = module_of(
    "x",
    "return torch.stack([row / row.abs().max().item() for row in x])",
    "[torch.randn(rows, width)]",
    "rows, width = 1 << 18, 64\n",
)


def test_cases_that_take_too_long_leave_a_task_that_is_fitted_from_small_sizes(
    probe: SizeProbe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(size_search, "LONGEST_S", LONGEST_S)
    deck = tmp_path / "deck"
    deck.mkdir()
    (deck / "problem.yaml").write_text("name: one_by_one\n")
    (deck / "reference.py").write_text(ONE_BY_ONE)
    shapes = [{"rows": rows} for rows in (1 << 18, 1 << 19, 1 << 20)]
    (deck / "shapes.py").write_text(f"SHAPES = {shapes}\n")
    told: list[str] = []
    task = NewTask(folder=tmp_path / "task", origin=deck, fit=True, own_seed=False)
    made = make_task(task, told.append, probe)
    left = [line for line in told if " is left out: " in line]
    assert len(left) == 3
    assert all("a call needs more memory or time than it may use" in line for line in left)
    assert made.task.cases == ()
    assert made.task.reference.constants.keys() == {"rows"}
    assert 16 <= made.task.reference.constants["rows"] < 1 << 18


def test_a_seed_keeps_the_comments_of_the_model_and_what_it_needs() -> None:
    source = '''"""A problem."""
from __future__ import annotations

import json
import math

import torch

torch.set_default_dtype(torch.float32)
width = 3  # used by the model
rows = 8

def scaled(x):
    return x * math.sqrt(width)  # by the width

# Only for the inputs.
def shape():
    return (rows, width)

@torch.no_grad()
def helper(x):
    return scaled(x)

class Base(torch.nn.Module):
    pass

class Model(Base):
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, x: "torch.Tensor"):
        Model.seen = True
        return helper(x)

def get_inputs():
    return [torch.randn(shape()), json]

def get_init_inputs():
    return []
'''
    kernel = kernel_from(Path("p.py"), source, {"width": 5})
    for kept in (
        "width = 5  # used by the model",
        "# by the width",
        "@torch.no_grad()",
        "import math",
        "super(ModelNew, self)",
        "ModelNew.seen",
        "set_default_dtype",
        "annotations",
    ):
        assert kept in kernel, kept  # fmt: skip
    for gone in ("json", "rows", "Only for the inputs", "get_inputs", "A problem"):
        assert gone not in kernel, gone
