"""The functions of a module of Inductor in Triton, with their block sizes as knobs."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from akg_tui.problems.inductor.generated import Generated, TritonFunction
from akg_tui.problems.inductor.module import (
    WIDTH,
    Imports,
    Language,
    NoSeed,
    arguments_of,
    own_functions,
    parsed,
)
from akg_tui.problems.module_text import renamed

PORTABLE = frozenset(
    {"abs", "ceil", "cos", "erf", "exp", "exp2", "floor", "fma", "log", "log2", "rsqrt", "sin"}
    | {"sqrt"}
)
"""The functions of `libdevice` that Triton has too, as `tl.math`."""

GRIDS = {
    "Grid1D": ("X",),
    "Grid2D": ("X", "Y"),
    "Grid3D": ("X", "Y", "Z"),
}
"""The dimensions of Inductor's grids: each has as many programs as it has blocks."""

MOST_Y = 65535
"""The most programs of a grid in its second dimension (CUDA C++ Programming Guide, Compute
Capabilities); Inductor puts the others into the third."""

OVERFLOW = f'''
def programs(x, y):
    """Return a grid; its second dimension has at most {MOST_Y} programs, the third the others."""
    z = max(triton.cdiv(y, {MOST_Y}), 1)
    return x, triton.cdiv(y, z), z
'''

WARPS = (1, 2, 4, 8, 16, 32)
STAGES = (1, 2, 3, 4)
FACTORS = (4, 2, 1, 0.5, 0.25)
"""The other sizes of a block that are tried, as factors of Inductor's."""

MATH = """# CUDA's libdevice, as torch.compile calls it, or Triton's own functions: faster, rougher.
MATH = "libdevice"  # tune: ["libdevice", "triton"]
special = libdevice if MATH == "libdevice" else tl.math"""

_HELPER = re.compile(r"\btriton_helpers\.(\w+)")
_LIBRARY = re.compile(r"\blibdevice\.(\w+)")
_PORTABLE = re.compile(rf"\blibdevice\.(?=(?:{'|'.join(sorted(PORTABLE))})\b)")


