"""A user's functions as tools: a Python file that task.toml names, read here and run elsewhere.

The file is parsed, never imported: type hints become the schema, the docstring the description. A
call runs in a confined process of its own, with bounds on time, memory and output.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from akg_tui.agent.tools import BadTools
from akg_tui.agent.tools.declaration import Tool, ToolContext, Tools, fault_in, object_schema
from akg_tui.agent.tools.file_access import NOTES
from akg_tui.agent.tools.processes import note, run_process
from akg_tui.agent.tools.run_access import Answer
from akg_tui.core.phases import AGENT_PHASES
from akg_tui.store.filesystem import make_folder

TIME_S = 120.0
MEMORY_GB = 4.0
MAX_ANSWER = 200_000  # characters; one of them takes at most 6 bytes of JSON

_RUN = """
import importlib.util, json, os, sys, traceback
path, name, most = sys.argv[1], sys.argv[2], int(sys.argv[3])
answer = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what a function prints is no answer
try:
    given = json.load(sys.stdin)
    spec = importlib.util.spec_from_file_location("functions_of_the_task", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    value = getattr(module, name)(**given)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    told = {"answer": text[:most] + (f"\\n(cut: {len(text) - most} more)" if text[most:] else "")}
except BaseException as error:
    frames = traceback.extract_tb(error.__traceback__)
    lines = [each.lineno for each in frames if each.filename == path]
    line = lines[-1] if lines else getattr(error, "lineno", None) or 1
    told = {"line": line, "error": f"{type(error).__name__}: {error}"[:2000]}
    traceback.print_exc()
json.dump(told, answer)
answer.close()
"""


def merged_functions(known: Tools, path: Path, text: str) -> Tools:
    """Return `known` with the public functions of a file as tools. Raises `BadTools`."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None) or 1
        raise BadTools(path, line, "", f"not valid Python: {error}") from None
    found = dict(known)
    for each in body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name[0] != "_":
            if each.name in found:
                what = "is a tool already; give the function another name"
                raise BadTools(path, each.lineno, each.name, what)
            found[each.name] = _Reader(path, each).tool()
    if len(found) == len(known):
        raise BadTools(path, 1, "", "has no function without a leading underscore")
    return found


class _Reader:
    """Reads one function; its faults name the file, the line and the argument."""

    def __init__(self, path: Path, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._path = path
        self._function = function

    def _bad(self, node: ast.AST, what: str, argument: str = "") -> BadTools:
        field = f"{self._function.name}.{argument}" if argument else self._function.name
        return BadTools(self._path, getattr(node, "lineno", self._function.lineno), field, what)

    def tool(self) -> Tool:
        function = self._function
        told = ast.get_docstring(function)
        if isinstance(function, ast.AsyncFunctionDef):
            raise self._bad(function, "is async, expected a plain function")
        if not told:
            raise self._bad(function, "lacks a docstring, which tells the agent what it does")
        given = function.args
        for each in (given.vararg, given.kwarg, *given.posonlyargs):
            if each is not None:
                raise self._bad(each, "expected arguments that are given by name", each.arg)
        by_place = [None] * (len(given.args) - len(given.defaults)) + list(given.defaults)
        pairs = [*zip(given.args, by_place, strict=True)]
        pairs += [*zip(given.kwonlyargs, given.kw_defaults, strict=True)]
        schemas = {argument.arg: self._schema(argument, default) for argument, default in pairs}
        return Tool(
            name=function.name,
            kind="basic_tool",
            description=" ".join(told.split()),
            parameters=object_schema(schemas, [a.arg for a, default in pairs if default is None]),
            run=_runner(self._path, function.name),
            phases=frozenset(AGENT_PHASES),
        )

    def _schema(self, argument: ast.arg, default: ast.expr | None) -> dict[str, Any]:
        name = argument.arg
        if argument.annotation is None:
            raise self._bad(argument, "has no type", name)
        schema = self._of_type(argument.annotation, name)
        if default is None:
            return schema
        try:
            value = ast.literal_eval(default)
        except (ValueError, TypeError, SyntaxError):
            raise self._bad(default, "its default is no plain value", name) from None
        if value is None:
            return schema
        value = list(value) if isinstance(value, tuple) else value
        if fault := fault_in(value, schema):
            raise self._bad(default, f"its default{fault}", name)
        return {**schema, "default": value}

    def _of_type(self, hint: ast.expr, name: str) -> dict[str, Any]:
        match hint:
            case ast.Constant(value=str(text)):  # a type in quotes
                try:
                    return self._of_type(ast.parse(text, mode="eval").body, name)
                except SyntaxError:
                    pass
            case ast.Name(id=plain) if plain in _TYPES:
                return {"type": _TYPES[plain]}
            case ast.BinOp(left=inner, op=ast.BitOr(), right=ast.Constant(value=None)):
                return self._of_type(inner, name)
            case ast.Subscript(value=ast.Name(id="list"), slice=inner):
                return {"type": "array", "items": self._of_type(inner, name)}
            case ast.Subscript(value=ast.Name(id="dict")):
                return {"type": "object"}
            case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
                words = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                texts = [each.value for each in words if isinstance(each, ast.Constant)]
                if len(texts) == len(words) and all(isinstance(each, str) for each in texts):
                    return {"type": "string", "enum": texts}
            case ast.Subscript(
                value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[inner, about])
            ):
                if isinstance(about, ast.Constant) and isinstance(about.value, str):
                    return {**self._of_type(inner, name), "description": about.value}
        types = "str, int, float, bool, list[…], dict, Literal of texts, one of them | None"
        raise self._bad(
            hint, f"the type {ast.unparse(hint)} is none that a tool takes: {types}", name
        )


_TYPES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
}


