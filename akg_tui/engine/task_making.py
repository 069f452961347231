"""Makes a task folder of a problem: reads it, finds sizes that fit, writes a first kernel, checks.

The reference runs only in the confined children of the sizing process and of the judge. Nothing is
written before all checks have passed.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from akg_tui.core.measurement import FailureKind, Measurement, Outcome
from akg_tui.core.sanitize import one_line
from akg_tui.core.task import Task
from akg_tui.dsl.adapters import DSLS
from akg_tui.engine.size_search import LONGEST_S, SizeSearch
from akg_tui.engine.task_draft import Draft, NewTask, Tell
from akg_tui.engine.task_fitting import TaskFitting
from akg_tui.engine.task_repairs import Examination
from akg_tui.evaluate import Judge
from akg_tui.evaluate.reference_fault import FaultKind
from akg_tui.evaluate.targets.adapters import lacking
from akg_tui.evidence.compile_gate import refusal
from akg_tui.problems.formats import read_problem
from akg_tui.problems.inductor.module import NoSeed
from akg_tui.problems.inductor.seed import is_library_only, kernel_of
from akg_tui.problems.problem import Problem, readme
from akg_tui.problems.seeds import model_text
from akg_tui.sizing.size_probe import ProbeLost, ReferenceRefused, SizeProbe
from akg_tui.store.errors import BadTask
from akg_tui.store.filesystem import is_folder
from akg_tui.store.reference_constants import constants
from akg_tui.store.task_folder import (
    TaskFolder,
    check_arch,
    check_empty,
    check_kernel,
    op_named,
    write_texts,
)

DROPOUT = (
    "dropout in training mode gives two results for one input: call self.eval() at the end of "
    "__init__, or set p = 0"
)


def own_task(wanted: NewTask) -> NewTask:
    """Return how a task of a reference of one's own is made, which has no kernel.

    It has the folder's name, and its first kernel is generated where that is possible.
    """
    op = op_named(wanted.folder.resolve().name)
    if not wanted.own_seed or wanted.dsl == "torch":
        return dataclasses.replace(wanted, op=op)
    return dataclasses.replace(wanted, op=op, own_seed=False, inductor=True, or_reference=True)


def make_task(wanted: NewTask, tell: Tell, probe: SizeProbe | None = None) -> TaskFolder:
    """Make the folder; `tell` is called with each decision, in one line.

    A running `probe` of the same target and DSL saves the time of starting one; with
    `wanted.inductor` it must be one that generates.

    Raises
    ------
    BadTask
        If the problem, the sizes or the folder can't be used. Nothing is written then.
    """
    if is_folder(wanted.folder):
        check_empty(wanted.folder)
    check_arch(wanted.folder, wanted.arch)
    problem = read_problem(wanted.origin, wanted.format)
    if wanted.op:
        problem = dataclasses.replace(problem, op=wanted.op)
    tell(f"{problem.what}: {_about(problem)}")
    draft = Draft(wanted, problem, tell)
    draft.check_sizes()
    first = _FirstKernel(draft)
    first.check()  # before the reference is run
    if why := lacking(draft.task()):
        first.refuse_to_generate(why)
        draft.decide(f"not checked, because it can't run here: {why}")
        first.decide_unverified(why)
    else:
        _fit_and_examine(draft, first, probe)
    if wanted.unwritten:
        draft.decide("no first kernel: the agent writes it")
    for each in (*draft.problem.changed, *draft.problem.kept_out):
        tell(f"note: {each}")
    files = {
        "reference.py": draft.problem.reference,
        **draft.kernel_files(),
        "README.md": readme(draft.problem, draft.decisions),
    }
    return write_texts(wanted.folder, files, draft.toml())


def _about(problem: Problem) -> str:
    known = constants(problem.reference)
    sizes = ", ".join(f"{each.name} = {each.value}" for each in known.values())
    return one_line(sizes, 160) or "it has no sizes as numbers at its top level"


def _fit_and_examine(draft: Draft, first: _FirstKernel, given: SizeProbe | None) -> None:
    """Find sizes that fit if wanted, refuse those that can't, and examine the reference."""
    draft.tell("looking at what it needs, in a sandboxed process")
    own = SizeProbe(draft.task(), generates=first.generates and not first.generates_apart)
    sizing = own if given is None else contextlib.nullcontext(given)
    with _refusals(draft), sizing as probe:
        search = SizeSearch(
            probe,
            draft.task(),
            lambda: draft.problem.reference,
            draft.problem.filename,
            fixed=draft.wanted.sizes,
            fit=draft.wanted.fit,
            tell=draft.tell,
        )
        TaskFitting(draft, search).fit()
        draft.tell("checking it as the judge will")
        Examination(draft, search).run()
        if draft.check:
            draft.decide("results are judged by the problem's own check, not element by element")
        for told in draft.contract:
            draft.decide(told)
        for name, words in draft.inputs.items():
            draft.decide(f"input {name} is always {', '.join(words)}: a kernel may count on that")
        for remark in draft.remarks:
            draft.decide(remark)
        first.make(probe)


@contextlib.contextmanager
def _refusals(draft: Draft) -> Iterator[None]:
    """Turn a refused reference into a fault of the problem's file."""
    try:
        yield
    except ProbeLost as error:
        raise BadTask(draft.problem.origin, None, "", f"can't be checked: {error}") from error
    except ReferenceRefused as error:
        fault = error.fault
        line, message = fault.line, fault.told("state --free-inputs {name}")  # no task.toml yet
        if fault.kind is FaultKind.UNSTEADY and (dropout := draft.line_of("dropout")):
            line, message = dropout, DROPOUT
        elif fault.kind is FaultKind.NO_GPU:
            message = "it calls a Triton kernel, which needs a GPU"
        elif fault.kind is FaultKind.SLOW and draft.wanted.fit:
            longest = LONGEST_S["measure"]
            message = f"to draw inputs and call it takes over {longest:g} s with each size tried"
        if fault.file:
            message = f"{fault.file}: {message}"
        raise draft.refusal(one_line(message, 400), line) from error