class Triton(Language):
    """The functions of a module in Triton."""

    on_device = True
    call_of_function = re.compile(r"(\w+)\.run\(")

    def __init__(self, generated: Generated) -> None:
        super().__init__(generated)
        for name, kind, _ in own_functions(parsed(generated.module)):
            if kind != "triton":
                raise NoSeed(f"the generated code has {name}, a kernel of {kind} and not of Triton")
        functions = map(_with_own_names, generated.functions)
        self._functions = {each.name: each for each in functions}
        self.functions = frozenset(self._functions)
        self._numbers = {name: number for number, name in enumerate(self._functions)}
        self._helpers = _helpers(generated.helpers)
        texts = self._texts()
        used = set(_LIBRARY.findall(texts))
        self._has_special = bool(used & PORTABLE)
        self._has_library = bool(used)
        knobs = [knob for name in self._functions for knob, _, _ in self._knobs(name)]
        self.own_names = frozenset(
            {"triton", "tl", "libdevice", "tl_math", "special", "MATH", "programs", *knobs}
            | {*self.functions, *_names(self._helpers)}
        )

    def call(self, name: str, line: str) -> Iterator[str]:
        """Yield a launch of a function with its knobs."""
        function = self._functions[name]
        given = arguments_of(name, line)
        parameters = _parameters(function)
        if len(given) != len(parameters):
            raise NoSeed(f"the generated code calls {name} with {len(given)} arguments")
        passed = dict(zip(parameters, given, strict=True))
        knobs = {key: knob for knob, key, _ in self._knobs(name)}
        first = function.configs[0]
        keywords = [f"{block}={knobs.get(block, size)}" for block, size in first.blocks.items()]
        keywords.append(f"num_warps={knobs['num_warps']}")
        keywords.append(f"num_stages={knobs.get('num_stages', first.stages)}")
        yield f"{name}[{self._grid(function, passed, knobs)}]("
        for listed in (given, keywords):
            words = textwrap.wrap(", ".join(listed) + ",", WIDTH - 12, break_long_words=False)
            yield from (f"    {line}" for line in words)
        yield ")"

    def _grid(
        self, function: TritonFunction, passed: Mapping[str, str], knobs: Mapping[str, str]
    ) -> str:
        blocks = function.configs[0].blocks

        def count(dimension: str) -> str:
            name, size = f"{dimension}BLOCK", passed.get(f"{dimension.lower()}numel")
            if size is None:
                raise NoSeed(f"the generated code has no size for the grid of {function.name}")
            block = knobs.get(name, str(blocks.get(name, 1)))
            return size if block == "1" else f"triton.cdiv({size}, {block})"

        if function.grid == "Grid2DWithYZOverflow":
            return f"programs({count('X')}, {count('Y')})"
        if function.grid not in GRIDS:
            raise NoSeed(f"the generated code launches {function.name} on a {function.grid}")
        counts = [count(dimension) for dimension in GRIDS[function.grid]]
        return f"({', '.join(counts)}{',' if len(counts) == 1 else ''})"

    def _knobs(self, name: str) -> Iterator[tuple[str, str, list[int]]]:
        """Yield the knobs of a function: name, what it is of a launch, choices, the first first."""
        function = self._functions[name]
        end = f"_{self._numbers[name]}" if len(self._functions) > 1 else ""
        first = function.configs[0]
        for block, size in first.blocks.items():
            known = {size, *(each.blocks.get(block, size) for each in function.configs)}
            limit = max(function.limits.get(block, size), size)
            tried = {int(size * factor) for factor in FACTORS if 1 <= size * factor <= limit}
            if len(known | tried) > 1:
                yield block + end, block, [size, *sorted((known | tried) - {size})]
        warps = {each.warps for each in function.configs}
        warps |= {each for each in WARPS if first.warps / 4 <= each <= first.warps * 4}
        yield f"WARPS{end}", "num_warps", [first.warps, *sorted(warps - {first.warps})]
        if "tl.range(" in function.text:
            stages = {*STAGES, *(each.stages for each in function.configs)}
            yield f"STAGES{end}", "num_stages", [first.stages, *sorted(stages - {first.stages})]

    def told(self) -> str:
        """Return for which GPU it is."""
        return f"Triton for {self.generated.arch}" if self._functions else ""

    def imports(self) -> Imports:
        """Return the imports of Triton."""
        if not self._functions:
            return Imports([], [], [])
        lines = ["import triton", "import triton.language as tl"]
        if "tl_math." in self._texts():
            lines.append("from triton.language import math as tl_math")
        if self._has_library:
            lines.append("from triton.language.extra import libdevice")
        return Imports([], lines, [])

    def parts(self) -> list[str]:
        """Return the functions, each after its knobs, and what they call."""
        if not self._functions:
            return []
        parts = []
        if self._has_special:
            parts.append(MATH)
        if self._helpers:
            parts.append(f"# Functions of torch._inductor.\n\n\n{self._plain(self._helpers)}")
        for name, function in self._functions.items():
            knobs = [
                f"{knob} = {choices[0]}  # tune: {sorted(choices)}"
                for knob, _, choices in self._knobs(name)
            ]
            inner, text = (
                self._plain(_HELPER.sub(r"helper_\1", each))
                for each in (function.inner, function.text)
            )
            lines = [f"# A program of {name}: its block, its warps and the stages of its loops."]
            lines += [*knobs, "", "", *([inner, "", ""] if inner else []), "@triton.jit", text]
            parts.append("\n".join(lines))
        if any(each.grid == "Grid2DWithYZOverflow" for each in self._functions.values()):
            parts.append(OVERFLOW)
        return parts

    def _texts(self) -> str:
        functions = self._functions.values()
        return "\n".join([self._helpers, *(each.inner + each.text for each in functions)])

    def _plain(self, text: str) -> str:
        return _PORTABLE.sub("special.", text)


def _with_own_names(function: TritonFunction) -> TritonFunction:
    """Return a function whose inner functions are called as no other's are."""
    inner, text = function.inner, function.text
    for name in _names(inner):
        own = f"{function.name}_{name.strip('_')}"
        inner, text = renamed(inner, name, own), renamed(text, name, own)
    return replace(function, inner=inner, text=text)


def _parameters(function: TritonFunction) -> list[str]:
    """Return the parameters that a launch passes by position."""
    definition = parsed(function.text).body[0]
    if not isinstance(definition, ast.FunctionDef) or definition.name != function.name:
        raise NoSeed(f"the generated code has no function {function.name}")
    blocks = function.configs[0].blocks
    return [each.arg for each in definition.args.args if each.arg not in blocks]


def _names(source: str) -> list[str]:
    return [each.name for each in parsed(source).body if isinstance(each, ast.FunctionDef)]


def _helpers(source: str) -> str:
    """Return the helpers under names of their own."""
    for name in _names(source):
        source = renamed(source, name, f"helper_{name}")
    return renamed(source, "math", "tl_math")
