"""Random legal and illegal commands: whatever comes, the rules of a run hold."""

from __future__ import annotations

import os

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.approval_rules import rule_fault
from akg_tui.core.decide import Rejected
from akg_tui.core.fold import fold
from akg_tui.core.measurement import FailureKind, Measurement
from akg_tui.core.phases import (
    ITEM_TABLE,
    MAX_MEASUREMENTS,
    OPTIONAL,
    WRITE_THEN_TUNE,
    Gate,
    ItemState,
    Mode,
    Phase,
    StatedPhase,
    Verdict,
    Workflow,
    WorkflowName,
    user_workflow,
)
from akg_tui.core.plan.edit import read_plan_edit
from akg_tui.core.plan.plan_document import is_as_rendered, render_plan
from akg_tui.core.plan.revision import MAX_REOPENED, PERSONS_WORD
from akg_tui.core.recovery import opening
from akg_tui.core.state import Item, RunState
from akg_tui.core.stopping.automation import AutomationPolicy
from akg_tui.core.stopping.goals import Goal
from akg_tui.core.task import Baseline, Policy
from tests.core.simulated import (
    SimulatedRun,
    broken,
    failed,
    faster,
    item,
    report,
    unproved,
)

MEASUREMENTS = st.sampled_from(
    [
        *(faster(1.5), faster(1.0), faster(0.8), unproved(), failed()),
        *(broken(), broken(FailureKind.REFERENCE)),
    ]
)

POLICIES = st.sampled_from(
    [
        Policy(max_rounds=4),
        Policy(max_rounds=4, automation=None),
        Policy(automation=AutomationPolicy(max_tokens=60, strict_heuristics=True)),
        Policy(automation=AutomationPolicy(max_experiments=3)),
        Policy(automation=AutomationPolicy(goals=(Goal("speedup", ">", 1.4),))),
        Policy(automation=AutomationPolicy(max_cost_usd=1e-4)),
        Policy(automation=AutomationPolicy(max_wall_clock=5_000.0)),
        Policy(max_hours=0.5),
        Policy(on_blocked="stop"),
        Policy(discard_streak=1),
        Policy(discard_streak=1, on_discards="diagnose"),
        Policy(on_blocked="ask", diagnosis_attempts=1),
    ]
)

TEXTS = st.sampled_from(["A=1", "a new direction", "another one", ""])
IDS = st.sampled_from(["p1", "p2", "p3", "p4", "p9"])

