"""What profilers tell of a kernel: their recorded files, condensed to ten lines."""

from __future__ import annotations

from akg_tui.evaluate.evidence.profilers import (
    MOST_LINES,
    Metric,
    Profile,
    ProfiledKernel,
    number_of,
)


def profiled(name: str, us: float, busy: float, **more: tuple[str, ...]) -> ProfiledKernel:
    units = (Metric("a_ratio", "vector", busy), Metric("b_ratio", "scalar", 0.1))
    return ProfiledKernel(name, 2, us, units, (Metric("waves", "waves", 2.5, ""),), **more)


def test_a_profile_says_what_binds_its_longest_kernels_in_at_most_ten_lines() -> None:
    kernels = [profiled(f"k{n}", 10.0 * n, 0.9 if n == 9 else 0.3) for n in range(1, 10)]
    lines = Profile.of("ncu", kernels).lines
    assert lines == [
        "ncu: 9 kernels, 18 launches, 450 us on the device",
        "k9: 90 us (20%), bound by vector, busy 90%",
        "  vector 90%, scalar 10%, waves 2.5",
        "k8: 80 us (18%), bound by no unit, it waits: the busiest is vector, busy 30%",
        "  vector 30%, scalar 10%, waves 2.5",
        "k7: 70 us (16%), bound by no unit, it waits: the busiest is vector, busy 30%",
        "  vector 30%, scalar 10%, waves 2.5",
        "6 more kernels: 210 us",
    ]
    long = [profiled(f"k{n}", 1.0, 0.5, notes=("one", "two", "three")) for n in range(4)]
    assert len(Profile.of("ncu", long).lines) == MOST_LINES
    assert Profile("ncu").lines == ["ncu: nothing ran on the device"]


def test_a_cell_that_is_no_number_is_none() -> None:
    cells = ["1,234.5", "73.2%", "N/A", "NA", "", None, "nan", "inf"]
    found = [number_of(cell) for cell in cells]
    assert found == [1234.5, 73.2, None, None, None, None, None, None]
