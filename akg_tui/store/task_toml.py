"""task.toml as a `Task`, a policy file as an `AutomationPolicy`, and the settings of an agent.

The bounds of the fields are defined in `akg_tui.core.task`; a fault names file, line and field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from akg_tui.core.phases import WORKFLOWS
from akg_tui.core.stopping.automation import AutomationPolicy, doubts
from akg_tui.core.task import DEFAULT_CLAUDE, WORKFLOW_FILE, Agent, Task
from akg_tui.store.errors import BadFile, BadTask, Fault, reading
from akg_tui.store.user_files.reader import Unsound, UserFile, convert, toml_file, yaml_line


def parse_task(path: Path, text: str) -> Task:
    """Return the task in `text`; `path` is for messages.

    Raises `BadTask` if the text is no TOML, or a field has a wrong or an ambiguous value.
    """
    file = toml_file(path, text, BadTask)
    workflow = file.plain.get("workflow")
    if isinstance(workflow, str) and not is_workflow(workflow):
        raise file.bad(("workflow",), unknown_workflow(workflow))
    task = file.read(Task)
    _check_files(task, file)
    if task.table:
        raise file.bad(("table",), "is no setting, expected `workflow` with the name of a file")
    if task.check_source:
        raise file.bad(("check_source",), "is no setting, expected `check` under [correctness]")
    _check_automation(file)
    return task


def is_workflow(name: str) -> bool:
    """Return whether a task can name its workflow so: one of ours, or a file of the folder."""
    return name in WORKFLOWS or re.fullmatch(WORKFLOW_FILE, name) is not None


def unknown_workflow(name: str) -> str:
    """Return the fault of a name that is no workflow's."""
    ours = ", ".join(WORKFLOWS)
    return f"{name!r} is unknown, expected one of: {ours}, or a .toml file of the task's folder"


class _Configuration(Struct, frozen=True, forbid_unknown_fields=True):
    """An agent's configuration: its settings."""

    agent: Agent = Agent()


def parse_configuration(path: Path, text: str) -> dict[str, Any]:
    """Return the settings that `text` states in `[agent]`, its only table.

    Raises `BadTask` as `parse_task` does; `path` is for messages.
    """
    file = toml_file(path, text, BadTask)
    file.read(_Configuration)
    stated: dict[str, Any] = file.plain.get("agent", {})
    return stated


class BadAgent(ValueError):
    """A `setting` of an agent with a forbidden value; `why` gives the values that are allowed."""

    def __init__(self, setting: str, why: str) -> None:
        super().__init__(f"{setting}: {why}" if setting else why)
        self.setting = setting
        self.why = why


def stated_agent(agent: Agent, said: Mapping[str, Any]) -> Agent:
    """Return `agent` with the settings `said` by a person, validated. Raises `BadAgent`."""
    plain = {**to_builtins(agent), **said}
    if plain["model"] == "claude":
        plain["model"] = DEFAULT_CLAUDE
    try:
        return convert(plain, Agent)
    except Unsound as unsound:
        field, why = unsound.faults[0]
        raise BadAgent(".".join(field), why) from None


def _check_automation(file: UserFile) -> None:
    """Refuse ambiguous values of a file that the policy's own format accepts."""
    policy = file.plain.get("policy", {})
    automation = policy.get("automation", {})
    at = ("policy", "automation")
    for name, why in doubts(automation):
        raise file.bad((*at, name), why)
    rounds, again = policy.get("max_rounds"), automation.get("maxRounds")
    if rounds is not None and again is not None and rounds != again:
        message = f"says {again}, but policy.max_rounds says {rounds}; keep one of them"
        raise file.bad((*at, "maxRounds"), message)


def _check_files(task: Task, file: UserFile) -> None:
    reference, names = task.files.reference, task.files.names
    for name, value in (("reference", reference), ("editable", task.files.kernel)):
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.py", value):
            message = f"{value!r} is not allowed, expected the name of a .py file in this folder"
            raise file.bad(("files", name), message)
    for number, name in enumerate(names):
        message = ""
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", name):
            message = f"{name!r} is not allowed, expected the name of a file in this folder"
        elif name in names[:number]:
            message = f"{name} is named twice"
        elif name == reference:
            message = "is the reference too, expected another file"
        if message:
            raise file.bad(("files", "editable"), message)


SIZE_LIMIT = 1 << 20
_WRAPPED = "automation_policy"


def load_policy(path: Path) -> tuple[AutomationPolicy | None, list[str]]:
    """Return the policy in a JSON file, and doubts about values that are probably mistakes.

    Raises `StoreError` if the file cannot be read or is no policy; the message names file, line and
    field.
    """
    with reading(path), path.open("rb") as file:
        data = file.read(SIZE_LIMIT + 1)
    if len(data) > SIZE_LIMIT:
        raise BadFile(path, None, "", f"is too large, expected at most {SIZE_LIMIT} bytes")
    try:
        plain = json.loads(data, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise BadFile(path, error.lineno, "", f"not valid JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise BadFile(path, None, "", f"not valid JSON: {error}") from error
    source = UserFile(path, data.decode(), plain, yaml_line)  # JSON is YAML
    try:
        policy = read_automation(plain)
    except Unsound as unsound:
        raise source.bad(*unsound.faults[0]) from None
    if policy is None:
        return None, []
    at = (_WRAPPED,) if _WRAPPED in plain else ()
    found = [((*at, name), why) for name, why in doubts(plain.get(_WRAPPED, plain))]
    others = [name for name in plain if at and name != _WRAPPED]
    found += [((name,), f"is not read beside {_WRAPPED}") for name in others]
    return policy, [str(source.bad(*each)) for each in found]


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number")


def read_automation(plain: Any) -> AutomationPolicy | None:
    """Return the policy in decoded JSON: a bare object, or under the key `automation_policy`.

    Other keys beside that one, as in a project.json, are another program's. The result of null is
    None. Raises `Unsound`.
    """
    wrapped = isinstance(plain, dict) and _WRAPPED in plain
    inner = plain[_WRAPPED] if wrapped else plain
    try:
        return None if inner is None else convert(inner, AutomationPolicy)
    except Unsound as unsound:
        at = (_WRAPPED,) if wrapped else ()
        raise Unsound([Fault((*at, *field), why) for field, why in unsound.faults]) from None
