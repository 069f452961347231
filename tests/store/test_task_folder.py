"""Task folders, good ones and every way in which one is bad."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from akg_tui.core.task import Task
from akg_tui.resources import sample_kernels, sample_names
from akg_tui.store.errors import BadTask, StoreError
from akg_tui.store.task_folder import load_task, write_task
from akg_tui.store.task_toml import parse_task
from akg_tui.store.user_files.reader import toml_line
from tests.store.scripted import KERNEL, REFERENCE, TOML, make_task


def test_a_task_is_read_with_its_exact_bytes(tmp_path: Path) -> None:
    make_task(tmp_path / "t")
    odd = b"\xef\xbb\xbf" + KERNEL.replace("\n", "\r\n").encode()
    (tmp_path / "t" / "kernel.py").write_bytes(odd)
    folder = load_task(tmp_path / "t")
    assert folder.kernel.text.encode() == odd
    assert folder.reference == REFERENCE
    assert folder.task.policy.max_rounds == 6
    assert folder.toml == TOML


@pytest.mark.parametrize("name", sample_names())
def test_the_bundled_samples_are_good_tasks(name: str) -> None:
    assert load_task(sample_kernels() / name).task.op == name


BAD_TOML = {
    "": (1, "op: is missing"),
    "op = 3\n": (1, "op: 3 is not allowed, expected string"),
    'op = "a b"\n': (1, "op: 'a b' is not allowed, expected string matching"),
    'op = "a\n': (1, "not valid TOML: unterminated string"),
    'op = "a"\n\n[target\n': (3, "not valid TOML"),
    'op = "a"\n[[cases]]\nname = "x"\n[[cases]]\nsizes = {}\n': (4, "cases.1.name: is missing"),
    'op = "a"\n[[cases]]\nname = "-x"\n': (3, "cases.0.name: '-x' is not allowed"),
    'op = "a"\n[[cases]]\nname = "x"\nweight = 0\n': (4, "cases.0.weight: 0 is not allowed"),
    'op = "a"\n[[cases]]\nname = "x"\n[[cases]]\nname = "x"\n': (1, "two cases are named 'x'"),
    'op = "a"\n[[cases]]\nname = "x"\nsizes = { N = 4 }\n': (
        4,
        "cases.0.sizes.N: is no constant of the reference, which has:",
    ),
    'op = "a"\n[target]\nbackend = "tpu"\n': (
        3,
        "target.backend: 'tpu' is unknown, expected one of: cpu",
    ),
    'op = "a"\ntarget.dsl = "rust"\n': (2, "target.dsl: 'rust' is unknown, expected one of: cpp"),
    'op = "a"\ntarget = { dsl = "rust" }\n': (2, "target.dsl: 'rust' is unknown"),
    'op = "a"\n\n[policy]\nmax_round = 3\n': (
        4,
        "policy.max_round: is not a known field, did you mean max_rounds?",
    ),
    'op = "a"\nzzz = 3\n': (
        2,
        "zzz: is not a known field, expected one of: op, baselines, metrics, files",
    ),
    'op = "a"\n[policy]\n# a note\nmax_rounds = 0\n': (
        4,
        "policy.max_rounds: 0 is not allowed, expected 1 or more",
    ),
    'op = "a"\n[policy]\nmax_rounds = "ten"\n': (
        3,
        "policy.max_rounds: 'ten' is not allowed, expected integer",
    ),
    'op = "a"\n[timing]\nbudget_s = inf\n': (3, "timing.budget_s: inf is not allowed"),
    'op = "a"\n[correctness]\ntolerance = nan\n': (3, "correctness.tolerance: nan is not allowed"),
    'op = "a"\n[correctness]\ntolerance = -1.0\n': (3, "correctness.tolerance: -1.0 is not"),
    'op = "a"\n[correctness]\nfree_inputs = "m"\n': (3, "correctness.free_inputs: 'm' is not"),
    'op = "a"\n[correctness.inputs]\nm = "triangle"\n': (
        3,
        "correctness.inputs.m: 'triangle' is unknown, expected one of: any, zeros and ones",
    ),
    'op = "a"\n[correctness.inputs]\nm = ["positive", 3]\n': (
        3,
        "correctness.inputs.m.1: 3 is unknown",
    ),
    'op = "a"\n[correctness]\nfree_inputs = [-1]\n': (3, "correctness.free_inputs.0: -1 is not"),
    'op = "a"\n[correctness]\nfree_inputs = ["m", "a b"]\n': (
        3,
        "correctness.free_inputs.1: 'a b' is not allowed",
    ),
    'op = "a"\n[policy]\nmax_rounds = 99999999999999999999\n': (3, "policy.max_rounds: too large"),
    'op = "a"\npolicy = 3\n': (2, "policy: 3 is not allowed, expected table"),
    'op = "a"\n[[policy]]\nmax_rounds = 1\n': (2, "policy: [{'max_rounds': 1}] is not allowed"),
    'op = "a"\n[files]\neditable = "../kernel.py"\n': (
        3,
        "files.editable: '../kernel.py' leaves the folder",
    ),
    'op = "a"\n[files]\nreference = "/etc/passwd"\n': (3, "files.reference: '/etc/passwd' leaves"),
    'op = "a"\n[files]\neditable = "reference.py"\n': (3, "files.editable: is the reference too"),
    'op = "a"\n[files]\neditable = "none.py"\n': (3, "files.editable: none.py is not a file"),
    f'op = "a"\n{".".join(["a"] * 20_000)} = 1\n': (2, "not valid TOML: a key has too many parts"),
    f'op = "a"\n[{".".join(["a"] * 20_000)}]\n': (2, "not valid TOML: a key has too many parts"),
    f'op = "a"\nx = {"[" * 20_000}\n': (1, "not valid TOML: nested too deeply"),
    f"op = 1{'0' * 5_000}\n": (1, "not valid TOML: a number has too many digits"),
    'op = "a"\n[timing]\nthreads = 100000\n': (3, "timing.threads: 100000 is not allowed"),
    'op = "a"\n[timing]\nbudget_s = 1e300\n': (3, "timing.budget_s: 1e+300 is not allowed"),
    'op = "a\\n"\n': (1, "op: 'a\\n' is not allowed"),
    'op = "\\u001b[31m"\n': (1, "op: '\\x1b[31m' is not allowed"),
}


def refused(folder: Path, name: str, data: bytes) -> str:
    """Why a task with this file is none, after the file's path."""
    make_task(folder)
    path = folder / name
    path.write_bytes(data)
    with pytest.raises(BadTask) as bad:
        load_task(folder)
    assert str(bad.value).isprintable()
    assert str(bad.value).startswith(f"{path}:")
    return str(bad.value).removeprefix(f"{path}:")


