"""Header, phase row, status row, sparkline and key row of a run, as lines.

Pure: no widget, no clock, no colours. Text of the task, the agent or a kernel is sanitized here,
so that its width is known.
"""

from __future__ import annotations

from msgspec.structs import replace

from akg_tui.core.effects import Effect, Hold, RunAgent, due, in_sight, next_effect, under_way
from akg_tui.core.events import COMPILED
from akg_tui.core.measurement import Outcome, Progress
from akg_tui.core.phases import AGENT_PHASES, MODE_GATES, Overlay, Phase, Verdict
from akg_tui.core.sanitize import clean, one_line
from akg_tui.core.state import RunState
from akg_tui.core.summary import best_of, climb_of, ratios_of
from akg_tui.core.task import host_of
from akg_tui.core.user_commands import can_go_on
from akg_tui.view import formatting
from akg_tui.view.controls.command_registry import way_to
from akg_tui.view.evaluation_rows import disturbance
from akg_tui.view.glyphs import DONE, IDLE, LIVE, MODE, VERDICT, WAITS, bar, spark
from akg_tui.view.language import retold, tr, translated
from akg_tui.view.spans import ELLIPSIS, Line, Span, cells, cut, fit, join, line, spread, width

_SEPARATOR: Span = (" │ ", "phase.rule")
_SHORT = {Phase.BASELINE: "BASE", Phase.DECIDE: "DECIDE", Phase.DIAGNOSE: "DIAG"}
_FULL_RAIL = 100
_LONG_NOISE = 120
_LEAST_NAME, _SHORT_NAME = 8, 5


def header(
    state: RunState, now: float, room: int, progress: Progress | None = None, *, rests: bool = False
) -> Line:
    """Return one row: task, target, round, best ratio, noise, mode, verdicts, tokens, the model's
    server, and time.
    """
    task = state.task
    where = f"{task.target.backend} {one_line(task.target.arch)}".strip()
    rounds = f"{_round(state)}/{task.policy.max_rounds}"
    target = tr("{dsl} on {target}", dsl=task.target.dsl, target=where)
    spent = formatting.clock(state.worked(now))
    limit = task.policy.max_hours
    name = clean(task.op)
    best = _best(state)
    briefs = [_best(state, brief=True, ratios=most) for most in (None, 2, 1)]
    parts: list[tuple[int, Line]] = [
        (9, line(("akg-tui", "brand")) if room >= _FULL_RAIL else ()),
        (0, line((name, "strong"))),
        (7, line((target, "muted"))),
        (2, line((f"{tr('round')} ", "muted"), (rounds, "text"))),
        (1, best),
        (3, () if rests else _noise(state, progress, room)),
        (4, _mode(state)),
        (5, _verdict_counts(state)),
        (8, _tokens(state)),
        (6, line((host_of(task.agent.server), "muted"))),
    ]
    right = line(
        (f"{tr('worked')} ", "muted") if room >= _FULL_RAIL else "",
        (spent, "text"),
        (f" {tr('of {limit}', limit=formatting.hours(limit))}" if limit else "", "muted"),
    )
    # Leave out the least important parts until the row fits; before the figures, cut the name.
    for least in range(10, 0, -1):
        shortest = _LEAST_NAME if least > 3 else _SHORT_NAME
        spare = max(0, cells(name) - shortest) if least <= 5 else 0
        # Before the round, the ratios over compile and eager go.
        for figures in (best, *briefs[: 1 if least > 3 else 3]):
            shown = [figures if part is best else part for rank, part in parts if rank < least]
            left = join(shown, _SEPARATOR)
            over = width(left) + width(right) + 3 - room
            if over > 0 and figures is not best and over <= spare:
                short = line((cut(name, cells(name) - over), "strong"))
                left = join([short, *shown[1:]], _SEPARATOR)
                over = 0
            if over <= 0:
                return spread((("", "text"), *left), right, room)
    return spread((("", "text"), *left), right, room)


