"""Ascend C in a string, compiled by the kernel itself with CANN's bisheng.

The compiler, its cache and the calls are `akg_tui.dsl`'s. Written from CANN's documentation, never
run with CANN. Must never import torch.
"""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path

from akg_tui import dsl
from akg_tui.evaluate.dsls.adapter import SYSTEM, Dsl, first_line, used_names
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
        return {"bisheng": _version(path)} if target == "ascend" and path else {}

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
        """Yield a remark if no Ascend C is compiled, or no call reaches what was compiled."""
        line = first_line(kernel)
        called = {name.rpartition(".")[2] for _, name in kernel.calls(kernel.tree)}
        if "compile_ascendc" not in called:
            what = "nothing is compiled by compile_ascendc: this task's DSL is Ascend C"
            yield Remark("dsl", line, what, cheat=must_do_work)
        elif not self.built(kernel) & used_names(kernel):
            yield Remark("dsl", line, "forward never reaches what was compiled", cheat=must_do_work)


@functools.lru_cache(maxsize=2)
def _version(path: str) -> str:
    try:
        told = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=30, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return "of unknown version"
    return told.partition("\n")[0].strip()[:120] or "of unknown version"


ADAPTER = AscendC()
