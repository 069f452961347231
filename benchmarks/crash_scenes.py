"""The victims of the crash lab: what they do, how they are killed, and what must hold then.

Everything here works in forks of one process that has all it needs loaded. Nothing but
the judge and the person at the keys is made up, and both are functions of the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import mmap
import os
import random
import select
import shutil
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from akg_tui.agent.chat import ChatReply, ChatRequest, ModelFailed
from akg_tui.agent.models.sweep import Sweep
from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.machine import Mode, Phase
from akg_tui.core.measurement import Measurement, Progress
from akg_tui.core.plan_view import render_plan
from akg_tui.core.task import Policy, Task
from akg_tui.engine.engine import Engine
from akg_tui.store.errors import StoreError
from akg_tui.store.journal import Journal
from akg_tui.store.journal_lines import Prepared
from akg_tui.store.run_folder import RunFolder, read_state
from akg_tui.store.task_folder import load_task
from benchmarks import disk_faults
from benchmarks.crashlab import Case
from benchmarks.disk_faults import How, Step
from benchmarks.power_loss import Disk
from tests.engine.fake_judge import FakeJudge
from tests.engine.runs import REFERENCE, Clock

ROUNDS = 6
KERNEL = """\
SPEED = "A"  # tune: ["A", "B", "C", "WRONG"]
WIDTH = 1  # tune: [1, 2]


class ModelNew:
    pass
"""
RECOVERY = {"SessionOpened", "EvalInterrupted", "ToolAnswered", "TurnInterrupted", "PlanEdited"}
STOPPED, BROKEN = 10, 11
Fault = tuple[str, str]
KINDS = ("lost", "doubled", "unevaluated_bests", "diverged", "other")


class Scene(NamedTuple):
    """A folder to begin with, the steps of an undisturbed session in it, how many to try."""

    name: str
    folder: Path
    steps: list[Step]
    tried: int


class Loss(NamedTuple):
    """A power loss after so many steps of the whole run; `how` draws what survives."""

    step: int
    how: str
    seed: int


class Person:
    """Sends commands at the keyboard, each due by the state alone, so a resumed run has them."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def before(self, attempt: int) -> None:
        """What is pressed while this attempt is measured."""
        modes = {1: Mode.STEP, 2: Mode.REVIEW, 4: Mode.AUTO}
        if attempt in modes:
            self.engine.send(cmd.SetMode(modes[attempt]))
        if attempt == 2:
            policy = self.engine.state.task.policy
            self.engine.send(cmd.ChangePolicy(replace(policy, max_hours=100.0)))
        if attempt == 3:
            self.engine.send(cmd.Hint("think of the caches"))
            self.engine.send(cmd.Pause())
        if attempt == ROUNDS:
            self.engine.send(cmd.Stop("enough for today"))

    def answer(self) -> None:
        """What is pressed when the run waits."""
        state = self.engine.state
        if state.gate and not state.gate.answer:
            self.engine.send(cmd.AnswerKeep(state.gate.gate, approve=True))
        elif state.paused:
            self.engine.send(cmd.Unpause())
        elif state.mode is Mode.STEP:
            self.engine.send(cmd.Step())


class AttendedEngine(Engine):
    """The engine, with a person in front of it who answers as soon as it waits."""

    person: Person | None = None

    async def _perform(self, effect: fx.Effect) -> None:
        if isinstance(effect, fx.Hold) and self.person is not None:
            self.person.answer()
        await super()._perform(effect)


class WatchedFakeJudge(FakeJudge):
    """The tests' fake judge; while it measures, the person presses keys.

    A wide kernel is wrong too, so that runs have failures to diagnose.
    """

    person: Person | None = None

    async def evaluate(self, kernel: str, incumbent: str | None) -> Measurement:
        if self.person is not None and incumbent is not None:
            self.person.before(self.person.engine.state.next_attempt)
            if "WIDTH = 2" in kernel:
                kernel = kernel.replace('SPEED = "', 'SPEED = "WRONG"  # "')
        return await super().evaluate(kernel, incumbent)


