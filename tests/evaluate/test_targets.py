"""What every target does, and the message when a target is missing."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import get_args

import pytest

from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.task import Backend, Dsl, Target, Task
from akg_tui.dsl.adapters import DSLS
from akg_tui.evaluate import Judge
from akg_tui.evaluate.targets import TARGETS, adapters, ascend, cpu, cuda
from akg_tui.evaluate.targets.ascend import Ascend, Npu, read_driver, read_npus
from akg_tui.evaluate.targets.cuda import Cuda
from tests.evaluate.ascend_records import NPU_SMI_A2, NPU_SMI_A3
from tests.evaluate.fake_nvml import FakeNvml
from tests.evaluate.kernels import PLAIN, REFERENCE


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


@pytest.mark.parametrize(
    ("device", "quota", "drawing", "judging"),
    [("", 0, 2, 1), ("cuda", 0, 16, 14), ("cuda", 3.5, 3, 1), ("cuda", 0.5, 1, 1)],
)
def test_beside_a_device_the_judge_uses_the_cpus_that_a_call_leaves(
    monkeypatch: pytest.MonkeyPatch, device: str, quota: float, drawing: int, judging: int
) -> None:
    monkeypatch.setattr(cpu, "processors", lambda: list(range(16)))
    monkeypatch.setattr(cpu, "_quota", lambda: quota)
    threads = 2
    assert cpu.reference_threads(device, threads) == drawing
    assert cpu.judge_threads(device, threads) == judging


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


def test_each_part_that_an_npu_needs_is_told_when_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The devices are files, and the versions are made: nothing of Ascend is here."""
    npu = Ascend(tmp_path)
    installed = {"torch": "2.13.0+cpu", "torch_npu": ""}
    triton = False
    monkeypatch.setattr(ascend, "_version", lambda package: installed[package])
    monkeypatch.setattr(ascend, "triton_is_for_ascend", lambda: triton)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{tmp_path}")
    told = [npu.lacking()]
    (tmp_path / "davinci0").touch()
    (tmp_path / "davinci_manager").touch()
    told.append(npu.lacking())
    for name in ("devmm_svm", "hisi_hdc"):
        (tmp_path / name).touch()
    told.append(npu.lacking())
    installed["torch_npu"] = "2.12.0.post1"
    told.append(npu.lacking())
    installed["torch_npu"] = "2.13.0.post2"
    told.append(npu.lacking())
    (tmp_path / "libhccl.so").touch()
    told.append(npu.lacking())
    triton = True
    assert npu.lacking() == ""
    assert all(why.startswith('backend = "ascend" needs ') and "\n" not in why for why in told)
    for why, part in zip(
        told,
        (
            f"an Ascend NPU, and this machine has none ({tmp_path}/davinci0 is missing)",
            f"{tmp_path}/devmm_svm is missing",
            "torch_npu, which is not installed: pip install torch-npu==2.13.0",
            "a torch_npu for PyTorch 2.13.0, and 2.12.0.post1 is installed",
            "CANN, whose libhccl.so is on no path of LD_LIBRARY_PATH: source /usr/local/Ascend",
            "triton-ascend, and it is not what is installed as triton here",
        ),
        strict=True,
    ):
        assert part in why
    names = [Path(path).name for path in npu.devices()]
    assert names == ["davinci0", "davinci_manager", "devmm_svm", "hisi_hdc"]


def test_a_triton_for_ascend_is_known_by_its_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not ascend.triton_is_for_ascend()
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    (tmp_path / "triton/backends/ascend").mkdir(parents=True)
    (tmp_path / "triton/__init__.py").write_text("raise ImportError('it was loaded')")
    monkeypatch.syspath_prepend(tmp_path)
    # Another test of this process may have loaded the real one.
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    assert ascend.triton_is_for_ascend()


def test_a_kernel_gets_one_npu_and_the_paths_of_cann(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "5,6")
    npu = Ascend()
    found = npu.environment(1)
    assert found["ASCEND_RT_VISIBLE_DEVICES"] == "5"
    assert [npu.device_name(at) for at in range(3)] == ["5", "6", ""]
    assert found["ASCEND_HOME_PATH"] == str(tmp_path)
    assert found["PYTHONPATH"].split(":")[1:] == [
        f"{tmp_path}/python/site-packages", f"{tmp_path}/opp/built-in/op_impl/ai_core/tbe",
    ]  # fmt: skip
    assert str(tmp_path) in npu.readable()
    monkeypatch.delenv("ASCEND_RT_VISIBLE_DEVICES")
    monkeypatch.delenv("ASCEND_HOME_PATH")
    assert npu.environment(1)["ASCEND_RT_VISIBLE_DEVICES"] == "0"
    assert [each.device_name(1) for each in (npu, TARGETS["cuda"], TARGETS["cpu"])] == [
        "1",
        "1",
        "",
    ]
    assert TARGETS["cpu"].environment(1)["TORCH_DEVICE_BACKEND_AUTOLOAD"] == "0"


def test_the_table_of_npu_smi_is_read_with_one_and_with_two_chips_an_npu() -> None:
    assert read_driver(NPU_SMI_A2) == "24.1.0"
    assert read_npus(NPU_SMI_A2) == [Npu("0", "910B3", "OK"), Npu("1", "910B3", "Alarm")]
    assert read_npus(NPU_SMI_A3) == 2 * [Npu("0", "Ascend910", "OK")]
    assert (read_driver(""), read_npus("dcmi model initialized failed")) == ("", [])


def test_an_npu_is_described_with_its_health(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / f"{platform.machine()}-linux"
    folder.mkdir()
    (folder / "ascend_toolkit_install.info").write_text(
        "package_name=Ascend-cann-toolkit\nversion=8.3.RC1\n"
    )
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    monkeypatch.setattr(ascend, "npu_smi_says", lambda: NPU_SMI_A2)
    monkeypatch.setattr(ascend, "_version", lambda package: "2.13.0")
    facts = Ascend().device_facts()
    assert facts == {
        "npu": "Ascend910B3",
        "npu health": "OK",
        "driver": "24.1.0",
        "cann": "8.3.RC1",
        "torch_npu": "2.13.0",
    }
    assert Ascend().fingerprint("2.13.0", 2).items() >= facts.items()
    assert Ascend().device_fault(facts) == ""
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "1")
    assert "Alarm" in Ascend().device_fault(Ascend().device_facts())


@pytest.mark.parametrize("backend", ["cuda", "ascend"])
async def test_a_judge_without_its_target_says_so_and_starts_nothing(
    backend: Backend, tmp_path: Path
) -> None:
    task = Task(op="x", target=Target(backend=backend, dsl="torch"))
    async with Judge(task, REFERENCE, tmp_path) as judge:
        found = await judge.evaluate(PLAIN)
        assert judge.pid is None
    assert found.outcome is Outcome.ERROR
    assert found.failure is FailureKind.TOOLCHAIN
    assert found.message == adapters.lacking(task) != ""
