"""The bundled samples: their knobs, their task.toml, and seeds that are right."""

from __future__ import annotations

import ast
import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
import torch

from akg_tui import resources
from akg_tui.core.task import Task

NAMES = [
    "causal_attention",
    "cross_entropy",
    "depthwise_conv2d",
    "flash_attention_triton",
    "gelu_bias",
    "hybrid_attention_mask",
    "hybrid_attention_mask_triton",
    "int8_matmul",
    "layer_norm",
    "layer_norm_triton",
    "masked_cumsum",
    "matmul_triton",
    "rms_norm",
    "rms_norm_triton",
    "row_softmax",
    "softmax_triton",
    "top_k",
    "triu_matmul",
]
LEAST_KNOBS = {
    "cross_entropy": 4,
    "depthwise_conv2d": 4,
    "gelu_bias": 4,
    "softmax_triton": 3,
    "top_k": 4,
    "triu_matmul": 4,
}
KNOB = re.compile(r"^([A-Z][A-Z0-9_]*) = (.+?)  # tune: (\[.*\])$", re.M)

# Good combinations of each sample, and one that its README calls wrong where there is one.
GOOD: dict[str, dict[str, object]] = {
    "hybrid_attention_mask": {
        "FLAGS": "-O3 -march=native",
        "KEYS": "visible",
        "LOOPS": "lanes",
        "QUERIES": 16,
        "SUMS": 8,
        "EXP": "poly5",
    },
    "hybrid_attention_mask_triton": {
        "BLOCK_QUERIES": 16,
        "BLOCK_KEYS": 16,
        "ACCESS": "merged",
        "MASK_FROM": "triangle",
        "MASK_FOR": "edges",
    },
    "softmax_triton": {"BLOCK": 512, "ROWS_EACH": 4},
    "rms_norm_triton": {"BLOCK": 512, "ROWS_EACH": 4, "KEEP": True},
    "layer_norm_triton": {"BLOCK": 512, "ROWS_EACH": 4, "MOMENTS": "kept"},
    "matmul_triton": {"BLOCK_M": 64, "BLOCK_K": 64, "GROUP": 4, "MASK_DEPTH": "where needed"},
    "flash_attention_triton": {"BLOCK_KEYS": 16, "MASKED": "edges", "ORDER": "last"},
    "rms_norm": {
        "FLAGS": "-O3 -march=native -ffast-math",
        "TILE": 64,
        "UNROLL": 8,
        "SUM": "float",
        "SCALE": "multiply",
    },
    "row_softmax": {
        "FLAGS": "-O3 -march=native -ffast-math",
        "PASSES": "keep",
        "EXP": "poly5",
        "LANES": 16,
        "SCALE": "multiply",
    },
    "causal_attention": {"BLOCK": 64, "MASK": "square", "SCALE": "queries", "SOFTMAX": "library"},
    "cross_entropy": {"FLAGS": "-O3 -march=native -ffast-math", "EXP": "poly5", "LANES": 16},
    "depthwise_conv2d": {"FLAGS": "-O3 -march=native", "BORDER": "vectors", "WIDTH": 16, "ROWS": 7},
    "gelu_bias": {"FLAGS": "-O3 -march=native -ffast-math", "TANH": "sigmoid", "CUBE": "multiply"},
    "int8_matmul": {
        "FLAGS": "-O3 -march=native",
        "SCALE": "once",
        "LANES": 32,
        "CONVERT": "vector",
    },
    "layer_norm": {
        "FLAGS": "-O3 -march=native -ffast-math",
        "MOMENTS": "two_pass",
        "WIDTH": 8,
        "CHAINS": 2,
    },
    "masked_cumsum": {"FLAGS": "-O3 -march=native", "MASK": "bits", "WIDTH": 4},
    "top_k": {"FLAGS": "-O3 -march=native", "KEPT": "list", "SKIP": 8},
    "triu_matmul": {"FLAGS": "-O3 -march=native", "LOOPS": "tiles", "ROWS": 8, "COLUMNS": 32},
}
ALSO_GOOD: dict[str, dict[str, object]] = {
    "hybrid_attention_mask": {"LOOPS": "lanes", "QUERIES": 8, "SUMS": 4},
    "hybrid_attention_mask_triton": {
        "BLOCK_QUERIES": 64,
        "BLOCK_KEYS": 16,
        "HIDDEN": "finite",
        "MASK_FOR": "edges",
        "SKIP_GAP": False,
    },
    "softmax_triton": {"BLOCK": 64, "ROWS_EACH": 2, "WARPS": 1},
    "rms_norm_triton": {"BLOCK": 1024, "KEEP": True},
    "layer_norm_triton": {"BLOCK": 128, "ROWS_EACH": 4, "MOMENTS": "merged"},
    "matmul_triton": {"BLOCK_M": 32, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP": 8},
    "flash_attention_triton": {"BLOCK_QUERIES": 16, "BLOCK_KEYS": 64, "MASKED": "edges"},
    "rms_norm": {"SCALE": "divide", "TILE": 8, "UNROLL": 2},
    "row_softmax": {"PASSES": "online", "EXP": "poly6", "LANES": 4},
    "causal_attention": {"BLOCK": 128, "SOFTMAX": "divide_last", "HEADS": 1},
    "cross_entropy": {"PASSES": "online", "EXP": "libm32", "LANES": 4},
    "depthwise_conv2d": {"BORDER": "vectors", "WIDTH": 8, "ROWS": 4},
    "gelu_bias": {"TANH": "libm32", "BLOCK": 256},
    "int8_matmul": {"SCALE": "once", "LANES": 8, "TOKENS": 4},
    "layer_norm": {"MOMENTS": "one_pass", "WIDTH": 4, "CHAINS": 4, "SCALE": "multiply"},
    "masked_cumsum": {"MASK": "multiply", "ROWS": 4, "WIDTH": 8},
    "top_k": {"KEPT": "heap", "SKIP": 16, "START": "parts"},
    "triu_matmul": {"LOOPS": "tiles", "ROWS": 6, "COLUMNS": 48},
}
WRONG: dict[str, dict[str, object]] = {
    "hybrid_attention_mask": {"EXP": "poly3"},
    "rms_norm": {"SUM": "bfloat16"},
    "row_softmax": {"EXP": "poly3"},
}


@pytest.fixture(scope="module", autouse=True)
def _one_cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AKG_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def _module(text: str, name: str, folder: Path) -> ModuleType:
    path = folder / f"{name}.py"
    path.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location(f"{folder.name}_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _text(name: str, file: str) -> str:
    return (resources.sample_kernels() / name / file).read_text("utf-8")


def _with_knobs(text: str, values: dict[str, object]) -> str:
    for knob, value in values.items():
        text, count = re.subn(
            rf"^{knob} = .+?(?=  # tune:)", f"{knob} = {value!r}", text, flags=re.M
        )
        assert count == 1, knob
    return text


def _worst_error(y: torch.Tensor, exact: torch.Tensor) -> float:
    rms = exact.square().mean().sqrt()
    return float(((y.double() - exact).abs() / (exact.abs() + rms)).max())


def _error_over_bar(name: str, values: dict[str, object], folder: Path) -> float:
    """Return the kernel's error over what the judge allows: at most 1 is right."""
    reference = _module(_text(name, "reference.py"), "reference", folder)
    kernel = _module(_with_knobs(_text(name, "kernel.py"), values), "kernel", folder)
    torch.manual_seed(20240229)
    inputs = reference.get_inputs()
    model = reference.Model(*reference.get_init_inputs())
    exact = model(*(x.double() if x.is_floating_point() else x for x in inputs))
    y = model(*inputs)
    # Of half precision the floor is 4 roundings.
    bar = max(8 * _worst_error(y, exact), 2e-6 if y.dtype == torch.float32 else 2e-3)
    y = kernel.ModelNew(*reference.get_init_inputs())(*inputs)
    assert y.shape == exact.shape
    assert y.dtype == model(*inputs).dtype
    return _worst_error(y, exact) / bar


def _needs_its_dsl(name: str) -> None:
    if name.endswith("_triton") and importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is for Linux")


def test_a_checkout_has_every_sample() -> None:
    assert resources.sample_names() == NAMES
    assert resources.sample("row_softmax") == resources.sample_kernels() / "row_softmax"


def test_an_unknown_sample_is_told_with_those_that_exist() -> None:
    with pytest.raises(resources.ResourceMissing, match=r"'nope'.*row_softmax"):
        resources.sample("nope")


def test_a_missing_folder_is_told_with_the_places_looked_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "akg_tui")
    with pytest.raises(resources.ResourceMissing, match=r"themes/.*_data.*install akg-tui again"):
        resources.themes()


def test_an_installed_wheel_finds_its_own_folders_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "akg_tui" / "_data" / "themes"
    inside.mkdir(parents=True)
    (tmp_path / "themes").mkdir()
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "akg_tui")
    assert resources.themes() == inside


