"""First kernels made of what torch.compile generates, as one file that needs no `torch._inductor`.

Works on texts; runs nothing. The C++ of the generated module goes into one string, its calls of
torch's library stay calls of torch, and the weights come from the reference's own `Model`.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from akg_tui.problems.generated import Generated, Given
from akg_tui.problems.module_text import bound_by

LIBRARY_CALLS = frozenset({"mm", "bmm", "addmm", "baddbmm", "convolution", "_int_mm"})
"""The functions of Inductor's `extern_kernels` that are functions of torch under the same name."""

CTYPES = {"int64_t": "c_int64", "int32_t": "c_int32", "double": "c_double", "float": "c_float"}

KNOBS = {
    "O3": ("OPTIMIZE", ("-O3", "-O2"), "Optimisation in general."),
    "ffp-contract=off": (
        "CONTRACT",
        ("-ffp-contract=off", "-ffp-contract=fast"),
        "Whether a product and a sum become one instruction, which rounds once.",
    ),
    "fno-tree-loop-vectorize": (
        "LOOPS",
        (
            "-fno-tree-loop-vectorize",
            "-ftree-loop-vectorize",
            "-ftree-loop-vectorize -funroll-loops",
        ),
        "Whether the compiler vectorises the loops that Inductor left scalar, and unrolls loops.",
    ),
    "fmath-errno": (
        "MATH",
        (
            "-fmath-errno",
            "-fno-math-errno",
            "-fno-math-errno -fassociative-math -freciprocal-math",
        ),
        "Whether scalar functions set errno, and whether sums may be reordered.",
    ),
}
"""The flags of Inductor's compiler that become knobs: name, choices, what the knob does."""

EXP = (
    "# The exponential function of vectors: within 1, or within 20 units in the last place.",
    'EXP = "exp"  # tune: ["exp", "exp_u20"]',
)
_EXP = ".exp()"
"""How generated code calls it; scalars have `std::exp`."""

WIDE, NARROW = 16, 8
"""The floats of a vector of 512 and of 256 bits."""

_MACRO = "CPU_CAPABILITY_"
_BUILD_ONLY = re.compile(r"shared|fPIC|W.*|pedantic|g\d?|fno-omit-frame-pointer|std=.*|fopenmp")
_INCLUDE = re.compile(r"\s*#include <torch/csrc/inductor/cpp_prefix\.h>\n")
_SIGNATURE = re.compile(r'extern "C"\s+void\s+kernel\(([^)]*)\)')
_GUARD_LINES = (
    r"^ *std::atomic<int> inductor_cpu_integer_div_error\{0\};\n",
    r"^ *inductor_cpu_integer_div_error_flag = &inductor_cpu_integer_div_error;\n",
    r"^ *inductor_cpu_integer_div_error_flag = nullptr;\n",
    r"^ *inductor_cpu_throw_if_integer_div_error\(inductor_cpu_integer_div_error\);\n",
)
_DIVIDES = re.compile(r"div|mod|[/%]\s*static_cast<int")
# An index is an int64_t already: sums and products of loop variables and literals.
_INDEX_CAST = re.compile(r"static_cast<int64_t>\(((?:[\s\w+*-]|\((?:[\s\w+*-])*\))*)\)")
_INDEX = re.compile(r"(?:x\d+(?:_(?:inner|tail|outer))*|\d+L?|[\s+*()-])+")
_NUMBER = re.compile(r"(?<![\w.])\d+L?(?![\w.])")
_NODES = re.compile(r"# Topologically Sorted Source Nodes: \[(.*)\], Original ATen: \[(.*)\]")
_EMPTY = re.compile(r"\bempty_strided_cpu\((\(.*?\)), (\(.*?\)), (torch\.\w+)\)")
_CHECK = re.compile(r"assert_size_stride\((\w+), (\(.*?\)), (\(.*?\))(?:, .*)?\)")
_WIDTH = 100


class NoSeed(ValueError):
    """The generated module has something that can't stand alone; the message is one line."""


@dataclass(frozen=True)
class _Kernel:
    """One C++ function of the module: its name, its arguments' types in ctypes, its plain text."""

    name: str
    types: tuple[str, ...]
    text: str


