"""`akg-tui export`: the best kernel for others, imported and compared where there is no akg_tui."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

from akg_tui import dsl
from akg_tui.cli import main
from akg_tui.cli.report_and_usage import FORMS as OFFERED
from akg_tui.core import effects as fx
from akg_tui.core.task import Task
from akg_tui.report.export_forms import FORMS, Exported
from akg_tui.report.self_contained import helpers, self_contained
from akg_tui.store.errors import BadTask
from akg_tui.store.task_folder import load_task, write_files
from tests.store.scripted import create_run, perform

REFERENCE = """\
import torch

ROWS = 9


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x):
        return x * self.weight


def get_inputs():
    return [torch.randn(ROWS, 6)]


def get_init_inputs():
    return [len("123456")]
"""
KERNEL = '''\
from ctypes import c_int64

import torch

from akg_tui.dsl import (
    compile_cpp,
    pointer as address,
)

platform = "a name that the helpers have too"
SOURCE = r"""
#include <cstdint>
extern "C" void scale(const float* x, const float* w, float* y, int64_t rows, int64_t width) {
    for (int64_t i = 0; i < rows * width; ++i) y[i] = x[i] * w[i % width];
}
"""


class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(width))
        self.scale = compile_cpp(SOURCE).scale

    def forward(self, x):
        y = torch.empty_like(x)
        sizes = map(c_int64, x.shape)
        self.scale(*map(address, (x.contiguous(), self.weight.detach(), y)), *sizes)
        return y
'''
CHECK = """\
from reference import ROWS


def check(inputs, outputs, expected):
    y, r = outputs[0], expected[0]
    return len(y) == ROWS and abs(y - r).max().item() < 1e-5, "too far"
"""
BARE = """
import importlib.util, runpy, sys

assert importlib.util.find_spec("akg_tui") is None
HOME = sys.argv.pop(1)
for path in sys.argv[1:]:
    known = set(sys.modules), list(sys.path)
    try:
        runpy.run_path(path, run_name="__main__")
    except AssertionError as error:
        print("wrong:", error)
    for name in set(sys.modules) - known[0]:
        place = getattr(sys.modules[name], "__file__", None) or ""
        if place.startswith(HOME) and "libraries" not in place:
            del sys.modules[name]
    sys.path[:] = known[1]
"""


def made_run(folder: Path, kernel: dict[str, str], toml: str = "", **files: str) -> str:
    """Return a run whose best kernel is its seed."""
    folder.mkdir()
    names = list(kernel)
    listed = f"[files]\neditable = {json.dumps(names)}\n{toml}"
    texts = {**kernel, "reference.py": REFERENCE, "task.toml": f'op = "scale-rows"\n{listed}'}
    for name, text in {**texts, **files}.items():
        (folder / name).write_text(text)
    run = create_run(load_task(folder))
    while run.state.best is None:
        effect = fx.next_effect(run.state, run.state.last_at)
        assert effect is not None
        perform(run, effect)
    run.close()
    return str(run.path)


def ran_bare(folder: Path, tests: list[Path]) -> list[str]:
    """Run tests of exports in a process that has torch, but no akg_tui."""
    libraries = folder / "libraries"
    libraries.mkdir()
    for each in Path(torch.__file__).parents[1].iterdir():
        if "akg_tui" not in each.name:
            (libraries / each.name).symlink_to(each)
    cache = {"PYTHONPATH": str(libraries), "AKG_CACHE_DIR": str(folder / "cache")}
    environment = os.environ | cache
    # Without `site` no .pth file is read, by which a checkout is found.
    words = [sys.executable, "-S", "-c", BARE, *map(str, [folder, *tests])]
    found = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.splitlines()


def test_every_form_is_imported_and_compared_without_akg_tui(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tuple(FORMS) == OFFERED
    run = made_run(tmp_path / "task", {"kernel.py": KERNEL}, "[reference.constants]\nROWS = 7\n")
    tests = []
    for form in FORMS:
        assert main(["export", run, "--to", form, "--out", str(tmp_path / form), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert {str(p.relative_to(tmp_path / form)) for p in (tmp_path / form).rglob("*.*")} == set(
            told["files"]
        )
        tests.append(tmp_path / form / told["test"])
    texts = [p.read_text() for form in FORMS for p in (tmp_path / form).rglob("*.*")]
    assert not [text for text in texts if "akg_tui" in text or "ROWS = 9" in text]
    build = tomllib.loads((tmp_path / "hf-kernels/build.toml").read_text())
    assert build["general"]["name"] == "scale-rows"
    assert build["general"]["backends"] == ["cpu"]
    assert "torch-noarch" in build
    assert (tmp_path / "gpu-mode/submission.py").read_text().startswith("#!POPCORN leaderboard ")
    # A wrong kernel, an own check that refuses one, and a kernel in several files.
    wrong = KERNEL.replace("x[i] * w", "x[i] + w")
    _, _, after = KERNEL.partition('r"""')
    source, _, rest = after.partition('"""')
    head = "from ctypes import c_int64\nimport torch\nimport source\nfrom source import NONE\n"
    head += "from akg_tui.dsl import compile_cpp, pointer as address\n"
    helper = {"kernel.py": head + rest.replace("cpp(SOURCE)", "cpp(source.CODE + NONE)")}
    source = f'CODE = r"""{source}"""\nNONE = ""\n'
    checked = '[correctness]\ncheck = "own.py:check"\n'
    others = {
        "wrong": (made_run(tmp_path / "w", {"kernel.py": wrong}), "kernelbench"),
        "refused": (
            made_run(tmp_path / "c", {"kernel.py": wrong}, checked, **{"own.py": CHECK}),
            "gpu-mode",
        ),
        "right": (
            made_run(tmp_path / "s", {**helper, "source.py": source}, checked, **{"own.py": CHECK}),
            "module",
        ),
    }
    for name, (path, form) in others.items():
        assert main(["export", path, "--to", form, "--out", str(tmp_path / name), "--json"]) == 0
        tests.append(tmp_path / name / json.loads(capsys.readouterr().out)["test"])
    right = "the kernel computes what the reference computes"
    said = ran_bare(tmp_path, tests)
    assert said[:4] == [right] * 4
    assert said[4].startswith("wrong: max error ")
    assert said[5:] == ["wrong: too far", right]


