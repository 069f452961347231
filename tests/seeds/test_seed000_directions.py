"""Seed 000, an exploration that repeats nothing: a failed direction is known again."""

from __future__ import annotations

from pathlib import Path

import pytest

from akg_tui.agent.chat import ToolResult
from akg_tui.agent.tools.run_access import Draft, KernelSession
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.events import PlanChange
from akg_tui.core.kernel.kernel_files import KernelFiles, files_of
from akg_tui.core.measurement import FailureKind
from akg_tui.core.phases import Phase
from akg_tui.core.plan.edit import read_plan_edit
from akg_tui.core.plan.plan_document import render_plan
from akg_tui.core.state import RunState
from akg_tui.evaluate import Judge
from akg_tui.memory.shelf import Shelf
from akg_tui.view import language
from akg_tui.view.plan_rows import evidence
from benchmarks.judge.ordinary.windows import PAIRS
from tests.agent.test_trials import FAST, WRONG
from tests.core.simulated import SimulatedRun, failed, faster, item, planned
from tests.core.test_levers import refusal
from tests.core.test_plan import answer, settled
from tests.core.test_plan_edit import KEPT
from tests.engine.runs import KERNEL
from tests.evaluate.test_judge import IN_SESSION
from tests.memory.runs import learn, tuned

PAGE = (
    "算法重排：合并 seed kernel 中的若干次连续访存，移除冗余条件分支；",
    "以 torch.ones + triu 取代 arange 广播 ；",
    "去除冗余的 mask 构造。",
)
"""The gains that the page tells, as it words them."""


@pytest.mark.parametrize(
    "again",
    [
        *PAGE,
        "算法重排: 合并seed kernel中的若干次连续访存, 移除冗余条件分支",
        "以 torch.ones+triu 取代 arange 广播",
        "去除冗余的mask构造",
    ],
)
def test_seed000_the_pages_own_directions_are_known_again(again: str) -> None:
    run = planned(*PAGE)
    for tried in (failed("overflow"), faster(0.9), failed("overflow")):
        run.tries(tried)
    assert "item 1 repeats p" in answer(run, item(again))
    more = f"{again}，改用 torch.where"
    assert "item 1 is like p" in answer(run, item(more))
    assert answer(run, item(f"{more}; differs: torch.where")) == ""


@pytest.mark.parametrize(
    ("earlier", "again"),
    [
        ("TILE=32", "TILE = 32"),
        ("TILE=32", "set TILE to 32"),
        ("TILE=32", "set TILE to thirty-two"),
        ("unroll the loop by 4", "unroll the loop by four"),
        ("unroll by four", "unroll by 4"),
        ("blocks of 4x2", "blocks of 4 × 2"),
        ("blocks of twenty one rows", "blocks of 21 rows"),
    ],
)
def test_seed000_a_failed_direction_is_known_in_another_notation(earlier: str, again: str) -> None:
    for first, second in ((earlier, again), (again, earlier)):
        assert "item 1 repeats p1, " in answer(settled(first), item(second))


def test_seed000_a_plan_must_say_what_differs_from_the_nearest_item_that_was_tried() -> None:
    run = planned("keep the row maximum in registers", "keep the row maximum in registers, not L1")
    run.tries(failed("overflow"))
    run.tries(failed("spills"))
    near = "keep the row maximum of a block in registers, not in L1"
    told = answer(run, item(near))
    assert told.startswith("item 1 is like p2, which was FAILED (spills): 'keep the row maximum in")
    assert "say at the end of its text what differs, as in `differs: " in told
    assert "is like p2" in answer(run, item(f"{near}; differs: not the same, the row"))
    assert answer(run, item(f"{near}; differs: two accumulators")) == ""
    tried = settled("TILE=32")
    assert "is like p1" in answer(tried, item("TILE=32 with streams"))
    assert answer(tried, item("TILE=32; differs: with streams")) == ""


def test_seed000_a_direction_tried_with_one_setting_stays_open_for_others() -> None:
    run = settled("register blocking, 4x2 with TILE=32")
    for other in ("register blocking, 4x4 with TILE=32", "register blocking, 4x2 with TILE=64"):
        assert answer(run, item(other)) == ""


def test_seed000_the_words_of_the_item_under_work_cannot_change_and_that_is_told() -> None:
    run = planned("a", "b")
    plan = render_plan(run.state).replace("p1: a", "p1: A=2")
    change = read_plan_edit(plan, run.state)
    assert change == PlanChange(fixed=("p1",))
    run.tell(ev.PlanEdited(kept=KEPT, sha256="0"))
    assert "changes no item" in refusal(run, cmd.AdoptPlanEdit(KEPT, change))
    both = read_plan_edit(plan.replace("p2: b", "p2: B=2"), run.state)
    assert (both.fixed, [each.text for each in both.edited]) == (("p1",), ["B=2"])
    run.must(cmd.AdoptPlanEdit(KEPT, both))
    assert [each.text for each in run.state.items] == ["a", "B=2"]


class Texts:
    """A run whose kernels are these texts by blob, for a session with the kernel."""

    tag_key = b"key"

    def __init__(self, run: SimulatedRun, texts: dict[str, str]) -> None:
        self._run, self.texts = run, texts

    @property
    def state(self) -> RunState:
        return self._run.state

    def kernel(self, blob: str) -> KernelFiles:
        return files_of(self.texts[blob], "kernel.py")

    def keep_kernel(self, kernel: KernelFiles) -> str:
        self.texts["new"] = kernel.text
        return "new"

    def send(self, command: cmd.Command) -> cmd.Rejected | None:
        return self._run.send(command)


def test_seed000_a_copy_that_differs_in_comments_only_costs_no_round() -> None:
    run = planned("a", "b", "c")
    run.tries(failed())
    texts = Texts(run, {run.state.seed_blob: KERNEL, "b1": WRONG})
    session = KernelSession(texts)  # type: ignore[arg-type]

    def submitted(text: str) -> ToolResult:
        return session.submit(
            Draft(files_of(text, "kernel.py"), session.reader_of("it")), ""
        ).result

    told = submitted(WRONG.replace("\n\n\n", "  # a comment\n\n"))
    assert told.error_information.startswith(
        "but for comments and blanks this is the kernel of attempt 1 (p1), which was FAIL against"
    )
    told = submitted(f"# mine\n{KERNEL}")
    assert told.error_information.startswith("but for comments and blanks this is the best kernel")
    assert run.state.phase is Phase.EDIT
    assert submitted(FAST).status == "success"
    assert run.state.edited


def test_seed000_why_a_remembered_setting_is_tried_is_chinese_on_a_chinese_screen(
    tmp_path: Path,
) -> None:
    shelf = Shelf(tmp_path / "memory")
    for name in ("first", "second"):
        run = tuned(tmp_path / "task", shelf, rounds=4, name=name)
        learn(shelf, run)
        run.close()
    state = run.state
    language.speak("zh")
    try:
        rows = evidence(state, state.items[0], 2, 80)
    finally:
        language.speak(language.ENGLISH)
    assert any("记自以前的运行" in part for row in rows for part, _ in row)


@IN_SESSION
async def test_seed000_a_mean_of_a_fixed_eighth_of_each_row_is_refused(judge: Judge) -> None:
    reference, eighth = (
        each.replace("262144", "65536") for each in PAIRS["a mean of each eighth number in 16 bits"]
    )
    found = await judge.probe(eighth, timed=False, reference=reference)
    assert found.failure is FailureKind.WRONG, found