def server_told(state: RunState) -> str:
    """Return the server that the run's model is asked at; "" if there is none."""
    host = host_of(state.task.agent.server)
    return tr("server {host}", host=host) if host else ""


def _noise(state: RunState, progress: Progress | None, room: int) -> Line:
    found = disturbance(state, progress)
    return line((found.badge(short=room < _LONG_NOISE) if found else "", "note"))


def _mode(state: RunState) -> Line:
    """Return the mode, the gates that differ from it, and the number of rules in force."""
    usual = MODE_GATES[state.mode]
    beside = [f"+{gate}" for gate in state.gates if gate not in usual]
    beside += [f"-{gate}" for gate in usual if gate not in state.gates]
    told = f" {' '.join(beside)}" if beside else ""
    rules = len(state.rules_in_force)
    said = f", {formatting.count(rules, 'rule')}" if rules else ""
    mode = line((f"{tr('mode')} ", "muted"), (state.mode.value, MODE[state.mode]))
    return line(*mode, (told + said, "note"))


def _round(state: RunState) -> int:
    writes = state.best is None and state.round > state.settled
    under_way = state.active is not None or state.phase is Phase.EVAL or writes
    again = state.measured_again is not None
    return state.rounds + 1 if under_way and not again and not state.finished else state.rounds


def _best(state: RunState, *, brief: bool = False, ratios: int | None = None) -> Line:
    """Return the ratios of the best kernel; in brief, a sign marks those that are provisional, and
    only the first `ratios` are named.
    """
    if verified_only(state):
        return line((tr("verified only"), "note"))
    best = best_of(state)
    if best is None:
        wrong = bool(state.tries) or baseline_lost(state)
        writes = wrong and Phase.WRITE in state.workflow.rows
        told = tr("not correct yet") if writes else tr("no baseline yet")
        return line((told, "muted"))
    if brief:
        return line((f"{formatting.sign(best)}{formatting.ratios(best, ratios)}", "figure"))
    which = formatting.attempt(best.attempt)
    return line(
        (f"{formatting.best_label(best)} ", "muted"),
        (formatting.ratios(best), "figure"),
        (f" {which}" if best.attempt else "", "muted"),
    )


def verified_only(state: RunState) -> bool:
    """Return whether the kernel was verified but not timed, as an interpreter ran it."""
    found = state.baseline
    return found is not None and not found.timed


def _verdict_counts(state: RunState) -> Line:
    spans: list[Span] = []
    for verdict, (glyph, role) in VERDICT.items() if state.settled > state.tries else ():
        count = state.count(verdict)
        if count or verdict in (Verdict.KEEP, Verdict.DISCARD, Verdict.FAIL):
            spans.append((f"{' ' if spans else ''}{glyph}{count}", role))
    return tuple(spans)


def _tokens(state: RunState) -> Line:
    total = state.session_tokens
    policy = state.task.policy.automation
    limit = policy.max_tokens if policy is not None else None
    if limit is not None:
        return line((f"{formatting.tokens(total)} / {formatting.token_limit(limit)}", "muted"))
    told = formatting.count(total, "token", formatting.tokens(total)) if total else ""
    return line((told, "muted"))


def phase_row(
    state: RunState, now: float, room: int, *, holds: bool = True, at_rest: bool = False
) -> Line:
    """Return one row: the workflow's phases, the current one marked, with the time spent in it."""
    full = room >= _FULL_RAIL
    passed = _passed(state)
    road = _road(state)
    following = upcoming(state, now)
    rule: Span = (" ── " if full else " ", "phase.rule")
    shown: list[Line] = []
    here = 0
    for phase in road:
        name = phase.value if full else _SHORT.get(phase, phase.value)
        if phase is state.phase:
            here = len(shown)
            held = at_rest or isinstance(_in_sight(state, now, holds), Hold)
            shown.append((_live(state, now, name, full, held=held),))
        elif (
            phase is Phase.BASELINE and state.finished and baseline_lost(state) and not state.tries
        ):
            shown.append(((f"✗{name}", "verdict.fail"),))
        elif phase is following:
            again = phase is Phase.BASELINE and baseline_lost(state)
            sign = DONE if phase in passed and not again else IDLE
            shown.append(((f"{sign}{name}", "phase.next"),))
        elif phase in passed:
            shown.append(((f"{DONE}{name}", "phase.done"),))
        else:
            shown.append(((f"{IDLE}{name}", "phase.idle"),))
    first: Line = ()
    # Where there is no room for all, the earliest phases give way, never the current one.
    while here and width(join([first, *shown[: here + 1]], rule)) + cells(ELLIPSIS) > room:
        shown, here, first = shown[1:], here - 1, ((ELLIPSIS, "phase.rule"),)
    return fit(join([first, *shown], rule), room)


