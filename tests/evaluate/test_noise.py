"""What disturbs a measurement is noticed and told; what does not, is not."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from akg_tui.evaluate import noise
from akg_tui.evaluate.noise import Machine, Watch

STEADY = [1.0] * 12


class FakeMachine(Machine):
    """A machine whose `/proc` and `/sys` are files of a test, and whose clock stands in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        super().__init__(root)
        self.tell("proc/stat", "cpu  1000 0 0 9000 0 0 0 0 0 0\n")

    def tell(self, path: str, text: str) -> None:
        """Let a file say something else from now on."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def test_a_quiet_machine_is_not_blamed(machine: FakeMachine) -> None:
    watch = Watch(machine)
    machine.tell("proc/stat", "cpu  1200 0 0 9200 0 0 0 1 0 0\n")
    watch.cluster(0.03, 1.5)
    assert watch.disturbances(STEADY) == ()


def test_time_that_the_hypervisor_keeps_is_told(machine: FakeMachine) -> None:
    watch = Watch(machine)
    machine.tell("proc/stat", "cpu  1200 0 0 9150 0 0 0 50 0 0\n")
    assert watch.disturbances(STEADY) == ("the hypervisor kept 12% of the CPU time for others",)


def test_throttling_is_told(machine: FakeMachine) -> None:
    counter = "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count"
    machine.tell(counter, "7\n")
    watch = Watch(machine)
    machine.tell(counter, "10\n")
    assert watch.disturbances(STEADY) == ("heat throttled the CPU 3 times",)


def test_a_clock_that_moves_is_told(machine: FakeMachine) -> None:
    frequency = "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"
    watch = Watch(machine)
    for khz in (3_400_000, 2_100_000, 3_390_000):
        machine.tell(frequency, f"{khz}\n")
        watch.cluster(0, 1.0)
    told = "the CPU's clock moved between 2.10 and 3.40 GHz"
    assert watch.disturbances(STEADY) == (told,)


def test_kernels_that_wait_for_a_cpu_are_told(machine: FakeMachine) -> None:
    watch = Watch(machine)
    watch.cluster(0.1, 0.5)
    watch.cluster(0.02, 1.0)
    assert watch.disturbances(STEADY) == ("the kernels waited for a CPU 12% of the time",)


def test_a_machine_that_tells_nothing_is_not_blamed(tmp_path: Path) -> None:
    watch = Watch(Machine(tmp_path))
    watch.cluster(0, 1.0)
    assert watch.disturbances(STEADY) == ()


def test_a_baseline_that_becomes_slower_has_drifted(machine: FakeMachine) -> None:
    rng = random.Random(0)
    seconds = [math.exp(0.02 * step + rng.gauss(0, 0.01)) for step in range(16)]
    assert 0.15 < noise.drift(seconds) < 0.35
    assert noise.drift(seconds[::-1]) < -0.1
    (told,) = Watch(machine).disturbances(seconds)
    assert told.startswith("the baseline drifted by +")


@pytest.mark.parametrize("spread", [0.002, 0.02, 0.1])
def test_noise_alone_is_hardly_ever_called_drift(spread: float) -> None:
    rng = random.Random(1)
    called = 0
    for _ in range(300):
        called += noise.drift([math.exp(rng.gauss(0, spread)) for _ in range(24)]) != 0
    assert called <= 6


def test_too_few_clusters_show_no_drift() -> None:
    assert noise.drift([1.0, 2.0, 3.0, 4.0, 5.0]) == 0.0
