"""The victims of the crash lab: how they are killed, and the invariants checked afterwards.

The victims are forks of one process that has imported everything they need.
"""

from __future__ import annotations

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
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from akg_tui.core import events as ev
from akg_tui.store.errors import StoreError
from akg_tui.store.journal import Journal
from akg_tui.store.journal_format import Prepared
from akg_tui.store.run_list import read_state
from benchmarks.crashlab import disk_faults
from benchmarks.crashlab.disk_faults import How, Step
from benchmarks.crashlab.lab import Case
from benchmarks.crashlab.power_loss import Disk
from benchmarks.crashlab.scenes import damage, find_run, make_task, open_run, outcome, session
from benchmarks.crashlab.steps import faults_of, of_step, recovered

STOPPED, BROKEN = 10, 11
Fault = tuple[str, str]


class Scene(NamedTuple):
    """A start folder, the steps of an undisturbed session in it, and how many of them to try."""

    name: str
    folder: Path
    steps: list[Step]
    tried: int


class Loss(NamedTuple):
    """A power loss after so many steps of the whole run; `how` draws what survives."""

    step: int
    how: str
    seed: int


class Lab:
    """Scenes, and faults in copies of them. No other code may write to `folder`."""

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

        Journal.commit = watched  # type: ignore[method-assign,assignment]

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
            "create": Scene("create", empty, steps["create"], recovered(steps["create"])),
        }
        for name, last in (("in an edit", "ToolCalled"), ("in an eval", "EvalStarted")):
            places = [i for i, told in enumerate(names) if told == f"sync of event {last}"]
            folder = self.folder / name.replace(" ", "-")
            self._copy(whole)
            self._victim(partial(self._work, How.KILL_AFTER, places[-2] + 1))
            damage(find_run(self.case))
            self.case.rename(folder)
            traced = self._trace(folder)
            scenes[name] = Scene(name, folder, traced, recovered(traced))
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
                for how, error in faults_of(scene.steps[index]):
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
        """Number of kinds of event with a point at their write, and the kinds without one."""
        told = {case.point.rpartition("event ")[2] for case in cases if "event" in case.point}
        kinds = {kind.__name__ for kind in ev.event_classes()}
        return len(told & kinds), sorted(kinds - told)

    def judge(
        self,
        work: Callable[[], tuple[list[str], list[Fault]]],
        what: str,
        told: Counter[str],
        faults: list[str],
    ) -> None:
        """Do one case and count its result."""
        try:
            outcomes, found = work()
        except Exception:  # noqa: BLE001  one broken case is a finding, not the lab's end
            outcomes, found = [], [("other", traceback.format_exc(limit=-3))]
        told.update(outcomes)
        for kind, why in found:
            told[kind] += 1
            faults.append(f"{what}: {kind}: {why}")

    def point(self, case: Case) -> tuple[list[str], list[Fault]]:
        """One point; then a resume, whose end must be that of an undisturbed run."""
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
        """A state of the disk that a power loss allows; then a resume."""
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
        # A socket that a dead process left is no file that could be copied.
        shutil.copytree(scene, self.case, ignore=shutil.ignore_patterns("*.sock"))
        self._acked[:8] = bytes(8)

    def _after(self, *, projections: bool = True) -> list[Fault]:
        """Check the invariants that hold before recovery."""
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
        faults = counted([attempt.round for attempt in state.attempts])
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
        faults = counted([attempt[1] for attempt in ended["attempts"]])
        path = find_run(self.case)
        assert path is not None
        if acked and not (path / "events.jsonl").read_bytes().startswith(self._durable):
            faults.append(("lost", "what was durable was changed"))
        evaluated = measured(path)
        if ended["best"] not in evaluated:
            faults.append(("unevaluated_bests", ended["best"]))
        for name in ("attempts", "items", "best", "ended"):
            if ended[name] != self.expected[name]:
                kind = "lost" if len(ended[name]) < len(self.expected[name]) else "diverged"
                faults.append((kind, f"{name}: {ended[name]}, not {self.expected[name]}"))
        return faults

    def _told(self, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The result of `work` in a fork. Raises `AssertionError` with its trace if it failed."""
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
        """Fork and work; return how the fork ended (ended, stopped, killed, broken) and why.

        With `kill_after`, the first byte from the pipe is the sign to kill, so many
        seconds later.
        """
        errors, told = os.pipe()
        child = os.fork()
        if child == 0:
            _run_victim(work, told)
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


def _run_victim(work: Callable[[], object], told: int) -> None:
    """Run `work` in the fork; never returns."""
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


def counted(rounds: list[int]) -> list[Fault]:
    """Return what is wrong with the rounds of all attempts."""
    faults: list[Fault] = []
    if len(set(rounds)) < len(rounds):
        faults.append(("doubled", f"rounds {rounds}"))
    if set(rounds) != set(range(len(set(rounds)))):
        faults.append(("lost", f"rounds {rounds}"))
    return faults


def measured(run: Path) -> set[str]:
    """Return the kernels that the journal says were measured and found correct."""
    begun, good = "", set()
    for line in (run / "events.jsonl").read_bytes().splitlines():
        event = json.loads(line[9:])["event"]
        if event["type"] == "EvalStarted":
            begun = event["blob"]
        if event["type"] == "EvalFinished" and event["measurement"]["outcome"] == "correct":
            good.add(begun)
    return good
