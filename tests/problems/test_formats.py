"""Problems of other public sets: recognised by content, made into references, carried over."""

from __future__ import annotations

import json
import random
import shutil
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from akg_tui.core.task import Correctness, ReferenceChanges, Target, Task
from akg_tui.problems import index_inputs
from akg_tui.problems.case_lists import MOST, cases_of, numeric_cases
from akg_tui.problems.formats import problems_in, read_problem
from akg_tui.problems.module_text import remarks_on
from akg_tui.problems.problem import NOT_TAKEN_OVER, Problem, readme
from akg_tui.problems.seeds import kernel_from
from akg_tui.sizing.size_probe import SizeProbe
from akg_tui.store.errors import BadTask
from akg_tui.store.reference_constants import constants
from tests.problems.conftest import SETS, names_in

FOUND = {
    "multikernelbench/3_scaled_tanh.py": ("MultiKernelBench", "scaled_tanh", 64 * 128 * 4),
    "multikernelbench/pairs.py": ("MultiKernelBench", "pairs", 2 * 32 * 64 * 4),
    "npukernelbench/ScaledAdd": ("NPUKernelBench", "ScaledAdd", 2 * 48 * 128 * 4),
    "npukernelbench/RowSum": ("NPUKernelBench", "RowSum", 64 * 96 * 4),
    "npukernelbench/ForeachScale": ("NPUKernelBench", "ForeachScale", (8 + 4 + 1) * 32 * 4),
    "robust_kbench/scale_norm": ("robust-kbench", "scale_norm", 4 * 32 * 128 * 4),
    "robust_kbench/swish_backward": ("robust-kbench", "swish_backward", 2 * 64 * 128 * 4),
    "flashinfer/definitions/gemm/gemm_n96_k64.json": (
        *("FlashInfer Trace", "gemm_n96_k64"),
        (48 + 96) * 64 * 4,
    ),
    "flashinfer/definitions/gemm/fp8_gemm_n96_k64.json": (
        *("FlashInfer Trace", "fp8_gemm_n96_k64"),
        (64 + 96) * (64 + 2 * 4),
    ),
    "flashinfer/definitions/norm/scaled_rms_norm_h128.json": (
        *("FlashInfer Trace", "scaled_rms_norm_h128"),
        41 * 128 * 4,
    ),
    "flashinfer/definitions/attention/paged_attention_h2.json": (
        *("FlashInfer Trace", "paged_attention_h2"),
        (64 * 2 * 16 + 2 * 64 * 4 * 2 * 16) * 4 + (9 + 9 + 64 + 8) * 4,
    ),
    "sol_execbench/row_log_softmax": ("SOL-ExecBench", "row_log_softmax", 32 * 256 * 4),
    "sol_execbench/gather_scale": ("SOL-ExecBench", "gather_scale", 64 * 32 * 4 + 64 * 8),
    "gpu_mode/vector_scale_py": ("GPU MODE", "vector_scale_py", 2 * 96 * 96 * 4),
    "gpu_mode/grey_py": ("GPU MODE", "grey_py", 24 * 24 * 3 * 4),
    "gpu_mode/gated_py": ("GPU MODE", "gated_py", (24 * 32 + 2 * 48 * 32 + 48) * 4),
    "gpu_mode/svd_py": ("GPU MODE", "svd_py", 4 * 24 * 24 * 4),
    "ai_bench/23_Softmax.yaml": ("KernelBench with sizes of AI-bench", "Softmax", 64 * 96 * 4),
    "ai_bench/40_Linear.yaml": ("KernelBench with sizes of AI-bench", "Linear", 32 * 64 * 4),
    "akg/relu_sum": ("AKG", "relu_sum", 64 * 96 * 4),
    "akg/cat_scale": ("AKG", "cat_scale", (16 + 8) * 32 * 4),
    "decks/03_row_gate": ("kernelbench.com", "row_gate", 24 * 160 * 4),
    "kernelbook/row_17.json": ("KernelBook", "GatedMean", 64 * 48 * 4),
    "tritonbench/scaled_tanh_add.py": ("TritonBench", "scaled_tanh_add", 48 * (80 + 1) * 4),
    "agent_kernel_arena/clipped_mean": ("AgentKernelArena", "clipped_mean", 32 * 64 * 4),
}
"""The label, the operator and the bytes of the inputs of each problem."""

FREE = {"gpu_mode/vector_scale_py": (1,)}
"""Memory for the result, which a kernel may ignore."""


def problem(name: str) -> Problem:
    return read_problem(SETS / name)


@pytest.mark.parametrize("name", FOUND)
def test_a_problem_is_recognised_and_the_judge_accepts_its_reference(
    probe: SizeProbe, name: str
) -> None:
    found = problem(name)
    label, op, size = FOUND[name]
    assert (found.format, found.op) == (label, op)
    kernel = kernel_from(found.origin, found.reference, dict(found.sizes))
    assert "get_inputs" not in kernel
    changed = ReferenceChanges(constants=dict(found.sizes))
    rules = Correctness(free_inputs=FREE.get(name, ()), check=found.check)
    task = Task(op=op, reference=changed, target=Target(dsl="torch"), correctness=rules)
    needs = probe.ask("measure", task, found.reference, found.filename)
    assert needs is not None
    assert (needs.inputs, needs.empty) == (size, None)
    probe.ask("examine", task, found.reference, found.filename)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "flashinfer/definitions/norm/scaled_rms_norm_h128.json",
            "stored inputs are drawn instead",
        ),
        ("gpu_mode/vector_scale_py", "2 tests: the benchmarks are the cases"),
        ("gpu_mode/vector_scale_py", "tensors are on the CPU, not on a GPU"),
        ("ai_bench/40_Linear.yaml", "GROUPS = 2: 40_Linear.py has no such number"),
        ("akg/relu_sum", "constraints in task.yaml"),
        ("npukernelbench/ForeachScale", f"custom_check_precision: {NOT_TAKEN_OVER}"[:90]),
        ("decks/03_row_gate", "check.py: its own check of results is not taken over"),
        ("decks/03_row_gate", "forbidden: torch.sigmoid, torch.nn.functional.silu"),
        ("decks/03_row_gate", "scale of shapes.py: reference.py has no such number"),
        ("tritonbench/scaled_tanh_add.py", "the other calls of test_scaled_tanh_add"),
        ("akg/cat_scale", "dsl triton_ascend: this version has cpp, cuda_cpp, ascendc"),
    ],
)
def test_what_is_not_carried_over_is_told_in_a_line(name: str, line: str) -> None:
    found = problem(name)
    assert any(line in each for each in found.kept_out), found.kept_out
    assert line in readme(found, [])


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("multikernelbench/3_scaled_tanh.py", {f"group{n + 1}": n for n in range(3)}),
        ("npukernelbench/ScaledAdd", {"group1": 0, "group2": 1}),
        ("decks/03_row_gate", {"rows24-width160": (24, 160), "rows40-width96": (40, 96)}),
        (
            "robust_kbench/scale_norm",
            {"batch_size4-num_tokens32": (4, 32), "batch_size8-num_tokens16": (8, 16)},
        ),
        ("flashinfer/definitions/gemm/gemm_n96_k64.json", {"m48": 48, "m256": 256, "m1024": 1024}),
        ("sol_execbench/row_log_softmax", {"num_rows32": 32, "num_rows512": 512}),
        ("gpu_mode/vector_scale_py", {"size96": 96, "size1024": 1024}),
        ("gpu_mode/gated_py", {"rows24": 24, "rows96": 96}),
        ("akg/cat_scale", {"group1": 0, "group2": 1}),
        ("kernelbench/4_softmax.py", {}),
        ("multikernelbench/pairs.py", {}),
    ],
)
def test_what_a_problem_lists_becomes_cases(name: str, cases: dict[str, object]) -> None:
    found = problem(name)
    values = {each.name: tuple(each.sizes.values()) for each in found.cases}
    assert values == {
        case: value if isinstance(value, tuple) else (value,) for case, value in cases.items()
    }
    known = constants(found.reference)
    assert all(size in known for each in found.cases for size in each.sizes)


