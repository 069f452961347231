"""Static rules about a kernel's text, applied before it runs.

Pure: reads text, runs nothing, so the engine's own process may call it. The rules save evaluations
and give an agent reasons, but are no security boundary: code can evade every rule. The boundary is
the sandbox and the comparison of results.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from akg_tui.core.measurement import Finding
from akg_tui.core.task import Task
from akg_tui.evaluate import kernel_text as tables
from akg_tui.evaluate.dsls import DSLS
from akg_tui.evaluate.kernel_text import Kernel, Remark
from akg_tui.kernel_files import places

FINDINGS_LIMIT = 40


def findings(source: str, task: Task) -> tuple[Finding, ...]:
    """Return the findings, worst first; () for a text that does not parse.

    A check that raises is a finding that refuses the text, at every level.
    """
    try:
        kernel = Kernel.read(source, task.files.names)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    level = task.guard.level
    try:
        remarks = sorted(set(_remarks(kernel, task)), key=lambda r: (not r.cheat, r.line, r.rule))
    except Exception as error:  # noqa: BLE001 (no text may end the engine)
        why = f"a static check failed on this file: {type(error).__name__}"
        return (Finding("check-failed", 1, why, refused=True),)
    found = tuple(
        Finding(
            remark.rule,
            remark.line,
            remark.reason,
            refused=level == "strict" or (level == "fail" and remark.cheat),
        )
        for remark in remarks[:FINDINGS_LIMIT]
    )
    return found if len(task.files.names) == 1 else _by_file(found, source, task)


def _by_file(found: Sequence[Finding], source: str, task: Task) -> tuple[Finding, ...]:
    """Return the findings with the lines of their files; the name stands before the reason."""
    at = places(task.files.names, source)
    placed = []
    for finding in found:
        file, line = at[finding.line - 1]
        named = "" if file == task.files.kernel else f"{file}: "
        placed.append(replace(finding, line=line, reason=f"{named}{finding.reason}"))
    return tuple(placed)


def located(finding: Finding, task: Task) -> str:
    """Return the finding in a line that begins with its file and line."""
    for name in task.files.names[1:]:
        if finding.reason.startswith(f"{name}: "):
            return f"{name}:{finding.line}: {finding.reason.removeprefix(f'{name}: ')}"
    return f"{task.files.kernel}:{finding.line}: {finding.reason}"


def _remarks(kernel: Kernel, task: Task) -> Iterator[Remark]:
    yield from _imported(kernel, task)
    yield from _everywhere(kernel)
    seen: set[ast.AST] = set()
    for function in kernel.reached:
        yield from _in_forward(kernel, list(tables.walk_new(function, seen)))
    if kernel.entry is not None:
        yield from _results(kernel.entry)
    if not task.guard.allow_compile:
        for call, name in kernel.calls(kernel.tree):
            if name in tables.COMPILERS_OF_TORCH:
                yield Remark(
                    "torch-compile", call.lineno, f"{name} compiles torch's own ops", cheat=False
                )
    yield from _work(kernel, task)


def _imported(kernel: Kernel, task: Task) -> Iterator[Remark]:
    reference = task.files.reference.removesuffix(".py")
    for node in ast.walk(kernel.tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module or ''}.{alias.name}" for alias in node.names]
            names.append(node.module or "")
        elif isinstance(node, ast.Call) and kernel.name(node.func) in tables.IMPORTERS:
            given = [a.value for a in node.args[:1] if isinstance(a, ast.Constant)]
            names = [name for name in given if isinstance(name, str)]
        line = getattr(node, "lineno", 1)
        for name in names:
            root = name.partition(".")[0]
            if root == reference:
                yield Remark("reference", line, "imports the reference", cheat=True)
            elif root == "akg_tui" and not name.startswith("akg_tui.dsl") and name != "akg_tui":
                yield Remark("judge", line, f"imports {name}, a part of the judge", cheat=True)
            elif root in tables.NETWORK:
                yield Remark("network", line, f"imports {root}: a kernel needs no network", False)
            elif root == "__main__":
                yield Remark("look-around", line, "imports the harness's main module", cheat=True)


def _everywhere(kernel: Kernel) -> Iterator[Remark]:
    """Yield remarks of the rules for all code of a kernel, also outside a call."""
    for node in ast.walk(kernel.tree):
        line = getattr(node, "lineno", 1)
        if isinstance(node, ast.Attribute):
            name = kernel.name(node)
            if name in tables.LOOKING_AROUND or node.attr in tables.FRAME_PARTS:
                what = name if name in tables.LOOKING_AROUND else node.attr
                yield Remark("look-around", line, f"{what} looks into the harness", cheat=True)
            elif name in tables.ENDING:
                yield Remark("process", line, f"{name} ends or replaces the process", cheat=False)
        elif isinstance(node, ast.Name) and kernel.name(node) in tables.LOOKING_AROUND:
            name = kernel.name(node)
            yield Remark("look-around", line, f"{name} looks into the harness", cheat=True)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value.startswith("/proc/"):
                yield Remark("process", line, "reads /proc, other processes' data", cheat=False)
        elif isinstance(node, ast.ClassDef):
            if any(kernel.name(base) == "torch.Tensor" for base in node.bases):
                what = f"{node.name} is a tensor that may compute when it is looked at"
                yield Remark("lazy-tensor", line, what, cheat=True)
        elif isinstance(node, ast.Call) and kernel.name(node.func) in tables.LATER:
            what = f"{kernel.name(node.func)} runs code after the kernel's end"
            yield Remark("later", line, what, cheat=False)
    yield from _patches(kernel)


def _patches(kernel: Kernel) -> Iterator[Remark]:
    """Yield a remark for each assignment to a module's attribute: `torch.allclose = ...`."""
    for node in ast.walk(kernel.tree):
        targets: Sequence[ast.AST] = ()
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Call) and kernel.name(node.func) in tables.SETTERS:
            targets = node.args[:1]
        for target in targets:
            owner = target.value if isinstance(target, ast.Attribute) else target
            name = kernel.name(owner)
            root = name.partition(".")[0]
            if not isinstance(node, ast.Call) and owner is target:
                continue
            if root not in tables.MODULES or not _is_imported(kernel, owner):
                continue
            if name.startswith(tables.SETTINGS):
                continue
            line = getattr(node, "lineno", 1)
            yield Remark("patch", line, f"changes {name}, which others rely on", cheat=True)