@pytest.mark.parametrize("toml", BAD_TOML)
def test_a_bad_task_file_is_told_by_line_and_field(tmp_path: Path, toml: str) -> None:
    line, told = BAD_TOML[toml]
    assert refused(tmp_path / "t", "task.toml", toml.encode()).startswith(f"{line}: {told}")


MODEL = "class Model:\n    def forward(self, x): return x\n"
INPUTS = "def get_inputs(): return []\n"
INIT = "def get_init_inputs(): return []\n"
BAD_REFERENCE = {
    "": "1: the file is empty",
    "def f(:\n": "1: not valid Python",
    "x = 1\ny = (\n": "2: not valid Python",
    "x = '\0'\n": "1: ",
    INPUTS + INIT: "1: Model: is missing",
    INPUTS + INIT + "\nclass Model:\n    pass\n": "4: Model: has no method forward",
    INPUTS + INIT + "class Model(nn.Module):\n    x = 1\n": "3: Model: has no method forward",
    INPUTS + INIT + "def Model(): pass\n": "3: Model: is a function",
    MODEL + INIT: "1: get_inputs: is missing",
    MODEL + INPUTS: "1: get_init_inputs: is missing",
    "(" * 1000 + ")" * 1000 + "\n": "1: ",
}


@pytest.mark.parametrize("source", BAD_REFERENCE)
def test_a_bad_reference_is_told_by_line(tmp_path: Path, source: str) -> None:
    found = refused(tmp_path / "t", "reference.py", source.encode())
    assert found.startswith(BAD_REFERENCE[source])


