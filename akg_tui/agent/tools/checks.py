"""The tools check_python_code and check_markdown: autopep8 and PyMarkdown, each in its own process.

Both read the text from standard input and start in an empty folder, because both load
settings, and PyMarkdown loads plugins, from the folder in which they are started.
"""

from __future__ import annotations

import difflib
import sys
import tempfile
from pathlib import Path
from typing import Annotated

from akg_tui.agent.tools.declaration import Arg, ToolContext, tool
from akg_tui.agent.tools.file_access import NOTES, Refused, read_text
from akg_tui.agent.tools.processes import Finished, note, run_process
from akg_tui.agent.tools.run_access import Answer
from akg_tui.core.phases import Phase
from akg_tui.hashline.parse_gate import python_fault

CHECK_S = 60.0
MAX_CHECKED = 512 << 10
MAX_DIFF = 8_000

_AUTOPEP8 = ("autopep8", "--ignore-local-config", "--global-config", "/dev/null", "-")
_PYMARKDOWN = ("pymarkdown", "scan-stdin")


InRun = Annotated[str, Arg("Path inside the run.")]


@tool("basic_tool", (Phase.WRITE, Phase.PLAN, Phase.EDIT), by_name=True)
async def check_python_code(call: ToolContext, file_path: InRun) -> Answer:
    """Check a file's Python syntax and format it with autopep8. A file under notes/ is
    formatted in place; of any other the changes are only shown.
    """
    path = call.files.relative(file_path)
    text = _text(call, path)
    if fault := python_fault(text.encode()):
        return Answer.error(f"{path}:{fault.line}: {fault.message}", foreign=True)
    done = await _run(_AUTOPEP8, text)
    if done.code != 0:
        return _broke("autopep8", done)
    formatted = done.stdout
    if formatted == text:
        return Answer.success(f"{path}: the syntax is good, and the form too")
    if path.startswith(f"{NOTES}/"):
        call.files.write(path, formatted.encode())
        return Answer.success(f"{path}: the syntax is good; the file was formatted")
    before, after = text.splitlines(), formatted.splitlines()
    diff = difflib.unified_diff(before, after, path, path, n=1, lineterm="")
    shown = "\n".join(diff)[:MAX_DIFF]
    why = f"{path}: the syntax is good; autopep8 would change (the file was left as it is):"
    return Answer.success(f"{why}\n{shown}", foreign=True)


@tool("basic_tool", (Phase.WRITE, Phase.PLAN, Phase.EDIT), by_name=True)
async def check_markdown(call: ToolContext, file_path: InRun) -> Answer:
    """Check a Markdown file with PyMarkdown, by the rules of markdownlint."""
    path = call.files.relative(file_path)
    done = await _run(_PYMARKDOWN, _text(call, path))
    if done.code == 0:
        return Answer.success(f"{path}: nothing to mend")
    findings = [
        line.replace("stdin:", f"{path}:", 1)
        for line in done.stdout.splitlines()
        if line.startswith("stdin:")
    ]
    if not findings:
        return _broke("PyMarkdown", done)
    return Answer.error("\n".join(findings[:100]), foreign=True)


def _text(call: ToolContext, path: str) -> str:
    text = read_text(call.files, path)
    if len(text) > MAX_CHECKED:
        raise Refused(f"{path}: has {len(text)} characters; at most {MAX_CHECKED} are checked")
    return text


async def _run(module: tuple[str, ...], text: str) -> Finished:
    from akg_tui.evaluate.targets.cpu import base_environment

    with tempfile.TemporaryDirectory(prefix="akg-check-") as folder:
        done = await run_process(
            [sys.executable, "-I", "-m", *module],
            folder=Path(folder),
            environment=base_environment(),
            stdin=text.encode(),
            timeout_s=CHECK_S,
            limit=4 * MAX_CHECKED,
        )
    note(done.stderr)
    return done


def _broke(name: str, done: Finished) -> Answer:
    if done.timed_out:
        return Answer.error(f"{name} took longer than {CHECK_S:g} s")
    return Answer.error(f"{name} ended with status {done.code}")