@pytest.mark.parametrize("name", NAMES)
def test_task_toml_is_a_task_and_its_files_exist(name: str) -> None:
    task = msgspec.convert(tomllib.loads(_text(name, "task.toml")), Task)
    assert task.op == name
    assert task.timing.threads == 1
    assert (task.target.dsl == "triton") is name.endswith("_triton")
    for file in (task.files.reference, task.files.editable, "README.md"):
        assert (resources.sample(name) / file).is_file()


@pytest.mark.parametrize("name", NAMES)
def test_every_knob_is_a_literal_list_that_holds_the_current_value(name: str) -> None:
    text = _text(name, "kernel.py")
    knobs = KNOB.findall(text)
    assert len(knobs) == text.count("# tune:") >= LEAST_KNOBS.get(name, 5)
    for _, value, choices in knobs:
        options = ast.literal_eval(choices)
        assert ast.literal_eval(value) in options
        assert len(set(options)) == len(options) >= 2
        assert all(isinstance(option, str | int | float | bool) for option in options)


@pytest.mark.parametrize("name", NAMES)
def test_every_knob_is_used_and_is_in_the_readme(name: str) -> None:
    text, readme = _text(name, "kernel.py"), _text(name, "README.md")
    for knob, _, _ in KNOB.findall(text):
        assert len(re.findall(rf"\b{knob}\b", text)) >= 2, knob
        assert f"`{knob}`" in readme, knob


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("values", ["seed", "good", "also good"])
def test_the_seed_and_good_combinations_are_right(name: str, values: str, tmp_path: Path) -> None:
    _needs_its_dsl(name)
    chosen = {"seed": {}, "good": GOOD[name], "also good": ALSO_GOOD[name]}[values]
    assert _error_over_bar(name, chosen, tmp_path) < 0.7


@pytest.mark.parametrize("name", WRONG)
def test_the_combination_called_wrong_is_clearly_wrong(name: str, tmp_path: Path) -> None:
    assert _error_over_bar(name, WRONG[name], tmp_path) > 5