@pytest.mark.parametrize(
    "source",
    [
        MODEL + INPUTS + "def get_init_inputs(n=3, *rest, **more): return []\n",
        "class Base:\n    def forward(self): pass\nclass Model(Base): pass\n" + INPUTS + INIT,
        "from torch.nn import ReLU as Model\n" + INPUTS + INIT,
        "if True:\n    " + INPUTS + "    get_init_inputs = list\n" + MODEL,
    ],
)
def test_a_reference_may_be_written_in_other_ways(tmp_path: Path, source: str) -> None:
    make_task(tmp_path / "t")
    (tmp_path / "t" / "reference.py").write_text(source)
    assert load_task(tmp_path / "t").reference == source


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (b"", "1: the file is empty"),
        (b"import torch\nclass ModelNew\n", "2: not valid Python"),
        (b"class Model: pass\n", "1: ModelNew: is missing"),
        (b"x = 1\nclass ModelNew: '\xff'\n", "2: "),
    ],
)
def test_a_bad_kernel_is_told_by_line(tmp_path: Path, source: bytes, told: str) -> None:
    assert refused(tmp_path / "t", "kernel.py", source).startswith(told)


def test_a_folder_without_a_task_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(BadTask, match=r"akg-tui new DIR --reference"):
        load_task(tmp_path)
    with pytest.raises(BadTask, match="is not a folder"):
        load_task(tmp_path / "none")


def test_a_link_out_of_the_folder_and_a_pipe_are_refused(tmp_path: Path) -> None:
    make_task(tmp_path / "t")
    outside = tmp_path / "kernel.py"
    outside.write_text(KERNEL)
    kernel = tmp_path / "t" / "kernel.py"
    kernel.unlink()
    kernel.symlink_to(outside)
    with pytest.raises(BadTask, match="leads out of the folder"):
        load_task(tmp_path / "t")
    kernel.unlink()
    os.mkfifo(kernel)
    with pytest.raises(BadTask, match=r"files\.editable: kernel\.py is not a file"):
        load_task(tmp_path / "t")


def test_text_that_is_not_utf8_is_told_by_line(tmp_path: Path) -> None:
    found = refused(tmp_path / "t", "task.toml", b'op = "a"\n# \xff\n')
    assert found.startswith("2: is not UTF-8 text")


def test_lines_are_found_in_every_spelling() -> None:
    text = 'a = """\n[no]\nb = 1\n"""\n"c d" = 1\n[x . y]\nz.w = 2\n[[q]]\nr = 1\n[[q]]\n'
    text += "[x]\nlate = [\n1,\n]\n"
    lines = {
        ("a",): 1,
        ("c d",): 5,
        ("x",): 6,
        ("x", "y"): 6,
        ("x", "y", "z", "w"): 7,
        ("x", "y", "z", "missing"): 6,
        ("q",): 8,
        ("q", "0"): 8,
        ("q", "0", "r"): 9,
        ("q", "1", "r"): 10,
        ("x", "late"): 12,
        ("none",): 1,
    }
    assert {field: toml_line(text, field) for field in lines} == lines


@pytest.fixture
def sources(tmp_path: Path) -> tuple[Path, Path]:
    reference, kernel = tmp_path / "ref.py", tmp_path / "ker.py"
    reference.write_text(REFERENCE)
    kernel.write_text(KERNEL)
    return reference, kernel


def test_a_new_task_can_be_loaded_and_holds_copies(
    tmp_path: Path, sources: tuple[Path, Path]
) -> None:
    reference, kernel = sources
    made = write_task(
        tmp_path / "my task", reference=reference, kernel=kernel, dsl="torch", arch='zen"4 😀'
    )
    assert made == load_task(tmp_path / "my task")
    assert made.task.op == "my_task"
    assert made.task.target.dsl == "torch"
    assert made.task.target.arch == 'zen"4 😀'
    assert made.kernel.text == KERNEL
    assert Task(op="a").timing == made.task.timing