class FaintheartedSweep(Sweep):
    """The sweep agent, which gives up once: when it is to edit after the second round."""

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
    (folder / "task.toml").write_text('op = "speed"\n')
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "kernel.py").write_text(KERNEL)


def find_run(folder: Path) -> Path | None:
    found = sorted(folder.glob("task/runs/[!.]*/events.jsonl"))
    return found[0].parent if found else None


def open_run(folder: Path) -> RunFolder:
    """The run in the folder, made when there is none yet."""
    path = find_run(folder)
    if path is not None:
        last = read_state(path).last_at
        return RunFolder.open(path, clock=Clock(last))
    task = Task(op="speed", policy=Policy(max_rounds=ROUNDS, fail_streak=1))
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
    """What one process does: open, recover, work to the end, close."""
    run = open_run(folder)
    judges: list[WatchedFakeJudge] = []

    def connect(on_progress: Callable[[Progress], None]) -> WatchedFakeJudge:
        judges.append(WatchedFakeJudge(on_progress))
        return judges[0]

    model = FaintheartedSweep(0)
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
    """What must not depend on when the run was killed, from a run at rest; checked whole."""
    path = find_run(folder)
    assert path is not None
    run = RunFolder.open(path)
    try:
        state = run.state
        assert state.best is not None
        refs = run.history.refs()
        assert refs.pop("refs/heads/best") == state.best.commit, "best is not the journal's"
        assert refs == {f"refs/akg/attempts/{a.number}": a.commit for a in state.attempts}
        kernel = (path / "work" / "kernel.py").read_bytes()
        assert kernel == run.history.read_blob(state.best.blob), "the work tree is not the best"
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


