"""Modules whose inputs are groups: `get_input_groups()` of MultiKernelBench, AKG's dynamic lists.

The cases lie beside the module, one a line (`.json`, `.jsonl`, `.csv`), or in the function itself.
The reference is the module with one case, which it writes beside itself where the module reads it.
"""

from __future__ import annotations

import ast
import json
import tomllib
from pathlib import Path

from akg_tui.problems.case_lists import GROUP, groups
from akg_tui.problems.kernelbench import op_of
from akg_tui.problems.module_text import bound_by, used_by, without
from akg_tui.problems.problem import Problem
from akg_tui.store.errors import BadTask
from akg_tui.store.filesystem import is_file
from akg_tui.store.task_folder import check_reference, file_text, parse_python

FUNCTIONS = ("get_input_groups", "get_inputs_dyn_list")
SUFFIXES = (".json", ".jsonl", ".csv")

_TEXTS: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def groups_function(module: ast.Module) -> str:
    """Return the function of a module that gives groups of inputs, or ""."""
    names = {name for statement in module.body for name in bound_by(statement)}
    return next((each for each in FUNCTIONS if each in names), "")


def read(path: Path, label: str = "MultiKernelBench") -> Problem:
    """Return the problem in a module with groups of inputs. Raises `BadTask`."""
    text = file_text(path)
    module = parse_python(path, text.encode())
    function = groups_function(module)
    if not function:
        message = "is missing, expected def get_input_groups() that returns a list of inputs"
        raise BadTask(path, 1, FUNCTIONS[0], message)
    beside = _cases_beside(path, module)
    changed = [f"get_inputs() was added: the group of {function}() with the number {GROUP}"]
    kept_out: list[str] = []
    if beside is None:
        added = _TEXTS["one_case"].format(function=function)
        count = _listed(module, function)
        if not count:
            kept_out.append(f"how many groups {function}() gives is not known: one is tuned")
        elif branches := _branches(module, function):
            added = _TEXTS["one_by_one"].format(function=function, branches=branches)
            text = without(text, lambda each: getattr(each, "name", "") == function)
            changed = [f"get_inputs() took the place of {function}(): it draws only group {GROUP}"]
    else:
        head, lines = _cases_in(beside)
        listed = "".join(f"    {line!r},\n" for line in lines)
        added = _TEXTS["with_file"].format(
            function=function, name=beside.name, head=head, listed=listed
        )
        changed.append(f"the cases of {beside.name} were copied into the reference")
        count = len(lines)
    cases, told = groups(count)
    kept_out += told
    if not any("get_init_inputs" in bound_by(statement) for statement in module.body):
        added += "\n\ndef get_init_inputs():\n    return []\n"
        changed.append("get_init_inputs() was added: the module has none")
    reference = text.rstrip("\n") + "\n" + added
    check_reference(path, reference.encode())
    return Problem(
        format=label,
        origin=path,
        op=op_of(path.stem),
        reference=reference,
        filename=path.name,
        changed=tuple(changed),
        kept_out=tuple(kept_out),
        cases=cases,
    )


def _cases_beside(path: Path, module: ast.Module) -> Path | None:
    """Return the file of cases: the one that the module names, or one with the module's name."""
    for node in ast.walk(module):
        match node:
            case ast.Constant(value=str() as name) if name.endswith(SUFFIXES):
                if "/" in name or name in SUFFIXES:
                    continue
                if not is_file(found := path.with_name(name)):
                    raise BadTask(path, node.lineno, "", f"reads {name}, which is not beside it")
                return found
    beside = (path.with_suffix(suffix) for suffix in SUFFIXES)
    return next((each for each in beside if is_file(each)), None)


def _listed(module: ast.Module, function: str) -> int:
    """Return how many groups a function returns as a list in its text; 0 if it does not."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            returned = [each.value for each in ast.walk(node) if isinstance(each, ast.Return)]
            if len(returned) == 1 and isinstance(returned[0], ast.List):
                starred = any(isinstance(each, ast.Starred) for each in returned[0].elts)
                return 0 if starred else len(returned[0].elts)
    return 0


def _branches(module: ast.Module, function: str) -> str:
    """Return code that makes only the group `INPUT_GROUP` of those that a function lists, or "".

    Of a function that only binds names before it returns its list, each group gets the statements
    that it needs: all groups together may not fit into memory.
    """
    found = next(s for s in module.body if isinstance(s, ast.FunctionDef) and s.name == function)
    called_elsewhere = any(function in used_by(s) for s in module.body if s is not found)
    *bindings, last = [s for s in found.body if not _is_text(s)]
    if called_elsewhere or not isinstance(last, ast.Return) or not isinstance(last.value, ast.List):
        return ""
    if not all(_only_binds(statement) for statement in bindings):
        return ""
    code = ""
    for number, group in enumerate(last.value.elts):
        values = ast.unparse(group)
        returned = values if isinstance(group, ast.List) else f"list({values})"
        names, needed = used_by(group), [f"return {returned}"]
        for statement in reversed(bindings):
            if bound_by(statement) & names:
                names |= used_by(statement)
                needed.insert(0, ast.unparse(statement))
        lines = "\n".join(needed).splitlines()
        code += f"    if INPUT_GROUP == {number}:\n"
        code += "".join(f"        {line}\n" for line in lines)
    return code


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _only_binds(statement: ast.stmt) -> bool:
    """Return whether a statement binds names to values and, at a glance, changes no other value."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return False
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    names = [name for each in targets for name in getattr(each, "elts", [each])]
    return all(isinstance(name, ast.Name) for name in names)


def _cases_in(path: Path) -> tuple[str, list[str]]:
    """Return the head of a file of cases, and a line of text for each case."""
    lines = [line for line in file_text(path).splitlines() if line.strip()]
    header = 1 if path.suffix == ".csv" else 0
    if len(lines) <= header:
        raise BadTask(path, 1, "", "has no case, expected one a line")
    if path.suffix != ".csv":
        try:
            for line in lines:
                json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadTask(path, 1, "", f"is not one JSON object a line: {error}") from None
    return "".join(f"{line}\n" for line in lines[:header]), lines[header:]
