"""Every line that states where a run stands is held against the state, in all states of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from akg_tui.core import commands as cmd
from akg_tui.core.events import Purpose
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.measurement import FailureKind, Interval, Outcome, Progress
from akg_tui.core.phases import Gate, Mode, Phase
from akg_tui.core.state import Attempt, RunState
from akg_tui.core.verdict import decide_verdict
from akg_tui.engine.run_scanner import ListedRun
from akg_tui.store.run_list import RunSummary, summary_of
from akg_tui.view.agent_rows import AgentList, agent_rows
from akg_tui.view.attempt_rows import between, side_of
from akg_tui.view.controls.completion import HintRefused, hint_command
from akg_tui.view.evaluation_rows import EstimateHistory, eval_rows
from akg_tui.view.formatting import sure
from akg_tui.view.plan_rows import plan_view
from akg_tui.view.run_rows import run_details
from akg_tui.view.spans import plain
from akg_tui.view.status import no_attempt, phase_row, sparkline, status, stop_told

from .moments import at_work, evaluating, keeping
from .script import KERNEL, FakeHandle, faster, task, wrong
from .stage import on_stage


def lines_of(handle: FakeHandle) -> dict[str, str]:
    """Each line that says where the run stands, by its place on the deck."""
    state, now, live = handle.state, handle.now, handle.live
    tail = plan_view(state, 80, 20).rows
    return {
        "status": plain(status(state, live.activity, live.progress, now, 150, holds=live.holds)),
        "phases": plain(phase_row(state, now, 150, holds=live.holds)),
        "chart": plain(sparkline(state, 150)) if len(state.attempts) < 2 else "",
        "plan": " ".join(plain(row) for row in tail) if not state.items else "",
        "evaluation": " ".join(
            plain(row) for row in eval_rows(state, EstimateHistory(), now, 80, 10)
        ),
    }


def waits(state: RunState) -> bool:
    open_gate = state.gate is not None and not state.gate.answer
    return not state.finished and (open_gate or state.question is not None)


def works(state: RunState) -> bool:
    return state.running is not None or state.turn_open


Claim = Callable[[RunState], bool]
CLAIMS: dict[str, Claim] = {
    # What a line says, and the part of the state that it comes from.
    "the baseline comes first": lambda s: s.best is None and not s.finished,
    "the baseline failed": lambda s: (
        s.baseline is not None and s.baseline.outcome is not Outcome.CORRECT
    ),
    "the run ended before": lambda s: s.phase is Phase.DONE,
    "the first verdict is to come": lambda s: s.best is not None and not s.settled,
    "the agent is to write one": lambda s: s.best is not None and s.phase is not Phase.DONE,
    "nothing measured yet": lambda s: s.measured is None and s.baseline is None,
    "PAUSED:": lambda s: s.paused and not works(s),
    "pausing after:": lambda s: s.paused and (works(s) or bool(s.granted)),
    "ending after:": lambda s: bool(s.stop_reason) and not s.finished,
    "then the run ends": lambda s: bool(s.stop_reason) and not s.finished,
    "WAIT_USER:": waits,
    "WAIT_STEP:": lambda s: s.mode is Mode.STEP and not works(s),
    "the run is over": lambda s: bool(s.finished),
    "waits for you": waits,
}


def held_against(handle: FakeHandle) -> None:
    for place, text in lines_of(handle).items():
        for words, claim in CLAIMS.items():
            assert words not in text or claim(handle.state), (place, text, handle.state.phase)
    assert not waits(handle.state) or handle.state.running or "WAIT" in lines_of(handle)["status"]


class Watched(FakeHandle):
    """A run that is looked at after each of its events."""

    def _append(self, event: object) -> None:
        super()._append(event)  # type: ignore[arg-type]
        if len(self.records) > 2:
            held_against(self)


def answers(handle: FakeHandle) -> None:
    """Give the run what it waits for."""
    state = handle.state
    if state.gate is not None and not state.gate.answer:
        assert handle.send(cmd.AnswerGate(state.gate.gate, approve=True)) is None
    elif state.question is not None:
        assert handle.send(cmd.AnswerQuestion(state.question.number, "yes")) is None
    elif state.paused and state.phase is Phase.DONE:
        assert "n takes one step" not in lines_of(handle)["status"]
        assert handle.send(cmd.Unpause()) is None
    elif state.mode is Mode.STEP or state.paused:
        assert handle.send(cmd.Step()) is None


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("gates", [(), tuple(Gate)], ids=["", "all gates"])
@pytest.mark.parametrize("paused", [False, True])
def test_every_line_says_what_the_state_says_from_the_first_event_to_the_last(
    mode: Mode, gates: tuple[Gate, ...], paused: bool
) -> None:
    handle = Watched(mode=mode)
    for gate in gates:
        if gate not in handle.state.gates:
            handle.send(cmd.SetGate(gate, on=True))
    if paused:
        handle.send(cmd.Pause())
    for _ in range(400):
        handle.work()
        held_against(handle)
        if handle.state.finished:
            break
        answers(handle)
    assert handle.state.finished
    assert handle.state.settled == 9


@pytest.mark.parametrize("number", range(4, 60, 3))
def test_no_line_is_untrue_after_a_pause_and_a_stop_at_any_moment(number: int) -> None:
    handle = Watched(mode=Mode.REVIEW)
    for _ in range(number):
        if not handle.step():
            answers(handle)
    handle.send(cmd.Pause())
    held_against(handle)
    handle.work()
    held_against(handle)
    handle.send(cmd.Stop())
    held_against(handle)
    handle.work()
    held_against(handle)
    handle.send(cmd.Unpause())
    for _ in range(9):
        handle.work()
        held_against(handle)
        answers(handle)
    assert handle.state.finished


async def test_a_pause_while_an_evaluation_runs_on_is_not_called_paused() -> None:
    handle = evaluating(0)
    handle.live.show("candidate evaluation")
    handle.live.report(Progress("build"))
    async with on_stage(handle, (80, 24)) as stage:
        await stage.press("space")
        assert "pausing after: candidate evaluation: build" in stage.text()
        assert "then PAUSED, space goes on" in stage.text()
        assert "▸ EVAL" in stage.text()
        stage.handle.send(cmd.FinishEval(wrong("no")))
        stage.handle.work()
        await stage.pull()
        assert "PAUSED: space goes on, n takes one step" in stage.text()
        assert "⋯ EVAL" in stage.text()


def test_a_baseline_that_failed_is_not_being_measured() -> None:
    handle = FakeHandle()
    handle.work(lambda state: state.phase is Phase.BASELINE)
    handle.tell_broken_baseline()
    assert handle.state.finished
    assert no_attempt(handle.state) == "no attempt: the baseline failed"
    assert "the run ended before it" in lines_of(handle)["plan"]


async def test_a_run_without_a_correct_kernel_offers_no_more_rounds_and_no_passed_baseline() -> (
    None
):
    handle = FakeHandle()
    handle.work(lambda state: state.phase is Phase.BASELINE)
    handle.tell_broken_baseline()
    async with on_stage(handle) as stage:
        assert "✗BASELINE" in stage.text()
        assert "best:" not in stage.text()
        assert "q leaves" in stage.text()
        assert "more rounds" not in stage.text()
        assert "+ more" not in stage.text().split("\n")[-1]
        await stage.press("plus", *"5", "enter")
        assert "no round to go on from" in stage.text()
    summary = summary_of("/runs/a", handle.state, None)
    told = plain(run_details(ListedRun(Path("/runs/a"), "a", 1, 0.0, summary), 0.0, 200)[2])
    assert told.endswith("enter looks at it")
    over = FakeHandle().work()
    assert "+ goes on with more rounds" in lines_of(over)["status"]
    assert summary_of("/runs/a", over.state, None).can_go_on


@pytest.mark.parametrize("room", [58, 78, 120])
def test_the_reason_of_the_end_is_whole_where_it_fits_and_the_keys_give_way(room: int) -> None:
    state = FakeHandle(the_task=task(max_rounds=3)).work().state
    told = plain(status(state, "", None, state.last_at, room))
    assert "the run is over: max rounds reached (3)" in told
    assert told.endswith("q leaves")
    assert ("more rounds" in told) is (room > 58)


def test_an_interval_around_one_is_no_proof_and_one_below_it_is_told_as_slower() -> None:
    around = sure(Interval(0.9, 0.7, 1.16, 0.9824))
    assert around == "no difference proved: -10.0 % (-30.0 to +16.0) at 98.24 % confidence"
    assert sure(Interval(0.5, 0.4, 0.6, 0.99)) == "50.0 % slower (40.0 to 60.0), 99 % sure"
    below = replace(faster(0.698), ratio=Interval(0.698, 0.569, 0.855, 0.99))
    assert below.ratio is not None
    assert sure(below.ratio) == "probably 30.2 % slower (14.5 to 43.1)"
    assert decide_verdict(below, 0.01).reason == (
        "0.70 ± 0.16, slower or equal: a gain above 1 % is excluded at 98 %"
    )


def test_each_side_names_the_kernel_and_the_time_that_it_was_measured_against() -> None:
    state = FakeHandle().work().state
    assert plain(side_of(state, state.attempts[2])[3]) == "6.2 ms → 4.37 ms a call"
    told = [plain(side_of(state, attempt)[2]) for attempt in state.attempts]
    assert told[0] == "against eager"
    assert told[1].startswith("over the seed: 31.0 % faster")
    assert told[4].startswith("over p3's kernel: 9.0 % slower")
    assert told[9].startswith("over p7's kernel: ")


def test_two_rounds_are_compared_if_one_was_measured_against_the_other() -> None:
    state = FakeHandle().work().state
    seed, p1, p2, p3, p4, p5, *_ = state.attempts

    def told(left: Attempt, right: Attempt) -> str:
        return plain(between(state, left, right))

    assert told(p1, p2) == (
        "round 2 over round 1: 1.42× [1.377, 1.463], 95 % sure, measured against each other"
    )
    assert told(p2, p1).startswith("round 1 over round 2: 0.70× [")
    assert told(seed, p2) == told(p3, p3) == told(p5, p4) == told(p3, p5) == ""


def test_the_last_call_of_an_idle_agent_is_not_told_as_going_on() -> None:
    handle = at_work(1)
    agents = AgentList()
    agents.read(handle.records)
    head, last = (plain(row) for row in agent_rows(agents, handle.now, 60))
    assert "idle" in head
    assert last == "  last call: edit_kernel"


def paused() -> FakeHandle:
    handle = at_work(0)
    handle.send(cmd.Pause())
    return handle


@pytest.mark.parametrize(
    ("handle", "told"),
    [
        (keeping, "the run ends after your answer to the card"),
        (evaluating, "the run ends as soon as what is under way is done"),
        (paused, "the run ends as soon as what is under way is done"),
        (
            lambda: FakeHandle(mode=Mode.STEP).to_phase(Phase.INIT),
            "the run ends with the next step",
        ),
        (lambda: FakeHandle().to_phase(Phase.PLAN), "as soon as what is under way is done"),
    ],
    ids=["card", "evaluation", "pause", "step", "plan"],
)
def test_a_stop_says_when_the_run_ends(handle: Callable[[], FakeHandle], told: str) -> None:
    run = handle()
    assert told in stop_told(run.state, run.now, step="n")


async def test_a_stop_with_a_card_open_says_that_the_card_comes_first_until_it_is_answered() -> (
    None
):
    async with on_stage(keeping(), armed=True) as stage:
        await stage.command("stop")
        assert "the run ends after your answer to the card" in stage.text()
        assert "(then the run ends)" in stage.text()
        await stage.arm()
        await stage.press("alt+y")
        stage.handle.work()
        await stage.pull()
        assert "the run is over: stopped by the user" in stage.text()


async def test_a_hint_to_the_sweep_is_a_setting_that_becomes_the_next_item() -> None:
    handle = at_work(1)
    async with on_stage(handle) as stage:
        await stage.press("i")
        assert "settings of its knobs for the sweep" in stage.text()
        await stage.press(*"LANES=8", "enter")
        assert "sweep tries LANES=8 as its next item" in stage.text()
        item = handle.state.pending[0]
        assert (item.text, item.pinned) == ("LANES=8", True)
        await stage.command("hint use float4")
        assert "sweep reads no hints, only settings of its knobs, such as FLAGS=" in stage.text()
    assert (handle.state.hints, handle.state.pending[0]) == ((), item)


def test_settings_in_a_hint_are_taken_without_quotes_or_refused_as_a_whole() -> None:
    state = at_work(1).state
    best = KernelFiles({"kernel.py": KERNEL})
    said = "LANES=8, exp=poly5 FLAGS=-O3 -march=native please"
    command, told = hint_command(said, state, best)
    assert command.text == 'LANES=8 EXP="poly5" FLAGS="-O3 -march=native"'
    assert told.endswith(" as its next item; not understood: please")
    for text, why in (
        ("TILE=32", "no knob is called TILE; there are: FLAGS, EXP, LANES, PASSES"),
        ("LANES=3", "LANES can be: 1, 4, 8, 16"),
        ("LANES=1", "the best kernel has LANES=1 already"),
        ("LANES=4, EXP=poly6", 'EXP can be: "libm64", "libm32", "poly5"'),
        ("LANES=4 LANES=16", "LANES is set twice"),
    ):
        with pytest.raises(HintRefused) as refused:
            hint_command(text, state, best)
        assert why in str(refused.value)
    served = hint_command("LANES=3", replace(state, agent="claude"), best)
    assert served == (cmd.Hint("LANES=3"), "the agent reads your hint next")


async def test_a_candidate_of_the_sweep_is_not_sent_back_to_it() -> None:
    async with on_stage(keeping(), armed=True) as stage:
        await stage.press("r")
        await stage.arm()
        assert "send back" not in stage.text()
        await stage.press("c", *"smaller", "enter")
        await stage.arm()
        await stage.press("B")
        assert "sweep reads no comments and makes no part of a change" in stage.text()
        await stage.arm()
        await stage.arm()  # what is typed at once after B is no command
        await stage.press("D")
        await stage.arm()
    sent = [each for each in stage.handle.sent if not isinstance(each, cmd.Observe)][-1]
    assert sent == cmd.AnswerGate(1, approve=False, comment="smaller")


def details(**changes: object) -> Iterator[str]:
    told = RunSummary(path="/runs/a", op="softmax", phase="EDIT", **changes)  # type: ignore[arg-type]
    run = ListedRun(Path("/runs/a"), "a", 1, 0.0, told)
    return (plain(row) for row in run_details(run, 0.0, 200))


def test_the_list_tells_a_broken_run_from_an_open_one() -> None:
    broken = "\n".join(details(broke="a tag key has 1 to 64 bytes, not 80"))
    assert "it broke: a tag key has 1 to 64 bytes, not 80; r takes it up again" in broken
    assert "it can go on" in "\n".join(details())


def test_a_kernel_that_ran_out_of_time_is_told_as_such_where_the_run_ends() -> None:
    handle = FakeHandle()
    handle.work(lambda state: state.phase is Phase.BASELINE)
    late = replace(wrong("no answer after 120 s of loading"), failure=FailureKind.TIMEOUT)
    handle.send(cmd.StartEval(Purpose.BASELINE, 0, handle.state.seed_blob))
    handle.send(cmd.FinishEval(late))
    handle.work()
    assert "the kernel ran out of time before any change" in lines_of(handle)["status"]


async def test_a_run_that_nobody_works_on_does_not_grow_older() -> None:
    handle = FakeHandle().to_phase(Phase.EDIT, settled=2)
    handle.live.show("nobody is at work on it; go on with: akg-tui resume RUN", holds=True)
    handle.live.at_rest = True
    async with on_stage(handle) as stage:
        before = stage.text().split("\n")[:3]
        handle.now += 3600
        await stage.pull()
        after = stage.text().split("\n")[:3]
    assert after == before
    assert "⋯ EDIT" in after[1]
    assert "nobody is at work on it" in after[2]
    assert "then" not in after[2]
