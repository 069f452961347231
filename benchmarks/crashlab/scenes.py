"""The run that the crash lab's victims work on: real except for the judge and the person.

Judge and person are functions of the journal, so a run that was killed and resumed must end like
an undisturbed one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from akg_tui.agent.chat import ChatReply, ChatRequest, ModelFailed
from akg_tui.agent.models.sweep import Sweep
from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.kernel.kernel_files import Kernel, files_of
from akg_tui.core.measurement import Measurement, Progress
from akg_tui.core.phases import Gate, Mode, Phase
from akg_tui.core.plan.plan_document import render_plan
from akg_tui.core.task import Files, Policy, Task
from akg_tui.engine.engine import Engine
from akg_tui.store.projections import work_files
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.run_list import read_state
from akg_tui.store.task_folder import load_task
from tests.engine.fake_judge import FakeJudge
from tests.engine.runs import REFERENCE, Clock

ROUNDS = 6
KERNEL = """\
SPEED = "A"  # tune: ["A", "B", "C", "WRONG"]
WIDTH = 1  # tune: [1, 2]


class ModelNew:
    pass
"""


FILES: dict[str, str] = {"kernel.py": KERNEL}
"""The editable files of the task, by name."""


def use_several_files() -> None:
    """Put the second knob into a file of its own, so that most edits change one file or the other,
    and some both."""
    speed, width, *rest = KERNEL.splitlines(keepends=True)
    FILES["kernel.py"], FILES["shape.py"] = "".join([speed, *rest]), width


class Person:
    """Sends a person's commands; the state alone decides when, so a resumed run gets them too."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def before(self, attempt: int) -> None:
        """Commands while this attempt is measured."""
        modes = {1: Mode.STEP, 2: Mode.REVIEW, 4: Mode.AUTO}
        if attempt in modes:
            self.engine.send(cmd.SetMode(modes[attempt]))
        if attempt == 1:
            self._sort_the_plan()
        if attempt == 2:
            policy = self.engine.state.task.policy
            self.engine.send(cmd.ChangePolicy(replace(policy, max_hours=100.0)))
        if attempt == 3:
            self.engine.send(cmd.Hint("think of the caches"))
            self.engine.send(cmd.Pause())
        if attempt == ROUNDS:
            self.engine.send(cmd.Stop("enough for today"))

    def _sort_the_plan(self) -> None:
        """Hands on the plan; done a second time, each is refused or changes nothing."""
        waiting = sorted((item.id for item in self.engine.state.pending), reverse=True)
        self.engine.send(cmd.SetGate(Gate.PLAN, on=True))
        if len(waiting) > 1:
            self.engine.send(cmd.ReorderItems(tuple(waiting)))
            self.engine.send(cmd.PinItem(waiting[0]))
            text = self.engine.state.item(waiting[1]).text
            self.engine.send(cmd.EditItem(waiting[1], text, "a person thinks so too"))

    def between_rounds(self) -> None:
        """Commands before an item becomes active: one undo, and one new plan."""
        state = self.engine.state
        if state.settled == 3 and not state.undone:
            self.engine.send(cmd.UndoKeep("slower on the other machine"))
        done = any(isinstance(record.event, ev.ReplanForced) for record in self.engine.records)
        if state.settled == 4 and not done:
            self.engine.send(cmd.ForceReplan("think again"))

    def answer(self) -> None:
        """Commands when the run waits."""
        state = self.engine.state
        if state.gate and not state.gate.answer:
            self.engine.send(cmd.AnswerGate(state.gate.gate, approve=True))
        elif state.paused:
            self.engine.send(cmd.Unpause())
        elif state.mode is Mode.STEP:
            self.engine.send(cmd.Step())


class AttendedEngine(Engine):
    """The engine with a person that answers as soon as it waits."""

    person: Person | None = None

    async def _perform(self, effect: fx.Effect) -> None:
        if isinstance(effect, fx.Hold) and self.person is not None:
            self.person.answer()
        activates = isinstance(effect, fx.Step) and isinstance(effect.events[0], ev.ItemActivated)
        if activates and self.person is not None:
            self.person.between_rounds()
            if fx.next_effect(self.state, self._clock()) != effect:
                return
        await super()._perform(effect)


class WatchedFakeJudge(FakeJudge):
    """The tests' fake judge; while it measures, the person presses keys.

    A wide kernel is wrong too, so that runs have failures to diagnose.
    """

    person: Person | None = None

    async def evaluate(
        self,
        kernel: Kernel,
        incumbent: Kernel | None,
        *,
        precise: float | None = None,
        within_s: float | None = None,
        whole: bool = False,
        prior: tuple[float, ...] = (),
    ) -> Measurement:
        if self.person is not None and incumbent is not None:
            self.person.before(self.person.engine.state.next_attempt)
            text = files_of(kernel, "kernel.py").text
            if "WIDTH = 2" in text:
                kernel = text.replace('SPEED = "', 'SPEED = "WRONG"  # "')
        return await super().evaluate(kernel, incumbent, precise=precise, prior=prior)


