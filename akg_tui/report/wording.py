"""Sentences and figures that the HTML page and the Markdown of a report share.

Pure; returns no markup. The words for actions of people come from `akg_tui.view.event_words`, those
for a protection from `akg_tui.evaluate.sandbox.protections`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from akg_tui.core.measurement import InputError, Interval, nearest_errors
from akg_tui.core.phases import ADVANCES, TUNE, WORKFLOWS, Phase
from akg_tui.core.plan.submission import SEARCHERS
from akg_tui.core.summary import doubt_told
from akg_tui.core.task import names_of
from akg_tui.core.verdict import is_proved
from akg_tui.evaluate.sandbox.protections import PROTECTIONS
from akg_tui.report.contents import Protection, Report, Sandbox
from akg_tui.view import formatting
from akg_tui.view.diff import Compared, compare_kernels, folded

if TYPE_CHECKING:
    from jinja2 import Template

TEMPLATES = Path(__file__).parent / "templates"
CONTEXT = 3


def template(
    name: str,
    *,
    autoescape: bool = False,
    finalize: Callable[[object], object] | None = None,
    **filters: Callable[..., str],
) -> Template:
    """Return a template of the report, with the shared filters and the given ones."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=autoescape,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters | {
        "times": formatting.times,
        "ratio": formatting.ratio,
        "ratios": formatting.ratios,
        "doubt_told": doubt_told,
        "interval": interval,
        "confidence": confidence,
        "ms": milliseconds,
        "duration": formatting.short_time,
        "error": error,
    }
    return environment.get_template(name)


def parts(report: Report) -> dict[str, Any]:
    """Return the variables that all templates of the report use."""
    figure, meaning = headline(report)
    wrote = bool(report.about.tries_to_write)
    unkept = "It is the seed, unchanged."
    if report.figures.best is None and wrote:
        unkept = "No kernel was correct. This is the last one that the agent wrote."
    return {
        "report": report,
        "figure": figure,
        "meaning": meaning,
        "state": state(report),
        "unkept": unkept,
        "failed_title": "The last try failed" if wrote else "The baseline failed",
        "status": status(report),
        "has_goals": bool((report.policy.get("automation") or {}).get("goals")),
        # A search tries settings in turn: how it chose one tells nobody why it worked.
        "reasoned": report.about.agent not in SEARCHERS,
        "kept": [r for r in report.rounds if r.verdict in ADVANCES],
        "noise": noise(report),
        "nearest": nearest_errors(report.errors),
        "by_case": any(each.case for each in report.errors),
        "reproduce": reproduce(report),
        "check": check(report),
        "settings": flat(report.settings),
        "policy": flat(report.policy),
    }


def interval(found: Interval | None) -> str:
    """Return a ratio with its bounds, or a dash."""
    return str(found) if found else "–"


def confidence(found: Interval) -> str:
    """Return a confidence such as 99.9 %, never rounded up to 100."""
    return f"{math.floor(found.confidence * 1000) / 10:g} %"


def error(found: InputError) -> str:
    """Return an error, its bound and its share of that; or why there is none."""
    if found.share is None or found.error is None or found.tolerance is None:
        return found.note or "–"
    if not found.tolerance and not found.error:
        return "equal"
    return f"{found.error:.2g} of {found.tolerance:.2g} ({found.share * 100:.2g} %)"


def milliseconds(value: float | None) -> str:
    """Return a time per call, or a dash."""
    return "–" if value is None else formatting.milliseconds(value)


def headline(report: Report) -> tuple[str, str]:
    """Return the headline figure of the run, over eager where that is known, and its meaning."""
    best = report.figures.best
    if report.about.estimate:
        return "no figure", f"kernels were ranked by an estimate for {report.about.estimate}"
    if best is None:
        if report.about.tries_to_write:
            return "no figure", "no kernel was correct"
        if report.baseline_problem:
            return "no figure", "the seed or the reference could not be measured"
        return "no figure", "the baseline has not been measured yet"
    if Phase.EVAL not in (report.about.table or WORKFLOWS.get(report.about.workflow, TUNE)).rows:
        return "correct", "the kernel computes what the reference computes; it was not to be tuned"
    name, found = best.headline
    over = "the seed" if name == "seed" else name
    figure = f"{formatting.ratio(found)} {over}"
    if best.attempt == 0:
        return figure, "nothing was kept: the seed still stands"
    how = "measured afresh" if best.fresh else "so far: the product of the kept rounds' ratios"
    bounds = f"{interval(found)} at {confidence(found)} confidence over {over}"
    proof = "" if is_proved(found) else ", so it is not proved faster or slower"
    return figure, f"{formatting.ratios(best)}, {how}; {bounds}{proof}"


