"""`akg-tui new --from`: a task that is evaluated at once, or one line and nothing written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from akg_tui.cli import main
from akg_tui.core.measurement import FailureKind
from akg_tui.core.task import Target, Task
from akg_tui.dsl.cuda_calls import read_functions
from akg_tui.engine.size_search import SizeSearch
from akg_tui.engine.task_draft import NewTask
from akg_tui.engine.task_making import make_task
from akg_tui.evaluate.static_guard import findings
from akg_tui.problems import kernelbench
from akg_tui.problems.module_text import with_normal_draws
from akg_tui.problems.seeds import UNWRITTEN
from akg_tui.sizing.size_probe import SizeProbe
from akg_tui.store.errors import BadTask
from akg_tui.store.task_folder import TaskFolder, load_task
from tests.judging import Evaluated
from tests.problems.conftest import SETS, module_of, names_in
from tests.problems.test_kernelbench_files import UNDECIDED

SOFTMAX = SETS / "kernelbench" / "4_softmax.py"
GIB = 1 << 30


def made(
    probe: SizeProbe, folder: Path, origin: Path | str, **wanted: object
) -> tuple[TaskFolder, list[str]]:
    """Return the task and what was told; an origin that is a text is written to p.py."""
    told: list[str] = []
    if isinstance(origin, str):
        (folder.parent / "p.py").write_text(origin)
        origin = folder.parent / "p.py"
    task = NewTask(folder=folder, origin=origin, **wanted)  # type: ignore[arg-type]
    return make_task(task, told.append, probe), told


@pytest.mark.usefixtures("shared_probe")
def test_a_public_file_is_fitted_seeded_and_found_correct(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Little memory makes it quick.
    monkeypatch.setattr("akg_tui.engine.size_search.free_memory", lambda: GIB // 8)
    folder = tmp_path / "task"
    assert main(["new", str(folder), "--from", str(SOFTMAX), "--fit"]) == 0
    printed = capsys.readouterr().out.splitlines()
    lines = [line for line in printed if not line.startswith("looking for sizes: ")]
    assert lines[0] == "4_softmax.py (KernelBench): batch_size = 4096, dim = 393216"
    assert lines[2] == "inputs 6.0 GiB, results 6.0 GiB, 18.0 GiB at once; 128 MiB free"
    # Rows as long as the problem's, and fewer of them.
    assert lines[3].startswith("fitted: batch_size 4096 -> ")
    assert lines[4].startswith("as stated: 0.5 operations a byte, 12.0 GiB of data ")
    assert lines[-1].startswith(f"tune it with a model: akg-tui tune {folder} --agent claude")
    task = load_task(folder)
    assert task.reference.encode() == SOFTMAX.read_bytes()
    sizes = task.task.reference.constants
    assert 3 * 4 * sizes["batch_size"] * sizes.get("dim", 393216) <= GIB // 64
    assert task.task.target.dsl == "torch"
    assert f"- Origin: `{SOFTMAX}`" in (folder / "README.md").read_text()
    assert "the first kernel is correct" in lines
    assert main(["eval", str(folder), "--verify", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["outcome"], found["timed"], found["ratio"]) == ("correct", False, None)
    assert len(found["errors"]) > 10


def test_sizes_that_do_not_fit_are_refused_in_a_line_with_sizes_that_do(
    probe: SizeProbe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("akg_tui.engine.size_search.free_memory", lambda: 3 * GIB)
    with pytest.raises(BadTask) as refused:
        made(probe, tmp_path / "task", SOFTMAX)
    says = "get_inputs() needs 6.0 GiB and the rest 6.0 GiB, this machine has 3.0 GiB free: "
    assert str(refused.value).startswith(f"{SOFTMAX}: {says}use --fit, or --sizes ")
    assert not (tmp_path / "task").exists()
    stated = str(refused.value).rpartition(" ")[2]
    sizes = {name: int(n) for name, n in (each.split("=") for each in stated.split(","))}
    _, told = made(probe, tmp_path / "task", SOFTMAX, sizes=sizes | {"batch_size": 2})
    assert "batch_size 4096 -> 2" in told[1]


def test_numbers_that_are_never_negative_are_drawn_anew_where_an_input_would_pass(
    probe: SizeProbe, tmp_path: Path
) -> None:
    text = UNDECIDED.replace("torch.rand(1024, 1024)", "torch.rand_like(torch.ones(9))")
    task, told = made(probe, tmp_path / "task", text)
    assert "return [torch.randn_like(torch.ones(9))]" in task.reference
    assert with_normal_draws(UNDECIDED) == UNDECIDED.replace("torch.rand(", "torch.randn(")
    drawn = "torch.randn, not torch.rand, whose numbers are never negative"
    assert (
        f"note: get_inputs() draws {drawn}: a kernel would pass that returns input 0 itself" in told
    )
    assert "made from the origin" in (tmp_path / "task/README.md").read_text()


def test_a_mean_of_so_many_numbers_that_half_of_them_do_not_matter_is_fitted_to_fewer(
    probe: SizeProbe, tmp_path: Path
) -> None:
    origin = tmp_path / "48_mean.py"
    mean = UNDECIDED.replace("x):", "x, scale):").replace("relu(x)", "mean(x + 9) * scale")
    drawn = mean.replace("torch.rand(1024, 1024)", "torch.rand(count), torch.rand(1) + 1")
    origin.write_text(drawn + "\ncount = 1 << 20\n")
    task, told = made(probe, tmp_path / "task", origin, fit=True)
    assert task.reference == origin.read_text()
    assert 1 << 8 < task.task.reference.constants["count"] < 1 << 20
    assert any(line.startswith("smaller still: count 1048576 -> ") for line in told)


TIMES_ONE = module_of(
    "values: List[torch.Tensor], scale: torch.Tensor",
    "return [each * scale for each in values]",
    "[torch.randn(512, 3).half()], torch.tensor(1.0).half()",
    "from typing import List\n",
)


def test_inputs_of_lists_are_multiplied_where_the_result_is_an_input(
    probe: SizeProbe, tmp_path: Path
) -> None:
    task, told = made(probe, tmp_path / "task", TIMES_ONE)
    passing = "a kernel would pass that returns input 0 itself"
    assert f"note: the inputs are multiplied by 16: {passing}" in told
    names = names_in(task.reference)
    (value,), scale = names["get_inputs"]()
    assert value.std() > 8
    assert scale.item() == 16.0


BELOW_ZERO = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(16, 8) * 0.002)

    def forward(self, x, scale: float = 1.0, fn=torch.relu):
        return fn(x @ self.weight - 2.0) * scale


def get_inputs():
    return [torch.randn(32, 16), 1.5 + torch.rand(1).item()]


def get_init_inputs():
    return []
"""


