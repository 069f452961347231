"""The sentences and figures of a report that page and Markdown share.

Pure; says nothing in markup. Covers what people did to a run, and what each protection of the
sandbox keeps a kernel from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from akg_tui.core import events as ev
from akg_tui.core.approval_rules import in_words as rule_in_words
from akg_tui.core.measurement import Interval, digits
from akg_tui.core.sanitize import one_line
from akg_tui.report.document import Protection, Report, Round, Rule, Sandbox


def times(ratio: float) -> str:
    """A speedup for reading: 10.7×, 1.06×, 0.466×."""
    return (
        f"{ratio:.1f}×" if ratio >= 10 else f"{ratio:.2f}×" if ratio >= 1 else f"{digits(ratio)}×"
    )


def interval(found: Interval | None) -> str:
    """A ratio with its bounds, or a dash."""
    return str(found) if found else "–"


def confidence(found: Interval) -> str:
    """Such as 99.9 %, never rounded up to 100."""
    return f"{math.floor(found.confidence * 1000) / 10:g} %"


def milliseconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g} ms"


def duration(seconds: float) -> str:
    """Hours, minutes and seconds as far as they are needed."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def headline(report: Report) -> tuple[str, str]:
    """The figure of the whole run, and what it means."""
    figures = report.figures
    if final := figures.speedup_over_seed:
        bounds = f"{interval(final)} at {confidence(final)} confidence"
        words = f"{bounds}, best kernel against the seed, measured afresh"
        return times(final.ratio), words
    if estimate := figures.estimate_over_seed:
        words = f"{interval(estimate)}: an estimate, the product of the kept rounds' ratios"
        return times(estimate.ratio), words
    if report.baseline_problem:
        return "no figure", "the seed or the reference could not be measured"
    if not report.incumbents:
        return "no figure", "the baseline has not been measured yet"
    return "1×", "nothing was kept: the seed still stands"


def state(report: Report) -> str:
    """Where the run is, in a sentence."""
    about = report.about
    if not about.ended:
        return f"in progress: {about.phase}, {about.rounds} of at most {about.max_rounds} rounds"
    word = "ended" if about.ended_ok else "could not go on"
    return f"{word}: {about.ended_why}"


def status(report: Report) -> str:
    """Completed, draft or in progress, and how a draft becomes a result."""
    if report.status == "completed":
        return "completed"
    if not report.about.ended:
        return "in progress"
    if not report.about.ended_ok:
        return "in progress: the run could not do its job"
    return "draft: written by the run itself; ask for the result with: akg-tui report RUN"


def rule(r: Rule) -> str:
    """Since when a rule answered, how often, and whether it still does."""
    used = f"used {r.used} time{'' if r.used == 1 else 's'}"
    learned = f"learned {r.learned_utc} from request {r.learned_from} by the {r.by}"
    return f"{learned}, {used}, {f'ended: {r.ended}' if r.ended else 'in force'}"


def kept(report: Report) -> list[Round]:
    return [r for r in report.rounds if r.verdict == "KEEP"]


def reproduce(report: Report) -> list[str]:
    """Commands for a shell. RUN stands for the run's folder; nothing here is untrusted text."""
    kernel = report.kernel_file
    lines = ["cp -r RUN/task again"]
    git = "git -C RUN/history.git"
    lines.append(f"{git} cat-file blob {report.seed.blob} > again/{kernel}")
    if report.best.attempt:
        lines.append(f"{git} cat-file blob {report.best.blob} > best_{kernel}")
    lines.append("akg-tui eval again                       # the seed against the reference")
    if report.best.attempt:
        lines.append(f"akg-tui eval again --kernel best_{kernel}    # the best kernel")
    lines.append(f"akg-tui tune again --max-rounds {report.about.max_rounds}            # the run")
    return lines


def check(report: Report) -> str:
    """A command that prints `head_sha256` while the journal is the one that was reported."""
    return f"sed -n {report.journal.events}p RUN/{report.journal.file} | sha256sum"


def flat(settings: dict[str, object], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as (dotted name, value); what was not said is left out."""
    found: list[tuple[str, str]] = []
    for name, value in settings.items():
        if isinstance(value, dict):
            found += flat(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            found += flat({f"{name}.{at}": each for at, each in enumerate(value, 1)}, prefix)
        elif value is not None:
            found.append((prefix + name, str(value)))
    return found


WIDTH = 400


def is_by_a_person(event: ev.AnyEvent) -> bool:
    """Whether somebody reached into the run here. An answer counts when a person gave it."""
    match event:
        case ev.QuestionAnswered(source=source):
            return source == "user"
        case ev.ItemsDropped():  # by whom, only its reason says
            return False
        case _:
            return event.by_a_person


def in_words(event: ev.AnyEvent) -> str:
    """What was done, on one line."""
    match event:
        case ev.HintGiven(text=text):
            told = f"hint: {text}"
        case ev.GateAnswered(answer=answer, comment=comment):
            told = f"review: {answer}" + (f" ({comment})" if comment else "")
        case ev.RuleLearned(rule=rule, scope=scope):
            told = f"rule {rule}: {rule_in_words(scope)}"
        case ev.RuleRevoked(rule=rule, reason=reason):
            told = f"rule {rule} ended" + (f" ({reason})" if reason else "")
        case ev.ModeChanged(mode=mode):
            told = f"mode {mode}"
        case ev.Paused():
            told = "paused"
        case ev.Unpaused():
            told = "went on"
        case ev.StepGranted():
            told = "took one step"
        case ev.StopRequested(reason=reason):
            told = f"stop: {reason}"
        case ev.SubagentHinted(subagent=name, text=text):
            told = f"message to {name}: {text}"
        case ev.SubagentStopped(subagent=name, reason=reason):
            told = f"stopped {name}" + (f": {reason}" if reason else "")
        case ev.PolicyChanged(source=source):
            told = f"policy changed by the {source}"
        case ev.PlanEdited(kept=kept):
            told = f"PLAN.md was edited by hand; kept as {kept}"
        case _:
            told = _by_fields(event)
    return one_line(told, WIDTH)


def _by_fields(event: ev.AnyEvent) -> str:
    fields: dict[str, Any] = ev.to_builtins(event)
    said = ", ".join(f"{name} {value}" for name, value in fields.items() if name != "type")
    return f"{type(event).__name__}: {said}" if said else type(event).__name__


MEANINGS = {
    "netns": "no network",
    "userns": "a user namespace of its own",
    "landlock": "no files but its own (a file-system filter)",
    "seccomp": "no dangerous system calls (a system-call filter)",
    "no_capabilities": "no capabilities",
    "no_new_privs": "cannot gain privileges",
    "rlimits": "limits on memory, files and processes",
    "hidden_memory": "the judge's memory cannot be read",
    "session": "a session of its own, killed as a whole",
    "pdeathsig": "dies with the judge",
}


def sandbox_of(measured: Iterable[tuple[str, ...]]) -> Sandbox:
    """What was in force, counted over the evaluations in which a kernel's process ran."""
    held = [names for names in measured if names]
    extra = sorted({name for names in held for name in names} - MEANINGS.keys())
    return Sandbox(
        len(held),
        tuple(
            Protection(name, MEANINGS.get(name, name), sum(name in names for names in held))
            for name in (*MEANINGS, *extra)
        ),
    )
