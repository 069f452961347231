"""What every target keeps to, whatever it stands for; and how a missing one is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
import torch

from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.task import Backend, Dsl, Target, Task
from akg_tui.evaluate import Judge, adapters
from akg_tui.evaluate.dsls import DSLS
from akg_tui.evaluate.targets import TARGETS, Device
from akg_tui.evaluate.targets.cpu import Host
from akg_tui.evaluate.targets.cuda import QUERY, Cuda, CudaDevice, read_query
from tests.evaluate.fake_device import FakeCudaDevice
from tests.evaluate.kernels import PLAIN, REFERENCE

Handing = tuple[Device, Callable[[Callable[[], object]], object]]


def _host() -> Handing:
    return Host(), lambda work: work()


def _fake() -> Handing:
    fake = FakeCudaDevice()
    return fake, fake.launch


def _real() -> Handing:
    if not torch.cuda.is_available():
        pytest.skip("no GPU here")
    return CudaDevice(), lambda work: work()


@pytest.fixture(params=[_host, _fake, _real], ids=["cpu", "fake cuda", "cuda"])
def handing(request: pytest.FixtureRequest) -> Handing:
    """A device, and how it is handed work that need not be done when the call returns."""
    return request.param()  # type: ignore[no-any-return]


def _placed(device: Device, value: torch.Tensor) -> torch.Tensor:
    placed = device.place(value)
    assert isinstance(placed, torch.Tensor)
    return placed


def test_what_is_placed_has_the_same_values_on_the_device(handing: Handing) -> None:
    device, _ = handing
    x = torch.arange(12.0).view(3, 4)
    placed = _placed(device, x)
    assert placed.shape == x.shape
    assert placed.dtype == x.dtype
    assert torch.equal(placed.cpu(), x)


@pytest.mark.parametrize("value", [3, 2.5, "sum", None, (1, 2)])
def test_what_is_no_tensor_is_passed_as_it_is(handing: Handing, value: object) -> None:
    device, _ = handing
    assert device.place(value) is value


def test_work_is_done_when_the_device_was_waited_for(handing: Handing) -> None:
    device, hand_over = handing
    x = _placed(device, torch.ones(1000))
    hand_over(lambda: x.mul_(2))
    hand_over(lambda: x.add_(1))
    device.synchronise()
    assert torch.equal(x.cpu(), torch.full((1000,), 3.0))
    device.synchronise()
    assert torch.equal(x.cpu(), torch.full((1000,), 3.0))


def test_a_flush_changes_no_value_and_loses_no_work(handing: Handing) -> None:
    device, hand_over = handing
    x = _placed(device, torch.ones(1000))
    hand_over(lambda: x.mul_(2))
    for _ in range(3):
        device.flush_caches()
    device.synchronise()
    assert torch.equal(x.cpu(), torch.full((1000,), 2.0))


def test_the_clock_of_the_device_covers_the_work_and_nothing_before_it(handing: Handing) -> None:
    device, hand_over = handing
    x = _placed(device, torch.ones(200_000))

    def work() -> None:
        for _ in range(50):
            hand_over(lambda: x.mul_(1.0001))

    def after_much_else() -> float:
        work()
        work()
        device.synchronise()
        return device.elapsed_ms(lambda: None)

    nothing = min(after_much_else() for _ in range(3))
    much = min(device.elapsed_ms(work) for _ in range(3))
    assert 0 <= nothing < much
    assert not x.isinf().any()


def test_what_work_raises_comes_out_of_the_clock(handing: Handing) -> None:
    device, _ = handing

    def broken() -> None:
        raise ValueError("not this one")

    with pytest.raises(ValueError, match="not this one"):
        device.elapsed_ms(broken)


def test_every_word_of_task_toml_has_its_adapter() -> None:
    assert set(TARGETS) == set(get_args(Backend))
    assert set(DSLS) == set(get_args(Dsl))
    assert all(name == target.name for name, target in TARGETS.items())
    assert all(name == dsl.name for name, dsl in DSLS.items())


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_a_target_keeps_secrets_out_and_names_only_what_is_there(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    target = TARGETS[name]
    environment = target.zygote_environment(3, tmp_path)
    assert environment["OMP_NUM_THREADS"] == "3"
    assert environment["HOME"] == str(tmp_path)
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


def test_a_gpu_is_found_by_its_device_files_and_not_used_in_silence(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia11", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    gpu = Cuda(tmp_path)
    names = [Path(path).name for path in gpu.devices()]
    assert names == ["nvidia0", "nvidia11", "nvidiactl", "nvidia-uvm"]
    assert "can't time kernels on one yet" in gpu.lacking()


def test_what_nvidia_smi_says_is_read_and_what_it_does_not_know_left_out() -> None:
    found = read_query("NVIDIA H200, 570.10, 345 MHz, [N/A], Enabled\n")
    assert found == {
        "gpu": "NVIDIA H200",
        "driver": "570.10",
        "gpu clock": "345 MHz",
        "persistence": "Enabled",
    }
    assert len(QUERY) == 5
    assert read_query("No devices were found\n") == {}
    assert read_query("") == {}


async def test_a_judge_without_its_target_says_so_and_starts_nothing(tmp_path: Path) -> None:
    task = Task(op="x", target=Target(backend="cuda", dsl="torch"))
    async with Judge(task, REFERENCE, tmp_path) as judge:
        found = await judge.evaluate(PLAIN)
        assert judge.pid is None
    assert found.outcome is Outcome.ERROR
    assert found.failure is FailureKind.TOOLCHAIN
    assert found.message == adapters.lacking(task) != ""
