"""The functions of a module of Inductor in C++, as one string that torch's headers compile."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from akg_tui.problems.inductor.generated import Generated
from akg_tui.problems.inductor.module import (
    WIDTH,
    Imports,
    Language,
    NoSeed,
    arguments_of,
    own_functions,
    parsed,
    wrapped,
)

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

_BUILD_ONLY = re.compile(r"shared|fPIC|W.*|pedantic|g\d?|fno-omit-frame-pointer|std=.*|fopenmp")
_INCLUDE = re.compile(r"\s*#include <torch/csrc/inductor/cpp_prefix\.h>\n")
_SIGNATURE = re.compile(r'extern "C"\s+void\s+kernel\(')
# An index is an int64_t already: sums and products of loop variables and literals.
_INDEX_CAST = re.compile(r"static_cast<int64_t>\(((?:[\s\w+*-]|\((?:[\s\w+*-])*\))*)\)")
_INDEX = re.compile(r"(?:x\d+(?:_(?:inner|tail|outer))*|\d+L?|[\s+*()-])+")


@dataclass(frozen=True)
class _Kernel:
    """One C++ function of the module: its name, its arguments' types in ctypes, its plain text."""

    name: str
    types: tuple[str, ...]
    text: str


class Cpp(Language):
    """The functions of a module in C++."""

    own_names = frozenset(
        {
            *("library", "compile_cpp", "SOURCE", "FLAGS", "BUILD"),
            *("EXP", "TORCH", "LIBRARIES"),
            *(name for name, _, _ in KNOBS.values()),
        }
    )
    on_device = False
    call_of_function = re.compile(r"(\w+)\(")

    def __init__(self, generated: Generated) -> None:
        super().__init__(generated)
        self._kernels = {each.name: each for each in _kernels(parsed(generated.module))}
        self.functions = frozenset(self._kernels)

    def call(self, name: str, line: str) -> Iterator[str]:
        """Yield a call through ctypes, with the addresses of tensors."""
        kernel = self._kernels[name]
        given = arguments_of(name, line)
        if len(given) != len(kernel.types):
            raise NoSeed(f"the generated code calls {name} with {len(given)} arguments")
        passed = [
            f"{text}.data_ptr()" if kind == "c_void_p" else text
            for text, kind in zip(given, kernel.types, strict=True)
        ]
        whole = f"library.{name}({', '.join(passed)})"
        if len(whole) <= WIDTH - 8:
            yield whole
            return
        yield f"library.{name}("
        yield from (f"    {each}," for each in passed)
        yield ")"

    def told(self) -> str:
        """Return for which vectors it is."""
        return f"C++ for {self.generated.isa}, one thread" if self._kernels else ""

    def imports(self) -> Imports:
        """Return the imports of ctypes and of the compiler's adapter."""
        if not self._kernels:
            return Imports([], [], [])
        types = {each for kernel in self._kernels.values() for each in kernel.types}
        standard = [f"from ctypes import {', '.join(sorted(types))}", "from pathlib import Path"]
        return Imports(standard, [], ["from akg_tui.dsl import compile_cpp"])

    def parts(self) -> list[str]:
        """Return the compiler's flags, the source, and its loading."""
        if not self._kernels:
            return []
        return [
            _flags(self.generated, self._kernels),
            _source(self._kernels.values()),
            _loading(self._kernels),
        ]


def _kernels(tree: ast.Module) -> Iterator[_Kernel]:
    for name, kind, given in own_functions(tree):
        if kind != "cpp_pybinding":
            raise NoSeed(f"the generated code has a kernel of {kind}, which is no C++")
        listed, text = (ast.literal_eval(each) for each in given[:2])
        yield _Kernel(name, tuple(_ctype(name, each) for each in listed), _plain(text))


def _ctype(kernel: str, kind: str) -> str:
    """Return the name in ctypes of a type of C++."""
    if kind.endswith("*"):
        return "c_void_p"
    if kind.removeprefix("const ") not in CTYPES:
        raise NoSeed(f"{kernel} of the generated code has an argument of unknown type")
    return CTYPES[kind.removeprefix("const ")]


def _flags(generated: Generated, kernels: Mapping[str, _Kernel]) -> str:
    fixed = [
        each for each in generated.options if each not in KNOBS and not _BUILD_ONLY.fullmatch(each)
    ]
    if any("#pragma omp" in each.text for each in kernels.values()):
        fixed.append("fopenmp")
    words = ["-std=c++20", *(f"-{each}" for each in fixed)]
    words += [f"-D{generated.macro}"] if generated.macro else []
    knobs = [KNOBS[each] for each in generated.options if each in KNOBS]
    lines = ["# The compiler's flags are Inductor's; those with a choice are knobs."]
    for name, choices, about in knobs:
        listed = ", ".join(f'"{choice}"' for choice in choices)
        lines += [f"# {about}", f'{name} = "{choices[0]}"  # tune: [{listed}]']
    used = " ".join(f"{{{name}}}" for name, _, _ in knobs)
    if any(".EXP()" in each.text for each in kernels.values()):
        lines += EXP
        used += " -DEXP={EXP}"
    lines += ["FLAGS = (", *(f'    "{line} "' for line in wrapped(" ".join(words), 90)), ")"]
    lines += [
        "# at::vec, the vectors of the code below, is in torch's headers, its functions in torch.",
        "TORCH = Path(torch.__file__).parent",
        'LIBRARIES = f"-I{TORCH}/include -L{TORCH}/lib -ltorch_cpu -lc10"',
        f'BUILD = f"{{FLAGS}} {used} {{LIBRARIES}}"',
    ]
    return "\n".join(lines)


def _source(kernels: Iterable[_Kernel]) -> str:
    parts = ["#include <torch/csrc/inductor/cpp_prefix.h>", "", "using at::vec::Vectorized;"]
    for kernel in kernels:
        text = _INCLUDE.sub("", kernel.text, count=1)
        if not _SIGNATURE.search(text) or "\n#include" in text or '"""' in text:
            raise NoSeed(f"{kernel.name} of the generated code is no single C++ function")
        parts += ["", text.replace("kernel(", f"{kernel.name}(", 1).strip("\n")]
    return 'SOURCE = r"""\n' + "\n".join(parts) + '\n"""'


def _plain(text: str) -> str:
    """Return C++ without casts that change nothing."""

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
