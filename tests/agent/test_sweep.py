"""The sweep model: knobs, proposals, and a whole run played through the agent's own tools."""

from __future__ import annotations

import asyncio
import math
import tempfile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from akg_tui.agent.context import Context
from akg_tui.agent.knob_search import Trial, propose_settings, settings_in_space
from akg_tui.agent.models.sweep import Sweep, measured_settings
from akg_tui.agent.react_loop import LoopContext
from akg_tui.agent.visit import visit
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.kernel.knobs import (
    BadKnob,
    describe,
    find_knobs,
    read_setting,
    setting_key,
    with_value,
)
from akg_tui.core.measurement import Measurement
from akg_tui.core.phases import ItemState, Mode, Phase, Verdict
from akg_tui.core.task import Policy
from akg_tui.engine.live import SubagentStreams
from tests.core.simulated import SimulatedRun, failed, faster

KERNEL = """\
import torch

BLOCK = 1  # tune: [1, 2, 4, 8]
VARIANT = "plain"  # tune: ["plain", "two (pass)", "fused"]
FAST = False  # tune: [False, True]


class ModelNew(torch.nn.Module):
    pass
"""


class TextRun(SimulatedRun):
    """A simulated run that holds kernel texts, as the agent's tools need them."""

    tag_key = b"key"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.texts = {"seed": KernelFiles({"kernel.py": KERNEL})}
        self._folder = tempfile.TemporaryDirectory(prefix="akg-run-")
        self.path = self._folder.name

    def kernel(self, blob: str) -> KernelFiles:
        return self.texts[blob]

    def keep_kernel(self, kernel: KernelFiles) -> str:
        self.texts[kernel.sha256[:40]] = kernel
        return kernel.sha256[:40]


async def play(run: TextRun, model: Any) -> None:
    streams = SubagentStreams(lambda: None)
    await visit(LoopContext(run, model, lambda: run.now, lambda text: None, streams), Context())


def played(run: TextRun, judge, *, seed: int = 0, limit: int = 400) -> TextRun:
    """Play the whole run with the sweep; `judge(kernel text, incumbent text)` measures."""
    model = Sweep(seed)
    for _ in range(limit):
        effect = run.next()
        if effect is None:
            return run
        if isinstance(effect, fx.RunAgent):
            asyncio.run(play(run, model))
        elif isinstance(effect, fx.Measure):
            incumbent = run.kernel(effect.incumbent).text if effect.incumbent else KERNEL
            run.perform(effect, judge(run.kernel(effect.blob).text, incumbent))
        else:
            run.perform(effect)
    raise AssertionError("the run did not end")


def cost(kernel: str) -> float:
    value = {knob.name: knob.value for knob in find_knobs(kernel.split("\n"))}
    base = {"plain": 8.0, "two (pass)": 4.0, "fused": 2.0}[str(value["VARIANT"])]
    return base / math.sqrt(float(value["BLOCK"])) * (0.9 if value["FAST"] else 1.0)


def honest(kernel: str, incumbent: str) -> Measurement:
    return faster(cost(incumbent) / cost(kernel), 0.01)


def test_knobs_are_found_with_their_lines_values_and_choices() -> None:
    knobs = find_knobs(KERNEL.split("\n"))
    assert [(k.name, k.line, k.value) for k in knobs] == [
        ("BLOCK", 3, 1),
        ("VARIANT", 4, "plain"),
        ("FAST", 5, False),
    ]
    assert settings_in_space(knobs) == 24


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("A = 3  # tune: [1, 2]", "the value 3 is not among"),
        ("A = x  # tune: [1, 2]", "must be Python literals"),
        ("A = 1  # tune: [1, [2]]", "numbers, strings or booleans"),
        ("A = 1  # tune: []", "numbers, strings or booleans"),
    ],
)
def test_a_bad_knob_is_refused_by_line(line: str, why: str) -> None:
    with pytest.raises(BadKnob, match=f"line 2: A: .*{why}"):
        find_knobs(["", line])


def test_an_indented_assignment_is_not_a_knob() -> None:
    assert find_knobs(["    A = 1  # tune: [1, 2]"]) == ()


def test_setting_a_knob_keeps_the_rest_of_its_line() -> None:
    line = 'FLAGS = "-O1"  # tune: ["-O1", "-O3 -ffast-math"]'
    assert with_value(line, "-O3 -ffast-math") == (
        'FLAGS = "-O3 -ffast-math"  # tune: ["-O1", "-O3 -ffast-math"]'
    )


VALUES = st.one_of(
    st.integers(-999, 999),
    st.booleans(),
    st.floats(-9, 9).map(lambda x: round(x, 3)),
    st.text(st.characters(codec="ascii", min_codepoint=32), max_size=12),
)
NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,6}", fullmatch=True)


@settings(max_examples=40)
@given(st.dictionaries(NAMES, VALUES, min_size=1), st.dictionaries(NAMES, VALUES))
def test_an_item_text_reads_back_as_its_setting(setting, current) -> None:
    assert read_setting(describe(setting, current)) == setting


