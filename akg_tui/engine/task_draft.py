"""The settings of a new task while they are found, and its texts as they are so far.

Pure but for the file of a given first kernel, which it reads. A change that leads to no task is
taken back as a whole.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from akg_tui.core.phases import WRITE_THEN_TUNE
from akg_tui.core.sanitize import one_line
from akg_tui.core.task import Case, Task
from akg_tui.dsl.adapters import DSLS, generated_in
from akg_tui.problems.module_text import remarks_on
from akg_tui.problems.problem import Problem
from akg_tui.problems.seeds import UNWRITTEN, kernel_from
from akg_tui.sizing.size_probe import ReferenceRefused
from akg_tui.store.errors import BadTask
from akg_tui.store.reference_constants import (
    Constant,
    UnknownConstant,
    UnknownGradient,
    check_value,
    constants,
    with_gradients,
)
from akg_tui.store.task_folder import TASK_FILE, NewToml, check_kernel, file_text
from akg_tui.store.task_toml import parse_task

Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class NewTask:
    """A task to make in `folder` of the problem at `origin`.

    `seed` is the file of a first kernel; without it the kernel is the problem's own, if it has
    one and `own_seed` is set, or else made from the reference: by torch.compile if `inductor` is
    set. With `or_reference`, what torch.compile can't generate is no fault: the kernel then does
    what the reference does. With `unwritten` there is none: the agent writes it. `dsl` "": the
    problem's, or `torch`; what torch.compile generates is in `cpp` for the CPU and in `triton` for
    a GPU. `op` "": the problem's. With `verify` the judge verifies a kernel that is made here, and
    a wrong one of torch.compile is not taken. `gradients` are those of `ReferenceChanges`.
    """

    folder: Path
    origin: Path
    format: str = ""
    fit: bool = False
    sizes: Mapping[str, int | float] = field(default_factory=dict)
    free_inputs: tuple[int | str, ...] = ()
    gradients: tuple[str, ...] = ()
    seed: Path | None = None
    own_seed: bool = True
    unwritten: bool = False
    inductor: bool = False
    or_reference: bool = False
    verify: bool = False
    op: str = ""
    backend: str = "cpu"
    dsl: str = ""
    arch: str = ""


class Draft:
    """A task that is being made; `tell` is called with each decision, in one line."""

    def __init__(self, wanted: NewTask, problem: Problem, tell: Tell) -> None:
        self.wanted = wanted
        self.problem = problem
        self.tell = tell
        self.values: dict[str, int | float] = {**dict(problem.sizes), **wanted.sizes}
        self.cases = problem.cases
        self.check = problem.check
        self.tolerance = None if problem.check or problem.absolute else problem.tolerance
        self.size = self.bound = 0.0
        """Those of `sizing.needs.Answer`, of the last examination."""
        self.free = wanted.free_inputs
        self.inputs: dict[str, tuple[str, ...]] = {}
        self.contract: tuple[str, ...] = ()
        """How the model is called, where that is not with tensors one by one."""
        self.generated: str | None = None
        """The first kernel, if torch.compile generated it."""
        generated = (generated_in(wanted.backend) or "cpp") if wanted.inductor else ""
        self.dsl = wanted.dsl or generated or problem.dsl or "torch"
        self.decisions: list[str] = []
        """The decisions, one line each, for the README."""

    def decide(self, line: str) -> None:
        """Tell a decision and keep it."""
        self.decisions.append(line)
        self.tell(line)

    @property
    def known(self) -> Mapping[str, Constant]:
        """The constants of the reference."""
        return constants(self.problem.reference)

    @property
    def stated(self) -> dict[str, int | float]:
        """The sizes that the problem and the user state."""
        return {**dict(self.problem.sizes), **self.wanted.sizes}

    def changes(self, values: Mapping[str, int | float]) -> str:
        """Return sizes in words, each with that of the reference."""
        known = self.known
        return ", ".join(f"{n} {known[n].value} -> {value}" for n, value in values.items())

    def change_reference(self, reference: str, told: str) -> None:
        """Go on with another text of the reference; `told` says what is changed."""
        self.problem = dataclasses.replace(
            self.problem,
            reference=reference,
            verbatim=False,
            changed=(*self.problem.changed, told),
        )

    def keep_cases(self, kept: Sequence[Case]) -> None:
        """Go on with these cases; a single one is the task's sizes."""
        self.cases = tuple(kept) if len(kept) > 1 else ()
        if len(kept) == 1:
            self.values |= kept[0].sizes

    @contextlib.contextmanager
    def unless_refused(self) -> Iterator[None]:
        """Take back what the block changes if it raises `ReferenceRefused`."""
        before = dict(vars(self), values=dict(self.values))
        try:
            yield
        except ReferenceRefused:
            vars(self).update(before)
            raise

    def check_sizes(self) -> None:
        """Refuse sizes and gradients that the reference has no constants and parameters for."""
        known, origin = self.known, self.problem.origin
        try:
            with_gradients(self.problem.reference, self.wanted.gradients)
        except UnknownGradient as error:
            raise BadTask(origin, None, "--gradients", str(error)) from None
        for name, value in self.values.items():
            try:
                check_value(known, name, value)
            except UnknownConstant as error:
                raise BadTask(origin, None, f"--sizes {name}", error.why) from None
            if value <= 0 < known[name].value:
                message = f"is {value}, expected more than 0"
                raise BadTask(origin, known[name].line, f"--sizes {name}", message)
        if self.wanted.sizes and self.cases:
            self.cases = ()
            self.decide("no cases: the sizes were stated")
        varied = {name for case in self.cases for name in case.sizes}
        baked = sorted(varied & constants(self._reference_kernel()).keys()) if varied else []
        if baked:
            # A kernel learns what case it is in from its arguments alone.
            self.cases = ()
            self.decide(
                f"one case: Model itself reads numbers that differ by case: {', '.join(baked)}"
            )
        if self.values and not self.cases:
            self.decide(f"sizes: {self.changes(self.values)}")

    @property
    def is_own(self) -> bool:
        """Whether the first kernel is the problem's own."""
        wanted = self.wanted
        made = wanted.seed is not None or wanted.unwritten or wanted.inductor
        return wanted.own_seed and not made and self.problem.kernel is not None

    @property
    def is_verified_here(self) -> bool:
        """Whether the first kernel is made here, and wanted verified."""
        wanted = self.wanted
        return wanted.verify and not (wanted.seed is not None or wanted.unwritten or self.is_own)

    def kernel_files(self) -> dict[str, str]:
        """Return the texts of the first kernel's files; the judge loads the first."""
        if self.is_own:
            return {self.problem.kernel_name: self.kernel(), **dict(self.problem.beside)}
        return {"kernel.py": self.kernel()}

    def kernel(self) -> str:
        """Return the text of the first kernel."""
        if self.wanted.unwritten:
            return UNWRITTEN + DSLS[self.dsl].frame
        if self.generated is not None:
            return self.generated
        if self.wanted.seed is not None:
            text = file_text(self.wanted.seed)
            check_kernel(self.wanted.seed, text.encode())
            return text
        if self.is_own and self.problem.kernel is not None:
            return self.problem.kernel
        return self._reference_kernel()

    def _reference_kernel(self) -> str:
        return kernel_from(
            self.problem.origin, self.problem.reference, self.values, self.wanted.gradients
        )

    def toml(self) -> str:
        """Return the text of task.toml."""
        problem = self.problem
        given = {"min_gain": problem.min_gain, "max_rounds": problem.max_rounds}
        own = [problem.kernel_name, *dict(problem.beside)]
        return NewToml(
            op=problem.op,
            backend=self.wanted.backend,
            dsl=self.dsl,
            arch=self.wanted.arch or one_line(problem.arch, 100),
            constants=self.values,
            gradients=self.wanted.gradients,
            cases=self.cases,
            tolerance=self.tolerance,
            check=self.check,
            free_inputs=self.free,
            inputs=self.inputs,
            remarks=self.remarks,
            editable=own if self.is_own else ["kernel.py"],
            workflow=WRITE_THEN_TUNE.name if self.wanted.unwritten else None,
            **{name: value for name, value in given.items() if value is not None},  # type: ignore[arg-type]
        ).text()

    @property
    def remarks(self) -> list[str]:
        """What the judge does not find out of the reference."""
        return remarks_on(self.problem.reference, checked=bool(self.check))

    def task(self) -> Task:
        """Return the task as it is so far."""
        return parse_task(self.wanted.folder / TASK_FILE, self.toml())

    def line_of(self, name: str) -> int | None:
        """Return the line of a function of the reference, or of the first call of one so named."""
        for node in ast.walk(ast.parse(self.problem.reference)):
            match node:
                case ast.FunctionDef(name=found) if found == name:
                    return node.lineno
                case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)):
                    if name in called.lower():
                        return node.lineno
        return None

    def refusal(self, message: str, line: int | None = None) -> BadTask:
        """Return the fault of the problem's file, or of the reference that was made of it."""
        origin = self.problem.origin
        if self.problem.filename == origin.name:
            return BadTask(origin, line, "", message)
        made = "the reference made of it" + (f", line {line}" if line else "")
        return BadTask(origin, None, made, message)