PLAIN = """\
import collections, dataclasses
import torch

@dataclasses.dataclass
class Made:
    y: torch.Tensor

Pair = collections.namedtuple("Pair", "a b")


class {name}(torch.nn.Module):
    def __init__(self, *given, **named):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(6))

    def forward(self, x):
        {body}
"""
INPUTS = """

def get_inputs():
    return {drawn}


def get_init_inputs():
    return {{"width": 6}}
"""
HELD = "[[torch.randn(9, 6)]]"
LIST, NAMED = "[torch.randn(9, 6)]", '{"x": [torch.randn(9, 6), None, 3]}'
RECORD = "[Pair(torch.randn(9, 6), Made(torch.randn(6)))]"
OUT = "return torch.mul(x, self.weight, out=torch.empty(9, 6))"
NOT_FINITE = "return torch.stack([x.abs().log() / 0, x - torch.inf, x * torch.nan, x])"
GRADIENT = "return torch.autograd.grad((x * self.weight).sum(), self.weight)"
LOSS = "return (x * x).sum()"
INSIDE = """\
from __future__ import annotations
import os, test_it; from  test_it import (
    zero as none,  # é
)

def factor(): import test_it as it, test_it; return test_it.one + it.zero + none * len(os.name)
"""
RIGHT, WRONG = "the kernel computes what the reference computes", "wrong: max error "
CASES = [
    ("gradients", LIST, LOSS, "return 2 * x", RIGHT),
    ("loss", LIST, LOSS, LOSS, "wrong: [(torch.Size([]), "),
    ("named", NAMED, "return Made(x[0] * x[2])", "return {'y': x[0] * x[2]}", RIGHT),
    ("record", NAMED, "return Made(x[0] * 2)", "return Made(x[0] * 7)", WRONG),
    ("order", LIST, "return {'a': x, 'b': -x}", "return {'b': -x, 'a': x}", RIGHT),
    ("nothing", LIST, "return None", "return None", "wrong: the reference returns no tensors"),
    ("written", RECORD, "x.b.y.mul_(2)", "x.b.y.add_(x.b.y)", RIGHT),
    ("grown", HELD, "x.append(x[0] * 2)", "x += [x[0] + x[0]]", RIGHT),
    (
        "cloned",
        HELD,
        "x.append(x[0] * 2)",
        "x[:] = [x[0].clone(), x[0] * 2]",
        "wrong: the kernel le",
    ),
    ("short", HELD, "x.append(x[0] * 2)", "return x[0]", "wrong: the kernel leaves other"),
    ("replaced", HELD, "x[0] = x[0] * 2", "x[0].mul_(2)", RIGHT),
    (
        "spoilt",
        RECORD,
        "return x.a + x.b.y",
        "return x.a.add_(x.b.y)",
        "wrong: the kernel changes ",
    ),
    ("odd", LIST, NOT_FINITE, NOT_FINITE, RIGHT),
    ("nan", LIST, NOT_FINITE, NOT_FINITE.replace("- torch.inf", "/ 0"), "wrong: NaN or "),
    ("empty", "[torch.ones(0, 3)]", "return x + 1", "return x - 1", RIGHT),
    ("out", LIST, OUT, OUT, RIGHT),
    ("autograd", LIST, GRADIENT, "return x.sum(0)", RIGHT),
    ("compare", LIST, "x.mul_(2)", "x.mul_(3)", "wrong: not 2 of 1"),
]
JUDGE = (
    "def compare(expected, outputs):\n    assert torch.equal(*outputs, *expected), 'not 2 of 1'\n"
)