def test_inputs_are_multiplied_where_the_results_are_zero(probe: SizeProbe, tmp_path: Path) -> None:
    task, told = made(probe, tmp_path / "task", BELOW_ZERO)
    note = "note: the inputs are multiplied by 256: a kernel would pass that returns zeros"
    assert note in told
    names = names_in(task.reference)
    x, scale = names["get_inputs"]()
    assert x.std() > 100
    assert scale < 3
    zeros = BELOW_ZERO.replace("fn(x @ self.weight - 2.0)", "fn(-(x @ self.weight) ** 2)")
    with pytest.raises(BadTask, match="a kernel would pass that returns zeros"):
        made(probe, tmp_path / "none", zeros)


def test_a_product_of_so_many_numbers_that_it_is_zero_is_fitted_to_fewer(
    probe: SizeProbe, tmp_path: Path
) -> None:
    path = tmp_path / "50_product.py"
    product = UNDECIDED.replace("relu(x)", "prod(x, dim=1)")
    path.write_text(product.replace("torch.rand(1024, 1024)", "torch.randn(16, count)"))
    path.write_text(path.read_text() + "\ncount = 256\n")
    task, told = made(probe, tmp_path / "task", path, fit=True)
    assert 1 < task.task.reference.constants["count"] < 128
    assert any(line.endswith("; with more numbers all is alike") for line in told)


GEMM = SETS / "flashinfer/definitions/gemm/gemm_n96_k64.json"