WILD = st.one_of(
    st.builds(
        cmd.StartEval,
        st.sampled_from(list(ev.Purpose)),
        st.integers(0, 3),
        st.sampled_from(["seed", "b1"]),
    ),
    st.builds(cmd.FinishEval, MEASUREMENTS),
    st.builds(cmd.AcceptBaseline, st.just("c0")),
    st.builds(cmd.Settle, st.just("c9")),
    st.builds(
        cmd.SubmitPlan,
        st.lists(
            st.builds(item, st.sampled_from(["A=1", "A=1 B=2", "try B=2 A=1", "c", "d"])),
            max_size=4,
        ).map(tuple),
    ),
    st.builds(
        cmd.RevisePlan,
        st.just("the figures so far speak for it"),
        st.lists(IDS, max_size=2).map(tuple),
        st.lists(IDS, max_size=2).map(tuple),
        st.one_of(st.just(()), st.permutations(["p1", "p2", "p3"]).map(tuple)),
    ),
    st.builds(cmd.Edit, st.sampled_from(["x1", "x2"]), st.just("sha"), st.just(1), st.just(1)),
    st.builds(report, st.sampled_from(["A=1", "x" * 400]), exhausted=st.booleans()),
    st.builds(cmd.RequestFinish, st.just("enough")),
    st.builds(cmd.SetGate, st.sampled_from(list(Gate)), st.booleans()),
    st.builds(cmd.AddItem, TEXTS, before=st.sampled_from(["", "p1", "p2", "p3"])),
    st.builds(cmd.EditItem, IDS, TEXTS),
    st.builds(cmd.DropItem, IDS),
    st.builds(cmd.ReorderItems, st.permutations(["p1", "p2", "p3", "p4"]).map(tuple)),
    st.builds(cmd.PinItem, IDS, st.booleans()),
    st.builds(cmd.Remeasure, st.one_of(IDS, st.sampled_from(["1", "2", "3", "x"]))),
    st.builds(cmd.ForceReplan, st.sampled_from(["", "think again"])),
    st.builds(cmd.ForceDiagnosis),
    st.builds(cmd.UndoKeep, st.sampled_from(["", "not that"])),
    st.builds(
        cmd.AskUser,
        st.sampled_from(["", "May I?"]),
        st.sampled_from([(), ("yes", "no")]),
        st.sampled_from([None, "yes"]),
        st.sampled_from([None, 5.0]),
    ),
    st.builds(cmd.AnswerQuestion, st.integers(1, 3), st.sampled_from(["", "yes", "why"])),
    st.builds(
        cmd.ReportBlocked,
        st.just("other"),
        st.sampled_from(["", "nothing here can be made faster"]),
        st.sampled_from(["run", "item"]),
    ),
    st.builds(
        cmd.RequestScript,
        st.sampled_from(["s1", "s2", "s3", "s4"]),
        interpreter=st.sampled_from(["python", "python", "sh", ""]),
        source=st.sampled_from(["", "", "s9"]),
    ),
    st.builds(cmd.RevokeRule, st.integers(0, 4)),
    st.builds(cmd.SetMode, st.sampled_from(list(Mode))),
    st.builds(cmd.ChangePolicy, POLICIES),
    st.just(cmd.Pause()),
    st.just(cmd.Unpause()),
    st.just(cmd.Step()),
    st.builds(cmd.AnswerGate, st.integers(1, 4), st.booleans(), always=st.booleans()),
    st.builds(cmd.Hint, st.sampled_from(["", "use smaller blocks"])),
    st.builds(cmd.HintSubagent, st.sampled_from(["s1", "s2"]), st.just("look again")),
    st.builds(cmd.StopSubagent, st.sampled_from(["s1", "s2"])),
    st.builds(
        cmd.Observe,
        st.sampled_from(
            [
                ev.TurnEnded(),
                ev.TurnInterrupted(reason="killed"),
                ev.VisitFailed(phase=Phase.PLAN, reason="nothing"),
                ev.ModelReplied(phase=Phase.PLAN, model="m", input_tokens=3),
                ev.ModelReplied(phase=Phase.EDIT, model="sweep", text="Shall I proceed?"),
                ev.ToolAnswered(call="u", tool="submit_plan", status="error"),
                ev.SessionOpened(pid=1, version="0", resumed=True),
                ev.CallRefused(reason="no room for another call"),
                ev.SubagentStarted(subagent="s1", agent="subagent", phase=Phase.PLAN, call="t"),
                ev.SubagentStarted(subagent="s2", agent="diagnosis", phase=Phase.DIAGNOSE),
                ev.SubagentEnded(subagent="s1", agent="subagent", status="done"),
            ]
        ),
    ),
)

JUMPS = st.sampled_from([-5_000.0, -1.0, 0.5, 3_600.0, 1e6])  # of the clock, in seconds


def crash_and_recover(run: SimulatedRun) -> None:
    """What a new process does: fold, say so, close what was left open. One that attaches gets the
    state as JSON.
    """
    folded = run.refold()
    assert folded == run.state
    assert msgspec.json.decode(msgspec.json.encode(run.state), type=RunState) == run.state
    for event in opening(run.state, 2, "0"):
        run.must(cmd.Observe(event))


def reopenable(item: Item) -> bool:
    closed = (ItemState.DISCARDED, ItemState.FAILED, ItemState.SUSPENDED, ItemState.DROPPED)
    return item.state in closed and item.reopened < MAX_REOPENED