def test_of_many_cases_some_are_taken() -> None:
    cases, told = cases_of([{"N": 2**at, "K": 3} for at in range(20)])
    sizes = [each.sizes["N"] for each in cases]
    assert len(cases) == MOST
    assert (sizes[0], sizes[-1]) == (1, 2**19)
    assert sizes == sorted(sizes)
    assert told == (f"20 cases: {MOST} of them are tuned",)
    assert cases_of([{"N": 1}, {"N": 1}]) == ((), ())
    long = cases_of([{"A_VERY_LONG_NAME_OF_A_SIZE_INDEED": n} for n in (1, 2)])[0]
    assert [each.name for each in long] == ["case1", "case2"]


def ran(reference: str, group: int) -> tuple[dict[str, Any], list[Any]]:
    """Return the names of a reference without Model, and what its `get_inputs` returns."""
    names = names_in(reference.replace("INPUT_GROUP = 0", f"INPUT_GROUP = {group}"))
    return names, names["get_inputs"]()


GROUPS = """import torch
class Model(torch.nn.Module):
    def forward(self, x, y): return x + y
def get_inputs_dyn_list():
    'Three groups.'
    small, large = 4, 1 << 40
    # Comments go.
    x1, y1 = torch.rand(small), torch.rand(small)
    x1 = x1 + 1
    x2 = torch.rand(large)
    y2 = torch.rand(small)
    return [[x1, y1], [x2, y2], (y2, torch.rand(5))]
"""


def test_of_several_input_groups_only_the_wanted_one_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text(GROUPS)
    found = read_problem(path)
    names, first = ran(found.reference, 0)
    assert [list(each.shape) for each in first] == [[4], [4]]
    assert float(first[0].min()) >= 1
    assert "get_inputs_dyn_list" not in names
    _, third = ran(found.reference, 2)
    assert [list(each.shape) for each in third] == [[4], [5]]
    with pytest.raises(RuntimeError, match="allocate"):
        ran(found.reference, 1)
    assert [each.name for each in found.cases] == ["group1", "group2", "group3"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    x1 = x1 + 1\n", "    x1.add_(1)\n"),
        ("    x1 = x1 + 1\n", "    x1[0] = 1\n"),
        ("    x1 = x1 + 1\n", "    for _ in range(2):\n        x1 = x1 + 1\n"),
        ("def get_inputs_dyn", "def again(): return get_inputs_dyn_list()\ndef get_inputs_dyn"),
    ],
)
def test_groups_of_a_function_that_does_more_are_drawn_together(
    tmp_path: Path, old: str, new: str
) -> None:
    path = tmp_path / "p.py"
    path.write_text(GROUPS.replace("1 << 40", "8").replace(old, new))
    found = read_problem(path)
    names, second = ran(found.reference, 1)
    assert [list(each.shape) for each in second] == [[8], [4]]
    assert "get_inputs_dyn_list" in names
    assert len(found.cases) == 3


def test_a_dictionary_of_tensors_stays_one() -> None:
    found = problem("gpu_mode/gated_py")
    names, inputs = ran(found.reference, 0)
    assert list(constants(found.reference)) == ["ROWS", "DIM", "HIDDEN"]
    assert list(inputs[1]) == ["gate.weight", "up.weight"]
    assert inputs[2] == {"scale": 0.5, "scaled": True}
    assert names["Model"]()(*inputs).equal(names["ref_kernel"](tuple(inputs)))


def test_settings_that_the_schema_has_are_carried_over() -> None:
    akg = problem("akg/relu_sum")
    assert (akg.min_gain, akg.max_rounds, akg.dsl, akg.arch) == (0.02, 12, "torch", "x86_64")
    assert akg.kernel == (SETS / "akg/relu_sum/relu_sum_kernel.py").read_text()
    assert akg.reference == (SETS / "akg/relu_sum/relu_sum_ref.py").read_text()
    assert problem("sol_execbench/row_log_softmax").tolerance == 1e-5
    assert problem("gpu_mode/vector_scale_py").tolerance == 1e-5


def test_the_sizes_of_a_made_reference_are_numbers_at_its_top_level() -> None:
    values = {
        name: {each.name: each.value for each in constants(problem(name).reference).values()}
        for name in (
            "robust_kbench/scale_norm",
            "gpu_mode/grey_py",
            "sol_execbench/row_log_softmax",
        )
    }
    assert list(values.values()) == [
        {"BATCH_SIZE": 4, "NUM_TOKENS": 32, "NUM_FEATURES": 128, "EPS": 1e-05},
        {"SIZE": 24},
        {"num_rows": 32, "heads": 4, "width": 256, "head_width": 64},
    ]


