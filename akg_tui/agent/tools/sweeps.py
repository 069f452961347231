"""The tool sweep_kernel: the harness measures the settings of a version's declared knobs.

Measures the settings that the call lists, or all if the trials that are left suffice, or those that
the search of the sweep agent proposes, which learns from the listed ones. Each is verified; then
they and the incumbent race against each other (`akg_tui.evaluate.race`). A measurement is journaled
like a trial and decides nothing. At last the judge compares the best one with the incumbent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import replace

from akg_tui.agent.knob_search import (
    Trial,
    every_setting,
    propose_settings,
    settings_in_space,
)
from akg_tui.agent.tools.declaration import Arg, ToolContext, tool
from akg_tui.agent.tools.file_access import Refused
from akg_tui.agent.tools.run_access import Answer, Draft
from akg_tui.agent.tools.trials import (
    Source,
    chosen,
    judge_failed,
    kernel_fault,
    measured,
    raced,
    recorded,
    submitted,
    verified,
)
from akg_tui.core.commands import Refusal
from akg_tui.core.effects import wait_over
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.kernel.knobs import (
    HOW_TO_DECLARE,
    BadKnob,
    Knob,
    Value,
    check_setting,
    describe,
    knobs_in,
    setting_key,
    with_setting,
)
from akg_tui.core.measurement import FailureKind, Measurement, Outcome, RaceOutcome
from akg_tui.core.phases import Phase
from akg_tui.core.plan.trial_budget import SWEPT_A_TRIAL, check_trial, next_sweep, trials_left
from akg_tui.core.verdict import busy_line, percent

MAX_KNOBS = 8
MAX_CHOICES = 32
BATCH = 4  # settings that the search proposes at a time; small, so that it learns from them
RACE_S = 20.0  # beyond the two rounds that all settings take part in
MAX_DETAIL = 2_000

Setting = dict[str, Value]
Changes = Annotated[dict[str, Any] | None, Arg(resolve="never", schema={"type": "object"})]


class Swept(Struct, frozen=True):
    """A measured setting, with the number of its trial, and its group in the last race.

    Settings of one group cannot be told apart; 0: it was not in that race.
    """

    trial: int
    setting: Setting
    kernel: KernelFiles
    found: Measurement
    group: int = 0

    @property
    def gain(self) -> float:
        """The speed over the incumbent's: 0 for a failure, 1 if nothing could be timed."""
        if self.found.outcome is not Outcome.CORRECT:
            return 0.0
        return self.found.ratio.ratio if self.found.ratio is not None else 1.0


@tool("domain_tool", (Phase.EDIT,), main_agent_only=True)
async def sweep_kernel(
    call: ToolContext,
    *,
    edit: Changes = None,
    set: Changes = None,  # noqa: A002 - the argument's name in a call
    text: Annotated[str | None, Arg(resolve="never")] = None,
    path: str | None = None,
    trial: Annotated[int | None, Arg(minimum=1)] = None,
    attempt: Annotated[int | None, Arg(minimum=0)] = None,
    knobs: Annotated[tuple[str, ...] | None, Arg("Those to vary; left out, all.")] = None,
    configs: Annotated[
        list[dict[str, Any]] | None,
        Arg(
            resolve="never",
            schema={
                "type": "array",
                "items": {"type": "object"},
                "description": "Settings to measure, such as your best guesses: {knob: value}.",
            },
        ),
    ] = None,
    settings: Annotated[
        int | None,
        Arg(
            "How many settings; left out, the configs, or as many as the trials pay for.",
            minimum=1,
        ),
    ] = None,
    submit: Annotated[
        bool, Arg("Submit the best at once, if correct and not surely slower.")
    ] = False,
) -> Answer:
    """Time settings of the knobs that a version (as to try_kernel) declares, each on a line at
    module level: `TILE = 64  # tune: [32, 64, 128]`, in C++ `#define TILE 64  // tune: [32, 64]`;
    then the best against the incumbent. Four measurements cost one trial.
    """
    draft, _ = chosen(call, Source(text, path, trial, attempt, edit, set), kernel=True)
    if isinstance(draft, Answer):
        return draft
    if fault := kernel_fault(draft.kernel):
        return Answer.error(f"{fault}; nothing was measured")
    guesses = tuple(configs or ())
    varied = _knobs(draft.kernel, knobs or tuple(name for each in guesses for name in each))
    varied = _with_guesses(varied, guesses)
    number = next_sweep(call.run.state)
    try:
        check_trial(call.run.state, number)
    except Refusal as refusal:
        return Answer.error(str(refusal))
    # One measurement of the paid ones is the comparison of the best.
    room = SWEPT_A_TRIAL * trials_left(call.run.state) - 1
    whole = (_whole_setting(varied, each) for each in ({}, *guesses))
    first = list({setting_key(each): each for each in whole}.values())
    if guesses and len(first) > room:
        return Answer.error(f"configs: the trials left pay for {room - 1}; nothing was measured")
    wanted = settings or (len(first) if guesses else room)
    most = max(min(wanted, room, settings_in_space(varied)), len(first))
    sweep = _Sweep(call, draft, varied, number, most, first=first)
    return await sweep.run(submit=submit)


