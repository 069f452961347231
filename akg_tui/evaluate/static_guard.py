"""Static rules about a kernel's text, applied before it runs.

Pure: reads text, runs nothing, so the engine's own process may call it. A rule is here if ordinary
source breaks it and no other check sees that, or if its reason is clearer than that of the check
that does. The rules are no security boundary: code can evade every one. The boundary is the sandbox
and the comparison of results.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from akg_tui.core.kernel.kernel_files import Kernel, files_of
from akg_tui.core.measurement import Finding
from akg_tui.core.task import Task
from akg_tui.dsl.adapters import DSLS
from akg_tui.dsl.kernel_text import ParsedKernel

FINDINGS_LIMIT = 40

# ruff: noqa: SIM905 (words are easier to read as text)
CHANGED_BY_KERNELS = ("torch.backends", "os.environ", "triton.knobs")
"""Attributes of other modules that a kernel may set."""

MODULES = frozenset(
    "torch triton numpy time timeit builtins math ctypes os sys gc random inspect threading".split()
)
IMPORTERS = frozenset({"__import__", "importlib.import_module", "runpy.run_path"})
SETTERS = frozenset({"setattr", "object.__setattr__", "unittest.mock.patch.object"})
LOOKING_AROUND = frozenset(
    """sys._getframe sys.modules sys.settrace sys.setprofile sys._current_frames
    gc.get_objects gc.get_referrers gc.get_referents
    inspect.stack inspect.currentframe inspect.getouterframes inspect.trace""".split()
)
FRAME_PARTS = frozenset({"f_back", "f_locals", "f_globals", "gi_frame", "tb_frame"})
COMPILERS_OF_TORCH = frozenset(
    "torch.compile torch.jit.script torch.jit.trace torch._dynamo.optimize".split()
)
Remark = tuple[int, str, str]
"""The line, the rule and the reason of a finding."""


def findings(kernel: Kernel, task: Task) -> tuple[Finding, ...]:
    """Return the findings by line; () for a kernel that does not parse.

    They refuse the text unless the task's level is `warn`. A check that raises is a finding that
    refuses it at every level.
    """
    try:
        parsed = ParsedKernel.read(files := files_of(kernel, task.files.kernel))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    try:
        remarks = sorted(set(_remarks(parsed, task)))
    except Exception as error:  # noqa: BLE001 (no text may end the engine)
        why = f"a static check failed on this file: {type(error).__name__}"
        return (Finding("check-failed", 1, why, refused=True),)
    refused = task.guard.level != "warn"
    found = []
    for row, rule, reason in remarks[:FINDINGS_LIMIT]:
        file, line = files.place(row)
        named = "" if file == files.main else file
        found.append(Finding(rule, line, reason, refused=refused, file=named))
    return tuple(found)


def _remarks(kernel: ParsedKernel, task: Task) -> Iterator[Remark]:
    for node in ast.walk(kernel.tree):
        line = getattr(node, "lineno", 1)
        yield from _imports(kernel, node, line, task.files.reference.removesuffix(".py"))
        yield from _patches(kernel, node, line)
        name = kernel.name(node)
        part = node.attr if isinstance(node, ast.Attribute) else ""
        if name in LOOKING_AROUND or part in FRAME_PARTS:
            what = name if name in LOOKING_AROUND else part
            yield line, "look-around", f"{what} looks into the harness"
        elif name in COMPILERS_OF_TORCH and not task.guard.allow_compile:
            what = f"{name} compiles torch's own ops: allow_compile under [guard] accepts that"
            yield line, "torch-compile", what
        elif isinstance(node, ast.ClassDef) and "torch.Tensor" in map(kernel.name, node.bases):
            what = f"{node.name} is a tensor that may compute when it is looked at"
            yield line, "lazy-tensor", what
    dsl = DSLS[task.target.dsl]
    names = {kernel.name(node).rpartition(".")[2] for node in ast.walk(kernel.tree)}
    if task.guard.kernel_must_do_the_work and dsl.builders and not dsl.builders & names:
        yield 1, "dsl", dsl.nothing_built


def _imports(kernel: ParsedKernel, node: ast.AST, line: int, reference: str) -> Iterator[Remark]:
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [node.module or "", *(f"{node.module or ''}.{alias.name}" for alias in node.names)]
    elif isinstance(node, ast.Call) and kernel.name(node.func) in IMPORTERS:
        given = [a.value for a in node.args[:1] if isinstance(a, ast.Constant)]
        names = [name for name in given if isinstance(name, str)]
    for name in names:
        root = name.partition(".")[0]
        if root == reference:
            yield line, "reference", "imports the reference"
        elif name != "akg_tui" and root == "akg_tui" and not f"{name}.".startswith("akg_tui.dsl."):
            yield line, "judge", f"imports {name}, a part of the judge"
        elif root == "__main__":
            yield line, "look-around", "imports the harness's main module"


def _patches(kernel: ParsedKernel, node: ast.AST, line: int) -> Iterator[Remark]:
    """Yield a remark for each assignment to a module's attribute: `torch.allclose = ...`."""
    targets: Sequence[ast.AST] = ()
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    owners = [target.value for target in targets if isinstance(target, ast.Attribute)]
    if isinstance(node, ast.Call) and kernel.name(node.func) in SETTERS:
        owners = node.args[:1]
    for owner in owners:
        name = kernel.name(owner)
        known = name.partition(".")[0] in MODULES and kernel.is_imported(owner)
        if known and not name.startswith(CHANGED_BY_KERNELS):
            yield line, "patch", f"changes {name}, which others rely on"
