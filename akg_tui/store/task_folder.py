"""Reads and creates task folders: task.toml, a reference, and the first kernel.

Files are read once and checked without running any code; the judge finds out whether the code
works.
"""

from __future__ import annotations

import ast
import contextlib
import json
import re
import stat
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.phases import (
    WORKFLOWS,
    BadWorkflow,
    Phase,
    StatedPhase,
    Workflow,
    user_workflow,
)
from akg_tui.core.task import Case, Task
from akg_tui.store.context_files import BadContext, Texts, find_context
from akg_tui.store.errors import BadFile, BadTask, Field
from akg_tui.store.filesystem import is_file, sync_folder, unseen, write_synced
from akg_tui.store.reference_constants import (
    UnknownConstant,
    UnknownGradient,
    check_value,
    constants,
    with_gradients,
)
from akg_tui.store.task_toml import parse_task
from akg_tui.store.user_files.reader import UserFile, toml_file, toml_line

Bound = dict[str, ast.stmt]
Check = Callable[[Path, bytes], None]
Bad = Callable[[Field, str], BadFile]


def check_reference(path: Path, source: bytes) -> None:
    """Check that a reference has class Model with forward, get_inputs and get_init_inputs.

    A name bound by an import or an assignment is accepted without a check.
    """
    bound = bound_names(parse_python(path, source).body)
    model = _model(path, bound, "Model", "class Model(torch.nn.Module) with forward(self, …)")
    if isinstance(model, ast.ClassDef) and _lacks_forward(model, bound):
        raise BadTask(
            path, model.lineno, "Model", "has no method forward, expected def forward(self, …)"
        )
    for name in ("get_inputs", "get_init_inputs"):
        _required(path, bound, name, f"def {name}() that returns a list")


CHECK_TAKES = ("inputs", "outputs", "expected")
"""The parameters that a task's own check may have, passed by name."""

CHECK_RETURNS = "True, or False or the reason of a refusal"

METRICS_TAKES = (*CHECK_TAKES, "kernel")
"""The parameters that the function `metrics` of a reference may have, passed by name."""


def check_metrics(path: Path, source: str, names: Sequence[str]) -> None:
    """Check that a reference has the function that computes the metrics `names` of its task."""
    if not names:
        return
    returns = f"{', '.join(map(repr, names))} by name"
    _check_function(path, source, "metrics", METRICS_TAKES, returns)


def _check_function(path: Path, source: str, name: str, takes: Sequence[str], returns: str) -> None:
    """Check that a file has a function with none but these parameters."""
    bound = bound_names(parse_python(path, source.encode()).body)
    told = ", ".join(takes)
    expected = f"def {name}({told}) that returns {returns}"
    function = _required(path, bound, name, expected)
    if not isinstance(function, ast.FunctionDef):
        raise BadTask(path, function.lineno, name, f"is no function, expected {expected}")
    arguments = function.args
    named = [each.arg for each in (*arguments.args, *arguments.kwonlyargs)]
    odd = [each.arg for each in arguments.posonlyargs]
    odd += [each for each in named if each not in takes]
    odd += [each.arg for each in (arguments.vararg, arguments.kwarg) if each is not None]
    if odd:
        message = f"takes {', '.join(odd)}, expected only parameters of these names: {told}"
        raise BadTask(path, function.lineno, name, message)


def check_kernel(path: Path, source: bytes) -> None:
    """Check that a kernel parses and has ModelNew."""
    bound = bound_names(parse_python(path, source).body)
    _model(path, bound, "ModelNew", "class ModelNew with Model's constructor and call")


def check_unwritten(path: Path, source: bytes) -> None:
    """Check a kernel that the agent is to write: it parses, and may lack ModelNew.

    An empty file is refused: no view of it has a line to edit.
    """
    parse_python(path, source)


def check_helper(path: Path, source: bytes) -> None:
    """Check an editable file beside the kernel, which may be empty: Python must parse."""
    if path.suffix == ".py" and source.strip():
        parse_python(path, source)