def kernel_of(generated: Generated, model: str, origin: str) -> str:
    """Return a kernel that runs what was generated.

    Parameters
    ----------
    generated
        The module of Inductor, and how it is called.
    model
        What the reference's `Model` needs, as the text of a module.
    origin
        The reference's name, for the comment at the top.

    Raises
    ------
    NoSeed
        If a part of the module has no counterpart outside of `torch._inductor`.
    """
    tree = _parsed(generated.module)
    kernels = {each.name: each for each in _kernels(tree)}
    lines = _call(tree, generated.module)
    varied = _for_both_widths(kernels, lines, generated)
    kernels = varied or kernels
    names = _names(generated)
    constants = {
        node.targets[0].id: generated.constants.get(node.targets[0].id, "")
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and node.value.value is None
    }
    body, told = _body(lines, kernels, names, generated)
    used = {name: text for name, text in constants.items() if _uses(body, name)}
    if lacking := [name for name, text in used.items() if not text]:
        raise NoSeed(f"the generated code needs {lacking[0]}, whose values are not known")
    _check_names(body, {*names.values(), *used, *(each.name for each in generated.inputs)})
    future, model = _without_first_imports(model)
    _check_free(model)
    parts = [
        _head(generated, origin, bool(kernels)),
        future + _imports([*body, *used.values()], kernels),
        "# The reference: for its weights, and for inputs of other shapes.\n" + model,
    ]
    if kernels:
        parts.append(_flags(generated, kernels, bool(varied)))
        parts += [_source(kernels.values(), told, bool(varied)), _loading(kernels)]
    if used:
        lines = [f"{name} = {text}" for name, text in used.items()]
        parts.append("# Tensors that forward makes of numbers in its text.\n" + "\n".join(lines))
    if _uses(body, "view"):
        parts.append(VIEW)
    if any(each.shape is not None for each in generated.inputs):
        parts.append(FITS)
    parts.append(_model(generated, body, names))
    return "\n\n".join(part.strip("\n") + "\n" for part in parts if part)


def is_library_only(generated: Generated) -> bool:
    """Return whether Inductor generated no code of its own: there was nothing to fuse."""
    return "async_compile.cpp_pybinding(" not in generated.module


VIEW = '''
def view(tensor, shape, stride, offset):
    """Return the memory of a tensor under another shape and stride."""
    return tensor.as_strided(shape, stride, tensor.storage_offset() + offset)
'''

FITS = '''
def fits(tensor, shape, stride, dtype):
    """Return whether a tensor is such as the code was generated for."""
    return tensor.shape == shape and tensor.stride() == stride and tensor.dtype == dtype
'''


def _parsed(module: str) -> ast.Module:
    try:
        return ast.parse(module)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NoSeed(f"the generated code is no Python: {error}") from error


def _kernels(tree: ast.Module) -> Iterator[_Kernel]:
    for node in tree.body:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id="async_compile"), attr=kind), args=given
                ),
            ):
                if kind != "cpp_pybinding":
                    raise NoSeed(f"the generated code has a kernel of {kind}, which is no C++")
                listed, text = (ast.literal_eval(each) for each in given[:2])
                yield _Kernel(name, tuple(_ctype(name, each) for each in listed), _plain(text))


def _for_both_widths(
    kernels: Mapping[str, _Kernel], lines: Sequence[str], generated: Generated
) -> dict[str, _Kernel]:
    """Return the functions written for vectors of either width.

    Empty where what was generated for narrow vectors differs in more than in numbers that follow
    from the width, or in nothing.
    """
    if not generated.narrow:
        return {}
    tree = _parsed(generated.narrow)
    narrow = {each.name: each for each in _kernels(tree)}
    if narrow.keys() != kernels.keys() or _call(tree, generated.narrow) != lines:
        return {}
    found: dict[str, _Kernel] = {}
    for name, kernel in kernels.items():
        text = for_both_widths(kernel.text, narrow[name].text)
        if text is None or kernel.types != narrow[name].types:
            return {}
        found[name] = replace(kernel, text=text)
    return found if found != kernels else {}


