"""Plays the sessions that are missing, and makes the report of all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from akg_tui.agent.chat import ChatModel
from benchmarks.edit_models.results import Results
from benchmarks.edit_models.session import run_session
from benchmarks.edit_models.statistics import figures, paired
from benchmarks.edit_models.tasks import EditTask


def prompt_digest(tasks: Sequence[EditTask]) -> str:
    """Changes when any task does, so that results of other tasks are not mixed in."""
    return hashlib.sha256(msgspec.json.encode(tasks)).hexdigest()[:16]


async def play(
    tasks: Sequence[EditTask],
    formats: Sequence[str],
    repeats: int,
    model: ChatModel,
    results: Results,
    *,
    on_session: Callable[[int, int], None],
) -> None:
    """Play the sessions that `results` lacks, the formats of one task one after the other.

    Interleaving them keeps a server that changes during the run from favouring a format.
    `on_session` gets the number of sessions done and of all. Raises `ModelFailed`, `BadResults`;
    finished sessions are kept.
    """
    total = len(tasks) * len(formats) * repeats
    done = 0
    for repeat in range(1, repeats + 1):
        for task in tasks:
            for form in formats:
                if not results.has(task.id, form, repeat):
                    key = f"{task.id} {repeat}".encode()
                    results.add(await run_session(task, form, repeat, model, key=key))
                done += 1
                on_session(done, total)


def as_json(results: Results) -> dict[str, Any]:
    """Figures, pairs and all sessions, ready for `json.dumps`."""
    sessions = results.sessions
    plain: dict[str, Any] = msgspec.to_builtins(
        {
            "setting": results.setting,
            "formats": figures(sessions),
            "paired": paired(sessions, "hashline", seed=results.setting.seed),
            "sessions": sessions,
        }
    )
    return plain


def table(results: Results) -> str:
    """The report as plain text."""
    setting = results.setting
    lines = [
        f"{setting.model}: {setting.tasks} tasks, seed {setting.seed}",
        f"{'format':18} {'fixed, % [95 %]':>20} {'wrong, %':>9} {'calls refused, %':>17} "
        f"{'tokens in':>10} {'out':>7}",
    ]
    for f in figures(results.sessions):
        rate = f"{100 * f.success:.1f} [{100 * f.low:.1f}, {100 * f.high:.1f}]"
        lines.append(
            f"{f.format:18} {rate:>20} {100 * f.wrong:>9.1f} {100 * f.refused_calls:>17.1f} "
            f"{f.input_tokens:>10.0f} {f.output_tokens:>7.0f}"
        )
    for p in paired(results.sessions, "hashline", seed=setting.seed):
        lines.append(
            f"hashline against {p.rival}: {p.pairs} pairs, {p.wins} won, {p.losses} lost, "
            f"p {p.p:.3g} (McNemar); {100 * p.difference:+.1f} points "
            f"[{100 * p.low:+.1f}, {100 * p.high:+.1f}]"
        )
    if setting.model.startswith("scripted"):
        lines.append("a scripted writer tests the benchmark; it says nothing about any model")
    return "\n".join(lines)
