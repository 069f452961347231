"""The tool execute_script: runs a script of `notes/` in a confined process, if it is allowed.

A script needs permission by the task, a person or a rule, unless every protection of the sandbox
holds and it writes to a scratch alone. The text is read once, written into the call's trace and run
from there, so that the approved text is the text that runs.
"""

from __future__ import annotations

import hashlib
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from akg_tui.agent.tools.declaration import Arg, ToolContext, tool
from akg_tui.agent.tools.file_access import NOTES, Refused, read_text
from akg_tui.agent.tools.processes import Finished, note, run_process
from akg_tui.agent.tools.run_access import Answer, RunAccess
from akg_tui.core import commands as cmd
from akg_tui.core.phases import Gate, Phase
from akg_tui.dsl.bench import UNTIL

MAX_SCRIPT = 256 << 10
MAX_ARGS = 100
MEMORY_GB = 4.0
NO_EVIDENCE = "times that a script measures are no evidence: the judge measures what counts"
NOT_STARTED, NOT_CONFINED = 125, "not confined: "
"""What `evaluate.sandbox.run_confined` exits with and says where a protection is missing."""

_SHELLS = {
    ".py": ("python", (sys.executable, "-P", "-u")),
    ".sh": ("sh", ("/bin/sh",)),
    ".bash": ("bash", ("bash",)),
}
"""By suffix: the interpreter's name (`core.approval_rules.INTERPRETERS`), and its command."""


_NOBODY_ASKED = (
    "This script is not allowed in this run: nobody is asked, and task.toml does not say "
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
    content: Annotated[
        str | None, Arg("The script's text, if it is to be written there first.", resolve="never")
    ] = None,
    args: tuple[str, ...] = (),
    stdin_input: Annotated[
        str, Arg("What the script reads from standard input.", resolve="whole", told=False)
    ] = "",
    timeout: Annotated[  # noqa: ASYNC109 - the argument's name in a call
        int,
        Arg(
            "Seconds after which it is stopped.",
            minimum=1,
            maximum=3600,
        ),
    ] = 300,
    working_dir: Annotated[
        str | None,
        Arg(
            "notes/ or a folder below it, to write there, which needs leave; left out, a scratch.",
            told=False,
        ),
    ] = None,
) -> Answer:
    """Run a Python (.py) or shell (.sh) script of notes/ in a confined process without network,
    in a scratch folder that is gone afterwards. It may read work/, task/ and notes/ under these
    names, import akg_tui.dsl, and build and run programs in its folder.
    `from akg_tui.dsl.bench import bench, remaining`: bench({name: function}) times variants in
    turns by CPU time, remaining() is the seconds left. Its figures decide nothing.
    """
    path = call.files.relative(script_path)
    if not path.startswith(f"{NOTES}/"):
        raise Refused(f"{path}: only scripts under {NOTES}/ are run")
    known_shell = _SHELLS.get(PurePosixPath(path).suffix)
    if known_shell is None:
        known = ", ".join(_SHELLS)
        raise Refused(f"{path}: is not a script this tool runs; expected one of {known}")
    if len(args) > MAX_ARGS or any("\0" in text for text in args):
        raise Refused(f"args: at most {MAX_ARGS} texts without NUL")
    if content is not None:
        call.files.write(path, content.encode())
    text = read_text(call.files, path)
    if len(text) > MAX_SCRIPT:
        raise Refused(f"{path}: has {len(text)} characters; at most {MAX_SCRIPT} are run")
    folder = None if working_dir is None else _folder(call, working_dir)
    interpreter, shell = known_shell
    script = Script(path, text, args, interpreter, call.caller.source)
    gate = call.tool.gate or Gate.SCRIPT
    refused = script_refusal(call.run, script, gate)
    # Without leave a script runs where every protection holds, and writes to its scratch alone.
    free = bool(refused) and may_run_freely(call.run, script, gate)
    if refused and not (free and folder is None):
        hint = " Without working_dir it may run, in a scratch." if free else ""
        return Answer.error(f"{refused}{hint}")
    name = PurePosixPath(path).name
    call.node.keep(name, text.encode())
    if call.node.fault:
        return Answer.error(f"the script could not be kept: {call.node.fault}")
    command = [*shell, str(call.node.path.absolute() / name), *args]
    took_s = 0.0
    try:
        async with call.run.computing:
            began = time.monotonic()
            done = await _run(call, command, folder, stdin_input, timeout, free=free)
            took_s = time.monotonic() - began
    except OSError as error:
        return Answer.error(f"{path}: could not be started: {error.strerror}")
    lost = done.stderr.partition(NOT_CONFINED)[2]
    if free and done.code == NOT_STARTED and lost:
        return Answer.error(f"{refused} The sandbox of this machine lacks: {lost.strip()[:400]}")
    note(done.stderr)
    note_of_time = f"({took_s:.1f} of {timeout} s; {NO_EVIDENCE})"
    if done.timed_out:
        why = f"{path}: was killed, with all it started, after {timeout} s"
    elif done.excess:
        why = f"{path}: {done.excess}"
    elif done.code:
        why = f"{path}: ended with status {done.code}"
    else:
        return replace(Answer.success(done.stdout, foreign=True), note=note_of_time)
    return replace(Answer.error(why, output=done.stdout, foreign=True), note=note_of_time)


async def _run(
    call: ToolContext,
    command: Sequence[str],
    folder: Path | None,
    stdin: str,
    timeout_s: float,
    *,
    free: bool,
) -> Finished:
    """Run the command in `folder`, or in a scratch. Raises `OSError`."""
    from akg_tui.evaluate.sandbox import run_confined
    from akg_tui.evaluate.sandbox.process_watch import ResourceLimits
    from akg_tui.evaluate.targets.cpu import base_environment

    node = call.node.path.absolute()
    run = node.parents[call.node.name.count("/")]
    readable = (run / "work", run / "task", run / NOTES, node)
    with tempfile.TemporaryDirectory(prefix="akg-script-", ignore_cleanup_errors=True) as made:
        scratch = Path(made)
        words = run_confined.command(
            *command,
            folder=folder or scratch,
            readable=readable,
            memory_gb=MEMORY_GB,
            require_all=free,
            scratch=folder is None,
        )
        return await run_process(
            words,
            folder=folder or scratch,
            environment={
                **base_environment(),
                "HOME": made,
                "TMPDIR": made,
                UNTIL: str(time.monotonic() + timeout_s),
            },
            stdin=stdin.encode("utf-8", "replace"),
            timeout_s=timeout_s,
            limits=ResourceLimits(int(MEMORY_GB * (1 << 30)), [folder or scratch]),
        )


def _folder(call: ToolContext, wanted: str) -> Path:
    inside = call.files.relative(wanted)
    if inside != NOTES and not inside.startswith(f"{NOTES}/"):
        raise Refused(f"{wanted}: working_dir must be {NOTES}/ or below it")
    if not call.files.is_folder(inside):
        raise Refused(f"{wanted}: is not a folder")
    return Path(call.run.path).absolute() / inside


def may_run_freely(run: RunAccess, script: Script, gate: Gate = Gate.SCRIPT) -> bool:
    """Return whether a script needs nobody's leave where every protection of the sandbox holds."""
    refused = dict(run.state.scripts).get(script.sha256) is False
    return run.state.task.agent.allow_script is None and gate not in run.state.gates and not refused


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