def check_plan(before: RunState, after: RunState) -> None:
    """Who may drop what: a pinned item is a person's, and what a person closed stays closed."""
    for old, new in zip(before.items, after.items, strict=False):
        closed = (ItemState.DROPPED, ItemState.SUSPENDED, ItemState.FAILED)
        if old.state in closed and new != old:  # the agent reopened it
            assert (new.state, new.reopened) == (ItemState.PENDING, old.reopened + 1)
            assert new.reopened <= MAX_REOPENED
            assert not old.reason.startswith(PERSONS_WORD)
            assert after.waiting(new) is None
        if old.pinned and old.state is ItemState.PENDING and new.state is not old.state:
            by_hand = new.reason.startswith("dropped by a person")
            assert new.state is ItemState.ACTIVE or (new.state is ItemState.DROPPED and by_hand)
        if new.undone and not old.undone:
            assert old.state is ItemState.KEPT
    order = [item.id for item in after.pending]
    assert sorted(order) == sorted(i.id for i in after.items if i.state is ItemState.PENDING)
    if after.active and after.active != before.active:
        # Before the end an item whose kernel waits to be measured again comes first.
        again = before.waiting(before.item(after.active))
        assert after.active == before.pending[0].id or again


def check_measured_again(run: SimulatedRun) -> None:
    """What counts of earlier measurements is of the same kernel against the same incumbent.

    No kernel is INCONCLUSIVE more often than it may be, unless a person asks in between.
    """
    state, effect = run.state, run.next()
    if isinstance(effect, fx.Measure) and effect.prior:
        assert effect.purpose is ev.Purpose.CANDIDATE
        same = [
            a for a in state.attempts if (a.blob, a.incumbent) == (effect.blob, effect.incumbent)
        ]
        assert effect.prior in [a.measurement.log_ratios for a in same]
    for each in state.items:
        if each.inconclusive:
            assert each.attempt is not None
            assert state.attempts[each.attempt].item == each.id
        assert each.unproved < MAX_MEASUREMENTS
    for attempt in state.attempts:
        if attempt.again_of is not None:
            earlier = state.attempts[attempt.again_of]
            assert (earlier.item, earlier.blob) == (attempt.item, attempt.blob)
            assert earlier.incumbent == attempt.incumbent
            assert earlier.verdict in (Verdict.INCONCLUSIVE, Verdict.DISCARD)


def check_best(before: RunState, after: RunState) -> None:
    """The best moves by a KEEP and by an undo, and is an evaluated, correct kernel always."""
    if after.best is None:
        assert before.best is None
        return
    standing = [a for a in after.attempts if a.advanced and a.number not in after.undone]
    assert (after.best.blob, after.best.commit) == (standing[-1].blob, standing[-1].commit)
    assert [b.attempt for b in after.former] == [a.number for a in standing[:-1]]
    if before.best is not None and after.best != before.best:
        undo = after.undone == (*before.undone, before.best.attempt)
        keep = after.settled == before.settled + 1 and after.attempts[-1].advanced
        assert undo != keep
        if undo:
            assert after.best == before.former[-1]
            assert not after.edited
            assert after.running is None or after.phase is Phase.DONE
    if after.phase in (Phase.PLAN, Phase.DIAGNOSE) or not after.edited:
        settled = after.phase not in (Phase.EVAL, Phase.DECIDE) or after.decided_here
        assert not settled or after.work_blob == after.best.blob


def check_seed(before: RunState, after: RunState) -> None:
    """The seed is the last kernel that BASELINE measured, and stays once it is correct."""
    if after.seed_blob != before.seed_blob:
        assert (before.phase, after.phase) == (Phase.WRITE, Phase.BASELINE)
        assert after.seed_blob == before.work_blob
    if after.best is None:
        assert after.edited == (after.work_blob != after.seed_blob) or after.phase is Phase.WRITE
        assert not any(attempt.number for attempt in after.attempts)
    else:
        assert after.attempts[0].blob == after.seed_blob
        assert after.phase is not Phase.WRITE


_REVOKING = (cmd.RevokeRule, cmd.SetMode, cmd.SetGate)


