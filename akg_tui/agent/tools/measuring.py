"""verify_kernel and profile_kernel: the judge's opinion of a text that is not the kernel yet.

Tells only: no attempt, no verdict, nothing that a KEEP could rest on. The reference is
always the task's own, whatever a call says it is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from pathlib import PurePosixPath

from akg_tui.agent.tools import registry
from akg_tui.agent.tools.files import read_text
from akg_tui.agent.tools.jail import NOTES, Jail, Refused
from akg_tui.agent.tools.port import Answer, Probes, RunPort
from akg_tui.core.measurement import Interval, Measurement, Outcome

PROFILE_S = 600
PROBES_A_VISIT = 8
"""Measurements by these tools in one visit; the harness's own are not counted."""

Wanted = registry.VerifyKernel | registry.ProfileKernel


class Measuring:
    """One visit's probes."""

    def __init__(self, run: RunPort, jail: Jail, probes: Probes) -> None:
        self._run = run
        self._jail = jail
        self._probes = probes

    async def verify(self, arguments: registry.VerifyKernel) -> Answer:
        kernel = self._kernel(arguments)
        probe = self._run.measure(kernel, timed=False)
        found = await self._within(probe, arguments.timeout)
        if isinstance(found, Answer):
            return found
        facts = {
            **_named(arguments),
            "correct": found.outcome is Outcome.CORRECT,
            "max_error": found.max_error,
            "tolerance": found.tolerance,
        }
        if found.outcome is Outcome.CORRECT:
            return self._told(arguments, facts)
        return _failed(found)

    async def profile(self, arguments: registry.ProfileKernel) -> Answer:
        kernel = self._kernel(arguments)
        probe = self._run.measure(
            kernel, timed=True, samples=arguments.run_times, warmups=arguments.warmup_times
        )
        found = await self._within(probe, PROFILE_S)
        if isinstance(found, Answer):
            return found
        if found.outcome is not Outcome.CORRECT:
            return _failed(found)
        facts = {
            **_named(arguments),
            "gen_time_us": _us(found.candidate_ms),
            "base_time_us": _us(found.baseline_ms),
            **_speedup(found.ratio),
            "samples": found.samples,
            "threads": found.threads,
        }
        return self._told(arguments, facts)

    def _kernel(self, arguments: Wanted) -> str:
        """The text to measure, once all that the call says fits this run. Raises `Refused`."""
        task = self._run.state.task
        target = task.target
        for name, given, own in (
            ("backend", arguments.backend, target.backend),
            ("arch", arguments.arch, target.arch),
            ("dsl", arguments.dsl, target.dsl),
        ):
            if own and given != own:
                raise Refused(f"{name} is {given[:40]!r}, but this run's is {own!r}; leave it out")
        if arguments.device_id != 0:
            raise Refused(f"device {arguments.device_id}: this run's target has device 0 only")
        reference = f"task/{task.files.reference}"
        given = arguments.task_code.strip()
        own = read_text(self._jail, reference)
        if given not in (reference, task.files.reference) and _same(given) != _same(own):
            raise Refused(f"task_code is not this run's reference; give {reference!r} instead")
        if arguments.cur_path and not self._is_notes(arguments.cur_path):
            raise Refused(f"cur_path: {arguments.cur_path}: expected a folder under {NOTES}/")
        if self._probes.made >= PROBES_A_VISIT:
            raise Refused(f"{PROBES_A_VISIT} measurements were made in this visit: edit the kernel")
        self._probes.made += 1
        code = arguments.generated_code
        named = "\n" not in code and code.strip().endswith(".py")
        return read_text(self._jail, code.strip()) if named else code

    def _is_notes(self, path: str) -> bool:
        return PurePosixPath(self._jail.relative(path)).parts[0] == NOTES

    async def _within(self, probe: Awaitable[Measurement], seconds: float) -> Measurement | Answer:
        try:
            async with asyncio.timeout(seconds):
                return await probe
        except TimeoutError:
            return Answer.error(f"given up after {seconds:g} s")

    def _told(self, arguments: Wanted, facts: dict[str, object]) -> Answer:
        text = json.dumps(facts)
        if arguments.cur_path:
            folder = self._jail.relative(arguments.cur_path)
            kind = "verify" if isinstance(arguments, registry.VerifyKernel) else "profile"
            self._jail.write(f"{folder}/{kind}_result.json", text.encode())
        return Answer.success(text)


def _named(arguments: Wanted) -> dict[str, object]:
    return {"op_name": arguments.op_name, "task_id": arguments.task_id}


def _failed(found: Measurement) -> Answer:
    what = "the judge failed" if found.outcome is Outcome.ERROR else str(found.failure or "wrong")
    lines = [f"{what}: {found.message}", *found.detail.splitlines()]
    return Answer.error("\n".join(line for line in lines if line), foreign=True)


def _us(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else round(milliseconds * 1e3, 3)


def _speedup(ratio: Interval | None) -> dict[str, object]:
    if ratio is None:
        return {"speedup": None}
    return {
        "speedup": round(ratio.ratio, 4),
        "speedup_low": round(ratio.low, 4),
        "speedup_high": round(ratio.high, 4),
        "confidence": ratio.confidence,
    }


def _same(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
