"""The tool grep: lines of the run's files and of kernels that match a regular expression.

The expression is the model's, and one that backtracks without an end must not hold the engine's
loop, so the matching runs in a process with a time limit. Lines of a kernel have the tags that an
edit needs, and count as shown.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

from akg_tui.agent.tools.declaration import Arg, ToolContext, tool
from akg_tui.agent.tools.file_access import NOTES, Refused
from akg_tui.agent.tools.processes import run_process
from akg_tui.agent.tools.run_access import Answer
from akg_tui.agent.tools.trials import version
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.phases import AGENT_PHASES
from akg_tui.hashline import Document

SEARCH_S = 5.0
MAX_PATTERN = 500
MAX_SEARCHED = 16 << 20
MAX_FILES = 300
MAX_LINE = 300
SEARCHED = ("task", NOTES)

_SEARCH = """\
import json, re, sys
asked = json.load(sys.stdin)
try:
    found = re.compile(asked["pattern"]).search
except (re.error, OverflowError, RecursionError) as error:
    sys.exit(str(error))
texts = asked["lines"]
print(json.dumps([[n for n, line in enumerate(text, 1) if found(line)] for text in texts]))
"""


@tool("domain_tool", AGENT_PHASES)
async def grep(
    call: ToolContext,
    *,
    pattern: Annotated[str, Arg("A regular expression of Python.", resolve="never")],
    path: Annotated[
        str | None,
        Arg("A file or folder; left out, the kernel, task/ and notes/."),
    ] = None,
    trial: Annotated[int | None, Arg(minimum=1)] = None,
    attempt: Annotated[int | None, Arg(minimum=0)] = None,
    context: Annotated[int, Arg("Lines around a match.", minimum=0, maximum=10)] = 0,
    limit: Annotated[int, Arg("Matches to show.", minimum=1, maximum=500, told=False)] = 60,
) -> Answer:
    """Find lines; those of a kernel (also of a trial or an attempt) come with their tags."""
    if not 0 < len(pattern) <= MAX_PATTERN:
        raise Refused(f"pattern: has {len(pattern)} characters, expected 1 to {MAX_PATTERN}")
    if sum(each is not None for each in (path, trial, attempt)) > 1:
        raise Refused("give one of path, trial and attempt")
    name, kernel, others = _searched(call, path, trial, attempt)
    texts = {**({"": kernel.page} if kernel is not None else {}), **others}
    lines = {each: Document.from_text(text, path=each).lines for each, text in texts.items()}
    found = await _matches(pattern, list(lines.values()))
    if kernel is not None:
        found[0] = _in_files(call, found[0], kernel, path)
    rows: list[str] = []
    left, foreign = limit, False
    total = sum(map(len, found))
    for (each, own), numbers in zip(lines.items(), found, strict=True):
        shown = numbers[: max(0, left)]
        left -= len(shown)
        if not shown:
            continue
        near = _around(shown, context, len(own))
        if not each:
            rows.append(call.kernel.show_rows(near, name, kernel))
        else:
            foreign = True
            rows += [f"{each}:", *(f"{n}: {own[n - 1][:MAX_LINE]}" for n in near)]
    if not rows:
        searched = ", ".join(each or name or "the kernel" for each in lines)
        return Answer.error(f"no line matches in {searched[:400]}")
    if total > limit:
        rows.append(f"({limit} of {total} matches; limit shows more)")
    return Answer.success("\n".join(rows), foreign=foreign)


def _searched(
    call: ToolContext, path: str | None, trial: int | None, attempt: int | None
) -> tuple[str, KernelFiles | None, dict[str, str]]:
    """Return the name and files of the kernel to search, if any, and the files by path."""
    if trial is not None or attempt is not None:
        return *version(call, trial, attempt), {}
    files, kernel = call.files, call.kernel.files
    own = [f"work/{each}" for each in call.run.state.task.files.names]
    there = [name for name in SEARCHED if (Path(call.run.path) / name).is_dir()]
    wanted = [files.relative(path)] if path is not None else there
    found: dict[str, str] = {}
    size = 0
    for name in (each for one in wanted for each in files.walk(one, MAX_FILES)):
        if name in own:
            continue
        text = files.read(name).decode("utf-8", "replace")
        size += len(text)
        if size > MAX_SEARCHED:
            raise Refused(f"more than {MAX_SEARCHED} characters: name a folder or a file")
        found[name] = text
    has_kernel = path is None or wanted[0] in ("work", *own)
    return "", kernel if has_kernel else None, found


def _in_files(
    call: ToolContext, numbers: list[int], kernel: KernelFiles, path: str | None
) -> list[int]:
    """Return the rows that stand in a file of the kernel, or in the one that `path` names."""
    names = kernel.names
    wanted = [name for name in names if path and call.files.relative(path) == f"work/{name}"]
    at = {number: kernel.place(number) for number in numbers}
    return [n for n, (file, line) in at.items() if line and file in (wanted or names)]


def _around(numbers: list[int], context: int, count: int) -> list[int]:
    near = {n + step for n in numbers for step in range(-context, context + 1)}
    return sorted(n for n in near if 1 <= n <= count)


async def _matches(pattern: str, lines: list[tuple[str, ...]]) -> list[list[int]]:
    """Return for each text the numbers of the matching lines. Raises `Refused`."""
    from akg_tui.evaluate.targets.cpu import base_environment

    asked: dict[str, Any] = {"pattern": pattern, "lines": lines}
    done = await run_process(
        [sys.executable, "-I", "-S", "-c", _SEARCH],
        folder=Path("/"),
        environment=base_environment(),
        stdin=json.dumps(asked).encode(),
        timeout_s=SEARCH_S,
        limit=MAX_SEARCHED,
    )
    if done.timed_out:
        raise Refused(f"pattern: takes longer than {SEARCH_S:g} s to match; simplify it")
    if done.code:
        raise Refused(f"pattern: is no regular expression: {done.stderr.strip()[-200:]}")
    found: list[list[int]] = json.loads(done.stdout)
    return found