def for_both_widths(wide: str, narrow: str) -> str | None:
    """Return C++ that is `wide` where WIDTH is 16, and `narrow` where it is 8; None if none is."""
    between = _NUMBER.split(wide)
    if _NUMBER.split(narrow) != between:
        return None
    pairs = zip(_NUMBER.findall(wide), _NUMBER.findall(narrow), strict=True)
    known: list[int] = []
    text = between[0]
    for (one, other), following in zip(pairs, between[1:], strict=True):
        if one == other:
            known.append(int(one.rstrip("L")))
            text += one
        else:
            number = _by_width(int(one.rstrip("L")), int(other.rstrip("L")), known)
            if number is None:
                return None
            alone = (
                text.rstrip().endswith(("(", ",", "<", "=")) and following.lstrip()[:1] in ");,&"
            )
            text += number if alone or number == "WIDTH" else f"({number})"
        text += following
    return text


def _by_width(wide: int, narrow: int, known: Sequence[int]) -> str | None:
    """Return an expression with these values; `known` are sizes, of which the last are nearest."""
    if wide * NARROW == narrow * WIDE:
        if wide % WIDE == 0:
            return "WIDTH" if wide == WIDE else f"{wide // WIDE}L*WIDTH"
        return f"WIDTH/{WIDE // wide}" if wide and WIDE % wide == 0 else None
    if wide * WIDE == narrow * NARROW:
        return f"{wide * WIDE}L/WIDTH"
    for size in reversed(known):
        if (size - size % WIDE, size - size % NARROW) == (wide, narrow):
            return f"{size}L/WIDTH*WIDTH"
        if (size % WIDE, size % NARROW) == (wide, narrow):
            return f"{size}L%WIDTH"
    return None


def _ctype(kernel: str, kind: str) -> str:
    """Return the name in ctypes of a type of C++."""
    if kind.endswith("*"):
        return "c_void_p"
    if kind.removeprefix("const ") not in CTYPES:
        raise NoSeed(f"{kernel} of the generated code has an argument of unknown type")
    return CTYPES[kind.removeprefix("const ")]


def _call(tree: ast.Module, module: str) -> list[str]:
    """Return the lines of the module's `call`, without indentation."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "call":
            lines = module.splitlines()[node.lineno : node.end_lineno]
            return textwrap.dedent("\n".join(lines)).splitlines()
    raise NoSeed("the generated code has no function to call")


def _names(generated: Generated) -> dict[str, str]:
    """Return a name for each argument of the module's `call`, by its expression."""
    taken = {"torch", "aten", "library", "view", "fits", "self", "inf", "nan"}
    for each in generated.inputs:
        if each.name in taken or re.fullmatch(r"(buf|arg)\d.*", each.name):
            raise NoSeed(f"forward() has a parameter {each.name}, a name that generated code uses")
    taken |= {each.name for each in generated.inputs}
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


def _body(
    lines: Sequence[str],
    kernels: Mapping[str, _Kernel],
    names: Mapping[str, str],
    generated: Generated,
) -> tuple[list[str], dict[str, list[str]]]:
    """Return the lines of `forward` after its preamble, and what each kernel's arguments are."""
    arguments: list[str] = []
    made: dict[str, str] = dict(
        zip((names[each] for each in generated.arguments), generated.described, strict=True)
    )
    told: dict[str, list[str]] = {}
    body: list[str] = []
    for line in lines:
        if found := re.fullmatch(r"(.*\w), ?= args|(.*\w) = args", line):
            arguments = [each.strip() for each in (found[1] or found[2]).split(",")]
            if len(arguments) != len(generated.arguments):
                raise NoSeed("the generated code has other arguments than the model's graph")
            continue
        if line in ("args.clear()", "") or line.startswith(("del arg", "assert_alignment(")):
            continue
        named = line
        for argument, expression in zip(arguments, generated.arguments, strict=False):
            named = re.sub(rf"\b{argument}\b", names[expression], named)
        body += _statement(named, kernels, made, told, set(names.values()))
    _replace_return(body, generated)
    return body, told