def _is_imported(kernel: Kernel, node: ast.AST) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in kernel.imports


def _in_forward(kernel: Kernel, nodes: Sequence[ast.AST]) -> Iterator[Remark]:
    """Yield remarks about code that a call runs; such code is allowed at load time."""
    for call in nodes:
        if not isinstance(call, ast.Call):
            continue
        name = kernel.name(call.func)
        root = name.partition(".")[0]
        line = call.lineno
        if name in tables.THREADS:
            yield Remark("threads", line, f"{name} in forward: join it before returning", False)
        elif root in tables.PROCESSES or name in tables.FORKS:
            yield Remark("process", line, f"{name} starts a process in forward", cheat=False)
        elif name in tables.FILES:
            yield Remark("files", line, f"{name} touches files in forward", cheat=False)
        elif name in tables.MEMORY:
            yield Remark("memory", line, f"{name} reads memory by address in forward", cheat=False)
        elif name in tables.CODE:
            yield Remark("code", line, f"{name} makes code in forward", cheat=False)
        elif root == "time":
            yield Remark("clock", line, f"{name} reads or spends time in forward", cheat=False)
        elif name in tables.SETTING_THREADS:
            yield Remark("threads", line, f"{name}: the number of threads is the task's", False)
    keyed: set[ast.AST] = set()
    for node in nodes:
        if isinstance(node, ast.ExceptHandler) and any(
            isinstance(inner, ast.Return) for inner in ast.walk(node)
        ):
            what = "an exception is answered with another result: what is measured then?"
            yield Remark("fallback", node.lineno, what, cheat=False)
        elif isinstance(node, ast.Subscript | ast.Compare | ast.Call):
            yield from _keyed(kernel, node, keyed)


