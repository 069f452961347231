"""First kernels: those of docs/kernels.md, and those that `new --reference` makes and verifies."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from akg_tui.cli import main
from akg_tui.core.kernel.knobs import find_knobs
from akg_tui.engine import task_making
from akg_tui.store.run_list import read_state
from akg_tui.store.task_folder import load_task
from tests.problems.conftest import module_of

PAGE = Path(__file__).parents[2] / "docs" / "kernels.md"

REFERENCE = module_of("x", "return torch.softmax(x, -1) * x.abs()", "[torch.randn(32, 40)]")


def page_files() -> dict[str, str]:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return {re.match(r"# (\w+\.py)", block)[1]: block for block in blocks}  # type: ignore[index]


def test_the_kernel_of_the_page_is_correct_and_the_sweep_makes_it_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    files = page_files()
    assert list(files) == ["reference.py", "kernel.py"]
    for name, text in files.items():
        Path(name).write_text(text)
    commands = re.findall(r"^akg-tui ((?:new|eval|tune) .*?)(?: *#.*)?$", PAGE.read_text(), re.M)
    new, check, tune = (shlex.split(command) for command in commands)
    assert main(new) == 0
    assert capsys.readouterr().out.splitlines() == [
        "made mytask: a kernel in cpp with 2 knobs; check it with: akg-tui eval mytask",
        "tune it with: akg-tui tune mytask",
    ]
    assert check == ["eval", "mytask"]
    toml = Path("mytask/task.toml")
    text = toml.read_text().replace("budget_s = 20.0", "budget_s = 0.5")
    text = text.replace('baselines = ["eager", "compile"]', "baselines = []")
    toml.write_text(f"{text}\n[reference.constants]\nROWS = 64\nCOLUMNS = 256\n")
    main([*tune, "--headless", "--json", "--max-rounds", "1"])
    (run,) = (tmp_path / "mytask" / "runs").iterdir()
    report = json.loads((run / "report.json").read_text())
    assert report["about"]["verdicts"].get("FAIL", 0) == 0
    assert report["about"]["rounds"] == 1
    assert read_state(run).best is not None, "the kernel of the page was found correct"


NESTED = """import torch
from typing import NamedTuple


class Pair(NamedTuple):
    mean: object
    peak: object


class Model(torch.nn.Module):
    def forward(self, parts, table, *, scale):
        y = torch.softmax(torch.cat(parts) * table["of all"].mean, -1) * scale
        return {"pair": Pair(y.mean(0), y.amax(0)), "none": None, "{": [y]}


def get_inputs():
    pair = Pair(torch.randn(24), torch.zeros(1))
    table = {"of all": pair}
    return {"parts": [torch.randn(40, 24), torch.randn(9, 24)], "table": table, "scale": 2.0}


def get_init_inputs():
    return []
"""


@pytest.mark.usefixtures("shared_generator")
def test_a_reference_alone_gets_a_kernel_in_cpp_with_knobs_that_is_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its arguments and results are nested, and stay so."""
    path, folder = tmp_path / "reference.py", tmp_path / "my task"
    path.write_text(NESTED)
    free = ["--free-inputs", "table[0].peak"]
    assert main(["new", str(folder), "--reference", str(path), *free]) == 0
    *_, verified, made, tune = capsys.readouterr().out.splitlines()
    task = load_task(folder)
    knobs = find_knobs(task.kernel.text.splitlines())
    assert len(knobs) >= 5
    assert verified == "the first kernel is correct"
    told = f"made '{folder}': a kernel in cpp with {len(knobs)} knobs"
    assert made == f"{told}; check it with: akg-tui eval '{folder}'"
    assert tune == f"tune it with: akg-tui tune '{folder}'"
    assert task.task.op == "my_task"
    assert task.task.target.dsl == "cpp"
    assert "compile_cpp" in task.kernel.text
    assert "def forward(self, *, parts, table, scale):" in task.kernel.text
    assert task.reference == NESTED


@pytest.mark.usefixtures("shared_generator")
def test_a_generated_kernel_that_is_wrong_is_told_and_replaced_by_the_reference_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Without C++, whose build takes most of the time.
    wrong = REFERENCE.replace("Model(", "ModelNew(").replace("return ", "return -", 1)
    monkeypatch.setattr(task_making, "kernel_of", lambda *_, **__: wrong)
    path, folder = tmp_path / "reference.py", tmp_path / "task"
    path.write_text(REFERENCE)
    assert main(["new", str(folder), "--seed", "inductor", "--from", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    (wrong,) = (line for line in lines if "wrong here" in line)
    assert wrong.startswith(
        "the first kernel is the reference's own code: what torch.compile generates is wrong here: "
        "wrong values: "
    )
    assert lines[-3:] == [
        "the first kernel is correct",
        f"made {folder}: a kernel in torch with no knobs; check it with: akg-tui eval {folder}",
        f"tune it with a model: akg-tui tune {folder} --agent claude (docs/models.md)",
    ]
    assert "compile_cpp" not in (folder / "kernel.py").read_text()
    assert f"- {wrong}" in (folder / "README.md").read_text()


@pytest.mark.usefixtures("shared_generator")
@pytest.mark.parametrize("stated", [[], ["--dsl", "cpp"]])
def test_where_nothing_can_be_generated_a_line_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stated: list[str]
) -> None:
    path, folder = tmp_path / "reference.py", tmp_path / "task"
    path.write_text(REFERENCE.replace("return", "x = x if x.sum() > 0 else -x\n        return", 1))
    code = main(["new", str(folder), "--reference", str(path), *stated])
    told = capsys.readouterr()
    why = "reference.py:6: torch.compile can't take it as one graph: "
    if stated:
        assert code == 2
        assert f"--dsl cpp: {why}" in told.err
        assert told.err.rstrip().endswith(
            "state --kernel FILE, or --seed write and let a model write it"
        )
        assert not folder.exists()
    else:
        assert code == 0
        assert f"own code: torch.compile generates none: {why}" in told.out
        assert "the first kernel is correct" in told.out
        assert load_task(folder).task.target.dsl == "torch"


def test_a_kernel_for_a_device_that_is_not_here_is_said_not_to_be_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, folder = tmp_path / "reference.py", tmp_path / "task"
    path.write_text(REFERENCE)
    assert main(["new", str(folder), "--reference", str(path), "--backend", "ascend"]) == 0
    out = capsys.readouterr().out
    assert "the first kernel is the reference's own code: torch.compile generates none: " in out
    assert "the first kernel is not verified here: " in out
