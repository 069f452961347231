"""What NVML tells of a GPU, as fingerprint and as disturbances; with a contract fake of pynvml."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path

import pytest

from akg_tui.evaluate.noise import WARM_UP_S, Machine, Watch, warm_up
from akg_tui.evaluate.targets.nvml import Gpu, GpuMonitor, arch_here, descends_from_us
from tests.evaluate.fake_nvml import FakeNvml


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


def gpu() -> Gpu:
    found = Gpu.first()
    assert isinstance(found, Gpu)
    return found


def watching(ours: int = 7) -> GpuMonitor:
    return GpuMonitor(gpu(), is_ours=lambda process: process == ours)


def test_a_gpu_is_described_by_what_affects_times(nvml: FakeNvml) -> None:
    assert gpu().facts() == {
        "gpu": "NVIDIA H200", "gpu uuid": "GPU-0000", "driver": "580.10",
        "gpu clock": "1980 MHz", "gpu clock limit": "1980 MHz", "gpu memory clock": "3201 MHz",
        "gpu power": "350 W", "gpu power limit": "700 W", "gpu temperature": "60 °C",
        "mig": "off", "persistence": "on",
    }  # fmt: skip
    nvml.mig, nvml.reasons = (1, 1), 0x04 | 0x40 | 0x02
    told = gpu().facts()
    assert (told["mig"], told["gpu throttled by"]) == ("on", "power, heat")
    nvml.lacks = {"MigMode", "PersistenceMode", "ClockInfo", "CurrentClocksEventReasons"}
    told = gpu().facts()
    assert {"mig", "persistence", "gpu clock", "gpu memory clock"}.isdisjoint(told)
    assert told["gpu throttled by"] == "power, heat"


def test_why_nvml_tells_nothing_is_said(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.starts = False
    assert Gpu.first() == "NVML tells nothing: Driver Not Loaded"
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert Gpu.first() == "nvidia-ml-py is not installed: pip install 'akg-tui[cuda]'"


def test_a_quiet_gpu_is_not_blamed(nvml: FakeNvml) -> None:
    monitor = watching()
    nvml.pids, nvml.reasons = [7], 0x01 | 0x02
    for nvml.clock in (1980, 1965, 1980):
        monitor.sample()
    assert monitor.disturbances() == []


def test_throttling_is_told_with_its_cause(nvml: FakeNvml) -> None:
    monitor = watching()
    for nvml.reasons, nvml.power_mw, nvml.heat in (
        (0, 690_000, 70), (0x04, 699_000, 80), (0x04 | 0x20, 640_000, 88),
    ):  # fmt: skip
        monitor.sample()
    assert monitor.disturbances() == [
        "the power limit throttled the GPU in 2 of 3 clusters",
        "the GPU's power reached 699 of 700 W",
        "heat throttled the GPU in 1 of 3 clusters",
        "the GPU's temperature reached 88 °C",
    ]
    nvml.reasons = 0x08 | 0x10
    monitor.sample()
    assert monitor.disturbances()[4:] == [
        "the GPU's hardware slowed it down in 1 of 4 clusters",
        "another GPU of its group slowed the GPU down in 1 of 4 clusters",
    ]


def test_a_clock_that_moves_and_other_processes_are_told(nvml: FakeNvml) -> None:
    monitor = watching()
    nvml.pids = [7, 99]
    for nvml.clock in (1980, 1410, 1980):
        monitor.sample()
    assert monitor.disturbances() == [
        "the GPU's clock moved between 1.41 and 1.98 GHz",
        "other processes used the GPU: 1",
    ]
    nvml.pids = [98]
    monitor.sample()
    assert monitor.disturbances()[1:] == ["other processes used the GPU: 2"]


def test_processes_of_another_namespace_are_not_taken_for_others(nvml: FakeNvml) -> None:
    monitor = watching()
    nvml.pids = [4711]
    monitor.sample()
    assert monitor.disturbances() == []


def test_the_warm_up_ends_when_the_clock_is_at_rest_and_leaves_no_trace(nvml: FakeNvml) -> None:
    monitor, clocks = watching(), [345, 1200, 1980, 1965, 1980, 1980]
    nvml.reasons, ran = 0x04, list[int]()

    def run() -> None:
        nvml.clock = clocks[len(ran)]
        nvml.reasons = 0x04 if len(ran) < 4 else 0
        ran.append(nvml.clock)

    warm_up(monitor, run, clock=lambda: 0.0)
    assert ran == clocks[:5]
    assert monitor.disturbances() == []


def test_the_warm_up_ends_in_any_case(nvml: FakeNvml) -> None:
    ran = list[int]()

    def run() -> None:
        ran.append(0)
        nvml.clock = 1000 + 500 * (len(ran) % 2)

    warm_up(watching(), run, clock=lambda: float(len(ran)))
    assert len(ran) == WARM_UP_S
    ran.clear()
    nvml.lacks = {"ClockInfo"}
    warm_up(watching(), run, clock=lambda: 0.0)
    assert len(ran) == 1
    warm_up(None, run)
    assert len(ran) == 1


def test_a_comparison_asks_the_device_after_each_cluster(nvml: FakeNvml, tmp_path: Path) -> None:
    watch = Watch(Machine(tmp_path), watching())
    nvml.heat, nvml.reasons = 90, 0x40
    watch.cluster(0.0, 1.0)
    assert watch.disturbances([1.0])[0] == "heat throttled the GPU in 1 of 1 clusters"


def test_processes_that_this_one_started_are_ours(tmp_path: Path) -> None:
    assert descends_from_us(os.getpid())
    assert not descends_from_us(os.getppid())
    for process, parent in ((9001, 9000), (9000, os.getpid()), (9002, 1)):
        stat = tmp_path / str(process) / "stat"
        stat.parent.mkdir()
        stat.write_text(f"{process} (a name) with ) S {parent} 1 1")
    assert descends_from_us(9001, tmp_path)
    assert not descends_from_us(9002, tmp_path)
    assert not descends_from_us(9003, tmp_path)


@pytest.mark.skipif(importlib.util.find_spec("pynvml") is None, reason="nvidia-ml-py is not here")
def test_the_fake_has_only_functions_of_the_real_package() -> None:
    real = importlib.import_module("pynvml")
    names = {name for name in vars(FakeNvml) if name.startswith("nvml")}
    assert {name for name in names if not hasattr(real, name)} == set()
    reasons = {"GpuIdle": 0x01, "ApplicationsClocksSetting": 0x02, "SwPowerCap": 0x04,
               "HwSlowdown": 0x08, "SyncBoost": 0x10, "SwThermalSlowdown": 0x20,
               "HwThermalSlowdown": 0x40, "HwPowerBrakeSlowdown": 0x80}  # fmt: skip
    for name, bit in reasons.items():
        assert getattr(real, f"nvmlClocksEventReason{name}") == bit


def test_the_arch_is_the_drivers_word(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    told = []
    for change in (lambda: None, lambda: fake.lacks.add("CudaComputeCapability")):
        change()
        arch_here.cache_clear()
        told.append(arch_here())
    fake.starts = False
    arch_here.cache_clear()
    told.append(arch_here())
    arch_here.cache_clear()
    assert told == ["sm_90", "", ""]
