"""The tools by which the agent steers its run: plan, diagnosis, questions, finish, search.

Each sends a command to core, or looks up a text. No tool waits: a question to a person ends the
turn, core holds the phase (overlay WAIT_USER), and the next visit's prompt contains the answer.
An open question therefore survives a restart of the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Struct

from akg_tui.agent.tools.declaration import Arg, ToolContext, tool
from akg_tui.agent.tools.run_access import Answer
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.phases import AGENT_PHASES, Phase
from akg_tui.core.plan.submission import (
    MAX_CAUSE,
    MAX_ENTRY,
    MAX_ITEM_TEXT,
    MAX_RATIONALE,
    MIN_CAUSE,
    MIN_RATIONALE,
    least_items,
)
from akg_tui.core.questions import MAX_TEXT, MIN_BLOCKED
from akg_tui.core.sanitize import one_line
from akg_tui.core.state import Question

if TYPE_CHECKING:
    from akg_tui.knowledge import Page

MAX_FOUND = 4
WIDTH = 400

Text = Annotated[str, Arg(resolve="never")]


class PlanEntry(Struct, frozen=True, forbid_unknown_fields=True):
    text: Annotated[str, Arg(most=MAX_ITEM_TEXT)]
    rationale: Annotated[str, Arg(least=MIN_RATIONALE, most=MAX_RATIONALE)]


Reason = Annotated[str, Arg(resolve="never", least=MIN_RATIONALE, most=MAX_RATIONALE)]
Ids = Annotated[tuple[str, ...] | None, Arg(resolve="never")]
Entry = Annotated[str, Arg(most=MAX_ENTRY)]


@tool("domain_tool", (Phase.PLAN,), main_agent_only=True)
def submit_plan(
    call: ToolContext,
    items: Annotated[list[PlanEntry], Arg(resolve="never")],
    summary: Annotated[str | None, Arg(resolve="never")] = None,
) -> Answer:
    """Submit the items to try, in this order: one direction each, with a sentence why it should be
    faster, which may cite a page as k:its-id. What was settled before is refused.
    """
    planned = tuple(ev.PlannedItem("", item.text, item.rationale) for item in items)
    if refused := call.run.send(cmd.SubmitPlan(planned, summary or "")):
        return Answer.error(refused.why)
    names = ", ".join(item.id for item in call.run.state.pending)
    return Answer.success(f"accepted: {names}")


@tool("domain_tool", (Phase.PLAN, Phase.EDIT), main_agent_only=True)
def revise_plan(
    call: ToolContext, *, reason: Reason, drop: Ids = None, reopen: Ids = None, order: Ids = None
) -> Answer:
    """Change items by their ids: drop pending ones, reopen closed ones, order all that are pending
    then.
    """
    if refused := call.run.send(cmd.RevisePlan(reason, drop or (), reopen or (), order or ())):
        return Answer.error(refused.why)
    state = call.run.state
    names = ", ".join(item.id for item in state.pending) or "none"
    more = ""
    if state.phase is Phase.PLAN and state.plan_owed:
        more = f"; the plan needs {least_items(state)} or more: submit_plan adds to them"
    return Answer.success(f"pending: {names}{more}")


@tool("domain_tool", (Phase.PLAN,), main_agent_only=True)
def finish(call: ToolContext, reason: Text) -> Answer:
    """End the run because no direction is left. Refused before the policy's least number of
    rounds, unless a diagnosis since the last round says so too.
    """
    if refused := call.run.send(cmd.RequestFinish(reason)):
        return Answer.error(refused.why)
    return Answer.success("the run ends here")


@tool("domain_tool", (Phase.DIAGNOSE,), main_agent_only=True)
def report_diagnosis(
    call: ToolContext,
    *,
    cause: Annotated[str, Arg(resolve="never", least=MIN_CAUSE, most=MAX_CAUSE)],
    avoid: Annotated[tuple[Entry, ...] | None, Arg(resolve="never")] = None,
    directions: Annotated[tuple[Entry, ...], Arg(resolve="never")],
    exhausted: Annotated[bool, Arg("No direction is left; directions may be empty.")] = False,
) -> Answer:
    """Report why the last attempts failed, what to avoid, and which directions to try."""
    report = cmd.ReportDiagnosis(cause, avoid or (), directions, exhausted)
    if refused := call.run.send(report):
        return Answer.error(refused.why)
    return Answer.success("recorded")


@tool("basic_tool", AGENT_PHASES, main_agent_only=True)
def ask_user(
    call: ToolContext,
    message: Annotated[str, Arg("The question.", resolve="whole")],
    choices: Annotated[tuple[str, ...] | None, Arg("Answers to choose from.")] = None,
    default: Annotated[str | None, Arg("Taken when nobody answers.")] = None,
    timeout: Annotated[
        float | None, Arg("Seconds to wait for an answer.", minimum=1, told=False)
    ] = None,
) -> Answer:
    """Ask the person who watches. Your turn ends, and you are told the answer when you go on; with
    nobody there the default holds at once.
    """
    if refused := call.run.send(cmd.AskUser(message, choices or (), default, timeout)):
        return Answer.error(refused.why)
    question = call.run.state.questions[-1]
    if question.answer is None:
        return Answer.success(
            f"question {question.number} waits for the person; end your turn, you will be told"
        )
    call.told.add(f"question {question.number}")
    return Answer.success(answered(question))


def answered(question: Question) -> str:
    """Return the outcome of a question in a clause for the agent."""
    match question.source:
        case "user":
            return f"the person answered: {one_line(question.answer or '', WIDTH)}"
        case "timeout":
            return f"nobody answered in time, so your default holds: {question.answer}"
        case "default":
            return f"nobody is there to answer, so your default holds: {question.answer}"
        case _:
            return "nobody answered and you gave no default: decide by yourself"


@tool("domain_tool", AGENT_PHASES, main_agent_only=True)
def report_blocked(
    call: ToolContext,
    kind: ev.BlockedKind,
    reason: Annotated[str, Arg(resolve="never", least=MIN_BLOCKED, most=MAX_TEXT)],
    about: Literal["run", "item"] = "run",
) -> Answer:
    """Say that you cannot go on, and what is missing. About the item: it alone is set aside."""
    if refused := call.run.send(cmd.ReportBlocked(kind, reason, about)):
        return Answer.error(refused.why)
    return Answer.success("recorded; your visit ends here")


@tool("domain_tool", AGENT_PHASES)
def search_knowledge(
    call: ToolContext,
    query: Annotated[
        str, Arg("A few technical words, or a page's id to read it whole.", resolve="never")
    ],
) -> Answer:
    """Search the pages on what makes kernels fast."""
    from akg_tui.memory.shelf import library_with, own_shelf

    target = call.run.state.task.target
    pages, _ = library_with(own_shelf())
    if page := pages.page(query.strip()):
        return _once(call, [page])
    found = pages.search(query, dsl=target.dsl, backend=target.backend, limit=MAX_FOUND)
    if not found:
        ids = ", ".join(page.cited for page in pages.pages)
        return Answer.error(f"nothing was found; the pages are: {ids}")
    return _once(call, found)


def _once(call: ToolContext, pages: Sequence[Page]) -> Answer:
    """Return the pages, each whole only once in a conversation; the user's are marked as data."""
    texts: list[str] = []
    for page in pages:
        known = page.cited in call.told
        texts.append(f"{page.cited}: {page.title} (told above)" if known else page.whole())
        call.told.add(page.cited)
    return Answer.success("\n\n".join(texts), foreign=any(page.of_user for page in pages))