def _knobs(kernel: KernelFiles, names: Sequence[str] | None) -> tuple[Knob, ...]:
    """Return the knobs to vary, each choice once. Raises `Refused`."""
    try:
        declared = knobs_in(kernel)
    except BadKnob as error:
        raise Refused(f"{error}; nothing was measured") from None
    if not declared:
        raise Refused(f"{HOW_TO_DECLARE}; nothing was measured")
    known = {knob.name: knob for knob in declared}
    for name in names or ():
        if name not in known:
            raise Refused(f"{name[:60]} is not declared; there are: {', '.join(known)}")
    varied = [known[name] for name in dict.fromkeys(names or known)]
    if len(varied) > MAX_KNOBS:
        raise Refused(f"{len(varied)} knobs are declared; name at most {MAX_KNOBS} in `knobs`")
    found = []
    for knob in varied:
        choices = {repr(choice): choice for choice in knob.choices}
        if len(choices) > MAX_CHOICES:
            raise Refused(f"{knob.name} has {len(choices)} choices; at most {MAX_CHOICES} go")
        found.append(replace(knob, choices=tuple(choices.values())))
    return tuple(found)


def _with_guesses(knobs: tuple[Knob, ...], guesses: Sequence[Setting]) -> tuple[Knob, ...]:
    """Return the knobs with the guessed values among their choices. Raises `Refused`."""
    found = []
    for knob in knobs:
        choices = {repr(choice): choice for choice in knob.choices}
        for number, guess in enumerate(guesses):
            try:
                check_setting(knobs, guess)
            except BadKnob as error:
                raise Refused(f"configs[{number}]: {error.why}; nothing was measured") from None
            if knob.name in guess:
                choices.setdefault(repr(guess[knob.name]), guess[knob.name])
        found.append(replace(knob, choices=tuple(choices.values())))
    return tuple(found)


def _whole_setting(knobs: Sequence[Knob], some: Setting) -> Setting:
    return {knob.name: some.get(knob.name, knob.value) for knob in knobs}