def _statement(
    line: str,
    kernels: Mapping[str, _Kernel],
    made: dict[str, str],
    told: dict[str, list[str]],
    given: set[str],
) -> Iterator[str]:
    """Yield a line of the module's `call` as it is written in `forward`."""
    if nodes := _NODES.fullmatch(line):
        ops = ", ".join(dict.fromkeys(each.strip() for each in nodes[2].split(",")))
        comment = f"# {nodes[1]}: {ops}" if nodes[1] else f"# {ops}"
        yield textwrap.shorten(comment, _WIDTH - 8, placeholder=" …")
        return
    if line.startswith("#"):
        return
    if check := _CHECK.fullmatch(line):
        if check[1] not in given:
            yield f"assert {check[1]}.stride() == {check[3]}  # as the code expects it"
            made[check[1]] = f"library result {check[2]}"
        return
    if empty := re.fullmatch(r"(\w+) = " + _EMPTY.pattern, line):
        shape = empty[2].strip("()").rstrip(", ")
        made[empty[1]] = f"{empty[4].removeprefix('torch.')}[{shape}]"
    if same := re.fullmatch(r"(\w+) = (\w+)(?:; del \w+)?(?:  # reuse)?", line):
        made[same[1]] = made.get(same[2], "")
    if seen := re.match(r"(\w+) = reinterpret_tensor\((\w+), \((.*?)\), ", line):
        dtype = made.get(seen[2], "").partition("[")[0]
        made[seen[1]] = f"{dtype}[{seen[3].rstrip(', ')}]"
    line = _EMPTY.sub(r"torch.empty_strided(\1, \2, dtype=\3)", line)
    line = re.sub(r"\breinterpret_tensor\(", "view(", line)
    line = re.sub(r"(?<![\w.])device\(", "torch.device(", line)
    for name in re.findall(r"\bextern_kernels\.(\w+)", line):
        if name not in LIBRARY_CALLS:
            raise NoSeed(f"the generated code calls {name}, a function of torch._inductor")
    line = re.sub(r"\bextern_kernels\.", "torch.", line)
    called = re.match(r"(\w+)\(", line)
    if called and called[1] in kernels:
        yield from _kernel_call(line, kernels[called[1]], made, told)
    else:
        yield line


def _kernel_call(
    line: str, kernel: _Kernel, made: Mapping[str, str], told: dict[str, list[str]]
) -> Iterator[str]:
    call = ast.parse(line).body[0]
    if not isinstance(call, ast.Expr) or not isinstance(call.value, ast.Call):
        raise NoSeed(f"the generated code calls {kernel.name} in a way that is not known")
    given = [ast.get_source_segment(line, each) or "" for each in call.value.args]
    if len(given) != len(kernel.types):
        raise NoSeed(f"the generated code calls {kernel.name} with {len(given)} arguments")
    if kernel.name not in told:
        told[kernel.name] = [f"{text} {made.get(text, '')}".strip() for text in given]
    passed = [
        f"{text}.data_ptr()" if kind == "c_void_p" else text
        for text, kind in zip(given, kernel.types, strict=True)
    ]
    whole = f"library.{kernel.name}({', '.join(passed)})"
    if len(whole) <= _WIDTH - 8:
        yield whole
        return
    yield f"library.{kernel.name}("
    yield from (f"    {each}," for each in passed)
    yield ")"


def _replace_return(body: list[str], generated: Generated) -> None:
    """Make the last line return what the reference's `forward` returns."""
    last = ast.parse(body[-1].strip()).body[0] if body else None
    if not isinstance(last, ast.Return) or not isinstance(last.value, ast.Tuple):
        raise NoSeed("the generated code does not end with its results")
    results = [ast.unparse(each) for each in last.value.elts]
    if len(results) != generated.returned:
        raise NoSeed("the generated code returns other tensors than the model's graph")
    known = {f"results[{i}]": text for i, text in enumerate(results)}
    returned = [known.get(each, each) for each in generated.results]
    body[-1] = f"return {returned[0] if generated.single else ', '.join(returned) + ','}"
    if not generated.single and len(returned) > 1:
        body[-1] = body[-1].rstrip(",")


def _uses(body: Sequence[str], name: str) -> bool:
    return any(re.search(rf"\b{name}\b", line.partition("#")[0]) for line in body)