def _live(state: RunState, now: float, name: str, full: bool, *, held: bool) -> Span:
    if state.finished:
        return f" {DONE if state.ok else '✗'} {name} ", "phase.live"
    spent = f" {formatting.short_time(now - state.phase_since)}" if full or not held else ""
    return f" {WAITS if held else LIVE} {name}{spent} ", "phase.wait" if held else "phase.live"


def _in_sight(state: RunState, now: float, holds: bool) -> Effect | None:
    """Return the effect to display. A pause lets a request to the model end, which is no event yet;
    `holds` tells whether it has.
    """
    effect = in_sight(state, now)
    if isinstance(effect, Hold) and effect.overlay is Overlay.PAUSED and effect.due is None:
        return effect if holds or state.phase not in AGENT_PHASES else RunAgent(state.phase)
    return effect


def _road(state: RunState) -> list[Phase]:
    """Return the phases of the rail: the workflow's, without a WRITE that was never needed."""
    skips = state.best is not None and not state.tries
    return [each for each in state.workflow.rows if not (skips and each is Phase.WRITE)]


def _passed(state: RunState) -> frozenset[Phase]:
    """Return the phases that lie behind."""
    road = [each for each in _road(state) if each not in (Phase.DIAGNOSE, Phase.DONE)]
    if state.phase is Phase.DONE and state.settled == state.tries:  # no round was tuned
        road = [each for each in road if each in (Phase.INIT, Phase.BASELINE, Phase.WRITE)]
    elif state.phase in road:
        road = road[: road.index(state.phase)]
    return frozenset(each for each in road if each is not Phase.WRITE or state.tries)


def upcoming(state: RunState, now: float) -> Phase | None:
    """Return the expected next phase; None when the run is over."""
    if state.finished or state.phase is Phase.DONE:
        return None
    if ready := due(state, now):
        return ready[0]
    if state.phase is not Phase.DECIDE:
        return state.row.to[0]
    if state.rounds + 1 >= state.task.policy.max_rounds:
        return Phase.DONE
    expected = Phase.EDIT if state.pending else Phase.PLAN
    return expected if expected in state.row.to else state.row.to[0]