def check_rules(before: RunState, after: RunState) -> None:
    """A rule never changes but by its use and its end, and no two in force say the same."""
    for old, new in zip(before.rules, after.rules, strict=False):
        assert (new.number, new.scope, new.gate, new.at) == (
            old.number,
            old.scope,
            old.gate,
            old.at,
        )
        assert old.used <= new.used
        assert not old.ended or new == old
    assert [rule.number for rule in after.rules] == list(range(1, len(after.rules) + 1))
    scopes = [rule.scope for rule in after.rules_in_force]
    assert len(set(scopes)) == len(scopes)
    for gate in set(after.gates) - set(before.gates):
        assert all(rule.scope.gate != gate.value for rule in after.rules_in_force)


def check_applied(run: SimulatedRun, told: int) -> None:
    """Whatever a rule approved, it was in force for, and no person had refused."""
    for record in run.records[told:]:
        event = record.event
        if isinstance(event, ev.RuleApplied):
            before = fold(run.records[: record.seq - 1])
            assert before is not None
            rule = before.rules[event.rule - 1]
            assert not rule.ended
            assert rule.scope == event.scope
            assert before.phase is event.scope.phase
            assert (event.subject, False) not in before.scripts


def check_invariants(before: RunState, after: RunState) -> None:
    if after.phase is not before.phase:
        assert after.phase in after.workflow.rows[before.phase].to
    assert after.workflow == before.workflow
    assert sum(item.state is ItemState.ACTIVE for item in after.items) <= 1
    ids = [item.id for item in after.items]
    assert len(set(ids)) == len(ids)
    assert ids[: len(before.items)] == [item.id for item in before.items]
    for old, new in zip(before.items, after.items, strict=False):
        assert old.state is new.state or new.state in ITEM_TABLE[old.state]
    numbers = [attempt.number for attempt in after.attempts]
    assert numbers == list(range(len(numbers)))
    assert after.settled == after.tries + sum(after.count(verdict) for verdict in Verdict)
    assert after.settled >= before.settled
    assert after.input_tokens >= before.input_tokens
    check_plan(before, after)
    check_best(before, after)
    check_seed(before, after)
    check_rules(before, after)
    assert after.undone[: len(before.undone)] == before.undone
    assert sum(question.answer is None for question in after.questions) <= 1
    assert after.tokens == sum(used.input + used.output for used in after.usage)
    assert [u.model for u in after.usage][: len(before.usage)] == [u.model for u in before.usage]
    assert after.worked_s >= before.worked_s
    if after.phase is Phase.DONE and before.phase is not Phase.DONE and after.stop_conditions:
        assert after.finish_reason == after.stop_conditions[0]
    assert len(render_plan(after)) < 24_000
    if before.finished:
        assert after.phase is before.phase


@st.composite
def tables(draw: st.DrawFn) -> Workflow:
    """A phase table that a user may write: the widest one without some of its steps and phases."""
    rows = {phase: list(row.to) for phase, row in WRITE_THEN_TUNE.rows.items()}
    for phase, may in OPTIONAL.items():
        rows[phase] = [to for to in rows[phase] if to not in may or draw(st.booleans())]
    reached = [Phase.INIT]
    for phase in reached:  # it grows
        reached += [to for to in rows[phase] if to not in reached]
    stated = {phase: StatedPhase(tuple(to)) for phase, to in rows.items() if phase in reached}
    return user_workflow("own.toml", stated)


