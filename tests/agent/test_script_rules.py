"""Scripts under a rule: they run, each told in the journal, and none of them touches the rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from akg_tui.agent.tools.executor import ToolExecutor
from akg_tui.agent.tools.run_access import Caller as CallOrigin
from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.phases import Gate, Phase
from akg_tui.engine.attach import SOCKET
from akg_tui.engine.engine import Engine
from tests.agent.test_tools import Caller, calling


async def taught(call: Caller, name: str = "first.sh", text: str = "echo first\n") -> None:
    """A person let the first script run, and said "always"."""
    call.engine.send(cmd.SetGate(Gate.SCRIPT, on=True))
    path = call.note(name, text)
    assert "waits for a person" in await call.refused("execute_script", script_path=path)
    gate = call.engine.state.gate
    assert gate is not None
    assert call.engine.send(cmd.AnswerGate(gate.gate, approve=True, always=True)) is None


def applied(engine: Engine) -> list[ev.RuleApplied]:
    return [r.event for r in engine.records if isinstance(r.event, ev.RuleApplied)]


async def test_a_script_under_a_rule_runs_in_the_same_call_and_is_told_whole(tmp_path) -> None:
    async with calling(tmp_path) as call:
        await taught(call)
        path = call.note("second.sh", "echo $1\n")
        assert await call.good("execute_script", script_path=path, args=["two"]) == "two\n"
        (one,) = applied(call.engine)
        assert (one.rule, one.detail) == (1, f"{path} two\necho $1\n")
        assert call.engine.state.gate is None
        other = call.note("third.py", "print(3)\n")
        assert "waits for a person" in await call.refused("execute_script", script_path=other)
        assert len(applied(call.engine)) == 1


async def test_a_rule_for_the_agent_lets_no_script_of_a_subagent_run(tmp_path) -> None:
    async with calling(tmp_path) as call:
        await taught(call)
        begun = ev.SubagentStarted(subagent="s1", agent="subagent", phase=Phase.EDIT, call="t")
        call.engine.send(cmd.Observe(begun))
        call.executor = ToolExecutor(call.engine, None, CallOrigin("s1", "trace", restricted=True))
        path = call.note("b.sh", "echo b\n")
        assert "waits for a person" in await call.refused("execute_script", script_path=path)
        gate = call.engine.state.gate
        assert gate is not None
        assert (gate.agent, gate.interpreter) == ("subagent", "sh")


async def test_leave_for_a_shell_script_is_no_leave_for_python(tmp_path) -> None:
    async with calling(tmp_path) as call:
        call.engine.send(cmd.SetGate(Gate.SCRIPT, on=True))
        text = "true\n"
        await call.refused("execute_script", script_path=call.note("a.sh", text))
        assert call.engine.state.gate is not None
        call.engine.send(cmd.AnswerGate(call.engine.state.gate.gate, approve=True))
        python = call.note("a.py", text)
        assert "waits for a person" in await call.refused("execute_script", script_path=python)


ORDERS = """
import json, socket
link = socket.socket(socket.AF_UNIX)
link.connect({socket!r})
for order in {orders}:
    link.sendall((json.dumps(order) + "\\n").encode())
print(link.recv(65536))
"""


async def test_a_script_that_a_rule_let_run_teaches_and_ends_none(tmp_path: Path) -> None:
    """It runs as the same user, beside the run's socket, and knows every word of the protocol."""
    async with calling(tmp_path) as call:
        await taught(call, "first.py", "print(1)\n")
        wider = call.note("b.sh", "echo b\n")
        await call.refused("execute_script", script_path=wider)
        assert call.engine.state.gate is not None
        number = call.engine.state.gate.gate
        orders: list[dict[str, Any]] = [
            {"order": "AnswerGate", "with": {"gate": number, "approve": True, "always": True}},
            {"order": "RevokeRule", "with": {"rule": 1}},
            {"order": "SetGate", "with": {"gate": "script", "on": False}},
        ]
        where = str(Path(call.engine.path).absolute() / SOCKET)
        path = call.note("attack.py", ORDERS.format(socket=where, orders=orders))
        result = await call("execute_script", script_path=path)
        assert len(applied(call.engine)) == 1, "it did run"
        assert result.status == "error"
        assert "PermissionError" in result.error_information
        (rule,) = call.engine.state.rules
        assert (rule.number, rule.ended) == (1, "")
        assert call.engine.state.gate is not None
        assert not call.engine.state.gate.answer
        assert Gate.SCRIPT in call.engine.state.gates
