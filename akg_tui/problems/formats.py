"""The formats of public task sets: recognised by content, or named."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from akg_tui.problems import (
    agent_kernel_arena,
    ai_bench,
    akg_tasks,
    decks,
    gpu_mode,
    input_groups,
    kernelbench,
    npukernelbench,
    robust_kbench,
    tested_functions,
    trace_definitions,
)
from akg_tui.problems.json_files import read_object, read_yaml
from akg_tui.problems.module_text import bound_by, exchanging
from akg_tui.problems.problem import Problem
from akg_tui.store.errors import BadTask
from akg_tui.store.filesystem import is_file, unseen
from akg_tui.store.task_folder import file_text, parse_python

Reader = Callable[[Path], Problem]

READERS: dict[str, Reader] = {
    "kernelbench": kernelbench.read,
    "multikernelbench": input_groups.read,
    "npukernelbench": npukernelbench.read,
    "robust-kbench": robust_kbench.read,
    "flashinfer": partial(trace_definitions.read, label="FlashInfer Trace"),
    "sol-execbench": partial(trace_definitions.read, label="SOL-ExecBench"),
    "gpu-mode": gpu_mode.read,
    "ai-bench": ai_bench.read,
    "akg": akg_tasks.read,
    "kernelbench-deck": decks.read,
    "kernelbook": kernelbench.read_row,
    "tritonbench": tested_functions.read,
    "agent-kernel-arena": agent_kernel_arena.read,
}

FOLDERS = (
    ("gpu-mode", (gpu_mode.TASK,)),
    ("akg", (akg_tasks.TASK,)),
    ("sol-execbench", (trace_definitions.DEFINITION,)),
    ("robust-kbench", (robust_kbench.FORWARD,)),
    ("robust-kbench", (robust_kbench.BACKWARD,)),
    ("npukernelbench", (npukernelbench.MODULE, npukernelbench.INPUTS)),
    ("kernelbench-deck", (decks.TASK, decks.SHAPES, decks.REFERENCE)),
    ("agent-kernel-arena", (agent_kernel_arena.TASK,)),
)
"""The format of a folder by the files in it; the first match counts."""


_SUFFIXES = (".py", ".json")
_SIZES = ".yaml"


def problems_in(folder: Path) -> list[Path]:
    """Return the problems below a folder: folders of a known format, and files of Python or JSON.

    A file inside a folder of a known format belongs to that folder. Of a module with a file of
    sizes beside it (AI-bench) that file is the problem.
    """
    whole = {
        path.parent
        for _, names in FOLDERS
        for path in folder.rglob(names[0])
        if _has(path.parent, names)
    }
    files = {
        path
        for path in folder.rglob("*")
        if path.suffix in _SUFFIXES and not whole & {*path.parents} and path.name[0] not in "._"
    }
    # The cases of a module lie beside it in a file of its name.
    files = {path for path in files if path.suffix == ".py" or path.with_suffix(".py") not in files}
    sized = {path for path in files if is_file(path.with_suffix(_SIZES))}
    return sorted(whole | files - sized | {path.with_suffix(_SIZES) for path in sized})


def _has(folder: Path, names: tuple[str, ...]) -> bool:
    """Return whether a folder has the files of a format."""
    if names == (agent_kernel_arena.TASK,):  # others have files of this name too
        return agent_kernel_arena.is_task(folder)
    return all(is_file(folder / name) for name in names)


def is_problem(folder: Path) -> bool:
    """Return whether the files in a folder make it a problem of a known format."""
    return any(_has(folder, names) for _, names in FOLDERS) or bool(
        npukernelbench.folder_of(folder)
    )


def read_problem(path: Path, format_name: str = "") -> Problem:
    """Return the problem at `path`, a file or a folder, in a named format or the one found.

    Raises
    ------
    BadTask
        If nothing there can be read so; the message names file and line.
    """
    if why := unseen(path):
        raise BadTask(path, None, "", f"cannot be looked at: {why}")
    if not path.exists():
        raise BadTask(path, None, "", "does not exist, expected a problem's file or folder")
    try:
        _refuse_distributed(path)
        return READERS[format_name or _format_of(path)](path)
    except RecursionError:
        line = None if path.is_dir() else 1
        raise BadTask(path, line, "", "has an expression that is nested too deeply") from None


def _refuse_distributed(path: Path) -> None:
    """Refuse a reference on several devices: a judge here has one, and its processes no network."""
    reference = path / gpu_mode.REFERENCE if path.is_dir() else path
    if reference.suffix == ".py" and is_file(reference):
        module = parse_python(reference, file_text(reference).encode())
        if line := exchanging(module):
            message = "is used: the reference runs on several devices, and a task here on one"
            raise BadTask(reference, line, "torch.distributed", message)


def _format_of(path: Path) -> str:
    if path.is_dir():
        return _format_of_folder(path)
    if path.suffix == ".py":
        return _format_of_module(path)
    if path.suffix == ".json":
        plain, _ = read_object(path)
        if {"axes", "inputs", "reference"} & plain.keys():
            sol = path.name == trace_definitions.DEFINITION
            return "sol-execbench" if sol else "flashinfer"
        if kernelbench.CODE in plain:
            return "kernelbook"
        raise BadTask(path, 1, "", "has no axes, inputs and reference, as a definition has")
    if path.suffix in (".yml", ".yaml"):
        plain, _ = read_yaml(path)
        if {"tests", "benchmarks"} & plain.keys():
            return "gpu-mode"
        if path.name == decks.TASK:
            return "kernelbench-deck"
        if path.name == agent_kernel_arena.TASK and agent_kernel_arena.is_task(path.parent):
            return "agent-kernel-arena"
        return "ai-bench" if set(ai_bench.SECTIONS) & plain.keys() else "akg"
    raise BadTask(path, None, "", f"is of no known format; there are: {', '.join(READERS)}")


def _format_of_folder(path: Path) -> str:
    for name, files in FOLDERS:
        if _has(path, files):
            return name
    if npukernelbench.folder_of(path):
        return "npukernelbench"
    raise BadTask(path, None, "", f"is of no known format; there are: {', '.join(READERS)}")


def _format_of_module(path: Path) -> str:
    if path.name == npukernelbench.MODULE and npukernelbench.folder_of(path):
        return "npukernelbench"
    if path.name.startswith("func_"):
        return "robust-kbench"
    module = parse_python(path, file_text(path).encode())
    bound = {name for statement in module.body for name in bound_by(statement)}
    if "ref_kernel" in bound and is_file(path.with_name(gpu_mode.TASK)):
        return "gpu-mode"
    if "get_inputs" not in bound and input_groups.groups_function(module):
        return "multikernelbench"
    return "tritonbench" if tested_functions.is_tested(module) else "kernelbench"