class Lab:
    """Scenes, and what is done to copies of them. `folder` is emptied by nobody else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.case = folder / "case"
        make_task(folder / "warm" / "task")
        session(folder / "warm")  # loads all that a session needs, once for every fork
        self._acked = mmap.mmap(-1, 8)
        self._watch_commits()
        self._scenes = self._make_scenes()

    # What a process has been told is durable survives its death here, in shared memory.
    def _watch_commits(self) -> None:
        commit, acked = Journal.commit, self._acked
        self.on_commit: Callable[[int], None] = lambda seq: None

        def watched(journal: Journal, prepared: Prepared) -> ev.Record:
            record = commit(journal, prepared)
            acked[:8] = record.seq.to_bytes(8, "little")
            self.on_commit(record.seq)
            return record

        Journal.commit = watched  # type: ignore[method-assign]

    def _make_scenes(self) -> dict[str, Scene]:
        empty = self.folder / "create"
        make_task(empty / "task")
        (empty / "task" / "runs").mkdir()
        whole = self.folder / "whole"
        make_task(whole / "task")
        self._fork(lambda: open_run(whole).close())
        steps = {"create": self._trace(empty), "whole": self._trace(whole)}
        self.expected = self._told(lambda: outcome(self.case))
        names = [of_step(steps["whole"], i) for i in range(len(steps["whole"]))]
        scenes = {
            "whole": Scene("whole", whole, steps["whole"], len(names)),
            "create": Scene("create", empty, steps["create"], _recovered(steps["create"])),
        }
        for name, last in (("in an edit", "ToolCalled"), ("in an eval", "EvalStarted")):
            places = [i for i, told in enumerate(names) if told == f"sync of event {last}"]
            folder = self.folder / name.replace(" ", "-")
            self._copy(whole)
            self._victim(lambda at=places[-2] + 1: self._work(How.KILL_AFTER, at))
            _spoil(find_run(self.case))
            self.case.rename(folder)
            traced = self._trace(folder)
            scenes[name] = Scene(name, folder, traced, _recovered(traced))
        return scenes

    def _trace(self, scene: Path) -> list[Step]:
        """The steps of a session in a copy of `scene`, which is left at its end."""
        self._copy(scene)
        reader, writer = os.pipe()

        def traced() -> None:
            disk_faults.arm(self.case, trace=writer)
            session(self.case)
            disk_faults.disarm()

        chunks: list[bytes] = []
        self._fork(traced, (reader, writer), chunks.append)
        return disk_faults.read_trace(b"".join(chunks))

    def cases(self) -> list[Case]:
        """Every point there is."""
        found = []
        for scene in self._scenes.values():
            for index in range(scene.tried):
                what = of_step(scene.steps, index)
                for how, error in _faults(scene.steps[index]):
                    found.append(Case(scene.name, how, index + 1, error, what))
        return found

    def losses(self, count: int, dice: random.Random) -> list[Loss]:
        """Power losses, at steps drawn at random."""
        total = len(self._scenes["whole"].steps)
        return [
            Loss(dice.randint(1, total), ("all", "some")[number % 2], dice.randrange(2**32))
            for number in range(count)
        ]

    def event_types(self, cases: list[Case]) -> tuple[int, list[str]]:
        """How many kinds of event had a point at their write, and those that had none."""
        told = {case.point.rpartition("event ")[2] for case in cases if "event" in case.point}
        kinds = {kind.__name__ for kind in ev.Event.__subclasses__()}
        return len(told & kinds), sorted(kinds - told)

    def judge(
        self,
        work: Callable[[], tuple[list[str], list[Fault]]],
        what: str,
        told: Counter[str],
        faults: list[str],
    ) -> None:
        """Do one case and count what came of it."""
        try:
            outcomes, found = work()
        except Exception:  # noqa: BLE001  one broken case is a finding, not the lab's end
            outcomes, found = [], [("other", traceback.format_exc(limit=-3))]
        told.update(outcomes)
        for kind, why in found:
            told[kind] += 1
            faults.append(f"{what}: {kind}: {why}")

    def point(self, case: Case) -> tuple[list[str], list[Fault]]:
        """One point; then a resume that must end as if nothing had been."""
        self._copy(self._scenes[case.scene].folder)
        result, told = self._victim(
            lambda: self._work(case.how, case.step, error=case.error or errno.ENOSPC)
        )
        faults = self._after()
        if result == "broken":
            faults.append(("other", told))
        if case.error == 0 and result != "killed":
            faults.append(("other", f"the step was never taken: {result}"))
        return [result], faults + self._resumed()

    def kill(self, dice: random.Random) -> tuple[list[str], list[Fault]]:
        """SIGKILL from outside at a random event and moment, now and then again on resuming."""
        self._copy(self._scenes["whole"].folder)
        results, faults = [], []
        events = self.expected["events"]
        for among in (events - 2, 12):
            after, delay = dice.randrange(1, among), dice.uniform(0.0, 0.002)
            reader, writer = os.pipe()

            def work(after: int = after, writer: int = writer) -> None:
                left = [after]

                def count(seq: int) -> None:
                    left[0] -= 1
                    if left[0] == 0:
                        os.write(writer, b"!")

                self.on_commit = count
                session(self.case)

            result, told = self._victim(work, (reader, writer), delay)
            results.append(result)
            faults += self._after()
            if result == "broken":
                faults.append(("other", told))
            if dice.random() > 0.3:
                break
        return results, faults + self._resumed()

    def power_loss(self, loss: Loss) -> tuple[list[str], list[Fault]]:
        """What a disk may hold after a power loss; then a resume."""
        scene = self._scenes["whole"]
        disk = Disk(self.case, scene.folder)
        for step in scene.steps[: loss.step]:
            disk.take(step)
        shutil.rmtree(self.case, ignore_errors=True)
        disk.survive(loss.how, random.Random(loss.seed))
        synced = [
            index
            for index, step in enumerate(scene.steps[: loss.step])
            if of_step(scene.steps, index).startswith("sync of event ")
        ]
        first = (scene.folder / "task/runs/r/events.jsonl").read_bytes().count(b"\n")
        self._acked[:8] = (first + len(synced)).to_bytes(8, "little")
        faults = self._after(projections=False)
        return [], faults + self._resumed()

    def _work(self, how: How, step: int, error: int = errno.ENOSPC) -> None:
        disk_faults.arm(self.case, how, step, error=error)
        session(self.case)
        disk_faults.disarm()

    def _copy(self, scene: Path) -> None:
        shutil.rmtree(self.case, ignore_errors=True)
        shutil.copytree(scene, self.case)
        self._acked[:8] = bytes(8)

    def _after(self, *, projections: bool = True) -> list[Fault]:
        """What holds before anybody mends anything."""
        path = find_run(self.case)
        acked = int.from_bytes(self._acked[:8], "little")
        if path is None:
            # A run that was not yet in its place was told of by an error, and is made anew.
            self._acked[:8] = bytes(8)
            return [("lost", f"{acked} events, with the run")] if acked > 1 else []
        data = (path / "events.jsonl").read_bytes()
        whole = data.split(b"\n")[:-1]
        self._durable = b"".join(line + b"\n" for line in whole[:acked])
        if len(whole) < acked:
            return [("lost", f"event {acked} was durable, the journal has {len(whole)}")]
        state = read_state(path)
        faults = _counted([attempt.round for attempt in state.attempts])
        best = path / "history.git" / "refs" / "heads" / "best"
        if projections and best.exists() and best.stat().st_size:
            commit = best.read_text().strip()
            if commit not in {attempt.commit for attempt in state.attempts}:
                faults.append(("unevaluated_bests", f"{commit} is best and was never settled"))
        return faults

    def _resumed(self) -> list[Fault]:
        """Resume to the end, undisturbed, and compare."""
        acked = int.from_bytes(self._acked[:8], "little")

        def finish() -> dict[str, Any]:
            session(self.case)
            return outcome(self.case)

        try:
            ended = self._told(finish)
        except AssertionError as error:
            return [("other", f"not resumed: {error}")]
        faults = _counted([attempt[1] for attempt in ended["attempts"]])
        path = find_run(self.case)
        assert path is not None
        if acked and not (path / "events.jsonl").read_bytes().startswith(self._durable):
            faults.append(("lost", "what was durable was changed"))
        measured = _measured(path)
        if ended["best"] not in measured:
            faults.append(("unevaluated_bests", ended["best"]))
        for name in ("attempts", "items", "best", "ended"):
            if ended[name] != self.expected[name]:
                kind = "lost" if len(ended[name]) < len(self.expected[name]) else "diverged"
                faults.append((kind, f"{name}: {ended[name]}, not {self.expected[name]}"))
        return faults

    def _told(self, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What `work` gives in a fork. Raises `AssertionError` with its trace if it failed."""
        reader, writer = os.pipe()
        chunks: list[bytes] = []

        def telling() -> None:
            data = json.dumps(work()).encode()
            while data:
                data = data[os.write(writer, data) :]

        self._fork(telling, (reader, writer), chunks.append)
        told = json.loads(b"".join(chunks))
        assert isinstance(told, dict)
        return told

    def _fork(
        self,
        work: Callable[[], object],
        pipe: tuple[int, int] | None = None,
        on_data: Callable[[bytes], object] = bytes,
    ) -> None:
        """Do `work` in a fork that must succeed."""
        result, told = self._victim(work, pipe, on_data=on_data)
        assert result == "ended", f"{result}: {told}"

    def _victim(
        self,
        work: Callable[[], object],
        pipe: tuple[int, int] | None = None,
        kill_after: float | None = None,
        on_data: Callable[[bytes], object] = bytes,
    ) -> tuple[str, str]:
        """Fork, work, and say what became of it: ended, stopped, killed or broken; and why.

        With `kill_after`, the first byte from the pipe is the sign to kill, so many
        seconds later.
        """
        errors, told = os.pipe()
        child = os.fork()
        if child == 0:
            _be_the_victim(work, told)
        os.close(told)
        readers = [errors]
        if pipe is not None:
            os.close(pipe[1])
            readers.append(pipe[0])
        why = b""
        while readers:
            for ready in select.select(readers, [], [])[0]:
                data = os.read(ready, 1 << 20)
                if not data:
                    readers.remove(ready)
                    os.close(ready)
                elif ready == errors:
                    why += data
                elif kill_after is None:
                    on_data(data)
                else:
                    time.sleep(kill_after)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            return "killed", ""
        names = {0: "ended", STOPPED: "stopped"}
        return names.get(os.WEXITSTATUS(status), "broken"), why.decode(errors="replace")


