"""Ascend C in a string, compiled by the kernel itself with CANN's bisheng.

The compiler, its cache and the calls are `akg_tui.dsl`'s. Written from CANN's documentation, never
run with CANN. Must never import torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from akg_tui import dsl
from akg_tui.evaluate.dsls.adapter import (
    SYSTEM,
    UNKNOWN,
    Dsl,
    called_names,
    version_told,
    work_remarks,
)
from akg_tui.evaluate.kernel_text import Kernel, Remark


class AscendC(Dsl):
    """Kernels whose work is done by Ascend C that they hold in a string."""

    name = "ascendc"

    def lacking(self, target: str) -> str:
        """Return that there is no bisheng, or that a target runs no Ascend C."""
        if target != "ascend":
            return f'dsl = "ascendc" runs on an Ascend NPU: backend = "ascend", not "{target}"'
        try:
            dsl.bisheng()
        except dsl.CompilerMissing as error:
            return f'dsl = "ascendc" needs {error}'
        return ""

    def environment(self, target: str) -> dict[str, str]:
        """Return where bisheng is."""
        path = dsl.find_bisheng()
        return {"BISHENG": path} if target == "ascend" and path else {}

    def versions(self, target: str) -> dict[str, str]:
        """Return the version of bisheng."""
        path = dsl.find_bisheng()
        return (
            {"bisheng": version_told(path).partition("\n")[0].strip()[:120] or UNKNOWN}
            if target == "ascend" and path
            else {}
        )

    def readable(self) -> tuple[str, ...]:
        """Return the folder of CANN, whose compilers and tools are run, besides the compiler's."""
        path = dsl.find_bisheng()
        homes = [dsl.cann_home(), Path(path).parent if path else None]
        real = [home.resolve() for home in homes if home is not None and home.is_dir()]
        outside = [
            str(home) for home in real if not any(home.is_relative_to(each) for each in SYSTEM)
        ]
        return (*super().readable(), *outside)

    def toolchain_lacking(self) -> bool:
        """Return whether bisheng is missing."""
        return not dsl.find_bisheng()

    def remarks(self, kernel: Kernel, *, must_do_work: bool) -> Iterator[Remark]:
        """Return a remark if no Ascend C is compiled, or no call reaches what was compiled."""
        what = "nothing is compiled by compile_ascendc: this task's DSL is Ascend C"
        compiles = "compile_ascendc" in called_names(kernel)
        return work_remarks(
            kernel, self.built(kernel), what, compiles=compiles, must_do_work=must_do_work
        )


ADAPTER = AscendC()
