"""Ascend C in a string, compiled by the kernel itself with CANN's bisheng.

The compiler, its cache and the calls are `akg_tui.dsl`'s. Written from CANN's documentation, never
run with CANN. Must never import torch.
"""

from __future__ import annotations

import re
from pathlib import Path

from akg_tui.core.task import Task
from akg_tui.dsl import compilers
from akg_tui.dsl.adapters.adapter import UNKNOWN, Dsl, outside_system, version_told

_COMPILE = (
    "`from akg_tui.dsl import compile_ascendc`: "
    '`library = compile_ascendc(SOURCE, ["launch"], "-O2")` '
    "compiles a .asc string with CANN's bisheng for this NPU, and loads it from a cache later. "
    "`launch` is a host function that makes launches, `kernel<<<blocks, nullptr, stream>>>(x, y)`, "
    'defined as extern "C" with void as result, and `void *` pointers, numbers and a last '
    "aclrtStream as parameters: `library.launch(x, y, rows)` passes contiguous tensors by address "
    "and PyTorch's current stream, in which launches belong. No --npu-arch is needed."
)


class AscendC(Dsl):
    """Kernels whose work is done by Ascend C that they hold in a string."""

    name = "ascendc"
    sign = re.compile(r"\bcompile_ascendc\b")
    builders = frozenset({"compile_ascendc"})
    nothing_built = "nothing is compiled by compile_ascendc: this task's DSL is Ascend C"

    def facts(self, task: Task) -> str:
        """Return how a kernel compiles and calls Ascend C."""
        return _COMPILE

    def lacking(self, target: str) -> str:
        """Return that there is no bisheng, or that a target runs no Ascend C."""
        if target != "ascend":
            return f'dsl = "ascendc" runs on an Ascend NPU: backend = "ascend", not "{target}"'
        try:
            compilers.bisheng()
        except compilers.CompilerMissing as error:
            return f'dsl = "ascendc" needs {error}'
        return ""

    def environment(self, target: str) -> dict[str, str]:
        """Return where bisheng is."""
        path = compilers.find_bisheng()
        return {"BISHENG": path} if target == "ascend" and path else {}

    def versions(self, target: str) -> dict[str, str]:
        """Return the version of bisheng."""
        path = compilers.find_bisheng()
        return (
            {"bisheng": version_told(path).partition("\n")[0].strip()[:120] or UNKNOWN}
            if target == "ascend" and path
            else {}
        )

    def readable(self) -> tuple[str, ...]:
        """Return the folder of CANN, whose compilers and tools are run, besides the compiler's."""
        path = compilers.find_bisheng()
        homes = [compilers.cann_home(), Path(path).parent if path else None]
        real = [home.resolve() for home in homes if home is not None and home.is_dir()]
        return (*super().readable(), *outside_system(*real))

    def toolchain_lacking(self) -> bool:
        """Return whether bisheng is missing."""
        return not compilers.find_bisheng()


ADAPTER = AscendC()