def _keyed(
    kernel: Kernel, node: ast.Subscript | ast.Compare | ast.Call, seen: set[ast.AST]
) -> Iterator[Remark]:
    """Yield a remark for each look-up by memory address in a key that was not `seen`."""
    keys: Sequence[ast.AST]
    if isinstance(node, ast.Subscript):
        keys = [node.slice]
    elif isinstance(node, ast.Compare):
        keys = [node.left] if isinstance(node.ops[0], ast.In | ast.NotIn) else []
    else:
        part = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        keys = node.args[:1] if part in ("get", "setdefault", "pop") else []
    for key in keys:
        for inner in tables.walk_new(key, seen):
            if isinstance(inner, ast.Call):
                name = kernel.name(inner.func)
                part = inner.func.attr if isinstance(inner.func, ast.Attribute) else ""
                if name == "id" or part == "data_ptr":
                    what = "remembers by address: other inputs will lie there"
                    yield Remark("remembers", node.lineno, what, cheat=False)


def _results(entry: ast.FunctionDef) -> Iterator[Remark]:
    """Yield remarks about results that do not depend on an input."""
    arguments = {argument.arg for argument in entry.args.args[1:]}
    returned = [n for n in ast.walk(entry) if isinstance(n, ast.Return)]
    if returned and all(_is_nothing(r.value, arguments) for r in returned):
        stored = all(isinstance(n, ast.Return | ast.Expr | ast.Pass) for n in entry.body)
        if stored:
            what = "forward returns its input, a constant or unwritten memory"
            yield Remark("constant", returned[0].lineno, what, cheat=False)
    for node in returned:
        value = node.value
        kept = value.value if isinstance(value, ast.Subscript) else value
        if not isinstance(kept, ast.Attribute) or not isinstance(kept.value, ast.Name):
            continue
        if kept.value.id == "self":
            what = f"returns self.{kept.attr}, which outlives the call"
            yield Remark("stored", node.lineno, what, cheat=False)


def _is_nothing(value: ast.expr | None, arguments: set[str]) -> bool:
    if value is None or isinstance(value, ast.Constant):
        return True
    if isinstance(value, ast.Name):
        return value.id in arguments
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        inner = [a for a in value.args if not _is_number(a)]
        plain = all(isinstance(a, ast.Name) and a.id in arguments for a in inner)
        return plain and value.func.attr in tables.FILLERS
    return False


def _is_number(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        of_float = isinstance(value.func, ast.Name) and value.func.id == "float"
        return of_float and all(isinstance(a, ast.Constant) for a in value.args)
    return isinstance(value, ast.Constant)


def _work(kernel: Kernel, task: Task) -> Iterator[Remark]:
    """Yield remarks if the kernel's own code does not do the work."""
    must_do_work = task.guard.kernel_must_do_the_work
    dsl = DSLS[task.target.dsl]
    yield from dsl.remarks(kernel, must_do_work=must_do_work)
    if not must_do_work:
        return
    built = dsl.built(kernel)
    seen: set[ast.AST] = set()
    for function in kernel.reached:
        if dsl.is_own(function, kernel):
            continue
        for node in tables.walk_new(function, seen):
            op = _compute_op(kernel, node, built)
            if op:
                what = f"{op} is the framework's own op: here the kernel must do the work"
                yield Remark("library", getattr(node, "lineno", 1), what, cheat=True)
    for node in ast.walk(kernel.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for match in tables.ATEN.finditer(node.value):
                line = node.lineno + node.value.count("\n", 0, match.start())
                what = f"{match[0]} calls the framework's own op in C++"
                yield Remark("library", line, what, cheat=True)
    for before, text in kernel.others:
        for match in tables.ATEN.finditer(text):
            line = before + 1 + text.count("\n", 0, match.start())
            what = f"{match[0]} calls the framework's own op in C++"
            yield Remark("library", line, what, cheat=True)


def _compute_op(kernel: Kernel, node: ast.AST, built: set[str]) -> str:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return "@"
    if not isinstance(node, ast.Call):
        return ""
    name = kernel.name(node.func)
    if name.startswith(tables.OP_NAMESPACES):
        return name
    last = name.rpartition(".")[2]
    if name.startswith("torch."):
        return name if last not in tables.TORCH_WITHOUT_WORK else ""
    if name.startswith("math."):
        return ""
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in tables.COMPUTE_METHODS:
        return ""
    # A function of the kernel's own library may be called softmax.
    owner = node.func.value
    own = getattr(owner, "attr", None) or getattr(owner, "id", None)
    return f".{node.func.attr}()" if own not in built else ""