class SweepThatGivesUp(Sweep):
    """A sweep agent that gives up once, at the edit after the second round."""

    engine: Engine | None = None

    async def complete(self, request: ChatRequest, on_delta: Callable[[str], None]) -> ChatReply:
        assert self.engine is not None
        state = self.engine.state
        gave_up = any(isinstance(record.event, ev.VisitFailed) for record in self.engine.records)
        if state.phase is Phase.EDIT and state.settled == 2 and not gave_up:
            raise ModelFailed("no reply came")
        return await super().complete(request, on_delta)


def make_task(folder: Path) -> None:
    folder.mkdir(parents=True)
    toml = f'op = "speed"\n[files]\neditable = {list(FILES)}\n'
    (folder / "task.toml").write_text(toml)
    (folder / "reference.py").write_text(REFERENCE)
    for name, text in FILES.items():
        (folder / name).write_text(text)


def find_run(folder: Path) -> Path | None:
    found = sorted(folder.glob("task/runs/[!.]*/events.jsonl"))
    return found[0].parent if found else None


def open_run(folder: Path) -> RunFolder:
    """The run in the folder, made when there is none yet."""
    path = find_run(folder)
    if path is not None:
        last = read_state(path).last_at
        return RunFolder.open(path, clock=Clock(last))
    files = Files(editable=tuple(FILES))
    task = Task(op="speed", files=files, policy=Policy(max_rounds=ROUNDS, fail_streak=1))
    return RunFolder.create(
        load_task(folder / "task"),
        task=task,
        mode=Mode.AUTO,
        agent="sweep",
        version="0",
        clock=Clock(),
        name="r",
    )


def session(folder: Path) -> RunFolder:
    """The work of one process: open, recover, run to the end, close."""
    run = open_run(folder)
    judges: list[WatchedFakeJudge] = []

    def connect(on_progress: Callable[[Progress], None]) -> WatchedFakeJudge:
        judges.append(WatchedFakeJudge(on_progress))
        return judges[0]

    model = SweepThatGivesUp(0)
    engine = AttendedEngine(run, model, connect, clock=run._clock)
    model.engine = engine
    judges[0].person = engine.person = Person(engine)

    async def work() -> None:
        try:
            await engine.run()
        finally:
            await engine.close()

    asyncio.run(work())
    return run


def outcome(folder: Path) -> dict[str, Any]:
    """The results that must not depend on kills, read from a run at rest after its checks."""
    path = find_run(folder)
    assert path is not None
    run = RunFolder.open(path)
    try:
        state = run.state
        assert state.best is not None
        refs = run.history.refs()
        assert refs.pop("refs/heads/best") == state.best.commit, "best is not the journal's"
        assert refs == {f"refs/akg/attempts/{a.number}": a.commit for a in state.attempts}
        kernel = work_files(path, state.task.files)
        assert kernel == run.history.read_files(state.best.blob), "the work tree is not the best"
        assert (path / "PLAN.md").read_text() == render_plan(state), "PLAN.md is stale"
        left = [p.name for p in path.rglob("*") if p.name.startswith("tmp_object")]
        left += [p.name for p in path.rglob("*.lock")]
        assert not left, f"left behind: {left}"
    finally:
        run.close()
    return {
        "attempts": [
            [a.number, a.round, a.item, a.verdict, a.reason, a.blob] for a in state.attempts
        ],
        "items": [[item.id, item.text, item.state] for item in state.items],
        "best": state.best.blob,
        "ended": [state.finished, state.ok],
        "events": state.seq,
    }


def damage(run: Path | None) -> None:
    """Damage a run folder as a killed writer, a power loss and a person's edits would, at once."""
    assert run is not None
    with (run / "events.jsonl").open("ab") as journal:
        journal.write(b"deadbeef {" + bytes(500))
    (run / "PLAN.md").write_text("my own plan")
    (run / "work" / "kernel.py").write_text("my own kernel")
    refs = run / "history.git" / "refs"
    (refs / "heads" / "best").write_bytes(b"")
    (refs / "heads" / "best.lock").touch()
    (refs / "akg" / "attempts" / "0").write_bytes(bytes(41))
    (run / "history.git" / "HEAD").write_bytes(b"")
    (run / "history.git" / "objects" / "tmp_object_git2_dead").write_bytes(b"x")