def test_cases_are_found_by_the_name_of_the_module_that_reads_them(tmp_path: Path) -> None:
    for suffix in (".py", ".json"):
        shutil.copy(SETS / f"multikernelbench/3_scaled_tanh{suffix}", tmp_path)
    path = tmp_path / "3_scaled_tanh.py"
    named = 'os.path.join(os.path.dirname(__file__), "3_scaled_tanh.json")'
    assert named in path.read_text()
    path.write_text(path.read_text().replace(named, 'os.path.splitext(__file__)[0] + ".json"'))
    elsewhere = tmp_path / "task"
    elsewhere.mkdir()
    namespace: dict[str, Any] = {"__file__": str(elsewhere / "reference.py")}
    exec(read_problem(path).reference, namespace)
    x, _ = namespace["get_inputs"]()
    assert x.numel() == 64 * 128


def test_what_a_configuration_leaves_out_is_left_to_the_constructor(tmp_path: Path) -> None:
    given, more = "num_features: int, eps: float", "num_features=128, low=(-1.0, 2), eps=None"
    folder = altered(tmp_path, "robust_kbench/scale_norm/func_forward.py", given, more)
    config = folder / "config_forward.json"
    config.write_text(config.read_text().replace("1e-05", "null"))
    assert names_in(read_problem(folder).reference)["get_init_inputs"]() == {
        "eps": None,
        "num_features": 128,
    }


DEFINITION = json.loads((SETS / "sol_execbench/row_log_softmax/definition.json").read_text())


def test_rows_have_numbers_and_truth_values_and_lists_of_tensors_stay_lists() -> None:
    found = problem("npukernelbench/ForeachScale")
    namespace = names_in(found.reference)
    assert namespace["get_init_inputs"]() == [2.0, False]
    parts, shift = namespace["get_inputs"]()
    assert [tuple(each.shape) for each in parts] == [(8, 32), (4, 32)]
    results = namespace["Model"](2.0, False)(parts, shift)
    for part, result in zip(parts, results, strict=True):
        assert result.equal(part * 2.0 + shift)