@settings(max_examples=3)
@given(st.integers(0, 50), st.integers(1, 15))
def test_proposals_are_new_distinct_and_in_the_space(seed: int, count: int) -> None:
    knobs = find_knobs(KERNEL.split("\n"))
    tried = [Trial({"BLOCK": 2, "VARIANT": "plain", "FAST": True}, 1.5)]
    got = propose_settings(knobs, tried, [{"VARIANT": "fused"}], count=count, seed=seed)
    keys = [tuple(s.items()) for s in got]
    assert len(set(keys)) == len(keys) == min(count, 14)
    assert all(s["VARIANT"] != "fused" for s in got)
    assert tried[0].setting not in got
    assert got == propose_settings(knobs, tried, [{"VARIANT": "fused"}], count=count, seed=seed)


def test_the_sweep_finds_the_fastest_setting_of_a_small_space() -> None:
    run = played(TextRun(policy=Policy(max_rounds=30)), honest)
    assert run.state.ok
    best = run.state.best
    assert best is not None
    text = run.kernel(best.blob).text
    assert cost(text) == min(cost(run.kernel(a.blob).text) for a in run.state.attempts)
    assert "every setting of the declared knobs was tried" in run.state.finished
    # 23 others, and the seed itself once it is no longer the incumbent
    assert run.state.settled == 24
    assert len({setting_key(read_setting(item.text)) for item in run.state.items}) == 24
    assert text.replace('VARIANT = "fused"', 'VARIANT = "plain"').count("\n") == KERNEL.count("\n")


def test_the_sweep_halves_the_cost_in_twelve_rounds_whatever_its_seed() -> None:
    for seed in range(2):
        run = played(TextRun(policy=Policy(max_rounds=12)), honest, seed=seed)
        assert run.state.settled == 12
        assert run.state.best is not None
        assert run.state.best.over_seed >= 2.0


def test_each_edit_changes_only_knob_lines_and_belongs_to_the_active_item() -> None:
    run = played(TextRun(policy=Policy(max_rounds=6)), honest)
    knob_lines = {3, 4, 5}
    for attempt in run.state.attempts[1:]:
        lines = run.kernel(attempt.blob).text.split("\n")
        changed = {
            n for n, (a, b) in enumerate(zip(KERNEL.split("\n"), lines, strict=True), 1) if a != b
        }
        assert changed <= knob_lines
        setting = {k.name: k.value for k in find_knobs(lines)}
        assert read_setting(run.state.item(attempt.item).text) == setting


def test_the_sweep_says_once_that_it_reads_the_kernel_and_reads_it_in_each_visit() -> None:
    run = played(TextRun(policy=Policy(max_rounds=6)), honest)
    events = [record.event for record in run.records]
    texts = [event.text for event in events if isinstance(event, ev.ModelReplied)]
    assert sum("I read the kernel" in text for text in texts) == 1
    reads = [e for e in events if isinstance(e, ev.ToolCalled) and e.tool == "read_kernel"]
    assert len(reads) >= 6


def test_a_knob_value_that_always_fails_is_diagnosed_and_avoided() -> None:
    def judge(kernel: str, incumbent: str) -> Measurement:
        broken = "FAST = True" in kernel
        return failed("wrong values") if broken else honest(kernel, incumbent)

    run = played(TextRun(policy=Policy(max_rounds=23, fail_streak=2)), judge)
    diagnosed = run.state.diagnosis
    assert diagnosed is not None
    assert "FAST=True" in diagnosed.avoid
    assert run.state.count(Verdict.FAIL) < 11
    assert any(item.state is ItemState.SUSPENDED for item in run.state.items) or (
        run.state.settled >= 11
    )


def test_the_sweep_learns_from_the_measured_settings_of_the_run() -> None:
    run = played(TextRun(policy=Policy(max_rounds=8)), honest)
    trials = measured_settings(run.state)
    assert len(trials) == 8
    for trial, attempt in zip(trials, run.state.attempts[1:], strict=True):
        assert trial.over_seed == pytest.approx(attempt.over_seed, rel=0.01)


def test_a_kernel_without_knobs_ends_with_how_to_declare_one() -> None:
    run = TextRun(policy=Policy(max_rounds=5, min_rounds=1))
    run.texts["seed"] = KernelFiles({"kernel.py": "class ModelNew:\n    pass\n"})
    played(run, lambda kernel, incumbent: faster())
    assert run.state.finished
    answers = [r.event for r in run.records if type(r.event).__name__ == "ModelReplied"]
    assert any("# tune:" in event.text for event in answers)


def test_a_review_mode_run_waits_with_the_sweep_too() -> None:
    run = TextRun(policy=Policy(max_rounds=2), mode=Mode.STEP)
    assert run.until_agent() == fx.Hold(fx.Overlay.WAIT_STEP, Phase.BASELINE)


def test_a_kernel_a_million_times_slower_does_not_stop_the_search() -> None:
    def judge(kernel: str, incumbent: str) -> Measurement:
        return faster(1e-6, 1e-7) if "BLOCK = 8" in kernel else honest(kernel, incumbent)

    run = played(TextRun(policy=Policy(max_rounds=23)), judge)
    assert run.state.ok
    trials = measured_settings(run.state)
    assert min(t.over_seed for t in trials if t.over_seed) < 1e-5