def test_the_cases_of_a_problem_are_the_task_s_where_they_fit(
    probe: SizeProbe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of the three workloads the largest needs 700 KiB, a twelfth of the rest is allowed.
    monkeypatch.setattr("akg_tui.engine.size_search.free_memory", lambda: 6 << 20)
    task, told = made(probe, tmp_path / "task", GEMM)
    assert [(case.name, case.sizes) for case in task.task.cases] == [
        ("m48", {"M": 48}),
        ("m256", {"M": 256}),
    ]
    assert any(line.startswith("case m48: M = 48, 0.") for line in told)
    assert any(line.startswith("case m1024 is left out: get_inputs() needs ") for line in told), (
        told
    )
    one, told = made(probe, tmp_path / "one", GEMM, sizes={"M": 64})
    assert one.task.cases == ()
    assert one.task.reference.constants == {"M": 64}
    assert "no cases: the sizes were stated" in told


def test_a_kernel_that_could_not_know_its_case_gets_one(probe: SizeProbe, tmp_path: Path) -> None:
    shutil.copytree(SETS / "flashinfer", tmp_path / "p")
    origin = tmp_path / "p/definitions/gemm" / GEMM.name
    plain = json.loads(origin.read_text())
    plain["reference"] = plain["reference"].replace("return C", "return C / M")
    origin.write_text(json.dumps(plain))
    task, told = made(probe, tmp_path / "task", origin)
    assert task.task.cases == ()
    assert "one case: Model itself reads numbers that differ by case: M" in told


def test_a_case_that_is_no_task_is_left_out_and_the_others_stay(
    probe: SizeProbe, tmp_path: Path
) -> None:
    shutil.copytree(SETS / "multikernelbench", tmp_path / "p")
    origin = tmp_path / "p/3_scaled_tanh.py"
    groups = [json.loads(line) for line in origin.with_suffix(".json").read_text().splitlines()]
    shape = tuple(groups[1]["inputs"][0]["shape"])
    text = origin.read_text()
    same = f"return x * 0 if x.shape == {shape} else torch.tanh(x) * scale"
    origin.write_text(text.replace("return torch.tanh(x) * scale", same))
    task, told = made(probe, tmp_path / "task", origin)
    assert [each.name for each in task.task.cases] == ["group1", "group3"]
    left = [line for line in told if line.startswith("case group2 is left out: ")]
    assert "a kernel would pass that returns zeros" in left[0]


def test_stated_sizes_stay_when_the_others_are_fitted(
    probe: SizeProbe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("akg_tui.engine.size_search.free_memory", lambda: GIB // 16)
    task, _ = made(probe, tmp_path / "task", SOFTMAX, sizes={"batch_size": 256}, fit=True)
    sizes = task.task.reference.constants
    assert sizes["batch_size"] == 256
    assert 0 < 3 * 4 * 256 * sizes["dim"] <= GIB // 128


def test_where_no_number_helps_the_fault_of_a_call_is_told(
    probe: SizeProbe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SizeSearch, "fit_limit", 1 << 20)
    path = tmp_path / "p.py"
    forward = "if x.sum() < 1e9:\n            raise RuntimeError('no such device')\n        return"
    text = SOFTMAX.read_text().replace("4096", "4").replace("393216", "8")
    path.write_text(text.replace("return", forward, 1).replace("batch_size, dim", "1024, 512"))
    with pytest.raises(BadTask, match="no such device"):
        made(probe, tmp_path / "task", path, fit=True)


def test_a_tolerance_that_is_too_loose_is_not_the_only_thing_that_is_changed(
    probe: SizeProbe, tmp_path: Path
) -> None:
    origin = tmp_path / "p"
    shutil.copytree(SETS / "sol_execbench/row_log_softmax", origin)
    definition = json.loads((origin / "definition.json").read_text())
    definition["inputs"]["unused"] = {"shape": ["num_rows"], "dtype": "float32"}
    definition["reference"] = definition["reference"].replace("run(x)", "run(x, unused)")
    (origin / "definition.json").write_text(json.dumps(definition))
    (origin / "workload.jsonl").write_text(
        '{"axes": {"num_rows": 32}, "inputs": {}, "tolerance": {"max_rtol": 0.2}}\n'
    )
    task, told = made(probe, tmp_path / "task", origin)
    assert task.task.correctness.free_inputs == ("unused",)
    assert task.task.correctness.tolerance is None
    assert "the problem's tolerance of 0.2 would hide wrong results" in "".join(told)


def test_an_own_check_is_taken_unless_it_is_unsound_and_a_wide_tolerance_is_told(
    probe: SizeProbe, tmp_path: Path
) -> None:
    task, told = made(probe, tmp_path / "task", SETS / "gpu_mode/svd_py")
    assert task.task.correctness.check == "reference.py:check"
    assert "results are judged by the problem's own check, not element by element" in told
    origin = tmp_path / "p"
    shutil.copytree(SETS / "gpu_mode/svd_py", origin)
    text, mark, _ = (origin / "reference.py").read_text().partition("    u, s, vh = (each")
    assert mark
    (origin / "reference.py").write_text(f"{text}    return True, ''\n")
    task, told = made(probe, tmp_path / "loose", origin)
    assert not task.task.correctness.check
    assert "not taken over" in "".join(told)
    assert "accepts zeros in place of" in "".join(told)
    text = (SETS / "gpu_mode/vector_scale_py/reference.py").read_text()
    (origin / "reference.py").write_text(text.replace("rtol=1e-5", "rtol=2e-2"))
    shutil.copy(SETS / "gpu_mode/vector_scale_py/task.yml", origin)
    task, told = made(probe, tmp_path / "wide", origin, sizes={"SIZE": 96})
    assert task.task.correctness.tolerance == pytest.approx(2e-2, rel=1e-2)
    assert "tolerance 0.0201: the problem's own, not the judge's bound" in told


@pytest.mark.parametrize(
    ("stated", "tolerance", "says"),
    [
        # The results are logarithms of some 1/256.
        ({"max_rtol": 1e-5, "max_atol": 0.05}, 0.01, "tolerates 1e-05 of a value and 0.05, beside"),
        ({"max_rtol": 1e-2, "max_atol": 4.0}, 0.01, "tolerates 0.01 of a value and 4, beside"),
        ({"max_rtol": 1e-9, "max_atol": 4.0}, None, "would hide wrong results: the judge's own"),
    ],
    ids=["taken", "its relative part", "too wide"],
)
def test_an_absolute_tolerance_counts_beside_the_size_of_results(
    stated: dict[str, float], tolerance: float | None, says: str, probe: SizeProbe, tmp_path: Path
) -> None:
    origin = shutil.copytree(SETS / "sol_execbench/row_log_softmax", tmp_path / "p")
    workload = {"axes": {"num_rows": 32}, "inputs": {}, "tolerance": stated}
    (origin / "workload.jsonl").write_text(json.dumps(workload))
    task, told = made(probe, tmp_path / "task", origin)
    assert task.task.correctness.tolerance == pytest.approx(tolerance, rel=0.15)
    assert says in "".join(told)


HUGE = "torch.rand(1 << 15, 1 << 15, 1 << 10)"


@pytest.mark.parametrize(
    ("drawn", "says"),
    [
        (HUGE, "needs 4096.0 GiB and the rest 4096.0 GiB, and no sizes were found that fit"),
        # Held only while the inputs are drawn.
        (
            f"{HUGE}[0, :batch_size, :dim].clone()",
            "its tensors need 4096.0 GiB at once, and no sizes",
        ),
    ],
    ids=["inputs", "drawing"],
)
def test_without_numbers_to_change_a_file_that_is_too_large_is_refused(
    probe: SizeProbe, tmp_path: Path, drawn: str, says: str
) -> None:
    text = SOFTMAX.read_text().replace("torch.rand(batch_size, dim)", drawn)
    with pytest.raises(BadTask, match=says):
        made(probe, tmp_path / "task", text, fit=True)


def test_a_reference_that_calls_triton_is_refused_where_there_is_no_gpu(
    probe: SizeProbe, tmp_path: Path
) -> None:
    path = tmp_path / "p.py"
    called = 'exec("raise RuntimeError(0)", {"__name__": "triton.runtime.driver"})'  # as there
    text = SOFTMAX.read_text()
    head = "def forward(self, x):\n"
    assert head in text
    path.write_text(text.replace(head, f"{head}        {called}\n"))
    with pytest.raises(BadTask, match=r"p\.py:\d+: it calls a Triton kernel, which needs a GPU"):
        made(probe, tmp_path / "task", path, sizes={"batch_size": 4, "dim": 8})


def test_a_case_that_can_not_be_drawn_is_left_out_if_others_can(
    probe: SizeProbe, tmp_path: Path
) -> None:
    folder = shutil.copytree(SETS / "npukernelbench/ScaledAdd", tmp_path / "p")
    rows = folder / "validation/test_cases.csv"
    rows.write_text(rows.read_text().replace("float32", "int32"))
    task, told = made(probe, tmp_path / "task", folder)
    assert task.task.reference.constants == {"INPUT_GROUP": 1}
    assert any(line.startswith("case group1 is left out: ") for line in told)
    rows.write_text(rows.read_text().replace("float16", "int32"))
    with pytest.raises(BadTask, match="not implemented for 'Int'"):
        made(probe, tmp_path / "none", folder)


def test_a_first_kernel_can_be_given_or_comes_with_the_problem(
    probe: SizeProbe, tmp_path: Path
) -> None:
    akg_task = SETS / "akg/relu_sum"
    own, _ = made(probe, tmp_path / "own", akg_task)
    assert own.kernel.text == (akg_task / "relu_sum_kernel.py").read_text()
    assert (own.task.timing.min_gain, own.task.policy.max_rounds) == (0.02, 12)
    seeded, _ = made(probe, tmp_path / "seeded", akg_task, own_seed=False)
    assert "return torch.relu(x).sum(dim=-1)" in seeded.kernel.text
    seed = tmp_path / "seed.py"
    seed.write_text(own.kernel.text + "# mine\n")
    given, _ = made(probe, tmp_path / "given", akg_task, seed=seed)
    assert given.kernel.text == seed.read_text()


def test_all_editable_files_of_a_problem_are_tuned(probe: SizeProbe, tmp_path: Path) -> None:
    problem = tmp_path / "problem"
    shutil.copytree(SETS / "akg/relu_sum", problem)
    kernel = problem / "relu_sum_kernel.py"
    kernel.write_text(kernel.read_text().replace("x.clamp(min=0)", "positive(x)"))
    kernel.write_text("from relu_parts import positive\n" + kernel.read_text())
    parts = problem / "relu_parts.py"
    parts.write_text("def positive(x):\n    return x.clamp(min=0)\n")
    task = problem / "task.yaml"
    names = "[relu_parts.py, relu_sum_kernel.py, src/relu.cpp]"
    task.write_text(task.read_text().replace("[relu_sum_kernel.py]", names))
    found, told = made(probe, tmp_path / "task", problem)
    assert found.task.files.names == ("relu_sum_kernel.py", "relu_parts.py")
    assert found.kernel.texts == {path.name: path.read_text() for path in (kernel, parts)}
    assert "note: editable file src/relu.cpp: no file directly in the folder" in told
    # Another first kernel needs none of them.
    seeded, _ = made(probe, tmp_path / "seeded", problem, own_seed=False)
    assert seeded.task.files.names == ("kernel.py",)


def test_a_loss_of_one_number_is_judged_by_its_own_bound(probe: SizeProbe, tmp_path: Path) -> None:
    path = SETS / "kernelbench" / "13_cross_entropy.py"
    sizes = {"batch_size": 256, "num_classes": 1000}
    task, _ = made(probe, tmp_path / "task", path, sizes=sizes)
    assert task.task.correctness.tolerance is None
    assert task.task.reference.constants == sizes


def test_numbers_where_inputs_are_drawn_are_sizes_if_nothing_else_lowers_the_need(
    probe: SizeProbe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("akg_tui.engine.size_search.free_memory", lambda: GIB // 2)
    path = tmp_path / "p.py"
    text = PLAIN.replace("self.weight = nn.Parameter(torch.randn(32, 32))", "pass")
    text = text.replace("(x @ self.weight * mask)[index]", "(x @ mask)[index] * 4096")
    text = text.replace("randn(16, 32)", "randn(65536, 4096)")
    text = text.replace("torch.rand(32) < 0.5", "torch.randn(4096, 8)")
    path.write_text(text.replace("randint(0, 16,", "randint(0, 64,"))
    task, told = made(probe, tmp_path / "task", path, fit=True)
    sizes = task.task.reference.constants
    # The same number is the same dimension of both factors; Model's own is none.
    assert set(sizes) <= {"SIZE_4096", "SIZE_65536"}
    assert "torch.randn(SIZE_65536, SIZE_4096), torch.randn(SIZE_4096, 8)" in task.reference
    assert "(x @ mask)[index] * 4096" in task.reference
    assert "numbers of get_inputs() got names: SIZE_65536, SIZE_4096, SIZE_64" in "".join(told)
    task, _ = made(probe, tmp_path / "small", PLAIN, fit=True)
    assert task.reference == PLAIN


WITH_LOSS = """
import torch


def normalized(x):
    return x / x.norm()


def loss(x, weight, *, scale=2.0):
    return (normalized(x) @ weight).square().sum() * scale


def get_inputs():
    return [torch.randn(16, 8), torch.randn(8, 4)]
"""


def test_a_function_becomes_a_model_whose_gradients_a_kernel_computes(
    probe: SizeProbe, tmp_path: Path
) -> None:
    path = tmp_path / "p.py"
    path.write_text(WITH_LOSS)
    task, told = made(probe, tmp_path / "task", path, gradients=("weight", "x"))
    assert "note: Model is loss, the file's only function that is no part of another" in told
    assert task.task.reference.gradients == ("weight", "x")
    names = names_in(task.kernel.text)
    x, weight = torch.randn(3, 8), torch.randn(8, 4, requires_grad=True)
    with torch.enable_grad():
        (expected,) = torch.autograd.grad(names["loss"](x, weight), weight)
    found = names["ModelNew"]()(x, weight)
    assert torch.equal(found[0], expected)
    with pytest.raises(BadTask, match="z is no parameter of forward and no weight"):
        made(probe, tmp_path / "other", path, gradients=("z",))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("class A(nn.Module):\n    pass\nclass B(A):\n    pass\nclass C(nn.Module):\n    pass\n",
         "its modules that are no part of another are B, C: add Model = B"),
        ("def f(x):\n    return x\ndef g(x):\n    return x\n",
         "its functions that are no part of another are f, g: add Model = f"),
        ("SIZE = 3\n", "is missing, expected class Model"),
    ],
)  # fmt: skip
def test_several_candidates_for_the_model_are_named(text: str, says: str, tmp_path: Path) -> None:
    head = "import torch\nfrom torch import nn\ndef get_inputs():\n    return [torch.randn(3)]\n"
    (tmp_path / "p.py").write_text(head + text)
    with pytest.raises(BadTask, match=says):
        kernelbench.read(tmp_path / "p.py")


def test_an_input_that_a_model_writes_to_is_a_result(probe: SizeProbe, tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text(PLAIN.replace("return (x", "x.add_(1); return (x"))
    _, told = made(probe, tmp_path / "task", path)
    assert any("forward() changes its arguments x: " in line for line in told)


def test_an_input_that_cancels_is_free(probe: SizeProbe, tmp_path: Path) -> None:
    text = PLAIN.replace("(x @ self.weight * mask)[index]", "torch.softmax(x + mask, -1)[index]")
    text = text.replace("torch.rand(32) < 0.5", "torch.randn(16, 1)")
    task, _ = made(probe, tmp_path / "task", text)
    assert task.task.correctness.free_inputs == ("mask",)


ATTENTION = module_of(
    "query, key, value, unused",
    "return torch.softmax(query @ key.T, -1) @ value",
    "[*(torch.rand(16, 32).half() * 0.016 - 0.008 for _ in range(2)), "
    "torch.randn(16, 32).half(), torch.rand(8)]",
)


def test_inputs_that_decide_too_little_are_multiplied(
    probe: SizeProbe, tmp_path: Path, evaluated: Evaluated
) -> None:
    task, told = made(probe, tmp_path / "task", ATTENTION)
    assert task.task.correctness.free_inputs == ("unused",)
    (note,) = (line for line in told if "multiplied" in line)
    assert note.startswith("note: some inputs are multiplied: input ")
    assert "input key x 16" in note
    assert "input query x 16" in note
    names = names_in(task.reference)
    query, key, value, unused = names["get_inputs"]()
    assert (query @ key.T).std() > 10 * 32**0.5 * 0.0046**2
    assert value.std() < 2
    assert unused.max() <= 1
    mean = (
        "import torch\n\n\nclass ModelNew(torch.nn.Module):\n"
        "    def forward(self, query, key, value, unused):\n"
        "        return value.mean(0).expand(16, 32).contiguous()\n"
    )
    assert evaluated(task.task, task.reference, mean).failure is FailureKind.WRONG


@pytest.mark.usefixtures("shared_probe")
def test_an_input_can_be_declared_free(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.py"
    text = PLAIN.replace("(x @ self.weight * mask)[index]", "(x + 4e-9 * torch.tanh(mask))[index]")
    path.write_text(text.replace("torch.rand(32) < 0.5", "torch.randn(16, 32)"))
    # Without a kernel, which would be verified.
    order = ["new", str(tmp_path / "task"), "--from", str(path), "--seed", "write"]
    assert main(order) == 2
    assert "or state --free-inputs mask" in capsys.readouterr().err
    assert main([*order, "--free-inputs", "mask"]) == 0
    assert load_task(tmp_path / "task").task.correctness.free_inputs == ("mask",)
    capsys.readouterr()
    with pytest.raises(SystemExit, match="2"):
        main([*order, "--free-inputs", "no name"])
    assert "'no name' is no input" in capsys.readouterr().err


def test_memory_for_a_result_is_an_input_that_a_kernel_may_ignore(
    probe: SizeProbe, tmp_path: Path
) -> None:
    problem = SETS / "gpu_mode" / "vector_scale_py"
    task, _ = made(probe, tmp_path / "task", problem, sizes={"SIZE": 96})
    assert task.task.correctness.free_inputs == (1,)


def test_inputs_that_change_no_result_are_declared_free_and_those_that_change_it_little_are_not(
    probe: SizeProbe, tmp_path: Path
) -> None:
    origin = tmp_path / "p.py"
    drawn = '"two", torch.rand(32, 32), torch.randn(32)'
    ignoring = PLAIN.replace("self, x, mask, index", "self, x, mask, index, hint, *more").replace(
        "(8,))]", f"(8,)), {drawn}]"
    )
    origin.write_text(ignoring)
    task, told = made(probe, tmp_path / "task", origin)
    assert set(task.task.correctness.free_inputs) == {4, 5}
    assert "input 5 changes no result here: a kernel may ignore it (free_inputs)" in told
    assert "input 5 changes no result here" in (tmp_path / "task/README.md").read_text()
    named = tmp_path / "named.py"
    named.write_text(ignoring.replace("hint, *more", "hint, table, row"))
    task, _ = made(probe, tmp_path / "named", named)
    assert set(task.task.correctness.free_inputs) == {"table", "row"}
    # The mean of so many numbers is nearly that of others: a kernel could return a constant. Of
    # larger or smaller numbers it would be that of ones or of zeros.
    mean = tmp_path / "mean.py"
    mean.write_text(
        UNDECIDED.replace("x):", "x, scale):")
        .replace("relu(x)", "mean((x > 0.5) + 19.0) * scale")
        .replace("torch.rand(1024, 1024)", "torch.rand(1 << 20), torch.rand(1) + 1")
    )
    with pytest.raises(BadTask, match=r"'x' decides nothing: .* stays within the tolerance"):
        made(probe, tmp_path / "mean", mean)


PLAIN = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(32, 32))

    def forward(self, x, mask, index):
        return (x @ self.weight * mask)[index]


def get_inputs():
    return [torch.randn(16, 32), torch.rand(32) < 0.5, torch.randint(0, 16, (8,))]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("return (x", "return (x +", "p.py:11: not valid Python: "),
        ("def get_init_inputs", "def inits", "p.py:1: get_init_inputs: is missing, expected def "),
        ("class Model(nn.Module)", "class Net", "p.py:1: Model: is missing, expected class Model("),
        (
            "return (x @ self.weight * mask)[index]",
            "return nn.functional.dropout(x @ self.weight * mask)[index]",
            "p.py:11: dropout in training mode gives two results for one input: call self.eval()",
        ),
        ("return (x", "return {'y': 3}, (x", "p.py:10: output 0.y is a int, expected a tensor"),
        ("return (x", "x = {}; x['x'] = x; return x; (x", "p.py:10: output.x contains itself"),
        ("(16, 32)", "(0, 32)", "p.py:14: input 0 has no elements: its shape is [0, 32]"),
        ("[index]", "[:0]", "p.py:10: output 0 has no elements: its shape is [0, 32]"),
        (", mask, index)", ", mask)", "p.py:10: TypeError: "),
        (
            "return [torch.randn(16, 32), ",
            "torch.manual_seed(0); return [torch.randn(16, 32), ",
            "p.py: get_inputs() returns the same values every time, so a kernel could remember",
        ),
        ("torch.randn(16, 32), ", "[torch.ones(2)], ", "p.py:"),
        ("def get_inputs", "open('weights')\ndef get_inputs", "p.py:14: FileNotFoundError: "),
        ("def get_inputs", "input('?')\ndef get_inputs", "p.py:14: EOFError: "),
        ("def get_inputs", "print('x'); exit()\ndef get_inputs", "p.py:14: SystemExit: "),
    ],
    ids=[
        *("syntax", "function", "model", "dropout", "nested", "dict", "empty"),
        *("no-output", "arguments", "seeded", "list", "reads", "asks", "ends"),
    ],
)
def test_a_file_that_is_no_task_is_refused_in_a_line_and_nothing_is_written(
    probe: SizeProbe, tmp_path: Path, old: str, new: str, says: str
) -> None:
    path = tmp_path / "p.py"
    assert old in PLAIN
    path.write_text(PLAIN.replace(old, new))
    with pytest.raises(BadTask) as refused:
        made(probe, tmp_path / "task", path)
    said = str(refused.value)
    assert said.startswith(f"{tmp_path}/{says}"), said
    assert "\n" not in said
    assert not (tmp_path / "task").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "new needs --from PROBLEM or --reference FILE, one of them"),
        (["--from", SOFTMAX, "--reference", "r.py"], "--reference FILE, one of them"),
        (["--kernel", "k.py"], "--kernel needs --reference FILE"),
        (["--reference", "nowhere.py"], "nowhere.py: does not exist, expected a problem's file"),
        (
            ["--reference", SOFTMAX, "--dsl", "ascendc"],
            "--dsl ascendc: it writes C++ (cpp) for the CPU, and Triton (triton) for a GPU or "
            "Triton's interpreter (cpu), not ascendc for cpu; state --kernel FILE, or --seed write",
        ),
        (["--from", SOFTMAX, "--sizes", "rows=4"], "--sizes rows: is no constant of the reference"),
        (["--from", SOFTMAX, "--sizes", "dim=0"], "4_softmax.py:14: --sizes dim: is 0, expected"),
        (["--from", SOFTMAX, "--sizes", "dim"], "'dim' is no size, expected NAME=NUMBER"),
        (["--from", SOFTMAX, "--sizes", "dim[0]=4"], "--sizes dim[0]: is no constant of the"),
        (["--from", SOFTMAX, "--format", "x"], "'x' is not one of kernelbench, "),
        (["--from", SOFTMAX, "--format", "gpu-mode"], "has no task.yml, which GPU MODE's"),
        (["--from", SOFTMAX, "--seed", "nowhere.py"], "nowhere.py: cannot be read: No such file"),
        (["--from", "nowhere"], "nowhere: does not exist, expected a problem's file or folder"),
        (["--from", SOFTMAX, "--kernel", "k.py"], "a kernel goes to --seed"),
        (["--reference", "r", "--kernel", "k", "--fit"], "--fit goes without --kernel"),
    ],
)
def test_bad_options_end_in_one_line_before_anything_runs(
    tmp_path: Path, words: list[object], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["new", str(tmp_path / "t"), *map(str, words)])
    except SystemExit as ended:  # argparse's own checks
        code = int(str(ended.code))
    assert code == 2
    assert says in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "t").exists()