def _check_names(body: Sequence[str], known: set[str]) -> None:
    """Refuse a body that reads a name which nothing in the kernel binds."""
    tree = _parsed("\n".join(body).replace("return ", "_ = "))
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    allowed = known | bound | {"torch", "aten", "library", "view", "inf", "nan", "self", "float"}
    used = [node.id for node in names if node.id not in allowed]
    parts = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    for name in [*used, *(part for part in parts if part == "inductor")]:
        raise NoSeed(f"the generated code uses {name}, a part of torch._inductor")


def _head(generated: Generated, origin: str, has_code: bool) -> str:
    what = f"C++ for {generated.isa}" if has_code else "calls of torch's library only"
    lines = [
        f"The first kernel: what torch.compile generates for {origin}, as one file.",
        f"Made by `akg-tui new --seed inductor` with torch {generated.torch} (Inductor, {what}, "
        "one thread).",
        "It is for inputs of the shapes in ModelNew.forward; for others it does what Model does.",
        "Everything in this file may be changed.",
    ]
    if not has_code:
        lines.insert(2, "There was nothing to fuse, so it has no code of its own.")
    return "\n".join(f"# {each}" for line in lines for each in _wrapped(line, _WIDTH - 2))


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)


OWN_NAMES = frozenset(
    {
        "ModelNew",
        "library",
        "view",
        "fits",
        "aten",
        "compile_cpp",
        "SOURCE",
        "FLAGS",
        "BUILD",
        "EXP",
        "VECTORS",
    }
    | {"TORCH", "LIBRARIES", *(name for name, _, _ in KNOBS.values())}
)
"""The names that a kernel binds besides those of the reference."""


def _check_free(model: str) -> None:
    for statement in _parsed(model).body:
        for name in sorted(bound_by(statement) & OWN_NAMES):
            raise NoSeed(f"the reference binds {name}, a name that the kernel needs")


def _without_first_imports(model: str) -> tuple[str, str]:
    """Return the imports that must be a file's first, and the text without them and `torch`."""
    lines = model.splitlines(keepends=True)
    first = [line for line in lines if line.startswith("from __future__ ")]
    rest = [line for line in lines if line not in first and line.rstrip() != "import torch"]
    return "".join(first) + ("\n" if first else ""), "".join(rest).strip("\n")


def _imports(body: Sequence[str], kernels: Mapping[str, _Kernel]) -> str:
    types = {each for kernel in kernels.values() for each in kernel.types}
    lines = [f"from ctypes import {', '.join(sorted(types))}"] if types else []
    lines += ["from math import inf, nan"] if _uses(body, "inf") or _uses(body, "nan") else []
    lines += ["from pathlib import Path"] if kernels else []
    lines += ["", "import torch"] if lines else ["import torch"]
    lines += ["", "from akg_tui.dsl import compile_cpp"] if kernels else []
    lines += ["", "aten = torch.ops.aten"] if _uses(body, "aten") else []
    return "\n".join(lines)


def _flags(generated: Generated, kernels: Mapping[str, _Kernel], has_width: bool) -> str:
    fixed = [
        each for each in generated.options if each not in KNOBS and not _BUILD_ONLY.fullmatch(each)
    ]
    if any("#pragma omp" in each.text for each in kernels.values()):
        fixed.append("fopenmp")
    words = ["-std=c++20", *(f"-{each}" for each in fixed)]
    words += [f"-D{generated.macro}"] if generated.macro and not has_width else []
    knobs = [KNOBS[each] for each in generated.options if each in KNOBS]
    lines = ["# The compiler's flags are Inductor's; those with a choice are knobs."]
    for name, choices, about in knobs:
        listed = ", ".join(f'"{choice}"' for choice in choices)
        lines += [f"# {about}", f'{name} = "{choices[0]}"  # tune: [{listed}]']
    used = " ".join(f"{{{name}}}" for name, _, _ in knobs)
    if has_width:
        isas = [each.removeprefix(_MACRO) for each in (generated.macro, generated.narrow_macro)]
        lines += [
            f"# The vectors: of {WIDE} or of {NARROW} floats, which is WIDTH below.",
            f'VECTORS = "{isas[0]}"  # tune: ["{isas[0]}", "{isas[1]}"]',
        ]
        used += f" -D{_MACRO}{{VECTORS}}"
    if any(".EXP()" in each.text for each in kernels.values()):
        lines += EXP
        used += " -DEXP={EXP}"
    lines += ["FLAGS = (", *(f'    "{line} "' for line in _wrapped(" ".join(words), 90)), ")"]
    lines += [
        "# at::vec, the vectors of the code below, is in torch's headers, its functions in torch.",
        "TORCH = Path(torch.__file__).parent",
        'LIBRARIES = f"-I{TORCH}/include -L{TORCH}/lib -ltorch_cpu -lc10"',
        f'BUILD = f"{{FLAGS}} {used} {{LIBRARIES}}"',
    ]
    return "\n".join(lines)


