"""The arguments of our own tools as types: what a definition's schema says, once more for code.

The tools themselves are declared in YAML (`akg_tui.agent.tools.definitions`).
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from akg_tui.core.events import BlockedKind


class ReadKernel(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class EditKernel(Struct, frozen=True, forbid_unknown_fields=True):
    ops: list[dict[str, Any]]
    rev: int | None = None
    note: str = ""
    allow_dup: bool = False
    allow_broken: bool = False


class PlanEntry(Struct, frozen=True, forbid_unknown_fields=True):
    text: str
    rationale: str = ""


class SubmitPlan(Struct, frozen=True, forbid_unknown_fields=True):
    items: list[PlanEntry]
    summary: str = ""


class Finish(Struct, frozen=True, forbid_unknown_fields=True):
    reason: str


class ReportDiagnosis(Struct, frozen=True, forbid_unknown_fields=True):
    cause: str
    avoid: list[str] = []
    directions: list[str] = []


class AskUser(Struct, frozen=True, forbid_unknown_fields=True):
    message: str
    choices: list[str] = []
    default: str | None = None
    timeout: float | None = None


class ReportBlocked(Struct, frozen=True, forbid_unknown_fields=True):
    kind: BlockedKind
    reason: str


class SearchKnowledge(Struct, frozen=True, forbid_unknown_fields=True):
    query: str
    dsl: str = ""
    backend: str = ""


class ReadFile(Struct, frozen=True, forbid_unknown_fields=True):
    file_path: str
    offset: int = 1
    limit: int = 500


class WriteFile(Struct, frozen=True, forbid_unknown_fields=True):
    content: str
    file_path: str = ""
    op_name: str = ""
    file_type: str = "txt"
    encoding: str = "utf-8"
    overwrite: bool = True


class CheckFile(Struct, frozen=True, forbid_unknown_fields=True):
    file_path: str


class ExecuteScript(Struct, frozen=True, forbid_unknown_fields=True):
    script_path: str
    args: list[str] = []
    stdin_input: str = ""
    timeout: int = 300
    working_dir: str = "notes"


class VerifyKernel(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    task_code: str
    generated_code: str
    op_name: str
    task_id: str = "default_task"
    device_id: int = 0
    timeout: int = 300
    cur_path: str = ""
    framework: str = "torch"
    backend: str = "cuda"
    arch: str = "a100"
    dsl: str = "triton"


class ProfileKernel(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    task_code: str
    generated_code: str
    op_name: str
    task_id: str = "default_task"
    device_id: int = 0
    run_times: int = 50
    warmup_times: int = 5
    cur_path: str = ""
    framework: str = "torch"
    backend: str = "cuda"
    arch: str = "a100"
    dsl: str = "triton"


ARGUMENTS: dict[str, type[Struct]] = {
    "ask_user": AskUser,
    "check_markdown": CheckFile,
    "check_python_code": CheckFile,
    "edit_kernel": EditKernel,
    "execute_script": ExecuteScript,
    "finish": Finish,
    "profile_kernel": ProfileKernel,
    "read_file": ReadFile,
    "read_kernel": ReadKernel,
    "report_blocked": ReportBlocked,
    "report_diagnosis": ReportDiagnosis,
    "search_knowledge": SearchKnowledge,
    "submit_plan": SubmitPlan,
    "verify_kernel": VerifyKernel,
    "write_file": WriteFile,
}