class Walk(RuleBasedStateMachine):
    """A run under work, wild commands, a jumping clock, crashes and a stop."""

    workflow: WorkflowName = "tune"
    tables: st.SearchStrategy[Workflow | None] = st.none()

    @initialize(
        data=st.data(),
        mode=st.sampled_from(list(Mode)),
        rounds=st.integers(1, 12),
        gates=st.sets(st.sampled_from(list(Gate))),
        baselines=st.sampled_from([(), ("compile",), ("eager", "compile", "max-autotune")]),
    )
    def begin(
        self,
        data: st.DataObject,
        mode: Mode,
        rounds: int,
        gates: set[Gate],
        baselines: tuple[Baseline, ...],
    ) -> None:
        policy = Policy(max_rounds=rounds)
        self.run = SimulatedRun(
            policy=policy,
            mode=mode,
            baselines=baselines,
            workflow=self.workflow,
            table=data.draw(self.tables),
        )
        for gate in sorted(gates):
            self.run.send(cmd.SetGate(gate, on=True))
        self.turns = 0
        self.before = self.run.state

    @rule(
        count=st.integers(1, 15),
        measured=MEASUREMENTS,
        always=st.booleans(),
        script=st.sampled_from(["", "", "s1", "s2", "s3"]),
        right=st.booleans(),
    )
    def work(
        self, count: int, measured: Measurement, always: bool, script: str, right: bool
    ) -> None:
        for _ in range(count):
            self.before = self.run.state
            self._do_what_is_due(measured, always, script, right)
            check_measured_again(self.run)
            check_invariants(self.before, self.run.state)

    def _do_what_is_due(
        self, measured: Measurement, always: bool, script: str, right: bool
    ) -> None:
        run, effect = self.run, self.run.next()
        if effect is None:
            assert run.state.finished
        elif isinstance(effect, fx.RunAgent):
            self.turns += 1
            if script:
                run.send(cmd.RequestScript(script, "ls", "python"))
            edit = cmd.Edit(f"b{self.turns}", "sha", 1, 1)
            reopen = cmd.RevisePlan(
                "the figures so far speak for it",
                reopen=tuple(i.id for i in run.state.items if reopenable(i))[: self.turns % 3],
            )
            if run.state.phase in (Phase.PLAN, Phase.EDIT) and reopen.reopen:
                run.turn(reopen)
                return
            wishes = {
                Phase.WRITE: edit,
                Phase.PLAN: cmd.SubmitPlan(
                    (item(f"direction {self.turns}"), item(f"A={self.turns} B=2"))
                ),
                Phase.EDIT: edit,
                Phase.DIAGNOSE: report(),
            }
            run.turn(wishes[effect.phase])
        elif isinstance(effect, fx.Hold):
            gate, question = run.state.gate, run.state.question
            if gate and not gate.answer:
                yes = self.turns % 2 == 0
                may = yes and rule_fault(run.state, gate) is None
                run.must(cmd.AnswerGate(gate.gate, yes, always=always and may))
            elif question and run.state.phase is not Phase.DONE:
                answer = question.choices[0] if question.choices else "go on"
                run.must(cmd.AnswerQuestion(question.number, answer))
            elif run.state.phase is Phase.DONE:
                run.must(cmd.Unpause())  # no transition is left to step over
            else:
                run.must(cmd.Step())
        elif isinstance(effect, fx.Measure) and run.state.running is not None:
            run.must(cmd.Observe(ev.EvalInterrupted(attempt=effect.attempt, reason="killed")))
        else:
            if isinstance(effect, fx.Measure) and effect.purpose is ev.Purpose.BASELINE:
                # A broken baseline ends the run, and the walk with it, unless the agent mends it.
                mended = Phase.WRITE in run.state.workflow.rows
                measured = failed() if mended and not right else faster()
            run.perform(effect, measured)

    @rule(command=WILD)
    def command(self, command: cmd.Command) -> None:
        self.before = self.run.state
        if isinstance(command, cmd.ReorderItems):  # of those that there are
            pending = {item.id for item in self.run.state.pending}
            command = cmd.ReorderItems(tuple(i for i in command.order if i in pending))
        told = len(self.run.records)
        refused = self.run.send(command)
        if isinstance(refused, Rejected):
            assert self.run.state is self.before
            assert refused.why
        kinds = {type(record.event) for record in self.run.records[told:]}
        by_hand = isinstance(command, cmd.AnswerGate) and command.always and command.approve
        assert (ev.RuleLearned in kinds) <= by_hand
        assert (ev.RuleRevoked in kinds) <= isinstance(command, _REVOKING)

    @rule(
        order=st.permutations(range(6)),
        left_out=st.integers(0, 2),
        more=st.sampled_from(["", "- [ ] by hand {} (it is worth a try)", "- H={}"]),
    )
    def hand_edit(self, order: list[int], left_out: int, more: str) -> None:
        """A person moves, drops and adds lines of PLAN.md, and takes the edit over."""
        run = self.run
        self.before = run.state
        if run.state.finished:
            return
        head, heading, rest = render_plan(run.state).partition("# Plan\n")
        lines = rest.split("\n")
        mine = [line for line in lines if line.startswith("- [") and "] p" in line][:6]
        moved = [mine[at] for at in order if at < len(mine)][left_out:]
        text = (
            head + heading + "\n".join([*moved, more.format(run.state.seq)]) + "\n# Conclusions\n"
        )
        kept = f"PLAN.md.edited-{len(run.state.plan_edits) + 1}"
        run.tell(ev.PlanEdited(kept=kept, sha256="0"))
        pending = {item.id for item in run.state.pending}
        wanted = [i for line in moved if (i := line[6:].partition(":")[0]) in pending]
        change = read_plan_edit(text, run.state)
        if run.send(cmd.AdoptPlanEdit(kept, change)) is None:
            ids = [item.id for item in run.state.pending]
            assert [i for i in ids if i in pending] == wanted
            assert set(pending) - set(wanted) == set(change.dropped)
            again = read_plan_edit(text, run.state)
            assert (again.added, again.edited, again.dropped) == ((), (), ())

    @rule(choice=st.integers(0, 3), anew=st.booleans())
    def end_a_rule(self, choice: int, anew: bool) -> None:
        """A person takes a rule back, or sets its gate, so as to be asked again."""
        run = self.run
        self.before = run.state
        rules = run.state.rules_in_force
        if run.state.finished or not rules:
            return
        mine = rules[choice % len(rules)]
        if anew:
            gate = Gate(mine.scope.gate)
            run.send(cmd.SetGate(gate, on=False))
            run.must(cmd.SetGate(gate, on=True))
        else:
            run.must(cmd.RevokeRule(mine.number))
        assert run.state.rules[mine.number - 1].ended

    @rule()
    def crash(self) -> None:
        self.before = self.run.state
        crash_and_recover(self.run)

    @rule(seconds=JUMPS)
    def jump(self, seconds: float) -> None:
        self.run.clock_off += seconds

    @rule(sure=st.integers(0, 9))
    def stop(self, sure: int) -> None:
        if not sure:  # seldom, because it ends the walk
            self.run.send(cmd.Stop())

    @invariant()
    def the_rules_hold(self) -> None:
        if hasattr(self, "run"):
            check_invariants(self.before, self.run.state)

    def teardown(self) -> None:
        if hasattr(self, "run"):
            assert self.run.refold() == self.run.state
            assert is_as_rendered(render_plan(self.run.state))
            check_applied(self.run, 0)


class WalkOfWrite(Walk):
    workflow = "write"


class WalkOfWriteThenTune(Walk):
    workflow = "write_then_tune"


class WalkOfATable(Walk):
    tables = tables()


# More examples: HYPOTHESIS_EXAMPLES=10000 python -m pytest tests/core/test_walk.py
for _walk in (Walk, WalkOfWrite, WalkOfWriteThenTune, WalkOfATable):
    _walk.TestCase.settings = settings(
        max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", "40")),
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


class TestNoSequenceOfCommandsBreaksARun(Walk.TestCase):  # type: ignore[misc,name-defined]
    pass


class TestNoneBreaksARunThatWrites(WalkOfWrite.TestCase):  # type: ignore[misc,name-defined]
    pass


class TestNoneBreaksARunOfAUsersTable(WalkOfATable.TestCase):  # type: ignore[misc,name-defined]
    pass


class TestNoneBreaksARunThatWritesAndTunes(
    WalkOfWriteThenTune.TestCase  # type: ignore[misc,name-defined]
):
    pass
