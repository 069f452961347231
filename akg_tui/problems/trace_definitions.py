"""FlashInfer Trace and SOL-ExecBench: a definition in JSON, with the reference's code inside.

A definition has axes, inputs, outputs and `reference`, the text of a module with `run(…)`. A
workload gives the axes that vary. The reference is that text with the axes as numbers at the top.
"""

from __future__ import annotations

import ast
import json
import keyword
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from akg_tui.core.sanitize import name_fault, one_line
from akg_tui.core.task import Case
from akg_tui.problems import index_inputs
from akg_tui.problems.case_lists import cases_of
from akg_tui.problems.json_files import (
    Line,
    check_version,
    positive,
    read_lines,
    read_object,
    typed,
)
from akg_tui.problems.module_text import (
    ON_THE_CPU,
    on_the_cpu,
    renamed,
    with_numbers_of_the_module,
)
from akg_tui.problems.problem import Problem
from akg_tui.store.errors import BadTask
from akg_tui.store.filesystem import is_file
from akg_tui.store.task_folder import check_reference, op_named

NEWEST = 1
DEFINITION, WORKLOAD = "definition.json", "workload.jsonl"
PARENTS = 4

SCALES = ("sm_scale", "scale")
"""Names of the factor of attention's scores, one over the root of the extent of a query's row."""

NEGATIVE = re.compile("negative (?:values|log decay)")
"""Words of a description: state space models explode with others."""

POSITIVE = re.compile(r"(^|_)(r?std|var|variance)\d*$")
"""Names of what has a square root, as SOL-ExecBench's own harness knows them."""

PROBABILITIES = re.compile(r"(^|_)prob(s|abilities)?$")
"""Names of probabilities, whose sum over the last axis is 1."""

FLOAT8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2")
FLOATS = ("float64", "float32", "float16", "bfloat16", *FLOAT8)
SCALES_OF_8_BITS = (0.05, 0.15)
"""The least and largest scale of inputs in 8 bits. Products of long rows with such scales are not
so large that an activation function is linear or constant."""

INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
PASSED = (*FLOATS, *INTEGERS, "bool")


def read(path: Path, label: str = "") -> Problem:
    """Return the problem in a definition, with its first workload. Raises `BadTask`."""
    found = path / DEFINITION if path.is_dir() else path
    plain, line = read_object(found)
    check_version(found, plain, line, NEWEST)
    name = typed(found, plain, line, "name", str)
    if why := name_fault(name):  # files beside it have this name
        raise BadTask(found, line("name"), "name", why)
    code = typed(found, plain, line, "reference", str)
    inputs = typed(found, plain, line, "inputs", dict)
    for part, specs in (("axes", typed(found, plain, line, "axes", dict)), ("inputs", inputs)):
        for each, spec in specs.items():
            if not isinstance(spec, dict):
                raise BadTask(found, line(each), f"{part}.{each}", "expected an object")
            if not isinstance(spec.get("shape"), list | None):
                message = "expected a list of axes or null"
                raise BadTask(found, line(each), f"{part}.{each}.shape", message)
    _check_run(found, code, line)
    workloads = _workloads_of(found, name)
    if workloads:
        workload, where, kept_out = _first_usable(found, plain, workloads, line)
    else:
        workload, where, kept_out = _assumed(found, plain, line)
    axes = _axes(found, plain, line, workload, where)
    custom = plain.get(index_inputs.CUSTOM)
    if code != (on_cpu := on_the_cpu(code)):
        code = on_cpu
        kept_out.append(ON_THE_CPU)
    for taken in ("get_inputs", "get_init_inputs", "Model"):
        # The reference made of it has these names.
        code = renamed(code, taken, f"definition_{taken}")
        custom = f"definition_{taken}" if custom == taken else custom
    changed = ["Model calls the definition's run(); the axes are numbers at the top"]
    if code != (of_axes := with_numbers_of_the_module(code, _alone(plain))):
        code = of_axes
        changed.append("numbers in functions that repeat the value of an axis are that axis")
    drawn = _drawn(found, plain, line, workload, axes=axes, custom=str(custom or ""))
    reference = _reference(plain, code, axes, inputs, drawn)
    check_reference(found, reference.encode())
    label = label or ("SOL-ExecBench" if found.name == DEFINITION else "FlashInfer Trace")
    tolerance = workload.get("tolerance")
    tolerance = tolerance if isinstance(tolerance, dict) else {}
    cases, told = _cases(plain, workload, workloads)
    kept_out += told
    if plain.get("constraints"):
        kept_out.append(f"constraints between axes: {one_line(json.dumps(plain['constraints']))}")
    kept_out += _told_of_draws(plain, workload, custom=bool(custom))
    return Problem(
        format=label,
        origin=found,
        op=op_named(name),
        reference=reference,
        filename="reference.py",
        changed=tuple(changed),
        kept_out=tuple(kept_out),
        cases=cases,
        tolerance=positive(tolerance.get("max_rtol")),
        absolute=positive(tolerance.get("max_atol")),
    )


