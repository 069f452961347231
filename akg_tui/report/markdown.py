"""`report.md`: the report for a terminal or a code forge.

Text that came from a model, a kernel or a person stands in code spans and fences that it
cannot close, and is cleaned of what is not printable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from akg_tui.core.sanitize import clean, one_line, split_clean
from akg_tui.report import wording
from akg_tui.report.contents import Report
from akg_tui.view import formatting
from akg_tui.view.diff import Kind, Row

MOST_ROUNDS = 300  # in the table; the others are in the directions' table and report.json
WIDTH = 160

_LEFT_OUT = "–"


def code(text: str, width: int = WIDTH) -> str:
    """`text` on one line as a code span that holds in a table."""
    line = one_line(text, width).replace("|", "¦")
    if not line:
        return _LEFT_OUT
    ticks = "`" * (_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def fence(lines: Iterable[str], language: str = "") -> list[str]:
    """A fenced block longer than any run of backticks in it."""
    body = list(lines)
    ticks = "`" * max(3, _longest_run("\n".join(body)) + 1)
    return [f"{ticks}{language}", *body, ticks]


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def render_markdown(report: Report) -> str:
    """The whole report."""
    parts = (
        _head(report),
        _rounds(report),
        _lessons(report),
        _kernel(report),
        _ground(report),
        _people(report),
        _again(report),
    )
    return "\n".join(line for part in parts for line in part) + "\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def _head(report: Report) -> list[str]:
    about, figures = report.about, report.figures
    figure, meaning = wording.headline(report)
    verdicts = ", ".join(f"{count} {name}" for name, count in about.verdicts.items())
    lines = [
        f"# {about.op}: {figure}",
        "",
        f"{meaning}.",
        "",
        f"- Run {code(about.run_id)}, {code(wording.state(report))}",
        f"- Status: {wording.status(report)}",
        *(f"- {code(note)}" for note in report.notes),
        f"- {about.rounds} rounds: {verdicts}; {formatting.short_time(about.worked_s)} of work, "
        f"{about.started_utc} to {about.last_event_utc}",
        f"- Target {about.backend} {code(about.arch) if about.arch else ''}".rstrip()
        + f", DSL {about.dsl}, agent {code(about.agent)}, akg-tui {code(about.made_by_version)}",
        f"- A call: reference {wording.milliseconds(figures.reference_ms)}, seed "
        f"{wording.milliseconds(figures.seed_ms)}, best {wording.milliseconds(figures.best_ms)}",
    ]
    if figures.best_over_reference is not None:
        times = formatting.times(figures.best_over_reference)
        lines.append(f"- The best kernel is {times} as fast as the reference (two measurements)")
    lines += ["", "## Why it stopped", ""]
    if report.stop.primary or report.stop.conditions:
        reasons = report.stop.conditions or (report.stop.primary,)
        lines += [f"- {code(reason)}" for reason in reasons]
        lines.append(f"- Goals met: {'yes' if report.stop.goals_met else 'no'}")
    else:
        lines.append("It has not stopped.")
    if report.baseline_problem:
        lines += ["", "## The baseline failed", ""]
        lines += fence(split_clean(report.baseline_problem), "text")
    return lines


def _rounds(report: Report) -> list[str]:
    lines = ["", "## Rounds", ""]
    if not report.rounds:
        return [*lines, "No round was settled."]
    shown = report.rounds[-MOST_ROUNDS:]
    if len(shown) < len(report.rounds):
        lines += [
            f"The last {len(shown)} of {len(report.rounds)}; all are in `report.json`, and below "
            "by direction.",
            "",
        ]
    head = ("round", "item", "verdict", "ratio [interval]", "what", "reason", "commit", "UTC")
    return lines + _table(
        head,
        (
            (
                str(r.round),
                code(r.item),
                r.verdict,
                wording.interval(r.ratio),
                code(r.text),
                code(r.reason),
                code(r.commit[:10]),
                r.settled_utc,
            )
            for r in shown
        ),
    )


def _lessons(report: Report) -> list[str]:
    lines = ["", "## What worked, and why", ""]
    for r in wording.kept(report):
        lines.append(f"- Round {r.round}, {wording.interval(r.ratio)}: {code(r.text, 400)}")
        if r.rationale:
            lines.append(f"  - why: {code(r.rationale, 400)}")
    if not wording.kept(report):
        lines.append("Nothing was kept.")
    if report.directions:
        lines += ["", "## Directions", ""]
        head = ("direction", "rounds", "kept", "discarded", "failed", "best ratio", "failed with")
        lines += _table(
            head,
            (
                (
                    code(d.name),
                    *map(str, (d.rounds, d.kept, d.discarded, d.failed)),
                    _LEFT_OUT if d.best_ratio is None else f"{d.best_ratio:.3f}",
                    "; ".join(code(reason, 100) for reason in d.reasons) or _LEFT_OUT,
                )
                for d in report.directions
            ),
        )
    if report.diagnoses:
        lines += ["", "## Diagnoses", ""]
    for d in report.diagnoses:
        lines.append(f"- {d.at_utc} ({d.source}): {code(d.cause, 400)}")
        lines += [f"  - avoid: {code(text, 400)}" for text in d.avoid]
        lines += [f"  - try: {code(text, 400)}" for text in d.directions]
    return lines


def _diff_line(row: Row) -> str:
    return f"@@ {row.old} lines alike" if row.kind is Kind.GAP else row.kind.value + clean(row.text)


def _kernel(report: Report) -> list[str]:
    best = report.best
    lines = ["", "## The best kernel", ""]
    if not best.attempt:
        lines.append("It is the seed, unchanged.")
    else:
        lines += [
            f"Attempt {best.attempt}, commit {code(best.commit)}.",
            "",
            "Against the seed:",
            "",
        ]
        lines += fence(map(_diff_line, wording.difference(report)), "diff")
    lines += ["", "As a whole:", ""]
    return lines + fence(split_clean(best.text.removesuffix("\n")), "python")


def _ground(report: Report) -> list[str]:
    sandbox = report.sandbox
    lines = ["", "## Where it was measured", ""]
    lines += [f"- {name}: {code(', '.join(found))}" for name, found in report.environment.items()]
    if not report.environment:
        lines.append("Nothing was measured.")
    lines += ["", "## Sandbox", ""]
    if not sandbox.evaluations:
        lines.append("No kernel ran.")
    else:
        lines.append(f"The process of a kernel, in so many of {sandbox.evaluations} evaluations:")
        lines.append("")
        lines += [
            f"- {p.meaning}: {'**not in force**' if not p.evaluations else p.evaluations}"
            for p in sandbox.protections
        ]
    lines += ["", "## How it was judged", ""]
    lines += [f"- {name}: {code(value)}" for name, value in wording.flat(report.settings)]
    lines += ["", "## Policy", ""]
    lines += [f"- {name}: {code(value)}" for name, value in wording.flat(report.policy)]
    lines += ["", "## Tokens and cost", ""]
    spent = report.spent
    lines.append(f"- {spent.input_tokens} input and {spent.output_tokens} output tokens")
    for used in spent.by_model:
        counts = ", ".join(f"{name} {count}" for name, count in used.tokens.items())
        lines.append(f"  - {code(used.model)}: {counts}")
    cost = "no price for a model" if spent.cost_usd is None else f"{spent.cost_usd:.4f} USD"
    lines.append(f"- {cost}, by the price table of {spent.price_table}")
    return lines


def _people(report: Report) -> list[str]:
    lines = ["", "## What people did", ""]
    lines += [f"- {t.at_utc} event {t.seq}: {code(t.what, 400)}" for t in report.interventions]
    if not report.interventions:
        lines.append("Nothing: the run was on its own.")
    if report.rules:
        lines += ["", "## Rules", "", "What a person let pass unasked.", ""]
    for r in report.rules:
        lines.append(f"- Rule {r.rule}, {wording.rule(r)}: {code(r.approves, 400)}")
    lines += ["", "## Sessions", ""]
    return lines + [f"- {t.at_utc} event {t.seq}: {code(t.what)}" for t in report.sessions]


def _again(report: Report) -> list[str]:
    return [
        "",
        "## Do it again",
        "",
        "RUN is the folder of this run.",
        "",
        *fence(map(one_line, wording.reproduce(report)), "sh"),
        "",
        f"- reference sha256 {code(report.reference_sha256)}",
        f"- seed sha256 {code(report.seed_sha256)}",
        "",
        f"This report knows {report.journal.events} events. The journal is the one it was made "
        "from if",
        "",
        *fence([wording.check(report)], "sh"),
        "",
        f"prints {code(report.journal.head_sha256)}.",
    ]
