"""The module that Inductor writes, made into a kernel: all but the code of its own functions.

Calls of torch's library stay calls of torch, and the weights come from the reference's own `Model`.
The functions are for a `Language`: C++ or Triton.
"""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from akg_tui.problems.inductor.generated import Generated, Given
from akg_tui.problems.module_text import bound_by

LIBRARY_CALLS = frozenset({"mm", "bmm", "addmm", "baddbmm", "convolution", "_int_mm"})
"""The functions of Inductor's `extern_kernels` that are functions of torch under the same name."""

COMMON_NAMES = frozenset({"ModelNew", "view", "fits", "aten", "laid_out"})
"""The names that every kernel binds besides those of the reference."""

WIDTH = 100

FUNCTIONS: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
"""Functions that the code of forward may call, by name."""

_NODES = re.compile(r"# Topologically Sorted Source Nodes: \[(.*)\], Original ATen: \[(.*)\]")
_EMPTY = re.compile(r"\bempty_strided_c(?:pu|uda)\((\(.*?\)), (\(.*?\)), (torch\.\w+)\)")
_CHECK = re.compile(r"assert_size_stride\((\w+), \(.*?\), (\(.*?\))(?:, .*)?\)")
_GUARD = "with torch.cuda._DeviceGuard(0):"
_DROPPED = re.compile(
    r"args\.clear\(\)||del arg.*|assert_alignment\(.*"
    # The device and the stream are PyTorch's current ones.
    rf"|{re.escape(_GUARD)}|torch\.cuda\.set_device\(0\)"
    r"|\w*stream0 = get_raw_stream\(0\)|(\w+) = copy_if_misaligned\(\1\)"
)


class NoSeed(ValueError):
    """The generated module has something that can't stand alone; the message is one line."""


class Language(ABC):
    """The functions of a module, in the language in which Inductor wrote them."""

    on_device: ClassVar[bool]
    """Whether tensors are made on the device of an input, and what the library returns may be laid
    out in another way than the code expects: on another GPU, or on the CPU."""

    call_of_function: ClassVar[re.Pattern[str]]
    """A line of the module that calls a function; its group is the function's name."""

    own_names: frozenset[str]
    """The names that a kernel binds for the functions."""

    functions: frozenset[str]
    """The names of the functions."""

    def __init__(self, generated: Generated) -> None:
        self.generated = generated

    @abstractmethod
    def call(self, name: str, line: str) -> Iterator[str]:
        """Yield the lines that call a function as the module's line does."""

    @abstractmethod
    def told(self) -> str:
        """Return the language for the comment at the top; "" if the module has no functions."""

    @abstractmethod
    def imports(self) -> Imports:
        """Return the imports that the functions and their calls need."""

    @abstractmethod
    def parts(self) -> list[str]:
        """Return what a kernel has of the functions, after `call` was asked for each call."""


class Imports(NamedTuple):
    """Lines that import: of the standard library, of packages besides torch, and of akg_tui."""

    standard: list[str]
    packages: list[str]
    own: list[str]


def parsed(module: str) -> ast.Module:
    """Return the tree of a module; raises `NoSeed` if it is no Python."""
    try:
        return ast.parse(module)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NoSeed(f"the generated code is no Python: {error}") from error


def own_functions(tree: ast.Module) -> Iterator[tuple[str, str, list[ast.expr]]]:
    """Yield the functions that a module defines: name, kind, and the arguments of its making."""
    for node in tree.body:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id="async_compile"), attr=kind), args=given
                ),
            ):
                yield name, kind, given


def written(generated: Generated, language: Language, model: str, origin: str) -> str:
    """Return the kernel, as `seed.kernel_of` does, with the functions of a language."""
    tree = parsed(generated.module)
    names = _names(generated)
    constants = {
        node.targets[0].id: generated.constants.get(node.targets[0].id, "")
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and node.value.value is None
    }
    body = _body(call_of(tree, generated.module), language, names)
    used = {name: text for name, text in constants.items() if _uses(body, name)}
    if lacking := [name for name, text in used.items() if not text]:
        raise NoSeed(f"the generated code needs {lacking[0]}, whose values are not known")
    known = {*names.values(), *used, *(each.name for each in generated.inputs)}
    records = {name for each in parsed(model).body for name in bound_by(each)}
    known |= records & {*re.findall(r"\w+", generated.nested)}
    _check_names(body, known | language.own_names | language.functions)
    future, model = _without_first_imports(model)
    _check_free(model, language)
    parts = [
        _head(generated, origin, language.told()),
        future + _imports([*body, *used.values()], language),
        "# The reference: for its weights, and for inputs of other shapes.\n" + model,
    ]
    parts += language.parts()
    if used:
        lines = [f"{name} = {text}" for name, text in used.items()]
        parts.append("# Tensors that forward makes of numbers in its text.\n" + "\n".join(lines))
    parts += [text for name, text in FUNCTIONS.items() if name != "fits" and _uses(body, name)]
    if any(each.shape is not None for each in generated.inputs):
        parts.append(FUNCTIONS["fits"])
    parts.append(_model(generated, body, names))
    return "\n\n".join(part.strip("\n") + "\n" for part in parts if part)