def _told_of_draws(plain: dict[str, Any], workload: dict[str, Any], *, custom: bool) -> list[str]:
    """Return what to tell of inputs that are not drawn by the definition's own function."""
    given = workload.get("inputs") or {}
    usual = "custom" if custom else ""
    own = [n for n in plain["inputs"] if given.get(n, {}).get("type", usual) != "custom"]
    pointing = index_inputs.drawn(plain)
    integers = [name for name in own if plain["inputs"][name].get("dtype") in INTEGERS]
    low, high = SCALES_OF_8_BITS
    told = {
        "integer inputs are drawn from 0 to 7": [n for n in integers if n not in pointing],
        "weights are drawn divided by the root of their row's length": _matrices(plain),
        f"scales are drawn from {low} to {high}": _scales_of_8_bits(plain),
        "offsets and indices are drawn at random": pointing,
    }
    listed = {what: [name for name in names if name in own] for what, names in told.items()}
    return [f"{what}: {', '.join(names)}" for what, names in listed.items() if names]


def _check_run(path: Path, code: str, line: Line) -> None:
    at = line("reference")
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = f"not valid Python: {error}" if str(error) else "not valid Python"
        raise BadTask(path, at, "reference", why) from None
    if not any(isinstance(each, ast.FunctionDef) and each.name == "run" for each in body):
        raise BadTask(path, at, "reference", "has no function run")


def _parameters_of_run(code: str) -> list[str]:
    for each in ast.parse(code).body:
        if isinstance(each, ast.FunctionDef) and each.name == "run":
            return [argument.arg for argument in (*each.args.posonlyargs, *each.args.args)]
    return []