def test_the_test_of_an_export_compares_as_the_judge_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tests: list[Path] = []

    def export(name: str, run: str, form: str, folder: str = "") -> Path:
        out = tmp_path / (folder or f"{name}-out")
        assert main(["export", run, "--to", form, "--out", str(out), "--json"]) == 0
        tests.append(out / json.loads(capsys.readouterr().out)["test"])
        return tests[-1]

    for at, (name, drawn, wanted, found, _) in enumerate(CASES):
        reference = PLAIN.format(name="Model", body=wanted) + INPUTS.format(drawn=drawn)
        kernel = PLAIN.format(name="ModelNew", body=found)
        toml = '[reference]\ngradients = ["x"]\n' if name in ("gradients", "loss") else ""
        files = {"reference.py": reference}
        if name == "compare":
            toml = '[correctness]\ncheck = "own.py:compare"\n'
            files["own.py"] = "import torch\n" + JUDGE
        run = made_run(tmp_path / name, {"kernel.py": kernel}, toml, **files)
        export(name, run, ("kernelbench", "gpu-mode")[at % 2])
    # A run with an evil name, files that import one another, and a reference called kernel.py.
    body = "return x * factor()"
    kernel = INSIDE + PLAIN.format(name="ModelNew", body=body)
    reference = PLAIN.format(name="Model", body="return x") + INPUTS.format(drawn=LIST)
    two = {"mine.py": kernel, "test_it.py": "zero, one = 0, 1\n"}
    run = made_run(tmp_path / "two", two, **{"reference.py": reference})
    evil = Path(run).with_name('a""" # coding: x\n\x1b[31mred\udcff')
    Path(run).rename(evil)
    for form in ("module", "hf-kernels"):
        assert export("two", str(evil), form, form).name == "test_scale_rows.py"
    assert main(["export", str(evil), "--to", "module", "--out", f"{tmp_path}/\x1b[1m"]) == 0
    assert "\x1b" not in capsys.readouterr().out
    dsl = 'reference = "kernel.py"\n[target]\nbackend = "cpu"\ndsl = "triton"\n'
    mine = {"mine.py": PLAIN.format(name="ModelNew", body="return x")}
    run = made_run(tmp_path / "other", mine, dsl, **{"kernel.py": reference})
    text = export("other", run, "kernelbench").read_text()
    assert '\nDEVICE = "cuda" if torch.cuda.is_available() else "cpu"\n' in text
    said = ran_bare(tmp_path, tests)
    expected = [told for *_, told in CASES] + [RIGHT] * 3
    for line, begins in zip(said, expected, strict=True):
        assert line.startswith(begins)


def test_a_project_of_hugging_face_has_a_name_in_lower_case() -> None:
    given = Exported(Task(op="GEMM_relu"), {"kernel.py": KERNEL}, REFERENCE, "told")
    files = FORMS["hf-kernels"](given).files
    assert tomllib.loads(files["build.toml"])["general"]["name"] == "gemm-relu"
    assert "torch-ext/gemm_relu/__init__.py" in files