def status(
    state: RunState,
    activity: str,
    progress: Progress | None,
    now: float,
    room: int,
    *,
    past: bool = False,
    holds: bool = True,
    at_rest: bool = False,
) -> Line:
    """Return one row: the current activity, or what the run waits for and the key to go on.

    With `past`, the row names no key: a past event cannot be answered. `holds`: no work is under
    way, so that a pause has begun. `at_rest`: nobody is at work, as `activity` says.
    """
    if state.finished:
        role = "verdict.keep" if state.ok else "verdict.fail"
        end = line((tr("the run is over: "), role), (retold(state.finished), "text"))
        why = width(end)
        if best := best_of(state):
            told = f"; {formatting.best_label(best)}: {formatting.ratios(best)}"
            end = (*end, (told, "figure"))
        if past:
            return fit(end, room)
        more, leave = way_to("run.more"), way_to("app.quit")
        leaves = tr("{key} leaves", key=leave)
        if can_go_on(state):
            both = tr("{more} goes on with more rounds, {key} leaves", more=more, key=leave)
            leaves = both if why + cells(both) < room else leaves
        return spread(end, line((leaves, "muted")), room)
    if at_rest and not past:
        return fit(line((retold(activity), "note")), room)
    effect = _in_sight(state, now, holds)
    if isinstance(effect, Hold) and not past:
        return fit(_held(state, effect), room)
    doing = retold(activity) or tr("working")
    if isinstance(effect, Hold):
        return fit(line((f"{effect.overlay}  ", "note"), (doing, "text")), room)
    left = line((_ending(state), "note"), (doing, "text"))
    if progress is not None:
        left = (*left, *_progress(progress, doing))
    if state.paused and not past:
        goes_on = tr("{key} goes on", key=way_to("run.pause"))
        right = line((f"{tr('then')} ", "muted"), (Overlay.PAUSED.value, "note"), f", {goes_on}")
        return spread(left, right, room)
    if state.running is not None and state.running.purpose in COMPILED and not past:
        leaves = tr("{key} leaves it out", key=way_to("run.skip_compile"))
        return spread(left, line((leaves, "note")), room)
    following = upcoming(state, now)
    right = line((f"{tr('then')} ", "muted"), (following.value, "phase.next")) if following else ()
    return spread(left, right, room)


def _ending(state: RunState) -> str:
    """Return the words before an activity that an undo, a pause or the end of the run waits for."""
    if state.undo_queued:
        return tr("undo of attempt {number} after: ", number=state.undo_queued.attempt)
    if state.paused:
        return tr("pausing after: ")
    if state.stop_reason and state.phase is not Phase.DONE:
        return tr("ending after: ")
    return ""


def stop_told(state: RunState, now: float, *, step: str) -> str:
    """Return when a run ends that a person stops now; `step` is a key or a word."""
    effect = next_effect(replace(state, stop_reason="stopped", paused=False), now)
    if not isinstance(effect, Hold) or under_way(state):
        return tr("the run ends as soon as what is under way is done")
    match effect.overlay:
        case Overlay.WAIT_USER:
            return tr("the run ends after your answer to the card")
        case Overlay.WAIT_STEP:
            return tr("the run ends with the next step: {key}", key=step)
    return tr("the run ends as soon as what is under way is done")


def _held(state: RunState, hold: Hold) -> Line:
    to = tr(" to {phase}", phase=hold.due) if hold.due else ""
    on, step, mode = (way_to(f"run.{name}") for name in ("pause", "step", "mode"))
    granted = state.granted and hold.overlay is not Overlay.WAIT_USER
    match hold.overlay:
        case Overlay.PAUSED if state.phase is Phase.DONE:
            how = tr("PAUSED: {on} goes on", on=on)
        case Overlay.PAUSED:
            how = tr("PAUSED: {on} goes on, {step} takes one step{to}", on=on, step=step, to=to)
        case Overlay.WAIT_STEP:
            how = tr("WAIT_STEP: {step} takes one step{to}, {mode} changes the mode",
                     step=step, to=to, mode=mode)  # fmt: skip
        case Overlay.WAIT_USER:
            how = f"WAIT_USER: {_asked(state)}"
        case Overlay.WAIT_API:
            how = f"WAIT_API: {_waiting_api(state)}"
    ends = f" ({tr('then the run ends')})" if state.stop_reason else ""
    if queued := state.undo_queued:
        ends = (
            f" ({tr('then the KEEP of attempt {number} is undone', number=queued.attempt)}){ends}"
        )
    return line((how, "note"), (f" ({tr('granted')})" if granted else "", "muted"), (ends, "note"))


def _asked(state: RunState) -> str:
    """Return the request that waits for the user, with its keys."""
    if state.question is not None:
        asked = retold(state.question.text)
        return tr("the agent asks, its card says how to answer: {text}", text=asked)
    number = state.gate.attempt if state.gate else state.next_attempt
    review, see = way_to("review.open"), way_to("ask.see")
    yes, no = way_to("ask.keep"), way_to("ask.reject")
    match state.gate.kind if state.gate else "keep":
        case "plan":
            return tr("the plan waits for you, {yes} goes on, {no} wants another", yes=yes, no=no)
        case "edit":
            return tr("the edit of attempt {number} waits for you before it runs, {key} shows it",
                      number=number, key=review)  # fmt: skip
        case "script":
            return tr("a script waits for your leave to run, {key} shows it", key=see)
        case _:
            return tr("the KEEP of attempt {number} waits for you, {key} shows it",
                      number=number, key=review)  # fmt: skip


