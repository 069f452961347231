"""What the rules in a person's place cover and did, in the language spoken now.

In English they are the sentences of `akg_tui.core.rules`, which a person agreed to; a test
holds the two together.
"""

from __future__ import annotations

from akg_tui.core import events as ev
from akg_tui.core.plain import one_line
from akg_tui.core.rules import INTERPRETERS
from akg_tui.tui.language import tr


def scope(covered: ev.Scope) -> str:
    """What a rule of this scope approves, in a sentence."""
    match covered.gate:
        case "plan":
            return tr("every later plan of the agent is worked on unasked")
        case "edit":
            return tr(
                "every later edit of the agent is built, run in the sandbox and timed unasked"
            )
        case "keep":
            return tr(
                "every later KEEP becomes the best unasked, but for one that the static guard "
                "warns of"
            )
        case _:
            return tr(
                "every {interpreter} script of {who} in phase {phase}, whatever its text, "
                "arguments and input, runs confined, unasked",
                interpreter=INTERPRETERS.get(covered.interpreter, covered.interpreter),
                who=tr("a {agent}", agent=covered.agent) if covered.agent else tr("the agent"),
                phase=covered.phase,
            )


def applied(event: ev.RuleApplied) -> str:
    """What a rule has approved, in a line."""
    match event.scope.gate:
        case "plan":
            what = tr("the plan")
        case "edit":
            what = tr("the edit of attempt {number}", number=event.attempt)
        case "keep":
            what = tr("the KEEP of attempt {number}", number=event.attempt)
        case _:
            first = one_line(event.detail.partition("\n")[0], 80)
            what = tr("the script {line}", line=first)
    return tr("rule {number} approved {what}", number=event.rule, what=what)