def call_of(tree: ast.Module, module: str) -> list[str]:
    """Return the lines of the module's `call`, without indentation."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "call":
            lines = module.splitlines()[node.lineno : node.end_lineno]
            return textwrap.dedent("\n".join(lines)).splitlines()
    raise NoSeed("the generated code has no function to call")


def wrapped(line: str, width: int) -> list[str]:
    """Return a line's words in lines of at most `width`, none of them broken."""
    return textwrap.wrap(line, width, break_on_hyphens=False, break_long_words=False)


def arguments_of(name: str, line: str) -> list[str]:
    """Return the texts of the arguments of the call that a line is."""
    call = ast.parse(line).body[0]
    if not isinstance(call, ast.Expr) or not isinstance(call.value, ast.Call):
        raise NoSeed(f"the generated code calls {name} in a way that is not known")
    return [ast.get_source_segment(line, each) or "" for each in call.value.args]


def _names(generated: Generated) -> dict[str, str]:
    """Return a name for each argument of the module's `call`, by its expression."""
    taken = {"torch", "aten", "library", "view", "fits", "self", "inf", "nan"}
    for name in generated.parameters or [each.name for each in generated.inputs]:
        if name in taken or re.fullmatch(r"(buf|arg)\d.*", name):
            raise NoSeed(f"forward() has a parameter {name}, a name that generated code uses")
    taken |= {each.name for each in generated.inputs} | {*generated.parameters}
    names: dict[str, str] = {}
    for expression in generated.arguments:
        if expression in names:
            continue
        name = expression
        if not expression.isidentifier():
            words = re.findall(r"\w+", expression.removeprefix("self."))
            name = "_".join(words)
            if not name.isidentifier() or re.match(r"(buf|arg)\d", name):
                name = f"weight_{name}"
            while name in taken:
                name += "_"
        taken.add(name)
        names[expression] = name
    return names


class _Body:
    """The lines of `forward` after its preamble, while they are made."""

    def __init__(self, language: Language, names: Mapping[str, str]) -> None:
        generated = language.generated
        self._language = language
        self._given = set(names.values())
        first = names[generated.arguments[0]] if generated.arguments else ""
        self._device = f", device={first}.device" if language.on_device and first else ""

    def statement(self, line: str) -> Iterator[str]:
        """Yield a line of the module's `call` as it is written in `forward`."""
        if nodes := _NODES.fullmatch(line):
            ops = ", ".join(dict.fromkeys(each.strip() for each in nodes[2].split(",")))
            comment = f"# {nodes[1]}: {ops}" if nodes[1] else f"# {ops}"
            yield textwrap.shorten(comment, WIDTH - 8, placeholder=" …")
            return
        if line.startswith("#"):
            return
        if check := _CHECK.fullmatch(line):
            if check[1] not in self._given:
                if self._language.on_device:
                    yield f"{check[1]} = laid_out({check[1]}, {check[2]})"
                else:
                    yield f"assert {check[1]}.stride() == {check[2]}  # as the code expects it"
            return
        line = _EMPTY.sub(rf"torch.empty_strided(\1, \2, dtype=\3{self._device})", line)
        line = re.sub(r"\breinterpret_tensor\(", "view(", line)
        line = re.sub(r"(?<![\w.])device\(", "torch.device(", line)
        for name in re.findall(r"\bextern_kernels\.(\w+)", line):
            if name not in LIBRARY_CALLS:
                raise NoSeed(f"the generated code calls {name}, a function of torch._inductor")
        line = re.sub(r"\bextern_kernels\.", "torch.", line)
        called = self._language.call_of_function.match(line)
        if called and called[1] in self._language.functions:
            yield from self._language.call(called[1], line)
        else:
            yield line


def _body(lines: Sequence[str], language: Language, names: Mapping[str, str]) -> list[str]:
    """Return the lines of `forward` after its preamble."""
    generated = language.generated
    making = _Body(language, names)
    arguments: list[str] = []
    body: list[str] = []
    guarded = False
    for whole in lines:
        line = whole.removeprefix(" " * 4) if guarded else whole
        guarded = guarded or line == _GUARD
        if found := re.fullmatch(r"(.*\w), ?= args|(.*\w) = args", line):
            arguments = [each.strip() for each in (found[1] or found[2]).split(",")]
            if len(arguments) != len(generated.arguments):
                raise NoSeed("the generated code has other arguments than the model's graph")
            continue
        if _DROPPED.fullmatch(line):
            continue
        named = line
        for argument, expression in zip(arguments, generated.arguments, strict=False):
            named = re.sub(rf"\b{argument}\b", names[expression], named)
        body += making.statement(named)
    _replace_return(body, generated)
    return body