def parse_python(path: Path, source: bytes) -> ast.Module:
    """Return the syntax tree of a file; `BadTask` with the line if it is not valid Python."""
    if not source.strip():
        raise BadTask(path, 1, "", "the file is empty, expected Python code")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # style is not checked here
            return ast.parse(source)
    except SyntaxError as error:
        raise BadTask(path, error.lineno or 1, "", f"not valid Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        why = str(error) or type(error).__name__
        raise BadTask(path, 1, "", f"cannot be read as Python: {why}") from None


def _required(path: Path, bound: Bound, name: str, expected: str) -> ast.stmt:
    if name not in bound:
        raise BadTask(path, 1, name, f"is missing, expected {expected}")
    return bound[name]


def _model(path: Path, bound: Bound, name: str, expected: str) -> ast.stmt:
    model = _required(path, bound, name, expected)
    if isinstance(model, ast.FunctionDef | ast.AsyncFunctionDef):
        raise BadTask(path, model.lineno, name, "is a function, expected a class")
    return model


def bound_names(body: list[ast.stmt]) -> Bound:
    """Return the names that a module's top level binds; the last binding of a name counts."""
    names: Bound = {}
    for statement in body:
        match statement:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                names[statement.name] = statement
            case ast.Assign(targets=targets):
                names |= {t.id: statement for t in targets if isinstance(t, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
                names[name] = statement
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names |= {alias.asname or alias.name: statement for alias in aliases}
            case ast.If(body=inner, orelse=other):
                names |= bound_names(inner) | bound_names(other)
            case ast.Try(body=inner, orelse=other, handlers=handlers, finalbody=last):
                for handler in handlers:
                    names |= bound_names(handler.body)
                names |= bound_names(inner) | bound_names(other) | bound_names(last)
            case ast.With(body=inner):
                names |= bound_names(inner)
    return names


def _lacks_forward(model: ast.ClassDef, bound: Bound, depth: int = 0) -> bool:
    """Return whether neither the class nor a visible base binds `forward`."""
    if "forward" in bound_names(model.body) or depth > 20:
        return False
    for base in model.bases:
        name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
        if name in ("Module", "object"):
            continue
        local = bound.get(name)
        if not isinstance(local, ast.ClassDef) or not _lacks_forward(local, bound, depth + 1):
            return False
    return True


TASK_FILE = "task.toml"
TOOL_FILES = ("tools.yaml", "domain_tools.yaml")
SIZE_LIMIT = 1 << 20


@dataclass(frozen=True)
class TaskFolder:
    """A task folder's content. Texts are exact: encoding them returns the files' bytes."""

    path: Path
    task: Task
    toml: str
    reference: str
    kernel: KernelFiles
    """The editable files."""
    tools: tuple[tuple[str, str], ...] = ()
    """Files of tool definitions and functions, as (name, text); the agent checks their content."""
    context: Texts = ()
    """Files that the agent may read, as (path below the folder, text)."""


def load_task(
    folder: Path, workflow: str | None = None, agent: Mapping[str, Any] | None = None
) -> TaskFolder:
    """Read and check a task folder.

    `workflow` overrides the task's own: where the agent writes, the kernel may lack ModelNew. The
    task has the phase table, if it is in a file.
    `agent` are settings that name other files of tools than the task's agent does.

    Raises `BadTask` if a file or setting cannot be used; the message names file, line and field.
    """
    path = folder / TASK_FILE
    if why := unseen(path):
        raise BadTask(folder, None, "", f"cannot be looked at: {why}")
    if not folder.is_dir():
        raise BadTask(folder, None, "", "is not a folder, expected one with task.toml")
    if not path.exists():
        message = (
            "has no task.toml; make a task with: akg-tui new DIR --from PROBLEM, or "
            "akg-tui new DIR --reference reference.py --kernel kernel.py"
        )
        raise BadTask(folder, None, "", message)
    toml = _text(path, _read(path))
    task = parse_task(path, toml)
    if agent:
        task = replace(task, agent=replace(task.agent, **agent))
    bad = UserFile(path, toml, None, toml_line, BadTask).bad

    def source(field: str, name: str, check: Check) -> str:
        return _source(_own_file(folder, name, ("files", field), bad), check)

    def kernel(check: Check) -> KernelFiles:
        first, *others = task.files.names
        texts = {first: source("editable", first, check)}
        where = ("files", "editable")
        for name in others:
            if name in (TASK_FILE, *tool_files(task)):
                raise bad(where, f"{name} has another purpose in this folder")
            texts[name] = source("editable", name, check_helper)
        return KernelFiles(texts)

    name = workflow or task.workflow
    table = _table(folder, name, task, bad) if name and name not in WORKFLOWS else None
    task = replace(task, workflow=name, table=table)
    check = check_unwritten if Phase.WRITE in task.phases.rows else check_kernel
    reference = source("reference", task.files.reference, check_reference)
    check_metrics(folder / task.files.reference, reference, task.metrics)
    _check_constants(task, reference, bad)
    tools = _tools(folder, task, bad)
    context = _context(folder, task, tuple(name for name, _ in tools), bad)
    file, _, function = task.correctness.check.partition(":")
    if file:
        where = ("correctness", "check")
        if file in (*task.files.names, *(name for name, _ in tools)):
            raise bad(where, f"{file} has another purpose in this folder")
        text = file_text(_own_file(folder, file, where, bad))
        _check_function(folder / file, text, function, CHECK_TAKES, CHECK_RETURNS)
        if file != task.files.reference:
            task = replace(task, check_source=text)
            context = tuple({**dict(context), file: text}.items())  # for the agent to read
    return TaskFolder(
        path=folder,
        task=task,
        toml=toml,
        reference=reference,
        kernel=kernel(check),
        tools=tools,
        context=context,
    )


def _own_file(folder: Path, name: str, field: Field, bad: Bad) -> Path:
    """Return the path of a file of the folder that a field names; it is no link out of it."""
    path = folder / name
    if not is_file(path):
        raise bad(field, f"{name} is not a file in this folder")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise bad(field, f"{name} is a link that leads out of the folder, expected a file in it")
    return path


def _check_constants(task: Task, reference: str, bad: Bad) -> None:
    """Check that the reference has the constants and parameters that the task names."""
    try:
        with_gradients(reference, task.reference.gradients)
    except UnknownGradient as error:
        raise bad(("reference", "gradients"), str(error)) from None
    places: list[tuple[tuple[str, ...], Mapping[str, int | float]]] = [
        (("reference", "constants"), task.reference.constants)
    ]
    places += [(("cases", str(at), "sizes"), case.sizes) for at, case in enumerate(task.cases)]
    if not any(values for _, values in places):
        return
    known = constants(reference)
    for place, values in places:
        for name, value in values.items():
            try:
                check_value(known, name, value)
            except UnknownConstant as error:
                raise bad((*place, name), error.why) from None


def _table(folder: Path, name: str, task: Task, bad: Bad) -> Workflow:
    """Return the phase table in a file of the folder."""
    path = _own_file(folder, name, ("workflow",), bad)
    if name == TASK_FILE or name in task.files.names:
        raise bad(("workflow",), f"{name} has another purpose in this folder")
    file = toml_file(path, file_text(path), BadTask)
    try:
        return user_workflow(name, file.read(dict[str, StatedPhase]))
    except BadWorkflow as error:
        raise file.bad(error.at, error.why) from None


def tool_files(task: Task) -> dict[str, str]:
    """Return the names of a task's tool files, each with its setting; "" for a default name."""
    named = {task.agent.functions: "functions"} if task.agent.functions else {}
    if task.agent.tools:
        return {**named, task.agent.tools: "tools"}
    return {**named, **dict.fromkeys(TOOL_FILES, "")}


def _tools(folder: Path, task: Task, bad: Bad) -> tuple[tuple[str, str], ...]:
    """Return the task's own tools: the files that it names, or those with default names."""
    found: list[tuple[str, str]] = []
    for name, setting in tool_files(task).items():
        if setting or is_file(folder / name):
            path = _own_file(folder, name, ("agent", setting or "tools"), bad)
            found.append((name, file_text(path)))
    return tuple(found)


def _context(folder: Path, task: Task, tools: tuple[str, ...], bad: Bad) -> Texts:
    """Return the task's context files: none of those that it names for another purpose."""
    named = (TASK_FILE, task.files.reference, *task.files.names, *tools)
    excluded = [folder / name for name in named]
    if task.agent.api_key_file:
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # it names no file at all
            excluded.append(Path(task.agent.api_key_file).expanduser().resolve())
    try:
        return find_context(folder, task.files.context, excluded)
    except BadContext as error:
        raise bad(("files", "context"), str(error)) from None


def write_task(
    folder: Path,
    *,
    reference: Path,
    kernel: Path,
    backend: str = "cpu",
    dsl: str = "cpp",
    arch: str = "",
) -> TaskFolder:
    """Make a task folder from two files, checked first. An existing folder must be empty.

    Raises `BadTask` if a file or a setting cannot be used, or the folder has files or cannot be
    written. Files already written are removed again.
    """
    reference_text, kernel_text = _source(reference, check_reference), _source(kernel, check_kernel)
    check_arch(folder, arch)
    op = op_named(folder.resolve().name)
    toml = NewToml(op=op, backend=backend, dsl=dsl, arch=arch).text()
    return write_texts(folder, {"reference.py": reference_text, "kernel.py": kernel_text}, toml)


def write_texts(folder: Path, files: Mapping[str, str], toml: str) -> TaskFolder:
    """Make a task folder from the texts of its files, and of task.toml.

    Raises `BadTask` as `write_task` does.
    """
    parse_task(folder / TASK_FILE, toml)
    # task.toml last: a folder with task.toml is complete.
    write_files(folder, {**files, TASK_FILE: toml})
    return load_task(folder)


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write files by their paths below a folder, which must be new or empty.

    Raises `BadTask` if it has files or cannot be written; then none of these is left.
    """
    made: list[Path] = []
    written: list[Path] = []
    try:
        _make(folder, made)
        check_empty(folder)
        for name, text in files.items():
            _make((folder / name).parent, made)
            write_synced(folder / name, text.encode())
            written.append(folder / name)
        sync_folder(folder)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        for path in reversed(made):
            with contextlib.suppress(OSError):
                path.rmdir()
        why = error.strerror or str(error)
        raise BadTask(folder, None, "", f"cannot be written: {why}") from error


def _make(folder: Path, made: list[Path]) -> None:
    """Make a folder and those above it; add each that is new to `made`."""
    for each in (*reversed(folder.parents), folder):
        if not each.exists():
            each.mkdir()
            made.append(each)


def check_empty(folder: Path) -> None:
    """Raise `BadTask` if a folder that is to become a task has files in it."""
    if any(folder.iterdir()):
        raise BadTask(folder, None, "", "has files in it, expected a new or an empty folder")


def check_arch(folder: Path, arch: str) -> None:
    """Raise `BadTask` if the free text `arch` cannot be kept in task.toml."""
    if not arch.isprintable():
        raise BadTask(folder / TASK_FILE, None, "target.arch", "has characters without a glyph")


def op_named(name: str) -> str:
    """Return an operator's name with only the characters that task.toml allows."""
    return re.sub(r"[^\w.-]", "_", name)[:64] or "kernel"


@dataclass(frozen=True, kw_only=True)
class NewToml:
    """The settings in the task.toml of a new task: those that a person most often changes."""

    op: str
    backend: str
    dsl: str
    arch: str
    constants: Mapping[str, int | float] = field(default_factory=dict)
    gradients: Sequence[str] = ()
    cases: Sequence[Case] = ()
    tolerance: float | None = None
    check: str = ""
    free_inputs: Sequence[int | str] = ()
    inputs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    editable: Sequence[str] = ("kernel.py",)
    min_gain: float = 0.01
    max_rounds: int = 20
    workflow: str | None = None

    def text(self) -> str:
        """Return the text of the file."""
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        environment = Environment(
            loader=FileSystemLoader(Path(__file__).parent),
            autoescape=False,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters |= {"quoted": _quoted, "key": _toml_key}
        return environment.get_template("task.toml.j2").render(vars(self)) + "\n"


def _quoted(value: object) -> str:
    """Return a text of printable characters, or a list of them, as TOML, which has JSON's form."""
    return json.dumps(value, ensure_ascii=False)


def _read(path: Path) -> bytes:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise BadTask(path, None, "", "is not a regular file")
        if found.st_size > SIZE_LIMIT:
            message = f"has {found.st_size} bytes, expected at most {SIZE_LIMIT}"
            raise BadTask(path, None, "", message)
        return path.read_bytes()
    except OSError as error:
        raise BadTask(path, None, "", f"cannot be read: {error.strerror}") from error


def _source(path: Path, check: Check) -> str:
    data = _read(path)
    check(path, data)
    return _text(path, data)


def _toml_key(name: str) -> str:
    plain = name.isascii() and name.isidentifier()
    return name if plain else _quoted(name)


def file_text(path: Path) -> str:
    """Return the text of a file of at most `SIZE_LIMIT` bytes. Raises `BadTask`."""
    return _text(path, _read(path))


def _text(path: Path, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadTask(path, line, "", "is not UTF-8 text") from None
