"""Makes a task folder of a problem: reads it, finds sizes that fit, writes a first kernel, checks.

The reference runs only in the confined children of the sizing process and of the judge. Nothing is
written before everything was found good.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import dataclasses
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from akg_tui.core.measurement import Measurement, Outcome
from akg_tui.core.phases import WRITE_THEN_TUNE
from akg_tui.core.sanitize import one_line
from akg_tui.core.task import Case, ReferenceChanges, Task
from akg_tui.dsl import find_compiler
from akg_tui.engine.size_search import FIT_CALL_S, HOPELESS_SHARE, SizeSearch, is_out_of_memory
from akg_tui.evaluate import Judge
from akg_tui.evaluate.sizing.needs import Needs
from akg_tui.evaluate.sizing.size_probe import ProbeLost, ReferenceRefused, SizeProbe
from akg_tui.evaluate.targets.adapters import lacking
from akg_tui.problems.formats import read_problem
from akg_tui.problems.inductor.module import NoSeed
from akg_tui.problems.inductor.seed import is_library_only, kernel_of
from akg_tui.problems.input_groups import FUNCTIONS
from akg_tui.problems.module_text import with_named_numbers, with_normal_draws
from akg_tui.problems.problem import Problem, readme
from akg_tui.problems.seeds import UNWRITTEN, UNWRITTEN_CUDA, kernel_from, model_text
from akg_tui.problems.wrapped_models import (
    ALL_TENSORS,
    COPIED,
    place_of,
    with_copies,
    with_factors,
)
from akg_tui.store.errors import BadTask
from akg_tui.store.filesystem import is_folder
from akg_tui.store.reference_constants import UnknownConstant, check_value, constants
from akg_tui.store.task_folder import (
    TASK_FILE,
    TaskFolder,
    check_arch,
    check_empty,
    check_kernel,
    file_text,
    op_named,
    task_text,
    write_texts,
)
from akg_tui.store.task_toml import parse_task

SLOW_CALL_S = 1.0
"""An evaluation calls the reference hundreds of times, so a longer call is told."""

SMALLER_TRIED = 5
"""How often the sizes of a problem that is no task are lowered to make one of it."""

FACTORS = (16.0, 256.0, 1 / 16, 1 / 256)
"""The factors that are tried in turn for an input that decides less than the tolerance. Powers of
two: the products are exact."""

FACTORS_TRIED = 8
"""How many factors are tried for a problem, of all its inputs together."""

DROPOUT = (
    "dropout in training mode gives two results for one input: call self.eval() at the end of "
    "__init__, or set p = 0"
)

NO_GPU = "active drivers"
"""A part of what Triton says where it finds no GPU."""

PASSING = "a kernel would pass that returns"
"""The words of the fault of a task with too easy an answer, as `task_lint` words it."""

UNDECIDED = "decides nothing"
"""The words of a fault of an input, as `task_lint.undecided` words it."""

INPUT = re.compile(rf"(?:'(?P<name>\w+)'|input (?P<place>\d+)) {UNDECIDED}")
"""The input in such a fault."""

IGNORED = re.compile(
    INPUT.pattern + ": with other values the result is the same (?:in every bit|but for rounding)"
)
"""The fault of an input that the results do not depend on."""

FREE = re.compile(r'declare \[correctness\] free_inputs = \["?(\w+)"?\]')
"""What `task_lint.undecided` says of an input; there is no task.toml yet."""

GENERATED_DSL = {"cpu": "cpp", "cuda": "triton"}
"""The DSL in which torch.compile generates for a backend."""

GENERATED = {*GENERATED_DSL.items(), ("cpu", "triton")}
"""The backends and DSLs of first kernels that torch.compile generates. On the CPU Triton's
interpreter verifies them."""

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
    a wrong one of torch.compile is not taken.
    """

    folder: Path
    origin: Path
    format: str = ""
    fit: bool = False
    sizes: Mapping[str, int | float] = field(default_factory=dict)
    free_inputs: tuple[int | str, ...] = ()
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
    making = _Making(wanted, problem, tell)
    making.check_sizes()
    making.check_seed()  # before the reference is run
    if why := lacking(making.task()):
        making.refuse_to_generate(why)
        making.decide(f"not checked, because it can't run here: {why}")
        making.decide_unverified(why)
    else:
        making.fit_and_examine(probe)
    if wanted.unwritten:
        making.decide("no first kernel: the agent writes it")
    problem = making.problem
    for each in (*problem.changed, *problem.kept_out):
        tell(f"note: {each}")
    files = {
        "reference.py": problem.reference,
        **making.kernel_files(),
        "README.md": readme(problem, making.decisions),
    }
    return write_texts(wanted.folder, files, making.toml())