def test_an_existing_folder_with_files_is_not_touched(
    tmp_path: Path, sources: tuple[Path, Path]
) -> None:
    reference, kernel = sources
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").write_text("mine")
    with pytest.raises(BadTask, match="has files in it"):
        write_task(tmp_path / "full", reference=reference, kernel=kernel)
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["notes"]
    (tmp_path / "empty").mkdir()
    write_task(tmp_path / "empty", reference=reference, kernel=kernel)


@pytest.mark.parametrize(
    "change",
    [
        {"backend": "tpu"},
        {"dsl": "rust"},
        {"arch": "\x1b[31m"},
        {"reference": Path("none.py")},
        {"kernel": Path("/dev/zero")},
    ],
)
def test_a_bad_setting_makes_no_folder(
    tmp_path: Path, sources: tuple[Path, Path], change: dict[str, str]
) -> None:
    reference, kernel = sources
    settings = {"reference": reference, "kernel": kernel, **change}
    with pytest.raises(StoreError) as bad:
        write_task(tmp_path / "t", **settings)
    assert str(bad.value).isprintable()
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("", "1: metrics: is missing, expected def metrics(inputs, outputs, expected, kernel)"),
        ("class metrics: pass\n", "5: metrics: is no function"),
        ("def metrics(outputs, n): return {}\n", "5: metrics: takes n, expected only parameters"),
        ("def metrics(*a, **k): return {}\n", "5: metrics: takes a, k, expected only"),
    ],
)
def test_metrics_that_are_declared_need_a_function_of_the_reference(
    tmp_path: Path, function: str, told: str
) -> None:
    folder = make_task(tmp_path / "t").path
    toml = folder / "task.toml"
    toml.write_text('metrics = ["Mean R"]\n' + toml.read_text())
    (folder / "reference.py").write_text(MODEL + INPUTS + INIT + function)
    with pytest.raises(BadTask) as error:
        load_task(folder)
    assert str(error.value).startswith(f"{folder / 'reference.py'}:{told}")


def test_a_check_of_results_is_read_with_the_task_and_shown_to_the_agent(tmp_path: Path) -> None:
    folder = make_task(tmp_path / "t").path
    toml, reference = folder / "task.toml", folder / "reference.py"
    text = "def check(outputs, expected):\n    return False\n"
    (folder / "own.py").write_text(text)
    toml.write_text(toml.read_text() + '[correctness]\ncheck = "own.py:check"\n')
    found = load_task(folder)
    assert found.task.check_source == text
    assert dict(found.context)["own.py"] == text
    assert parse_task(toml, toml.read_text()).correctness.check == "own.py:check"
    reference.write_text(MODEL + INPUTS + INIT + text)
    toml.write_text(toml.read_text().replace("own.py:", "reference.py:"))
    found = load_task(folder)
    assert (found.task.check_source, found.context) == ("", ())


@pytest.mark.parametrize(
    ("stated", "text", "told"),
    [
        ('check = "check.py"', "", "correctness.check"),
        ('check = "../check.py:check"', "", "correctness.check"),
        ('check = "gone.py:check"', "", "correctness.check: gone.py is not a file in this folder"),
        ('check = "kernel.py:check"', "", "kernel.py has another purpose in this folder"),
        ('check = "own.py:check"', "def check(a):\n    pass\n", "own.py:1: check: takes a, "),
        ('check = "own.py:check"', "x = 1\n", "own.py:1: check: is missing, expected def check("),
        ('check = "own.py:check"\ntolerance = 1e-3', "", "so `tolerance` has no meaning beside it"),
    ],
)
def test_a_check_that_cannot_be_used_is_refused_with_its_place(
    tmp_path: Path, stated: str, text: str, told: str
) -> None:
    folder = make_task(tmp_path / "t").path
    (folder / "own.py").write_text(text)
    toml = folder / "task.toml"
    toml.write_text(f"{toml.read_text()}[correctness]\n{stated}\n")
    with pytest.raises(BadTask) as error:
        load_task(folder)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_the_text_of_a_check_is_no_setting(tmp_path: Path) -> None:
    toml = make_task(tmp_path / "t").path / "task.toml"
    with pytest.raises(BadTask, match="check_source: is no setting"):
        parse_task(toml, 'check_source = "x"\n' + toml.read_text())
