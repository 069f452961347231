"""A task for a device that is not here: each command tells in one line what is missing.

The line ends with what works instead, which is true: `test_targets.py` does it.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from akg_tui import resources
from akg_tui.cli import main
from akg_tui.core.phases import Mode
from akg_tui.dsl.adapters import DSLS
from akg_tui.engine.run_service import create_run
from akg_tui.evaluate.targets import TARGETS
from akg_tui.resources import sample
from akg_tui.store.task_folder import load_task
from tests.evaluate.ascend_records import NPU_SMI_A2

NO_DEVICE = {
    "cuda": 'backend = "cuda" needs an NVIDIA GPU, and this machine has none',
    "ascend": 'backend = "ascend" needs an Ascend NPU, and this machine has none',
}
pytestmark = [
    pytest.mark.skipif(
        any(Path("/dev", name).exists() for name in ("nvidia0", "davinci0")),
        reason="there is a device",
    ),
    pytest.mark.parametrize("backend", sorted(NO_DEVICE)),
]
Made = Callable[..., Path]


@pytest.fixture
def made(backend: str, tmp_path: Path) -> Made:
    """Return a copy of a sample, for the device."""

    def copied(name: str = "causal_attention") -> Path:
        folder = shutil.copytree(sample(name), tmp_path / "task")
        toml = folder / "task.toml"
        toml.write_text(toml.read_text().replace('backend = "cpu"', f'backend = "{backend}"'))
        assert load_task(folder).task.target.backend == backend
        return folder

    return copied


@pytest.fixture
def refused(backend: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return what runs a command, and returns its one line on stderr. Its exit code must be 2."""

    def told(*words: object) -> str:
        capsys.readouterr()
        assert main([str(word) for word in words]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1, err
        assert NO_DEVICE[backend] in err
        return err

    return told


INSTEAD = 'backend = "cpu" times kernels in dsl = "torch" here\n'


def test_eval_and_tune_refuse(made: Made, refused: Callable[..., str]) -> None:
    folder = made()
    assert refused("eval", folder).endswith(INSTEAD)
    assert refused("tune", folder, "--headless").endswith(INSTEAD)
    assert not (folder / "runs").exists()


def test_a_task_in_triton_can_be_verified_and_compiled(
    made: Made, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made("softmax_triton")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert refused("eval", folder).endswith("not installed: pip install 'akg-tui[triton]'\n")
    monkeypatch.undo()
    if not DSLS["triton"].lacking("cpu"):
        assert refused("eval", folder).endswith(
            'backend = "cpu" verifies kernels in dsl = "triton" here, and '
            "`akg-tui eval --compile-report` compiles them\n"
        )


def test_a_demo_of_a_sample_for_the_device_refuses(
    made: Made, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made()
    monkeypatch.setattr(resources, "sample_kernels", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    assert refused("demo", "task", "--headless").endswith(INSTEAD)
    assert [each.name for each in tmp_path.iterdir()] == ["task"]


def test_a_run_from_another_machine_is_not_resumed(made: Made, refused: Callable[..., str]) -> None:
    folder = load_task(made())
    run = create_run(folder, folder.task, Mode.AUTO)
    run.close()
    assert refused("resume", run.path, "--headless").endswith(INSTEAD)


def test_a_machine_is_not_proved(refused: Callable[..., str], backend: str, tmp_path: Path) -> None:
    out = tmp_path / "proof"
    told = refused("bench", "hardware", "--target", backend, "--out", out)
    assert told.endswith("`python -m benchmarks.lab.device.hardware` runs on a test device\n")
    assert not out.exists()


def test_a_suite_tells_it_of_each_task(
    made: Made, backend: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["suite", str(made()), "--out", str(tmp_path / "suite")]
    assert main(words) == 2
    assert NO_DEVICE[backend] in capsys.readouterr().out


def test_new_makes_the_task_and_tells_that_it_is_for_another_machine(
    backend: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = sample("causal_attention")
    files = ("--reference", home / "reference.py", "--kernel", home / "kernel.py")
    words = ("new", tmp_path / "t", "--backend", backend, "--dsl", "torch", *files)
    assert main([str(word) for word in words]) == 0
    assert load_task(tmp_path / "t").task.target.backend == backend
    told = capsys.readouterr().err
    assert f"not here: {NO_DEVICE[backend]}" in told
    assert told.endswith(INSTEAD)


def test_the_doctor_tells_it_without_alarm(
    backend: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from akg_tui.cli import machine_checks
    from akg_tui.evaluate.targets import ascend

    (found,) = [each for each in machine_checks.check_devices() if each.name == backend]
    assert found.health == "ok"
    assert found.found.startswith(f"not here: {NO_DEVICE[backend]}")
    parts = "(NPU missing, torch_npu missing, CANN missing, triton-ascend missing)"
    assert found.found.endswith(parts) == (backend == "ascend")
    monkeypatch.setattr(type(TARGETS[backend]), "lacking", lambda self: "")
    monkeypatch.setattr(ascend, "npu_smi_says", lambda: NPU_SMI_A2)
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "1")
    (found,) = [each for each in machine_checks.check_devices() if each.name == backend]
    assert found.health == ("warn" if backend == "ascend" else "ok")