def test_a_problem_in_the_place_of_the_folder_is_told_where_it_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.py").write_text(PLAIN)
    assert main(["new", str(tmp_path / "p.py")]) == 2
    assert f"new --from {tmp_path}/p.py DIR" in capsys.readouterr().err


def test_a_folder_with_files_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(BadTask) as refused:
        make_task(NewTask(folder=tmp_path, origin=SOFTMAX), lambda _: None)
    assert "has files in it" in str(refused.value)


def test_a_kernel_in_cuda_that_is_to_be_written_has_its_frame_told(tmp_path: Path) -> None:
    stated = ["--from", str(SOFTMAX), "--backend", "cuda", "--dsl", "cuda_cpp", "--seed", "write"]
    assert main(["new", str(tmp_path / "task"), *stated]) == 0
    kernel = load_task(tmp_path / "task").kernel.text
    assert kernel.startswith(UNWRITTEN)
    assert all(line.startswith("#") for line in kernel.splitlines())
    frame = "\n".join(line[4:] for line in kernel[len(UNWRITTEN) :].splitlines()[3:])
    frame = f"import torch\n{frame}"
    source = frame.partition('r"""')[2].partition('"""')[0]
    (function,) = read_functions(source, ["scale"])
    assert [each.name for each in function.parameters] == ["x", "y", "n", "stream"]
    assert findings(frame, Task(op="x", target=Target(dsl="cuda_cpp"))) == ()