def _about(problem: Problem) -> str:
    known = constants(problem.reference)
    sizes = ", ".join(f"{each.name} = {each.value}" for each in known.values())
    return one_line(sizes, 160) or "it has no sizes as numbers at its top level"


class _Making:
    """The settings of a task while they are found."""

    def __init__(self, wanted: NewTask, problem: Problem, tell: Tell) -> None:
        self._wanted = wanted
        self.problem = problem
        self._tell = tell
        self._known = constants(problem.reference)
        self._values: dict[str, int | float] = {**dict(problem.sizes), **wanted.sizes}
        self._cases = problem.cases
        self._tolerance = problem.tolerance
        self._free: tuple[int | str, ...] = (*problem.free_inputs, *wanted.free_inputs)
        self._copying: tuple[Problem, tuple[int, ...]] | None = None
        """The problem before its `Model` got copies of inputs, and the places of these."""
        self._generates = wanted.inductor
        self._generated: str | None = None
        generated = GENERATED_DSL.get(wanted.backend, "cpp") if wanted.inductor else ""
        self._dsl = wanted.dsl or generated or problem.dsl or "torch"
        self.decisions: list[str] = []
        """What was decided, in one line each, for the README."""

    def decide(self, line: str) -> None:
        """Tell a decision and keep it."""
        self.decisions.append(line)
        self._tell(line)

    def check_sizes(self) -> None:
        """Refuse stated sizes that the reference has no constants for."""
        for name, value in self._values.items():
            try:
                check_value(self._known, name, value)
            except UnknownConstant as error:
                raise BadTask(self.problem.origin, None, f"--sizes {name}", error.why) from None
            if value <= 0 < self._known[name].value:
                message = f"is {value}, expected more than 0"
                line = self._known[name].line
                raise BadTask(self.problem.origin, line, f"--sizes {name}", message)
        if self._wanted.sizes and self._cases:
            self._cases = ()
            self.decide("no cases: the sizes were stated")
        varied = {name for case in self._cases for name in case.sizes}
        baked = sorted(varied & constants(self._reference_kernel()).keys()) if varied else []
        if baked:
            # A kernel learns what case it is in from its arguments alone.
            self._cases = ()
            self.decide(
                f"one case: Model itself reads numbers that differ by case: {', '.join(baked)}"
            )
        if self._values and not self._cases:
            self.decide(f"sizes: {self._changes(self._values)}")

    def check_seed(self) -> None:
        """Refuse a seed that can't be used, as far as that is known before the reference runs."""
        if not self._wanted.inductor:
            self.kernel()
            return
        backend = self._wanted.backend
        if (backend, self._dsl) not in GENERATED:
            self.refuse_to_generate(
                "it writes C++ (cpp) for the CPU, and Triton (triton) for a GPU or Triton's "
                f"interpreter (cpu), not {self._dsl} for {backend}"
            )
        elif self._dsl == "cpp" and not find_compiler():
            self.refuse_to_generate("it needs a C++ compiler, such as g++")

    def refuse_to_generate(self, why: str) -> None:
        """Refuse the seed `inductor`, or take the reference's kernel if that may stand for it."""
        if not self._generates:
            return
        wanted = self._wanted
        if not wanted.or_reference:
            raise BadTask(self.problem.origin, None, "--seed inductor", why)
        if wanted.dsl:  # a kernel in another language is not what was wanted
            why = f"{why}; state --kernel FILE, or --seed write and let a model write it"
            raise BadTask(self.problem.origin, None, f"--dsl {wanted.dsl}", why)
        self._take_reference(f"torch.compile generates none: {why}")

    def _take_reference(self, why: str) -> None:
        """Make the first kernel of the reference's own code, instead of a generated one."""
        self._generates, self._generated = False, None
        self._dsl = self._wanted.dsl or self.problem.dsl or "torch"
        self.kernel()  # it may be refused
        self.decide(f"the first kernel is the reference's own code: {why}")

    @property
    def _generates_apart(self) -> bool:
        """Whether a process of its own generates, because the other one uses the device."""
        return self._wanted.backend != "cpu"

    def _without_device(self, task: Task) -> Task:
        return replace(task, target=replace(task.target, backend="cpu"))

    def _generate(self, probe: SizeProbe) -> None:
        """Make the first kernel of what torch.compile generates."""
        problem = self.problem
        self._tell("letting torch.compile generate code, in a sandboxed process")
        task = self.task()
        if task.cases:
            first = task.cases[0]
            self.decide(f"generated for case {first.name}; in the others Model's own forward runs")
            changed = ReferenceChanges(constants=task.constants(first))
            task = replace(task, reference=changed, cases=())
        generated = probe.generate(self._without_device(task), problem.reference, problem.filename)
        try:
            model = model_text(problem.reference, self._values)
            origin = one_line(problem.origin.name, 60)
            text = kernel_of(generated, model, origin, interpreted=self._wanted.backend == "cpu")
            check_kernel(Path("kernel.py"), text.encode())
        except (NoSeed, BadTask) as error:
            self.refuse_to_generate(one_line(str(error), 300))
            return
        self._generated = text
        if generated.arch:
            told = f"Triton is generated for {generated.arch}"
            stated = task.target.arch
            if stated not in ("", generated.arch):
                told += f": the properties of {stated} are not known"
            self.decide(told)
        if is_library_only(generated):
            self._dsl = self._wanted.dsl or "torch"
            self.decide(
                "torch.compile generates no code of its own: all is calls of torch's library"
            )

    @property
    def _is_own(self) -> bool:
        """Whether the first kernel is the problem's own."""
        wanted = self._wanted
        made = wanted.seed is not None or wanted.unwritten or wanted.inductor
        return wanted.own_seed and not made and self.problem.kernel is not None

    @property
    def _is_given(self) -> bool:
        """Whether the first kernel is not made here."""
        return self._wanted.seed is not None or self._wanted.unwritten or self._is_own

    def kernel_files(self) -> dict[str, str]:
        """Return the texts of the first kernel's files; the judge loads the first."""
        if self._is_own:
            return {self.problem.kernel_name: self.kernel(), **dict(self.problem.beside)}
        return {"kernel.py": self.kernel()}

    def kernel(self) -> str:
        """Return the text of the first kernel."""
        if self._wanted.unwritten:
            return UNWRITTEN_CUDA if self._dsl == "cuda_cpp" else UNWRITTEN
        if self._generated is not None:
            return self._generated
        if self._wanted.seed is not None:
            text = file_text(self._wanted.seed)
            check_kernel(self._wanted.seed, text.encode())
            return text
        if self._is_own and self.problem.kernel is not None:
            return self.problem.kernel
        return self._reference_kernel()

    def _reference_kernel(self) -> str:
        return kernel_from(self.problem.origin, self.problem.reference, self._values)

    def toml(self) -> str:
        """Return the text of task.toml."""
        problem = self.problem
        given = {"min_gain": problem.min_gain, "max_rounds": problem.max_rounds}
        return task_text(
            problem.op,
            backend=self._wanted.backend,
            dsl=self._dsl,
            arch=self._wanted.arch or one_line(problem.arch, 100),
            constants=self._values,
            cases=self._cases,
            tolerance=self._tolerance,
            free_inputs=self._free,
            editable=[problem.kernel_name, *dict(problem.beside)]
            if self._is_own
            else ["kernel.py"],
            workflow=WRITE_THEN_TUNE.name if self._wanted.unwritten else None,
            **{name: value for name, value in given.items() if value is not None},  # type: ignore[arg-type]
        )

    def task(self) -> Task:
        """Return the task as it is so far."""
        return parse_task(self._wanted.folder / TASK_FILE, self.toml())

    def fit_and_examine(self, given: SizeProbe | None) -> None:
        """Find sizes that fit if wanted, refuse those that can't, and examine the reference."""
        problem = self.problem
        self._tell("looking at what it needs, in a sandboxed process")
        generates = self._generates and not self._generates_apart
        own = SizeProbe(self.task(), generates=generates)
        sizing = own if given is None else contextlib.nullcontext(given)
        with self._faults(), sizing as probe:
            search = SizeSearch(
                probe,
                self.task(),
                problem.reference,
                problem.filename,
                self._known,
                fixed=self._wanted.sizes,
                fit=self._wanted.fit,
            )
            self._fit_cases(search)
            if not self._cases:
                self._fit_memory(search)
                self._fit_time(search)
            self._tell("checking it as the judge will")
            self._examine(search)
            self._make_kernel(probe)

    def _make_kernel(self, probe: SizeProbe) -> None:
        """Let torch.compile generate the first kernel if wanted; verify one that is made here."""
        if not self._wanted.verify or self._is_given:
            self._try_to_generate(probe)
            return
        with tempfile.TemporaryDirectory(prefix="akg-new-") as scratch, asyncio.Runner() as runner:
            home = Path(scratch) / "judge"
            # Of the DSL that is wanted; it verifies the reference's own code as well.
            judge = Judge(self.task(), self.problem.reference, home, prefetch=False)

            def verified() -> Measurement:
                self._tell("verifying the first kernel, as akg-tui eval does")
                return runner.run(judge.probe(self.kernel(), timed=False))

            try:
                runner.run(judge.prepare())  # it starts while code is generated
                self._try_to_generate(probe)
                found = verified()
                if found.outcome is Outcome.FAILED and self._generated is not None:
                    why = one_line(found.message, 200)
                    self._take_reference(f"what torch.compile generates is wrong here: {why}")
                    found = verified()
            finally:
                runner.run(judge.close())
        self._decide_verified(found)

    def _decide_verified(self, found: Measurement) -> None:
        if found.outcome is Outcome.ERROR:
            self.decide_unverified(found.message)
        elif found.outcome is Outcome.FAILED:
            self.decide(f"the first kernel is not correct: {one_line(found.message, 200)}")
        else:
            self.decide("the first kernel is correct")

    def _try_to_generate(self, probe: SizeProbe) -> None:
        if not self._generates:
            return
        try:
            if self._generates_apart:
                with SizeProbe(self._without_device(self.task()), generates=True) as apart:
                    self._generate(apart)
            else:
                self._generate(probe)
        except (ReferenceRefused, ProbeLost) as error:
            if not self._wanted.or_reference:
                raise
            self.refuse_to_generate(one_line(str(error), 300))

    def decide_unverified(self, why: str) -> None:
        """Say that a kernel made here was not verified."""
        if self._wanted.verify and not self._is_given:
            self.decide(f"the first kernel is not verified here: {one_line(why, 200)}")

    def _fit_cases(self, search: SizeSearch) -> None:
        """Leave out the cases that do not fit or are refused; fewer than two are none."""
        fitting = []
        refused: ReferenceRefused | None = None
        for case in self._cases:
            try:
                why, needs = self._does_not_fit(search, {**self._values, **case.sizes})
            except ReferenceRefused as error:
                refused = refused or error
                why, needs = str(error), None
            if why:
                self.decide(f"case {case.name} is left out: {why}")
            else:
                fitting.append(case)
                told = f", {_time(needs)} a call" if needs is not None else ""
                sizes = ", ".join(f"{name} = {value:g}" for name, value in case.sizes.items())
                self.decide(f"case {case.name}: {sizes}{told}")
        if refused and not fitting:
            raise refused
        self._keep_cases(fitting)

    def _keep_cases(self, kept: Sequence[Case]) -> None:
        """Go on with these cases; a single one is the task's sizes."""
        self._cases = tuple(kept) if len(kept) > 1 else ()
        if len(kept) == 1:
            self._values |= kept[0].sizes

    def _does_not_fit(
        self, search: SizeSearch, values: Mapping[str, int | float]
    ) -> tuple[str, Needs | None]:
        """Return why a case does not fit, or "", and its needs."""
        needs = None
        with contextlib.suppress(ReferenceRefused):  # a real call shows better why
            needs = search.needs(values)
        try:
            if needs is None or needs.held <= search.limit:
                needs = search.measured(values)
        except ReferenceRefused as error:
            if not is_out_of_memory(error):
                raise
            return _need(None), None
        self._check_usable(search, needs)
        if needs.held > search.limit:
            return _need(needs), needs
        limit_s = 2 * FIT_CALL_S if self._wanted.fit else self.task().timing.call_timeout_s
        if (needs.call_s or 0.0) > limit_s:
            return f"one call takes {_time(needs)}", needs
        return "", needs

    def _fit_memory(self, search: SizeSearch) -> None:
        try:
            needs = search.needs(self._values)
        except ReferenceRefused as error:
            if not is_out_of_memory(error):
                raise
            needs = None
        if needs is not None:
            self._check_usable(search, needs)
            self._tell(f"{_told(needs)}; {_size(search.free)} free")
            if needs.held <= (search.fit_limit if self._wanted.fit else search.limit):
                return
        found = search.fitting_memory(self._values)
        hopeless = needs is None or needs.held > search.free * HOPELESS_SHARE
        if self._wanted.fit:
            if found is None and self._name_numbers(search):
                found = search.fitting_memory(self._values)
            if found is None:
                if not hopeless:
                    search.measured(self._values)  # it may fail for another reason
                raise self._refusal(f"{_need(needs)}, and no number lowers that")
            self._values = found
        elif hopeless:
            stated = {n: v for n, v in (found or {}).items() if v != self._values.get(n)}
            sizes = ",".join(f"{name}={value}" for name, value in stated.items())
            remedy = f"use --fit, or --sizes {sizes}" if sizes else "no size at its top level helps"
            message = f"{_need(needs)}, this machine has {_size(search.free)} free: {remedy}"
            raise self._refusal(message)
        else:
            self.decide(
                "that is more than a twelfth of what a process may use: if an evaluation runs out "
                "of memory, use --fit"
            )

    def _fit_time(self, search: SizeSearch) -> None:
        before = dict(self._values)
        if self._wanted.fit:
            self._values, needs = search.fitting_time(self._values)
            if (needs.call_s or 0.0) > 2 * FIT_CALL_S and self._name_numbers(search):
                self._values, needs = search.fitting_time(self._values)
            stated = {n: each.value for n, each in self._known.items()} | self._stated()
            changed = {n: v for n, v in self._values.items() if v != stated[n]}
            said = f"fitted: {self._changes(changed)}" if changed else "it fits as it is"
            self.decide(f"{said}; {_size(needs.held)}, {_time(needs)} a call")
        else:
            needs = search.measured(before)
        self._check_usable(search, needs)
        call_s = needs.call_s or 0.0
        limit = self.task().timing.call_timeout_s
        if call_s > limit:
            remedy = "no size at its top level helps" if self._wanted.fit else "use --fit"
            raise self._refusal(f"one call takes {call_s:.1f} s, at most {limit:g} s: {remedy}")
        if self._wanted.fit and call_s > 2 * FIT_CALL_S:
            self.decide("no number shortens a call further")
        elif not self._wanted.fit:
            slow = ": an evaluation makes hundreds, see --fit" if call_s > SLOW_CALL_S else ""
            self.decide(f"one call takes {_time(needs)}{slow}")

    def _examine(self, search: SizeSearch) -> None:
        try:
            self._examine_cases(search)
            return
        except ReferenceRefused as error:
            if PASSING in str(error):
                self._examine_easy(search, error)
                return
            if UNDECIDED in str(error):
                self._examine_undecided(search, error)
                return
            if self._tolerance is None or "too loose" not in str(error):
                raise
        told = f"the problem's tolerance of {self._tolerance:g}"
        self.decide(f"{told} would hide wrong results: the judge's own bound is used")
        self._tolerance = None
        self._examine(search)

    def _examine_easy(self, search: SizeSearch, refused: ReferenceRefused) -> None:
        """Make the results differ if that makes a task of it; else raise `refused`."""
        tried = (self._examine_normal_draws, self._examine_smaller, self._examine_multiplied)
        for examine in tried:
            with contextlib.suppress(ReferenceRefused):
                examine(search, refused)
                return
        raise refused

    def _examine_normal_draws(self, search: SizeSearch, refused: ReferenceRefused) -> None:
        """Draw inputs of both signs if that makes a task of it; else raise `refused`."""
        reference = with_normal_draws(self.problem.reference)
        if reference == self.problem.reference:
            raise refused
        what = "get_inputs() draws torch.randn, not torch.rand, whose numbers are never negative"
        self._examine_changed(search, refused, reference, what)

    def _examine_multiplied(self, search: SizeSearch, refused: ReferenceRefused) -> None:
        """Multiply all inputs if that makes a task of it; else raise `refused`.

        A ReLU of numbers that are nearly all below zero gives zeros; of larger ones it does not.
        """
        for factor in FACTORS:
            reference = with_factors(self.problem.reference, {ALL_TENSORS: factor})
            with contextlib.suppress(ReferenceRefused):
                what = f"the inputs are multiplied by {factor:g}"
                self._examine_changed(search, refused, reference, what)
                return
        raise refused

    def _examine_changed(
        self, search: SizeSearch, refused: ReferenceRefused, reference: str, what: str
    ) -> None:
        """Go on with another text of the reference if it makes a task; else raise `refused`."""
        search.use(reference, self._known)
        try:
            self._examine_cases(search)
        except ReferenceRefused:
            search.use(self.problem.reference, self._known)
            raise refused from None
        passing = str(refused).partition(f"{PASSING} ")[2].partition(":")[0]
        self._change_reference(reference, f"{what}: {PASSING} {passing}")

    def _change_reference(self, reference: str, told: str) -> None:
        problem = self.problem
        self.problem = dataclasses.replace(
            problem, reference=reference, verbatim=False, changed=(*problem.changed, told)
        )
        self._known = constants(reference)

    def _name_numbers(self, search: SizeSearch) -> bool:
        """Make sizes of the numbers in the functions that draw inputs; return whether any are."""
        functions = ("get_inputs", "get_init_inputs", *FUNCTIONS)
        reference, named = with_named_numbers(self.problem.reference, functions)
        if not named:
            return False
        self._change_reference(reference, f"numbers of get_inputs() got names: {', '.join(named)}")
        search.use(reference, self._known)
        return True

    def _examine_undecided(self, search: SizeSearch, refused: ReferenceRefused) -> None:
        """Make the inputs matter, or declare those free that change nothing; else raise `refused`.

        One that cancels, such as a bias before a softmax, changes the rounding only and is free
        too. One that changes the results within the tolerance, as one of a million numbers of a
        mean, is not declared: a kernel could then return a constant.
        """
        little = self._deciding_little(search, refused)
        if little:
            refused = next(iter(little.values()))
            try:
                self._examine_smaller(search, refused)
            except ReferenceRefused:
                self._examine_factors(search, refused, list(little))

    def _declare_free(self, refused: ReferenceRefused) -> bool:
        """Declare the input in a fault free if it changes nothing; return whether it does."""
        if IGNORED.search(str(refused)) is None:
            return False
        name = self._input_of(refused)
        if name in self._free:
            raise refused
        self._free = (*self._free, name)
        self.decide(f"input {name} changes no result here: a kernel may ignore it (free_inputs)")
        return True

    def _examine_factors(
        self, search: SizeSearch, refused: ReferenceRefused, little: Sequence[str | int]
    ) -> None:
        """Multiply the inputs that decide too little, so that each decides; else raise `refused`.

        Attention of numbers near zero is a mean of the values: the keys decide nothing. With larger
        ones they do, and a kernel that ignores them is found out.
        """
        base = self.problem.reference
        names = {place: name for name in little if (place := self._place(name)) is not None}
        factors = dict.fromkeys(names, FACTORS[0])
        for _ in range(FACTORS_TRIED):
            search.use(with_factors(base, factors), self._known)
            try:
                self._examine_cases(search)
            except ReferenceRefused as error:
                # Values so large that an input changes nothing must not make it a free one.
                if UNDECIDED not in str(error) or IGNORED.search(str(error)):
                    break
                name = self._input_of(error)
                place = self._place(name)
                left = FACTORS[FACTORS.index(factors[place]) + 1 :] if place in factors else FACTORS
                if place is None or not left:
                    break
                names[place], factors[place] = name, left[0]
            else:
                listed = ", ".join(f"input {names[at]} x {each:g}" for at, each in factors.items())
                told = "as drawn they change the results by less than the tolerance"
                told = f"some inputs are multiplied: {listed}; {told}"
                self._change_reference(with_factors(base, factors), told)
                return
        search.use(base, self._known)
        raise refused

    def _deciding_little(
        self, search: SizeSearch, refused: ReferenceRefused
    ) -> dict[str | int, ReferenceRefused]:
        """Return the faults of the inputs that decide too little; declare the others free."""
        little: dict[str | int, ReferenceRefused] = {}
        error = refused
        while len(little) < FACTORS_TRIED:
            if not self._declare_free(error):
                little[self._input_of(error)] = error
            try:
                self._examine_cases(search, ignoring=little)
            except ReferenceRefused as found:
                if UNDECIDED not in str(found):
                    raise
                error = found
            else:
                break
        return little

    @staticmethod
    def _input_of(refused: ReferenceRefused) -> str | int:
        """Return the name of the input in a fault, or its place."""
        found = INPUT.search(str(refused))
        if found is None:
            raise refused
        return found["name"] or int(found["place"])

    def _place(self, name: str | int) -> int | None:
        return place_of(self.problem.reference, name) if isinstance(name, str) else name

    def _examine_smaller(self, search: SizeSearch, refused: ReferenceRefused) -> None:
        """Find smaller sizes that make a task of it; else raise `refused`.

        The mean of a million random numbers is nearly that of half of them; of a hundred it is not.
        The next sizes must pass too, and are taken: near the limit others draw weights that fail.
        """
        before = self._values
        passed = False
        for _ in range(SMALLER_TRIED if self._wanted.fit and not self._cases else 0):
            found = search.smaller(self._values)
            if found is None:
                break
            self._values = found
            passed_before, passed = passed, True
            try:
                self._examine_cases(search)
            except ReferenceRefused:
                passed = False
            if passed and passed_before:
                changed = {n: v for n, v in found.items() if v != before.get(n)}
                alike = "some would decide nothing" if UNDECIDED in str(refused) else "all is alike"
                why = f"with more numbers {alike}"
                self.decide(f"smaller still: {self._changes(changed)}; {why}")
                return
        self._values = before
        raise refused

    def _examine_cases(self, search: SizeSearch, ignoring: Iterable[str | int] = ()) -> None:
        """Examine the reference, and leave out cases that are refused if others are not.

        The inputs `ignoring` need not matter.
        """
        task = self.task()
        free = (*task.correctness.free_inputs, *ignoring)
        task = replace(task, correctness=replace(task.correctness, free_inputs=free))

        def examine(case: Case | None) -> None:
            changed = ReferenceChanges(constants=task.constants(case))
            search.examine(replace(task, reference=changed, cases=()))

        if not task.cases:
            examine(None)
            return
        kept: list[Case] = []
        refused: list[tuple[Case, ReferenceRefused]] = []
        for case in task.cases:
            try:
                examine(case)
                kept.append(case)
            except ReferenceRefused as error:
                if "too loose" in str(error):
                    raise
                refused.append((case, error))
        if not kept:
            raise refused[0][1]
        for case, why in refused:
            self.decide(f"case {case.name} is left out: {why}")
        if refused:
            self._keep_cases(kept)

    def _check_usable(self, search: SizeSearch, needs: Needs) -> None:
        """Refuse what is empty; let a forward that writes to inputs write to copies."""
        if needs.written:
            base, before = self._copying or (self.problem, ())
            places = tuple(sorted({*before, *needs.written}))
            # The copies of a reference that was changed since are not made anew.
            changed = before and self.problem.reference != with_copies(base.reference, before)
            if places == before or changed:
                message = f"forward() writes to its inputs {places}, and to no copies of them"
                raise self._refusal(message, _line_of(self.problem.reference, "forward"))
            self.problem, self._copying = base, (base, places)
            reference = with_copies(base.reference, places)
            self._change_reference(reference, COPIED.format(places=", ".join(map(str, places))))
            search.use(reference, self._known)
        if needs.empty:
            name = "forward" if needs.empty.startswith("output") else "get_inputs"
            raise self._refusal(needs.empty, _line_of(self.problem.reference, name))

    def _stated(self) -> dict[str, int | float]:
        return {**dict(self.problem.sizes), **self._wanted.sizes}

    def _changes(self, values: Mapping[str, int | float]) -> str:
        return ", ".join(f"{n} {self._known[n].value} -> {value}" for n, value in values.items())

    def _refusal(self, message: str, line: int | None = None) -> BadTask:
        if self.problem.filename != self.problem.origin.name:
            field = "the reference made of it" + (f", line {line}" if line else "")
            return BadTask(self.problem.origin, None, field, message)
        return BadTask(self.problem.origin, line, "", message)

    @contextlib.contextmanager
    def _faults(self) -> Iterator[None]:
        """Turn a refused reference into a fault of the problem's file."""
        try:
            yield
        except ProbeLost as error:
            raise BadTask(self.problem.origin, None, "", f"can't be checked: {error}") from error
        except ReferenceRefused as error:
            name = re.escape(self.problem.filename)
            found = re.fullmatch(rf"(?:{name}(?::(\d+))?: )?(.*)", str(error), re.DOTALL)
            line, message = (found[1], found[2]) if found else (None, str(error))
            number = int(line) if line else None
            dropout = _line_of(self.problem.reference, "dropout")
            if "not deterministic" in message and dropout:
                number, message = dropout, DROPOUT
            elif NO_GPU in message:
                message = "it calls a Triton kernel, which needs a GPU"
            message = FREE.sub(lambda found: f"state --free-inputs {found[1]}", message)
            raise self._refusal(one_line(message, 400), number) from error


def _line_of(source: str, name: str) -> int | None:
    """Return the line of a function's definition, or of the first call of something so named."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef(name=found) if found == name:
                return node.lineno
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)):
                if name in called.lower():
                    return node.lineno
    return None


def _need(needs: Needs | None) -> str:
    if needs is None:
        return "it needs more memory than it may use"
    others = needs.results + needs.weights
    if needs.peak > 2 * (needs.inputs + others):
        return f"its tensors need {_size(needs.peak)} at once"
    told = f"get_inputs() needs {_size(needs.inputs)}"
    return told if others < needs.inputs / 8 else f"{told} and the rest {_size(others)}"


def _told(needs: Needs) -> str:
    results = "not known" if needs.failed else _size(needs.results)
    parts = [f"inputs {_size(needs.inputs)}", f"results {results}"]
    if needs.weights:
        parts.append(f"weights {_size(needs.weights)}")
    if needs.peak > needs.inputs + needs.results + needs.weights:
        parts.append(f"{_size(needs.peak)} at once")
    return ", ".join(parts)


def _time(needs: Needs) -> str:
    seconds = needs.call_s or 0.0
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