def test_names_that_a_form_cannot_take_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases: list[tuple[dict[str, str], str, str, str]] = [
        ({"my-kernel.py": KERNEL}, "", "module", "my-kernel.py: can't be exported: Python can't"),
        ({"k.py": KERNEL, "types.py": ""}, "", "module", "types.py: can't be exported: Python"),
        ({"k.py": KERNEL, "__init__.py": ""}, "", "module", "__init__.py: is the name of two"),
        ({"k.py": KERNEL}, "kernel.py", "kernelbench", "kernel.py: is the name of two files"),
        ({"k.py": KERNEL}, "a-b.py", "kernelbench", "a-b.py: can't be exported: Python can't"),
        ({"k.py": KERNEL}, "", "gpu-mode", "reference.py:1: has `import *`, which this form"),
        ({"k.py": f"{KERNEL}custom_kernel = 1"}, "", "gpu-mode", "k.py: custom_kernel: has this"),
    ]
    for at, (files, check, form, told) in enumerate(cases):
        more = {"reference.py": f"from math import *\n{REFERENCE}"} if "import *" in told else {}
        more |= {check: CHECK} if check else {}
        toml = f'[correctness]\ncheck = "{check}:check"\n' if check else ""
        run = made_run(tmp_path / str(at), files, toml, **more)
        assert main(["export", run, "--to", form, "--out", str(tmp_path / "out")]) == 2
        assert told in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


def test_files_that_cannot_all_be_written_leave_nothing(tmp_path: Path) -> None:
    files = {"a/b/c": "1", "a/d": "2", "a/d/e": "3"}
    (tmp_path / "old").mkdir()
    for folder in (tmp_path / "old", tmp_path / "new" / "deep"):
        with pytest.raises(BadTask, match="cannot be written"):
            write_files(folder, files)
    assert [*tmp_path.iterdir()] == [tmp_path / "old"]
    assert not [*(tmp_path / "old").iterdir()]


def test_what_cannot_be_exported_is_one_line_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two = {"kernel.py": KERNEL, "more.py": "x = 1\n"}
    run = made_run(tmp_path / "task", two)
    out = tmp_path / "out"
    assert main(["export", run, "--to", "gpu-mode", "--out", str(out)]) == 2
    assert "has 2 files, and this form takes one: --to module" in capsys.readouterr().err
    assert not out.exists()
    out.mkdir()
    (out / "mine").write_text("kept")
    assert main(["export", run, "--to", "module", "--out", str(out)]) == 2
    assert "has files in it" in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == ["mine"]
    folder = load_task(tmp_path / "task")
    unmeasured = create_run(folder, name="20260102-000000-new")
    unmeasured.close()
    assert main(["export", str(unmeasured.path), "--to", "module"]) == 2
    assert "has no correct kernel to export" in capsys.readouterr().err


def test_a_kernel_that_imports_nothing_of_akg_tui_stays_as_it_is() -> None:
    text = "import triton\n\n# akg_tui.dsl is not needed\nclass ModelNew: ...\n"
    assert self_contained(Path("kernel.py"), text) == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import torch\nimport akg_tui.dsl\n", "kernel.py:2: "),
        ("def f():\n    from akg_tui.dsl import pointer\n", "kernel.py:2: "),
        ("from akg_tui.dsl import nothing\n", "kernel.py:1: nothing: is not of akg_tui.dsl"),
        ("from akg_tui.core import task\n", "kernel.py:1: "),
        ("x = 1; from akg_tui.dsl import pointer\n", "kernel.py:1: has an import of akg_tui and"),
    ],
)
def test_other_imports_of_akg_tui_are_refused_with_their_line(text: str, told: str) -> None:
    with pytest.raises(BadTask) as error:
        self_contained(Path("kernel.py"), text)
    assert str(error.value).startswith(told)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", dsl.__all__)
def test_each_function_for_kernels_works_alone_under_names_of_its_own(name: str) -> None:
    text = helpers({"wanted": name})
    bound: dict[str, object] = {}
    exec(compile(text, "alone", "exec"), bound)
    assert callable(bound["wanted"])
    assert {each for each in bound if not each.startswith("_")} == {"wanted"}
    read = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    local = {node.arg for node in ast.walk(ast.parse(text)) if isinstance(node, ast.arg)}
    assert not local & bound.keys()
    assert {each for each in read if each.startswith("_akg_")} <= bound.keys() | {"_akg_nvcc"}