@pytest.mark.usefixtures("shared_probe")
def test_a_task_can_be_made_without_a_kernel_for_a_model_to_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "task"
    sizes = "batch_size=8,dim=64"
    stated = ["--from", str(SOFTMAX), "--sizes", sizes, "--dsl", "cpp", "--seed", "write"]
    assert main(["new", str(folder), *stated]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"made {folder}, without a kernel; let a model write and tune it: ")
    made_task = load_task(folder)
    assert made_task.task.workflow == "write_then_tune"
    assert made_task.task.target.dsl == "cpp"
    assert made_task.kernel.text == UNWRITTEN
    assert all(line.startswith("#") for line in made_task.kernel.text.splitlines())
    assert "- no first kernel: the agent writes it" in (folder / "README.md").read_text()


# Of four classes each is drawn in every draw, so that the targets are not positive by chance.
STRUCTURED = module_of(
    "a, x, target",
    "y = a @ x\n"
    'return torch.nn.functional.cross_entropy(y, target, ignore_index=-1, reduction="none")',
    "[torch.randn(32, 32).tril(), torch.rand(32, 20), torch.randint(4, (32,))]",
)


def test_the_structure_of_inputs_is_written_and_told(probe: SizeProbe, tmp_path: Path) -> None:
    task, told = made(probe, tmp_path / "task", STRUCTURED)
    assert task.task.correctness.inputs == {"a": "lower triangular"}
    assert "input a is always lower triangular: a kernel may count on that" in told
    remark = (
        "ignore_index in line 7 of the reference: the judge tries no integer that get_inputs() "
        "does not draw"
    )
    assert remark in told
    assert f"# {remark}\n" in (tmp_path / "task" / "task.toml").read_text()
