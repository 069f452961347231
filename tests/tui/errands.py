"""Subagents on stage: real events of two errands and a diagnosis, over a `FakeHandle`."""

from __future__ import annotations

from akg_tui.core import events as ev
from akg_tui.core.phases import Phase
from akg_tui.core.sanitize import Said

from .script import FakeHandle

FLAGS = "Which compiler flags does the seed kernel set, and which of them does the target know?"
LANES = "Read the loops of row_softmax: how many lanes can each use, and what keeps it from more?"
SOURCE = "\n".join(f"{n:3} for (int64_t i = {n}; i < n; ++i) sum += y[i];" for n in range(1, 60))
FOUND = (
    "The inner loops are independent but for the sum.\n"
    "1. the maximum: a reduction, 16 lanes\n"
    "2. the exponential: a call into libm, which stops the vectoriser\n"
    "3. the sum: a reduction; needs -ffast-math or partial sums\n"
    "4. the division: 16 lanes\n"
    "5. rows are independent, so the outer loop could be split too\n"
    "So the exponential is what holds it back: a polynomial would let all four use 16 lanes."
)


def begin(handle: FakeHandle, name: str, prompt: str, *, call: str = "", trace: str = "") -> None:
    """A subagent starts, by a call of the main agent where `call` is given."""
    if call:
        handle.tell(ev.ToolCalled(call=call, tool="task", arguments={"prompt": prompt}))
    agent = "subagent" if call else "diagnosis"
    handle.tell(
        ev.SubagentStarted(
            subagent=name, agent=agent, phase=handle.state.phase, call=call, prompt=prompt,
            trace=trace,
        )
    )  # fmt: skip
    handle.live.subagents.begin(name, agent, prompt)


def says(handle: FakeHandle, name: str, text: str, *, calls: int = 0, tokens: int = 900) -> None:
    """A whole reply, as the engine journals it."""
    told = next((len(s.hints) for s in handle.state.subagents if s.id == name), 0)
    handle.tell(
        ev.ModelReplied(
            phase=handle.state.phase, model="lab", text=text, tool_calls=calls,
            input_tokens=tokens, output_tokens=len(text) // 4, source=name, own_hints_told=told,
        )
    )  # fmt: skip
    handle.live.subagents.said(name)


def uses(handle: FakeHandle, name: str, tool: str, output: str, **arguments: object) -> None:
    """A call of the subagent with its answer; "…" leaves it open."""
    call = f"{name}/toolu_{len(handle.records)}"
    handle.tell(ev.ToolCalled(call=call, tool=tool, arguments=dict(arguments), source=name))
    if output != "…":
        handle.tell(
            ev.ToolAnswered(
                call=call, tool=tool, status="success", output=output[:2000], source=name
            )
        )


def ends(handle: FakeHandle, name: str, *, status: str = "done", reason: str = "") -> None:
    one = next(each for each in handle.state.subagents if each.id == name)
    handle.live.subagents.end(name)
    handle.tell(
        ev.SubagentEnded(
            subagent=name, agent=one.agent, status=status, reason=reason, calls=one.calls,
        )
    )  # fmt: skip
    if one.call:
        handle.tell(ev.ToolAnswered(call=one.call, tool="task", status="success", output="done"))


def at_work() -> FakeHandle:
    """A run in its second plan: s1 is done, s2 works, s3 has only just begun."""
    handle = FakeHandle().to_phase(Phase.PLAN, settled=6)
    handle.live.show(Said("{name} is at work", name="lab"))
    text = "Before I plan I send for two readers."
    handle.tell(ev.ModelReplied(phase=Phase.PLAN, model="lab", text=text, tool_calls=3))
    begin(handle, "s1", FLAGS, call="c901", trace="trace/000901-task")
    begin(handle, "s2", LANES, call="c902", trace="trace/000902-task")
    says(handle, "s1", "I read the kernel first.", calls=1)
    uses(handle, "s1", "read_kernel", SOURCE)
    says(handle, "s1", 'FLAGS is "-O3"; the target knows -march=native too.')
    ends(handle, "s1")
    says(handle, "s2", "The loops first, then what the compiler made of them.", calls=2)
    uses(handle, "s2", "read_file", SOURCE, file_path="task/reference.py", offset=1, limit=60)
    uses(handle, "s2", "search_knowledge", "vectorising a reduction …", query="reduction lanes")
    says(handle, "s2", FOUND, calls=1)
    uses(handle, "s2", "verify_kernel", "…", task_code="task/reference.py")
    begin(handle, "s3", "How wide is a row in the hidden shapes?", call="c903")
    handle.live.subagents.write("s3", "The shapes are in the reference, so I read")
    return handle