def _replace_return(body: list[str], generated: Generated) -> None:
    """Make the last line return what the reference's `forward` returns."""
    last = parsed(body[-1].strip()).body[0] if body else None
    if not isinstance(last, ast.Return) or not isinstance(last.value, ast.Tuple):
        raise NoSeed("the generated code does not end with its results")
    results = [ast.unparse(each) for each in last.value.elts]
    if len(results) != generated.returned:
        raise NoSeed("the generated code returns other tensors than the model's graph")
    known = {f"results[{i}]": text for i, text in enumerate(results)}
    returned = [known.get(each, each) for each in generated.results]
    if generated.nested:
        body[-1] = f"return {generated.nested.format(*returned)}"
        return
    alone = "," if len(returned) == 1 and not generated.single else ""
    body[-1] = f"return {', '.join(returned)}{alone}"


def _uses(body: Sequence[str], name: str) -> bool:
    return any(re.search(rf"\b{name}\b", line.partition("#")[0]) for line in body)


def _check_names(body: Sequence[str], known: set[str]) -> None:
    """Refuse a body that reads a name which nothing in the kernel binds."""
    tree = parsed("\n".join(body).replace("return ", "_ = "))
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    allowed = known | bound | COMMON_NAMES | {"torch", "inf", "nan", "self", "float"}
    used = [node.id for node in names if node.id not in allowed]
    parts = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    for name in [*used, *(part for part in parts if part == "inductor")]:
        raise NoSeed(f"the generated code uses {name}, a part of torch._inductor")


def _head(generated: Generated, origin: str, what: str) -> str:
    told = what or "calls of torch's library only"
    lines = [
        f"The first kernel: what torch.compile generates for {origin}, as one file.",
        f"Made by `akg-tui new --seed inductor` with torch {generated.torch} (Inductor, {told}).",
        "It is for inputs of the shapes in ModelNew.forward; for others it does what Model does.",
        "Everything in this file may be changed.",
    ]
    if not what:
        lines.insert(2, "There was nothing to fuse, so it has no code of its own.")
    return "\n".join(f"# {each}" for line in lines for each in wrapped(line, WIDTH - 2))


def _check_free(model: str, language: Language) -> None:
    for statement in parsed(model).body:
        for name in sorted(bound_by(statement) & (COMMON_NAMES | language.own_names)):
            raise NoSeed(f"the reference binds {name}, a name that the kernel needs")


def _without_first_imports(model: str) -> tuple[str, str]:
    """Return the imports that must be a file's first, and the text without them and `torch`."""
    lines = model.splitlines(keepends=True)
    first = [line for line in lines if line.startswith("from __future__ ")]
    rest = [line for line in lines if line not in first and line.rstrip() != "import torch"]
    return "".join(first) + ("\n" if first else ""), "".join(rest).strip("\n")


def _imports(body: Sequence[str], language: Language) -> str:
    needed = language.imports()
    numbers = ["from math import inf, nan"] if _uses(body, "inf") or _uses(body, "nan") else []
    standard = sorted([*needed.standard, *numbers])
    groups = [standard, ["import torch", *needed.packages], needed.own]
    groups.append(["aten = torch.ops.aten"] if _uses(body, "aten") else [])
    return "\n\n".join("\n".join(lines) for lines in groups if lines)


def _model(generated: Generated, body: Sequence[str], names: Mapping[str, str]) -> str:
    names_of_inputs = [each.name for each in generated.inputs]
    parameters = ", ".join(["self", *(generated.parameters or names_of_inputs)])
    lines = [
        "class ModelNew(Model):",
        '    """Has the weights of Model; forward is the code that was generated for it."""',
        "",
        "    @torch.no_grad()",
        f"    def forward({parameters}):",
    ]
    conditions = [_condition(each) for each in generated.inputs]
    if len(conditions) == 1:
        lines.append(f"        if not {conditions[0]}:")
    elif conditions:
        lines += ["        if not (", f"            {conditions[0]}"]
        lines += [f"            and {each}" for each in conditions[1:]] + ["        ):"]
    if conditions:
        given = generated.passed or ", ".join(names_of_inputs)
        lines.append(f"            return super().forward({given})")
    for expression, name in names.items():
        if expression != name and _uses(body, name):
            lines.append(f"        {name} = {expression}")
    return "\n".join([*lines, *(f"        {each}" for each in body)])


def _condition(given: Given) -> str:
    if given.shape is None:
        return f"{given.name} == {given.value}"
    return f"fits({given.name}, {given.shape}, {given.stride}, {given.dtype})"