def _source(kernels: Iterable[_Kernel], told: Mapping[str, list[str]], has_width: bool) -> str:
    parts = ["#include <torch/csrc/inductor/cpp_prefix.h>", "", "using at::vec::Vectorized;"]
    parts += ["constexpr int64_t WIDTH = Vectorized<float>::size();"] if has_width else []
    for kernel in kernels:
        parts += ["", *_commented(kernel, told.get(kernel.name, []))]
    return 'SOURCE = r"""\n' + "\n".join(parts) + '\n"""'


def _commented(kernel: _Kernel, arguments: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a C++ function, after a comment on each of its parameters."""
    text = _INCLUDE.sub("", kernel.text, count=1)
    signature = _SIGNATURE.search(text)
    if signature is None or "\n#include" in text or '"""' in text:
        raise NoSeed(f"{kernel.name} of the generated code is no single C++ function")
    parameters = [each.split()[-1].lstrip("*") for each in signature[1].split(",")]
    for name, argument in zip(parameters, arguments, strict=False):
        yield f"// {name}: {argument}"
    yield from text.replace("kernel(", f"{kernel.name}(", 1).strip("\n").splitlines()


def _plain(text: str) -> str:
    """Return C++ without casts that change nothing, and without checks of what can't happen."""
    bare = text
    for line in _GUARD_LINES:
        bare = re.sub(line, "", bare, flags=re.MULTILINE)
    if not _DIVIDES.search(bare):
        text = bare

    def uncast(found: re.Match[str]) -> str:
        inner, before = found[1], found.string[: found.start()]
        if not _INDEX.fullmatch(inner):
            return found[0]
        # Templates deduce their types from it, so it stays an int64_t.
        inner = re.sub(r"\b(\d+)\b", r"\1L", inner)
        # In brackets of its own, a sum needs none.
        return inner if before.endswith("[") or re.fullmatch(r"\w+", inner) else f"({inner})"

    text = _INDEX_CAST.sub(uncast, text)
    text = text.replace("at::vec::Vectorized<", "Vectorized<")
    text = text.replace(_EXP, ".EXP()")
    text = re.sub(r"\bC10_LIKELY\((.*)\)\)\n", r"\1)\n", text)
    return re.sub(r'extern "C"\s+void\s+', 'extern "C" void ', text)


def _loading(kernels: Mapping[str, _Kernel]) -> str:
    lines = ["library = compile_cpp(SOURCE, BUILD)"]
    for kernel in kernels.values():
        types = list(kernel.types)
        same = len(set(types)) == 1
        listed = f"[{types[0]}] * {len(types)}" if same else f"[{', '.join(types)}]"
        lines.append(f"library.{kernel.name}.argtypes = {listed}")
        lines.append(f"library.{kernel.name}.restype = None")
    return "\n".join(lines)


def _model(generated: Generated, body: Sequence[str], names: Mapping[str, str]) -> str:
    parameters = ", ".join(["self", *(each.name for each in generated.inputs)])
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
        given = ", ".join(each.name for each in generated.inputs)
        lines.append(f"            return super().forward({given})")
    for expression, name in names.items():
        if expression != name and _uses(body, name):
            lines.append(f"        {name} = {expression}")
    return "\n".join([*lines, *(f"        {each}" for each in body)])


def _condition(given: Given) -> str:
    if given.shape is None:
        return f"{given.name} == {given.value}"
    return f"fits({given.name}, {given.shape}, {given.stride}, {given.dtype})"