def _waiting_api(state: RunState) -> str:
    if state.api_failure:
        why = retold(state.api_failure)
        return tr("{why}; {key} tries again", why=why, key=way_to("run.pause"))
    if wait := state.api_wait:
        return translated(formatting.next_try(wait.attempt, wait.seconds, wait.reason))
    return tr("the model's server")


def _progress(progress: Progress, doing: str) -> Line:
    spans: list[Span] = [(f": {formatting.stage(progress.stage)} ", "text")]
    part, whole = progress.filled
    if whole:
        full, rest = bar(part, whole, 12)
        spans += [(full, "progress"), (rest, "progress.rest")]
        spans.append((f" {progress.told}", "muted"))
    if progress.ratio and not formatting.too_early(progress.ratio):
        interval = progress.ratio
        spans.append((f"  {formatting.times(interval.ratio)}", "figure"))
        spans.append((f" [{interval.low:.2f}, {interval.high:.2f}]", "muted"))
    message = retold(progress.told_by_message)
    if message and message not in doing:
        spans.append((f"  {message}", "muted"))
    return tuple(spans)


def sparkline(state: RunState, room: int) -> Line:
    """Return the chart as one row: the ratio of the best over time, and the last attempt."""
    attempts = [a for a in state.attempts if a.number]
    if not attempts:
        return fit(line((no_attempt(state), "muted")), room)
    climb = climb_of(state)
    last = attempts[-1]
    last_over = ratios_of(state, last)
    glyph, role = VERDICT[last.verdict]
    best = best_of(state)
    reached = formatting.ratio(best.over_seed) if best else formatting.times(climb[-1])
    tail = line(
        (f" 1.00× → {reached}", "figure"),
        (f"  {tr('last {item}', item=last.item)} ", "muted"),
        (f"{glyph} {last.verdict}", role),
        (f" {formatting.ratio(last_over.over_seed)}" if last_over else "", role),
    )
    return fit(((spark(climb, max(4, room - width(tail))), "chart.best"), *tail), room)


def no_attempt(state: RunState) -> str:
    if verified_only(state):
        return tr("verified only: there are no times to draw")
    writes = Phase.WRITE in state.workflow.rows and state.phase is not Phase.DONE
    if writes and state.best is None and state.baseline is not None:
        return tr("no attempt yet: no kernel is correct")
    if baseline_lost(state):
        return tr("no attempt: the baseline failed")
    if state.phase is Phase.DONE:
        return tr("no attempt: the run ended before the first one")
    if state.best is None:
        return tr("no attempt yet: the baseline comes first")
    return tr("no attempt yet: the first verdict is to come")


def baseline_lost(state: RunState) -> bool:
    """Return whether the baseline was measured in vain, so that there is no kernel to tune yet."""
    measured = state.baseline
    lost = measured is not None and measured.outcome is not Outcome.CORRECT
    return lost and state.best is None and state.running is None


def keys_line(pairs: list[tuple[str, str]], room: int, more: str) -> Line:
    """Return keys with their labels, as many as fit; the row counts the keys left out."""
    spans: list[Span] = []
    left = room
    for number, (key, label) in enumerate(pairs):
        hidden = len(pairs) - number
        reserve = 0 if hidden == 1 else cells(f"+{hidden - 1} {more}")
        need = cells(key) + cells(label) + 3
        if need + reserve > left:
            tail = f"+{hidden} {more}"
            return (*spans, (cut(tail, max(0, left)), "note"))
        spans += [(key, "key"), (f" {label}  ", "key.label")]
        left -= need
    return tuple(spans)
