"""The estimate of a kernel for an Ascend NPU: more work never helps, less order never hurts."""

import math
import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from akg_tui.evaluate.evidence.ascend import npu_rates, program
from akg_tui.evaluate.evidence.ascend.hivm import HivmError, Operation, read_hivm
from akg_tui.evaluate.evidence.ascend.hivm_values import Values, _evaluated
from akg_tui.evaluate.evidence.ascend.pipe_model import (
    Estimate,
    LaunchEstimate,
    NpuLaunch,
    estimate_launches,
)
from akg_tui.evaluate.evidence.ascend.pipes import Core, simulate
from akg_tui.evaluate.evidence.ascend.program import Program, Step, program_of

from . import hybrid_mask_steps
from .recorded_hivm import texts

NONE = None


def estimate(
    name: str, arguments: tuple[int | None, ...], *grid: int, text: str = ""
) -> LaunchEstimate:
    launch = NpuLaunch(name=name, hivm=text or texts()[name], grid=grid, arguments=arguments)
    return estimate_launches([launch]).by_launch[0]


def add(size: int = 1 << 20) -> LaunchEstimate:
    return estimate("add_4096", (NONE, NONE, NONE, size), size // 4096)


@cache
def attention(name: str, length: int) -> LaunchEstimate:
    """Return the estimate of attention with a window of 128 and a prefix of 64."""
    tensors = (NONE,) * (4 if name in ("mask_halves", "mask_merged") else 5)
    return estimate(name, (*tensors, length, 128, 64, NONE), -(-length // 32), 2)


def test_each_finding_of_the_seed_lowers_the_estimate() -> None:
    """Accesses merged, then the mask from triangles of ones, then no mask where nothing hides."""
    steps = ["mask_halves", "mask_merged", "mask_triangle", "mask_edges"]
    times = [attention(name, 256).us for name in steps]
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == 4
    assert times[0] > 3 * times[1]


def test_each_finding_lowers_the_estimate_of_the_seeds_kernel_too() -> None:
    """The same three in a kernel of their own, whose mask is not skipped anywhere."""
    arguments = (NONE,) * 5 + (256, 128, 64, NONE)
    steps = [hybrid_mask_steps.recorded(step) for step in hybrid_mask_steps.STEPS]
    times = [estimate("attend", arguments, 8, 2, text=text).us for text in steps]
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == 4


def test_an_estimate_says_what_moves_and_what_binds() -> None:
    found = estimate("add_loop", (NONE, NONE, NONE, 1 << 22), 128)
    assert (found.programs, found.cores, found.waves) == (128, 48, 3)
    assert (found.loaded, found.stored) == (2 * 4 * (1 << 22), 4 * (1 << 22))
    assert found.binds.startswith("MTE2: loads from global memory")
    assert found.overlap is not None
    assert found.overlap > 0.5
    assert found.assumed == 0
    assert not found.problem


def test_buffers_that_alternate_hide_computing_behind_loading() -> None:
    alternating = estimate("add_loop", (NONE, NONE, NONE, 1 << 22), 128)
    one_by_one = add(1 << 22)
    assert alternating.us < one_by_one.us
    assert one_by_one.overlap == 0.0


def test_an_access_one_by_one_is_worse_than_one_in_a_row() -> None:
    strided = estimate("strided", (NONE, NONE, 1 << 16), 64)
    gathered = estimate("gather", (NONE, NONE, NONE, 1 << 16), 64)
    assert strided.binds.startswith("MTE2")
    assert gathered.binds.startswith("S: scalar work")
    assert gathered.program_us > strided.program_us > add(1 << 16).program_us


def test_the_mask_of_the_last_program_is_followed() -> None:
    whole = add(2 * 4096)
    part = estimate("add_4096", (NONE, NONE, NONE, 4096 + 100), 2)
    assert part.loaded == 2 * 4 * (4096 + 100)
    assert whole.loaded == 2 * 4 * 2 * 4096


def test_few_programs_leave_cores_without_work() -> None:
    one = estimate("softmax_16384", (NONE, NONE, 16384, 16384), 1)
    full = estimate("softmax_16384", (NONE, NONE, 16384, 16384), 48)
    assert "only 1 of 48 cores work" in one.binds
    assert "cores work" not in full.binds
    # Alone a core has more of the chip's bandwidth.
    assert one.us < full.us


def test_cube_and_vector_cores_work_together() -> None:
    found = attention("mask_edges", 100)
    assert {"cube MTE2", "cube M", "cube FIX", "vector MTE2", "vector V"} <= set(found.busy)
    assert found.timeline is not None
    assert {row.core for row in found.timeline.rows} == {"cube", "vector"}
    assert found.cores == 8


def test_a_product_multiplies_each_fractal_in_a_cycle() -> None:
    found = estimate("matmul", (NONE, NONE, NONE, 1024, 1024, 1024), 8, 8)
    assert found.loaded == 64 * 1024 * 2 * (128 + 128)
    products = (1024 // 16) ** 3
    at_best = products / 24 / npu_rates.CYCLES_A_MICROSECOND
    assert found.us > at_best
    assert 0 < found.busy["M"] < 1


def test_nothing_is_launched_in_an_empty_grid() -> None:
    assert estimate("add_4096", (NONE, NONE, NONE, 0), 0).programs == 0
    assert estimate_launches([]) == Estimate(
        total_us=0.0, binds="nothing is launched", by_launch=()
    )


def test_launches_add_up_and_the_longest_tells_what_binds() -> None:
    short = NpuLaunch(
        name="a", hivm=texts()["add_4096"], grid=(4,), arguments=(NONE, NONE, NONE, 1 << 14)
    )
    long = NpuLaunch(
        name="b", hivm=texts()["gather"], grid=(64,), arguments=(NONE,) * 3 + (1 << 16,), launches=2
    )
    found = estimate_launches([short, long])
    a, b = found.by_launch
    assert found.total_us == math.fsum([a.us, 2 * b.us])
    assert found.binds == b.binds


def test_an_argument_that_is_unknown_is_assumed_and_counted() -> None:
    known = estimate("rms_norm", (NONE, NONE, NONE, 8192, 8192, NONE), 512)
    unknown = estimate("rms_norm", (), 512)
    assert known.assumed == 0
    assert unknown.assumed == 2  # the trip counts of two loops
    assert unknown.us > 0


def test_a_loop_that_is_shortened_takes_as_long_as_one_that_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments = (NONE, NONE, NONE, 256, 256, 64 * 200)
    short = estimate("matmul", arguments, 2, 2)
    monkeypatch.setattr(program, "LONGEST_LOOPS", (1000,))
    whole = estimate("matmul", arguments, 2, 2)
    assert short.us == pytest.approx(whole.us, rel=0.01)
    assert short.loaded == whole.loaded
    assert short.busy == pytest.approx(whole.busy, rel=0.02)


def test_an_estimate_is_the_same_each_time() -> None:
    assert attention("mask_edges", 100) == attention.__wrapped__("mask_edges", 100)


def test_a_flag_that_nothing_sets_is_a_problem_and_no_endless_wait() -> None:
    text = texts()["softmax_1024"]
    start = text.index("hivm.hir.set_flag[<PIPE_MTE2>, <PIPE_V>")
    text = text[:start] + text[text.index("\n", start) :]
    found = estimate("stuck", (NONE, NONE, 1024, 1024), 48, text=text)
    assert found.problem == (
        "V of a vector core waits for flag 0 of MTE2, which nothing sets"
    )  # fmt: skip
    assert found.us == math.inf


def test_an_operation_that_is_unknown_takes_no_time_and_is_told() -> None:
    text = texts()["softmax_1024"].replace("func.call @", "hivm.hir.new @")
    text = text.replace("    call @vexp_1d_float", "    hivm.hir.vnew @vexp_1d_float")
    found = estimate("new", (NONE, NONE, 1024, 1024), 48, text=text)
    assert found.unknown["hivm.hir.vnew"] == 1
    assert found.us < estimate("softmax_1024", (NONE, NONE, 1024, 1024), 48).us


def steps_of(name: str, arguments: tuple[int | None, ...], grid: tuple[int, ...]) -> list[Step]:
    module = read_hivm(texts()[name])
    found = program_of(
        module.functions[0], module.tree.maps, arguments=arguments, grid=grid, block=0
    )
    return list(found.steps)


RECORDED = [
    steps_of("add_loop", (NONE, NONE, NONE, 1 << 22), (128,)),
    steps_of("matmul", (NONE, NONE, NONE, 256, 256, 512), (2, 2)),
    steps_of("rms_norm", (NONE, NONE, NONE, 8192, 8192, NONE), (512,)),
    steps_of("gather", (NONE, NONE, NONE, 1 << 16), (64,)),
    steps_of("softmax_1024", (NONE, NONE, 1000, 1000), (48,)),
]
MORE = [
    Operation(kind="vector", pipe="V", name="vadd_1d_float", line=1, elements=640, blocks=80),
    Operation(kind="vector", pipe="V", name="vexp_1d_float", line=1, elements=8, blocks=1),
    Operation(
        kind="transfer", pipe="MTE2", name="load", line=1, size=512, run=4, source="GM", target="UB"
    ),
    Operation(
        kind="transfer",
        pipe="MTE3",
        name="store",
        line=1,
        size=64,
        run=64,
        source="UB",
        target="GM",
    ),
    Operation(kind="cube", pipe="M", name="mma", line=1, m=16, n=16, k=16, dtype="f16"),
    Operation(kind="scalar", pipe="S", name="memref.load", line=1, source="UB", target="S"),
    Operation(kind="barrier", pipe="V", name="pipe_barrier", line=1),
    Operation(kind="barrier", pipe="ALL", name="pipe_barrier", line=1),
]


def cycles(steps: list[Step]) -> float:
    core = Core("AIV", Program(tuple(steps)), sharing=48)
    assert simulate([core]) == ""
    return core.cycles


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(RECORDED), st.sampled_from(MORE), st.randoms(use_true_random=False))
def test_more_work_never_lowers_the_estimate(
    steps: list[Step], more: Operation, chance: random.Random
) -> None:
    at = chance.randrange(len(steps) + 1)
    added = [*steps[:at], Step(more), *steps[at:]]
    assert cycles(added) >= cycles(steps)
    longer = list(steps)
    at = chance.randrange(len(steps))
    grown = steps[at].operation
    grown = replace(grown, size=grown.size * 3, blocks=grown.blocks * 3, k=grown.k * 3)
    longer[at] = replace(steps[at], operation=grown, scalars=steps[at].scalars + 5)
    assert cycles(longer) >= cycles(steps)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(RECORDED), st.randoms(use_true_random=False))
def test_less_order_never_raises_the_estimate(steps: list[Step], chance: random.Random) -> None:
    ordering = [
        at
        for at, step in enumerate(steps)
        if step.operation.kind in ("wait_flag", "barrier")
    ]  # fmt: skip
    left_out = set(chance.sample(ordering, chance.randint(1, min(4, len(ordering)))))
    assert cycles([s for at, s in enumerate(steps) if at not in left_out]) <= cycles(steps)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(RECORDED), st.randoms(use_true_random=False))
def test_order_at_random_ends_or_is_a_problem(steps: list[Step], chance: random.Random) -> None:
    shuffled = list(steps)
    chance.shuffle(shuffled)
    core = Core("AIV", Program(tuple(shuffled)))
    assert simulate([core]) == "" or "which nothing sets" in simulate([core])
    assert math.isfinite(core.cycles)


def test_a_program_without_end_is_followed_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text comes from a process that ran the kernel: it may be made to take long."""
    text = texts()["add_loop"]
    head, rest = text.split("    scf.for %arg10", 1)
    body, tail = rest.split("\n    }\n", 1)
    deep = "    scf.for %arg10" + body
    for _ in range(6):
        deep += (
            "\n    scf.for %x = %c0_i32 to %c32768_i32 step %c1_i32 : i32 {\n"
            + body.split("{", 1)[1].split("\n", 1)[1]
        )
    text = f"{head}{deep}\n" + "    }\n" * 7 + tail
    monkeypatch.setattr(program, "MOST_INSTRUCTIONS", 4000)
    module = read_hivm(text)
    followed = program_of(module.functions[0], module.tree.maps, arguments=(), grid=(128,), block=0)
    assert followed.cut
    assert followed.followed > 4000
    assert estimate("deep", (NONE, NONE, NONE, 1 << 22), 128, text=text).assumed >= 1


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["add_loop", "matmul", "whiles", "gather"]), st.randoms(use_true_random=False)
)
def test_a_text_without_some_lines_has_an_estimate_or_is_refused(
    name: str, chance: random.Random
) -> None:
    lines = texts()[name].splitlines()
    for _ in range(chance.randint(1, 6)):
        del lines[chance.randrange(len(lines))]
    arguments = tuple(chance.choice((None, 0, -5, 1 << 20)) for _ in range(6))
    launch = NpuLaunch(name=name, hivm="\n".join(lines), grid=(64,), arguments=arguments)
    try:
        [found] = estimate_launches([launch]).by_launch
    except HivmError:
        return
    assert found.us > 0
    assert math.isfinite(found.us) is not bool(found.problem)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s0 floordiv 64 mod 2", 1),
        ("(s0 floordiv 64) mod 2", 1),
        ("s0 + s1 * 32", 2 * 32 + 100),
        ("-s0 + 1", -99),
        ("s0 - (s1 - 3)", 101),
        ("s0 ceildiv 64", 2),
        ("s0 mod 0", None),
        ("s9 + 1", None),
        ("(s0", None),
        ("s0 s1", None),
    ],
)
def test_expressions_of_maps_are_evaluated(text: str, expected: int | None) -> None:
    assert _evaluated(text, ("s0", "s1"), (100, 2)) == expected


def test_values_without_a_name_are_unknown() -> None:
    assert Values({}, {}).number("%1") is None
    assert Values({}, {}).number("12") == 12