class _FirstKernel:
    """The first kernel of a draft: generated by torch.compile if wanted, and verified."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._wanted = draft.wanted
        self.generates = draft.wanted.inductor

    def check(self) -> None:
        """Refuse a seed that can't be used, as far as that is known before the reference runs."""
        if not self._wanted.inductor:
            self._draft.kernel()
            return
        backend, dsl = self._wanted.backend, self._draft.dsl
        if backend not in DSLS[dsl].generated_for:
            self.refuse_to_generate(
                "it writes C++ (cpp) for the CPU, and Triton (triton) for a GPU or Triton's "
                f"interpreter (cpu), not {dsl} for {backend}"
            )
        elif why := DSLS[dsl].generator_lacking():
            self.refuse_to_generate(why)

    def refuse_to_generate(self, why: str) -> None:
        """Refuse the seed `inductor`, or take the reference's kernel if that may stand for it."""
        if not self.generates:
            return
        wanted, origin = self._wanted, self._draft.problem.origin
        if not wanted.or_reference:
            raise BadTask(origin, None, "--seed inductor", why)
        if wanted.dsl:  # a kernel in another language is not what was wanted
            why = f"{why}; state --kernel FILE, or --seed write and let a model write it"
            raise BadTask(origin, None, f"--dsl {wanted.dsl}", why)
        self._take_reference(f"torch.compile generates none: {why}")

    def _take_reference(self, why: str) -> None:
        """Make the first kernel of the reference's own code, instead of a generated one."""
        draft = self._draft
        self.generates, draft.generated = False, None
        draft.dsl = self._wanted.dsl or draft.problem.dsl or "torch"
        draft.kernel()  # it may be refused
        draft.decide(f"the first kernel is the reference's own code: {why}")

    @property
    def generates_apart(self) -> bool:
        """Whether a process of its own generates, because the other one uses the device."""
        return self._wanted.backend != "cpu"

    def make(self, probe: SizeProbe) -> None:
        """Let torch.compile generate the first kernel if wanted; verify one that is made here."""
        draft = self._draft
        if not draft.is_verified_here:
            self._try_to_generate(probe)
            return
        with tempfile.TemporaryDirectory(prefix="akg-new-") as scratch, asyncio.Runner() as runner:
            home = Path(scratch) / "judge"
            # Of the DSL that is wanted; it verifies the reference's own code as well.
            reference = draft.problem.reference
            judge = Judge(draft.task(), reference, home, prefetch=False, gate=refusal)

            def verified() -> Measurement:
                draft.tell("verifying the first kernel, as akg-tui eval does")
                return runner.run(judge.probe(draft.kernel(), timed=False))

            try:
                runner.run(judge.prepare())  # it starts while code is generated
                self._try_to_generate(probe)
                found = verified()
                if found.outcome is Outcome.FAILED and draft.generated is not None:
                    why = one_line(found.message, 200)
                    self._take_reference(f"what torch.compile generates is wrong here: {why}")
                    found = verified()
            finally:
                runner.run(judge.close())
        if found.outcome is Outcome.ERROR or found.failure is FailureKind.UNSUPPORTED:
            self.decide_unverified(found.message)
        elif found.outcome is Outcome.FAILED:
            draft.decide(f"the first kernel is not correct: {one_line(found.message, 200)}")
        else:
            draft.decide("the first kernel is correct")

    def decide_unverified(self, why: str) -> None:
        """Say that a kernel made here was not verified."""
        if self._draft.is_verified_here:
            self._draft.decide(f"the first kernel is not verified here: {one_line(why, 200)}")

    def _try_to_generate(self, probe: SizeProbe) -> None:
        if not self.generates:
            return
        try:
            if self.generates_apart:
                task = _without_device(self._draft.task())
                with SizeProbe(task, generates=True) as apart:
                    self._generate(apart)
            else:
                self._generate(probe)
        except (ReferenceRefused, ProbeLost) as error:
            if not self._wanted.or_reference:
                raise
            self.refuse_to_generate(one_line(str(error), 300))

    def _generate(self, probe: SizeProbe) -> None:
        draft, problem = self._draft, self._draft.problem
        draft.tell("letting torch.compile generate code, in a sandboxed process")
        task = draft.task()
        if task.cases:
            first = task.cases[0]
            draft.decide(f"generated for case {first.name}; in the others Model's own forward runs")
            changed = replace(task.reference, constants=task.constants(first))
            task = replace(task, reference=changed, cases=())
        generated = probe.generate(_without_device(task), problem.reference, problem.filename)
        try:
            model = model_text(problem.reference, draft.values, task.reference.gradients)
            origin = one_line(problem.origin.name, 60)
            text = kernel_of(generated, model, origin)
            check_kernel(Path("kernel.py"), text.encode())
        except (NoSeed, BadTask) as error:
            self.refuse_to_generate(one_line(str(error), 300))
            return
        draft.generated = text
        if generated.arch:
            told = f"Triton is generated for {generated.arch}"
            if task.target.arch not in ("", generated.arch):
                told += f": the properties of {task.target.arch} are not known"
            draft.decide(told)
        if is_library_only(generated):
            draft.dsl = self._wanted.dsl or "torch"
            draft.decide(
                "torch.compile generates no code of its own: all is calls of torch's library"
            )


def _without_device(task: Task) -> Task:
    return replace(task, target=replace(task.target, backend="cpu"))