def _runner(path: Path, name: str) -> Callable[[ToolContext, dict[str, Any]], Awaitable[Answer]]:
    async def run(call: ToolContext, given: dict[str, Any]) -> Answer:
        return await _call(Path(call.run.path), path, name, given)

    return run


def _command(run: Path, path: Path, name: str) -> list[str]:
    """Return the command that calls a function; it may read task/ and work/, and write notes/.

    Raises `OSError` if notes/ cannot be made.
    """
    from akg_tui.evaluate.sandbox import run_confined

    file = path.absolute()
    words = (sys.executable, "-P", "-B", "-c", _RUN, str(file), name, str(MAX_ANSWER))
    readable = (file.parent, (run / "work").absolute())
    folder = (run / NOTES).absolute()
    make_folder(run, NOTES)  # nobody may have written a note yet
    return run_confined.command(*words, folder=folder, readable=readable, memory_gb=MEMORY_GB)


async def _call(run: Path, path: Path, name: str, given: dict[str, Any]) -> Answer:
    from akg_tui.evaluate.targets.cpu import base_environment

    notes = run / NOTES
    try:
        done = await run_process(
            _command(run, path, name),
            folder=notes,
            environment=base_environment(),
            stdin=json.dumps(given).encode(),
            timeout_s=TIME_S,
            limit=16 * MAX_ANSWER,
        )
    except OSError as error:
        return Answer.error(f"{name} could not be started: {error.strerror}")
    note(done.stderr)
    if done.timed_out:
        return Answer.error(f"{path.name}: {name} was killed after {TIME_S:g} s")
    return _answer(path.name, name, done.stdout, done.code)


def _answer(file: str, name: str, sent: str, code: int) -> Answer:
    try:
        told = json.loads(sent)
        if "error" in told:
            return Answer.error(f"{file}:{told['line']}: {told['error']}", foreign=True)
        return Answer.success(str(told["answer"]), foreign=True)
    except (ValueError, KeyError, TypeError):
        return Answer.error(f"{file}: {name} ended with status {code} and gave no answer")
