"""The measurements that the judge makes during a wait for the model, the most useful first.

Pure. Nothing here decides or costs anything: a measurement that the run makes anyway is made
earlier, and a faster setting of the best kernel's knobs is told to the model, which may submit it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from akg_tui.core.effects import Measure, compile_owed, final, measure_again
from akg_tui.core.events import IdleMeasured, Purpose
from akg_tui.core.kernel.knobs import Knob, setting_key
from akg_tui.core.phases import Gate
from akg_tui.core.state import Incumbent, RunState
from akg_tui.core.stopping.limits import stop_reasons

MOST_SETTINGS = 2_000
"""Of one kernel. The search for the next, and a reader of the journal, take time that grows with
the square of their number."""


def idle_work(
    state: RunState, now: float, knobs: Sequence[Knob], interrupted: Mapping[Measure, int]
) -> Measure | None:
    """Return the measurement to make now; None if there is none, or the run pauses or ends.

    `knobs` are those of the best kernel. Of what is useful, that comes first which was
    `interrupted` least often: what takes longer than the model thinks does not hold up the rest.
    """
    best, baseline = state.best, state.baseline
    if best is None or baseline is None or not (state.task.agent.idle_work and baseline.timed):
        return None
    if state.paused or stop_reasons(state, now):
        return None
    return min(_useful(state, best, knobs), key=lambda each: interrupted.get(each, 0), default=None)


def _useful(state: RunState, best: Incumbent, knobs: Sequence[Knob]) -> Iterator[Measure]:
    for item in state.pending:
        earlier = state.waiting(item)
        if earlier and state.found_idle(Purpose.CANDIDATE, earlier.blob, best.blob) is None:
            yield replace(measure_again(state, earlier), attempt=0)
    if Gate.EDIT in state.gates:  # a person approves new code before it runs
        knobs = ()
    yield from _setting(state, best, knobs, (1,))
    if (compiled := compile_owed(state)) and state.found_idle(compiled, "", None) is None:
        yield Measure(compiled, 0, "", None)
    figure = final(best, state.seed_blob)
    if best.attempt and state.found_idle(figure.purpose, figure.blob, figure.incumbent) is None:
        yield figure
    yield from _setting(state, best, knobs, range(2, len(knobs) + 1))


def _setting(
    state: RunState, best: Incumbent, knobs: Sequence[Knob], changes: Iterable[int]
) -> Iterator[Measure]:
    """Yield the next setting that differs in so many knobs from the fastest known, if any is left.

    The fastest known is that of the best kernel, until another is faster beyond doubt.
    """
    found = settings_found(state)
    if len(found) >= MOST_SETTINGS:
        return
    done = {setting_key(each.setting) for each in found}
    fastest = max(found, key=faster, default=None)
    own = {knob.name: knob.value for knob in knobs}
    base = own if fastest is None or not faster(fastest) else own | fastest.setting
    for count in changes:
        for some in itertools.combinations(knobs, count):
            others = ([c for c in knob.choices if c != base[knob.name]] for knob in some)
            for values in itertools.product(*others):
                new = base | dict(zip((knob.name for knob in some), values, strict=True))
                changed = {name: value for name, value in new.items() if value != own[name]}
                if changed and setting_key(changed) not in done:
                    pairs = tuple(changed.items())
                    yield Measure(Purpose.SETTING, 0, best.blob, best.blob, setting=pairs)
                    return


def settings_found(state: RunState) -> list[IdleMeasured]:
    """Return the settings of the best kernel that were measured against it, oldest first."""
    return [each for each in state.idle_found if each.purpose is Purpose.SETTING]


def faster(found: IdleMeasured) -> float:
    """Return the least gain that a setting's figure leaves possible; 0.0 if it is none."""
    ratio = found.measurement.ratio
    return max(0.0, ratio.low - 1) if ratio is not None else 0.0