def state(report: Report) -> str:
    """Return a sentence on the progress of the run."""
    about = report.about
    if not about.ended:
        held = f"; it stopped: {about.held_why}" if about.held_why else ""
        rounds = f"{about.rounds} of at most {about.max_rounds} rounds"
        return f"in progress: {about.phase}, {rounds}{held}"
    word = "ended" if about.ended_ok else "could not go on"
    return f"{word}: {about.ended_why}"


def status(report: Report) -> str:
    """Return completed, draft or in progress, and how a draft becomes a result."""
    if report.status == "completed":
        return "completed"
    if not report.about.ended:
        return "in progress"
    if not report.about.ended_ok:
        return "in progress: the run could not do its job"
    return "draft: written by the run itself; ask for the result with: akg-tui report RUN"


MOST_DISTURBED = 20


def noise(report: Report) -> list[str]:
    """Return sentences on the noise of the machine: how many timings, then the worst of them."""
    found = report.noise
    if not found.disturbed:
        return [f"None of {found.timings} timings was disturbed."] if found.timings else []
    worst = sorted(found.disturbed, key=lambda each: -each.smallest_gain)[:MOST_DISTURBED]
    first = f"{len(found.disturbed)} of {found.timings} timings were on a disturbed machine"
    first += f"; the worst {len(worst)}:" if len(worst) < len(found.disturbed) else ":"
    return [first, *(f"{w.what}: {_cost(w.smallest_gain)}; {'; '.join(w.noise)}" for w in worst)]


def _cost(smallest_gain: float) -> str:
    least = min(smallest_gain, 1.0) * 100  # above that it is an extrapolation
    return f"a gain under {least:.1f} % would not have been seen"


def reproduce(report: Report) -> list[str]:
    """Return shell commands. RUN stands for the run's folder; no text in them is untrusted."""
    names = names_of(report.kernel_file)
    kernel = names[0] if len(names) == 1 else "files"
    lines = ["cp -r RUN/task again"]
    git = "git -C RUN/history.git"
    if len(names) > 1:
        lines.append(f"{git} archive {report.seed.blob} | tar -x -C again")
    else:
        lines.append(f"{git} cat-file blob {report.seed.blob} > again/{kernel}")
    if report.best.attempt and len(names) > 1:
        unpack = f"{git} archive {report.best.blob} | tar -x -C best_{kernel}"
        lines.append(f"mkdir best_{kernel} && {unpack}")
    elif report.best.attempt:
        lines.append(f"{git} cat-file blob {report.best.blob} > best_{kernel}")
    lines.append("akg-tui eval again                       # the seed against the reference")
    if report.best.attempt:
        lines.append(f"akg-tui eval again --kernel best_{kernel}    # the best kernel")
    lines.append(f"akg-tui tune again --max-rounds {report.about.max_rounds}            # the run")
    return lines


def difference(report: Report) -> Compared:
    """Return the best kernel against the seed, with `CONTEXT` lines around each change."""
    file = names_of(report.kernel_file)[0]
    return folded(compare_kernels(report.seed.kernel(file), report.best.kernel(file)), CONTEXT)


def check(report: Report) -> str:
    """Return a command that prints `head_sha256` if the journal is unchanged since the report."""
    return f"sed -n {report.journal.events}p RUN/{report.journal.file} | sha256sum"


def flat(settings: dict[str, object], prefix: str = "") -> list[tuple[str, str]]:
    """Return nested settings as (dotted name, value); values that are None are left out."""
    found: list[tuple[str, str]] = []
    for name, value in settings.items():
        if isinstance(value, dict):
            found += flat(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            found += flat({f"{name}.{at}": each for at, each in enumerate(value, 1)}, prefix)
        elif value is not None:
            found.append((prefix + name, str(value)))
    return found


def sandbox_of(measured: Iterable[tuple[str, ...]]) -> Sandbox:
    """Return the protections in force, counted over evaluations that ran a kernel."""
    held = [names for names in measured if names]
    unknown = sorted({name for names in held for name in names} - PROTECTIONS.keys())
    meanings = {name: purpose.about for name, purpose in PROTECTIONS.items()}
    return Sandbox(
        len(held),
        tuple(
            Protection(name, meanings.get(name, name), sum(name in names for names in held))
            for name in (*PROTECTIONS, *unknown)
        ),
    )
