"""The tool execute_script: runs a script of `notes/` in a confined process, if it is allowed.

A script is denied unless the task, a person or a rule of the run allows it. The text is read once,
written into the call's trace and run from there, so that the approved text is the text that runs.
"""

from __future__ import annotations

import hashlib
import shlex
import sys
from pathlib import Path, PurePosixPath
from typing import Annotated

from msgspec import Struct

from akg_tui.agent.tools.declaration import Arg, ToolContext, tool
from akg_tui.agent.tools.file_access import NOTES, Refused
from akg_tui.agent.tools.files import read_text
from akg_tui.agent.tools.processes import note, run_process
from akg_tui.agent.tools.run_access import Answer, RunAccess
from akg_tui.core import commands as cmd
from akg_tui.core.phases import Gate, Phase

MAX_SCRIPT = 256 << 10
MAX_ARGS = 100

_SHELLS = {
    ".py": ("python", (sys.executable, "-P")),
    ".sh": ("sh", ("/bin/sh",)),
    ".bash": ("bash", ("bash",)),
}
"""By suffix: the interpreter's name (`core.approval_rules.INTERPRETERS`), and its command."""


_NOBODY_ASKED = (
    "Scripts are not allowed in this run: nobody is asked, and task.toml does not say "
    "agent.allow_script = true. Nothing was run."
)


class Script(Struct, frozen=True):
    """A script of a call; exactly this text runs if it is allowed.

    `interpreter` is one of `core.approval_rules.INTERPRETERS`, `source` the subagent that calls.
    """

    path: str
    text: str
    args: tuple[str, ...] = ()
    interpreter: str = ""
    source: str = ""

    @property
    def told(self) -> str:
        """The text for the person who approves the script: the command line and the script."""
        return f"{shlex.join([self.path, *self.args])}\n{self.text}"

    @property
    def sha256(self) -> str:
        """A digest of the text, its arguments and its interpreter, as the key of an approval.

        The interpreter is included because one text is a different program for each.
        """
        told = "\0".join((self.interpreter, self.text, *self.args))
        return hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()


@tool("basic_tool", (Phase.WRITE, Phase.PLAN, Phase.EDIT), gate=Gate.SCRIPT)
async def execute_script(
    call: ToolContext,
    *,
    script_path: Annotated[str, Arg("Path under notes/.")],
    args: Annotated[tuple[str, ...], Arg("Arguments of the script.")] = (),
    stdin_input: Annotated[
        str, Arg("What the script reads from standard input.", resolve="whole")
    ] = "",
    timeout: Annotated[  # noqa: ASYNC109 - the argument's name in a call
        int,
        Arg(
            "Seconds after which the script and all it started are killed.",
            minimum=1,
            maximum=3600,
        ),
    ] = 300,
    working_dir: Annotated[str, Arg("Folder to run in: notes/ or one below it.")] = "notes",
) -> Answer:
    """Run a shell (.sh) or Python (.py) script of notes/ in a confined process without
    network. Needs the permission of the person or of the task; its figures decide nothing.
    """
    from akg_tui.evaluate.sandbox import run_confined
    from akg_tui.evaluate.targets.cpu import base_environment

    files, node = call.files, call.node
    path = files.relative(script_path)
    if not path.startswith(f"{NOTES}/"):
        raise Refused(f"{path}: only scripts under {NOTES}/ are run")
    known_shell = _SHELLS.get(PurePosixPath(path).suffix)
    if known_shell is None:
        known = ", ".join(_SHELLS)
        raise Refused(f"{path}: is not a script this tool runs; expected one of {known}")
    if len(args) > MAX_ARGS or any("\0" in text for text in args):
        raise Refused(f"args: at most {MAX_ARGS} texts without NUL")
    text = read_text(files, path)
    if len(text) > MAX_SCRIPT:
        raise Refused(f"{path}: has {len(text)} characters; at most {MAX_SCRIPT} are run")
    folder = _folder(call, working_dir)
    interpreter, shell = known_shell
    script = Script(path, text, args, interpreter, call.caller.source)
    if refused := script_refusal(call.run, script, call.tool.gate or Gate.SCRIPT):
        return Answer.error(refused)
    name = PurePosixPath(path).name
    node.keep(name, text.encode())
    if node.fault:
        return Answer.error(f"the script could not be kept: {node.fault}")
    command = [*shell, str(node.path.absolute() / name), *args]
    environment = {**base_environment(), "HOME": str(folder), "TMPDIR": str(folder)}
    try:
        done = await run_process(
            run_confined.command(*command, folder=folder, readable=(node.path.absolute(),)),
            folder=folder,
            environment=environment,
            stdin=stdin_input.encode("utf-8", "replace"),
            timeout_s=timeout,
        )
    except OSError as error:
        return Answer.error(f"{path}: could not be started: {error.strerror}")
    note(done.stderr)
    if done.timed_out:
        why = f"{path}: was killed, with all it started, after {timeout} s"
    elif done.code:
        why = f"{path}: ended with status {done.code}"
    else:
        return Answer.success(done.stdout, foreign=True)
    return Answer.error(why, output=done.stdout, foreign=True)


def _folder(call: ToolContext, wanted: str) -> Path:
    inside = call.files.relative(wanted)
    if inside != NOTES and not inside.startswith(f"{NOTES}/"):
        raise Refused(f"{wanted}: working_dir must be {NOTES}/ or below it")
    if not call.files.is_folder(inside):
        raise Refused(f"{wanted}: is not a folder")
    return Path(call.run.path).absolute() / inside


def script_refusal(run: RunAccess, script: Script, gate: Gate = Gate.SCRIPT) -> str:
    """Return why the script must not run now; "" if it may.

    If the gate is set and no person has answered for this script, a rule of the run approves it,
    or a person is asked and the visit ends; after an approval, the repeated call is allowed.
    Without the gate, the script is refused unless the task or a rule allows it.
    """
    gated = gate in run.state.gates
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
