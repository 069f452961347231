"""The tools try_kernel and submit_kernel: a version is measured without settling the item.

A trial is journaled and decides nothing; the budget of trials is core's. Only what is submitted, by
submit_kernel, edit_kernel or a trial that says so, becomes the attempt that the harness evaluates.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from akg_tui.agent.tools.declaration import Arg, ToolContext, tool
from akg_tui.agent.tools.file_access import NOTES, Refused, read_text
from akg_tui.agent.tools.run_access import Answer, Draft
from akg_tui.core import commands as cmd
from akg_tui.core.commands import Refusal
from akg_tui.core.kernel.kernel_files import KernelFiles, Place, lines_of
from akg_tui.core.kernel.knobs import BadKnob, check_setting, describe, knobs_in, with_setting
from akg_tui.core.measurement import FailureKind, Measurement, Outcome, RaceOutcome
from akg_tui.core.phases import Phase
from akg_tui.core.plan.trial_budget import check_trial, trials_left
from akg_tui.core.verdict import busy_line
from akg_tui.evidence.roof import NEAR
from akg_tui.hashline.document import Document
from akg_tui.store.errors import HistoryError

SAMPLES, WARMUPS = 50, 5
MAX_DETAIL = 6_000

TrialNumber = Annotated[int | None, Arg(minimum=1)]
AttemptNumber = Annotated[int | None, Arg("0 is the seed.", minimum=0)]
OfItem = Annotated[str | None, Arg("Another item whose work this does.", resolve="never")]
NotePath = Annotated[str | None, Arg("A .py file under notes/.")]
Whole = Annotated[str | None, Arg("The whole file.", resolve="never")]


Edit = Annotated[
    dict[str, Any] | None,
    Arg(
        resolve="never",
        schema={
            "type": "object",
            "description": "Arguments of edit_kernel, for a copy of the source by its own tags.",
        },
    ),
]
Set = Annotated[
    dict[str, Any] | None,
    Arg(
        resolve="never",
        schema={"type": "object", "description": 'Values of declared knobs: {"TILE": 64}.'},
    ),
]


class Source(Struct, frozen=True):
    """The arguments that name a version: one text or number at most, then changes of it."""

    text: str | None
    path: str | None
    trial: int | None
    attempt: int | None
    edit: dict[str, Any] | None = None
    set: dict[str, Any] | None = None


@tool("domain_tool", (Phase.EDIT,), main_agent_only=True)
async def try_kernel(
    call: ToolContext,
    *,
    edit: Edit = None,
    set: Set = None,  # noqa: A002 - the argument's name in a call
    text: Whole = None,
    path: NotePath = None,
    trial: TrialNumber = None,
    attempt: AttemptNumber = None,
    submit: Annotated[bool, Arg("Submit it at once, if correct and not surely slower.")] = False,
    item: OfItem = None,
) -> Answer:
    """Build, verify and time a version against the incumbent, without settling the item. The
    source is the kernel, or a text, a path, a trial or an attempt; edit, then set, change it.
    """
    draft, name = chosen(call, Source(text, path, trial, attempt, edit, set))
    if isinstance(draft, Answer):
        return draft
    if fault := kernel_fault(draft.kernel):
        return Answer.error(f"{fault}; no trial was made")
    try:
        check_trial(call.run.state)
    except Refusal as refusal:
        return Answer.error(str(refusal))
    found = await measured(call, draft.kernel)
    if judge_failed(found):
        return Answer.error(f"the judge failed, and no trial was counted: {found.message}")
    if refused := recorded(call, draft.kernel, name, found):
        return Answer.error(refused)
    made = call.run.state.trials[-1]
    call.kernel.keep_draft(f"trial {made.number}", draft)
    answer = _told(call, made.number, made.told, found, draft)
    return submitted(call, answer, draft, name, found, item=item) if submit else answer


def submitted(
    call: ToolContext,
    told: Answer,
    draft: Draft,
    note: str,
    found: Measurement,
    *,
    item: str | None = None,
) -> Answer:
    """Submit a measured version if it promises a gain; return what was told, and what was done."""
    if found.outcome is not Outcome.CORRECT:
        return told
    if found.ratio is not None and found.ratio.high <= 1:
        what = "not submitted: it is slower beyond doubt"
    else:
        done = call.kernel.submit(draft, note, item or "").result
        what = done.output or done.error_information
    return Answer(replace(told.result, output=f"{told.result.output}\n{what}"), told.foreign)


def judge_failed(found: Measurement) -> bool:
    """Return whether the judge was lost, so that nothing is known of the kernel."""
    return found.outcome is Outcome.ERROR and found.failure is FailureKind.JUDGE


def recorded(
    call: ToolContext, kernel: KernelFiles, made_from: str, found: Measurement, sweep: int = 0
) -> str:
    """Journal a trial; return why it was refused, or ""."""
    blob = call.run.keep_kernel(kernel)
    refused = call.run.send(cmd.RecordTrial(blob, made_from, journaled(found), sweep))
    return refused.why if refused else ""


def journaled(found: Measurement) -> Measurement:
    """Return a brief measurement as the journal has it: machine and sandbox stand there with the
    run's own measurements.
    """
    return replace(found, environment={}, sandbox=(), sandbox_missing=(), log_ratios=())


@tool("domain_tool", (Phase.EDIT,), main_agent_only=True)
def submit_kernel(
    call: ToolContext,
    *,
    edit: Edit = None,
    set: Set = None,  # noqa: A002 - the argument's name in a call
    text: Whole = None,
    path: NotePath = None,
    trial: TrialNumber = None,
    attempt: AttemptNumber = None,
    note: Annotated[str, Arg("What was changed.", resolve="never")] = "",
    item: OfItem = None,
) -> Answer:
    """Make a version, given as to try_kernel, the attempt for the active item. It ends your turn,
    and the harness evaluates it.
    """
    draft, name = chosen(call, Source(text, path, trial, attempt, edit, set))
    if isinstance(draft, Answer):
        return draft
    if fault := kernel_fault(draft.kernel):
        return Answer.error(f"{fault}; nothing was submitted")
    return call.kernel.submit(draft, note or name, item or "")


def chosen(
    call: ToolContext, source: Source, *, kernel: bool = False
) -> tuple[Draft | Answer, str]:
    """Return the version that the arguments name, and its name. Raises `Refused`.

    `kernel`: the kernel as it stands is a version, too.
    """
    given = [name for name, value in asdict(source).items() if value is not None]
    named = [name for name in given if name not in ("edit", "set")]
    if len(named) > 1:
        raise Refused(f"give one source, not {' and '.join(named)}")
    if source.edit is not None and source.text is not None:
        raise Refused("an edit is made of the kernel, a note, a trial or an attempt, not of a text")
    if not given and not kernel:
        raise Refused("give a source: a trial, an attempt, a path, a text, an edit or set")
    name, base = "", call.kernel.files
    if source.path is not None:
        name, base = _noted(call, source.path)
    elif source.text is not None:
        name, base = "a whole text", whole(call, source.text)
    elif named:
        name, base = version(call, source.trial, source.attempt)
    draft = Draft(base, call.kernel.reader_of(name))
    if source.edit is not None:
        edited = call.kernel.drafted(source.edit, name, base)
        if isinstance(edited, Answer):
            return edited, name
        draft, name = edited, f"an edit of {name or 'the kernel'}"
    if source.set is not None:
        draft = call.kernel.changed(draft, _with_values(draft.kernel, source.set))
        name = f"{describe(source.set, {})} in {name or 'the kernel'}"
    return draft, name


def _with_values(kernel: KernelFiles, wanted: dict[str, Any]) -> KernelFiles:
    """Return a kernel with other values of its knobs. Raises `Refused`."""
    try:
        check_setting(knobs_in(kernel), wanted)
        return with_setting(kernel, wanted)
    except BadKnob as error:
        raise Refused(f"set: {error.why}") from None


def whole(call: ToolContext, text: str, path: str = "") -> KernelFiles:
    """Return the kernel as it stands with another text of one file.

    The file is the one that the call names, else that of the same name as `path`, else the first.
    """
    kernel, own = call.kernel.files, PurePosixPath(path).name
    file = call.file_arguments.get("file") or (own if own in kernel.texts else kernel.main)
    return kernel.having({file: text})


def _noted(call: ToolContext, path: str) -> tuple[str, KernelFiles]:
    """Return name and kernel of a version in notes/: a file, or a folder with some of the files.

    Raises `Refused`.
    """
    names, name = call.run.state.task.files.names, call.files.relative(path)
    inside = name.startswith(f"{NOTES}/")
    if inside and len(names) > 1 and call.files.is_folder(name):
        there = [each for each in names if each in call.files.listing(name)]
        if not there:
            raise Refused(f"{name}: has none of {', '.join(names)}")
        texts = {each: read_text(call.files, f"{name}/{each}") for each in there}
        return name, call.kernel.files.having(texts)
    named = call.file_arguments.get("file") or PurePosixPath(name).name in names
    if not (inside and (name.endswith(".py") or (len(names) > 1 and named))):
        raise Refused(f"{name}: expected a .py file under {NOTES}/")
    return name, whole(call, read_text(call.files, name), name)


def version(call: ToolContext, trial: int | None, attempt: int | None) -> tuple[str, KernelFiles]:
    """Return the name and the kernel of an earlier trial or attempt. Raises `Refused`."""
    state = call.run.state
    if trial is not None:
        if not 1 <= trial <= len(state.trials):
            raise Refused(f"there is no trial {trial}; {len(state.trials)} were made")
        name, blob = f"trial {trial}", state.trials[trial - 1].blob
    else:
        found = next((each for each in state.attempts if each.number == attempt), None)
        if found is None or found.lost:
            raise Refused(f"there is no text of an attempt {attempt}")
        name, blob = f"attempt {attempt}", found.blob
    try:
        return name, call.run.kernel(blob)
    except HistoryError as error:
        raise Refused(f"the text of {name} is lost: {error}") from None


def kernel_fault(kernel: KernelFiles) -> str | None:
    """Return why files can be no kernel, which is told before anything is spent on it."""
    from akg_tui.dsl.kernel_text import syntax_fault

    try:
        for name, text in kernel.texts.items():
            Document.from_text(text, path=name)
    except ValueError as error:
        return str(error)
    return syntax_fault(kernel)


async def measured(
    call: ToolContext, kernel: KernelFiles, *, samples: int = SAMPLES, warmups: int = WARMUPS
) -> Measurement:
    """Measure a version against the incumbent, for at most `policy.trial_s` seconds."""
    run = call.run
    seconds, best = run.state.task.policy.trial_s, run.state.best
    incumbent = run.kernel(best.blob) if best else None
    return await run.measure(
        kernel, incumbent, timed=True, samples=samples, warmups=warmups, limit_s=seconds
    )


async def verified(
    call: ToolContext, kernel: KernelFiles, ahead: Sequence[KernelFiles] = ()
) -> Measurement:
    """Verify a version without timing it, for at most `policy.trial_s` seconds.

    The versions `ahead` are verified next: on the same inputs, and built together.
    """
    seconds = call.run.state.task.policy.trial_s
    return await call.run.measure(kernel, timed=False, limit_s=seconds, ahead=ahead)


async def raced(call: ToolContext, kernels: Sequence[KernelFiles], within_s: float) -> RaceOutcome:
    """Time verified versions in turns with each other."""
    limit_s = call.run.state.task.policy.trial_s
    return await call.run.race(kernels, within_s=min(within_s, limit_s), limit_s=limit_s)


def _told(call: ToolContext, number: int, told: str, found: Measurement, draft: Draft) -> Answer:
    """Return what a trial found: the outcome, the figures, the new tags, and what is left."""
    busy = busy_line(found.noise, found.detectable)
    lines = [*filter(None, [busy]), f"trial {number}: {told}"]
    correct = found.outcome is Outcome.CORRECT
    if correct and found.max_error is not None and found.tolerance is not None:
        lines.append(f"worst error {found.max_error:.3g}, bound {found.tolerance:.3g}")
    if found.candidate_ms is not None and found.baseline_ms is not None:
        times = f"{found.candidate_ms:.4g} ms a call, the incumbent {found.baseline_ms:.4g} ms"
        lines.append(f"{times}; a short measurement, which decides nothing")
    if found.roofline is not None and found.roofline.share >= NEAR:
        share = f"{found.roofline.share:.0%} of the copy rate of {found.roofline.level}"
        lines.append(f"it moves its inputs and outputs at {share}")
    lines += [f"{each.name}: {each}" for each in found.metrics]
    if found.detail:
        lines.append(found.detail[:MAX_DETAIL])
    failing = _failing_line(call, number, draft, found.place)
    tag = failing.rpartition("\n")[2].partition("|")[0]
    if tag and tag not in draft.told.split():  # the edit has just told its new tags
        lines.append(f"The line, tagged for an edit of trial {number}:\n{failing}")
    if draft.told:
        lines.append(draft.told)
    left = trials_left(call.run.state)
    lines.append(f"{left} trials of {call.run.state.active} are left")
    text = "\n".join(lines)
    if correct:
        return Answer.success(text)
    return Answer.error(text, foreign=True)


def _failing_line(call: ToolContext, number: int, draft: Draft, place: Place | None) -> str:
    """Return the line of a trial that its failure names, so that an edit may name it, or ""."""
    texts = draft.kernel.texts
    if place is None or place.file not in texts:
        return ""
    if not 1 <= place.line <= len(lines_of(texts[place.file])):
        return ""
    row = draft.kernel.before[place.file] + place.line
    return call.kernel.show_rows([row], f"trial {number}", draft.kernel)
