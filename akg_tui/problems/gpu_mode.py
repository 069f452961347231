"""GPU MODE: a folder with `task.yml` and `reference.py`, which has `ref_kernel(data)`.

A benchmark of `task.yml` gives the arguments of `generate_input`. They become numbers at the top
level of the reference, a seed is drawn anew at every call, and tensors are on the CPU.
"""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

from akg_tui.problems.case_lists import numeric_cases
from akg_tui.problems.json_files import Line, check_version, positive, read_yaml
from akg_tui.problems.kernelbench import op_of
from akg_tui.problems.module_text import ON_THE_CPU, bound_by, on_the_cpu, without
from akg_tui.problems.problem import Problem
from akg_tui.store.errors import BadTask
from akg_tui.store.filesystem import is_file
from akg_tui.store.task_folder import check_reference, file_text, parse_python

TASK, REFERENCE = "task.yml", "reference.py"
NEWEST = 1
THEIRS = ("task", "utils")
"""Modules of the set's own harness."""

SEEDS = 10_000

COMPARISONS = {"make_match_reference", "match_reference", "verbose_allclose", "verbose_allequal"}
"""Functions of the harness that compare results element by element."""

OWN_CHECK = "check_implementation"
"""A problem's check of results: made of these functions, or one of its own."""

CONTEXTS = {"DeterministicContext", "DisableCuDNNTF32"}
"""Context managers of the harness that set how a GPU computes."""

_TEXTS: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def read(path: Path) -> Problem:
    """Return the problem in a folder, with its first benchmark. Raises `BadTask`."""
    folder = path if path.is_dir() else path.parent
    task_path, reference_path = folder / TASK, folder / REFERENCE
    for needed in (task_path, reference_path):
        if not is_file(needed):
            raise BadTask(folder, None, "", f"has no {needed.name}, which GPU MODE's format needs")
    plain, line = read_yaml(task_path)
    check_version(task_path, plain, line, NEWEST)
    listed, where, kept_out = _listed(task_path, plain, line)
    text = file_text(reference_path)
    module = parse_python(reference_path, text.encode())
    bound = {name for statement in module.body for name in bound_by(statement)}
    for name in ("ref_kernel", "generate_input"):
        if not any(isinstance(s, ast.FunctionDef) and s.name == name for s in module.body):
            raise BadTask(reference_path, 1, name, "is missing, expected a function")
    stated = _tolerances(module)
    has_check = _has_own_check(module)
    text = _on_its_own(reference_path, module, text)
    if text != (on_cpu := on_the_cpu(text)):
        kept_out.append(ON_THE_CPU)
    copies = "".join(_TEXTS["copy"].format(place=place) for place in _written(module))
    names, sizes, arguments = _arguments(task_path, listed[0], bound, line)
    cases, told = numeric_cases(
        [{names.get(key, key): each[key] for key in each if key != "seed"} for each in listed]
    )
    kept_out += told
    reference = on_cpu.rstrip("\n") + "\n" + _TEXTS["model"].format(
        where=where, sizes=sizes, arguments=arguments, copies=copies
    )  # fmt: skip
    if has_check:
        reference += _TEXTS["check"]
    elif any(isinstance(each, ast.FunctionDef) and _checks(each) for each in module.body):
        kept_out.append(f"{OWN_CHECK}, which compares element by element: the judge does so too")
    check_reference(reference_path, reference.encode())
    if plain.get("ranking_by"):
        kept_out.append(f"ranking_by: {plain['ranking_by']}")
    return Problem(
        format="GPU MODE",
        origin=folder,
        op=op_of(folder.resolve().name),
        reference=reference,
        filename=REFERENCE,
        changed=(
            "the harness's imports were replaced, and Model calls ref_kernel(data)",
            "a seed is drawn at every call instead of the one in task.yml",
        ),
        kept_out=tuple(kept_out),
        cases=cases,
        tolerance=stated.get("rtol"),
        absolute=stated.get("atol"),
        check=f"{REFERENCE}:check" if has_check else "",
    )


def _listed(
    path: Path, plain: dict[str, Any], line: Line
) -> tuple[list[dict[str, Any]], str, list[str]]:
    """Return the benchmarks, or else the tests."""
    for key in ("benchmarks", "tests"):
        listed = plain.get(key)
        if listed:
            if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
                raise BadTask(path, line(key), key, "expected a list of arguments by name")
            tests = len(plain.get("tests") or []) if key == "benchmarks" else 0
            told = [f"{tests} tests: the benchmarks are the cases"] if tests else []
            return listed, f"the first of {key}", told
    raise BadTask(path, 1, "benchmarks", "is missing, expected the arguments of generate_input")