def _be_the_victim(work: Callable[[], object], told: int) -> None:
    """In the fork: never comes back."""
    status = BROKEN
    try:
        work()
        status = 0
    except StoreError as error:
        text = str(error)
        status = STOPPED if text.isprintable() and len(text) > 10 else BROKEN
        os.write(told, text.encode())
    except BaseException:  # noqa: BLE001  told, and the exit status says it
        os.write(told, traceback.format_exc(limit=-4).encode()[-60_000:])
    finally:
        os._exit(status)


def _faults(step: Step) -> list[tuple[How, int]]:
    """What may happen at a step. An error may pass, or stay as long as the process lives."""
    kills = [How.KILL_BEFORE, How.KILL_AFTER]
    if step.op in ("write", "pwrite"):
        kills.insert(1, How.KILL_IN_THE_MIDDLE)
    errors = [errno.EIO]
    if step.op in ("write", "create", "mkdir", "rename", "link"):
        errors.append(errno.ENOSPC)
    fails = [(how, error) for error in errors for how in (How.FAIL_ONCE, How.FAIL_FROM_HERE)]
    return [(how, 0) for how in kills] + fails


def of_step(steps: list[Step], index: int) -> str:
    """A step in words: `sync of event Decided`, `rename of git ref`, …"""
    step = steps[index]
    return f"{step.op} of {_thing(steps, index)}"


