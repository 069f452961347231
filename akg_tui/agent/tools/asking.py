"""The tools by which the agent turns to a person: ask_user, report_blocked, leave for a script.

Nothing here waits. A question that waits for a person ends the turn; core holds the phase
(overlay WAIT_USER), and the visit that follows is told the answer. So a question outlives
the process that asked it.
"""

from __future__ import annotations

from akg_tui.agent.prompt import answered
from akg_tui.agent.tools import registry
from akg_tui.agent.tools.port import Answer, RunPort, Script
from akg_tui.core import commands as cmd
from akg_tui.core.phases import Gate

_NOBODY_ASKED = (
    "Scripts are not allowed in this run: nobody is asked, and task.toml does not say "
    "agent.allow_script = true. Nothing was run."
)


def ask_user(run: RunPort, arguments: registry.AskUser) -> Answer:
    """Journal the question; the answer at once where nobody is there to give one."""
    asked = cmd.AskUser(
        arguments.message, tuple(arguments.choices), arguments.default, arguments.timeout
    )
    if refused := run.send(asked):
        return Answer.error(refused.why)
    question = run.state.questions[-1]
    if question.answer is None:
        return Answer.success(
            f"question {question.number} waits for the person; end your turn, you will be told"
        )
    return Answer.success(answered(question))


def report_blocked(run: RunPort, arguments: registry.ReportBlocked) -> Answer:
    """Journal it; what follows is the policy's to say."""
    if refused := run.send(cmd.ReportBlocked(arguments.kind, arguments.reason)):
        return Answer.error(refused.why)
    return Answer.success("recorded; your visit ends here")


def script_refusal(run: RunPort, script: Script) -> str:
    """Why the script may not run now; "" when it may.

    Where the gate `script` is set and nobody has answered for this script, a rule of the run
    lets it pass, or a person is asked and the visit ends; approved, the same call made again
    passes. Without the gate it is the task that allows scripts, or a rule, or nobody.
    """
    gated = Gate.SCRIPT in run.state.gates
    if not gated and run.state.task.agent.allow_script:
        return ""
    answer = dict(run.state.scripts).get(script.sha256)
    if gated and answer is not None:
        return "" if answer else "a person refused this script"
    request = cmd.RequestScript(script.sha256, script.told, script.interpreter, script.source)
    passed = sum(rule.used for rule in run.state.rules)
    if refused := run.send(request):
        return refused.why if gated or answer is False else _NOBODY_ASKED
    if sum(rule.used for rule in run.state.rules) > passed:
        return ""
    return "this script waits for a person's leave; end your turn and call it again when told"
