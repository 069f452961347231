"""Asks what references need: starts `size_process` and waits for its answers.

Runs in the process of a command, so it must never import torch.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from akg_tui.core.task import Task
from akg_tui.evaluate.processes.draws import fixed_draws
from akg_tui.evaluate.reference_fault import Fault
from akg_tui.evaluate.targets.adapters import adapters
from akg_tui.problems.inductor.generated import Generated
from akg_tui.sizing.needs import Answer, Ask, Needs, Question

END_S = 12.0


class ReferenceRefused(Exception):
    """A reference can't be used; the message is one line with file and, if known, line."""

    def __init__(self, fault: Fault, filename: str) -> None:
        super().__init__(fault.located(filename))
        self.fault = fault


class ProbeLost(Exception):
    """The sizing process ended or can't be started; the message is the end of its log."""


class SizeProbe:
    """A sizing process for references of one target and DSL, as a context manager.

    One that `generates` loads torch.compile at its start, which takes seconds.
    """

    def __init__(self, task: Task, *, generates: bool = False) -> None:
        self._generates = generates
        self._arch = task.target.arch
        self._target, self._dsl = adapters(task)
        self._threads = task.timing.threads

    def __enter__(self) -> Self:
        self._start()
        return self

    def _start(self) -> None:
        self._closing = contextlib.ExitStack()
        scratch = self._closing.enter_context(tempfile.TemporaryDirectory(prefix="akg-new-"))
        self._log = Path(scratch) / "process.log"
        environment = self._target.environment(self._threads)
        environment |= self._dsl.environment(self._target.name) | fixed_draws()
        if self._generates:
            # The compiler would use a GPU that it sees, and a forked process can't.
            environment["CUDA_VISIBLE_DEVICES"] = ""
        ours, theirs = socket.socketpair()
        self._closing.callback(self._end)
        self._closing.enter_context(ours)
        self._socket = ours
        self._answers = self._closing.enter_context(ours.makefile("rb"))
        with theirs, self._log.open("wb") as log:
            # In a new session: an interrupt typed in the terminal is for the command only.
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "akg_tui.sizing.size_process"),
                    *(str(theirs.fileno()), self._target.name, self._dsl.name, str(os.getpid())),
                    *([self._arch] if self._generates else []),
                ],
                env=environment,
                cwd=scratch,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.close()

    @property
    def pid(self) -> int:
        """The sizing process."""
        return self._process.pid

    def ask(self, question: Question, task: Task, source: str, filename: str) -> Needs | None:
        """Return the needs of a reference under the constants of a task.

        Raises
        ------
        ReferenceRefused
            The reference can't be used so.
        ProbeLost
            The sizing process ended. The next question is for a new one.
        """
        return self._answer(question, task, source, filename).needs

    def examine(self, task: Task, source: str, filename: str) -> Answer:
        """Return what the judge finds of inputs and contract; raises as `ask` does."""
        return self._answer("examine", task, source, filename)

    def generate(self, task: Task, source: str, filename: str) -> Generated:
        """Return what torch.compile generates for a reference; raises as `ask` does."""
        found = self._answer("generate", task, source, filename).generated
        if found is None:
            raise ProbeLost("the sizing process did not answer")
        return found

    def _answer(self, question: Question, task: Task, source: str, filename: str) -> Answer:
        try:
            self._socket.sendall(msgspec.json.encode(Ask(question, task, source, filename)) + b"\n")
            answer = msgspec.json.decode(self._answers.readline(), type=Answer)
        except (OSError, msgspec.MsgspecError) as error:
            lines = self._log.read_text("utf-8", "replace").strip().splitlines()
            # The next reference gets a new process.
            self._closing.close()
            self._start()
            raise ProbeLost(lines[-1] if lines else "the sizing process ended") from error
        if answer.refused:
            raise ReferenceRefused(answer.refused, filename)
        return answer

    def _end(self) -> None:
        """Wait for the process, whose socket is closed; kill it if it stays."""
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
