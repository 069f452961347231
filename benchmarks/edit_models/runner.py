"""Plays the sessions that are missing, and makes the report of all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from akg_tui.agent.chat import ChatModel, ModelFailed
from benchmarks.edit_formats.report import aligned
from benchmarks.edit_models.results import Results
from benchmarks.edit_models.session import run_session
from benchmarks.edit_models.statistics import (
    BASELINE,
    FormatFigures,
    Paired,
    Rate,
    against_baseline,
    figures,
    paired,
)
from benchmarks.edit_models.tasks import EditTask


def prompt_digest(tasks: Sequence[EditTask]) -> str:
    """Changes when any task does, so that results of other tasks are not mixed in."""
    return hashlib.sha256(msgspec.json.encode(tasks)).hexdigest()[:16]


async def play(
    tasks: Sequence[EditTask],
    formats: Sequence[str],
    repeats: int,
    models: Sequence[ChatModel],
    results: Results,
    *,
    on_session: Callable[[int, int], None],
) -> None:
    """Play the sessions that `results` lacks: of one task all models, each in all formats.

    Interleaving them keeps a server that changes during the run from favouring a format.
    `on_session` gets the number of sessions done and of all. Raises `ModelFailed`, with the model's
    name as its note, and `BadResults`; finished sessions are kept.
    """
    wanted = [
        (repeat, task, model, form)
        for repeat in range(1, repeats + 1)
        for task in tasks
        for model in models
        for form in formats
    ]
    for done, (repeat, task, model, form) in enumerate(wanted, 1):
        if not results.has(model.name, task.id, form, repeat):
            key = f"{task.id} {repeat}".encode()
            write_tool = results.setting.write_tool
            try:
                played = await run_session(
                    task, form, repeat, model, key=key, write_tool=write_tool
                )
            except ModelFailed as error:
                error.add_note(model.name)
                raise
            results.add(played)
        on_session(done, len(wanted))


def as_json(results: Results) -> dict[str, Any]:
    """Figures, pairs and all sessions, ready for `json.dumps`."""
    sessions, seed = results.sessions, results.setting.seed
    plain: dict[str, Any] = msgspec.to_builtins(
        {
            "setting": results.setting,
            "formats": figures(sessions),
            "paired": paired(sessions, "hashline", seed=seed),
            f"against_{BASELINE}": against_baseline(sessions, seed=seed),
            "sessions": sessions,
        }
    )
    return plain


_COLUMNS = (
    *("model", "format", "sessions", "exact, % [95 %]", "formatted, % [95 %]"),
    *(f"against {BASELINE}, points [95 %]", "p", "wrong, %", "refused, %"),
    *("tokens in", "%", "out", "%"),
)


def table(results: Results) -> str:
    """The report as plain text: one row for each model in each format."""
    setting, sessions = results.setting, results.sessions
    beside = {(p.model, p.format): p for p in against_baseline(sessions, seed=setting.seed)}
    rows = [_row(f, beside.get((f.model, f.format))) for f in figures(sessions)]
    write = "; the tool `write` beside `edit`" if setting.write_tool else ""
    lines = [
        f"{setting.tasks} tasks in {setting.corpus}, seed {setting.seed}{write}",
        aligned([_COLUMNS, *rows], left=2),
        f"exact: byte for byte; formatted: but for blanks and line breaks; tokens, %: "
        f"more or fewer than {BASELINE}'s; p: McNemar's test",
    ]
    for p in paired(sessions, "hashline", seed=setting.seed):
        lines.append(
            f"{p.model}: hashline against {p.rival}: {p.pairs} pairs, {p.wins} won, "
            f"{p.losses} lost, p {p.p:.3g}; {_points(p)} points"
        )
    if any(session.model.startswith("scripted") for session in sessions):
        lines.append("a scripted writer tests the benchmark; it says nothing about any model")
    return "\n".join(lines)


def _row(f: FormatFigures, beside: Paired | None) -> list[str]:
    return [
        *(f.model, f.format, str(f.sessions), _percent(f.success), _percent(f.formatted)),
        *((_points(beside), f"{beside.p:.3g}") if beside else ("", "")),
        *(f"{100 * f.wrong:.1f}", f"{100 * f.refused_calls:.1f}"),
        *(f"{f.input_tokens:.0f}", _signed(beside.input_change if beside else None)),
        *(f"{f.output_tokens:.0f}", _signed(beside.output_change if beside else None)),
    ]


def _percent(rate: Rate) -> str:
    return f"{100 * rate.share:.1f} [{100 * rate.low:.1f}, {100 * rate.high:.1f}]"


def _points(pair: Paired) -> str:
    return f"{100 * pair.difference:+.1f} [{100 * pair.low:+.1f}, {100 * pair.high:+.1f}]"


def _signed(change: float | None) -> str:
    return "" if change is None else f"{100 * change:+.0f}"