class _Sweep:
    """One sweep: what is measured so far, and why it ended before its last setting."""

    def __init__(
        self,
        call: ToolContext,
        draft: Draft,
        knobs: tuple[Knob, ...],
        number: int,
        most: int,
        *,
        first: Sequence[Setting],
    ) -> None:
        self._call = call
        self._draft = draft
        self._kernel = draft.kernel
        self._first = first
        self._knobs = knobs
        self._number = number
        self._most = most
        self._swept: list[Swept] = []
        self._ended = ""
        self._noisiest = RaceOutcome()
        """The busy race in which the smallest gain that would be seen was the largest."""
        trials = -(-(most + 1) // SWEPT_A_TRIAL)
        self._until = time.monotonic() + trials * call.run.state.task.policy.trial_s

    async def run(self, *, submit: bool) -> Answer:
        """Measure the settings and compare the best; return the table."""
        own = _whole_setting(self._knobs, {})
        await self._measure([own, *self._others(own)] if self._takes_all else self._first)
        while not self._ended and (batch := await self._next(own)):
            await self._measure(batch)
        rows = self._rows()
        best = max(self._swept, key=lambda each: each.gain, default=None)
        if best is None or not best.gain:
            failed = next((each.found.detail for each in self._swept if each.found.detail), "")
            rows += [failed[:MAX_DETAIL]] if failed else []
            return Answer.error("\n".join([*rows, self._left()]), foreign=True)
        incumbent = self._call.run.state.best
        if incumbent and best.kernel == self._call.run.kernel(incumbent.blob) and not self._ended:
            rows.append("no setting is faster than the kernel as it is: nothing was submitted")
            return Answer.success("\n".join([*rows, self._left()]), foreign=self._has_failures)
        found = best.found
        if found.ratio is not None and not self._ended:
            found = await measured(self._call, best.kernel, samples=0)
            if self._record(best.setting, best.kernel, found):
                rows.append(
                    f"the judge's comparison of trial {best.trial} is "
                    f"trial {self._swept[-1].trial}: {self._call.run.state.trials[-1].told}"
                )
        answer = Answer.success("\n".join([*rows, self._left()]), foreign=self._has_failures)
        if not submit:
            return answer
        chosen_one = self._call.kernel.changed(self._draft, best.kernel)
        return submitted(self._call, answer, chosen_one, describe(best.setting, own), found)

    @property
    def _has_failures(self) -> bool:
        """Whether the table holds messages of kernels."""
        return any(not each.gain for each in self._swept)

    @property
    def _takes_all(self) -> bool:
        return settings_in_space(self._knobs) == self._most

    def _others(self, own: Setting) -> list[Setting]:
        return [
            each for each in every_setting(self._knobs) if setting_key(each) != setting_key(own)
        ]

    async def _next(self, own: Setting) -> list[Setting]:
        """Return the next settings to measure; none when all are, or the sweep is paid up."""
        room = self._most - len(self._swept)
        if room <= 0:
            return []
        if self._takes_all:
            return []
        tried = [Trial(each.setting, each.gain or None) for each in self._swept]
        # In a thread, because the import and the run of the sampler would block the event loop.
        return await asyncio.to_thread(
            propose_settings,
            self._knobs,
            tried,
            [],
            count=min(BATCH, room),
            seed=self._call.run.state.task.agent.seed,
        )

    async def _measure(self, settings: Sequence[Setting]) -> None:
        """Verify the settings in turn, until the sweep must end; then race those that are right."""
        right: list[tuple[Setting, KernelFiles, Measurement]] = []
        kernels = [with_setting(self._kernel, each) for each in settings]
        for at, (setting, kernel) in enumerate(zip(settings, kernels, strict=True)):
            state = self._call.run.state
            if wait_over(state, state.last_at):
                self._ended = "the run pauses or has reached a limit"
            elif time.monotonic() >= self._until:
                self._ended = "its time is used up"
            if self._ended:
                break
            found = await verified(self._call, kernel, kernels[at + 1 :])
            if found.outcome is Outcome.CORRECT and found.timed:
                right.append((setting, kernel, found))
            else:
                self._record(setting, kernel, found)
        if right and not self._ended:
            await self._race(right)
            return
        for each in right:
            self._record(*each)

    async def _race(self, right: Sequence[tuple[Setting, KernelFiles, Measurement]]) -> None:
        """Time settings in turns with the incumbent and the fastest so far, and record them."""
        run = self._call.run
        first = [run.kernel(run.state.best.blob) if run.state.best else self._kernel]
        best = max(self._swept, key=lambda each: each.gain, default=None)
        if best is not None and best.gain and best.kernel not in first:
            first.append(best.kernel)
        outcome = await raced(self._call, [*first, *(kernel for _, kernel, _ in right)], RACE_S)
        self._until += outcome.waited_s
        if outcome.message:
            self._ended = f"the settings were not timed: {outcome.message}"
            return
        if outcome.noise and (outcome.detectable or 0.0) >= (self._noisiest.detectable or 0.0):
            self._noisiest = outcome
        groups = dict(zip(first, (racer.group for racer in outcome.racers), strict=False))
        self._swept = [replace(each, group=groups.get(each.kernel, 0)) for each in self._swept]
        for (setting, kernel, found), racer in zip(
            right, outcome.racers[len(first) :], strict=True
        ):
            timed = replace(
                found,
                ratio=racer.ratio,
                candidate_ms=racer.ms,
                baseline_ms=outcome.racers[0].ms,
                noise=outcome.noise,
            )
            if racer.failed:
                timed = Measurement(
                    outcome=Outcome.FAILED, failure=FailureKind.CALL, message=racer.failed
                )
            self._record(setting, kernel, timed, racer.group)

    def _record(
        self, setting: Setting, kernel: KernelFiles, found: Measurement, group: int = 0
    ) -> bool:
        """Journal a measurement; return whether it counts."""
        if judge_failed(found):
            self._ended = f"the judge failed: {found.message}"
        elif why := recorded(self._call, kernel, describe(setting, {}), found, self._number):
            self._ended = why
        else:
            made = self._call.run.state.trials[-1].number
            self._swept.append(Swept(made, setting, kernel, found, group))
            return True
        return False

    def _rows(self) -> list[str]:
        space = settings_in_space(self._knobs)
        head = f"sweep {self._number} of {self._call.run.state.active}: {len(self._swept)} of "
        head += f"{space} settings, timed in turns with the incumbent, the fastest first"
        ranked = sorted(self._swept, key=lambda each: -each.gain)
        rows = [head, *map(self._row, ranked)]
        if any(each.group for each in ranked):
            rows.insert(1, "settings of one group cannot be told apart")
        if busy := busy_line(self._noisiest.noise, self._noisiest.detectable):
            rows.insert(0, busy)
        return [*rows, f"it ended early: {self._ended}"] if self._ended else rows

    def _row(self, one: Swept) -> str:
        what = f"trial {one.trial}: {describe(one.setting, {})}: "
        if one.group:
            what = f"group {one.group}: {what}"
        if one.found.outcome is not Outcome.CORRECT or one.found.ratio is None:
            return what + self._call.run.state.trials[one.trial - 1].told
        return f"{what}{percent(one.found.ratio)}, {one.found.candidate_ms or 0.0:.4g} ms"

    def _left(self) -> str:
        state = self._call.run.state
        return f"{trials_left(state)} trials of {state.active} are left"