def _has_own_check(module: ast.Module) -> bool:
    """Return whether a problem checks results itself: by none of the harness's comparisons."""
    return any(OWN_CHECK in bound_by(each) and not _compares(each) for each in module.body)


def _compares(statement: ast.stmt) -> bool:
    return any(isinstance(n, ast.Name) and n.id in COMPARISONS for n in ast.walk(statement))


def _tolerances(module: ast.Module) -> dict[str, float]:
    """Return the tolerances (`rtol`, `atol`) that the file gives to a comparison of the harness."""
    found: dict[str, float] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in COMPARISONS:
            for each in node.keywords:
                given = each.value.value if isinstance(each.value, ast.Constant) else None
                if each.arg in ("rtol", "atol") and (known := positive(given)) is not None:
                    found.setdefault(each.arg, known)
    return found


def _written(module: ast.Module) -> list[int]:
    """Return the places in `data` of the values to which `ref_kernel` writes, where it shows."""
    kernel, places = _unpacked(module)
    changed: set[str] = set()
    for node in ast.walk(kernel):
        match node:
            case ast.AugAssign(target=ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name))):
                changed.add(name)
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()):
                changed.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)):
                if attr.endswith("_") and not attr.startswith("_"):
                    changed.add(name)
            case ast.keyword(arg="out", value=ast.Name(id=name)):
                changed.add(name)
    return sorted(places[name] for name in changed & places.keys())


def _unpacked(module: ast.Module) -> tuple[ast.FunctionDef, dict[str, int]]:
    """Return `ref_kernel`, and the places in its parameter of the names it unpacks that to."""
    kernel = next(
        s for s in module.body if isinstance(s, ast.FunctionDef) and s.name == "ref_kernel"
    )
    parameter = kernel.args.args[0].arg if kernel.args.args else ""
    for node in ast.walk(kernel):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Name(id=name)):
                if name == parameter:
                    found = {n.id: i for i, n in enumerate(names) if isinstance(n, ast.Name)}
                    return kernel, found
    return kernel, {parameter: 0}


def _on_its_own(path: Path, module: ast.Module, text: str) -> str:
    """Return the text without what it imports from the harness and without its checks."""
    has_torch = any("torch" in bound_by(statement) for statement in module.body)
    added = ["import random", *([] if has_torch else ["import torch"])]
    dropped: set[int] = set()
    for statement in module.body:
        if isinstance(statement, ast.ImportFrom) and statement.module in THEIRS:
            dropped.add(statement.lineno)
            for alias in statement.names:
                name = alias.asname or alias.name
                if statement.module == "task":
                    added.append(f"{name} = object  # a type of the harness")
                elif alias.name in CONTEXTS:
                    added.append(f"from contextlib import nullcontext as {name}")
                elif alias.name not in COMPARISONS:
                    message = f"is imported from {statement.module}, which is not part of a task"
                    raise BadTask(path, statement.lineno, name, message)
        elif _checks(statement):
            dropped.add(statement.lineno)
    kept = without(text, lambda statement: statement.lineno in dropped)
    head = [each for each in kept.splitlines() if each.startswith("from __future__")]
    body = [each for each in kept.splitlines() if not each.startswith("from __future__")]
    return "\n".join([*head, *added, *body]) + "\n"


def _checks(statement: ast.stmt) -> bool:
    """Return whether a statement is, or makes, a comparison of results by the harness."""
    compares = isinstance(statement, ast.Assign | ast.Expr) or OWN_CHECK in bound_by(statement)
    return compares and _compares(statement)


def _arguments(
    path: Path, case: dict[str, Any], bound: set[str], line: Line
) -> tuple[dict[str, str], str, str]:  # fmt: skip
    """Return the names at the top level, their text, and the arguments of `generate_input`."""
    sizes, arguments = [], []
    names: dict[str, str] = {}
    for key, value in case.items():
        if not str(key).isidentifier() or not isinstance(value, int | float | str | bool | list):
            raise BadTask(path, line(str(key)), str(key), "expected a number, a text or a list")
        if key == "seed":
            # Not torch's generator, whose numbers fake tensors do not have; and of the size that
            # the set's own seeds have, for some problems add them to their values.
            arguments.append(f"seed=random.randrange({SEEDS})")
            continue
        name = str(key).upper()
        while name in bound:
            name += "_"
        names[key] = name
        sizes.append(f"{name} = {value!r}")
        arguments.append(f"{key}={name}")
    return names, "\n".join(sizes) + ("\n" if sizes else ""), ", ".join(arguments)