def _thing(steps: list[Step], index: int) -> str:
    step = steps[index]
    path = Path(step.path)
    if path.name == "events.jsonl":
        return _event(steps, index)
    if "history.git" in path.parts:
        inside = path.parts[path.parts.index("history.git") + 1 :]
        if not inside:
            return "git folder"
        if inside[0] == "refs":
            return "git ref" if path.suffix in (".lock", "") and len(inside) > 2 else "git refs"
        if inside[0] == "objects":
            return "git object" if "tmp_object" in path.name or len(inside) > 2 else "git objects"
        return f"git {inside[0]}"
    for name in ("PLAN.md", "lock", "work", "task"):
        if name in path.name or path.parent.name == name:
            return name
    return "folder"


def _event(steps: list[Step], index: int) -> str:
    """Which event a step on the journal is for."""
    if steps[index].op == "pwrite":
        return "the journal's end"
    for step in reversed(steps[: index + 1]):
        if step.path == steps[index].path:
            if step.op == "write":
                payload = step.data[9:]
                return f"event {json.loads(payload)['event']['type']}"
            if step.op in ("pwrite", "truncate", "create"):
                return "the journal's end"
    return "the journal"


def _recovered(steps: list[Step]) -> int:
    """How many steps there are before the first event that is not of the recovery."""
    for index, step in enumerate(steps):
        if step.op == "write" and Path(step.path).name == "events.jsonl":
            kind = json.loads(step.data[9:])["event"]["type"]
            if kind not in RECOVERY and kind != "RunCreated":
                return index
    raise AssertionError("the session took no step of its own")


def _spoil(run: Path | None) -> None:
    """What a killed writer, a power loss and a person leave behind, all at once."""
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


def _counted(rounds: list[int]) -> list[Fault]:
    faults: list[Fault] = []
    if len(set(rounds)) < len(rounds):
        faults.append(("doubled", f"rounds {rounds}"))
    if set(rounds) != set(range(len(set(rounds)))):
        faults.append(("lost", f"rounds {rounds}"))
    return faults


def _measured(run: Path) -> set[str]:
    """The kernels that were measured and found correct, by the journal alone."""
    begun, good = "", set()
    for line in (run / "events.jsonl").read_bytes().splitlines():
        event = json.loads(line[9:])["event"]
        if event["type"] == "EvalStarted":
            begun = event["blob"]
        if event["type"] == "EvalFinished" and event["measurement"]["outcome"] == "correct":
            good.add(begun)
    return good
