"""submit_plan, finish, report_diagnosis and search_knowledge: each a command, or a look-up."""

from __future__ import annotations

from akg_tui.agent.tools import registry
from akg_tui.agent.tools.port import Answer, RunPort
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev

MAX_FOUND = 4


def submit_plan(run: RunPort, arguments: registry.SubmitPlan) -> Answer:
    items = tuple(ev.PlannedItem("", item.text, item.rationale) for item in arguments.items)
    if refused := run.send(cmd.SubmitPlan(items, arguments.summary)):
        return Answer.error(refused.why)
    names = ", ".join(item.id for item in run.state.pending)
    return Answer.success(f"accepted: {names}")


def finish(run: RunPort, arguments: registry.Finish) -> Answer:
    if refused := run.send(cmd.RequestFinish(arguments.reason)):
        return Answer.error(refused.why)
    return Answer.success("the run ends here")


def report_diagnosis(run: RunPort, arguments: registry.ReportDiagnosis) -> Answer:
    report = cmd.ReportDiagnosis(
        arguments.cause, tuple(arguments.avoid), tuple(arguments.directions)
    )
    if refused := run.send(report):
        return Answer.error(refused.why)
    return Answer.success("recorded")


def search_knowledge(run: RunPort, arguments: registry.SearchKnowledge) -> Answer:
    from akg_tui.knowledge import library

    target = run.state.task.target
    shelf = library()
    if page := shelf.page(arguments.query.strip()):
        return Answer.success(page.whole())
    found = shelf.search(
        arguments.query,
        dsl=arguments.dsl or target.dsl,
        backend=arguments.backend or target.backend,
        limit=MAX_FOUND,
    )
    if not found:
        ids = ", ".join(page.cited for page in shelf.pages)
        return Answer.error(f"nothing was found; the pages are: {ids}")
    return Answer.success("\n\n".join(page.whole() for page in found))
