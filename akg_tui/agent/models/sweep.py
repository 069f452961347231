"""The sweep model: a search over the knobs that a kernel declares, through the agent's own tools.

Not a language model. The sweep looks at the state of its run and at the tagged kernel, and takes
the next settings from `knob_search`; equal knobs, trials and seed give equal proposals.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

from akg_tui.agent.chat import (
    AssistantMessage,
    ChatReply,
    ChatRequest,
    ModelFailed,
    ToolMessage,
    ToolUse,
)
from akg_tui.agent.knob_search import Trial, propose_settings, settings_in_space
from akg_tui.core.kernel.knobs import (
    HOW_TO_DECLARE,
    BadKnob,
    Knob,
    Value,
    describe,
    find_knobs,
    read_setting,
)
from akg_tui.core.phases import SETTLED, ItemState, Phase
from akg_tui.core.plan.remembered import remembered_settings
from akg_tui.core.state import RunState

REMEMBERED = 4  # settings of earlier runs that are tried first
BATCH = 4  # items in a plan; small, so that the next plan uses their results soon

_VIEW_LINE = re.compile(r"^\d+[a-z]+\|(.*)$", re.MULTILINE)


class Sweep:
    """A `ChatModel` that acts in PLAN, EDIT and DIAGNOSE by a search over the declared knobs.

    `seed` fixes the choices: equal results lead to equal proposals.
    """

    name = "sweep"

    def __init__(self, seed: int) -> None:
        self._seed = seed

    async def complete(self, request: ChatRequest, on_delta: Callable[[str], None]) -> ChatReply:
        state = request.state
        if state is None:
            raise ModelFailed("sweep: the request has no state of a run")
        view = _kernel_view(request)
        if view is None:
            # Each visit needs the values of the kernel as it is now; only the first says so.
            first = state.phase is Phase.PLAN and not state.rounds
            text = "I read the kernel to find its declared knobs." if first else ""
            reply = _reply(request, text, "read_kernel", {})
        else:
            try:
                reply = await self._act(request, state, _VIEW_LINE.findall(view))
            except BadKnob as error:
                raise ModelFailed(f"sweep: {error}") from None
        on_delta(reply.text)
        return reply

    async def _act(self, request: ChatRequest, state: RunState, kernel: Sequence[str]) -> ChatReply:
        knobs = find_knobs(kernel)
        if not knobs:
            return _reply(request, HOW_TO_DECLARE, "finish", {"reason": HOW_TO_DECLARE})
        if state.phase is Phase.EDIT:
            return self._edit(request, state, knobs)
        if state.phase is Phase.DIAGNOSE:
            return self._diagnose(request, state)
        # In a thread, because the import and the run of the sampler would block the event loop.
        return await asyncio.to_thread(self._plan, request, state, knobs)

    def _plan(self, request: ChatRequest, state: RunState, knobs: Sequence[Knob]) -> ChatReply:
        tried = measured_settings(state)
        report = state.diagnosis
        avoided = [read_setting(text) for text in report.avoid] if report is not None else []
        count = max(1, min(BATCH, state.task.policy.max_rounds - state.rounds))
        remembered = remembered_settings(state.memory)[:REMEMBERED]
        settings = propose_settings(
            knobs, tried, avoided, count=count, seed=self._seed, first=remembered
        )
        done = f"{len(knobs)} knobs, {settings_in_space(knobs)} settings, {len(tried)} measured"
        if not settings:
            reason = f"every setting of the declared knobs was tried or ruled out ({done})"
            return _reply(request, reason, "finish", {"reason": reason})
        current = {knob.name: knob.value for knob in knobs}
        how = "chosen by TPE from the measured ratios"
        if not tried:
            how = "chosen at random: nothing is measured yet"
        items = [
            {
                "text": describe(setting, current),
                "rationale": "remembered from an earlier run" if setting in remembered else how,
            }
            for setting in settings
        ]
        text = f"A search over declared knobs, not a language model: {done}. Next: {len(items)}."
        return _reply(request, text, "submit_plan", {"items": items, "summary": text})

    def _edit(self, request: ChatRequest, state: RunState, knobs: Sequence[Knob]) -> ChatReply:
        if state.active is None:
            raise ModelFailed("sweep: there is no active item")
        item = state.item(state.active)
        wanted = read_setting(item.text)
        setting: dict[str, Value] = {}
        changed: list[str] = []
        for knob in knobs:
            value = wanted.get(knob.name, knob.value)
            if value == knob.value and type(value) is type(knob.value):
                continue
            if value not in knob.choices:
                raise ModelFailed(f"sweep: {knob.name}={value!r} is not among its choices")
            setting[knob.name] = value
            changed.append(f"{knob.name}: {knob.value!r} → {value!r}")
        if not setting:
            raise ModelFailed(f"sweep: {item.id} sets nothing that the kernel does not have")
        note = ", ".join(changed)
        arguments = {"set": setting, "note": note}
        return _reply(request, f"{item.id}: {note}", "submit_kernel", arguments)

    def _diagnose(self, request: ChatRequest, state: RunState) -> ChatReply:
        blamed = _shared_only_by_failures(measured_settings(state))
        avoid = [describe({name: value}, {}) for name, value in blamed]
        cause = (
            "the failed settings share " + ", ".join(avoid) + ", which no correct one has"
            if avoid
            else "the failed settings share no single knob value that the correct ones lack"
        )
        untried = "settings that no failed attempt had, chosen by the search"
        ways = [f"the declared knobs without {', '.join(avoid)}"] if avoid else [untried]
        report = {"cause": cause, "avoid": avoid, "directions": ways}
        return _reply(request, cause, "report_diagnosis", report)


def measured_settings(state: RunState) -> list[Trial]:
    """Return the measured settings of a run, oldest first. A direction in words has none."""
    found: list[Trial] = []
    for item in state.items:
        counts = item.state in SETTLED.values() or state.waiting(item) is not None
        setting = read_setting(item.text) if counts else {}
        if setting and item.attempt is not None:
            failed = item.state is ItemState.FAILED or item.undone
            speed = state.attempts[item.attempt].over_seed
            found.append(Trial(setting, None if failed else speed or None))
    return found


def _shared_only_by_failures(trials: Sequence[Trial]) -> list[tuple[str, Value]]:
    """Return the knob values that all failures since the last success share and no success has."""
    latest = itertools.takewhile(lambda trial: trial.over_seed is None, reversed(trials))
    failed = [set(trial.setting.items()) for trial in latest]
    if not failed:
        return []
    passed = [trial.setting.items() for trial in trials if trial.over_seed is not None]
    return sorted(set.intersection(*failed).difference(*passed), key=str)


def _kernel_view(request: ChatRequest) -> str | None:
    """Return the newest answer of `read_kernel` in the conversation; None if there is none."""
    names = {
        use.id: use.name
        for message in request.messages
        if isinstance(message, AssistantMessage)
        for use in message.tool_uses
    }
    view = None
    for message in request.messages:
        if not isinstance(message, ToolMessage):
            continue
        for use_id, result in message.results:
            if names.get(use_id) == "read_kernel" and result.status == "success":
                view = result.output
            elif result.status == "error":
                # The sweep would repeat the call and be refused again, so the visit fails.
                raise ModelFailed(f"sweep: {names.get(use_id)}: {result.error_information}")
    return view


def _reply(request: ChatRequest, text: str, tool: str, arguments: dict[str, Any]) -> ChatReply:
    use = ToolUse(f"sweep-{len(request.messages)}", tool, arguments)
    return ChatReply(text, (use,))
