"""What every target does, and the message when a target is missing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import get_args

import pytest

from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.task import Backend, Dsl, Target, Task
from akg_tui.evaluate import Judge
from akg_tui.evaluate.dsls import DSLS
from akg_tui.evaluate.targets import TARGETS, adapters, cuda
from akg_tui.evaluate.targets.cuda import Cuda
from tests.evaluate.kernels import PLAIN, REFERENCE
from tests.lab.fake_nvml import FakeNvml


def test_every_word_of_task_toml_has_its_adapter() -> None:
    assert set(TARGETS) == set(get_args(Backend))
    assert set(DSLS) == set(get_args(Dsl))
    assert all(name == target.name for name, target in TARGETS.items())
    assert all(name == dsl.name for name, dsl in DSLS.items())


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_a_target_keeps_secrets_out_and_names_only_what_is_there(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    target = TARGETS[name]
    environment = target.environment(3)
    assert environment["OMP_NUM_THREADS"] == "3"
    assert "secret" not in environment.values()
    assert all(Path(path).exists() for path in target.devices())
    assert all(Path(path).is_absolute() for path in target.readable())


def test_the_cpu_is_described_and_bounded_as_before() -> None:
    cpu = TARGETS["cpu"]
    described = cpu.fingerprint("2.0", 4)
    assert described["torch"] == "2.0"
    assert described["threads"] == "4"
    assert (cpu.lacking(), cpu.devices(), cpu.readable()) == ("", (), ())
    assert cpu.bounds_address_space


def test_a_machine_without_a_gpu_is_told_so_in_one_line(tmp_path: Path) -> None:
    why = Cuda(tmp_path).lacking()
    assert "needs an NVIDIA GPU, and this machine has none" in why
    assert "\n" not in why


def test_a_gpu_is_found_by_its_device_files_and_needs_a_pytorch_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("nvidia0", "nvidia11", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    gpu = Cuda(tmp_path)
    names = [Path(path).name for path in gpu.devices()]
    assert names == ["nvidia0", "nvidia11", "nvidiactl", "nvidia-uvm"]
    monkeypatch.setattr(cuda, "torch_is_for_cpu", lambda: True)
    assert "needs a PyTorch for CUDA" in gpu.lacking()
    monkeypatch.setattr(cuda, "torch_is_for_cpu", lambda: False)
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda _: None)
    assert "needs Triton" in gpu.lacking()


def test_the_fingerprint_of_a_gpu_is_what_nvml_tells_or_why_it_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    described = Cuda().fingerprint("2.0", 1)
    assert described["nvml"] == "nvidia-ml-py is not installed: pip install 'akg-tui[cuda]'"
    assert described["cpu"]
    assert Cuda().monitor() is None
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    described = Cuda().fingerprint("2.0", 1)
    assert "nvml" not in described
    assert described["gpu uuid"] == "GPU-0000"
    assert Cuda().monitor() is not None


async def test_a_judge_without_its_target_says_so_and_starts_nothing(tmp_path: Path) -> None:
    task = Task(op="x", target=Target(backend="cuda", dsl="torch"))
    async with Judge(task, REFERENCE, tmp_path) as judge:
        found = await judge.evaluate(PLAIN)
        assert judge.pid is None
    assert found.outcome is Outcome.ERROR
    assert found.failure is FailureKind.TOOLCHAIN
    assert found.message == adapters.lacking(task) != ""