def definition(tmp_path: Path, **changes: Any) -> Path:
    """Return a folder with the definition of row_log_softmax, changed."""
    shutil.copytree(SETS / "sol_execbench/row_log_softmax", tmp_path / "p")
    plain = {**DEFINITION, **changes}
    (tmp_path / "p/definition.json").write_text(json.dumps(plain, indent=1))
    return tmp_path / "p"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"schema_version": 3}, "schema_version: is 3, newer than this reader knows (1)"),
        ({"reference": "def run(x:"}, "reference: not valid Python"),
        ({"reference": "x = 1"}, "reference: has no function run"),
        ({"inputs": None}, "inputs: is missing, expected an object"),
        (
            {"axes": {**DEFINITION["axes"], "width": {"type": "ragged"}}},
            'axes.width: type "ragged" is not known to this reader',
        ),
        (
            {"axes": {**DEFINITION["axes"], "heads": {"type": "const", "value": 0}}},
            "axes.heads: is 0, expected at least 1",
        ),
        (
            {"inputs": {"x": {"shape": ["num_rows"], "dtype": "float4_e2m1fn_x2"}}},
            "inputs.x: dtype float4_e2m1fn_x2 can't be passed to a kernel in this version",
        ),
        (
            {"inputs": {"x": {"shape": ["rows"], "dtype": "float32"}}},
            "inputs.x: has an axis that is not defined: rows",
        ),
        (
            {
                "axes": DEFINITION["axes"] | {"num_pages": {"type": "const", "value": 7}},
                "inputs": {"kv_indices": {"shape": ["rows"], "dtype": "int32"}},
            },
            "inputs.kv_indices: has an axis that is not defined: rows",
        ),
        (
            {"inputs": {"x": {"shape": 5, "dtype": "float32"}}},
            "inputs.x.shape: expected a list of axes or null",
        ),
        ({"inputs": {"x": "float32"}}, "inputs.x: expected an object"),
        ({"name": "../../etc/x"}, "name: '../../etc/x' leaves the folder"),
    ],
)
def test_a_definition_that_can_not_be_read_is_refused_with_its_line(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    folder = definition(tmp_path, **changes)
    with pytest.raises(BadTask) as refused:
        read_problem(folder)
    said = str(refused.value)
    assert f": {says}" in said
    assert said.startswith(f"{folder}/definition.json:")
    assert said.removeprefix(f"{folder}/definition.json:").partition(":")[0].isdigit()


def workloads(folder: Path, *axes: dict[str, int]) -> Path:
    """Write a workload for each of these axes."""
    lines = [json.dumps({"axes": each, "inputs": {"x": {"type": "random"}}}) for each in axes]
    (folder / "workload.jsonl").write_text("\n".join(lines))
    return folder


def test_a_definition_without_workloads_gets_extents_that_can_be_changed(tmp_path: Path) -> None:
    folder = definition(tmp_path)
    (folder / "workload.jsonl").unlink()
    found = read_problem(folder)
    assert constants(found.reference)["num_rows"].value == 64
    told = "there is no workload beside it: num_rows = 64 is assumed, --sizes changes axes"
    assert found.kept_out == (told,)
    assert found.cases == ()


def test_names_of_a_definition_that_the_made_reference_needs_are_changed(tmp_path: Path) -> None:
    drawn = "def get_inputs(axes, device):\n    return {'x': Model(axes['num_rows'])}\n"
    made = f"def Model(n):\n    return torch.ones(n, 4, 64)\n{drawn}"
    folder = definition(
        tmp_path,
        reference=f"{DEFINITION['reference']}\n{made}",
        custom_inputs_entrypoint="get_inputs",
    )
    namespace = names_in(read_problem(folder).reference)
    (x,) = namespace["get_inputs"]()
    assert x.shape == (32, 4, 64)
    assert namespace["Model"]()(x).shape == x.shape


def test_a_definition_s_own_function_gets_scalars_and_draws_only_its_own_inputs(
    tmp_path: Path,
) -> None:
    inputs = {**DEFINITION["inputs"], "y": {"shape": ["num_rows"], "dtype": "float32"}}
    inputs["scale"] = {"shape": None, "dtype": "float32"}
    code = (
        "import torch\n\ndef draw(given, device):\n"
        "    return {'y': torch.full((given['num_rows'],), given['scale'] + given['extra'])}\n"
        "def run(x, y, scale):\n    return x.sum((1, 2)) * y * scale\n"
    )
    folder = definition(tmp_path, inputs=inputs, reference=code, custom_inputs_entrypoint="draw")
    given = {"x": {"type": "random"}, "y": {"type": "custom"}}
    given["scale"] = {"type": "scalar", "value": 2.0}
    workload = {"axes": {"num_rows": 16, "extra": 1}, "inputs": given}
    (folder / "workload.jsonl").write_text(json.dumps(workload))
    namespace = names_in(read_problem(folder).reference)
    x, y, scale = namespace["get_inputs"]()
    assert (x.shape, y.tolist(), scale) == ((16, 4, 64), [3.0] * 16, 2.0)


def test_variances_are_drawn_positive_and_probabilities_with_a_sum_of_one(tmp_path: Path) -> None:
    vector = {"shape": ["num_rows"], "dtype": "float32"}
    inputs = {**DEFINITION["inputs"], "x_var": vector, "probs": vector}
    code = "import torch\n\ndef run(x, x_var, probs):\n"
    code += "    return x * (probs / x_var.sqrt()).view(-1, 1, 1)\n"
    folder = definition(tmp_path, inputs=inputs, reference=code)
    x, variance, probs = names_in(read_problem(folder).reference)["get_inputs"]()
    assert ((x < 0).any(), (variance > 0).all()) == (True, True)
    assert (probs > 0).all()
    torch.testing.assert_close(probs.sum(), torch.tensor(1.0))


def test_matrices_of_weights_are_drawn_as_layers_are_initialised(tmp_path: Path) -> None:
    wide = {"shape": ["heads", "head_width"], "dtype": "float32"}
    inputs = {
        "x": DEFINITION["inputs"]["x"],
        "q_weight": wide,
        "token_weights": {"shape": ["num_rows", "heads"], "dtype": "float32"},
        "norm_weight": {"shape": ["head_width"], "dtype": "float32"},
        "conv_weight": {"shape": ["heads", "3", "5", "5"], "dtype": "bfloat16"},
    }
    axes = {
        "num_rows": {"type": "var"},
        "heads": {"type": "const", "value": 4},
        "head_width": {"type": "const", "value": 64},
    }
    code = "import torch\n\ndef run(x, q_weight, token_weights, norm_weight, conv_weight):\n"
    folder = definition(tmp_path, inputs=inputs, axes=axes, reference=f"{code}    return x\n")
    found = read_problem(folder)
    told = "weights are drawn divided by the root of their row's length: q_weight, conv_weight"
    assert told in found.kept_out
    namespace = names_in(found.reference)
    torch.manual_seed(3)
    _, q_weight, *vectors, conv_weight = namespace["get_inputs"]()
    assert float(q_weight.std()) * 8 == pytest.approx(1, abs=0.3)
    for each in vectors:
        assert float(each.std()) == pytest.approx(1, abs=0.4)
    assert conv_weight.dtype is torch.bfloat16
    assert float(conv_weight.std()) * 75**0.5 == pytest.approx(1, abs=0.3)


def test_numbers_of_a_definition_s_code_that_repeat_an_axis_are_that_axis(tmp_path: Path) -> None:
    axes = {
        "num_rows": {"type": "var"},
        "heads": {"type": "const", "value": 4},
        "head_width": {"type": "const", "value": 64},
        "twin": {"type": "const", "value": 32},
        "other": {"type": "const", "value": 32},
    }
    code = (
        "import torch\n\ndef run(x):\n    head_width = 64\n    TWO = 4; HEADS = 4\n"
        "    two = 32\n    again = 64\n    again = 64\n"
        "    return x.reshape(-1, HEADS, half(), 2) + head_width + again + two * TWO\n"
        "def half():\n    W = 64\n    return W // 2\n"
        "def part(head_width):\n    W = 64\n    return W\n"
        "def blocks():\n    H = 64\n    BLOCK = 64\n    return H // BLOCK\n"
    )
    found = read_problem(definition(tmp_path, axes=axes, reference=code))
    for line in ("    pass", "    TWO = 4; HEADS = heads", "    two = 32", "    W = head_width"):
        assert f"\n{line}\n" in found.reference
    assert found.reference.count("again = 64") == 2
    assert "def part(head_width):\n    W = 64\n" in found.reference
    assert "numbers in functions that repeat the value of an axis are that axis" in found.changed
    assert "    H = head_width\n    BLOCK = 64\n" in found.reference
    before = names_in(code)
    namespace = names_in(found.reference)
    x = torch.randn(3, 4, 64)
    assert torch.equal(namespace["run"](x), before["run"](x))
    namespace |= {"heads": 2, "head_width": 32}
    assert namespace["run"](torch.zeros(3, 2, 32)).shape == (3, 2, 16, 2)


def test_a_definition_s_inputs_are_passed_by_name(tmp_path: Path) -> None:
    inputs = {
        name: {"shape": ["num_rows"], "dtype": "float32"} for name in ("logits", "bias", "scale")
    }
    code = "import torch\n\ndef run(logits, scale, bias):\n    return logits * scale + bias\n"
    found = read_problem(definition(tmp_path, inputs=inputs, reference=code))
    names = names_in(found.reference)
    assert names["Model"]()(logits=2, bias=3, scale=5) == names["Model"]()(2, 3, 5) == 13


def test_a_definition_written_for_a_gpu_runs_on_the_cpu(tmp_path: Path) -> None:
    code = (
        "def run(x):\n    n = torch.ones(1, device='cuda:0')\n"
        "    assert f'cuda{1}' == 'cuda1'\n    return x.cuda() + n\n"
    )
    found = read_problem(definition(tmp_path, reference=f"import torch\n{code}"))
    assert "tensors are on the CPU, not on a GPU" in found.kept_out
    namespace = names_in(found.reference)
    (x,) = namespace["get_inputs"]()
    assert namespace["Model"]()(x).equal(x + 1)


@pytest.mark.parametrize("told", ["Decay matrix (negative values).", "A (negative log decay)"])
def test_values_that_are_said_to_be_negative_are_drawn_so(tmp_path: Path, told: str) -> None:
    spec = {"shape": ["num_rows", "width"], "dtype": "float32", "description": told}
    code = "def run(x):\n    return x.exp()\n"
    folder = definition(tmp_path, inputs={"x": spec}, reference=code)
    _, (drawn,) = ran(read_problem(folder).reference, 0)
    assert float(drawn.min()) < float(drawn.max()) <= 0


def test_inputs_in_8_bits_are_drawn_with_positive_scales() -> None:
    found = problem("flashinfer/definitions/gemm/fp8_gemm_n96_k64.json")
    assert "scales are drawn from 0.05 to 0.15: A_scale, B_scale" in found.kept_out
    _, (a, a_scale, b, _) = ran(found.reference, 0)
    assert [str(each.dtype)[6:] for each in (a, b)] == ["float8_e4m3fn", "float8_e5m2"]
    assert 0.5 < float(a.float().std()) < 1.5
    assert 0.05 <= float(a_scale.min()) < float(a_scale.max()) <= 0.15


def test_integers_that_no_workload_describes_are_refused(tmp_path: Path) -> None:
    folder = definition(tmp_path, inputs={"x": {"shape": ["num_rows"], "dtype": "int32"}})
    (folder / "workload.jsonl").unlink()
    with pytest.raises(BadTask, match=r"inputs\.x: has integers, and there is no workload"):
        read_problem(folder)


PAGED = SETS / "flashinfer/definitions/attention/paged_attention_h2.json"


@given(
    length=st.integers(2, 20),
    counts=st.lists(st.integers(0, 200), min_size=1, max_size=3),
    seed=st.integers(0, 99),
)
def test_offsets_cover_each_total_and_sequences_only_grow(
    length: int, counts: list[int], seed: int
) -> None:
    names: dict[str, Any] = {"random": random.Random(seed)}
    exec(index_inputs.HELPER, names)
    found = names["_offsets"](length, *counts)
    lengths = [[b - a for a, b in pairwise(offsets)] for offsets in found]
    assert [(offsets[0], offsets[-1]) for offsets in found] == [(0, count) for count in counts]
    assert all(
        len(offsets) == length and min(each) >= 0
        for offsets, each in zip(found, lengths, strict=True)
    )
    if counts[0] >= length - 1:
        assert min(lengths[0]) >= 1
    for (count, before), (after, later) in pairwise(zip(counts, lengths, strict=True)):
        assert after < count or all(a <= b for a, b in zip(before, later, strict=True))


def test_integers_that_point_into_other_inputs_are_drawn(tmp_path: Path) -> None:
    found = read_problem(PAGED)
    assert (
        "there is no workload beside it: batch_size = 8, total_q = 64, num_pages = 64, "
        "len_indptr = 9, num_kv_indices = 64, sm_scale = 0.25 is assumed, --sizes changes axes"
    ) in found.kept_out
    drawn = "qo_indptr, kv_indptr, kv_indices, kv_last_page_len"
    assert f"offsets and indices are drawn at random: {drawn}" in found.kept_out
    # The length of the offsets follows the batch.
    _, inputs = ran(found.reference.replace("batch_size = 8", "batch_size = 5"), 0)
    _, _, _, queries, keys, pages, last, scale = inputs
    assert (queries.tolist()[::5], keys.tolist()[::5], scale) == ([0, 64], [0, 64], 0.25)
    assert sorted(pages.tolist()) == list(range(64))
    assert set(last.tolist()) <= {1, 2, 3, 4}
    assert last.shape == (5,)
    # Without pages of several tokens there are more keys.
    path = tmp_path / "single" / PAGED.name
    path.parent.mkdir()
    path.write_text(PAGED.read_text().replace('"value": 4', '"value": 1'))
    known = constants(read_problem(path).reference)
    assert [known[name].value for name in ("total_q", "num_kv_indices")] == [64, 512]
    # Those that a workload has in a file are drawn too.
    path = tmp_path / PAGED.name
    shutil.copy(PAGED, path)
    axes = {"batch_size": 2, "total_q": 9, "num_pages": 40, "len_indptr": 3, "num_kv_indices": 30}
    stored = {n: {"type": "safetensors"} for n in ("kv_indptr", "kv_indices", "k_cache")}
    workload = {"axes": axes, "inputs": {**stored, "sm_scale": {"type": "scalar", "value": 0.5}}}
    path.with_suffix(".jsonl").write_text(json.dumps(workload))
    found = read_problem(path)
    _, inputs = ran(found.reference, 0)
    assert inputs[4].tolist()[::2] == [0, 30]
    assert inputs[7] == 0.5
    assert "stored inputs are drawn instead: k_cache" in found.kept_out


def test_indices_of_rows_may_be_padding(tmp_path: Path) -> None:
    shape = {"shape": ["num_rows", "width"], "dtype": "int64", "description": "-1 is padding"}
    inputs = {"x": {"shape": ["num_pages"], "dtype": "float32"}, "sparse_indices": shape}
    axes = DEFINITION["axes"] | {"num_pages": {"type": "const", "value": 7}}
    code = "import torch\ndef run(x, sparse_indices):\n    return x[sparse_indices]\n"
    folder = definition(tmp_path, axes=axes, inputs=inputs, reference=code)
    (folder / "workload.jsonl").unlink()
    _, (_, indices) = ran(read_problem(folder).reference, 0)
    assert set(indices.unique().tolist()) == set(range(-1, 7))


def test_the_first_workload_whose_tensors_have_elements_is_used(tmp_path: Path) -> None:
    folder = workloads(definition(tmp_path), {"num_rows": 0}, {"num_rows": 48})
    found = read_problem(folder)
    assert constants(found.reference)["num_rows"].value == 48
    assert found.kept_out == ("1 workloads with other scalars, or with an axis of 0",)
    with pytest.raises(BadTask, match=r"axes\.num_rows: is 0 in every workload"):
        read_problem(workloads(folder, {"num_rows": 0}))


def test_an_axis_that_no_tensor_has_may_be_zero(tmp_path: Path) -> None:
    offset = {"offset": {"type": "const", "value": 0}}
    folder = definition(tmp_path, axes=DEFINITION["axes"] | offset)
    assert constants(read_problem(folder).reference)["offset"].value == 0


def test_cases_that_differ_in_more_than_numbers_are_left_out_and_the_others_stay() -> None:
    listed = [{"n": 8, "how": "dense"}, {"n": 16, "how": "dense"}, {"n": 8, "how": "band"}]
    cases, told = numeric_cases(listed)
    assert [each.sizes for each in cases] == [{"n": 8}, {"n": 16}]
    assert told == ("1 of 3 cases differ from the first in more than numbers: they are left out",)


def test_a_configuration_that_states_nothing_is_no_case(tmp_path: Path) -> None:
    folder = shutil.copytree(SETS / "robust_kbench/scale_norm", tmp_path / "p")
    config = json.loads((folder / "config_forward.json").read_text())
    changed = {key: [{}] if key.startswith("multi") else given for key, given in config.items()}
    (folder / "config_forward.json").write_text(json.dumps(changed))
    found = read_problem(folder)
    assert (found.cases, found.kept_out) == ((), ())


def test_dimensions_are_matched_by_the_constructor_s_arguments_and_by_how_names_begin(
    tmp_path: Path,
) -> None:
    shutil.copytree(SETS / "ai_bench", tmp_path / "p")
    path = tmp_path / "p/40_Linear.yaml"
    text = path.read_text().replace("IN_FEATURES", "WIDE").replace("OUT_FEATURES", "FEATURES_OUT")
    path.write_text(text.replace("BATCH_SIZE", "BATCH").replace("GROUPS: 2", "GROUPS: [2, 2]"))
    found = read_problem(path)
    assert dict(found.sizes) == {"batch_size": 32, "in_features": 64, "out_features": 48}
    assert "GROUPS = [2, 2]: it is no number" in found.kept_out


def test_a_setting_below_one_is_taken_and_a_size_below_one_refused(tmp_path: Path) -> None:
    shutil.copytree(SETS / "ai_bench", tmp_path / "p")
    path, module = tmp_path / "p/40_Linear.yaml", tmp_path / "p/40_Linear.py"
    path.write_text(path.read_text().replace("GROUPS: 2", "SLOPE: 0.1"))
    module.write_text(module.read_text().replace("batch_size =", "slope = 0.01\nbatch_size ="))
    assert dict(read_problem(path).sizes)["slope"] == 0.1
    path.write_text(path.read_text().replace("BATCH_SIZE: 32", "BATCH_SIZE: 0"))
    with pytest.raises(BadTask, match="BATCH_SIZE: is 0, expected a number of at least 1"):
        read_problem(path)


TESTED = "from data_utils import fill\ndef f(x): return x\ndef test_f():\n    "
NOT_VARIED = """
    f(1, 2, 3)
    f(torch.tensor([0.0]), 0, 0)
    try:
        bad = torch.ones(1)
        f(bad, 9, 9)
    except IndexError:
        pass
"""
ONLY_TRITON = "import triton\n@triton.jit\ndef kernel(): ...\ndef test_kernel(): kernel()\n"
EXCHANGING = "import torch.distributed as dist\ndef solution(x):\n    dist.all_reduce(x)\n"

SUM = f"def f(x): return x{' + x' * 2000}\n"
DEEP = f"{TESTED}f(g(){' + 1' * 2000})\n"
DIGITS = f"size: 0x{'f' * 5000}\n"
BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.json", "{\n,", "a.json:2: not valid JSON: "),
        ("a.json", "[1]", "a.json:1: expected an object with named fields"),
        ("a.yaml", "a: [\nb", "a.yaml:2: not valid YAML: "),
        ("a.yaml", "[" * 1_000, "a.yaml:1: not valid YAML: RecursionError"),
        ("a.yaml", BOMB, "a.yaml:1: has more than 100000 values, aliases unfolded"),
        ("a.json", "[" * 20_000, "a.json:1: not valid JSON: nested too deeply"),
        ("a.yaml", "tests:\n  - {size: 1}\n", "has no reference.py, which GPU MODE's format needs"),
        ("a.yaml", "ci:\n  - dims: {A: 1}\n", "has the sizes of a.py, which is not beside it"),
        ("a.json", '{"python_code": 3}', "a.json:1: python_code: is of another type"),
        ("a.json", '{\n"python_code": "\\ud800"}', "a.json:2: python_code: is not UTF-8 text"),
        ("a.yaml", DIGITS, "a.yaml:1: size: has a number of too many digits"),
        ("a.py", SUM, "a.py:1: get_inputs: is missing"),
        ("a.py", DEEP, "a.py:1: has an expression that is nested too deeply"),
        ("a.py", ONLY_TRITON, "a.py:3: kernel: is a Triton kernel, and the file has no reference"),
        ("a.py", TESTED + "f(**torch.rand(2))\n", "a.py:4: f: is called with unpacked arguments"),
        ("a.py", TESTED + "f(1)\n", "a.py:4: f: is called without a tensor"),
        ("a.py", TESTED + "g(1)\n", "a.py:3: test_: calls no function of the file"),
        ("a.py", TESTED + "f(fill(2))\n", "a.py:1: fill: is imported from data_utils, which is no"),
        ("a.py", EXCHANGING, "a.py:3: torch.distributed: is used: the reference runs on several"),
        ("a.txt", "", "a.txt: is of no known format; there are: kernelbench, "),
        ("a.py", "def get_input_groups(:", "a.py:1: not valid Python"),
        (
            "a.py",
            "class Model:\n    def forward(self): ...\ndef get_input_groups():\n    'b.json'\n",
            "a.py:4: reads b.json, which is not beside it",
        ),
    ],
    ids=lambda text: text[:60],
)
def test_a_file_of_no_use_is_refused_in_one_line(
    tmp_path: Path, name: str, text: str, says: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    # GPU MODE's file has a fixed name.
    if text.startswith("tests"):
        path = path.rename(tmp_path / "task.yml")
    with pytest.raises(BadTask) as refused:
        read_problem(path)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_seeds_are_of_the_size_that_the_set_s_own_have(tmp_path: Path) -> None:
    changed = "return torch.tensor(seed)\n    gen = torch"
    folder = altered(tmp_path, "gpu_mode/grey_py/reference.py", "gen = torch", changed)
    namespace = names_in(read_problem(folder).reference)
    seeds = {int(namespace["get_inputs"]()[0]) for _ in range(20)}
    assert len(seeds) > 1
    assert max(seeds) < 100_000


def test_the_inputs_of_gpu_mode_are_sized_without_allocating_them(probe: SizeProbe) -> None:
    found = problem("gpu_mode/grey_py")
    huge = ReferenceChanges(constants={"SIZE": 200_000})
    task = Task(op="grey", reference=huge, target=Target(dsl="torch"))
    needs = probe.ask("estimate", task, found.reference, found.filename)
    assert needs is not None
    assert needs.inputs == 200_000**2 * 3 * 4


def test_comparisons_of_the_harness_are_left_out_and_its_contexts_do_nothing(
    tmp_path: Path,
) -> None:
    folder = shutil.copytree(SETS / "gpu_mode/vector_scale_py", tmp_path / "p")
    path = folder / "reference.py"
    text, mark, _ = path.read_text().partition("check_implementation = ")
    assert mark
    text = text.replace(
        "import make_match_reference,", "import verbose_allclose, DisableCuDNNTF32,"
    )
    text = text.replace("with DeterministicContext()", "with DisableCuDNNTF32()")
    own = "def check_implementation(data, output):\n    return verbose_allclose(output, data)\n"
    path.write_text(text + own)
    found = read_problem(folder)
    assert "verbose_allclose" not in found.reference
    namespace = names_in(found.reference)
    assert namespace["Model"]()(*namespace["get_inputs"]()).shape == (96, 96)


def test_a_check_of_the_problem_s_own_is_taken_over() -> None:
    found = problem("gpu_mode/svd_py")
    assert found.check == "reference.py:check"
    names, inputs = ran(found.reference, 0)
    u, s, vh = names["Model"]()(*inputs)
    assert names["check"](inputs, [-u, s, -vh]) == (True, "U diag(S) Vh is not A")
    assert not names["check"](inputs, [-u, s, vh])[0]


def test_functions_with_several_right_results_are_remarked_on_unless_a_check_judges_them() -> None:
    text = "import torch\ndef f(a):\n    return torch.linalg.eigh(a)[1]\n"
    assert "eigh in line 3 of the reference has several" in remarks_on(text, checked=False)[0]
    assert not remarks_on(text, checked=True)


def test_the_licence_of_the_origin_is_noted(tmp_path: Path) -> None:
    path = shutil.copy(SETS / "kernelbench/4_softmax.py", tmp_path / "p.py")
    assert "- Licence: none found beside the origin" in readme(read_problem(path), [])
    (tmp_path / "LICENSE").write_text("\nMIT License\n\nCopyright\n")
    assert f"- Licence: MIT License (`{tmp_path}/LICENSE`)" in readme(read_problem(path), [])
    path.write_text("# SPDX-License-Identifier: BSD-3-Clause\n" + path.read_text())
    told = readme(read_problem(path), [])
    assert "- Licence: SPDX-License-Identifier: BSD-3-Clause (line 1 of the origin)" in told


def test_a_function_is_called_as_its_test_calls_it_where_inputs_are_drawn(tmp_path: Path) -> None:
    found = problem("tritonbench/scaled_tanh_add.py")
    assert "scaled_tanh_add(input, other, 0.5, dim=1)" in found.reference
    # What the inputs need, of the first pass of each loop, and nothing else of the test.
    drawn = found.reference.partition("def get_inputs():\n")[2].partition("\n\n")[0]
    assert [line.strip().partition(" ")[0] for line in drawn.splitlines()] == [
        *("mode", "rows,", "x", "x.mul_(2.0)", "factor", "y", "return")
    ]
    assert "sys" not in found.reference.replace("import sys", "")
    path = tmp_path / "twice.py"
    twice = TESTED.replace("fill", "rand_int") + "f(torch.ones(2))\n    f(torch.rand(4))\n"
    path.write_text(twice.replace("def test_f", "from twice import f\ndef test_f"))
    reference = read_problem(path).reference
    assert ("return [torch.rand(4)]" in reference, "twice" in reference) == (True, False)


def test_constants_of_a_test_are_varied_and_its_seed_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "of_constants.py"
    head = "import torch\ndef f(x, at, flags): return x[at] * flags\ndef test_f():\n"
    given = ("[0.0, -4.0, 8.0]", "[2, 0, 2]", "[True, False, True]")
    test = f"    f({', '.join(f'torch.tensor({each})' for each in given)})\n"
    path.write_text(head + test + NOT_VARIED)
    found = read_problem(path)
    assert any(line.startswith("the test calls it with constants") for line in found.changed)
    made = names_in(found.reference)
    draws = [made["get_inputs"]() for _ in range(20)]
    for x, at, flags in draws:
        low, zero, high = sorted(x.tolist())
        assert (-8 <= low <= -2, zero, 4 <= high <= 16) == (True, 0.0, True)
        assert ({*at.tolist()} <= {0, 1, 2}, flags.dtype) == (True, torch.bool)
    assert all(len({tuple(draw[i].tolist()) for draw in draws}) > 1 for i in range(3))
    path.write_text(f"{head}    torch.manual_seed(1)\n    f(torch.rand(4), 0, 1)\n")
    assert "manual_seed" not in read_problem(path).reference


def test_the_call_with_floats_is_taken_with_the_last_of_each_name(tmp_path: Path) -> None:
    path = tmp_path / "calls.py"
    calls = ("[1.0, -2.0]", "[[0.5, 2.0]]", "[3, 4]")
    lines = [f"    x = torch.tensor({each})\n    f(x)\n" for each in calls]
    test = "".join(lines) + "    x = torch.zeros(3, 3)\n    f(x)\n"
    head = "import torch\ndef f(x, normal_size=1, training=True): return x.sign()\ndef test_f():\n"
    path.write_text(head + test)
    reference = read_problem(path).reference
    assert "def get_inputs():\n    x = torch.tensor([[0.5, 2.0]])\n    return" in reference
    path.write_text(f"{head}    f(torch.ones(2), normal_size=2)\n")
    assert "_varied([torch.ones(2)])" in read_problem(path).reference  # not drawn by `normal`
    path.write_text(f"{head}    f(torch.rand(2), training=False)\n    f(torch.rand(3))\n")
    assert "torch.rand(2)" in read_problem(path).reference


def test_constants_stay_valid_where_they_are_varied(tmp_path: Path) -> None:
    path = tmp_path / "solve.py"
    given = ("[[4.0, 3.9], [3.9, 4.0]]", "[0, 1, 3]", "[1, 2, 0]", "[0.5, 1.0, 2.0]")
    body = "return torch.linalg.cholesky(a), offsets.diff(), order, bounds"
    call = f"f({', '.join(f'torch.tensor({each})' for each in given)})"
    path.write_text(
        f"import torch\ndef f(a, offsets, order, bounds): {body}\ndef test_f():\n    {call}\n"
    )
    made = names_in(read_problem(path).reference)
    draws = [made["Model"]()(*made["get_inputs"]()) for _ in range(20)]  # raises unless definite
    for _, lengths, order, bounds in draws:
        assert (lengths.tolist(), sorted(order.tolist())) == ([1, 2], [0, 1, 2])
        assert bounds.tolist() == sorted(bounds.tolist())
    for varies in (0, 2, 3):
        assert len({tuple(draw[varies].flatten().tolist()) for draw in draws}) > 1


def test_a_tested_function_is_read_in_time_that_grows_with_its_file(tmp_path: Path) -> None:
    def calls(statements: int) -> int:
        path, count = tmp_path / f"p{statements}.py", 0
        path.write_text("n = 1 + 2\n" * statements + TESTED + "f(torch.rand(4))\n")

        def counted(*_: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(counted)
        try:
            read_problem(path)
        finally:
            sys.setprofile(None)
        return count

    assert calls(400) < 3 * calls(200)


def test_no_file_outside_a_problem_s_folder_is_read(tmp_path: Path) -> None:
    arena = shutil.copytree(SETS / "agent_kernel_arena/clipped_mean", tmp_path / "arena")
    inside = arena / "pytorch_code_module"
    outside = inside.rename(tmp_path / inside.name)
    config, module = arena / "config.yaml", next(outside.glob("*.py"))
    text = config.read_text()
    for named in (str(module), f"../pytorch_code_module/{module.name}", f"in/{module.name}"):
        config.write_text(text.replace(f"pytorch_code_module/{module.name}", named))
        with pytest.raises(BadTask, match="has no module of PyTorch"):
            read_problem(arena)
    for link, target in ((arena / "model.py", module), (inside, outside)):
        link.symlink_to(target)
        with pytest.raises(BadTask, match="has no module of PyTorch"):
            read_problem(arena)
    deck = shutil.copytree(SETS / "decks/03_row_gate", tmp_path / "deck")
    (deck / "reference.py").rename(tmp_path / "other.py")
    (deck / "reference.py").symlink_to(tmp_path / "other.py")
    with pytest.raises(BadTask, match=r"has no reference\.py of its own"):
        read_problem(deck)


def test_a_truth_value_in_the_shapes_of_a_deck_is_no_size(tmp_path: Path) -> None:
    deck = altered(tmp_path, f"{DECK}shapes.py", '"scale": 2', '"scale": True')
    assert problem(DECK).tolerance == 0.02
    with (deck / "reference.py").open("a") as file:
        file.write("scale = 1\n")
    found = read_problem(deck / "problem.yaml")
    assert dict(found.sizes) == {"rows": 24, "width": 160}
    assert "scale of shapes.py: reference.py has no such number" in found.kept_out


def test_a_module_of_any_name_is_the_model_if_no_other_contains_it(tmp_path: Path) -> None:
    found = problem("agent_kernel_arena/clipped_mean")
    assert "Model = ClippedMean" in found.reference
    assert found.changed == (
        "get_inputs() seeds no generator: inputs are drawn anew at every call",
        "Model is ClippedMean, the file's only module that is no part of another",
        "get_inputs() draws the last of the groups of inputs that it yields",
    )
    folder = shutil.copytree(SETS / "agent_kernel_arena/clipped_mean", tmp_path / "task")
    module = folder / "pytorch_code_module/py_7_clipped_mean.py"
    module.write_text(module.read_text().replace("self.clip = Clip()", "pass"))
    with pytest.raises(BadTask, match="modules that are no part of another are Clip, ClippedMean"):
        read_problem(folder)
    shutil.rmtree(module.parent)
    with pytest.raises(BadTask, match=r"config\.yaml:9: task_type: is torch2hip: it has no module"):
        read_problem(folder / "config.yaml")


@pytest.mark.parametrize(
    "body",
    [
        "    for a in (4, 32):\n        for b in (2, 64):\n            yield [torch.ones(a, b)]",
        "    yield [torch.ones(4, 64)]\n    yield [torch.ones(32, 64)]",
        "    yield from ([torch.ones(a, 64)] for a in (4, 32))",
        "    def rows():\n        yield 32\n    return [torch.ones(*rows(), 64)]",
        "    a = 2\n    for _ in range(4):\n        a *= 2\n        yield [torch.ones(a, 64)]",
    ],
)
def test_the_last_group_of_inputs_is_drawn_wherever_it_is_yielded(
    tmp_path: Path, body: str
) -> None:
    folder = shutil.copytree(SETS / "agent_kernel_arena/clipped_mean", tmp_path / "task")
    module = folder / "pytorch_code_module/py_7_clipped_mean.py"
    head, _, tail = module.read_text().partition("    torch.manual_seed(3)\n")
    module.write_text(f"{head}{body}\n\n\n{tail[tail.index('def get_init_inputs') :]}")
    _, inputs = ran(read_problem(folder).reference, 0)
    assert [each.shape for each in inputs] == [(32, 64)]


def altered(tmp_path: Path, name: str, old: str, new: str) -> Path:
    """Return a copy of the folder of a file of the sets, in which the file has another text."""
    folder = shutil.copytree((SETS / name).parent, tmp_path / "p")
    path = folder / Path(name).name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return folder


DECK, GREY = "decks/03_row_gate/", "gpu_mode/grey_py/reference.py"


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        (DECK + "shapes.py", '"rows": 24', '"rows": range(2)', "shapes.py:6: SHAPES: expected a n"),
        (DECK + "shapes.py", "SHAPES: list", "SIZES: list", "shapes.py:1: SHAPES: is missing"),
        (DECK + "shapes.py", "[\n", "[[\n", "shapes.py:5: not valid Python"),
        (DECK + "shapes.py", '"rows": 24', '"rows": 1e400', "shapes.py:6: SHAPES: expected a numb"),
        (DECK + "problem.yaml", "0.02", "wide", "problem.yaml:5: tolerance: is wide, expected a f"),
        (DECK + "problem.yaml", "0.02", ".inf", "problem.yaml:5: tolerance: is inf, expected a fi"),
        (DECK + "problem.yaml", "0.02", "1" + "0" * 400, "problem.yaml:5: tolerance: is 100000000"),
        (DECK + "reference.py", "def get_inputs", "def inputs", "reference.py:1: get_inputs: is m"),
        (GREY, "import make_match", "import set_seed, make", "py:1: set_seed: is imported from u"),
    ],
)
def test_a_problem_with_a_fault_is_refused_with_its_line(
    tmp_path: Path, name: str, old: str, new: str, says: str
) -> None:
    with pytest.raises(BadTask) as refused:
        read_problem(altered(tmp_path, name, old, new))
    assert says in str(refused.value)


def test_the_benchmark_finds_each_problem_of_a_folder_once() -> None:
    found = [str(path.relative_to(SETS)) for path in problems_in(SETS)]
    whole = {name + ("/validation" if name.endswith("ScaledAdd") else "") for name in FOUND}
    assert whole <= {*found}
    files = {str(path.relative_to(SETS)) for path in (SETS / "kernelbench").glob("*.py")}
    assert {*found} == whole | files
    assert len(found) == len({*found})