def _workloads_of(path: Path, name: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the workloads of a definition, each with its place; none if no file is found."""
    beside = [path.with_name(WORKLOAD), path.with_name(f"{name}.jsonl")]
    beside += [path.with_suffix(".jsonl"), path.with_name(f"{name}.workload.jsonl")]
    for above in list(path.absolute().parents)[1:PARENTS]:
        if (folder := above / "workloads").is_dir():
            beside += sorted(folder.rglob(f"{name}.jsonl"))
    found = next((each for each in beside if is_file(each)), None)
    if found is None:
        return []
    # A workload may be wrapped in a trace.
    lines = [(number, plain.get("workload", plain)) for number, plain in read_lines(found)]
    for number, workload in lines:
        if not isinstance(workload, dict) or not isinstance(workload.get("axes"), dict):
            raise BadTask(found, number, "axes", "is missing, expected the values of the axes")
    return [(f"{found.name}:{number}", workload) for number, workload in lines]


def _first_usable(
    path: Path, plain: dict[str, Any], workloads: list[tuple[str, dict[str, Any]]], line: Line
) -> tuple[dict[str, Any], str, list[str]]:
    """Return the first workload whose inputs can be drawn, its place, and what is left out."""
    inputs, extents = plain["inputs"], _extents(plain)
    known = index_inputs.drawn(plain)
    unusable: str | None = None
    empty: str | None = None
    for where, workload in workloads:
        stored = []
        given = workload.get("inputs") or {}
        for name, source in given.items():
            kind = source.get("type") if isinstance(source, dict) else None
            if kind not in ("random", "scalar", "custom", "safetensors"):
                message = f"{where}: source {json.dumps(kind)} is not known to this reader"
                raise BadTask(path, line(name), f"inputs.{name}", message)
            if kind == "safetensors":
                stored.append(name)
        zero = next((n for n, size in workload["axes"].items() if size == 0 and n in extents), "")
        integers = (
            n for n in stored if n not in known and inputs.get(n, {}).get("dtype") not in FLOATS
        )
        if zero:
            empty = empty or zero
        elif integer := next(integers, ""):
            unusable = unusable or integer
        else:
            told = ", ".join(name for name in stored if name not in known)
            return workload, where, [f"stored inputs are drawn instead: {told}"] if told else []
    if unusable:
        message = "is stored in a file (safetensors) in every workload, and can't be drawn"
        raise BadTask(path, line(unusable), f"inputs.{unusable}", f"{message} at random")
    message = "is 0 in every workload, expected at least 1"
    raise BadTask(path, line(empty or ""), f"axes.{empty}", message)


def _assumed(
    path: Path, plain: dict[str, Any], line: Line
) -> tuple[dict[str, Any], str, list[str]]:
    """Return a workload for a definition that comes without, as `_first_usable` does."""
    known = index_inputs.drawn(plain)
    for name, spec in plain["inputs"].items():
        if spec.get("dtype") in INTEGERS and name not in known:
            message = "has integers, and there is no workload that says how they are drawn"
            raise BadTask(path, line(name), f"inputs.{name}", message)
    varying = [n for n, axis in plain["axes"].items() if axis.get("type") == "var"]
    extents = {name: index_inputs.assumed_extent(plain, name) for name in varying}
    scales = {n: found for n, each in plain["inputs"].items() if (found := _scale(plain, n, each))}
    listed = [f"{name} = {each:.4g}" for name, each in {**extents, **scales}.items()]
    told = f"there is no workload beside it: {', '.join(listed)} is assumed, --sizes changes axes"
    given = {name: {"type": "scalar", "value": scale} for name, scale in scales.items()}
    return {"axes": extents, "inputs": given}, path.name, [told] if listed else []


def _scale(plain: dict[str, Any], name: str, spec: dict[str, Any]) -> float | None:
    """Return the scale of attention's scores that is usual, None for any other input."""
    if name not in SCALES or spec.get("shape") is not None:
        return None
    rows = (s.get("shape") for n, s in plain["inputs"].items() if n == "q" or n.startswith("q_"))
    extents = [plain["axes"].get(str(shape[-1]), {}).get("value") for shape in rows if shape]
    found = next((each for each in extents if isinstance(each, int) and each > 0), None)
    return found and found**-0.5


def _extents(plain: dict[str, Any]) -> set[str]:
    """Return the axes that are the extent of an input or a result."""
    parts = [plain.get("inputs"), plain.get("outputs")]
    specs = [spec for part in parts if isinstance(part, dict) for spec in part.values()]
    return {
        str(each) for spec in specs if isinstance(spec, dict) for each in spec.get("shape") or ()
    }


def _alone(plain: dict[str, Any]) -> dict[int, str]:
    """Return the constant axes by value, without values that several of them have."""
    values = {n: axis.get("value") for n, axis in plain["axes"].items() if axis["type"] == "const"}
    counts = Counter(values.values())
    return {v: n for n, v in values.items() if isinstance(v, int) and counts[v] == 1}


def _cases(
    plain: dict[str, Any], used: dict[str, Any], workloads: list[tuple[str, dict[str, Any]]]
) -> tuple[tuple[Case, ...], tuple[str, ...]]:
    """Return the workloads as cases that differ from the one in use in their axes alone."""

    def drawn_like(workload: dict[str, Any]) -> object:
        return {
            name: each.get("value") if isinstance(each, dict) else each
            for name, each in (workload.get("inputs") or {}).items()
        }

    varying = [name for name, axis in plain["axes"].items() if axis.get("type") == "var"]
    listed = [
        {name: workload["axes"][name] for name in varying}
        for _, workload in workloads
        if drawn_like(workload) == drawn_like(used)
        and all(_is_extent(workload["axes"].get(name)) for name in varying)
    ]
    cases, told = cases_of(listed)
    others = len(workloads) - len(listed)
    unlike = f"{others} workloads with other scalars, or with an axis of 0"
    return cases, (*told, *([unlike] if others else []))


def _is_extent(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _axes(
    path: Path, plain: dict[str, Any], line: Line, workload: dict[str, Any], where: str
) -> dict[str, str]:
    """Return every axis with the text of its value."""
    found: dict[str, str] = {}
    later: dict[str, str] = {}
    extents = _extents(plain)
    derived = index_inputs.derived_axes(plain)
    for name, axis in typed(path, plain, line, "axes", dict).items():
        if not name.isidentifier() or keyword.iskeyword(name):
            raise BadTask(path, line("axes"), "axes", f"{name!r} can't be the name of a number")
        kind = axis.get("type") if isinstance(axis, dict) else None
        field = f"axes.{name}"
        if kind == "expr":
            later[name] = one_line(str(axis.get("expression")))
            continue
        if kind == "var" and name in derived:
            later[name] = derived[name]
            continue
        if kind not in ("const", "var"):
            message = f"type {json.dumps(kind)} is not known to this reader"
            raise BadTask(path, line(name), field, message)
        value = axis.get("value") if kind == "const" else workload["axes"].get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            message = f"has no value: {where} has no workload with it"
            raise BadTask(path, line(name), field, message)
        least = 1 if name in extents else 0  # an axis that no tensor has is a setting
        if value < least:
            raise BadTask(path, line(name), field, f"is {value}, expected at least {least}")
        found[name] = repr(value)
    return found | later


def _drawn(
    path: Path,
    plain: dict[str, Any],
    line: Line,
    workload: dict[str, Any],
    *,
    axes: Mapping[str, str],
    custom: str,
) -> str:
    """Return the body of a function that draws the inputs as the workload says.

    `custom` is the definition's own function for inputs that it draws itself, or "".
    """
    given = workload.get("inputs") or {}
    known, parts = index_inputs.drawn(plain), []
    scales, matrices = _scales_of_8_bits(plain), _matrices(plain)
    for name, spec in plain["inputs"].items():
        shape, dtype, source = spec.get("shape"), spec.get("dtype"), given.get(name, {})
        undefined = [e for e in map(str, shape or ()) if e not in axes and not e.isdigit()]
        why = ""
        if shape is not None and dtype not in PASSED:
            why = f"dtype {dtype} can't be passed to a kernel in this version"
        elif custom and source.get("type", "custom") == "custom":
            parts.append(f"custom[{json.dumps(name)}]")
        elif shape is None:
            value = source.get("value")
            why = "" if isinstance(value, int | float) else "is a number that no workload gives"
            parts.append(repr(value))
        elif undefined:
            why = f"has an axis that is not defined: {undefined[0]}"
        elif name in known:
            parts.append(known[name])
        else:
            parts.append(_tensor(name, spec, scaled=name in scales, added=matrices.get(name, "")))
        if why:
            raise BadTask(path, line(name), f"inputs.{name}", why)
    body = "    return [\n" + "".join(f"        {part},\n" for part in parts) + "    ]"
    if not custom:
        return index_inputs.preparation(plain) + body
    passed = {name: name for name in axes}
    stated = {name: value for name, value in workload["axes"].items() if name not in axes}
    stated |= {name: each["value"] for name, each in given.items() if "value" in each}
    passed |= {n: repr(value) for n, value in stated.items() if isinstance(value, int | float)}
    values = ", ".join(f"{json.dumps(name)}: {value}" for name, value in passed.items())
    return f'    custom = {custom}({{{values}}}, torch.device("cpu"))\n{body}'


def _tensor(name: str, spec: dict[str, Any], *, scaled: bool, added: str) -> str:
    """Return the code that draws a tensor.

    `scaled`: it is a scale of numbers in 8 bits. `added`: the products with a matrix of weights
    that one result adds, or "".
    """
    dtype, extents = spec["dtype"], [str(each) for each in spec["shape"]]
    size = f"({', '.join(extents)}{',' if len(extents) == 1 else ''})"
    if dtype in FLOAT8:
        return f"torch.randn({size}).to(torch.{dtype})"
    if scaled:
        low, high = SCALES_OF_8_BITS
        return f"{low} + {high - low:g} * torch.rand({size}, dtype=torch.{dtype})"
    if dtype in FLOATS:
        drawn = f"torch.randn({size}, dtype=torch.{dtype})"
        if added:
            return f"{drawn} / ({added}) ** 0.5"
        if POSITIVE.search(name):
            return f"{drawn}.abs() + 0.1"
        if PROBABILITIES.search(name):
            return f"torch.softmax({drawn}, -1)"
        return f"-{drawn}.abs()" if NEGATIVE.search(str(spec.get("description"))) else drawn
    if dtype in INTEGERS:
        return f"torch.randint(0, 8, {size}, dtype=torch.{dtype})"
    return f"torch.rand({size}) < 0.5"


def _matrices(plain: dict[str, Any]) -> dict[str, str]:
    """Return the matrices of weights, each with the count of products that one result adds.

    Weights are divided by its root, as layers are initialised. Otherwise the numbers after several
    layers are so large that a bias or a softmax does not matter. A tensor with an axis that varies,
    such as the routing weights of tokens, is not counted as a matrix of weights.
    """
    varying = {name for name, axis in plain["axes"].items() if axis.get("type") == "var"}
    found = {}
    for name, spec in plain["inputs"].items():
        shape = [str(each) for each in spec.get("shape") or ()]
        if "weight" in name and len(shape) > 1 and not varying & set(shape):
            found[name] = " * ".join(shape[1:] if len(shape) > 3 else shape[-1:])
    return found


def _scales_of_8_bits(plain: dict[str, Any]) -> list[str]:
    """Return the inputs that are scales of others in 8 bits, by their names."""
    inputs = plain["inputs"]
    if not any(spec.get("dtype") in FLOAT8 for spec in inputs.values()):
        return []
    wide = (n for n, s in inputs.items() if s.get("dtype") in FLOATS and s.get("shape") is not None)
    return [name for name in wide if "scale" in name and inputs[name]["dtype"] not in FLOAT8]


def _reference(
    plain: dict[str, Any],
    code: str,
    axes: Mapping[str, str],
    inputs: dict[str, Any],
    drawn: str,
) -> str:
    about = one_line(str(plain.get("description") or plain["name"]), 80).replace('"', "'")
    names = ", ".join(name for name in inputs if name.isidentifier())
    parameters = _parameters_of_run(code)
    # Some definitions list their inputs in another order: the names decide.
    passed = ", ".join(parameters) if set(parameters) == set(inputs) else names
    sizes = "".join(f"{name} = {value}\n" for name, value in axes.items())
    future = "from __future__ import annotations"
    code = "\n".join(line for line in code.strip().splitlines() if line.strip() != future)
    imports = "import torch"
    if index_inputs.totals(plain):
        imports, code = "import random\n\nimport torch", code + index_inputs.HELPER
    return f'''"""{about.replace(chr(92), "/")}"""

{imports}

{sizes}
{code}


class Model(torch.nn.Module):
    def forward(self, {names}):
        return run({passed})


def get_inputs():
{drawn}


def get_init_inputs():
    return []
'''
