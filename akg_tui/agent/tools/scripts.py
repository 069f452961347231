"""execute_script: a script of `notes/`, in a confined process, when the `script` gate is open.

What is asked about is what runs: the text is read once, kept in the call's trace, and run
from there. Denied unless the task allows scripts or the gate says yes.
"""

from __future__ import annotations

import sys
from pathlib import Path, PurePosixPath

from akg_tui.agent.tools import registry
from akg_tui.agent.tools.asking import script_refusal
from akg_tui.agent.tools.call_record import Node
from akg_tui.agent.tools.files import read_text
from akg_tui.agent.tools.jail import NOTES, Jail, Refused
from akg_tui.agent.tools.port import Answer, RunPort, Script
from akg_tui.agent.tools.processes import note, run_process
from akg_tui.evaluate.sandbox import run_confined
from akg_tui.evaluate.targets.cpu import base_environment

MAX_SCRIPT = 256 << 10
MAX_ARGS = 100

_SHELLS = {
    ".py": ("python", (sys.executable, "-P")),
    ".sh": ("sh", ("/bin/sh",)),
    ".bash": ("bash", ("bash",)),
}
"""By suffix: the interpreter's name (`core.approval_rules.INTERPRETERS`), and its command."""


async def execute_script(
    run: RunPort,
    jail: Jail,
    arguments: registry.ExecuteScript,
    node: Node,
    source: str = "",
) -> Answer:
    """Run one; `source` is the subagent that calls, if one does."""
    path = jail.relative(arguments.script_path)
    if not path.startswith(f"{NOTES}/"):
        raise Refused(f"{path}: only scripts under {NOTES}/ are run")
    known_shell = _SHELLS.get(PurePosixPath(path).suffix)
    if known_shell is None:
        known = ", ".join(_SHELLS)
        raise Refused(f"{path}: is not a script this tool runs; expected one of {known}")
    if len(arguments.args) > MAX_ARGS or any("\0" in text for text in arguments.args):
        raise Refused(f"args: at most {MAX_ARGS} texts without NUL")
    text = read_text(jail, path)
    if len(text) > MAX_SCRIPT:
        raise Refused(f"{path}: has {len(text)} characters; at most {MAX_SCRIPT} are run")
    folder = _folder(run, jail, arguments.working_dir)
    interpreter, shell = known_shell
    script = Script(path, text, tuple(arguments.args), interpreter, source)
    if refused := script_refusal(run, script):
        return Answer.error(refused)
    name = PurePosixPath(path).name
    node.keep(name, text.encode())
    if node.fault:
        return Answer.error(f"the script could not be kept: {node.fault}")
    command = [*shell, str(node.path.absolute() / name), *arguments.args]
    environment = {**base_environment(), "HOME": str(folder), "TMPDIR": str(folder)}
    try:
        done = await run_process(
            run_confined.command(*command, folder=folder, readable=(node.path.absolute(),)),
            folder=folder,
            environment=environment,
            stdin=arguments.stdin_input.encode("utf-8", "replace"),
            timeout_s=arguments.timeout,
        )
    except OSError as error:
        return Answer.error(f"{path}: could not be started: {error.strerror}")
    if done.timed_out:
        why = f"{path}: was killed, with all it started, after {arguments.timeout} s"
    elif done.code:
        why = f"{path}: ended with status {done.code}"
    else:
        note(done.stderr)
        return Answer.success(done.stdout, foreign=True)
    note(done.stderr)
    return Answer.error(why, output=done.stdout, foreign=True)


def _folder(run: RunPort, jail: Jail, wanted: str) -> Path:
    inside = jail.relative(wanted)
    if inside != NOTES and not inside.startswith(f"{NOTES}/"):
        raise Refused(f"{wanted}: working_dir must be {NOTES}/ or below it")
    if not jail.is_folder(inside):
        raise Refused(f"{wanted}: is not a folder")
    return Path(run.path).absolute() / inside
